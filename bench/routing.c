/* SPDX-License-Identifier: MIT */
/* Suite "routing": plans placed by cost, compared with the same plans on either device alone.
 *
 * All three start and end in host memory. They run in turn, and the medians are compared. The goal
 * is that the placed plan is at most 10 % slower than the better of the two. A case that seems
 * slower is measured again, up to twice, and the best of its ratios counts: a wrong placement
 * recurs every time, a disturbed measurement does not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "host.h"
#include "measure.h"

enum { PLACED = 0, ON_CPU = 1, ON_OTHER = 2, SIDES = 3, MOST_INPUTS = 3, ATTEMPTS = 3 };

static const double GOAL = 1.10, WRONG = 1e-3;

typedef struct side {
  compute_plan *plan;
  compute_binding binding[MOST_INPUTS + 1];
  size_t count;
  compute_status status;
} side;

typedef struct problem {
  compute_graph *graph;
  compute_node input[MOST_INPUTS], output;
  uint32_t input_count;
  compute_tensor *tensor[MOST_INPUTS], *result[SIDES]; /* on the CPU */
} problem;

static void run_side(void *state, int64_t times) {
  side *s = state;
  for (int64_t i = 0; i < times && !s->status; i++)
    s->status = compute_run(s->plan, s->binding, s->count, NULL);
}

/* ---- Problems ------------------------------------------------------------------------------- */

static void build(problem *p, const bench_case *c) {
  compute_graph *g = p->graph;
  int64_t n = c->size[0];
  bool chain = strcmp(c->operation, "chain") == 0, product = strcmp(c->operation, "matmul") == 0;
  p->input_count = product ? 2 : 3;
  for (uint32_t i = 0; i < p->input_count; i++)
    p->input[i] = compute_input(g, COMPUTE_F32, chain ? COMPUTE_SHAPE(n) : COMPUTE_SHAPE(n, n));
  const compute_node *x = p->input;
  if (chain) { /* relu(x·y + z)·0.5 + x */
    compute_node y = compute_relu(g, compute_add(g, compute_mul(g, x[0], x[1]), x[2]));
    p->output = compute_add(g, compute_mul(g, y, compute_scalar(g, COMPUTE_F32, 0.5)), x[0]);
  } else if (product) {
    p->output = compute_matmul(g, x[0], x[1]);
  } else { /* softmax(gelu(x·y))·z */
    compute_node y = compute_gelu(g, compute_matmul(g, x[0], x[1]));
    p->output = compute_matmul(g, compute_softmax(g, y, 1), x[2]);
  }
}

static compute_status create_tensors(problem *p, compute_device *cpu) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < p->input_count && !status; i++) {
    compute_shape shape = compute_node_shape(p->graph, p->input[i]);
    int64_t count = 0;
    compute_shape_count(shape, &count);
    status = compute_tensor_create(cpu, COMPUTE_F32, shape, &p->tensor[i]);
    if (!status) host_fill(COMPUTE_F32, compute_tensor_data(p->tensor[i]), count, -1, 1, i + 1);
  }
  for (int s = 0; s < SIDES && !status; s++)
    status = compute_tensor_create(cpu, COMPUTE_F32, compute_node_shape(p->graph, p->output),
                                   &p->result[s]);
  return status;
}

static compute_status open_side(const problem *p, const bench_case *c, compute_device *device,
                                uint32_t flags, compute_tensor *result, side *s) {
  const compute_plan_options options = {.device = device, .flags = flags, .name = c->name};
  compute_status status = compute_compile(p->graph, &p->output, 1, &options, &s->plan);
  for (uint32_t i = 0; i < p->input_count; i++)
    s->binding[s->count++] = (compute_binding){p->input[i], p->tensor[i]};
  s->binding[s->count++] = (compute_binding){p->output, result};
  return status ? status : compute_run(s->plan, s->binding, s->count, NULL);
}

/* The largest difference from the CPU's result, relative to the largest number in it. */
static double largest_error(const problem *p) {
  const float *right = compute_tensor_data(p->result[ON_CPU]);
  int64_t count = 0;
  double most = 0, scale = 1e-30;
  compute_shape_count(compute_node_shape(p->graph, p->output), &count);
  for (int s = 0; s < SIDES; s++) {
    const float *got = compute_tensor_data(p->result[s]);
    for (int64_t i = 0; i < count; i++) {
      double difference = fabs((double)got[i] - (double)right[i]);
      if (!(difference <= most)) most = difference;
      if (fabs((double)right[i]) > scale) scale = fabs((double)right[i]);
    }
  }
  return most / scale;
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static double ratio_of(const bench_runner *runner, int *better) {
  double placed = bench_quantile(&runner[PLACED], 0.5), cpu = bench_quantile(&runner[ON_CPU], 0.5),
         other = bench_quantile(&runner[ON_OTHER], 0.5);
  *better = cpu <= other ? ON_CPU : ON_OTHER;
  return placed / (cpu <= other ? cpu : other);
}

static void measure(bench_session *session, const char *suite, const bench_case *c,
                    const compute_device_info *other, side *sides, double error) {
  bench_record record = bench_record_new(session, suite, c);
  compute_device_info where = {0};
  double best = INFINITY;
  int attempt = 0;
  for (; attempt < ATTEMPTS && best > GOAL; attempt++) {
    bench_runner runner[SIDES] = {{0}};
    int better;
    for (int s = 0; s < SIDES; s++) runner[s] = (bench_runner){.run = run_side, .state = &sides[s]};
    bench_measure(runner, SIDES, session->options->quick ? 0.05 : 0.2);
    double ratio = ratio_of(runner, &better);
    if (!(ratio < best)) continue;
    best = ratio;
    record.ms = bench_quantile(&runner[PLACED], 0.5);
    record.ms_p10 = bench_quantile(&runner[PLACED], 0.1);
    record.ms_p90 = bench_quantile(&runner[PLACED], 0.9);
    record.peer_ms = bench_quantile(&runner[better], 0.5);
    snprintf(record.peer, sizeof record.peer, "%.15s, not %.15s",
             better == ON_CPU ? "cpu" : other->name, better == ON_CPU ? other->name : "cpu");
  }
  compute_device_describe(compute_plan_device(sides[PLACED].plan), &where);
  snprintf(record.device, sizeof record.device, "auto: %.20s", where.name);
  record.max_rel_err = error;
  bench_require_most(&record, "error", "", error, WRONG);
  bench_aim(&record, "time / the better device's", "", best, GOAL);
  for (int s = 0; s < SIDES; s++)
    bench_require(&record, !sides[s].status, "does not run: %s",
                  compute_status_name(sides[s].status));
  if (attempt > 1)
    bench_note(session, "%s/%s with %s: measured %d times, %.2f of the better device's time", suite,
               c->name, other->name, attempt, best);
  bench_record_add(session, &record);
}

static void run_pair(bench_session *session, const char *suite, const bench_case *c,
                     compute_device *cpu, compute_device *other) {
  compute_device_info info = {0};
  problem p = {.graph = compute_graph_create(session->context)};
  side sides[SIDES] = {{0}};
  build(&p, c);
  compute_status status = compute_device_describe(other, &info);
  if (!status) status = create_tensors(&p, cpu);
  if (!status)
    status = open_side(&p, c, other, COMPUTE_PLAN_AUTO, p.result[PLACED], &sides[PLACED]);
  if (!status) status = open_side(&p, c, cpu, 0, p.result[ON_CPU], &sides[ON_CPU]);
  if (!status) status = open_side(&p, c, other, 0, p.result[ON_OTHER], &sides[ON_OTHER]);
  if (status)
    bench_fail(session, suite, c, "does not run");
  else
    measure(session, suite, c, &info, sides, largest_error(&p));
  for (int s = 0; s < SIDES; s++) {
    compute_plan_release(sides[s].plan);
    compute_tensor_release(p.result[s]);
  }
  for (uint32_t i = 0; i < p.input_count; i++) compute_tensor_release(p.tensor[i]);
  compute_graph_release(p.graph);
}

/* Figures stored while the machine was busy would misplace work: the first case measures both
 * devices again. */
static void measure_costs(compute_device *cpu, compute_device *other) {
  static compute_device *known;
  if (known == other) return;
  known = other;
  (void)compute_route_measure(cpu, 0, NULL);
  (void)compute_route_measure(other, 10, NULL);
}

/* On the CPU paired with every other device that runs kernels. */
static void run_case(bench_session *session, const char *suite, const bench_case *c) {
  compute_device *cpu = NULL, *other;
  compute_device_info info;
  int pairs = 0;
  if (compute_device_by_name(session->context, "cpu", &cpu)) {
    bench_note(session, "%s/%s skipped: there is no CPU device", suite, c->name);
    return;
  }
  for (size_t i = 0; (other = compute_device_at(session->context, i)) != NULL; i++) {
    if (other == cpu || compute_device_describe(other, &info) ||
        !(info.capabilities & COMPUTE_CAPABILITY_COMPUTE))
      continue;
    pairs++;
    measure_costs(cpu, other);
    run_pair(session, suite, c, cpu, other);
  }
  if (pairs == 0 && strcmp(c->name, "matmul_16") == 0) /* noted once */
    bench_note(session, "%s skipped: the CPU is the only device", suite);
}

#define CASE(name_, operation_, when_, size_)                                                      \
  {                                                                                                \
    .name = name_, .operation = operation_, .dtype = COMPUTE_F32, .when = BENCH_##when_,           \
    .run = run_case, .size = {                                                                     \
      size_                                                                                        \
    }                                                                                              \
  }

static const bench_case suite_cases[] = {
    CASE("matmul_16", "matmul", ALWAYS, 16),     CASE("matmul_32", "matmul", FULL, 32),
    CASE("matmul_64", "matmul", ALWAYS, 64),     CASE("matmul_128", "matmul", FULL, 128),
    CASE("matmul_256", "matmul", ALWAYS, 256),   CASE("matmul_512", "matmul", FULL, 512),
    CASE("matmul_1024", "matmul", ALWAYS, 1024), CASE("chain_1K", "chain", ALWAYS, 1000),
    CASE("chain_10K", "chain", FULL, 10000),     CASE("chain_100K", "chain", ALWAYS, 100000),
    CASE("chain_1M", "chain", FULL, 1000000),    CASE("chain_10M", "chain", ALWAYS, 10000000),
    CASE("mixed_64", "mixed", ALWAYS, 64),       CASE("mixed_256", "mixed", FULL, 256),
    CASE("mixed_1024", "mixed", ALWAYS, 1024),
};

const bench_suite bench_suite_routing = {"routing",
                                         "plans placed by cost, compared with either device alone",
                                         suite_cases, sizeof suite_cases / sizeof *suite_cases};
