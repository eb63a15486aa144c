/* SPDX-License-Identifier: MIT */
/* Kernels prepared on one device, looked up by descriptor. Thread-safe. */
#ifndef DEVICE_KERNEL_CACHE_H
#define DEVICE_KERNEL_CACHE_H

#include "compute/backend.h"

typedef struct kernel_cache kernel_cache;

typedef struct kernel_entry {
  void *kernel;       /* the backend's */
  int32_t references; /* under the cache's lock */
  uint64_t hash;
  bool stale;                /* prepared before the device was lost: no longer in the table */
  struct kernel_entry *next; /* same bucket */
  struct kernel_entry *newer, *older; /* order of last use among those unreferenced */
  unsigned char *key;                 /* the descriptor as bytes */
  size_t key_bytes;
} kernel_entry;

/* Keeps up to a few hundred unreferenced kernels for reuse, oldest dropped first. */
kernel_cache *kernel_cache_create(compute_device *device);
void kernel_cache_release(kernel_cache *cache); /* every entry must have been returned */

/* Whether the device's backend supports a kernel; `reason` as in its `supports`. A kernel that has
 * been prepared is not asked about again: a backend that generates source writes it to answer. */
bool kernel_is_supported(const compute_device *device, const compute_kernel_descriptor *descriptor,
                         char *reason, size_t reason_bytes);

/* Finds or prepares. On failure the backend's status and error detail are kept. */
compute_status kernel_cache_get(kernel_cache *cache, const compute_kernel_descriptor *descriptor,
                                kernel_entry **entry);
/* Only looks up: NULL if it has not been prepared. */
kernel_entry *kernel_cache_find(kernel_cache *cache, const compute_kernel_descriptor *descriptor);
void kernel_cache_return(kernel_cache *cache, kernel_entry *entry); /* NULL is allowed */

/* Drops all kernels, after the device was lost and recovered. Those in use are freed when they are
 * returned. */
void kernel_cache_forget(kernel_cache *cache);

#endif
