/* SPDX-License-Identifier: MIT */
#include "support/harness/gradient.h"

#include <math.h>
#include <stdlib.h>

#include "support/harness/test.h"

/* loss = sum(expression · weights) with fixed random weights, so that no symmetry hides an error.
 */
typedef struct gradient_graph {
  compute_graph *graph;
  compute_node operands[OPERATION_MAX_OPERANDS];
  compute_node loss;
  compute_node gradients[OPERATION_MAX_OPERANDS]; /* {0} where there is none */
  compute_tensor *tensors[OPERATION_MAX_OPERANDS];
} gradient_graph;

static bool is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32;
}

static compute_node weighted_sum(compute_graph *graph, compute_node y) {
  test_values weights =
      test_values_create(compute_node_dtype(graph, y), compute_node_shape(graph, y));
  test_values_fill(&weights, FILL_RANGE, 0.5, 1.5, 99);
  const compute_node w = compute_constant(graph, weights.dtype, weights.shape, weights.data);
  test_values_release(&weights);
  return compute_sum(graph, compute_mul(graph, y, w), COMPUTE_ALL_AXES, false);
}

static gradient_graph create_graph(compute_context *context, const operation_case *sample,
                                   compute_dtype floats, const test_values *values) {
  gradient_graph g = {.graph = compute_graph_create(context)};
  compute_node of[OPERATION_MAX_OPERANDS], gradients[OPERATION_MAX_OPERANDS] = {{0}};
  size_t count = 0;
  assert_non_null(g.graph);
  for (size_t i = 0; i < sample->operand_count; i++) {
    const bool differentiable = is_float(sample->operand[i].dtype);
    const compute_dtype dtype = differentiable ? floats : sample->operand[i].dtype;
    g.operands[i] = compute_input(g.graph, dtype, sample->operand[i].shape);
    if (differentiable) of[count++] = g.operands[i];
    test_values converted = test_values_create(dtype, sample->operand[i].shape);
    for (int64_t k = 0; k < converted.count; k++)
      test_values_set(&converted, k, test_values_get(&values[i], k));
    g.tensors[i] = test_tensor(context, dtype, converted.shape, converted.data);
    test_values_release(&converted);
  }
  g.loss = weighted_sum(g.graph, sample->build(g.graph, g.operands, sample->user));
  if (compute_gradients(g.graph, g.loss, of, count, gradients) != COMPUTE_OK)
    fail_msg("%s: %s", sample->name, compute_error_message(context));
  count = 0;
  for (size_t i = 0; i < sample->operand_count; i++)
    if (is_float(sample->operand[i].dtype)) g.gradients[i] = gradients[count++];
  return g;
}

static void release_graph(gradient_graph *g, size_t count) {
  for (size_t i = 0; i < count; i++) compute_tensor_release(g->tensors[i]);
  compute_graph_release(g->graph);
}

/* Runs a plan whose only output is `output`, and returns it in f64. */
static test_values run_one(compute_context *context, const gradient_graph *g, size_t count,
                           const compute_plan *plan, compute_node output) {
  compute_binding bindings[OPERATION_MAX_OPERANDS + 1];
  for (size_t i = 0; i < count; i++) bindings[i] = (compute_binding){g->operands[i], g->tensors[i]};
  const compute_shape shape = compute_node_shape(g->graph, output);
  compute_tensor *out = test_tensor(context, compute_node_dtype(g->graph, output), shape, NULL);
  compute_tensor *wide = test_tensor(context, COMPUTE_F64, shape, NULL);
  bindings[count] = (compute_binding){output, out};
  assert_ok(compute_run(plan, bindings, count + 1, NULL));
  test_values result = test_values_create(COMPUTE_F64, shape);
  assert_ok(compute_tensor_copy(wide, out));
  assert_ok(compute_tensor_read(wide, result.data, result.bytes));
  compute_tensor_release(out);
  compute_tensor_release(wide);
  return result;
}

static double run_loss(compute_context *context, const gradient_graph *g, size_t count,
                       const compute_plan *plan) {
  test_values loss = run_one(context, g, count, plan, g->loss);
  const double value = test_values_get(&loss, 0);
  test_values_release(&loss);
  return value;
}

static void compare_with_differences(compute_context *context, const operation_case *sample,
                                     const gradient_graph *g, test_values *values, size_t operand,
                                     const test_values *gradient) {
  const double step = 1e-6;
  compute_plan *plan = test_compile(g->graph, &g->loss, 1, 0);
  test_values *x = &values[operand];
  for (int64_t i = 0; i < x->count; i++) {
    const double middle = test_values_get(x, i);
    double loss[2];
    for (int side = 0; side < 2; side++) {
      test_values_set(x, i, side ? middle + step : middle - step);
      assert_ok(compute_tensor_write(g->tensors[operand], x->data, x->bytes));
      loss[side] = run_loss(context, g, sample->operand_count, plan);
    }
    test_values_set(x, i, middle);
    const double expected = (loss[1] - loss[0]) / (2 * step), got = test_values_get(gradient, i);
    if (!(fabs(got - expected) <= 1e-5 + 1e-3 * fabs(expected)))
      fail_msg("%s: d/d operand %zu [%lld] at %g: got %.12g, difference quotient %.12g",
               sample->name, operand, (long long)i, middle, got, expected);
  }
  assert_ok(compute_tensor_write(g->tensors[operand], x->data, x->bytes));
  compute_plan_release(plan);
}

static void compare_with_f64(const operation_case *sample, size_t operand,
                             const test_values *single, const test_values *exact) {
  double largest = 0;
  for (int64_t i = 0; i < exact->count; i++)
    largest = fmax(largest, fabs(test_values_get(exact, i)));
  for (int64_t i = 0; i < exact->count; i++) {
    const double got = test_values_get(single, i), expected = test_values_get(exact, i);
    if (!(fabs(got - expected) <= 1e-5 * (1 + largest) + 1e-4 * fabs(expected)))
      fail_msg("%s: f32 gradient of operand %zu [%lld]: got %.9g, f64 says %.9g", sample->name,
               operand, (long long)i, got, expected);
  }
}

void gradient_check(compute_context *context, const operation_case *sample) {
  static size_t number;
  const size_t count = sample->operand_count;
  if (test_seed() && !test_takes(0, number++)) return;
  test_values values[OPERATION_MAX_OPERANDS] = {{0}};
  for (size_t i = 0; i < count; i++) {
    const operation_operand *operand = &sample->operand[i];
    values[i] = test_values_create(operand->dtype, operand->shape);
    test_values_fill(&values[i], operand->fill, operand->low, operand->high, 31 * (i + 1));
  }
  gradient_graph exact = create_graph(context, sample, COMPUTE_F64, values);
  gradient_graph single = create_graph(context, sample, COMPUTE_F32, values);
  for (size_t i = 0; i < count; i++) {
    if (!is_float(sample->operand[i].dtype)) continue;
    if (!compute_shape_equal(compute_node_shape(exact.graph, exact.gradients[i]),
                             sample->operand[i].shape))
      fail_msg("%s: the gradient of operand %zu has another shape", sample->name, i);
    compute_plan *plan = test_compile(exact.graph, &exact.gradients[i], 1, 0);
    compute_plan *plan32 = test_compile(single.graph, &single.gradients[i], 1, 0);
    test_values gradient = run_one(context, &exact, count, plan, exact.gradients[i]);
    test_values gradient32 = run_one(context, &single, count, plan32, single.gradients[i]);
    compare_with_differences(context, sample, &exact, values, i, &gradient);
    compare_with_f64(sample, i, &gradient32, &gradient);
    test_values_release(&gradient);
    test_values_release(&gradient32);
    compute_plan_release(plan);
    compute_plan_release(plan32);
  }
  release_graph(&exact, count);
  release_graph(&single, count);
  for (size_t i = 0; i < count; i++) test_values_release(&values[i]);
}
