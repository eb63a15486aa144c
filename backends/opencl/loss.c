/* Lost devices, and bringing them back.
 *
 * After some codes nothing made in the device's context works any more. The first of them is
 * remembered, and from then on every call says so without asking the driver. Coming back means a
 * new context; what was made in an old one stays what it is, keeps failing, and can be released,
 * because the driver still knows the handles. Old contexts are kept until the device is closed:
 * shared memory is given back to the context that it came from. */
#include <stdio.h>

#include "opencl.h"

struct opencl_past {
  opencl_past *next;
  cl_context context;
};

void opencl_lose(opencl_device *device, cl_int code, const char *what) {
  pthread_mutex_lock(&device->loss_mutex);
  if (device->lost == CL_SUCCESS) {
    snprintf(device->lost_where, sizeof device->lost_where, "%s", what);
    __atomic_store_n(&device->lost, code, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&device->loss_mutex);
}

static compute_status fail_lost(const opencl_device *device, cl_int code) {
  return device->services->fail(device->services->host, COMPUTE_ERROR_DEVICE_LOST, code,
                                "bring it back with compute_device_recover, or use another device",
                                "opencl: device %u is lost since %s (%s, %d)", device->index,
                                device->lost_where, opencl_error_name(code), (int)code);
}

compute_status opencl_fail_stale(const opencl_device *device, const char *what) {
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_DEVICE_LOST, 0, "release it and make a new one",
      "opencl: device %u was lost and brought back; this %s is of before", device->index, what);
}

compute_status opencl_enter(opencl_device *device) {
  const cl_int lost = __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE);
  return lost == CL_SUCCESS ? COMPUTE_OK : fail_lost(device, lost);
}

compute_status opencl_enter_queue(opencl_queue *queue) {
  const compute_status status = opencl_enter(queue->device);
  if (status != COMPUTE_OK) return status;
  return opencl_is_stale(queue->device, queue->generation)
             ? opencl_fail_stale(queue->device, "queue")
             : COMPUTE_OK;
}

compute_status opencl_enter_memory(opencl_device *device, const compute_memory *memory) {
  const opencl_memory *used = memory ? memory->handle : NULL;
  return used && opencl_is_stale(device, used->generation) ? opencl_fail_stale(device, "memory")
                                                           : COMPUTE_OK;
}

/* ---- Coming back --------------------------------------------------------------------------- */

/* Whether the device does the least that can be asked of it. */
static cl_int try_context(const opencl_device *device, cl_context context) {
  static const uint32_t word = 0;
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  cl_mem buffer = NULL;
  const cl_command_queue queue = cl->clCreateCommandQueue(context, device->id, 0, &code);
  if (queue) buffer = cl->clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
  if (buffer)
    code = cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL);
  if (buffer) cl->clReleaseMemObject(buffer);
  if (queue) cl->clReleaseCommandQueue(queue);
  return code;
}

cl_context opencl_context_create(const opencl_device *device, cl_int *code) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              (cl_context_properties)device->place->platform, 0};
  *code = CL_SUCCESS;
  const cl_context made = device->cl->clCreateContext(properties, 1, &device->id, NULL, NULL, code);
  if (!made && *code == CL_SUCCESS) *code = CL_OUT_OF_HOST_MEMORY;
  return made;
}

/* Lets go of what the device keeps for itself in the old context. */
static void forget(opencl_device *device) {
  if (device->clblast_used) opencl_clblast_forget();
  builder_forget(&device->builder);
  opencl_staging_release(device);
  opencl_clock_release(device);
  if (device->memory_queue) device->cl->clReleaseCommandQueue(device->memory_queue);
  device->memory_queue = NULL;
}

compute_status opencl_device_recover(void *handle) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  if (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) == CL_SUCCESS) return COMPUTE_OK;
  opencl_past *past = opencl_allocate(device, sizeof *past);
  if (!past) return opencl_fail_memory(services, "a context");
  cl_int code = CL_SUCCESS;
  const cl_context made = opencl_context_create(device, &code);
  if (made) code = try_context(device, made);
  if (code != CL_SUCCESS) {
    if (made) device->cl->clReleaseContext(made);
    opencl_release(device, past);
    return services->fail(services->host, COMPUTE_ERROR_DEVICE_LOST, code,
                          "start the program anew; look into the system's log",
                          "opencl: device %u does not come back (%s, %d)", device->index,
                          opencl_error_name(code), (int)code);
  }
  forget(device);
  *past = (opencl_past){.next = device->past, .context = device->context};
  device->past = past;
  device->context = made;
  __atomic_add_fetch(&device->generation, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&device->lost, CL_SUCCESS, __ATOMIC_RELEASE);
  return COMPUTE_OK;
}

void opencl_past_release(opencl_device *device) {
  for (opencl_past *past = device->past, *next; past; past = next) {
    next = past->next;
    device->cl->clReleaseContext(past->context);
    opencl_release(device, past);
  }
  device->past = NULL;
}
