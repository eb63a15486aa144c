/* SPDX-License-Identifier: MIT */
/* Every gradient rule compared with central differences in double by the reference evaluator. This
 * checks the mathematics of the rules before any kernel. The loss is a weighted sum of the result
 * with different weights, so that a wrong rule with the right total fails. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"
#include "support/harness/values.h"
#include "support/samples/operation_samples.h"

enum {
  MOST_OPERANDS = OPERATION_MAX_OPERANDS,
  MOST_ELEMENTS = 512,
  MOST_BINDINGS = MOST_OPERANDS + 1
};

/* A graph with its loss and gradients, and the values of its bindings. */
typedef struct subject {
  compute_graph *graph;
  compute_node x[MOST_OPERANDS], weights, loss;
  /* The operands with gradients: their indices, nodes and gradients. */
  size_t variables, operand[MOST_OPERANDS];
  compute_node of[MOST_OPERANDS], gradients[MOST_OPERANDS];
  double values[MOST_BINDINGS][MOST_ELEMENTS];
  evaluate_binding bindings[MOST_BINDINGS];
  size_t binding_count;
} subject;

static int64_t count_of(compute_shape shape) {
  int64_t count = -1;
  assert_ok(compute_shape_count(shape, &count));
  assert_in_range(count, 0, MOST_ELEMENTS);
  return count;
}

static void bind_random(subject *s, compute_node node, double low, double high, uint64_t seed) {
  test_random random = {.state = seed};
  const size_t at = s->binding_count++;
  const int64_t count = count_of(compute_node_shape(s->graph, node));
  const compute_dtype dtype = compute_node_dtype(s->graph, node);
  const bool whole = dtype == COMPUTE_I64 || dtype == COMPUTE_I32 || dtype == COMPUTE_U8;
  for (int64_t i = 0; i < count; i++) {
    const double value = test_random_uniform(&random, low, whole ? high + 1 : high);
    s->values[at][i] = whole ? floor(value) : value;
  }
  s->bindings[at] = (evaluate_binding){.node = node, .real = s->values[at]};
}

/* f64 operands take the dtype under test and have gradients; other operands keep their dtype. */
static bool is_variable(const operation_case *c, size_t operand) {
  return c->operand[operand].dtype == COMPUTE_F64;
}

static void prepare(subject *s, const operation_case *c, compute_dtype dtype) {
  memset(s, 0, sizeof *s);
  s->graph = compute_graph_create(test_context);
  assert_non_null(s->graph);
  for (size_t k = 0; k < c->operand_count; k++) {
    const operation_operand *o = &c->operand[k];
    s->x[k] = compute_input(s->graph, is_variable(c, k) ? dtype : o->dtype, o->shape);
    bind_random(s, s->x[k], o->low, o->high, k + 1);
    if (!is_variable(c, k)) continue;
    s->operand[s->variables] = k;
    s->of[s->variables++] = s->x[k];
  }
  compute_node y = c->build(s->graph, s->x, c->user);
  if (compute_graph_status(s->graph))
    fail_msg("%s: %s", c->name, compute_error_message(test_context));
  s->weights =
      compute_input(s->graph, compute_node_dtype(s->graph, y), compute_node_shape(s->graph, y));
  bind_random(s, s->weights, 0.5, 1.5, 77);
  compute_node product = compute_mul(s->graph, y, s->weights);
  s->loss = compute_sum(s->graph, product, COMPUTE_ALL_AXES, false);
  if (compute_gradients(s->graph, s->loss, s->of, s->variables, s->gradients))
    fail_msg("%s: %s", c->name, compute_error_message(test_context));
  for (size_t k = 0; k < s->variables; k++) {
    assert_true(compute_shape_equal(compute_node_shape(s->graph, s->gradients[k]),
                                    c->operand[s->operand[k]].shape));
    assert_int_equal(compute_node_dtype(s->graph, s->gradients[k]), dtype);
  }
}

static void evaluate(const subject *s, const compute_node *outputs, size_t count,
                     evaluate_value *results) {
  char reason[256];
  if (!graph_evaluate(s->graph, s->bindings, s->binding_count, outputs, count, results, reason,
                      sizeof reason)) {
    fail_msg("%s", reason);
  }
}

static double loss_of(const subject *s) {
  evaluate_value value;
  evaluate(s, &s->loss, 1, &value);
  const double loss = evaluate_get(&value, 0);
  evaluate_release(&value);
  return loss;
}

static double central_difference(subject *s, size_t operand, int64_t element) {
  const double step = 1e-6;
  double *value = &s->values[operand][element];
  const double middle = *value;
  *value = middle + step;
  const double above = loss_of(s);
  *value = middle - step;
  const double below = loss_of(s);
  *value = middle;
  return (above - below) / (2 * step);
}

static void check_differences(const operation_case *c) {
  subject s;
  evaluate_value found[MOST_OPERANDS];
  prepare(&s, c, COMPUTE_F64);
  evaluate(&s, s.gradients, s.variables, found);
  for (size_t k = 0; k < s.variables; k++) {
    for (int64_t i = 0; i < found[k].count; i++) {
      const double expected = central_difference(&s, s.operand[k], i),
                   actual = evaluate_get(&found[k], i);
      if (!(fabs(actual - expected) <= 1e-7 + 1e-6 * fabs(expected))) {
        fail_msg("%s: operand %zu, element %lld: gradient %.12g, difference %.12g", c->name,
                 s.operand[k], (long long)i, actual, expected);
      }
    }
    evaluate_release(&found[k]);
  }
  compute_graph_release(s.graph);
}

/* The graph in another dtype gives the same gradients apart from the rounding of its casts. */
static void check_dtype(const operation_case *c, compute_dtype dtype, double tolerance) {
  subject wide, narrow;
  evaluate_value expected[MOST_OPERANDS], actual[MOST_OPERANDS];
  prepare(&wide, c, COMPUTE_F64);
  prepare(&narrow, c, dtype);
  evaluate(&wide, wide.gradients, wide.variables, expected);
  evaluate(&narrow, narrow.gradients, narrow.variables, actual);
  for (size_t k = 0; k < wide.variables; k++) {
    double largest = 0;
    for (int64_t i = 0; i < expected[k].count; i++) {
      largest = fmax(largest, fabs(evaluate_get(&expected[k], i)));
    }
    for (int64_t i = 0; i < expected[k].count; i++) {
      const double e = evaluate_get(&expected[k], i), a = evaluate_get(&actual[k], i);
      if (!(fabs(a - e) <= tolerance * (largest + 1e-3))) {
        fail_msg("%s in %s: operand %zu, element %lld: %g instead of %g", c->name,
                 compute_dtype_name(dtype), wide.operand[k], (long long)i, a, e);
      }
    }
    evaluate_release(&expected[k]);
    evaluate_release(&actual[k]);
  }
  compute_graph_release(wide.graph);
  compute_graph_release(narrow.graph);
}

static void check(const operation_case *c) {
  check_differences(c);
  check_dtype(c, COMPUTE_F32, 1e-6);
  check_dtype(c, COMPUTE_F16, 4e-3);
  check_dtype(c, COMPUTE_BF16, 3e-2);
}

/* ---- Elementwise: every differentiable row of ops.def -------------------------------------- */

#define APPLY_1(name) compute_##name(graph, x[0])
#define APPLY_2(name) compute_##name(graph, x[0], x[1])
#define APPLY_3(name) compute_##name(graph, condition_like(graph, x[1]), x[0], x[1])

/* A condition that is true in some places, broadcast along the first axis. */
static compute_node condition_like(compute_graph *graph, compute_node like) {
  compute_shape shape = compute_node_shape(graph, like);
  if (shape.rank > 0) shape.size[0] = 1;
  compute_node position = compute_scalar(graph, COMPUTE_I32, 0);
  if (shape.rank > 0) position = compute_index(graph, COMPUTE_I32, shape, -1);
  compute_node two = compute_scalar(graph, COMPUTE_I32, 2);
  return compute_cast(graph, compute_mod(graph, position, two), COMPUTE_BOOL);
}

#define ELEMENTWISE(name, arity, ...)                                                              \
  static compute_node apply_##name(compute_graph *graph, const compute_node *x,                    \
                                   const void *user) {                                             \
    (void)user;                                                                                    \
    return APPLY_##arity(name);                                                                    \
  }
#define SCALED(name, ...)                                                                          \
  static compute_node apply_##name(compute_graph *graph, const compute_node *x,                    \
                                   const void *user) {                                             \
    (void)user;                                                                                    \
    return compute_##name(graph, x[0], 0.3);                                                       \
  }
#include "graph/ops.def"

static operation_builder *const elementwise[OP_COUNT] = {
#define ELEMENTWISE(name, ...) [OP_##name] = apply_##name,
#define SCALED(name, ...)      [OP_##name] = apply_##name,
#include "graph/ops.def"
};

static void every_elementwise_rule_agrees_with_differences(void **state) {
  (void)state;
  const compute_shape pairs[][2] = {
      {COMPUTE_SCALAR, COMPUTE_SCALAR},           {COMPUTE_SHAPE(7), COMPUTE_SHAPE(7)},
      {COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(4)},    {COMPUTE_SHAPE(3, 1), COMPUTE_SHAPE(2, 1, 4)},
      {COMPUTE_SHAPE(1, 5), COMPUTE_SHAPE(5, 1)}, {COMPUTE_SHAPE(1), COMPUTE_SHAPE(2, 2, 2)},
      {COMPUTE_SHAPE(0, 3), COMPUTE_SHAPE(3)},
  };
  int checked = 0;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const graph_op_info *info = graph_op_describe((graph_op)op);
    if (!elementwise[op] || !info->differentiable) continue;
    /* At the ends of their range, exponentials leave a difference quotient no digits. */
    const double low = fmax(info->low, -6), high = fmin(info->high, 6);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
      const operation_case c = {
          .name = info->name,
          .build = elementwise[op],
          .operand = {{COMPUTE_F64, pairs[i][0], FILL_RANGE, low, high, LAYOUT_DENSE},
                      {COMPUTE_F64, pairs[i][1], FILL_RANGE, low, high, LAYOUT_DENSE}},
          .operand_count = info->arity == 1 ? 1 : 2};
      check(&c);
      checked++;
    }
  }
  assert_true(checked >= 30 * 7);
}

/* ---- Others: the rows DERIVATIVE of tests/operations.def ----------------------------------- */

/* The gradient of Σ y² by the first operand. */
static compute_node build_second(compute_graph *graph, const compute_node *x, const void *user) {
  const operation_sample *row = user;
  const compute_node y = row->build(graph, x, NULL);
  const compute_node loss = compute_sum(graph, compute_mul(graph, y, y), COMPUTE_ALL_AXES, false);
  compute_node gradient = {0};
  compute_gradients(graph, loss, x, 1, &gradient);
  return gradient;
}

static void every_structural_rule_agrees_with_differences(void **state) {
  (void)state;
  const operation_sample *row;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    if (!(row->uses & OPERATION_DERIVATIVE)) continue;
    operation_case sample = operation_sample_derivative(row);
    check(&sample);
    if (!(row->uses & OPERATION_AGAIN)) continue;
    sample.build = build_second;
    sample.user = row;
    check_differences(&sample);
  }
}

/* find_spots takes no f64, and the functions of call have no reference. tests/fit and tests/plan
 * check their gradients. */
static bool has_row(const char *operation) {
  const operation_sample *row;
  if (!strcmp(operation, "find_spots") || !strncmp(operation, "call", 4)) return true;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++)
    if (row->uses & OPERATION_DERIVATIVE && strcmp(row->operation, operation) == 0) return true;
  return false;
}

static void no_rule_is_forgotten(void **state) {
  (void)state;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const graph_op_info *info = graph_op_describe((graph_op)op);
    if (info->differentiable && !elementwise[op] && !has_row(info->name))
      fail_msg("%s has no row DERIVATIVE in tests/operations.def", info->name);
  }
}

/* The gradients of the sum of scatter's result, for data [3] and updates [5]; or, with a direction
 * [8], the product of the Hessian with it. */
static void check_scatter(compute_scatter_mode mode, const float *data, const float *updates,
                          const float *direction, const float *expected) {
  static const int64_t places[] = {0, 0, 1, 2, 2};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x[2] = {compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3)),
                             compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5))};
  const compute_node y = compute_scatter(
      graph, x[0], x[1], compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE(5), places), 0, mode);
  compute_node gradients[2] = {{0}};
  compute_gradients(graph, compute_sum(graph, y, COMPUTE_ALL_AXES, false), x, 2, gradients);
  compute_node out = compute_concat(graph, gradients, 2, 0);
  if (direction) {
    const compute_node along = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(8), direction);
    const compute_node slope =
        compute_sum(graph, compute_mul(graph, out, along), COMPUTE_ALL_AXES, false);
    compute_gradients(graph, slope, x, 2, gradients);
    out = compute_concat(graph, gradients, 2, 0);
  }
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  const compute_binding bindings[] = {
      {x[0], test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), data)},
      {x[1], test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(5), updates)},
      {out, test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(8), NULL)}};
  float seen[8];
  assert_ok(compute_run(plan, bindings, 3, NULL));
  assert_ok(compute_tensor_read(bindings[2].tensor, seen, sizeof seen));
  for (int i = 0; i < 8; i++) assert_float_equal(seen[i], expected[i], 1e-6);
  for (int i = 0; i < 3; i++) compute_tensor_release(bindings[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* A product with zero factors, and equal extrema. */
static void scattered_zeros_and_ties_have_gradients(void **state) {
  (void)state;
  check_scatter(COMPUTE_SCATTER_MUL, (const float[]){2, 0, 3}, (const float[]){5, 0, 7, 0, 0}, NULL,
                (const float[]){0, 7, 0, 0, 10, 0, 0, 0});
  check_scatter(COMPUTE_SCATTER_MAX, (const float[]){1, 4, 2}, (const float[]){1, 1, 3, 2, 0}, NULL,
                (const float[]){1 / 3.0f, 1, 0.5f, 1 / 3.0f, 1 / 3.0f, 0, 0.5f, 0});
}

/* d0 u0 u1 + d1 u2 + d2 u3 u4, where u1, d1, u3 and u4 are 0. */
static void scattered_zeros_have_second_derivatives(void **state) {
  (void)state;
  check_scatter(COMPUTE_SCATTER_MUL, (const float[]){2, 0, 3}, (const float[]){5, 0, 7, 0, 0},
                (const float[]){1, 2, 3, 4, 5, 6, 7, 8},
                (const float[]){25, 6, 0, 10, 13, 2, 24, 21});
}

/* The result is a first derivative, so that the rules themselves are differentiated. */
static compute_node second_derivative(compute_graph *graph, const compute_node *x,
                                      const void *user) {
  (void)user;
  compute_node h = compute_softmax(graph, compute_matmul(graph, x[0], x[1]), 1);
  compute_node y = compute_mul(graph, compute_tanh(graph, h), compute_gelu(graph, h));
  compute_node loss = compute_sum(graph, y, COMPUTE_ALL_AXES, false), gradient;
  compute_gradients(graph, loss, x, 1, &gradient);
  return gradient;
}

static void gradients_can_be_differentiated(void **state) {
  (void)state;
  const operation_case c = {
      .name = "second derivative",
      .build = second_derivative,
      .operand = {{COMPUTE_F64, SHAPE(3, 4), FILL_RANGE, -1, 1, LAYOUT_DENSE},
                  {COMPUTE_F64, SHAPE(4, 3), FILL_RANGE, -1, 1, LAYOUT_DENSE}},
      .operand_count = 2};
  check_differences(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_rule_agrees_with_differences),
      cmocka_unit_test(every_structural_rule_agrees_with_differences),
      cmocka_unit_test(no_rule_is_forgotten),
      cmocka_unit_test(scattered_zeros_and_ties_have_gradients),
      cmocka_unit_test(scattered_zeros_have_second_derivatives),
      cmocka_unit_test(gradients_can_be_differentiated),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
