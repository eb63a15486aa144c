/* SPDX-License-Identifier: MIT */
/* Networks: names and order of parameters, the summary, sharing, and refusals. */
#include <math.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

static compute_device *device(void) {
  return compute_default_device(test_context);
}

static compute_layer *conv(compute_device *on, int64_t inputs, int64_t outputs, int64_t kernel,
                           int64_t padding) {
  const compute_conv2d_layer_options o = {.weights = {.no_bias = true, .seed = 1},
                                          .padding = {padding}};
  return compute_conv2d_layer(on, inputs, outputs, kernel, &o);
}

/* A small residual network for images of 8 × 8 with all parts of names: numbers, user names, body
 * and shortcut, and layers without weights between. */
static compute_layer *network(compute_device *on) {
  compute_layer *body = compute_sequential(
      (compute_layer *[]){conv(on, 4, 6, 3, 1), compute_batch_norm_layer(on, 6, NULL),
                          compute_activation(COMPUTE_RELU), conv(on, 6, 6, 3, 1)},
      4);
  compute_layer *shortcut = compute_sequential(
      (compute_layer *[]){conv(on, 4, 6, 1, 0), compute_batch_norm_layer(on, 6, NULL)}, 2);
  if (!shortcut) {
    compute_layer_release(body);
    return NULL;
  }
  return compute_sequential(
      (compute_layer *[]){
          compute_layer_name(
              compute_conv2d_layer(on, 1, 4, 3, &(compute_conv2d_layer_options){.padding = {1}}),
              "stem"),
          compute_residual(body, shortcut), compute_activation(COMPUTE_RELU),
          compute_global_average_pool(), compute_dropout_layer(0.5),
          compute_layer_name(compute_dense(on, 6, 10, NULL), "head")},
      6);
}

/* ---- Names --------------------------------------------------------------------------------- */

static void names_and_their_order_are_those_of_pytorch(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count;
    bool trainable;
  } expected[] = {
      {"stem.weight", 36, true},
      {"stem.bias", 4, true},
      {"1.body.0.weight", 216, true},
      {"1.body.1.weight", 6, true},
      {"1.body.1.bias", 6, true},
      {"1.body.1.running_mean", 6, false},
      {"1.body.1.running_var", 6, false},
      {"1.body.1.num_batches_tracked", 1, false},
      {"1.body.3.weight", 324, true},
      {"1.shortcut.0.weight", 24, true},
      {"1.shortcut.1.weight", 6, true},
      {"1.shortcut.1.bias", 6, true},
      {"1.shortcut.1.running_mean", 6, false},
      {"1.shortcut.1.running_var", 6, false},
      {"1.shortcut.1.num_batches_tracked", 1, false},
      {"head.weight", 60, true},
      {"head.bias", 10, true},
  };
  const size_t count = sizeof expected / sizeof *expected;
  compute_layer *net = network(device());
  compute_layer_parameter p;
  assert_int_equal(compute_layer_parameter_count(net), count);
  int64_t all = 0, trained = 0;
  for (size_t i = 0; i < count; i++) {
    assert_ok(compute_layer_parameter_at(net, i, &p));
    assert_string_equal(p.name, expected[i].name);
    assert_int_equal(compute_tensor_count(p.tensor), expected[i].count);
    assert_int_equal(p.trainable, expected[i].trainable);
    all += expected[i].count;
    trained += expected[i].trainable ? expected[i].count : 0;
  }
  assert_fails(compute_layer_parameter_at(net, count, &p), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_layer_parameter_at(NULL, 0, &p), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_layer_element_count(net, false), all);
  assert_int_equal(compute_layer_element_count(net, true), trained);
  compute_layer_release(net);
}

static void the_summary_is_a_table(void **state) {
  (void)state;
  static const char expected[] =
      "name          kind                 result     parameters  multiply-adds\n"
      "stem          conv2d               [2,4,8,8]          40           4608\n"
      "1.body.0      conv2d               [2,6,8,8]         216          27648\n"
      "1.body.1      batch_norm           [2,6,8,8]          12              0\n"
      "1.body.2      relu                 [2,6,8,8]           0              0\n"
      "1.body.3      conv2d               [2,6,8,8]         324          41472\n"
      "1.shortcut.0  conv2d               [2,6,8,8]          24           3072\n"
      "1.shortcut.1  batch_norm           [2,6,8,8]          12              0\n"
      "2             relu                 [2,6,8,8]           0              0\n"
      "3             global_average_pool  [2,6]               0              0\n"
      "4             dropout              [2,6]               0              0\n"
      "head          dense                [2,10]             70            120\n"
      "total                              [2,10]            698          76920\n"
      "plus 26 non-trainable values\n";
  compute_layer *net = network(device());
  char *text = compute_layer_summary(net, COMPUTE_F32, COMPUTE_SHAPE(2, 1, 8, 8));
  assert_non_null(text);
  assert_string_equal(text, expected);
  compute_text_free(text);
  assert_null(compute_layer_summary(net, COMPUTE_F32, COMPUTE_SHAPE(2, 3, 8, 8)));
  test_check_message(test_context, "layer stem (conv2d): ");
  assert_null(compute_layer_summary(NULL, COMPUTE_F32, COMPUTE_SHAPE(1)));
  compute_layer_release(net);
}

/* ---- Sharing ------------------------------------------------------------------------------- */

static size_t parameter_nodes(const compute_graph *graph) {
  size_t count = 0;
  while (compute_node_is_valid(compute_parameter_at(graph, count))) count++;
  return count;
}

static void a_network_applied_twice_shares_its_weights(void **state) {
  (void)state;
  compute_layer *net = network(device());
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 1, 8, 8));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 1, 8, 8));
  const compute_node y = compute_layer_apply(net, graph, a, NULL);
  const size_t once = parameter_nodes(graph);
  const compute_node z = compute_layer_apply(net, graph, b, NULL);
  assert_ok(compute_graph_status(graph));
  assert_int_equal(parameter_nodes(graph), once);
  compute_node nodes[16], few[2] = {{0}};
  const size_t count = compute_layer_nodes(net, graph, nodes, 16);
  assert_int_equal(count, 11);
  assert_int_equal(parameter_nodes(graph), once); /* found, not made */
  assert_int_equal(compute_layer_nodes(net, graph, few, 1), 11);
  assert_int_equal(few[0].id, nodes[0].id);
  assert_int_equal(few[1].id, 0);
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(net, 0, &p));
  assert_ptr_equal(compute_parameter_tensor(graph, nodes[0]), p.tensor);
  /* Its gradient is the sum of both gradients. */
  compute_node sums[2], both, gradients[3];
  sums[0] = compute_sum(graph, y, COMPUTE_ALL_AXES, false);
  sums[1] = compute_sum(graph, z, COMPUTE_ALL_AXES, false);
  both = compute_add(graph, sums[0], sums[1]);
  const compute_node bias = nodes[10];
  assert_ok(compute_gradients(graph, sums[0], &bias, 1, &gradients[0]));
  assert_ok(compute_gradients(graph, both, &bias, 1, &gradients[1]));
  compute_plan *plan = test_compile(graph, gradients, 2, 0);
  const float pixels[3 * 64] = {1, 2, 3};
  compute_tensor *ta = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 1, 8, 8), pixels);
  compute_tensor *tb = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 1, 8, 8), pixels);
  compute_tensor *g[2] = {0};
  for (int i = 0; i < 2; i++) assert_ok(compute_plan_create_tensor(plan, gradients[i], &g[i]));
  const compute_binding bindings[] = {{a, ta}, {b, tb}, {gradients[0], g[0]}, {gradients[1], g[1]}};
  assert_ok(compute_run(plan, bindings, 4, NULL));
  assert_true(test_element(g[0], 3) == 2 && test_element(g[1], 3) == 5); /* items */
  for (int i = 0; i < 2; i++) compute_tensor_release(g[i]);
  compute_tensor_release(ta);
  compute_tensor_release(tb);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_layer_release(net);
}

/* Runs `passes` training passes on constants in one plan and reads the statistics. */
static void train_norm(compute_layer *norm, const double *x, int passes, double *statistics) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_forward forward = {.training = true};
  for (int i = 0; i < passes; i++) {
    const compute_node in =
        compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(4, 1), x + 4 * (ptrdiff_t)i);
    compute_layer_apply(norm, graph, in, &forward);
  }
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, &forward.updates, 1, 0);
  assert_ok(compute_run(plan, NULL, 0, NULL));
  compute_plan_release(plan);
  compute_graph_release(graph);
  for (size_t i = 0; i < 3; i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(norm, i + 2, &p));
    statistics[i] = test_element(p.tensor, 0);
  }
}

static void statistics_of_two_passes_in_one_step_are_those_of_two_steps(void **state) {
  (void)state;
  const compute_norm_options o = {.dtype = COMPUTE_F64};
  static const double x[8] = {1, 2, 3, 5, -7, 8, 9, 10};
  compute_layer *one = compute_batch_norm_layer(device(), 1, &o);
  compute_layer *two = compute_batch_norm_layer(device(), 1, &o);
  double a[3], b[3];
  train_norm(one, x, 1, a);
  train_norm(one, x + 4, 1, a);
  train_norm(two, x, 2, b);
  for (int i = 0; i < 3; i++) assert_true(fabs(a[i] - b[i]) < 1e-13);
  assert_true(b[2] == 2);
  compute_layer_release(one);
  compute_layer_release(two);
}

static void narrow_data_takes_wide_weights(void **state) {
  (void)state;
  compute_layer *net = network(device());
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_BF16, COMPUTE_SHAPE(2, 1, 8, 8));
  const int64_t seed = 1;
  compute_forward forward = {.training = true};
  forward.seed = compute_constant(graph, COMPUTE_I64, COMPUTE_SCALAR, &seed);
  const compute_node y = compute_layer_apply(net, graph, x, &forward);
  assert_ok(compute_graph_status(graph));
  assert_int_equal(compute_node_dtype(graph, y), COMPUTE_BF16);
  assert_true(compute_node_is_valid(forward.updates));
  compute_graph_release(graph);
  compute_layer_release(net);
}

static void a_network_outlives_its_layers_in_a_plan(void **state) {
  (void)state;
  compute_layer *layer = compute_dense(device(), 2, 1, NULL);
  const float w[2] = {3, 4}, b = 1, x[2] = {10, 100};
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(layer, 0, &p));
  assert_ok(compute_tensor_write(p.tensor, w, sizeof w));
  assert_ok(compute_layer_parameter_at(layer, 1, &p));
  assert_ok(compute_tensor_write(p.tensor, &b, sizeof b));
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 2), x);
  const compute_node y = compute_layer_apply(layer, graph, in, NULL);
  compute_layer_release(layer);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_graph_release(graph);
  compute_tensor *t = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &t));
  assert_ok(compute_run(plan, (compute_binding[]){{y, t}}, 1, NULL));
  assert_true(test_element(t, 0) == 431);
  compute_tensor_release(t);
  compute_plan_release(plan);
}

static void weights_outlive_the_memory_scope_that_they_are_made_in(void **state) {
  (void)state;
  assert_ok(compute_memory_scope_push(test_context));
  compute_layer *layer = compute_dense(device(), 2, 1, NULL);
  assert_ok(compute_memory_scope_pop(test_context));
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(layer, 0, &p));
  assert_true(fabs(test_element(p.tensor, 1)) <= 1 / sqrt(2));
  compute_layer_release(layer);
}

static void one_plan_trains_weights_and_moves_statistics(void **state) {
  (void)state;
  enum { ITEMS = 8, STEPS = 30 };
  compute_layer *net = network(device());
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(ITEMS, 1, 8, 8));
  const compute_node seed = compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR);
  const int32_t labels[ITEMS] = {0, 1, 0, 1, 0, 1, 0, 1};
  compute_forward forward = {.training = true, .seed = seed};
  const compute_node y = compute_layer_apply(net, graph, x, &forward);
  const compute_node truth = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(ITEMS), labels);
  const compute_node loss = compute_cross_entropy(graph, y, truth);
  compute_node weights[16];
  const size_t count = compute_layer_nodes(net, graph, weights, 16);
  const compute_sgd_options o = {.learning_rate = 0.1};
  const compute_node step = compute_sgd_step(graph, loss, weights, count, &o);
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, (compute_node[]){loss, step, forward.updates}, 3, 0);
  float pixels[ITEMS * 64];
  test_random random = {3};
  for (int i = 0; i < ITEMS * 64; i++)
    pixels[i] = (float)test_random_uniform(&random, 0, 1 + labels[i / 64]);
  compute_tensor *tx =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ITEMS, 1, 8, 8), pixels);
  compute_tensor *tl = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, NULL);
  double first = 0;
  for (int64_t i = 0; i < STEPS; i++) {
    compute_tensor *ts = test_tensor(test_context, COMPUTE_I64, COMPUTE_SCALAR, &i);
    assert_ok(compute_run(plan, (compute_binding[]){{x, tx}, {seed, ts}, {loss, tl}}, 3, NULL));
    compute_tensor_release(ts);
    if (i == 0) first = test_element(tl, 0);
  }
  assert_true(first > 1.5 && test_element(tl, 0) < 0.6 * first);
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(net, 7, &p));
  assert_true(test_element(p.tensor, 0) == STEPS);
  assert_ok(compute_layer_parameter_at(net, 6, &p));
  assert_true(test_element(p.tensor, 0) != 1);
  compute_tensor_release(tx);
  compute_tensor_release(tl);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_layer_release(net);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static void refused(const compute_layer *layer, compute_status status, const char *part) {
  compute_error error;
  assert_null(layer);
  compute_error_get(NULL, &error);
  if (error.status != status || !strstr(error.message, part))
    fail_msg("expected %s with \"%s\", got %s \"%s\"", compute_status_name(status), part,
             compute_status_name(error.status), error.message);
}

static void constructors_refuse_what_cannot_be(void **state) {
  (void)state;
  compute_device *d = device();
  const compute_status argument = COMPUTE_ERROR_INVALID_ARGUMENT;
  refused(compute_dense(NULL, 1, 1, NULL), COMPUTE_ERROR_NULL_POINTER, "device is NULL");
  refused(compute_dense(d, 0, 1, NULL), argument, "inputs is 0");
  refused(compute_dense(d, 1, -1, NULL), argument, "outputs is -1");
  refused(compute_dense(d, INT64_MAX, 9, NULL), COMPUTE_ERROR_OVERFLOW, "");
  refused(compute_dense(d, 1, 1, &(compute_weights_options){.dtype = COMPUTE_I32}),
          COMPUTE_ERROR_DTYPE, "i32");
  const compute_conv2d_layer_options groups = {.groups = 3}, reserved = {.reserved = {0, 1}};
  const compute_conv2d_layer_options stride = {.stride = {1, -2}}, more = {.output_padding = {1}};
  const compute_conv2d_layer_options padding = {.padding = {-1}};
  refused(compute_conv2d_layer(d, 6, 4, 3, &groups), COMPUTE_ERROR_SHAPE, "3 groups");
  refused(compute_conv2d_layer(d, 6, 4, 3, &reserved), argument, "reserved[1]");
  refused(compute_conv2d_layer(d, 6, 4, 3, &stride), argument, "stride");
  refused(compute_conv2d_layer(d, 6, 4, 3, &more), argument, "output_padding");
  refused(compute_conv2d_layer(d, 6, 4, 3, &padding), argument, "padding");
  refused(compute_conv2d_layer(d, 6, 4, 0, NULL), argument, "kernel is 0");
  refused(compute_conv2d_transpose_layer(d, 6, 4, 3, &more), argument, "output_padding");
  refused(compute_conv2d_layer(d, 1, INT64_MAX, INT64_MAX / 2, NULL), COMPUTE_ERROR_OVERFLOW, "");
  refused(compute_batch_norm_layer(d, 0, NULL), argument, "channels is 0");
  refused(compute_batch_norm_layer(d, 2, &(compute_norm_options){.momentum = 1.5}), argument,
          "momentum");
  refused(compute_layer_norm_layer(d, 2, &(compute_norm_options){.epsilon = NAN}), argument,
          "epsilon");
  refused(compute_batch_norm_layer(d, 2, &(compute_norm_options){.epsilon = 1e39}), argument,
          "epsilon is 1e+39");
  refused(compute_layer_norm_layer(d, 2, &(compute_norm_options){.reserved = {1}}), argument,
          "reserved[0]");
  refused(compute_embedding(d, 3, 0, NULL), argument, "width is 0");
  refused(compute_dropout_layer(1), argument, "probability");
  refused(compute_dropout_layer(NAN), argument, "probability");
  refused(compute_max_pool(0, NULL), argument, "size");
  refused(compute_max_pool(2, &(compute_pool2d_options){.padding = {2}}), argument, "padding");
  refused(compute_average_pool(2, &(compute_pool2d_options){.dilation = {-2}}), argument,
          "dilation");
  refused(compute_max_pool(2, &(compute_pool2d_options){.padding_more = {-1}}), argument,
          "padding_more");
  refused(
      compute_conv2d_layer(d, 6, 4, 3, &(compute_conv2d_layer_options){.padding_more = {0, -1}}),
      argument, "padding_more");
  refused(compute_activation((compute_activation_kind)10), argument, "invalid activation 10");
  refused(compute_layer_name(NULL, "x"), argument, "invalid activation 10"); /* the error stays */
}

static compute_node identity(void *user, compute_graph *graph, compute_node x,
                             const compute_node *parameters, bool training) {
  (void)graph;
  (void)parameters;
  (void)training;
  return user ? (compute_node){0} : x;
}

static void custom_layers_are_checked(void **state) {
  (void)state;
  const float v[2] = {1, 2};
  compute_tensor *t = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), v);
  compute_tensor *i = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(2), v), *wide = NULL;
  assert_ok(compute_tensor_broadcast_view(t, COMPUTE_SHAPE(3, 2), &wide));
  const char *const names[] = {"a", "b"}, *const same[] = {"a", "a"}, *const dots[] = {"a.b"};
  compute_tensor *const twice[] = {t, t}, *const none[] = {t, NULL};
  const compute_status argument = COMPUTE_ERROR_INVALID_ARGUMENT;
  refused(compute_custom_layer(NULL, identity, NULL, NULL, NULL, 0), COMPUTE_ERROR_NULL_POINTER,
          "name is NULL");
  refused(compute_custom_layer("c", NULL, NULL, NULL, NULL, 0), COMPUTE_ERROR_NULL_POINTER,
          "apply is NULL");
  refused(compute_custom_layer("c", identity, NULL, none, names, 2), COMPUTE_ERROR_NULL_POINTER,
          "parameters[1]");
  refused(compute_custom_layer("c", identity, NULL, twice, names, 2), argument, "one tensor");
  refused(compute_custom_layer("c", identity, NULL, (compute_tensor *[]){t, i}, names, 2),
          COMPUTE_ERROR_DTYPE, "i32");
  refused(compute_custom_layer("c", identity, NULL, (compute_tensor *[]){t, wide}, same, 2),
          argument, "read-only");
  refused(compute_custom_layer("c", identity, NULL, &t, dots, 1), argument, "a.b");
  compute_layer *layer = compute_custom_layer("nothing", identity, &t, NULL, NULL, 0);
  compute_graph *graph = compute_graph_create(test_context);
  compute_layer_apply(layer, graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2)), NULL);
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_WRONG_GRAPH);
  test_check_message(test_context, "layer nothing: ");
  compute_graph_release(graph);
  compute_layer_release(layer);
  compute_tensor_release(t);
  compute_tensor_release(i);
  compute_tensor_release(wide);
}

static void compositions_with_a_failed_part_release_the_others(void **state) {
  (void)state;
  compute_device *d = device();
  compute_error_clear(test_context);
  refused(compute_sequential(
              (compute_layer *[]){compute_dense(d, 2, 3, NULL), compute_max_pool(-1, NULL)}, 2),
          COMPUTE_ERROR_INVALID_ARGUMENT, "size");
  test_check_message(test_context, "compute_max_pool"); /* in the context of the dense layer */
  compute_layer *shortcut = compute_dense(d, 2, 2, NULL);
  refused(compute_residual(compute_dense(d, 0, 2, NULL), shortcut), COMPUTE_ERROR_INVALID_ARGUMENT,
          "inputs is 0");
  refused(compute_residual(compute_dense(d, 2, 2, NULL), compute_dense(d, 2, -2, NULL)),
          COMPUTE_ERROR_INVALID_ARGUMENT, "outputs is -2");
  compute_error_clear(test_context);
  refused(compute_residual(compute_dense(d, 2, 2, NULL), NULL), COMPUTE_ERROR_NULL_POINTER,
          "part 1 is NULL");
  refused(compute_sequential(NULL, 2), COMPUTE_ERROR_NULL_POINTER, "layers is NULL");
  compute_layer *nothing = compute_sequential(NULL, 0);
  assert_non_null(nothing);
  compute_layer_release(nothing);
}

static void compositions_stay_in_one_context(void **state) {
  (void)state;
  compute_context *other = test_open();
  compute_layer *mine = compute_dense(device(), 2, 2, NULL);
  compute_layer *foreign = compute_dense(compute_default_device(other), 2, 2, NULL);
  refused(compute_residual(mine, foreign), COMPUTE_ERROR_WRONG_CONTEXT, "part 1 (dense)");
  test_close(other);
}

static void compositions_own_each_part_once(void **state) {
  (void)state;
  compute_device *d = device();
  const compute_status argument = COMPUTE_ERROR_INVALID_ARGUMENT;
  compute_layer *a = compute_dense(d, 2, 2, NULL);
  refused(compute_sequential((compute_layer *[]){a, a}, 2), argument, "part 1 (dense)");
  a = compute_dense(d, 2, 2, NULL);
  compute_layer *net = compute_sequential(&a, 1);
  refused(compute_residual(compute_flatten(), a), argument, "already");
  assert_int_equal(compute_layer_parameter_count(net), 2); /* still intact */
  refused(compute_layer_name(a, "late"), COMPUTE_ERROR_INVALID_STATE, "already");
  compute_layer_release(a); /* unchanged */
  assert_int_equal(compute_layer_parameter_count(net), 2);
  compute_layer_release(net);
  compute_layer_release(NULL);
  refused(compute_layer_name(compute_flatten(), "a.b"), argument, "a.b");
  refused(compute_layer_name(compute_flatten(), ""), argument, "not a valid name");
  refused(compute_layer_name(compute_flatten(), NULL), COMPUTE_ERROR_NULL_POINTER, "name is NULL");
  refused(
      compute_sequential(
          (compute_layer *[]){compute_layer_name(compute_flatten(), "1"), compute_flatten()}, 2),
      argument, "both called \"1\"");
}

/* Applies the layer to an input of this shape and releases it. The graph's error contains
 * `part`. */
static void misapplied(compute_layer *layer, compute_shape shape, bool training,
                       compute_status status, const char *part) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_forward forward = {.training = training};
  assert_non_null(layer);
  const compute_node y =
      compute_layer_apply(layer, graph, compute_input(graph, COMPUTE_F32, shape), &forward);
  assert_false(compute_node_is_valid(y));
  assert_false(compute_node_is_valid(forward.updates));
  assert_fails(compute_graph_status(graph), status);
  test_check_message(test_context, part);
  compute_graph_release(graph);
  compute_layer_release(layer);
}

static void what_does_not_fit_is_told_with_the_layers_name(void **state) {
  (void)state;
  compute_device *d = device();
  const compute_status shape = COMPUTE_ERROR_SHAPE;
  misapplied(network(d), COMPUTE_SHAPE(2, 2, 8, 8), false, shape, "layer stem (conv2d): conv2d: ");
  misapplied(network(d), COMPUTE_SHAPE(2, 1, 8, 8), true, COMPUTE_ERROR_INVALID_ARGUMENT,
             "layer 4 (dropout): dropout: training needs compute_forward.seed");
  misapplied(compute_dense(d, 3, 4, NULL), COMPUTE_SHAPE(2, 5), false, shape,
             "layer dense: matmul: ");
  misapplied(conv(d, 1, 1, 5, 0), COMPUTE_SHAPE(1, 1, 3, 3), false, shape, "layer conv2d: ");
  misapplied(compute_residual(compute_dense(d, 4, 1, NULL), compute_identity()),
             COMPUTE_SHAPE(2, 4), false, shape,
             "layer residual: residual: the body returns [2,1], the shortcut [2,4]");
  misapplied(compute_batch_norm_layer(d, 3, NULL), COMPUTE_SHAPE(1, 3), true, shape,
             "more than one value");
  misapplied(compute_batch_norm_layer(d, 3, NULL), COMPUTE_SHAPE(2, 4), true, shape, "3 channels");
  misapplied(compute_layer_norm_layer(d, 3, &(compute_norm_options){.no_affine = true}),
             COMPUTE_SHAPE(2, 4), true, shape, "3 elements");
  misapplied(compute_flatten(), COMPUTE_SCALAR, false, shape, "layer flatten: ");
}

static void apply_checks_its_arguments(void **state) {
  (void)state;
  compute_layer *layer = compute_flatten();
  compute_graph *graph = compute_graph_create(test_context);
  assert_false(compute_node_is_valid(compute_layer_apply(layer, NULL, (compute_node){0}, NULL)));
  assert_false(compute_node_is_valid(compute_layer_apply(layer, graph, (compute_node){0}, NULL)));
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_WRONG_GRAPH);
  compute_graph_release(graph);
  graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2));
  compute_layer_apply(layer, graph, x, &(compute_forward){.reserved = {0, 0, 1}});
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "reserved[2]");
  compute_graph_release(graph);
  graph = compute_graph_create(test_context);
  compute_layer_apply(NULL, graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2)), NULL);
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_NULL_POINTER);
  compute_graph_release(graph);
  compute_layer_release(layer);
}

/* ---- Failing allocations ------------------------------------------------------------------- */

/* Creates, names, draws, records and summarises a network. Returns COMPUTE_OK or the error. */
static compute_status exercise(compute_context *context) {
  compute_error error;
  compute_error_clear(context);
  compute_layer *net = network(compute_default_device(context));
  compute_graph *graph = net ? compute_graph_create(context) : NULL;
  char *text = NULL;
  compute_status status = COMPUTE_OK;
  if (!net || !graph) {
    compute_error_get(NULL, &error);
    status = error.status;
    assert_int_not_equal(status, COMPUTE_OK);
    goto done;
  }
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 1, 8, 8));
  const compute_node seed = compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR);
  compute_forward forward = {.training = true, .seed = seed};
  const compute_node y = compute_layer_apply(net, graph, x, &forward);
  compute_node nodes[16];
  compute_layer_nodes(net, graph, nodes, 16);
  status = compute_graph_status(graph);
  assert_int_equal(compute_node_is_valid(y), compute_node_is_valid(forward.updates));
  if (status == COMPUTE_OK) status = compute_layer_initialize(net, COMPUTE_INIT_XAVIER_NORMAL, 4);
  if (status != COMPUTE_OK) goto done;
  text = compute_layer_summary(net, COMPUTE_F32, COMPUTE_SHAPE(2, 1, 8, 8));
  if (!text) {
    compute_error_get(NULL, &error);
    status = error.status;
    assert_int_not_equal(status, COMPUTE_OK);
  }
done:
  compute_text_free(text);
  compute_graph_release(graph);
  compute_layer_release(net);
  return status;
}

static void every_failing_allocation_is_reported_and_nothing_leaks(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  assert_ok(exercise(context));
  int64_t nth = 0, failures = 0;
  for (bool failed = true; failed;) {
    failing_allocator_arm(++nth, false);
    const compute_status status = exercise(context);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    failures += status != COMPUTE_OK;
    if (status != COMPUTE_OK && status != COMPUTE_ERROR_OUT_OF_MEMORY &&
        status != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY)
      fail_msg("allocation %lld: %s", (long long)nth, compute_status_name(status));
  }
  assert_true(failures > 300);
  assert_ok(exercise(context));
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_their_order_are_those_of_pytorch),
      cmocka_unit_test(the_summary_is_a_table),
      cmocka_unit_test(a_network_applied_twice_shares_its_weights),
      cmocka_unit_test(statistics_of_two_passes_in_one_step_are_those_of_two_steps),
      cmocka_unit_test(narrow_data_takes_wide_weights),
      cmocka_unit_test(a_network_outlives_its_layers_in_a_plan),
      cmocka_unit_test(weights_outlive_the_memory_scope_that_they_are_made_in),
      cmocka_unit_test(one_plan_trains_weights_and_moves_statistics),
      cmocka_unit_test(constructors_refuse_what_cannot_be),
      cmocka_unit_test(custom_layers_are_checked),
      cmocka_unit_test(compositions_with_a_failed_part_release_the_others),
      cmocka_unit_test(compositions_stay_in_one_context),
      cmocka_unit_test(compositions_own_each_part_once),
      cmocka_unit_test(what_does_not_fit_is_told_with_the_layers_name),
      cmocka_unit_test(apply_checks_its_arguments),
  };
  const struct CMUnitTest alone[] = {
      /* Last, since no other context may be open. */
      cmocka_unit_test(every_failing_allocation_is_reported_and_nothing_leaks),
  };
  const int failed = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
