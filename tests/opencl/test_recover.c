/* SPDX-License-Identifier: MIT */
/* A lost OpenCL device reports its first cause and no longer calls the driver. After its recovery
 * it works; older objects still fail and can be released. On PoCL behind the layer of
 * tests/opencl_layer/, which makes calls fail. */
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "support/drivers/opencl_layer.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, COUNT = 5000, LOST = -36 /* CL_INVALID_COMMAND_QUEUE */ };

static const char source[] = "__kernel void twice(__global float *x) {\n"
                             "  x[get_global_id(0)] *= 2;\n"
                             "}\n";

static opencl_layer layer;
static compute_context *context;
static const compute_backend *backend;
static void *device;

/* One object of each kind. */
typedef struct things {
  void *queue, *event, *timer, *kernel, *host;
  compute_memory memory;
} things;

static compute_status things_make(things *t) {
  *t = (things){0};
  compute_status s = backend->queue_create(device, &t->queue);
  if (s == COMPUTE_OK) s = backend->memory_allocate(device, sizeof(float) * COUNT, &t->memory);
  if (s == COMPUTE_OK) s = backend->host_allocate(device, sizeof(float) * COUNT, &t->host);
  if (s == COMPUTE_OK) s = backend->custom_build(device, source, "twice", "", &t->kernel);
  if (s == COMPUTE_OK) s = backend->event_record(t->queue, &t->event);
  if (s == COMPUTE_OK) s = backend->timer_record(t->queue, &t->timer);
  return s;
}

static void things_release(things *t) {
  if (t->event) backend->event_destroy(device, t->event);
  if (t->timer) backend->timer_destroy(device, t->timer);
  if (t->kernel) backend->custom_destroy(device, t->kernel);
  if (t->host) backend->host_release(device, t->host);
  if (t->memory.handle) backend->memory_release(device, &t->memory);
  if (t->queue) backend->queue_destroy(t->queue);
}

/* Doubles some numbers on the device, with page-locked memory in one direction. */
static compute_status things_use(const things *t) {
  static float values[COUNT];
  static const uint32_t groups[3] = {COUNT / 10, 1, 1}, group[3] = {10, 1, 1};
  float *results = t->host;
  const compute_argument place = {&t->memory, 0};
  const compute_custom_argument argument = {.memory = &t->memory};
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  memset(results, 0, sizeof values);
  compute_status s = backend->upload(t->queue, &place, values, sizeof values);
  if (s == COMPUTE_OK) s = backend->custom_launch(t->queue, t->kernel, groups, group, &argument, 1);
  if (s == COMPUTE_OK) s = backend->download(t->queue, results, &place, sizeof values);
  const compute_status waited = backend->queue_wait(t->queue);
  if (s == COMPUTE_OK) s = waited;
  for (int i = 0; i < COUNT && s == COMPUTE_OK; i++)
    assert_float_equal(results[i], 2.0F * (float)i, 0);
  return s;
}

static int64_t calls(void) {
  int64_t sum = 0, count = 0;
  for (uint32_t i = 0; layer.count(i, &count); i++) sum += count;
  return sum;
}

static void work(void) {
  assert_true(layer.arm("any", 0, false, 0));
}

/* Loses the device in a wait for a queue. */
static void lose(const things *t) {
  const compute_argument place = {&t->memory, 0};
  const float one = 1;
  assert_int_equal(backend->upload(t->queue, &place, &one, sizeof one), COMPUTE_OK);
  assert_true(layer.arm("any", 1, true, LOST));
  assert_int_equal(backend->upload(t->queue, &place, t->host, 16) == COMPUTE_OK
                       ? backend->queue_wait(t->queue)
                       : COMPUTE_ERROR_DEVICE_LOST,
                   COMPUTE_ERROR_DEVICE_LOST);
  work();
}

/* Every call with old objects fails; `fresh` are current objects, or the same ones. */
static void check_all_fail(const things *t, const things *fresh, const char *words) {
  const compute_argument old = {&t->memory, 0}, place = {&fresh->memory, 0};
  const compute_custom_argument argument = {.memory = &fresh->memory};
  static const uint32_t one[3] = {1, 1, 1};
  float value = 0;
  bool complete = false;
  int64_t time = 0;
  void *made = NULL;
  const compute_status results[] = {
      backend->queue_wait(t->queue),
      backend->upload(t->queue, &place, &value, sizeof value),
      backend->download(t->queue, &value, &place, sizeof value),
      backend->copy(t->queue, &place, &place, sizeof value),
      backend->upload(fresh->queue, &old, &value, sizeof value),
      backend->download(fresh->queue, &value, &old, sizeof value),
      backend->copy(fresh->queue, &place, &old, sizeof value),
      backend->custom_launch(fresh->queue, t->kernel, one, one, &argument, 1),
      backend->custom_launch(t->queue, fresh->kernel, one, one, &argument, 1),
      backend->event_record(t->queue, &made),
      backend->event_wait(device, t->event),
      backend->event_query(device, t->event, &complete),
      backend->queue_wait_event(fresh->queue, t->event),
      backend->queue_wait_event(t->queue, fresh->event),
      backend->timer_record(t->queue, &made),
      backend->timer_read(device, t->timer, &time),
  };
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (results[i] != COMPUTE_ERROR_DEVICE_LOST)
      fail_msg("call %zu: %s", i, compute_status_name(results[i]));
  test_check_message(context, words);
}

static void nothing_left(void) {
  char text[256];
  if (layer.live(text, sizeof text) != 0) fail_msg("left in the driver: %s", text);
}

static int open_device(void **state) {
  (void)state;
  work();
  if (compute_open(&context, &(compute_open_options){.device = "opencl:0"}) != COMPUTE_OK)
    return -1;
  backend = compute_default_device(context)->backend;
  device = compute_default_device(context)->handle;
  return 0;
}

static int close_device(void **state) {
  (void)state;
  work();
  if (compute_close(context) != COMPUTE_OK) return -1;
  nothing_left();
  return 0;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void a_lost_device_tells_its_cause_and_leaves_the_driver_alone(void **state) {
  (void)state;
  things t;
  assert_int_equal(things_make(&t), COMPUTE_OK);
  assert_int_equal(things_use(&t), COMPUTE_OK);
  lose(&t);
  check_all_fail(&t, &t, "CL_INVALID_COMMAND_QUEUE");
  compute_memory memory = {0};
  void *made = NULL;
  assert_int_equal(backend->memory_allocate(device, 64, &memory), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(backend->queue_create(device, &made), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(backend->host_allocate(device, 64, &made), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(backend->custom_build(device, source, "twice", "", &made),
                   COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "is lost since");
  assert_int_equal(calls(), 0);
  things_release(&t);
  assert_int_equal(backend->device_recover(device), COMPUTE_OK);
}

static void a_device_brought_back_works_and_what_was_before_does_not(void **state) {
  (void)state;
  things before, after, last;
  assert_int_equal(things_make(&before), COMPUTE_OK);
  lose(&before);
  assert_int_equal(backend->device_recover(device), COMPUTE_OK);
  assert_int_equal(backend->device_recover(device), COMPUTE_OK); /* nothing to do */
  assert_int_equal(things_make(&after), COMPUTE_OK);
  assert_int_equal(things_use(&after), COMPUTE_OK);
  check_all_fail(&before, &after, "was lost and recovered after this");
  assert_int_equal(things_use(&after), COMPUTE_OK);
  lose(&after);
  assert_int_equal(backend->device_recover(device), COMPUTE_OK);
  assert_int_equal(things_make(&last), COMPUTE_OK);
  check_all_fail(&before, &last, "was lost and recovered after this");
  check_all_fail(&after, &last, "was lost and recovered after this");
  things_release(&before);
  assert_int_equal(things_use(&last), COMPUTE_OK);
  things_release(&last);
  things_release(&after);
}

/* Any call during the recovery may fail: the device then stays lost or works. */
static void coming_back_may_fail_and_be_tried_again(void **state) {
  (void)state;
  for (int64_t nth = 1;; nth++) {
    things before, after;
    assert_int_equal(things_make(&before), COMPUTE_OK);
    lose(&before);
    assert_true(layer.arm("any", nth, false, -5));
    const compute_status s = backend->device_recover(device);
    const bool failed = layer.failures(NULL) > 0;
    work();
    if (s != COMPUTE_OK) {
      assert_int_equal(s, COMPUTE_ERROR_DEVICE_LOST);
      test_check_message(context, "cannot be recovered");
      check_all_fail(&before, &before, "is lost since");
      assert_int_equal(backend->device_recover(device), COMPUTE_OK);
    }
    assert_int_equal(things_make(&after), COMPUTE_OK);
    assert_int_equal(things_use(&after), COMPUTE_OK);
    things_release(&before);
    things_release(&after);
    if (!failed) break;
  }
}

/* Failures while objects are made and used are reported and leave nothing behind. */
static void timers_and_host_memory_survive_a_failing_driver(void **state) {
  (void)state;
  for (int64_t nth = 1;; nth++) {
    things t;
    assert_true(layer.arm("any", nth, false, nth % 2 ? -5 : -6));
    compute_status s = things_make(&t);
    int64_t time = 0;
    if (s == COMPUTE_OK) s = backend->timer_read(device, t.timer, &time);
    if (s == COMPUTE_OK) s = things_use(&t);
    const bool failed = layer.failures(NULL) > 0;
    work();
    things_release(&t);
    if (!failed) {
      assert_int_equal(s, COMPUTE_OK);
      break;
    }
  }
}

#define ON_A_DEVICE(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_A_DEVICE(a_lost_device_tells_its_cause_and_leaves_the_driver_alone),
      ON_A_DEVICE(a_device_brought_back_works_and_what_was_before_does_not),
      ON_A_DEVICE(coming_back_may_fail_and_be_tried_again),
      ON_A_DEVICE(timers_and_host_memory_survive_a_failing_driver),
  };
  int failed = 0;
  if (!opencl_layer_open(TEST_OPENCL_LAYER, &layer) || open_device(NULL) != 0) {
    fprintf(stderr, "Skipped: no layer before the OpenCL driver, or no device.\n");
    return SKIPPED;
  }
  compute_close(context);
  /* As a CPU, and as a device with separate memory. */
  for (uint64_t gpu = 0; gpu < 2; gpu++) {
    layer.lie(&(layer_limits){.gpu = gpu});
    failed += cmocka_run_group_tests(tests, NULL, NULL);
  }
  return failed;
}
