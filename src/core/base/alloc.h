/* SPDX-License-Identifier: MIT */
/* The library's host memory. All allocations go through this file, so that a program can replace
 * the allocator (compute_allocator_set), and tests can make it fail. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Sizes have 64 bits, so that a size of a tensor or file is never cut off where size_t has 32. */

/* Returns zeroed memory of at least one byte, or NULL. Checks count * size for overflow. */
void *base_allocate(uint64_t count, uint64_t size);

/* Records a request that cannot be met, for base_take_failed. Returns NULL. */
void *base_refuse(size_t bytes);

/* Like base_allocate, with an alignment (a power of two); the memory is not zeroed. */
void *base_allocate_aligned(uint64_t bytes, size_t alignment);

/* Grows an array to at least `needed` elements of `size` bytes, at least doubling it. The new
 * memory is zeroed. Returns 0, or -1 with *array and *capacity unchanged. */
int base_grow(void **array, size_t *capacity, uint64_t needed, size_t size);

void base_release(void *pointer); /* NULL is allowed */

/* Returns the bytes of the calling thread's last failed request, and resets them to 0. SIZE_MAX
 * means a size beyond size_t. Error messages use it. */
size_t base_take_failed(void);

char *base_duplicate(const char *text); /* NULL when out of memory or if text is NULL */

/* Count open contexts; compute_allocator_set refuses while one is open. */
void base_context_opened(void);
void base_context_closed(void);

#endif
