/* SPDX-License-Identifier: MIT */
/* Memory of the device and of the host. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/conformance.h"
#include "core/platform/aligned.h"

enum { BYTES = 3 << 20, PAGE = 4096 };

static void fill(unsigned char *data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(i * 31 + i / 4099 + seed);
}

static void expect_same(run *r, const void *actual, const void *expected, size_t bytes,
                        const char *what) {
  const unsigned char *a = actual, *b = expected;
  for (size_t i = 0; i < bytes; i++)
    EXPECT(r, a[i] == b[i], "%s: byte %zu of %zu is %u, not %u", what, i, bytes, a[i], b[i]);
}

/* ---- Of the device ------------------------------------------------------------------------- */

static void memories_of_all_sizes_keep_what_they_are_given(run *r, const void *user) {
  static const size_t sizes[] = {1, 3, 64, 65, 4096, 100003, BYTES};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  compute_memory *memory[COUNT];
  unsigned char *data = case_buffer(r, BYTES), *back = case_buffer(r, BYTES);
  void *queue = case_queue(r);
  (void)user;
  for (int i = 0; i < COUNT; i++) {
    memory[i] = case_memory(r, sizes[i]);
    EXPECT(r, !memory[i]->host || (uintptr_t)memory[i]->host % 64 == 0,
           "memory of %zu bytes is not aligned to 64 bytes", sizes[i]);
    fill(data, sizes[i], (unsigned)i);
    case_upload(r, queue, memory[i], 0, data, sizes[i]);
  }
  for (int i = 0; i < COUNT; i++) {
    fill(data, sizes[i], (unsigned)i);
    case_download(r, queue, memory[i], 0, back, sizes[i]);
    expect_same(r, back, data, sizes[i], "memory that others were allocated after");
    if (memory[i]->host)
      expect_same(r, memory[i]->host, data, sizes[i], "memory as the host sees it");
  }
}

static void parts_are_copied_to_the_byte(run *r, const void *user) {
  enum { ROOM = 1000 };
  unsigned char *expected = case_buffer(r, ROOM), *data = case_buffer(r, ROOM),
                *back = case_buffer(r, ROOM);
  compute_memory *memory = case_memory(r, ROOM), *other = case_memory(r, ROOM);
  void *queue = case_queue(r);
  (void)user;
  fill(data, ROOM, 9);
  case_upload(r, queue, memory, 0, expected, ROOM);
  case_upload(r, queue, memory, 3, data, 5);
  memcpy(expected + 3, data, 5);
  case_upload(r, queue, memory, 999, data + 7, 1);
  expected[999] = data[7];
  case_upload(r, queue, memory, 101, data + 13, 250);
  memcpy(expected + 101, data + 13, 250);
  case_download(r, queue, memory, 0, back, ROOM);
  expect_same(r, back, expected, ROOM, "uploads at odd places");
  case_upload(r, queue, other, 0, data, ROOM);
  const compute_argument to = {other, 17}, from = {memory, 2};
  EXPECT_OK(r, r->backend->copy(queue, &to, &from, 333));
  memcpy(data + 17, expected + 2, 333);
  memset(back, 0, ROOM);
  case_download(r, queue, other, 1, back + 1, ROOM - 1);
  expect_same(r, back + 1, data + 1, ROOM - 1, "a copy at odd places");
}

static void more_than_there_can_be_is_refused(run *r, const void *user) {
  compute_memory memory = {0};
  (void)user;
  for (int i = 0; i < 2; i++) {
    EXPECT_STATUS(r, r->backend->memory_allocate(r->device, UINT64_C(1) << 60, &memory),
                  COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
    case_memory(r, 1 << 16);
  }
}

static void memory_can_be_had_again_and_again(run *r, const void *user) {
  (void)user;
  for (int i = 0; i < 200; i++) {
    compute_memory memory = {0};
    EXPECT_OK(r, r->backend->memory_allocate(r->device, BYTES, &memory));
    r->backend->memory_release(r->device, &memory);
  }
}

/* Copies from and to wrapped memory; the bytes around it are unchanged. */
static void wrap(run *r, unsigned char *data, size_t bytes) {
  unsigned char *back = case_buffer(r, bytes), *whole = case_buffer(r, bytes + 2 * PAGE);
  void *queue = case_queue(r);
  compute_memory memory = {0};
  fill(data, bytes + 2 * PAGE, 4);
  fill(whole, bytes + 2 * PAGE, 4);
  const compute_status status = r->backend->memory_import(r->device, data + PAGE, bytes, &memory);
  if (status == COMPUTE_ERROR_UNSUPPORTED) {
    char words[SERVICES_WORDS];
    services_said(&r->services, words);
    case_status(r, "memory_import", status, COMPUTE_ERROR_UNSUPPORTED);
    case_refuse(r, "%s", words);
  }
  EXPECT_OK(r, status);
  const compute_argument at = {&memory, 0}, tail = {&memory, bytes / 2};
  compute_status s = r->backend->download(queue, back, &at, bytes);
  if (!s) s = r->backend->queue_wait(queue);
  const bool read = !memcmp(back, data + PAGE, bytes);
  if (!s) s = r->backend->copy(queue, &tail, &at, bytes / 2);
  if (!s) s = r->backend->queue_wait(queue);
  r->backend->memory_release(r->device, &memory);
  EXPECT_OK(r, s);
  EXPECT(r, read, "what the host has written is not what the device reads");
  memcpy(whole + PAGE + bytes / 2, whole + PAGE, bytes / 2);
  expect_same(r, data, whole, bytes + 2 * PAGE, "the host's memory after a copy into it");
}

static void memory_of_the_host_is_wrapped_or_refused(run *r, const void *user) {
  const bool aligned = user != NULL;
  NEEDS(r, memory_import);
  unsigned char *data = case_buffer(r, 6 * PAGE);
  data += aligned ? PAGE - (uintptr_t)data % PAGE : 8;
  wrap(r, data, 2 * PAGE);
}

/* ---- Memory shared with others ------------------------------------------------------------- */

/* Memory adopted by its exported name is the same memory. It outlives the release of the adopted
 * name. */
static void memory_is_shared_by_its_name(run *r, const void *user) {
  (void)user;
  NEEDS(r, memory_export);
  NEEDS(r, memory_adopt);
  enum { ROOM = 4096, OFFSET = 512 };
  const compute_backend *b = r->backend;
  unsigned char *data = case_buffer(r, ROOM), *back = case_buffer(r, ROOM);
  compute_memory *own = case_memory(r, ROOM), again = {0};
  compute_foreign_memory device = {0}, name = {0};
  void *queue = case_queue(r);
  const compute_argument at = {own, OFFSET};
  b->memory_export(r->device, NULL, &device);
  b->memory_export(r->device, &at, &name);
  EXPECT(r, name.device_type == device.device_type && name.device_id == device.device_id,
         "the memory is on device %d of type %d, the device itself is %d of type %d",
         (int)name.device_id, (int)name.device_type, (int)device.device_id,
         (int)device.device_type);
  fill(data, ROOM, 5);
  case_upload(r, queue, own, 0, data, ROOM);
  EXPECT_OK(r, b->memory_adopt(r->device, &name, name.byte_offset + ROOM - OFFSET, &again));
  const compute_argument shared = {&again, name.byte_offset},
                         half = {&again, name.byte_offset + 64};
  compute_status s = b->copy(queue, &half, &shared, 64);
  if (!s) s = b->queue_wait(queue);
  b->memory_release(r->device, &again);
  EXPECT_OK(r, s);
  memcpy(data + OFFSET + 64, data + OFFSET, 64);
  case_download(r, queue, own, 0, back, ROOM);
  expect_same(r, back, data, ROOM, "memory that was changed under another name");
}

/* ---- Page-locked memory of the host -------------------------------------------------------- */

static void round_trip(run *r, void *queue, const compute_memory *memory, unsigned char *from,
                       unsigned char *to, unsigned seed) {
  const compute_argument at = {memory, 256};
  fill(from, BYTES, seed);
  if (to != from) memset(to, 0, BYTES);
  EXPECT_OK(r, r->backend->upload(queue, &at, from, BYTES));
  EXPECT_OK(r, r->backend->download(queue, to, &at, BYTES));
  EXPECT_OK(r, r->backend->queue_wait(queue));
  expect_same(r, to, from, BYTES, "a round trip");
}

static void the_devices_own_is_copied_from_and_to(run *r, const void *user) {
  (void)user;
  NEEDS(r, host_allocate);
  unsigned char *plain = case_buffer(r, BYTES);
  const compute_memory *memory = case_memory(r, BYTES + 512);
  void *queue = case_queue(r), *a = case_host_memory(r, BYTES), *b = case_host_memory(r, BYTES);
  EXPECT(r, (uintptr_t)a % 64 == 0, "host_allocate gives memory that is not aligned to 64 bytes");
  round_trip(r, queue, memory, a, b, 1);
  round_trip(r, queue, memory, a, plain, 2);
  round_trip(r, queue, memory, plain, b, 3);
}

static void the_callers_is_registered_once_at_a_time(run *r, const void *user) {
  (void)user;
  NEEDS(r, host_register);
  const compute_backend *b = r->backend;
  unsigned char *mine = aligned_take(PAGE, BYTES), *plain = case_buffer(r, BYTES);
  const compute_memory *memory = case_memory(r, BYTES + 512);
  void *queue = case_queue(r);
  EXPECT(r, mine, "out of memory for the test's own data");
  memset(mine, 0, BYTES);
  const compute_status status = b->host_register(r->device, mine, BYTES);
  if (status == COMPUTE_ERROR_UNSUPPORTED) {
    char words[SERVICES_WORDS];
    services_said(&r->services, words);
    aligned_give(mine);
    case_status(r, "host_register", status, COMPUTE_ERROR_UNSUPPORTED);
    case_refuse(r, "%s", words);
  }
  EXPECT_OK(r, status);
  EXPECT_STATUS(r, b->host_register(r->device, mine, BYTES), COMPUTE_ERROR_INVALID_STATE);
  round_trip(r, queue, memory, mine, plain, 5);
  round_trip(r, queue, memory, plain, mine, 6);
  b->host_unregister(r->device, mine);
  round_trip(r, queue, memory, mine, plain, 7);
  EXPECT_OK(r, b->host_register(r->device, mine, BYTES));
  b->host_unregister(r->device, mine);
  aligned_give(mine);
}

/* A busy machine may finish the copies before the query, but not every time. */
static void copies_of_it_are_not_waited_for(run *r, const void *user) {
  enum { ATTEMPTS = 20, TURNS = 8 };
  (void)user;
  NEEDS(r, host_allocate);
  NEEDS(r, event_record);
  unsigned char *data = case_host_memory(r, BYTES), *back = case_host_memory(r, BYTES);
  const compute_memory *memory = case_memory(r, BYTES + 512);
  const compute_argument at = {memory, 256};
  void *queue = case_queue(r);
  bool complete = true;
  fill(data, BYTES, 8);
  for (int attempt = 0; attempt < ATTEMPTS && complete; attempt++) {
    for (int i = 0; i < TURNS; i++) {
      EXPECT_OK(r, r->backend->upload(queue, &at, data, BYTES));
      EXPECT_OK(r, r->backend->download(queue, back, &at, BYTES));
    }
    void *event = case_event(r, queue);
    EXPECT_OK(r, r->backend->event_query(r->device, event, &complete));
    EXPECT_OK(r, r->backend->queue_wait(queue));
    expect_same(r, back, data, BYTES, "copies of page-locked memory");
  }
  EXPECT(r, !complete, "copies from and to host_allocate's memory hold the caller up");
}

static void too_much_of_it_is_refused(run *r, const void *user) {
  void *data = NULL;
  (void)user;
  NEEDS(r, host_allocate);
  EXPECT_STATUS(r, r->backend->host_allocate(r->device, UINT64_C(1) << 50, &data),
                COMPUTE_ERROR_OUT_OF_MEMORY);
  case_host_memory(r, PAGE);
}

void memory_cases(case_visitor add, void *user) {
  static const conformance_case cases[] = {
      {"memory/sizes and alignment", memories_of_all_sizes_keep_what_they_are_given, NULL, false},
      {"memory/parts", parts_are_copied_to_the_byte, NULL, false},
      {"memory/exhaustion", more_than_there_can_be_is_refused, NULL, false},
      {"memory/release", memory_can_be_had_again_and_again, NULL, false},
      {"memory/import", memory_of_the_host_is_wrapped_or_refused, "aligned", false},
      {"memory/import off the alignment", memory_of_the_host_is_wrapped_or_refused, NULL, false},
      {"memory/shared", memory_is_shared_by_its_name, NULL, false},
      {"host memory/allocate", the_devices_own_is_copied_from_and_to, NULL, false},
      {"host memory/register", the_callers_is_registered_once_at_a_time, NULL, false},
      {"host memory/does not wait", copies_of_it_are_not_waited_for, NULL, false},
      {"host memory/exhaustion", too_much_of_it_is_refused, NULL, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(&cases[i], user);
}
