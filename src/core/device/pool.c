/* SPDX-License-Identifier: MIT */
/* The buffer pool of one device.
 *
 * Size classes: multiples of 64 bytes up to 1024, then 16 classes per doubling. So a block exceeds
 * its request by less than 1/16, or by less than 64 bytes. A hit in the request's exact class is a
 * list operation under a mutex.
 *
 * A cached block is in two lists. The list of its class has the most recently used block first,
 * because its memory may still be in a cache. The list over all classes is in order of last use;
 * eviction starts at its old end.
 *
 * Best fit: if the request's class has no block, the request takes the smallest larger block, up to
 * CLOSE_NUMERATOR / CLOSE_DENOMINATOR of its size. Blocks are not split. Device memory is opaque to
 * the core, and not every backend can address a part of it as memory.
 *
 * The limit: active and cached blocks together hold at most the recent peak need, plus half of the
 * recent rise above the lowest need. (Weights stay, so they do not count as a rise.) If a new block
 * would exceed this limit, the request takes a cached block of up to FAR times its size, which the
 * pool would otherwise evict. It does not do so if the active blocks alone would then exceed the
 * limit: long-lived small results must not each keep a large block. With random sizes, at most 1 %
 * of requests still miss if one run follows another (20 % without FAR). If calls of all sizes
 * follow each other, at most 10 % miss.
 *
 * "Recent" means the current time window and the previous one. A window lasts at least one second,
 * and longer if the pool holds more. Touching fresh pages takes about 0.25 ns a byte. A block that
 * is evicted after 5 ns a byte and then needed again therefore costs at most 1/20 of the time.
 *
 * There are two locks. `mutex` guards the lists and counters, for nanoseconds. `source_mutex` is
 * locked while the device allocates or frees, which may take milliseconds. So hits do not wait for
 * misses. If a miss finds the cache empty, no other thread is still freeing blocks. Lock order:
 * source_mutex, then mutex. */
#include "core/device/buffer.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/variable.h"
#include "core/device/collector.h"

#define UNIT_BYTES     64  /* smallest class, and unit of all others */
#define LINEAR_CLASSES 16  /* classes of 1 … 16 units */
#define CLASS_COUNT    872 /* enough for every block below 2^63 bytes */
#define CLASS_WORDS    ((CLASS_COUNT + 63) / 64)

#define CLOSE_NUMERATOR   5 /* up to 5/4, a larger block is as good as an exact one */
#define CLOSE_DENOMINATOR 4
#define FAR               16         /* up to 16 times, a larger block beats an eviction */
#define FAR_SMALL         (32 << 10) /* so does any block up to this size */

#define KEEP_BYTES      (1 << 20)  /* this many cached bytes always stay */
#define WINDOW_SHORTEST 1000000000 /* nanoseconds */
#define WINDOW_PER_BYTE 5          /* nanoseconds per byte that the pool holds */
#define CLOCK_REQUESTS  64         /* requests between clock reads; a power of two */
#define SPARE_LIMIT     64         /* most spare records of evicted blocks */

/* The highest and lowest need (the sum of the requests' class sizes), in the current window [0] and
 * the previous one [1]. */
typedef struct pool_needs {
  uint64_t now, highest[2], lowest[2];
  int64_t begin;     /* start of the current window */
  uint64_t requests; /* number of requests so far */
} pool_needs;

struct memory_pool {
  pthread_mutex_t mutex;
  pthread_mutex_t source_mutex;
  compute_context *context;
  pool_source source;
  char device_name[32];
  pool_block *class_head[CLASS_COUNT];
  uint64_t class_filled[CLASS_WORDS]; /* bit i: class i has a cached block */
  pool_block *newest, *oldest;        /* cached blocks in order of last use */
  uint32_t generation;                /* generation of reusable blocks */
  pool_block *spare;                  /* records without memory, linked by class_next */
  size_t spare_count;
  pool_needs needs;
  compute_pool_statistics statistics;
};

/* ---- Size classes -------------------------------------------------------------------------- */

/* The class that serves a request, and its size in `block_bytes`. The size is 0 if it exceeds 63
 * bits. */
static uint32_t class_of(uint64_t bytes, uint64_t *block_bytes) {
  uint64_t units = bytes / UNIT_BYTES + (bytes % UNIT_BYTES != 0);
  if (units <= LINEAR_CLASSES) {
    if (units == 0) units = 1;
    *block_bytes = units * UNIT_BYTES;
    return (uint32_t)units - 1;
  }
  /* The smallest q << shift ≥ `units`, with q in 17 … 32. */
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

/* A memory request, and the size and class of its exact block. */
typedef struct pool_request {
  uint64_t bytes, block_bytes;
  uint32_t size_class;
} pool_request;

/* ---- Lists (mutex locked) ------------------------------------------------------------------ */

static void cache_insert(memory_pool *pool, pool_block *block) {
  pool_block **head = &pool->class_head[block->size_class];
  block->class_previous = NULL;
  block->class_next = *head;
  if (*head) (*head)->class_previous = block;
  *head = block;
  pool->class_filled[block->size_class / 64] |= UINT64_C(1) << block->size_class % 64;

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
    if (!block->class_next)
      pool->class_filled[block->size_class / 64] &= ~(UINT64_C(1) << block->size_class % 64);
  }
  if (block->class_next) block->class_next->class_previous = block->class_previous;

  *(block->newer ? &block->newer->older : &pool->newest) = block->older;
  *(block->older ? &block->older->newer : &pool->oldest) = block->newer;

  pool->statistics.bytes_cached -= block->memory.bytes;
  pool->statistics.blocks_cached--;
}

static void activate(memory_pool *pool, pool_block *block, const pool_request *request) {
  compute_pool_statistics *statistics = &pool->statistics;
  pool_needs *needs = &pool->needs;
  block->requested = request->bytes;
  block->needed = request->block_bytes;
  needs->now += block->needed;
  if (needs->now > needs->highest[0]) needs->highest[0] = needs->now;
  statistics->bytes_requested += request->bytes;
  statistics->bytes_active += block->memory.bytes;
  statistics->blocks_active++;
  if (statistics->bytes_active > statistics->bytes_peak) {
    statistics->bytes_peak = statistics->bytes_active;
  }
}

static void deactivate(memory_pool *pool, const pool_block *block) {
  pool_needs *needs = &pool->needs;
  needs->now -= block->needed;
  if (needs->now < needs->lowest[0]) needs->lowest[0] = needs->now;
  pool->statistics.bytes_requested -= block->requested;
  pool->statistics.bytes_active -= block->memory.bytes;
  pool->statistics.blocks_active--;
}

/* ---- The limit (mutex locked) -------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* The most bytes that the pool may hold while it caches blocks, if `more` bytes are added to the
 * need. */
static uint64_t limit_with(const memory_pool *pool, uint64_t more) {
  const pool_needs *needs = &pool->needs;
  const uint64_t highest = larger(larger(needs->highest[0], needs->highest[1]), needs->now + more);
  const uint64_t lowest = needs->lowest[0] < needs->lowest[1] ? needs->lowest[0] : needs->lowest[1];
  return highest + (highest - lowest) / 2;
}

/* The most bytes that may stay cached beside a new block of `more` bytes, which is cached later
 * itself. */
static uint64_t cached_limit(const memory_pool *pool, uint64_t more) {
  const uint64_t limit = limit_with(pool, more), active = pool->statistics.bytes_active;
  const uint64_t most = larger(limit > active ? limit - active : 0, KEEP_BYTES);
  return most > more ? most - more : 0;
}

static bool is_over_limit(const memory_pool *pool, uint64_t more) {
  return pool->statistics.bytes_cached > cached_limit(pool, more);
}

/* Begins a new window if the current one has lasted long enough. Returns `true` if a new window
 * began and the cache is over the limit. */
static bool look_at_clock(memory_pool *pool) {
  pool_needs *needs = &pool->needs;
  const int64_t now = pool->source.clock ? pool->source.clock() : clock_now();
  const uint64_t held = pool->statistics.bytes_allocated;
  int64_t length = INT64_MAX;
  if (held < INT64_MAX / WINDOW_PER_BYTE) length = (int64_t)(held * WINDOW_PER_BYTE);
  if (length < WINDOW_SHORTEST) length = WINDOW_SHORTEST;
  if (now - needs->begin < length) return false;
  needs->begin = now;
  needs->highest[1] = needs->highest[0];
  needs->lowest[1] = needs->lowest[0];
  needs->highest[0] = needs->lowest[0] = needs->now;
  return is_over_limit(pool, 0);
}

/* ---- Eviction (source_mutex locked) -------------------------------------------------------- */

/* Returns a spare record for a new block, or allocates one. */
static pool_block *take_struct(memory_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  pool_block *block = pool->spare;
  if (block) {
    pool->spare = block->class_next;
    pool->spare_count--;
  }
  pthread_mutex_unlock(&pool->mutex);
  return block ? block : base_allocate(1, sizeof *block);
}

static void give_struct(memory_pool *pool, pool_block *block) {
  pthread_mutex_lock(&pool->mutex);
  const bool surplus = pool->spare_count >= SPARE_LIMIT;
  if (!surplus) {
    block->class_next = pool->spare;
    pool->spare = block;
    pool->spare_count++;
  }
  pthread_mutex_unlock(&pool->mutex);
  if (surplus) base_release(block);
}

/* Removes the oldest cached block from the pool (one must exist), with its bytes and count. */
static pool_block *evict_oldest(memory_pool *pool) {
  pool_block *block = pool->oldest;
  cache_remove(pool, block);
  pool->statistics.bytes_allocated -= block->memory.bytes;
  pool->statistics.evictions++;
  return block;
}

/* Evicts the oldest blocks until at least `bytes` are freed or at most `keep_bytes` are cached.
 * Returns the number of freed bytes. Frees the device's memory without `mutex`. */
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
  while (first) {
    pool_block *next = first->class_next;
    give_struct(pool, first);
    first = next;
  }
  return freed;
}

/* Evicts blocks beyond the limit for a new block of `more` bytes. */
static void evict_beyond_limit(memory_pool *pool, uint64_t more) {
  pthread_mutex_lock(&pool->mutex);
  const uint64_t keep = cached_limit(pool, more);
  pthread_mutex_unlock(&pool->mutex);
  evict(pool, UINT64_MAX, keep);
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* The first class in `first` … `last` with a cached block; CLASS_COUNT if there is none. */
static uint32_t find_class(const memory_pool *pool, uint32_t first, uint32_t last) {
  for (uint32_t word = first / 64; word <= last / 64; word++) {
    uint64_t filled = pool->class_filled[word];
    if (word == first / 64) filled &= UINT64_MAX << first % 64;
    if (!filled) continue;
    const uint32_t found = word * 64 + (uint32_t)__builtin_ctzll(filled);
    return found <= last ? found : CLASS_COUNT;
  }
  return CLASS_COUNT;
}

/* The largest cached block that may serve a request of `bytes`. */
static uint64_t largest_block(const memory_pool *pool, uint64_t bytes) {
  const uint64_t close = bytes / CLOSE_DENOMINATOR * CLOSE_NUMERATOR;
  if (!is_over_limit(pool, bytes)) return close;
  const uint64_t far = larger(bytes * FAR, FAR_SMALL);
  const uint64_t limit = limit_with(pool, bytes), active = pool->statistics.bytes_active;
  const uint64_t left = limit > active ? limit - active : 0;
  return larger(far < left ? far : left, close);
}

/* The smallest cached block that may serve a request whose exact class has none; or NULL. */
static pool_block *find_larger(const memory_pool *pool, const pool_request *request) {
  if (request->block_bytes > INT64_MAX / (2 * FAR)) return NULL;
  uint64_t unused;
  const uint32_t last = class_of(largest_block(pool, request->block_bytes), &unused);
  const uint32_t found = find_class(pool, request->size_class + 1, last);
  return found < CLASS_COUNT ? pool->class_head[found] : NULL;
}

/* Serves a request from the cache, or returns NULL. *over is `true` if the cache is over the
 * limit. */
static pool_block *take_cached(memory_pool *pool, const pool_request *request, bool *over) {
  pthread_mutex_lock(&pool->mutex);
  pool_block *block = pool->class_head[request->size_class];
  if (!block) block = find_larger(pool, request);
  if (block) {
    cache_remove(pool, block);
    activate(pool, block, request);
    pool->statistics.hits++;
  }
  *over = !block || ++pool->needs.requests % CLOCK_REQUESTS == 0 ? look_at_clock(pool) : false;
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

/* Counts `block_bytes` as allocated if they fit into the budget, and evicts blocks for them. A
 * request that cannot fit evicts nothing. */
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

/* Some tests use pools without a context. */
static void note_eviction(const memory_pool *pool, uint64_t freed, uint64_t wanted) {
  if (!pool->context) return;
  char evicted[32], needed[32];
  fallback_note(pool->context, NULL, FALLBACK_EVICTED, false,
                "%s: out of memory; evicted %s from the cache to allocate %s", pool->device_name,
                bytes_text(freed, evicted, sizeof evicted),
                bytes_text(wanted, needed, sizeof needed));
}

/* Requests memory from the source. After each failure, evicts about as many bytes as requested and
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
  /* Without a driver code, the message would only repeat the size. */
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

static compute_status allocate_new(memory_pool *pool, const pool_request *request,
                                   pool_block **result) {
  pool_block *block = take_struct(pool);
  if (!block) {
    return error_set(pool->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                     "%s: not enough host memory for a block's record", pool->device_name);
  }
  evict_beyond_limit(pool, request->block_bytes);
  compute_memory memory;
  compute_status status = reserve(pool, request->block_bytes);
  if (!status) {
    status = allocate_or_evict(pool, request->block_bytes, &memory);
    pthread_mutex_lock(&pool->mutex);
    pool->statistics.misses++;
    if (status) pool->statistics.bytes_allocated -= request->block_bytes;
    pthread_mutex_unlock(&pool->mutex);
  }
  if (status) {
    give_struct(pool, block);
    return status;
  }
  pthread_mutex_lock(&pool->mutex);
  block->memory = memory;
  block->memory.bytes = request->block_bytes;
  block->size_class = request->size_class;
  block->generation = pool->generation;
  activate(pool, block, request);
  *result = block;
  pthread_mutex_unlock(&pool->mutex);
  return COMPUTE_OK;
}

compute_status pool_allocate(memory_pool *pool, uint64_t bytes, pool_block **block) {
  *block = NULL;
  pool_request request = {.bytes = bytes};
  request.size_class = class_of(bytes, &request.block_bytes);
  if (request.block_bytes == 0) {
    return error_set(pool->context, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, ERROR_BACKEND,
                     "%s: %" PRIu64 " bytes are more than any device has", pool->device_name,
                     bytes);
  }
  bool over;
  *block = take_cached(pool, &request, &over);
  if (*block && !over) return COMPUTE_OK;
  pthread_mutex_lock(&pool->source_mutex);
  compute_status status = COMPUTE_OK;
  if (*block) {
    evict_beyond_limit(pool, 0);
  } else {
    /* While this thread waited, another one may have returned a block that fits. */
    *block = take_cached(pool, &request, &over);
    if (!*block) status = allocate_new(pool, &request, block);
  }
  pthread_mutex_unlock(&pool->source_mutex);
  return status;
}

void pool_return(memory_pool *pool, pool_block *block) {
  if (!block) return;
  pthread_mutex_lock(&pool->mutex);
  deactivate(pool, block);
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
