/* SPDX-License-Identifier: MIT */
/* Compiled kernels on disk. The key covers everything that a kernel depends on. Several processes
 * may use one folder at once. No function here sets an error: without a working cache the program
 * is only slower, and the log gives the reason once. Thread-safe. */
#ifndef CACHE_DISK_CACHE_H
#define CACHE_DISK_CACHE_H

#include "compute/backend.h"
#include "core/base/slot.h"

typedef struct disk_cache disk_cache;

typedef struct disk_cache_statistics {
  uint64_t hits, misses, stores, damaged, evictions;
} disk_cache_statistics;

/* Returns NULL only when host memory is short: without a usable folder the cache is off. The first
 * store creates the folder. */
disk_cache *disk_cache_create(void);
void disk_cache_release(disk_cache *cache);

extern room_slot disk_cache_slot; /* slot in a context */

/* Returns the entry, which the caller frees with base_release, or NULL. */
void *disk_cache_load(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      size_t *bytes);
void disk_cache_store(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      const void *data, size_t bytes);

/* Returns "" while the cache is off. */
const char *disk_cache_folder(const disk_cache *cache);
void disk_cache_query(disk_cache *cache, disk_cache_statistics *statistics);

#endif
