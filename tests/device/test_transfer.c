/* SPDX-License-Identifier: MIT */
/* Copies in a queue's order: the profile lists each under its caller's name, and a copy that loses
 * the device marks it as lost. The null device's vtable is replaced to fail. */
#include "support/harness/test.h"

#include <string.h>

#include "core/base/error.h"
#include "core/device/buffer.h"
#include "core/device/collector_private.h"
#include "core/device/transfer.h"

enum { BYTES = 64 };

static compute_context *context;
static compute_device *device;
static compute_queue *queue;
static memory_buffer *buffer;
static const compute_backend *real;
static compute_backend faked;
static compute_status copies_say, wait_says;

static compute_status failing_upload(void *q, const compute_argument *to, const void *from,
                                     uint64_t bytes) {
  (void)q, (void)to, (void)from, (void)bytes;
  return error_set(context, copies_say, "fake", "the copy fails");
}

static compute_status failing_download(void *q, void *to, const compute_argument *from,
                                       uint64_t bytes) {
  (void)q, (void)to, (void)from, (void)bytes;
  return error_set(context, copies_say, "fake", "the copy fails");
}

static compute_status wait_for_queue(void *q) {
  (void)q;
  return wait_says ? error_set(context, wait_says, "fake", "the wait fails") : COMPUTE_OK;
}

static int open_device(void **state) {
  (void)state;
  if (compute_open(&context, &(compute_open_options){.backends = "null", .device = "null"}))
    return -1;
  device = compute_default_device(context);
  real = device->backend;
  faked = *real;
  faked.upload = failing_upload;
  faked.download = failing_download;
  faked.queue_wait = wait_for_queue;
  return compute_queue_create(device, &queue) || buffer_create(device, BYTES, &buffer) ? -1 : 0;
}

static int close_device(void **state) {
  (void)state;
  device->backend = real;
  device_set_loss(device, DEVICE_WORKS);
  buffer_release(buffer);
  compute_queue_release(queue);
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

static profile_entry entry_of(const char *name, const char *detail) {
  profile_entry entry;
  const uint32_t number = profile_entry_of(context, device, PROFILE_TRANSFER, name, detail);
  assert_int_not_equal(number, 0);
  profile_entry_copy(context->profile, number, &entry);
  return entry;
}

static void copies_are_in_the_profile_under_their_name(void **state) {
  (void)state;
  char from[BYTES] = "bytes", to[BYTES] = "";
  const compute_argument at = {&buffer->memory, 0};
  assert_ok(queue_upload(queue, &at, from, BYTES, "before it is on"));
  assert_ok(compute_profile_start(context, NULL));
  assert_ok(queue_upload(queue, &at, from, BYTES, "mine"));
  assert_ok(queue_download(queue, to, &at, BYTES, "mine"));
  assert_ok(queue_download(queue, to, &at, BYTES / 2, "mine"));
  assert_ok(queue_upload(queue, &at, from, 0, "mine"));
  assert_ok(queue_upload(queue, &at, from, BYTES, NULL)); /* recorded by the caller */
  assert_ok(transfer_upload(device, &at, from, BYTES));
  assert_ok(compute_queue_wait(queue));
  assert_ok(compute_profile_stop(context));
  profile_collect(context, NULL);
  const profile_entry up = entry_of("upload", "mine"), down = entry_of("download", "mine");
  assert_int_equal(up.times.count, 1);
  assert_int_equal(up.bytes, BYTES);
  assert_int_equal(down.times.count, 2);
  assert_int_equal(down.bytes, BYTES + BYTES / 2);
  assert_int_equal(entry_of("upload", "").times.count, 1);
  assert_int_equal(entry_of("upload", "before it is on").times.count, 0);
}

static void a_loss_during_a_copy_is_noted(void **state) {
  (void)state;
  char data[BYTES] = "";
  const compute_argument at = {&buffer->memory, 0};
  device->backend = &faked;
  copies_say = wait_says = COMPUTE_ERROR_DEVICE_LOST;
  assert_int_equal(device_loss_of(device), DEVICE_WORKS);
  assert_fails(queue_upload(queue, &at, data, BYTES, "test"), COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "the copy fails");
  assert_int_equal(device_loss_of(device), DEVICE_FAILED);
  device_set_loss(device, DEVICE_WORKS);
  assert_fails(queue_download(queue, data, &at, BYTES, NULL), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(device_loss_of(device), DEVICE_FAILED);
}

/* Memory from before a loss stays lost after the device's recovery. */
static void a_copy_of_lost_memory_does_not_lose_the_device(void **state) {
  (void)state;
  char data[BYTES] = "";
  const compute_argument at = {&buffer->memory, 0};
  device->backend = &faked;
  device_set_loss(device, DEVICE_WORKS);
  copies_say = COMPUTE_ERROR_DEVICE_LOST;
  wait_says = COMPUTE_OK;
  assert_fails(queue_download(queue, data, &at, BYTES, "test"), COMPUTE_ERROR_DEVICE_LOST);
  assert_fails(transfer_upload(device, &at, data, BYTES), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(device_loss_of(device), DEVICE_WORKS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_in_the_profile_under_their_name),
      cmocka_unit_test(a_loss_during_a_copy_is_noted),
      cmocka_unit_test(a_copy_of_lost_memory_does_not_lose_the_device),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
