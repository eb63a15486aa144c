/* SPDX-License-Identifier: MIT */
/* Block sizes grow with use: a small model needs little memory and a large model few blocks. A
 * large allocation gets a separate block. */
#include "model/file/arena.h"

#include <string.h>

#include "core/base/alloc.h"

enum { ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

typedef struct arena_block {
  struct arena_block *next;
  size_t used, capacity;
  _Alignas(ALIGNMENT) unsigned char data[];
} arena_block;

/* Adds a block for `bytes`. A separate block for one large allocation goes behind the newest
 * block. */
static arena_block *add_block(model_arena *memory, size_t bytes) {
  arena_block *newest = memory->blocks;
  size_t capacity = newest ? newest->capacity : FIRST_BLOCK / 2;
  capacity = capacity < LARGEST_BLOCK ? 2 * capacity : LARGEST_BLOCK;
  const bool alone = bytes > capacity / 4;
  if (alone) capacity = bytes;
  if (capacity > SIZE_MAX - sizeof(arena_block)) return base_refuse(capacity);
  arena_block *block = base_allocate(1, sizeof *block + capacity);
  if (!block) return NULL;
  block->capacity = capacity;
  if (alone && newest) {
    block->next = newest->next;
    newest->next = block;
  } else {
    block->next = newest;
    memory->blocks = block;
  }
  return block;
}

void *arena_allocate(model_arena *memory, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT)
    return base_refuse(SIZE_MAX);
  bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
  if (bytes == 0) bytes = ALIGNMENT;
  arena_block *block = memory->blocks;
  if (!block || bytes > block->capacity - block->used) block = add_block(memory, bytes);
  if (!block) return NULL;
  void *result = block->data + block->used;
  block->used += bytes;
  return result;
}

char *arena_text(model_arena *memory, const void *text, size_t bytes) {
  char *copy = bytes < SIZE_MAX ? arena_allocate(memory, bytes + 1, 1) : NULL;
  if (copy && bytes > 0) memcpy(copy, text, bytes);
  return copy;
}

size_t arena_bytes(const model_arena *memory) {
  size_t bytes = 0;
  for (const arena_block *block = memory->blocks; block; block = block->next)
    bytes += sizeof *block + block->capacity;
  return bytes;
}

void arena_release(model_arena *memory) {
  for (arena_block *block = memory->blocks; block;) {
    arena_block *next = block->next;
    base_release(block);
    block = next;
  }
  memory->blocks = NULL;
}
