/* SPDX-License-Identifier: MIT */
/* Internals of a dataset, and its interface for the trainer. */
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include "compute/train.h"

typedef enum dataset_part { DATASET_INPUT = 0, DATASET_TARGET = 1 } dataset_part;

/* The data shared by the parts of a split dataset. */
typedef struct dataset_data {
  int32_t references; /* atomic */
  struct {
    compute_tensor *tensor; /* dense, [items, item…], on the CPU; in no memory scope */
    const char *bytes;      /* its elements */
    compute_dtype dtype;
    compute_shape item;
    int64_t item_bytes;
  } part[2];
} dataset_data;

struct compute_dataset {
  compute_context *context;
  dataset_data *data;
  int64_t count;
  int64_t *items; /* which of the data's, ascending; NULL: all */
};

/* Creates a dataset from two such tensors, which it takes over; on failure it releases them. */
compute_status dataset_create(compute_context *context, const char *operation,
                              compute_tensor *inputs, compute_tensor *targets,
                              compute_dataset **dataset);

/* The context's CPU, which holds the data. */
compute_status dataset_host(compute_context *context, const char *operation, compute_device **host);

/* dtype and shape of one item. */
compute_batch_port dataset_port(const compute_dataset *dataset, dataset_part part);

/* Writes the numbers of all items, 0 … count−1, to `items`: shuffled for an epoch, each order
 * equally likely, a function of only seed, epoch and count. The same on every machine. */
void dataset_order(const compute_dataset *dataset, uint64_t seed, uint32_t epoch, int64_t *items);

/* The same for any count and purpose; `stream` separates purposes. */
void dataset_shuffle(int64_t *items, int64_t count, uint64_t seed, uint32_t epoch, uint32_t stream);

/* Whether items can be gathered for these ports: shapes match apart from axes of size 1, and dtypes
 * convert without changing values beyond float rounding: between floats, from integers and bool to
 * floats, from those to i32 and i64 (if all fit). COMPUTE_ERROR_SHAPE, _DTYPE, _OVERFLOW. */
compute_status dataset_check(const compute_dataset *dataset, const compute_batch_port *input,
                             const compute_batch_port *target, const char *operation);

/* Whether every target is a class: 0 … classes−1. COMPUTE_ERROR_INDEX. */
compute_status dataset_check_labels(const compute_dataset *dataset, int64_t classes,
                                    const char *operation);

/* Writes the items numbered items[0 … count−1], of 0 … dataset count−1, to `inputs` and `targets`,
 * dense, in the ports' dtypes, which dataset_check has accepted. With several threads if they are
 * many. Thread-safe. */
compute_status dataset_gather(const compute_dataset *dataset, const int64_t *items, int64_t count,
                              const compute_batch_port *input, const compute_batch_port *target,
                              void *inputs, void *targets);

/* The shape of this many items. */
static inline compute_shape dataset_batch_shape(compute_shape item, int64_t items) {
  compute_shape shape = {.rank = item.rank + 1, .size = {items}};
  for (int32_t i = 0; i < item.rank; i++) shape.size[i + 1] = item.size[i];
  return shape;
}

#endif
