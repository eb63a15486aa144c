/* SPDX-License-Identifier: MIT */
/* A fork while another thread loads a library after the start of a backend: a compiled kernel,
 * NVRTC, an NVIDIA library, CLBlast. The fork waits for the end of the load, because a
 * half-loaded library in a child could never be completed. The libraries have slow constructors
 * (slow_load.c). */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/device/device.h"
#include "support/harness/test.h"
#include "support/samples/sample_kernels.h"

enum { NOT_BEGUN, BEGUN, COMPLETE };

static compute_context *context;
static compute_device *device;
static atomic_int load_state;
static atomic_bool ended;

/* ---- Loads ----------------------------------------------------------------------------------- */

/* The compiled object is also a slow library. */
static const char slow_source[] =
    "extern char *getenv(const char *);\n"
    "extern unsigned long long strtoull(const char *, char **, int);\n"
    "extern int usleep(unsigned);\n"
    "__attribute__((constructor)) static void take_time(void) {\n"
    "  const char *address = getenv(\"COMPUTE_TEST_SLOW_LOAD\");\n"
    "  if (!address) return;\n"
    "  volatile int *state = (volatile int *)strtoull(address, 0, 10);\n"
    "  *state = 1;\n"
    "  usleep(500000);\n"
    "  *state = 2;\n"
    "}\n"
    "KERNEL void k(void) {}\n";
static const char plain_source[] = "KERNEL void k(void) {}";

static bool compile(const char *source) {
  compute_kernel *kernel = NULL;
  const bool good =
      !compute_kernel_compile(device, source, "k", NULL, COMPUTE_KERNEL_PORTABLE, &kernel);
  compute_kernel_release(kernel);
  return good;
}

static void ask_for_library(const sample_kernel *sample, void *user) {
  (void)user;
  (void)device->backend->implementation_name(device->handle, &sample->descriptor, 1);
}

static void *load_kernel(void *unused) {
  compile(slow_source);
  atomic_store(&ended, true);
  return unused;
}

static void *load_compiler(void *unused) {
  compile(plain_source);
  atomic_store(&ended, true);
  return unused;
}

static void *load_library_of_products(void *unused) {
  sample_gemm_kernels(ask_for_library, NULL);
  atomic_store(&ended, true);
  return unused;
}

/* ---- The fork -------------------------------------------------------------------------------- */

static void fork_while(void *(*load)(void *)) {
  char address[32];
  int status = -1;
  pthread_t thread;
  atomic_store(&load_state, NOT_BEGUN);
  atomic_store(&ended, false);
  snprintf(address, sizeof address, "%" PRIuPTR, (uintptr_t)&load_state);
  setenv("COMPUTE_TEST_SLOW_LOAD", address, 1);
  fflush(NULL);
  assert_int_equal(pthread_create(&thread, NULL, load, NULL), 0);
  while (atomic_load(&load_state) == NOT_BEGUN && !atomic_load(&ended))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  const pid_t child = fork();
  if (child == 0) _exit(atomic_load(&load_state));
  pthread_join(thread, NULL);
  unsetenv("COMPUTE_TEST_SLOW_LOAD");
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), COMPLETE);
}

static bool is(const char *backend) {
  return strcmp(device->backend->name, backend) == 0;
}

static void a_fork_waits_for_a_compiled_kernel(void **state) {
  (void)state;
  if (!is("cpu")) test_skip("kernels are no libraries here");
  if (!compile(plain_source)) test_skip("no compiler");
  fork_while(load_kernel);
}

static void a_fork_waits_for_the_compiler(void **state) {
  (void)state;
  if (!is("cuda")) test_skip("the compiler is no library here");
  fork_while(load_compiler);
}

static void a_fork_waits_for_a_library_of_products(void **state) {
  (void)state;
  if (is("cpu")) test_skip("there is no such library here");
  fork_while(load_library_of_products);
}

/* Runs in a child: the child stores the choice of NVRTC, and the parent opens it only to
 * compile. */
static bool remember_compiler(void) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    compute_context *first = test_open();
    _exit(compute_close(first) != COMPUTE_OK);
  }
  return waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fork_waits_for_a_compiled_kernel),
      cmocka_unit_test(a_fork_waits_for_the_compiler),
      cmocka_unit_test(a_fork_waits_for_a_library_of_products),
  };
  char cache[] = TEST_SCRATCH_DIR "/cache_XXXXXX", command[sizeof cache + 16];
  if (!mkdtemp(cache)) return 1;
  setenv("COMPUTE_CACHE_DIR", cache, 1);
  if (!remember_compiler()) return 1;
  context = test_open();
  device = compute_default_device(context);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_close(context);
  snprintf(command, sizeof command, "rm -rf '%s'", cache);
  return system(command) ? 1 : failed;
}
