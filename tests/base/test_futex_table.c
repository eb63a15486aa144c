/* SPDX-License-Identifier: MIT */
/* The table of sleepers for systems without a futex, tried on this one: a wake-up wakes as many
 * threads of its word as it says, none is lost, and a forked child begins with an empty table. The
 * pool of this program sleeps in the table, too. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/thread_pool.h"
#include "core/platform/bsd/futex.c" /* in place of the system's */

enum { THREADS = 6, LINE = 16 /* words */, ROUNDS = 2000 };

static _Atomic uint32_t words[2 * BUCKETS * LINE];
static atomic_int woken[2];

static void *sleep_once(void *word) {
  futex_wait(word, 0);
  atomic_fetch_add(&woken[word != words], 1);
  return NULL;
}

static int asleep_on(const _Atomic uint32_t *word) {
  bucket *b = bucket_of(word);
  int count = 0;
  pthread_mutex_lock(&b->mutex);
  for (const sleeper *each = b->first; each; each = each->next) count += each->word == word;
  pthread_mutex_unlock(&b->mutex);
  return count;
}

static void await(const _Atomic uint32_t *word, int sleepers) {
  while (asleep_on(word) != sleepers) usleep(100);
}

static void a_changed_word_puts_nobody_to_sleep(void **state) {
  (void)state;
  futex_wait(&words[0], 1);
  assert_int_equal(asleep_on(&words[0]), 0);
}

static void a_wake_up_wakes_so_many_of_its_word(void **state) {
  (void)state;
  pthread_t threads[2][THREADS];
  _Atomic uint32_t *word[] = {words, words + LINE};
  while (bucket_of(word[1]) != bucket_of(word[0])) word[1] += LINE;
  assert_true(word[1] < words + sizeof words / sizeof *words);
  for (int i = 0; i < THREADS; i++) {
    for (int w = 0; w < 2; w++)
      assert_int_equal(pthread_create(&threads[w][i], NULL, sleep_once, (void *)word[w]), 0);
  }
  for (int w = 0; w < 2; w++) await(word[w], THREADS);
  futex_wake(word[0], 0);
  assert_int_equal(asleep_on(word[0]), THREADS);
  futex_wake(word[0], 2);
  assert_int_equal(asleep_on(word[0]), THREADS - 2);
  assert_int_equal(asleep_on(word[1]), THREADS);
  futex_wake(word[0], INT32_MAX);
  assert_int_equal(asleep_on(word[0]), 0);
  futex_wake(word[1], INT32_MAX);
  for (int i = 0; i < THREADS; i++) {
    for (int w = 0; w < 2; w++) pthread_join(threads[w][i], NULL);
  }
  assert_int_equal(atomic_load(&woken[0]), THREADS);
  assert_int_equal(atomic_load(&woken[1]), THREADS);
}

static void *answer(void *ignored) {
  (void)ignored;
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    while (atomic_load(&words[0]) != round) futex_wait(&words[0], round - 1);
    atomic_store(&words[LINE], round);
    futex_wake(&words[LINE], 1);
  }
  return NULL;
}

/* A lost one would leave both threads asleep. */
static void no_wake_up_is_lost(void **state) {
  (void)state;
  pthread_t thread;
  atomic_store(&words[0], 0);
  atomic_store(&words[LINE], 0);
  assert_int_equal(pthread_create(&thread, NULL, answer, NULL), 0);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    atomic_store(&words[0], round);
    futex_wake(&words[0], 1);
    while (atomic_load(&words[LINE]) != round) futex_wait(&words[LINE], round - 1);
  }
  pthread_join(thread, NULL);
}

static void count_task(void *argument, int64_t task, int32_t worker) {
  (void)task;
  (void)worker;
  atomic_fetch_add((atomic_int *)argument, 1);
}

static void the_pool_sleeps_in_the_table(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(4);
  assert_non_null(pool);
  for (int round = 1; round <= 200; round++) {
    atomic_int runs = 0;
    thread_pool_run(pool, 40, count_task, &runs);
    assert_int_equal(atomic_load(&runs), 40);
    if (round % 20 == 0) usleep(2000); /* until they sleep */
  }
  thread_pool_release(pool);
}

#ifndef __SANITIZE_THREAD__
/* The parent's thread holds the bucket's mutex during the fork, and another one sleeps. */
static void a_forked_child_has_an_empty_table(void **state) {
  (void)state;
  pthread_t thread;
  atomic_store(&words[0], 0);
  assert_int_equal(pthread_create(&thread, NULL, sleep_once, (void *)words), 0);
  await(words, 1);
  pthread_mutex_lock(&bucket_of(words)->mutex);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool empty = asleep_on(words) == 0;
    futex_wake(&words[0], 1);
    _exit(empty ? 0 : 1);
  }
  pthread_mutex_unlock(&bucket_of(words)->mutex);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(asleep_on(words), 1);
  futex_wake(&words[0], 1);
  pthread_join(thread, NULL);
}
#endif

int main(void) {
  alarm(300); /* a lost wake-up would end nothing */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_changed_word_puts_nobody_to_sleep),
      cmocka_unit_test(a_wake_up_wakes_so_many_of_its_word),
      cmocka_unit_test(no_wake_up_is_lost),
      cmocka_unit_test(the_pool_sleeps_in_the_table),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(a_forked_child_has_an_empty_table),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
