/* SPDX-License-Identifier: MIT */
/* Generated OpenCL C compiles without a warning for every device of this machine. The test takes
 * one source in COMPUTE_TEST_SPREAD, chosen by the seed (test_seed), or all with COMPUTE_TEST_LONG.
 * This test checks the dialect; the emulator's faster compiler checks that all sources compile
 * (test_numbers.c). */
#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/samples/sample_sources.h"
#include "support/harness/test.h"

/* ---- The necessary part of OpenCL 1.2 ------------------------------------------------------ */

enum {
  DEVICE_TYPE_ALL = -1,
  DEVICE_NAME = 0x102B,
  DEVICE_EXTENSIONS = 0x1030,
  DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
  BUILD_LOG = 0x1183,
  MOST_DEVICES = 16
};

typedef struct opencl {
  int32_t (*get_platforms)(uint32_t count, void **platforms, uint32_t *found);
  int32_t (*get_devices)(void *platform, uint64_t type, uint32_t count, void **devices,
                         uint32_t *found);
  int32_t (*get_device_info)(void *device, uint32_t what, size_t bytes, void *value, size_t *used);
  void *(*create_context)(const intptr_t *properties, uint32_t count, void *const *devices,
                          void *notify, void *user, int32_t *error);
  void *(*create_program)(void *context, uint32_t count, const char **texts, const size_t *lengths,
                          int32_t *error);
  int32_t (*build_program)(void *program, uint32_t count, void *const *devices, const char *options,
                           void *notify, void *user);
  int32_t (*get_build_info)(void *program, void *device, uint32_t what, size_t bytes, void *value,
                            size_t *used);
  int32_t (*release_program)(void *program);
  int32_t (*release_context)(void *context);
} opencl;

static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool load(opencl *cl) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return library && find(library, "clGetPlatformIDs", &cl->get_platforms) &&
         find(library, "clGetDeviceIDs", &cl->get_devices) &&
         find(library, "clGetDeviceInfo", &cl->get_device_info) &&
         find(library, "clCreateContext", &cl->create_context) &&
         find(library, "clCreateProgramWithSource", &cl->create_program) &&
         find(library, "clBuildProgram", &cl->build_program) &&
         find(library, "clGetProgramBuildInfo", &cl->get_build_info) &&
         find(library, "clReleaseProgram", &cl->release_program) &&
         find(library, "clReleaseContext", &cl->release_context);
}

static uint32_t find_devices(const opencl *cl, void *devices[MOST_DEVICES]) {
  void *platforms[MOST_DEVICES];
  uint32_t platform_count = 0, count = 0;
  if (cl->get_platforms(MOST_DEVICES, platforms, &platform_count)) return 0;
  for (uint32_t p = 0; p < platform_count && p < MOST_DEVICES; p++) {
    uint32_t found = 0;
    if (count < MOST_DEVICES && cl->get_devices(platforms[p], (uint32_t)DEVICE_TYPE_ALL,
                                                MOST_DEVICES - count, devices + count, &found) == 0)
      count += found;
    if (count > MOST_DEVICES) count = MOST_DEVICES;
  }
  return count;
}

/* A command line argument: restricts the tests to samples whose names contain it. */
static const char *part = "";

/* ---- Words of the language ----------------------------------------------------------------- */

/* Type names that other dialects do not reserve. */
static const char *const reserved[] = {"half", "quad", "complex", "imaginary", "event_t"};

static bool is_of_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* A type is followed by a name, a "*" or the end of a cast. */
static const char *find_as_name(const char *text, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += length) {
    if ((at > text && is_of_word(at[-1])) || is_of_word(at[length])) continue;
    const char *next = at + length + strspn(at + length, " ");
    if (!is_of_word(*next) && *next != '*' && *next != ')') return at;
  }
  return NULL;
}

static void no_source_has_a_name_that_the_language_reserves(void **state) {
  (void)state;
  assert_non_null(find_as_name("half f(half *x) { f32 half[2]; }", "half"));
  assert_null(find_as_name("half f(half *x) { vload_half(0, (half *)x); }", "half"));
  sample_sources sources = sample_sources_create(COMPUTE_DIALECT_OPENCL, part);
  for (size_t i = 0; i < sources.count; i++)
    for (size_t w = 0; w < sizeof reserved / sizeof *reserved; w++) {
      const char *found = find_as_name(sources.sources[i].text, reserved[w]);
      if (found) fail_msg("%s: %.60s", sources.sources[i].name, found);
    }
  sample_sources_release(&sources);
}

/* ---- Compiling ----------------------------------------------------------------------------- */

static bool compile_one(const opencl *cl, void *context, void *device, const char *device_name,
                        const sample_source *source) {
  int32_t error = 0;
  const char *text = source->text;
  void *program = cl->create_program(context, 1, &text, NULL, &error);
  if (!error) error = cl->build_program(program, 1, &device, "-cl-std=CL1.2 -Werror", NULL, NULL);
  if (error) {
    char log[1500] = "";
    size_t bytes = 0;
    if (program && !cl->get_build_info(program, device, BUILD_LOG, 0, NULL, &bytes) && bytes) {
      char *whole = calloc(1, bytes + 1);
      if (whole) cl->get_build_info(program, device, BUILD_LOG, bytes, whole, NULL);
      snprintf(log, sizeof log, "%s", whole ? whole : "");
      free(whole);
    }
    fprintf(stderr, "%s for %s: error %d\n%s\n", source->name, device_name, error, log);
  }
  if (program) cl->release_program(program);
  return error == 0;
}

static int compile_for(const opencl *cl, void *device, const sample_sources *sources, int worker,
                       int workers) {
  char name[128] = "", extensions[8192] = "";
  int32_t error = 0;
  uint32_t width = 0;
  int failures = 0;
  void *context = cl->create_context(NULL, 1, &device, NULL, NULL, &error);
  cl->get_device_info(device, DEVICE_NAME, sizeof name - 1, name, NULL);
  cl->get_device_info(device, DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
  cl->get_device_info(device, DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof width, &width, NULL);
  if (error) {
    fprintf(stderr, "%s has no context: error %d\n", name, error);
    return 1;
  }
  const bool f64 = strstr(extensions, "cl_khr_fp64") != NULL;
  const bool all = getenv("COMPUTE_TEST_LONG") != NULL;
  for (size_t i = (size_t)worker; i < sources->count; i += (size_t)workers) {
    if (!all && !test_in_spread(i / (size_t)workers)) continue;
    if (sources->sources[i].f64 && !f64) continue;
    if (sources->sources[i].vector_width > width) continue;
    if (!compile_one(cl, context, device, name, &sources->sources[i])) failures++;
  }
  cl->release_context(context);
  return failures;
}

static int compile(const sample_sources *sources, int worker, int workers) {
  opencl cl;
  void *devices[MOST_DEVICES];
  int failures = 0;
  if (!load(&cl)) return -1;
  const uint32_t count = find_devices(&cl, devices);
  for (uint32_t d = 0; d < count; d++)
    failures += compile_for(&cl, devices[d], sources, worker, workers);
  return count == 0 ? -1 : failures;
}

static void sources_compile_without_a_warning(void **state) {
  (void)state;
  setenv("POCL_CACHE_DIR", TEST_SCRATCH_DIR, 0);
  sample_sources sources = sample_sources_create(COMPUTE_DIALECT_OPENCL, part);
  assert_true(sources.count > 0);
  const int failures = sample_sources_in_parallel(&sources, compile);
  const size_t count = sources.count;
  sample_sources_release(&sources);
  if (failures < 0) test_skip("no OpenCL device");
  print_message("%zu sources\n", count);
  if (failures > 0) fail_msg("%d of %zu sources do not compile", failures, count);
}

int main(int argc, char **argv) {
  if (argc > 1) part = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_source_has_a_name_that_the_language_reserves),
      cmocka_unit_test(sources_compile_without_a_warning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
