/* SPDX-License-Identifier: MIT */
/* Small networks and problems for trainers. */
#ifndef SUPPORT_TRAINING_H
#define SUPPORT_TRAINING_H

#include "support/harness/test.h"

/* Points [items, 4] and what a smooth function makes of them, [items, 2]; points around three
 * centres and which of them it is (i64). The same for the same seed, on the CPU. */
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

/* 4 → 16 → tanh → outputs, the same weights for the same seed. */
compute_layer *training_network(compute_device *device, int64_t outputs, uint64_t seed);

/* Options for these problems, to be changed at will: SGD with rate 0.1, batches of 12. */
compute_trainer_options training_options(compute_layer *model, bool classes);

/* All weights, one after the other, as doubles; *count is set. To be freed. */
double *training_weights(const compute_layer *model, size_t *count);

/* The largest difference between the weights of two networks, relative to the largest weight. */
double training_distance(const compute_layer *a, const compute_layer *b);

#endif
