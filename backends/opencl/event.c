/* SPDX-License-Identifier: MIT */
/* Events and timers.
 *
 * An event is the last command of each lane at the time of recording. It submits no command, so
 * recording costs almost nothing.
 *
 * A timer stores the last command of each lane, as an event does, and the host's clock. The queue
 * reached this point when those commands ended or when the timer was recorded, whichever is later.
 * So a timer submits nothing either. The driver reports command times only for queues created with
 * profiling, which can slow a queue down: the first timer of a queue re-creates its lanes.
 *
 * The driver has a separate clock. Its offset to the host's clock is measured with a small command
 * at the first timer and every few seconds after that. A new measurement is used only after a
 * visible drift, so that differences between timers stay exact. */
#include "opencl.h"

#include <stdlib.h>

/* ---- Events ---------------------------------------------------------------------------------- */

typedef struct opencl_event {
  cl_event last[LANES]; /* NULL if nothing was pending */
  uint32_t generation;
} opencl_event;

static compute_status enter(opencl_device *device, const opencl_event *event) {
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  return opencl_is_stale(device, event->generation) ? opencl_fail_stale(device, "event")
                                                    : COMPUTE_OK;
}

compute_status opencl_event_record(void *handle, void **result) {
  opencl_queue *queue = handle;
  opencl_device *device = queue->device;
  const opencl_library *cl = device->cl;
  const compute_status status = opencl_enter_queue(queue);
  if (status != COMPUTE_OK) return status;
  opencl_event *event = builder_allocate(&device->builder, sizeof *event);
  if (!event) return opencl_fail_memory(device->services, "an event");
  event->generation = queue->generation;
  for (int i = 0; i < LANES; i++) {
    opencl_lane *lane = &queue->lanes[i];
    if (lane->count == 0) continue;
    /* The waiting thread may be any thread and cannot flush this queue, so flush now. */
    cl_int code = opencl_lane_flush(queue, lane);
    if (code == CL_SUCCESS) code = cl->clRetainEvent(lane->pending[lane->count - 1]);
    if (code != CL_SUCCESS) {
      opencl_event_destroy(device, event);
      return opencl_fail(device, code, "recording an event");
    }
    event->last[i] = lane->pending[lane->count - 1];
  }
  *result = event;
  return COMPUTE_OK;
}

void opencl_event_destroy(void *opened, void *handle) {
  const opencl_device *device = opened;
  opencl_event *event = handle;
  for (int i = 0; i < LANES; i++) {
    if (event->last[i]) device->cl->clReleaseEvent(event->last[i]);
  }
  builder_free(&device->builder, event);
}

compute_status opencl_event_wait(void *handle, void *event) {
  opencl_device *device = handle;
  const compute_status status = enter(device, event);
  if (status != COMPUTE_OK) return status;
  for (int i = 0; i < LANES; i++) {
    const cl_event last = ((opencl_event *)event)->last[i];
    const cl_int code = last ? device->cl->clWaitForEvents(1, &last) : CL_SUCCESS;
    if (code != CL_SUCCESS) return opencl_fail(device, code, "waiting for an event");
  }
  return COMPUTE_OK;
}

compute_status opencl_event_query(void *handle, void *event, bool *complete) {
  opencl_device *device = handle;
  const compute_status status = enter(device, event);
  if (status != COMPUTE_OK) return status;
  *complete = true;
  for (int i = 0; i < LANES; i++) {
    const cl_event last = ((opencl_event *)event)->last[i];
    cl_int state = CL_COMPLETE;
    if (!last) continue;
    cl_int code = device->cl->clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                             &state, NULL);
    if (code == CL_SUCCESS && state < 0) code = state;
    if (code != CL_SUCCESS) return opencl_fail(device, code, "querying an event");
    *complete &= state == CL_COMPLETE;
  }
  return COMPUTE_OK;
}

compute_status opencl_queue_wait_event(void *handle, void *event) {
  opencl_queue *queue = handle;
  opencl_device *device = queue->device;
  cl_event list[LANES];
  cl_uint count = 0;
  compute_status status = opencl_enter_queue(queue);
  if (status == COMPUTE_OK) status = enter(device, event);
  if (status != COMPUTE_OK) return status;
  for (int i = 0; i < LANES; i++) {
    const cl_event last = ((opencl_event *)event)->last[i];
    if (last) list[count++] = last;
  }
  for (int i = 0; i < LANES && count > 0; i++) {
    if (!queue->lanes[i].queue) continue;
    opencl_lane *lane;
    cl_event barrier = NULL, unused;
    opencl_lane_enter(queue, i, NULL, 0, &lane, &unused);
    const cl_int code =
        device->cl->clEnqueueBarrierWithWaitList(lane->queue, count, list, &barrier);
    if (code != CL_SUCCESS) return opencl_fail(device, code, "making a queue wait for an event");
    opencl_lane_submitted(queue, lane, barrier, NULL, 0);
  }
  return COMPUTE_OK;
}

/* ---- Times of points on a queue -------------------------------------------------------------- */

#define SPAN        ((int64_t)4000000000) /* validity of a clock measurement, in nanoseconds */
#define DRIFT_LIMIT ((int64_t)1000000)
#define TIGHT       ((int64_t)20000) /* span of a simultaneous reading that is good enough */

enum { TRIES = 5 };

typedef struct timer {
  cl_event last[LANES]; /* NULL if nothing was pending */
  int64_t recorded;     /* on the host's clock */
  int64_t offset;       /* added to the driver's clock to get the host's clock */
  uint32_t generation;
} timer;

static cl_int ended(const opencl_device *device, cl_event event, int64_t *nanoseconds) {
  cl_ulong end = 0;
  const cl_int code =
      device->cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  *nanoseconds = (int64_t)end;
  return code;
}

/* ---- The two clocks ------------------------------------------------------------------------ */

/* Creates the objects for a measurement: a queue with profiling and a buffer to write to. */
static cl_int clock_prepare(opencl_device *device) {
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  if (!device->clock_queue)
    device->clock_queue =
        cl->clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (device->clock_queue && !device->clock_buffer)
    device->clock_buffer = cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE, 64, NULL, &code);
  return code;
}

static cl_int measure(opencl_device *device, int64_t *offset) {
  static const uint32_t word = 0;
  const opencl_library *cl = device->cl;
  int64_t width = INT64_MAX;
  cl_int code = clock_prepare(device);
  for (int i = 0; i < TRIES && code == CL_SUCCESS && width > TIGHT; i++) {
    cl_event event = NULL;
    int64_t end = 0;
    const int64_t before = builder_now();
    code = cl->clEnqueueWriteBuffer(device->clock_queue, device->clock_buffer, CL_FALSE, 0,
                                    sizeof word, &word, 0, NULL, &event);
    if (code != CL_SUCCESS) break;
    code = cl->clFinish(device->clock_queue);
    const int64_t taken = builder_now() - before;
    if (code == CL_SUCCESS) code = ended(device, event, &end);
    cl->clReleaseEvent(event);
    if (taken >= width) continue;
    width = taken;
    *offset = before + taken / 2 - end;
  }
  return code;
}

static compute_status clock_offset(opencl_device *device, int64_t *offset) {
  cl_int code = CL_SUCCESS;
  pthread_mutex_lock(&device->clock_mutex);
  if (device->clock_measured == 0 || builder_now() - device->clock_measured > SPAN) {
    int64_t measured = 0;
    code = measure(device, &measured);
    if (code == CL_SUCCESS &&
        (device->clock_measured == 0 || llabs(measured - device->clock_offset) > DRIFT_LIMIT))
      device->clock_offset = measured;
    if (code == CL_SUCCESS) device->clock_measured = builder_now();
  }
  *offset = device->clock_offset;
  pthread_mutex_unlock(&device->clock_mutex);
  return code == CL_SUCCESS
             ? COMPUTE_OK
             : opencl_fail(device, code, "reading the clock of device %u", device->index);
}

void opencl_clock_release(opencl_device *device) {
  if (device->clock_buffer) device->cl->clReleaseMemObject(device->clock_buffer);
  if (device->clock_queue) device->cl->clReleaseCommandQueue(device->clock_queue);
  device->clock_buffer = NULL;
  device->clock_queue = NULL;
  device->clock_measured = 0;
}

/* ---- Timers -------------------------------------------------------------------------------- */

compute_status opencl_timer_record(void *handle, void **result) {
  opencl_queue *queue = handle;
  opencl_device *device = queue->device;
  const opencl_library *cl = device->cl;
  compute_status status = opencl_enter_queue(queue);
  if (status == COMPUTE_OK) status = opencl_queue_keep_times(queue);
  if (status != COMPUTE_OK) return status;
  timer *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(device->services, "a timer");
  made->generation = queue->generation;
  status = clock_offset(device, &made->offset);
  for (int i = 0; i < LANES && status == COMPUTE_OK; i++) {
    opencl_lane *lane = &queue->lanes[i];
    if (lane->count == 0) continue;
    cl_int code = opencl_lane_flush(queue, lane);
    if (code == CL_SUCCESS) code = cl->clRetainEvent(lane->pending[lane->count - 1]);
    if (code == CL_SUCCESS)
      made->last[i] = lane->pending[lane->count - 1];
    else
      status = opencl_fail(device, code, "recording a timer");
  }
  made->recorded = builder_now();
  if (status == COMPUTE_OK)
    *result = made;
  else
    opencl_timer_destroy(device, made);
  return status;
}

compute_status opencl_timer_read(void *handle, void *read, int64_t *nanoseconds) {
  opencl_device *device = handle;
  const timer *t = read;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  if (opencl_is_stale(device, t->generation)) return opencl_fail_stale(device, "timer");
  *nanoseconds = t->recorded;
  for (int i = 0; i < LANES; i++) {
    int64_t end = 0;
    if (!t->last[i]) continue;
    const cl_int code = device->cl->clWaitForEvents(1, &t->last[i]);
    if (code != CL_SUCCESS) return opencl_fail(device, code, "reading a timer");
    /* Some drivers report no times for barriers; the command then ended now at the latest. */
    end = ended(device, t->last[i], &end) == CL_SUCCESS ? end + t->offset : builder_now();
    if (end > *nanoseconds) *nanoseconds = end;
  }
  return COMPUTE_OK;
}

void opencl_timer_destroy(void *handle, void *destroyed) {
  opencl_device *device = handle;
  timer *t = destroyed;
  for (int i = 0; i < LANES; i++)
    if (t->last[i]) device->cl->clReleaseEvent(t->last[i]);
  builder_free(&device->builder, t);
}
