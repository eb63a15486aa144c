/* SPDX-License-Identifier: MIT */
/* Aligned memory. On POSIX it is the C library's, which free takes back; Windows needs the start of
 * a block beside its data. */
#ifndef PLATFORM_ALIGNED_H
#define PLATFORM_ALIGNED_H

#include <stddef.h>
#include <stdlib.h>

/* aligned_take needs a power of two of at least 16, and a multiple of it as size. The contents of
 * aligned_take_cleared are zero, at an alignment of 16. Both return NULL when out of memory.
 * aligned_give releases the memory of both; NULL does nothing. */
#ifdef _WIN32
void *aligned_take(size_t alignment, size_t bytes);
void *aligned_take_cleared(size_t bytes);
void aligned_give(void *data);
#else
static inline void *aligned_take(size_t alignment, size_t bytes) {
  return aligned_alloc(alignment, bytes);
}
static inline void *aligned_take_cleared(size_t bytes) {
  return calloc(1, bytes);
}
static inline void aligned_give(void *data) {
  free(data);
}
#endif

#endif
