/* Events. A backend without events is simply waited for when one is recorded: the event is then
 * complete from its birth and has no handle. */
#include "base/alloc.h"
#include "base/error.h"
#include "device/device.h"

static compute_status event_null(const compute_context *context, const char *operation,
                                 const char *what) {
  return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", what);
}

compute_status compute_event_record(compute_queue *queue, compute_event **result) {
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
  context_object_created(device->context);
  *result = event;
  return COMPUTE_OK;
}

static void destroy_handle(compute_device *device, void *handle) {
  device->backend->event_destroy(device->handle, handle);
}

void compute_event_release(compute_event *event) {
  if (!event) return;
  compute_device *device = event->device;
  if (event->handle && !device_release_later(device, destroy_handle, event->handle))
    destroy_handle(device, event->handle);
  base_release(event);
  context_object_released(device->context);
}

compute_status compute_event_wait(compute_event *event) {
  if (!event) return event_null(NULL, "compute_event_wait", "event");
  if (!event->handle) return COMPUTE_OK;
  compute_status status = device_check(event->device, "compute_event_wait");
  return status ? status : event->device->backend->event_wait(event->device->handle, event->handle);
}

compute_status compute_queue_wait_event(compute_queue *queue, compute_event *event) {
  static const char operation[] = "compute_queue_wait_event";
  if (!queue) return event_null(event ? event->device->context : NULL, operation, "queue");
  const compute_device *device = queue->device;
  if (!event) return event_null(device->context, operation, "event");
  if (event->device->context != device->context) {
    return error_set(device->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the event belongs to another context than the queue");
  }
  if (!event->handle) return COMPUTE_OK;
  /* Backends know their own events only, so across devices the caller waits in the queue's place.
   */
  if (event->device != device) return compute_event_wait(event);
  return device->backend->queue_wait_event(queue->handle, event->handle);
}

compute_status compute_event_query(compute_event *event, bool *complete) {
  static const char operation[] = "compute_event_query";
  if (!event) return event_null(NULL, operation, "event");
  const compute_device *device = event->device;
  if (!complete) return event_null(device->context, operation, "complete");
  *complete = true;
  if (!event->handle) return COMPUTE_OK;
  return device->backend->event_query(device->handle, event->handle, complete);
}
