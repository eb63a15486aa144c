/* SPDX-License-Identifier: MIT */
/* An arena: a list of memory blocks that are freed together. Not thread-safe. */
#ifndef MODEL_ARENA_H
#define MODEL_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct model_arena {
  struct arena_block *blocks; /* newest first */
} model_arena;

/* Zeroed memory for `count` elements of `size` bytes, aligned to 16 bytes. NULL if out of memory
 * or if the product overflows. Not NULL for 0 elements. */
void *arena_allocate(model_arena *memory, size_t count, size_t size);

/* A zero-terminated copy of `bytes` bytes; NULL if out of memory. */
char *arena_text(model_arena *memory, const void *text, size_t bytes);

/* The arena's host memory in bytes. */
size_t arena_bytes(const model_arena *memory);

void arena_release(model_arena *memory);

#endif
