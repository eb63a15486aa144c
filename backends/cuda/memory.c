/* SPDX-License-Identifier: MIT */
/* Device memory and foreign memory.
 *
 * The core pools blocks, so driver calls are rare. If the device has stream-ordered pools, a
 * private pool serves the requests. It keeps freed memory up to a threshold instead of returning it
 * at the next synchronisation. Each allocation is waited for, so that every queue can use it.
 *
 * Page-locked host memory: the GPU copies from and to it beside its kernels, without blocking the
 * caller. Either the driver allocates it, or it locks the caller's memory in place. Transfers ask
 * the driver whether memory is locked, no matter who locked it. */
#include "cuda.h"

#include <stdio.h>

/* ---- Device memory --------------------------------------------------------------------------- */

/* Allocates from the pool. If the pool is out of memory, it tries again after trimming fragments
 * that do not fit. */
static cuda_result take_from_pool(cuda_device *device, uint64_t bytes, cuda_pointer *pointer) {
  const cuda_driver *driver = device->driver;
  cuda_result code = driver->pool_allocate(pointer, bytes, device->pool, device->memory_stream);
  if (code != CUDA_OUT_OF_MEMORY || !driver->pool_trim) return code;
  cuda_result trimmed = driver->stream_wait(device->memory_stream);
  if (trimmed == CUDA_OK) trimmed = driver->pool_trim(device->pool, 0);
  if (trimmed == CUDA_OK)
    return driver->pool_allocate(pointer, bytes, device->pool, device->memory_stream);
  return cuda_is_fatal(trimmed) ? trimmed : code;
}

static compute_status take(cuda_device *device, uint64_t bytes, cuda_memory *memory) {
  const cuda_driver *driver = device->driver;
  cuda_result code;
  memory->kind = device->pool ? CUDA_MEMORY_POOL : CUDA_MEMORY_PLAIN;
  if (device->pool) {
    code = take_from_pool(device, bytes, &memory->pointer);
    if (code == CUDA_OK) {
      code = driver->stream_wait(device->memory_stream);
      if (code != CUDA_OK && !cuda_is_fatal(code))
        driver->pool_free(memory->pointer, device->memory_stream);
    }
  } else {
    code = driver->memory_allocate(&memory->pointer, bytes);
  }
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "allocating %llu bytes", (unsigned long long)bytes);
}

compute_status cuda_memory_allocate(void *handle, uint64_t bytes, compute_memory *memory) {
  cuda_device *device = handle;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  cuda_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(device->services, "a buffer's record");
  status = take(device, bytes, made);
  if (status != COMPUTE_OK) {
    builder_free(&device->builder, made);
    return status;
  }
  *memory = (compute_memory){.handle = made, .host = NULL, .bytes = bytes};
  return COMPUTE_OK;
}

void cuda_memory_release(void *handle, compute_memory *memory) {
  cuda_device *device = handle;
  const cuda_driver *driver = device->driver;
  cuda_memory *released = memory->handle;
  *memory = (compute_memory){0};
  if (!released) return;
  if (released->kind != CUDA_MEMORY_FOREIGN && cuda_enter_to_release(device)) {
    cuda_result code = CUDA_OK;
    if (released->kind == CUDA_MEMORY_POOL)
      code = driver->pool_free(released->pointer, device->memory_stream);
    else if (released->kind == CUDA_MEMORY_PLAIN)
      code = driver->memory_free(released->pointer);
    else
      code = driver->host_unregister(released->host);
    cuda_notice(device, code, "releasing memory");
  }
  builder_free(&device->builder, released);
}

/* ---- Foreign memory ------------------------------------------------------------------------ */

/* Uses the call that returns zeroes for unknown addresses. Tools report the other call as an error
 * in the program. */
cuda_pointer_facts cuda_pointer_facts_of(const cuda_device *device, const void *address) {
  cuda_pointer_facts facts = {.ordinal = -1};
  int32_t attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_DEVICE_ORDINAL,
                          CUDA_POINTER_DEVICE_POINTER};
  void *values[] = {&facts.type, &facts.ordinal, &facts.pointer};
  if (device->driver->pointer_attributes(3, attributes, values, (cuda_pointer)(uintptr_t)address) !=
      CUDA_OK)
    facts.type = 0;
  return facts;
}

/* Classifies an address by the driver's data: device memory of this GPU, pinned host memory, or
 * unknown. */
static compute_status recognise(cuda_device *device, void *data, cuda_memory *memory, bool *known) {
  const cuda_pointer_facts facts = cuda_pointer_facts_of(device, data);
  *known = facts.type == CUDA_MEMORY_TYPE_HOST || facts.type == CUDA_MEMORY_TYPE_DEVICE;
  if (!*known) return COMPUTE_OK;
  if (facts.type == CUDA_MEMORY_TYPE_DEVICE && facts.ordinal != device->id)
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                                  "wrap it on the GPU that it belongs to",
                                  "cuda:%u: the memory belongs to GPU %d", device->index,
                                  facts.ordinal);
  *known = facts.pointer != 0; /* otherwise kernels on this GPU cannot access it */
  if (!*known) return COMPUTE_OK;
  memory->pointer = facts.pointer;
  memory->kind = CUDA_MEMORY_FOREIGN;
  memory->host = facts.type == CUDA_MEMORY_TYPE_HOST ? data : NULL;
  return COMPUTE_OK;
}

/* Memory of other libraries on this GPU; the address is valid in the whole process. */
compute_status cuda_memory_adopt(void *handle, const compute_foreign_memory *foreign,
                                 uint64_t bytes, compute_memory *memory) {
  cuda_device *device = handle;
  const compute_services *services = device->services;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  cuda_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(services, "a buffer's record");
  bool known;
  status = recognise(device, foreign->data, made, &known);
  if (status == COMPUTE_OK && !known)
    status = services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                            "cuda:%u: the driver does not know the memory", device->index);
  if (status != COMPUTE_OK) {
    builder_free(&device->builder, made);
    return status;
  }
  *memory = (compute_memory){.handle = made, .host = made->host, .bytes = bytes};
  return COMPUTE_OK;
}

/* The numbers are DLPack's. */
void cuda_memory_export(void *handle, const compute_argument *argument,
                        compute_foreign_memory *foreign) {
  enum { CUDA = 2, CUDA_HOST = 3 };
  const cuda_device *device = handle;
  *foreign = (compute_foreign_memory){.device_type = CUDA, .device_id = device->id};
  if (!argument) return;
  foreign->data = (void *)(uintptr_t)cuda_address(argument);
  const cuda_memory *memory = argument->memory->handle;
  if (!memory->host) return;
  foreign->device_type = CUDA_HOST;
  foreign->data = (char *)memory->host + argument->offset;
}

/* Pins the caller's memory and maps it, so that kernels access it over the bus. */
static compute_status pin(cuda_device *device, void *data, uint64_t bytes, cuda_memory *memory) {
  const cuda_driver *driver = device->driver;
  cuda_result code =
      driver->host_register(data, bytes, CUDA_HOST_ALLOC_PORTABLE | CUDA_HOST_ALLOC_MAPPED);
  if (code != CUDA_OK)
    return cuda_is_fatal(code)
               ? cuda_fail(device, code, "pinning host memory")
               : device->services->fail(
                     device->services->host, COMPUTE_ERROR_UNSUPPORTED, code,
                     "copy with compute_tensor_from_host",
                     "cuda:%u: the driver cannot pin %llu bytes of this memory (%s)", device->index,
                     (unsigned long long)bytes, cuda_code_name(driver, code));
  memory->kind = CUDA_MEMORY_REGISTERED;
  memory->host = data;
  code = driver->host_device_pointer(&memory->pointer, data, 0);
  if (code == CUDA_OK) return COMPUTE_OK;
  cuda_notice(device, driver->host_unregister(data), "unpinning host memory");
  return cuda_fail(device, code, "mapping host memory");
}

compute_status cuda_memory_import(void *handle, void *data, uint64_t bytes,
                                  compute_memory *memory) {
  cuda_device *device = handle;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  cuda_memory *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(device->services, "a buffer's record");
  bool known;
  status = recognise(device, data, made, &known);
  if (status == COMPUTE_OK && !known) status = pin(device, data, bytes, made);
  if (status != COMPUTE_OK) {
    builder_free(&device->builder, made);
    return status;
  }
  *memory = (compute_memory){.handle = made, .host = made->host, .bytes = bytes};
  return COMPUTE_OK;
}

/* ---- Page-locked host memory ----------------------------------------------------------------- */

/* A failure means a lack of host memory, or a system limit on locked pages. */
static compute_status fail(cuda_device *device, cuda_result code, const char *what,
                           uint64_t bytes) {
  const compute_services *services = device->services;
  if (code == CUDA_OUT_OF_MEMORY)
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, code,
                          "use less of it, or raise the limit on locked memory (ulimit -l)",
                          "cuda:%u: %s %llu bytes: the system does not lock that much memory (%s)",
                          device->index, what, (unsigned long long)bytes,
                          cuda_code_name(device->driver, code));
  return cuda_fail(device, code, "%s %llu bytes", what, (unsigned long long)bytes);
}

compute_status cuda_host_allocate(void *handle, uint64_t bytes, void **data) {
  cuda_device *device = handle;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->host_allocate(data, bytes, CUDA_HOST_ALLOC_PORTABLE);
  return code == CUDA_OK ? COMPUTE_OK : fail(device, code, "allocating page-locked memory,", bytes);
}

void cuda_host_release(void *handle, void *data) {
  cuda_device *device = handle;
  if (data && cuda_enter_to_release(device))
    cuda_notice(device, device->driver->host_free(data), "releasing page-locked memory");
}

compute_status cuda_host_register(void *handle, void *data, uint64_t bytes) {
  cuda_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->host_register(data, bytes, CUDA_HOST_ALLOC_PORTABLE);
  if (code == CUDA_OK) return COMPUTE_OK;
  if (code == CUDA_HOST_MEMORY_ALREADY_REGISTERED)
    return services->fail(services->host, COMPUTE_ERROR_INVALID_STATE, code,
                          "register memory only once, and not memory that the driver allocated",
                          "cuda:%u: this memory, or part of it, is already page-locked",
                          device->index);
  return fail(device, code, "page-locking", bytes);
}

void cuda_host_unregister(void *handle, void *data) {
  cuda_device *device = handle;
  if (data && cuda_enter_to_release(device))
    cuda_notice(device, device->driver->host_unregister(data), "unlocking host memory");
}
