/* SPDX-License-Identifier: MIT */
/* Training steps of the suite "group", with communication overlapped, not overlapped, and none; and
 * the model of more ranks.
 *
 * "None" is a trainer without the group on this rank's share of the batch. All ranks run it at the
 * same time, so that they disturb each other as in the other two. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "output.h"
#include "trained.h"

/* ---- Trainers ------------------------------------------------------------------------------ */

typedef enum variant { OVERLAPPED, AFTERWARDS, ALONE, VARIANTS } variant;

typedef struct stepper {
  compute_layer *model;
  compute_trainer *trainer;
  compute_tensor *x, *labels;
  compute_status status;
} stepper;

static void run_steps(void *state, int64_t times) {
  stepper *s = state;
  double loss;
  for (int64_t i = 0; i < times && !s->status; i++)
    s->status = compute_trainer_step(s->trainer, s->x, s->labels, &loss);
}

/* `batch`: of all ranks, or with ALONE of this one. */
static compute_status create(bench_session *session, const char *network, variant v, int64_t batch,
                             stepper *s) {
  const bench_trained *n = bench_trained_find(network);
  compute_device *device = session->group_info.device;
  compute_trainer_info info;
  *s = (stepper){.model = n->build(device)};
  if (!s->model) return COMPUTE_ERROR_INTERNAL;
  compute_status status = compute_layer_initialize(s->model, COMPUTE_INIT_DEFAULT, 17);
  if (!status)
    status = compute_trainer_create(
        session->context,
        &(compute_trainer_options){.model = s->model,
                                   .input = n->input,
                                   .target = bench_trained_label,
                                   .batch = batch,
                                   .optimizer = n->optimizer,
                                   .devices = &device,
                                   .device_count = 1,
                                   .flags = v == AFTERWARDS ? COMPUTE_TRAIN_NO_OVERLAP : 0,
                                   .group = v == ALONE ? NULL : session->group},
        &s->trainer);
  if (!status) status = compute_trainer_query(s->trainer, &info);
  return status ? status : bench_trained_batch(device, n, info.share_items, &s->x, &s->labels);
}

static void release(stepper *s) {
  compute_trainer_release(s->trainer);
  compute_tensor_release(s->x);
  compute_tensor_release(s->labels);
  compute_layer_release(s->model);
}

/* The medians, in seconds, of the variants with a batch. */
static compute_status time_variants(bench_session *session, const char *network,
                                    const int64_t *batch, bench_runner *runners, int count) {
  stepper *steppers = calloc((size_t)count, sizeof *steppers);
  compute_status s = steppers ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int v = 0; v < count && !s; v++) {
    const int kind = count == VARIANTS ? v : ALONE;
    s = create(session, network, (variant)kind, batch[v], &steppers[v]);
    runners[v] = (bench_runner){.run = run_steps, .state = &steppers[v]};
  }
  if (!s) s = bench_group_measure(session, runners, count, session->options->quick ? 0.1 : 0.7);
  for (int v = 0; v < count && steppers; v++) {
    if (!s) s = steppers[v].status;
    release(&steppers[v]);
  }
  free(steppers);
  return s;
}

/* ---- Measured ------------------------------------------------------------------------------ */

/* size: weak or strong, items */
void bench_group_run_step(bench_session *session, const char *suite, const bench_case *c) {
  const int32_t ranks = session->group_info.size;
  const int64_t all = c->size[0] == BENCH_GROUP_WEAK ? c->size[1] * ranks : c->size[1];
  const int64_t batch[VARIANTS] = {all, all, (all + ranks - 1) / ranks};
  bench_runner runners[VARIANTS];
  bench_record record = bench_record_new(session, suite, c);
  if (time_variants(session, c->operation, batch, runners, VARIANTS)) {
    bench_fail_record(session, &record, "does not run");
    return;
  }
  record.ms = bench_quantile(&runners[OVERLAPPED], 0.5);
  record.ms_p10 = bench_quantile(&runners[OVERLAPPED], 0.1);
  record.ms_p90 = bench_quantile(&runners[OVERLAPPED], 0.9);
  record.group = (bench_group){.ranks = ranks,
                               .items = all,
                               .afterwards_ms = bench_quantile(&runners[AFTERWARDS], 0.5),
                               .alone_ms = bench_quantile(&runners[ALONE], 0.5)};
  bench_record_add(session, &record);
}

/* ---- Modelled ------------------------------------------------------------------------------ */

/* As src/ml/train/buckets.c divides the weights: from the last one on, a bucket is closed when it
 * has a megabyte. */
static compute_status find_buckets(const compute_layer *model, bench_model_network *network) {
  double bytes = 0;
  for (size_t i = compute_layer_parameter_count(model); i > 0; i--) {
    compute_layer_parameter p;
    const compute_status s = compute_layer_parameter_at(model, i - 1, &p);
    if (s) return s;
    if (p.trainable) bytes += (double)compute_tensor_count(p.tensor) * sizeof(float);
    if (bytes == 0 || (bytes < 1 << 20 && i > 1)) continue;
    if (network->bucket_count < BENCH_MOST_BUCKETS)
      network->bucket_bytes[network->bucket_count++] = bytes;
    bytes = 0;
  }
  return COMPUTE_OK;
}

/* The time of a step without communication, as a line through the times for few and for more
 * items. */
static compute_status learn_network(bench_session *session, const char *name,
                                    bench_model_network *network) {
  const bool large = !strcmp(name, "transformer");
  const int64_t batch[2] = {large ? 1 : 8, large ? 4 : 64};
  bench_runner runners[2];
  compute_status s = time_variants(session, name, batch, runners, 2);
  compute_layer *model = bench_trained_find(name)->build(session->group_info.device);
  if (!s) s = model ? find_buckets(model, network) : COMPUTE_ERROR_INTERNAL;
  compute_layer_release(model);
  if (s) return s;
  const double few = bench_quantile(&runners[0], 0.5), more = bench_quantile(&runners[1], 0.5);
  network->item = fmax(more - few, 0) * 1e-3 / (double)(batch[1] - batch[0]);
  network->fixed = fmax(few * 1e-3 - network->item * (double)batch[0], 0);
  return COMPUTE_OK;
}

static compute_status learn_link(bench_session *session, bench_link *link) {
  double few, many;
  compute_status s = bench_group_time_all_reduce(session, 4, &few);
  if (!s) s = bench_group_time_all_reduce(session, 16 << 20, &many);
  if (!s) *link = bench_link_fit(session->group_info.size, 4, few, 16 << 20, many);
  return s;
}

/* size: weak or strong, items. A record for each number of ranks. */
void bench_group_run_scaling(bench_session *session, const char *suite, const bench_case *c) {
  bench_model_network network = {.bucket_count = 0};
  bench_link link;
  if (session->group_info.size < 2) {
    bench_note(session, "%s/%s skipped: a link is measured between two ranks", suite, c->name);
    return;
  }
  compute_status s = learn_link(session, &link);
  if (!s) s = learn_network(session, c->operation, &network);
  if (s) {
    bench_fail(session, suite, c, "cannot be measured");
    return;
  }
  for (int32_t ranks = 1; ranks <= 1024; ranks = ranks == 2 ? 3 : ranks == 3 ? 4 : 2 * ranks) {
    const double items =
        c->size[0] == BENCH_GROUP_WEAK ? (double)c->size[1] : (double)c->size[1] / ranks;
    bench_record record = bench_record_new(session, suite, c);
    record.ms = 1e3 * bench_model_step(&link, &network, ranks, items, true);
    record.group =
        (bench_group){.ranks = ranks,
                      .items = (int64_t)(items * ranks),
                      .simulated = true,
                      .afterwards_ms = 1e3 * bench_model_step(&link, &network, ranks, items, false),
                      .alone_ms = 1e3 * (network.fixed + network.item * items),
                      .latency_us = 1e6 * (link.latency + link.message),
                      .link_gbytes_s = 1e-9 * link.bandwidth};
    bench_record_add(session, &record);
  }
}
