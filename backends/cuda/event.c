/* SPDX-License-Identifier: MIT */
/* Driver events without timing, which makes them cheap; and timers.
 *
 * The driver reports only the time between two events, as a float in milliseconds: exact to half a
 * microsecond for some seconds, and ever coarser after that. So each timer is measured from a mark:
 * an event with a known time on the host's clock, renewed every few seconds. A new mark gets its
 * time from the previous mark by the GPU's clock, so that differences between timers stay exact. It
 * is set to the host's clock again only after a visible drift. */
#include "cuda.h"

#include <stdlib.h>

/* ---- Events ---------------------------------------------------------------------------------- */

compute_status cuda_event_create(void *handle, void **result) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const cuda_driver *driver = device->driver;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  cuda_event event;
  cuda_result code = driver->event_create(&event, CUDA_EVENT_DISABLE_TIMING);
  if (code != CUDA_OK) return cuda_fail(device, code, "creating an event");
  code = driver->event_record(event, queue->stream);
  if (code != CUDA_OK) {
    driver->event_destroy(event);
    return cuda_fail(device, code, "recording an event");
  }
  *result = event;
  return COMPUTE_OK;
}

void cuda_event_release(void *handle, void *event) {
  cuda_device *device = handle;
  if (cuda_enter_to_release(device))
    cuda_notice(device, device->driver->event_destroy(event), "releasing an event");
}

compute_status cuda_event_await(void *handle, void *event) {
  cuda_device *device = handle;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->event_wait(event);
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "waiting for an event");
}

compute_status cuda_event_ask(void *handle, void *event, bool *complete) {
  cuda_device *device = handle;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->event_query(event);
  *complete = code == CUDA_OK;
  return code == CUDA_OK || code == CUDA_NOT_READY ? COMPUTE_OK
                                                   : cuda_fail(device, code, "asking an event");
}

compute_status cuda_queue_await_event(void *handle, void *event) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->stream_wait_event(queue->stream, event, 0);
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "making a queue wait for an event");
}

/* ---- Foreign streams ------------------------------------------------------------------------- */

void *cuda_queue_native(void *handle) {
  return ((const cuda_queue *)handle)->stream;
}

compute_status cuda_queue_signal(void *handle, void *native) {
  cuda_device *device = ((const cuda_queue *)handle)->device;
  void *event = NULL;
  const compute_status status = cuda_event_create(handle, &event);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->stream_wait_event(native, event, 0);
  cuda_event_release(device, event);
  return code == CUDA_OK ? COMPUTE_OK
                         : cuda_fail(device, code, "making another stream wait for a queue");
}

/* ---- Times of points on a queue -------------------------------------------------------------- */

#define MARK_SPAN   ((int64_t)4000000000) /* validity of a mark, in nanoseconds */
#define DRIFT_LIMIT ((int64_t)1000000)
#define TIGHT       ((int64_t)20000) /* span of a simultaneous reading that is good enough */

enum { TRIES = 5 };

struct cuda_mark {
  cuda_event event;
  int64_t nanoseconds; /* CLOCK_MONOTONIC when the GPU reached it */
  int32_t references;  /* one of the device, and one for each timer; under clock_mutex */
};

typedef struct timer {
  cuda_event event;
  cuda_mark *mark;
} timer;

static void event_forget(cuda_device *device, cuda_event event) {
  if (event && cuda_enter_to_release(device))
    cuda_notice(device, device->driver->event_destroy(event), "releasing a timer");
}

/* ---- Marks --------------------------------------------------------------------------------- */

static void mark_release(cuda_device *device, cuda_mark *mark) {
  if (!mark) return;
  pthread_mutex_lock(&device->clock_mutex);
  const bool last = --mark->references == 0;
  pthread_mutex_unlock(&device->clock_mutex);
  if (!last) return;
  event_forget(device, mark->event);
  builder_free(&device->builder, mark);
}

/* Lets the GPU reach the mark while the host reads its clock. */
static cuda_result mark_read(const cuda_device *device, cuda_mark *mark) {
  const cuda_driver *driver = device->driver;
  cuda_result code = CUDA_OK;
  int64_t width = INT64_MAX;
  for (int i = 0; i < TRIES && code == CUDA_OK && width > TIGHT; i++) {
    const int64_t before = builder_now();
    code = driver->event_record(mark->event, device->memory_stream);
    if (code == CUDA_OK) code = driver->event_wait(mark->event);
    width = builder_now() - before;
    mark->nanoseconds = before + width / 2;
  }
  return code;
}

/* Derives the mark's time from the previous mark, if that is recent. */
static void mark_tie(const cuda_device *device, cuda_mark *mark, const cuda_mark *before) {
  float milliseconds = 0;
  if (!before || mark->nanoseconds - before->nanoseconds > 2 * MARK_SPAN ||
      device->driver->event_elapsed(&milliseconds, before->event, mark->event) != CUDA_OK)
    return;
  const int64_t tied = before->nanoseconds + (int64_t)((double)milliseconds * 1e6);
  if (llabs(tied - mark->nanoseconds) < DRIFT_LIMIT) mark->nanoseconds = tied;
}

/* Returns a mark, with a reference, for a timer recorded now. Call with clock_mutex locked. */
static compute_status mark_get(cuda_device *device, cuda_mark **result) {
  cuda_mark *old = device->mark;
  if (!old || builder_now() - old->nanoseconds > MARK_SPAN) {
    cuda_mark *made = builder_allocate(&device->builder, sizeof *made);
    if (!made) return cuda_fail_memory(device->services, "a timer");
    cuda_result code = device->driver->event_create(&made->event, CUDA_EVENT_DEFAULT);
    if (code != CUDA_OK) made->event = NULL;
    if (code == CUDA_OK) code = mark_read(device, made);
    if (code != CUDA_OK) {
      const compute_status status = cuda_fail(device, code, "reading the GPU's clock");
      event_forget(device, made->event);
      builder_free(&device->builder, made);
      return status;
    }
    mark_tie(device, made, old);
    made->references = 1;
    device->mark = made;
    if (old && --old->references == 0) {
      event_forget(device, old->event);
      builder_free(&device->builder, old);
    }
  }
  device->mark->references++;
  *result = device->mark;
  return COMPUTE_OK;
}

void cuda_clock_release(cuda_device *device) {
  mark_release(device, device->mark);
  device->mark = NULL;
}

/* ---- Timers -------------------------------------------------------------------------------- */

compute_status cuda_timer_record(void *handle, void **result) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  timer *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(device->services, "a timer");
  pthread_mutex_lock(&device->clock_mutex);
  status = mark_get(device, &made->mark);
  pthread_mutex_unlock(&device->clock_mutex);
  if (status == COMPUTE_OK) {
    cuda_result code = device->driver->event_create(&made->event, CUDA_EVENT_DEFAULT);
    if (code != CUDA_OK) made->event = NULL;
    if (code == CUDA_OK) code = device->driver->event_record(made->event, queue->stream);
    if (code != CUDA_OK) status = cuda_fail(device, code, "recording a timer");
  }
  if (status == COMPUTE_OK)
    *result = made;
  else
    cuda_timer_destroy(device, made);
  return status;
}

compute_status cuda_timer_read(void *handle, void *read, int64_t *nanoseconds) {
  cuda_device *device = handle;
  const timer *t = read;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  float milliseconds = 0;
  cuda_result code = device->driver->event_wait(t->event);
  if (code == CUDA_OK)
    code = device->driver->event_elapsed(&milliseconds, t->mark->event, t->event);
  if (code != CUDA_OK) return cuda_fail(device, code, "reading a timer");
  *nanoseconds = t->mark->nanoseconds + (int64_t)((double)milliseconds * 1e6);
  return COMPUTE_OK;
}

void cuda_timer_destroy(void *handle, void *destroyed) {
  cuda_device *device = handle;
  timer *t = destroyed;
  event_forget(device, t->event);
  mark_release(device, t->mark);
  builder_free(&device->builder, t);
}
