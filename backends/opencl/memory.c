/* SPDX-License-Identifier: MIT */
/* Buffers and host memory.
 *
 * If the device has fine-grained shared memory and no separate memory, a buffer wraps such memory:
 * the host accesses it in place, and nothing is copied. Otherwise the buffer belongs to the driver,
 * and the host reaches it by copies. A driver may claim to share memory and not do it, so the first
 * buffer is tested.
 *
 * The second part is host memory that copies need not stage. If the device has separate memory, the
 * host memory is put under a mapped buffer: that is how OpenCL 1.2 locks pages, and drivers
 * recognise the address in a later copy. If the device uses the host's memory, the memory is only
 * listed. Listed memory is copied by asynchronous commands; all other memory is staged or copied by
 * the host (transfer.c). */
#include "opencl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

/* Satisfies every vector type and the alignment that the core guarantees. */
#define SHARED_ALIGNMENT 128

cl_command_queue opencl_memory_queue(opencl_device *device, cl_int *code) {
  if (!device->memory_queue)
    device->memory_queue = device->cl->clCreateCommandQueue(device->context, device->id, 0, code);
  return device->memory_queue;
}

/* ---- Does the driver share memory? --------------------------------------------------------- */

static cl_mem buffer_over(opencl_device *device, void *host, uint64_t bytes, cl_int *code) {
  return device->cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                    (size_t)bytes, host, code);
}

/* Tests wrapped host memory, until there is a result. NULL if it is used in place, else the reason. */
static const char *wrapping_fails(opencl_device *device) {
  cl_int code = CL_SUCCESS;
  pthread_mutex_lock(&device->memory_mutex);
  if (device->sharing == OPENCL_UNKNOWN) {
    void *page = device->services->allocate(device->services->host, 4096, 4096);
    cl_mem buffer = page ? buffer_over(device, page, 4096, &code) : NULL;
    const cl_command_queue queue = buffer ? opencl_memory_queue(device, &code) : NULL;
    if (queue) device->sharing = opencl_probe_all(device, queue, buffer, page);
    if (buffer) device->cl->clReleaseMemObject(buffer);
    builder_free(&device->builder, page);
  }
  const opencl_sharing sharing = device->sharing;
  pthread_mutex_unlock(&device->memory_mutex);
  return sharing == OPENCL_SHARES   ? NULL
         : sharing == OPENCL_COPIES ? "the driver copies it instead of using it in place"
                                    : "the test of its use in place failed";
}

/* ---- Allocation ---------------------------------------------------------------------------- */

/* Allocates shared memory with a buffer over it; false if unavailable or not really shared. */
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
  const bool made = allocate_shared(device, 4096, &memory, &code);
  const cl_command_queue queue = made ? opencl_memory_queue(device, &code) : NULL;
  device->shared_memory =
      queue && opencl_probe_transfers(device, queue, memory.buffer, memory.shared) == OPENCL_SHARES;
  if (memory.buffer) device->cl->clReleaseMemObject(memory.buffer);
  if (memory.shared) device->cl->clSVMFree(device->context, memory.shared);
}

/* Some drivers allocate only at the first use; a failure would then hit an unrelated command. */
static cl_int touch(opencl_device *device, cl_mem buffer) {
  static const unsigned char zero = 0;
  cl_int code = CL_SUCCESS;
  pthread_mutex_lock(&device->memory_mutex);
  const cl_command_queue queue = opencl_memory_queue(device, &code);
  if (queue)
    code = device->cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 1, &zero, 0, NULL, NULL);
  pthread_mutex_unlock(&device->memory_mutex);
  /* Drivers report this late lack of memory with different codes. */
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
      "opencl: cannot allocate %llu bytes: the driver of device %u allows %llu in one piece and "
      "has %llu in total",
      (unsigned long long)bytes, device->index, (unsigned long long)device->allocation_limit,
      (unsigned long long)device->memory_bytes);
}

compute_status opencl_memory_allocate(void *handle, uint64_t bytes, compute_memory *memory) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  if (bytes > device->allocation_limit || bytes > SIZE_MAX / 2) return too_large(device, bytes);
  opencl_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(services, "a buffer's record");
  made->bytes = bytes;
  made->generation = opencl_generation(device);
  cl_int code = CL_SUCCESS;
  bool shared = device->shared_memory && allocate_shared(device, bytes, made, &code);
  if (!shared) code = allocate_plain(device, bytes, made);
  if (code != CL_SUCCESS) {
    builder_free(&device->builder, made);
    if (opencl_error_status(code) == COMPUTE_ERROR_DEVICE_LOST)
      return opencl_fail(device, code, "allocating %llu bytes", (unsigned long long)bytes);
    /* For every such code, the core may free memory and try again. */
    return services->fail(services->host,
                          code == CL_OUT_OF_HOST_MEMORY ? COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY
                                                        : opencl_error_status(code),
                          code, "use smaller batches, or another device",
                          "opencl: device %u does not have enough memory for %llu bytes (%s)",
                          device->index, (unsigned long long)bytes, opencl_error_name(code));
  }
  atomic_fetch_add_explicit(&device->allocated, bytes, memory_order_relaxed);
  *memory = (compute_memory){.handle = made, .host = made->shared, .bytes = bytes};
  return COMPUTE_OK;
}

void opencl_memory_release(void *handle, compute_memory *memory) {
  opencl_device *device = handle;
  opencl_memory *released = memory->handle;
  if (released) {
    if (released->buffer) device->cl->clReleaseMemObject(released->buffer);
    if (released->shared) device->cl->clSVMFree(released->context, released->shared);
    atomic_fetch_sub_explicit(&device->allocated, released->bytes, memory_order_relaxed);
    builder_free(&device->builder, released);
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
    snprintf(why, sizeof why, "its address is not a multiple of %llu bytes",
             (unsigned long long)device->base_alignment);
    return cannot_wrap(device, 0, why);
  }
  if (bytes > device->allocation_limit)
    return cannot_wrap(device, 0, "it is larger than the driver allows for a buffer");
  const char *failure = wrapping_fails(device);
  if (failure) return cannot_wrap(device, 0, failure);
  opencl_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(device->services, "a buffer's record");
  cl_int code = CL_SUCCESS;
  made->bytes = bytes;
  made->generation = opencl_generation(device);
  made->buffer = buffer_over(device, data, bytes, &code);
  if (!made->buffer) {
    builder_free(&device->builder, made);
    return cannot_wrap(device, code, opencl_error_name(code));
  }
  atomic_fetch_add_explicit(&device->allocated, bytes, memory_order_relaxed);
  *memory = (compute_memory){.handle = made, .host = data, .bytes = bytes};
  return COMPUTE_OK;
}

/* ---- Buffers shared with others ------------------------------------------------------------ */

void opencl_memory_export(void *handle, const compute_argument *argument,
                          compute_foreign_memory *foreign) {
  enum { OPENCL = 4 }; /* from DLPack */
  const opencl_device *device = handle;
  *foreign = (compute_foreign_memory){.device_type = OPENCL, .device_id = (int32_t)device->index};
  if (!argument) return;
  foreign->data = ((const opencl_memory *)argument->memory->handle)->buffer;
  foreign->byte_offset = argument->offset;
}

/* The reason why a buffer of another library cannot be used, or NULL if it can. */
static const char *judge(const opencl_device *device, cl_mem buffer, uint64_t bytes) {
  cl_context context = NULL;
  size_t size = 0;
  if (device->cl->clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL) ||
      device->cl->clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, NULL))
    return "the driver does not know it";
  if (context != device->context) return "it belongs to another cl_context";
  return size < bytes ? "it is smaller than the tensor" : NULL;
}

compute_status opencl_memory_adopt(void *handle, const compute_foreign_memory *foreign,
                                   uint64_t bytes, compute_memory *memory) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const cl_mem buffer = foreign->data;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  const char *problem = judge(device, buffer, bytes);
  if (problem)
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                          "create it in the context of a buffer that libcompute has exported",
                          "opencl: device %u cannot use this cl_mem: %s", device->index, problem);
  opencl_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(services, "a buffer's record");
  const cl_int code = device->cl->clRetainMemObject(buffer);
  if (code != CL_SUCCESS) {
    builder_free(&device->builder, made);
    return opencl_fail(device, code, "retaining a buffer of another library");
  }
  *made = (opencl_memory){.buffer = buffer, .generation = opencl_generation(device)};
  *memory = (compute_memory){.handle = made, .bytes = bytes};
  return COMPUTE_OK;
}

/* ---- Host memory that copies need not stage -------------------------------------------------- */

struct opencl_host_memory {
  opencl_host_memory *next;
  unsigned char *data;
  uint64_t bytes;
  cl_mem buffer; /* mapped at `data`; NULL if pages are not locked */
  bool owned;    /* allocated by the services */
  uint32_t generation;
};

/* ---- List of host memory (call with host_mutex locked) ------------------------------------- */

static opencl_host_memory *overlapping(const opencl_device *device, const unsigned char *data,
                                       uint64_t bytes) {
  opencl_host_memory *m = atomic_load_explicit(&device->host_memories, memory_order_relaxed);
  while (m && !(data < m->data + m->bytes && m->data < data + bytes)) m = m->next;
  return m;
}

static void remember(opencl_device *device, opencl_host_memory *memory) {
  memory->next = atomic_load_explicit(&device->host_memories, memory_order_relaxed);
  atomic_store_explicit(&device->host_memories, memory, memory_order_release);
}

/* Removes the entry that starts at `data`; NULL if there is none. */
static opencl_host_memory *forget(opencl_device *device, const void *data) {
  opencl_host_memory *m = atomic_load_explicit(&device->host_memories, memory_order_relaxed);
  opencl_host_memory *previous = NULL;
  for (; m && m->data != data; m = m->next) previous = m;
  if (!m) return NULL;
  if (previous)
    previous->next = m->next;
  else
    atomic_store_explicit(&device->host_memories, m->next, memory_order_release);
  return m;
}

bool opencl_host_is_known(opencl_device *device, const void *data, uint64_t bytes) {
  if (!atomic_load_explicit(&device->host_memories, memory_order_acquire)) return false;
  pthread_mutex_lock(&device->host_mutex);
  const opencl_host_memory *m = overlapping(device, data, 1);
  const bool known = m && (const unsigned char *)data + bytes <= m->data + m->bytes;
  pthread_mutex_unlock(&device->host_mutex);
  return known;
}

/* ---- Locking pages ------------------------------------------------------------------------- */

/* Creates a buffer (over `data` unless NULL) and keeps it mapped. */
static cl_int lock(opencl_device *device, void *data, uint64_t bytes, opencl_host_memory *memory) {
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  if (bytes > device->allocation_limit) return CL_INVALID_BUFFER_SIZE;
  memory->buffer = cl->clCreateBuffer(
      device->context,
      CL_MEM_READ_WRITE | (data ? (cl_mem_flags)CL_MEM_USE_HOST_PTR : CL_MEM_ALLOC_HOST_PTR),
      (size_t)bytes, data, &code);
  if (!memory->buffer) return code ? code : CL_MEM_OBJECT_ALLOCATION_FAILURE;
  pthread_mutex_lock(&device->memory_mutex);
  const cl_command_queue queue = opencl_memory_queue(device, &code);
  if (queue)
    memory->data =
        cl->clEnqueueMapBuffer(queue, memory->buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               (size_t)bytes, 0, NULL, NULL, &code);
  pthread_mutex_unlock(&device->memory_mutex);
  if (memory->data && (!data || memory->data == data)) return CL_SUCCESS;
  cl->clReleaseMemObject(memory->buffer);
  memory->buffer = NULL;
  memory->data = NULL;
  return code ? code : CL_MAP_FAILURE;
}

static void unlock(opencl_device *device, opencl_host_memory *memory) {
  const opencl_library *cl = device->cl;
  /* Memory of a lost context is not unmapped. */
  if (memory->buffer && !opencl_is_stale(device, memory->generation)) {
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&device->memory_mutex);
    const cl_command_queue queue = opencl_memory_queue(device, &code);
    if (queue && cl->clEnqueueUnmapMemObject(queue, memory->buffer, memory->data, 0, NULL, NULL) ==
                     CL_SUCCESS)
      cl->clFinish(queue);
    pthread_mutex_unlock(&device->memory_mutex);
  }
  if (memory->buffer) cl->clReleaseMemObject(memory->buffer);
  if (memory->owned) builder_free(&device->builder, memory->data);
  builder_free(&device->builder, memory);
}

/* ---- The vtable's functions ---------------------------------------------------------------- */

compute_status opencl_host_allocate(void *handle, uint64_t bytes, void **data) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_host_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(services, "host memory's record");
  made->bytes = bytes;
  made->generation = opencl_generation(device);
  if (!device->two_queues || lock(device, NULL, bytes, made) != CL_SUCCESS) {
    made->data =
        bytes <= SIZE_MAX / 2 ? services->allocate(services->host, (size_t)bytes, 4096) : NULL;
    made->owned = true;
  }
  if (!made->data) {
    builder_free(&device->builder, made);
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "opencl: not enough host memory for %llu bytes",
                          (unsigned long long)bytes);
  }
  pthread_mutex_lock(&device->host_mutex);
  remember(device, made);
  pthread_mutex_unlock(&device->host_mutex);
  *data = made->data;
  return COMPUTE_OK;
}

void opencl_host_release(void *handle, void *data) {
  opencl_device *device = handle;
  if (!data) return;
  pthread_mutex_lock(&device->host_mutex);
  opencl_host_memory *found = forget(device, data);
  pthread_mutex_unlock(&device->host_mutex);
  if (found) unlock(device, found);
}

compute_status opencl_host_register(void *handle, void *data, uint64_t bytes) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_host_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return opencl_fail_memory(services, "host memory's record");
  made->bytes = bytes;
  made->generation = opencl_generation(device);
  cl_int code = CL_SUCCESS;
  if (device->two_queues) code = lock(device, data, bytes, made);
  made->data = data;
  pthread_mutex_lock(&device->host_mutex);
  const bool twice = overlapping(device, data, bytes) != NULL;
  if (!twice && code == CL_SUCCESS) remember(device, made);
  pthread_mutex_unlock(&device->host_mutex);
  if (!twice && code == CL_SUCCESS) return COMPUTE_OK;
  if (code != CL_SUCCESS) made->buffer = NULL;
  unlock(device, made);
  if (twice)
    return services->fail(services->host, COMPUTE_ERROR_INVALID_STATE, 0,
                          "register memory only once, and not memory that the device allocated",
                          "opencl: device %u has already registered this memory or part of it",
                          device->index);
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, code, "copy from it as it is",
                        "opencl: the driver of device %u cannot lock %llu bytes of this memory "
                        "(%s)",
                        device->index, (unsigned long long)bytes, opencl_error_name(code));
}

void opencl_host_unregister(void *handle, void *data) {
  opencl_host_release(handle, data);
}
