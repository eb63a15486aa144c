/* SPDX-License-Identifier: MIT */
/* Gradients that a difference quotient cannot check: ties, zeros, poles, NaN and paths that end.
 * Also the nodes that gradients add. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"

static compute_graph *graph;

static int create_graph(void **state) {
  (void)state;
  graph = compute_graph_create(test_context);
  return graph ? 0 : -1;
}

static int release_graph(void **state) {
  (void)state;
  compute_graph_release(graph);
  return 0;
}

static compute_node constant(int64_t count, const double *values) {
  return compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(count), values);
}

static compute_node total(compute_node x) {
  return compute_sum(graph, x, COMPUTE_ALL_AXES, false);
}

/* d(sum of y)/dx, checked element by element. An expected NaN must be NaN. */
static void expect_gradient(compute_node y, compute_node x, const double *expected) {
  compute_node gradient;
  evaluate_value value;
  char reason[256];
  assert_ok(compute_gradients(graph, total(y), &x, 1, &gradient));
  if (!graph_evaluate(graph, NULL, 0, &gradient, 1, &value, reason, sizeof reason)) {
    fail_msg("%s", reason);
  }
  for (int64_t i = 0; i < value.count; i++) {
    const double actual = evaluate_get(&value, i);
    if (!(fabs(actual - expected[i]) < 1e-12 || (isnan(actual) && isnan(expected[i])))) {
      fail_msg("element %lld: %g instead of %g", (long long)i, actual, expected[i]);
    }
  }
  evaluate_release(&value);
}

#define VALUES(...)  ((const double[]){__VA_ARGS__})
#define NOT_A_NUMBER ((double)NAN)

/* ---- Ties, zeros, poles -------------------------------------------------------------------- */

static void extremes_share_the_gradient_among_ties(void **state) {
  (void)state;
  compute_node x = constant(5, VALUES(3, 1, 3, 2, 3));
  const double third = 1.0 / 3;
  expect_gradient(compute_max(graph, x, COMPUTE_ALL_AXES, false), x,
                  VALUES(third, 0, third, 0, third));
  expect_gradient(compute_min(graph, x, COMPUTE_ALL_AXES, true), x, VALUES(0, 1, 0, 0, 0));
}

static void minimum_and_maximum_give_half_to_each_of_two_equals(void **state) {
  (void)state;
  compute_node a = constant(3, VALUES(1, 2, 3)), b = constant(3, VALUES(2, 2, 2));
  expect_gradient(compute_minimum(graph, a, b), a, VALUES(1, 0.5, 0));
  expect_gradient(compute_minimum(graph, a, b), b, VALUES(0, 0.5, 1));
  expect_gradient(compute_maximum(graph, a, b), a, VALUES(0, 0.5, 1));
  expect_gradient(compute_maximum(graph, a, b), b, VALUES(1, 0.5, 0));
  expect_gradient(compute_maximum(graph, a, a), a, VALUES(1, 1, 1));
}

static void products_know_their_zeros(void **state) {
  (void)state;
  compute_node x = constant(3, VALUES(2, 3, 4));
  expect_gradient(compute_prod(graph, x, COMPUTE_ALL_AXES, false), x, VALUES(12, 8, 6));
  x = constant(3, VALUES(2, 0, 4));
  expect_gradient(compute_prod(graph, x, COMPUTE_ALL_AXES, false), x, VALUES(0, 8, 0));
  x = constant(3, VALUES(0, 3, 0));
  expect_gradient(compute_prod(graph, x, COMPUTE_ALL_AXES, false), x, VALUES(0, 0, 0));
  x = compute_reshape(graph, constant(6, VALUES(2, 0, 3, 0, 5, 0)), COMPUTE_SHAPE(3, 2));
  expect_gradient(compute_prod(graph, x, COMPUTE_AXES(0), false), x, VALUES(15, 0, 10, 0, 6, 0));
}

static void powers_of_zero_have_finite_gradients(void **state) {
  (void)state;
  compute_node a = constant(4, VALUES(0, 0, 0, 2)), b = constant(4, VALUES(0, 1, 2, 0));
  expect_gradient(compute_pow(graph, a, b), a, VALUES(0, 1, 0, 0));
  expect_gradient(compute_pow(graph, a, b), b, VALUES(0, 0, 0, log(2)));
}

static void a_corner_has_the_derivative_that_torch_gives_it(void **state) {
  (void)state;
  compute_node x = constant(3, VALUES(-1, 0, 1));
  expect_gradient(compute_relu(graph, x), x, VALUES(0, 0, 1));
  expect_gradient(compute_abs(graph, x), x, VALUES(-1, 0, 1));
  expect_gradient(compute_leaky_relu(graph, x, 0.25), x, VALUES(0.25, 0.25, 1));
  expect_gradient(compute_elu(graph, x, 2), x, VALUES(2 * exp(-1), 2, 1));
}

static void large_arguments_do_not_become_nan(void **state) {
  (void)state;
  compute_node x = constant(4, VALUES(-1e200, -800, 800, 1e200));
  expect_gradient(compute_gelu(graph, x), x, VALUES(0, 0, 1, 1));
  expect_gradient(compute_gelu_tanh(graph, x), x, VALUES(0, 0, 1, 1));
  expect_gradient(compute_sigmoid(graph, x), x, VALUES(0, 0, 0, 0));
  expect_gradient(compute_silu(graph, x), x, VALUES(0, 0, 1, 1));
  expect_gradient(compute_softplus(graph, x), x, VALUES(0, 0, 1, 1));
  expect_gradient(compute_tanh(graph, x), x, VALUES(0, 0, 0, 0));
  expect_gradient(compute_erf(graph, x), x, VALUES(0, 0, 0, 0));
  expect_gradient(compute_elu(graph, x, 1), x, VALUES(0, 0, 1, 1));
}

static void nan_does_not_stop_a_gradient_unseen(void **state) {
  (void)state;
  compute_node x = constant(2, VALUES(NOT_A_NUMBER, -1)), b = constant(2, VALUES(1, 1));
  expect_gradient(compute_relu(graph, x), x, VALUES(1, 0));
  expect_gradient(compute_mul(graph, x, b), b, VALUES(NOT_A_NUMBER, -1));
  /* The branch that select does not take contributes nothing, even if it is NaN. */
  compute_node valid = compute_equal(graph, x, x);
  expect_gradient(compute_select(graph, valid, x, b), x, VALUES(0, 1));
}

/* ---- Paths --------------------------------------------------------------------------------- */

static bool is_zero_constant(compute_node node, compute_dtype dtype, compute_shape shape) {
  const graph_node *n = &graph->nodes[node.id - 1];
  const unsigned char zeros[8] = {0};
  return n->op == OP_constant && n->uniform && n->dtype == dtype &&
         compute_shape_equal(n->shape, shape) &&
         !memcmp(n->constant, zeros, compute_dtype_size(dtype));
}

static void what_the_loss_does_not_depend_on_gets_zeros(void **state) {
  (void)state;
  compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  compute_node other = compute_input(graph, COMPUTE_F16, COMPUTE_SHAPE(2, 2));
  compute_node loss = total(x);
  compute_node later = compute_input(graph, COMPUTE_F64, COMPUTE_SCALAR), gradients[2];
  const compute_node of[] = {other, later};
  assert_ok(compute_gradients(graph, loss, of, 2, gradients));
  assert_true(is_zero_constant(gradients[0], COMPUTE_F16, COMPUTE_SHAPE(2, 2)));
  assert_true(is_zero_constant(gradients[1], COMPUTE_F64, COMPUTE_SCALAR));
}

static void step_functions_give_zeros(void **state) {
  (void)state;
  compute_node (*const steps[])(compute_graph *, compute_node) = {
      compute_sign, compute_floor, compute_ceil, compute_round, compute_trunc};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3)), gradient;
    compute_node y = compute_exp(graph, steps[i](graph, compute_tanh(graph, x)));
    assert_ok(compute_gradients(graph, total(y), &x, 1, &gradient));
    assert_true(is_zero_constant(gradient, COMPUTE_F32, COMPUTE_SHAPE(3)));
  }
}

static void a_path_around_a_blocking_operation_is_enough(void **state) {
  (void)state;
  compute_node x = constant(3, VALUES(-1, 2, 3));
  compute_node positive = compute_cast(
      graph, compute_greater(graph, x, compute_scalar(graph, COMPUTE_F64, 0)), COMPUTE_F64);
  expect_gradient(compute_mul(graph, x, positive), x, VALUES(0, 1, 1));
  compute_node best = compute_argmax(graph, x, 0, true);
  expect_gradient(compute_gather(graph, x, best, 0), x, VALUES(0, 0, 1));
}

static void nothing_but_a_blocked_path_is_an_error_that_names_the_operation(void **state) {
  (void)state;
  compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3)), gradient = x;
  compute_node whole = compute_cast(graph, compute_exp(graph, x), COMPUTE_I32);
  compute_node loss = total(compute_cast(graph, whole, COMPUTE_F32));
  assert_fails(compute_gradients(graph, loss, &x, 1, &gradient), COMPUTE_ERROR_NOT_DIFFERENTIABLE);
  test_check_message(test_context, "only through cast with a result in i32");
  assert_false(compute_node_is_valid(gradient));
}

static void the_loss_and_nodes_between_have_gradients_too(void **state) {
  (void)state;
  compute_node x = constant(2, VALUES(1, 2)), y = compute_square(graph, x), loss = total(y);
  const compute_node of[] = {loss, y, x, x};
  compute_node gradients[4];
  evaluate_value values[4];
  char reason[64];
  assert_ok(compute_gradients(graph, loss, of, 4, gradients));
  assert_true(graph_evaluate(graph, NULL, 0, gradients, 4, values, reason, sizeof reason));
  assert_true(evaluate_get(&values[0], 0) == 1);
  assert_true(evaluate_get(&values[1], 1) == 1);
  assert_true(evaluate_get(&values[2], 1) == 4 && evaluate_get(&values[3], 1) == 4);
  for (int i = 0; i < 4; i++) evaluate_release(&values[i]);
}

static void no_gradients_of_nothing(void **state) {
  (void)state;
  compute_node loss = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 1));
  assert_ok(compute_gradients(graph, loss, NULL, 0, NULL));
  assert_int_equal(graph->count, 1);
}

/* ---- Added nodes --------------------------------------------------------------------------- */

static void only_what_lies_between_is_walked(void **state) {
  (void)state;
  compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 3)), gradient;
  compute_node features = x;
  for (int i = 0; i < 50; i++) features = compute_tanh(graph, features);
  compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 2));
  compute_node loss = total(compute_matmul(graph, features, w));
  const size_t before = graph->count;
  assert_ok(compute_gradients(graph, loss, &w, 1, &gradient));
  assert_in_range(graph->count - before, 1, 6);
}

static void a_dense_layers_weights_need_one_product_for_all_batches(void **state) {
  (void)state;
  compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(8, 5, 3));
  compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 2)), gradient;
  compute_node loss = total(compute_matmul(graph, x, w));
  assert_ok(compute_gradients(graph, loss, &w, 1, &gradient));
  const graph_node *node = &graph->nodes[gradient.id - 1];
  assert_int_equal(node->op, OP_matmul);
  assert_true(compute_shape_equal(graph->nodes[node->inputs[0]].shape, COMPUTE_SHAPE(3, 40)));
}

static void low_precision_calculates_in_f32_and_rounds_once(void **state) {
  (void)state;
  compute_node x = compute_input(graph, COMPUTE_BF16, COMPUTE_SHAPE(7)), gradient;
  compute_node loss = compute_mean(graph, compute_gelu(graph, x), COMPUTE_ALL_AXES, false);
  const size_t before = graph->count;
  assert_ok(compute_gradients(graph, loss, &x, 1, &gradient));
  assert_int_equal(compute_node_dtype(graph, gradient), COMPUTE_BF16);
  for (size_t i = before; i < graph->count; i++) {
    const graph_node *node = &graph->nodes[i];
    if (graph_op_describe(node->op)->category != CATEGORY_ELEMENTWISE) continue;
    assert_int_equal(node->dtype, COMPUTE_F32);
  }
}

#define GRAPH_TEST(test) cmocka_unit_test_setup_teardown(test, create_graph, release_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      GRAPH_TEST(extremes_share_the_gradient_among_ties),
      GRAPH_TEST(minimum_and_maximum_give_half_to_each_of_two_equals),
      GRAPH_TEST(products_know_their_zeros),
      GRAPH_TEST(powers_of_zero_have_finite_gradients),
      GRAPH_TEST(a_corner_has_the_derivative_that_torch_gives_it),
      GRAPH_TEST(large_arguments_do_not_become_nan),
      GRAPH_TEST(nan_does_not_stop_a_gradient_unseen),
      GRAPH_TEST(what_the_loss_does_not_depend_on_gets_zeros),
      GRAPH_TEST(step_functions_give_zeros),
      GRAPH_TEST(a_path_around_a_blocking_operation_is_enough),
      GRAPH_TEST(nothing_but_a_blocked_path_is_an_error_that_names_the_operation),
      GRAPH_TEST(the_loss_and_nodes_between_have_gradients_too),
      GRAPH_TEST(no_gradients_of_nothing),
      GRAPH_TEST(only_what_lies_between_is_walked),
      GRAPH_TEST(a_dense_layers_weights_need_one_product_for_all_batches),
      GRAPH_TEST(low_precision_calculates_in_f32_and_rounds_once),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
