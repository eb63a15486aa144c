/* SPDX-License-Identifier: MIT */
/* Slots of rooms. They use atomics instead of a lock, because a lock could stay locked in a forked
 * child. */
#include "core/base/slot.h"

static numbering slots;

/* Places fill in order and stay taken, so an entry gets one place even if threads race. */
uint32_t entry_number(numbering *list, const void *entry, uint32_t *number) {
  const uint32_t known = __atomic_load_n(number, __ATOMIC_ACQUIRE);
  if (known > 0) return known;
  for (uint32_t place = 0; place < NUMBERED_MOST; place++) {
    const void *there = NULL;
    if (!__atomic_compare_exchange_n(&list->entry[place], &there, entry, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE) &&
        there != entry)
      continue;
    __atomic_store_n(number, place + 1, __ATOMIC_RELEASE);
    return place + 1;
  }
  return 0;
}

void *slot_offer(slot_table *table, room_slot *s, void *made) {
  if (!made) return NULL;
  const uint32_t number = entry_number(&slots, s, &s->number);
  void *there = NULL;
  if (number > 0 && __atomic_compare_exchange_n(&table->content[number - 1], &there, made, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return made;
  s->release(made);
  return there;
}

void slots_release(slot_table *table, slot_stage stage) {
  for (uint32_t i = 0; i < NUMBERED_MOST; i++) {
    const room_slot *s = __atomic_load_n(&slots.entry[i], __ATOMIC_ACQUIRE);
    void *content = __atomic_load_n(&table->content[i], __ATOMIC_ACQUIRE);
    if (!s || !content || s->stage != stage) continue;
    __atomic_store_n(&table->content[i], NULL, __ATOMIC_RELEASE);
    s->release(content);
  }
}
