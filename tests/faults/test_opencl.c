/* SPDX-License-Identifier: MIT */
/* A job on an OpenCL device with a failing driver: the n-th call of each kind fails, for n = 1, 2,
 * … until none is left to fail; and all calls from the n-th on fail. Each time the result is right
 * (by another way), or the error explains the failing call. Afterwards the same context works, if
 * necessary after its lost device was recovered. Nothing of the library or the driver is left
 * behind. Then come drivers with wrong device limits.
 *
 * The layer of tests/opencl_layer/ is between the loader and PoCL. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/drivers/device_job.h"
#include "support/harness/failing_allocator.h"
#include "support/drivers/opencl_layer.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, HANG_SECONDS = 600 };

/* Limits the failures of one kind: the first ones, then ever fewer. */
enum { FIRST_FAILURES = 6, GROWTH_PERCENT = 40 };

static opencl_layer layer;

static job_result expected; /* on the CPU */

static compute_status do_job(compute_context *context, job_result *result) {
  return device_job(context, result);
}

static void check_result(const job_result *result, const char *where) {
  device_job_check(result, &expected, where);
}

/* ---- One failure ----------------------------------------------------------------------------- */

static bool show_outcomes; /* COMPUTE_TEST_VERBOSE */

/* The current failure, printed if the test hangs. */
static char when[128];

static void hang(int signal_number) {
  static const char words[] = " does not end\n";
  (void)signal_number;
  if (write(2, when, strlen(when)) < 0 || write(2, words, sizeof words - 1) < 0) _exit(2);
  _exit(1);
}

static compute_status open_opencl(compute_context **context) {
  return compute_open(context, &(compute_open_options){.device = "opencl:0"});
}

static void check_words(compute_status status) {
  compute_error error;
  assert_ok(compute_error_get(NULL, &error));
  if (error.status != status || error.message[0] == '\0')
    fail_msg("%s: %s came without words of its own (%s \"%s\")", when, compute_status_name(status),
             compute_status_name(error.status), error.message);
}

static void check_nothing_left(int64_t live) {
  char text[256];
  if (layer.live(text, sizeof text) != 0) fail_msg("%s: left in the driver: %s", when, text);
  if (failing_allocator_live() != live)
    fail_msg("%s: %lld blocks of memory leaked", when,
             (long long)(failing_allocator_live() - live));
}

/* Opens, works and closes while `call` fails; returns the number of failed calls. */
static int64_t do_job_with_failure(const char *call, int64_t nth, bool onward, int error) {
  compute_context *context = NULL;
  const int64_t live = failing_allocator_live();
  snprintf(when, sizeof when, "%s number %lld%s failing with %d", call, (long long)nth,
           onward ? " and all after it" : "", error);
  alarm(HANG_SECONDS);
  compute_error_clear(NULL);
  assert_true(layer.arm(call, nth, onward, error));
  compute_status s = open_opencl(&context);
  job_result result;
  const bool opened = s == COMPUTE_OK;
  if (opened) s = do_job(context, &result);
  const int64_t failures = layer.failures(NULL);
  assert_true(layer.arm("any", 0, false, 0));
  if (show_outcomes)
    print_message("%s: %s %s\n", when, s == COMPUTE_OK ? "ok" : compute_status_name(s),
                  s == COMPUTE_OK ? "" : compute_error_message(NULL));
  if (s == COMPUTE_OK) check_result(&result, when);
  if (s != COMPUTE_OK) check_words(s);
  if (failures == 0 && s != COMPUTE_OK) fail_msg("%s: failed without a failure", when);
  if (opened) {
    if (s != COMPUTE_OK) s = do_job(context, &result);
    if (s == COMPUTE_ERROR_DEVICE_LOST) {
      s = compute_device_recover(compute_default_device(context));
      if (s == COMPUTE_OK) s = do_job(context, &result);
    }
    if (s != COMPUTE_OK)
      fail_msg("%s; the context is useless afterwards: %s", when, compute_error_message(context));
    check_result(&result, when);
    assert_ok(compute_close(context));
  } else if (context) {
    fail_msg("%s: compute_open failed and still returned a context", when);
  }
  check_nothing_left(live);
  alarm(0);
  return failures;
}

/* ---- The sweep ------------------------------------------------------------------------------ */

/* A typical error code of this call. */
static int likely_error(const char *call) {
  static const struct {
    const char *call;
    int error;
  } errors[] = {
      {"clGetPlatformIDs", -1001},        /* CL_PLATFORM_NOT_FOUND_KHR */
      {"clGetDeviceIDs", -1},             /* CL_DEVICE_NOT_FOUND */
      {"clCreateContext", -2},            /* CL_DEVICE_NOT_AVAILABLE */
      {"clCreateBuffer", -4},             /* CL_MEM_OBJECT_ALLOCATION_FAILURE */
      {"clBuildProgram", -11},            /* CL_BUILD_PROGRAM_FAILURE */
      {"clCreateProgramWithBinary", -42}, /* CL_INVALID_BINARY */
      {"clEnqueueNDRangeKernel", -54},    /* CL_INVALID_WORK_GROUP_SIZE */
      {"clEnqueueMapBuffer", -12},        /* CL_MAP_FAILURE */
      {"clWaitForEvents", -14},           /* CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST */
      {"clFinish", -36},                  /* CL_INVALID_COMMAND_QUEUE: the device is lost */
      {"clGetDeviceInfo", -30},           /* CL_INVALID_VALUE */
      {"clGetKernelWorkGroupInfo", -30},
  };
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (strcmp(errors[i].call, call) == 0) return errors[i].error;
  return -5; /* CL_OUT_OF_RESOURCES */
}

static int64_t next_failure(int64_t nth) {
  return nth < FIRST_FAILURES ? nth + 1 : nth + 1 + nth * GROWTH_PERCENT / 100;
}

static void any_call_may_fail_once(void **state) {
  (void)state;
  const char *call;
  int kinds = 0;
  for (uint32_t kind = 0; (call = layer.count(kind, NULL)) != NULL; kind++) {
    int64_t nth = 1;
    while (do_job_with_failure(call, nth, false, likely_error(call)) > 0) nth = next_failure(nth);
    kinds += nth > 1;
  }
  print_message("%d kinds of calls\n", kinds);
  assert_true(kinds > 10);
}

/* The device is lost, or memory stays short. */
static void a_driver_may_stop_working(void **state) {
  (void)state;
  static const int errors[] = {-5, -36, -6}; /* resources, queue, host memory */
  int64_t nth = 1;
  for (size_t i = 0; do_job_with_failure("any", nth, true, errors[i % 3]) > 0; i++)
    nth = next_failure(nth);
  assert_true(nth > 100);
}

/* ---- Drivers with wrong limits --------------------------------------------------------------- */

/* Returns the job's status; results are checked if it is COMPUTE_OK. */
static compute_status do_job_with(const layer_limits *limits, const char *name) {
  snprintf(when, sizeof when, "%s", name);
  const int64_t live = failing_allocator_live();
  compute_context *context = NULL;
  job_result result;
  alarm(HANG_SECONDS);
  compute_error_clear(NULL);
  layer.lie(limits);
  compute_status s = open_opencl(&context);
  if (s == COMPUTE_OK) s = do_job(context, &result);
  if (s == COMPUTE_OK) check_result(&result, when);
  if (s != COMPUTE_OK) check_words(s);
  assert_ok(compute_close(context));
  layer.lie(&(layer_limits){0});
  check_nothing_left(live);
  alarm(0);
  return s;
}

static void small_limits_are_kept(void **state) {
  (void)state;
  assert_ok(do_job_with(&(layer_limits){.group = 1}, "groups of one item"));
  assert_ok(do_job_with(&(layer_limits){.group = 7}, "groups of 7 items"));
  assert_ok(do_job_with(&(layer_limits){.group = 64}, "groups of 64 items"));
  assert_ok(do_job_with(&(layer_limits){.local = 1024}, "1 KiB of local memory"));
  assert_ok(do_job_with(&(layer_limits){.gpu = 1, .group = 32, .local = 2048}, "a small GPU"));
  assert_ok(do_job_with(&(layer_limits){.gpu = 1}, "a GPU"));
  assert_ok(do_job_with(&(layer_limits){.no_f64 = 1}, "no double precision"));
}

/* A launch refused despite the device's stated limits succeeds in another way or fails with a
 * message. */
static void limits_that_are_not_what_they_seem_are_survived(void **state) {
  (void)state;
  for (uint64_t group = 1; group <= 256; group *= 4) {
    const layer_limits limits = {.refuse_group = group};
    const compute_status s = do_job_with(&limits, "larger groups refused");
    if (s != COMPUTE_OK) assert_int_equal(s, COMPUTE_ERROR_LAUNCH);
  }
}

static void too_large_a_tensor_is_refused_and_the_next_one_works(void **state) {
  (void)state;
  static const layer_limits lies[] = {{.refuse_allocation = 1 << 20}, {.allocation = 1 << 20}};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    compute_context *context = NULL;
    compute_tensor *tensor = NULL;
    job_result result;
    layer.lie(&lies[i]);
    assert_ok(open_opencl(&context));
    compute_device *device = compute_default_device(context);
    assert_fails(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1 << 20), &tensor),
                 COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
    assert_ok(do_job(context, &result));
    check_result(&result, "small tensors after a large one");
    assert_ok(compute_close(context));
    layer.lie(&(layer_limits){0});
  }
}

/* ---- Batches -------------------------------------------------------------------------------- */

static void build_twice(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                        compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_add(graph, inputs[0], inputs[0]);
}

static compute_status read_numbers(void *user, int64_t first, int64_t items, void *data,
                                   int64_t *count) {
  float *to = data;
  (void)user;
  for (int64_t i = 0; i < items; i++) to[i] = (float)(first + i);
  *count = items;
  return COMPUTE_OK;
}

static compute_status check_numbers(void *user, int64_t first, int64_t items, const void *data) {
  const float *from = data;
  for (int64_t i = 0; i < items; i++) *(bool *)user |= from[i] != 2 * (float)(first + i);
  return COMPUTE_OK;
}

/* The device shares memory with the host when the iterator is made; later no shared memory is left.
 * Memory allocated then is separate, and the data are copied. */
static void batches_are_copied_where_no_memory_can_be_shared(void **state) {
  (void)state;
  enum { ITEMS = 5000 };
  compute_context *context = NULL;
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SCALAR};
  const compute_batch_options options = {.build = build_twice,
                                         .inputs = &port,
                                         .input_count = 1,
                                         .output_count = 1,
                                         .batch = 600,
                                         .fallback = COMPUTE_FALLBACK_STRICT};
  assert_ok(open_opencl(&context));
  for (int64_t nth = 1; nth < 6; nth += 2) { /* the first slots may still share memory */
    compute_batch *batch = NULL;
    compute_batch_result result;
    bool wrong = false;
    assert_ok(compute_batch_create(context, &options, &batch));
    assert_true(layer.arm("clSVMAlloc", nth, true, -4));
    assert_ok(compute_batch_run(
        batch,
        &(compute_batch_run_options){
            .items = ITEMS,
            .sources = (compute_batch_source[]){{.read = read_numbers}},
            .sinks = (compute_batch_sink[]){{.write = check_numbers, .user = &wrong}}},
        &result));
    assert_true(layer.failures(NULL) > 0);
    assert_true(layer.arm("any", 0, false, 0));
    assert_int_equal(result.items, ITEMS);
    assert_false(wrong);
    compute_batch_release(batch);
    assert_ok(compute_pool_trim(compute_default_device(context), 0));
  }
  test_close(context);
}

/* f64 falls back to the CPU with a reason, unless the caller forbids it. */
static void without_double_precision_f64_runs_on_the_cpu(void **state) {
  (void)state;
  compute_context *context = NULL;
  layer.lie(&(layer_limits){.no_f64 = 1});
  assert_ok(open_opencl(&context));
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4));
  const compute_node y = compute_exp(graph, x);
  compute_plan_options options = {.fallback = COMPUTE_FALLBACK_STRICT};
  compute_plan *plan = NULL;
  assert_fails(compute_compile(graph, &y, 1, &options, &plan), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "f64");
  options.fallback = COMPUTE_FALLBACK_SILENT;
  assert_ok(compute_compile(graph, &y, 1, &options, &plan));
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.fallbacks, 1);
  const double values[4] = {0, 1, -1, 2};
  double results[4];
  compute_tensor *in = test_tensor(context, COMPUTE_F64, COMPUTE_SHAPE(4), values), *out = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  assert_ok(compute_tensor_read(out, results, sizeof results));
  for (int i = 0; i < 4; i++) assert_true(fabs(results[i] - exp(values[i])) < 1e-14 * results[i]);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_close(context);
  layer.lie(&(layer_limits){0});
}

/* Without a usable device, the reason can be queried and the CPU works. */
static void a_device_that_cannot_be_used_is_explained(void **state) {
  (void)state;
  static const struct {
    layer_limits limits;
    const char *words;
  } cases[] = {
      {{.no_device = 1}, "no device"},
      {{.unavailable = 1}, "not available"},
      {{.no_compiler = 1}, "compiler"},
      {{.version = 11}, "1.2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_context *context = NULL;
    layer.lie(&cases[i].limits);
    assert_int_not_equal(open_opencl(&context), COMPUTE_OK);
    assert_null(context);
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
    const compute_probe *probe = NULL, *found = NULL;
    for (size_t k = 0; compute_device_at(context, k); k++) continue; /* opens all modules */
    for (size_t k = 0; (probe = compute_probe_at(context, k)) != NULL; k++)
      if (strcmp(probe->name, "opencl") == 0 && !found) found = probe;
    assert_non_null(found);
    assert_int_equal(found->state, COMPUTE_PROBE_NO_DEVICE);
    if (!strstr(found->detail, cases[i].words))
      fail_msg("\"%s\" does not say \"%s\"", found->detail, cases[i].words);
    if (found->remedy[0] == '\0') fail_msg("no remedy for \"%s\"", found->detail);
    job_result result;
    assert_ok(do_job(context, &result));
    check_result(&result, "on the CPU");
    test_close(context);
    layer.lie(&(layer_limits){0});
  }
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

/* Computes the reference, and fills PoCL's cache with a first job. */
static int prepare(void **state) {
  (void)state;
  signal(SIGALRM, hang);
  show_outcomes = getenv("COMPUTE_TEST_VERBOSE") != NULL;
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
  assert_ok(do_job(context, &expected));
  assert_ok(compute_close(context));
  failing_allocator_install();
  job_result result;
  assert_ok(open_opencl(&context));
  assert_ok(do_job(context, &result));
  check_result(&result, "without a failure");
  assert_ok(compute_close(context));
  return 0;
}

static int finish(void **state) {
  (void)state;
  return failing_allocator_remove() == 0 ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_call_may_fail_once),
      cmocka_unit_test(a_driver_may_stop_working),
      cmocka_unit_test(small_limits_are_kept),
      cmocka_unit_test(limits_that_are_not_what_they_seem_are_survived),
      cmocka_unit_test(too_large_a_tensor_is_refused_and_the_next_one_works),
      cmocka_unit_test(batches_are_copied_where_no_memory_can_be_shared),
      cmocka_unit_test(without_double_precision_f64_runs_on_the_cpu),
      cmocka_unit_test(a_device_that_cannot_be_used_is_explained),
  };
  compute_context *context = NULL;
  const bool there =
      opencl_layer_open(TEST_OPENCL_LAYER, &layer) && open_opencl(&context) == COMPUTE_OK;
  if (!there) {
    fprintf(stderr, "Skipped: no OpenCL device, or no layer at %s.\n", TEST_OPENCL_LAYER);
    return SKIPPED;
  }
  compute_close(context);
  return cmocka_run_group_tests(tests, prepare, finish);
}
