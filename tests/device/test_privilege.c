/* SPDX-License-Identifier: MIT */
/* A program with raised privileges (set-user-ID and similar) opens modules and libraries that it
 * names itself, but none selected by its caller's environment. This file overrides the test for
 * raised privileges; tests/privileged has a program with a real set-user-ID bit. */
#include "support/harness/test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/backend.h"
#include "core/base/variable.h"
#include "core/platform/privilege.h"

#define FOLDER TEST_SCRATCH_DIR "/modules"
#define GOOD   TEST_MODULE_DIR "/libcompute-null.so"

static bool raised;

bool privilege_raised(void) {
  return raised;
}

static int raise_privileges(void **state) {
  (void)state;
  static const char *const variables[] = {"COMPUTE_BACKENDS", "COMPUTE_DEVICE", "COMPUTE_BLAS"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  raised = true;
  return 0;
}

static int lower_privileges(void **state) {
  (void)state;
  raised = false;
  unsetenv("COMPUTE_BACKENDS");
  unsetenv("COMPUTE_DEVICE");
  return 0;
}

static compute_context *open_with(const char *folder, const char *backends, const char *device) {
  const compute_open_options options = {
      .backend_path = folder, .backends = backends, .device = device};
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &options));
  return context;
}

static const compute_probe *probe_of(const compute_context *context, const char *name) {
  const compute_probe *probe = NULL;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++)
    if (strcmp(probe->name, name) == 0) return probe;
  return NULL;
}

static bool is_refused(const compute_probe *probe) {
  return probe->state == COMPUTE_PROBE_DISABLED && strstr(probe->detail, "raised privileges");
}

/* Checks that a module was refused, and that the probe explains why and how to request it. */
static void expect_refused(const compute_context *context, const char *name) {
  const compute_probe *probe = probe_of(context, name);
  if (!probe) return; /* not built */
  if (!is_refused(probe))
    fail_msg("%s: %s: %s", name, compute_probe_state_text(probe->state), probe->detail);
  assert_int_equal(probe->device_count, 0);
  assert_non_null(strstr(probe->remedy, "options.backends"));
}

static const char *cpu_driver(compute_context *context) {
  static compute_device_info info;
  compute_device *cpu = NULL;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_describe(cpu, &info));
  return info.driver;
}

/* ---- Modules ------------------------------------------------------------------------------- */

static void by_default_there_is_the_cpu(void **state) {
  (void)state;
  compute_context *context = open_with(TEST_MODULE_DIR, NULL, NULL);
  expect_refused(context, "opencl");
  expect_refused(context, "cuda");
  assert_int_equal(probe_of(context, "cpu")->state, COMPUTE_PROBE_LOADED);
  assert_int_equal(probe_of(context, "null")->state, COMPUTE_PROBE_LOADED);
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  assert_string_equal(info.name, "cpu");
  assert_ok(compute_close(context));
}

static bool has_opencl(void) {
  return access(TEST_MODULE_DIR "/libcompute-opencl.so", R_OK) == 0;
}

static void the_options_ask_for_a_module(void **state) {
  (void)state;
  if (!has_opencl()) test_skip("the OpenCL module is not built");
  compute_context *context = open_with(TEST_MODULE_DIR, "cpu,opencl", NULL);
  assert_false(is_refused(probe_of(context, "opencl")));
  assert_ok(compute_close(context));

  const compute_open_options options = {.backend_path = TEST_MODULE_DIR, .device = "opencl:0"};
  const compute_status status = compute_open(&context, &options);
  if (status != COMPUTE_OK) { /* the module was opened, but has no device on this machine */
    assert_int_equal(status, COMPUTE_ERROR_NO_DEVICE);
    assert_null(strstr(compute_error_message(NULL), "raised privileges"));
    test_skip("no OpenCL device");
  }
  assert_int_equal(probe_of(context, "opencl")->state, COMPUTE_PROBE_LOADED);
  expect_refused(context, "cuda");
  assert_ok(compute_close(context));
}

static void the_environment_cannot_ask_for_a_module(void **state) {
  (void)state;
  setenv("COMPUTE_BACKENDS", "cpu,opencl,cuda", 1);
  compute_context *context = open_with(TEST_MODULE_DIR, NULL, NULL);
  expect_refused(context, "opencl");
  expect_refused(context, "cuda");
  assert_ok(compute_close(context));
}

static void the_environment_cannot_ask_for_a_device(void **state) {
  (void)state;
  if (!has_opencl()) test_skip("the OpenCL module is not built");
  compute_context *context = NULL;
  setenv("COMPUTE_DEVICE", "opencl:0", 1);
  const compute_open_options options = {.backend_path = TEST_MODULE_DIR};
  assert_int_equal(compute_open(&context, &options), COMPUTE_ERROR_NO_DEVICE);
  assert_non_null(strstr(compute_error_message(NULL), "raised privileges"));
}

/* Writes the null module with a vtable that ends before `flags`, as in an older minor version. */
static void write_module_of_before(void) {
  const struct {
    uint64_t struct_size;
    uint32_t abi_major, abi_minor;
  } from = {sizeof(compute_backend), COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR},
    to = {offsetof(compute_backend, flags), COMPUTE_BACKEND_ABI_MAJOR, 4};
  FILE *file = fopen(GOOD, "rb");
  assert_non_null(file);
  static unsigned char image[1 << 20];
  const size_t bytes = fread(image, 1, sizeof image, file);
  fclose(file);
  assert_true(bytes < sizeof image); /* complete */
  int changed = 0;
  for (size_t i = 0; i + sizeof from <= bytes; i += 8) {
    if (memcmp(image + i, &from, sizeof from) != 0) continue;
    memcpy(image + i, &to, sizeof to);
    changed++;
  }
  assert_int_equal(changed, 1);
  mkdir(FOLDER, 0700);
  file = fopen(FOLDER "/libcompute-null.so", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(image, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void a_module_that_promises_nothing_must_be_asked_for(void **state) {
  (void)state;
  write_module_of_before();
  compute_context *context = open_with(FOLDER ":" TEST_MODULE_DIR, NULL, NULL);
  expect_refused(context, "null");
  compute_device *null = NULL; /* and does not block a module that makes the promise */
  assert_ok(compute_device_by_name(context, "null", &null));
  assert_ok(compute_close(context));
  context = open_with(FOLDER, "null", "null");
  assert_int_equal(probe_of(context, "null")->state, COMPUTE_PROBE_LOADED);
  assert_ok(compute_close(context));
  remove(FOLDER "/libcompute-null.so");
}

static void without_raised_privileges_nothing_is_refused(void **state) {
  (void)state;
  raised = false;
  compute_context *context = open_with(TEST_MODULE_DIR, NULL, NULL);
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++)
    assert_false(is_refused(probe));
  assert_null(strstr(cpu_driver(context), "raised privileges"));
  assert_ok(compute_close(context));
}

/* ---- BLAS ---------------------------------------------------------------------------------- */

static void the_cpu_has_a_blas_only_if_asked_for(void **state) {
  (void)state;
  compute_context *first = open_with(TEST_MODULE_DIR, NULL, NULL);
  assert_non_null(strstr(cpu_driver(first), "none: the program runs with raised privileges"));
  /* The process has one library, but not every context may use it. */
  compute_context *second = open_with(TEST_MODULE_DIR, "cpu", NULL);
  assert_null(strstr(cpu_driver(second), "raised privileges"));
  assert_non_null(strstr(cpu_driver(first), "none: the program runs with raised privileges"));
  assert_ok(compute_close(second));

  const float four[4] = {1, 2, 3, 4};
  float product[4] = {0};
  compute_tensor *a = NULL, *b = NULL;
  assert_ok(compute_tensor_from_host(compute_default_device(first), COMPUTE_F32,
                                     COMPUTE_SHAPE(2, 2), four, &a));
  assert_ok(compute_tensor_matmul(a, a, &b));
  assert_ok(compute_tensor_read(b, product, sizeof product));
  assert_true(product[0] == 7 && product[1] == 10 && product[2] == 15 && product[3] == 22);
  compute_tensor_release(a);
  compute_tensor_release(b);
  assert_ok(compute_close(first));
}

/* ---- Variables ----------------------------------------------------------------------------- */

static void variables_that_name_files_or_code_are_ignored(void **state) {
  (void)state;
  static const char *const ignored[] = {"COMPUTE_BACKEND_PATH",
                                        "COMPUTE_CACHE_DIR",
                                        "COMPUTE_PROFILE",
                                        "COMPUTE_TRACE",
                                        "COMPUTE_TUNING",
                                        "COMPUTE_BLAS",
                                        "COMPUTE_TUNING_FILE",
                                        "COMPUTE_DUMP",
                                        "LD_LIBRARY_PATH",
                                        "XDG_CACHE_HOME",
                                        "HOME"};
  static const char *const heeded[] = {"COMPUTE_BACKENDS", "COMPUTE_THREADS", "COMPUTE_LOG"};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
    char before[4096] = "";
    const char *value = getenv(ignored[i]);
    if (value) snprintf(before, sizeof before, "%s", value);
    setenv(ignored[i], TEST_NOWHERE, 1);
    if (variable_text(ignored[i])) fail_msg("%s is read", ignored[i]);
    raised = false;
    assert_string_equal(variable_text(ignored[i]), TEST_NOWHERE);
    raised = true;
    if (value)
      setenv(ignored[i], before, 1);
    else
      unsetenv(ignored[i]);
  }
  for (size_t i = 0; i < sizeof heeded / sizeof *heeded; i++) {
    setenv(heeded[i], "1", 1);
    assert_string_equal(variable_text(heeded[i]), "1");
    unsetenv(heeded[i]);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, raise_privileges, lower_privileges)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(by_default_there_is_the_cpu),
      TEST(the_options_ask_for_a_module),
      TEST(the_environment_cannot_ask_for_a_module),
      TEST(the_environment_cannot_ask_for_a_device),
      TEST(a_module_that_promises_nothing_must_be_asked_for),
      TEST(without_raised_privileges_nothing_is_refused),
      TEST(the_cpu_has_a_blas_only_if_asked_for),
      TEST(variables_that_name_files_or_code_are_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
