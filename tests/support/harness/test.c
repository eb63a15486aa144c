/* SPDX-License-Identifier: MIT */
#include "support/harness/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/values.h"

void test_check_status(compute_status actual, compute_status expected, const char *call,
                       const char *file, int line) {
  if (actual != expected) {
    print_error("%s: got %s, expected %s: %s\n", call, compute_status_name(actual),
                compute_status_name(expected), compute_error_message(NULL));
    _fail(file, line);
  }
  compute_error error;
  if (expected == COMPUTE_OK) return;
  compute_error_get(NULL, &error);
  if (error.status != expected || error.message[0] == '\0') {
    print_error("%s: %s came without an error detail of its own (detail: %s \"%s\")\n", call,
                compute_status_name(expected), compute_status_name(error.status), error.message);
    _fail(file, line);
  }
}

void test_check_message(const compute_context *context, const char *part) {
  const char *message = compute_error_message(context);
  if (!strstr(message, part)) fail_msg("the message \"%s\" does not say \"%s\"", message, part);
}

static size_t skipped; /* tests of the current group */

void test_skip(const char *reason) {
  print_message("skipped: %s\n", reason);
  skipped++;
  skip();
}

int test_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown) {
  enum { SKIPPED = 77 }; /* ctest's code */
  skipped = 0;
  const int failed = _cmocka_run_group_tests(name, tests, count, setup, teardown);
  return failed == 0 && count > 0 && skipped == count ? SKIPPED : failed;
}

void test_time(const char *what, const char *unit, double seen, double goal) {
  if (!(seen <= goal))
    print_message("missed: %s %.3g %s, goal: at most %.3g %s\n", what, seen, unit, goal, unit);
}

compute_context *test_open(void) {
  const char *name = getenv("COMPUTE_TEST_DEVICE");
  compute_context *context = NULL;
  const compute_open_options options = {.device = name && name[0] ? name : "cpu"};
  assert_ok(compute_open(&context, &options));
  return context;
}

void test_close(compute_context *context) {
  assert_ok(compute_close(context));
}

compute_context *test_context;

int test_group_open(void **state) {
  (void)state;
  test_context = test_open();
  return 0;
}

int test_group_close(void **state) {
  (void)state;
  test_close(test_context);
  return 0;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
/* Keeps modules loaded after their first use. Relocating an instrumented module takes longer than
 * most tests, and tests of failures open thousands of contexts. */
static void __attribute__((constructor)) keep_modules(void) {
  static const char *const names[] = {"cpu", "cuda"};
  const char *folder = getenv("COMPUTE_BACKEND_PATH");
  for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libcompute-%s.so", folder, names[i]);
    dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
}
#endif

static size_t step_of(const char *variable) {
  const char *text = getenv(variable);
  const size_t step = text ? strtoul(text, NULL, 10) : 1;
  return step > 0 ? step : 1;
}

static bool is_sampled(void) {
  return step_of("COMPUTE_TEST_SPREAD") > 1 || step_of("COMPUTE_TEST_SAMPLES") > 1;
}

uint64_t test_seed(void) {
  const char *text = getenv("COMPUTE_TEST_SEED");
  if (!text && is_sampled()) text = getenv("COMPUTE_TEST_SAMPLE_SEED");
  return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t test_turn(void) {
  return test_seed() / 2;
}

/* The step with which a seed thins the samples of a run without a seed: larger where each sample
 * costs more. */
static size_t seed_step(void) {
  if (!test_seed()) return 1;
  if (step_of("COMPUTE_TEST_SAMPLES") > 1) return 4;
  return step_of("COMPUTE_TEST_SPREAD") > 1 ? 24 : 3;
}

size_t test_spread(void) {
  return step_of("COMPUTE_TEST_SPREAD");
}

bool test_in_spread(size_t number) {
  return (number + test_turn()) % test_spread() == 0;
}

size_t test_samples(void) {
  return step_of("COMPUTE_TEST_SAMPLES") * seed_step();
}

bool test_takes(size_t kind, size_t number) {
  const size_t step = test_samples();
  if (seed_step() == 1) return number == 0 || (number + kind) % step == 0;
  uint64_t mixed = test_seed() + (uint64_t)kind * 1000003 + (uint64_t)number;
  mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
  return (mixed ^ mixed >> 31) % step == 0;
}

bool test_in_turn(size_t number) {
  return !test_seed() || (number + test_turn()) % 3 == 0;
}

compute_plan *test_compile(const compute_graph *graph, const compute_node *outputs, size_t count,
                           uint32_t flags) {
  compute_plan *plan = NULL;
  const compute_plan_options options = {.flags = flags};
  assert_ok(compute_compile(graph, outputs, count, &options, &plan));
  return plan;
}

compute_tensor *test_tensor(compute_context *context, compute_dtype dtype, compute_shape shape,
                            const void *data) {
  compute_device *device = compute_default_device(context);
  compute_tensor *tensor = NULL;
  if (data)
    assert_ok(compute_tensor_from_host(device, dtype, shape, data, &tensor));
  else
    assert_ok(compute_tensor_create(device, dtype, shape, &tensor));
  return tensor;
}

compute_tensor *test_random_tensor(compute_context *context, compute_dtype dtype,
                                   compute_shape shape, uint64_t seed) {
  test_values values = test_values_create(dtype, shape);
  test_values_fill(&values, FILL_RANGE, -1, 1, seed);
  compute_tensor *tensor = test_tensor(context, dtype, shape, values.data);
  test_values_release(&values);
  return tensor;
}

double test_element(const compute_tensor *tensor, int64_t index) {
  const size_t count = (size_t)compute_tensor_count(tensor);
  assert_true(index >= 0 && (size_t)index < count);
  double *values = malloc(count * sizeof *values);
  compute_tensor *wide = NULL;
  assert_non_null(values);
  assert_ok(compute_tensor_create(compute_tensor_device(tensor), COMPUTE_F64,
                                  compute_tensor_shape(tensor), &wide));
  assert_ok(compute_tensor_copy(wide, tensor));
  assert_ok(compute_tensor_read(wide, values, count * sizeof *values));
  const double value = values[index];
  compute_tensor_release(wide);
  free(values);
  return value;
}
