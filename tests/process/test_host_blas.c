/* SPDX-License-Identifier: MIT */
/* A program that uses OpenBLAS keeps its number of threads, whatever products the library computes
 * with OpenBLAS in the meantime. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

#define LIBRARY "libopenblas.so.0"

enum { SIZE = 300 };

static compute_context *context;
static int (*get_threads)(void);
static void (*set_threads)(int);
static char driver[128];
static atomic_bool stop;
static atomic_int products;

static void find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
}

static void multiply_once(void) {
  compute_tensor *x, *y;
  double value = 0;
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F64,
                                COMPUTE_SHAPE(SIZE, SIZE), 2, &x));
  assert_ok(compute_tensor_matmul(x, x, &y));
  compute_tensor_release(x);
  assert_ok(compute_tensor_slice(y, 0, 0, 1, 1, &x));
  compute_tensor_release(y);
  assert_ok(compute_tensor_max(x, COMPUTE_ALL_AXES, false, &y));
  assert_ok(compute_tensor_read(y, &value, sizeof value));
  assert_true(value == 4.0 * SIZE);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void *multiply(void *unused) {
  (void)unused;
  for (; !stop; products++) multiply_once();
  return NULL;
}

static int prepare(void **state) {
  (void)state;
  compute_device_info info;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
  setenv("COMPUTE_BLAS", LIBRARY, 1);
  if (library) {
    find(library, "openblas_get_num_threads", &get_threads);
    find(library, "openblas_set_num_threads", &set_threads);
  }
  if (!get_threads || !set_threads) return 0;
  set_threads(2);
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu", .threads = 2}));
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  snprintf(driver, sizeof driver, "%s", info.driver);
  return 0;
}

static int finish(void **state) {
  (void)state;
  return compute_close(context) ? 1 : 0;
}

/* If no copy can be opened, the driver's text gives the reason. */
static void the_library_is_used_or_the_reason_is_given(void **state) {
  (void)state;
  if (!context) test_skip("OpenBLAS is not installed");
  multiply_once();
  if (strncmp(driver, "OpenBLAS", 8) != 0)
    assert_non_null(strstr(driver, "would serve the calls of a copy"));
}

static void products_leave_the_programs_setting_alone(void **state) {
  (void)state;
  if (!context) test_skip("OpenBLAS is not installed");
  pthread_t thread;
  long looks = 0, others = 0;
  set_threads(2);
  stop = false;
  products = 0;
  pthread_create(&thread, NULL, multiply, NULL);
  for (; products < 30; looks++) others += get_threads() != 2;
  for (int i = 0; i < 100; i++) {
    const int wanted = 1 + i % 2, before = products;
    set_threads(wanted);
    while (products < before + 2) others += get_threads() != wanted;
  }
  stop = true;
  pthread_join(thread, NULL);
  set_threads(2);
  assert_true(looks > 0);
  assert_int_equal(others, 0);
}

static void opening_and_closing_leave_it_alone(void **state) {
  (void)state;
  if (!context) test_skip("OpenBLAS is not installed");
  for (int i = 0; i < 5; i++) {
    compute_context *another;
    compute_device_info info;
    assert_ok(compute_open(&another, &(compute_open_options){.device = "cpu", .threads = 1}));
    assert_ok(compute_device_describe(compute_default_device(another), &info));
    assert_string_equal(info.driver, driver);
    assert_ok(compute_close(another));
    assert_int_equal(get_threads(), 2);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_library_is_used_or_the_reason_is_given),
      cmocka_unit_test(products_leave_the_programs_setting_alone),
      cmocka_unit_test(opening_and_closing_leave_it_alone),
  };
  prepare(NULL);
  if (!context) return print_message("OpenBLAS is not installed\n"), 77;
  return cmocka_run_group_tests(tests, NULL, finish);
}
