/* SPDX-License-Identifier: MIT */
/* A randomised run: random graphs of random shapes and dtypes on random devices, from several
 * threads at once. Plans run directly, as dependent, cancelled or time-limited jobs, and in
 * batches, while host memory and the device's driver fail at random. Every result is right, or a
 * clean status with a specific message describes the error. After every round nothing is left, and
 * a plain run works.
 *
 * COMPUTE_TEST_LONG=10000 runs this many plans instead of the few of every day; COMPUTE_TEST_SEED
 * selects another sequence. A failure prints the seeds of its plan and of its round. They repeat
 * the work and the ordered faults; the scheduler decides which thread a fault hits.
 *
 * It uses COMPUTE_TEST_DEVICE and the CPU; the driver's faults come from tests/opencl_layer/ or
 * tests/cuda_driver/. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faults/long_run.h"
#include "support/harness/failing_allocator.h"
#include "support/reference/reference.h"
#include "support/harness/test.h"

enum { PLANS = 480, WORKERS = 3, ROUND_PLANS = 8, HANG_SECONDS = 600, SKIPPED = 77 };

static run_round current;
static run_sample samples[ROUND_PLANS];
static atomic_int next_sample;
static int64_t plans_done, faults_seen;

static char when[160];

static void hang(int signal_number) {
  static const char words[] = " does not end\n";
  (void)signal_number;
  if (write(2, when, strlen(when)) < 0 || write(2, words, sizeof words - 1) < 0) _exit(2);
  _exit(1);
}

/* ---- The work of a round ------------------------------------------------------------------- */

static void prepare_sample(run_sample *s, uint64_t seed) {
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I32, COMPUTE_I64,
                                         COMPUTE_U8};
  test_random random = {seed};
  *s = (run_sample){.dtype = dtypes[test_random_integer(&random, 0, 4)],
                    .request = {.seed = seed, .steps = 1}};
  /* Few steps in single precision: rounding errors of long chains are not faults. */
  s->request.steps = (int)test_random_integer(&random, 1, s->dtype == COMPUTE_F32 ? 8 : 24);
  const bool large = test_random_integer(&random, 0, 7) == 0;
  for (int i = 0; i < 3; i++) s->request.size[i] = test_random_integer(&random, 1, large ? 24 : 5);
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) {
    s->operand[i] = test_values_create(i == 3 ? COMPUTE_BOOL : s->dtype,
                                       random_graph_operand(s->request.size, i));
    test_values_fill(&s->operand[i], FILL_RANGE, -3, 3, seed + (uint64_t)i);
  }
  compute_graph *graph = compute_graph_create(current.context);
  assert_non_null(graph);
  run_nodes nodes = run_build(s, graph);
  assert_ok(compute_graph_status(graph));
  for (int i = 0; i < 2; i++)
    s->expected[i] =
        reference_run(graph, nodes.in, s->operand, RANDOM_GRAPH_OPERANDS, nodes.out[i]);
  compute_graph_release(graph);
}

static void release_sample(run_sample *s) {
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) test_values_release(&s->operand[i]);
  for (int i = 0; i < 2; i++) test_values_release(&s->expected[i]);
}

static compute_status open_round(void) {
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  return compute_open(&current.context,
                      &(compute_open_options){.device = device && device[0] ? device : "cpu"});
}

static void begin_round(test_random *random) {
  const run_faults kinds[] = {FAULTS_NONE, FAULTS_MEMORY,
                              run_driver_present() ? FAULTS_DRIVER : FAULTS_MEMORY};
  current = (run_round){.faults = kinds[test_random_integer(random, 0, 2)]};
  run_driver_reset();
  compute_error_clear(NULL);
  if (current.faults == FAULTS_MEMORY && test_random_integer(random, 0, 3) == 0) {
    failing_allocator_arm(test_random_integer(random, 1, 200), test_random_integer(random, 0, 1));
    const compute_status s = open_round();
    failing_allocator_arm(0, false);
    /* A module that lacks memory at its start has no devices. */
    if (s != COMPUTE_OK && s != COMPUTE_ERROR_OUT_OF_MEMORY &&
        !(run_driver_present() && s == COMPUTE_ERROR_NO_DEVICE))
      assert_int_equal(s, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  }
  if (!current.context) assert_ok(open_round());
  current.device = compute_default_device(current.context);
  assert_ok(compute_device_by_name(current.context, "cpu", &current.cpu));
  for (int i = 0; i < ROUND_PLANS; i++) prepare_sample(&samples[i], test_random_bits(random));
  if (test_random_integer(random, 0, 2) == 0)
    assert_ok(compute_profile_start(current.context, NULL));
  if (current.faults == FAULTS_MEMORY && test_random_integer(random, 0, 2) == 0)
    assert_ok(compute_pool_set_budget(current.device, (uint64_t)test_random_integer(random, 4, 400)
                                                          << 10));
  if (current.faults == FAULTS_DRIVER) {
    char orders[RUN_ORDERS_BYTES];
    run_driver_arm(random, orders);
    snprintf(when + strlen(when), sizeof when - strlen(when), ", %s", orders);
  }
}

/* ---- Workers ------------------------------------------------------------------------------- */

static void *work(void *unused) {
  (void)unused;
  for (int i; (i = atomic_fetch_add(&next_sample, 1)) < ROUND_PLANS && !run_has_failed();)
    run_task(&current, &samples[i]);
  return NULL;
}

static void run_workers(void) {
  pthread_t thread[WORKERS];
  atomic_store(&next_sample, 0);
  for (int i = 0; i < WORKERS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, work, NULL), 0);
  for (int i = 0; i < WORKERS; i++) pthread_join(thread[i], NULL);
}

/* ---- Afterwards ---------------------------------------------------------------------------- */

static void check_failure(void) {
  char text[RUN_FAILURE_BYTES];
  if (run_failure(text)) fail_msg("%s: %s", when, text);
}

/* Abandoned jobs may still be running. */
static void close_round(void) {
  for (int i = 0; i < 20000 && compute_close(current.context) != COMPUTE_OK; i++) {
    compute_error_clear(current.context);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (i == 19999) fail_msg("%s: %s", when, compute_error_message(NULL));
  }
}

/* If a lost device cannot be recovered within its context, only the CPU remains. A device with an
 * expired time limit is lost until its kernel has ended. */
static compute_status recover(void) {
  compute_status status = COMPUTE_ERROR_DEVICE_LOST;
  for (int i = 0; i < 10000 && status == COMPUTE_ERROR_DEVICE_LOST; i++) {
    status = compute_device_recover(current.device);
    if (status != COMPUTE_OK) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return status;
}

static void end_round(int64_t live) {
  failing_allocator_arm(0, false);
  faults_seen += run_driver_disarm();
  check_failure();
  const run_faults faults = current.faults;
  current.faults = FAULTS_NONE;
  assert_ok(compute_pool_set_budget(current.device, 0));
  const compute_status recovered = recover();
  if (recovered != COMPUTE_OK && faults != FAULTS_DRIVER)
    fail_msg("%s: the device is lost without a fault: %s", when, compute_error_message(NULL));
  if (recovered != COMPUTE_OK) current.device = current.cpu;
  run_plainly(&current, &samples[0]);
  check_failure();
  for (int i = 0; i < ROUND_PLANS; i++) release_sample(&samples[i]);
  close_round();
  char text[RUN_FAILURE_BYTES];
  if (!run_driver_is_clean(text)) fail_msg("%s: %s", when, text);
  if (failing_allocator_live() != live)
    fail_msg("%s: %lld blocks of memory leaked", when,
             (long long)(failing_allocator_live() - live));
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

static void whatever_fails_results_are_right_or_refused(void **state) {
  (void)state;
  const uint64_t seed = number("COMPUTE_TEST_SEED", 1);
  const int64_t plans = (int64_t)number("COMPUTE_TEST_LONG", PLANS / test_spread());
  const time_t end = time(NULL) + (time_t)number("COMPUTE_TEST_SECONDS", 1 << 30);
  failing_allocator_install();
  for (uint64_t round = 0; plans_done < plans && time(NULL) < end; round++) {
    test_random random = {seed + 1000003 * round};
    const int64_t live = failing_allocator_live();
    snprintf(when, sizeof when, "COMPUTE_TEST_SEED=%llu, round %llu", (unsigned long long)seed,
             (unsigned long long)round);
    alarm(HANG_SECONDS);
    begin_round(&random);
    run_workers();
    end_round(live);
    plans_done += ROUND_PLANS;
  }
  alarm(0);
  run_counts counts = run_count();
  print_message("%lld plans: %lld results right, %lld refused, %lld faults of the driver\n",
                (long long)plans_done, (long long)counts.right, (long long)counts.refused,
                (long long)faults_seen);
  /* A device lost by a driver fault refuses all other work of its round. */
  assert_true(counts.right > (faults_seen > 0 ? 0 : counts.refused));
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  signal(SIGALRM, hang);
  setenv("COMPUTE_COSTS", "guess", 1); /* measuring would dominate the test's time */
  if (!run_driver_open()) return SKIPPED;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_fails_results_are_right_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
