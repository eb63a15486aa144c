/* SPDX-License-Identifier: MIT */
/* The list of storages. */
#include <string.h>

#include "plan/compile/lower/lower.h"

uint32_t storage_add(lowering *l, uint32_t slot, uint32_t device, uint64_t bytes) {
  if (l->storage_count == l->storage_capacity) {
    uint32_t capacity = l->storage_capacity ? l->storage_capacity * 2 : 64;
    storage *grown = scratch_take(l->memory, capacity, sizeof *grown);
    if (!grown) return IR_NONE;
    if (l->storage_count) memcpy(grown, l->storages, sizeof *grown * l->storage_count);
    l->storages = grown;
    l->storage_capacity = capacity;
  }
  uint32_t id = l->storage_count++;
  l->storages[id] = (storage){.slot = slot,
                              .device = device,
                              .bytes = bytes,
                              .first = IR_NONE,
                              .home = id,
                              .region = IR_NONE,
                              .node = IR_NONE};
  return id;
}

void storage_touch(lowering *l, uint32_t id, uint32_t step) {
  storage *s = &l->storages[id];
  if (s->first == IR_NONE) s->first = step;
  s->last = step;
}
