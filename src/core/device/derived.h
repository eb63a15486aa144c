/* SPDX-License-Identifier: MIT */
/* Values that were computed from frozen buffers, kept for later use. */
#ifndef DEVICE_DERIVED_H
#define DEVICE_DERIVED_H

#include "core/device/buffer.h"

/* The key tells how a value was computed. It names buffers by their serials. */
typedef struct derived_key {
  const void *bytes;
  size_t count;
} derived_key;

/* Returns a reference to the value with this key, or NULL. Thread-safe. */
memory_buffer *derived_find(memory_buffer *source, derived_key key);

/* Keeps `value` with `source`, until the memory of `source` is released, or until many newer values
 * are kept while no plan uses it. If another thread has kept
 * a value with this key, *value becomes a reference to it instead. Both buffers are frozen, and of
 * one device. If memory is short, the value is not kept. Thread-safe. */
void derived_keep(memory_buffer *source, derived_key key, memory_buffer **value);

#endif
