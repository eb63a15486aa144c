/* SPDX-License-Identifier: MIT */
/* Runs a case and releases its objects at the end, also after a failure's longjmp. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/conformance.h"
#include "core/kernel/common/program.h"
#include "core/platform/aligned.h"

enum { QUEUE, MEMORY, KERNEL, EVENT, TIMER, HOST_MEMORY, RECORDING, BUFFER };

const char *outcome_name(outcome which) {
  static const char *const names[] = {"passed", "refused", "failed"};
  return names[which];
}

/* ---- Ending -------------------------------------------------------------------------------- */

_Noreturn static void end(run *r, outcome which, const char *format, va_list list) {
  r->outcome = which;
  vsnprintf(r->words, sizeof r->words, format, list);
  longjmp(r->end, 1);
}

_Noreturn void case_fail(run *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  end(r, OUTCOME_FAILED, format, list);
}

_Noreturn void case_refuse(run *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  end(r, OUTCOME_REFUSED, format, list);
}

void case_status(run *r, const char *call, compute_status actual, compute_status expected) {
  char words[SERVICES_WORDS];
  const compute_status said = services_said(&r->services, words);
  if (actual != expected)
    case_fail(r, "%s: %s instead of %s%s%s", call, compute_status_name(actual),
              compute_status_name(expected), words[0] ? ": " : "", words);
  if (actual != COMPUTE_OK && (said != actual || !words[0]))
    case_fail(r, "%s: %s without words: services->fail was %s", call, compute_status_name(actual),
              said == COMPUTE_OK ? "not called" : "called for another status");
  services_forget(&r->services);
}

/* ---- Objects ------------------------------------------------------------------------------- */

static uint32_t keep(run *r, int kind, void *handle) {
  EXPECT(r, r->thing_count < CASE_THINGS, "the case makes too many things");
  r->things[r->thing_count].kind = kind;
  r->things[r->thing_count].handle = handle;
  return r->thing_count++;
}

static void release_thing(run *r, uint32_t i) {
  const compute_backend *b = r->backend;
  void *handle = r->things[i].handle;
  switch (r->things[i].kind) {
  case QUEUE:
    b->queue_wait(handle);
    b->queue_destroy(handle);
    break;
  case MEMORY: b->memory_release(r->device, &r->things[i].memory); break;
  case KERNEL: b->kernel_destroy(r->device, handle); break;
  case EVENT: b->event_destroy(r->device, handle); break;
  case TIMER: b->timer_destroy(r->device, handle); break;
  case HOST_MEMORY: b->host_release(r->device, handle); break;
  case RECORDING: b->record_destroy(r->device, handle); break;
  default: free(handle); break;
  }
}

/* Queues first: they wait for their work before any object that it uses is released. */
static void release_things(run *r) {
  for (uint32_t i = 0; i < r->thing_count; i++)
    if (r->things[i].kind == QUEUE) r->backend->queue_wait(r->things[i].handle);
  while (r->thing_count > 0) release_thing(r, --r->thing_count);
}

void *case_queue(run *r) {
  void *queue = NULL;
  EXPECT_OK(r, r->backend->queue_create(r->device, &queue));
  keep(r, QUEUE, queue);
  return queue;
}

compute_memory *case_memory(run *r, uint64_t bytes) {
  compute_memory memory = {0};
  EXPECT_OK(r, r->backend->memory_allocate(r->device, bytes, &memory));
  EXPECT(r, memory.bytes >= bytes, "memory_allocate of %llu bytes says that it has %llu",
         (unsigned long long)bytes, (unsigned long long)memory.bytes);
  const uint32_t place = keep(r, MEMORY, NULL);
  r->things[place].memory = memory;
  return &r->things[place].memory;
}

void *case_kernel(run *r, const compute_kernel_descriptor *d) {
  char reason[CASE_WORDS] = "";
  void *kernel = NULL;
  const bool supported = r->backend->supports(r->device, d, reason, sizeof reason);
  if (supported) {
    EXPECT_OK(r, r->backend->kernel_prepare(r->device, d, &kernel));
    EXPECT(r, kernel, "kernel_prepare succeeded without a kernel");
    keep(r, KERNEL, kernel);
    return kernel;
  }
  EXPECT(r, reason[0], "supports refuses without a reason");
  const compute_status status = r->backend->kernel_prepare(r->device, d, &kernel);
  if (!status) keep(r, KERNEL, kernel);
  EXPECT(r, status, "supports refuses (%s), but kernel_prepare succeeds", reason);
  case_status(r, "kernel_prepare of what supports refuses", status, COMPUTE_ERROR_UNSUPPORTED);
  case_refuse(r, "%s", reason);
}

void *case_event(run *r, void *queue) {
  void *event = NULL;
  EXPECT_OK(r, r->backend->event_record(queue, &event));
  keep(r, EVENT, event);
  return event;
}

void *case_timer(run *r, void *queue) {
  void *timer = NULL;
  EXPECT_OK(r, r->backend->timer_record(queue, &timer));
  keep(r, TIMER, timer);
  return timer;
}

void *case_host_memory(run *r, uint64_t bytes) {
  void *data = NULL;
  EXPECT_OK(r, r->backend->host_allocate(r->device, bytes, &data));
  EXPECT(r, data, "host_allocate succeeded without memory");
  keep(r, HOST_MEMORY, data);
  return data;
}

void *case_recording(run *r, void *recording) {
  keep(r, RECORDING, recording);
  return recording;
}

void *case_buffer(run *r, size_t bytes) {
  void *data = aligned_take(64, (bytes + 64) / 64 * 64);
  EXPECT(r, data, "out of memory for the test's own data");
  memset(data, 0, bytes);
  keep(r, BUFFER, data);
  return data;
}

/* ---- Copies and a kernel ------------------------------------------------------------------- */

void case_upload(run *r, void *queue, const compute_memory *memory, uint64_t offset,
                 const void *data, uint64_t bytes) {
  const compute_argument to = {memory, offset};
  EXPECT_OK(r, r->backend->upload(queue, &to, data, bytes));
  EXPECT_OK(r, r->backend->queue_wait(queue));
}

void case_download(run *r, void *queue, const compute_memory *memory, uint64_t offset, void *data,
                   uint64_t bytes) {
  const compute_argument from = {memory, offset};
  EXPECT_OK(r, r->backend->download(queue, data, &from, bytes));
  EXPECT_OK(r, r->backend->queue_wait(queue));
}

void *case_affine(run *r) {
  program_builder b = {0};
  const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {1}};
  const uint16_t x = program_load(&b, COMPUTE_F32, 0);
  const uint16_t twice =
      program_apply(&b, COMPUTE_I_MUL, COMPUTE_F32, x, program_constant(&b, COMPUTE_F32, 2), 0);
  program_store(&b, program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, twice,
                                  program_constant(&b, COMPUTE_F32, 1), 0));
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = COMPUTE_KERNEL_MAP,
                                       .rank = 1,
                                       .size = {AFFINE_COUNT},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = &operand,
                                       .outputs = &operand,
                                       .epilogue = program_finish(&b)};
  return case_kernel(r, &d);
}

/* ---- Running ------------------------------------------------------------------------------- */

void case_run(run *r, const conformance_case *c) {
  r->outcome = OUTCOME_PASSED;
  r->words[0] = '\0';
  services_forget(&r->services);
  if (setjmp(r->end) == 0) c->function(r, c->user);
  release_things(r);
}
