/* SPDX-License-Identifier: MIT */
/* Chunked bump allocation. A chunk is never resized, so pointers stay valid. */
#include "plan/compile/capture/scratch.h"

#include <stdint.h>
#include <string.h>

#include "core/base/alloc.h"

#define CHUNK_BYTES 16384

struct scratch_chunk {
  struct scratch_chunk *next;
  max_align_t data[];
};

void *scratch_take(scratch *s, size_t count, size_t size) {
  if (count != 0 && size > SIZE_MAX / 2 / count) return NULL;
  size_t bytes = (count * size + 15) / 16 * 16;
  if (bytes == 0) bytes = 16;
  if (!s->chunks || s->size - s->used < bytes) {
    size_t room = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
    struct scratch_chunk *chunk = base_allocate(1, sizeof *chunk + room);
    if (!chunk) return NULL;
    /* A chunk for one large request is full at once; the chunk with free space stays in front. */
    if (s->chunks && room == bytes) {
      chunk->next = s->chunks->next;
      s->chunks->next = chunk;
      return chunk->data;
    }
    chunk->next = s->chunks;
    s->chunks = chunk;
    s->used = 0;
    s->size = room;
  }
  void *result = (unsigned char *)s->chunks->data + s->used;
  s->used += bytes;
  return result;
}

void scratch_release(scratch *s) {
  while (s->chunks) {
    struct scratch_chunk *next = s->chunks->next;
    base_release(s->chunks);
    s->chunks = next;
  }
  *s = (scratch){0};
}
