/* SPDX-License-Identifier: MIT */
/* Graphs written as ONNX: every operation that has a form is written, loaded and run, and must
 * give what the graph itself gives; every other one is refused with its reason. With the variable
 * COMPUTE_EXPORT_FILES, a folder, models stay there with their inputs and results, for another
 * reader (tests/onnx/exported.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/model.h"
#include "model/export/export.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/samples/elementwise.h"

enum { MOST_OPERANDS = 4, MOST_OUTPUTS = 6 };

static bool covered[OP_COUNT];
static int failures;

typedef struct operand {
  compute_dtype dtype; /* NONE: the sample's */
  compute_shape shape;
  double low, high;
  bool special;
} operand;

typedef struct export_sample {
  const char *name;
  size_t (*build)(compute_graph *graph, const compute_node *x, const void *user,
                  compute_node *outputs); /* returns the number of outputs */
  const void *user;
  const char *dtypes; /* a domain; NULL: the operands' own */
  operand operands[MOST_OPERANDS];
  double looseness; /* 0: equal bits */
} export_sample;

/* ---- Running ----------------------------------------------------------------------------- */

typedef struct trial {
  const export_sample *sample;
  compute_dtype dtype;
  char name[96], path[512];
  compute_graph *graph;
  size_t inputs, outputs;
  compute_model_value input[MOST_OPERANDS], output[MOST_OUTPUTS];
  char names[MOST_OPERANDS + MOST_OUTPUTS][16];
  compute_tensor *given[MOST_OPERANDS], *direct[MOST_OUTPUTS], *loaded[MOST_OUTPUTS];
} trial;

static const char *folder(void) {
  const char *kept = getenv("COMPUTE_EXPORT_FILES");
  return kept ? kept : TEST_SCRATCH_DIR;
}

static double rounding(compute_dtype dtype) {
  return dtype == COMPUTE_F64   ? 1e-14
         : dtype == COMPUTE_F32 ? 3e-7
         : dtype == COMPUTE_F16 ? 1.1e-3
                                : 8.1e-3;
}

static void cover(const compute_graph *graph) {
  for (size_t i = 0; i < graph->count; i++) covered[graph->nodes[i].op] = true;
}

static void build(trial *t) {
  t->graph = compute_graph_create(test_context);
  compute_node x[MOST_OPERANDS];
  for (; t->inputs < MOST_OPERANDS &&
         t->sample->operands[t->inputs].high > t->sample->operands[t->inputs].low;
       t->inputs++) {
    const operand *o = &t->sample->operands[t->inputs];
    const compute_dtype dtype = o->dtype ? o->dtype : t->dtype;
    test_values values = test_values_create(dtype, o->shape);
    test_values_fill(&values, o->special ? FILL_SPECIAL : FILL_RANGE, o->low, o->high,
                     77 + t->inputs);
    x[t->inputs] = compute_input(t->graph, dtype, o->shape);
    t->given[t->inputs] = test_tensor(test_context, dtype, o->shape, values.data);
    test_values_release(&values);
    snprintf(t->names[t->inputs], sizeof t->names[0], "x%zu", t->inputs);
    t->input[t->inputs] = (compute_model_value){t->names[t->inputs], x[t->inputs]};
  }
  compute_node outputs[MOST_OUTPUTS];
  t->outputs = t->sample->build(t->graph, x, t->sample->user, outputs);
  assert_ok(compute_graph_status(t->graph));
  for (size_t i = 0; i < t->outputs; i++) {
    char *name = t->names[MOST_OPERANDS + i];
    snprintf(name, sizeof t->names[0], "y%zu", i);
    t->output[i] = (compute_model_value){name, outputs[i]};
  }
  cover(t->graph);
}

static void run_directly(trial *t) {
  compute_node nodes[MOST_OUTPUTS];
  compute_binding bindings[MOST_OPERANDS + MOST_OUTPUTS] = {{.tensor = NULL}};
  for (size_t i = 0; i < t->inputs; i++)
    bindings[i] = (compute_binding){.node = t->input[i].node, .tensor = t->given[i]};
  for (size_t i = 0; i < t->outputs; i++) {
    nodes[i] = t->output[i].node;
    t->direct[i] = test_tensor(test_context, compute_node_dtype(t->graph, nodes[i]),
                               compute_node_shape(t->graph, nodes[i]), NULL);
    bindings[t->inputs + i] = (compute_binding){.node = nodes[i], .tensor = t->direct[i]};
  }
  compute_plan *plan = test_compile(t->graph, nodes, t->outputs, 0);
  assert_ok(compute_run(plan, bindings, t->inputs + t->outputs, NULL));
  compute_plan_release(plan);
}

static void run_model(trial *t) {
  compute_model *model = NULL;
  compute_model_binding in[MOST_OPERANDS], out[MOST_OUTPUTS];
  assert_ok(
      compute_graph_save_onnx(t->graph, t->input, t->inputs, t->output, t->outputs, t->path, NULL));
  assert_ok(compute_model_load(test_context, t->path, NULL, &model));
  assert_int_equal(compute_model_input_count(model), t->inputs);
  for (size_t i = 0; i < t->inputs; i++)
    in[i] = (compute_model_binding){t->input[i].name, t->given[i]};
  for (size_t i = 0; i < t->outputs; i++) out[i] = (compute_model_binding){t->output[i].name, NULL};
  assert_ok(compute_model_run(model, in, t->inputs, out, t->outputs));
  for (size_t i = 0; i < t->outputs; i++) t->loaded[i] = out[i].tensor;
  compute_model_release(model);
}

static test_values values_of(compute_tensor *tensor) {
  test_values values =
      test_values_create(compute_tensor_dtype(tensor), compute_tensor_shape(tensor));
  if (values.bytes) assert_ok(compute_tensor_read(tensor, values.data, values.bytes));
  return values;
}

static void compare(const trial *t, size_t output) {
  test_values expected = values_of(t->direct[output]), actual = values_of(t->loaded[output]);
  assert_int_equal(expected.dtype, actual.dtype);
  assert_true(compute_shape_equal(expected.shape, actual.shape));
  const double loose = t->sample->looseness * rounding(expected.dtype);
  const test_tolerance tolerance = {.rtol = loose, .atol = loose / 4};
  for (int64_t i = 0; i < expected.count; i++) {
    const double a = test_values_get(&actual, i), e = test_values_get(&expected, i);
    if (test_close_enough(expected.dtype, a, e, &tolerance, NULL)) continue;
    print_error("%s: y%zu[%lld] is %.17g, of the graph %.17g\n", t->name, output, (long long)i, a,
                e);
    failures++;
    break;
  }
  test_values_release(&expected);
  test_values_release(&actual);
}

/* The tensors under the names of the model. */
static void keep_tensors(const trial *t) {
  char path[600];
  compute_named_tensor named[MOST_OPERANDS + MOST_OUTPUTS];
  if (!getenv("COMPUTE_EXPORT_FILES")) return;
  for (size_t i = 0; i < t->inputs; i++)
    named[i] = (compute_named_tensor){.name = t->input[i].name, .tensor = t->given[i]};
  for (size_t i = 0; i < t->outputs; i++)
    named[t->inputs + i] =
        (compute_named_tensor){.name = t->output[i].name, .tensor = t->direct[i]};
  snprintf(path, sizeof path, "%s/%s.safetensors", folder(), t->name);
  assert_ok(compute_tensor_file_write(test_context, path, named, t->inputs + t->outputs));
}

static void try_dtype(const export_sample *sample, compute_dtype dtype) {
  trial t = {.sample = sample, .dtype = dtype};
  snprintf(t.name, sizeof t.name, "%s%s%s", sample->name, dtype ? "." : "",
           dtype ? compute_dtype_name(dtype) : "");
  snprintf(t.path, sizeof t.path, "%s/%s.onnx", folder(),
           getenv("COMPUTE_EXPORT_FILES") ? t.name : "sample");
  build(&t);
  run_directly(&t);
  run_model(&t);
  for (size_t i = 0; i < t.outputs; i++) compare(&t, i);
  keep_tensors(&t);
  for (size_t i = 0; i < t.inputs; i++) compute_tensor_release(t.given[i]);
  for (size_t i = 0; i < t.outputs; i++) {
    compute_tensor_release(t.direct[i]);
    compute_tensor_release(t.loaded[i]);
  }
  compute_graph_release(t.graph);
}

static void try_sample(const export_sample *sample) {
  if (!sample->dtypes) {
    try_dtype(sample, COMPUTE_DTYPE_NONE);
    return;
  }
  for (const compute_dtype *d = operation_all_dtypes(sample->dtypes); *d; d++)
    try_dtype(sample, *d);
}

/* ---- Elementwise ------------------------------------------------------------------------- */

static size_t build_row(compute_graph *graph, const compute_node *x, const void *user,
                        compute_node *outputs) {
  outputs[0] = elementwise_build(graph, x, user);
  return 1;
}

/* Integers divide by 0 too, and shift by too many bits. */
static void try_row(const elementwise_row *row, compute_dtype dtype) {
  const bool shift = strncmp(row->name, "shift", 5) == 0;
  const bool integer = test_is_integer(dtype);
  const double low = integer && row->arity > 1 ? -4 : row->low;
  const double high = integer && row->arity > 1 ? shift ? 70 : 4 : row->high;
  export_sample sample = {.name = row->name,
                          .build = build_row,
                          .user = row,
                          .looseness = 4 + 4 * row->ulp,
                          .operands = {{.shape = SHAPE(3, 1, 40), .low = row->low, row->high}}};
  if (row->arity > 1) sample.operands[1] = (operand){.shape = SHAPE(2, 1), .low = low, high};
  if (row->arity > 2) {
    sample.operands[2] = sample.operands[0];
    sample.operands[0] = (operand){COMPUTE_BOOL, SHAPE(40), 0, 1, false};
  }
  if (row->arity == 2) sample.operands[1].shape = COMPUTE_SHAPE(7, 40);
  sample.operands[0].special = integer && row->arity == 2;
  try_dtype(&sample, dtype);
}

static void elementwise_operations_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (size_t i = 0; elementwise_at(i); i++) {
    const elementwise_row *row = elementwise_at(i);
    for (const compute_dtype *d = operation_all_dtypes(row->domain); *d; d++) try_row(row, *d);
  }
  assert_int_equal(failures, 0);
}

/* Every pair of dtypes, with what saturates and what wraps. */
static size_t build_cast(compute_graph *graph, const compute_node *x, const void *user,
                         compute_node *outputs) {
  outputs[0] = compute_cast(graph, x[0], *(const compute_dtype *)user);
  return 1;
}

static void casts_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (const compute_dtype *to = operation_all_dtypes("any"); *to; to++) {
    char name[32];
    snprintf(name, sizeof name, "cast_to_%s", compute_dtype_name(*to));
    const export_sample sample = {
        .name = name,
        .build = build_cast,
        .user = to,
        .dtypes = "any",
        .looseness = 2, /* to f16 and bf16, f64 may be rounded twice */
        .operands = {{.shape = SHAPE(200), .low = -300, .high = 300, .special = true}}};
    try_sample(&sample);
  }
  assert_int_equal(failures, 0);
}

/* ---- Others ------------------------------------------------------------------------------ */

#define BUILD(name)                                                                                \
  static size_t name(compute_graph *graph, const compute_node *x, const void *user,                \
                     compute_node *y) {                                                            \
    (void)user;                                                                                    \
    (void)x;

BUILD(move)
y[0] = compute_transpose(graph, x[0], COMPUTE_AXES(2, 0, 1));
y[1] = compute_reshape(graph, compute_slice(graph, y[0], 2, 1, 2, 2), COMPUTE_SHAPE(2, -1));
y[2] = compute_broadcast(graph, compute_slice(graph, x[0], 0, -1, 1, 1), COMPUTE_SHAPE(2, 3, 5, 4));
return 3;
}

BUILD(join)
y[0] = compute_concat(graph, (const compute_node[]){x[0], x[1], x[0]}, 3, 1);
y[1] = compute_embed(graph, x[0], 1, 9, 2, 1);
y[2] = compute_embed(graph, x[0], -2, 14, 1, 3);
return 3;
}

BUILD(empty)
const compute_node none = compute_slice(graph, x[0], 0, 0, 0, 1);
y[0] = compute_reshape(graph, none, COMPUTE_SHAPE(5, 0));
y[1] = compute_sum(graph, compute_cast(graph, none, COMPUTE_F32), COMPUTE_AXES(0), true);
y[2] = compute_embed(graph, none, 0, 3, 0, 2);
return 3;
}

BUILD(positions)
const compute_dtype dtype = compute_node_dtype(graph, x[0]);
y[0] = compute_add(graph, compute_index(graph, dtype, COMPUTE_SHAPE(3, 7, 2), 1),
                   compute_full(graph, dtype, COMPUTE_SHAPE(7, 2), 3));
y[1] = compute_mul(graph, x[0], compute_scalar(graph, dtype, 2));
return 2;
}

BUILD(products)
y[0] = compute_matmul(graph, x[0], x[1]);
y[1] = compute_matmul(graph, compute_transpose(graph, x[1], (compute_axes){.count = 0}), x[2]);
return 2;
}

BUILD(byte_products)
y[0] = compute_matmul_integer(graph, x[0], x[1], (compute_node){0}, (compute_node){0});
y[1] = compute_matmul_integer(graph, x[0], x[2], x[3], (compute_node){0});
return 2;
}

BUILD(byte_convolutions)
y[0] = compute_conv2d_integer(graph, x[0], x[1], (compute_node){0}, (compute_node){0},
                              &(compute_conv2d_options){.stride = {2}, .padding = {1, 0}});
y[1] = compute_conv2d_integer(graph, x[0], x[1], x[2], (compute_node){0},
                              &(compute_conv2d_options){.padding = {1}});
return 2;
}

BUILD(sums)
y[0] = compute_sum(graph, x[0], COMPUTE_AXES(0, 2), false);
y[1] = compute_sum(graph, x[0], (compute_axes){.count = 0}, true);
y[2] = compute_prod(graph, x[0], COMPUTE_AXES(1), true);
return 3;
}

BUILD(means)
y[0] = compute_mean(graph, x[0], COMPUTE_AXES(1), false);
return 1;
}

BUILD(extremes)
y[0] = compute_max(graph, x[0], COMPUTE_AXES(1), true);
y[1] = compute_min(graph, x[0], COMPUTE_AXES(0, 2), false);
return 2;
}

BUILD(places)
y[0] = compute_argmax(graph, x[0], 1, false);
y[1] = compute_argmin(graph, x[0], -1, true);
return 2;
}

BUILD(rows)
y[0] = compute_softmax(graph, x[0], 1);
y[1] = compute_log_softmax(graph, x[0], -1);
y[2] = compute_normalize(graph, x[0], 1e-5);
return 3;
}

BUILD(layer)
y[0] = compute_layer_norm(graph, x[0], x[1], x[2], 1e-5);
return 1;
}

BUILD(gather)
y[0] = compute_gather(graph, x[0], x[1], 1);
y[1] = compute_gather_elements(graph, x[0], x[2], 1);
return 2;
}

BUILD(scatter)
y[0] = compute_scatter_add(graph, x[0], x[1], 1, 5);
y[1] = compute_scatter_add_elements(graph, x[0], x[2], 1, COMPUTE_SHAPE(3, 5, 7));
y[2] = compute_scatter_add(graph, compute_slice(graph, x[0], 2, 0, 2, 1), x[3], -1, 4);
return 3;
}

/* One update for each element: of several for one ONNX does not say which stands. */
BUILD(scatter_into)
const compute_node one = compute_slice(graph, x[0], 1, 1, 1, 1);
y[0] = compute_scatter(graph, x[0], one, x[1], 1, COMPUTE_SCATTER_SET);
y[1] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_SET);
y[2] = compute_scatter(graph, x[0], one, x[1], 1, COMPUTE_SCATTER_MAX);
y[3] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_MIN);
y[4] = compute_scatter(graph, x[0], one, x[1], -2, COMPUTE_SCATTER_MUL);
y[5] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_ADD);
return 6;
}

BUILD(order)
y[0] = compute_top_k(graph, x[0], 3, 1, false, &y[1]);
y[2] = compute_top_k(graph, x[0], 2, 2, true, NULL);
return 3;
}

BUILD(sorts)
y[0] = compute_sort(graph, x[0], 1, false);
y[1] = compute_argsort(graph, x[0], 1, true);
y[2] = compute_argsort(graph, x[0], 2, false);
return 3;
}

BUILD(running)
y[0] = compute_cumulative_sum(graph, x[0], 1, false, false);
y[1] = compute_cumulative_sum(graph, x[0], -1, true, true);
return 2;
}

BUILD(conv)
const compute_conv2d_options o = {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}};
y[0] = compute_conv2d(graph, x[0], x[1], x[2], &o);
y[1] = compute_relu(graph, compute_conv2d(graph, x[0], x[3], (compute_node){0},
                                          &(compute_conv2d_options){.groups = 2}));
y[2] = compute_batch_norm(graph, compute_conv2d(graph, x[0], x[1], (compute_node){0}, NULL), x[2],
                          compute_square(graph, x[2]), x[2], x[2], 1e-3);
return 3;
}

BUILD(transposed)
const compute_conv2d_options o = {
    .stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .groups = 2};
y[0] = compute_conv2d_transpose(graph, x[0], x[1], x[2], &o);
y[1] = compute_conv2d_transpose(graph, x[0], x[1], (compute_node){0},
                                &(compute_conv2d_options){.dilation = {2, 1}, .groups = 2});
return 2;
}

BUILD(transposed_whole)
y[0] = compute_conv2d_transpose(graph, x[0], x[1], x[2],
                                &(compute_conv2d_options){.stride = {2, 3}, .padding = {1, 0}});
return 1;
}

/* Gradients by data, whose geometry no builder asks for: rows and columns that no window reaches.
 */
BUILD(by_data)
const compute_conv2d_options back = {.dilation = {3, 3}, .output_padding = {2, 1}};
const compute_node stretched = compute_conv2d_transpose(graph, x[0], x[1], x[2], &back);
const compute_node shrunk = compute_conv2d(graph, x[3], x[1], (compute_node){0},
                                           &(compute_conv2d_options){.stride = {2, 4}});
const compute_node loss = compute_add(
    graph, compute_sum(graph, compute_square(graph, stretched), (compute_axes){0}, false),
    compute_sum(graph, compute_square(graph, shrunk), (compute_axes){0}, false));
const compute_node of[] = {x[0], x[3]};
compute_gradients(graph, loss, of, 2, y);
return 2;
}

static const compute_pool2d_options pools[] = {
    {.size = {2}},
    {.size = {3}, .stride = {2}, .padding = {1, -1}},
    {.size = {3, 2}, .stride = {2, 3}, .padding = {1, 0}, .ceil = true},
    {.size = {2}, .stride = {3}, .padding = {1, 1}, .ceil = true},
    {.size = {3}, .stride = {2}, .padding = {2, 0}, .padding_more = {-1, 2}},
    {.size = {2}, .stride = {3}, .padding = {1, 0}, .padding_more = {-1, 1}, .ceil = true},
};

static size_t build_pools(compute_graph *graph, const compute_node *x, const void *user,
                          compute_node *y) {
  compute_pool2d_options o = *(const compute_pool2d_options *)user;
  y[0] = compute_max_pool2d(graph, x[0], &o);
  y[1] = compute_average_pool2d(graph, x[0], &o);
  o.exclude_padding = true;
  y[2] = compute_average_pool2d(graph, x[0], &o);
  o.exclude_padding = false;
  y[3] = compute_argmax_pool2d(graph, x[0], &o);
  return 4;
}

static size_t build_integer_pools(compute_graph *graph, const compute_node *x, const void *user,
                                  compute_node *y) {
  y[0] = compute_max_pool2d(graph, x[0], user);
  y[1] = compute_argmax_pool2d(graph, x[0], user);
  return 2;
}

BUILD(attention)
y[0] = compute_scaled_attention(graph, x[0], x[1], x[2], NULL);
y[1] = compute_scaled_attention(graph, x[0], x[1], x[2],
                                &(compute_attention_options){.causal = true, .scale = 0.3});
y[2] =
    compute_scaled_attention(graph, x[0], x[1], x[2], &(compute_attention_options){.bias = x[3]});
return 3;
}

/* x, w, r and a bias; the rarer options if `user` is not NULL. */
static const bool rarer = true;

BUILD(lstm)
const compute_node of_state = compute_slice(graph, x[3], 0, 0, 6, 1);
compute_recurrent_options options = {.bias = x[3]};
compute_recurrent_state last;
if (user) {
  options.initial_c =
      compute_broadcast(graph, compute_slice(graph, x[3], 0, 0, 2, 1), COMPUTE_SHAPE(3, 2));
  options.peepholes = of_state;
  options.lengths = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(3), (int32_t[]){2, 4, 1});
  options.reverse = true;
  options.clip = 0.5;
}
y[0] = compute_lstm(graph, x[0], x[1], x[2], &options, &last);
y[1] = last.h;
y[2] = last.c;
return 3;
}

BUILD(gru)
const compute_node row = compute_slice(graph, x[3], 0, 1, 2, 1);
compute_recurrent_options options = {.initial_h =
                                         compute_broadcast(graph, row, COMPUTE_SHAPE(3, 2))};
compute_recurrent_state last;
if (user) {
  options.bias = x[3];
  options.state_bias = row;
  options.reset_after = true;
}
y[0] = compute_gru(graph, x[0], x[1], x[2], &options, &last);
y[1] = last.h;
return 2;
}

BUILD(rnn)
y[0] = compute_rnn(graph, x[0], x[1], x[2], &(compute_recurrent_options){.bias = x[3]}, NULL);
return 1;
}

BUILD(quantized)
const compute_quantized_options options = {.bits = 4, .block = 4};
const compute_node zero = compute_cast(graph, compute_relu(graph, x[2]), COMPUTE_U8);
y[0] = compute_quantized_matmul(graph, x[0], x[1], x[2], (compute_node){0}, &options);
y[1] = compute_dequantize(graph, x[1], x[2], zero, 9, &options);
return 2;
}

#define NUMBERS(...)                                                                               \
  { .shape = SHAPE(__VA_ARGS__), .low = -3, .high = 3 }
#define INDICES(type, ...)                                                                         \
  { .dtype = COMPUTE_##type, .shape = SHAPE(__VA_ARGS__), .low = -5, .high = 4 }

static const export_sample samples[] = {
    {"move", move, NULL, "any", {NUMBERS(3, 5, 4)}, 0},
    {"join", join, NULL, "any", {NUMBERS(3, 5, 4), NUMBERS(3, 1, 4)}, 0},
    {"empty", empty, NULL, "any", {NUMBERS(3, 5)}, 0},
    {"positions", positions, NULL, "number", {NUMBERS(3)}, 0},
    {"products", products, NULL, "number", {NUMBERS(2, 3, 4), NUMBERS(4, 5), NUMBERS(4)}, 8},
    {"quantized",
     quantized,
     NULL,
     "float",
     {NUMBERS(2, 10),
      {.dtype = COMPUTE_U8, .shape = SHAPE(5, 6), .low = 0, .high = 255},
      NUMBERS(5, 3)},
     64},
    {"byte_products",
     byte_products,
     NULL,
     "byte",
     {NUMBERS(2, 3, 4), NUMBERS(4, 5), NUMBERS(4), NUMBERS(3, 1)},
     0},
    {"byte_convolutions",
     byte_convolutions,
     NULL,
     "byte",
     {NUMBERS(2, 3, 7, 6), NUMBERS(4, 3, 3, 2), NUMBERS(1)},
     0},
    {"sums", sums, NULL, "number", {NUMBERS(3, 5, 4)}, 8},
    {"means", means, NULL, "float", {NUMBERS(3, 5, 4)}, 8},
    {"extremes", extremes, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"places", places, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"rows", rows, NULL, "float", {NUMBERS(3, 5, 4)}, 32},
    {"layer", layer, NULL, "float", {NUMBERS(3, 5, 16), NUMBERS(16), NUMBERS(16)}, 32},
    {"gather",
     gather,
     NULL,
     "any",
     {NUMBERS(3, 5, 7), INDICES(I32, 2, 3), INDICES(I64, 3, 4, 7)},
     0},
    {"scatter",
     scatter,
     NULL,
     "number",
     {NUMBERS(3, 4, 7),
      INDICES(I32, 4),
      INDICES(I64, 3, 4, 7),
      {.dtype = COMPUTE_I64, .shape = SHAPE(2), .low = -4, .high = 3}},
     8},
    {"scatter_into",
     scatter_into,
     NULL,
     "ordered",
     {NUMBERS(3, 4, 7),
      {.dtype = COMPUTE_I32, .shape = SHAPE(1), .low = -4, .high = 3},
      {.dtype = COMPUTE_I64, .shape = SHAPE(3, 1, 7), .low = -4, .high = 3}},
     8},
    {"order", order, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"sorts", sorts, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"running", running, NULL, "number", {NUMBERS(3, 5, 4)}, 8},
    {"conv",
     conv,
     NULL,
     "float",
     {NUMBERS(2, 4, 9, 8), NUMBERS(3, 4, 3, 3), NUMBERS(3), NUMBERS(6, 2, 2, 3)},
     64},
    {"transposed",
     transposed,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(6)},
     64},
    {"transposed_whole",
     transposed_whole,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(3)},
     64},
    {"by_data",
     by_data,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(3), NUMBERS(2, 3, 8, 9)},
     256},
    {"pools", build_pools, &pools[0], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_padded", build_pools, &pools[1], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil", build_pools, &pools[2], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil_padded", build_pools, &pools[3], "float", {NUMBERS(2, 3, 7, 7)}, 16},
    {"pools_uneven", build_pools, &pools[4], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil_uneven", build_pools, &pools[5], "float", {NUMBERS(2, 3, 7, 7)}, 16},
    {"pools_of_integers", build_integer_pools, &pools[4], "ordered", {NUMBERS(2, 3, 8, 7)}, 16},
    {"attention",
     attention,
     NULL,
     "float",
     {NUMBERS(2, 3, 6, 4), NUMBERS(3, 5, 4), NUMBERS(2, 1, 5, 3), NUMBERS(6, 5)},
     64},
    {"lstm", lstm, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 8), NUMBERS(2, 8), NUMBERS(8)}, 64},
    {"lstm_options",
     lstm,
     &rarer,
     "float",
     {NUMBERS(4, 3, 5), NUMBERS(5, 8), NUMBERS(2, 8), NUMBERS(8)},
     64},
    {"gru", gru, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 6), NUMBERS(2, 6), NUMBERS(6)}, 64},
    {"gru_options",
     gru,
     &rarer,
     "float",
     {NUMBERS(4, 3, 5), NUMBERS(5, 6), NUMBERS(2, 6), NUMBERS(6)},
     64},
    {"rnn", rnn, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 2), NUMBERS(2, 2), NUMBERS(2)}, 64},
};

static void other_operations_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) try_sample(&samples[i]);
  assert_int_equal(failures, 0);
}

/* ---- Parameters and names ---------------------------------------------------------------- */

static void parameters_and_constants_become_initializers(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *weight =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){1, 1});
  const compute_node x =
      compute_name(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2)), "image");
  const compute_node w = compute_name(graph, compute_parameter(graph, weight), "weight");
  const compute_node c =
      compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){10, 20});
  const compute_node y =
      compute_name(graph, compute_add(graph, compute_mul(graph, x, w), c), "weight");
  /* those of the time of writing */
  assert_ok(compute_tensor_write(weight, (const float[]){2, 3}, 2 * sizeof(float)));
  const char *path = TEST_SCRATCH_DIR "/named.onnx";
  const compute_model_value outputs[] = {{"scores", y}, {NULL, w}, {"again", y}, {"copy", x}};
  const compute_model_export_options options = {.graph_name = "net", .description = "two lines"};
  assert_ok(compute_graph_save_onnx(graph, NULL, 0, outputs, 4, path, &options));
  cover(graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, path, NULL, &model));
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_string_equal(info.graph_name, "net");
  assert_string_equal(info.description, "two lines");
  assert_string_equal(info.producer, "libcompute");
  assert_int_equal(info.opset, COMPUTE_MODEL_EXPORT_OPSET);
  assert_int_equal(info.weights, 2);
  compute_model_port port;
  assert_ok(compute_model_input_at(model, 0, &port));
  assert_string_equal(port.name, "image");
  assert_int_equal(port.rank, 1);
  assert_int_equal(port.size[0], 2);
  compute_tensor *given =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){5, 6});
  const compute_model_binding in = {"image", given};
  compute_model_binding out[] = {{"scores", NULL}, {"again", NULL}, {"copy", NULL}};
  assert_ok(compute_model_run(model, &in, 1, out, 3));
  const float expected[3][2] = {{20, 38}, {20, 38}, {5, 6}};
  for (size_t i = 0; i < 3; i++) {
    for (int64_t k = 0; k < 2; k++)
      assert_float_equal(test_element(out[i].tensor, k), expected[i][k], 0);
    compute_tensor_release(out[i].tensor);
  }
  compute_model_release(model);
  compute_tensor_release(given);
  compute_tensor_release(weight);
  compute_graph_release(graph);
}

/* The graph is cut at a node that is an input. */
static void any_node_may_be_an_input(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node seed = compute_scalar_i64(graph, COMPUTE_I64, 1);
  const compute_node noise = compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(2), seed, 0);
  const compute_model_value in = {"noise", noise}, out = {"y", compute_neg(graph, noise)};
  const char *path = TEST_SCRATCH_DIR "/cut.onnx";
  assert_ok(compute_graph_save_onnx(graph, &in, 1, &out, 1, path, NULL));
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, path, NULL, &model));
  assert_int_equal(compute_model_input_count(model), 1);
  compute_model_release(model);
  compute_graph_release(graph);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void what_has_no_form_is_named(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *weight =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), (const float[]){1, 1, 1});
  const compute_node seed = compute_scalar_i64(graph, COMPUTE_I64, 1);
  const compute_node noise = compute_name(
      graph, compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(3), seed, 0), "noise");
  const compute_node w = compute_parameter(graph, weight);
  const compute_node step = compute_assign(graph, w, compute_add(graph, w, noise));
  const compute_model_value out = {"y", step};
  const char *path = TEST_SCRATCH_DIR "/refused.onnx";
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &out, 1, path, NULL),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "random_uniform (node 'noise'");
  test_check_message(test_context, "assign (node ");
  assert_int_not_equal(access(path, F_OK), 0);
  compute_tensor_release(weight);
  compute_graph_release(graph);
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_model_value twice[] = {{"x", x}, {"z", x}};
  const compute_model_value same = {"x", compute_neg(graph, x)}, wrong = {"w", {99, 1}};
  const compute_model_value broken = {"\xff", x};
  const char *path = TEST_SCRATCH_DIR "/wrong.onnx";
  assert_fails(compute_graph_save_onnx(NULL, NULL, 0, &same, 1, path, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_graph_save_onnx(graph, NULL, 1, &same, 1, path, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_graph_save_onnx(graph, twice, 2, &same, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, twice, 1, &same, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "outputs[0] has the name of another one");
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &broken, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 0, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &wrong, 1, path, NULL),
               COMPUTE_ERROR_WRONG_GRAPH);
  const compute_model_export_options options = {.reserved = {1}};
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, path, &options),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, "/nowhere/x.onnx", NULL),
               COMPUTE_ERROR_FILE);
  compute_neg(graph, (compute_node){0});
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, path, NULL),
               compute_graph_status(graph));
  compute_graph_release(graph);
}

/* ---- The table --------------------------------------------------------------------------- */

/* Runs last: what has a form has been written by the tests above. */
static void every_operation_has_a_form_or_a_reason(void **state) {
  (void)state;
  int missing = 0;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const export_form *form = export_form_of((graph_op)op);
    const char *name = graph_op_describe((graph_op)op)->name;
    if (!form) print_error("%s is not in src/model/export/forms.c\n", name);
    if (form && form->rule && !covered[op]) print_error("%s is written by no test\n", name);
    missing += !form || (form->rule && !covered[op]);
  }
  assert_int_equal(missing, 0);
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

/* docs/reference/onnx.md has a line for each row; with COMPUTE_UPDATE_DOCS they are printed. */
static void the_document_has_the_table(void **state) {
  (void)state;
  char *text = read_text(TEST_SOURCE_DIR "/docs/reference/onnx.md");
  const bool print = getenv("COMPUTE_UPDATE_DOCS") != NULL;
  int missing = 0;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const export_form *form = export_form_of((graph_op)op);
    char line[256];
    snprintf(line, sizeof line, "| `%s` | %s%s |\n", graph_op_describe((graph_op)op)->name,
             form->rule || op == OP_input ? "" : "– ", form->text);
    if (print) printf("%s", line);
    if (strstr(text, line)) continue;
    missing++;
    print_error("docs/reference/onnx.md lacks: %s", line);
  }
  free(text);
  assert_int_equal(missing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_operations_round_trip),
      cmocka_unit_test(casts_round_trip),
      cmocka_unit_test(other_operations_round_trip),
      cmocka_unit_test(parameters_and_constants_become_initializers),
      cmocka_unit_test(any_node_may_be_an_input),
      cmocka_unit_test(what_has_no_form_is_named),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(every_operation_has_a_form_or_a_reason),
      cmocka_unit_test(the_document_has_the_table),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
