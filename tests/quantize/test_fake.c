/* SPDX-License-Identifier: MIT */
/* Fake quantization rounds as QuantizeLinear does, and lets gradients through. */
#include <math.h>

#include "compute/quantize.h"
#include "support/harness/test.h"

enum { COUNT = 9 };
static const float values[COUNT] = {-100, -1.26F, -0.3F, 0, 1e-30F, 0.24F, 0.26F, 5.1F, 900};
static const float scale = 0.5F, zero = 10;
enum { LOW = 0, HIGH = 255 };

/* The value before rounding and limits. */
static double before(float x) {
  return (double)x / (double)scale + (double)zero;
}

static double rounded(float x) {
  return fmin(fmax(nearbyint(before(x)), LOW), HIGH);
}

static void values_are_rounded_and_gradients_pass(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  const compute_node s = compute_input(g, COMPUTE_F32, COMPUTE_SCALAR);
  const compute_node z = compute_scalar(g, COMPUTE_F32, (double)zero);
  const compute_node y = compute_fake_quantize(g, x, s, z, LOW, HIGH);
  const compute_node loss = compute_sum(g, y, COMPUTE_ALL_AXES, false);
  const compute_node of[] = {x, s};
  compute_node gradients[2];
  assert_ok(compute_gradients(g, loss, of, 2, gradients));
  const compute_node outputs[] = {y, gradients[0], gradients[1]};
  compute_plan *plan = NULL;
  assert_ok(compute_compile(g, outputs, 3, &(compute_plan_options){.device = device}, &plan));
  compute_tensor *in = NULL, *in_scale = NULL, *out[3] = {0};
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values, &in));
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SCALAR, &scale, &in_scale));
  for (int i = 0; i < 3; i++)
    assert_ok(compute_tensor_create(device, COMPUTE_F32,
                                    i < 2 ? COMPUTE_SHAPE(COUNT) : COMPUTE_SCALAR, &out[i]));
  const compute_binding bindings[] = {
      {x, in}, {s, in_scale}, {y, out[0]}, {gradients[0], out[1]}, {gradients[1], out[2]}};
  assert_ok(compute_run(plan, bindings, 5, NULL));
  float made[COUNT], slope[COUNT], step;
  assert_ok(compute_tensor_read(out[0], made, sizeof made));
  assert_ok(compute_tensor_read(out[1], slope, sizeof slope));
  assert_ok(compute_tensor_read(out[2], &step, sizeof step));
  double expected_step = 0;
  for (int i = 0; i < COUNT; i++) {
    const double v = before(values[i]);
    const bool inside = v >= LOW && v <= HIGH;
    assert_true((double)made[i] == (rounded(values[i]) - (double)zero) * (double)scale);
    assert_true(slope[i] == (inside ? 1.0F : 0.0F));
    expected_step +=
        rounded(values[i]) - (double)zero - (inside ? (double)values[i] / (double)scale : 0);
  }
  assert_true(fabs((double)step - expected_step) < 1e-4 * fabs(expected_step));
  for (int i = 0; i < 3; i++) compute_tensor_release(out[i]);
  compute_tensor_release(in);
  compute_tensor_release(in_scale);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void arguments_are_checked(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_dtype dtype = i == 0 ? COMPUTE_F64 : COMPUTE_F32;
    const compute_node x = compute_input(g, dtype, COMPUTE_SHAPE(COUNT));
    const compute_node one = compute_scalar(g, COMPUTE_F32, 1);
    const compute_node y = compute_fake_quantize(g, x, one, one, i == 1 ? 3 : 0, i == 2 ? 1e9 : 3);
    assert_false(compute_node_is_valid(y));
    assert_fails(compute_graph_status(g), i ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_DTYPE);
    compute_graph_release(g);
  }
}

/* The result must have the shape of x. */
static void a_scale_must_not_widen_x(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{1, 4}, {4, 3}};
  for (int i = 0; i < 4; i++) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(sizes[i / 2][0]));
    const compute_node wide = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(sizes[i / 2][1]));
    const compute_node one = compute_scalar(g, COMPUTE_F32, 1);
    const compute_node y =
        compute_fake_quantize(g, x, i % 2 ? wide : one, i % 2 ? one : wide, 0, 3);
    assert_false(compute_node_is_valid(y));
    assert_fails(compute_graph_status(g), COMPUTE_ERROR_SHAPE);
    compute_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_rounded_and_gradients_pass),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(a_scale_must_not_widen_x),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
