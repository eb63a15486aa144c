/* A reference-counted piece of device memory: from the pool, or wrapped host memory. */
#ifndef DEVICE_BUFFER_H
#define DEVICE_BUFFER_H

#include "compute/tensor.h"
#include "device/pool.h"

typedef struct memory_buffer {
  int32_t references; /* atomic */
  compute_device *device;
  compute_memory memory;
  pool_block *block; /* NULL for wrapped memory */
  compute_release_function release;
  void *user, *data; /* of wrapped memory */
} memory_buffer;

/* bytes may be 0: then memory.bytes is 0 and there is no block. */
compute_status buffer_create(compute_device *device, uint64_t bytes, memory_buffer **buffer);

/* Wraps host memory; on failure `release` has not been called. */
compute_status buffer_wrap(compute_device *device, void *data, uint64_t bytes,
                           compute_release_function release, void *user, memory_buffer **buffer);

memory_buffer *buffer_retain(memory_buffer *buffer);
void buffer_release(memory_buffer *buffer); /* NULL is allowed */

#endif
