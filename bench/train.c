/* SPDX-License-Identifier: MIT */
/* Suite "train": networks, in inference and in training, compared with libtorch's modules and
 * optimizer.
 *
 * All start from the same weights and see the same batch. Before anything is timed, results are
 * compared with network_reference.c. In training these are the losses of the first steps, which
 * depend on gradients and the optimizer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "measure.h"
#include "network_memory.h"
#include "network_own.h"
#include "network_reference.h"
#include "peers.h"

/* Errors in inference are relative to the largest result. Losses pass through Adam's division by
 * the root of squares, which for gradients near zero turns roundings into whole steps. */
static const double infer_bound = 2e-5, train_bound = 1e-3;

typedef struct peer_case {
  char name[40];
  const bench_peer_operation *operation;
  void *state;
} peer_case;

/* One case: arrays, and the truth. */
typedef struct comparison {
  bench_session *session;
  const bench_case *c;
  bool training;
  network_data data;
  int64_t result_count;
  double *truth;
  float *results; /* of a peer */
} comparison;

/* ---- Checks -------------------------------------------------------------------------------- */

static int find_truth(comparison *t) {
  const network_problem problem = {.network = t->data.network,
                                   .batch = t->data.batch,
                                   .x = t->data.x,
                                   .labels = t->data.labels,
                                   .weights = t->data.weights};
  t->result_count = t->training ? BENCH_CHECK_STEPS : t->data.batch * BENCH_CLASSES;
  t->truth = malloc((size_t)t->result_count * sizeof *t->truth);
  t->results = calloc((size_t)t->result_count, sizeof *t->results);
  if (!t->truth || !t->results) return -1;
  return t->training ? network_reference_train(&problem, BENCH_CHECK_STEPS, t->truth)
                     : network_reference_infer(&problem, t->truth);
}

/* The largest error, relative to the largest of the true results. */
static double error_of(const comparison *t, const float *results, int64_t first) {
  double worst = 0, top = 0;
  for (int64_t i = first; i < t->result_count; i++) top = fmax(top, fabs(t->truth[i]));
  for (int64_t i = first; i < t->result_count; i++) {
    const double error = fabs((double)results[i] - t->truth[i]) / top;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

/* ---- Peers --------------------------------------------------------------------------------- */

static void peer_case_run(void *state, int64_t times) {
  const peer_case *r = state;
  for (int64_t i = 0; i < times; i++) r->operation->run(r->state, 0);
}

/* Only the last loss of a peer's training is known. */
static bool peer_case_agrees(comparison *t, peer_case *r) {
  const int64_t last = t->training ? BENCH_CHECK_STEPS - 1 : 0;
  for (int64_t i = 0; i < t->result_count; i++) t->results[i] = NAN; /* not our result */
  peer_case_run(r, t->training ? BENCH_CHECK_STEPS : 1);
  if (r->operation->collect) r->operation->collect(r->state, 0);
  if (t->training) t->results[last] = t->results[0];
  const double error = error_of(t, t->results, last);
  if (error <= train_bound) return true;
  bench_note(t->session, "%s computes something else for %s (error %.1e): not compared", r->name,
             t->c->name, error);
  return false;
}

static int find_peer_cases(comparison *t, const bench_peer_problem *problem, peer_case *peer_cases,
                           int most) {
  int count = 0;
  const bench_peer *peer;
  if (t->session->info.type != COMPUTE_DEVICE_CPU) return 0;
  for (size_t p = 0; (peer = bench_peer_at(t->session->peers, p)); p++) {
    for (size_t i = 0; i < peer->operation_count && count < most; i++) {
      peer_case *r = &peer_cases[count];
      *r = (peer_case){.operation = &peer->operations[i]};
      if (strcmp(r->operation->name, t->c->operation)) continue;
      snprintf(r->name, sizeof r->name, "%s%s%s", peer->name, r->operation->variant[0] ? " " : "",
               r->operation->variant);
      r->state = r->operation->setup(problem);
      if (r->state && peer_case_agrees(t, r))
        count++;
      else if (r->state)
        r->operation->teardown(r->state);
    }
  }
  return count;
}

/* ---- Together ------------------------------------------------------------------------------ */

static void add_records(comparison *t, const char *suite, double error, const bench_runner *runners,
                        const peer_case *peer_cases, int count) {
  bench_record record = bench_record_new(t->session, suite, t->c);
  record.ms = bench_quantile(&runners[0], 0.5);
  record.ms_p10 = bench_quantile(&runners[0], 0.1);
  record.ms_p90 = bench_quantile(&runners[0], 0.9);
  record.training.rate = (double)t->data.batch / record.ms * 1e3;
  record.max_rel_err = error;
  bench_require_most(&record, "error", "", error, t->training ? train_bound : infer_bound);
  if (!count) bench_record_add(t->session, &record);
  for (int i = 0; i < count; i++) {
    memcpy(record.peer, peer_cases[i].name, sizeof record.peer);
    record.peer_ms = bench_quantile(&runners[i + 1], 0.5);
    bench_record_add(t->session, &record);
  }
}

static compute_status compare(comparison *t, const char *suite, network_own *own) {
  enum { MOST = 4 };
  peer_case peer_cases[MOST];
  bench_runner runners[MOST + 1] = {{.run = network_own_run, .state = own}};
  const bench_peer_buffers set = {.input = {t->data.x, t->data.labels, t->data.weights},
                                  .output = t->results};
  const bench_peer_problem problem = {.operation = t->c->operation,
                                      .dtype = "f32",
                                      .size = {t->c->size[0], t->c->size[1]},
                                      .threads = t->session->threads,
                                      .set_count = 1,
                                      .sets = &set};
  compute_status s = network_own_results(own, t->results, t->result_count);
  if (s) return s;
  const double error = error_of(t, t->results, 0);
  const int count = find_peer_cases(t, &problem, peer_cases, MOST);
  for (int i = 0; i < count; i++)
    runners[i + 1] = (bench_runner){.run = peer_case_run, .state = &peer_cases[i]};
  bench_measure(runners, count + 1, t->session->options->quick ? 0.15 : 1.0);
  if (!own->status) add_records(t, suite, error, runners, peer_cases, count);
  for (int i = 0; i < count; i++) peer_cases[i].operation->teardown(peer_cases[i].state);
  return own->status;
}

/* size: network, batch */
static void run(bench_session *session, const char *suite, const bench_case *c) {
  comparison t = {.session = session, .c = c, .training = !strcmp(c->operation, "network_step")};
  network_own own = {0};
  compute_status s =
      network_own_create(session->context, session->device, session->queue,
                         &bench_networks[c->size[0]], c->size[1], t.training, &own, &t.data);
  if (s)
    bench_fail(session, suite, c, "cannot be made");
  else if (find_truth(&t))
    bench_note(session, "%s/%s skipped: not enough memory for its reference", suite, c->name);
  else if (compare(&t, suite, &own))
    bench_fail(session, suite, c, "does not run");
  network_own_release(&own);
  network_data_release(&t.data);
  free(t.truth);
  free(t.results);
}

#define CASE(name_, operation_, when_, run_, ...)                                                  \
  {                                                                                                \
    .name = name_, .operation = operation_, .dtype = COMPUTE_F32, .when = BENCH_##when_,           \
    .run = run_, .size = {                                                                         \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

/* clang-format off */
static const bench_case cases[] = {
    CASE("mlp_forward_128",   "network_infer", ALWAYS, run, BENCH_MLP, 128),
    CASE("mlp_step_128",      "network_step",  ALWAYS, run, BENCH_MLP, 128),
    CASE("mlp_step_32",       "network_step",  FULL,   run, BENCH_MLP, 32),
    CASE("mlp_step_512",      "network_step",  FULL,   run, BENCH_MLP, 512),
    CASE("cnn_forward_128",   "network_infer", FULL,   run, BENCH_CNN, 128),
    CASE("cnn_step_16",       "network_step",  QUICK,  run, BENCH_CNN, 16),
    CASE("cnn_step_128",      "network_step",  FULL,   run, BENCH_CNN, 128),
    CASE("cnn_step_32",       "network_step",  FULL,   run, BENCH_CNN, 32),
    CASE("cnn_step_512",      "network_step",  FULL,   run, BENCH_CNN, 512),
    CASE("resnet_forward_32", "network_infer", FULL,   run, BENCH_RESNET, 32),
    CASE("resnet_step_8",     "network_step",  QUICK,  run, BENCH_RESNET, 8),
    CASE("resnet_step_32",    "network_step",  FULL,   run, BENCH_RESNET, 32),
    CASE("mlp_memory",        "",              ALWAYS, network_memory_run, BENCH_MLP, 128, 1000),
    CASE("cnn_memory",        "",              ALWAYS, network_memory_run, BENCH_CNN, 16, 1000),
    CASE("resnet_memory",     "",              FULL,   network_memory_run, BENCH_RESNET, 32, 300),
};
/* clang-format on */

const bench_suite bench_suite_train = {"train",
                                       "networks: inference, training steps with Adam, memory",
                                       cases, sizeof cases / sizeof *cases};
