/* SPDX-License-Identifier: MIT */
/* When OpenCL's drivers are started: only when one of their devices may be needed, and not again
 * while they are known to have no devices. The driver is the test's (opencl_layer/idle_driver.c).
 * Each part runs in a separate process, since a loaded driver stays loaded. */
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness/test.h"

#define VENDORS TEST_SCRATCH_DIR "/vendors"
#define ICD     VENDORS "/idle.icd"
#define DRIVER  TEST_SCRATCH_DIR "/libidle.so"
#define LOG     TEST_SCRATCH_DIR "/log"
#define CACHE   TEST_SCRATCH_DIR "/cache"

/* ---- Files --------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void copy_driver(void) {
  char command[2048];
  snprintf(command, sizeof command, "rm -f '" DRIVER "' && cp '%s' '" DRIVER "'", TEST_IDLE_DRIVER);
  assert_int_equal(system(command), 0);
}

static int prepare(void **state) {
  (void)state;
  if (system("rm -rf '" CACHE "' '" VENDORS "' && mkdir -p '" VENDORS "'") != 0) return 1;
  copy_driver();
  write_text(ICD, DRIVER "\n");
  setenv("OCL_ICD_VENDORS", VENDORS, 1);
  setenv("CL_IDLE_DRIVER_LOG", LOG, 1);
  setenv("COMPUTE_CACHE_DIR", CACHE, 1);
  unsetenv("OPENCL_LAYERS");
  unsetenv("COMPUTE_DEVICE");
  unsetenv("COMPUTE_BACKENDS");
  return 0;
}

/* Calls `function` with each entry of the disk cache. */
static void each_record(void (*function)(const char *path)) {
  char path[512];
  DIR *folder = opendir(CACHE "/kernels");
  assert_non_null(folder);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, CACHE "/kernels/%s", entry->d_name);
    function(path);
    count++;
  }
  closedir(folder);
  assert_int_equal(count, 1);
}

/* ---- Starts -------------------------------------------------------------------------------- */

typedef void part(compute_context *context);

/* Counts the starts of the driver in a process that opens a context and calls `use` with it; `line`
 * gets the last line of the driver's log. */
static int starts_and_line(const compute_open_options *options, part *use, char line[128]) {
  unlink(LOG);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    compute_context *context = NULL;
    alarm(60);
    if (compute_open(&context, options)) _exit(1);
    if (use) use(context);
    _exit(compute_close(context) ? 2 : 0);
  }
  int status = -1, count = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  FILE *file = fopen(LOG, "re");
  line[0] = '\0';
  while (file && fgets(line, 128, file)) count++;
  if (file) fclose(file);
  return count;
}

static int starts(const compute_open_options *options, part *use) {
  char line[128];
  return starts_and_line(options, use, line);
}

static const compute_open_options none, cpu = {.device = "cpu"};

static void ask_default(compute_context *context) {
  if (!compute_default_device(context)) _exit(10);
}

static void list_devices(compute_context *context) {
  if (compute_device_at(context, 100)) _exit(11);
}

static void list_modules(compute_context *context) {
  if (!compute_probe_at(context, 0)) _exit(12);
}

static void name_cpu(compute_context *context) {
  compute_device *device;
  if (compute_device_by_name(context, "cpu", &device)) _exit(13);
}

static void name_opencl(compute_context *context) {
  compute_device *device;
  if (compute_device_by_name(context, "opencl:0", &device) != COMPUTE_ERROR_NO_DEVICE) _exit(14);
}

static void compute_in_scope(compute_context *context) {
  compute_device *device;
  compute_tensor *x = NULL, *y = NULL;
  if (compute_device_by_name(context, "cpu", &device) || compute_device_push(device)) _exit(15);
  if (compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(10), 1, &x) ||
      compute_tensor_exp(x, &y))
    _exit(16);
  compute_tensor_release(x);
  compute_tensor_release(y);
  if (compute_device_pop(context)) _exit(17);
}

static void compile_for_cpu(compute_context *context) {
  compute_device *device;
  compute_plan *plan = NULL;
  compute_graph *graph = compute_graph_create(context);
  const compute_node y = compute_exp(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(10)));
  if (compute_device_by_name(context, "cpu", &device) ||
      compute_compile(graph, &y, 1, &(compute_plan_options){.device = device}, &plan))
    _exit(18);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void compile_for_any(compute_context *context) {
  compute_plan *plan = NULL;
  compute_graph *graph = compute_graph_create(context);
  const compute_node y = compute_exp(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(10)));
  if (compute_compile(graph, &y, 1, NULL, &plan)) _exit(19);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void stay_small(compute_context *context) {
  char line[128];
  long value, threads = 0;
  FILE *file = fopen("/proc/self/status", "re");
  (void)context;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "Threads: %ld", &value) == 1) threads = value;
  if (threads != 1) _exit(20);
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void the_driver_can_be_seen(void **state) {
  (void)state;
  if (starts(&none, list_modules) == 0) test_skip("no OpenCL loader");
}

static void a_named_device_starts_no_other_driver(void **state) {
  (void)state;
  assert_int_equal(starts(&cpu, NULL), 0);
  assert_int_equal(starts(&cpu, ask_default), 0);
  assert_int_equal(starts(&cpu, compile_for_any), 0);
  assert_int_equal(starts(&cpu, name_cpu), 0);
  assert_int_equal(starts(&cpu, stay_small), 0);
  assert_int_equal(starts(&(compute_open_options){.backends = "cpu"}, ask_default), 0);
  setenv("COMPUTE_DEVICE", "cpu", 1);
  assert_int_equal(starts(&none, ask_default), 0);
  unsetenv("COMPUTE_DEVICE");
  setenv("COMPUTE_BACKENDS", "cpu,null", 1);
  assert_int_equal(starts(&none, ask_default), 0);
  unsetenv("COMPUTE_BACKENDS");
}

static void scopes_and_options_of_plans_name_devices_too(void **state) {
  (void)state;
  assert_int_equal(starts(&none, NULL), 0);
  assert_int_equal(starts(&none, name_cpu), 0);
  assert_int_equal(starts(&none, compute_in_scope), 0);
  assert_int_equal(starts(&none, compile_for_cpu), 0);
}

static void what_is_asked_for_is_started(void **state) {
  (void)state;
  assert_int_equal(starts(&cpu, name_opencl), 1);
  assert_int_equal(starts(&cpu, list_devices), 1);
  assert_int_equal(starts(&cpu, list_modules), 1);
  prepare(NULL);
  assert_int_equal(starts(&none, compile_for_any), 1);
  prepare(NULL);
  assert_int_equal(starts(&none, ask_default), 1);
}

static void drivers_that_offer_nothing_are_remembered(void **state) {
  (void)state;
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
  assert_int_equal(starts(&none, compile_for_any), 0);
  assert_int_equal(starts(&none, list_devices), 1); /* the list needs all devices */
  assert_int_equal(starts(&none, ask_default), 0);
}

static void changes_are_noticed(void **state) {
  (void)state;
  assert_int_equal(starts(&none, ask_default), 1);
  copy_driver();
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
  write_text(ICD, DRIVER "\n");
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
  write_text(VENDORS "/second.icd", "libnone.so.1\n");
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
  static const char *const variables[] = {"RUSTICL_ENABLE", "POCL_DEVICES", "LD_LIBRARY_PATH",
                                          "OCL_ICD_FILENAMES"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    setenv(variables[i], "/changed", 1);
    assert_int_equal(starts(&none, ask_default), 1);
    unsetenv(variables[i]);
    assert_int_equal(starts(&none, ask_default), 0);
  }
  setenv("TEST_UNRELATED", "changed", 1);
  assert_int_equal(starts(&none, ask_default), 0);
  unsetenv("TEST_UNRELATED");
}

static void open_to_others(const char *path) {
  assert_int_equal(chmod(path, 0666), 0);
}

static void damage(const char *path) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  assert_true(file >= 0 && pwrite(file, "9", 1, 90) == 1);
  close(file);
}

static void a_record_that_others_can_write_is_not_believed(void **state) {
  (void)state;
  assert_int_equal(starts(&none, ask_default), 1);
  each_record(open_to_others);
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
  each_record(damage);
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 0);
}

static void without_a_cache_drivers_are_started(void **state) {
  (void)state;
  setenv("COMPUTE_CACHE_LIMIT", "0", 1);
  assert_int_equal(starts(&none, ask_default), 1);
  assert_int_equal(starts(&none, ask_default), 1);
  unsetenv("COMPUTE_CACHE_LIMIT");
}

static void a_drivers_threads_inherit_neither_signals_nor_rounding(void **state) {
  (void)state;
  char line[128];
  fesetround(FE_UPWARD);
  const int count = starts_and_line(&cpu, list_devices, line);
  const int rounding = fegetround();
  fesetround(FE_TONEAREST);
  assert_int_equal(count, 1);
  assert_string_equal(line, "signals blocked, faults open, rounding default\n");
  assert_int_equal(rounding, FE_UPWARD);
}

static void keeps_what_the_caller_has(compute_context *context) {
  sigset_t mask;
  fesetround(FE_DOWNWARD);
  list_devices(context);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  if (fegetround() != FE_DOWNWARD || sigismember(&mask, SIGINT)) _exit(21);
}

static void the_caller_keeps_signals_and_rounding(void **state) {
  (void)state;
  assert_int_equal(starts(&cpu, keeps_what_the_caller_has), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_driver_can_be_seen, prepare),
      cmocka_unit_test_setup(a_named_device_starts_no_other_driver, prepare),
      cmocka_unit_test_setup(scopes_and_options_of_plans_name_devices_too, prepare),
      cmocka_unit_test_setup(what_is_asked_for_is_started, prepare),
      cmocka_unit_test_setup(drivers_that_offer_nothing_are_remembered, prepare),
      cmocka_unit_test_setup(changes_are_noticed, prepare),
      cmocka_unit_test_setup(a_record_that_others_can_write_is_not_believed, prepare),
      cmocka_unit_test_setup(without_a_cache_drivers_are_started, prepare),
      cmocka_unit_test_setup(a_drivers_threads_inherit_neither_signals_nor_rounding, prepare),
      cmocka_unit_test_setup(the_caller_keeps_signals_and_rounding, prepare),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
