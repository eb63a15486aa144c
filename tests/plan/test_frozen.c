/* SPDX-License-Identifier: MIT */
/* Frozen tensors: nothing writes to them, and plans share their prepacked weights. Ordinary
 * parameters have the same results. The bits do not depend on the number of rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { DEPTH = 700, WIDTH = 330, ROWS = 37 };

/* x [rows, DEPTH] · weights, where the weights may be views. */
static compute_plan *product_plan(compute_tensor *weights, int64_t rows, compute_node *x,
                                  compute_node *y) {
  compute_graph *graph = compute_graph_create(test_context);
  *x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(rows, DEPTH));
  *y = compute_matmul(graph, *x, compute_parameter(graph, weights));
  compute_plan *plan = test_compile(graph, y, 1, 0);
  compute_graph_release(graph);
  return plan;
}

static void multiply(compute_tensor *weights, compute_tensor *x, compute_tensor *y) {
  compute_node in, out;
  compute_plan *plan = product_plan(weights, compute_tensor_shape(x).size[0], &in, &out);
  const compute_binding bindings[] = {{in, x}, {out, y}};
  assert_ok(compute_run(plan, bindings, 2, NULL));
  compute_plan_release(plan);
}

static void expect_close(const compute_tensor *actual, const compute_tensor *expected) {
  const int64_t count = compute_tensor_count(actual);
  const size_t bytes = (size_t)count * sizeof(float);
  float *a = malloc(bytes), *b = malloc(bytes);
  assert_true(a && b);
  assert_ok(compute_tensor_read(actual, a, bytes));
  assert_ok(compute_tensor_read(expected, b, bytes));
  for (int64_t i = 0; i < count; i++) assert_true(fabsf(a[i] - b[i]) < 1e-4f);
  free(a);
  free(b);
}

/* The weights unchanged, transposed, and as a part of a larger tensor. */
static void products_are_those_of_other_parameters(void **state) {
  (void)state;
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 1);
  const compute_shape result = COMPUTE_SHAPE(ROWS, WIDTH);
  compute_tensor *frozen = test_tensor(test_context, COMPUTE_F32, result, NULL);
  compute_tensor *other = test_tensor(test_context, COMPUTE_F32, result, NULL);
  for (int form = 0; form < 3; form++) {
    compute_tensor *all = test_random_tensor(test_context, COMPUTE_F32,
                                             form == 0   ? COMPUTE_SHAPE(DEPTH, WIDTH)
                                             : form == 1 ? COMPUTE_SHAPE(WIDTH, DEPTH)
                                                         : COMPUTE_SHAPE(DEPTH, WIDTH + 9),
                                             2);
    compute_tensor *weights = all;
    if (form == 1)
      assert_ok(compute_tensor_transpose_view(all, (compute_axes){2, {1, 0}}, &weights));
    if (form == 2) assert_ok(compute_tensor_slice_view(all, 1, 5, WIDTH, 1, &weights));
    multiply(weights, x, other);
    compute_tensor_freeze(weights);
    assert_true(compute_tensor_is_frozen(all)); /* they share their memory */
    multiply(weights, x, frozen);
    expect_close(frozen, other);
    if (weights != all) compute_tensor_release(weights);
    compute_tensor_release(all);
  }
  compute_tensor_release(x);
  compute_tensor_release(frozen);
  compute_tensor_release(other);
}

/* A row has the same bits alone and among others. */
static void results_do_not_depend_on_the_number_of_rows(void **state) {
  static float together[ROWS][WIDTH], alone[WIDTH];
  (void)state;
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(DEPTH, WIDTH), 3);
  compute_tensor_freeze(weights);
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 4);
  compute_tensor *y = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, WIDTH), NULL);
  compute_tensor *one = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, WIDTH), NULL);
  multiply(weights, x, y);
  assert_ok(compute_tensor_read(y, together, sizeof together));
  for (int64_t row = 0; row < ROWS; row += 12) {
    compute_tensor *slice;
    assert_ok(compute_tensor_slice_view(x, 0, row, 1, 1, &slice));
    multiply(weights, slice, one);
    assert_ok(compute_tensor_read(one, alone, sizeof alone));
    assert_memory_equal(alone, together[row], sizeof alone);
    compute_tensor_release(slice);
  }
  compute_tensor_release(one);
  compute_tensor_release(y);
  compute_tensor_release(x);
  compute_tensor_release(weights);
}

static uint64_t bytes_active(void) {
  compute_pool_statistics pool;
  assert_ok(compute_pool_query(compute_default_device(test_context), &pool));
  return pool.bytes_active;
}

/* The second plan needs no memory for the weights. All of it is released with the weights. */
static void plans_share_what_is_packed(void **state) {
  (void)state;
  const uint64_t before = bytes_active();
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(DEPTH, WIDTH), 5);
  compute_tensor_freeze(weights);
  const uint64_t unpacked = bytes_active();
  compute_node x, y;
  compute_plan *first = product_plan(weights, 3, &x, &y);
  const uint64_t one = bytes_active();
  compute_plan *second = product_plan(weights, 20, &x, &y);
  assert_int_equal(bytes_active(), one);
  compute_plan_release(first);
  compute_plan_release(second);
  assert_int_equal(bytes_active(), one);
  assert_true(one >= unpacked);
  compute_tensor_release(weights);
  assert_int_equal(bytes_active(), before);
}

/* Constants are prepacked like frozen parameters, and released with their plan. */
static void constants_are_packed_with_their_plan(void **state) {
  static float data[DEPTH * WIDTH], expected[ROWS][WIDTH], seen[ROWS][WIDTH];
  (void)state;
  compute_tensor *weights =
      test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(DEPTH, WIDTH), 8);
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH), 9);
  compute_tensor *y = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, WIDTH), NULL);
  assert_ok(compute_tensor_read(weights, data, sizeof data));
  compute_tensor_freeze(weights);
  multiply(weights, x, y);
  assert_ok(compute_tensor_read(y, expected, sizeof expected));
  const uint64_t before = bytes_active();
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(ROWS, DEPTH));
  const compute_node constant =
      compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(DEPTH, WIDTH), data);
  const compute_node out = compute_matmul(graph, in, constant);
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_graph_release(graph);
  const compute_binding bindings[] = {{in, x}, {out, y}};
  for (int run = 0; run < 2; run++) {
    assert_ok(compute_run(plan, bindings, 2, NULL));
    assert_ok(compute_tensor_read(y, seen, sizeof seen));
    assert_memory_equal(seen, expected, sizeof seen);
  }
  char *text = NULL;
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "packed constant"));
  compute_text_free(text);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_true(info.constant_bytes >= 2 * sizeof data);
  compute_plan_release(plan);
  assert_int_equal(bytes_active(), before);
  compute_tensor_release(weights);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

/* Tries to write, assign, train, and bind as an output. */
static void nothing_writes_to_them(void **state) {
  (void)state;
  const compute_shape shape = COMPUTE_SHAPE(2, 3);
  static const float zeros[6];
  compute_tensor *tensor = test_random_tensor(test_context, COMPUTE_F32, shape, 6), *view,
                 *other = test_random_tensor(test_context, COMPUTE_F32, shape, 7);
  assert_ok(compute_tensor_slice_view(tensor, 0, 0, 1, 1, &view));
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node parameter = compute_parameter(graph, tensor);
  const compute_node value = compute_input(graph, COMPUTE_F32, shape);
  const compute_node outputs[] = {compute_assign(graph, parameter, value)};
  compute_plan *assigns = test_compile(graph, outputs, 1, 0);
  const compute_node copied = compute_neg(graph, value);
  compute_plan *writes = test_compile(graph, &copied, 1, 0);
  const compute_binding in = {value, other};
  assert_ok(compute_run(assigns, &in, 1, NULL));
  assert_false(compute_tensor_is_frozen(tensor));
  compute_tensor_freeze(tensor);
  compute_tensor_freeze(NULL);
  assert_false(compute_tensor_is_frozen(NULL));
  assert_true(compute_tensor_is_frozen(view));
  assert_fails(compute_tensor_write(tensor, zeros, sizeof zeros), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "frozen");
  assert_fails(compute_tensor_write(view, zeros, sizeof zeros / 2), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_tensor_copy(tensor, other), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_run(assigns, &in, 1, NULL), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "frozen");
  const compute_binding both[] = {{value, other}, {copied, tensor}};
  assert_fails(compute_run(writes, both, 2, NULL), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "frozen");
  compute_assign(graph, parameter, value);
  assert_int_equal(compute_graph_status(graph), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_plan_release(assigns);
  compute_plan_release(writes);
  compute_graph_release(graph);
  compute_tensor_release(view);
  compute_tensor_release(tensor);
  compute_tensor_release(other);
}

/* The first sum of 32 rows of 255 times columns of `weight`, with the plan's flags. */
static int32_t sum_of_bytes(int8_t weight, bool constant, uint32_t flags) {
  enum { M = 32, K = 64, N = 48 };
  uint8_t x[M * K];
  int8_t w[K * N];
  int32_t y[M * N];
  memset(x, 255, sizeof x);
  memset(w, weight, sizeof w);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(M, K)), none = {0};
  compute_tensor *frozen = test_tensor(test_context, COMPUTE_I8, COMPUTE_SHAPE(K, N), w);
  compute_tensor_freeze(frozen);
  const compute_node weights = constant
                                   ? compute_constant(graph, COMPUTE_I8, COMPUTE_SHAPE(K, N), w)
                                   : compute_parameter(graph, frozen);
  const compute_node out = compute_matmul_integer(graph, in, weights, none, none);
  compute_plan *plan = test_compile(graph, &out, 1, flags);
  compute_tensor *from = test_tensor(test_context, COMPUTE_U8, COMPUTE_SHAPE(M, K), x);
  compute_tensor *to = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(M, N), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{in, from}, {out, to}}, 2, NULL));
  assert_ok(compute_tensor_read(to, y, sizeof y));
  for (int i = 1; i < M * N; i++) assert_int_equal(y[i], y[0]);
  compute_tensor_release(from);
  compute_tensor_release(to);
  compute_tensor_release(frozen);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return y[0];
}

/* Plans choose instructions that saturate only for weights that exclude it. */
static void sums_of_bytes_saturate_only_on_request(void **state) {
  (void)state;
  static const int8_t weights[] = {64, -64, 65, 127, -128};
  for (size_t i = 0; i < sizeof weights; i++)
    for (int constant = 0; constant < 2; constant++) {
      const int32_t exact = 64 * 255 * weights[i];
      assert_int_equal(sum_of_bytes(weights[i], constant, 0), exact);
      const int32_t allowed = sum_of_bytes(weights[i], constant, COMPUTE_PLAN_ALLOW_SATURATION);
      const int32_t most = 32 * (weights[i] > 0 ? INT16_MAX : INT16_MIN);
      if (abs(weights[i]) <= 64)
        assert_int_equal(allowed, exact);
      else
        assert_true(allowed == exact || allowed == most);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_those_of_other_parameters),
      cmocka_unit_test(results_do_not_depend_on_the_number_of_rows),
      cmocka_unit_test(plans_share_what_is_packed),
      cmocka_unit_test(constants_are_packed_with_their_plan),
      cmocka_unit_test(nothing_writes_to_them),
      cmocka_unit_test(sums_of_bytes_saturate_only_on_request),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
