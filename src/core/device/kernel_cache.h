/* SPDX-License-Identifier: MIT */
/* Kernels prepared on one device, looked up by descriptor. Thread-safe. */
#ifndef DEVICE_KERNEL_CACHE_H
#define DEVICE_KERNEL_CACHE_H

#include "compute/backend.h"

typedef struct kernel_cache kernel_cache;

typedef struct kernel_entry {
  void *kernel;       /* the backend's kernel */
  int32_t references; /* guarded by the cache's lock */
  uint64_t hash;
  bool stale;                         /* prepared before the device was lost: not in the table */
  struct kernel_entry *next;          /* next entry in the same bucket */
  struct kernel_entry *newer, *older; /* links of unreferenced entries in order of last use */
  unsigned char *key;                 /* the descriptor as bytes */
  size_t key_bytes;
} kernel_entry;

/* Keeps up to a few hundred unreferenced kernels for reuse, and drops the oldest first. */
kernel_cache *kernel_cache_create(compute_device *device);
void kernel_cache_release(kernel_cache *cache); /* every entry must have been returned */

/* `true` if the device's backend supports the kernel; `reason` as in its `supports`. Does not ask
 * the backend about a prepared kernel, because a backend that generates source must write it to
 * answer. */
bool kernel_is_supported(const compute_device *device, const compute_kernel_descriptor *descriptor,
                         char *reason, size_t reason_bytes);

/* Finds or prepares a kernel. On failure the backend's status and error detail stay. */
compute_status kernel_cache_get(kernel_cache *cache, const compute_kernel_descriptor *descriptor,
                                kernel_entry **entry);
/* Only looks up the kernel: NULL if it is not prepared. */
kernel_entry *kernel_cache_find(kernel_cache *cache, const compute_kernel_descriptor *descriptor);
void kernel_cache_return(kernel_cache *cache, kernel_entry *entry); /* NULL is allowed */

/* Drops all kernels after the device was lost and recovered. Kernels in use are freed when they are
 * returned. */
void kernel_cache_forget(kernel_cache *cache);

#endif
