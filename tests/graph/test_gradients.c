/* SPDX-License-Identifier: MIT */
/* Every gradient rule against central differences in double, by the reference evaluator: the rules
 * as mathematics, before any kernel. The loss is a weighted sum of the result, with weights that
 * differ, so that a rule cannot be right by summing to the right total. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"
#include "support/harness/values.h"

enum { MOST_OPERANDS = 3, MOST_ELEMENTS = 128, MOST_BINDINGS = MOST_OPERANDS + 1 };

/* Builds the result under test from operands of any float dtype. */
typedef compute_node build_function(compute_graph *graph, const compute_node *x);

typedef struct gradient_case {
  const char *name;
  build_function *build;
  int count;
  compute_shape shape[MOST_OPERANDS];
  double low, high;
} gradient_case;

/* A graph with its loss and gradients, and values for what is bound. */
typedef struct subject {
  compute_graph *graph;
  compute_node x[MOST_OPERANDS], weights, loss, gradients[MOST_OPERANDS];
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
  for (int64_t i = 0; i < count; i++) s->values[at][i] = test_random_uniform(&random, low, high);
  s->bindings[at] = (evaluate_binding){.node = node, .real = s->values[at]};
}

static void prepare(subject *s, const gradient_case *c, compute_dtype dtype) {
  memset(s, 0, sizeof *s);
  s->graph = compute_graph_create(test_context);
  assert_non_null(s->graph);
  for (int k = 0; k < c->count; k++) {
    s->x[k] = compute_input(s->graph, dtype, c->shape[k]);
    bind_random(s, s->x[k], c->low, c->high, (uint64_t)k + 1);
  }
  compute_node y = c->build(s->graph, s->x);
  assert_ok(compute_graph_status(s->graph));
  s->weights =
      compute_input(s->graph, compute_node_dtype(s->graph, y), compute_node_shape(s->graph, y));
  bind_random(s, s->weights, 0.5, 1.5, 77);
  compute_node product = compute_mul(s->graph, y, s->weights);
  s->loss = compute_sum(s->graph, product, COMPUTE_ALL_AXES, false);
  assert_ok(compute_gradients(s->graph, s->loss, s->x, (size_t)c->count, s->gradients));
  for (int k = 0; k < c->count; k++) {
    assert_true(compute_shape_equal(compute_node_shape(s->graph, s->gradients[k]), c->shape[k]));
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

static double central_difference(subject *s, int operand, int64_t element) {
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

static void check_differences(const gradient_case *c) {
  subject s;
  evaluate_value found[MOST_OPERANDS];
  prepare(&s, c, COMPUTE_F64);
  evaluate(&s, s.gradients, (size_t)c->count, found);
  for (int k = 0; k < c->count; k++) {
    for (int64_t i = 0; i < found[k].count; i++) {
      const double expected = central_difference(&s, k, i), actual = evaluate_get(&found[k], i);
      if (!(fabs(actual - expected) <= 1e-7 + 1e-6 * fabs(expected))) {
        fail_msg("%s: operand %d, element %lld: gradient %.12g, difference %.12g", c->name, k,
                 (long long)i, actual, expected);
      }
    }
    evaluate_release(&found[k]);
  }
  compute_graph_release(s.graph);
}

/* The graph of another dtype gives the same gradients but for what its casts round away. */
static void check_dtype(const gradient_case *c, compute_dtype dtype, double tolerance) {
  subject wide, narrow;
  evaluate_value expected[MOST_OPERANDS], actual[MOST_OPERANDS];
  prepare(&wide, c, COMPUTE_F64);
  prepare(&narrow, c, dtype);
  evaluate(&wide, wide.gradients, (size_t)c->count, expected);
  evaluate(&narrow, narrow.gradients, (size_t)c->count, actual);
  for (int k = 0; k < c->count; k++) {
    double largest = 0;
    for (int64_t i = 0; i < expected[k].count; i++) {
      largest = fmax(largest, fabs(evaluate_get(&expected[k], i)));
    }
    for (int64_t i = 0; i < expected[k].count; i++) {
      const double e = evaluate_get(&expected[k], i), a = evaluate_get(&actual[k], i);
      if (!(fabs(a - e) <= tolerance * (largest + 1e-3))) {
        fail_msg("%s in %s: operand %d, element %lld: %g instead of %g", c->name,
                 compute_dtype_name(dtype), k, (long long)i, a, e);
      }
    }
    evaluate_release(&expected[k]);
    evaluate_release(&actual[k]);
  }
  compute_graph_release(wide.graph);
  compute_graph_release(narrow.graph);
}

static void check(const gradient_case *c) {
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
  static compute_node apply_##name(compute_graph *graph, const compute_node *x) {                  \
    return APPLY_##arity(name);                                                                    \
  }
#define SCALED(name, ...)                                                                          \
  static compute_node apply_##name(compute_graph *graph, const compute_node *x) {                  \
    return compute_##name(graph, x[0], 0.3);                                                       \
  }
#include "graph/ops.def"

static build_function *const elementwise[OP_COUNT] = {
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
    /* Exponentials at the ends of their range leave a difference quotient no digits. */
    const double low = fmax(info->low, -6), high = fmin(info->high, 6);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
      const gradient_case c = {
          info->name, elementwise[op], info->arity == 1 ? 1 : 2, {pairs[i][0], pairs[i][1]}, low,
          high};
      check(&c);
      checked++;
    }
  }
  assert_true(checked >= 30 * 7);
}

/* ---- Structural ---------------------------------------------------------------------------- */

#define RULE(name, expression)                                                                     \
  static compute_node name(compute_graph *graph, const compute_node *x) {                          \
    return expression;                                                                             \
  }

RULE(cast_and_back,
     compute_cast(graph, compute_cast(graph, x[0], COMPUTE_F64), compute_node_dtype(graph, x[0])))
RULE(transpose, compute_transpose(graph, x[0], COMPUTE_AXES(2, 0, 1)))
RULE(transpose_reversed, compute_transpose(graph, x[0], COMPUTE_ALL_AXES))
RULE(reshape, compute_reshape(graph, x[0], COMPUTE_SHAPE(-1, 2)))
RULE(slice, compute_slice(graph, x[0], 1, 1, 2, 3))
RULE(slice_from_end, compute_slice(graph, x[0], -1, -2, 2, 1))
RULE(embed, compute_embed(graph, x[0], 0, 9, 1, 3))
RULE(broadcast, compute_broadcast(graph, x[0], COMPUTE_SHAPE(2, 3, 4)))
RULE(concat, compute_concat(graph, x, 3, 1))
RULE(concat_same_twice, compute_concat(graph, (const compute_node[]){x[0], x[0]}, 2, 0))
RULE(matmul, compute_matmul(graph, x[0], x[1]))
RULE(matmul_transposed, compute_matmul(graph, compute_transpose(graph, x[0], COMPUTE_AXES(1, 0)),
                                       compute_transpose(graph, x[1], COMPUTE_AXES(1, 0))))
RULE(matmul_self, compute_matmul(graph, x[0], x[0]))
RULE(sum_all, compute_sum(graph, x[0], COMPUTE_ALL_AXES, false))
RULE(sum_middle, compute_sum(graph, x[0], COMPUTE_AXES(1), false))
RULE(sum_kept, compute_sum(graph, x[0], COMPUTE_AXES(0, 2), true))
RULE(mean_all, compute_mean(graph, x[0], COMPUTE_ALL_AXES, true))
RULE(mean_last, compute_mean(graph, x[0], COMPUTE_AXES(-1), false))
RULE(prod_all, compute_prod(graph, x[0], COMPUTE_ALL_AXES, false))
RULE(prod_outer, compute_prod(graph, x[0], COMPUTE_AXES(0, 2), false))
RULE(max_all, compute_max(graph, x[0], COMPUTE_ALL_AXES, false))
RULE(max_middle, compute_max(graph, x[0], COMPUTE_AXES(1), false))
RULE(min_kept, compute_min(graph, x[0], COMPUTE_AXES(0, 2), true))
RULE(softmax_last, compute_softmax(graph, x[0], -1))
RULE(softmax_first, compute_softmax(graph, x[0], 0))
RULE(log_softmax_last, compute_log_softmax(graph, x[0], -1))
RULE(log_softmax_first, compute_log_softmax(graph, x[0], 0))
RULE(normalize, compute_normalize(graph, x[0], 1e-3))
RULE(layer_norm, compute_layer_norm(graph, x[0], x[1], x[2], 1e-3))
RULE(clamp, compute_clamp(graph, x[0], -0.5, 0.75))
RULE(mean_squared_error, compute_mean_squared_error(graph, x[0], x[1]))

static compute_node indices(compute_graph *graph, compute_shape shape, const int64_t *values) {
  return compute_constant(graph, COMPUTE_I64, shape, values);
}

static const int64_t six[] = {2, 0, -1, 2, 1, 0};

RULE(gather, compute_gather(graph, x[0], indices(graph, COMPUTE_SHAPE(2, 3), six), 1))
RULE(gather_scalar, compute_gather(graph, x[0], indices(graph, COMPUTE_SCALAR, six), 0))
RULE(gather_elements,
     compute_gather_elements(graph, x[0], indices(graph, COMPUTE_SHAPE(2, 3), six), 1))
RULE(gather_elements_of_first_axis,
     compute_gather_elements(graph, x[0], indices(graph, COMPUTE_SHAPE(3, 2), six), 0))
RULE(scatter_add, compute_scatter_add(graph, x[0], indices(graph, COMPUTE_SHAPE(6), six), 0, 4))
RULE(scatter_set, compute_scatter(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(6), six), 0,
                                  COMPUTE_SCATTER_SET))
RULE(scatter_sum, compute_scatter(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(6), six), 0,
                                  COMPUTE_SCATTER_ADD))
RULE(scatter_product, compute_scatter(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(6), six), 0,
                                      COMPUTE_SCATTER_MUL))
RULE(scatter_largest, compute_scatter(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(6), six), 0,
                                      COMPUTE_SCATTER_MAX))
RULE(scatter_least_elements,
     compute_scatter_elements(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(2, 3), six), 1,
                              COMPUTE_SCATTER_MIN))
RULE(scatter_product_elements,
     compute_scatter_elements(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(2, 3), six), 1,
                              COMPUTE_SCATTER_MUL))
RULE(scatter_set_elements,
     compute_scatter_elements(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(2, 3), six), 1,
                              COMPUTE_SCATTER_SET))
RULE(scatter_add_middle,
     compute_scatter_add(graph, x[0], indices(graph, COMPUTE_SHAPE(3, 2), six), 1, 3))
RULE(scatter_add_elements,
     compute_scatter_add_elements(graph, x[0], indices(graph, COMPUTE_SHAPE(2, 3), six), 1,
                                  COMPUTE_SHAPE(3, 4)))
static const int64_t labels[] = {2, 0, 3, 2, 1, 0};
RULE(cross_entropy, compute_cross_entropy(graph, x[0], indices(graph, COMPUTE_SHAPE(6), labels)))

/* Used twice, by one operation and by two. */
RULE(reused, compute_add(graph, compute_mul(graph, x[0], x[0]), compute_exp(graph, x[0])))

/* A first derivative as the result, so that the rules are differentiated themselves. */
static compute_node second_derivative(compute_graph *graph, const compute_node *x) {
  compute_node h = compute_softmax(graph, compute_matmul(graph, x[0], x[1]), 1);
  compute_node y = compute_mul(graph, compute_tanh(graph, h), compute_gelu(graph, h));
  compute_node loss = compute_sum(graph, y, COMPUTE_ALL_AXES, false), gradient;
  compute_gradients(graph, loss, x, 1, &gradient);
  return gradient;
}

static void every_structural_rule_agrees_with_differences(void **state) {
  (void)state;
  const gradient_case cases[] = {
      {"cast", cast_and_back, 1, {COMPUTE_SHAPE(5)}, -2, 2},
      {"transpose", transpose, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"transpose, reversed", transpose_reversed, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"reshape", reshape, 1, {COMPUTE_SHAPE(3, 4)}, -2, 2},
      {"slice", slice, 1, {COMPUTE_SHAPE(2, 6)}, -2, 2},
      {"slice from the end", slice_from_end, 1, {COMPUTE_SHAPE(2, 6)}, -2, 2},
      {"embed", embed, 1, {COMPUTE_SHAPE(3, 2)}, -2, 2},
      {"broadcast", broadcast, 1, {COMPUTE_SHAPE(3, 1)}, -2, 2},
      {"broadcast of a scalar", broadcast, 1, {COMPUTE_SCALAR}, -2, 2},
      {"concat", concat, 3, {COMPUTE_SHAPE(2, 3), COMPUTE_SHAPE(2, 1), COMPUTE_SHAPE(2, 2)}, -2, 2},
      {"concat with nothing",
       concat,
       3,
       {COMPUTE_SHAPE(2, 3), COMPUTE_SHAPE(2, 0), COMPUTE_SHAPE(2, 2)},
       -2,
       2},
      {"concat, twice the same", concat_same_twice, 1, {COMPUTE_SHAPE(2, 3)}, -2, 2},
      {"matmul", matmul, 2, {COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(4, 2)}, -2, 2},
      {"matmul, transposed",
       matmul_transposed,
       2,
       {COMPUTE_SHAPE(4, 3), COMPUTE_SHAPE(2, 4)},
       -2,
       2},
      {"matmul with itself", matmul_self, 1, {COMPUTE_SHAPE(3, 3)}, -2, 2},
      {"matmul, row", matmul, 2, {COMPUTE_SHAPE(4), COMPUTE_SHAPE(4, 2)}, -2, 2},
      {"matmul, column", matmul, 2, {COMPUTE_SHAPE(2, 3, 4), COMPUTE_SHAPE(4)}, -2, 2},
      {"matmul, dot", matmul, 2, {COMPUTE_SHAPE(4), COMPUTE_SHAPE(4)}, -2, 2},
      {"matmul, batched", matmul, 2, {COMPUTE_SHAPE(2, 3, 4), COMPUTE_SHAPE(2, 4, 2)}, -2, 2},
      {"matmul, one right", matmul, 2, {COMPUTE_SHAPE(2, 3, 4), COMPUTE_SHAPE(4, 2)}, -2, 2},
      {"matmul, one right of rank 3",
       matmul,
       2,
       {COMPUTE_SHAPE(2, 3, 4), COMPUTE_SHAPE(1, 4, 2)},
       -2,
       2},
      {"matmul, one left", matmul, 2, {COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(2, 4, 2)}, -2, 2},
      {"matmul, batches broadcast",
       matmul,
       2,
       {COMPUTE_SHAPE(3, 1, 2, 4), COMPUTE_SHAPE(2, 4, 2)},
       -2,
       2},
      {"matmul, inner size 0", matmul, 2, {COMPUTE_SHAPE(3, 0), COMPUTE_SHAPE(0, 2)}, -2, 2},
      {"matmul, empty batch", matmul, 2, {COMPUTE_SHAPE(0, 3, 4), COMPUTE_SHAPE(4, 2)}, -2, 2},
      {"sum", sum_all, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"sum of a scalar", sum_all, 1, {COMPUTE_SCALAR}, -2, 2},
      {"sum, middle", sum_middle, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"sum, kept", sum_kept, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"mean", mean_all, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"mean, last", mean_last, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"prod", prod_all, 1, {COMPUTE_SHAPE(2, 3)}, 0.5, 1.5},
      {"prod, outer", prod_outer, 1, {COMPUTE_SHAPE(2, 3, 2)}, -1.5, 1.5},
      {"prod of a scalar", prod_all, 1, {COMPUTE_SCALAR}, 0.5, 1.5},
      {"max", max_all, 1, {COMPUTE_SHAPE(2, 5)}, -2, 2},
      {"max, middle", max_middle, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"min, kept", min_kept, 1, {COMPUTE_SHAPE(2, 3, 4)}, -2, 2},
      {"softmax", softmax_last, 1, {COMPUTE_SHAPE(3, 5)}, -2, 2},
      {"softmax, first axis", softmax_first, 1, {COMPUTE_SHAPE(3, 4)}, -2, 2},
      {"log_softmax", log_softmax_last, 1, {COMPUTE_SHAPE(3, 5)}, -2, 2},
      {"log_softmax, first axis", log_softmax_first, 1, {COMPUTE_SHAPE(3, 4)}, -2, 2},
      {"normalize", normalize, 1, {COMPUTE_SHAPE(3, 7)}, -2, 2},
      {"normalize, rank 1", normalize, 1, {COMPUTE_SHAPE(6)}, -2, 2},
      {"layer_norm",
       layer_norm,
       3,
       {COMPUTE_SHAPE(2, 2, 5), COMPUTE_SHAPE(5), COMPUTE_SHAPE(5)},
       -2,
       2},
      {"clamp", clamp, 1, {COMPUTE_SHAPE(20)}, -2, 2},
      {"mean_squared_error", mean_squared_error, 2, {COMPUTE_SHAPE(4, 3), COMPUTE_SHAPE(3)}, -2, 2},
      {"gather", gather, 1, {COMPUTE_SHAPE(2, 3, 2)}, -2, 2},
      {"gather, scalar index", gather_scalar, 1, {COMPUTE_SHAPE(3, 2)}, -2, 2},
      {"gather_elements", gather_elements, 1, {COMPUTE_SHAPE(3, 4)}, -2, 2},
      {"gather_elements, first axis",
       gather_elements_of_first_axis,
       1,
       {COMPUTE_SHAPE(4, 3)},
       -2,
       2},
      {"scatter_add", scatter_add, 1, {COMPUTE_SHAPE(6, 2)}, -2, 2},
      {"scatter", scatter_set, 2, {COMPUTE_SHAPE(5, 2), COMPUTE_SHAPE(6, 2)}, -2, 2},
      {"scatter", scatter_sum, 2, {COMPUTE_SHAPE(5, 2), COMPUTE_SHAPE(6, 2)}, -2, 2},
      {"scatter, product", scatter_product, 2, {COMPUTE_SHAPE(5, 2), COMPUTE_SHAPE(6, 2)}, -2, 2},
      {"scatter, maximum", scatter_largest, 2, {COMPUTE_SHAPE(5, 2), COMPUTE_SHAPE(6, 2)}, -2, 2},
      {"scatter_elements, minimum",
       scatter_least_elements,
       2,
       {COMPUTE_SHAPE(2, 5), COMPUTE_SHAPE(2, 3)},
       -2,
       2},
      {"scatter_elements, product",
       scatter_product_elements,
       2,
       {COMPUTE_SHAPE(2, 5), COMPUTE_SHAPE(2, 3)},
       -2,
       2},
      {"scatter_elements",
       scatter_set_elements,
       2,
       {COMPUTE_SHAPE(2, 4), COMPUTE_SHAPE(2, 3)},
       -2,
       2},
      {"scatter_add, middle", scatter_add_middle, 1, {COMPUTE_SHAPE(2, 3, 2, 2)}, -2, 2},
      {"scatter_add_elements", scatter_add_elements, 1, {COMPUTE_SHAPE(2, 3)}, -2, 2},
      {"cross_entropy", cross_entropy, 1, {COMPUTE_SHAPE(6, 4)}, -2, 2},
      {"an operand used twice", reused, 1, {COMPUTE_SHAPE(2, 3)}, -2, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

/* The gradients of the sum of scatter's result by data [3] and updates [5]. */
static void check_scatter(compute_scatter_mode mode, const float *data, const float *updates,
                          const float *expected) {
  static const int64_t places[] = {0, 0, 1, 2, 2};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x[2] = {compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3)),
                             compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5))};
  const compute_node y =
      compute_scatter(graph, x[0], x[1], indices(graph, COMPUTE_SHAPE(5), places), 0, mode);
  compute_node gradients[2] = {{0}};
  compute_gradients(graph, compute_sum(graph, y, COMPUTE_ALL_AXES, false), x, 2, gradients);
  const compute_node out = compute_concat(graph, gradients, 2, 0);
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

/* A product with zeros among its factors, and equal extrema. */
static void scattered_zeros_and_ties_have_gradients(void **state) {
  (void)state;
  check_scatter(COMPUTE_SCATTER_MUL, (const float[]){2, 0, 3}, (const float[]){5, 0, 7, 0, 0},
                (const float[]){0, 7, 0, 0, 10, 0, 0, 0});
  check_scatter(COMPUTE_SCATTER_MAX, (const float[]){1, 4, 2}, (const float[]){1, 1, 3, 2, 0},
                (const float[]){1 / 3.0f, 1, 0.5f, 1 / 3.0f, 1 / 3.0f, 0, 0.5f, 0});
}

static void gradients_can_be_differentiated(void **state) {
  (void)state;
  const gradient_case c = {
      "second derivative", second_derivative, 2, {COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(4, 3)}, -1, 1};
  check_differences(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_rule_agrees_with_differences),
      cmocka_unit_test(every_structural_rule_agrees_with_differences),
      cmocka_unit_test(scattered_zeros_and_ties_have_gradients),
      cmocka_unit_test(gradients_can_be_differentiated),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
