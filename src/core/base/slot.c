/* SPDX-License-Identifier: MIT */
/* Slots of rooms. They use atomics instead of a lock, because a lock could stay locked in a forked
 * child. */
#include <stdatomic.h>

#include "core/base/slot.h"

static numbering slots;

/* Places fill in order and stay taken, so an entry gets one place even if threads race. */
uint32_t entry_number(numbering *list, const void *entry, _Atomic uint32_t *number) {
  const uint32_t known = atomic_load_explicit(number, memory_order_acquire);
  if (known > 0) return known;
  for (uint32_t place = 0; place < NUMBERED_MOST; place++) {
    const void *there = NULL;
    if (!atomic_compare_exchange_strong_explicit(&list->entry[place], &there, entry,
                                                 memory_order_acq_rel, memory_order_acquire) &&
        there != entry)
      continue;
    atomic_store_explicit(number, place + 1, memory_order_release);
    return place + 1;
  }
  return 0;
}

void *slot_offer(slot_table *table, room_slot *s, void *made) {
  if (!made) return NULL;
  const uint32_t number = entry_number(&slots, s, &s->number);
  void *there = NULL;
  if (number > 0 &&
      atomic_compare_exchange_strong_explicit(&table->content[number - 1], &there, made,
                                              memory_order_acq_rel, memory_order_acquire))
    return made;
  s->release(made);
  return there;
}

void slots_release(slot_table *table, slot_stage stage) {
  for (uint32_t i = 0; i < NUMBERED_MOST; i++) {
    const room_slot *s = atomic_load_explicit(&slots.entry[i], memory_order_acquire);
    void *content = atomic_load_explicit(&table->content[i], memory_order_acquire);
    if (!s || !content || s->stage != stage) continue;
    atomic_store_explicit(&table->content[i], NULL, memory_order_release);
    s->release(content);
  }
}
