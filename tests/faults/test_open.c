/* SPDX-License-Identifier: MIT */
/* Opening a context while memory is short: the n-th request fails, for n = 1, 2, … until none is
 * left to fail, or all from the n-th on. The requester may be the library, the C library on its
 * behalf, or the loader. The context opens complete, or the error reports short memory, never a
 * missing component. */
#include "support/harness/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness/failing_allocator.h"

enum { MOST_REQUESTS = 20000 };

#define SHARED __attribute__((visibility("default")))

/* ---- The C library's memory ---------------------------------------------------------------- */

static int64_t requests, failures, failing_from, failing_to; /* failing_from 0: no failure */

static void arm(int64_t nth, bool onward) {
  requests = failures = 0;
  failing_to = onward ? INT64_MAX : nth;
  failing_from = nth;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

#if OWN_MALLOC
static bool fails_now(void) {
  if (failing_from == 0) return false;
  const int64_t number = ++requests;
  if (number < failing_from || number > failing_to) return false;
  failures++;
  errno = ENOMEM;
  return true;
}

/* Replace the C library's functions, also for itself and its loader. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

SHARED void *malloc(size_t bytes) {
  return fails_now() ? NULL : __libc_malloc(bytes);
}
SHARED void *calloc(size_t count, size_t bytes) {
  return fails_now() ? NULL : __libc_calloc(count, bytes);
}
SHARED void *realloc(void *pointer, size_t bytes) {
  return fails_now() ? NULL : __libc_realloc(pointer, bytes);
}
SHARED void *aligned_alloc(size_t alignment, size_t bytes) {
  return fails_now() ? NULL : __libc_memalign(alignment, bytes);
}
#endif

/* ---- The loader ---------------------------------------------------------------------------- */

static const char *unloadable; /* part of a library's name: loading it lacks memory; or NULL */

/* Replaces the C library's function, also for modules: CMakeLists.txt exports it. */
SHARED void *dlopen(const char *name, int flags) {
  static void *(*real)(const char *, int);
  if (!real) {
    void *address = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &address, sizeof real);
  }
  if (!name || !unloadable || !strstr(name, unloadable)) return real(name, flags);
  errno = ENOMEM;
  return NULL;
}

/* ---- Sweeps -------------------------------------------------------------------------------- */

/* Options for opening a context, and its number of devices without failures. */
typedef struct opening {
  compute_open_options options;
  size_t devices;
} opening;

static size_t count_devices(const compute_context *context) {
  size_t count = 0;
  while (compute_device_at(context, count)) count++;
  return count;
}

static opening ordinarily(const compute_open_options *options) {
  opening o = {.options = *options};
  compute_context *context = NULL;
  assert_ok(compute_open(&context, options));
  o.devices = count_devices(context);
  assert_ok(compute_close(context));
  return o;
}

static void expect_lack(int64_t nth, compute_status status) {
  compute_error error;
  assert_ok(compute_error_get(NULL, &error));
  if (status != COMPUTE_ERROR_OUT_OF_MEMORY || error.status != status ||
      !strstr(error.message, "memory"))
    fail_msg("request %lld: %s: %s", (long long)nth, compute_status_name(status), error.message);
}

static void expect_whole(int64_t nth, compute_context *context, const opening *o) {
  const compute_probe *probe = NULL;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++)
    if (probe->state == COMPUTE_PROBE_FAILED || probe->state == COMPUTE_PROBE_NOT_A_MODULE)
      fail_msg("request %lld: it opens without %s: %s", (long long)nth, probe->name, probe->detail);
  if (count_devices(context) != o->devices)
    fail_msg("request %lld: it opens with %zu devices", (long long)nth, count_devices(context));
}

#if OWN_MALLOC
static void sweep_malloc(const compute_open_options *options, bool onward) {
  const opening o = ordinarily(options); /* also loads the libraries that stay loaded */
  int64_t nth = 0, failed = 1;
  while (failed > 0 && ++nth < MOST_REQUESTS) {
    compute_context *context = NULL;
    compute_error_clear(NULL);
    arm(nth, onward);
    const compute_status status = compute_open(&context, &o.options);
    failing_from = 0;
    failed = failures;
    if (status != COMPUTE_OK) {
      assert_null(context);
      expect_lack(nth, status);
      continue;
    }
    expect_whole(nth, context, &o);
    assert_ok(compute_close(context));
  }
  print_message("%lld requests\n", (long long)nth - 1);
  assert_true(nth > 20 && nth < MOST_REQUESTS);
}

static void the_c_library_lacks_memory(void **state) {
  (void)state;
  for (int onward = 0; onward < 2; onward++) {
    sweep_malloc(&(compute_open_options){.backends = "cpu,null"}, onward);
    sweep_malloc(&(compute_open_options){.backends = "cpu,null", .device = "cpu"}, onward);
    sweep_malloc(&(compute_open_options){.backends = "cpu,null", .device = "null:0"}, onward);
  }
}
#endif

static void sweep_allocator(const compute_open_options *options, bool onward) {
  const opening o = ordinarily(options);
  int64_t nth = 0, failed = 1;
  failing_allocator_install();
  while (failed > 0 && ++nth < MOST_REQUESTS) {
    compute_context *context = NULL;
    const int64_t live = failing_allocator_live();
    compute_error_clear(NULL);
    failing_allocator_arm(nth, onward);
    const compute_status status = compute_open(&context, &o.options);
    failed = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (status != COMPUTE_OK) {
      assert_null(context);
      expect_lack(nth, status);
    } else {
      expect_whole(nth, context, &o);
      assert_ok(compute_close(context));
    }
    assert_int_equal(failing_allocator_live(), live);
  }
  print_message("%lld requests\n", (long long)nth - 1);
  assert_true(nth > 20 && nth < MOST_REQUESTS);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void the_library_lacks_memory(void **state) {
  (void)state;
  for (int onward = 0; onward < 2; onward++) {
    sweep_allocator(&(compute_open_options){.backends = NULL}, onward);
    sweep_allocator(&(compute_open_options){.backends = "cpu,null", .device = "cpu"}, onward);
    sweep_allocator(&(compute_open_options){.backends = "null", .device = "null"}, onward);
  }
}

/* ---- Waiting modules, and the libraries of drivers ----------------------------------------- */

static bool has_device(const char *name) {
  const compute_open_options options = {.device = name};
  compute_context *context = NULL;
  if (compute_open(&context, &options) != COMPUTE_OK) return false;
  assert_ok(compute_close(context));
  return true;
}

static void the_loader_lacks_memory(void **state) {
  (void)state;
  static const struct {
    const char *library, *backends;
    const char *device; /* otherwise the library is not needed */
  } rows[] = {{"libcompute-cpu.so", NULL, NULL},
              {"libcompute-null.so", NULL, NULL},
              {"libcuda.so.1", "cpu,cuda", NULL},
              {"libnvrtc.so", "cpu,cuda", "cuda:0"}};
  const bool cuda = access(TEST_MODULE_DIR "/libcompute-cuda.so", R_OK) == 0;
  setenv("COMPUTE_CACHE_LIMIT", "0", 1); /* it remembers the found NVRTC */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    compute_context *context = NULL;
    if ((rows[i].backends && !cuda) || (rows[i].device && !has_device(rows[i].device))) continue;
    compute_error_clear(NULL);
    unloadable = rows[i].library;
    /* CUDA starts only for a named device. */
    const compute_open_options options = {.backends = rows[i].backends,
                                          .device = rows[i].backends ? "cuda:0" : NULL};
    const compute_status status = compute_open(&context, &options);
    unloadable = NULL;
    expect_lack((int64_t)i, status);
    print_message("%s: %s\n", rows[i].library, compute_error_message(NULL));
  }
  unsetenv("COMPUTE_CACHE_LIMIT");
}

/* A context with two OpenCL devices that wait; NULL if there are none, or they do not wait. */
static compute_context *open_waiting(void) {
  const compute_open_options options = {.backends = "cpu,opencl"};
  compute_context *context = NULL;
  compute_device *device = NULL;
  setenv("COMPUTE_OPENCL_SUBDEVICES", "2", 1);
  assert_ok(compute_open(&context, &options));
  const bool there = compute_device_by_name(context, "opencl", &device) == COMPUTE_OK;
  assert_ok(compute_close(context));
  if (!there) return NULL;
  unloadable = "libOpenCL.so.1"; /* a module that does not wait opens it at once */
  const compute_status status = compute_open(&context, &options);
  unloadable = NULL;
  return status == COMPUTE_OK ? context : NULL;
}

static void a_module_that_waits_is_tried_again(void **state) {
  (void)state;
  compute_context *context = open_waiting();
  if (!context) test_skip("no module to make wait");
  compute_device *device = NULL;
  compute_error_clear(NULL);
  unloadable = "libOpenCL.so.1";
  expect_lack(1, compute_device_by_name(context, "opencl", &device));
  compute_error_clear(NULL);
  assert_int_equal(count_devices(context), 1); /* cannot fail, and leaves no error */
  assert_string_equal(compute_error_message(NULL), "");
  unloadable = NULL;
  assert_ok(compute_device_by_name(context, "opencl", &device));
  assert_true(count_devices(context) >= 2);
  assert_ok(compute_close(context));
}

static void the_devices_of_a_module_that_waits_come_all_or_none(void **state) {
  (void)state;
  int64_t nth = 0, failed = 1;
  compute_context *context = open_waiting();
  if (!context) test_skip("no module to make wait");
  const size_t devices = count_devices(context);
  assert_ok(compute_close(context));
  failing_allocator_install();
  while (failed > 0 && ++nth < MOST_REQUESTS) {
    compute_device *device = NULL;
    assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu,opencl"}));
    compute_error_clear(NULL);
    failing_allocator_arm(nth, false);
    const compute_status status = compute_device_by_name(context, "opencl", &device);
    failed = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (status != COMPUTE_OK) expect_lack(nth, status);
    assert_ok(compute_device_by_name(context, "opencl", &device));
    assert_int_equal(count_devices(context), devices);
    assert_ok(compute_close(context));
    assert_int_equal(failing_allocator_live(), 0);
  }
  print_message("%lld requests\n", (long long)nth - 1);
  assert_true(nth > 5 && nth < MOST_REQUESTS);
  assert_int_equal(failing_allocator_remove(), 0);
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* The reason why the folder of modules cannot be read is the first cause of the error. */
static void a_folder_that_cannot_be_read_is_named(void **state) {
  (void)state;
  char before[4096];
  snprintf(before, sizeof before, "%s", getenv("COMPUTE_BACKEND_PATH"));
  static const char file[] = TEST_SCRATCH_DIR "/no_folder";
  FILE *made = fopen(file, "w");
  assert_non_null(made);
  fclose(made);
  setenv("COMPUTE_BACKEND_PATH", file, 1);
  compute_context *context = NULL;
  const compute_status status = compute_open(&context, &(compute_open_options){.backends = "cpu"});
  setenv("COMPUTE_BACKEND_PATH", before, 1);
  remove(file);
  if (status == COMPUTE_OK) { /* an installed library */
    assert_ok(compute_close(context));
    test_skip("the library is installed");
  }
  assert_int_equal(status, COMPUTE_ERROR_NO_DEVICE);
  assert_non_null(strstr(compute_error_message(NULL), "no_folder"));
  assert_non_null(strstr(compute_error_message(NULL), "Not a directory"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
#if OWN_MALLOC
    cmocka_unit_test(the_c_library_lacks_memory),
#endif
    cmocka_unit_test(the_library_lacks_memory),
    cmocka_unit_test(the_loader_lacks_memory),
    cmocka_unit_test(a_module_that_waits_is_tried_again),
    cmocka_unit_test(the_devices_of_a_module_that_waits_come_all_or_none),
    cmocka_unit_test(a_folder_that_cannot_be_read_is_named),
  };
  unsetenv("COMPUTE_BACKENDS");
  unsetenv("COMPUTE_DEVICE");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
