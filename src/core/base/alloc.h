/* SPDX-License-Identifier: MIT */
/* The library's own host memory; everything goes through here, so that one allocator can be
 * replaced (compute_allocator_set) and its failures tested. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

/* Zeroed memory of at least one byte, or NULL. Multiplies count * size with a check. */
void *base_allocate(size_t count, size_t size);

/* Notes a request that cannot be met, for base_take_failed. Returns NULL. */
void *base_refuse(size_t bytes);

/* The same with an alignment (a power of two), not zeroed. */
void *base_allocate_aligned(size_t bytes, size_t alignment);

/* Grows an array to at least `needed` elements of `size` bytes, doubling; new memory is zeroed.
 * Returns 0, or -1 with *array and *capacity unchanged. */
int base_grow(void **array, size_t *capacity, size_t needed, size_t size);

void base_release(void *pointer); /* NULL is allowed */

/* The bytes of the calling thread's last request that failed, once: 0 after that. SIZE_MAX for a
 * size that no number holds. For the message of the error. */
size_t base_take_failed(void);

char *base_duplicate(const char *text); /* NULL when out of memory or if text is NULL */

/* How many contexts are open; compute_allocator_set refuses while there is one. */
void base_context_opened(void);
void base_context_closed(void);

#endif
