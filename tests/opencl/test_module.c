/* SPDX-License-Identifier: MIT */
/* The OpenCL module with the test's services: simpler variants of kernels, and the cache of
 * programs. compute-conformance tests its queues and the real generator's source. Here the source
 * is artificial, so that a test can break it. Skipped without a device. */
#include "support/harness/test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/stand_in.h"

enum { SKIPPED = 77 };

/* ---- Fixture ------------------------------------------------------------------------------- */

static const compute_backend *backend;
static void *instance, *device;
static compute_operand operands[2] = {{COMPUTE_F32, {1}}, {COMPUTE_F32, {1}}};
static const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                     .kind = COMPUTE_KERNEL_COPY,
                                                     .rank = 1,
                                                     .size = {ITEMS},
                                                     .input_count = 1,
                                                     .output_count = 1,
                                                     .inputs = &operands[0],
                                                     .outputs = &operands[1]};

static bool module_start(void) {
  void *module = dlopen(TEST_MODULE_DIR "/libcompute-opencl.so", RTLD_NOW | RTLD_LOCAL);
  if (!module) return false;
  void *symbol = dlsym(module, COMPUTE_BACKEND_ENTRY);
  compute_backend_entry_function entry;
  memcpy(&entry, &symbol, sizeof symbol);
  backend = entry(COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR);
  return backend->open(&services, &instance) == COMPUTE_OK;
}

static int device_start(void **state) {
  (void)state;
  now = (scene){0};
  failures = warnings = stored_count = 0;
  cache_folder = NULL;
  return backend->device_open(instance, 0, &device) != COMPUTE_OK;
}

static int device_end(void **state) {
  (void)state;
  backend->device_close(device);
  return 0;
}

static compute_build_statistics statistics(void) {
  compute_build_statistics result = {0};
  backend->build_statistics(device, &result);
  return result;
}

static void *prepare(void) {
  void *kernel = NULL;
  assert_int_equal(backend->kernel_prepare(device, &descriptor, &kernel), COMPUTE_OK);
  assert_non_null(kernel);
  return kernel;
}

/* Runs y = kernel(x) `times` times on a new queue; returns the wait's status. */
static compute_status run(void *kernel, int times, bool *doubled) {
  void *queue;
  compute_memory memory[2];
  float values[ITEMS], results[ITEMS] = {0};
  for (int i = 0; i < ITEMS; i++) values[i] = (float)i;
  if (backend->queue_create(device, &queue)) return COMPUTE_ERROR_INTERNAL;
  for (int i = 0; i < 2; i++)
    if (backend->memory_allocate(device, sizeof values, &memory[i])) return COMPUTE_ERROR_INTERNAL;
  const compute_argument arguments[2] = {{&memory[0], 0}, {&memory[1], 0}};
  compute_status status = backend->upload(queue, &arguments[0], values, sizeof values);
  for (int i = 0; i < times && status == COMPUTE_OK; i++)
    status = backend->enqueue(queue, kernel, arguments, 2);
  if (status == COMPUTE_OK) status = backend->queue_wait(queue);
  if (backend->download(queue, results, &arguments[1], sizeof results))
    status = COMPUTE_ERROR_INTERNAL;
  *doubled = true;
  for (int i = 0; i < ITEMS; i++) *doubled &= results[i] == 2 * values[i];
  for (int i = 0; i < 2; i++) backend->memory_release(device, &memory[i]);
  backend->queue_destroy(queue);
  return status;
}

static void check_doubles(void *kernel) {
  bool doubled = false;
  assert_int_equal(run(kernel, 1, &doubled), COMPUTE_OK);
  assert_true(doubled);
}

static void check_text(void *kernel, const char *part) {
  char text[160];
  backend->kernel_describe(device, kernel, text, sizeof text);
  assert_non_null(strstr(text, part));
}

/* ---- Simpler variants ---------------------------------------------------------------------- */

static void what_was_tuned_is_used(void **state) {
  (void)state;
  void *kernel = prepare();
  check_text(kernel, "tuned");
  check_doubles(kernel);
  assert_int_equal(warnings, 0);
  backend->kernel_destroy(device, kernel);
}

static void a_version_that_does_not_compile_is_stepped_over(void **state) {
  (void)state;
  now.tuned_broken = true;
  void *kernel = prepare();
  check_text(kernel, "groups of 128");
  check_doubles(kernel);
  assert_int_equal(warnings, 1);
  assert_int_equal(failures, 0);
  assert_int_equal(statistics().programs_failed, 1);
  backend->kernel_destroy(device, kernel);
}

static void groups_that_the_driver_refuses_become_smaller(void **state) {
  (void)state;
  now.tuned_broken = now.usual_too_large = true;
  void *kernel = prepare();
  check_text(kernel, "groups of 64");
  check_doubles(kernel);
  assert_int_equal(warnings, 2);
  backend->kernel_destroy(device, kernel);
}

static void when_nothing_compiles_the_compilers_words_are_in_the_error(void **state) {
  (void)state;
  void *kernel = NULL;
  now.tuned_broken = now.usual_broken = now.plain_broken = true;
  assert_int_equal(backend->kernel_prepare(device, &descriptor, &kernel),
                   COMPUTE_ERROR_COMPILATION);
  assert_null(kernel);
  assert_int_equal(failures, 1);
  assert_non_null(strstr(last_message, "is_wrong"));
}

static void the_tuner_is_never_given_another_version(void **state) {
  (void)state;
  void *kernel = NULL;
  const compute_tuning tuning = {.vector = 2}, unknown = {.implementation = 7};
  now.tuned_broken = true;
  assert_int_equal(backend->kernel_prepare_tuned(device, &descriptor, &tuning, &kernel),
                   COMPUTE_ERROR_COMPILATION);
  assert_int_equal(backend->kernel_prepare_tuned(device, &descriptor, &unknown, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  now.tuned_broken = false;
  for (int i = 0; i < 2; i++) { /* compiled, then shared */
    assert_int_equal(backend->kernel_prepare_tuned(device, &descriptor, &tuning, &kernel),
                     COMPUTE_OK);
    check_doubles(kernel);
    backend->kernel_destroy(device, kernel);
  }
}

static void a_refused_text_is_not_compiled_again(void **state) {
  (void)state;
  void *kernel = NULL;
  now.tuned_broken = now.usual_broken = now.plain_broken = true;
  for (int i = 0; i < 3; i++)
    assert_int_equal(backend->kernel_prepare(device, &descriptor, &kernel),
                     COMPUTE_ERROR_COMPILATION);
  assert_true(statistics().programs_failed <= 4); /* one for each variant */
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void a_launch_sees_what_the_one_before_left_in_scratch_memory(void **state) {
  (void)state;
  now.two_launches = true;
  void *kernel = prepare();
  check_doubles(kernel);
  bool doubled;
  assert_int_equal(run(kernel, 200, &doubled), COMPUTE_OK);
  assert_true(doubled);
  backend->kernel_destroy(device, kernel);
}

static void nothing_to_launch_is_fine(void **state) {
  (void)state;
  now.empty = true;
  void *kernel = prepare();
  bool doubled;
  assert_int_equal(run(kernel, 1, &doubled), COMPUTE_OK);
  assert_int_equal(statistics().programs_compiled, 0);
  backend->kernel_destroy(device, kernel);
}

static void an_index_out_of_range_fails_one_wait_only(void **state) {
  (void)state;
  now.sets_fault = true;
  void *faulty = prepare();
  now.sets_fault = false;
  void *fine = prepare();
  bool doubled;
  assert_int_equal(run(faulty, 1, &doubled), COMPUTE_ERROR_INDEX);
  assert_non_null(strstr(last_message, "an index in the data is out of range"));

  void *queue;
  compute_memory memory;
  assert_int_equal(backend->queue_create(device, &queue), COMPUTE_OK);
  assert_int_equal(backend->memory_allocate(device, 8 * ITEMS, &memory), COMPUTE_OK);
  const compute_argument arguments[2] = {{&memory, 0}, {&memory, 4 * ITEMS}};
  assert_int_equal(backend->enqueue(queue, faulty, arguments, 2), COMPUTE_OK);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_ERROR_INDEX);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  assert_int_equal(backend->enqueue(queue, fine, arguments, 2), COMPUTE_OK);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  backend->memory_release(device, &memory);
  backend->queue_destroy(queue);
  backend->kernel_destroy(device, faulty);
  backend->kernel_destroy(device, fine);
}

/* ---- Programs ------------------------------------------------------------------------------ */

static void kernels_with_one_source_share_the_program(void **state) {
  (void)state;
  void *first = prepare(), *second = prepare();
  assert_int_equal(statistics().programs_compiled, 1);
  assert_int_equal(statistics().programs_shared, 1);
  backend->kernel_destroy(device, first);
  backend->kernel_destroy(device, second);
  void *third = prepare(); /* still cached without users */
  assert_int_equal(statistics().programs_shared, 2);
  backend->kernel_destroy(device, third);
}

static bool is_pocl(void) {
  compute_target target = {.struct_size = sizeof target};
  assert_int_equal(backend->device_target(device, &target), COMPUTE_OK);
  return strcmp(target.family, "pocl") == 0;
}

static void a_program_that_pocl_keeps_counts_as_the_drivers(void **state) {
  if (!is_pocl()) test_skip("the driver is not PoCL");
  backend->kernel_destroy(device, prepare());
  assert_int_equal(statistics().programs_compiled, 1);
  const int kept = stored_count;
  assert_int_equal(kept, 1);
  device_end(state);
  assert_int_equal(backend->device_open(instance, 0, &device), COMPUTE_OK);
  backend->kernel_destroy(device, prepare());
  assert_int_equal(statistics().programs_compiled, 0);
  assert_int_equal(statistics().programs_from_driver, 1);
  assert_int_equal(stored_count, kept);
}

static void a_mark_without_pocls_folder_does_not_count(void **state) {
  if (!is_pocl()) test_skip("the driver is not PoCL");
  cache_folder = TEST_NOWHERE;
  for (int i = 0; i < 2; i++) {
    backend->kernel_destroy(device, prepare());
    assert_int_equal(statistics().programs_compiled, 1);
    assert_int_equal(statistics().programs_from_driver, 0);
    device_end(state);
    assert_int_equal(backend->device_open(instance, 0, &device), COMPUTE_OK);
  }
}

static void an_older_core_is_told_so(void **state) {
  (void)state;
  char reason[160] = "";
  void *kernel = NULL;
  services.struct_size = offsetof(compute_services, generate);
  const bool supported = backend->supports(device, &descriptor, reason, sizeof reason);
  const compute_status status = backend->kernel_prepare(device, &descriptor, &kernel);
  services.struct_size = sizeof services;
  assert_false(supported);
  assert_non_null(strstr(reason, "older"));
  assert_int_equal(status, COMPUTE_ERROR_UNSUPPORTED);
}

/* ---- Memory -------------------------------------------------------------------------------- */

static void too_large_a_buffer_is_refused_with_the_limit(void **state) {
  (void)state;
  compute_memory memory;
  assert_int_equal(backend->memory_allocate(device, (uint64_t)1 << 60, &memory),
                   COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_non_null(strstr(last_message, "in one piece"));
}

#define ON_A_DEVICE(test) cmocka_unit_test_setup_teardown(test, device_start, device_end)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_A_DEVICE(what_was_tuned_is_used),
      ON_A_DEVICE(a_version_that_does_not_compile_is_stepped_over),
      ON_A_DEVICE(groups_that_the_driver_refuses_become_smaller),
      ON_A_DEVICE(when_nothing_compiles_the_compilers_words_are_in_the_error),
      ON_A_DEVICE(the_tuner_is_never_given_another_version),
      ON_A_DEVICE(a_refused_text_is_not_compiled_again),
      ON_A_DEVICE(a_launch_sees_what_the_one_before_left_in_scratch_memory),
      ON_A_DEVICE(nothing_to_launch_is_fine),
      ON_A_DEVICE(an_index_out_of_range_fails_one_wait_only),
      ON_A_DEVICE(kernels_with_one_source_share_the_program),
      ON_A_DEVICE(a_program_that_pocl_keeps_counts_as_the_drivers),
      ON_A_DEVICE(a_mark_without_pocls_folder_does_not_count),
      ON_A_DEVICE(an_older_core_is_told_so),
      ON_A_DEVICE(too_large_a_buffer_is_refused_with_the_limit),
  };
  if (!module_start()) {
    printf("no OpenCL device: %s\n", last_message);
    return SKIPPED;
  }
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  backend->close(instance);
  return failed;
}
