/* SPDX-License-Identifier: MIT */
/* The plan cache: a hash table with a list in order of last use. Plans are reference-counted, so
 * evicting a plan that another thread is running only drops the cache's reference. */
#include "plan/eager/eager.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/device/device.h"

enum { BUCKETS = 2 * EAGER_CACHE_LIMIT };

struct eager_cache {
  pthread_mutex_t mutex;
  eager_plan *bucket[BUCKETS];
  eager_plan *newest, *oldest;
  size_t count;
  uint64_t bytes;
};

void eager_plan_release(eager_plan *plan) {
  if (!plan || atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) > 1) return;
  compute_plan_release(plan->plan);
  base_release(plan->inputs);
  base_release(plan->key);
  base_release(plan);
}

static void retain(eager_plan *plan) {
  atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
}

static void release(void *content) {
  struct eager_cache *cache = content;
  for (eager_plan *plan = cache->newest; plan;) {
    eager_plan *older = plan->older;
    eager_plan_release(plan);
    plan = older;
  }
  pthread_mutex_destroy(&cache->mutex);
  base_release(cache);
}

room_slot eager_slot = {.stage = SLOT_HOLDS_OBJECTS, .release = release};

struct eager_cache *eager_cache_of(compute_context *context) {
  struct eager_cache *cache = slot_get(&context->slots, &eager_slot);
  if (cache) return cache;
  cache = base_allocate(1, sizeof *cache);
  if (cache) pthread_mutex_init(&cache->mutex, NULL);
  return slot_offer(&context->slots, &eager_slot, cache);
}

/* ---- Under the mutex ------------------------------------------------------------------------- */

static eager_plan **slot_of(struct eager_cache *cache, const void *key, size_t key_bytes,
                            uint64_t hash) {
  eager_plan **slot = &cache->bucket[hash % BUCKETS];
  for (; *slot; slot = &(*slot)->next) {
    const eager_plan *plan = *slot;
    if (plan->hash == hash && plan->key_bytes == key_bytes && !memcmp(plan->key, key, key_bytes)) {
      break;
    }
  }
  return slot;
}

static void list_remove(struct eager_cache *cache, eager_plan *plan) {
  *(plan->newer ? &plan->newer->older : &cache->newest) = plan->older;
  *(plan->older ? &plan->older->newer : &cache->oldest) = plan->newer;
}

static void list_add_newest(struct eager_cache *cache, eager_plan *plan) {
  plan->newer = NULL;
  plan->older = cache->newest;
  *(cache->newest ? &cache->newest->newer : &cache->oldest) = plan;
  cache->newest = plan;
}

static eager_plan *take_oldest(struct eager_cache *cache) {
  eager_plan *plan = cache->oldest;
  eager_plan **slot = slot_of(cache, plan->key, plan->key_bytes, plan->hash);
  *slot = plan->next;
  list_remove(cache, plan);
  cache->count--;
  cache->bytes -= plan->bytes;
  return plan;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

eager_plan *eager_cache_find(struct eager_cache *cache, const void *key, size_t key_bytes,
                             uint64_t hash) {
  pthread_mutex_lock(&cache->mutex);
  eager_plan *plan = *slot_of(cache, key, key_bytes, hash);
  if (plan) {
    retain(plan);
    list_remove(cache, plan);
    list_add_newest(cache, plan);
  }
  pthread_mutex_unlock(&cache->mutex);
  return plan;
}

/* Removes the least recently used plans beyond the limits. Returns them as a list linked by `next`;
 * the caller releases them outside the lock. */
static eager_plan *take_surplus(struct eager_cache *cache) {
  eager_plan *list = NULL;
  while (cache->count > 1 &&
         (cache->count > EAGER_CACHE_LIMIT || cache->bytes > EAGER_CACHE_BYTES)) {
    eager_plan *plan = take_oldest(cache);
    plan->next = list;
    list = plan;
  }
  return list;
}

eager_plan *eager_cache_insert(struct eager_cache *cache, eager_plan *plan) {
  eager_plan *forgotten = NULL;
  pthread_mutex_lock(&cache->mutex);
  eager_plan **slot = slot_of(cache, plan->key, plan->key_bytes, plan->hash);
  if (*slot) {
    forgotten = plan;
    forgotten->next = NULL;
    plan = *slot;
  } else {
    plan->next = NULL;
    *slot = plan;
    list_add_newest(cache, plan);
    cache->count++;
    cache->bytes += plan->bytes;
    forgotten = take_surplus(cache);
  }
  retain(plan);
  pthread_mutex_unlock(&cache->mutex);
  while (forgotten) {
    eager_plan *next = forgotten->next;
    eager_plan_release(forgotten);
    forgotten = next;
  }
  return plan;
}

size_t eager_cache_count(struct eager_cache *cache) {
  pthread_mutex_lock(&cache->mutex);
  size_t count = cache->count;
  pthread_mutex_unlock(&cache->mutex);
  return count;
}
