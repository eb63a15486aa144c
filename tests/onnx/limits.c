/* SPDX-License-Identifier: MIT */
/* Limits of memory: see limits.h. */
#include "onnx/limits.h"

#include "core/platform/aligned.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_memory = 256 << 20, most_in_pool = 16 << 20;

static atomic_uint_fast64_t held;

enum { HEADER = 64 };

static void *limited_allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *block = NULL;
  if (bytes > most_memory || atomic_fetch_add(&held, bytes) + bytes > most_memory ||
      alignment > HEADER || !(block = aligned_take(HEADER, (bytes / HEADER + 2) * HEADER))) {
    if (bytes <= most_memory) atomic_fetch_sub(&held, bytes);
    return NULL;
  }
  memcpy(block, &bytes, sizeof bytes);
  return (char *)block + HEADER;
}

static void limited_release(void *user, void *pointer) {
  (void)user;
  if (!pointer) return;
  char *block = (char *)pointer - HEADER;
  size_t bytes;
  memcpy(&bytes, block, sizeof bytes);
  atomic_fetch_sub(&held, bytes);
  aligned_give(block);
}

bool limits_open(compute_context **context) {
  static const compute_allocator allocator = {limited_allocate, limited_release, NULL};
  setenv("COMPUTE_THREADS", "1", 1);
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  return !compute_allocator_set(&allocator) &&
         !compute_open(context, &(compute_open_options){.backends = "cpu"}) &&
         !compute_pool_set_budget(compute_default_device(*context), most_in_pool);
}
