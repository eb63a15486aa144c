/* SPDX-License-Identifier: MIT */
/* Values that were computed from frozen buffers. */
#include "core/device/derived.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/device/device.h"

/* Values of one source that no plan uses: a program may compile a plan for each number that it
 * multiplies its weights with. */
enum { MOST_UNUSED = 8 };

static const derived_piece *find(const memory_buffer *source, derived_key key) {
  const derived_piece *piece = source->derived;
  while (piece && (piece->key_bytes != key.count || memcmp(piece->key, key.bytes, key.count) != 0))
    piece = piece->next;
  return piece;
}

memory_buffer *derived_find(memory_buffer *source, derived_key key) {
  pthread_mutex_lock(&source->device->packed_mutex);
  const derived_piece *piece = find(source, key);
  memory_buffer *value = piece ? buffer_retain(piece->buffer) : NULL;
  pthread_mutex_unlock(&source->device->packed_mutex);
  return value;
}

/* Returns a piece without a value, or NULL when out of memory. */
static derived_piece *make_piece(derived_key key) {
  derived_piece *piece = base_allocate(1, sizeof *piece);
  if (!piece) return NULL;
  piece->key = base_allocate(key.count, 1);
  if (!piece->key) {
    base_release(piece);
    return NULL;
  }
  memcpy(piece->key, key.bytes, key.count);
  piece->key_bytes = key.count;
  return piece;
}

static void release_piece(derived_piece *piece) {
  buffer_release(piece->buffer);
  base_release(piece->key);
  base_release(piece);
}

/* Unlinks the values that no plan uses, except the newest MOST_UNUSED, and returns them. Nobody can
 * take a new reference meanwhile: the caller holds the mutex. */
static derived_piece *take_unused(memory_buffer *source) {
  derived_piece *taken = NULL;
  int unused = 0;
  for (derived_piece **at = &source->derived; *at;) {
    derived_piece *piece = *at;
    const bool used = atomic_load_explicit(&piece->buffer->references, memory_order_acquire) > 1;
    if (used || unused++ < MOST_UNUSED) {
      at = &piece->next;
      continue;
    }
    *at = piece->next;
    piece->next = taken;
    taken = piece;
  }
  return taken;
}

void derived_keep(memory_buffer *source, derived_key key, memory_buffer **value) {
  derived_piece *made = make_piece(key);
  memory_buffer *unused = NULL;
  pthread_mutex_lock(&source->device->packed_mutex);
  const derived_piece *kept = find(source, key);
  if (kept) {
    unused = *value;
    *value = buffer_retain(kept->buffer);
  } else if (made) {
    made->buffer = buffer_retain(*value);
    made->next = source->derived;
    source->derived = made;
    made = NULL;
  }
  derived_piece *taken = take_unused(source);
  pthread_mutex_unlock(&source->device->packed_mutex);
  buffer_release(unused);
  while (taken) {
    derived_piece *next = taken->next;
    release_piece(taken);
    taken = next;
  }
  if (made) base_release(made->key);
  base_release(made);
}
