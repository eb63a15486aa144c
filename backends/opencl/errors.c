/* SPDX-License-Identifier: MIT */
/* OpenCL's error codes: names, explanations for the user, and the resulting status; also the error
 * of a lost device.
 *
 * After some codes nothing created in the device's context works any more. The first such code is
 * stored, and every later call reports it without asking the driver. */
#include "opencl.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- Codes ----------------------------------------------------------------------------------- */

typedef struct error_row {
  cl_int code;
  compute_status status;
  const char *name, *words;
} error_row;

static const error_row rows[] = {
    {CL_DEVICE_NOT_FOUND, COMPUTE_ERROR_NO_DEVICE, "CL_DEVICE_NOT_FOUND",
     "the platform has no such device"},
    {CL_DEVICE_NOT_AVAILABLE, COMPUTE_ERROR_DEVICE_LOST, "CL_DEVICE_NOT_AVAILABLE",
     "the device stopped responding"},
    {CL_COMPILER_NOT_AVAILABLE, COMPUTE_ERROR_UNSUPPORTED, "CL_COMPILER_NOT_AVAILABLE",
     "the driver has no compiler"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
     "CL_MEM_OBJECT_ALLOCATION_FAILURE", "out of device memory"},
    {CL_OUT_OF_RESOURCES, COMPUTE_ERROR_LAUNCH, "CL_OUT_OF_RESOURCES",
     "the device ran out of resources, or a kernel failed"},
    {CL_OUT_OF_HOST_MEMORY, COMPUTE_ERROR_OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY",
     "the driver is out of host memory"},
    {CL_MEM_COPY_OVERLAP, COMPUTE_ERROR_INVALID_ARGUMENT, "CL_MEM_COPY_OVERLAP",
     "source and destination overlap"},
    {CL_BUILD_PROGRAM_FAILURE, COMPUTE_ERROR_COMPILATION, "CL_BUILD_PROGRAM_FAILURE",
     "the source does not compile"},
    {CL_MAP_FAILURE, COMPUTE_ERROR_TRANSFER, "CL_MAP_FAILURE", "memory cannot be mapped"},
    {CL_MISALIGNED_SUB_BUFFER_OFFSET, COMPUTE_ERROR_UNSUPPORTED, "CL_MISALIGNED_SUB_BUFFER_OFFSET",
     "an offset that the device cannot address"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, COMPUTE_ERROR_LAUNCH,
     "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", "earlier work failed"},
    {CL_DEVICE_PARTITION_FAILED, COMPUTE_ERROR_UNSUPPORTED, "CL_DEVICE_PARTITION_FAILED",
     "the device cannot be split like this"},
    {CL_INVALID_VALUE, COMPUTE_ERROR_LAUNCH, "CL_INVALID_VALUE", "the driver refuses a value"},
    {CL_INVALID_PLATFORM, COMPUTE_ERROR_NO_DEVICE, "CL_INVALID_PLATFORM", "no such platform"},
    {CL_INVALID_DEVICE, COMPUTE_ERROR_NO_DEVICE, "CL_INVALID_DEVICE", "no such device"},
    {CL_INVALID_CONTEXT, COMPUTE_ERROR_DEVICE_LOST, "CL_INVALID_CONTEXT",
     "the driver's context is gone"},
    {CL_INVALID_COMMAND_QUEUE, COMPUTE_ERROR_DEVICE_LOST, "CL_INVALID_COMMAND_QUEUE",
     "the driver abandoned the queue after a failure"},
    {CL_INVALID_HOST_PTR, COMPUTE_ERROR_UNSUPPORTED, "CL_INVALID_HOST_PTR",
     "the driver refuses this host memory"},
    {CL_INVALID_MEM_OBJECT, COMPUTE_ERROR_LAUNCH, "CL_INVALID_MEM_OBJECT", "no such buffer"},
    {CL_INVALID_BINARY, COMPUTE_ERROR_COMPILATION, "CL_INVALID_BINARY",
     "the driver refuses the stored binary"},
    {CL_INVALID_BUILD_OPTIONS, COMPUTE_ERROR_COMPILATION, "CL_INVALID_BUILD_OPTIONS",
     "the compiler does not know these options"},
    {CL_INVALID_PROGRAM, COMPUTE_ERROR_COMPILATION, "CL_INVALID_PROGRAM", "no such program"},
    {CL_INVALID_PROGRAM_EXECUTABLE, COMPUTE_ERROR_COMPILATION, "CL_INVALID_PROGRAM_EXECUTABLE",
     "the program was not built for this device"},
    {CL_INVALID_KERNEL_NAME, COMPUTE_ERROR_COMPILATION, "CL_INVALID_KERNEL_NAME",
     "the program has no kernel of this name"},
    {CL_INVALID_KERNEL_DEFINITION, COMPUTE_ERROR_COMPILATION, "CL_INVALID_KERNEL_DEFINITION",
     "the kernel is declared differently elsewhere"},
    {CL_INVALID_KERNEL, COMPUTE_ERROR_LAUNCH, "CL_INVALID_KERNEL", "no such kernel"},
    {CL_INVALID_ARG_INDEX, COMPUTE_ERROR_INVALID_ARGUMENT, "CL_INVALID_ARG_INDEX",
     "the kernel has fewer arguments"},
    {CL_INVALID_ARG_VALUE, COMPUTE_ERROR_INVALID_ARGUMENT, "CL_INVALID_ARG_VALUE",
     "the kernel expects another kind of argument"},
    {CL_INVALID_ARG_SIZE, COMPUTE_ERROR_INVALID_ARGUMENT, "CL_INVALID_ARG_SIZE",
     "the kernel expects an argument of another size"},
    {CL_INVALID_KERNEL_ARGS, COMPUTE_ERROR_INVALID_ARGUMENT, "CL_INVALID_KERNEL_ARGS",
     "an argument of the kernel is not set"},
    {CL_INVALID_WORK_DIMENSION, COMPUTE_ERROR_LAUNCH, "CL_INVALID_WORK_DIMENSION",
     "the device refuses this number of dimensions"},
    {CL_INVALID_WORK_GROUP_SIZE, COMPUTE_ERROR_LAUNCH, "CL_INVALID_WORK_GROUP_SIZE",
     "the device refuses groups of this size"},
    {CL_INVALID_WORK_ITEM_SIZE, COMPUTE_ERROR_LAUNCH, "CL_INVALID_WORK_ITEM_SIZE",
     "the device refuses groups of this shape"},
    {CL_INVALID_GLOBAL_OFFSET, COMPUTE_ERROR_LAUNCH, "CL_INVALID_GLOBAL_OFFSET",
     "the device refuses the launch's offset"},
    {CL_INVALID_EVENT_WAIT_LIST, COMPUTE_ERROR_LAUNCH, "CL_INVALID_EVENT_WAIT_LIST",
     "the driver does not know the events to wait for"},
    {CL_INVALID_EVENT, COMPUTE_ERROR_LAUNCH, "CL_INVALID_EVENT", "no such event"},
    {CL_INVALID_OPERATION, COMPUTE_ERROR_UNSUPPORTED, "CL_INVALID_OPERATION",
     "the driver cannot do this"},
    {CL_INVALID_BUFFER_SIZE, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, "CL_INVALID_BUFFER_SIZE",
     "the device cannot have a buffer of this size"},
    {CL_INVALID_GLOBAL_WORK_SIZE, COMPUTE_ERROR_LAUNCH, "CL_INVALID_GLOBAL_WORK_SIZE",
     "the device refuses this number of items"},
    {CL_INVALID_PROPERTY, COMPUTE_ERROR_UNSUPPORTED, "CL_INVALID_PROPERTY",
     "the driver does not know a property"},
    {CL_PLATFORM_NOT_FOUND_KHR, COMPUTE_ERROR_NO_DEVICE, "CL_PLATFORM_NOT_FOUND_KHR",
     "no OpenCL driver is registered"},
    {-9999, COMPUTE_ERROR_DEVICE_LOST, "-9999", "a kernel accessed memory that is not its own"},
};

static const error_row *row_find(cl_int code) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].code == code) return &rows[i];
  }
  return NULL;
}

const char *opencl_error_name(cl_int code) {
  const error_row *row = row_find(code);
  return row ? row->name : "a driver-specific code";
}

compute_status opencl_error_status(cl_int code) {
  const error_row *row = row_find(code);
  return row ? row->status : COMPUTE_ERROR_LAUNCH;
}

static const char *remedy_of(compute_status status) {
  switch (status) {
  case COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY: return "use smaller batches, or another device";
  case COMPUTE_ERROR_DEVICE_LOST:
    return "recover it with compute_device_recover, or use another device";
  default: return NULL;
  }
}

static compute_status fail_as(opencl_device *device, compute_status status, cl_int code,
                              const char *what) {
  const compute_services *services = device->services;
  const error_row *row = row_find(code);
  if (status == COMPUTE_ERROR_DEVICE_LOST) opencl_lose(device, code, what);
  return services->fail(services->host, status, code, remedy_of(status), "opencl: %s: %s (%s, %d)",
                        what, row ? row->words : "the driver refuses", opencl_error_name(code),
                        (int)code);
}

compute_status opencl_fail(opencl_device *device, cl_int code, const char *format, ...) {
  char what[320];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  return fail_as(device, opencl_error_status(code), code, what);
}

compute_status opencl_fail_launch(opencl_device *device, cl_int code, const char *kernel) {
  char what[320];
  const compute_status status = opencl_error_status(code);
  snprintf(what, sizeof what, "launching a kernel on device %u (%.60s)", device->index, kernel);
  return fail_as(device, status == COMPUTE_ERROR_INVALID_ARGUMENT ? COMPUTE_ERROR_LAUNCH : status,
                 code, what);
}

compute_status opencl_fail_memory(const compute_services *services, const char *what) {
  return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                        "opencl: not enough host memory for %s", what);
}

/* ---- Lost devices ---------------------------------------------------------------------------- */

void opencl_lose(opencl_device *device, cl_int code, const char *what) {
  pthread_mutex_lock(&device->loss_mutex);
  if (atomic_load_explicit(&device->lost, memory_order_relaxed) == CL_SUCCESS) {
    snprintf(device->lost_where, sizeof device->lost_where, "%.159s", what);
    atomic_store_explicit(&device->lost, code, memory_order_release);
  }
  pthread_mutex_unlock(&device->loss_mutex);
}

static compute_status fail_lost(const opencl_device *device, cl_int code) {
  return device->services->fail(device->services->host, COMPUTE_ERROR_DEVICE_LOST, code,
                                "recover it with compute_device_recover, or use another device",
                                "opencl: device %u is lost since %s (%s, %d)", device->index,
                                device->lost_where, opencl_error_name(code), (int)code);
}

compute_status opencl_fail_stale(const opencl_device *device, const char *what) {
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_DEVICE_LOST, 0, "release it and create a new one",
      "opencl: device %u was lost and recovered after this %s was created", device->index, what);
}

compute_status opencl_enter(opencl_device *device) {
  const cl_int lost = atomic_load_explicit(&device->lost, memory_order_acquire);
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
