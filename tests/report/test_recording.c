/* SPDX-License-Identifier: MIT */
/* Recording: exact counts in bounded memory, consistent times, and files that can be parsed. */
#include "support/harness/test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/device/device.h"
#include "support/harness/failing_allocator.h"
#include "core/device/collector_private.h"

#define PROFILE_FILE TEST_SCRATCH_DIR "/profile.json"
#define TRACE_FILE   TEST_SCRATCH_DIR "/trace.json"

static compute_context *context;

static int setup(void **state) {
  (void)state;
  const compute_open_options options = {.backends = "cpu", .device = "cpu"};
  return compute_open(&context, &options) == COMPUTE_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

/* Python's result of an expression over the profile `p` and the trace `t`; both are written now. */
static const char *ask(const char *expression) {
  static char answer[4096];
  char command[2048];
  assert_ok(compute_profile_write(context, PROFILE_FILE));
  assert_ok(compute_profile_write_trace(context, TRACE_FILE));
  snprintf(
      command, sizeof command,
      "python3 -c 'import json,sys\n"
      "p,t=[json.load(open(f,encoding=\"utf-8\"),parse_constant=None) for f in sys.argv[1:3]]\n"
      "e=[x for x in t[\"traceEvents\"] if x[\"ph\"]==\"X\"]\n"
      "print(ascii(eval(sys.argv[3],globals())))' '%s' '%s' '%s'",
      PROFILE_FILE, TRACE_FILE, expression);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const size_t got = fread(answer, 1, sizeof answer - 1, pipe);
  answer[got] = '\0';
  if (got > 0 && answer[got - 1] == '\n') answer[got - 1] = '\0';
  if (pclose(pipe) != 0) fail_msg("%s", expression);
  return answer;
}

static void skip_without_python(void) {
  if (system("python3 -c pass >/dev/null 2>&1") == 0) return;
  test_skip("no python3 to read JSON with");
}

/* ---- A plan to run -------------------------------------------------------------------------- */

typedef struct fixture {
  compute_graph *graph;
  compute_node in, out;
  compute_plan *plan;
  compute_tensor *x, *y;
} fixture;

static fixture make_fixture(void) {
  fixture f;
  f.graph = compute_graph_create(context);
  f.in = compute_input(f.graph, COMPUTE_F32, COMPUTE_SHAPE(64, 64));
  const compute_node sums = compute_sum(f.graph, f.in, COMPUTE_AXES(1), false);
  f.out = compute_exp(f.graph, sums);
  const compute_plan_options options = {.flags = COMPUTE_PLAN_NO_FUSION, .name = "two \"steps\""};
  assert_ok(compute_compile(f.graph, &f.out, 1, &options, &f.plan));
  float zeros[64 * 64] = {0};
  f.x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(64, 64), zeros);
  f.y = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(64), NULL);
  return f;
}

static void run(const fixture *f, compute_tensor *y, int times) {
  const compute_binding bindings[] = {{f->in, f->x}, {f->out, y}};
  for (int i = 0; i < times; i++) assert_ok(compute_run(f->plan, bindings, 2, NULL));
}

static void release(fixture *f) {
  compute_tensor_release(f->x);
  compute_tensor_release(f->y);
  compute_plan_release(f->plan);
  compute_graph_release(f->graph);
}

/* ---- Counts and times ----------------------------------------------------------------------- */

static void what_ran_is_counted_and_its_times_fit_together(void **state) {
  (void)state;
  skip_without_python();
  fixture f;
  float host[64];
  assert_ok(compute_profile_start(context, NULL));
  f = make_fixture();
  run(&f, f.y, 7);
  assert_ok(compute_tensor_read(f.y, host, sizeof host));
  assert_ok(compute_profile_stop(context));
  run(&f, f.y, 3);
  assert_string_equal(ask("[k[\"count\"] for k in p[\"kernels\"]]"), "[7, 7]");
  assert_string_equal(ask("[k[\"device\"] for k in p[\"kernels\"]]"), "['cpu', 'cpu']");
  assert_string_equal(ask("[(r[\"name\"],r[\"detail\"],r[\"count\"]) for r in p[\"runs\"]]"),
                      "[('two \"steps\"', '2 steps', 7)]");
  assert_string_equal(ask("sorted((x[\"name\"],x[\"count\"],x[\"bytes\"]) "
                          "for x in p[\"transfers\"])"),
                      "[('download', 1, 256), ('upload', 1, 16384)]");
  assert_string_equal(ask("sorted(b[\"detail\"] for b in p[\"builds\"])"), "['map', 'reduce']");
  assert_string_equal(ask("[k[\"bytes\"] for k in p[\"kernels\"]]"),
                      "[116480, 3584]"); /* 7 · (64 · 64 + 64) · 4, 7 · 128 · 4 */
  /* The sums equal the timeline's to the nanosecond. */
  assert_string_equal(
      ask("[k[\"total_ns\"]==sum(round(x[\"dur\"]*1000) for x in e if x[\"name\"]==k[\"name\"] "
          "and x[\"cat\"]==\"kernel\") for k in p[\"kernels\"]]"),
      "[True, True]");
  assert_string_equal(ask("all(k[\"least_ns\"]<=k[\"median_ns\"]<=k[\"p90_ns\"]<=k[\"most_ns\"] "
                          "and k[\"least_ns\"]<=k[\"mean_ns\"]<=k[\"most_ns\"] "
                          "for k in p[\"kernels\"]+p[\"runs\"])"),
                      "True");
  /* Every kernel is inside exactly one run of its row. */
  assert_string_equal(
      ask("set(sum(r[\"cat\"]==\"run\" and (r[\"pid\"],r[\"tid\"])==(k[\"pid\"],k[\"tid\"]) and "
          "round(r[\"ts\"]*1e3)<=round(k[\"ts\"]*1e3) and "
          "round((k[\"ts\"]+k[\"dur\"])*1e3)<=round((r[\"ts\"]+r[\"dur\"])*1e3) "
          "for r in e) for k in e if k[\"cat\"]==\"kernel\" and k[\"args\"][\"detail\"]!=\"by "
          "itself\")"),
      "{1}");
  assert_string_equal(ask("p[\"recording\"][\"on\"],p[\"recording\"][\"timeline_dropped\"]"),
                      "(False, 0)");
  release(&f);
}

static void nothing_is_recorded_before_the_start_or_after_a_clear(void **state) {
  (void)state;
  skip_without_python();
  fixture f = make_fixture();
  run(&f, f.y, 2);
  assert_string_equal(ask("p[\"kernels\"],p[\"runs\"],e"), "([], [], [])");
  assert_ok(compute_profile_start(context, NULL));
  run(&f, f.y, 2);
  assert_ok(compute_profile_clear(context));
  assert_string_equal(ask("p[\"kernels\"],p[\"runs\"],e"), "([], [], [])");
  run(&f, f.y, 1);
  assert_string_equal(ask("[k[\"count\"] for k in p[\"kernels\"]]"), "[1, 1]");
  release(&f);
}

/* The whole compilation contains its passes, which follow each other. */
static void compilations_record_their_passes(void **state) {
  (void)state;
  skip_without_python();
  assert_ok(compute_profile_start(context, NULL));
  fixture f = make_fixture();
  run(&f, f.y, 1);
  assert_string_equal(
      ask("[(x[\"name\"],x[\"detail\"],x[\"count\"]) for x in p[\"passes\"] if x[\"detail\"]]"),
      "[('compile', 'two \"steps\"', 1)]");
  assert_string_equal(
      ask("[n for n in \"fold capture fuse order lower pack arena finish\".split() if "
          "[x[\"count\"] for x in p[\"passes\"] if x[\"name\"]==n] != [1]]"),
      "[]");
  assert_string_equal(ask("0<sum(x[\"total_ns\"] for x in p[\"passes\"] if not x[\"detail\"])<="
                          "sum(x[\"total_ns\"] for x in p[\"passes\"] if x[\"detail\"])"),
                      "True");
  release(&f);
}

/* Spans with unique names fill the table; the profile reports it, and recording continues. */
static void a_full_table_says_so(void **state) {
  (void)state;
  enum { MOST = 16384, MORE = 7 };
  fixture f = make_fixture();
  assert_ok(compute_profile_start(context, NULL));
  for (int i = 0; i < MOST + MORE; i++) {
    char name[32];
    snprintf(name, sizeof name, "span %d", i);
    const compute_profile_span span = compute_profile_span_begin(context, NULL, name);
    compute_profile_span_end(context, &span);
  }
  char *text = NULL;
  assert_ok(compute_profile_text(context, &text));
  assert_non_null(
      strstr(text, "7 operations are not listed: the profile is full with 16384 names"));
  compute_text_free(text);
  release(&f);
}

static void the_timeline_keeps_the_latest_and_says_what_it_dropped(void **state) {
  (void)state;
  skip_without_python();
  const compute_profile_options options = {.timeline_records = 10};
  fixture f = make_fixture();
  assert_ok(compute_profile_start(context, &options));
  run(&f, f.y, 20); /* each of 2 steps and a run */
  assert_string_equal(ask("len(e),t[\"otherData\"][\"dropped\"],"
                          "p[\"recording\"][\"timeline_dropped\"]"),
                      "(10, 50, 50)");
  assert_string_equal(ask("[k[\"count\"] for k in p[\"kernels\"]+p[\"runs\"]]"), "[20, 20, 20]");
  assert_string_equal(
      ask("[x[\"ts\"]+x[\"dur\"] for x in e]==sorted(x[\"ts\"]+x[\"dur\"] for x in e)"), "True");
  const compute_profile_options sums = {.flags = COMPUTE_PROFILE_NO_TIMELINE};
  assert_ok(compute_profile_clear(context));
  assert_ok(compute_profile_start(context, &sums));
  run(&f, f.y, 4);
  assert_string_equal(ask("len(e),[k[\"count\"] for k in p[\"kernels\"]]"), "(0, [4, 4])");
  release(&f);
}

/* ---- Threads ------------------------------------------------------------------------------- */

static const fixture *shared;
static atomic_bool done;

static void *run_often(void *argument) {
  compute_tensor *y = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(64), NULL);
  run(shared, y, *(const int *)argument);
  compute_tensor_release(y);
  return NULL;
}

static void run_in_two_threads(int times) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &times), 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void *start_and_stop(void *argument) {
  (void)argument;
  uintptr_t failures = 0;
  for (unsigned i = 0; !atomic_load(&done); i++) {
    char *text = NULL;
    const compute_profile_options options = {.timeline_records = 16 + i % 3};
    failures += compute_profile_start(context, &options) != COMPUTE_OK;
    failures += compute_profile_text(context, &text) != COMPUTE_OK;
    compute_text_free(text);
    failures += compute_profile_write_trace(context, TRACE_FILE) != COMPUTE_OK;
    if (i % 4 == 0) failures += compute_profile_clear(context) != COMPUTE_OK;
    failures += compute_profile_stop(context) != COMPUTE_OK;
  }
  return (void *)failures;
}

static void two_threads_lose_nothing_and_switching_disturbs_nobody(void **state) {
  (void)state;
  skip_without_python();
  fixture f = make_fixture();
  shared = &f;
  pthread_t switcher;
  void *failures;
  atomic_store(&done, false);
  assert_int_equal(pthread_create(&switcher, NULL, start_and_stop, NULL), 0);
  run_in_two_threads(200);
  atomic_store(&done, true);
  pthread_join(switcher, &failures);
  assert_null(failures);
  assert_ok(compute_profile_clear(context));
  assert_ok(compute_profile_start(context, NULL));
  run_in_two_threads(150);
  assert_string_equal(ask("[k[\"count\"] for k in p[\"kernels\"]+p[\"runs\"]]"), "[300, 300, 300]");
  release(&f);
}

/* ---- Spans, fallbacks, table ---------------------------------------------------------------- */

static void a_callers_spans_have_rows_of_their_own(void **state) {
  (void)state;
  skip_without_python();
  compute_profile_span early = compute_profile_span_begin(context, "slot 0", "not recorded");
  compute_profile_span_end(context, &early);
  assert_ok(compute_profile_start(context, NULL));
  compute_profile_span outer = compute_profile_span_begin(context, NULL, "job \\ \"1\"");
  compute_profile_span slot = compute_profile_span_begin(context, "slot 0", "upload");
  slot.bytes = 1000;
  compute_profile_span_end(context, &slot);
  compute_profile_span_end(context, &outer);
  compute_profile_span_end(NULL, &outer);
  assert_string_equal(ask("sorted((s[\"name\"],s[\"count\"],s[\"bytes\"]) for s in p[\"spans\"])"),
                      "[('job \\\\ \"1\"', 1, 0), ('upload', 1, 1000)]");
  assert_string_equal(ask("sorted(n[\"args\"][\"name\"].split()[0] for n in t[\"traceEvents\"] "
                          "if n[\"ph\"]==\"M\" and any(x[\"tid\"]==n[\"tid\"] for x in e))"),
                      "['slot', 'thread']");
}

static void fallbacks_are_counted_with_their_texts(void **state) {
  (void)state;
  skip_without_python();
  compute_fallback_statistics s;
  const compute_device *cpu = compute_default_device(context);
  fallback_note(context, cpu, FALLBACK_EVICTED, false, "gave back %d bytes", 64);
  assert_ok(compute_profile_start(context, NULL));
  for (int i = 0; i < 2; i++)
    fallback_note(context, NULL, FALLBACK_RUN_ON_CPU, false, "again \"%s\"", "so");
  assert_ok(compute_fallback_query(context, &s));
  assert_int_equal(s.evictions, 1);
  assert_int_equal(s.runs_on_cpu, 2);
  assert_string_equal(ask("[(x[\"kind\"],x[\"device\"],x[\"count\"],x[\"text\"]) "
                          "for x in p[\"fallbacks\"][\"texts\"]]"),
                      "[('evicted', 'cpu', 1, 'gave back 64 bytes'), "
                      "('run_on_cpu', '', 2, 'again \"so\"')]");
  assert_string_equal(ask("p[\"fallbacks\"][\"run_on_cpu\"]"), "2");
  assert_string_equal(
      ask("[x[\"args\"][\"text\"] for x in t[\"traceEvents\"] if x[\"ph\"]==\"i\"]"),
      "['again \"so\"', 'again \"so\"']");
  assert_fails(compute_fallback_query(context, NULL), COMPUTE_ERROR_NULL_POINTER);
}

static void the_table_names_what_costs_most_first(void **state) {
  (void)state;
  char *text = NULL;
  assert_ok(compute_profile_start(context, NULL));
  fixture f = make_fixture();
  run(&f, f.y, 5);
  assert_ok(compute_profile_text(context, &text));
  assert_non_null(strstr(text, "sum"));
  assert_non_null(strstr(text, "exp"));
  double last = 101, share;
  int lines = 0;
  for (char *line = strchr(text, '\n'); line && sscanf(line, " %lf%%", &share) == 1;
       line = strchr(line + 1, '\n'), lines++) {
    assert_true(share <= last);
    last = share;
  }
  assert_true(lines >= 4);
  compute_text_free(text);
  assert_fails(compute_profile_text(context, NULL), COMPUTE_ERROR_NULL_POINTER);
  release(&f);
}

/* ---- Timers of a device --------------------------------------------------------------------- */

static atomic_int timers_alive;
static int64_t device_time;

static compute_status timer_record(void *queue, void **timer) {
  (void)queue;
  int64_t *made = malloc(sizeof *made);
  *made = device_time += 1000;
  *timer = made;
  atomic_fetch_add(&timers_alive, 1);
  return COMPUTE_OK;
}

static compute_status timer_read(void *device, void *timer, int64_t *nanoseconds) {
  (void)device;
  *nanoseconds = *(int64_t *)timer;
  return COMPUTE_OK;
}

static void timer_destroy(void *device, void *timer) {
  (void)device;
  free(timer);
  atomic_fetch_sub(&timers_alive, 1);
}

static void a_devices_own_timers_are_read_later_and_given_back(void **state) {
  (void)state;
  skip_without_python();
  compute_device *device = compute_default_device(context);
  const compute_backend *real = device->backend;
  compute_backend timed = *real;
  timed.timer_record = timer_record;
  timed.timer_read = timer_read;
  timed.timer_destroy = timer_destroy;
  compute_queue *queue = NULL;
  fixture f = make_fixture();
  assert_ok(compute_queue_create(device, &queue));
  device->backend = &timed;
  assert_ok(compute_profile_start(context, NULL));
  const compute_binding bindings[] = {{f.in, f.x}, {f.out, f.y}};
  for (int i = 0; i < 3000; i++) assert_ok(compute_run(f.plan, bindings, 2, queue));
  assert_in_range(atomic_load(&timers_alive), 1, 2 * PROFILE_PENDING);
  assert_ok(compute_queue_wait(queue));
  assert_int_equal(atomic_load(&timers_alive), 0);
  assert_string_equal(
      ask("[k[\"count\"]+k[\"untimed\"] for k in p[\"kernels\"]+p[\"runs\"]],"
          "all(k[\"untimed\"]>0 and k[\"clock\"]==\"device\" for k in p[\"kernels\"]),"
          "[k[\"median_ns\"] for k in p[\"kernels\"]]"),
      "([3000, 3000, 3000], True, [1000, 1000])");
  assert_ok(compute_run(f.plan, bindings, 2, queue));
  assert_ok(compute_profile_clear(context)); /* runs in progress belong to the cleared data */
  assert_ok(compute_queue_wait(queue));
  assert_string_equal(ask("p[\"kernels\"]"), "[]");
  assert_ok(compute_run(f.plan, bindings, 2, queue));
  compute_queue_release(queue);
  assert_int_equal(atomic_load(&timers_alive), 0);
  device->backend = real;
  release(&f);
}

/* ---- Quantiles ----------------------------------------------------------------------------- */

static void quantiles_are_good_to_four_percent(void **state) {
  (void)state;
  histogram *h = calloc(1, sizeof *h);
  assert_non_null(h);
  assert_true(histogram_quantile(h, 0.5) == 0);
  for (uint64_t i = 1; i <= 100000; i++) histogram_add(h, i * 37);
  assert_int_equal(h->count, 100000);
  for (int q = 1; q < 10; q++)
    assert_true(fabs(histogram_quantile(h, q / 10.0) / (q * 370000.0) - 1) < 0.04);
  assert_true(histogram_quantile(h, 1) == 3700000 && histogram_quantile(h, 0) < 100);
  memset(h, 0, sizeof *h);
  histogram_add(h, UINT64_MAX);
  histogram_add(h, 0);
  assert_true(histogram_quantile(h, 0) == 0 && isfinite(histogram_quantile(h, 1)));
  assert_true(h->sum == UINT64_MAX);
  free(h);
}

static void wrong_options_are_refused(void **state) {
  (void)state;
  compute_profile_options options = {.flags = 1u << 20};
  assert_fails(compute_profile_start(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_profile_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_profile_options){.reserved = {1}};
  assert_fails(compute_profile_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  options = (compute_profile_options){.timeline_records = UINT32_MAX};
  assert_fails(compute_profile_start(context, &options), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_profile_stop(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_profile_clear(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_profile_write_trace(context, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_profile_write_trace(context, TEST_SCRATCH_DIR "/none/t.json"),
               COMPUTE_ERROR_FILE);
}

/* ---- Lack of memory ------------------------------------------------------------------------- */

/* Without memory, recording omits data. Only the run's own allocations can fail the run. Nothing
 * leaks. */
static void without_memory_it_records_less(void **state) {
  teardown(state);
  failing_allocator_install();
  setup(state);
  fixture f = make_fixture();
  const compute_binding bindings[] = {{f.in, f.x}, {f.out, f.y}};
  assert_ok(compute_run(f.plan, bindings, 2, NULL));
  int64_t nth = 1;
  for (bool failed = true; failed; nth++) {
    char *text = NULL;
    failing_allocator_arm(nth, false);
    const compute_status started = compute_profile_start(context, NULL);
    const compute_status ran = compute_run(f.plan, bindings, 2, NULL);
    fallback_note(context, NULL, FALLBACK_EVICTED, false, "number %d", (int)nth);
    const compute_status told = compute_profile_text(context, &text);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_true(started == COMPUTE_OK || started == COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_true(ran == COMPUTE_OK || ran == COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_true(told == COMPUTE_OK || told == COMPUTE_ERROR_OUT_OF_MEMORY);
    compute_text_free(text);
  }
  assert_true(nth > 5);
  release(&f);
  teardown(state);
  assert_int_equal(failing_allocator_remove(), 0);
  setup(state);
}

#define RECORDING_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      RECORDING_TEST(what_ran_is_counted_and_its_times_fit_together),
      RECORDING_TEST(nothing_is_recorded_before_the_start_or_after_a_clear),
      RECORDING_TEST(compilations_record_their_passes),
      RECORDING_TEST(a_full_table_says_so),
      RECORDING_TEST(the_timeline_keeps_the_latest_and_says_what_it_dropped),
      RECORDING_TEST(two_threads_lose_nothing_and_switching_disturbs_nobody),
      RECORDING_TEST(a_callers_spans_have_rows_of_their_own),
      RECORDING_TEST(fallbacks_are_counted_with_their_texts),
      RECORDING_TEST(the_table_names_what_costs_most_first),
      RECORDING_TEST(a_devices_own_timers_are_read_later_and_given_back),
      RECORDING_TEST(quantiles_are_good_to_four_percent),
      RECORDING_TEST(without_memory_it_records_less),
      RECORDING_TEST(wrong_options_are_refused),
  };
  unsetenv("COMPUTE_PROFILE");
  unsetenv("COMPUTE_TRACE");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
