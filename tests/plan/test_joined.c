/* SPDX-License-Identifier: MIT */
/* Concatenations and paddings: chains of them become copies into one result, and elementwise values
 * are computed inside it. Random graphs have the bits of plans without fusion. */
#include <math.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

enum { VALUES = 20, GRAPHS = 150, OUTPUTS = 3 };

typedef struct drawing {
  compute_graph *graph;
  compute_node value[VALUES];
  size_t count;
  test_random random;
} drawing;

static int64_t draw(drawing *d, int64_t low, int64_t high) {
  return test_random_integer(&d->random, low, high);
}

static compute_node any_value(drawing *d) {
  return d->value[draw(d, 0, (int64_t)d->count - 1)];
}

static int64_t *axis_of(compute_shape *shape, int32_t axis) {
  return &shape->size[axis];
}

/* Brings x to the other value's sizes except along `axis`. */
static compute_node fit(drawing *d, compute_node x, compute_node like, int32_t axis) {
  for (int32_t a = 0; a < 3; a++) {
    compute_shape from = compute_node_shape(d->graph, x), to = compute_node_shape(d->graph, like);
    const int64_t size = *axis_of(&from, a), wanted = *axis_of(&to, a);
    if (a == axis || size == wanted) continue;
    x = size > wanted ? compute_slice(d->graph, x, a, draw(d, 0, size - wanted), wanted, 1)
                      : compute_pad(d->graph, x, a, wanted - size, 0, COMPUTE_PAD_CONSTANT,
                                    (double)draw(d, 0, 1));
  }
  return x;
}

static compute_node concat(drawing *d) {
  const int32_t axis = (int32_t)draw(d, 0, 2);
  const size_t count = (size_t)draw(d, 2, 4);
  compute_node part[4] = {any_value(d)};
  for (size_t i = 1; i < count; i++) {
    part[i] = fit(d, any_value(d), part[0], axis);
    if (draw(d, 0, 1)) part[i] = compute_neg(d->graph, part[i]);
  }
  return compute_concat(d->graph, part, count, axis);
}

static compute_node small(drawing *d, compute_node x) {
  const compute_shape shape = compute_node_shape(d->graph, x);
  for (int32_t a = 0; a < 3; a++) {
    compute_shape copy = shape;
    const int64_t size = *axis_of(&copy, a);
    const int64_t most = a == 2 ? 40 : 6; /* rows are long enough to be written in place */
    if (size > most) x = compute_slice(d->graph, x, a, draw(d, 0, 1), most, 1);
  }
  return x;
}

static compute_node next_value(drawing *d) {
  const compute_node x = any_value(d);
  const int32_t axis = (int32_t)draw(d, 0, 2);
  switch (draw(d, 0, 7)) {
  case 0: return compute_neg(d->graph, x);
  case 1: return compute_add(d->graph, x, fit(d, any_value(d), x, -1));
  case 2:
    return compute_pad(d->graph, x, axis, draw(d, 0, 3), draw(d, 0, 3), COMPUTE_PAD_CONSTANT,
                       (double)draw(d, 0, 1));
  case 3: return compute_embed(d->graph, x, axis, 90, draw(d, 0, 2), 2);
  case 4: {
    compute_axes order = {3, {0, 1, 2}};
    const int32_t other = (int32_t)draw(d, 0, 2);
    order.axis[axis] = other;
    order.axis[other] = axis;
    return compute_transpose(d->graph, x, order);
  }
  case 5: { /* values that nothing else reads */
    const compute_node parts[2] = {compute_pad(d->graph, compute_neg(d->graph, x), 0, 1,
                                               draw(d, 0, 1), COMPUTE_PAD_CONSTANT, 0),
                                   compute_abs(d->graph, x)};
    return compute_concat(d->graph, parts, 2, 0);
  }
  default: return concat(d);
  }
}

static void run_plan(const drawing *d, const compute_node *outputs, uint32_t flags,
                     compute_tensor *const *inputs, compute_tensor **results) {
  compute_plan *plan = test_compile(d->graph, outputs, OUTPUTS, flags);
  compute_binding bindings[2 + OUTPUTS] = {{d->value[0], inputs[0]}, {d->value[1], inputs[1]}};
  for (size_t i = 0; i < OUTPUTS; i++) {
    results[i] =
        test_tensor(test_context, COMPUTE_F32, compute_node_shape(d->graph, outputs[i]), NULL);
    bindings[2 + i] = (compute_binding){outputs[i], results[i]};
  }
  assert_ok(compute_run(plan, bindings, 2 + OUTPUTS, NULL));
  compute_plan_release(plan);
}

static void random_graphs_have_the_same_bits(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
    drawing d = {.graph = compute_graph_create(test_context), .random = {.state = seed}};
    const compute_shape shape = COMPUTE_SHAPE(2, 3, draw(&d, 12, 30));
    compute_tensor *inputs[2], *results[2][OUTPUTS];
    for (; d.count < 2; d.count++) {
      d.value[d.count] = compute_input(d.graph, COMPUTE_F32, shape);
      inputs[d.count] = test_random_tensor(test_context, COMPUTE_F32, shape, seed + d.count);
    }
    for (; d.count < VALUES; d.count++) d.value[d.count] = small(&d, next_value(&d));
    assert_ok(compute_graph_status(d.graph));
    compute_node outputs[OUTPUTS];
    for (size_t i = 0; i < OUTPUTS; i++) /* some are the same, and some are views */
      outputs[i] = d.value[VALUES - 1 - (size_t)draw(&d, 0, 6)];
    for (size_t i = 0; i < OUTPUTS; i++) outputs[i] = compute_add(d.graph, outputs[i], outputs[i]);
    outputs[0] = d.value[VALUES - 1];
    run_plan(&d, outputs, 0, inputs, results[0]);
    run_plan(&d, outputs, COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION, inputs,
             results[1]);
    for (size_t i = 0; i < OUTPUTS; i++) {
      for (int64_t k = 0; k < compute_tensor_count(results[0][i]); k++)
        if (test_element(results[0][i], k) != test_element(results[1][i], k))
          fail_msg("graph %d, output %d, element %d: %g, not %g", (int)seed, (int)i, (int)k,
                   test_element(results[0][i], k), test_element(results[1][i], k));
      compute_tensor_release(results[0][i]);
      compute_tensor_release(results[1][i]);
    }
    for (size_t i = 0; i < 2; i++) compute_tensor_release(inputs[i]);
    compute_graph_release(d.graph);
  }
}

/* Compiles the graph for one output, releases it, and returns the number of steps. */
static uint32_t count_steps(compute_graph *graph, compute_node output) {
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, &output, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  compute_plan_release(plan);
  compute_graph_release(graph);
  return info.steps;
}

static compute_node padded(compute_graph *graph, compute_node x, double value) {
  for (int32_t axis = 0; axis < 3; axis++)
    x = compute_pad(graph, x, axis, 1, 2, COMPUTE_PAD_CONSTANT, value);
  return x;
}

/* Zeros fill the result once; other values fill the edges of each axis. */
static void paddings_copy_once(void **state) {
  (void)state;
  for (int value = 0; value < 2; value++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4, 5, 6));
    assert_int_equal(count_steps(graph, padded(graph, x, value)), value ? 7 : 2);
  }
}

/* Rotated halves: two kernels, and no copy. Short rows are copied. */
static void values_are_computed_in_place(void **state) {
  (void)state;
  for (int is_short = 0; is_short < 2; is_short++) {
    const int64_t half = is_short ? 4 : 32;
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 20, 2 * half));
    const compute_node a = compute_slice(graph, x, 2, 0, half, 1);
    const compute_node b = compute_slice(graph, x, 2, half, half, 1);
    const compute_node parts[2] = {compute_neg(graph, b), compute_add(graph, a, b)};
    assert_int_equal(count_steps(graph, compute_concat(graph, parts, 2, 2)), is_short ? 4 : 2);
  }
}

/* A parameter's old value must not be overwritten before it was read. */
static void parameters_keep_their_value(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *tensor = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 64), 7);
  double before[128];
  for (int64_t i = 0; i < 128; i++) before[i] = test_element(tensor, i);
  const compute_node p = compute_parameter(graph, tensor);
  const compute_node first = compute_slice(graph, p, 0, 0, 1, 1);
  const compute_node second = compute_slice(graph, p, 0, 1, 1, 1);
  const compute_node parts[2] = {compute_neg(graph, second), compute_exp(graph, first)};
  const compute_node update = compute_assign(graph, p, compute_concat(graph, parts, 2, 0));
  compute_plan *plan = test_compile(graph, &update, 1, 0);
  assert_ok(compute_run(plan, NULL, 0, NULL));
  for (int64_t i = 0; i < 64; i++) {
    assert_true(test_element(tensor, i) == -before[64 + i]);
    assert_float_equal(test_element(tensor, 64 + i), exp(before[i]), 1e-5);
  }
  compute_plan_release(plan);
  compute_tensor_release(tensor);
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_have_the_same_bits),
      cmocka_unit_test(paddings_copy_once),
      cmocka_unit_test(values_are_computed_in_place),
      cmocka_unit_test(parameters_keep_their_value),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
