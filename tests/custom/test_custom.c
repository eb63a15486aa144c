/* SPDX-License-Identifier: MIT */
/* Kernels from a user's source, up to the backend interface: valid calls, the data that reaches the
 * backend, and the error of a device without a compiler. The backend is the null device with a
 * compiler that only records its calls; test_custom_opencl.c uses a real one. */
#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/generate/generate.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "support/harness/failing_allocator.h"

/* ---- A recording compiler ------------------------------------------------------------------ */

static struct {
  char source[1 << 17];
  char entry[64], options[64];
  compute_status build, launch, target, wait; /* the result of the next call */
  compute_dialect dialect;
  int alive, launches, waits;
  uint32_t groups[3], group[3], count;
  compute_custom_argument arguments[64];
} seen;

static compute_context *context;
static compute_device *device;
static const compute_backend *real;
static compute_backend remembering;

static compute_status answer(compute_status status, const char *words) {
  return status ? error_set(context, status, "test", "%s", words) : COMPUTE_OK;
}

static compute_status remember_build(void *handle, const char *source, const char *entry,
                                     const char *options, void **kernel) {
  (void)handle;
  snprintf(seen.source, sizeof seen.source, "%s", source);
  snprintf(seen.entry, sizeof seen.entry, "%s", entry);
  snprintf(seen.options, sizeof seen.options, "%s", options ? options : "none");
  if (seen.build) return answer(seen.build, "the log");
  seen.alive++;
  *kernel = &seen;
  return COMPUTE_OK;
}

static void remember_destroy(void *handle, void *kernel) {
  (void)handle;
  assert_ptr_equal(kernel, &seen);
  seen.alive--;
}

static compute_status remember_launch(void *queue, void *kernel, const uint32_t groups[3],
                                      const uint32_t group[3],
                                      const compute_custom_argument *arguments, uint32_t count) {
  (void)queue;
  assert_ptr_equal(kernel, &seen);
  seen.launches++;
  memcpy(seen.groups, groups, sizeof seen.groups);
  memcpy(seen.group, group, sizeof seen.group);
  seen.count = count;
  for (uint32_t i = 0; i < count && i < 64; i++) seen.arguments[i] = arguments[i];
  return answer(seen.launch, "not launched");
}

static compute_status remember_wait(void *queue) {
  (void)queue;
  seen.waits++;
  return answer(seen.wait, "failed later");
}

static compute_status remember_target(void *handle, compute_target *target) {
  (void)handle;
  assert_int_equal(target->struct_size, sizeof *target);
  target->dialect = seen.dialect;
  return answer(seen.target, "no target");
}

static int open_device(void **state) {
  (void)state;
  memset(&seen, 0, sizeof seen);
  const compute_open_options options = {.backends = "cpu,null", .device = "null:0"};
  if (compute_open(&context, &options) != COMPUTE_OK) return -1;
  device = compute_default_device(context);
  real = device->backend;
  remembering = *real;
  remembering.custom_build = remember_build;
  remembering.custom_destroy = remember_destroy;
  remembering.custom_launch = remember_launch;
  remembering.queue_wait = remember_wait;
  remembering.device_target = remember_target;
  device->backend = &remembering;
  return 0;
}

static int close_device(void **state) {
  (void)state;
  device->backend = real;
  return compute_close(context) == COMPUTE_OK && seen.alive == 0 ? 0 : -1;
}

static compute_kernel *compile(const char *source) {
  compute_kernel *kernel = NULL;
  assert_ok(compute_kernel_compile(device, source, "entry", NULL, 0, &kernel));
  assert_non_null(kernel);
  return kernel;
}

static const compute_launch one_group = {.groups = {1}, .group = {64}};

/* ---- Compiling ----------------------------------------------------------------------------- */

static void the_source_reaches_the_compiler_as_it_is(void **state) {
  (void)state;
  compute_kernel *kernel = NULL;
  assert_ok(compute_kernel_compile(device, "any % text\n", "entry_1", "-DX=1", 0, &kernel));
  assert_string_equal(seen.source, "any % text\n");
  assert_string_equal(seen.entry, "entry_1");
  assert_string_equal(seen.options, "-DX=1");
  compute_kernel_release(kernel);
  compute_kernel_release(compile("x"));
  assert_string_equal(seen.options, "none");
  compute_kernel_release(NULL);
}

static void portable_source_follows_its_dialect(void **state) {
  (void)state;
  static const compute_dialect dialects[] = {COMPUTE_DIALECT_OPENCL, COMPUTE_DIALECT_CUDA,
                                             COMPUTE_DIALECT_C};
  for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
    compute_kernel *kernel = NULL;
    seen.dialect = dialects[i];
    assert_ok(compute_kernel_compile(device, "KERNEL void mine() {}", "mine", NULL,
                                     COMPUTE_KERNEL_PORTABLE, &kernel));
    const char *text = generate_dialect(dialects[i]);
    assert_int_equal(strncmp(seen.source, text, strlen(text)), 0);
    assert_string_equal(seen.source + strlen(text), "\n#line 1 \"mine\"\nKERNEL void mine() {}");
    compute_kernel_release(kernel);
  }
}

static void portable_source_needs_a_target(void **state) {
  (void)state;
  compute_kernel *kernel = NULL;
  seen.target = COMPUTE_ERROR_DEVICE_LOST;
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, COMPUTE_KERNEL_PORTABLE, &kernel),
               COMPUTE_ERROR_DEVICE_LOST);
  remembering.device_target = NULL;
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, COMPUTE_KERNEL_PORTABLE, &kernel),
               COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  assert_int_equal(seen.alive, 0);
}

static void the_compilers_failure_is_handed_on(void **state) {
  (void)state;
  compute_kernel *kernel = (compute_kernel *)&seen;
  seen.build = COMPUTE_ERROR_COMPILATION;
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, 0, &kernel),
               COMPUTE_ERROR_COMPILATION);
  test_check_message(context, "the log");
  assert_null(kernel);
}

static void wrong_calls_of_the_compiler_are_refused(void **state) {
  (void)state;
  static const char *const names[] = {"", "two words", "1st", "a-b", "a.b", "\xc3\xa9", "f()"};
  compute_kernel *kernel = (compute_kernel *)&seen;
  assert_fails(compute_kernel_compile(NULL, "x", "x", NULL, 0, &kernel),
               COMPUTE_ERROR_NULL_POINTER);
  assert_null(kernel);
  assert_fails(compute_kernel_compile(device, NULL, "x", NULL, 0, &kernel),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_compile(device, "x", NULL, NULL, 0, &kernel),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, 2, &kernel),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, 0x80000001U, &kernel),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_kernel_compile(device, "", "x", NULL, 0, &kernel),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_fails(compute_kernel_compile(device, "x", names[i], NULL, 0, &kernel),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  assert_int_equal(seen.alive, 0);
}

static void a_device_without_compiler_says_what_to_do(void **state) {
  (void)state;
  static const char *const names[] = {"null:0"};
  device->backend = real;
  for (size_t i = 0; i < 1; i++) {
    compute_device *plain = NULL;
    compute_kernel *kernel = NULL;
    compute_error error;
    assert_ok(compute_device_by_name(context, names[i], &plain));
    assert_fails(compute_kernel_compile(plain, "x", "x", NULL, COMPUTE_KERNEL_PORTABLE, &kernel),
                 COMPUTE_ERROR_UNSUPPORTED);
    assert_null(kernel);
    assert_ok(compute_error_get(context, &error));
    assert_non_null(strstr(error.message, names[i]));
    assert_non_null(strstr(error.message, "no compiler"));
    assert_non_null(strstr(error.remedy, "opencl:0"));
  }
  /* A backend with only a part of the compiler functions has no compiler. */
  device->backend = &remembering;
  remembering.custom_launch = NULL;
  compute_kernel *kernel = NULL;
  assert_fails(compute_kernel_compile(device, "x", "x", NULL, 0, &kernel),
               COMPUTE_ERROR_UNSUPPORTED);
}

static void a_context_stays_open_while_a_kernel_lives(void **state) {
  (void)state;
  compute_kernel *kernel = compile("x");
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  compute_kernel_release(kernel);
}

/* ---- Launching ----------------------------------------------------------------------------- */

static void arguments_reach_the_backend_in_order(void **state) {
  (void)state;
  compute_tensor *tensor = NULL, *view = NULL;
  compute_kernel *kernel = compile("x");
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(8, 4), &tensor));
  assert_ok(compute_tensor_slice_view(tensor, 0, 3, 2, 1, &view));
  const float value = 2.5F;
  const compute_kernel_argument arguments[] = {
      COMPUTE_KERNEL_TENSOR(tensor), COMPUTE_KERNEL_TENSOR(view), COMPUTE_KERNEL_VALUE(value),
      COMPUTE_KERNEL_LOCAL(4096)};
  assert_ok(
      compute_kernel_launch(kernel, &(compute_launch){{7, 0, 3}, {64, 2, 0}}, arguments, 4, NULL));
  assert_int_equal(seen.count, 4);
  assert_non_null(seen.arguments[0].memory);
  assert_ptr_equal(seen.arguments[1].memory, seen.arguments[0].memory);
  assert_int_equal(seen.arguments[0].offset, 0);
  assert_int_equal(seen.arguments[1].offset, 3 * 4 * sizeof(float));
  assert_ptr_equal(seen.arguments[2].value, &value);
  assert_int_equal(seen.arguments[2].bytes, sizeof value);
  assert_null(seen.arguments[3].value);
  assert_null(seen.arguments[3].memory);
  assert_int_equal(seen.arguments[3].bytes, 4096);
  const uint32_t groups[3] = {7, 1, 3}, group[3] = {64, 2, 1};
  assert_memory_equal(seen.groups, groups, sizeof groups);
  assert_memory_equal(seen.group, group, sizeof group);
  compute_tensor_release(view);
  compute_tensor_release(tensor);
  compute_kernel_release(kernel);
}

static void without_a_queue_a_launch_is_waited_for(void **state) {
  (void)state;
  compute_kernel *kernel = compile("x");
  assert_ok(compute_kernel_launch(kernel, &one_group, NULL, 0, NULL));
  assert_int_equal(seen.waits, 1);
  seen.wait = COMPUTE_ERROR_DEVICE_LOST;
  assert_fails(compute_kernel_launch(kernel, &one_group, NULL, 0, NULL), COMPUTE_ERROR_DEVICE_LOST);
  seen.launch = COMPUTE_ERROR_LAUNCH; /* the first error counts, and the wait still happens */
  assert_int_equal(compute_kernel_launch(kernel, &one_group, NULL, 0, NULL), COMPUTE_ERROR_LAUNCH);
  assert_int_equal(seen.waits, 3);
  seen.wait = seen.launch = COMPUTE_OK;

  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(device, &queue));
  assert_ok(compute_kernel_launch(kernel, &one_group, NULL, 0, queue));
  assert_int_equal(seen.waits, 3);
  assert_int_equal(seen.launches, 4);
  compute_queue_release(queue);
  compute_kernel_release(kernel);
}

static void no_groups_launch_nothing_but_are_checked(void **state) {
  (void)state;
  compute_kernel *kernel = compile("x");
  const compute_launch nothing = {.groups = {0, 5, 5}, .group = {64}};
  assert_ok(compute_kernel_launch(kernel, &nothing, NULL, 0, NULL));
  assert_fails(compute_kernel_launch(kernel, &nothing,
                                     (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(NULL)}, 1,
                                     NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(seen.launches, 0);
  compute_kernel_release(kernel);
}

static void any_number_of_arguments_is_handed_on(void **state) {
  (void)state;
  enum { MANY = 1024 };
  static compute_kernel_argument arguments[MANY + 1];
  compute_kernel *kernel = compile("x");
  for (size_t i = 0; i <= MANY; i++) arguments[i] = COMPUTE_KERNEL_LOCAL(i + 1);
  for (uint32_t count = 0; count <= MANY; count += count < 40 ? 1 : 123) {
    assert_ok(compute_kernel_launch(kernel, &one_group, arguments, count, NULL));
    assert_int_equal(seen.count, count);
    if (count > 0 && count <= 64) assert_int_equal(seen.arguments[count - 1].bytes, count);
  }
  assert_fails(compute_kernel_launch(kernel, &one_group, arguments, MANY + 1, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_kernel_launch(kernel, &one_group, arguments, SIZE_MAX, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_kernel_release(kernel);
}

static void wrong_arguments_are_named_by_their_position(void **state) {
  (void)state;
  const int value = 1;
  compute_tensor *tensor = NULL, *foreign = NULL;
  compute_device *cpu = NULL;
  compute_kernel *kernel = compile("x");
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(8), &tensor));
  assert_ok(compute_tensor_create(cpu, COMPUTE_F32, COMPUTE_SHAPE(8), &foreign));
  const struct {
    compute_kernel_argument argument;
    compute_status status;
    const char *words;
  } cases[] = {
      {COMPUTE_KERNEL_TENSOR(NULL), COMPUTE_ERROR_NULL_POINTER, "tensor is NULL"},
      {{NULL, &value, 0}, COMPUTE_ERROR_INVALID_ARGUMENT, "0 bytes"},
      {{tensor, &value, sizeof value}, COMPUTE_ERROR_INVALID_ARGUMENT, "also a value"},
      {{tensor, &value, 0}, COMPUTE_ERROR_INVALID_ARGUMENT, "also a value"},
      {{tensor, NULL, 16}, COMPUTE_ERROR_INVALID_ARGUMENT, "also local memory"},
      {COMPUTE_KERNEL_TENSOR(foreign), COMPUTE_ERROR_INVALID_ARGUMENT, "tensor on cpu"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_VALUE(value), cases[i].argument};
    assert_fails(compute_kernel_launch(kernel, &one_group, arguments, 2, NULL), cases[i].status);
    test_check_message(context, cases[i].words);
    test_check_message(context, "argument 1");
  }
  assert_fails(compute_kernel_launch(NULL, &one_group, NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_launch(kernel, NULL, NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_launch(kernel, &one_group, NULL, 1, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(seen.launches, 0);
  compute_tensor_release(foreign);
  compute_tensor_release(tensor);
  compute_kernel_release(kernel);
}

static void objects_of_elsewhere_are_refused(void **state) {
  (void)state;
  compute_context *second = NULL;
  compute_tensor *tensor = NULL;
  compute_queue *queue = NULL, *beside = NULL;
  compute_device *cpu = NULL;
  compute_kernel *kernel = compile("x");
  assert_ok(compute_open(&second, &(compute_open_options){.backends = "null", .device = "null:0"}));
  assert_ok(compute_tensor_create(compute_default_device(second), COMPUTE_F32, COMPUTE_SHAPE(8),
                                  &tensor));
  assert_ok(compute_queue_create(compute_default_device(second), &queue));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_queue_create(cpu, &beside));
  assert_fails(compute_kernel_launch(kernel, &one_group,
                                     (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(tensor)}, 1,
                                     NULL),
               COMPUTE_ERROR_WRONG_CONTEXT);
  assert_fails(compute_kernel_launch(kernel, &one_group, NULL, 0, queue),
               COMPUTE_ERROR_WRONG_CONTEXT);
  assert_fails(compute_kernel_launch(kernel, &one_group, NULL, 0, beside),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_int_equal(seen.launches, 0);
  compute_queue_release(beside);
  compute_queue_release(queue);
  compute_tensor_release(tensor);
  assert_ok(compute_close(second));
  compute_kernel_release(kernel);
}

/* ---- Host memory --------------------------------------------------------------------------- */

static compute_status compile_and_launch(void) {
  compute_kernel_argument arguments[20];
  compute_kernel *kernel = NULL;
  for (size_t i = 0; i < 20; i++) arguments[i] = COMPUTE_KERNEL_LOCAL(16);
  compute_status status =
      compute_kernel_compile(device, "x", "x", NULL, COMPUTE_KERNEL_PORTABLE, &kernel);
  if (!status) status = compute_kernel_launch(kernel, &one_group, arguments, 20, NULL);
  compute_kernel_release(kernel);
  return status;
}

static void without_host_memory_nothing_is_left_behind(void **state) {
  (void)state;
  assert_int_equal(close_device(NULL), 0);
  failing_allocator_install();
  assert_int_equal(open_device(NULL), 0);
  assert_fails(compute_kernel_launch(NULL, NULL, NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_kernel_compile(device, "", "x", NULL, 0, &(compute_kernel *){NULL}),
               COMPUTE_ERROR_INVALID_ARGUMENT); /* a context keeps its first error */
  int64_t nth = 1;
  for (;; nth++) {
    const int64_t live = failing_allocator_live();
    failing_allocator_arm(nth, false);
    const compute_status status = compile_and_launch();
    const int64_t failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    assert_int_equal(failing_allocator_live(), live);
    assert_int_equal(seen.alive, 0);
    if (failures == 0) break;
    assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
  }
  assert_int_equal(nth, 4);
  assert_int_equal(close_device(NULL), 0);
  assert_int_equal(failing_allocator_remove(), 0);
  assert_int_equal(open_device(NULL), 0);
}

#define CUSTOM_TEST(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

int main(void) {
  const struct CMUnitTest tests[] = {
      CUSTOM_TEST(the_source_reaches_the_compiler_as_it_is),
      CUSTOM_TEST(portable_source_follows_its_dialect),
      CUSTOM_TEST(portable_source_needs_a_target),
      CUSTOM_TEST(the_compilers_failure_is_handed_on),
      CUSTOM_TEST(wrong_calls_of_the_compiler_are_refused),
      CUSTOM_TEST(a_device_without_compiler_says_what_to_do),
      CUSTOM_TEST(a_context_stays_open_while_a_kernel_lives),
      CUSTOM_TEST(arguments_reach_the_backend_in_order),
      CUSTOM_TEST(without_a_queue_a_launch_is_waited_for),
      CUSTOM_TEST(no_groups_launch_nothing_but_are_checked),
      CUSTOM_TEST(any_number_of_arguments_is_handed_on),
      CUSTOM_TEST(wrong_arguments_are_named_by_their_position),
      CUSTOM_TEST(objects_of_elsewhere_are_refused),
      CUSTOM_TEST(without_host_memory_nothing_is_left_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
