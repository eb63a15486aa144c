/* Host memory that copies need not go through staging for.
 *
 * A device with memory of its own gets memory that the driver has allocated and mapped, or the
 * caller's own under a mapped buffer: that is how OpenCL 1.2 locks pages, and drivers recognise the
 * address when it comes back in a copy. A device that uses the host's memory needs nothing of the
 * kind; there the memory is only remembered. What is remembered is copied by commands that nobody
 * waits for; all other memory is staged or copied by the host (transfer.c). */
#include "opencl.h"

struct opencl_host_memory {
  opencl_host_memory *next;
  unsigned char *data;
  uint64_t bytes;
  cl_mem buffer; /* mapped at `data`; NULL where pages are not locked */
  bool owned;    /* of the services */
  uint32_t generation;
};

/* ---- What is known (host_mutex held) ------------------------------------------------------- */

static opencl_host_memory *overlapping(const opencl_device *device, const unsigned char *data,
                                       uint64_t bytes) {
  opencl_host_memory *m = device->host_memories;
  while (m && !(data < m->data + m->bytes && m->data < data + bytes)) m = m->next;
  return m;
}

static void remember(opencl_device *device, opencl_host_memory *memory) {
  memory->next = device->host_memories;
  __atomic_store_n(&device->host_memories, memory, __ATOMIC_RELEASE);
}

/* Takes it out; NULL if nothing begins there. */
static opencl_host_memory *forget(opencl_device *device, const void *data) {
  opencl_host_memory **link = &device->host_memories;
  while (*link && (*link)->data != data) link = &(*link)->next;
  opencl_host_memory *found = *link;
  if (found) __atomic_store_n(link, found->next, __ATOMIC_RELEASE);
  return found;
}

bool opencl_host_is_known(opencl_device *device, const void *data, uint64_t bytes) {
  if (!__atomic_load_n(&device->host_memories, __ATOMIC_ACQUIRE)) return false;
  pthread_mutex_lock(&device->host_mutex);
  const opencl_host_memory *m = overlapping(device, data, 1);
  const bool known = m && (const unsigned char *)data + bytes <= m->data + m->bytes;
  pthread_mutex_unlock(&device->host_mutex);
  return known;
}

/* ---- Locking pages ------------------------------------------------------------------------- */

/* Makes a buffer, over `data` unless NULL, and maps it for good. */
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
  /* What is left of a lost context is not unmapped any more. */
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
  if (memory->owned) opencl_release(device, memory->data);
  opencl_release(device, memory);
}

/* ---- The vtable's functions ---------------------------------------------------------------- */

compute_status opencl_host_allocate(void *handle, uint64_t bytes, void **data) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_host_memory *made = opencl_allocate(device, sizeof *made);
  if (!made) return opencl_fail_memory(services, "host memory's record");
  made->bytes = bytes;
  made->generation = device->generation;
  if (!device->two_queues || lock(device, NULL, bytes, made) != CL_SUCCESS) {
    made->data =
        bytes <= SIZE_MAX / 2 ? services->allocate(services->host, (size_t)bytes, 4096) : NULL;
    made->owned = true;
  }
  if (!made->data) {
    opencl_release(device, made);
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "opencl: no host memory for %llu bytes", (unsigned long long)bytes);
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
  opencl_host_memory *made = opencl_allocate(device, sizeof *made);
  if (!made) return opencl_fail_memory(services, "host memory's record");
  made->bytes = bytes;
  made->generation = device->generation;
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
                          "register memory once, and not what the device allocated",
                          "opencl: device %u knows this memory, or a part of it, already",
                          device->index);
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, code, "copy from it as it is",
                        "opencl: the driver of device %u cannot lock %llu bytes of this memory "
                        "(%s)",
                        device->index, (unsigned long long)bytes, opencl_error_name(code));
}

void opencl_host_unregister(void *handle, void *data) {
  opencl_host_release(handle, data);
}
