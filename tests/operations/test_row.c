/* SPDX-License-Identifier: MIT */
/* softmax, log_softmax, normalize and layer_norm: along every axis, with long rows, rows of one
 * element, large logits, infinities and NaN. */
#include <math.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum row_kind { SOFTMAX, LOG_SOFTMAX, NORMALIZE, LAYER_NORM, FUSED } row_kind;

typedef struct row_case {
  row_kind kind;
  int32_t axis;
  double epsilon;
} row_case;

static const char *const kind_names[] = {"softmax", "log_softmax", "normalize", "layer_norm",
                                         "relu(softmax(2 x) - 0.01)"};

static compute_node build_row(compute_graph *graph, const compute_node *operands,
                              const void *user) {
  const row_case *c = user;
  const compute_node x = operands[0];
  switch (c->kind) {
  case SOFTMAX: return compute_softmax(graph, x, c->axis);
  case LOG_SOFTMAX: return compute_log_softmax(graph, x, c->axis);
  case NORMALIZE: return compute_normalize(graph, x, c->epsilon);
  case LAYER_NORM: return compute_layer_norm(graph, x, operands[1], operands[2], c->epsilon);
  case FUSED: break;
  }
  const compute_dtype dtype = compute_node_dtype(graph, x);
  const compute_node y = compute_softmax(graph, compute_add(graph, x, x), c->axis);
  return compute_relu(graph, compute_sub(graph, y, compute_scalar(graph, dtype, 0.01)));
}

/* The error of a row grows slowly with its length, the error of exp with its argument. */
static test_tolerance row_tolerance(compute_dtype dtype, row_kind kind, double range) {
  const double unit = dtype == COMPUTE_F64 ? 0x1p-48 : 0x1p-23;
  const double relative = kind == LOG_SOFTMAX ? 4 : 8 + range / 2;
  const double half = dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
  test_tolerance tolerance = {.ulp = 4, .rtol = relative * unit, .atol = 4 * unit};
  if (kind == LOG_SOFTMAX) tolerance.atol = 2 * range * unit;
  /* layer_norm and the fused chain are several operations. Without fusion, f16 and bf16 are rounded
   * between them. */
  if (kind == LAYER_NORM || kind == FUSED) {
    tolerance.rtol += 2 * half;
    tolerance.atol += 4 * half;
  }
  if (kind == NORMALIZE || kind == LAYER_NORM) tolerance.atol += 16 * unit;
  return tolerance;
}

static void check_row(row_kind kind, compute_shape shape, int32_t axis, test_fill fill,
                      double range, guarded_layout operand, guarded_layout result) {
  const row_case request = {kind, axis, 1e-5};
  const compute_shape last =
      shape.rank ? COMPUTE_SHAPE(shape.size[shape.rank - 1]) : COMPUTE_SCALAR;
  for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
    operation_case c = {.name = kind_names[kind],
                        .build = build_row,
                        .user = &request,
                        .operand_count = kind == LAYER_NORM ? 3 : 1,
                        .result_layout = result,
                        .tolerance = row_tolerance(*dtype, kind, range),
                        .operation = kind <= NORMALIZE ? kind_names[kind] : NULL};
    c.operand[0] = (operation_operand){*dtype, shape, fill, -range, range, operand};
    c.operand[1] = (operation_operand){*dtype, last, FILL_RANGE, 0.5, 1.5, LAYOUT_DENSE};
    c.operand[2] = (operation_operand){*dtype, last, FILL_RANGE, -1, 1, LAYOUT_DENSE};
    operation_check(test_context, &c);
  }
}

static void every_axis_of_softmax_matches(void **state) {
  (void)state;
  for (int kind = SOFTMAX; kind <= LOG_SOFTMAX; kind++) {
    for (int32_t axis = -1; axis < 3; axis++) {
      check_row((row_kind)kind, COMPUTE_SHAPE(7, 13, 31), axis, FILL_RANGE, 5, LAYOUT_DENSE,
                LAYOUT_DENSE);
      check_row((row_kind)kind, COMPUTE_SHAPE(7, 13, 31), axis, FILL_RANGE, 5, LAYOUT_TRANSPOSED,
                LAYOUT_STEPPED);
      check_row((row_kind)kind, COMPUTE_SHAPE(7, 13, 31), axis, FILL_RANGE, 5, LAYOUT_STEPPED,
                LAYOUT_TRANSPOSED);
    }
  }
  operation_finish();
}

static void rows_of_any_length_match(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 2, 3, 10, 64, 100, 1009, 20011};
  for (int kind = SOFTMAX; kind <= FUSED; kind++) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      check_row((row_kind)kind, COMPUTE_SHAPE(3, lengths[i]), -1, FILL_RANGE, 5, LAYOUT_DENSE,
                LAYOUT_DENSE);
      check_row((row_kind)kind, COMPUTE_SHAPE(3, lengths[i]), -1, FILL_RANGE, 5, LAYOUT_WRAPPED,
                LAYOUT_PADDED);
    }
    check_row((row_kind)kind, COMPUTE_SHAPE(0, 5), -1, FILL_RANGE, 5, LAYOUT_DENSE, LAYOUT_DENSE);
    check_row((row_kind)kind, COMPUTE_SHAPE(5, 0), -1, FILL_RANGE, 5, LAYOUT_DENSE, LAYOUT_DENSE);
    check_row((row_kind)kind, COMPUTE_SHAPE(77), -1, FILL_RANGE, 5, LAYOUT_STEPPED, LAYOUT_DENSE);
  }
  operation_finish();
}

static void large_logits_do_not_overflow(void **state) {
  (void)state;
  for (int kind = SOFTMAX; kind <= LOG_SOFTMAX; kind++) {
    check_row((row_kind)kind, COMPUTE_SHAPE(9, 57), -1, FILL_RANGE, 1000, LAYOUT_DENSE,
              LAYOUT_DENSE);
    check_row((row_kind)kind, COMPUTE_SHAPE(9, 57), -1, FILL_RANGE, 60000, LAYOUT_DENSE,
              LAYOUT_DENSE);
  }
  operation_finish();
}

/* Rows with NaN or infinity are NaN if the reference has NaN. Other rows are unaffected. */
static void special_values_stay_in_their_row(void **state) {
  (void)state;
  for (int kind = SOFTMAX; kind <= LOG_SOFTMAX; kind++)
    check_row((row_kind)kind, COMPUTE_SHAPE(64, 3), -1, FILL_SPECIAL, 5, LAYOUT_DENSE,
              LAYOUT_DENSE);
  operation_finish();
}

static void nan_and_infinity_spoil_only_their_row_of_normalize(void **state) {
  (void)state;
  float x[3][40], y[3][40];
  for (int i = 0; i < 40; i++) x[0][i] = x[1][i] = x[2][i] = (float)(i % 2);
  x[0][7] = NAN;
  x[2][39] = -INFINITY;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 40));
  const compute_node out = compute_normalize(graph, in, 0);
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 40), x);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 40), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{in, tx}, {out, ty}}, 2, NULL));
  assert_ok(compute_tensor_read(ty, y, sizeof y));
  for (int i = 0; i < 40; i++) {
    assert_true(isnan(y[0][i]) && isnan(y[2][i]));
    assert_true(y[1][i] == (i % 2 ? 1.0F : -1.0F));
  }
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_row_masked_with_minus_infinity_sums_to_one(void **state) {
  (void)state;
  const float logits[2][4] = {{1, -INFINITY, 1, -INFINITY}, {-INFINITY, -INFINITY, -INFINITY, 3}};
  const float expected[2][4] = {{0.5F, 0, 0.5F, 0}, {0, 0, 0, 1}};
  float result[2][4];
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 4));
  const compute_node y = compute_softmax(graph, x, -1);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 4), logits);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 4), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  assert_ok(compute_tensor_read(out, result, sizeof result));
  assert_memory_equal(result, expected, sizeof result);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* normalize subtracts the mean before it squares: a large offset must not hide the variance. */
static void normalize_survives_a_large_mean(void **state) {
  (void)state;
  test_values values = test_values_create(COMPUTE_F32, COMPUTE_SHAPE(4, 1000));
  test_random random = {3};
  for (int64_t i = 0; i < values.count; i++)
    test_values_set(&values, i, 10000 + test_random_uniform(&random, -1, 1));
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, values.shape);
  const compute_node y = compute_normalize(graph, x, 1e-5);
  const compute_node spread = compute_mean(graph, compute_square(graph, y), COMPUTE_AXES(1), false);
  compute_plan *plan = test_compile(graph, &spread, 1, 0);
  compute_tensor *in = test_tensor(test_context, COMPUTE_F32, values.shape, values.data);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {spread, out}}, 2, NULL));
  for (int64_t i = 0; i < 4; i++) assert_true(fabs(test_element(out, i) - 1) < 1e-3);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_values_release(&values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_axis_of_softmax_matches),
      cmocka_unit_test(rows_of_any_length_match),
      cmocka_unit_test(large_logits_do_not_overflow),
      cmocka_unit_test(special_values_stay_in_their_row),
      cmocka_unit_test(nan_and_infinity_spoil_only_their_row_of_normalize),
      cmocka_unit_test(a_row_masked_with_minus_infinity_sums_to_one),
      cmocka_unit_test(normalize_survives_a_large_mean),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
