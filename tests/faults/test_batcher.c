/* SPDX-License-Identifier: MIT */
/* Batchers under adverse conditions: the n-th request for memory fails, limits have extreme values,
 * requests without a waiting thread exceed their limits, callbacks release and submit, and handles
 * outlive both batcher and iterator. Whatever fails is an error, nothing leaks, and the batcher then
 * works as before. */
#include "compute/batcher.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { WIDTH = 3 };

static void rest(double seconds) {
  nanosleep(&(struct timespec){0, (long)(1e9 * seconds)}, NULL);
}

static void triple(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                   compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_mul(graph, inputs[0], compute_scalar(graph, COMPUTE_F32, 3));
}

static compute_batch *make_batch(compute_context *context) {
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  compute_batch *batch = NULL;
  assert_ok(compute_batch_create(
      context,
      &(compute_batch_options){
          .build = triple, .inputs = &port, .input_count = 1, .output_count = 1},
      &batch));
  return batch;
}

static compute_status submit(compute_batcher *batcher, const float *x, float *y,
                             const compute_batcher_submit_options *options,
                             compute_batcher_request **request) {
  return compute_batcher_submit(batcher, (const void *const[]){x}, (void *const[]){y}, options,
                                request);
}

static void check_result(compute_status status, const float *x, const float *y) {
  for (int i = 0; i < WIDTH; i++) assert_true(y[i] == (status ? -1 : 3 * x[i]));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Two items, while request number `nth` for memory fails. Returns true if one failed. */
static bool serve_with_failure(compute_context *context, compute_batch *batch, int64_t nth) {
  const float x[2][WIDTH] = {{1, 2, 3}, {4, 5, 6}};
  float y[2][WIDTH] = {{-1, -1, -1}, {-1, -1, -1}};
  compute_batcher *batcher = NULL;
  compute_batcher_request *request = NULL;
  compute_status run = COMPUTE_OK, waited = COMPUTE_OK;
  compute_error_clear(context);
  failing_allocator_arm(nth, false);
  const compute_status made =
      compute_batcher_create(batch, &(compute_batcher_options){.most = 3}, &batcher);
  if (!made) {
    waited = submit(batcher, x[0], y[0], NULL, &request);
    run = compute_batcher_run(batcher, (const void *const[]){x[1]}, (void *const[]){y[1]}, 0);
    if (request) waited = compute_batcher_wait(request, 0);
  }
  const bool failed = failing_allocator_failures() > 0;
  failing_allocator_arm(0, false);
  const compute_status statuses[] = {made, waited, run};
  for (int i = 0; i < 3; i++)
    if (statuses[i] && !failed) fail_msg("number %lld: an error without a cause", (long long)nth);
  if (made) {
    assert_null(batcher);
  } else {
    check_result(waited, x[0], y[0]);
    check_result(run, x[1], y[1]);
    /* The same batcher serves the next item as usual. */
    assert_ok(compute_batcher_run(batcher, (const void *const[]){x[0]}, (void *const[]){y[0]}, 0));
    check_result(COMPUTE_OK, x[0], y[0]);
  }
  compute_batcher_request_release(request);
  compute_batcher_release(batcher);
  return failed;
}

static void memory_that_is_missing_is_an_error(void **state) {
  (void)state;
  compute_context *context = test_open();
  int64_t nth = 0, tried = 0;
  bool failed = true;
  while (failed) {
    compute_batch *batch = make_batch(context); /* a new one compiles its plans again */
    failed = serve_with_failure(context, batch, nth += 1 + nth / 16);
    compute_batch_release(batch);
    tried++;
  }
  print_message("%lld requests for memory, %lld failed one by one\n", (long long)nth,
                (long long)tried);
  assert_true(nth > 20);
  test_close(context);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void extreme_limits_are_refused_or_mean_none(void **state) {
  (void)state;
  static const double wrong[] = {NAN, -1, -1e-300, -INFINITY};
  static const double none[] = {0, -0.0, 1e9, 1e10, 1e300, INFINITY};
  compute_context *context = test_open();
  compute_batch *batch = make_batch(context);
  compute_batcher *batcher;
  compute_batcher_request *request;
  const float x[WIDTH] = {1, 2, 3};
  float y[WIDTH] = {-1, -1, -1};
  assert_ok(compute_batcher_create(batch, NULL, &batcher));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const compute_batcher_submit_options o = {.time_limit = wrong[i]};
    assert_fails(submit(batcher, x, y, &o, &request), COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_null(request);
    assert_fails(
        compute_batcher_run(batcher, (const void *const[]){x}, (void *const[]){y}, wrong[i]),
        COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    const compute_batcher_submit_options o = {.time_limit = none[i]};
    assert_ok(submit(batcher, x, y, &o, &request));
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
      assert_fails(compute_batcher_wait(request, wrong[k]), COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_ok(compute_batcher_wait(request, none[i]));
    check_result(COMPUTE_OK, x, y);
    compute_batcher_request_release(request);
  }
  /* A limit that has passed when the call returns. */
  const compute_batcher_submit_options o = {.time_limit = 1e-300};
  assert_ok(submit(batcher, x, y, &o, &request));
  const compute_status status = compute_batcher_wait(request, 0);
  assert_true(status == COMPUTE_OK || status == COMPUTE_ERROR_TIMEOUT);
  compute_batcher_request_release(request);
  compute_batcher_release(batcher);
  compute_batch_release(batch);
  test_close(context);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

typedef struct watch {
  atomic_int ended, late;
} watch;

static void note_end(void *user, compute_batcher_request *request, compute_status status) {
  watch *w = user;
  (void)request;
  if (status == COMPUTE_ERROR_TIMEOUT) w->late++;
  w->ended++;
}

static void await(const watch *w, int count) {
  for (int i = 0; i < 20000 && w->ended < count; i++) rest(1e-3);
  assert_int_equal(w->ended, count);
}

/* The device is idle and gathers for much longer than the limits, and nobody waits for the
 * requests. */
static void requests_that_nobody_waits_for_end_at_their_limits(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_batch *batch = make_batch(context);
  compute_batcher *batcher;
  compute_batcher_info info;
  watch w = {0};
  const float x[WIDTH] = {1, 2, 3};
  float y[4][WIDTH] = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
  assert_ok(compute_batcher_create(
      batch, &(compute_batcher_options){.most = 8, .wait_microseconds = 3000000000u}, &batcher));
  static const double limits[4] = {0, 0.2, 0.02, 100}; /* the third is due before the second */
  for (int i = 0; i < 4; i++)
    assert_ok(submit(
        batcher, x, y[i],
        &(compute_batcher_submit_options){.time_limit = limits[i], .done = note_end, .user = &w},
        NULL));
  await(&w, 2);
  assert_int_equal(w.late, 2);
  assert_ok(compute_batcher_describe(batcher, &info));
  assert_int_equal(info.waiting, 2);
  assert_int_equal(info.timed_out, 2);
  assert_ok(compute_batcher_stop(batcher, true)); /* serves the others */
  assert_int_equal(w.ended, 4);
  for (int i = 0; i < 4; i++) check_result(i == 1 || i == 2, x, y[i]);
  compute_batcher_release(batcher);
  compute_batch_release(batch);
  test_close(context);
}

typedef struct chain {
  compute_batcher *batcher;
  atomic_int left, ended;
  float x[WIDTH], y[WIDTH];
} chain;

/* Releases its own request and submits the next one. */
static void go_on(void *user, compute_batcher_request *request, compute_status status) {
  chain *c = user;
  compute_batcher_request_release(request);
  assert_int_equal(status, COMPUTE_OK);
  if (--c->left > 0) {
    compute_batcher_request *next;
    assert_ok(submit(c->batcher, c->x, c->y,
                     &(compute_batcher_submit_options){.done = go_on, .user = c}, &next));
  }
  c->ended++;
}

static void callbacks_release_their_requests_and_submit_more(void **state) {
  (void)state;
  enum { CHAINS = 8, LENGTH = 50 };
  compute_context *context = test_open();
  compute_batch *batch = make_batch(context);
  compute_batcher *batcher;
  compute_batcher_request *request;
  static chain chains[CHAINS];
  assert_ok(compute_batcher_create(batch, &(compute_batcher_options){.most = 4}, &batcher));
  for (int i = 0; i < CHAINS; i++) {
    chains[i] = (chain){.batcher = batcher, .left = LENGTH, .x = {(float)i, 1, 2}};
    assert_ok(submit(batcher, chains[i].x, chains[i].y,
                     &(compute_batcher_submit_options){.done = go_on, .user = &chains[i]},
                     &request));
  }
  for (int i = 0; i < CHAINS; i++) {
    for (int k = 0; k < 20000 && chains[i].ended < LENGTH; k++) rest(1e-3);
    assert_int_equal(chains[i].ended, LENGTH);
    check_result(COMPUTE_OK, chains[i].x, chains[i].y);
  }
  compute_batcher_release(batcher);
  compute_batch_release(batch);
  test_close(context);
}

static void handles_outlive_the_batcher_and_its_iterator(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_batch *batch = make_batch(context);
  compute_batcher *batcher;
  compute_batcher_request *served, *waiting;
  const float x[WIDTH] = {1, 2, 3};
  float y[2][WIDTH] = {{-1, -1, -1}, {-1, -1, -1}};
  bool done = false;
  assert_ok(compute_batcher_create(
      batch, &(compute_batcher_options){.most = 8, .wait_microseconds = 3000000000u}, &batcher));
  assert_ok(submit(batcher, x, y[0], NULL, &waiting));
  compute_batcher_release(batcher);
  assert_ok(compute_batcher_create(batch, NULL, &batcher));
  assert_ok(submit(batcher, x, y[1], NULL, &served));
  assert_ok(compute_batcher_wait(served, 0));
  compute_batcher_release(batcher);
  compute_batch_release(batch);
  assert_fails(compute_batcher_wait(waiting, 0), COMPUTE_ERROR_CANCELLED);
  test_check_message(context, "cancelled");
  assert_ok(compute_batcher_cancel(waiting));
  assert_ok(compute_batcher_poll(served, &done));
  assert_true(done);
  assert_ok(compute_batcher_wait(served, 1e-9));
  check_result(COMPUTE_ERROR_CANCELLED, x, y[0]);
  check_result(COMPUTE_OK, x, y[1]);
  compute_batcher_request_release(waiting);
  compute_batcher_request_release(served);
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_that_is_missing_is_an_error),
      cmocka_unit_test(extreme_limits_are_refused_or_mean_none),
      cmocka_unit_test(requests_that_nobody_waits_for_end_at_their_limits),
      cmocka_unit_test(callbacks_release_their_requests_and_submit_more),
      cmocka_unit_test(handles_outlive_the_batcher_and_its_iterator),
  };
  failing_allocator_install();
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  const int64_t left = failing_allocator_remove();
  if (left != 0) fprintf(stderr, "%lld blocks of memory leaked\n", (long long)left);
  return failures != 0 || left != 0;
}
