/* SPDX-License-Identifier: MIT */
/* compute_run_with on the device under test: its report, its limits, and invalid runs. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"

enum { SIDE = 128, LONG_CHAIN = 40 };

static compute_tensor *square(float value) {
  compute_tensor *t = NULL;
  assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32,
                                COMPUTE_SHAPE(SIDE, SIDE), value, &t));
  return t;
}

/* A chain of products that takes at least milliseconds, and w ← w + 1 at its end. */
typedef struct model {
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *in, *out, *w;
} model;

static model make(void) {
  model m = {.in = square(0.5F), .out = square(0)};
  const float one = 1;
  m.w = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &one);
  compute_graph *graph = compute_graph_create(test_context);
  m.x = m.y = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE));
  const compute_node w = compute_parameter(graph, m.w);
  const compute_node small = compute_scalar(graph, COMPUTE_F32, 1.0 / SIDE);
  for (int i = 0; i < LONG_CHAIN; i++)
    m.y = compute_mul(graph, compute_matmul(graph, m.y, m.x), small);
  const compute_node last =
      compute_reshape(graph,
                      compute_mul(graph, compute_mean(graph, m.y, COMPUTE_ALL_AXES, false),
                                  compute_scalar(graph, COMPUTE_F32, 0)),
                      COMPUTE_SHAPE(1));
  const compute_node more = compute_add(graph, last, compute_scalar(graph, COMPUTE_F32, 1));
  const compute_node outputs[] = {m.y, compute_assign(graph, w, compute_add(graph, w, more))};
  m.plan = test_compile(graph, outputs, 2, 0);
  compute_graph_release(graph);
  return m;
}

static void release(model *m) {
  compute_plan_release(m->plan);
  compute_tensor_release(m->in);
  compute_tensor_release(m->out);
  compute_tensor_release(m->w);
}

static compute_status run(const model *m, const compute_run_options *options,
                          compute_run_report *report) {
  return compute_run_with(m->plan, (compute_binding[]){{m->x, m->in}, {m->y, m->out}}, 2, options,
                          report);
}

static void a_report_tells_of_a_run_without_trouble(void **state) {
  (void)state;
  model m = make();
  compute_run_report report;
  memset(&report, 0xff, sizeof report);
  assert_ok(run(&m, NULL, &report));
  assert_ptr_equal(report.device, compute_default_device(test_context));
  assert_int_equal(report.failure, COMPUTE_OK);
  assert_int_equal(report.fallbacks, 0);
  assert_true(report.steps_done > 1 && report.seconds > 0);
  for (size_t i = 0; i < sizeof report.reserved / sizeof *report.reserved; i++)
    assert_int_equal(report.reserved[i], 0);
  assert_true(test_element(m.w, 0) == 2);
  assert_ok(run(&m, &(compute_run_options){.time_limit = 1000}, NULL)); /* far in the future */
  assert_ok(run(&m, &(compute_run_options){.time_limit = 1e300}, NULL));
  assert_true(test_element(m.w, 0) == 4);
  release(&m);
}

/* A limit before the first step: nothing changes, in particular no parameter. */
static void a_limit_ends_a_run_between_two_steps(void **state) {
  (void)state;
  model m = make();
  compute_run_report report;
  assert_ok(run(&m, NULL, NULL));
  assert_fails(run(&m, &(compute_run_options){.time_limit = 1e-9}, &report), COMPUTE_ERROR_TIMEOUT);
  test_check_message(test_context, "limit");
  assert_int_equal(report.fallbacks, 0);
  assert_true(test_element(m.w, 0) == 2);
  /* Any limit between: the parameter changes completely or not at all. */
  double expected = 2;
  for (double limit = 1e-4; limit < 0.05; limit *= 3) {
    const compute_status s = run(&m, &(compute_run_options){.time_limit = limit}, NULL);
    if (s == COMPUTE_OK) expected++;
    if (s != COMPUTE_OK && s != COMPUTE_ERROR_TIMEOUT) break; /* the device counts as hung */
    if (test_element(m.w, 0) != expected) fail_msg("%g seconds: a half-done step", limit);
  }
  compute_error_clear(test_context);
  release(&m);
}

static void a_run_with_a_limit_and_a_queue_is_finished_on_return(void **state) {
  (void)state;
  model m = make();
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(compute_default_device(test_context), &queue));
  assert_ok(run(&m, &(compute_run_options){.queue = queue, .time_limit = 100}, NULL));
  assert_true(test_element(m.w, 0) == 2);
  assert_true(test_element(m.out, 5) > 0);
  assert_ok(compute_queue_wait(queue));
  compute_queue_release(queue);
  release(&m);
}

static void options_that_make_no_sense_are_refused(void **state) {
  (void)state;
  model m = make();
  compute_run_report report = {.fallbacks = 7};
  const compute_run_options wrong[] = {
      {.time_limit = -0.5}, {.time_limit = (double)NAN}, {.fallback = 4}, {.reserved = {1}}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_fails(run(&m, &wrong[i], &report), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_int_equal(report.fallbacks, 0);
  assert_fails(compute_run_with(NULL, NULL, 0, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_run_with(m.plan, NULL, 1, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_true(test_element(m.w, 0) == 1);
  compute_error_clear(test_context);
  release(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_report_tells_of_a_run_without_trouble),
      cmocka_unit_test(a_limit_ends_a_run_between_two_steps),
      cmocka_unit_test(a_run_with_a_limit_and_a_queue_is_finished_on_return),
      cmocka_unit_test(options_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
