/* SPDX-License-Identifier: MIT */
#include "backend/subject.h"

#include <stdio.h>
#include <string.h>

#include "core/kernel/common/program.h"

void subject_prepare(run *r, const subject *s) {
  memset(r, 0, sizeof *r);
  r->subject = s;
  r->backend = s->backend;
  services_watch(&r->services, s->core);
}

compute_status subject_open(run *r) {
  compute_status status = r->backend->open(&r->services.services, &r->instance);
  if (status) {
    r->instance = NULL;
    return status;
  }
  /* A failing driver may show fewer devices than before. */
  if (r->backend->device_count(r->instance) <= r->subject->index)
    status = r->services.services.fail(&r->services, COMPUTE_ERROR_NO_DEVICE, 0, NULL,
                                       "device %u is not there", r->subject->index);
  if (!status) status = r->backend->device_open(r->instance, r->subject->index, &r->device);
  if (!status) return COMPUTE_OK;
  r->device = NULL;
  subject_close(r);
  return status;
}

void subject_close(run *r) {
  if (r->device) r->backend->device_close(r->device);
  if (r->instance) r->backend->close(r->instance);
  r->device = r->instance = NULL;
}

/* ---- The job ------------------------------------------------------------------------------- */

enum { COUNT = 3000, BYTES = COUNT * 4, ROWS = 30, COLUMNS = 100 };

/* All objects of the job, so that there is one clean-up. */
typedef struct job {
  const compute_backend *backend;
  void *device, *queue, *other, *event, *timer, *recording, *map, *sum, *host;
  bool registered;          /* x */
  compute_memory memory[3]; /* x, y = 2 x + 1, sums of the rows of y */
  bool made[3];
  float x[COUNT], y[COUNT], sums[ROWS];
} job;

/* Leaves NULL if the device cannot run the kernel. */
static compute_status prepare(job *j, const compute_kernel_descriptor *d, void **kernel) {
  char reason[200];
  if (!j->backend->supports(j->device, d, reason, sizeof reason)) return COMPUTE_OK;
  return j->backend->kernel_prepare(j->device, d, kernel);
}

static compute_status prepare_map(job *j) {
  static const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {1}};
  program_builder b = {0};
  const uint16_t x = program_load(&b, COMPUTE_F32, 0);
  const uint16_t twice =
      program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, x, program_load(&b, COMPUTE_F32, 0), 0);
  program_store(&b, program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, twice,
                                  program_constant(&b, COMPUTE_F32, 1), 0));
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = COMPUTE_KERNEL_MAP,
                                       .rank = 1,
                                       .size = {COUNT},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = &operand,
                                       .outputs = &operand,
                                       .epilogue = program_finish(&b)};
  return prepare(j, &d, &j->map);
}

static compute_status prepare_sum(job *j) {
  static const compute_reduce_attributes sum = {.kept_rank = 1, .combine = COMPUTE_COMBINE_SUM};
  static const compute_operand in = {.dtype = COMPUTE_F32, .stride = {COLUMNS, 1}};
  static const compute_operand out = {.dtype = COMPUTE_F32, .stride = {1, 0}};
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = COMPUTE_KERNEL_REDUCE,
                                       .rank = 2,
                                       .size = {ROWS, COLUMNS},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = &in,
                                       .outputs = &out,
                                       .prologue_inputs = 1,
                                       .accumulate = COMPUTE_F32,
                                       .attributes = &sum,
                                       .attribute_bytes = sizeof sum};
  return prepare(j, &d, &j->sum);
}

static compute_status make(job *j) {
  const compute_backend *b = j->backend;
  compute_device_info info = {0};
  compute_status s = b->device_describe(j->device, &info);
  if (!s) s = b->queue_create(j->device, &j->queue);
  if (!s) s = b->queue_create(j->device, &j->other);
  for (int i = 0; i < 3 && !s; i++) {
    s = b->memory_allocate(j->device, BYTES, &j->memory[i]);
    j->made[i] = !s;
  }
  if (!s) s = prepare_map(j);
  if (!s) s = prepare_sum(j);
  return s;
}

static compute_status compute(job *j) {
  const compute_backend *b = j->backend;
  const compute_argument at[3] = {{&j->memory[0], 0}, {&j->memory[1], 0}, {&j->memory[2], 0}};
  compute_status s = b->upload(j->queue, &at[0], j->x, BYTES);
  if (!s && b->timer_record) s = b->timer_record(j->queue, &j->timer);
  if (!s && j->map) s = b->enqueue(j->queue, j->map, at, 2);
  if (!s && !j->map) s = b->copy(j->queue, &at[1], &at[0], BYTES);
  if (!s && j->sum) s = b->enqueue(j->queue, j->sum, at + 1, 2);
  if (!s && b->event_record) s = b->event_record(j->queue, &j->event);
  if (!s && j->event) s = b->queue_wait_event(j->other, j->event);
  if (!s && !j->event) s = b->queue_wait(j->queue);
  if (!s) s = b->download(j->other, j->y, &at[1], BYTES);
  if (!s) s = b->queue_wait(j->other);
  if (!s && j->event) s = b->event_wait(j->device, j->event);
  if (!s) s = b->download(j->queue, j->sums, &at[2], sizeof j->sums);
  if (!s) s = b->queue_wait(j->queue);
  int64_t nanoseconds;
  if (!s && j->timer) s = b->timer_read(j->device, j->timer, &nanoseconds);
  return s;
}

/* Copies y through page-locked host memory, the device's fastest, and x from registered memory. */
static compute_status copy_pinned(job *j) {
  const compute_backend *b = j->backend;
  const compute_argument at = {&j->memory[1], 0};
  if (!b->host_allocate) return COMPUTE_OK;
  compute_status s = b->host_allocate(j->device, BYTES, &j->host);
  if (!s && b->host_register) {
    s = b->host_register(j->device, j->x, BYTES);
    j->registered = !s;
    /* After a failed unregister, the driver still has the memory registered. */
    if (s == COMPUTE_ERROR_UNSUPPORTED || s == COMPUTE_ERROR_INVALID_STATE) s = COMPUTE_OK;
  }
  if (!s) s = b->upload(j->queue, &(compute_argument){&j->memory[0], 0}, j->x, BYTES);
  if (!s) s = b->download(j->queue, j->host, &at, BYTES);
  if (!s) s = b->queue_wait(j->queue);
  if (!s) memcpy(j->y, j->host, BYTES);
  return s;
}

/* Replaces x by 2 x + 1 in a recording. */
static compute_status record(job *j) {
  const compute_backend *b = j->backend;
  const compute_argument at[2] = {{&j->memory[0], 0}, {&j->memory[2], 0}};
  if (!b->record_begin || !j->map) return COMPUTE_OK;
  compute_status s = b->record_begin(j->queue);
  if (s) return s;
  s = b->enqueue(j->queue, j->map, at, 2);
  const compute_status ended = b->record_end(j->queue, s ? NULL : &j->recording);
  if (s) return s;
  if (ended == COMPUTE_ERROR_UNSUPPORTED) return COMPUTE_OK;
  if (!ended) s = b->record_submit(j->queue, j->recording, at, 2);
  if (!ended && !s) s = b->queue_wait(j->queue);
  return ended ? ended : s;
}

static void release(job *j) {
  const compute_backend *b = j->backend;
  if (j->queue) b->queue_wait(j->queue);
  if (j->registered) b->host_unregister(j->device, j->x);
  if (j->host) b->host_release(j->device, j->host);
  if (j->other) b->queue_wait(j->other);
  if (j->recording) b->record_destroy(j->device, j->recording);
  if (j->timer) b->timer_destroy(j->device, j->timer);
  if (j->event) b->event_destroy(j->device, j->event);
  if (j->sum) b->kernel_destroy(j->device, j->sum);
  if (j->map) b->kernel_destroy(j->device, j->map);
  for (int i = 0; i < 3; i++)
    if (j->made[i]) b->memory_release(j->device, &j->memory[i]);
  if (j->other) b->queue_destroy(j->other);
  if (j->queue) b->queue_destroy(j->queue);
}

static bool is_right(const job *j) {
  for (int i = 0; i < COUNT; i++)
    if (j->y[i] != (j->map ? 2 * j->x[i] + 1 : j->x[i])) return false;
  for (int row = 0; row < ROWS && j->sum; row++) {
    float sum = 0; /* sum of small integers: exact in any order */
    for (int i = 0; i < COLUMNS; i++) sum += j->y[row * COLUMNS + i];
    if (j->sums[row] != sum) return false;
  }
  return true;
}

compute_status subject_job(run *r, bool *right) {
  static job j;
  memset(&j, 0, sizeof j);
  j.backend = r->backend;
  j.device = r->device;
  for (int i = 0; i < COUNT; i++) j.x[i] = (float)((i * 37 + 11) % 29 - 14);
  compute_status s = make(&j);
  if (!s) s = compute(&j);
  if (!s) s = copy_pinned(&j);
  if (!s) s = record(&j);
  *right = !s && is_right(&j);
  release(&j);
  return s;
}
