/* SPDX-License-Identifier: MIT */
/* The buffer pool of one device.
 *
 * Sizes: multiples of 64 bytes up to 1024, then 16 classes to every doubling, so that a block
 * exceeds its request by less than a sixteenth (or by less than 64 bytes). A request searches only
 * its own class: a hit is a list operation under a mutex.
 *
 * Cached blocks are in two lists at once: that of their class, most recently used first (its memory
 * may still be in a cache), and one over all classes in order of last use, from whose old end
 * blocks are evicted.
 *
 * Two locks: `mutex` guards the lists and counters and is held for nanoseconds; `source_mutex` is
 * held while the device allocates or frees, which may take milliseconds, so that hits need not wait
 * for misses, and a miss that finds the cache empty knows that no other thread is still freeing
 * blocks. Order: source_mutex, then mutex. */
#include "device/buffer.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/variable.h"
#include "device/collector.h"

#define UNIT_BYTES     64  /* smallest class and unit of all others */
#define LINEAR_CLASSES 16  /* of 1 … 16 units */
#define CLASS_COUNT    872 /* enough for every block of less than 2^63 bytes */

struct memory_pool {
  pthread_mutex_t mutex;
  pthread_mutex_t source_mutex;
  compute_context *context;
  pool_source source;
  char device_name[32];
  pool_block *class_head[CLASS_COUNT];
  pool_block *newest, *oldest; /* cached blocks in order of last use */
  uint32_t generation;         /* of the blocks that may be reused */
  pool_block *spare;           /* structs without memory, chained by class_next */
  compute_pool_statistics statistics;
};

/* ---- Size classes -------------------------------------------------------------------------- */

/* The class that serves a request, and its size in `block_bytes`: 0 if that exceeds 63 bits. */
static uint32_t class_of(uint64_t bytes, uint64_t *block_bytes) {
  uint64_t units = bytes / UNIT_BYTES + (bytes % UNIT_BYTES != 0);
  if (units <= LINEAR_CLASSES) {
    if (units == 0) units = 1;
    *block_bytes = units * UNIT_BYTES;
    return (uint32_t)units - 1;
  }
  /* The smallest q << shift, q in 17 … 32, that is at least `units`. */
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(units - 1) - 4;
  uint64_t q = ((units - 1) >> shift) + 1;
  uint64_t whole = q << shift;
  *block_bytes = whole <= INT64_MAX / UNIT_BYTES ? whole * UNIT_BYTES : 0;
  return LINEAR_CLASSES + shift * 16 + (uint32_t)(q - 17);
}

uint64_t pool_block_bytes(uint64_t bytes) {
  uint64_t block_bytes;
  class_of(bytes, &block_bytes);
  return block_bytes;
}

/* ---- Lists (mutex held) -------------------------------------------------------------------- */

static void cache_insert(memory_pool *pool, pool_block *block) {
  pool_block **head = &pool->class_head[block->size_class];
  block->class_previous = NULL;
  block->class_next = *head;
  if (*head) (*head)->class_previous = block;
  *head = block;

  block->newer = NULL;
  block->older = pool->newest;
  if (pool->newest) {
    pool->newest->newer = block;
  } else {
    pool->oldest = block;
  }
  pool->newest = block;

  pool->statistics.bytes_cached += block->memory.bytes;
  pool->statistics.blocks_cached++;
}

static void cache_remove(memory_pool *pool, pool_block *block) {
  if (block->class_previous) {
    block->class_previous->class_next = block->class_next;
  } else {
    pool->class_head[block->size_class] = block->class_next;
  }
  if (block->class_next) block->class_next->class_previous = block->class_previous;

  *(block->newer ? &block->newer->older : &pool->newest) = block->older;
  *(block->older ? &block->older->newer : &pool->oldest) = block->newer;

  pool->statistics.bytes_cached -= block->memory.bytes;
  pool->statistics.blocks_cached--;
}

static void activate(memory_pool *pool, pool_block *block, uint64_t requested) {
  compute_pool_statistics *statistics = &pool->statistics;
  block->requested = requested;
  statistics->bytes_requested += requested;
  statistics->bytes_active += block->memory.bytes;
  statistics->blocks_active++;
  if (statistics->bytes_active > statistics->bytes_peak) {
    statistics->bytes_peak = statistics->bytes_active;
  }
}

/* ---- Eviction (source_mutex held) ---------------------------------------------------------- */

/* Takes the oldest cached block out of the pool (there is one). Its bytes are no longer counted. */
static pool_block *evict_oldest(memory_pool *pool) {
  pool_block *block = pool->oldest;
  cache_remove(pool, block);
  pool->statistics.bytes_allocated -= block->memory.bytes;
  pool->statistics.evictions++;
  return block;
}

/* Evicts, oldest first, until at least `bytes` are freed or at most `keep_bytes` are cached.
 * Returns what was freed. Memory is freed on the device without `mutex` held. */
static uint64_t evict(memory_pool *pool, uint64_t bytes, uint64_t keep_bytes) {
  pool_block *first = NULL, *last = NULL;
  uint64_t freed = 0;
  pthread_mutex_lock(&pool->mutex);
  while (freed < bytes && pool->statistics.bytes_cached > keep_bytes) {
    pool_block *block = evict_oldest(pool);
    freed += block->memory.bytes;
    block->class_next = NULL;
    *(last ? &last->class_next : &first) = block;
    last = block;
  }
  pthread_mutex_unlock(&pool->mutex);
  if (!last) return 0;
  for (pool_block *block = first; block; block = block->class_next) {
    pool->source.release(pool->source.owner, &block->memory);
  }
  pthread_mutex_lock(&pool->mutex);
  last->class_next = pool->spare;
  pool->spare = first;
  pthread_mutex_unlock(&pool->mutex);
  return freed;
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* Serves a request from the cache, or returns NULL. */
static pool_block *take_cached(memory_pool *pool, uint32_t size_class, uint64_t bytes) {
  pthread_mutex_lock(&pool->mutex);
  pool_block *block = pool->class_head[size_class];
  if (block) {
    cache_remove(pool, block);
    activate(pool, block, bytes);
    pool->statistics.hits++;
  }
  pthread_mutex_unlock(&pool->mutex);
  return block;
}

static compute_status fail_budget(memory_pool *pool, uint64_t bytes, uint64_t budget,
                                  uint64_t active) {
  char wanted[32], allowed[32], used[32];
  return error_set_native(pool->context, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, 0, ERROR_BACKEND,
                          "release tensors, or raise the budget (compute_pool_set_budget, "
                          "COMPUTE_POOL_BUDGET)",
                          "%s: %s do not fit into the pool's budget of %s, of which %s are in use",
                          pool->device_name, bytes_text(bytes, wanted, sizeof wanted),
                          bytes_text(budget, allowed, sizeof allowed),
                          bytes_text(active, used, sizeof used));
}

/* Counts `block_bytes` as allocated if the budget has room for them, evicting for it. A request
 * that cannot fit evicts nothing. */
static compute_status reserve(memory_pool *pool, uint64_t block_bytes) {
  for (;;) {
    pthread_mutex_lock(&pool->mutex);
    compute_pool_statistics *statistics = &pool->statistics;
    uint64_t budget = statistics->bytes_budget;
    uint64_t held = statistics->bytes_allocated, cached = statistics->bytes_cached;
    bool fits = budget == 0 || (block_bytes <= budget && held <= budget - block_bytes);
    bool may_fit = fits || (block_bytes <= budget && held - cached <= budget - block_bytes);
    if (fits) statistics->bytes_allocated += block_bytes;
    pthread_mutex_unlock(&pool->mutex);
    if (fits) return COMPUTE_OK;
    if (!may_fit) return fail_budget(pool, block_bytes, budget, held - cached);
    evict(pool, held - (budget - block_bytes), 0);
  }
}

/* Tests have pools without a context. */
static void note_eviction(const memory_pool *pool, uint64_t freed, uint64_t wanted) {
  if (!pool->context) return;
  char evicted[32], needed[32];
  fallback_note(pool->context, NULL, FALLBACK_EVICTED, false,
                "%s: out of memory; evicted %s from the cache to allocate %s", pool->device_name,
                bytes_text(freed, evicted, sizeof evicted),
                bytes_text(wanted, needed, sizeof needed));
}

/* Requests memory from the source; each time that fails, evicts about as much as requested and
 * retries. */
static compute_status allocate_or_evict(memory_pool *pool, uint64_t block_bytes,
                                        compute_memory *memory) {
  for (;;) {
    *memory = (compute_memory){0};
    compute_status status = pool->source.allocate(pool->source.owner, block_bytes, memory);
    if (status != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY) return status;
    uint64_t freed = evict(pool, block_bytes, 0);
    if (freed == 0) break;
    note_eviction(pool, freed, block_bytes);
  }
  compute_pool_statistics now;
  compute_error cause; /* with the device's message */
  pool_query(pool, &now);
  compute_error_get(pool->context, &cause);
  /* Without a driver code it would only repeat the size. */
  const bool says_more =
      cause.status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY && cause.native_code != 0;
  char wanted[32], used[32];
  return error_set_native(pool->context, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, cause.native_code,
                          ERROR_BACKEND, "release tensors, use smaller batches or another device",
                          "%s: not enough memory for %s; %s are in use in %" PRIu64
                          " blocks, and nothing is left to evict%s%.200s",
                          pool->device_name, bytes_text(block_bytes, wanted, sizeof wanted),
                          bytes_text(now.bytes_active, used, sizeof used), now.blocks_active,
                          says_more ? ": " : "", says_more ? cause.message : "");
}

/* A struct for a new block: a spare one, or a fresh one. */
static pool_block *take_struct(memory_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  pool_block *block = pool->spare;
  if (block) pool->spare = block->class_next;
  pthread_mutex_unlock(&pool->mutex);
  return block ? block : base_allocate(1, sizeof *block);
}

static compute_status allocate_new(memory_pool *pool, uint32_t size_class, uint64_t block_bytes,
                                   uint64_t bytes, pool_block **result) {
  pool_block *block = take_struct(pool);
  if (!block) {
    return error_set(pool->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                     "%s: not enough host memory for a block's record", pool->device_name);
  }
  compute_memory memory;
  compute_status status = reserve(pool, block_bytes);
  if (!status) {
    status = allocate_or_evict(pool, block_bytes, &memory);
    pthread_mutex_lock(&pool->mutex);
    pool->statistics.misses++;
    if (status) pool->statistics.bytes_allocated -= block_bytes;
    pthread_mutex_unlock(&pool->mutex);
  }
  pthread_mutex_lock(&pool->mutex);
  if (status) {
    block->class_next = pool->spare;
    pool->spare = block;
  } else {
    block->memory = memory;
    block->memory.bytes = block_bytes;
    block->size_class = size_class;
    block->generation = pool->generation;
    activate(pool, block, bytes);
    *result = block;
  }
  pthread_mutex_unlock(&pool->mutex);
  return status;
}

compute_status pool_allocate(memory_pool *pool, uint64_t bytes, pool_block **block) {
  *block = NULL;
  uint64_t block_bytes;
  uint32_t size_class = class_of(bytes, &block_bytes);
  if (block_bytes == 0) {
    return error_set(pool->context, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, ERROR_BACKEND,
                     "%s: %" PRIu64 " bytes are more than any device has", pool->device_name,
                     bytes);
  }
  *block = take_cached(pool, size_class, bytes);
  if (*block) return COMPUTE_OK;
  pthread_mutex_lock(&pool->source_mutex);
  /* While this thread waited, another may have returned a block that fits. */
  *block = take_cached(pool, size_class, bytes);
  compute_status status = COMPUTE_OK;
  if (!*block) status = allocate_new(pool, size_class, block_bytes, bytes, block);
  pthread_mutex_unlock(&pool->source_mutex);
  return status;
}

void pool_return(memory_pool *pool, pool_block *block) {
  if (!block) return;
  pthread_mutex_lock(&pool->mutex);
  pool->statistics.bytes_requested -= block->requested;
  pool->statistics.bytes_active -= block->memory.bytes;
  pool->statistics.blocks_active--;
  bool stale = block->generation != pool->generation;
  if (!stale) cache_insert(pool, block);
  if (stale) pool->statistics.bytes_allocated -= block->memory.bytes;
  pthread_mutex_unlock(&pool->mutex);
  if (!stale) return;
  pthread_mutex_lock(&pool->source_mutex);
  pool->source.release(pool->source.owner, &block->memory);
  pthread_mutex_unlock(&pool->source_mutex);
  base_release(block);
}

void pool_forget(memory_pool *pool) {
  pthread_mutex_lock(&pool->source_mutex);
  pthread_mutex_lock(&pool->mutex);
  pool->generation++;
  pthread_mutex_unlock(&pool->mutex);
  evict(pool, UINT64_MAX, 0);
  pthread_mutex_unlock(&pool->source_mutex);
}

/* ---- The pool itself ----------------------------------------------------------------------- */

memory_pool *pool_create(compute_context *context, const pool_source *source,
                         const char *device_name) {
  memory_pool *pool = base_allocate(1, sizeof *pool);
  if (!pool) return NULL;
  if (pthread_mutex_init(&pool->mutex, NULL)) goto no_mutex;
  if (pthread_mutex_init(&pool->source_mutex, NULL)) goto no_source_mutex;
  pool->context = context;
  pool->source = *source;
  size_t length = strnlen(device_name, sizeof pool->device_name - 1);
  memcpy(pool->device_name, device_name, length);
  pool->statistics.bytes_budget =
      (uint64_t)variable_integer("COMPUTE_POOL_BUDGET", 0, INT64_MAX, 0);
  return pool;

no_source_mutex:
  pthread_mutex_destroy(&pool->mutex);
no_mutex:
  base_release(pool);
  return NULL;
}

void pool_release(memory_pool *pool) {
  if (!pool) return;
  evict(pool, UINT64_MAX, 0);
  while (pool->spare) {
    pool_block *block = pool->spare;
    pool->spare = block->class_next;
    base_release(block);
  }
  pthread_mutex_destroy(&pool->source_mutex);
  pthread_mutex_destroy(&pool->mutex);
  base_release(pool);
}

void pool_query(memory_pool *pool, compute_pool_statistics *statistics) {
  pthread_mutex_lock(&pool->mutex);
  *statistics = pool->statistics;
  pthread_mutex_unlock(&pool->mutex);
  /* A miss in progress has reserved its bytes, but they are not a block yet. */
  statistics->bytes_allocated = statistics->bytes_active + statistics->bytes_cached;
}

void pool_set_budget(memory_pool *pool, uint64_t bytes) {
  pthread_mutex_lock(&pool->source_mutex);
  pthread_mutex_lock(&pool->mutex);
  pool->statistics.bytes_budget = bytes;
  uint64_t held = pool->statistics.bytes_allocated;
  pthread_mutex_unlock(&pool->mutex);
  if (bytes && held > bytes) evict(pool, held - bytes, 0);
  pthread_mutex_unlock(&pool->source_mutex);
}

void pool_trim(memory_pool *pool, uint64_t keep_bytes) {
  pthread_mutex_lock(&pool->source_mutex);
  evict(pool, UINT64_MAX, keep_bytes);
  pthread_mutex_unlock(&pool->source_mutex);
}
