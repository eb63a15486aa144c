/* SPDX-License-Identifier: MIT */
/* Suite "overhead": the cost of libcompute apart from the arithmetic. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "first_result.h"
#include "host.h"
#include "measure.h"
#include "single.h"

/* ---- Opening a context --------------------------------------------------------------------- */

/* The options that the session itself was opened with. */
static compute_status open_again(bench_session *session, int threads, compute_context **context) {
  return compute_open(
      context, &(compute_open_options){.device = session->options->device, .threads = threads});
}

static compute_status open_call(void *state) {
  compute_context *context;
  bench_session *session = state;
  compute_status status = open_again(session, (int)session->options->threads, &context);
  return status ? status : compute_close(context);
}

static void run_open(bench_session *session, const char *suite, const bench_case *c) {
  bench_record record = bench_record_new(session, suite, c);
  record.dtype = "";
  bench_run_single(session, &record, &(bench_single){.call = open_call, .state = session});
}

/* There is only one first opening: the session's. */
static void run_first_open(bench_session *session, const char *suite, const bench_case *c) {
  bench_record record = bench_record_new(session, suite, c);
  record.dtype = "";
  record.ms = record.ms_p10 = record.ms_p90 = session->first_open_ms;
  bench_record_add(session, &record);
}

/* ---- Compiling a graph of 20 nodes --------------------------------------------------------- */

typedef struct compile_state {
  bench_session *session;
  compute_graph *graph;
  compute_node output;
} compile_state;

/* Two dense layers with layer norm and a loss: 20 nodes with their inputs. */
static compute_node build_twenty(compute_graph *g) {
  compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(32, 64));
  compute_node w1 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(64, 128));
  compute_node b1 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(128));
  compute_node w2 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(128, 16));
  compute_node b2 = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(16));
  compute_node target = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(32, 16));
  compute_node hidden = compute_gelu(g, compute_add(g, compute_matmul(g, x, w1), b1));
  hidden = compute_normalize(g, hidden, 1e-5);
  hidden = compute_mul(g, hidden, compute_exp(g, compute_neg(g, compute_square(g, hidden))));
  compute_node y = compute_softmax(g, compute_add(g, compute_matmul(g, hidden, w2), b2), 1);
  compute_node difference = compute_sub(g, y, target);
  return compute_sum(g, compute_square(g, difference), COMPUTE_ALL_AXES, false);
}

static compute_status compile_call(void *state) {
  compile_state *s = state;
  compute_plan *plan;
  compute_status status = compute_compile(
      s->graph, &s->output, 1, &(compute_plan_options){.device = s->session->device}, &plan);
  if (!status) compute_plan_release(plan);
  return status;
}

static void run_compile(bench_session *session, const char *suite, const bench_case *c) {
  compile_state state = {.session = session, .graph = compute_graph_create(session->context)};
  state.output = build_twenty(state.graph);
  bench_record record = bench_record_new(session, suite, c);
  bench_run_single(session, &record, &(bench_single){.call = compile_call, .state = &state});
  compute_graph_release(state.graph);
}

/* An exact check: no rounding is involved. */
static void judge_equal(bench_record *record, double result, double truth) {
  if (result == truth) return;
  record->max_rel_err = fmax(record->max_rel_err, fabs(result - truth) / fabs(truth));
  bench_require_most(record, "error", "", fabs(result - truth), 0);
}

/* ---- Plans of tiny steps ------------------------------------------------------------------- */

enum { TINY = 16 };

typedef struct run_state {
  bench_session *session;
  const compute_plan *plan;
  compute_binding binding[3];
  size_t count;
} run_state;

static compute_status run_call(void *state) {
  const run_state *s = state;
  compute_status status = compute_run(s->plan, s->binding, s->count, s->session->queue);
  return status ? status : compute_queue_wait(s->session->queue);
}

/* y = x + 1, repeated size[0] times, each addition a separate step. */
static void run_steps(bench_session *session, const char *suite, const bench_case *c) {
  float values[TINY];
  compute_plan *plan = NULL;
  compute_plan_info info = {0};
  run_state state = {.session = session, .count = 2};
  compute_graph *g = compute_graph_create(session->context);
  compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(TINY)), y = x;
  compute_node one = compute_scalar(g, COMPUTE_F32, 1);
  for (int64_t i = 0; i < c->size[0]; i++) y = compute_add(g, y, one);
  for (int i = 0; i < TINY; i++) values[i] = (float)(i + 1);
  compute_status status = compute_compile(
      g, &y, 1,
      &(compute_plan_options){.device = session->device,
                              .flags = COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION},
      &plan);
  state.plan = plan;
  state.binding[0].node = x;
  state.binding[1].node = y;
  if (!status) status = compute_plan_describe(plan, &info);
  if (!status) status = compute_plan_create_tensor(plan, x, &state.binding[0].tensor);
  if (!status) status = compute_plan_create_tensor(plan, y, &state.binding[1].tensor);
  if (!status) status = compute_tensor_write(state.binding[0].tensor, values, sizeof values);
  if (!status) status = run_call(&state);
  if (!status) status = compute_tensor_read(state.binding[1].tensor, values, sizeof values);
  if (status) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_record record = bench_record_new(session, suite, c);
    record.max_rel_err = 0;
    for (int i = 0; i < TINY; i++)
      judge_equal(&record, (double)values[i], (double)(i + 1 + (int)c->size[0]));
    bench_require_least(&record, "steps of the plan", "", info.steps, (double)c->size[0]);
    bench_run_single(session, &record,
                     &(bench_single){.call = run_call, .state = &state, .per = info.steps});
  }
  for (size_t i = 0; i < state.count; i++) compute_tensor_release(state.binding[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(g);
}

/* ---- An eager addition --------------------------------------------------------------------- */

typedef struct eager_state {
  compute_tensor *a, *b;
} eager_state;

static compute_status eager_call(void *state) {
  const eager_state *s = state;
  compute_tensor *sum;
  compute_status status = compute_tensor_add(s->a, s->b, &sum);
  if (!status) compute_tensor_release(sum);
  return status;
}

static void run_eager(bench_session *session, const char *suite, const bench_case *c) {
  float a[TINY], b[TINY], result[TINY];
  eager_state state = {0};
  compute_tensor *sum = NULL;
  host_fill(COMPUTE_F32, a, TINY, -1, 1, 1);
  host_fill(COMPUTE_F32, b, TINY, -1, 1, 2);
  compute_shape shape = COMPUTE_SHAPE(TINY);
  compute_status status =
      compute_tensor_from_host(session->device, COMPUTE_F32, shape, a, &state.a);
  if (!status) status = compute_tensor_from_host(session->device, COMPUTE_F32, shape, b, &state.b);
  if (!status) status = compute_tensor_add(state.a, state.b, &sum);
  if (!status) status = compute_tensor_read(sum, result, sizeof result);
  compute_tensor_release(sum);
  if (status) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_record record = bench_record_new(session, suite, c);
    record.max_rel_err = 0;
    for (int i = 0; i < TINY; i++) judge_equal(&record, (double)result[i], (double)(a[i] + b[i]));
    bench_run_single(session, &record, &(bench_single){.call = eager_call, .state = &state});
  }
  compute_tensor_release(state.a);
  compute_tensor_release(state.b);
}

/* ---- Several threads compared with one ----------------------------------------------------- */

/* gelu of size[0] elements in one context. */
typedef struct threads_side {
  compute_context *context;
  compute_graph *graph;
  compute_plan *plan;
  compute_binding binding[2];
  compute_status status;
} threads_side;

static void side_run(void *state, int64_t times) {
  threads_side *side = state;
  for (int64_t i = 0; i < times && !side->status; i++)
    side->status = compute_run(side->plan, side->binding, 2, NULL);
}

static void side_open(bench_session *session, const bench_case *c, int threads, const float *values,
                      threads_side *side) {
  compute_shape shape = COMPUTE_SHAPE(c->size[0]);
  side->status = open_again(session, threads, &side->context);
  if (side->status) return;
  side->graph = compute_graph_create(side->context);
  side->binding[0].node = compute_input(side->graph, COMPUTE_F32, shape);
  side->binding[1].node = compute_gelu(side->graph, side->binding[0].node);
  side->status = compute_compile(side->graph, &side->binding[1].node, 1, NULL, &side->plan);
  for (int i = 0; i < 2 && !side->status; i++)
    side->status =
        compute_plan_create_tensor(side->plan, side->binding[i].node, &side->binding[i].tensor);
  if (!side->status)
    side->status =
        compute_tensor_write(side->binding[0].tensor, values, (size_t)c->size[0] * sizeof *values);
}

static void side_release(threads_side *side) {
  for (int i = 0; i < 2; i++) compute_tensor_release(side->binding[i].tensor);
  compute_plan_release(side->plan);
  compute_graph_release(side->graph);
}

/* The session's threads compared with one, with the one as a peer. */
static void run_threads(bench_session *session, const char *suite, const bench_case *c) {
  threads_side side[2] = {{0}};
  size_t bytes = (size_t)c->size[0] * sizeof(float);
  float *values = host_allocate(bytes);
  if (session->info.type != COMPUTE_DEVICE_CPU || session->threads < 2 || !values) {
    bench_note(session, "%s/%s skipped: it compares two threads of a CPU", suite, c->name);
    host_release(values, bytes);
    return;
  }
  host_fill(COMPUTE_F32, values, c->size[0], -4, 4, 1);
  side_open(session, c, session->threads, values, &side[0]);
  if (!side[0].status) side_open(session, c, 1, values, &side[1]);
  if (!side[0].status && !side[1].status) {
    bench_runner runner[2] = {{.run = side_run, .state = &side[0]},
                              {.run = side_run, .state = &side[1]}};
    bench_measure(runner, 2, session->options->quick ? 0.1 : 0.4);
    bench_record record = bench_record_new(session, suite, c);
    record.ms = bench_quantile(&runner[0], 0.5);
    record.ms_p10 = bench_quantile(&runner[0], 0.1);
    record.ms_p90 = bench_quantile(&runner[0], 0.9);
    record.peer_ms = bench_quantile(&runner[1], 0.5);
    snprintf(record.peer, sizeof record.peer, "one thread");
    if (!side[0].status && !side[1].status) bench_record_add(session, &record);
  }
  if (side[0].status || side[1].status) bench_fail(session, suite, c, "does not run");
  for (int i = 0; i < 2; i++) {
    side_release(&side[i]);
    bench_close_context(session, suite, c, side[i].context);
  }
  host_release(values, bytes);
}

/* ---- Creating a tensor from the pool ------------------------------------------------------- */

static compute_status create_call(void *state) {
  compute_tensor *tensor;
  compute_status status = compute_tensor_create(state, COMPUTE_F32, COMPUTE_SHAPE(TINY), &tensor);
  if (!status) compute_tensor_release(tensor);
  return status;
}

static void run_create(bench_session *session, const char *suite, const bench_case *c) {
  bench_record record = bench_record_new(session, suite, c);
  bench_run_single(session, &record,
                   &(bench_single){.call = create_call, .state = session->device});
}

#define CASE(name_, run_, ...)                                                                     \
  {                                                                                                \
    .name = name_, .dtype = COMPUTE_F32, .when = BENCH_ALWAYS, .run = run_, .size = {              \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

static const bench_case cases[] = {
    CASE("open_first", run_first_open, 0),
    CASE("open_again", run_open, 0),
    CASE("first_result_cold", first_result_run, 0),
    CASE("first_result_warm", first_result_run, 1),
    CASE("compile_20_nodes", run_compile, 0),
    CASE("run_of_1_step", run_steps, 1),
    CASE("step_of_100", run_steps, 100),
    CASE("eager_add_16", run_eager, 0),
    CASE("create_tensor_16", run_create, 0),
    CASE("threads_gelu_1K", run_threads, 1000),
    CASE("threads_gelu_10K", run_threads, 10000),
    CASE("threads_gelu_100K", run_threads, 100000),
    CASE("threads_gelu_1M", run_threads, 1000000),
};

const bench_suite bench_suite_overhead = {"overhead",
                                          "opening, compiling, tiny steps, eager calls, threads",
                                          cases, sizeof cases / sizeof *cases};
