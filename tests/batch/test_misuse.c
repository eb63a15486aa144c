/* SPDX-License-Identifier: MIT */
/* Batches under random use and misuse: iterators with random options on random devices. Their
 * sources, sinks and steps fail, deliver fewer items, report false counts, wait and cancel, from
 * several threads at once, while allocations and drivers fail. Every run returns. Its status
 * follows from the callbacks. Items arrive once and in order up to the failure. Nothing is left
 * afterwards.
 *
 * Each day has different seeds, and a failure prints the seed: COMPUTE_TEST_SEED=n
 * COMPUTE_TEST_LONG=1 repeats that round alone. COMPUTE_TEST_LONG=20000 makes 20,000 runs. If a
 * round does not end, the stacks of all threads are printed. COMPUTE_TEST_DEVICE adds a device,
 * whose driver then also fails. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batch/misuse.h"
#include "faults/long_run.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/schedule.h"
#include "support/harness/stacks.h"
#include "support/harness/test.h"

enum { RUNS = 600, WORKERS = 3, CASES = 3, HANG_SECONDS = 600, SKIPPED = 77 };

static misuse_round current;
static uint64_t seed_of_round;
static int workers;
static char when[160];

/* ---- Runs that do not end ------------------------------------------------------------------ */

static atomic_int_fast64_t rounds; /* started */

static int64_t seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec;
}

/* On a busy machine, a long round proves nothing. A hang is certain if no thread has taken a lock
 * for a long time, or if the round has used that much processor time. */
static void *watch(void *unused) {
  int64_t round = 0, locks = 0, still = 0, used = 0;
  (void)unused;
  for (;;) {
    nanosleep(&(struct timespec){1, 0}, NULL);
    const int64_t work = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const bool next = atomic_load(&rounds) != round;
    /* Counts seconds instead of reading a clock, which continues while the machine is suspended. */
    still = next || schedule_locks() != locks ? 0 : still + 1;
    if (next) used = work;
    round = atomic_load(&rounds);
    locks = schedule_locks();
    if (still < HANG_SECONDS && work - used < HANG_SECONDS) continue;
    fprintf(stderr, "%s does not end\n", when);
    stacks_print();
    abort();
  }
  return NULL;
}

/* ---- Rounds -------------------------------------------------------------------------------- */

static int64_t open_files(void) {
  int64_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

static void add_device(const char *name) {
  compute_device *device;
  if (compute_device_by_name(current.context, name, &device) == COMPUTE_OK)
    current.devices[current.device_count++] = device;
  compute_error_clear(current.context);
}

static void begin_round(test_random *random) {
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  const bool other = device && device[0] != '\0' && strcmp(device, "cpu") != 0;
  const int64_t fault = test_random_integer(random, 0, 9);
  current = (misuse_round){.faults = fault >= 6};
  run_driver_reset();
  assert_ok(
      compute_open(&current.context,
                   &(compute_open_options){.backends = other ? NULL : "cpu,null",
                                           .device = "cpu",
                                           .threads = (int32_t)test_random_integer(random, 1, 4)}));
  add_device("cpu");
  assert_int_equal(current.device_count, 1);
  add_device("null");
  for (int i = 0; i < (other ? 2 : 0); i++) add_device(device); /* half of the choices */
  schedule_disturb(test_random_bits(random), (int)test_random_integer(random, 0, 2) * 8, 200);
  workers = (int)test_random_integer(random, 1, WORKERS);
  if (test_random_integer(random, 0, 7) == 0)
    assert_ok(compute_profile_start(current.context, NULL));
  if (fault == 6) {
    compute_device *short_one =
        current.devices[test_random_integer(random, 0, current.device_count - 1)];
    assert_ok(
        compute_pool_set_budget(short_one, (uint64_t)test_random_integer(random, 1, 64) << 8));
  } else if (fault >= 7 && run_driver_present()) {
    char orders[RUN_ORDERS_BYTES];
    run_driver_arm(random, orders);
    snprintf(when + strlen(when), sizeof when - strlen(when), ", %s", orders);
  } else if (fault >= 7) {
    const int64_t nth = test_random_integer(random, 1, 600);
    failing_allocator_arm(nth, test_random_integer(random, 0, 4) == 0);
    snprintf(when + strlen(when), sizeof when - strlen(when), ", allocation %lld", (long long)nth);
  }
}

static void *work(void *argument) {
  const int worker = *(const int *)argument;
  char text[2 * MISUSE_TEXT];
  for (int i = 0; i < CASES && !misuse_failure(text); i++)
    misuse_carry_out(&current, seed_of_round * 64 + (uint64_t)(worker * CASES + i), worker);
  return NULL;
}

static void run_workers(void) {
  pthread_t thread[WORKERS];
  static const int numbers[WORKERS] = {0, 1, 2};
  for (int i = 0; i < workers; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)&numbers[i]), 0);
  for (int i = 0; i < workers; i++) pthread_join(thread[i], NULL);
}

static void check_failure(void) {
  char text[2 * MISUSE_TEXT];
  if (misuse_failure(text)) fail_msg("%s: %s", when, text);
}

/* The context still works, and holds nothing of the iterators. */
static void end_round(void) {
  failing_allocator_arm(0, false);
  (void)run_driver_disarm();
  check_failure();
  compute_pool_statistics pool;
  for (int i = 0; i < current.device_count; i++) {
    assert_ok(compute_pool_set_budget(current.devices[i], 0));
    assert_ok(compute_pool_query(current.devices[i], &pool));
    if (pool.blocks_active != 0)
      fail_msg("%s: device %d has %llu blocks in use", when, i,
               (unsigned long long)pool.blocks_active);
  }
  current.faults = false;
  current.device_count = 2; /* the other device may be lost */
  misuse_carry_out(&current, seed_of_round * 64 + 63, 0);
  check_failure();
  assert_ok(compute_close(current.context));
  char text[RUN_FAILURE_BYTES];
  if (!run_driver_is_clean(text)) fail_msg("%s: %s", when, text);
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static int64_t runs_done(void) {
  const misuse_counts counts = misuse_count();
  return counts.complete + counts.ended;
}

static void every_run_returns_and_is_right(void **state) {
  (void)state;
  const uint64_t seed = number("COMPUTE_TEST_SEED", (uint64_t)(time(NULL) / 86400) * 1000000);
  const int64_t runs = (int64_t)number("COMPUTE_TEST_LONG", RUNS / (uint64_t)test_samples());
  compute_context *keeper; /* keeps modules: AddressSanitizer leaks memory for each module loaded */
  failing_allocator_install();
  assert_ok(compute_open(&keeper, &(compute_open_options){.backends = "cpu,null"}));
  print_message("COMPUTE_TEST_SEED=%llu\n", (unsigned long long)seed);
  for (uint64_t round = 0; round == 0 || runs_done() < runs; round++) {
    const int64_t live = failing_allocator_live(), files = open_files();
    seed_of_round = seed + round;
    test_random random = {seed_of_round};
    snprintf(when, sizeof when, "COMPUTE_TEST_SEED=%llu COMPUTE_TEST_LONG=1",
             (unsigned long long)seed_of_round);
    atomic_fetch_add(&rounds, 1);
    begin_round(&random);
    run_workers();
    end_round();
    if (failing_allocator_live() != live)
      fail_msg("%s: %lld blocks of memory leaked", when,
               (long long)(failing_allocator_live() - live));
    if (round > 0 && open_files() != files) fail_msg("%s: files are left open", when);
  }
  const misuse_counts counts = misuse_count();
  print_message("%lld runs to the end, %lld ended early, %lld refused\n",
                (long long)counts.complete, (long long)counts.ended, (long long)counts.refused);
  assert_ok(compute_close(keeper));
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  pthread_t watcher;
  setenv("COMPUTE_COSTS", "guess", 1);
  if (!run_driver_open()) return SKIPPED;
  stacks_prepare();
  if (pthread_create(&watcher, NULL, watch, NULL) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_run_returns_and_is_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
