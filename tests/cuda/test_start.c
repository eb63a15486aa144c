/* SPDX-License-Identifier: MIT */
/* A process that finds all its kernels in the disk cache never opens NVRTC, compiles nothing, and
 * has its first result soon. Other tests depend on how CUDA was started. Each part runs in a
 * separate process, since an opened library stays open. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/drivers/device_job.h"
#include "support/harness/test.h"

enum { SKIPPED = 77 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static bool nvrtc_is_open(void) {
  return dlopen("libnvrtc.so.13", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

typedef struct first_result {
  compute_build_statistics builds;
  bool nvrtc;
  bool right;
  double milliseconds;
} first_result;

/* Measures from the start to the results of the job. */
static first_result start(const job_result *expected) {
  first_result r = {0};
  job_result result;
  compute_context *context = NULL;
  const double before = now();
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
  assert_ok(device_job(context, &result));
  r.milliseconds = now() - before;
  r.nvrtc = nvrtc_is_open();
  r.right = memcmp(&result, expected, sizeof result) == 0;
  assert_ok(compute_build_query(compute_default_device(context), &r.builds));
  assert_ok(compute_close(context));
  return r;
}

/* The same in a child process; its failures fail the test. The child calls `change` first. */
static first_result start_in_child(const job_result *expected, void (*change)(void)) {
  int ends[2], status = -1;
  first_result r = {0};
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    if (change) change();
    r = start(expected);
    _exit(write(ends[1], &r, sizeof r) == sizeof r ? 0 : 1);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &r, sizeof r), sizeof r);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  return r;
}

static cuda_stand_in gpu;
static job_result expected;

static void cache_anew(void) {
  static int number;
  char path[512];
  snprintf(path, sizeof path, "%s/cache_%d_%d", TEST_SCRATCH_DIR, (int)getpid(), number++);
  mkdir(path, 0700);
  setenv("COMPUTE_CACHE_DIR", path, 1);
}

static void what_the_cache_holds_needs_no_compiler(void **state) {
  (void)state;
  cache_anew();
  const first_result cold = start_in_child(&expected, NULL);
  assert_true(cold.nvrtc && cold.builds.programs_compiled > 0);
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    const first_result warm = start_in_child(&expected, NULL);
    assert_true(warm.right);
    assert_int_equal(warm.builds.programs_compiled, 0);
    assert_int_equal(warm.builds.programs_from_disk, cold.builds.programs_compiled);
    assert_false(warm.nvrtc);
    if (warm.milliseconds < best) best = warm.milliseconds;
  }
  print_message("first result after %.1f ms; with everything to compile, %.0f ms\n", best,
                cold.milliseconds);
  test_time("first result", "ms", best, 300);
}

/* Another folder may contain another version: a cache entry is valid only for the same search
 * path. */
static void elsewhere(void) {
  char folders[1024];
  snprintf(folders, sizeof folders, "%s:" TEST_NOWHERE, getenv("LD_LIBRARY_PATH"));
  setenv("LD_LIBRARY_PATH", folders, 1);
}

static void another_search_path_is_looked_through_again(void **state) {
  (void)state;
  cache_anew();
  start_in_child(&expected, NULL);
  const first_result other = start_in_child(&expected, elsewhere);
  assert_true(other.nvrtc && other.right);
  assert_int_equal(other.builds.programs_compiled, 0);
}

static void no_cache(void) {
  setenv("COMPUTE_CACHE_LIMIT", "0", 1);
}

static void without_a_cache_the_compiler_is_opened(void **state) {
  (void)state;
  const first_result r = start_in_child(&expected, no_cache);
  assert_true(r.nvrtc && r.right);
  assert_true(r.builds.programs_compiled > 0);
}

/* A process asks the driver for its version only once, so this test needs a new process. */
static void a_compiler_newer_than_the_driver_is_noted(void **state) {
  (void)state;
  int status = -1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    compute_context *context = NULL;
    compute_device_info info;
    assert_true(gpu.configure("driver_version=12040"));
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
    assert_ok(compute_device_describe(compute_default_device(context), &info));
    if (!strstr(info.notes, "newer than the driver") || !strstr(info.notes, "libnvrtc.so.12"))
      fail_msg("the notes are \"%s\"", info.notes);
    assert_ok(compute_close(context));
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* The reference also comes from the GPU, so that it is the same to the last bit. */
static void reference(void) {
  int ends[2], status = -1;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    compute_context *context = NULL;
    if (compute_open(&context, &(compute_open_options){.device = "cuda:0"}) != COMPUTE_OK)
      _exit(SKIPPED);
    const bool good = device_job(context, &expected) == COMPUTE_OK &&
                      write(ends[1], &expected, sizeof expected) == sizeof expected;
    compute_close(context);
    _exit(good ? 0 : 1);
  }
  close(ends[1]);
  const bool got = read(ends[0], &expected, sizeof expected) == sizeof expected;
  close(ends[0]);
  if (waitpid(child, &status, 0) != child || !got || status != 0) {
    fprintf(stderr, "Skipped: no device cuda:0.\n");
    exit(WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED ? SKIPPED : 1);
  }
}

static bool opencl_is_open(void) {
  return dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

/* Registers an OpenCL driver in a folder of the scratch folder. */
static void register_driver(const char *folder, const char *file, const char *library) {
  char path[512];
  mkdir(folder, 0700);
  snprintf(path, sizeof path, "%s/%s", folder, file);
  FILE *icd = fopen(path, "w");
  assert_non_null(icd);
  fprintf(icd, "%s\n", library);
  assert_int_equal(fclose(icd), 0);
}

static void list_devices(compute_context *context) {
  (void)compute_device_at(context, 0);
}

static void ask_for_opencl(compute_context *context) {
  compute_device *device;
  (void)compute_device_by_name(context, "opencl:0", &device);
}

static void ask_for_cuda(compute_context *context) {
  compute_device *device;
  (void)compute_device_by_name(context, "cuda:0", &device);
}

/* Checks, in a child process, that OpenCL is open or closed: after the default device is known, and
 * after `ask`. No cache remembers the drivers' devices. */
static void open_beside_opencl(const char *backends, const char *drivers, bool for_default,
                               void (*ask)(compute_context *), bool afterwards) {
  int status = -1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    compute_context *context;
    setenv("OCL_ICD_VENDORS", drivers, 1);
    setenv("COMPUTE_CACHE_LIMIT", "0", 1);
    if (compute_open(&context, &(compute_open_options){.backends = backends}) != COMPUTE_OK)
      _exit(1);
    if (opencl_is_open()) _exit(4);
    (void)compute_default_device(context);
    if (opencl_is_open() != for_default) _exit(2);
    ask(context);
    _exit(opencl_is_open() == afterwards ? 0 : 3);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* OpenCL would make a second context on each GPU. Without CUDA, its devices rank highest; another
 * driver's devices may also rank highest. */
static void opencl_on_the_same_gpus_waits_until_it_is_needed(void **state) {
  static const char *const nvidia = TEST_SCRATCH_DIR "/nvidia", *const both =
                                                                    TEST_SCRATCH_DIR "/both";
  (void)state;
  register_driver(nvidia, "nvidia.icd", "libnvidia-opencl.so.1");
  register_driver(both, "nvidia.icd", "/usr/lib/libnvidia-opencl.so.1");
  register_driver(both, "other.icd", "/usr/lib/libother.so");
  open_beside_opencl("cpu,cuda,opencl", nvidia, false, ask_for_opencl, true);
  open_beside_opencl("cpu,cuda,opencl", nvidia, false, list_devices, true);
  open_beside_opencl("cpu,cuda,opencl", nvidia, false, ask_for_cuda, false);
  open_beside_opencl("cpu,cuda,opencl", both, true, ask_for_cuda, true);
  open_beside_opencl("cpu,opencl", nvidia, true, ask_for_opencl, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_cache_holds_needs_no_compiler),
      cmocka_unit_test(another_search_path_is_looked_through_again),
      cmocka_unit_test(without_a_cache_the_compiler_is_opened),
      cmocka_unit_test(a_compiler_newer_than_the_driver_is_noted),
      cmocka_unit_test(opencl_on_the_same_gpus_waits_until_it_is_needed),
  };
  if (!cuda_stand_in_open(&gpu)) {
    fprintf(stderr, "Skipped: no stand-in for the CUDA driver.\n");
    return SKIPPED;
  }
  reference();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
