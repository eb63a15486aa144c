/* SPDX-License-Identifier: MIT */
/* The library computes in the default floating-point environment and does not change the callers'
 * environments. */
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/base/float_environment.h"
#include "core/base/thread.h"
#include "support/harness/guest.h"
#include "support/harness/test.h"

static float one_third(void) {
  volatile float one = 1, three = 3;
  return one / three;
}

static compute_status divide_in_default(void *argument) {
  FLOAT_ENVIRONMENT_DEFAULT;
  volatile double zero = 0;
  float *result = argument;
  result[0] = one_third();
  result[1] = (float)(1 / zero); /* raises an exception */
  volatile long double one = 1, three = 3;
  one = one / three; /* on x86, one more in another unit */
  return COMPUTE_OK;
}

static void a_guarded_function_computes_as_by_default(void **state) {
  (void)state;
  const float expected = one_third();
  for (size_t i = 0; i < guest_environments(); i++) {
    float result[2] = {0, 0};
    const guest_report seen = guest_run(i, divide_in_default, result);
    assert_null(seen.changed);
    assert_true(result[0] == expected);
    assert_true(isinf(result[1]));
  }
}

typedef struct thread_view {
  int rounding, traps;
  sigset_t signals;
} thread_view;

static void *look(void *argument) {
  thread_view *view = argument;
  view->rounding = fegetround();
#if defined(__GLIBC__)
  view->traps = fegetexcept();
#endif
  pthread_sigmask(SIG_BLOCK, NULL, &view->signals);
  return NULL;
}

static compute_status start_and_look(void *argument) {
  pthread_t thread;
  if (thread_start(&thread, "look", look, argument)) return COMPUTE_ERROR_OUT_OF_MEMORY;
  pthread_join(thread, NULL);
  return COMPUTE_OK;
}

static void threads_start_by_default_whatever_their_creator_does(void **state) {
  (void)state;
  for (size_t i = 0; i < guest_environments(); i++) {
    thread_view view = {.rounding = -1};
    const guest_report seen = guest_run(i, start_and_look, &view);
    assert_int_equal(seen.status, COMPUTE_OK);
    assert_null(seen.changed);
    assert_int_equal(view.rounding, FE_TONEAREST);
    assert_int_equal(view.traps, 0);
    assert_true(sigismember(&view.signals, SIGALRM));
  }
}

/* ---- Whole calls --------------------------------------------------------------------------- */

typedef struct work {
  compute_context *context;
  float values[6];
} work;

static compute_status set_upward(void *user, const compute_call_arguments *a, int32_t part,
                                 int32_t parts) {
  (void)user;
  (void)part;
  (void)parts;
  fesetround(FE_UPWARD);
  memcpy(a->outputs[0].data, a->inputs[0].data, sizeof(float));
  return COMPUTE_OK;
}

/* Folded constants, eager calls, an optimizer, and a step after a callback that changes the
 * rounding mode. */
static compute_status compute_thirds(void *argument) {
  work *w = argument;
  compute_device *device = compute_default_device(w->context);
  compute_tensor *one = NULL, *three = NULL, *third = NULL, *out = NULL;
  compute_plan *plan = NULL;
  const float numbers[2] = {1, 3};
  compute_status s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SCALAR, 1, &one);
  if (!s) s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SCALAR, 3, &three);
  if (!s) s = compute_tensor_div(one, three, &third);
  if (!s) s = compute_tensor_read(third, &w->values[0], sizeof(float));
  compute_tensor_release(third);
  third = NULL;
  if (!s) s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SCALAR, 1.0 / 3, &third);
  if (!s) s = compute_tensor_read(third, &w->values[1], sizeof(float));
  compute_graph *g = compute_graph_create(w->context);
  const compute_node a = compute_constant(g, COMPUTE_F32, COMPUTE_SCALAR, &numbers[0]);
  const compute_node b = compute_constant(g, COMPUTE_F32, COMPUTE_SCALAR, &numbers[1]);
  const compute_node folded = compute_div(g, a, b);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SCALAR);
  const compute_node called =
      compute_call(g, set_upward, NULL, &x, 1, &(compute_call_output){COMPUTE_F32, COMPUTE_SCALAR},
                   1, NULL, NULL);
  const compute_node outputs[2] = {folded, compute_div(g, called, b)};
  if (!s) s = compute_compile(g, outputs, 2, NULL, &plan);
  compute_tensor *results[2] = {NULL, NULL};
  for (int i = 0; !s && i < 2; i++) s = compute_plan_create_tensor(plan, outputs[i], &results[i]);
  if (!s)
    s = compute_run(
        plan, (compute_binding[]){{x, one}, {outputs[0], results[0]}, {outputs[1], results[1]}}, 3,
        NULL);
  for (int i = 0; !s && i < 2; i++)
    s = compute_tensor_read(results[i], &w->values[2 + i], sizeof(float));
  for (int i = 0; i < 2; i++) compute_tensor_release(results[i]);
  compute_plan_release(plan);
  compute_graph_release(g);
  compute_tensor_release(one);
  compute_tensor_release(three);
  compute_tensor_release(third);
  compute_tensor_release(out);
  return s;
}

static void calls_of_every_kind_round_to_nearest(void **state) {
  (void)state;
  for (size_t i = 0; i < guest_environments(); i++) {
    work w = {.context = test_context};
    const guest_report seen = guest_run(i, compute_thirds, &w);
    if (seen.status || seen.changed)
      fail_msg("%s: %s, changed %s", guest_environment_name(i), compute_status_text(seen.status),
               seen.changed ? seen.changed : "nothing");
    for (int k = 0; k < 4; k++)
      if (w.values[k] != one_third())
        fail_msg("%s: value %d is %a", guest_environment_name(i), k, (double)w.values[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_guarded_function_computes_as_by_default),
      cmocka_unit_test(threads_start_by_default_whatever_their_creator_does),
      cmocka_unit_test(calls_of_every_kind_round_to_nearest),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
