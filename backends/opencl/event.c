/* Events: the last command of each lane at the time of recording. No command of their own is
 * submitted, so recording costs next to nothing. */
#include "opencl.h"

typedef struct opencl_event {
  cl_event last[LANES]; /* NULL where nothing was pending */
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
  opencl_event *event = opencl_allocate(device, sizeof *event);
  if (!event) return opencl_fail_memory(device->services, "an event");
  event->generation = queue->generation;
  for (int i = 0; i < LANES; i++) {
    const opencl_lane *lane = &queue->lanes[i];
    if (lane->count == 0) continue;
    /* Whoever waits, in whichever thread, cannot flush this queue. */
    cl_int code = cl->clFlush(lane->queue);
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

void opencl_event_destroy(void *device, void *handle) {
  opencl_event *event = handle;
  for (int i = 0; i < LANES; i++) {
    if (event->last[i]) ((opencl_device *)device)->cl->clReleaseEvent(event->last[i]);
  }
  opencl_release(device, event);
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
    if (code != CL_SUCCESS) return opencl_fail(device, code, "asking for an event");
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
