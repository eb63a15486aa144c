/* SPDX-License-Identifier: MIT */
/* Data of higher rooms, attached to an object of a lower room such as a context.
 *
 * A room defines a slot. The owner of a slot table does not depend on that room. The content is
 * created on first use and released with its owner. Slots, and other lists with an entry for each
 * room, are numbered in the order of first use. All functions are thread-safe. */
#ifndef BASE_SLOT_H
#define BASE_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBERED_MOST = 32 };

/* A process-wide list: static, initially zero. */
typedef struct numbering {
  const void *_Atomic entry[NUMBERED_MOST]; /* NULL: unused */
} numbering;

/* Returns the entry's number, from 1 on. `number` caches it (static storage, initially 0). Returns
 * 0 if the list is full; then NUMBERED_MOST is too small. */
uint32_t entry_number(numbering *list, const void *entry, _Atomic uint32_t *number);

/* When the content is released. */
typedef enum slot_stage {
  SLOT_HOLDS_OBJECTS, /* before unreleased objects are counted */
  SLOT_USES_DEVICES,  /* before devices are closed */
  SLOT_STANDS_ALONE
} slot_stage;

typedef struct room_slot {
  slot_stage stage;
  void (*release)(void *content); /* never called with NULL */
  _Atomic uint32_t number;        /* initially 0; set by slot_offer */
} room_slot;

typedef struct slot_table {
  void *_Atomic content[NUMBERED_MOST]; /* by slot number */
} slot_table;

/* The content, or NULL if there is none yet. */
static inline void *slot_get(const slot_table *table, const room_slot *s) {
  const uint32_t number = atomic_load_explicit(&s->number, memory_order_acquire);
  return number > 0 ? atomic_load_explicit(&table->content[number - 1], memory_order_acquire)
                    : NULL;
}

/* Stores `made`. If another thread was faster, releases `made` instead. Returns the stored content,
 * or NULL if `made` is NULL. */
void *slot_offer(slot_table *table, room_slot *s, void *made);

/* Releases all contents of one stage. */
void slots_release(slot_table *table, slot_stage stage);

#endif
