/* SPDX-License-Identifier: MIT */
/* Portable kernels on the CPU, compiled by the machine's compiler: loops over items, items that
 * wait for each other, and refusals with their reasons. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harness/test.h"

enum { COUNT = 10007 };

static compute_context *context;
static compute_device *cpu;
static bool has_compiler;
static char cache[4096];

static void open_context(void) {
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu", .device = "cpu"}));
  cpu = compute_default_device(context);
}

static int set_up(void **state) {
  (void)state;
  compute_kernel *kernel = NULL;
  snprintf(cache, sizeof cache, "%s/cache", TEST_SCRATCH_DIR);
  setenv("COMPUTE_CACHE_DIR", cache, 1);
  unsetenv("COMPUTE_CC");
  open_context();
  has_compiler = compute_kernel_compile(cpu, "KERNEL void k(void) {}", "k", NULL,
                                        COMPUTE_KERNEL_PORTABLE, &kernel) == COMPUTE_OK;
  if (!has_compiler) print_message("no compiler: %s\n", compute_error_message(context));
  compute_kernel_release(kernel);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

#define NEEDS_COMPILER                                                                             \
  do {                                                                                             \
    (void)state;                                                                                   \
    if (!has_compiler) test_skip("no compiler");                                                   \
  } while (0)

static compute_kernel *compile(const char *source, const char *entry, const char *options) {
  compute_kernel *kernel = NULL;
  assert_ok(compute_kernel_compile(cpu, source, entry, options, COMPUTE_KERNEL_PORTABLE, &kernel));
  return kernel;
}

static compute_tensor *tensor(compute_dtype dtype, int64_t count, const void *data) {
  compute_tensor *t = NULL;
  if (data)
    assert_ok(compute_tensor_from_host(cpu, dtype, COMPUTE_SHAPE(count), data, &t));
  else
    assert_ok(compute_tensor_full(cpu, dtype, COMPUTE_SHAPE(count), -1, &t));
  return t;
}

/* ---- Without barriers ------------------------------------------------------------------------ */

static const char scale[] =
    "/* KERNEL void scale(wrong) { */\n"
    "KERNEL void scale(GLOBAL const f32 *x, GLOBAL f32 *y, const u32 n, f32 by);\n"
    "#define OFFSET_OR(z) OFFSET // BARRIER()\n"
    "KERNEL REQUIRE_GROUP(64, 1, 1) void scale(GLOBAL const f32 *x /* in, */, GLOBAL f32 *RESTRICT "
    "y,\n    const u32 n, f32 by) {\n"
    "  u32 i = GLOBAL_ID_X;\n"
    "  if (i < n) y[i] = by * x[i] + OFFSET_OR(0);\n"
    "}\n"
    "KERNEL void other(GLOBAL f32 *y) { y[GLOBAL_ID_X] = 0; }\n";

static void a_kernel_scales(void **state) {
  NEEDS_COMPILER;
  float in[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; i++) in[i] = (float)i;
  compute_kernel *kernel = compile(scale, "scale", "-DOFFSET=0.5f  -DUNUSED");
  compute_tensor *x = tensor(COMPUTE_F32, COUNT, in), *y = tensor(COMPUTE_F32, COUNT, NULL);
  const uint32_t n = COUNT - 1;
  const float by = 2;
  const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_TENSOR(y),
                                               COMPUTE_KERNEL_VALUE(n), COMPUTE_KERNEL_VALUE(by)};
  const compute_launch launch = {.groups = {(COUNT + 63) / 64}, .group = {64}};
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(cpu, &queue));
  assert_ok(compute_kernel_launch(kernel, &launch, arguments, 4, queue));
  assert_ok(compute_queue_wait(queue));
  assert_ok(compute_tensor_read(y, out, sizeof out));
  for (int i = 0; i + 1 < COUNT; i++) assert_true(out[i] == 2 * (float)i + 0.5F);
  assert_true(out[COUNT - 1] == -1);
  assert_ok(compute_kernel_launch(kernel, &(compute_launch){.groups = {0}}, arguments, 4, NULL));
  compute_queue_release(queue);
  compute_kernel_release(kernel);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static const char where[] =
    "DEVICE u32 position(void) {\n"
    "  return (GLOBAL_ID_Z * GROUP_SIZE_Y * GROUP_COUNT_Y + GLOBAL_ID_Y) * GROUP_SIZE_X *\n"
    "         GROUP_COUNT_X + GLOBAL_ID_X;\n"
    "}\n"
    "KERNEL void where(GLOBAL u32 *out, GLOBAL i32 *sum) {\n"
    "  u32 id = GROUP_ID_X + 10 * GROUP_ID_Y + 100 * GROUP_ID_Z;\n"
    "  WAIT\n"
    "  out[position()] = id * 1000 + LOCAL_ID_X + 10 * LOCAL_ID_Y + 100 * LOCAL_ID_Z;\n"
    "  ATOMIC_ADD(sum, 1);\n"
    "}\n";

static void items_know_where_they_are(void **state) {
  NEEDS_COMPILER;
  static const char *const waits[] = {"-DWAIT=", "-DWAIT=BARRIER();"};
  enum { X = 3 * 5, Y = 2 * 4, Z = 2 * 2 };
  for (int way = 0; way < 2; way++) {
    /* The search for BARRIER covers only the source, so the source contains the word. */
    char source[2048];
    snprintf(source, sizeof source, "%s%s", way ? "/**/\n#define UNUSED BARRIER()\n" : "", where);
    compute_kernel *kernel = compile(source, "where", waits[way]);
    static const int32_t zero;
    compute_tensor *out = tensor(COMPUTE_I32, X * Y * Z, NULL),
                   *sum = tensor(COMPUTE_I32, 1, &zero);
    assert_ok(compute_kernel_launch(
        kernel, &(compute_launch){.groups = {3, 2, 2}, .group = {5, 4, 2}},
        (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(out), COMPUTE_KERNEL_TENSOR(sum)}, 2,
        NULL));
    for (int z = 0, at = 0; z < Z; z++)
      for (int y = 0; y < Y; y++)
        for (int x = 0; x < X; x++, at++)
          assert_true(test_element(out, at) ==
                      (x / 5 + y / 4 * 10 + z / 2 * 100) * 1000 + x % 5 + y % 4 * 10 + z % 2 * 100);
    assert_true(test_element(sum, 0) == X * Y * Z);
    compute_kernel_release(kernel);
    compute_tensor_release(out);
    compute_tensor_release(sum);
  }
}

/* ---- With barriers --------------------------------------------------------------------------- */

/* Sums each group by halving; every item also reads its neighbour before and after. */
static const char reduce[] =
    "DEVICE f32 halve(LOCAL f32 *part, u32 size) {\n"
    "  for (u32 half = size / 2; half > 0; half /= 2) {\n"
    "    if (LOCAL_ID_X < half) part[LOCAL_ID_X] += part[LOCAL_ID_X + half];\n"
    "    BARRIER();\n"
    "  }\n"
    "  return part[0];\n"
    "}\n"
    "KERNEL void reduce(GLOBAL const f32 *x, GLOBAL f32 *sums, GLOBAL f32 *turned) {\n"
    "  LOCAL_ARRAY(f32, part, 256);\n"
    "  LOCAL_ARRAY(f32, kept, 256);\n"
    "  u32 i = LOCAL_ID_X, n = GROUP_SIZE_X;\n"
    "  f32 mine[300];\n"
    "  for (u32 k = 0; k < 300; k++) mine[k] = (f32)(i + k);\n"
    "  part[i] = x[GLOBAL_ID_X];\n"
    "  kept[i] = x[GLOBAL_ID_X];\n"
    "  BARRIER();\n"
    "  f32 whole = halve(part, n);\n"
    "  turned[GLOBAL_ID_X] = kept[n - 1 - i] + whole + mine[i % 300] - (f32)(i + i % 300);\n"
    "  if (i == 0) sums[GROUP_ID_X] = whole;\n"
    "}\n";

static void items_wait_for_each_other(void **state) {
  NEEDS_COMPILER;
  enum { GROUP = 256, GROUPS = 37 };
  float in[GROUP * GROUPS], sums[GROUPS], turned[GROUP * GROUPS];
  for (int i = 0; i < GROUP * GROUPS; i++) in[i] = (float)(i % 1000);
  compute_kernel *kernel = compile(reduce, "reduce", NULL);
  compute_tensor *x = tensor(COMPUTE_F32, GROUP * GROUPS, in),
                 *s = tensor(COMPUTE_F32, GROUPS, NULL);
  compute_tensor *t = tensor(COMPUTE_F32, GROUP * GROUPS, NULL);
  const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_TENSOR(s),
                                               COMPUTE_KERNEL_TENSOR(t)};
  for (uint32_t group = GROUP; group >= 64; group /= 2) /* stacks are reused */
    assert_ok(compute_kernel_launch(kernel, &(compute_launch){.groups = {GROUPS}, .group = {group}},
                                    arguments, 3, NULL));
  assert_ok(compute_kernel_launch(kernel, &(compute_launch){.groups = {GROUPS}, .group = {GROUP}},
                                  arguments, 3, NULL));
  assert_ok(compute_tensor_read(s, sums, sizeof sums));
  assert_ok(compute_tensor_read(t, turned, sizeof turned));
  for (int g = 0; g < GROUPS; g++) {
    float expected = 0;
    for (int i = 0; i < GROUP; i++) expected += in[g * GROUP + i];
    assert_true(sums[g] == expected);
    for (int i = 0; i < GROUP; i++)
      assert_true(turned[g * GROUP + i] == in[g * GROUP + GROUP - 1 - i] + expected);
  }
  compute_kernel_release(kernel);
  compute_tensor_release(x);
  compute_tensor_release(s);
  compute_tensor_release(t);
}

static void a_barrier_that_some_miss_is_a_failure(void **state) {
  NEEDS_COMPILER;
  compute_kernel *kernel = compile("KERNEL void some(GLOBAL i32 *x) {\n"
                                   "  if (LOCAL_ID_X == 3) return;\n"
                                   "  BARRIER_GLOBAL();\n"
                                   "  x[GLOBAL_ID_X] = 1;\n"
                                   "}\n",
                                   "some", NULL);
  compute_tensor *x = tensor(COMPUTE_I32, 64, NULL);
  const compute_kernel_argument argument = COMPUTE_KERNEL_TENSOR(x);
  const compute_launch launch = {.groups = {8}, .group = {8}}, fine = {.groups = {8}, .group = {3}};
  assert_fails(compute_kernel_launch(kernel, &launch, &argument, 1, NULL), COMPUTE_ERROR_LAUNCH);
  test_check_message(context, "waited at a barrier");
  assert_ok(compute_kernel_launch(kernel, &fine, &argument, 1, NULL));
  assert_true(test_element(x, 0) == 1);
  compute_kernel_release(kernel);
  compute_tensor_release(x);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void what_is_wrong_is_said(void **state) {
  NEEDS_COMPILER;
  compute_kernel *kernel = NULL;
  static const struct {
    const char *source, *message;
  } sources[] = {
      {"KERNEL void k(GLOBAL f32 *x) { x[0] = nothing; }", "k:1:"},
      {"KERNEL void other(void) {}", "is not in the source"},
      {"void k(void) {}", "is not in the source"},
      {"KERNEL void k(f32 x[4]) { }", "write a pointer"},
      {"KERNEL void k(f32) { }", "write a pointer"},
      {"#define HIDE(a, b) a##b()\nKERNEL void k(void) { HIDE(BARR, IER); }", "does not compile"},
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    assert_fails(
        compute_kernel_compile(cpu, sources[i].source, "k", NULL, COMPUTE_KERNEL_PORTABLE, &kernel),
        COMPUTE_ERROR_COMPILATION);
    test_check_message(context, sources[i].message);
    assert_null(kernel);
  }
  assert_fails(compute_kernel_compile(cpu, scale, "scale", NULL, 0, &kernel),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "no language of its own");
  kernel = compile(scale, "scale", "-DOFFSET=0");
  compute_tensor *x = tensor(COMPUTE_F32, 4, NULL);
  const uint32_t n = 4;
  const double wide = 1;
  const compute_launch one = {.groups = {1}, .group = {4}};
  compute_kernel_argument a[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_TENSOR(x),
                                 COMPUTE_KERNEL_VALUE(n), COMPUTE_KERNEL_VALUE(wide)};
  assert_fails(compute_kernel_launch(kernel, &one, a, 3, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(context, "takes 4 arguments, not 3");
  assert_fails(compute_kernel_launch(kernel, &one, a, 4, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(context, "argument 3 has 8 bytes, the parameter 4");
  a[3] = COMPUTE_KERNEL_TENSOR(x);
  assert_fails(compute_kernel_launch(kernel, &one, a, 4, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  a[3] = COMPUTE_KERNEL_LOCAL(64);
  assert_fails(compute_kernel_launch(kernel, &one, a, 4, NULL), COMPUTE_ERROR_UNSUPPORTED);
  a[3] = COMPUTE_KERNEL_VALUE(n);
  const compute_launch large = {.groups = {1}, .group = {64, 17}};
  const compute_launch many = {.groups = {UINT32_MAX}, .group = {2}};
  assert_fails(compute_kernel_launch(kernel, &large, a, 4, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(context, "at most 1024");
  assert_fails(compute_kernel_launch(kernel, &many, a, 4, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_kernel_release(kernel);
  compute_tensor_release(x);
}

static compute_status try_with(const char *variable, const char *value) {
  compute_kernel *kernel = NULL;
  char *before = getenv(variable) ? strdup(getenv(variable)) : NULL;
  setenv(variable, value, 1);
  const compute_status status =
      compute_kernel_compile(cpu, "KERNEL void k(GLOBAL f32 *x) { x[GLOBAL_ID_X] = 3; }", "k", NULL,
                             COMPUTE_KERNEL_PORTABLE, &kernel);
  compute_kernel_release(kernel);
  if (before)
    setenv(variable, before, 1);
  else
    unsetenv(variable);
  free(before);
  return status;
}

/* Objects loaded at the same time are distinguished, even if one takes the place of an earlier
 * one. */
static void kernels_do_not_take_each_others_code(void **state) {
  NEEDS_COMPILER;
  enum { KERNELS = 5, ROUNDS = 3 };
  compute_kernel *kernels[KERNELS] = {NULL};
  const compute_launch one = {.groups = {1}, .group = {1}};
  compute_tensor *x = tensor(COMPUTE_F32, 1, NULL);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = round; i < KERNELS; i++) {
      char source[80];
      snprintf(source, sizeof source, "KERNEL void k(GLOBAL f32 *x) { x[0] = %d; }",
               100 * round + i);
      compute_kernel_release(kernels[i]);
      kernels[i] = compile(source, "k", NULL);
    }
    for (int i = 0; i < KERNELS; i++) {
      float value = -1;
      const compute_kernel_argument a[] = {COMPUTE_KERNEL_TENSOR(x)};
      assert_ok(compute_kernel_launch(kernels[i], &one, a, 1, NULL));
      assert_ok(compute_tensor_read(x, &value, sizeof value));
      assert_int_equal((int)value, 100 * (i < round ? i : round) + i);
    }
  }
  for (int i = 0; i < KERNELS; i++) compute_kernel_release(kernels[i]);
  compute_tensor_release(x);
}

static void the_compiler_can_be_chosen(void **state) {
  (void)state;
  assert_fails(try_with("COMPUTE_CC", "none"), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "COMPUTE_CC=none");
  assert_fails(try_with("COMPUTE_CC", TEST_NOWHERE), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, TEST_NOWHERE);
  assert_fails(try_with("COMPUTE_CC", "relative/cc"), COMPUTE_ERROR_UNSUPPORTED);
  assert_fails(try_with("PATH", TEST_NOWHERE ":relative"), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "no C compiler");
  compute_error error;
  assert_ok(compute_error_get(context, &error));
  assert_non_null(strstr(error.remedy, "gcc and libc6-dev"));
  assert_fails(try_with("COMPUTE_CC", "/bin/false"), COMPUTE_ERROR_COMPILATION);
  if (access("/usr/bin/clang", X_OK) == 0) assert_ok(try_with("COMPUTE_CC", "clang"));
}

/* A new context uses the cached kernel without running the compiler. Another compiler compiles the
 * kernel again. */
static void kernels_are_kept_on_disk(void **state) {
  NEEDS_COMPILER;
  const char script[] = TEST_SCRATCH_DIR "/counting-cc";
  const char count[] = TEST_SCRATCH_DIR "/count";
  unlink(count);
  unlink(script);
  FILE *file = fopen(script, "w");
  assert_non_null(file);
  fprintf(file, "#!/bin/sh\necho >> %s\nexec cc \"$@\"\n", count);
  fclose(file);
  assert_int_equal(chmod(script, 0755), 0);
  struct stat status;
  for (int i = 0; i < 3; i++) {
    assert_ok(try_with("COMPUTE_CC", script));
    compute_close(context);
    open_context();
    assert_int_equal(stat(count, &status), 0);
    assert_int_equal(status.st_size, 1);
  }
  file = fopen(script, "a"); /* another compiler */
  fprintf(file, "# changed\n");
  fclose(file);
  assert_ok(try_with("COMPUTE_CC", script));
  assert_int_equal(stat(count, &status), 0);
  assert_int_equal(status.st_size, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kernel_scales),
      cmocka_unit_test(items_know_where_they_are),
      cmocka_unit_test(items_wait_for_each_other),
      cmocka_unit_test(a_barrier_that_some_miss_is_a_failure),
      cmocka_unit_test(what_is_wrong_is_said),
      cmocka_unit_test(kernels_do_not_take_each_others_code),
      cmocka_unit_test(the_compiler_can_be_chosen),
      cmocka_unit_test(kernels_are_kept_on_disk),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
