/* SPDX-License-Identifier: MIT */
/* Runs whose GPU fails. They are repeated on the CPU if that is correct; otherwise the error
 * explains why. Parameters are updated once or not at all. A hanging kernel is detected, and its
 * device is left alone until the kernel has ended. On the stand-in of tests/cuda_driver/. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, HANG_SECONDS = 600, N = 6 };

static cuda_stand_in gpu;
static compute_context *context;
static compute_device *cpu, *cuda;
static int warnings;

static void count_warnings(void *user, compute_log_level level, const char *module,
                           const char *message) {
  (void)user;
  (void)module;
  warnings += level <= COMPUTE_LOG_WARNING && strstr(message, "repeated on the CPU");
}

static int set_up(void **state) {
  (void)state;
  alarm(HANG_SECONDS);
  failing_allocator_install();
  assert_true(gpu.configure(""));
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_by_name(context, "cuda:0", &cuda));
  compute_log_set(count_warnings, NULL, COMPUTE_LOG_WARNING);
  warnings = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char text[256];
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  assert_true(gpu.configure("keep=1"));
  test_close(context);
  assert_true(gpu.configure(""));
  if (gpu.live(text, sizeof text)) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
  const int64_t leaked = failing_allocator_remove();
  if (leaked != 0) fail_msg("%lld blocks of memory leaked", (long long)leaked);
  alarm(0);
  return 0;
}

/* y = sum over rows of softmax(x · w) · x: several steps. x and the result are on the given
 * device. */
typedef struct model {
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *in, *out;
} model;

static compute_fallback_statistics fallbacks(void) {
  compute_fallback_statistics statistics;
  assert_ok(compute_fallback_query(context, &statistics));
  return statistics;
}

static model make(compute_device *where, compute_fallback fallback) {
  float x[N * N], w[N * N];
  for (int i = 0; i < N * N; i++) {
    x[i] = (float)(i % 7) - 2;
    w[i] = (float)(i % 5) - 1;
  }
  model m = {0};
  compute_graph *graph = compute_graph_create(context);
  m.x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N, N));
  const compute_node c = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(N, N), w);
  const compute_node hidden = compute_softmax(graph, compute_matmul(graph, m.x, c), -1);
  m.y = compute_sum(graph, compute_mul(graph, hidden, m.x), COMPUTE_AXES(1), false);
  assert_ok(compute_compile(
      graph, &m.y, 1, &(compute_plan_options){.device = cuda, .fallback = fallback}, &m.plan));
  compute_graph_release(graph); /* the plan keeps its nodes */
  assert_ok(compute_tensor_from_host(where, COMPUTE_F32, COMPUTE_SHAPE(N, N), x, &m.in));
  assert_ok(compute_tensor_full(where, COMPUTE_F32, COMPUTE_SHAPE(N), 0, &m.out));
  return m;
}

static void release(model *m) {
  compute_plan_release(m->plan);
  compute_tensor_release(m->in);
  compute_tensor_release(m->out);
}

static compute_status run(const model *m, const compute_run_options *options,
                          compute_run_report *report) {
  return compute_run_with(m->plan, (compute_binding[]){{m->x, m->in}, {m->y, m->out}}, 2, options,
                          report);
}

/* Compares with the CPU's result. */
static void check_result(const model *m) {
  static float expected[N];
  float found[N], x[N * N];
  if (expected[0] == 0) {
    float h[N];
    for (int i = 0; i < N * N; i++) x[i] = (float)(i % 7) - 2;
    for (int i = 0; i < N; i++) {
      double sum = 0, result = 0;
      for (int j = 0; j < N; j++) {
        double s = 0;
        for (int k = 0; k < N; k++) s += (double)x[i * N + k] * ((k * N + j) % 5 - 1);
        h[j] = (float)__builtin_exp(s);
        sum += h[j];
      }
      for (int j = 0; j < N; j++) result += h[j] / sum * (double)x[i * N + j];
      expected[i] = (float)result;
    }
  }
  assert_ok(compute_tensor_read(m->out, found, sizeof found));
  for (int i = 0; i < N; i++) {
    const float difference = found[i] - expected[i];
    if (difference > 1e-3F || difference < -1e-3F)
      fail_msg("element %d is %g, not %g", i, (double)found[i], (double)expected[i]);
  }
}

static void order(const char *orders) {
  char text[200];
  snprintf(text, sizeof text, "keep=1,%s", orders);
  assert_true(gpu.configure(text));
}

/* ---- Repeated on the CPU ------------------------------------------------------------------- */

/* A plan's first run is step by step; later runs are recordings. */
static void make_anew(model *m) {
  order("");
  release(m);
  *m = make(cuda, COMPUTE_FALLBACK_WARN);
}

static void check_repeated(const char *orders, compute_status cause) {
  model m = make(cuda, COMPUTE_FALLBACK_WARN);
  compute_run_report report;
  assert_ok(run(&m, NULL, &report));
  check_result(&m);
  assert_int_equal(report.fallbacks, 0);
  assert_ptr_equal(report.device, cuda);
  const uint64_t before = fallbacks().runs_on_cpu;
  make_anew(&m);
  order(orders);
  assert_ok(run(&m, NULL, &report));
  assert_true(gpu.failures(NULL) > 0);
  assert_int_equal(report.fallbacks, 1);
  assert_ptr_equal(report.device, cpu);
  assert_int_equal(report.failure, cause);
  assert_int_equal(fallbacks().runs_on_cpu, before + 1);
  assert_int_equal(warnings, 1);
  order("");
  check_result(&m);
  /* Once without a warning, once without a fallback. */
  make_anew(&m);
  order(orders);
  assert_ok(run(&m, &(compute_run_options){.fallback = COMPUTE_FALLBACK_SILENT}, NULL));
  assert_int_equal(warnings, 1);
  make_anew(&m);
  order(orders);
  assert_fails(run(&m, &(compute_run_options){.fallback = COMPUTE_FALLBACK_STRICT}, &report),
               cause);
  assert_int_equal(report.fallbacks, 0);
  order("");
  assert_ok(run(&m, NULL, &report)); /* the device works again */
  assert_int_equal(report.fallbacks, 0);
  check_result(&m);
  compute_error_clear(context);
  release(&m);
}

static void a_kernel_that_does_not_start_is_repeated_on_the_cpu(void **state) {
  (void)state;
  check_repeated("fail=cuLaunchKernel:1+:701", COMPUTE_ERROR_LAUNCH);
}

static void a_recording_that_does_not_start_is_repeated_on_the_cpu(void **state) {
  (void)state;
  model m = make(cuda, COMPUTE_FALLBACK_SILENT);
  compute_run_report report;
  for (int i = 0; i < 4; i++) assert_ok(run(&m, NULL, NULL));
  order("fail=cuGraphLaunch:1+:701");
  assert_ok(run(&m, NULL, &report));
  assert_true(gpu.failures(NULL) > 0);
  assert_int_equal(report.fallbacks, 1);
  order("");
  check_result(&m);
  release(&m);
}

static void a_full_device_leaves_the_run_to_the_cpu(void **state) {
  (void)state;
  model m = make(cpu, COMPUTE_FALLBACK_WARN);
  compute_run_report report;
  assert_ok(compute_pool_set_budget(cuda, 64));
  assert_ok(compute_pool_trim(cuda, 0));
  assert_ok(run(&m, NULL, &report));
  assert_int_equal(report.failure, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  check_result(&m);
  assert_fails(run(&m, &(compute_run_options){.fallback = COMPUTE_FALLBACK_STRICT}, NULL),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  compute_error_clear(context);
  assert_ok(compute_pool_set_budget(cuda, 0));
  assert_ok(run(&m, NULL, &report));
  assert_int_equal(report.fallbacks, 0);
  release(&m);
}

static void a_strict_plan_fails_as_it_is(void **state) {
  (void)state;
  model m = make(cuda, COMPUTE_FALLBACK_STRICT);
  order("fail=cuLaunchKernel:1+:701");
  assert_fails(run(&m, &(compute_run_options){.fallback = COMPUTE_FALLBACK_WARN}, NULL),
               COMPUTE_ERROR_LAUNCH); /* no inputs left for a repetition */
  assert_int_equal(fallbacks().runs_on_cpu, 0);
  compute_error_clear(context);
  order("");
  release(&m);
}

static void a_job_falls_back_as_a_run_does(void **state) {
  (void)state;
  model m = make(cuda, COMPUTE_FALLBACK_SILENT);
  compute_job *job = NULL;
  compute_job_info info;
  order("fail=cuLaunchKernel:1+:701");
  assert_ok(compute_submit(m.plan, (compute_binding[]){{m.x, m.in}, {m.y, m.out}}, 2, NULL, &job));
  assert_ok(compute_job_wait(job, 0));
  assert_ok(compute_job_describe(job, &info));
  assert_int_equal(info.fallbacks, 1);
  assert_int_equal(info.failure, COMPUTE_ERROR_LAUNCH);
  assert_ptr_equal(info.device, cpu);
  compute_job_release(job);
  order("");
  check_result(&m);
  release(&m);
}

/* The plan for the CPU is compiled on demand. If its memory is short, the failure is clean and the
 * next run works. */
static void a_repetition_may_run_out_of_memory(void **state) {
  (void)state;
  int64_t failures = 1, nth = 0;
  while (failures > 0 && nth < 2000) {
    model m = make(cuda, COMPUTE_FALLBACK_SILENT);
    nth += nth < 10 ? 1 : nth / 4;
    order("fail=cuLaunchKernel:1:701");
    failing_allocator_arm(nth, false);
    const compute_status s = run(&m, NULL, NULL);
    failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (s != COMPUTE_OK && s != COMPUTE_ERROR_LAUNCH && s != COMPUTE_ERROR_OUT_OF_MEMORY)
      fail_msg("allocation %lld: %s", (long long)nth, compute_error_message(context));
    order("");
    assert_ok(run(&m, NULL, NULL));
    check_result(&m);
    compute_error_clear(context);
    release(&m);
  }
  assert_true(nth > 20 && nth < 2000);
}

/* Invalid options are refused without a run. */
static void options_are_checked(void **state) {
  (void)state;
  model m = make(cuda, COMPUTE_FALLBACK_WARN);
  assert_fails(run(&m, &(compute_run_options){.time_limit = -1}, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(run(&m, &(compute_run_options){.fallback = 17}, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(run(&m, &(compute_run_options){.reserved = {0, 1}}, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_run_with(NULL, NULL, 0, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_error_clear(context);
  release(&m);
}

/* ---- Lost ---------------------------------------------------------------------------------- */

static void a_lost_device_leaves_what_lies_elsewhere_to_the_cpu(void **state) {
  (void)state;
  model near = make(cuda, COMPUTE_FALLBACK_WARN), far = make(cpu, COMPUTE_FALLBACK_WARN);
  compute_run_report report;
  order("fail=kernel:1:719");
  assert_ok(run(&far, NULL, &report));
  assert_int_equal(report.failure, COMPUTE_ERROR_DEVICE_LOST);
  check_result(&far);
  assert_ok(run(&far, NULL, &report)); /* again */
  assert_int_equal(report.fallbacks, 1);
  check_result(&far);
  assert_fails(run(&near, NULL, NULL), COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "is on the lost device");
  assert_fails(compute_device_recover(cuda), COMPUTE_ERROR_UNSUPPORTED);
  assert_ok(compute_device_recover(cpu));
  assert_fails(compute_device_recover(NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_error_clear(context);
  release(&near);
  release(&far);
}

/* ---- Parameters ---------------------------------------------------------------------------- */

/* w ← w − 0.5 · mean over rows of x; v ← v + w · 2: two parameters and a result. */
static int64_t step_with_failure(int64_t nth, int code) {
  const float start[N] = {1, 2, 3, 4, 5, 6};
  compute_tensor *w = NULL, *v = NULL, *x = NULL;
  compute_plan *plan = NULL;
  assert_true(gpu.configure(""));
  assert_ok(compute_tensor_from_host(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), start, &w));
  assert_ok(compute_tensor_from_host(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), start, &v));
  assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(4, N), 2, &x));
  compute_graph *graph = compute_graph_create(context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4, N));
  const compute_node a = compute_parameter(graph, w), b = compute_parameter(graph, v);
  const compute_node half = compute_scalar(graph, COMPUTE_F32, 0.5);
  const compute_node mean = compute_mean(graph, in, COMPUTE_AXES(0), false);
  const compute_node outputs[] = {
      compute_assign(graph, a, compute_sub(graph, a, compute_mul(graph, half, mean))),
      compute_assign(graph, b, compute_add(graph, b, compute_add(graph, a, a)))};
  assert_ok(compute_compile(graph, outputs, 2,
                            &(compute_plan_options){.device = cuda,
                                                    .fallback = COMPUTE_FALLBACK_SILENT,
                                                    .flags = COMPUTE_PLAN_NO_FUSION},
                            &plan));
  char orders[80];
  snprintf(orders, sizeof orders, "fail=cuLaunchKernel:%lld:%d", (long long)nth, code);
  order(orders);
  const compute_status s = compute_run(plan, (compute_binding[]){{in, x}}, 1, NULL);
  const int64_t failures = gpu.failures(NULL);
  order("");
  const bool old_w = test_element(w, 3) == 4, new_w = test_element(w, 3) == 3;
  const bool old_v = test_element(v, 3) == 4, new_v = test_element(v, 3) == 12;
  if (s == COMPUTE_OK) {
    assert_true(new_w && new_v);
  } else if (!old_w || !old_v) {
    assert_true((old_w || new_w) && (old_v || new_v));
    test_check_message(context, "may have been changed already");
  }
  compute_error_clear(context);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(w);
  compute_tensor_release(v);
  compute_tensor_release(x);
  return failures;
}

static void parameters_change_once_or_the_message_says_so(void **state) {
  (void)state;
  int64_t nth = 1;
  while (step_with_failure(nth, 701) > 0) nth++;
  assert_true(nth > 3);
}

/* ---- Hanging ------------------------------------------------------------------------------- */

static void nap(double duration) {
  nanosleep(
      &(struct timespec){(time_t)duration, (long)((duration - (double)(time_t)duration) * 1e9)},
      NULL);
}

/* Releases the hanging kernels and waits until the device has noticed. */
static void let_go(void) {
  order("hold_kernels=0");
  for (int i = 0; i < 100 * HANG_SECONDS && compute_device_recover(cuda) != COMPUTE_OK; i++)
    nap(0.01);
  assert_ok(compute_device_recover(cuda));
  compute_error_clear(context);
}

static void a_hanging_kernel_leaves_the_run_to_the_cpu(void **state) {
  (void)state;
  model m = make(cpu, COMPUTE_FALLBACK_WARN);
  compute_run_report report;
  assert_ok(run(&m, NULL, NULL));
  compute_tensor *kept = NULL, *none = NULL;
  assert_ok(compute_tensor_full(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &kept));
  order("hold_kernels=1");
  assert_ok(run(&m, &(compute_run_options){.time_limit = 0.1}, &report));
  assert_int_equal(report.failure, COMPUTE_ERROR_TIMEOUT);
  assert_ptr_equal(report.device, cpu);
  check_result(&m);
  /* While the kernel runs, the device is left alone. */
  assert_fails(compute_tensor_create(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), &none),
               COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "still running");
  assert_fails(compute_device_recover(cuda), COMPUTE_ERROR_DEVICE_LOST);
  compute_tensor_release(kept);
  assert_ok(run(&m, NULL, &report)); /* on the CPU again */
  assert_int_equal(report.failure, COMPUTE_ERROR_DEVICE_LOST);
  check_result(&m);
  /* After the kernel has ended, the device works again. */
  let_go();
  assert_int_equal(fallbacks().devices_recovered, 1);
  assert_ok(run(&m, NULL, &report));
  assert_int_equal(report.fallbacks, 0);
  check_result(&m);
  compute_error_clear(context);
  release(&m);
}

static void a_strict_run_says_that_its_kernel_hangs(void **state) {
  (void)state;
  model m = make(cpu, COMPUTE_FALLBACK_WARN);
  compute_queue *queue = NULL;
  assert_ok(run(&m, NULL, NULL));
  assert_ok(compute_queue_create(cuda, &queue));
  order("hold_kernels=1");
  const compute_run_options options = {
      .queue = queue, .time_limit = 0.05, .fallback = COMPUTE_FALLBACK_STRICT};
  assert_fails(run(&m, &options, NULL), COMPUTE_ERROR_TIMEOUT);
  test_check_message(context, "did not finish");
  assert_fails(compute_queue_wait(queue), COMPUTE_ERROR_DEVICE_LOST);
  compute_queue_release(queue); /* the queue and the plan, while the kernel runs */
  release(&m);
  let_go();
}

/* In a separate process, because the driver's objects stay there. */
static void a_context_closes_while_a_kernel_hangs(void **state) {
  (void)state;
  const pid_t child = fork();
  if (child == 0) {
    alarm(HANG_SECONDS);
    compute_context *own = NULL;
    compute_device *device = NULL;
    compute_tensor *x = NULL, *y = NULL;
    compute_plan *plan = NULL;
    bool ok = gpu.configure("") &&
              compute_open(&own, &(compute_open_options){.device = "cuda:0"}) == COMPUTE_OK &&
              compute_device_by_name(own, "cuda:0", &device) == COMPUTE_OK &&
              compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &x) == COMPUTE_OK &&
              compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &y) == COMPUTE_OK;
    compute_graph *graph = ok ? compute_graph_create(own) : NULL;
    const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
    const compute_node b = compute_neg(graph, a);
    ok = ok && compute_compile(graph, &b, 1, NULL, &plan) == COMPUTE_OK;
    const compute_binding bindings[] = {{a, x}, {b, y}};
    ok = ok && compute_run(plan, bindings, 2, NULL) == COMPUTE_OK &&
         gpu.configure("keep=1,hold_kernels=1"); /* forever */
    ok = ok && compute_run_with(plan, bindings, 2, &(compute_run_options){.time_limit = 0.05},
                                NULL) == COMPUTE_ERROR_TIMEOUT;
    compute_plan_release(plan);
    compute_graph_release(graph);
    compute_tensor_release(x);
    compute_tensor_release(y);
    ok = ok && compute_close(own) == COMPUTE_OK;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Copies -------------------------------------------------------------------------------- */

static void a_copy_that_fails_is_repeated_in_pieces(void **state) {
  (void)state;
  enum { BYTES = 1 << 20 };
  unsigned char *data = malloc(BYTES), *back = calloc(1, BYTES);
  compute_tensor *t = NULL;
  assert_true(data && back);
  for (int i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 7 + i / 256);
  assert_ok(compute_tensor_create(cuda, COMPUTE_U8, COMPUTE_SHAPE(BYTES), &t));
  order("fail=cuMemcpyHtoDAsync:1:999");
  assert_ok(compute_tensor_write(t, data, BYTES));
  assert_int_equal(fallbacks().split_transfers, 1);
  order("fail=cuMemcpyDtoHAsync:1:999");
  assert_ok(compute_tensor_read(t, back, BYTES));
  assert_int_equal(fallbacks().split_transfers, 2);
  assert_memory_equal(data, back, BYTES);
  order("fail=cuMemcpyHtoDAsync:1+:999");
  assert_fails(compute_tensor_write(t, data, BYTES), COMPUTE_ERROR_TRANSFER);
  test_check_message(context, "in pieces");
  order("");
  assert_ok(compute_tensor_write(t, data, BYTES));
  compute_error_clear(context);
  compute_tensor_release(t);
  free(data);
  free(back);
}

/* A parameter on the CPU is copied to the device within the run. */
static void a_copy_within_a_run_is_repeated_too(void **state) {
  (void)state;
  compute_tensor *w = NULL, *x = NULL, *y = NULL;
  compute_plan *plan = NULL;
  assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(N), 4, &w));
  assert_ok(compute_tensor_full(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), 3, &x));
  assert_ok(compute_tensor_full(cuda, COMPUTE_F32, COMPUTE_SHAPE(N), 0, &y));
  compute_graph *graph = compute_graph_create(context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
  const compute_node out = compute_mul(graph, in, compute_parameter(graph, w));
  assert_ok(compute_compile(
      graph, &out, 1, &(compute_plan_options){.device = cuda, .fallback = COMPUTE_FALLBACK_STRICT},
      &plan));
  order("fail=cuMemcpyHtoDAsync:1:999");
  assert_ok(compute_run(plan, (compute_binding[]){{in, x}, {out, y}}, 2, NULL));
  assert_int_equal(gpu.failures(NULL), 1);
  assert_true(test_element(y, N - 1) == 12);
  order("");
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(w);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void giving_back_what_is_cached_is_counted(void **state) {
  (void)state;
  compute_tensor *a = NULL, *b = NULL, *c = NULL;
  compute_context *small = NULL;
  assert_true(gpu.configure("memory=64M,no_pools=1"));
  assert_ok(compute_open(&small, &(compute_open_options){.device = "cuda:0"}));
  compute_device *device = compute_default_device(small);
  /* The pool's limit allows all three; the device's memory does not. */
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(30 << 20), &a));
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(20 << 20), &b));
  compute_tensor_release(b);
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(25 << 20), &c));
  compute_tensor_release(a);
  compute_tensor_release(c);
  compute_fallback_statistics statistics;
  assert_ok(compute_fallback_query(small, &statistics));
  assert_int_equal(statistics.evictions, 1);
  assert_ok(compute_close(small));
}

static void hang(int signal_number) {
  static const char words[] = "a test does not end\n";
  (void)signal_number;
  if (write(2, words, sizeof words - 1) < 0) _exit(2);
  _exit(1);
}

#define FALLBACK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_context_closes_while_a_kernel_hangs),
      FALLBACK_TEST(a_kernel_that_does_not_start_is_repeated_on_the_cpu),
      FALLBACK_TEST(a_recording_that_does_not_start_is_repeated_on_the_cpu),
      FALLBACK_TEST(a_full_device_leaves_the_run_to_the_cpu),
      FALLBACK_TEST(a_strict_plan_fails_as_it_is),
      FALLBACK_TEST(a_job_falls_back_as_a_run_does),
      FALLBACK_TEST(a_repetition_may_run_out_of_memory),
      FALLBACK_TEST(options_are_checked),
      FALLBACK_TEST(a_lost_device_leaves_what_lies_elsewhere_to_the_cpu),
      FALLBACK_TEST(parameters_change_once_or_the_message_says_so),
      FALLBACK_TEST(a_hanging_kernel_leaves_the_run_to_the_cpu),
      FALLBACK_TEST(a_strict_run_says_that_its_kernel_hangs),
      FALLBACK_TEST(a_copy_that_fails_is_repeated_in_pieces),
      FALLBACK_TEST(a_copy_within_a_run_is_repeated_too),
      cmocka_unit_test(giving_back_what_is_cached_is_counted),
  };
  signal(SIGALRM, hang);
  if (!cuda_stand_in_open(&gpu)) {
    print_message("libcuda.so.1 is not the stand-in: skipped\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
