/* SPDX-License-Identifier: MIT */
/* Fork handlers: they order forks and library loads, and reset the shared state in the child. */
#include "core/base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "core/base/clock.h"

/* In nanoseconds. The wait has a limit, because a driver may fork on another thread while it
 * starts, and would otherwise wait for itself. */
#define LONGEST_WAIT INT64_C(2000000000)

enum { MOST_HOOKS = 8 };

uint32_t process_forks;

static const process_hooks *_Atomic hooks[MOST_HOOKS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static atomic_int loads, forks;   /* threads that load libraries; threads about to fork */
static _Thread_local int nesting; /* of this thread's library loads */

static void pause_briefly(void) {
  nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void before(void) {
  const int64_t limit = clock_now() + LONGEST_WAIT;
  atomic_fetch_add(&forks, 1);
  while (atomic_load(&loads) > (nesting > 0) && clock_now() < limit) pause_briefly();
  for (size_t i = 0; i < MOST_HOOKS; i++) {
    const process_hooks *each = atomic_load(&hooks[i]);
    if (each && each->before) each->before();
  }
}

static void in_parent(void) {
  for (size_t i = MOST_HOOKS; i-- > 0;) {
    const process_hooks *each = atomic_load(&hooks[i]);
    if (each && each->in_parent) each->in_parent();
  }
  atomic_fetch_sub(&forks, 1);
}

static void in_child(void) {
  process_forks++;
  atomic_store(&loads, nesting > 0);
  atomic_store(&forks, 0);
  base_allocator_forked();
  error_forked();
  log_forked();
  for (size_t i = 0; i < MOST_HOOKS; i++) {
    const process_hooks *each = atomic_load(&hooks[i]);
    if (each && each->in_child) each->in_child();
  }
}

/* If the registration fails, forks are not noticed. */
static void watch(void) {
  (void)pthread_atfork(before, in_parent, in_child);
}

void process_watch(void) {
  pthread_once(&once, watch);
}

void process_at_fork(const process_hooks *added) {
  process_watch();
  for (size_t i = 0; i < MOST_HOOKS; i++) {
    const process_hooks *there = NULL;
    if (atomic_compare_exchange_strong(&hooks[i], &there, added) || there == added) return;
  }
}

/* Either this thread sees the fork, or the fork sees this thread's load. */
void process_load_begin(void) {
  if (nesting++ > 0) return;
  process_watch();
  while (atomic_fetch_add(&loads, 1), atomic_load(&forks) > 0) {
    atomic_fetch_sub(&loads, 1);
    while (atomic_load(&forks) > 0) pause_briefly();
  }
}

void process_load_end(void) {
  if (--nesting == 0) atomic_fetch_sub(&loads, 1);
}
