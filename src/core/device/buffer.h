/* SPDX-License-Identifier: MIT */
/* Device memory: the pool, and reference-counted buffers of pool blocks or of wrapped memory. */
#ifndef DEVICE_BUFFER_H
#define DEVICE_BUFFER_H

#include <stdatomic.h>

#include "compute/backend.h"
#include "compute/tensor.h"

/* ---- The pool -------------------------------------------------------------------------------- */

/* The buffer pool of one device. Blocks come in size classes with at most 1/16 slack (64 bytes for
 * small blocks). The pool uses best fit and respects a byte budget. It evicts the least recently
 * used blocks beyond a limit that follows the recent need (pool.c). Thread-safe. */
typedef struct memory_pool memory_pool;

/* The source of the pool's memory; `release` cannot fail. */
typedef struct pool_source {
  compute_status (*allocate)(void *owner, uint64_t bytes, compute_memory *memory);
  void (*release)(void *owner, compute_memory *memory);
  void *owner;
  int64_t (*clock)(void); /* nanoseconds; NULL: clock_now */
} pool_source;

/* An allocated block. memory.bytes is the full size of the block. */
typedef struct pool_block {
  compute_memory memory;
  uint64_t requested;
  uint64_t needed;                  /* block size of the request's size class */
  struct pool_block *newer, *older; /* links of the pool's lists */
  struct pool_block *class_next, *class_previous;
  uint32_t size_class;
  uint32_t generation; /* generation of the pool at the allocation */
} pool_block;

memory_pool *pool_create(compute_context *context, const pool_source *source,
                         const char *device_name);

/* The caller must have returned every block. */
void pool_release(memory_pool *pool);

/* bytes ≥ 1. The block may be larger (pool.c). If the source returns
 * COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, the pool evicts least recently used blocks and retries until
 * the cache is empty. */
compute_status pool_allocate(memory_pool *pool, uint64_t bytes, pool_block **block);
void pool_return(memory_pool *pool, pool_block *block); /* NULL is allowed */

void pool_query(memory_pool *pool, compute_pool_statistics *statistics);
void pool_set_budget(memory_pool *pool, uint64_t bytes);
void pool_trim(memory_pool *pool, uint64_t keep_bytes);

/* Frees all cached blocks now, and blocks in use when they are returned. For a device that was lost
 * and recovered. */
void pool_forget(memory_pool *pool);

/* The block size for a request; 0 on overflow. Tests use it to check the slack. */
uint64_t pool_block_bytes(uint64_t bytes);

/* ---- Buffers --------------------------------------------------------------------------------- */

/* The elements of a frozen buffer from `offset` on, in a layout that kernels prefer (packed.c). */
typedef struct packed_piece {
  struct packed_piece *next;
  uint64_t form, offset;
  struct memory_buffer *buffer;
} packed_piece;

/* A value that was computed from a frozen buffer, and perhaps from others (derived.c). */
typedef struct derived_piece {
  struct derived_piece *next;
  void *key;
  size_t key_bytes;
  struct memory_buffer *buffer;
} derived_piece;

typedef struct memory_buffer {
  _Atomic int32_t references;
  compute_device *device;
  compute_memory memory;
  pool_block *block; /* NULL for wrapped memory */
  compute_release_function release;
  void *user, *data;    /* for wrapped memory */
  _Atomic bool frozen;  /* the elements no longer change */
  uint64_t serial;      /* no other buffer of the process has it, before or after */
  packed_piece *packed; /* guarded by the device's packed_mutex, as is `derived` */
  derived_piece *derived;
  /* For wrapped memory, or NULL. Called after the elements were packed: they are rarely read from
   * then on. */
  void (*on_packed)(void *data, uint64_t bytes);
} memory_buffer;

/* bytes may be 0. Then memory.bytes is 0, and the buffer has no block. */
compute_status buffer_create(compute_device *device, uint64_t bytes, memory_buffer **buffer);

/* The DLPack device types that the core handles itself. */
enum { FOREIGN_CPU = 1, FOREIGN_CUDA_HOST = 3, FOREIGN_ROCM_HOST = 11 };

/* Wraps `bytes` bytes at memory->data. The memory belongs to the host (FOREIGN_CPU), or to the
 * device in the form that its module exports. If the call fails, it has not called `release`. */
compute_status buffer_wrap(compute_device *device, const compute_foreign_memory *memory,
                           uint64_t bytes, compute_release_function release, void *user,
                           memory_buffer **buffer);

/* After this call, nobody may write to the buffer. */
static inline void buffer_freeze(memory_buffer *buffer) {
  atomic_store_explicit(&buffer->frozen, true, memory_order_release);
}
static inline bool buffer_is_frozen(const memory_buffer *buffer) {
  return atomic_load_explicit(&buffer->frozen, memory_order_acquire);
}

memory_buffer *buffer_retain(memory_buffer *buffer);
void buffer_release(memory_buffer *buffer); /* NULL is allowed */

#endif
