/* SPDX-License-Identifier: MIT */
/* The memory of a device: the pool, and reference-counted pieces from it or of wrapped host memory.
 */
#ifndef DEVICE_BUFFER_H
#define DEVICE_BUFFER_H

#include "compute/backend.h"
#include "compute/tensor.h"

/* ---- The pool -------------------------------------------------------------------------------- */

/* The buffer pool of one device: blocks in size classes with at most 1/16 slack (64 bytes for small
 * ones), best fit, a byte budget, eviction in order of last use down to a limit that follows what
 * is needed (pool.c). Thread-safe. */
typedef struct memory_pool memory_pool;

/* The source of the pool's memory; `release` cannot fail. */
typedef struct pool_source {
  compute_status (*allocate)(void *owner, uint64_t bytes, compute_memory *memory);
  void (*release)(void *owner, compute_memory *memory);
  void *owner;
  int64_t (*clock)(void); /* nanoseconds; NULL: clock_now */
} pool_source;

/* An allocated block; memory.bytes is the block's full size. */
typedef struct pool_block {
  compute_memory memory;
  uint64_t requested;
  uint64_t needed;                  /* the size of the request's own class */
  struct pool_block *newer, *older; /* the pool's own */
  struct pool_block *class_next, *class_previous;
  uint32_t size_class;
  uint32_t generation; /* the pool's generation when it was allocated */
} pool_block;

memory_pool *pool_create(compute_context *context, const pool_source *source,
                         const char *device_name);

/* Every block must have been returned. */
void pool_release(memory_pool *pool);

/* bytes ≥ 1. The block may be larger (pool.c). On COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY from
 * the source, evicts least recently used blocks and retries until the cache is empty. */
compute_status pool_allocate(memory_pool *pool, uint64_t bytes, pool_block **block);
void pool_return(memory_pool *pool, pool_block *block); /* NULL is allowed */

void pool_query(memory_pool *pool, compute_pool_statistics *statistics);
void pool_set_budget(memory_pool *pool, uint64_t bytes);
void pool_trim(memory_pool *pool, uint64_t keep_bytes);

/* Frees all cached blocks, and those in use as soon as they are returned: after the device was lost
 * and recovered. */
void pool_forget(memory_pool *pool);

/* The block size for a request; 0 on overflow. For tests of the slack. */
uint64_t pool_block_bytes(uint64_t bytes);

/* ---- Buffers --------------------------------------------------------------------------------- */

/* A frozen buffer's elements from an offset on, in a layout that kernels prefer (packed.c). */
typedef struct packed_piece {
  struct packed_piece *next;
  uint64_t form, offset;
  struct memory_buffer *buffer;
} packed_piece;

typedef struct memory_buffer {
  int32_t references; /* atomic */
  compute_device *device;
  compute_memory memory;
  pool_block *block; /* NULL for wrapped memory */
  compute_release_function release;
  void *user, *data;    /* of wrapped memory */
  bool frozen;          /* atomic: the elements do not change any more */
  packed_piece *packed; /* under the device's packed_mutex */
  /* Of wrapped memory, or NULL: the elements have been packed and may not be read for long. */
  void (*on_packed)(void *data, uint64_t bytes);
} memory_buffer;

/* bytes may be 0: then memory.bytes is 0 and there is no block. */
compute_status buffer_create(compute_device *device, uint64_t bytes, memory_buffer **buffer);

/* DLPack's numbers of the kinds of devices that the core itself knows. */
enum { FOREIGN_CPU = 1, FOREIGN_CUDA_HOST = 3, FOREIGN_ROCM_HOST = 11 };

/* Wraps `bytes` from memory->data on: the host's memory (FOREIGN_CPU), or the device's as its
 * module exports it. On failure `release` has not been called. */
compute_status buffer_wrap(compute_device *device, const compute_foreign_memory *memory,
                           uint64_t bytes, compute_release_function release, void *user,
                           memory_buffer **buffer);

/* From now on nobody writes to it. */
static inline void buffer_freeze(memory_buffer *buffer) {
  __atomic_store_n(&buffer->frozen, true, __ATOMIC_RELEASE);
}
static inline bool buffer_is_frozen(const memory_buffer *buffer) {
  return __atomic_load_n(&buffer->frozen, __ATOMIC_ACQUIRE);
}

memory_buffer *buffer_retain(memory_buffer *buffer);
void buffer_release(memory_buffer *buffer); /* NULL is allowed */

#endif
