/* SPDX-License-Identifier: MIT */
/* The library's host memory. All of it comes from one replaceable allocator. The default is the C
 * library's, where calloc need not clear large fresh memory. */
#include "core/base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/platform/aligned.h"

#define DEFAULT_ALIGNMENT 16

/* Written only while no context is open, so readers need no lock. If `allocate` is NULL, the C
 * library is used. */
static compute_allocator allocator;
static atomic_int open_contexts;

compute_status compute_allocator_set(const compute_allocator *replacement) {
  static const char operation[] = "compute_allocator_set";
  if (replacement && (!replacement->allocate || !replacement->release)) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "an allocator needs both allocate and release");
  }
  int open = atomic_load(&open_contexts);
  if (open > 0) {
    return error_set(NULL, COMPUTE_ERROR_INVALID_STATE, operation,
                     "%d context%s open; the allocator can only change while none is", open,
                     open == 1 ? " is" : "s are");
  }
  allocator = replacement ? *replacement : (compute_allocator){0};
  return COMPUTE_OK;
}

void base_context_opened(void) {
  atomic_fetch_add(&open_contexts, 1);
}
void base_context_closed(void) {
  atomic_fetch_sub(&open_contexts, 1);
}

/* The child neither uses nor closes the parent's contexts. */
void base_allocator_forked(void) {
  atomic_store(&open_contexts, 0);
}

static _Thread_local size_t failed_bytes;

size_t base_take_failed(void) {
  const size_t bytes = failed_bytes;
  failed_bytes = 0;
  return bytes;
}

void *base_refuse(size_t bytes) {
  failed_bytes = bytes;
  return NULL;
}

void *base_allocate(uint64_t count, uint64_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return base_refuse(SIZE_MAX);
  if (bytes == 0) bytes = 1;
  void *pointer = NULL;
  if (!allocator.allocate) {
    pointer = aligned_take_cleared(bytes);
  } else {
    pointer = allocator.allocate(allocator.user, bytes, DEFAULT_ALIGNMENT);
    if (pointer) memset(pointer, 0, bytes);
  }
  return pointer ? pointer : base_refuse(bytes);
}

void *base_allocate_aligned(uint64_t wanted, size_t alignment) {
  size_t bytes = (size_t)wanted;
  if (bytes != wanted) return base_refuse(SIZE_MAX);
  if (bytes == 0) bytes = 1;
  if (alignment < DEFAULT_ALIGNMENT) alignment = DEFAULT_ALIGNMENT;
  void *pointer = NULL;
  size_t rounded; /* C11 requires a size that is a multiple of the alignment. */
  if (allocator.allocate)
    pointer = allocator.allocate(allocator.user, bytes, alignment);
  else if (!__builtin_add_overflow(bytes, alignment - 1, &rounded))
    pointer = aligned_take(alignment, rounded & ~(alignment - 1));
  return pointer ? pointer : base_refuse(bytes);
}

int base_grow(void **array, size_t *capacity, uint64_t needed, size_t size) {
  if (needed <= *capacity) return 0;
  uint64_t wanted = *capacity > SIZE_MAX / 2 ? needed : *capacity * 2;
  if (wanted < needed) wanted = needed;
  if (wanted < 8) wanted = 8;
  void *grown = base_allocate(wanted, size);
  if (!grown) return -1;
  if (*array) memcpy(grown, *array, *capacity * size);
  base_release(*array);
  *array = grown;
  *capacity = (size_t)wanted; /* it fits, because the memory is there */
  return 0;
}

void base_release(void *pointer) {
  if (!pointer) return;
  if (allocator.allocate) {
    allocator.release(allocator.user, pointer);
  } else {
    aligned_give(pointer);
  }
}

char *base_duplicate(const char *text) {
  if (!text) return NULL;
  size_t bytes = strlen(text) + 1;
  char *copy = base_allocate(bytes, 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}
