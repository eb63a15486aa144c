/* SPDX-License-Identifier: MIT */
/* Textbook networks in double precision, the reference of suite "train". */
#ifndef BENCH_NETWORK_REFERENCE_H
#define BENCH_NETWORK_REFERENCE_H

#include "networks.h"

typedef struct network_problem {
  const bench_network *network;
  int64_t batch;
  const float *x;        /* [batch, channels, side, side] */
  const int64_t *labels; /* [batch] */
  const float *weights;  /* of all parts, contiguous */
} network_problem;

/* The results [batch, classes] in inference, with running means of 0 and variances of 1. 0, or -1
 * when out of memory. */
int network_reference_infer(const network_problem *problem, double *results);

/* Losses before each of `steps` steps of Adam (rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8). */
int network_reference_train(const network_problem *problem, int steps, double *losses);

#endif
