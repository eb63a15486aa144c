/* SPDX-License-Identifier: MIT */
/* A job on a GPU with a failing driver: the n-th call of each kind fails, for n = 1, 2, … until
 * none is left to fail; and all calls from the n-th on fail. Each time the result is right (by
 * another way), or the error explains the failing call. Afterwards the same context works, or it
 * reports a lost device and a new context works. Nothing is left behind.
 *
 * The driver is the stand-in of tests/cuda_driver/. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/drivers/device_job.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, HANG_SECONDS = 600, ILLEGAL_ADDRESS = 700 };

/* Limits the failures of one kind: the first ones, then ever fewer. */
enum { FIRST_FAILURES = 5, GROWTH_PERCENT = 60 };

static cuda_stand_in gpu;
static job_result expected; /* on the CPU */
static bool show_outcomes;  /* COMPUTE_TEST_VERBOSE */
static char when[128];      /* the current failure, printed if the test hangs */

static void hang(int signal_number) {
  static const char words[] = " does not end\n";
  (void)signal_number;
  if (write(2, when, strlen(when)) < 0 || write(2, words, sizeof words - 1) < 0) _exit(2);
  _exit(1);
}

static compute_status open_gpu(compute_context **context) {
  return compute_open(context, &(compute_open_options){.device = "cuda:0"});
}

static void check_words(compute_status status) {
  compute_error error;
  assert_ok(compute_error_get(NULL, &error));
  if (error.status != status || error.message[0] == '\0')
    fail_msg("%s: %s came without words of its own (%s \"%s\")", when, compute_status_name(status),
             compute_status_name(error.status), error.message);
}

/* If a context can no longer be entered, its contents stay until the process ends. */
static void check_nothing_left(int64_t live, bool stays) {
  char text[256];
  assert_true(gpu.configure(stays ? "reset=1" : "")); /* a lost device's objects are gone */
  if (stays) gpu.live(text, sizeof text);
  if (gpu.live(text, sizeof text) != 0) fail_msg("%s: left in the driver: %s", when, text);
  if (gpu.misuse(text, sizeof text) != 0) fail_msg("%s: %s", when, text);
  if (failing_allocator_live() != live)
    fail_msg("%s: %lld blocks of memory leaked", when,
             (long long)(failing_allocator_live() - live));
}

/* Checks the context after a failure. It works, or its device is lost: then the driver is left
 * alone and the CPU works. */
static void check_afterwards(compute_context *context, bool may_be_lost) {
  job_result result;
  compute_status s = device_job(context, &result);
  if (s == COMPUTE_OK) {
    device_job_check(&result, &expected, when);
    return;
  }
  if (!may_be_lost || s != COMPUTE_ERROR_DEVICE_LOST)
    fail_msg("%s; the context is useless afterwards: %s", when, compute_error_message(context));
  const int64_t before =
      cuda_stand_in_calls(&gpu, NULL) - cuda_stand_in_calls(&gpu, "cuGetErrorName");
  assert_fails(device_job(context, &result), COMPUTE_ERROR_DEVICE_LOST);
  assert_int_equal(cuda_stand_in_calls(&gpu, NULL) - cuda_stand_in_calls(&gpu, "cuGetErrorName"),
                   before);
  compute_device *cpu = NULL;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_push(cpu));
  s = device_job(context, &result);
  if (s != COMPUTE_OK) fail_msg("%s; the CPU: %s", when, compute_error_message(context));
  device_job_check(&result, &expected, when);
  assert_ok(compute_device_pop(context));
}

/* Opens, works and closes while `call` fails; returns the number of failed calls. */
static int64_t do_job_with_failure(const char *call, int64_t nth, bool onward, int code) {
  compute_context *context = NULL;
  char orders[128];
  const int64_t live = failing_allocator_live();
  snprintf(when, sizeof when, "%s number %lld%s failing with %d", call, (long long)nth,
           onward ? " and all after it" : "", code);
  snprintf(orders, sizeof orders, "fail=%s:%lld%s:%d", call, (long long)nth, onward ? "+" : "",
           code);
  alarm(HANG_SECONDS);
  compute_error_clear(NULL);
  assert_true(gpu.configure(orders));
  compute_status s = open_gpu(&context);
  job_result result;
  const bool opened = s == COMPUTE_OK;
  if (opened) s = device_job(context, &result);
  const int64_t failures = gpu.failures(NULL);
  assert_true(gpu.configure("keep=1"));
  if (show_outcomes)
    print_message("%s: %s %s\n", when, s == COMPUTE_OK ? "ok" : compute_status_name(s),
                  s == COMPUTE_OK ? "" : compute_error_message(NULL));
  if (s == COMPUTE_OK) device_job_check(&result, &expected, when);
  if (s != COMPUTE_OK) check_words(s);
  if (failures == 0 && s != COMPUTE_OK)
    fail_msg("%s: failed without a failure: %s", when, compute_error_message(NULL));
  if (opened) {
    check_afterwards(context, code == ILLEGAL_ADDRESS);
    assert_ok(compute_close(context));
  } else if (context) {
    fail_msg("%s: compute_open failed and still returned a context", when);
  }
  check_nothing_left(live, onward || strcmp(call, "cuCtxSetCurrent") == 0);
  alarm(0);
  return failures;
}

static int64_t next_failure(int64_t nth) {
  return nth < FIRST_FAILURES ? nth + 1 : nth + 1 + nth * GROWTH_PERCENT / 100;
}

/* A typical error code of this call. */
static int likely_code(const char *call) {
  static const struct {
    const char *call;
    int code;
  } codes[] = {
      {"cuInit", 999},           {"cuMemAlloc", 2},
      {"cuMemHostAlloc", 2},     {"cuMemAllocFromPoolAsync", 2},
      {"cuModuleLoadData", 209}, {"cuLaunchKernel", 701},
      {"cuGetErrorName", 1},     {"cuPointerGetAttributes", 1},
      {"kernel", 719},
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(codes[i].call, call) == 0) return codes[i].code;
  return 999;
}

static void sweep(int forced) {
  const char *call;
  int kinds = 0;
  int64_t unused;
  for (uint32_t kind = 0; (call = gpu.count(kind, &unused)) != NULL; kind++) {
    const int code = forced ? forced : strcmp(call, "kernel") == 0 ? 700 : likely_code(call);
    int64_t nth = 1;
    while (do_job_with_failure(call, nth, false, code) > 0) nth = next_failure(nth);
    kinds += nth > 1;
  }
  print_message("%d kinds of calls\n", kinds);
  assert_true(kinds > 20);
}

static void any_call_may_fail_once(void **state) {
  (void)state;
  sweep(0);
}

static void any_call_may_lose_the_device(void **state) {
  (void)state;
  sweep(ILLEGAL_ADDRESS);
}

static void a_driver_may_stop_working(void **state) {
  (void)state;
  static const int codes[] = {999, 2, ILLEGAL_ADDRESS};
  int64_t nth = 1;
  for (size_t i = 0; do_job_with_failure("any", nth, true, codes[i % 3]) > 0; i++)
    nth = next_failure(nth);
  assert_true(nth > 100);
}

/* Computes the reference, and fills the cache of compiled kernels with a first job. */
static int prepare(void **state) {
  (void)state;
  signal(SIGALRM, hang);
  show_outcomes = getenv("COMPUTE_TEST_VERBOSE") != NULL;
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
  assert_ok(device_job(context, &expected));
  assert_ok(compute_close(context));
  failing_allocator_install();
  job_result result;
  assert_ok(open_gpu(&context));
  assert_ok(device_job(context, &result));
  device_job_check(&result, &expected, "without a failure");
  assert_ok(compute_close(context));
  return 0;
}

static int finish(void **state) {
  (void)state;
  return failing_allocator_remove() == 0 ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_call_may_fail_once),
      cmocka_unit_test(any_call_may_lose_the_device),
      cmocka_unit_test(a_driver_may_stop_working),
  };
  compute_context *context = NULL;
  if (!cuda_stand_in_open(&gpu) || open_gpu(&context) != COMPUTE_OK) {
    fprintf(stderr, "Skipped: no stand-in for the CUDA driver, or no module.\n");
    return SKIPPED;
  }
  compute_close(context);
  return cmocka_run_group_tests(tests, prepare, finish);
}
