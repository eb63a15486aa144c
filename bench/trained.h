/* SPDX-License-Identifier: MIT */
/* Networks whose training is measured, with their inputs and optimizers: by compute-train-steps
 * beside other engines, by the suite "group" over ranks. */
#ifndef BENCH_TRAINED_H
#define BENCH_TRAINED_H

#include "compute/compute.h"

enum { BENCH_TRAINED = 5, BENCH_WORDS = 1024 };

typedef struct bench_trained {
  const char *name;
  compute_layer *(*build)(compute_device *device);
  compute_batch_port input;
  compute_optimizer_options optimizer;
} bench_trained;

extern const bench_trained bench_trained_networks[BENCH_TRAINED];
extern const compute_batch_port bench_trained_label;

/* NULL if there is none of this name. */
const bench_trained *bench_trained_find(const char *name);

/* `items` random inputs and labels. */
compute_status bench_trained_batch(compute_device *device, const bench_trained *network,
                                   int64_t items, compute_tensor **x, compute_tensor **labels);

#endif
