/* SPDX-License-Identifier: MIT */
/* Slots: contents are made once, even by concurrent threads, and released once, stage by stage. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/slot.h"
#include "support/harness/test.h"

enum { THREADS = 8, ROUNDS = 200 };

static _Atomic int made, released;

static void release(void *content) {
  atomic_fetch_add_explicit(&released, 1, memory_order_relaxed);
  free(content);
}

static room_slot early = {.stage = SLOT_HOLDS_OBJECTS, .release = release};
static room_slot late = {.stage = SLOT_STANDS_ALONE, .release = release};
static room_slot never = {.stage = SLOT_STANDS_ALONE, .release = release};

static void *make(void) {
  void *content = malloc(8);
  assert_non_null(content);
  atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
  return content;
}

static void contents_go_in_their_stage(void **state) {
  (void)state;
  slot_table table = {{NULL}}, other = {{NULL}};
  made = released = 0;
  assert_null(slot_get(&table, &early));
  assert_null(slot_offer(&table, &early, NULL)); /* out of memory */
  void *const first = make();
  assert_ptr_equal(slot_offer(&table, &early, first), first);
  assert_ptr_equal(slot_offer(&table, &early, make()), first);
  assert_int_equal(released, 1); /* the second */
  void *const second = slot_offer(&table, &late, make());
  assert_ptr_equal(slot_get(&table, &early), first);
  assert_ptr_equal(slot_get(&table, &late), second);
  assert_null(slot_get(&table, &never));
  assert_null(slot_get(&other, &late));
  slots_release(&table, SLOT_HOLDS_OBJECTS);
  assert_int_equal(released, 2);
  assert_null(slot_get(&table, &early));
  assert_non_null(slot_offer(&table, &early, make())); /* made again */
  slots_release(&table, SLOT_USES_DEVICES);
  assert_ptr_equal(slot_get(&table, &late), second);
  slots_release(&table, SLOT_STANDS_ALONE);
  slots_release(&table, SLOT_HOLDS_OBJECTS);
  assert_int_equal(released, made);
}

typedef struct race {
  slot_table *table;
  room_slot *slot;
  pthread_barrier_t *start;
  void *got;
} race;

static void *offer(void *argument) {
  race *r = argument;
  pthread_barrier_wait(r->start);
  r->got = slot_offer(r->table, r->slot, make());
  return NULL;
}

static void threads_get_the_same_content(void **state) {
  (void)state;
  static room_slot fresh[4]; /* threads also compete for their numbers */
  made = released = 0;
  for (int round = 0; round < ROUNDS; round++) {
    room_slot *s = &fresh[round % 4];
    *s = (room_slot){.stage = SLOT_STANDS_ALONE, .release = release, .number = s->number};
    slot_table table = {{NULL}};
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    race races[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
      races[i] = (race){&table, s, &start, NULL};
      assert_int_equal(pthread_create(&threads[i], NULL, offer, &races[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_ptr_equal(races[i].got, slot_get(&table, s));
    slots_release(&table, SLOT_STANDS_ALONE);
    pthread_barrier_destroy(&start);
  }
  assert_int_equal(made, THREADS * ROUNDS);
  assert_int_equal(released, made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contents_go_in_their_stage),
      cmocka_unit_test(threads_get_the_same_content),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
