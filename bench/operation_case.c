/* SPDX-License-Identifier: MIT */
/* Runs one operation: libcompute and every peer that supports it, on the same arrays, in turn.
 *
 * On a device that can address host memory, libcompute uses the same arrays as the peers; elsewhere
 * it gets copies. Small arrays are reused for every call, as programs do; arrays that would just
 * fit into the caches come in several sets, used in turn, so that cache speed is not mistaken for
 * memory speed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host.h"
#include "measure.h"
#include "operations.h"
#include "peers.h"

enum { MAX_SETS = 16, MAX_BINDINGS = BENCH_PEER_INPUTS + BENCH_OUTPUTS };

/* A peer's result may differ from the reference by this much before it counts as computing
 * something else; several libraries are less exact than libcompute. */
static const double peer_tolerance = 1e-3;

typedef struct bench_arena {
  uint32_t set_count;
  bench_peer_buffers set[MAX_SETS];
  size_t input_bytes[BENCH_PEER_INPUTS], output_bytes;
} bench_arena;

/* libcompute's side. */
typedef struct bench_own {
  bench_session *session;
  compute_graph *graph;
  compute_plan *plan;
  compute_node input[BENCH_PEER_INPUTS], output[BENCH_OUTPUTS];
  uint32_t input_count, output_count, set_count, next;
  compute_binding binding[MAX_SETS][MAX_BINDINGS];
  bool wrapped; /* the tensors are the arrays themselves */
  compute_status status;
} bench_own;

/* One variant of one peer. */
typedef struct bench_peer_case {
  char name[40];
  const bench_peer_operation *operation;
  void *state;
  uint32_t set_count, next;
} bench_peer_case;

/* ---- Arrays -------------------------------------------------------------------------------- */

static size_t shape_bytes(compute_shape shape, compute_dtype dtype) {
  int64_t count = 0;
  compute_shape_count(shape, &count);
  return (size_t)count * compute_dtype_size(dtype);
}

static void arena_release(bench_arena *arena) {
  for (uint32_t s = 0; s < arena->set_count; s++) {
    for (uint32_t i = 0; i < BENCH_PEER_INPUTS; i++)
      host_release((void *)(uintptr_t)arena->set[s].input[i], arena->input_bytes[i]);
    host_release(arena->set[s].output, arena->output_bytes);
  }
  arena->set_count = 0;
}

/* Sets of arrays whose sum is four times the last cache, at most a GiB; one if they are so small
 * that they stay in a core's private cache, or larger than every cache. */
static uint32_t choose_sets(const bench_session *session, size_t bytes) {
  uint64_t cache = session->info.cache_bytes ? session->info.cache_bytes : UINT64_C(32) << 20;
  uint64_t limit = 4 * cache < UINT64_C(1) << 30 ? 4 * cache : UINT64_C(1) << 30;
  if (bytes < cache / 2) return 1;
  uint64_t sets = (limit + bytes - 1) / bytes;
  return sets < 1 ? 1 : sets > MAX_SETS ? MAX_SETS : (uint32_t)sets;
}

/* Returns 0, or -1 when there is not enough memory. */
static int arena_create(const bench_session *session, const bench_case *c,
                        const bench_operation *operation, size_t output_bytes, bench_arena *arena) {
  size_t bytes = arena->output_bytes = output_bytes;
  for (uint32_t i = 0; i < operation->input_count; i++)
    bytes += arena->input_bytes[i] =
        shape_bytes(operation->shape(c, i), bench_operation_input(operation, c, i).dtype);
  uint32_t sets = choose_sets(session, bytes);
  if ((double)bytes * sets * 1.6 > (double)host_memory_available()) return -1;
  for (uint32_t s = 0; s < sets; s++) {
    arena->set_count = s + 1;
    for (uint32_t i = 0; i < operation->input_count; i++) {
      const bench_input what = bench_operation_input(operation, c, i);
      void *array = host_allocate(arena->input_bytes[i]);
      arena->set[s].input[i] = array;
      if (!array) return -1;
      host_fill(what.dtype, array,
                (int64_t)(arena->input_bytes[i] / compute_dtype_size(what.dtype)), what.low,
                what.high, s * BENCH_PEER_INPUTS + i + 1);
    }
    arena->set[s].output = host_allocate(output_bytes);
    if (!arena->set[s].output) return -1;
    memset(arena->set[s].output, 0xff, output_bytes); /* NaN, which also touches every page */
  }
  return 0;
}

/* ---- libcompute ---------------------------------------------------------------------------- */

static compute_status own_build(bench_own *own, const bench_case *c,
                                const bench_operation *operation) {
  bench_session *session = own->session;
  own->graph = compute_graph_create(session->context);
  own->input_count = operation->input_count;
  for (uint32_t i = 0; i < own->input_count; i++)
    own->input[i] = compute_input(own->graph, bench_operation_input(operation, c, i).dtype,
                                  operation->shape(c, i));
  own->output_count = 1;
  if (operation->build_all)
    own->output_count = operation->build_all(own->graph, c, own->input, own->output);
  else
    own->output[0] = operation->build(own->graph, c, own->input);
  return compute_compile(own->graph, own->output, own->output_count,
                         &(compute_plan_options){.device = session->device,
                                                 .fallback = COMPUTE_FALLBACK_STRICT,
                                                 .flags = c->flags,
                                                 .name = c->name},
                         &own->plan);
}

/* A tensor that wraps an array, or, on a device whose own memory is faster, one with a copy. */
static compute_status own_tensor(bench_own *own, compute_node node, void *array,
                                 compute_tensor **tensor) {
  compute_device *device = own->session->device;
  compute_dtype dtype = compute_node_dtype(own->graph, node);
  compute_shape shape = compute_node_shape(own->graph, node);
  own->wrapped = own->session->info.type == COMPUTE_DEVICE_CPU;
  if (!own->wrapped) return compute_tensor_from_host(device, dtype, shape, array, tensor);
  return compute_tensor_wrap(device, dtype, shape, NULL, array, NULL, NULL, tensor);
}

static compute_status own_bind(bench_own *own, const bench_arena *arena) {
  compute_status status = COMPUTE_OK;
  own->set_count = arena->set_count;
  for (uint32_t s = 0; s < arena->set_count && !status; s++) {
    compute_binding *binding = own->binding[s];
    for (uint32_t i = 0; i < own->input_count && !status; i++) {
      binding[i].node = own->input[i];
      status = own_tensor(own, own->input[i], (void *)(uintptr_t)arena->set[s].input[i],
                          &binding[i].tensor);
    }
    binding += own->input_count;
    binding[0].node = own->output[0];
    for (uint32_t i = 1; i < own->output_count && !status; i++) {
      binding[i].node = own->output[i];
      status = compute_plan_create_tensor(own->plan, own->output[i], &binding[i].tensor);
    }
    if (!status) status = own_tensor(own, own->output[0], arena->set[s].output, &binding[0].tensor);
  }
  return status;
}

static void own_release(bench_own *own) {
  for (uint32_t s = 0; s < MAX_SETS; s++)
    for (uint32_t i = 0; i < MAX_BINDINGS; i++) compute_tensor_release(own->binding[s][i].tensor);
  compute_plan_release(own->plan);
  compute_graph_release(own->graph);
}

static void own_run(void *state, int64_t times) {
  bench_own *own = state;
  for (int64_t i = 0; i < times && !own->status; i++) {
    own->status = compute_run(own->plan, own->binding[own->next],
                              own->input_count + own->output_count, own->session->queue);
    if (++own->next == own->set_count) own->next = 0;
  }
  if (!own->status) own->status = compute_queue_wait(own->session->queue);
}

/* Runs the first set and checks the result. */
static compute_status own_check(bench_own *own, const bench_arena *arena, const bench_check *check,
                                double *error) {
  own_run(own, 1);
  if (!own->status && !own->wrapped)
    own->status = compute_tensor_read(own->binding[0][own->input_count].tensor,
                                      arena->set[0].output, arena->output_bytes);
  if (!own->status) *error = bench_check_error(check, arena->set[0].output, false);
  return own->status;
}

/* ---- Peers --------------------------------------------------------------------------------- */

static void peer_case_run(void *state, int64_t times) {
  bench_peer_case *peer_case = state;
  for (int64_t i = 0; i < times; i++) {
    peer_case->operation->run(peer_case->state, peer_case->next);
    if (++peer_case->next == peer_case->set_count) peer_case->next = 0;
  }
}

/* Whether the peer computes the same thing. */
static bool peer_case_agrees(bench_session *session, bench_peer_case *peer_case,
                             const bench_problem *problem, const bench_arena *arena,
                             const bench_check *check) {
  memset(arena->set[0].output, 0xff, arena->output_bytes);
  peer_case->next = 0;
  peer_case_run(peer_case, 1);
  if (peer_case->operation->collect) peer_case->operation->collect(peer_case->state, 0);
  double error = bench_check_error(check, arena->set[0].output, true);
  if (error <= fmax(peer_tolerance, 4 * host_epsilon(check->dtype))) return true;
  bench_note(session, "%s computes something else for %s (error %.1e): not compared",
             peer_case->name, problem->c->name, error);
  return false;
}

static int find_peer_cases(bench_session *session, const bench_problem *problem,
                           const bench_arena *arena, const bench_peer_problem *peer_problem,
                           const bench_check *check, bench_peer_case *peer_cases, int most) {
  int count = 0;
  const bench_peer *peer;
  if (session->info.type != COMPUTE_DEVICE_CPU) return 0;
  for (size_t p = 0; (peer = bench_peer_at(session->peers, p)); p++) {
    for (size_t i = 0; i < peer->operation_count && count < most; i++) {
      const bench_peer_operation *operation = &peer->operations[i];
      if (strcmp(operation->name, problem->c->operation)) continue;
      bench_peer_case *peer_case = &peer_cases[count];
      *peer_case = (bench_peer_case){.operation = operation, .set_count = arena->set_count};
      snprintf(peer_case->name, sizeof peer_case->name, "%s%s%s", peer->name,
               operation->variant[0] ? " " : "", operation->variant);
      peer_case->state = operation->setup(peer_problem);
      if (!peer_case->state) continue;
      if (peer_case_agrees(session, peer_case, problem, arena, check))
        count++;
      else
        operation->teardown(peer_case->state);
    }
  }
  return count;
}

/* ---- Together ------------------------------------------------------------------------------ */

static void add_records(bench_session *session, const char *suite, const bench_case *c,
                        double bytes, double error, double bound, const bench_runner *runner,
                        const bench_peer_case *peer_cases, int peer_case_count) {
  const bench_operation *operation = bench_operation_find(c->operation);
  bench_record record = bench_record_new(session, suite, c);
  record.ms = bench_quantile(&runner[0], 0.5);
  record.ms_p10 = bench_quantile(&runner[0], 0.1);
  record.ms_p90 = bench_quantile(&runner[0], 0.9);
  record.gbytes_s = bytes / record.ms * 1e-6;
  if (operation->flops) record.gflops = operation->flops(c) / record.ms * 1e-6;
  record.max_rel_err = error;
  bench_require_most(&record, "error", "", error, bound);
  if (!peer_case_count) bench_record_add(session, &record);
  for (int i = 0; i < peer_case_count; i++) {
    memcpy(record.peer, peer_cases[i].name, sizeof record.peer);
    record.peer_ms = bench_quantile(&runner[i + 1], 0.5);
    bench_record_add(session, &record);
  }
}

/* Winograd's transforms round some ten times as much, and TF32 has 13 bits of mantissa less. */
static double bound_of(const bench_problem *problem) {
  const double bound = problem->operation->bound;
  if (problem->c->flags & COMPUTE_PLAN_ALLOW_TF32) return 8192 * bound;
  return problem->c->flags & COMPUTE_PLAN_ALLOW_WINOGRAD ? 12 * bound : bound;
}

/* One run instead of a measurement. */
static compute_status prepare(bench_own *own, const char *suite, const bench_case *c) {
  const bench_record record = bench_record_new(own->session, suite, c);
  own_run(own, 1);
  if (!own->status) bench_record_add(own->session, &record);
  return own->status;
}

/* The part that needs all arrays. */
static compute_status compare(bench_own *own, const char *suite, const bench_problem *problem,
                              const bench_arena *arena, const bench_check *check) {
  bench_session *session = own->session;
  const bench_case *c = problem->c;
  bench_peer_problem peer_problem = {.operation = c->operation,
                                     .dtype = compute_dtype_name(c->dtype),
                                     .threads = session->threads,
                                     .set_count = arena->set_count,
                                     .sets = arena->set};
  memcpy(peer_problem.size, c->size, sizeof peer_problem.size);
  double error = NAN, bytes = (double)arena->output_bytes;
  for (uint32_t i = 0; i < own->input_count; i++) bytes += (double)arena->input_bytes[i];
  compute_status status = own_check(own, arena, check, &error);
  if (status) return status;

  bench_peer_case peer_cases[BENCH_RUNNERS - 1];
  bench_runner runners[BENCH_RUNNERS] = {{.run = own_run, .state = own}};
  int count =
      find_peer_cases(session, problem, arena, &peer_problem, check, peer_cases, BENCH_RUNNERS - 1);
  for (int i = 0; i < count; i++)
    runners[i + 1] = (bench_runner){.run = peer_case_run, .state = &peer_cases[i]};
  /* The many variants of a convolution share the time of a few. */
  const double seconds = session->options->quick ? 0.12 : count > 3 ? 0.3 : 0.5;
  bench_measure(runners, count + 1, seconds);
  if (!own->status)
    add_records(session, suite, c, bytes, error, bound_of(problem) * host_epsilon(check->dtype),
                runners, peer_cases, count);
  for (int i = 0; i < count; i++) peer_cases[i].operation->teardown(peer_cases[i].state);
  return own->status;
}

void bench_run_operation(bench_session *session, const char *suite, const bench_case *c) {
  bench_own own = {.session = session};
  bench_arena arena = {0};
  bench_check check = {0};
  bench_problem problem = {.c = c, .operation = bench_operation_find(c->operation)};
  compute_status status = own_build(&own, c, problem.operation);
  if (status) {
    bench_fail(session, suite, c, "does not compile");
    goto end;
  }
  compute_shape shape = compute_node_shape(own.graph, own.output[0]);
  compute_dtype dtype = compute_node_dtype(own.graph, own.output[0]);
  if (arena_create(session, c, problem.operation, shape_bytes(shape, dtype), &arena)) {
    bench_note(session, "%s/%s skipped: not enough memory", suite, c->name);
    goto end;
  }
  memcpy(problem.input, arena.set[0].input, sizeof problem.input);
  if (!session->options->prepare &&
      bench_check_create(&problem, shape, dtype, session->options->quick ? 0.1 : 0.4, &check)) {
    bench_note(session, "%s/%s skipped: not enough memory for its reference", suite, c->name);
    goto end;
  }
  status = own_bind(&own, &arena);
  if (status)
    bench_fail(session, suite, c, "has no tensors");
  else if (session->options->prepare ? prepare(&own, suite, c)
                                     : compare(&own, suite, &problem, &arena, &check))
    bench_fail(session, suite, c, "does not run");
end:
  bench_check_release(&check);
  own_release(&own);
  arena_release(&arena);
}
