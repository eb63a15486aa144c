/* SPDX-License-Identifier: MIT */
/* Queues, events, and the buffers that submitted work still needs.
 *
 * The device may still use a buffer that a run has finished with. queue_keep holds a reference
 * until the next wait, so that the pool cannot reuse the memory before. The CPU backend's queues
 * are synchronous, so nothing is pending there. */
#include <stdatomic.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/device/buffer.h"
#include "core/device/collector.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"
#include "core/device/registry.h"

static object_kind event_object = {.name = "event", .plural = "events"};

static object_kind queue_object = {.name = "queue", .plural = "queues"};

/* A queue without waits would keep everything. So the core waits when a queue keeps this many
 * buffers, or this part (1/8) of its device's memory. */
#define PENDING_LIMIT 4096
#define PENDING_PART  8

struct queue_pending {
  memory_buffer **buffers;
  size_t count, capacity;
  uint64_t bytes;        /* total of the buffers */
  index_checks **checks; /* each check once */
  size_t check_count, check_capacity;
};

void queue_forget(compute_queue *queue, bool own) {
  struct queue_pending *pending = queue->pending;
  if (!pending) return;
  for (size_t i = 0; i < pending->count; i++)
    if (!own || pending->buffers[i]->device == queue->device) buffer_release(pending->buffers[i]);
  pending->count = 0;
  pending->bytes = 0;
  for (size_t i = 0; i < pending->check_count; i++) index_checks_release(pending->checks[i]);
  pending->check_count = 0;
}

/* The check that failed: the one with the reported label, or the only check of the queue. */
static const index_check *failed_check(const compute_queue *queue) {
  const struct queue_pending *pending = queue->pending;
  const uint32_t label = index_fault_label();
  if (!pending) return NULL;
  if (label == 0 && pending->check_count == 1 && pending->checks[0]->count == 1)
    return &pending->checks[0]->rows[0];
  for (size_t i = 0; label != 0 && i < pending->check_count; i++) {
    const index_checks *checks = pending->checks[i];
    for (uint32_t k = 0; k < checks->count; k++)
      if (checks->rows[k].label == label) return &checks->rows[k];
  }
  return NULL;
}

compute_status queue_wait_named(compute_queue *queue) {
  const compute_status status = queue->device->backend->queue_wait(queue->handle);
  if (status == COMPUTE_ERROR_INDEX)
    index_fault_explain(queue->device->context, failed_check(queue));
  if (status != COMPUTE_OK) error_attribute(queue->device->context, "compute_queue_wait");
  return status;
}

compute_status queue_create_internal(compute_device *device, compute_queue **result) {
  compute_queue *queue = base_allocate(1, sizeof *queue);
  if (!queue) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_queue_create",
                     "out of memory for a queue of %s", device->info.name);
  }
  queue->device = device;
  queue->generation = device_generation(device);
  queue->number = atomic_fetch_add_explicit(&device->queue_count, 1, memory_order_relaxed);
  DRIVER_CALL(device->backend);
  compute_status status = device_check(device, "compute_queue_create");
  if (status == COMPUTE_OK) status = device->backend->queue_create(device->handle, &queue->handle);
  if (status != COMPUTE_OK) {
    base_release(queue);
    return status;
  }
  *result = queue;
  return COMPUTE_OK;
}

void queue_destroy_internal(compute_queue *queue) {
  if (!queue || device_keep_queue(queue)) return;
  compute_status status = queue_wait_named(queue);
  if (status != COMPUTE_OK) {
    log_write(COMPUTE_LOG_ERROR, "core", "work on a queue of %s failed: %s",
              queue->device->info.name, compute_status_text(status));
  }
  queue_forget(queue, false);
  profile_collect(queue->device->context, queue);
  queue->device->backend->queue_destroy(queue->handle);
  if (queue->pending) {
    base_release(queue->pending->buffers);
    base_release(queue->pending->checks);
  }
  base_release(queue->pending);
  base_release(queue);
}

compute_status compute_queue_create(compute_device *device, compute_queue **queue) {
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_queue_create";
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, queue);
  if (missing) return missing;
  *queue = NULL;
  compute_status status = queue_create_internal(device, queue);
  if (status == COMPUTE_OK) context_object_created(device->context, &queue_object, *queue);
  return status;
}

void compute_queue_release(compute_queue *queue) {
  if (IS_INHERITED(queue, device->context)) return;
  if (!queue) return;
  compute_context *context = queue->device->context;
  context_object_leaves(context, queue);
  queue_destroy_internal(queue);
  context_object_released(context, &queue_object);
}

compute_device *compute_queue_device(const compute_queue *queue) {
  return queue ? queue->device : NULL;
}

void *compute_queue_native(const compute_queue *queue) {
  if (IS_INHERITED(queue, device->context)) return NULL;
  if (!queue || !queue->device->backend->queue_native) return NULL;
  return queue->device->backend->queue_native(queue->handle);
}

compute_status queue_flush(compute_queue *queue) {
  const compute_backend *backend = queue->device->backend;
  return backend->queue_flush ? backend->queue_flush(queue->handle) : COMPUTE_OK;
}

/* In a call that has set the default floating-point environment. */
static compute_status wait_in_call(compute_queue *queue) {
  compute_status status = device_check(queue->device, "compute_queue_wait");
  if (status != COMPUTE_OK) return status; /* hung work still uses the kept buffers */
  const int64_t begin = profile_wait_begin(queue);
  status = queue_wait_named(queue);
  queue_forget(queue, false);
  profile_wait_end(queue, begin);
  return device_note(queue, status);
}

compute_status compute_queue_wait(compute_queue *queue) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(queue, device->context);
  if (!queue) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_queue_wait", "queue is NULL");
  }
  return wait_in_call(queue);
}

/* ---- Waiting with a limit -------------------------------------------------------------------- */

/* Pauses between two event queries. They start short, because most work is short, and grow to keep
 * the CPU time low. */
#define FIRST_PAUSE 5000    /* nanoseconds */
#define LAST_PAUSE  1000000 /* nanoseconds */

/* Polls until the event is reached or the deadline has passed. A failed query counts as reached,
 * because the following wait reports the error. */
static bool came_in_time(const compute_device *device, void *event, int64_t deadline) {
  int64_t pause = FIRST_PAUSE;
  for (;;) {
    bool complete = true;
    if (device->backend->event_query(device->handle, event, &complete) != COMPUTE_OK || complete)
      return true;
    int64_t left = deadline - clock_now();
    if (left <= 0) return false;
    int64_t now = min_i64(pause, left);
    nanosleep(&(struct timespec){.tv_sec = (time_t)(now / 1000000000),
                                 .tv_nsec = (long)(now % 1000000000)},
              NULL);
    if (pause < LAST_PAUSE) pause *= 2;
  }
}

compute_status queue_wait_until(compute_queue *queue, int64_t deadline) {
  compute_device *device = queue->device;
  const compute_backend *backend = device->backend;
  void *event = NULL;
  if (deadline == 0 || !backend->event_record || !backend->event_query || device_hangs(device))
    return wait_in_call(queue);
  compute_status status = backend->event_record(queue->handle, &event);
  if (status != COMPUTE_OK) {
    compute_status waited = wait_in_call(queue);
    return waited != COMPUTE_OK ? waited : status;
  }
  if (came_in_time(device, event, deadline)) {
    backend->event_destroy(device->handle, event);
    return wait_in_call(queue);
  }
  device_mark_hung(queue, event);
  return error_set_native(device->context, COMPUTE_ERROR_TIMEOUT, 0, "compute_run",
                          "allow more time, or split the work; "
                          "compute_device_recover recovers the device",
                          "%s: a kernel did not finish within the time limit; the device is "
                          "considered lost until it does",
                          device->info.name);
}

/* ---- Buffers in use -------------------------------------------------------------------------- */

/* Makes room for one more buffer. Returns false when out of memory. */
static bool pending_reserve(compute_queue *queue) {
  if (!queue->pending) queue->pending = base_allocate(1, sizeof *queue->pending);
  if (!queue->pending) return false;
  void *buffers = queue->pending->buffers;
  int grown = base_grow(&buffers, &queue->pending->capacity, queue->pending->count + 1,
                        sizeof *queue->pending->buffers);
  queue->pending->buffers = buffers;
  return grown == 0;
}

static bool is_full(const compute_queue *queue, const memory_buffer *buffer) {
  const struct queue_pending *pending = queue->pending;
  if (!pending || pending->count == 0) return false;
  const uint64_t most = queue->device->info.memory_total / PENDING_PART; /* 0: unknown */
  return pending->count >= PENDING_LIMIT ||
         (most > 0 && pending->bytes + buffer->memory.bytes > most);
}

static void pending_add(compute_queue *queue, memory_buffer *buffer) {
  struct queue_pending *pending = queue->pending;
  pending->buffers[pending->count++] = buffer;
  pending->bytes += buffer->memory.bytes;
}

compute_status queue_keep(compute_queue *queue, memory_buffer *buffer) {
  if (queue->device == queue->device->context->cpu) return COMPUTE_OK;
  /* When the wait returns, the work is done and nothing needs to be kept. */
  if (is_full(queue, buffer) || !pending_reserve(queue)) return compute_queue_wait(queue);
  pending_add(queue, buffer_retain(buffer));
  return COMPUTE_OK;
}

compute_status queue_keep_checks(compute_queue *queue, index_checks *checks) {
  if (!checks || queue->device == queue->device->context->cpu) return COMPUTE_OK;
  if (!queue->pending) queue->pending = base_allocate(1, sizeof *queue->pending);
  struct queue_pending *pending = queue->pending;
  for (size_t i = pending ? pending->check_count : 0; i-- > 0;) /* most likely the newest */
    if (pending->checks[i] == checks) return COMPUTE_OK;
  if (pending && pending->check_count >= PENDING_LIMIT) {
    const compute_status status = compute_queue_wait(queue);
    if (status != COMPUTE_OK) return status;
  }
  void *list = pending ? pending->checks : NULL;
  if (!pending ||
      base_grow(&list, &pending->check_capacity, pending->check_count + 1, sizeof checks))
    return error_set(queue->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_run",
                     "out of memory for a queue of %s", queue->device->info.name);
  pending->checks = list;
  pending->checks[pending->check_count++] = index_checks_retain(checks);
  return COMPUTE_OK;
}

void queue_keep_hung(compute_queue *queue, memory_buffer *buffer) {
  buffer_retain(buffer);
  if (pending_reserve(queue)) pending_add(queue, buffer);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* If the backend has no events, recording one waits for the queue. The event is then complete from
 * the start and has no handle. */

static compute_status event_null(const compute_context *context, const char *operation,
                                 const char *what) {
  return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", what);
}

compute_status compute_event_record(compute_queue *queue, compute_event **result) {
  REFUSE_INHERITED(queue, device->context);
  static const char operation[] = "compute_event_record";
  if (!queue) return event_null(NULL, operation, "queue");
  compute_device *device = queue->device;
  if (!result) return event_null(device->context, operation, "event");
  *result = NULL;
  compute_event *event = base_allocate(1, sizeof *event);
  if (!event) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "out of memory for an event of %s", device->info.name);
  }
  event->device = device;
  compute_status status = device_check(device, operation);
  if (status == COMPUTE_OK)
    status = device->backend->event_record
                 ? device->backend->event_record(queue->handle, &event->handle)
                 : compute_queue_wait(queue);
  if (status != COMPUTE_OK) {
    base_release(event);
    return status;
  }
  context_object_created(device->context, &event_object, event);
  *result = event;
  return COMPUTE_OK;
}

static void destroy_handle(compute_device *device, void *handle) {
  device->backend->event_destroy(device->handle, handle);
}

void compute_event_release(compute_event *event) {
  if (IS_INHERITED(event, device->context)) return;
  if (!event) return;
  compute_device *device = event->device;
  if (event->handle && !device_release_later(device, destroy_handle, event->handle))
    destroy_handle(device, event->handle);
  context_object_leaves(device->context, event);
  base_release(event);
  context_object_released(device->context, &event_object);
}

compute_status compute_event_wait(compute_event *event) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(event, device->context);
  if (!event) return event_null(NULL, "compute_event_wait", "event");
  if (!event->handle) return COMPUTE_OK;
  compute_status status = device_check(event->device, "compute_event_wait");
  return status ? status : event->device->backend->event_wait(event->device->handle, event->handle);
}

compute_status compute_queue_wait_event(compute_queue *queue, compute_event *event) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(queue, device->context);
  static const char operation[] = "compute_queue_wait_event";
  if (!queue) return event_null(event ? event->device->context : NULL, operation, "queue");
  const compute_device *device = queue->device;
  if (!event) return event_null(device->context, operation, "event");
  if (event->device->context != device->context) {
    return error_set(device->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the event and the queue belong to different contexts");
  }
  if (!event->handle) return COMPUTE_OK;
  /* A backend handles only its devices' events. Across devices, the caller waits instead of the
   * queue. */
  if (event->device != device) return compute_event_wait(event);
  return device->backend->queue_wait_event(queue->handle, event->handle);
}

compute_status compute_event_query(compute_event *event, bool *complete) {
  REFUSE_INHERITED(event, device->context);
  static const char operation[] = "compute_event_query";
  if (!event) return event_null(NULL, operation, "event");
  const compute_device *device = event->device;
  if (!complete) return event_null(device->context, operation, "complete");
  *complete = true;
  if (!event->handle) return COMPUTE_OK;
  return device->backend->event_query(device->handle, event->handle, complete);
}
