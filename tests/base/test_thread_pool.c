/* SPDX-License-Identifier: MIT */
/* The thread pool: every task runs once, workers take their shares first and never mix, and no
 * caller causes a deadlock. The address sanitizer and ThreadSanitizer also check these tests. */
#include "support/harness/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/thread_pool.h"
#include "support/harness/failing_allocator.h"

#define TASKS_MAX 5000

typedef struct loop_record {
  thread_pool *pool;
  int32_t workers;
  int64_t plain_sum;         /* of worker 0 only, not atomic: the pool must order the accesses */
  int64_t result[TASKS_MAX]; /* written by tasks, not atomic */
  atomic_int inside[64];     /* tasks running as worker i */
  atomic_int wrong;
  atomic_int runs[TASKS_MAX];
} loop_record;

static loop_record record;

static void reset(thread_pool *pool) {
  memset(&record, 0, sizeof record);
  record.pool = pool;
  record.workers = thread_pool_count(pool);
}

static void note(void *argument, int64_t task, int32_t worker) {
  loop_record *r = argument;
  if (worker < 0 || worker >= r->workers || task < 0 || task >= TASKS_MAX) {
    atomic_fetch_add(&r->wrong, 1);
    return;
  }
  if (atomic_fetch_add(&r->inside[worker], 1) != 0) atomic_fetch_add(&r->wrong, 1);
  r->result[task] = task * task;
  if (worker == 0) r->plain_sum++;
  atomic_fetch_add(&r->runs[task], 1);
  atomic_fetch_sub(&r->inside[worker], 1);
}

static void check(int64_t tasks) {
  assert_int_equal(atomic_load(&record.wrong), 0);
  for (int64_t i = 0; i < tasks; i++) {
    assert_int_equal(atomic_load(&record.runs[i]), 1);
    assert_int_equal(record.result[i], i * i);
  }
  if (tasks < TASKS_MAX) assert_int_equal(atomic_load(&record.runs[tasks]), 0);
}

static void every_task_runs_once(void **state) {
  (void)state;
  static const int32_t threads[] = {1, 2, 3, 4, 8};
  static const int64_t tasks[] = {0, 1, 2, 3, 7, 64, 1000, TASKS_MAX};
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    thread_pool *pool = thread_pool_create(threads[t]);
    assert_non_null(pool);
    assert_int_equal(thread_pool_count(pool), threads[t]);
    for (size_t n = 0; n < sizeof tasks / sizeof *tasks; n++) {
      reset(pool);
      thread_pool_run(pool, tasks[n], note, &record);
      check(tasks[n]);
    }
    reset(pool);
    thread_pool_run(pool, -5, note, &record);
    check(0);
    thread_pool_release(pool);
  }
}

/* Without a pause, with one that workers spin through, and with one that lets them sleep. */
static void a_thousand_small_loops_all_finish(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(3);
  for (int round = 0; round < 1000; round++) {
    const int64_t tasks = 1 + round % 17;
    reset(pool);
    thread_pool_run(pool, tasks, note, &record);
    check(tasks);
    if (round % 100 == 99) usleep(200);
    if (round % 7 == 0) sched_yield();
  }
  thread_pool_release(pool);
}

enum { ORDER_WORKERS = 4, ORDER_TASKS = 500 };

typedef struct order_record {
  _Atomic bool disordered;
  int64_t last_of[ORDER_WORKERS]; /* tasks, numbered from the start of the worker's share */
} order_record;

static void note_order(void *argument, int64_t task, int32_t worker) {
  order_record *r = argument;
  const int64_t own = (int64_t)worker * (ORDER_TASKS / ORDER_WORKERS);
  const int64_t number = (task - own + ORDER_TASKS) % ORDER_TASKS;
  if (number <= r->last_of[worker]) atomic_store(&r->disordered, true);
  r->last_of[worker] = number;
}

/* A worker takes another worker's task only after its share is done. */
static void each_worker_goes_round_from_its_own_share(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(ORDER_WORKERS);
  for (int round = 0; round < 50; round++) {
    order_record order = {0};
    for (int i = 0; i < ORDER_WORKERS; i++) order.last_of[i] = -1;
    thread_pool_run(pool, ORDER_TASKS, note_order, &order);
    assert_false(atomic_load(&order.disordered));
  }
  thread_pool_release(pool);
}

static void wait_then_note(void *argument, int64_t task, int32_t worker) {
  if (worker == 0) usleep(100);
  note(argument, task, worker);
}

/* Workers that are late or absent do not leave their shares undone. */
static void nobody_waits_for_a_share(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(8);
  for (int64_t tasks = 2; tasks <= 40; tasks++) {
    reset(pool);
    thread_pool_run(pool, tasks, tasks % 2 ? note : wait_then_note, &record);
    check(tasks);
    if (tasks % 8 == 0) usleep(2000); /* until they sleep */
  }
  thread_pool_release(pool);
}

/* ---- Nested and busy ----------------------------------------------------------------------- */

typedef struct nest_record {
  thread_pool *pool;
  atomic_int inner, foreign_worker;
} nest_record;

static void inner_task(void *argument, int64_t task, int32_t worker) {
  nest_record *nest = argument;
  (void)task;
  atomic_fetch_add(&nest->inner, 1);
  if (worker != 0) atomic_fetch_add(&nest->foreign_worker, 1);
}

static void outer_task(void *argument, int64_t task, int32_t worker) {
  nest_record *nest = argument;
  (void)task;
  (void)worker;
  thread_pool_run(nest->pool, 10, inner_task, nest);
}

static void a_nested_loop_runs_in_its_caller(void **state) {
  (void)state;
  nest_record nest = {.pool = thread_pool_create(4)};
  thread_pool_run(nest.pool, 100, outer_task, &nest);
  assert_int_equal(atomic_load(&nest.inner), 1000);
  assert_int_equal(atomic_load(&nest.foreign_worker), 0);
  thread_pool_release(nest.pool);
}

static void add_task(void *argument, int64_t task, int32_t worker) {
  (void)worker;
  atomic_fetch_add((atomic_int_fast64_t *)argument, task);
}

static void *many_loops(void *pool) {
  for (int round = 0; round < 300; round++) {
    atomic_int_fast64_t sum = 0;
    thread_pool_run(pool, 40, add_task, &sum);
    if (atomic_load(&sum) != 40 * 39 / 2) return pool;
  }
  return NULL;
}

static void several_callers_share_a_pool(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(3);
  pthread_t callers[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&callers[i], NULL, many_loops, pool), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(callers[i], &failed);
    assert_null(failed);
  }
  thread_pool_release(pool);
}

/* ---- Starting and ending ------------------------------------------------------------------- */

static int threads_of_process(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  int threads = -1;
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "Threads: %d", &threads) == 1) break;
  }
  if (file) fclose(file);
  return threads;
}

static void threads_start_at_the_first_real_loop(void **state) {
  (void)state;
  const int before = threads_of_process();
  thread_pool *pool = thread_pool_create(3);
  reset(pool);
  thread_pool_run(pool, 1, note, &record);
  assert_int_equal(threads_of_process(), before);
  reset(pool);
  thread_pool_run(pool, 2, note, &record);
  assert_int_equal(threads_of_process(), before + 2);
  thread_pool_release(pool);
}

static void a_pool_that_never_ran_can_go(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) thread_pool_release(thread_pool_create(5));
  thread_pool_release(NULL);
}

static void a_pool_can_go_right_after_a_loop(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    thread_pool *pool = thread_pool_create(1 + i % 5);
    reset(pool);
    thread_pool_run(pool, 20, note, &record);
    thread_pool_release(pool);
    check(20);
  }
}

static void without_memory_there_is_no_pool_and_no_leak(void **state) {
  (void)state;
  failing_allocator_install();
  for (int64_t nth = 1; nth <= 2; nth++) {
    failing_allocator_arm(nth, false);
    assert_null(thread_pool_create(4));
  }
  failing_allocator_arm(3, false);
  thread_pool_release(thread_pool_create(4));
  assert_int_equal(failing_allocator_remove(), 0);
}

#ifndef __SANITIZE_THREAD__
/* A forked child has the workers' data, but no workers. */
static void a_forked_child_works_alone(void **state) {
  (void)state;
  thread_pool *pool = thread_pool_create(3);
  reset(pool);
  thread_pool_run(pool, 50, note, &record);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(300); /* ends a hang, not a slow machine */
    atomic_int_fast64_t sum = 0;
    thread_pool_run(pool, 50, add_task, &sum);
    thread_pool_release(pool);
    _exit(atomic_load(&sum) == 50 * 49 / 2 ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  thread_pool_release(pool);
}
#endif

static void the_affinity_mask_limits_the_threads(void **state) {
  (void)state;
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  const int32_t available = thread_pool_available();
  assert_true(available >= 1 && available <= CPU_COUNT(&before));
  size_t cpu = 0;
  while (!CPU_ISSET(cpu, &before)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(thread_pool_available(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static cpu_set_t allowed; /* of the process at the start of the workers */

static void check_affinity(void *argument, int64_t task, int32_t worker) {
  cpu_set_t now;
  (void)argument, (void)task;
  usleep(100);
  if (worker == 0) return;
  atomic_fetch_add(&record.runs[0], 1);
  if (sched_getaffinity(0, sizeof now, &now) != 0 || !CPU_EQUAL(&now, &allowed))
    atomic_fetch_add(&record.wrong, 1);
}

/* A sleeping worker that wakes on its caller's CPU moves to another one, and may return later. */
static void workers_may_run_anywhere_after_they_moved(void **state) {
  (void)state;
  cpu_set_t one;
  size_t cpu = 0;
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  thread_pool *pool = thread_pool_create(2);
  assert_non_null(pool);
  reset(pool);
  thread_pool_run(pool, 8, check_affinity, NULL);
  while (!CPU_ISSET(cpu, &allowed)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  for (int i = 0; i < 50; i++) {
    usleep(2000); /* until they sleep */
    thread_pool_run(pool, 8, check_affinity, NULL);
  }
  assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  assert_int_equal(atomic_load(&record.wrong), 0);
  if (CPU_COUNT(&allowed) > 1) assert_true(atomic_load(&record.runs[0]) > 0);
  thread_pool_release(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_runs_once),
      cmocka_unit_test(a_thousand_small_loops_all_finish),
      cmocka_unit_test(each_worker_goes_round_from_its_own_share),
      cmocka_unit_test(nobody_waits_for_a_share),
      cmocka_unit_test(a_nested_loop_runs_in_its_caller),
      cmocka_unit_test(several_callers_share_a_pool),
      cmocka_unit_test(threads_start_at_the_first_real_loop),
      cmocka_unit_test(a_pool_that_never_ran_can_go),
      cmocka_unit_test(a_pool_can_go_right_after_a_loop),
      cmocka_unit_test(without_memory_there_is_no_pool_and_no_leak),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(a_forked_child_works_alone),
#endif
      cmocka_unit_test(the_affinity_mask_limits_the_threads),
      cmocka_unit_test(workers_may_run_anywhere_after_they_moved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
