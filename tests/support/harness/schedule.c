/* SPDX-License-Identifier: MIT */
#include "support/harness/schedule.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "support/harness/values.h"

static atomic_uint_fast64_t seeds;
static atomic_int_fast64_t locks;
static atomic_int frequency, longest;

static _Thread_local test_random own;
static _Thread_local int held;
static _Thread_local int64_t unlocks, call_at;
static _Thread_local void (*call)(void *);
static _Thread_local void *call_argument;
static _Thread_local const pthread_mutex_t *polled; /* with timed waits, which show no progress */

void schedule_disturb(uint64_t seed, int often, int most) {
  atomic_store(&seeds, seed);
  atomic_store(&longest, most);
  atomic_store(&frequency, often);
}

void schedule_call_at_unlock(int64_t nth, void (*function)(void *), void *argument) {
  unlocks = 0;
  call_at = nth;
  call = function;
  call_argument = argument;
}

int64_t schedule_unlocks(void) {
  return unlocks;
}

int64_t schedule_locks(void) {
  return atomic_load(&locks);
}

/* Returns true in one of `n` cases, at random. */
static bool once_in(int n) {
  if (n <= 0) return false;
  if (own.state == 0) own.state = atomic_fetch_add(&seeds, 0x9e3779b9) | 1;
  return test_random_integer(&own, 1, n) == 1;
}

static void disturb(void) {
  if (!once_in(atomic_load_explicit(&frequency, memory_order_relaxed))) return;
  if (once_in(2))
    sched_yield();
  else
    nanosleep(
        &(struct timespec){0, (long)(1000 * test_random_integer(&own, 0, atomic_load(&longest)))},
        NULL);
}

/* Names made by the linker's --wrap. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  disturb();
  const int code = __real_pthread_mutex_lock(mutex);
  if (code == 0) held++;
  if (mutex != polled) atomic_fetch_add_explicit(&locks, 1, memory_order_relaxed);
  disturb();
  return code;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  disturb();
  const int code = __real_pthread_mutex_unlock(mutex);
  held--;
  if (held == 0 && ++unlocks == call_at) {
    call_at = 0;
    call(call_argument);
  }
  disturb();
  return code;
}

static bool wakes_by_itself(pthread_mutex_t *mutex) {
  if (!once_in(4 * atomic_load_explicit(&frequency, memory_order_relaxed))) return false;
  __real_pthread_mutex_unlock(mutex);
  sched_yield();
  __real_pthread_mutex_lock(mutex);
  return true;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  disturb();
  const int code = wakes_by_itself(mutex) ? 0 : __real_pthread_cond_wait(condition, mutex);
  disturb();
  return code;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until) {
  polled = mutex;
  disturb();
  const int code =
      wakes_by_itself(mutex) ? 0 : __real_pthread_cond_timedwait(condition, mutex, until);
  disturb();
  return code;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
  disturb();
  const int code = __real_pthread_cond_signal(condition);
  disturb();
  return code;
}
