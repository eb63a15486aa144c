/* Buffers.
 *
 * Where the device has fine-grained shared memory and no memory of its own, a buffer is made over
 * such memory: the host reads and writes it in place, and nothing is ever copied. Elsewhere a
 * buffer is the driver's, and the host reaches it by copies. Drivers may say both that they share
 * and not do it, so the first buffer is tried out. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

/* Large enough for any vector type, and for what the core promises of memory. */
#define SHARED_ALIGNMENT 128

cl_command_queue opencl_memory_queue(opencl_device *device, cl_int *code) {
  if (!device->memory_queue)
    device->memory_queue = device->cl->clCreateCommandQueue(device->context, device->id, 0, code);
  return device->memory_queue;
}

/* ---- Does the driver share memory? --------------------------------------------------------- */

/* Whether what the device writes into a buffer over host memory is there for the host. */
static bool buffer_shares(opencl_device *device, cl_mem buffer, const volatile uint32_t *host) {
  static const uint32_t mark = 0x5ca1ab1e;
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue = opencl_memory_queue(device, &code);
  if (!queue) return false;
  code = device->cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof mark, &mark, 0, NULL,
                                          NULL);
  return code == CL_SUCCESS && *host == mark;
}

static cl_mem buffer_over(opencl_device *device, void *host, uint64_t bytes, cl_int *code) {
  return device->cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                    (size_t)bytes, host, code);
}

/* Tries wrapped host memory once for each device. */
static bool wrapping_works(opencl_device *device) {
  pthread_mutex_lock(&device->memory_mutex);
  if (!device->sharing_tried) {
    cl_int code = CL_SUCCESS;
    void *page = device->services->allocate(device->services->host, 4096, 4096);
    cl_mem buffer = page ? buffer_over(device, page, 4096, &code) : NULL;
    device->sharing_works = buffer && buffer_shares(device, buffer, page);
    device->sharing_tried = page != NULL;
    if (buffer) device->cl->clReleaseMemObject(buffer);
    opencl_release(device, page);
  }
  const bool works = device->sharing_works;
  pthread_mutex_unlock(&device->memory_mutex);
  return works;
}

/* ---- Allocation ---------------------------------------------------------------------------- */

/* Shared memory with a buffer over it; false when there is none to be had or it is not shared. */
static bool allocate_shared(opencl_device *device, uint64_t bytes, opencl_memory *memory,
                            cl_int *code) {
  const opencl_library *cl = device->cl;
  memory->context = device->context;
  memory->shared = cl->clSVMAlloc(device->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                                  (size_t)bytes, SHARED_ALIGNMENT);
  *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (!memory->shared) return false;
  memory->buffer = buffer_over(device, memory->shared, bytes, code);
  if (memory->buffer) return true;
  cl->clSVMFree(device->context, memory->shared);
  memory->shared = NULL;
  return false;
}

/* Called when the device is opened, so that `shared_memory` is constant afterwards. */
void opencl_memory_try(opencl_device *device) {
  opencl_memory memory = {0};
  cl_int code = CL_SUCCESS;
  if (!device->shared_memory) return;
  device->shared_memory = allocate_shared(device, 4096, &memory, &code) &&
                          buffer_shares(device, memory.buffer, memory.shared);
  if (memory.buffer) device->cl->clReleaseMemObject(memory.buffer);
  if (memory.shared) device->cl->clSVMFree(device->context, memory.shared);
}

/* Some drivers allocate at the first use only; a failure then would hit somebody else's command. */
static cl_int touch(opencl_device *device, cl_mem buffer) {
  static const unsigned char zero = 0;
  cl_int code = CL_SUCCESS;
  pthread_mutex_lock(&device->memory_mutex);
  const cl_command_queue queue = opencl_memory_queue(device, &code);
  if (queue)
    code = device->cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 1, &zero, 0, NULL, NULL);
  pthread_mutex_unlock(&device->memory_mutex);
  /* What a lack of memory is called at this late point differs. */
  return code == CL_OUT_OF_RESOURCES ? CL_MEM_OBJECT_ALLOCATION_FAILURE : code;
}

static cl_int allocate_plain(opencl_device *device, uint64_t bytes, opencl_memory *memory) {
  cl_int code = CL_SUCCESS;
  const cl_mem_flags flags =
      CL_MEM_READ_WRITE | (device->unified ? CL_MEM_ALLOC_HOST_PTR : (cl_mem_flags)0);
  memory->buffer = device->cl->clCreateBuffer(device->context, flags, (size_t)bytes, NULL, &code);
  if (!memory->buffer) return code ? code : CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (!device->unified) code = touch(device, memory->buffer);
  if (code != CL_SUCCESS) {
    device->cl->clReleaseMemObject(memory->buffer);
    memory->buffer = NULL;
  }
  return code;
}

static compute_status too_large(const opencl_device *device, uint64_t bytes) {
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, CL_INVALID_BUFFER_SIZE,
      "use smaller tensors or batches, or another device",
      "opencl: no buffer of %llu bytes: the driver of device %u allows %llu in one piece and has "
      "%llu in all",
      (unsigned long long)bytes, device->index, (unsigned long long)device->allocation_limit,
      (unsigned long long)device->memory_bytes);
}

compute_status opencl_memory_allocate(void *handle, uint64_t bytes, compute_memory *memory) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  if (bytes > device->allocation_limit || bytes > SIZE_MAX / 2) return too_large(device, bytes);
  opencl_memory *made = opencl_allocate(device, sizeof *made);
  if (!made) return opencl_fail_memory(services, "a buffer's record");
  made->bytes = bytes;
  made->generation = device->generation;
  cl_int code = CL_SUCCESS;
  bool shared = device->shared_memory && allocate_shared(device, bytes, made, &code);
  if (!shared) code = allocate_plain(device, bytes, made);
  if (code != CL_SUCCESS) {
    opencl_release(device, made);
    if (opencl_error_status(code) == COMPUTE_ERROR_DEVICE_LOST)
      return opencl_fail(device, code, "allocating %llu bytes", (unsigned long long)bytes);
    /* Whatever the driver calls it, the core may be able to give memory back and try again. */
    return services->fail(services->host,
                          code == CL_OUT_OF_HOST_MEMORY ? COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY
                                                        : opencl_error_status(code),
                          code, "use smaller batches, or another device",
                          "opencl: device %u has no memory for %llu bytes (%s)", device->index,
                          (unsigned long long)bytes, opencl_error_name(code));
  }
  __atomic_add_fetch(&device->allocated, bytes, __ATOMIC_RELAXED);
  *memory = (compute_memory){.handle = made, .host = made->shared, .bytes = bytes};
  return COMPUTE_OK;
}

void opencl_memory_release(void *handle, compute_memory *memory) {
  opencl_device *device = handle;
  opencl_memory *released = memory->handle;
  if (released) {
    if (released->buffer) device->cl->clReleaseMemObject(released->buffer);
    if (released->shared) device->cl->clSVMFree(released->context, released->shared);
    __atomic_sub_fetch(&device->allocated, released->bytes, __ATOMIC_RELAXED);
    opencl_release(device, released);
  }
  *memory = (compute_memory){0};
}

/* ---- Wrapping ------------------------------------------------------------------------------ */

static compute_status cannot_wrap(const opencl_device *device, cl_int code, const char *why) {
  return device->services->fail(
      device->services->host, COMPUTE_ERROR_UNSUPPORTED, code, "copy with compute_tensor_from_host",
      "opencl: device %u cannot use this host memory: %s", device->index, why);
}

compute_status opencl_memory_import(void *handle, void *data, uint64_t bytes,
                                    compute_memory *memory) {
  opencl_device *device = handle;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  if (!device->is_cpu && !device->system_memory)
    return cannot_wrap(device, 0, "it has memory of its own");
  if ((uintptr_t)data % device->base_alignment != 0) {
    char why[96];
    snprintf(why, sizeof why, "its address is no multiple of %llu bytes",
             (unsigned long long)device->base_alignment);
    return cannot_wrap(device, 0, why);
  }
  if (bytes > device->allocation_limit)
    return cannot_wrap(device, 0, "it is larger than the driver allows for a buffer");
  if (!wrapping_works(device))
    return cannot_wrap(device, 0, "the driver copies it instead of using it in place");
  opencl_memory *made = opencl_allocate(device, sizeof *made);
  if (!made) return opencl_fail_memory(device->services, "a buffer's record");
  cl_int code = CL_SUCCESS;
  made->bytes = bytes;
  made->generation = device->generation;
  made->buffer = buffer_over(device, data, bytes, &code);
  if (!made->buffer) {
    opencl_release(device, made);
    return cannot_wrap(device, code, opencl_error_name(code));
  }
  __atomic_add_fetch(&device->allocated, bytes, __ATOMIC_RELAXED);
  *memory = (compute_memory){.handle = made, .host = data, .bytes = bytes};
  return COMPUTE_OK;
}
