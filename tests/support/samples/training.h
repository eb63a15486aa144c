/* SPDX-License-Identifier: MIT */
/* Small networks and problems for trainers. */
#ifndef SUPPORT_TRAINING_H
#define SUPPORT_TRAINING_H

#include "support/harness/test.h"

/* Points [items, 4] with targets [items, 2] of a smooth function, and points around three centres
 * with the centre's index (i64) as label. Equal seeds give equal data, on the CPU. */
typedef struct training_data {
  int64_t items;
  float *inputs;   /* [items, 4] */
  float *targets;  /* [items, 2] */
  int64_t *labels; /* [items] */
} training_data;

training_data training_data_create(int64_t items, bool classes, uint64_t seed);
void training_data_free(training_data *data);

compute_dataset *training_regression_set(compute_context *context, const training_data *data);
compute_dataset *training_class_set(compute_context *context, const training_data *data);

/* 4 → 16 → tanh → outputs; equal seeds give equal weights. */
compute_layer *training_network(compute_device *device, int64_t outputs, uint64_t seed);

/* Default options for these problems, which the caller may change: SGD with rate 0.1, batches of
 * 12. */
compute_trainer_options training_options(compute_layer *model, bool classes);

/* Returns all weights, concatenated, as doubles and sets *count. The caller frees them. */
double *training_weights(const compute_layer *model, size_t *count);

/* The largest difference between the weights of two networks, relative to the largest weight. */
double training_distance(const compute_layer *a, const compute_layer *b);

#endif
