/* SPDX-License-Identifier: MIT */
/* Kernels from a user's source with a real compiler: the first OpenCL device, if there is one. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, GROUP = 64, GROUPS = (COUNT + GROUP - 1) / GROUP };

static const char scale_portable[] = "KERNEL void scale(GLOBAL const float *x, GLOBAL float *y,\n"
                                     "                  uint n, float by) {\n"
                                     "  uint i = GLOBAL_ID_X;\n"
                                     "  if (i < n) y[i] = by * x[i];\n"
                                     "}\n";

static const char scale_native[] =
    "__kernel void scale(__global const float *x, __global float *y, uint n, float by) {\n"
    "  uint i = get_global_id(0);\n"
    "  if (i < n) y[i] = by * x[i] + OFFSET;\n"
    "}\n";

static compute_context *context;
static compute_device *device;
static compute_tensor *x, *y;
static float in[COUNT], out[COUNT];

static int open_device(void **state) {
  (void)state;
  const compute_open_options options = {.backends = "cpu,opencl", .device = "cpu"};
  if (compute_open(&context, &options) != COMPUTE_OK) return -1;
  if (compute_device_by_name(context, "opencl:0", &device) != COMPUTE_OK) device = NULL;
  for (int i = 0; i < COUNT; i++) in[i] = (float)i - 300;
  if (device) {
    assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), in, &x));
    assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), -1, &y));
  } else {
    print_message("no OpenCL device: %s\n", compute_error_message(context));
  }
  return 0;
}

static int close_device(void **state) {
  (void)state;
  compute_tensor_release(x);
  compute_tensor_release(y);
  x = y = NULL;
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

#define NEEDS_DEVICE                                                                               \
  do {                                                                                             \
    (void)state;                                                                                   \
    if (!device) test_skip("no OpenCL device");                                                    \
  } while (0)

static compute_kernel *compile(const char *source, const char *options, uint32_t flags) {
  compute_kernel *kernel = NULL;
  assert_ok(compute_kernel_compile(device, source, "scale", options, flags, &kernel));
  return kernel;
}

static compute_status scale(compute_kernel *kernel, const compute_tensor *from, compute_tensor *to,
                            uint32_t n, float by, compute_queue *queue) {
  return compute_kernel_launch(
      kernel, &(compute_launch){.groups = {GROUPS}, .group = {GROUP}},
      (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(from), COMPUTE_KERNEL_TENSOR(to),
                                  COMPUTE_KERNEL_VALUE(n), COMPUTE_KERNEL_VALUE(by)},
      4, queue);
}

/* y is by * x + plus up to n, and unchanged after n. */
static void check(uint32_t n, float by, float plus) {
  assert_ok(compute_tensor_read(y, out, sizeof out));
  for (uint32_t i = 0; i < COUNT; i++) {
    const float expected = i < n ? by * in[i] + plus : -1;
    if (out[i] != expected) fail_msg("element %u is %g, not %g", i, out[i], expected);
  }
}

static void the_example_of_the_header_runs(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  assert_ok(scale(kernel, x, y, COUNT, 2.5F, NULL));
  check(COUNT, 2.5F, 0);
  compute_kernel_release(kernel);
}

static void the_devices_own_language_runs_with_options(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_native, "-DOFFSET=7", 0);
  assert_ok(scale(kernel, x, y, 900, -2, NULL));
  check(900, -2, 7);
  compute_kernel_release(kernel);
  kernel = compile(scale_native, "-DOFFSET=3", 0); /* other options are another program */
  assert_ok(scale(kernel, x, y, 900, -2, NULL));
  check(900, -2, 3);
  compute_kernel_release(kernel);
}

static void local_memory_is_shared_by_a_group(void **state) {
  NEEDS_DEVICE;
  static const char reverse[] =
      "__kernel void reverse(__global const float *x, __global float *y, __local float *t) {\n"
      "  uint i = get_local_id(0), n = get_local_size(0), base = get_group_id(0) * n;\n"
      "  t[i] = x[base + i];\n"
      "  barrier(CLK_LOCAL_MEM_FENCE);\n"
      "  y[base + i] = t[n - 1 - i];\n"
      "}\n";
  static const char portable[] = "KERNEL void reverse(GLOBAL const float *x, GLOBAL float *y) {\n"
                                 "  LOCAL_ARRAY(float, t, 50);\n"
                                 "  uint i = LOCAL_ID_X, base = GROUP_ID_X * 50u;\n"
                                 "  t[i] = x[base + i];\n"
                                 "  BARRIER();\n"
                                 "  y[base + i] = t[49u - i];\n"
                                 "}\n";
  const compute_launch launch = {.groups = {COUNT / 50}, .group = {50}};
  const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_TENSOR(y),
                                               COMPUTE_KERNEL_LOCAL(50 * sizeof(float))};
  for (size_t form = 0; form < 2; form++) {
    compute_kernel *kernel = NULL;
    assert_ok(compute_kernel_compile(device, form ? portable : reverse, "reverse", NULL,
                                     form ? COMPUTE_KERNEL_PORTABLE : 0, &kernel));
    assert_ok(compute_kernel_launch(kernel, &launch, arguments, form ? 2 : 3, NULL));
    assert_ok(compute_tensor_read(y, out, sizeof out));
    for (int i = 0; i < COUNT; i++) {
      const float expected = in[i / 50 * 50 + 49 - i % 50];
      if (out[i] != expected) fail_msg("element %d is %g, not %g", i, out[i], expected);
    }
    compute_kernel_release(kernel);
  }
}

static void groups_have_three_dimensions(void **state) {
  NEEDS_DEVICE;
  static const char place[] =
      "KERNEL void place(GLOBAL float *y) {\n"
      "  uint w = GROUP_SIZE_X * GROUP_COUNT_X, h = GROUP_SIZE_Y * GROUP_COUNT_Y;\n"
      "  y[(GLOBAL_ID_Z * h + GLOBAL_ID_Y) * w + GLOBAL_ID_X] =\n"
      "      (float)(GLOBAL_ID_X + 10 * GLOBAL_ID_Y + 100 * GLOBAL_ID_Z);\n"
      "}\n";
  compute_kernel *kernel = NULL;
  assert_ok(compute_kernel_compile(device, place, "place", NULL, COMPUTE_KERNEL_PORTABLE, &kernel));
  assert_ok(compute_kernel_launch(kernel, &(compute_launch){{5, 2, 10}, {2, 5, 1}},
                                  (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(y)}, 1, NULL));
  assert_ok(compute_tensor_read(y, out, sizeof out));
  for (int i = 0; i < COUNT; i++) assert_true(out[i] == (float)i);
  compute_kernel_release(kernel);
}

/* ---- Mistakes ------------------------------------------------------------------------------ */

static void a_source_that_does_not_compile_carries_the_log(void **state) {
  NEEDS_DEVICE;
  static const char wrong[] = "KERNEL void scale(GLOBAL float *y) {\n"
                              "  y[0] = 1;\n"
                              "  y[1] = no_such_thing;\n"
                              "}\n";
  compute_kernel *kernel = (compute_kernel *)in;
  assert_fails(
      compute_kernel_compile(device, wrong, "scale", NULL, COMPUTE_KERNEL_PORTABLE, &kernel),
      COMPUTE_ERROR_COMPILATION);
  assert_null(kernel);
  test_check_message(context, "no_such_thing");
  compute_device_info info;
  assert_ok(compute_device_describe(device, &info));
  if (strstr(info.driver, "PoCL")) test_check_message(context, ":3:"); /* in the user's source */
  assert_fails(compute_kernel_compile(device, "\xff\x01 not C at all", "scale", NULL, 0, &kernel),
               COMPUTE_ERROR_COMPILATION);
  assert_fails(compute_kernel_compile(device, scale_portable, "scale", "-no-such-option",
                                      COMPUTE_KERNEL_PORTABLE, &kernel),
               COMPUTE_ERROR_COMPILATION);
  kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  assert_ok(scale(kernel, x, y, COUNT, 2, NULL)); /* the device is still usable */
  check(COUNT, 2, 0);
  compute_kernel_release(kernel);
}

static void an_entry_that_is_not_there_is_named(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = NULL;
  assert_fails(compute_kernel_compile(device, scale_portable, "scales", NULL,
                                      COMPUTE_KERNEL_PORTABLE, &kernel),
               COMPUTE_ERROR_COMPILATION);
  test_check_message(context, "scales");
}

static void wrong_arguments_are_refused_and_change_nothing(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  const compute_launch launch = {.groups = {GROUPS}, .group = {GROUP}};
  const uint32_t n = COUNT;
  const float by = 2;
  const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_TENSOR(y),
                                               COMPUTE_KERNEL_VALUE(n), COMPUTE_KERNEL_VALUE(by),
                                               COMPUTE_KERNEL_VALUE(by)};
  for (size_t count = 0; count <= 5; count++) {
    if (count == 4) continue;
    assert_fails(compute_kernel_launch(kernel, &launch, arguments, count, NULL),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  const compute_launch huge = {.groups = {1}, .group = {1U << 31, 2, 1}};
  assert_fails(compute_kernel_launch(kernel, &huge, arguments, 4, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  check(0, 0, 0);
  assert_ok(compute_kernel_launch(kernel, &launch, arguments, 4, NULL));
  check(COUNT, 2, 0);
  compute_kernel_release(kernel);
}

/* ---- Views, queues, threads ---------------------------------------------------------------- */

static void a_view_begins_at_its_first_element(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  static const int64_t starts[] = {512, 1, 777};
  for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
    compute_tensor *from = NULL, *to = NULL;
    assert_ok(compute_tensor_slice_view(x, 0, starts[s], 100, 1, &from));
    assert_ok(compute_tensor_slice_view(y, 0, 640, 100, 1, &to));
    const compute_status status = scale(kernel, from, to, 100, 3, NULL);
    if (status == COMPUTE_ERROR_UNSUPPORTED) { /* a device may require alignment */
      test_check_message(context, "multiples of");
      print_message("offset %lld: %s\n", (long long)starts[s], compute_error_message(context));
    } else {
      assert_ok(status);
      assert_ok(compute_tensor_read(y, out, sizeof out));
      for (int i = 0; i < 100; i++) assert_true(out[640 + i] == 3 * in[starts[s] + i]);
      assert_true(out[639] == -1 && out[740] == -1);
    }
    compute_tensor_release(from);
    compute_tensor_release(to);
  }
  compute_kernel_release(kernel);
}

static void a_tensor_without_elements_may_be_passed(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  compute_tensor *empty = NULL;
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(0), &empty));
  assert_ok(scale(kernel, empty, y, 0, 3, NULL));
  check(0, 0, 0);
  compute_tensor_release(empty);
  compute_kernel_release(kernel);
}

static void launches_on_a_queue_run_in_order(void **state) {
  NEEDS_DEVICE;
  compute_kernel *kernel = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(device, &queue));
  assert_ok(scale(kernel, x, y, COUNT, 2, queue));
  for (int i = 0; i < 10; i++) assert_ok(scale(kernel, y, y, COUNT, i % 2 ? 0.5F : 2, queue));
  assert_ok(scale(kernel, y, y, COUNT, 8, queue));
  assert_ok(compute_queue_wait(queue));
  check(COUNT, 16, 0);
  compute_queue_release(queue);
  compute_kernel_release(kernel);
}

enum { THREADS = 4, ROUNDS = 25 };

static compute_kernel *shared;

/* Even threads have separate queues; odd threads use the device's queue. */
static void *scale_often(void *argument) {
  const float by = (float)(uintptr_t)argument;
  uintptr_t wrong = 0;
  float result[COUNT];
  compute_tensor *to = NULL;
  compute_queue *queue = NULL;
  if (compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), &to)) return (void *)1;
  if ((uintptr_t)argument % 2 == 0 && compute_queue_create(device, &queue)) wrong++;
  for (int round = 0; round < ROUNDS && wrong == 0; round++) {
    compute_kernel *own = NULL;
    if (compute_kernel_compile(device, scale_portable, "scale", NULL, COMPUTE_KERNEL_PORTABLE,
                               &own))
      wrong++;
    else if (scale(round % 2 ? shared : own, x, to, COUNT, by + (float)round, queue))
      wrong++;
    else if (queue && compute_queue_wait(queue))
      wrong++;
    else if (compute_tensor_read(to, result, sizeof result))
      wrong++;
    for (int i = 0; i < COUNT; i++) wrong += result[i] != (by + (float)round) * in[i];
    compute_kernel_release(own);
  }
  compute_queue_release(queue);
  compute_tensor_release(to);
  return (void *)wrong;
}

static void a_kernel_is_launched_from_several_threads(void **state) {
  NEEDS_DEVICE;
  pthread_t threads[THREADS];
  shared = compile(scale_portable, NULL, COMPUTE_KERNEL_PORTABLE);
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, scale_often, (void *)(100 * i + i)), 0);
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  compute_kernel_release(shared);
  compute_build_statistics built;
  assert_ok(compute_build_query(device, &built));
  assert_true(built.programs_compiled + built.programs_from_disk + built.programs_from_driver >= 1);
}

#define CUSTOM_TEST(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

int main(void) {
  const struct CMUnitTest tests[] = {
      CUSTOM_TEST(the_example_of_the_header_runs),
      CUSTOM_TEST(the_devices_own_language_runs_with_options),
      CUSTOM_TEST(local_memory_is_shared_by_a_group),
      CUSTOM_TEST(groups_have_three_dimensions),
      CUSTOM_TEST(a_source_that_does_not_compile_carries_the_log),
      CUSTOM_TEST(an_entry_that_is_not_there_is_named),
      CUSTOM_TEST(wrong_arguments_are_refused_and_change_nothing),
      CUSTOM_TEST(a_view_begins_at_its_first_element),
      CUSTOM_TEST(a_tensor_without_elements_may_be_passed),
      CUSTOM_TEST(launches_on_a_queue_run_in_order),
      CUSTOM_TEST(a_kernel_is_launched_from_several_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
