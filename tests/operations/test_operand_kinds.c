/* SPDX-License-Identifier: MIT */
/* Every operation of ops.def, and what is built over them, with operands that are inputs,
 * parameters, constants and some of each: operands with elements, and operands without. */
#include <string.h>

#include "compute/fit.h"
#include "support/samples/elementwise.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

#define FLOATS(...)                                                                                \
  { COMPUTE_F32, SHAPE(__VA_ARGS__), FILL_RANGE, -2, 2, LAYOUT_DENSE }
#define SHARES(...)                                                                                \
  { COMPUTE_F32, SHAPE(__VA_ARGS__), FILL_RANGE, 0.125, 0.875, LAYOUT_DENSE }
#define INDICES(count, ...)                                                                        \
  { COMPUTE_I64, SHAPE(__VA_ARGS__), FILL_RANGE, 0, (count)-1, LAYOUT_DENSE }

#define BYTES(...)                                                                                 \
  { COMPUTE_I8, SHAPE(__VA_ARGS__), FILL_RANGE, -128, 127, LAYOUT_DENSE }

#define NIBBLES(...)                                                                               \
  { COMPUTE_U8, SHAPE(__VA_ARGS__), FILL_RANGE, 0, 255, LAYOUT_DENSE }

enum { MOST_SAMPLES = 4 };

typedef struct kind_case {
  const char *name; /* of the operation in ops.def, or in words */
  compute_node (*build)(compute_graph *graph, const compute_node *operands, const void *user);
  operation_operand samples[MOST_SAMPLES][OPERATION_MAX_OPERANDS]; /* dtype NONE ends a sample */
} kind_case;

#define BUILD(name, expression)                                                                    \
  static compute_node build_##name(compute_graph *g, const compute_node *x, const void *user) {    \
    (void)user;                                                                                    \
    return expression;                                                                             \
  }

static compute_node concat_both(compute_graph *g, const compute_node *x) {
  return compute_concat(g, x, 2, 1);
}

/* The gradient of a weighted sum of `y`, so that every element counts otherwise. */
static compute_node gradient_of(compute_graph *g, compute_node y, compute_node of) {
  compute_node gradient;
  const compute_shape shape = compute_node_shape(g, y);
  const compute_node weights = compute_index(g, COMPUTE_F32, shape, shape.rank - 1);
  const compute_node loss = compute_sum(g, compute_mul(g, y, weights), (compute_axes){0}, false);
  compute_gradients(g, loss, &of, 1, &gradient);
  return gradient;
}

static const compute_conv2d_options padded = {.padding = {1, 1}};
static const compute_spot_options dim_spots = {.sigma = 1.2, .threshold = 2};
static const compute_pool2d_options pairs = {.size = {2, 2}};

static compute_node positions_of_top(compute_graph *g, compute_node x) {
  compute_node positions;
  compute_top_k(g, x, 2, 1, false, &positions);
  return positions;
}

BUILD(find_spots, compute_find_spots(g, x[0], &dim_spots, NULL))
BUILD(random_uniform, compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(3, 5), x[0], 7))
BUILD(no_random_uniform, compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(3, 0), x[0], 7))
BUILD(cast, compute_cast(g, x[0], COMPUTE_F64))
BUILD(transpose, compute_transpose(g, x[0], (compute_axes){0}))
BUILD(reshape, compute_reshape(g, x[0], COMPUTE_SHAPE(compute_node_shape(g, x[0]).size[1], 2, 4)))
BUILD(slice, compute_slice(g, x[0], 2, 1, 2, 2))
BUILD(broadcast,
      compute_broadcast(g, x[0], COMPUTE_SHAPE(3, 2, compute_node_shape(g, x[0]).size[1], 4)))
BUILD(concat, concat_both(g, x))
BUILD(embed, compute_embed(g, x[0], 1, 9, 2, 2))
BUILD(matmul, compute_matmul(g, x[0], x[1]))
BUILD(matmul_integer, compute_matmul_integer(g, x[0], x[1], x[2], (compute_node){0}))
BUILD(conv2d_integer, compute_conv2d_integer(g, x[0], x[1], x[2], (compute_node){0}, NULL))
BUILD(sum, compute_sum(g, x[0], COMPUTE_AXES(1), false))
BUILD(mean, compute_mean(g, x[0], COMPUTE_AXES(1), false))
BUILD(prod, compute_prod(g, x[0], COMPUTE_AXES(1), false))
BUILD(max, compute_max(g, x[0], COMPUTE_AXES(1), false))
BUILD(min, compute_min(g, x[0], COMPUTE_AXES(1), false))
BUILD(argmax, compute_argmax(g, x[0], 1, false))
BUILD(argmin, compute_argmin(g, x[0], 1, false))
BUILD(softmax, compute_softmax(g, x[0], 1))
BUILD(log_softmax, compute_log_softmax(g, x[0], 1))
BUILD(normalize, compute_normalize(g, x[0], 1e-3))
BUILD(gather, compute_gather(g, x[0], x[1], 0))
BUILD(gather_elements, compute_gather_elements(g, x[0], x[1], 0))
BUILD(scatter_add, compute_scatter_add(g, x[0], x[1], 0, 5))
BUILD(scatter, compute_scatter(g, x[0], x[1], x[2], 0, COMPUTE_SCATTER_ADD))
BUILD(scatter_elements, compute_scatter_elements(g, x[0], x[1], x[2], 0, COMPUTE_SCATTER_ADD))
BUILD(scatter_add_elements, compute_scatter_add_elements(g, x[0], x[1], 0, COMPUTE_SHAPE(5, 3)))
BUILD(conv2d, compute_conv2d(g, x[0], x[1], x[2], &padded))
BUILD(conv2d_by_data, compute_conv2d_transpose(g, x[0], x[1], x[2], &padded))
BUILD(conv2d_by_filter,
      gradient_of(g, compute_conv2d(g, x[0], x[1], (compute_node){0}, &padded), x[1]))
BUILD(max_pool2d, compute_max_pool2d(g, x[0], &pairs))
BUILD(max_pool2d_by_data, gradient_of(g, compute_max_pool2d(g, x[0], &pairs), x[0]))
BUILD(argmax_pool2d, compute_argmax_pool2d(g, x[0], &pairs))
BUILD(average_pool2d, compute_average_pool2d(g, x[0], &pairs))
BUILD(average_pool2d_by_data, gradient_of(g, compute_average_pool2d(g, x[0], &pairs), x[0]))
BUILD(cumulative_sum, compute_cumulative_sum(g, x[0], 1, false, false))
BUILD(sort, compute_sort(g, x[0], 1, true))
BUILD(argsort, compute_argsort(g, x[0], 0, false))
BUILD(top_k, positions_of_top(g, x[0]))
BUILD(attention, compute_scaled_attention(g, x[0], x[1], x[2], NULL))
BUILD(biased_attention,
      compute_scaled_attention(g, x[0], x[1], x[2], &(compute_attention_options){.bias = x[3]}))
BUILD(recurrent,
      compute_gru(g, x[0], x[1], x[2], &(compute_recurrent_options){.initial_h = x[3]}, NULL))
BUILD(quantized_matmul,
      compute_quantized_matmul(g, x[0], x[1], x[2], x[3],
                               &(compute_quantized_options){.bits = 4, .block = 4}))
BUILD(cross_entropy, compute_cross_entropy(g, x[0], x[1]))
BUILD(cross_entropy_smoothed, compute_cross_entropy_smoothed(g, x[0], x[1], 0.25))
BUILD(binary_cross_entropy, compute_binary_cross_entropy(g, x[0], x[1]))
BUILD(mean_squared_error, compute_mean_squared_error(g, x[0], x[1]))
BUILD(huber, compute_huber(g, x[0], x[1], 0.5))
BUILD(one_hot, compute_one_hot(g, x[0], 4, COMPUTE_F32))
BUILD(layer_norm, compute_layer_norm(g, x[0], x[1], x[2], 1e-3))
BUILD(batch_norm, compute_batch_norm(g, x[0], x[1], x[2], x[3], (compute_node){0}, 1e-3))
BUILD(batch_norm_training, compute_batch_norm_training(g, x[0], x[1], x[2], 1e-3, NULL, NULL))
BUILD(dropout, compute_dropout(g, x[0], 0.5, x[1], 3))
BUILD(pad, compute_pad(g, x[0], 0, 1, 2, COMPUTE_PAD_CONSTANT, 0.5))
BUILD(upsample2d, compute_upsample2d(g, x[0], 6, 5, COMPUTE_UPSAMPLE_BILINEAR))

/* clang-format off */
static const kind_case cases[] = {
    {"random_uniform", build_random_uniform, {{{COMPUTE_I64, SCALAR, FILL_RANGE, 1, 9, LAYOUT_DENSE}}}},
    {"random_uniform", build_no_random_uniform, {{{COMPUTE_I64, SCALAR, FILL_RANGE, 1, 9, LAYOUT_DENSE}}}},
    {"cast", build_cast, {{FLOATS(3, 4)}, {FLOATS(2, 0)}}},
    {"transpose", build_transpose, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}}},
    {"reshape", build_reshape, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}}},
    {"slice", build_slice, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}}},
    {"broadcast", build_broadcast, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}}},
    {"concat", build_concat, {{FLOATS(2, 3), FLOATS(2, 4)}, {FLOATS(2, 0), FLOATS(2, 4)}, {FLOATS(2, 0), FLOATS(2, 0)}}},
    {"embed", build_embed, {{FLOATS(2, 3)}, {FLOATS(2, 0)}, {FLOATS(0, 3)}}},
    {"matmul", build_matmul, {{FLOATS(3, 4), FLOATS(4, 5)}, {FLOATS(2, 0), FLOATS(0, 3)}, {FLOATS(0, 4), FLOATS(4, 3)}, {FLOATS(2, 3, 0), FLOATS(0, 4)}}},
    {"matmul_integer", build_matmul_integer, {{BYTES(3, 4), BYTES(4, 5), BYTES(3, 1)}, {BYTES(2, 0), BYTES(0, 3), BYTES(1)}}},
    {"conv2d_integer", build_conv2d_integer, {{BYTES(2, 3, 5, 4), BYTES(4, 3, 3, 2), BYTES(1)}, {BYTES(0, 3, 5, 4), BYTES(4, 3, 3, 2), BYTES(1)}, {BYTES(2, 0, 5, 4), BYTES(4, 0, 3, 2), BYTES(1)}}},
    {"sum", build_sum, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}, {FLOATS(0, 3, 4)}}},
    {"mean", build_mean, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}, {FLOATS(0, 3, 4)}}},
    {"prod", build_prod, {{FLOATS(2, 3, 4)}, {FLOATS(2, 0, 4)}, {FLOATS(0, 3, 4)}}},
    {"max", build_max, {{FLOATS(2, 3, 4)}, {FLOATS(0, 3, 4)}}},
    {"min", build_min, {{FLOATS(2, 3, 4)}, {FLOATS(0, 3, 4)}}},
    {"argmax", build_argmax, {{FLOATS(2, 3, 4)}, {FLOATS(0, 3, 4)}}},
    {"argmin", build_argmin, {{FLOATS(2, 3, 4)}, {FLOATS(0, 3, 4)}}},
    {"softmax", build_softmax, {{FLOATS(3, 4)}, {FLOATS(0, 4)}, {FLOATS(3, 0)}}},
    {"log_softmax", build_log_softmax, {{FLOATS(3, 4)}, {FLOATS(0, 4)}, {FLOATS(3, 0)}}},
    {"normalize", build_normalize, {{FLOATS(3, 4)}, {FLOATS(0, 4)}, {FLOATS(3, 0)}}},
    {"gather", build_gather, {{FLOATS(5, 3), INDICES(5, 4)}, {FLOATS(5, 0), INDICES(5, 4)}, {FLOATS(5, 3), INDICES(5, 0)}}},
    {"gather_elements", build_gather_elements, {{FLOATS(5, 3), INDICES(5, 4, 3)}, {FLOATS(5, 0), INDICES(5, 4, 0)}, {FLOATS(5, 3), INDICES(5, 0, 3)}}},
    {"scatter_add", build_scatter_add, {{FLOATS(4, 3), INDICES(5, 4)}, {FLOATS(0, 3), INDICES(5, 0)}, {FLOATS(4, 0), INDICES(5, 4)}}},
    {"scatter", build_scatter, {{FLOATS(5, 3), FLOATS(4, 3), INDICES(5, 4)}, {FLOATS(5, 3), FLOATS(0, 3), INDICES(5, 0)}}},
    {"scatter_elements", build_scatter_elements, {{FLOATS(5, 3), FLOATS(4, 3), INDICES(5, 4, 3)}}},
    {"scatter_add_elements", build_scatter_add_elements, {{FLOATS(4, 3), INDICES(5, 4, 3)}, {FLOATS(0, 3), INDICES(5, 0, 3)}}},
    {"conv2d", build_conv2d, {{FLOATS(2, 3, 6, 5), FLOATS(4, 3, 3, 3), FLOATS(4)}, {FLOATS(0, 3, 6, 5), FLOATS(4, 3, 3, 3), FLOATS(4)}, {FLOATS(2, 3, 6, 5), FLOATS(0, 3, 3, 3), FLOATS(0)}}},
    {"conv2d_by_data", build_conv2d_by_data, {{FLOATS(2, 4, 6, 5), FLOATS(4, 3, 3, 3), FLOATS(3)}, {FLOATS(0, 4, 6, 5), FLOATS(4, 3, 3, 3), FLOATS(3)}}},
    {"conv2d_by_filter", build_conv2d_by_filter, {{FLOATS(2, 3, 6, 5), FLOATS(4, 3, 3, 3)}, {FLOATS(0, 3, 6, 5), FLOATS(4, 3, 3, 3)}}},
    {"max_pool2d", build_max_pool2d, {{FLOATS(2, 3, 6, 4)}, {FLOATS(0, 3, 6, 4)}}},
    {"max_pool2d_by_data", build_max_pool2d_by_data, {{FLOATS(2, 3, 6, 4)}, {FLOATS(0, 3, 6, 4)}}},
    {"argmax_pool2d", build_argmax_pool2d, {{FLOATS(2, 3, 6, 4)}, {FLOATS(0, 3, 6, 4)}}},
    {"average_pool2d", build_average_pool2d, {{FLOATS(2, 3, 6, 4)}, {FLOATS(0, 3, 6, 4)}}},
    {"average_pool2d_by_data", build_average_pool2d_by_data, {{FLOATS(2, 3, 6, 4)}, {FLOATS(0, 3, 6, 4)}}},
    {"cumulative_sum", build_cumulative_sum, {{FLOATS(3, 4)}, {FLOATS(2, 0)}, {FLOATS(0, 4)}}},
    {"sort", build_sort, {{FLOATS(3, 4)}, {FLOATS(0, 4)}, {FLOATS(4, 0)}}},
    {"argsort", build_argsort, {{FLOATS(3, 4)}, {FLOATS(0, 4)}}},
    {"top_k", build_top_k, {{FLOATS(3, 4)}, {FLOATS(0, 4)}}},
    {"scaled_attention", build_attention, {{FLOATS(2, 3, 4), FLOATS(2, 5, 4), FLOATS(2, 5, 6)}, {FLOATS(0, 3, 4), FLOATS(0, 5, 4), FLOATS(0, 5, 6)}, {FLOATS(2, 3, 4), FLOATS(2, 0, 4), FLOATS(2, 0, 6)}, {FLOATS(2, 0, 4), FLOATS(2, 5, 4), FLOATS(2, 5, 6)}}},
    {"attention with bias", build_biased_attention, {{FLOATS(2, 3, 4), FLOATS(2, 5, 4), FLOATS(2, 5, 6), FLOATS(3, 5)}, {FLOATS(2, 3, 4), FLOATS(2, 0, 4), FLOATS(2, 0, 6), FLOATS(3, 0)}}},
    {"recurrent", build_recurrent, {{FLOATS(3, 2, 4), FLOATS(4, 15), FLOATS(5, 15), FLOATS(2, 5)}, {FLOATS(0, 2, 4), FLOATS(4, 15), FLOATS(5, 15), FLOATS(2, 5)}, {FLOATS(3, 0, 4), FLOATS(4, 15), FLOATS(5, 15), FLOATS(0, 5)}, {FLOATS(3, 2, 4), FLOATS(4, 0), FLOATS(0, 0), FLOATS(2, 0)}}},
    {"quantized_matmul", build_quantized_matmul, {{FLOATS(2, 10), NIBBLES(5, 6), FLOATS(5, 3), FLOATS(5, 3)}, {FLOATS(2, 0), NIBBLES(5, 0), FLOATS(5, 0), FLOATS(5, 0)}, {FLOATS(0, 10), NIBBLES(0, 6), FLOATS(0, 3), FLOATS(0, 3)}}},
    {"cross entropy", build_cross_entropy, {{FLOATS(4, 3), INDICES(3, 4)}, {FLOATS(0, 3), INDICES(3, 0)}}},
    {"smoothed cross entropy", build_cross_entropy_smoothed, {{FLOATS(4, 3), INDICES(3, 4)}, {FLOATS(0, 3), INDICES(3, 0)}}},
    {"binary cross entropy", build_binary_cross_entropy, {{FLOATS(4, 3), SHARES(4, 3)}, {FLOATS(0, 3), SHARES(0, 3)}}},
    {"mean squared error", build_mean_squared_error, {{FLOATS(4, 3), FLOATS(4, 3)}, {FLOATS(0, 3), FLOATS(0, 3)}}},
    {"huber", build_huber, {{FLOATS(4, 3), FLOATS(4, 3)}, {FLOATS(0, 3), FLOATS(0, 3)}}},
    {"one-hot", build_one_hot, {{INDICES(6, 5)}, {INDICES(6, 0)}, {INDICES(6, 2, 0)}}},
    {"layer norm", build_layer_norm, {{FLOATS(3, 4), FLOATS(4), FLOATS(4)}, {FLOATS(0, 4), FLOATS(4), FLOATS(4)}, {FLOATS(3, 0), FLOATS(0), FLOATS(0)}}},
    {"batch norm", build_batch_norm, {{FLOATS(2, 3, 4), FLOATS(3), SHARES(3), FLOATS(3)}, {FLOATS(0, 3, 4), FLOATS(3), SHARES(3), FLOATS(3)}, {FLOATS(2, 0, 4), FLOATS(0), SHARES(0), FLOATS(0)}}},
    {"batch norm in training", build_batch_norm_training, {{FLOATS(2, 3, 4), FLOATS(3), FLOATS(3)}, {FLOATS(2, 0, 4), FLOATS(0), FLOATS(0)}}},
    {"dropout", build_dropout, {{FLOATS(3, 5), {COMPUTE_I64, SCALAR, FILL_RANGE, 1, 9, LAYOUT_DENSE}}, {FLOATS(3, 0), {COMPUTE_I64, SCALAR, FILL_RANGE, 1, 9, LAYOUT_DENSE}}}},
    {"pad", build_pad, {{FLOATS(3, 4)}, {FLOATS(0, 4)}, {FLOATS(3, 0)}}},
    {"find_spots", build_find_spots, {{FLOATS(2, 17, 14)}}},
    {"upsample2d", build_upsample2d, {{FLOATS(2, 3, 4, 3)}, {FLOATS(0, 3, 4, 3)}}},
};
/* clang-format on */

enum { CASE_COUNT = sizeof cases / sizeof *cases };

static void check_case(const kind_case *c) {
  for (int i = 0; i < MOST_SAMPLES && c->samples[i][0].dtype != COMPUTE_DTYPE_NONE; i++) {
    operation_case sample = {
        .name = c->name, .build = c->build, .tolerance = {.ulp = 64, .atol = 1e-5, .rtol = 1e-5}};
    while (sample.operand_count < OPERATION_MAX_OPERANDS &&
           c->samples[i][sample.operand_count].dtype != COMPUTE_DTYPE_NONE) {
      sample.operand[sample.operand_count] = c->samples[i][sample.operand_count];
      sample.operand_count++;
    }
    operation_check_kinds(test_context, &sample);
  }
}

static void structural_operations_take_operands_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; i < CASE_COUNT; i++)
    if (i % test_spread() == 0) check_case(&cases[i]);
  operation_finish();
}

static void check_elementwise(const elementwise_row *row, compute_shape shape) {
  const compute_dtype *dtypes = operation_dtypes(row->domain);
  const compute_dtype dtype = dtypes[1] == COMPUTE_F32 ? COMPUTE_F32 : dtypes[0];
  operation_case sample = {.name = row->name,
                           .build = elementwise_build,
                           .user = row,
                           .operand_count = (size_t)row->arity,
                           .tolerance = operation_tolerance(dtype, row->ulp)};
  for (int i = 0; i < row->arity; i++)
    sample.operand[i] = (operation_operand){
        .dtype = dtype, .shape = shape, .fill = FILL_RANGE, .low = row->low, .high = row->high};
  if (row->arity == 3) sample.operand[0].dtype = COMPUTE_BOOL; /* select's condition */
  operation_check_kinds(test_context, &sample);
}

static void elementwise_operations_take_operands_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; elementwise_at(i) != NULL; i++) {
    if (i % test_spread() != 0) continue;
    check_elementwise(elementwise_at(i), COMPUTE_SHAPE(3, 5));
    check_elementwise(elementwise_at(i), COMPUTE_SHAPE(2, 0, 4));
    check_elementwise(elementwise_at(i), COMPUTE_SCALAR);
  }
  operation_finish();
}

/* Those without operands, without a value, or tested elsewhere (below, in tests/fit and
 * tests/plan). */
static bool is_exempt(const char *name) {
  static const char *const names[] = {"input", "parameter",    "constant", "index",      "assign",
                                      "group", "gaussian_fit", "call",     "call_result"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool is_covered(const char *name) {
  for (size_t i = 0; elementwise_at(i) != NULL; i++)
    if (strcmp(elementwise_at(i)->name, name) == 0) return true;
  for (size_t i = 0; i < CASE_COUNT; i++)
    if (strcmp(cases[i].name, name) == 0) return true;
  return is_exempt(name);
}

static void no_operation_is_forgotten(void **state) {
  (void)state;
  compute_operation_info info;
  for (size_t i = 0; compute_operation_at(i, &info) == COMPUTE_OK; i++)
    if (!is_covered(info.name)) fail_msg("%s has no sample here", info.name);
}

enum { ROIS = 3, SIDE = 7, FIT_ELEMENTS = ROIS * SIDE * SIDE };

/* The records of `rois` images, which are an input (0), a parameter (1) or a constant (2). */
static void fit(int kind, int64_t rois, float *records) {
  static const compute_fit_problem problem = {
      .model = COMPUTE_FIT_XYNB, .rows = SIDE, .columns = SIDE, .sigma = {1.3, 1.3}};
  float pixels[FIT_ELEMENTS];
  for (int i = 0; i < FIT_ELEMENTS; i++)
    pixels[i] = (float)(10 + (i % SIDE == 3 ? 40 : 0) + (i / SIDE % SIDE == 3 ? 40 : 0) + i % 5);
  const compute_shape shape = COMPUTE_SHAPE(rois, SIDE, SIDE);
  compute_graph *g = compute_graph_create(test_context);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, shape, pixels), *out = NULL;
  const compute_node x = kind == 0   ? compute_input(g, COMPUTE_F32, shape)
                         : kind == 1 ? compute_parameter(g, in)
                                     : compute_constant(g, COMPUTE_F32, shape, pixels);
  const compute_node y = compute_gaussian_fit(g, x, &problem, NULL);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}, {x, in}}, kind == 0 ? 2 : 1, NULL));
  if (rois > 0) assert_ok(compute_tensor_read(out, records, (size_t)compute_tensor_count(out) * 4));
  compute_tensor_release(out);
  compute_tensor_release(in);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void fits_take_images_of_every_kind(void **state) {
  (void)state;
  enum { MOST = ROIS * 64 };
  float expected[MOST] = {0}, records[MOST] = {0};
  fit(0, ROIS, expected);
  for (int kind = 0; kind < 3; kind++) {
    fit(kind, 0, records);
    fit(kind, ROIS, records);
    /* Constants are folded by the CPU, whose last bits may be others than the device's. */
    if (kind < 2) assert_memory_equal(records, expected, sizeof expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structural_operations_take_operands_of_every_kind),
      cmocka_unit_test(elementwise_operations_take_operands_of_every_kind),
      cmocka_unit_test(no_operation_is_forgotten),
      cmocka_unit_test(fits_take_images_of_every_kind),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
