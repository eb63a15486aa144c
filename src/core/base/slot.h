/* SPDX-License-Identifier: MIT */
/* What rooms above keep with an object of a room below, such as a context.
 *
 * A room defines a slot. The owner of a table of slots knows nothing of it: the content is made
 * when it is first needed, and released with its owner. Slots, and other lists to which each room
 * adds an entry, are numbered in the order of their first use. All of this is thread-safe. */
#ifndef BASE_SLOT_H
#define BASE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBERED_MOST = 32 };

/* A list of the process: static, zero at first. */
typedef struct numbering {
  const void *entry[NUMBERED_MOST]; /* atomic; NULL: not used */
} numbering;

/* The entry's number from 1, which `number` (of static storage, 0 at first) keeps. 0 if the list is
 * full, for which NUMBERED_MOST is too small. */
uint32_t entry_number(numbering *list, const void *entry, uint32_t *number);

/* When the content is released. */
typedef enum slot_stage {
  SLOT_HOLDS_OBJECTS, /* before objects that have not been released are counted */
  SLOT_USES_DEVICES,  /* before devices are closed */
  SLOT_STANDS_ALONE
} slot_stage;

typedef struct room_slot {
  slot_stage stage;
  void (*release)(void *content); /* NULL is never passed */
  uint32_t number;                /* 0; slot_offer's */
} room_slot;

typedef struct slot_table {
  void *content[NUMBERED_MOST]; /* atomic; by the slot's number */
} slot_table;

/* NULL: nothing was made. */
static inline void *slot_get(const slot_table *table, const room_slot *s) {
  const uint32_t number = __atomic_load_n(&s->number, __ATOMIC_ACQUIRE);
  return number > 0 ? __atomic_load_n(&table->content[number - 1], __ATOMIC_ACQUIRE) : NULL;
}

/* Keeps `made`, unless another thread has been faster: then it is released. Returns the content;
 * NULL if `made` is NULL. */
void *slot_offer(slot_table *table, room_slot *s, void *made);

/* Releases the contents of a stage. */
void slots_release(slot_table *table, slot_stage stage);

#endif
