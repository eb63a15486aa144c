/* SPDX-License-Identifier: MIT */
/* Queues and events on the null device. It has no events, so the core waits instead. Also the
 * buffers that a queue keeps until a wait. */
#include "support/harness/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "support/harness/failing_allocator.h"
#include "core/device/buffer.h"

static compute_context *context;
static compute_device *device;
static compute_queue *queue;

static compute_status open_null(compute_context **opened) {
  return compute_open(opened, &(compute_open_options){.backends = "null", .device = "null"});
}

static int open_queue(void **state) {
  (void)state;
  unsetenv("COMPUTE_POOL_BUDGET");
  if (open_null(&context) != COMPUTE_OK) return -1;
  device = compute_default_device(context);
  return compute_queue_create(device, &queue) == COMPUTE_OK ? 0 : -1;
}

static int close_queue(void **state) {
  (void)state;
  compute_queue_release(queue);
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

static uint64_t active_blocks(void) {
  compute_pool_statistics statistics;
  assert_ok(compute_pool_query(device, &statistics));
  return statistics.blocks_active;
}

static void a_queue_knows_its_device(void **state) {
  (void)state;
  assert_ptr_equal(compute_queue_device(queue), device);
  assert_null(compute_queue_device(NULL));
  assert_ok(compute_queue_wait(queue));
  compute_queue_release(NULL);
}

static void null_arguments_are_refused(void **state) {
  (void)state;
  compute_event *event = NULL;
  bool complete;
  assert_fails(compute_queue_create(NULL, &queue), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_queue_create(device, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_queue_wait(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_event_record(NULL, &event), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_event_record(queue, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_event_wait(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_event_query(NULL, &complete), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_queue_wait_event(queue, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_queue_wait_event(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_event_record(queue, &event));
  assert_fails(compute_event_query(event, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_event_release(event);
  compute_event_release(NULL);
}

static void without_backend_events_recording_waits(void **state) {
  (void)state;
  compute_event *event = NULL;
  compute_queue *other = NULL;
  bool complete = false;
  assert_ok(compute_queue_create(device, &other));
  assert_ok(compute_event_record(queue, &event));
  assert_ok(compute_event_query(event, &complete));
  assert_true(complete);
  assert_ok(compute_event_wait(event));
  assert_ok(compute_queue_wait_event(other, event));
  compute_queue_release(other);
  compute_event_release(event);
}

static void an_event_of_another_context_is_refused(void **state) {
  (void)state;
  compute_context *second = NULL;
  compute_queue *foreign = NULL;
  compute_event *event = NULL;
  assert_ok(open_null(&second));
  assert_ok(compute_queue_create(compute_default_device(second), &foreign));
  assert_ok(compute_event_record(foreign, &event));
  assert_fails(compute_queue_wait_event(queue, event), COMPUTE_ERROR_WRONG_CONTEXT);
  compute_event_release(event);
  compute_queue_release(foreign);
  assert_ok(compute_close(second));
}

/* ---- Kept buffers -------------------------------------------------------------------------- */

static void keep_new_buffer(void) {
  memory_buffer *buffer = NULL;
  assert_ok(buffer_create(device, 100, &buffer));
  assert_ok(queue_keep(queue, buffer));
  buffer_release(buffer);
}

static void a_kept_buffer_lives_until_the_wait(void **state) {
  (void)state;
  keep_new_buffer();
  keep_new_buffer();
  assert_int_equal(active_blocks(), 2);
  assert_ok(compute_queue_wait(queue));
  assert_int_equal(active_blocks(), 0);
  keep_new_buffer();
  compute_event *event = NULL;
  assert_ok(compute_event_record(queue, &event));
  assert_int_equal(active_blocks(), 0);
  compute_event_release(event);
  keep_new_buffer(); /* released with the queue */
}

static void a_queue_keeps_a_bounded_number_of_buffers(void **state) {
  (void)state;
  uint64_t most = 0;
  for (int i = 0; i < 10000; i++) {
    keep_new_buffer();
    const uint64_t now = active_blocks();
    if (now > most) most = now;
  }
  assert_true(most > 100 && most < 5000);
}

/* A few large buffers fill a device like many small ones. */
static void a_queue_keeps_a_bounded_number_of_bytes(void **state) {
  (void)state;
  const uint64_t limit = device->info.memory_total;
  device->info.memory_total = 1 << 20;
  uint64_t most = 0;
  for (int i = 0; i < 100; i++) {
    memory_buffer *buffer = NULL;
    assert_ok(buffer_create(device, 40000, &buffer));
    assert_ok(queue_keep(queue, buffer));
    buffer_release(buffer);
    const uint64_t now = active_blocks();
    if (now > most) most = now;
  }
  assert_int_equal(most, 3); /* an eighth of the memory */
  device->info.memory_total = limit;
  assert_ok(compute_queue_wait(queue));
}

static void without_memory_to_keep_a_buffer_the_queue_is_waited_for(void **state) {
  (void)state;
  close_queue(NULL);
  failing_allocator_install();
  assert_int_equal(open_queue(NULL), 0);
  memory_buffer *buffer = NULL;
  assert_ok(buffer_create(device, 100, &buffer));
  for (int64_t nth = 1; nth <= 2; nth++) {
    failing_allocator_arm(nth, false);
    assert_ok(queue_keep(queue, buffer));
    assert_int_equal(failing_allocator_failures(), 1);
    assert_int_equal(buffer->references, 1);
  }
  failing_allocator_arm(0, false);
  buffer_release(buffer);
  assert_int_equal(close_queue(NULL), 0);
  assert_int_equal(failing_allocator_remove(), 0);
  assert_int_equal(open_queue(NULL), 0);
}

/* ---- Data on a device that the CPU cannot address ------------------------------------------ */

static void data_goes_to_the_null_device_and_back(void **state) {
  (void)state;
  float data[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
  compute_tensor *tensor = NULL, *copy = NULL;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(2, 3), data, &tensor));
  assert_null(compute_tensor_data(tensor));
  assert_ok(compute_tensor_to_device(tensor, device, &copy));
  assert_ok(compute_tensor_read(copy, back, sizeof back));
  assert_memory_equal(data, back, sizeof data);
  compute_tensor_release(copy);
  compute_tensor_release(tensor);
  assert_fails(
      compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(6), NULL, data, NULL, NULL, &tensor),
      COMPUTE_ERROR_UNSUPPORTED);
}

static void the_null_device_says_that_it_runs_nothing(void **state) {
  (void)state;
  const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {1}};
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_COPY,
                                                .rank = 1,
                                                .size = {4},
                                                .input_count = 1,
                                                .output_count = 1,
                                                .inputs = &operand,
                                                .outputs = &operand};
  char reason[128] = "";
  void *kernel = &reason;
  const compute_backend *backend = device->backend;
  assert_false(backend->supports(device->handle, &descriptor, reason, sizeof reason));
  assert_non_null(strstr(reason, "no kernels"));
  assert_fails(backend->kernel_prepare(device->handle, &descriptor, &kernel),
               COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  assert_fails(queue_enqueue(queue, kernel, NULL, 0), COMPUTE_ERROR_UNSUPPORTED);
}

#define QUEUE_TEST(test) cmocka_unit_test_setup_teardown(test, open_queue, close_queue)

int main(void) {
  const struct CMUnitTest tests[] = {
      QUEUE_TEST(a_queue_knows_its_device),
      QUEUE_TEST(null_arguments_are_refused),
      QUEUE_TEST(without_backend_events_recording_waits),
      QUEUE_TEST(an_event_of_another_context_is_refused),
      QUEUE_TEST(a_kept_buffer_lives_until_the_wait),
      QUEUE_TEST(a_queue_keeps_a_bounded_number_of_buffers),
      QUEUE_TEST(a_queue_keeps_a_bounded_number_of_bytes),
      QUEUE_TEST(without_memory_to_keep_a_buffer_the_queue_is_waited_for),
      QUEUE_TEST(data_goes_to_the_null_device_and_back),
      QUEUE_TEST(the_null_device_says_that_it_runs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
