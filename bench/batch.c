/* SPDX-License-Identifier: MIT */
/* Suite "batch": the batch iterator compared with its slowest stage.
 *
 * Sources and sinks wait a fixed time for each batch, as for a disk or an instrument. The times of
 * the work, and of copies if the device has its own memory, are measured beforehand, one batch at a
 * time. The overlapped run cannot be faster than the slowest stage; the goal is at most 10 %
 * more. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "batch_copies.h"
#include "bench.h"
#include "measure.h"

enum { SIDE = 128, ITEMS = 32, BATCHES = 64, LAYERS = 4, TRIES = 5 };

static const double goal = 1.1; /* times the slowest stage */

typedef struct batch_state {
  compute_tensor *weights;
  int layers;
  double source_wait, sink_wait;       /* seconds for each batch */
  double source_seconds, sink_seconds; /* spent in the callbacks of one run */
  float expected[SIDE];                /* of an item: all are alike */
  int64_t wrong;                       /* results */
} batch_state;

static void wait_for(double seconds) {
  const long nanoseconds = (long)(seconds * 1e9);
  if (nanoseconds > 0)
    nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
}

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  const batch_state *s = user;
  (void)items;
  compute_node x = inputs[0], w = compute_parameter(graph, s->weights);
  for (int i = 0; i < s->layers; i++) x = compute_tanh(graph, compute_matmul(graph, x, w));
  outputs[0] = compute_sum(graph, x, COMPUTE_AXES(1), false);
}

static float element(int64_t i) {
  return (float)(i * 37 % 101) / 100;
}

static compute_status read_items(void *user, int64_t first, int64_t items, void *data,
                                 int64_t *count) {
  batch_state *s = user;
  const double start = clock_seconds();
  float *x = data;
  /* The previous batch's data is reused: only the first item is written again. */
  for (int64_t i = 0; i < (first < ITEMS * 16 ? items : 1) * SIDE * SIDE; i++)
    x[i] = element(i % (SIDE * SIDE));
  *count = items;
  wait_for(s->source_wait - (clock_seconds() - start));
  s->source_seconds += clock_seconds() - start;
  return COMPUTE_OK;
}

static compute_status check_items(void *user, int64_t first, int64_t items, const void *data) {
  batch_state *s = user;
  const double start = clock_seconds();
  const float *sums = data;
  if (first == 0) memcpy(s->expected, sums, sizeof s->expected);
  for (int64_t i = 0; i < items * SIDE; i++)
    s->wrong += !(fabsf(sums[i] - s->expected[i % SIDE]) < 1e-3f);
  wait_for(s->sink_wait - (clock_seconds() - start));
  s->sink_seconds += clock_seconds() - start;
  return COMPUTE_OK;
}

/* ---- The stages, one batch at a time ------------------------------------------------------- */

typedef struct batch_parts {
  double upload, compute, download; /* seconds; the copies are 0 where memory is shared */
} batch_parts;

static double median(double *values, int count) {
  bench_sort(values, (size_t)count);
  return values[count / 2];
}

static compute_status time_parts(bench_session *session, const compute_plan *plan, compute_node in,
                                 compute_node out, batch_parts *parts) {
  static float host[ITEMS * SIDE * SIDE], sums[ITEMS * SIDE];
  double up[9], run[9], down[9];
  compute_tensor *x = NULL, *y = NULL;
  compute_status s = compute_plan_create_tensor(plan, in, &x);
  if (!s) s = compute_plan_create_tensor(plan, out, &y);
  for (int64_t i = 0; i < ITEMS * SIDE * SIDE; i++) host[i] = element(i % (SIDE * SIDE));
  for (int i = -1; !s && i < 9; i++) {
    double at[4] = {clock_seconds()};
    s = compute_tensor_write(x, host, sizeof host);
    at[1] = clock_seconds();
    if (!s) s = compute_run(plan, (compute_binding[]){{in, x}, {out, y}}, 2, session->queue);
    if (!s) s = compute_queue_wait(session->queue);
    at[2] = clock_seconds();
    if (!s) s = compute_tensor_read(y, sums, sizeof sums);
    at[3] = clock_seconds();
    if (i < 0) continue; /* the first compiles */
    up[i] = at[1] - at[0], run[i] = at[2] - at[1], down[i] = at[3] - at[2];
  }
  const bool shared = compute_tensor_data(x) != NULL;
  if (!s)
    *parts = (batch_parts){.upload = shared ? 0 : median(up, 9),
                           .compute = median(run, 9),
                           .download = shared ? 0 : median(down, 9)};
  compute_tensor_release(x);
  compute_tensor_release(y);
  return s;
}

static compute_status measure_parts(bench_session *session, batch_state *state,
                                    batch_parts *parts) {
  compute_plan *plan = NULL;
  compute_graph *g = compute_graph_create(session->context);
  compute_node in = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(ITEMS, SIDE, SIDE)), out;
  build(state, g, ITEMS, &in, &out);
  compute_status s =
      compute_compile(g, &out, 1, &(compute_plan_options){.device = session->device}, &plan);
  if (!s) s = time_parts(session, plan, in, out, parts);
  compute_plan_release(plan);
  compute_graph_release(g);
  return s;
}

/* ---- The run ------------------------------------------------------------------------------- */

/* The best of several runs, since the machine is shared; each is compared with its own stages. */
static compute_status measure_run(compute_batch *batch, batch_state *state,
                                  const batch_parts *parts, double *total, double *longest) {
  compute_batch_result result;
  const double device = BATCHES * fmax(parts->compute, fmax(parts->upload, parts->download));
  const compute_batch_source source = {.read = read_items, .user = state};
  const compute_batch_sink sink = {.write = check_items, .user = state};
  const compute_batch_run_options options = {
      .items = (int64_t)ITEMS * BATCHES, .sources = &source, .sinks = &sink};
  *total = INFINITY, *longest = 1;
  for (int i = 0; i < TRIES && (i == 0 || *total > goal * *longest); i++) {
    state->source_seconds = state->sink_seconds = 0;
    const compute_status s = compute_batch_run(batch, &options, &result);
    if (s) return s;
    const double part = fmax(device, fmax(state->source_seconds, state->sink_seconds));
    if (result.seconds / part > *total / *longest) continue;
    *total = result.seconds;
    *longest = part;
  }
  return COMPUTE_OK;
}

/* size: milliseconds of the source and of the sink for each batch (-1: the time of the work), and
 * layers of the work. */
static void run_batch(bench_session *session, const char *suite, const bench_case *c) {
  batch_state state = {.layers = (int)c->size[2]};
  batch_parts parts = {0};
  compute_batch *batch = NULL;
  double total = NAN, longest = NAN;
  compute_device *device = session->device;
  compute_status s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE), -0.1,
                                           0.1, 5, &state.weights);
  if (!s) s = measure_parts(session, &state, &parts);
  state.source_wait = c->size[0] < 0 ? parts.compute : (double)c->size[0] * 1e-3;
  state.sink_wait = c->size[1] < 0 ? parts.compute : (double)c->size[1] * 1e-3;
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE)};
  if (!s)
    s = compute_batch_create(session->context,
                             &(compute_batch_options){.build = build,
                                                      .user = &state,
                                                      .inputs = &port,
                                                      .input_count = 1,
                                                      .output_count = 1,
                                                      .devices = &device,
                                                      .device_count = 1,
                                                      .batch = ITEMS,
                                                      .name = c->name},
                             &batch);
  if (!s) s = measure_run(batch, &state, &parts, &total, &longest);
  if (s) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_record record = bench_record_new(session, suite, c);
    record.ms = record.ms_p10 = record.ms_p90 = total * 1e3;
    record.gbytes_s = (double)ITEMS * BATCHES * SIDE * SIDE * sizeof(float) / total * 1e-9;
    bench_require_most(&record, "wrong results", "", (double)state.wrong, 0);
    bench_aim(&record, "time / slowest stage", "", total / longest, goal);
    bench_record_add(session, &record);
    bench_note(session,
               "%s/%s: %.0f ms, %.2f of the slowest stage; source %.0f, upload %.0f, compute %.0f, "
               "download %.0f, sink %.0f ms",
               suite, c->name, total * 1e3, total / longest, state.source_seconds * 1e3,
               parts.upload * BATCHES * 1e3, parts.compute * BATCHES * 1e3,
               parts.download * BATCHES * 1e3, state.sink_seconds * 1e3);
  }
  compute_batch_release(batch);
  compute_tensor_release(state.weights);
}

#define CASE(name_, source, sink, layers)                                                          \
  {                                                                                                \
    .name = name_, .dtype = COMPUTE_F32, .when = BENCH_ALWAYS, .run = run_batch, .size = {         \
      source,                                                                                      \
      sink,                                                                                        \
      layers                                                                                       \
    }                                                                                              \
  }

#define COPIES(name_, operation_, pinned)                                                          \
  {                                                                                                \
    .name = name_, .operation = operation_, .dtype = COMPUTE_F32, .when = BENCH_GPU,               \
    .run = batch_copies_run, .size = {                                                             \
      pinned,                                                                                      \
      256                                                                                          \
    }                                                                                              \
  }

static const bench_case cases[] = {
    CASE("source_bound", 12, 2, 1),      CASE("sink_bound", 2, 12, 1),
    CASE("compute_bound", 1, 1, LAYERS), CASE("balanced", -1, -1, LAYERS),
    COPIES("upload_bound", "upload", 0), COPIES("upload_bound_pinned", "upload", 1),
    COPIES("both_ways", "both", 0),      COPIES("both_ways_pinned", "both", 1),
};

const bench_suite bench_suite_batch = {"batch",
                                       "the batch iterator, compared with its slowest stage", cases,
                                       sizeof cases / sizeof *cases};
