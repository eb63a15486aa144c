/* SPDX-License-Identifier: MIT */
/* Batch normalisation in training as a plan: the number of passes over its data, and gradients for
 * data far from zero and for large data. */
#include <math.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

enum { BATCH = 6, CHANNELS = 5, SIDE = 7, PLANE = SIDE * SIDE, COUNT = BATCH * CHANNELS * PLANE };

static compute_node sum_of_product(compute_graph *graph, compute_node a, compute_node b) {
  return compute_sum(graph, compute_mul(graph, a, b), COMPUTE_ALL_AXES, false);
}

/* One pass each: mean; variance; result and masked gradient; the sum of their product; the sum of
 * the gradient; dx. One more pass over the channels only. */
static void training_goes_over_its_data_six_times(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_shape shape = COMPUTE_SHAPE(BATCH, CHANNELS, SIDE, SIDE);
  const compute_shape channels = COMPUTE_SHAPE(CHANNELS);
  const compute_node of[] = {compute_input(graph, COMPUTE_F32, shape),
                             compute_input(graph, COMPUTE_F32, channels),
                             compute_input(graph, COMPUTE_F32, channels)};
  const compute_node upstream = compute_input(graph, COMPUTE_F32, shape);
  compute_node outputs[6];
  const compute_node y =
      compute_batch_norm_training(graph, of[0], of[1], of[2], 1e-5, &outputs[4], &outputs[5]);
  outputs[0] = compute_relu(graph, y);
  const compute_node loss = sum_of_product(graph, outputs[0], upstream);
  assert_ok(compute_gradients(graph, loss, of, 3, outputs + 1));
  compute_plan *plan = test_compile(graph, outputs, 6, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  const uint64_t tensor = COUNT * sizeof(float);
  assert_true(info.steps <= 7);
  assert_true(info.bytes_read < 10 * tensor);
  assert_true(info.bytes_written < 4 * tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* scale · (g − mean(g) − x̂ · mean(g · x̂)) for one channel. */
static void expect_gradients(const float *x, const float *g, double gain, int channel, double *dx,
                             double *dgain, double *dbias) {
  double mean = 0, spread = 0, sum = 0, product = 0;
  const double count = BATCH * PLANE;
  for (int pass = 0; pass < 3; pass++)
    for (int n = 0; n < BATCH; n++)
      for (int i = 0; i < PLANE; i++) {
        const int at = (n * CHANNELS + channel) * PLANE + i;
        if (pass == 0) mean += x[at] / count;
        if (pass == 1) spread += (x[at] - mean) * (x[at] - mean) / count;
        if (pass == 2) sum += g[at];
        if (pass == 2) product += g[at] * (x[at] - mean);
      }
  const double scale = 1 / sqrt(spread + 1e-5);
  *dgain = product * scale;
  *dbias = sum;
  for (int n = 0; n < BATCH; n++)
    for (int i = 0; i < PLANE; i++) {
      const int at = (n * CHANNELS + channel) * PLANE + i;
      dx[at] =
          gain * scale * (g[at] - sum / count - (x[at] - mean) * scale * scale * product / count);
    }
}

static void check_gradients(double middle, double size) {
  static float x[COUNT], g[COUNT];
  static double dx[COUNT];
  float gain[CHANNELS];
  test_random random = {.state = 9};
  for (int i = 0; i < COUNT; i++)
    x[i] = (float)(size * (middle + test_random_uniform(&random, -1, 1)));
  for (int i = 0; i < COUNT; i++) g[i] = (float)test_random_uniform(&random, -1, 2);
  for (int i = 0; i < CHANNELS; i++) gain[i] = (float)test_random_uniform(&random, 0.5, 1.5);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_shape shape = COMPUTE_SHAPE(BATCH, CHANNELS, SIDE, SIDE);
  const compute_shape channels = COMPUTE_SHAPE(CHANNELS);
  compute_tensor *tensors[] = {test_tensor(test_context, COMPUTE_F32, shape, x),
                               test_tensor(test_context, COMPUTE_F32, channels, gain),
                               test_tensor(test_context, COMPUTE_F32, channels, gain),
                               test_tensor(test_context, COMPUTE_F32, shape, NULL),
                               test_tensor(test_context, COMPUTE_F32, channels, NULL),
                               test_tensor(test_context, COMPUTE_F32, channels, NULL)};
  compute_node of[3], gradients[3];
  for (int i = 0; i < 3; i++) of[i] = compute_parameter(graph, tensors[i]);
  const compute_node upstream = compute_constant(graph, COMPUTE_F32, shape, g);
  const compute_node y = compute_batch_norm_training(graph, of[0], of[1], of[2], 1e-5, NULL, NULL);
  assert_ok(compute_gradients(graph, sum_of_product(graph, y, upstream), of, 3, gradients));
  compute_plan *plan = test_compile(graph, gradients, 3, 0);
  const compute_binding bindings[] = {
      {gradients[0], tensors[3]}, {gradients[1], tensors[4]}, {gradients[2], tensors[5]}};
  assert_ok(compute_run(plan, bindings, 3, NULL));
  for (int c = 0; c < CHANNELS; c++) {
    double dgain, dbias;
    expect_gradients(x, g, gain[c], c, dx, &dgain, &dbias);
    assert_true(fabs(test_element(tensors[4], c) - dgain) < 1e-2);
    assert_true(fabs(test_element(tensors[5], c) - dbias) < 1e-3);
  }
  for (int i = 0; i < COUNT; i++) {
    const double got = test_element(tensors[3], i);
    if (!(fabs(got - dx[i]) * size < 2e-3))
      fail_msg("dx[%d] is %.9g, expected %.9g", i, got, dx[i]);
  }
  compute_plan_release(plan);
  compute_graph_release(graph);
  for (int i = 0; i < 6; i++) compute_tensor_release(tensors[i]);
}

static void gradients_are_right_far_from_zero(void **state) {
  (void)state;
  check_gradients(300, 1);
}

static void gradients_are_right_as_far_as_the_variance_is(void **state) {
  (void)state;
  check_gradients(0, 1e13);
  check_gradients(0, 1e17);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_goes_over_its_data_six_times),
      cmocka_unit_test(gradients_are_right_far_from_zero),
      cmocka_unit_test(gradients_are_right_as_far_as_the_variance_is),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
