/* SPDX-License-Identifier: MIT */
/* Asynchronous runs: waiting, querying, callbacks, order, cancelling, failing, releasing early. On
 * the device under test. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compute/call.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { N = 8, MANY = 1000, HANG_SECONDS = 600 };

/* y = 2 x + 1 over N elements, and a slow model. */
typedef struct model {
  compute_graph *graph;
  compute_plan *plan, *slow;
  compute_node x, y, a, b;
  int64_t side;
} model;

static compute_context *context;
static model m;

static void nap(int milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

/* While it is true, the slow model does not get past its first step, however late the submitting
 * thread continues. */
static atomic_bool held;

static compute_status copy_when_released(void *user, const compute_call_arguments *a, int32_t part,
                                         int32_t parts) {
  (void)user;
  (void)part;
  (void)parts;
  while (atomic_load(&held)) nap(1);
  memcpy(a->outputs[0].data, a->inputs[0].data, (size_t)a->outputs[0].count * sizeof(float));
  return COMPUTE_OK;
}

static compute_node scalar(double value) {
  return compute_scalar(m.graph, COMPUTE_F32, value);
}

static int set_up(void **state) {
  (void)state;
  alarm(HANG_SECONDS);
  context = test_open();
  compute_device_info info; /* a smaller one is slow enough on the simulated GPU */
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  m = (model){.graph = compute_graph_create(context),
              .side = strcmp(info.backend, "cuda") == 0 ? 16 : 160};
  m.x = compute_input(m.graph, COMPUTE_F32, COMPUTE_SHAPE(N));
  m.y = compute_add(m.graph, compute_mul(m.graph, m.x, scalar(2)), scalar(1));
  m.a = compute_input(m.graph, COMPUTE_F32, COMPUTE_SHAPE(m.side, m.side));
  m.b = compute_call(m.graph, copy_when_released, NULL, &m.a, 1,
                     &(compute_call_output){COMPUTE_F32, COMPUTE_SHAPE(m.side, m.side)}, 1, NULL,
                     NULL);
  for (int i = 0; i < 60; i++)
    m.b = compute_mul(m.graph, compute_matmul(m.graph, m.b, m.a), scalar(0.001));
  m.plan = test_compile(m.graph, &m.y, 1, 0);
  m.slow = test_compile(m.graph, &m.b, 1, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  atomic_store(&held, false);
  compute_plan_release(m.plan);
  compute_plan_release(m.slow);
  compute_graph_release(m.graph);
  /* Jobs released early may still be ending. */
  for (int i = 0; i < 20000 && compute_close(context) != COMPUTE_OK; i++) {
    compute_error_clear(context);
    nap(1);
    if (i == 19999) test_close(context); /* reports the remaining objects */
  }
  alarm(0);
  return 0;
}

static compute_tensor *values(float first) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = first + (float)i;
  return test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(N), v);
}

static void check_values(const compute_tensor *t, double first, double step) {
  for (int i = 0; i < N; i++) assert_true(test_element(t, i) == first + step * i);
}

static compute_tensor *room(void) {
  return test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(N), NULL);
}

static compute_status submit(compute_tensor *x, compute_tensor *y,
                             const compute_submit_options *options, compute_job **job) {
  return compute_submit(m.plan, (compute_binding[]){{m.x, x}, {m.y, y}}, 2, options, job);
}

/* A job that runs for a while. */
static compute_job *submit_slow(const compute_submit_options *options) {
  compute_tensor *a = NULL, *b = NULL;
  compute_job *job = NULL;
  compute_device *device = compute_default_device(context);
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(m.side, m.side), 1, &a));
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(m.side, m.side), &b));
  assert_ok(compute_submit(m.slow, (compute_binding[]){{m.a, a}, {m.b, b}}, 2, options, &job));
  compute_tensor_release(a); /* the job keeps them */
  compute_tensor_release(b);
  return job;
}

static void finish(compute_job *job, compute_status expected) {
  if (expected == COMPUTE_OK)
    assert_ok(compute_job_wait(job, 0));
  else
    assert_fails(compute_job_wait(job, 0), expected);
  compute_job_release(job);
}

/* ---- One job ------------------------------------------------------------------------------- */

static void a_job_computes_what_a_run_does(void **state) {
  (void)state;
  compute_tensor *x = values(3), *y = room();
  compute_job *job = NULL;
  compute_job_info info;
  bool done = false;
  assert_ok(submit(x, y, NULL, &job));
  assert_ok(compute_job_wait(job, 0));
  check_values(y, 7, 2);
  assert_ok(compute_job_poll(job, &done));
  assert_true(done);
  assert_ok(compute_job_describe(job, &info));
  assert_int_equal(info.state, COMPUTE_JOB_DONE);
  assert_int_equal(info.status, COMPUTE_OK);
  assert_int_equal(info.steps_done, info.steps);
  assert_ptr_equal(info.device, compute_default_device(context));
  assert_int_equal(info.fallbacks, 0);
  assert_true(info.seconds > 0 && info.waited >= 0);
  assert_string_equal(compute_job_state_text(info.state), "done");
  assert_ok(compute_job_wait(job, 1)); /* a second wait */
  assert_ok(compute_job_cancel(job));  /* too late to have an effect */
  assert_ok(compute_job_wait(job, 0));
  compute_job_release(job);
  compute_job_release(NULL);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void submitting_returns_before_the_work_is_done(void **state) {
  (void)state;
  bool done = true;
  atomic_store(&held, true);
  compute_job *job = submit_slow(NULL);
  assert_ok(compute_job_poll(job, &done));
  assert_false(done);
  assert_fails(compute_job_wait(job, 1e-9), COMPUTE_ERROR_TIMEOUT);
  atomic_store(&held, false);
  finish(job, COMPUTE_OK);
}

static void everything_may_be_released_at_once(void **state) {
  (void)state;
  compute_tensor *x = values(0), *y = room();
  compute_graph *graph = compute_graph_create(context);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
  const compute_node out = compute_neg(graph, in);
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_job *last = NULL, *first = submit_slow(NULL);
  const compute_submit_options after = {.after = &first, .after_count = 1};
  assert_ok(compute_submit(plan, (compute_binding[]){{in, x}, {out, y}}, 2, &after, &last));
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(x);
  compute_job_release(first);
  finish(last, COMPUTE_OK);
  check_values(y, 0, -1);
  compute_tensor_release(y);
}

static void wrong_calls_make_no_job(void **state) {
  (void)state;
  compute_tensor *x = values(0), *y = room();
  compute_job *job = (compute_job *)x, *none = NULL;
  const compute_binding bindings[] = {{m.x, x}, {m.y, y}};
  assert_fails(compute_submit(NULL, bindings, 2, NULL, &job), COMPUTE_ERROR_NULL_POINTER);
  assert_null(job);
  assert_fails(compute_submit(m.plan, NULL, 2, NULL, &job), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_submit(m.plan, bindings, 1, NULL, &job), COMPUTE_ERROR_BINDING);
  assert_fails(submit(x, y, &(compute_submit_options){.after = &none, .after_count = 1}, &job),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(submit(x, y, &(compute_submit_options){.after_count = 1}, &job),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(submit(x, y, &(compute_submit_options){.time_limit = -1}, &job),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(submit(x, y, &(compute_submit_options){.fallback = 9}, &job),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(submit(x, y, &(compute_submit_options){.reserved = {1}}, &job),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_job_wait(NULL, 0), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_job_poll(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_job_cancel(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_job_describe(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_context *other = test_open();
  job = submit_slow(NULL);
  compute_graph *graph = compute_graph_create(other);
  const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
  compute_plan *plan = test_compile(graph, (compute_node[]){compute_neg(graph, in)}, 1, 0);
  assert_fails(compute_submit(plan, bindings, 0,
                              &(compute_submit_options){.after = &job, .after_count = 1}, &none),
               COMPUTE_ERROR_WRONG_CONTEXT);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_close(other);
  assert_fails(compute_job_wait(job, -1), COMPUTE_ERROR_INVALID_ARGUMENT);
  finish(job, COMPUTE_OK);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

/* ---- Order --------------------------------------------------------------------------------- */

/* Each job doubles and adds one, in place of the previous result. */
static void results_feed_the_next_job(void **state) {
  (void)state;
  compute_tensor *t[2] = {values(0), room()};
  compute_job *before = NULL;
  double expected = 0, step = 1;
  for (int i = 0; i < 20; i++) {
    compute_job *job = NULL;
    const compute_submit_options options = {.after = &before, .after_count = i > 0};
    assert_ok(submit(t[i % 2], t[1 - i % 2], &options, &job));
    compute_job_release(before);
    before = job;
    expected = 2 * expected + 1;
    step *= 2;
  }
  finish(before, COMPUTE_OK);
  check_values(t[0], expected, step);
  compute_tensor_release(t[0]);
  compute_tensor_release(t[1]);
}

/* A triangle: each job follows all earlier ones. They are submitted while the first job still
 * runs. */
static void any_acyclic_order_comes_to_its_end(void **state) {
  (void)state;
  enum { JOBS = 60 };
  compute_job *jobs[JOBS] = {submit_slow(NULL)};
  compute_tensor *x = values(1), *y[JOBS];
  for (int i = 1; i < JOBS; i++) {
    y[i] = room();
    const compute_submit_options options = {.after = jobs, .after_count = (size_t)i};
    assert_ok(submit(i == 1 ? x : y[i - 1], y[i], &options, &jobs[i]));
  }
  assert_ok(compute_job_wait(jobs[JOBS - 1], 0));
  for (int i = 0; i < JOBS; i++) {
    bool done = false;
    assert_ok(compute_job_poll(jobs[i], &done));
    assert_true(done);
    compute_job_release(jobs[i]);
    if (i > 0) compute_tensor_release(y[i]);
  }
  compute_tensor_release(x);
}

typedef struct sender {
  pthread_t thread;
  compute_tensor *x;
  int wrong;
} sender;

static void *send_many(void *argument) {
  sender *s = argument;
  compute_job *jobs[MANY / 2];
  compute_tensor *y[MANY / 2];
  for (int i = 0; i < MANY / 2; i++) {
    jobs[i] = NULL;
    compute_status made = compute_tensor_create(compute_default_device(context), COMPUTE_F32,
                                                COMPUTE_SHAPE(N), &y[i]);
    s->wrong += made != COMPUTE_OK || submit(s->x, y[i], NULL, &jobs[i]) != COMPUTE_OK;
  }
  for (int i = MANY / 2; i-- > 0;) {
    float v[N] = {0};
    s->wrong += compute_job_wait(jobs[i], 0) != COMPUTE_OK;
    s->wrong += compute_tensor_read(y[i], v, sizeof v) != COMPUTE_OK;
    s->wrong += v[N - 1] != 2 * (N - 1 + 5) + 1;
    compute_job_release(jobs[i]);
    compute_tensor_release(y[i]);
  }
  return NULL;
}

static void a_thousand_jobs_from_two_threads_all_end(void **state) {
  (void)state;
  compute_tensor *x = values(5);
  sender senders[2];
  for (int i = 0; i < 2; i++) {
    senders[i] = (sender){.x = x};
    assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(senders[i].thread, NULL);
    assert_int_equal(senders[i].wrong, 0);
  }
  compute_tensor_release(x);
}

/* ---- Callbacks ----------------------------------------------------------------------------- */

typedef struct chain {
  atomic_int left, calls, wrong;
  compute_tensor *x, *y;
} chain;

static void submit_again(void *user, compute_job *job, compute_status status) {
  chain *c = user;
  bool done = true;
  atomic_fetch_add(&c->calls, 1);
  if (status != COMPUTE_OK) atomic_fetch_add(&c->wrong, 1);
  if (compute_job_poll(job, &done) != COMPUTE_OK || done) atomic_fetch_add(&c->wrong, 1);
  if (compute_job_wait(job, 0) != COMPUTE_ERROR_INVALID_STATE) atomic_fetch_add(&c->wrong, 1);
  if (atomic_fetch_sub(&c->left, 1) <= 0) return;
  const compute_submit_options options = {.done = submit_again, .user = c};
  if (submit(c->x, c->y, &options, NULL) != COMPUTE_OK) atomic_fetch_add(&c->wrong, 1);
}

static void callbacks_may_submit_again(void **state) {
  (void)state;
  chain c = {.left = 50, .x = values(1), .y = room()};
  const compute_submit_options options = {.done = submit_again, .user = &c};
  assert_ok(submit(c.x, c.y, &options, NULL));
  while (atomic_load(&c.calls) < 51) nap(1);
  assert_int_equal(atomic_load(&c.wrong), 0);
  check_values(c.y, 3, 2);
  compute_tensor_release(c.x);
  compute_tensor_release(c.y);
}

static void note_and_release(void *user, compute_job *job, compute_status status) {
  atomic_int *calls = user;
  (void)status;
  compute_job_release(job);
  atomic_fetch_add(calls, 1);
}

static void a_callback_may_release_its_own_job(void **state) {
  (void)state;
  atomic_int calls = 0;
  compute_tensor *x = values(1);
  for (int i = 0; i < 50; i++) {
    compute_job *job = NULL;
    compute_tensor *y = room();
    assert_ok(
        submit(x, y, &(compute_submit_options){.done = note_and_release, .user = &calls}, &job));
    compute_tensor_release(y);
  }
  while (atomic_load(&calls) < 50) nap(1);
  compute_tensor_release(x);
}

static void slow_callback(void *user, compute_job *job, compute_status status) {
  (void)job;
  (void)status;
  nap(50);
  atomic_store((atomic_int *)user, 1);
}

static void a_wait_returns_after_the_callback(void **state) {
  (void)state;
  atomic_int called = 0;
  compute_job *job = submit_slow(&(compute_submit_options){.done = slow_callback, .user = &called});
  finish(job, COMPUTE_OK);
  assert_int_equal(atomic_load(&called), 1);
}

/* ---- Cancelling and failing ---------------------------------------------------------------- */

static void count_cancelled(void *user, compute_job *job, compute_status status) {
  (void)job;
  if (status == COMPUTE_ERROR_CANCELLED) atomic_fetch_add((atomic_int *)user, 1);
}

static void a_waiting_job_ends_at_once_when_cancelled(void **state) {
  (void)state;
  atomic_int cancelled = 0;
  atomic_store(&held, true);
  compute_job *first = submit_slow(NULL), *second = NULL, *third = NULL;
  compute_tensor *x = values(1), *y = room();
  compute_submit_options options = {
      .after = &first, .after_count = 1, .done = count_cancelled, .user = &cancelled};
  assert_ok(submit(x, y, &options, &second));
  options.after = &second;
  assert_ok(submit(x, y, &options, &third));
  assert_ok(compute_job_cancel(second));
  assert_int_equal(atomic_load(&cancelled), 2); /* this job and its successor */
  finish(third, COMPUTE_ERROR_CANCELLED);
  test_check_message(context, "cancelled before it started");
  finish(second, COMPUTE_ERROR_CANCELLED);
  bool done = true;
  assert_ok(compute_job_poll(first, &done));
  assert_false(done);
  atomic_store(&held, false);
  finish(first, COMPUTE_OK);
  compute_error_clear(context);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void a_running_job_ends_between_two_steps(void **state) {
  (void)state;
  compute_job *job = submit_slow(NULL);
  compute_job_info info = {0};
  while (info.steps_done == 0 && info.state != COMPUTE_JOB_DONE)
    assert_ok(compute_job_describe(job, &info));
  assert_ok(compute_job_cancel(job));
  /* If the device already has all steps, it finishes them. */
  const compute_status s = compute_job_wait(job, 0);
  assert_ok(compute_job_describe(job, &info));
  if (s == COMPUTE_OK)
    assert_int_equal(info.steps_done, info.steps);
  else
    assert_int_equal(s, COMPUTE_ERROR_CANCELLED);
  compute_job_release(job);
  compute_error_clear(context);
}

/* y[i] of a table of two, with an index far out of range. */
static compute_job *submit_failing(const compute_submit_options *options, compute_job **job) {
  compute_graph *graph = compute_graph_create(context);
  const float table[2] = {1, 2};
  const int32_t index[2] = {0, 77};
  compute_tensor *t = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), table);
  compute_tensor *i = test_tensor(context, COMPUTE_I32, COMPUTE_SHAPE(2), index);
  compute_tensor *y = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2));
  const compute_node b = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(2));
  const compute_node c = compute_gather(graph, a, b, 0);
  compute_plan *plan = test_compile(graph, &c, 1, 0);
  assert_ok(compute_submit(plan, (compute_binding[]){{a, t}, {b, i}, {c, y}}, 3, options, job));
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(t);
  compute_tensor_release(i);
  compute_tensor_release(y);
  return *job;
}

static void a_failure_reaches_who_waits_and_who_follows(void **state) {
  (void)state;
  compute_job *first = NULL, *second = NULL, *third = NULL, *late = NULL;
  compute_tensor *x = values(1), *y = room();
  compute_job *gate = submit_slow(NULL);
  submit_failing(&(compute_submit_options){.after = &gate, .after_count = 1}, &first);
  assert_ok(submit(x, y, &(compute_submit_options){.after = &first, .after_count = 1}, &second));
  assert_ok(submit(
      x, y, &(compute_submit_options){.after = (compute_job *[]){gate, second}, .after_count = 2},
      &third));
  assert_fails(compute_job_wait(third, 0), COMPUTE_ERROR_CANCELLED);
  test_check_message(context, "COMPUTE_ERROR_INDEX");
  assert_fails(compute_job_wait(second, 0), COMPUTE_ERROR_CANCELLED);
  assert_fails(compute_job_wait(first, 0), COMPUTE_ERROR_INDEX);
  test_check_message(context, "ind");
  assert_ok(submit(x, y, &(compute_submit_options){.after = &first, .after_count = 1}, &late));
  finish(late, COMPUTE_ERROR_CANCELLED); /* it had failed already */
  compute_job_info info;
  assert_ok(compute_job_describe(first, &info));
  assert_int_equal(info.error.status, COMPUTE_ERROR_INDEX);
  assert_true(info.error.message[0] != '\0');
  compute_job_release(gate);
  compute_job_release(first);
  compute_job_release(second);
  compute_job_release(third);
  compute_error_clear(context);
  /* The threads continue to work. */
  compute_job *job = NULL;
  assert_ok(submit(x, y, NULL, &job));
  finish(job, COMPUTE_OK);
  check_values(y, 3, 2);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void one_failing_job_after_another_is_no_harm(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    compute_job *job = NULL;
    finish(submit_failing(NULL, &job), COMPUTE_ERROR_INDEX);
  }
  compute_error_clear(context);
}

/* Cancelling a long chain at its root must not recurse down the stack. */
static void a_long_chain_is_cancelled_as_a_whole(void **state) {
  (void)state;
  atomic_store(&held, true);
  compute_job *root = submit_slow(NULL), *jobs[MANY];
  compute_tensor *x = values(1), *y = room();
  for (int i = 0; i < MANY; i++) {
    const compute_submit_options options = {.after = i ? &jobs[i - 1] : &root, .after_count = 1};
    assert_ok(submit(x, y, &options, &jobs[i]));
  }
  assert_ok(compute_job_cancel(jobs[0]));
  for (int i = 0; i < MANY; i++) finish(jobs[i], COMPUTE_ERROR_CANCELLED);
  atomic_store(&held, false);
  finish(root, COMPUTE_OK);
  compute_error_clear(context);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void a_time_limit_ends_a_job_between_two_steps(void **state) {
  (void)state;
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  if (strcmp(info.backend, "cpu") != 0) test_skip("tests/cuda has devices that hang");
  finish(submit_slow(&(compute_submit_options){.time_limit = 1e-5}), COMPUTE_ERROR_TIMEOUT);
  compute_error_clear(context);
}

/* ---- Releases and closing ------------------------------------------------------------------ */

static void a_context_with_a_running_job_stays_open(void **state) {
  (void)state;
  atomic_store(&held, true);
  compute_job *job = submit_slow(NULL);
  compute_job_release(job); /* the job continues */
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  compute_error_clear(context);
}

/* After the last wait and release, the context closes immediately. */
static void a_context_closes_right_after_its_last_job(void **state) {
  (void)state;
  for (int i = 0; i < 200; i++) {
    compute_context *own = test_open();
    compute_tensor *x = NULL, *y = NULL;
    compute_plan *plan = NULL;
    compute_job *job = NULL;
    compute_device *device = compute_default_device(own);
    assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &x));
    assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &y));
    compute_graph *graph = compute_graph_create(own);
    const compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(N));
    const compute_node out = compute_neg(graph, in);
    assert_ok(compute_compile(graph, &out, 1, NULL, &plan));
    assert_ok(compute_submit(plan, (compute_binding[]){{in, x}, {out, y}}, 2, NULL, &job));
    compute_plan_release(plan);
    compute_graph_release(graph);
    compute_tensor_release(x);
    compute_tensor_release(y);
    finish(job, COMPUTE_OK);
    test_close(own);
    if (m.side < 100) break; /* opening a GPU is slow */
  }
}

static void a_child_process_has_no_jobs(void **state) {
  (void)state;
  compute_tensor *x = values(1), *y = room();
  compute_job *job = NULL;
  assert_ok(submit(x, y, NULL, &job));
  assert_ok(compute_job_wait(job, 0));
  const pid_t child = fork();
  if (child == 0) {
    compute_job *another = NULL;
    bool done;
    const bool right = submit(x, y, NULL, &another) == COMPUTE_ERROR_INVALID_STATE && !another &&
                       compute_job_wait(job, 0) == COMPUTE_ERROR_INVALID_STATE &&
                       compute_job_poll(job, &done) == COMPUTE_ERROR_INVALID_STATE;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  compute_job_release(job);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

/* ---- Lack of memory ------------------------------------------------------------------------ */

static compute_status chain_of_three(void) {
  compute_tensor *x = NULL, *y = NULL;
  compute_job *first = NULL, *second = NULL;
  compute_device *device = compute_default_device(context);
  compute_status s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(N), 1, &x);
  if (s == COMPUTE_OK) s = compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(N), &y);
  if (s == COMPUTE_OK) s = submit(x, y, NULL, &first);
  if (s == COMPUTE_OK)
    s = submit(y, x, &(compute_submit_options){.after = &first, .after_count = 1}, &second);
  compute_status ended = first ? compute_job_wait(first, 0) : COMPUTE_OK;
  if (s == COMPUTE_OK) s = ended;
  ended = second ? compute_job_wait(second, 0) : COMPUTE_OK;
  if (s == COMPUTE_OK) s = ended;
  compute_job_release(first);
  compute_job_release(second);
  compute_tensor_release(x);
  compute_tensor_release(y);
  return s;
}

static void the_failure_of_any_allocation_is_survived(void **state) {
  (void)state;
  failing_allocator_install();
  int64_t failures = 1, nth = 0;
  for (; failures > 0 && nth < 500; nth++) {
    set_up(NULL);
    if (nth == 0) assert_ok(chain_of_three());
    failing_allocator_arm(nth, false);
    compute_status s = chain_of_three();
    failures = nth == 0 ? 1 : failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (s != COMPUTE_OK && s != COMPUTE_ERROR_OUT_OF_MEMORY && s != COMPUTE_ERROR_CANCELLED &&
        s != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY)
      fail_msg("allocation %lld: %s", (long long)nth, compute_error_message(context));
    assert_ok(chain_of_three());
    tear_down(NULL);
  }
  assert_true(nth > 5 && nth < 500);
  assert_int_equal(failing_allocator_remove(), 0);
}

#define JOB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      JOB_TEST(a_job_computes_what_a_run_does),
      JOB_TEST(submitting_returns_before_the_work_is_done),
      JOB_TEST(everything_may_be_released_at_once),
      JOB_TEST(wrong_calls_make_no_job),
      JOB_TEST(results_feed_the_next_job),
      JOB_TEST(any_acyclic_order_comes_to_its_end),
      JOB_TEST(a_thousand_jobs_from_two_threads_all_end),
      JOB_TEST(callbacks_may_submit_again),
      JOB_TEST(a_callback_may_release_its_own_job),
      JOB_TEST(a_wait_returns_after_the_callback),
      JOB_TEST(a_waiting_job_ends_at_once_when_cancelled),
      JOB_TEST(a_running_job_ends_between_two_steps),
      JOB_TEST(a_failure_reaches_who_waits_and_who_follows),
      JOB_TEST(one_failing_job_after_another_is_no_harm),
      JOB_TEST(a_long_chain_is_cancelled_as_a_whole),
      JOB_TEST(a_time_limit_ends_a_job_between_two_steps),
      JOB_TEST(a_context_with_a_running_job_stays_open),
      JOB_TEST(a_context_closes_right_after_its_last_job),
      JOB_TEST(a_child_process_has_no_jobs),
      cmocka_unit_test(the_failure_of_any_allocation_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
