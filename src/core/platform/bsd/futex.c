/* SPDX-License-Identifier: MIT */
/* Sleeping on a word by mutexes and conditions, for every system with POSIX threads.
 *
 * A sleeper is an object on its thread's stack, in the list of its word's bucket. The word is
 * compared under the bucket's mutex. So a wake-up finds the sleeper in the list, or the sleeper
 * finds the new value.
 *
 * macOS has such calls too, but the public ones are newer than macOS 14.3, and the older ones are
 * private. FreeBSD's _umtx_op would be a second way. */
#include "core/platform/futex.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { BUCKETS = 16 };

typedef struct sleeper {
  struct sleeper *next;
  const _Atomic uint32_t *word;
  pthread_cond_t woken_up;
  bool woken;
} sleeper;

typedef struct bucket {
  pthread_mutex_t mutex;
  sleeper *first;
} bucket;

static bucket buckets[BUCKETS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void reset(void) {
  for (int i = 0; i < BUCKETS; i++) {
    pthread_mutex_init(&buckets[i].mutex, NULL);
    buckets[i].first = NULL;
  }
}

/* A forked child has none of the sleepers, and another thread may have locked a mutex. */
static void prepare(void) {
  reset();
  (void)pthread_atfork(NULL, NULL, reset);
}

/* Words of the thread pool lie in separate cache lines. */
static bucket *bucket_of(const _Atomic uint32_t *word) {
  const uintptr_t line = (uintptr_t)word / 64;
  pthread_once(&once, prepare);
  return &buckets[(line ^ line / BUCKETS) % BUCKETS];
}

void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
  bucket *b = bucket_of(word);
  sleeper me = {.word = word};
  if (pthread_cond_init(&me.woken_up, NULL) != 0) return;
  pthread_mutex_lock(&b->mutex);
  if (atomic_load(word) == expected) {
    me.next = b->first;
    b->first = &me;
    while (!me.woken) pthread_cond_wait(&me.woken_up, &b->mutex);
  }
  pthread_mutex_unlock(&b->mutex);
  pthread_cond_destroy(&me.woken_up);
}

void futex_wake(_Atomic uint32_t *word, int32_t threads) {
  bucket *b = bucket_of(word);
  pthread_mutex_lock(&b->mutex);
  for (sleeper **at = &b->first; *at && threads > 0;) {
    sleeper *each = *at;
    if (each->word != word) {
      at = &each->next;
      continue;
    }
    *at = each->next;
    each->woken = true;
    threads--;
    pthread_cond_signal(&each->woken_up); /* under the mutex, which keeps its stack alive */
  }
  pthread_mutex_unlock(&b->mutex);
}
