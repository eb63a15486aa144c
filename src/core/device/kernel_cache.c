/* SPDX-License-Identifier: MIT */
/* Prepared kernels, looked up by the bytes of their descriptor.
 *
 * The hash only selects the bucket; the full key is compared. A kernel is prepared without the
 * lock, because a GPU compiler may take long. Two threads may therefore prepare the same kernel at
 * once, and the later one drops its copy. */
#include "core/device/kernel_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"
#include "core/kernel/kernel.h"
#include "core/kernel/kernel_key.h"
#include "core/kernel/common/program.h"
#include "core/device/collector.h"

#define UNREFERENCED_LIMIT 512
#define FIRST_BUCKETS      64

struct kernel_cache {
  pthread_mutex_t mutex;
  compute_device *device;
  kernel_entry **buckets; /* their number is a power of two */
  size_t bucket_count;
  size_t entry_count;
  kernel_entry *newest, *oldest; /* unreferenced entries in order of last use */
  size_t unreferenced;
};

/* ---- Table and order of use (mutex locked) ------------------------------------------------- */

static kernel_entry *find(const kernel_cache *cache, const kernel_key *key, uint64_t hash) {
  if (cache->bucket_count == 0) return NULL;
  kernel_entry *entry = cache->buckets[hash & (cache->bucket_count - 1)];
  while (entry && !(entry->hash == hash && entry->key_bytes == key->length &&
                    !memcmp(entry->key, key->bytes, key->length))) {
    entry = entry->next;
  }
  return entry;
}

/* Makes room for one more entry. If a larger table cannot be allocated, chains just get longer. So
 * only the allocation of the first table can fail. */
static bool grow(kernel_cache *cache) {
  if (cache->entry_count < cache->bucket_count) return true;
  size_t count = cache->bucket_count ? 2 * cache->bucket_count : FIRST_BUCKETS;
  kernel_entry **buckets = base_allocate(count, sizeof *buckets);
  if (!buckets) return cache->bucket_count > 0;
  for (size_t i = 0; i < cache->bucket_count; i++) {
    for (kernel_entry *entry = cache->buckets[i], *next; entry; entry = next) {
      next = entry->next;
      kernel_entry **head = &buckets[entry->hash & (count - 1)];
      entry->next = *head;
      *head = entry;
    }
  }
  base_release(cache->buckets);
  cache->buckets = buckets;
  cache->bucket_count = count;
  return true;
}

static void unlink_from_order(kernel_cache *cache, kernel_entry *entry) {
  *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
  *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
  entry->newer = entry->older = NULL;
  cache->unreferenced--;
}

static void append_to_order(kernel_cache *cache, kernel_entry *entry) {
  entry->newer = NULL;
  entry->older = cache->newest;
  if (cache->newest) {
    cache->newest->newer = entry;
  } else {
    cache->oldest = entry;
  }
  cache->newest = entry;
  cache->unreferenced++;
}

static void take_reference(kernel_cache *cache, kernel_entry *entry) {
  if (entry->references++ == 0) unlink_from_order(cache, entry);
}

/* If there are more than `limit` unreferenced entries, removes the least recently used one from the
 * cache and returns it. */
static kernel_entry *take_surplus(kernel_cache *cache, size_t limit) {
  kernel_entry *entry = cache->oldest;
  if (cache->unreferenced <= limit) return NULL;
  unlink_from_order(cache, entry);
  kernel_entry **link = &cache->buckets[entry->hash & (cache->bucket_count - 1)];
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  cache->entry_count--;
  return entry;
}

/* ---- Entries ------------------------------------------------------------------------------- */

static void destroy_kernel(compute_device *device, void *kernel) {
  device->backend->kernel_destroy(device->handle, kernel);
}

/* Call this without the lock. */
static void destroy_entry(const kernel_cache *cache, kernel_entry *entry) {
  if (!entry) return;
  compute_device *device = cache->device;
  if (entry->kernel && !device_release_later(device, destroy_kernel, entry->kernel))
    destroy_kernel(device, entry->kernel);
  base_release(entry->key);
  base_release(entry);
}

static compute_status fail_memory(const kernel_cache *cache) {
  return error_set(cache->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                   "not enough host memory for a kernel's record");
}

/* The number of programs that the device's compiler has rejected so far, on any thread. A module
 * that then uses an alternative reports this only in the log. */
static uint64_t programs_failed(const compute_device *device) {
  compute_build_statistics statistics = {0};
  if (device->backend->build_statistics)
    device->backend->build_statistics(device->handle, &statistics);
  return statistics.programs_failed;
}

/* Creates an entry with one reference; it is not in the table yet. */
static compute_status prepare_entry(const kernel_cache *cache,
                                    const compute_kernel_descriptor *descriptor,
                                    const kernel_key *key, uint64_t hash, kernel_entry **result) {
  compute_device *device = cache->device;
  char reason[256] = "";
  if (!descriptor_check(descriptor, reason, sizeof reason)) {
    return error_set(device->context, COMPUTE_ERROR_INTERNAL, ERROR_BACKEND,
                     "ill-formed kernel descriptor: %s", reason);
  }
  kernel_entry *entry = base_allocate(1, sizeof *entry);
  if (!entry) return fail_memory(cache);
  entry->references = 1;
  entry->hash = hash;
  entry->key_bytes = key->length;
  entry->key = base_allocate(1, key->length);
  compute_status status = entry->key ? COMPUTE_OK : fail_memory(cache);
  if (!status) {
    memcpy(entry->key, key->bytes, key->length);
    const int64_t begin = profile_is_on(device->context) ? clock_now() : 0;
    const uint64_t refused = programs_failed(device);
    DRIVER_CALL(device->backend);
    status = device->backend->kernel_prepare(device->handle, descriptor, &entry->kernel);
    if (!status && programs_failed(device) > refused)
      fallback_note(device->context, device, FALLBACK_OTHER_KERNEL, false,
                    "a kernel did not build; another version of it did");
    if (begin)
      profile_host(device->context,
                   profile_entry_of(device->context, device, PROFILE_BUILD, "build",
                                    kernel_kind_name(descriptor->kind)),
                   begin, (profile_work){0});
    if (status) entry->kernel = NULL;
  }
  if (status) {
    destroy_entry(cache, entry);
    return status;
  }
  *result = entry;
  return COMPUTE_OK;
}

/* Adds an entry to the table. If another thread added the same kernel first, returns its entry. */
static compute_status publish(kernel_cache *cache, const kernel_key *key, kernel_entry *made,
                              kernel_entry **result) {
  pthread_mutex_lock(&cache->mutex);
  kernel_entry *other = find(cache, key, made->hash);
  bool room = other || grow(cache);
  if (other) {
    take_reference(cache, other);
    *result = other;
  } else if (room) {
    kernel_entry **head = &cache->buckets[made->hash & (cache->bucket_count - 1)];
    made->next = *head;
    *head = made;
    cache->entry_count++;
    *result = made;
    made = NULL;
  }
  pthread_mutex_unlock(&cache->mutex);
  destroy_entry(cache, made);
  return room ? COMPUTE_OK : fail_memory(cache);
}

/* Returns the entry with one more reference, or NULL. */
static kernel_entry *look_up(kernel_cache *cache, const kernel_key *key, uint64_t hash) {
  pthread_mutex_lock(&cache->mutex);
  kernel_entry *entry = find(cache, key, hash);
  if (entry) take_reference(cache, entry);
  pthread_mutex_unlock(&cache->mutex);
  return entry;
}

kernel_entry *kernel_cache_find(kernel_cache *cache, const compute_kernel_descriptor *descriptor) {
  if (!kernel_key_fits(descriptor)) return NULL;
  kernel_key key;
  kernel_key_write(&key, descriptor);
  return look_up(cache, &key, hash_bytes(HASH_SEED, key.bytes, key.length));
}

/* The reason why a device cannot keep the demands of a kernel, or NULL. */
static const char *refuse_demands(const compute_device *device, uint32_t demands) {
  enum { MINOR_WITH_DEMANDS = 7 };
  if (demands & COMPUTE_DEMAND_PORTABLE && device != device->context->cpu)
    return "only the CPU has portable kernels";
  if (demands && device->backend->abi_minor < MINOR_WITH_DEMANDS)
    return "the module is too old for reproducible kernels";
  return NULL;
}

bool kernel_is_supported(const compute_device *device, const compute_kernel_descriptor *descriptor,
                         char *reason, size_t reason_bytes) {
  const compute_backend *backend = device->backend;
  const char *refused = refuse_demands(device, descriptor->demands);
  if (refused) {
    if (reason && reason_bytes) snprintf(reason, reason_bytes, "%s", refused);
    return false;
  }
  kernel_entry *prepared = kernel_cache_find(device->kernels, descriptor);
  if (!prepared) return backend->supports(device->handle, descriptor, reason, reason_bytes);
  kernel_cache_return(device->kernels, prepared);
  return true;
}

compute_status kernel_cache_get(kernel_cache *cache, const compute_kernel_descriptor *descriptor,
                                kernel_entry **entry) {
  *entry = NULL;
  char reason[256] = "";
  if (!kernel_key_fits(descriptor)) {
    descriptor_check(descriptor, reason, sizeof reason);
    return error_set(cache->device->context, COMPUTE_ERROR_INTERNAL, ERROR_BACKEND,
                     "ill-formed kernel descriptor: %s", reason);
  }
  kernel_key key;
  kernel_key_write(&key, descriptor);
  uint64_t hash = hash_bytes(HASH_SEED, key.bytes, key.length);
  *entry = look_up(cache, &key, hash);
  if (*entry) return COMPUTE_OK;
  kernel_entry *made = NULL;
  compute_status status = prepare_entry(cache, descriptor, &key, hash, &made);
  return status ? status : publish(cache, &key, made, entry);
}

void kernel_cache_return(kernel_cache *cache, kernel_entry *entry) {
  if (!entry) return;
  pthread_mutex_lock(&cache->mutex);
  bool last = --entry->references == 0;
  if (last && !entry->stale) append_to_order(cache, entry);
  kernel_entry *surplus = last && entry->stale ? entry : take_surplus(cache, UNREFERENCED_LIMIT);
  pthread_mutex_unlock(&cache->mutex);
  destroy_entry(cache, surplus);
}

void kernel_cache_forget(kernel_cache *cache) {
  pthread_mutex_lock(&cache->mutex);
  kernel_entry *unused = NULL;
  for (size_t i = 0; i < cache->bucket_count; i++) {
    for (kernel_entry *entry = cache->buckets[i], *next; entry; entry = next) {
      next = entry->next;
      entry->stale = true;
      entry->next = NULL;
      if (entry->references > 0) continue; /* its last plan releases it */
      unlink_from_order(cache, entry);
      entry->next = unused;
      unused = entry;
    }
    cache->buckets[i] = NULL;
  }
  cache->entry_count = 0;
  pthread_mutex_unlock(&cache->mutex);
  for (kernel_entry *next; unused; unused = next) {
    next = unused->next;
    destroy_entry(cache, unused);
  }
}

/* ---- The cache itself ---------------------------------------------------------------------- */

kernel_cache *kernel_cache_create(compute_device *device) {
  kernel_cache *cache = base_allocate(1, sizeof *cache);
  if (!cache) return NULL;
  if (pthread_mutex_init(&cache->mutex, NULL)) {
    base_release(cache);
    return NULL;
  }
  cache->device = device;
  return cache;
}

void kernel_cache_release(kernel_cache *cache) {
  if (!cache) return;
  for (kernel_entry *entry = take_surplus(cache, 0); entry; entry = take_surplus(cache, 0)) {
    destroy_entry(cache, entry);
  }
  base_release(cache->buckets);
  pthread_mutex_destroy(&cache->mutex);
  base_release(cache);
}
