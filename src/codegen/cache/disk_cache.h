/* SPDX-License-Identifier: MIT */
/* Compiled kernels on disk, keyed by everything that they depend on. Several processes may use one
 * folder at once. Nothing here sets an error: a cache that does not work is a slower program, and
 * the log says why, once. Thread-safe. */
#ifndef CACHE_DISK_CACHE_H
#define CACHE_DISK_CACHE_H

#include "compute/backend.h"
#include "core/base/slot.h"

typedef struct disk_cache disk_cache;

typedef struct disk_cache_statistics {
  uint64_t hits, misses, stores, damaged, evictions;
} disk_cache_statistics;

/* Fails only when out of host memory (NULL): without a usable folder the cache is off. The folder
 * is created at the first store. */
disk_cache *disk_cache_create(void);
void disk_cache_release(disk_cache *cache);

extern room_slot disk_cache_slot; /* of a context */

/* The entry as memory for base_release, or NULL. */
void *disk_cache_load(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      size_t *bytes);
void disk_cache_store(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      const void *data, size_t bytes);

/* "" while the cache is off. */
const char *disk_cache_folder(const disk_cache *cache);
void disk_cache_query(disk_cache *cache, disk_cache_statistics *statistics);

#endif
