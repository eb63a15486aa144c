/* SPDX-License-Identifier: MIT */
/* A training step with one failure: on the CPU the n-th request for memory, on a device the n-th
 * call of its driver. Each time, the step is right or reports the failure. On the CPU, a failed
 * step leaves the weights unchanged. Afterwards the same trainer takes the step as usual. A lost
 * device gets a new context for the next try.
 *
 * COMPUTE_TEST_DEVICE selects the failing driver: tests/opencl_layer/ or tests/cuda_driver/. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/harness/failing_allocator.h"
#include "support/drivers/opencl_layer.h"
#include "support/samples/training.h"

enum { ITEMS = 12, MOST_WEIGHTS = 4 * 16 + 16 + 16 * 3 + 3, SKIPPED = 77 };

/* ---- Failures ------------------------------------------------------------------------------ */

static opencl_layer layer;
static cuda_stand_in gpu;
static bool on_opencl, on_cuda;

/* The nth request or call from now on fails; 0: none. */
static void arm(int64_t nth) {
  if (on_opencl) {
    assert_true(layer.arm("any", nth, false, -5)); /* CL_OUT_OF_RESOURCES */
  } else if (on_cuda) {
    char orders[64] = "keep=1";
    if (nth > 0) snprintf(orders, sizeof orders, "keep=1,fail=any:%lld:2", (long long)nth);
    assert_true(gpu.configure(orders)); /* out of memory */
  } else {
    failing_allocator_arm(nth, false);
  }
}

static bool has_failed(void) {
  if (on_opencl) return layer.failures(NULL) > 0;
  if (on_cuda) return gpu.failures(NULL) > 0;
  return failing_allocator_failures() > 0;
}

/* ---- A trainer and its weights ------------------------------------------------------------- */

typedef struct trial {
  compute_context *context;
  compute_layer *net;
  compute_trainer *trainer;
  compute_tensor *x, *t;
} trial;

static void open_trial(trial *r) {
  r->context = test_open();
  compute_device *device = compute_default_device(r->context);
  training_data d = training_data_create(ITEMS, true, 3);
  r->net = training_network(device, 3, 5);
  const compute_trainer_options o = training_options(r->net, true);
  assert_ok(compute_trainer_create(r->context, &o, &r->trainer));
  assert_ok(
      compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(ITEMS, 4), d.inputs, &r->x));
  assert_ok(compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(ITEMS), d.labels, &r->t));
  training_data_free(&d);
}

static void close_trial(trial *r) {
  compute_tensor_release(r->x);
  compute_tensor_release(r->t);
  compute_trainer_release(r->trainer);
  compute_layer_release(r->net);
  test_close(r->context);
}

/* Reads or writes all weights one after the other. */
static size_t move_weights(const trial *r, float *weights, bool write) {
  size_t place = 0;
  compute_layer_parameter p;
  for (size_t i = 0; i < compute_layer_parameter_count(r->net); i++) {
    assert_ok(compute_layer_parameter_at(r->net, i, &p));
    const size_t count = (size_t)compute_tensor_count(p.tensor);
    assert_true(place + count <= MOST_WEIGHTS);
    if (write)
      assert_ok(compute_tensor_write(p.tensor, weights + place, count * sizeof *weights));
    else
      assert_ok(compute_tensor_read(p.tensor, weights + place, count * sizeof *weights));
    place += count;
  }
  return place;
}

/* A device with a failing driver may use another method, which rounds differently. */
static bool is_alike(const float *a, const float *b, size_t count) {
  const float tolerance = on_opencl || on_cuda ? 1e-6f : 0;
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(a[i] - b[i]) <= tolerance)) return false;
  return true;
}

/* The step from `before` gives `after`. */
static void check_step(const trial *r, const float *before, const float *after, const char *when) {
  float weights[MOST_WEIGHTS], copy[MOST_WEIGHTS];
  double loss;
  memcpy(copy, before, sizeof copy);
  move_weights(r, copy, true);
  if (compute_trainer_step(r->trainer, r->x, r->t, &loss) != COMPUTE_OK)
    fail_msg("%s, the next step: %s", when, compute_error_message(r->context));
  const size_t count = move_weights(r, weights, false);
  if (!is_alike(weights, after, count)) fail_msg("%s: the next step leads elsewhere", when);
}

/* One step in which the nth request or call fails. Returns true if one failed. */
static bool step_with_failure(trial *r, const float *before, const float *after, int64_t nth) {
  float weights[MOST_WEIGHTS];
  char when[64];
  double loss = NAN;
  snprintf(when, sizeof when, "with failure number %lld", (long long)nth);
  memcpy(weights, before, sizeof weights);
  move_weights(r, weights, true);
  compute_error_clear(r->context);
  arm(nth);
  const compute_status s = compute_trainer_step(r->trainer, r->x, r->t, &loss);
  const bool failed = has_failed();
  arm(0);
  if (s == COMPUTE_ERROR_DEVICE_LOST) {
    close_trial(r);
    open_trial(r);
    return failed;
  }
  if (s != COMPUTE_OK && (!failed || compute_error_message(r->context)[0] == '\0'))
    fail_msg("%s: %s: \"%s\"", when, compute_status_name(s), compute_error_message(r->context));
  const size_t count = move_weights(r, weights, false);
  const bool host = !on_opencl && !on_cuda;
  if (s == COMPUTE_OK && !is_alike(weights, after, count))
    fail_msg("%s: the step succeeds and leads elsewhere", when);
  if (s != COMPUTE_OK && host && memcmp(weights, before, count * sizeof *weights) != 0)
    fail_msg("%s: the step fails and changes weights", when);
  check_step(r, before, after, when);
  return failed;
}

static void a_step_in_which_something_fails_is_right_or_an_error(void **state) {
  (void)state;
  trial r = {0};
  float before[MOST_WEIGHTS] = {0}, after[MOST_WEIGHTS] = {0};
  double loss;
  open_trial(&r);
  move_weights(&r, before, false);
  /* The first step creates the objects that all later steps use. */
  assert_ok(compute_trainer_step(r.trainer, r.x, r.t, &loss));
  move_weights(&r, after, false);
  check_step(&r, before, after, "without a failure");
  int64_t nth = 1;
  const int64_t growth = on_opencl || on_cuda ? 8 : 16;
  while (step_with_failure(&r, before, after, nth)) nth += 1 + nth / growth;
  print_message("%lld calls or requests in a step\n", (long long)nth - 1);
  if (on_opencl || on_cuda) assert_true(nth > 5);
  close_trial(&r);
}

/* Starts with a new trainer: the failure occurs while programs are built and memory is
 * allocated. */
static void a_first_step_in_which_something_fails_can_be_repeated(void **state) {
  (void)state;
  float before[MOST_WEIGHTS] = {0}, after[MOST_WEIGHTS] = {0};
  double loss;
  trial r = {0};
  open_trial(&r);
  move_weights(&r, before, false);
  assert_ok(compute_trainer_step(r.trainer, r.x, r.t, &loss));
  move_weights(&r, after, false);
  close_trial(&r);
  bool failed = true;
  for (int64_t nth = 1; failed; nth += 1 + nth / (on_opencl || on_cuda ? 1 : 4)) {
    open_trial(&r);
    failed = step_with_failure(&r, before, after, nth);
    close_trial(&r);
  }
}

int main(void) {
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  on_opencl = device && strncmp(device, "opencl", 6) == 0;
  on_cuda = device && strncmp(device, "cuda", 4) == 0;
  if ((on_opencl && !opencl_layer_open(TEST_OPENCL_LAYER, &layer)) ||
      (on_cuda && !cuda_stand_in_open(&gpu))) {
    fprintf(stderr, "Skipped: no driver that can be told to fail.\n");
    return SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_in_which_something_fails_is_right_or_an_error),
      cmocka_unit_test(a_first_step_in_which_something_fails_can_be_repeated),
  };
  failing_allocator_install();
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  const int64_t left = failing_allocator_remove();
  if (left != 0) fprintf(stderr, "%lld blocks of memory leaked\n", (long long)left);
  return failures != 0 || left != 0;
}
