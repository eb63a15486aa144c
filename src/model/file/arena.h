/* SPDX-License-Identifier: MIT */
/* Memory that goes all at once: a list of blocks. Not thread-safe. */
#ifndef MODEL_ARENA_H
#define MODEL_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct model_arena {
  struct arena_block *blocks; /* newest first */
} model_arena;

/* Zeroed memory for `count` elements of `size` bytes, aligned to 16; NULL when memory is short or
 * the product overflows. Of no elements: not NULL. */
void *arena_allocate(model_arena *memory, size_t count, size_t size);

/* A zero-terminated copy of `bytes` bytes; NULL when memory is short. */
char *arena_text(model_arena *memory, const void *text, size_t bytes);

/* The host memory that it takes. */
size_t arena_bytes(const model_arena *memory);

void arena_release(model_arena *memory);

#endif
