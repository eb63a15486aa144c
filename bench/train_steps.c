/* SPDX-License-Identifier: MIT */
/* compute-train-steps NETWORK BATCH FOLDER: libcompute's side of bench/peers/compare.py's suite
 * "train". It writes the network's first weights and a batch to weights.npz and batch.npz in
 * FOLDER, for the other engines to start from. Then it obeys commands on stdin, as the workers of
 * bench/peers/engines.py do: "losses N" trains N steps, "run SECONDS" times steps, at least one.
 * Each is answered by a line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "measure.h"
#include "trained.h"

enum { MOST_STEPS = 10000 };

/* ---- A run --------------------------------------------------------------------------------- */

typedef struct training {
  compute_context *context;
  compute_device *device;
  compute_layer *model;
  compute_trainer *trainer;
  compute_tensor *x, *labels;
} training;

static compute_status save(const training *t, const char *folder) {
  char weights[4096], batch[4096];
  if (snprintf(weights, sizeof weights, "%s/weights.npz", folder) >= (int)sizeof weights ||
      snprintf(batch, sizeof batch, "%s/batch.npz", folder) >= (int)sizeof batch)
    return COMPUTE_ERROR_INVALID_ARGUMENT;
  const compute_named_tensor tensors[] = {{"x", t->x}, {"labels", t->labels}};
  compute_status s = compute_layer_save(t->model, weights);
  return s ? s : compute_tensor_file_write(t->context, batch, tensors, 2);
}

static compute_status prepare(training *t, const bench_trained *n, int64_t batch,
                              const char *folder) {
  compute_status s = compute_open(&t->context, NULL);
  if (s) return s;
  t->device = compute_default_device(t->context);
  t->model = n->build(t->device);
  if (!t->model) return COMPUTE_ERROR_INTERNAL;
  s = compute_layer_initialize(t->model, COMPUTE_INIT_DEFAULT, 17);
  if (!s) s = bench_trained_batch(t->device, n, batch, &t->x, &t->labels);
  if (!s) s = save(t, folder);
  return s ? s
           : compute_trainer_create(t->context,
                                    &(compute_trainer_options){.model = t->model,
                                                               .input = n->input,
                                                               .target = bench_trained_label,
                                                               .batch = batch,
                                                               .optimizer = n->optimizer,
                                                               .devices = &t->device,
                                                               .device_count = 1},
                                    &t->trainer);
}

static compute_status print_losses(const training *t, int count) {
  compute_status s = COMPUTE_OK;
  printf("{\"losses\": [");
  for (int i = 0; i < count && !s; i++) {
    double loss = 0;
    s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
    printf("%s%.9g", i ? ", " : "", loss);
  }
  printf("]}\n");
  return s;
}

/* The first step fetches its data again; it only counts where a step takes all the time. */
static compute_status print_times(const training *t, double seconds) {
  double loss, start = clock_seconds();
  const double end = start + seconds;
  int count = 0;
  compute_status s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
  const double first = clock_seconds() - start;
  printf("{\"times\": [");
  while (!s && count < MOST_STEPS && clock_seconds() < end) {
    start = clock_seconds();
    s = compute_trainer_step(t->trainer, t->x, t->labels, &loss);
    printf("%s%.9g", count++ ? ", " : "", clock_seconds() - start);
  }
  if (!count) printf("%.9g", first);
  printf("]}\n");
  return s;
}

static compute_status obey(const training *t) {
  compute_device_info info;
  char line[64];
  compute_status s = compute_device_describe(t->device, &info);
  if (!s) printf("{\"version\": \"%s\", \"isa\": \"%s\"}\n", compute_version_text(), info.isa);
  while (!s && !fflush(stdout) && fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "losses ", 7))
      s = print_losses(t, atoi(line + 7));
    else if (!strncmp(line, "run ", 4))
      s = print_times(t, atof(line + 4));
    else
      return COMPUTE_ERROR_INVALID_ARGUMENT;
  }
  return s;
}

int main(int argc, char **argv) {
  training t = {0};
  const bench_trained *n = argc == 4 ? bench_trained_find(argv[1]) : NULL;
  if (!n || atoll(argv[2]) < 1) {
    fprintf(stderr, "usage: compute-train-steps mlp|cnn|resnet18|transformer BATCH FOLDER\n");
    return 2;
  }
  compute_status s = prepare(&t, n, atoll(argv[2]), argv[3]);
  if (!s) s = obey(&t);
  if (s) fprintf(stderr, "%s: %s\n", n->name, compute_error_message(t.context));
  compute_trainer_release(t.trainer);
  compute_tensor_release(t.x);
  compute_tensor_release(t.labels);
  compute_layer_release(t.model);
  compute_close(t.context);
  return s ? 1 : 0;
}
