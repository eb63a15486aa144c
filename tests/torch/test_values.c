/* SPDX-License-Identifier: MIT */
/* Layers, functions and losses compared with PyTorch for the same inputs: results, gradients,
 * statistics. In f64 only rounding may differ. values.cpp computed the numbers. */
#include "pattern.h"

#define ROUNDING 1e-12

static compute_device *device(void) {
  return compute_default_device(test_context);
}

/* ---- Layers -------------------------------------------------------------------------------- */

static const compute_weights_options wide = {.dtype = COMPUTE_F64};
static const compute_weights_options no_bias = {.dtype = COMPUTE_F64, .no_bias = true};

static compute_layer *dense(void) {
  return compute_dense(device(), 5, 3, &wide);
}
static compute_layer *dense_no_bias(void) {
  return compute_dense(device(), 5, 3, &no_bias);
}

static compute_layer *conv(void) {
  return torch_conv(3, 4, 3, (compute_conv2d_layer_options){.stride = {2}, .padding = {1}});
}
static compute_layer *conv_groups(void) {
  return torch_conv(
      4, 6, 0,
      (compute_conv2d_layer_options){
          .kernel = {3, 2}, .stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2});
}
static compute_layer *conv_depthwise(void) {
  return torch_conv(4, 8, 3, (compute_conv2d_layer_options){.padding = {1}, .groups = 4});
}
static compute_layer *conv_1x1(void) {
  return torch_conv(5, 3, 1, (compute_conv2d_layer_options){.weights = no_bias});
}
static compute_layer *transpose(void) {
  return compute_conv2d_transpose_layer(
      device(), 3, 4, 3,
      &(compute_conv2d_layer_options){
          .weights = wide, .stride = {2}, .padding = {1}, .output_padding = {1}});
}
static compute_layer *transpose_groups(void) {
  return compute_conv2d_transpose_layer(device(), 4, 6, 0,
                                        &(compute_conv2d_layer_options){.weights = wide,
                                                                        .kernel = {2, 3},
                                                                        .stride = {2, 3},
                                                                        .padding = {1, 0},
                                                                        .dilation = {2, 1},
                                                                        .output_padding = {1, 2},
                                                                        .groups = 2});
}

static compute_layer *batch_norm(void) {
  return compute_batch_norm_layer(
      device(), 3, &(compute_norm_options){.epsilon = 1e-3, .momentum = 0.3, .dtype = COMPUTE_F64});
}
static compute_layer *batch_norm_plain(void) {
  return compute_batch_norm_layer(device(), 3,
                                  &(compute_norm_options){.no_affine = true, .dtype = COMPUTE_F64});
}
static compute_layer *norm_of(int64_t channels) {
  return compute_batch_norm_layer(device(), channels,
                                  &(compute_norm_options){.dtype = COMPUTE_F64});
}
static compute_layer *batch_norm_vectors(void) {
  return norm_of(4);
}
static compute_layer *layer_norm(void) {
  return compute_layer_norm_layer(device(), 6, &(compute_norm_options){.dtype = COMPUTE_F64});
}

static compute_layer *max_pool(void) {
  return compute_max_pool(3,
                          &(compute_pool2d_options){.stride = {2}, .padding = {1}, .ceil = true});
}
static compute_layer *max_pool_dilated(void) {
  return compute_max_pool(2, &(compute_pool2d_options){.stride = {1}, .dilation = {2}});
}
static compute_layer *average_pool(void) {
  return compute_average_pool(3, &(compute_pool2d_options){.stride = {2}, .padding = {1}});
}
static compute_layer *average_pool_exclude(void) {
  return compute_average_pool(0, &(compute_pool2d_options){.size = {3, 2},
                                                           .stride = {2, 2},
                                                           .padding = {1, 1},
                                                           .ceil = true,
                                                           .exclude_padding = true});
}
static compute_layer *average_pool_ceil(void) {
  return compute_average_pool(
      3, &(compute_pool2d_options){.stride = {2}, .padding = {1}, .ceil = true});
}
static compute_layer *embedding(void) {
  return compute_embedding(device(), 7, 3, &wide);
}
static compute_layer *dropout(void) {
  return compute_dropout_layer(0.5);
}
static compute_layer *activation(int kind) {
  return compute_activation((compute_activation_kind)kind);
}

static compute_layer *residual(void) {
  return torch_residual(COMPUTE_F64, true);
}
static compute_layer *residual_identity(void) {
  return torch_residual(COMPUTE_F64, false);
}

typedef struct layer_case {
  const char *name;
  compute_shape shape;
  bool inference;
  compute_layer *(*make)(void);
  int kind;        /* without `make`: the activation */
  int64_t classes; /* of an input of indices */
} layer_case;

static const layer_case layers[] = {
    {"dense", {2, {4, 5}}, .make = dense},
    {"dense_no_bias", {3, {2, 3, 5}}, .make = dense_no_bias},
    {"conv", {4, {2, 3, 7, 6}}, .make = conv},
    {"conv_groups", {4, {2, 4, 6, 7}}, .make = conv_groups},
    {"conv_depthwise", {4, {1, 4, 5, 5}}, .make = conv_depthwise},
    {"conv_1x1", {4, {2, 5, 3, 3}}, .make = conv_1x1},
    {"transpose", {4, {2, 3, 4, 3}}, .make = transpose},
    {"transpose_groups", {4, {1, 4, 3, 4}}, .make = transpose_groups},
    {"batch_norm", {4, {2, 3, 3, 4}}, .make = batch_norm},
    {"batch_norm_inference", {4, {2, 3, 3, 4}}, .make = batch_norm, .inference = true},
    {"batch_norm_plain", {4, {2, 3, 3, 2}}, .make = batch_norm_plain},
    {"batch_norm_vectors", {2, {6, 4}}, .make = batch_norm_vectors},
    {"layer_norm", {3, {3, 2, 6}}, .make = layer_norm},
    {"max_pool", {4, {2, 2, 6, 7}}, .make = max_pool},
    {"max_pool_dilated", {4, {1, 2, 6, 5}}, .make = max_pool_dilated},
    {"average_pool", {4, {2, 2, 6, 7}}, .make = average_pool},
    {"average_pool_exclude", {4, {2, 2, 6, 8}}, .make = average_pool_exclude},
    {"average_pool_ceil", {4, {1, 2, 6, 8}}, .make = average_pool_ceil},
    {"global_average", {4, {2, 3, 4, 5}}, .make = compute_global_average_pool},
    {"embedding", {2, {2, 4}}, .make = embedding, .classes = 7},
    {"relu", {2, {3, 5}}, .kind = COMPUTE_RELU},
    {"gelu", {2, {3, 5}}, .kind = COMPUTE_GELU},
    {"gelu_tanh", {2, {3, 5}}, .kind = COMPUTE_GELU_TANH},
    {"silu", {2, {3, 5}}, .kind = COMPUTE_SILU},
    {"sigmoid", {2, {3, 5}}, .kind = COMPUTE_SIGMOID},
    {"tanh", {2, {3, 5}}, .kind = COMPUTE_TANH},
    {"softplus", {2, {3, 5}}, .kind = COMPUTE_SOFTPLUS},
    {"leaky_relu", {2, {3, 5}}, .kind = COMPUTE_LEAKY_RELU},
    {"elu", {2, {3, 5}}, .kind = COMPUTE_ELU},
    {"softmax", {2, {3, 5}}, .kind = COMPUTE_SOFTMAX},
    {"flatten", {3, {2, 3, 2}}, .make = compute_flatten},
    {"dropout_inference", {2, {3, 5}}, .make = dropout, .inference = true},
    {"residual", {4, {2, 4, 4, 4}}, .make = residual},
    {"residual_identity", {4, {2, 4, 4, 4}}, .make = residual_identity, .inference = true},
};

enum { MOST_NODES = 32 };

/* A graph whose outputs are compared one by one. */
typedef struct comparison {
  compute_graph *graph;
  compute_node outputs[MOST_NODES];
  size_t count;
  compute_binding bindings[2 * MOST_NODES];
  size_t bound;
} comparison;

static void bind(comparison *c, compute_node node, compute_tensor *tensor) {
  assert_true(c->bound < 2 * MOST_NODES);
  c->bindings[c->bound++] = (compute_binding){node, tensor};
}

/* Adds the gradients of sum(y · pattern) as outputs after y. */
static void differentiate(comparison *c, compute_node y, const compute_node *of, size_t count) {
  compute_tensor *direction = torch_numbers(compute_node_shape(c->graph, y), 2, 1, 0);
  const compute_node loss =
      compute_sum(c->graph, compute_mul(c->graph, y, compute_parameter(c->graph, direction)),
                  COMPUTE_ALL_AXES, false);
  c->outputs[c->count++] = y;
  assert_ok(compute_gradients(c->graph, loss, of, count, c->outputs + c->count));
  c->count += count;
  compute_tensor_release(direction);
}

/* Runs the graph; results[i] is the tensor of outputs[i]. */
static void run(comparison *c, compute_node updates, compute_tensor **results) {
  const size_t count = c->count;
  if (compute_node_is_valid(updates)) c->outputs[c->count++] = updates;
  compute_plan *plan = test_compile(c->graph, c->outputs, c->count, 0);
  for (size_t i = 0; i < count; i++) {
    assert_ok(compute_plan_create_tensor(plan, c->outputs[i], &results[i]));
    bind(c, c->outputs[i], results[i]);
  }
  assert_ok(compute_run(plan, c->bindings, c->bound, NULL));
  compute_plan_release(plan);
}

static void compare_parameters(const layer_case *c, const compute_layer *layer,
                               compute_tensor *const *gradients) {
  for (size_t i = 0, trained = 0; i < compute_layer_parameter_count(layer); i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(layer, i, &p));
    if (p.trainable) torch_compare(gradients[trained++], ROUNDING, "%s.d.%s", c->name, p.name);
    if (!p.trainable && !c->inference) torch_compare(p.tensor, ROUNDING, "%s.%s", c->name, p.name);
  }
}

static void compare_layer(const layer_case *c) {
  compute_layer *part = c->make ? c->make() : activation(c->kind);
  compute_layer *layer = compute_sequential(&part, 1);
  comparison g = {.graph = compute_graph_create(test_context)};
  compute_forward forward = {.training = !c->inference};
  compute_tensor *results[MOST_NODES] = {NULL};
  compute_node of[MOST_NODES];
  assert_non_null(layer);
  torch_fill(layer, 1);
  compute_tensor *x =
      c->classes ? torch_labels(c->shape, 1, c->classes) : torch_numbers(c->shape, 1, 3, 0);
  of[0] = compute_input(g.graph, compute_tensor_dtype(x), c->shape);
  bind(&g, of[0], x);
  const compute_node y = compute_layer_apply(layer, g.graph, of[0], &forward);
  const size_t whole = c->classes ? 0 : 1; /* x has a gradient */
  const size_t count = compute_layer_nodes(layer, g.graph, of + whole, MOST_NODES - whole);
  differentiate(&g, y, of, whole + count);
  run(&g, forward.updates, results);
  torch_compare(results[0], ROUNDING, "%s.y", c->name);
  if (whole) torch_compare(results[1], ROUNDING, "%s.dx", c->name);
  compare_parameters(c, layer, results + 1 + whole);
  for (size_t i = 0; i < MOST_NODES; i++) compute_tensor_release(results[i]);
  compute_tensor_release(x);
  compute_graph_release(g.graph);
  compute_layer_release(layer);
}

static void layers_have_pytorchs_results_and_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) compare_layer(&layers[i]);
}

/* ---- Functions ----------------------------------------------------------------------------- */

static compute_node upsample_nearest(compute_graph *g, const compute_node *in) {
  return compute_upsample2d(g, in[0], 7, 9, COMPUTE_UPSAMPLE_NEAREST);
}
static compute_node upsample_bilinear(compute_graph *g, const compute_node *in) {
  return compute_upsample2d(g, in[0], 7, 9, COMPUTE_UPSAMPLE_BILINEAR);
}
static compute_node upsample_smaller(compute_graph *g, const compute_node *in) {
  return compute_upsample2d(g, in[0], 3, 2, COMPUTE_UPSAMPLE_BILINEAR);
}
static compute_node pad(compute_graph *g, compute_node x, compute_pad_mode mode) {
  return compute_pad(g, compute_pad(g, x, 3, 1, 2, mode, 0.5), 2, 3, 0, mode, 0.5);
}
static compute_node pad_constant(compute_graph *g, const compute_node *in) {
  return pad(g, in[0], COMPUTE_PAD_CONSTANT);
}
static compute_node pad_edge(compute_graph *g, const compute_node *in) {
  return pad(g, in[0], COMPUTE_PAD_EDGE);
}
static compute_node pad_reflect(compute_graph *g, const compute_node *in) {
  return pad(g, in[0], COMPUTE_PAD_REFLECT);
}
static compute_node cumulative_sum(compute_graph *g, const compute_node *in) {
  return compute_cumulative_sum(g, in[0], 2, false, false);
}
static compute_node cumulative_sum_reverse(compute_graph *g, const compute_node *in) {
  return compute_cumulative_sum(g, in[0], 3, false, true);
}
static compute_node top_k(compute_graph *g, const compute_node *in) {
  return compute_top_k(g, in[0], 3, 3, false, NULL);
}
static compute_node global_max(compute_graph *g, const compute_node *in) {
  return compute_global_max_pool2d(g, in[0]);
}
static compute_node log_softmax(compute_graph *g, const compute_node *in) {
  return compute_log_softmax(g, in[0], 1);
}
static compute_node gather(compute_graph *g, const compute_node *in) {
  return compute_gather(g, in[0], in[1], 1);
}
static compute_node attention(compute_graph *g, const compute_node *in) {
  return compute_scaled_attention(g, in[0], in[1], in[2], NULL);
}
static compute_node attention_causal(compute_graph *g, const compute_node *in) {
  return compute_scaled_attention(g, in[0], in[1], in[2],
                                  &(compute_attention_options){.causal = true});
}
static compute_node attention_bias(compute_graph *g, const compute_node *in) {
  return compute_scaled_attention(g, in[0], in[1], in[2],
                                  &(compute_attention_options){.bias = in[3]});
}
static compute_node cross_entropy(compute_graph *g, const compute_node *in) {
  return compute_cross_entropy(g, in[0], in[1]);
}
static compute_node cross_entropy_smoothed(compute_graph *g, const compute_node *in) {
  return compute_cross_entropy_smoothed(g, in[0], in[1], 0.2);
}
static compute_node binary_cross_entropy(compute_graph *g, const compute_node *in) {
  return compute_binary_cross_entropy(g, in[0], in[1]);
}
static compute_node huber(compute_graph *g, const compute_node *in) {
  return compute_huber(g, in[0], in[1], 0.7);
}
static compute_node mean_squared_error(compute_graph *g, const compute_node *in) {
  return compute_mean_squared_error(g, in[0], in[1]);
}

typedef struct operand {
  compute_shape shape; /* all zeros: no operand */
  double scale;        /* 0: 1 */
  double shift;
  int64_t classes; /* labels */
} operand;

typedef struct function_case {
  const char *name;
  compute_node (*build)(compute_graph *graph, const compute_node *in);
  operand in[4];
} function_case;

#define OPERAND(...)                                                                               \
  {                                                                                                \
    .shape = { __VA_ARGS__ }                                                                       \
  }
#define SCALED(by, ...)                                                                            \
  { .shape = {__VA_ARGS__}, .scale = by }
#define LABELS(count, ...)                                                                         \
  { .shape = {__VA_ARGS__}, .classes = count }
#define IMAGE                                                                                      \
  { OPERAND(4, {1, 2, 4, 5}) }
#define CLASSES                                                                                    \
  { SCALED(3, 2, {6, 4}), LABELS(4, 1, {6}) }
#define PAIR                                                                                       \
  { SCALED(2, 2, {4, 3}), OPERAND(2, {4, 3}) }
#define ATTENTION(queries)                                                                         \
  SCALED(2, 4, {2, 3, queries, 4}), SCALED(2, 4, {2, 3, 6, 4}), OPERAND(4, {2, 3, 6, 5})

static const function_case functions[] = {
    {"upsample_nearest", upsample_nearest, IMAGE},
    {"upsample_bilinear", upsample_bilinear, IMAGE},
    {"upsample_smaller", upsample_smaller, IMAGE},
    {"pad_constant", pad_constant, IMAGE},
    {"pad_edge", pad_edge, IMAGE},
    {"pad_reflect", pad_reflect, IMAGE},
    {"cumulative_sum", cumulative_sum, IMAGE},
    {"cumulative_sum_reverse", cumulative_sum_reverse, IMAGE},
    {"top_k", top_k, IMAGE},
    {"global_max", global_max, IMAGE},
    {"log_softmax", log_softmax, IMAGE},
    {"gather", gather, {OPERAND(2, {3, 4}), LABELS(4, 1, {5})}},
    {"attention", attention, {ATTENTION(5)}},
    {"attention_causal", attention_causal, {ATTENTION(4)}},
    {"attention_bias", attention_bias, {ATTENTION(5), OPERAND(2, {5, 6})}},
    {"cross_entropy", cross_entropy, CLASSES},
    {"cross_entropy_smoothed", cross_entropy_smoothed, CLASSES},
    {"binary_cross_entropy",
     binary_cross_entropy,
     {SCALED(5, 2, {4, 3}), {.shape = {2, {4, 3}}, .scale = 0.5, .shift = 0.5}}},
    {"huber", huber, PAIR},
    {"mean_squared_error", mean_squared_error, PAIR},
};

static void compare_function(const function_case *c) {
  comparison g = {.graph = compute_graph_create(test_context)};
  compute_tensor *in[4] = {NULL}, *results[MOST_NODES] = {NULL};
  compute_node nodes[4], of[4];
  size_t numbers[4], count = 0;
  for (size_t i = 0; i < 4 && c->in[i].shape.rank > 0; i++) {
    const operand *o = &c->in[i];
    const int64_t salt = (int64_t)i + 1;
    in[i] = o->classes ? torch_labels(o->shape, salt, o->classes)
                       : torch_numbers(o->shape, salt, o->scale == 0 ? 1 : o->scale, o->shift);
    nodes[i] = compute_input(g.graph, compute_tensor_dtype(in[i]), o->shape);
    bind(&g, nodes[i], in[i]);
    if (o->classes) continue;
    numbers[count] = i;
    of[count++] = nodes[i];
  }
  differentiate(&g, c->build(g.graph, nodes), of, count);
  run(&g, (compute_node){0}, results);
  torch_compare(results[0], ROUNDING, "%s.y", c->name);
  for (size_t i = 0; i < count; i++)
    torch_compare(results[1 + i], ROUNDING, "%s.d%zu", c->name, numbers[i]);
  for (size_t i = 0; i < MOST_NODES; i++) compute_tensor_release(results[i]);
  for (size_t i = 0; i < 4; i++) compute_tensor_release(in[i]);
  compute_graph_release(g.graph);
}

static void functions_have_pytorchs_results_and_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) compare_function(&functions[i]);
}

static void every_value_has_been_compared(void **state) {
  (void)state;
  torch_fail_unseen(false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_have_pytorchs_results_and_gradients),
      cmocka_unit_test(functions_have_pytorchs_results_and_gradients),
      cmocka_unit_test(every_value_has_been_compared),
  };
  return cmocka_run_group_tests(tests, torch_open, torch_close);
}
