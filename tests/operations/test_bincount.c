/* SPDX-License-Identifier: MIT */
/* bincount: every integer dtype, weights of every float dtype, all axes and layouts, refused calls,
 * and values outside the bins. */
#include "support/harness/operation.h"
#include "support/harness/test.h"

static const compute_node none;

typedef struct bincount_case {
  compute_shape x;
  int32_t axis;
  int64_t bins;
} bincount_case;

static const bincount_case cases[] = {
    {SHAPE(50), 0, 7},       {SHAPE(7, 13), 1, 20},    {SHAPE(7, 13), 0, 3},
    {SHAPE(5, 40, 3), 1, 9}, {SHAPE(5, 40, 3), -1, 1}, {SHAPE(4, 0), 1, 5},
    {SHAPE(0, 4), 1, 5},     {SHAPE(1000), 0, 100},    {SHAPE(3, 300), 1, 100},
};

static compute_node build_counts(compute_graph *graph, const compute_node *x, const void *user) {
  const bincount_case *c = user;
  return compute_bincount(graph, x[0], none, c->bins, c->axis);
}

static compute_node build_sums(compute_graph *graph, const compute_node *x, const void *user) {
  const bincount_case *c = user;
  return compute_bincount(graph, x[1], x[0], c->bins, c->axis);
}

static void check_counts(const bincount_case *c, compute_dtype dtype, guarded_layout layout,
                         guarded_layout result) {
  const operation_case sample = {
      .name = "bincount",
      .build = build_counts,
      .user = c,
      .operand = {{dtype, c->x, FILL_RANGE, 0, (double)c->bins - 1, layout}},
      .operand_count = 1,
      .result_layout = result,
      .operation = "bincount"};
  operation_check(test_context, &sample);
}

static void check_sums(const bincount_case *c, compute_dtype dtype, compute_dtype index,
                       guarded_layout layout, guarded_layout result) {
  const operation_case sample = {
      .name = "weighted bincount",
      .build = build_sums,
      .user = c,
      .operand = {{dtype, c->x, FILL_RANGE, -8, 8, layout},
                  {index, c->x, FILL_RANGE, 0, (double)c->bins - 1, layout}},
      .operand_count = 2,
      .result_layout = result,
      /* Terms may cancel, and sums of f32 have its rounding. */
      .tolerance = {4, dtype == COMPUTE_F64 ? 0x1p-45 : 0x1p-17, 0}};
  operation_check(test_context, &sample);
}

static void every_shape_and_dtype_matches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (const compute_dtype *dtype = operation_dtypes("integer"); *dtype; dtype++)
      check_counts(&cases[i], *dtype, LAYOUT_DENSE, LAYOUT_DENSE);
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      check_sums(&cases[i], *dtype, COMPUTE_I64, LAYOUT_DENSE, LAYOUT_DENSE);
      check_sums(&cases[i], *dtype, COMPUTE_U8, LAYOUT_DENSE, LAYOUT_DENSE);
    }
  }
  operation_finish();
}

static void every_layout_matches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++) {
      const guarded_layout given = (guarded_layout)layout,
                           result = (guarded_layout)(LAYOUT_COUNT - layout);
      check_counts(&cases[i], COMPUTE_I32, given, result);
      check_sums(&cases[i], COMPUTE_F32, COMPUTE_I32, given, result);
    }
  operation_finish();
}

/* ---- Refusals ------------------------------------------------------------------------------ */

#define INPUT(dtype, ...) compute_input(graph, COMPUTE_##dtype, COMPUTE_SHAPE(__VA_ARGS__))

#define REFUSED(status, call)                                                                      \
  do {                                                                                             \
    compute_graph *graph = compute_graph_create(test_context);                                     \
    assert_false(compute_node_is_valid(call));                                                     \
    assert_fails(compute_graph_status(graph), status);                                             \
    compute_graph_release(graph);                                                                  \
  } while (0)

static void wrong_calls_are_refused(void **state) {
  (void)state;
  REFUSED(COMPUTE_ERROR_DTYPE, compute_bincount(graph, INPUT(F32, 4), none, 5, 0));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_bincount(graph, INPUT(BOOL, 4), none, 5, 0));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_bincount(graph, INPUT(I32, 4), INPUT(I32, 4), 5, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_bincount(graph, INPUT(I32, 4), INPUT(F32, 5), 5, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_bincount(graph, INPUT(I32, 4, 2), INPUT(F32, 4, 1), 5, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_bincount(graph, INPUT(I32, 4), none, 5, 1));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_bincount(graph, INPUT(I32, 4), none, 0, 0));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_bincount(graph, INPUT(U8, 4), none, -1, 0));
}

/* ---- Values outside ------------------------------------------------------------------------ */

static void run_values(compute_plan *plan, compute_node x, compute_node y, compute_dtype dtype,
                       int64_t value, compute_status expected) {
  compute_tensor *in = NULL, *out = NULL;
  int64_t values[3] = {1, value, 0};
  int32_t narrow[3] = {1, (int32_t)value, 0};
  in = test_tensor(test_context, dtype, COMPUTE_SHAPE(3),
                   dtype == COMPUTE_I32 ? (const void *)narrow : values);
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  const compute_binding bindings[] = {{x, in}, {y, out}};
  const compute_status status = compute_run(plan, bindings, 2, NULL);
  assert_int_equal(status, expected);
  compute_error_clear(test_context);
  if (status == COMPUTE_OK)
    for (int64_t i = 0; i < 4; i++) assert_true(test_element(out, i) == (i < 2) + (i == value));
  compute_tensor_release(in);
  compute_tensor_release(out);
}

static void a_value_outside_fails_the_run_and_only_it(void **state) {
  (void)state;
  static const int64_t bad[] = {4,         -1,        INT32_MAX,       INT32_MIN,
                                INT64_MAX, INT64_MIN, INT64_C(1) << 32};
  static const compute_dtype dtypes[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U64};
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, dtypes[k], COMPUTE_SHAPE(3));
    const compute_node y = compute_bincount(graph, x, none, 4, 0);
    compute_plan *plan = test_compile(graph, &y, 1, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      if (dtypes[k] == COMPUTE_I32 && bad[i] != (int32_t)bad[i]) continue;
      run_values(plan, x, y, dtypes[k], bad[i], COMPUTE_ERROR_INDEX);
      run_values(plan, x, y, dtypes[k], 3, COMPUTE_OK);
    }
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape_and_dtype_matches),
      cmocka_unit_test(every_layout_matches),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(a_value_outside_fails_the_run_and_only_it),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
