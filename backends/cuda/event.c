/* Events of the driver, without timing, which makes them cheap. */
#include "cuda.h"

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
