/* SPDX-License-Identifier: MIT */
/* The thread pool: workers join the caller's loop while it is open.
 *
 * The caller never waits for a worker to arrive. It opens a loop, increments `signal`, works on the
 * loop itself, and closes it when no task is left. A worker that arrives in time enters, takes
 * tasks and leaves. A worker that arrives too late finds the loop closed. So if the other CPUs are
 * busy, a loop costs only a wake-up. The caller waits only for tasks that a worker has already
 * begun.
 *
 * Tasks are divided into shares of neighbouring tasks, one share for each worker. A worker begins
 * with its share and then takes tasks from the others' shares. So in loops over the same rows, most
 * rows stay with the same thread, and its caches hold the data of the previous loop. This matters
 * most where groups of cores have separate caches: reading another group's data costs several times
 * as much.
 *
 * `entry` is the gate: the OPEN bit, and the number of workers inside. Entering needs a
 * compare-and-swap that sees OPEN. The caller clears OPEN and then waits until nobody is inside.
 * Entering acquires the data that opening released, and the last worker to leave releases its data
 * in the same way. These atomics order all data; the futex only puts threads to sleep.
 *
 * Wake-ups spread as a tree: the caller wakes two sleepers, and each of them wakes two more while
 * tasks are left. So the caller's cost does not grow with the number of CPUs. */
#include "core/base/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/control_group.h"
#include "core/base/thread.h"
#include "core/platform/futex.h"
#include "core/platform/processors.h"

#define CACHE_LINE 64

/* How long a thread spins for the next loop, or the caller for the end of this one, before it
 * sleeps. This is longer than a plan's small steps that run on one thread. A wake-up takes 50 µs or
 * more on a virtual machine, and a sleeper may wake on the CPU that the caller occupies. */
#define SPIN_NANOSECONDS 200000

/* After this time without wake-ups, the pool was idle. */
#define PAUSE_NANOSECONDS 10000000

#define WAKE_FAN_OUT 2

#define OPEN    (UINT32_C(1) << 31)
#define WAITING (UINT32_C(1) << 30) /* the caller sleeps until the last worker has left */

/* A thread, and its share of the open loop's tasks. Number 0 is the caller. */
typedef struct pool_worker {
  _Alignas(CACHE_LINE) _Atomic int64_t next; /* first free task of the share */
  int64_t end;
  thread_pool *pool;
  pthread_t thread;
  int32_t index;
} pool_worker;

struct thread_pool {
  /* The open loop. The thread that set `busy` writes it while the gate is closed. */
  compute_task task;
  void *argument;
  int32_t shares;  /* shares of the open loop: 1 … count */
  int32_t count;   /* workers, including the caller */
  int32_t started; /* running threads: at most count − 1 */
  bool start_tried;
  bool spin;
  int64_t woken; /* time of the last wake-up by a caller */
  pid_t process; /* the process of the threads: a forked child has none */
  pool_worker *workers;

  _Alignas(CACHE_LINE) _Atomic uint32_t entry;
  _Alignas(CACHE_LINE) _Atomic uint32_t signal; /* incremented for each loop; sleepers wait on it */
  _Atomic int32_t sleepers;
  _Atomic int32_t caller; /* CPU of the caller at its last wake-up of sleepers */
  _Atomic bool stopping;
  _Alignas(CACHE_LINE) _Atomic bool busy;
};

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Polls *word until it equals `value` (with `differ`: until it no longer does), or until the time
 * is up. Returns the last value read. */
static uint32_t spin_on(_Atomic uint32_t *word, uint32_t value, bool differ) {
  int64_t end = clock_now() + SPIN_NANOSECONDS;
  uint32_t seen;
  do {
    for (int i = 0; i < 16; i++) {
      seen = atomic_load_explicit(word, memory_order_acquire);
      if ((seen == value) != differ) return seen;
      cpu_relax();
    }
  } while (clock_now() < end);
  return seen;
}

static void wake_sleepers(thread_pool *pool) {
  if (atomic_load(&pool->sleepers) > 0) futex_wake(&pool->signal, WAKE_FAN_OUT);
}

/* A thread that wakes on the caller's CPU would wait there for milliseconds before it can move
 * away. So after an idle period, the caller yields to it at once. It does not yield between the
 * steps of a run: while other threads keep the CPUs busy, they would get the time slice. */
static void give_turn(thread_pool *pool) {
  const int64_t before = pool->woken;
  pool->woken = clock_now();
  if (pool->spin && pool->woken - before > PAUSE_NANOSECONDS) processor_yield();
}

/* ---- Shares of tasks ----------------------------------------------------------------------- */

/* The share that a worker begins with. */
static int32_t own_share(const thread_pool *pool, int32_t worker) {
  return worker % pool->shares;
}

static bool has_tasks(const pool_worker *share) {
  return atomic_load_explicit(&share->next, memory_order_relaxed) < share->end;
}

/* Requires at least one task. */
static void shares_deal(thread_pool *pool, int64_t tasks) {
  pool->shares = tasks < pool->count ? (int32_t)tasks : pool->count;
  const int64_t part = tasks / pool->shares, rest = tasks % pool->shares;
  int64_t first = 0;
  for (int32_t i = 0; i < pool->shares; i++) {
    atomic_store_explicit(&pool->workers[i].next, first, memory_order_relaxed);
    pool->workers[i].end = first += part + (i < rest);
  }
}

static void tasks_run(thread_pool *pool, int32_t worker) {
  int32_t number = own_share(pool, worker);
  for (int32_t i = 0; i < pool->shares; i++) {
    pool_worker *share = &pool->workers[number];
    while (has_tasks(share)) {
      const int64_t task = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
      if (task < share->end) pool->task(pool->argument, task, worker);
    }
    if (++number == pool->shares) number = 0;
  }
}

/* ---- The worker's side --------------------------------------------------------------------- */

static bool loop_enter(thread_pool *pool) {
  uint32_t entry = atomic_load_explicit(&pool->entry, memory_order_relaxed);
  while (entry & OPEN) {
    if (atomic_compare_exchange_weak_explicit(&pool->entry, &entry, entry + 1, memory_order_acquire,
                                              memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

static void loop_leave(thread_pool *pool) {
  uint32_t before = atomic_fetch_sub_explicit(&pool->entry, 1, memory_order_release);
  if (before == (WAITING | 1)) futex_wake(&pool->entry, 1);
}

static void loop_join(thread_pool *pool, int32_t worker, bool was_asleep) {
  if (!loop_enter(pool)) return;
  if (was_asleep && has_tasks(&pool->workers[own_share(pool, worker)])) wake_sleepers(pool);
  tasks_run(pool, worker);
  loop_leave(pool);
}

/* Waits until `signal` is no longer `seen`. Returns its new value. */
static uint32_t signal_wait(thread_pool *pool, uint32_t seen, bool *was_asleep) {
  *was_asleep = false;
  uint32_t now = pool->spin ? spin_on(&pool->signal, seen, true)
                            : atomic_load_explicit(&pool->signal, memory_order_acquire);
  while (now == seen) {
    /* Sequentially consistent: either the caller sees the sleeper, or the futex sees the new
     * signal. */
    atomic_fetch_add(&pool->sleepers, 1);
    futex_wait(&pool->signal, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    *was_asleep = true;
    now = atomic_load_explicit(&pool->signal, memory_order_acquire);
  }
  if (*was_asleep && pool->spin)
    processor_leave(atomic_load_explicit(&pool->caller, memory_order_relaxed));
  return now;
}

static void *worker_main(void *argument) {
  const pool_worker *worker = argument;
  thread_pool *pool = worker->pool;
  uint32_t seen = atomic_load_explicit(&pool->signal, memory_order_acquire);
  bool was_asleep = false;
  while (!atomic_load_explicit(&pool->stopping, memory_order_acquire)) {
    loop_join(pool, worker->index, was_asleep);
    seen = signal_wait(pool, seen, &was_asleep);
  }
  return NULL;
}

/* ---- The caller's side --------------------------------------------------------------------- */

static void threads_start(thread_pool *pool) {
  pool->start_tried = true;
  pool->process = getpid();
  for (int32_t i = 1; i < pool->count; i++) {
    pool_worker *worker = &pool->workers[i];
    worker->pool = pool;
    worker->index = i;
    if (thread_start(&worker->thread, "compute", worker_main, worker) != 0) break;
    pool->started = i;
  }
}

/* Clears OPEN and waits until the last worker has left. */
static void loop_close(thread_pool *pool) {
  uint32_t entry = atomic_fetch_and_explicit(&pool->entry, ~OPEN, memory_order_acq_rel) & ~OPEN;
  if (entry != 0 && pool->spin) entry = spin_on(&pool->entry, 0, false);
  while ((entry & ~WAITING) != 0) {
    if (!(entry & WAITING) &&
        !atomic_compare_exchange_strong_explicit(&pool->entry, &entry, entry | WAITING,
                                                 memory_order_acquire, memory_order_acquire)) {
      continue;
    }
    futex_wait(&pool->entry, entry | WAITING);
    entry = atomic_load_explicit(&pool->entry, memory_order_acquire);
  }
}

static void loop_run(thread_pool *pool, int64_t tasks, compute_task task, void *argument) {
  if (!pool->start_tried) threads_start(pool);
  pool->task = task;
  pool->argument = argument;
  shares_deal(pool, tasks);
  atomic_store_explicit(&pool->entry, OPEN, memory_order_release);
  const bool asleep = atomic_load_explicit(&pool->sleepers, memory_order_relaxed) > 0;
  if (asleep) atomic_store_explicit(&pool->caller, processor_now(), memory_order_relaxed);
  atomic_fetch_add(&pool->signal, 1);
  wake_sleepers(pool);
  if (asleep) give_turn(pool);
  tasks_run(pool, 0);
  loop_close(pool);
}

void thread_pool_run(thread_pool *pool, int64_t tasks, compute_task task, void *argument) {
  /* A nested call finds the pool busy with its outer loop. */
  if (tasks > 1 && pool->count > 1 && !atomic_load_explicit(&pool->busy, memory_order_relaxed) &&
      !atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
    loop_run(pool, tasks, task, argument);
    atomic_store_explicit(&pool->busy, false, memory_order_release);
    return;
  }
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

thread_pool *thread_pool_create(int32_t threads) {
  if (threads < 1) threads = 1;
  thread_pool *pool = base_allocate_aligned(sizeof *pool, CACHE_LINE);
  if (!pool) return NULL;
  *pool = (thread_pool){.count = threads, .spin = threads <= thread_pool_available()};
  if (threads > 1) {
    pool->workers = base_allocate_aligned((uint64_t)threads * sizeof *pool->workers, CACHE_LINE);
    if (!pool->workers) {
      base_release(pool);
      return NULL;
    }
  }
  return pool;
}

void thread_pool_release(thread_pool *pool) {
  if (!pool) return;
  if (pool->started > 0 && pool->process == getpid()) {
    atomic_store_explicit(&pool->stopping, true, memory_order_release);
    atomic_fetch_add(&pool->signal, 1);
    futex_wake(&pool->signal, INT32_MAX);
    for (int32_t i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  }
  base_release(pool->workers);
  base_release(pool);
}

int32_t thread_pool_count(const thread_pool *pool) {
  return pool->count;
}

/* ---- How many threads are worth starting ----------------------------------------------------- */

/* The number of threads worth starting: the CPUs in the affinity mask, or fewer if the control
 * group (version 1 or 2) grants less CPU time. Containers usually limit the CPU time. */

int32_t thread_pool_available(void) {
  int32_t limit = control_group_threads(NULL, processors_allowed());
  return limit > 0 ? limit : 1;
}
