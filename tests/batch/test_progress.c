/* SPDX-License-Identifier: MIT */
/* The batch iterator during a run: progress, times, cancelling, and other threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "batch/rows.h"

/* ---- Progress ------------------------------------------------------------------------------ */

typedef struct watcher {
  int calls;
  int64_t last, stop_at;
  bool wrong;
} watcher;

static bool watch(void *user, const compute_batch_progress *p) {
  watcher *w = user;
  w->calls++;
  w->wrong |= p->items < w->last || p->total != ROWS_ITEMS || p->rate < 0;
  w->wrong |= p->items == p->total && p->seconds_left != 0;
  w->last = p->items;
  return w->stop_at < 0 || p->items < w->stop_at;
}

static compute_status run_watched(rows_setting *t, watcher *w, double seconds,
                                  compute_batch_result *result) {
  t->source.next = t->sink.next = 0;
  return compute_batch_run(
      t->batch,
      &(compute_batch_run_options){
          .items = ROWS_ITEMS,
          .sources = (compute_batch_source[]){{.read = rows_read, .user = &t->source}},
          .sinks =
              (compute_batch_sink[]){{.write = rows_check, .user = &t->sink}, {.discard = true}},
          .progress = watch,
          .progress_user = w,
          .progress_seconds = seconds},
      result);
}

static void progress_is_told_now_and_then_and_may_cancel(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  watcher w = {.stop_at = -1};
  rows_setting_open(&t, 10, 3);
  t.source.delay = 2;
  assert_ok(run_watched(&t, &w, 0.02, &result));
  assert_false(w.wrong);
  assert_int_equal(w.last, ROWS_ITEMS);
  assert_in_range(w.calls, 2, (int)(result.seconds / 0.02) + 2);
  w = (watcher){.stop_at = 200};
  assert_fails(run_watched(&t, &w, 0.01, &result), COMPUTE_ERROR_CANCELLED);
  assert_in_range(result.items, 200, ROWS_ITEMS - 1);
  assert_int_equal(result.items, t.sink.next);
  rows_setting_close(&t);
}

/* ---- Times --------------------------------------------------------------------------------- */

enum { TIMED_BATCHES = 12 };

/* The pauses of each part, and the times reported during the run. */
typedef struct timed {
  compute_batch *batch;
  double pauses[3]; /* milliseconds of source, step and sink */
  compute_batch_times seen;
} timed;

static compute_status timed_read(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  const timed *t = user;
  (void)first;
  rows_pause(t->pauses[0]);
  memset(to, 0, (size_t)items * ROWS_WIDTH * sizeof *rows_data);
  *count = items;
  return COMPUTE_OK;
}

static compute_status timed_step(void *user, const compute_batch_step *step) {
  const timed *t = user;
  rows_pause(t->pauses[1]);
  return step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
}

static compute_status timed_write(void *user, int64_t first, int64_t items, const void *from) {
  timed *t = user;
  (void)first, (void)items, (void)from;
  rows_pause(t->pauses[2]);
  return compute_batch_times_get(t->batch, &t->seen);
}

/* Each part is busy at least for its pauses, and at most for the whole run. */
static void check_times(const timed *t, const compute_batch_times *times, int batches) {
  const double busy[] = {times->reading, times->computing, times->writing};
  for (int i = 0; i < 3; i++) {
    assert_true(busy[i] >= 1e-3 * batches * t->pauses[i]);
    assert_true(busy[i] <= times->seconds);
  }
}

static void times_say_what_each_part_took(void **state) {
  (void)state;
  compute_batch_times times = {.seconds = 1};
  for (int slow = 0; slow < 3; slow++) {
    timed t = {.pauses = {2, 2, 2}};
    t.pauses[slow] = 6;
    assert_ok(compute_batch_create(test_context,
                                   &(compute_batch_options){.step = timed_step,
                                                            .user = &t,
                                                            .inputs = rows_port,
                                                            .input_count = 1,
                                                            .outputs = rows_port,
                                                            .output_count = 1,
                                                            .batch = 10},
                                   &t.batch));
    assert_ok(compute_batch_times_get(t.batch, &times));
    assert_true(times.seconds == 0 && times.reading == 0 && times.computing == 0);
    for (int run = 0; run < 2; run++) { /* the second run starts at 0 again */
      compute_batch_result result;
      assert_ok(compute_batch_run(
          t.batch,
          &(compute_batch_run_options){
              .items = 10 * TIMED_BATCHES,
              .sources = (compute_batch_source[]){{.read = timed_read, .user = &t}},
              .sinks = (compute_batch_sink[]){{.write = timed_write, .user = &t}}},
          &result));
      assert_ok(compute_batch_times_get(t.batch, &times));
      check_times(&t, &t.seen, TIMED_BATCHES - 1);
      check_times(&t, &times, TIMED_BATCHES);
      assert_true(times.seconds <= result.seconds);
    }
    compute_batch_release(t.batch);
  }
  assert_fails(compute_batch_times_get(NULL, &times), COMPUTE_ERROR_NULL_POINTER);
}

/* ---- Cancelling and other threads ---------------------------------------------------------- */

static void a_sink_may_cancel(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  rows_setting_open(&t, 10, 3);
  t.sink.cancel = t.batch;
  t.sink.fail_at = 405;
  assert_fails(rows_setting_run(&t, ROWS_ITEMS, &result), COMPUTE_ERROR_CANCELLED);
  test_check_message(test_context, "410 items are complete");
  assert_int_equal(result.items, 410);
  t.sink.fail_at = -1;
  compute_batch_cancel(t.batch); /* without a run: no effect */
  assert_ok(rows_setting_run(&t, ROWS_ITEMS, &result));
  rows_setting_close(&t);
}

static void *cancel_when_reached(void *argument) {
  rows_canceller *c = argument;
  while (!atomic_load(&c->reached)) rows_pause(0.1);
  compute_batch_cancel(c->batch);
  atomic_store(&c->cancelled, true);
  return NULL;
}

static void another_thread_may_cancel(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  rows_setting_open(&t, 1, 3);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    rows_canceller c = {.batch = t.batch};
    t.source.canceller = &c;
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_reached, &c), 0);
    assert_fails(rows_setting_run(&t, ROWS_ITEMS, &result), COMPUTE_ERROR_CANCELLED);
    pthread_join(thread, NULL);
    assert_int_equal(result.items, t.sink.next);
    assert_in_range(result.items, 0, 101);
  }
  rows_setting_close(&t);
}

typedef struct runner {
  rows_setting t;
  compute_status status;
} runner;

static void *run_in_thread(void *argument) {
  runner *r = argument;
  r->status = rows_setting_run(&r->t, ROWS_ITEMS, NULL);
  return NULL;
}

static void iterators_run_at_once_but_each_only_once(void **state) {
  (void)state;
  runner runners[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    rows_setting_open(&runners[i].t, 20, 2);
    runners[i].t.source.delay = 2;
    assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &runners[i]), 0);
  }
  rows_pause(20);
  compute_batch_device_info info;
  assert_fails(
      compute_batch_run(runners[0].t.batch, &(compute_batch_run_options){.items = 1}, NULL),
      COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_batch_device_at(runners[0].t.batch, 0, &info), COMPUTE_ERROR_INVALID_STATE);
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(runners[i].status, COMPUTE_OK);
    rows_setting_close(&runners[i].t);
  }
}

static void a_run_that_fails_before_its_first_batch_has_counts_of_its_own(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  compute_batch_device_info info;
  rows_setting_open(&t, 100, 2);
  assert_ok(rows_setting_run(&t, ROWS_ITEMS, &result));
  assert_ok(compute_batch_device_at(t.batch, 0, &info));
  assert_int_equal(info.items, ROWS_ITEMS);
  assert_fails(
      compute_batch_run(t.batch,
                        &(compute_batch_run_options){
                            .items = ROWS_ITEMS,
                            .sources = (compute_batch_source[]){{.path = TEST_SCRATCH_DIR "/none"}},
                            .sinks = (compute_batch_sink[]){{.discard = true}, {.discard = true}}},
                        &result),
      COMPUTE_ERROR_FILE);
  assert_int_equal(result.items, 0);
  assert_ok(compute_batch_device_at(t.batch, 0, &info));
  assert_int_equal(info.items, 0);
  rows_setting_close(&t);
}

static atomic_bool enough;

/* For ThreadSanitizer. */
static void *ask_for_devices(void *argument) {
  const runner *r = argument;
  compute_batch_device_info info;
  bool wrong = false;
  while (!atomic_load(&enough)) {
    const compute_status s = compute_batch_device_at(r->t.batch, 0, &info);
    wrong |= s != COMPUTE_OK && s != COMPUTE_ERROR_INVALID_STATE;
  }
  return wrong ? argument : NULL;
}

static void devices_may_be_asked_for_while_runs_begin_and_end(void **state) {
  (void)state;
  runner r;
  pthread_t thread;
  void *wrong;
  rows_setting_open(&r.t, 250, 2);
  assert_int_equal(pthread_create(&thread, NULL, ask_for_devices, &r), 0);
  for (int i = 0; i < 5; i++) assert_ok(rows_setting_run(&r.t, ROWS_ITEMS, NULL));
  atomic_store(&enough, true);
  pthread_join(thread, &wrong);
  assert_null(wrong);
  rows_setting_close(&r.t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(progress_is_told_now_and_then_and_may_cancel),
      cmocka_unit_test(times_say_what_each_part_took),
      cmocka_unit_test(a_sink_may_cancel),
      cmocka_unit_test(another_thread_may_cancel),
      cmocka_unit_test(iterators_run_at_once_but_each_only_once),
      cmocka_unit_test(a_run_that_fails_before_its_first_batch_has_counts_of_its_own),
      cmocka_unit_test(devices_may_be_asked_for_while_runs_begin_and_end),
  };
  return cmocka_run_group_tests(tests, rows_open_group, test_group_close);
}
