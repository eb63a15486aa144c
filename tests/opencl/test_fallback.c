/* SPDX-License-Identifier: MIT */
/* A device that is lost and recovered while plans run on it. The run that noticed continues on the
 * CPU. New tensors and plans work on the device again; old ones report that they are lost. On PoCL
 * behind the layer of tests/opencl_layer/, which makes calls fail. */
#include <stdlib.h>
#include <string.h>

#include "support/drivers/opencl_layer.h"
#include "support/harness/test.h"

enum {
  SKIPPED = 77,
  N = 12,
  LOST = -36 /* CL_INVALID_COMMAND_QUEUE */,
  RESOURCES = -5,
  ARGUMENT_SIZE = -51
};

static opencl_layer layer;
static compute_context *context;
static compute_device *cpu, *gpu;

static int set_up(void **state) {
  (void)state;
  assert_true(layer.arm("any", 0, false, 0));
  assert_ok(compute_open(&context, &(compute_open_options){.device = "opencl:0"}));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  gpu = compute_default_device(context);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  assert_true(layer.arm("any", 0, false, 0));
  compute_error_clear(context);
  test_close(context);
  char text[256];
  if (layer.live(text, sizeof text) != 0) fail_msg("left in the driver: %s", text);
  return 0;
}

/* y = 2 x + 1 */
typedef struct model {
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *in, *out;
} model;

static model make(compute_device *where) {
  model m = {0};
  compute_graph *graph = compute_graph_create(context);
  m.x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
  m.y = compute_add(graph, compute_mul(graph, m.x, compute_scalar(graph, COMPUTE_F32, 2)),
                    compute_scalar(graph, COMPUTE_F32, 1));
  assert_ok(compute_compile(
      graph, &m.y, 1, &(compute_plan_options){.device = gpu, .fallback = COMPUTE_FALLBACK_SILENT},
      &m.plan));
  compute_graph_release(graph);
  assert_ok(compute_tensor_full(where, COMPUTE_F32, COMPUTE_SHAPE(N), 3, &m.in));
  assert_ok(compute_tensor_full(where, COMPUTE_F32, COMPUTE_SHAPE(N), 0, &m.out));
  return m;
}

static void release(model *m) {
  compute_plan_release(m->plan);
  compute_tensor_release(m->in);
  compute_tensor_release(m->out);
}

static compute_status run(const model *m, compute_run_report *report) {
  return compute_run_with(m->plan, (compute_binding[]){{m->x, m->in}, {m->y, m->out}}, 2, NULL,
                          report);
}

static void check(const model *m) {
  for (int i = 0; i < N; i++) assert_true(test_element(m->out, i) == 7);
}

static void a_lost_device_is_brought_back_by_the_run_that_notices(void **state) {
  (void)state;
  compute_run_report report;
  compute_fallback_statistics statistics;
  model far = make(cpu), near = make(gpu);
  assert_ok(run(&far, &report));
  assert_int_equal(report.fallbacks, 0);
  assert_true(layer.arm("clEnqueueNDRangeKernel", 1, false, LOST));
  assert_ok(run(&far, &report));
  assert_int_equal(layer.failures(NULL), 1);
  assert_int_equal(report.failure, COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(report.fallbacks, 1);
  check(&far);
  assert_ok(compute_fallback_query(context, &statistics));
  assert_int_equal(statistics.devices_recovered, 1);
  assert_int_equal(statistics.runs_on_cpu, 1);
  /* New objects work on the device. */
  model fresh = make(gpu);
  assert_ok(run(&fresh, &report));
  assert_int_equal(report.fallbacks, 0);
  check(&fresh);
  /* An old plan continues on the CPU with readable tensors; old tensors are lost. */
  assert_ok(compute_run_with(far.plan, (compute_binding[]){{far.x, fresh.in}, {far.y, fresh.out}},
                             2, NULL, &report));
  assert_int_equal(report.failure, COMPUTE_ERROR_DEVICE_LOST);
  check(&fresh);
  assert_fails(run(&near, NULL), COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "compiled before");
  float v[N];
  assert_fails(compute_tensor_read(near.in, v, sizeof v), COMPUTE_ERROR_DEVICE_LOST);
  /* Recovering again after an old loss changes nothing: the device still works. */
  assert_ok(compute_device_recover(gpu));
  assert_ok(compute_fallback_query(context, &statistics));
  assert_int_equal(statistics.devices_recovered, 1);
  assert_ok(run(&fresh, &report));
  assert_int_equal(report.fallbacks, 0);
  model later = make(gpu);
  assert_ok(run(&later, &report));
  assert_int_equal(report.fallbacks, 0);
  check(&later);
  release(&far);
  release(&near);
  release(&fresh);
  release(&later);
}

static void the_caller_may_bring_it_back(void **state) {
  (void)state;
  compute_run_report report;
  model near = make(gpu);
  assert_ok(compute_device_recover(gpu)); /* nothing to do */
  assert_ok(run(&near, NULL));
  float v[N];
  assert_true(layer.arm("clEnqueueNDRangeKernel", 1, false, LOST));
  assert_fails(compute_run_with(near.plan,
                                (compute_binding[]){{near.x, near.in}, {near.y, near.out}}, 2,
                                &(compute_run_options){.fallback = COMPUTE_FALLBACK_STRICT}, NULL),
               COMPUTE_ERROR_DEVICE_LOST);
  assert_ok(compute_device_recover(gpu));
  assert_fails(compute_tensor_read(near.in, v, sizeof v), COMPUTE_ERROR_DEVICE_LOST);
  model fresh = make(gpu);
  assert_ok(run(&fresh, &report));
  assert_int_equal(report.fallbacks, 0);
  check(&fresh);
  release(&near);
  release(&fresh);
}

/* Short resources are no loss: the run falls back to the CPU, and the device works. */
static void a_launch_that_fails_once_is_repeated_on_the_cpu(void **state) {
  (void)state;
  compute_run_report report;
  model near = make(gpu);
  assert_ok(run(&near, NULL));
  assert_true(layer.arm("clEnqueueNDRangeKernel", 1, false, RESOURCES));
  assert_ok(run(&near, &report));
  assert_int_equal(report.fallbacks, 1);
  assert_ptr_equal(report.device, cpu);
  check(&near);
  assert_ok(run(&near, &report));
  assert_int_equal(report.fallbacks, 0);
  release(&near);
}

/* Some drivers refuse arguments that the specification allows. */
static void arguments_that_the_driver_refuses_leave_the_run_to_the_cpu(void **state) {
  (void)state;
  compute_run_report report;
  model near = make(gpu);
  assert_true(layer.arm("clSetKernelArg", 1, true, ARGUMENT_SIZE));
  assert_ok(run(&near, &report));
  assert_int_equal(report.failure, COMPUTE_ERROR_LAUNCH);
  assert_int_equal(report.fallbacks, 1);
  assert_ptr_equal(report.device, cpu);
  assert_true(layer.arm("any", 0, false, 0));
  check(&near);
  release(&near);
}

/* A driver need not begin commands before they are flushed. */
static void an_asynchronous_run_begins_before_the_wait(void **state) {
  (void)state;
  model near = make(gpu);
  compute_queue *queue;
  assert_ok(compute_queue_create(gpu, &queue));
  assert_true(layer.arm("any", 0, false, 0)); /* counts from here */
  assert_ok(
      compute_run(near.plan, (compute_binding[]){{near.x, near.in}, {near.y, near.out}}, 2, queue));
  const char *name;
  int64_t count = 0, flushes = 0;
  for (uint32_t i = 0; (name = layer.count(i, &count)) != NULL; i++) {
    if (strcmp(name, "clFlush") == 0) flushes += count;
  }
  assert_int_equal(flushes, 1);
  assert_ok(compute_queue_wait(queue));
  check(&near);
  compute_queue_release(queue);
  release(&near);
}

#define FALLBACK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      FALLBACK_TEST(a_lost_device_is_brought_back_by_the_run_that_notices),
      FALLBACK_TEST(the_caller_may_bring_it_back),
      FALLBACK_TEST(a_launch_that_fails_once_is_repeated_on_the_cpu),
      FALLBACK_TEST(arguments_that_the_driver_refuses_leave_the_run_to_the_cpu),
      FALLBACK_TEST(an_asynchronous_run_begins_before_the_wait),
  };
  if (!opencl_layer_open(TEST_OPENCL_LAYER, &layer)) {
    print_message("no OpenCL layer: skipped\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
