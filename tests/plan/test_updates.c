/* SPDX-License-Identifier: MIT */
/* Kernels of optimizer steps: the kernels of the gradients also make the updates, small updates of
 * one shape share a kernel, no sum is computed twice, and cheap kernels are repeated at their
 * readers. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"

/* x [64, 16] → dense layers with biases → the mean of the squares, with all parameters. */
typedef struct tower {
  compute_graph *graph;
  compute_node x, loss, parameters[32];
  size_t count;
} tower;

static compute_node parameter(tower *t, compute_shape shape, uint64_t seed) {
  compute_tensor *tensor = NULL;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32, shape, -0.4,
                                  0.4, seed, &tensor));
  const compute_node node = compute_parameter(t->graph, tensor);
  compute_tensor_release(tensor);
  t->parameters[t->count++] = node;
  return node;
}

static tower build_tower(int layers) {
  tower t = {.graph = compute_graph_create(test_context)};
  compute_node y = t.x = compute_input(t.graph, COMPUTE_F32, COMPUTE_SHAPE(64, 16));
  for (int i = 0; i < layers; i++) {
    const compute_node w = parameter(&t, COMPUTE_SHAPE(16, 16), 10 + (uint64_t)i);
    const compute_node b = parameter(&t, COMPUTE_SHAPE(16), 50 + (uint64_t)i);
    y = compute_matmul(t.graph, y, compute_transpose(t.graph, w, COMPUTE_ALL_AXES));
    y = compute_relu(t.graph, compute_add(t.graph, y, b));
  }
  t.loss = compute_mean(t.graph, compute_square(t.graph, y), COMPUTE_ALL_AXES, false);
  return t;
}

static uint32_t steps_of(const tower *t, const compute_node *outputs, size_t count) {
  compute_plan *plan = test_compile(t->graph, outputs, count, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  compute_plan_release(plan);
  return info.steps;
}

/* On the CPU, no update waits: there are as many kernels as for the gradients alone, and three for
 * Adam's common numbers. */
static void updates_are_part_of_the_kernels_of_their_gradients(void **state) {
  (void)state;
  tower t = build_tower(3);
  compute_node outputs[32];
  assert_ok(compute_gradients(t.graph, t.loss, t.parameters, t.count, outputs));
  outputs[t.count] = t.loss;
  const uint32_t gradients = steps_of(&t, outputs, t.count + 1);
  compute_node step[2] = {compute_adam_step(t.graph, t.loss, t.parameters, t.count, NULL), t.loss};
  const uint32_t all = steps_of(&t, step, 2);
  if (all > gradients + 3)
    fail_msg("%u kernels for gradients, %u with their updates", gradients, all);
  compute_graph_release(t.graph);
}

/* Gradients from the caller: 12 updates of two shapes; some updates share a kernel. */
static void small_updates_of_one_shape_are_one_kernel(void **state) {
  (void)state;
  tower t = build_tower(6);
  compute_node gradients[32];
  for (size_t i = 0; i < t.count; i++)
    gradients[i] =
        compute_input(t.graph, COMPUTE_F32, compute_node_shape(t.graph, t.parameters[i]));
  const compute_node step = compute_sgd_apply(t.graph, t.parameters, gradients, t.count,
                                              &(compute_sgd_options){.learning_rate = 0.1});
  const uint32_t steps = steps_of(&t, &step, 1);
  if (steps > 4) fail_msg("%u kernels for 12 updates of two shapes", steps);
  compute_graph_release(t.graph);
}

/* One step each of two optimizers on equal parameters, either merged and fused or with one kernel
 * per operation. */
static void merged_updates_give_what_single_ones_give(void **state) {
  (void)state;
  float after[2][16 * 16 + 16];
  for (int plain = 0; plain < 2; plain++) {
    tower t = build_tower(4);
    compute_node step[2] = {compute_adam_step(t.graph, t.loss, t.parameters, t.count,
                                              &(compute_adam_options){.learning_rate = 0.05}),
                            t.loss};
    compute_plan *plan = test_compile(t.graph, step, 2, plain ? COMPUTE_PLAN_NO_FUSION : 0);
    compute_tensor *x, *loss;
    assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                    COMPUTE_SHAPE(64, 16), -1, 1, 7, &x));
    assert_ok(compute_plan_create_tensor(plan, t.loss, &loss));
    for (int i = 0; i < 3; i++)
      assert_ok(compute_run(plan, (compute_binding[]){{t.x, x}, {t.loss, loss}}, 2, NULL));
    assert_ok(compute_tensor_read(compute_parameter_tensor(t.graph, t.parameters[2]), after[plain],
                                  16 * 16 * 4));
    assert_ok(compute_tensor_read(compute_parameter_tensor(t.graph, t.parameters[3]),
                                  after[plain] + 16 * 16, 16 * 4));
    compute_tensor_release(x);
    compute_tensor_release(loss);
    compute_plan_release(plan);
    compute_graph_release(t.graph);
  }
  for (int i = 0; i < 16 * 16 + 16; i++)
    if (!(fabsf(after[0][i] - after[1][i]) < 1e-4f))
      fail_msg("element %d: %g fused, %g plain", i, (double)after[0][i], (double)after[1][i]);
}

/* Variance and result both read x − mean, and neither needs it in memory. */
static void a_batch_norm_stores_its_result_only(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(32, 8, 16, 16));
  compute_node mean, variance;
  const compute_node y = compute_batch_norm_training(graph, x, (compute_node){0}, (compute_node){0},
                                                     1e-5, &mean, &variance);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.steps, 3);
  assert_true(info.arena_bytes < 4096);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* An invalid label fails the run before any update, including updates of layers whose gradient does
 * not need the loss. This also holds for batches with large temporaries. */
static void a_label_outside_changes_no_parameter(void **state) {
  (void)state;
  tower t = {.graph = compute_graph_create(test_context)};
  t.x = compute_input(t.graph, COMPUTE_F32, COMPUTE_SHAPE(3000, 16));
  const compute_node labels = compute_input(t.graph, COMPUTE_I32, COMPUTE_SHAPE(3000));
  const compute_node w = parameter(&t, COMPUTE_SHAPE(16, 4), 1),
                     b = parameter(&t, COMPUTE_SHAPE(4), 2);
  t.loss = compute_cross_entropy(t.graph, compute_add(t.graph, compute_matmul(t.graph, t.x, w), b),
                                 labels);
  const compute_node step[2] = {compute_sgd_step(t.graph, t.loss, t.parameters, t.count, NULL),
                                t.loss};
  compute_plan *plan = test_compile(t.graph, step, 2, 0);
  static int32_t numbers[3000];
  for (int i = 0; i < 3000; i++) numbers[i] = i % 4;
  numbers[2999] = 4;
  compute_tensor *x, *target = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(3000), numbers),
                     *loss;
  assert_ok(compute_tensor_random(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(3000, 16), -1, 1, 7, &x));
  assert_ok(compute_plan_create_tensor(plan, t.loss, &loss));
  float before[4], after[4];
  compute_tensor *bias = compute_parameter_tensor(t.graph, b);
  assert_ok(compute_tensor_read(bias, before, sizeof before));
  assert_fails(
      compute_run(plan, (compute_binding[]){{t.x, x}, {labels, target}, {t.loss, loss}}, 3, NULL),
      COMPUTE_ERROR_INDEX);
  assert_ok(compute_tensor_read(bias, after, sizeof after));
  assert_memory_equal(before, after, sizeof before);
  compute_tensor_release(x);
  compute_tensor_release(target);
  compute_tensor_release(loss);
  compute_plan_release(plan);
  compute_graph_release(t.graph);
}

/* The update comes first in the graph and reads nothing that is checked. */
static void an_index_outside_a_sum_by_index_changes_no_parameter(void **state) {
  (void)state;
  tower t = {.graph = compute_graph_create(test_context)};
  const compute_node b = parameter(&t, COMPUTE_SHAPE(4), 2);
  const compute_node update =
      compute_assign(t.graph, b, compute_add(t.graph, b, compute_scalar(t.graph, COMPUTE_F32, 1)));
  t.x = compute_input(t.graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node places = compute_input(t.graph, COMPUTE_I32, COMPUTE_SHAPE(3));
  const compute_node sums = compute_scatter_add(t.graph, t.x, places, 0, 5);
  compute_plan *plan = test_compile(t.graph, (compute_node[]){update, sums}, 2, 0);
  const float one[3] = {1, 1, 1};
  const int32_t numbers[3] = {0, 7, 1};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), one);
  compute_tensor *where = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(3), numbers), *y;
  assert_ok(compute_plan_create_tensor(plan, sums, &y));
  float before[4], after[4];
  compute_tensor *bias = compute_parameter_tensor(t.graph, b);
  assert_ok(compute_tensor_read(bias, before, sizeof before));
  assert_fails(
      compute_run(plan, (compute_binding[]){{t.x, x}, {places, where}, {sums, y}}, 3, NULL),
      COMPUTE_ERROR_INDEX);
  assert_ok(compute_tensor_read(bias, after, sizeof after));
  assert_memory_equal(before, after, sizeof before);
  compute_tensor_release(x);
  compute_tensor_release(where);
  compute_tensor_release(y);
  compute_plan_release(plan);
  compute_graph_release(t.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(updates_are_part_of_the_kernels_of_their_gradients),
      cmocka_unit_test(small_updates_of_one_shape_are_one_kernel),
      cmocka_unit_test(merged_updates_give_what_single_ones_give),
      cmocka_unit_test(a_batch_norm_stores_its_result_only),
      cmocka_unit_test(a_label_outside_changes_no_parameter),
      cmocka_unit_test(an_index_outside_a_sum_by_index_changes_no_parameter),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
