/* SPDX-License-Identifier: MIT */
/* Reference-counted device memory. A buffer holds a pool block, wrapped foreign memory, or nothing
 * (zero bytes). */
#include "core/device/buffer.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"

static memory_buffer *new_buffer(compute_device *device) {
  memory_buffer *buffer = base_allocate(1, sizeof *buffer);
  if (!buffer) {
    error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
              "not enough host memory for a buffer's record");
    return NULL;
  }
  static _Atomic uint64_t created;
  atomic_init(&buffer->references, 1);
  buffer->device = device;
  buffer->serial = atomic_fetch_add_explicit(&created, 1, memory_order_relaxed);
  return buffer;
}

compute_status buffer_create(compute_device *device, uint64_t bytes, memory_buffer **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  memory_buffer *buffer = new_buffer(device);
  if (!buffer) return COMPUTE_ERROR_OUT_OF_MEMORY;
  if (bytes > 0) {
    compute_status status = pool_allocate(device->pool, bytes, &buffer->block);
    if (status) {
      base_release(buffer);
      return status;
    }
    buffer->memory = buffer->block->memory;
  }
  *result = buffer;
  return COMPUTE_OK;
}

static compute_status import(compute_device *device, const compute_foreign_memory *memory,
                             uint64_t bytes, compute_memory *imported) {
  const compute_backend *backend = device->backend;
  DRIVER_CALL(backend);
  return memory->device_type == FOREIGN_CPU
             ? backend->memory_import(device->handle, memory->data, bytes, imported)
             : backend->memory_adopt(device->handle, memory, bytes, imported);
}

compute_status buffer_wrap(compute_device *device, const compute_foreign_memory *memory,
                           uint64_t bytes, compute_release_function release, void *user,
                           memory_buffer **result) {
  if (memory->device_type == FOREIGN_CPU && !device->backend->memory_import) {
    return error_set_native(device->context, COMPUTE_ERROR_UNSUPPORTED, 0, ERROR_BACKEND,
                            "copy with compute_tensor_from_host", "%s cannot address host memory",
                            device->info.name);
  }
  memory_buffer *buffer = new_buffer(device);
  if (!buffer) return COMPUTE_ERROR_OUT_OF_MEMORY;
  if (bytes > 0) {
    compute_status status = import(device, memory, bytes, &buffer->memory);
    if (status) {
      base_release(buffer);
      return status;
    }
    buffer->memory.bytes = bytes;
  }
  buffer->release = release;
  buffer->user = user;
  buffer->data = memory->data;
  *result = buffer;
  return COMPUTE_OK;
}

memory_buffer *buffer_retain(memory_buffer *buffer) {
  atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
  return buffer;
}

static void end_wrapped(compute_device *device, void *item) {
  memory_buffer *buffer = item;
  if (buffer->memory.bytes > 0) device->backend->memory_release(device->handle, &buffer->memory);
  if (buffer->release) buffer->release(buffer->user, buffer->data);
  base_release(buffer);
}

static void release_packed(packed_piece *piece) {
  while (piece) {
    packed_piece *next = piece->next;
    buffer_release(piece->buffer);
    base_release(piece);
    piece = next;
  }
}

static void release_derived(derived_piece *piece) {
  while (piece) {
    derived_piece *next = piece->next;
    buffer_release(piece->buffer);
    base_release(piece->key);
    base_release(piece);
    piece = next;
  }
}

void buffer_release(memory_buffer *buffer) {
  if (!buffer || atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) > 1)
    return;
  compute_device *device = buffer->device;
  release_packed(buffer->packed);
  release_derived(buffer->derived);
  if (buffer->block) {
    pool_return(device->pool, buffer->block);
    base_release(buffer);
  } else if (!device_release_later(device, end_wrapped, buffer)) {
    end_wrapped(device, buffer);
  }
}
