/* SPDX-License-Identifier: MIT */
/* Suite "group": collective calls by size, training steps and how they scale, over the ranks of a
 * launcher; without one, in a group of one.
 *
 * All ranks run the same cases. Every call is checked before it is timed; rank 0 writes. */
#include "group.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* ---- The group ----------------------------------------------------------------------------- */

compute_status bench_group_open(bench_session *session) {
  compute_status s = compute_group_open(session->context, NULL, &session->group);
  if (!s) s = compute_group_query(session->group, &session->group_info);
  if (s) return s;
  const compute_group_info *info = &session->group_info;
  if (info->rank > 0) {
    session->progress = progress_begin(true, 0);
    return freopen("/dev/null", "w", stdout) ? COMPUTE_OK : COMPUTE_ERROR_FILE;
  }
  if (info->size == 1)
    bench_note(session, "group: a group of one, as no launcher has started other processes; try "
                        "mpirun -n 2 compute-bench --suite group --threads 1");
  else
    bench_note(session, "group: %d ranks on %d host%s, %d thread%s each, over %s%s",
               (int)info->size, (int)info->hosts, info->hosts > 1 ? "s" : "", session->threads,
               session->threads > 1 ? "s" : "", info->transport,
               info->local_size * session->threads > sysconf(_SC_NPROCESSORS_ONLN)
                   ? "; oversubscribed: more threads than processors"
                   : "");
  return COMPUTE_OK;
}

void bench_group_close(bench_session *session) {
  compute_group_close(session->group);
  session->group = NULL;
}

/* ---- Timing -------------------------------------------------------------------------------- */

enum { MOST_SAMPLES = 15, LEAST_SAMPLES = 3 };

static double time_calls(const bench_runner *runner, int64_t times) {
  const double start = clock_seconds();
  runner->run(runner->state, times);
  return (clock_seconds() - start) / (double)times;
}

/* Rank 0's numbers become everyone's. */
static compute_status share(bench_session *session, int64_t *numbers, int count) {
  compute_tensor *tensor = NULL;
  const size_t bytes = (size_t)count * sizeof *numbers;
  compute_status s = compute_tensor_from_host(session->group_info.device, COMPUTE_I64,
                                              COMPUTE_SHAPE(count), numbers, &tensor);
  if (!s) s = compute_group_broadcast(session->group, tensor, 0, NULL, NULL);
  if (!s) s = compute_tensor_read(tensor, numbers, bytes);
  compute_tensor_release(tensor);
  return s;
}

compute_status bench_group_measure(bench_session *session, bench_runner *runners, int count,
                                   double seconds) {
  int64_t plan[BENCH_RUNNERS + 1] = {MOST_SAMPLES}; /* samples, and the calls of one */
  compute_status s = COMPUTE_OK;
  for (int i = 0; i < count && !s; i++) {
    time_calls(&runners[i], 1); /* compiles, pages in */
    s = compute_group_barrier(session->group);
    const double t = fmax(time_calls(&runners[i], 3), 1e-9), most = seconds / t;
    if (most < (double)plan[0]) plan[0] = most > LEAST_SAMPLES ? (int64_t)most : LEAST_SAMPLES;
    plan[i + 1] = 1 + (int64_t)(most / MOST_SAMPLES);
  }
  if (!s) s = share(session, plan, count + 1);
  for (int64_t k = 0; k < plan[0] && !s; k++) {
    for (int i = 0; i < count && !s; i++) {
      s = compute_group_barrier(session->group);
      runners[i].sample[k] = time_calls(&runners[i], plan[i + 1]);
    }
  }
  for (int i = 0; i < count; i++) {
    runners[i].sample_count = (int)plan[0];
    bench_sort(runners[i].sample, (size_t)plan[0]);
  }
  return s;
}

/* ---- Calls --------------------------------------------------------------------------------- */

typedef enum call_kind {
  ALL_REDUCE,
  ALL_REDUCE_F64, /* sums in double precision */
  REDUCE_SCATTER,
  ALL_GATHER,
  BROADCAST,
  SEND /* to rank 1 and back */
} call_kind;

typedef struct call_state {
  compute_process_group *group;
  compute_group_info info;
  call_kind kind;
  compute_tensor *whole, *result, *block; /* n, n and n / ranks elements */
  compute_status status;
} call_state;

static compute_status pass(const call_state *s) {
  compute_status status = COMPUTE_OK;
  for (int turn = 0; turn < 2 && !status && s->info.rank < 2; turn++)
    status = s->info.rank == turn
                 ? compute_group_send(s->group, s->whole, 1 - turn, NULL, NULL)
                 : compute_group_receive(s->group, s->result, s->info.rank == 0, NULL, NULL);
  return status;
}

static compute_status call(const call_state *s) {
  const compute_group_call_options in_f64 = {.accumulate = COMPUTE_F64};
  switch (s->kind) {
  case ALL_REDUCE:
  case ALL_REDUCE_F64:
    return compute_group_all_reduce(s->group, COMPUTE_GROUP_SUM, s->whole, s->result,
                                    s->kind == ALL_REDUCE_F64 ? &in_f64 : NULL, NULL);
  case REDUCE_SCATTER:
    return compute_group_reduce_scatter(s->group, COMPUTE_GROUP_SUM, s->whole, s->block, NULL,
                                        NULL);
  case ALL_GATHER: return compute_group_all_gather(s->group, s->block, s->result, NULL, NULL);
  case BROADCAST: return compute_group_broadcast(s->group, s->result, 0, NULL, NULL);
  case SEND: return pass(s);
  }
  return COMPUTE_OK;
}

static void run_call(void *state, int64_t times) {
  call_state *s = state;
  for (int64_t i = 0; i < times && !s->status; i++) s->status = call(s);
}

/* `bytes` for each rank's whole tensor, which holds its rank + 1. */
static compute_status create(bench_session *session, call_kind kind, int64_t bytes, call_state *s) {
  *s = (call_state){.group = session->group, .info = session->group_info, .kind = kind};
  compute_device *device = s->info.device;
  const int64_t block = (bytes / 4 + s->info.size - 1) / s->info.size, n = block * s->info.size;
  const double own = s->info.rank + 1;
  compute_status status =
      compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(n), own, &s->whole);
  if (!status) status = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(n), own, &s->result);
  if (!status)
    status = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(block), own, &s->block);
  return status;
}

static void release(call_state *s) {
  compute_tensor_release(s->whole);
  compute_tensor_release(s->result);
  compute_tensor_release(s->block);
}

/* The last element after one call. */
static compute_status check(call_state *s, bench_record *record) {
  const int32_t ranks = s->info.size, rank = s->info.rank;
  const double sum = ranks * (ranks + 1) / 2.0;
  const double wanted[] = {
      [ALL_REDUCE] = sum,   [ALL_REDUCE_F64] = sum, [REDUCE_SCATTER] = sum,
      [ALL_GATHER] = ranks, [BROADCAST] = 1,        [SEND] = rank < 2 ? 2 - rank : rank + 1};
  float seen = NAN;
  compute_tensor *result = s->kind == REDUCE_SCATTER ? s->block : s->result, *last = NULL;
  run_call(s, 1);
  compute_status status = s->status;
  if (!status)
    status = compute_tensor_slice_view(result, 0, compute_tensor_count(result) - 1, 1, 1, &last);
  if (!status) status = compute_tensor_read(last, &seen, sizeof seen);
  compute_tensor_release(last);
  bench_require_most(record, "error", "", fabs((double)seen - wanted[s->kind]), 0);
  return status;
}

/* size: kind, bytes */
static void run_collective(bench_session *session, const char *suite, const bench_case *c) {
  bench_record record = bench_record_new(session, suite, c);
  call_state state;
  if (c->size[0] == SEND && session->group_info.size < 2) {
    bench_note(session, "%s/%s skipped: it needs two ranks", suite, c->name);
    return;
  }
  compute_status s = create(session, (call_kind)c->size[0], c->size[1], &state);
  bench_runner runner = {.run = run_call, .state = &state};
  if (!s) s = check(&state, &record);
  if (!s) s = bench_group_measure(session, &runner, 1, session->options->quick ? 0.05 : 0.3);
  if (!s) s = state.status;
  const double trips = c->size[0] == SEND ? 2 : 1;
  record.group = (bench_group){.ranks = session->group_info.size,
                               .bytes = compute_tensor_count(state.whole) * 4};
  release(&state);
  if (s) {
    bench_fail_record(session, &record, "does not run");
    return;
  }
  record.ms = bench_quantile(&runner, 0.5) / trips;
  record.ms_p10 = bench_quantile(&runner, 0.1) / trips;
  record.ms_p90 = bench_quantile(&runner, 0.9) / trips;
  record.gbytes_s = (double)record.group.bytes / record.ms * 1e-6;
  bench_record_add(session, &record);
}

compute_status bench_group_time_all_reduce(bench_session *session, int64_t bytes, double *seconds) {
  call_state state;
  compute_status s = create(session, ALL_REDUCE, bytes, &state);
  bench_runner runner = {.run = run_call, .state = &state};
  if (!s) s = bench_group_measure(session, &runner, 1, 0.3);
  if (!s) s = state.status;
  if (!s) *seconds = bench_quantile(&runner, 0.5) * 1e-3;
  release(&state);
  return s;
}

/* ---- Cases --------------------------------------------------------------------------------- */

#define CASE(name_, network_, when_, run_, ...)                                                    \
  {                                                                                                \
    .name = name_, .operation = network_, .dtype = COMPUTE_F32, .when = BENCH_##when_,             \
    .run = run_, .size = {                                                                         \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define SIZES(name, kind)                                                                          \
  CASE(name "_4B", NULL, ALWAYS, run_collective, kind, 4),                                         \
      CASE(name "_4K", NULL, FULL, run_collective, kind, 4 << 10),                                 \
      CASE(name "_64K", NULL, FULL, run_collective, kind, 64 << 10),                               \
      CASE(name "_1M", NULL, ALWAYS, run_collective, kind, 1 << 20),                               \
      CASE(name "_16M", NULL, FULL, run_collective, kind, 16 << 20)
#define WEAK   BENCH_GROUP_WEAK
#define STRONG BENCH_GROUP_STRONG

/* clang-format off */
static const bench_case cases[] = {
    SIZES("all_reduce", ALL_REDUCE),
    SIZES("all_reduce_f64", ALL_REDUCE_F64),
    SIZES("reduce_scatter", REDUCE_SCATTER),
    SIZES("all_gather", ALL_GATHER),
    SIZES("broadcast", BROADCAST),
    SIZES("send", SEND),
    CASE("step_digits_weak",         "digits_mlp",  ALWAYS, bench_group_run_step,    WEAK, 64),
    CASE("step_digits_strong",       "digits_mlp",  FULL,   bench_group_run_step,    STRONG, 1024),
    CASE("step_cnn_weak",            "cnn",         FULL,   bench_group_run_step,    WEAK, 16),
    CASE("step_cnn_strong",          "cnn",         FULL,   bench_group_run_step,    STRONG, 192),
    CASE("step_transformer_weak",    "transformer", FULL,   bench_group_run_step,    WEAK, 2),
    CASE("step_transformer_strong",  "transformer", FULL,   bench_group_run_step,    STRONG, 12),
    CASE("model_digits_weak",        "digits_mlp",  FULL,   bench_group_run_scaling, WEAK, 64),
    CASE("model_digits_strong",      "digits_mlp",  FULL,   bench_group_run_scaling, STRONG, 1024),
    CASE("model_cnn_weak",           "cnn",         FULL,   bench_group_run_scaling, WEAK, 16),
    CASE("model_cnn_strong",         "cnn",         FULL,   bench_group_run_scaling, STRONG, 1024),
    CASE("model_transformer_weak",   "transformer", FULL,   bench_group_run_scaling, WEAK, 2),
    CASE("model_transformer_strong", "transformer", FULL,   bench_group_run_scaling, STRONG, 1024),
};
/* clang-format on */

const bench_suite bench_suite_group = {
    "group", "collective calls, training steps of several processes, a model of more", cases,
    sizeof cases / sizeof *cases};
