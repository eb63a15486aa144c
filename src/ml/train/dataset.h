/* SPDX-License-Identifier: MIT */
/* Internals of a dataset, and its interface for the trainer. */
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include <stdatomic.h>

#include "compute/train.h"

typedef enum dataset_part { DATASET_INPUT = 0, DATASET_TARGET = 1 } dataset_part;

/* The data shared by the parts of a split dataset. */
typedef struct dataset_data {
  _Atomic int32_t references;
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
  int64_t *items; /* indices into the data, ascending; NULL: all items */
};

/* Creates a dataset from two such tensors and takes ownership of them. Releases them on failure. */
compute_status dataset_create(compute_context *context, const char *operation,
                              compute_tensor *inputs, compute_tensor *targets,
                              compute_dataset **dataset);

/* Returns the context's CPU, whose memory contains the data. */
compute_status dataset_host(compute_context *context, const char *operation, compute_device **host);

/* Returns the dtype and shape of one item. */
compute_batch_port dataset_port(const compute_dataset *dataset, dataset_part part);

/* Writes the numbers of all items, 0 … count−1, to `items`, shuffled for an epoch. Each order is
 * equally likely and depends only on seed, epoch and count. The order is the same on every
 * machine. */
void dataset_order(const compute_dataset *dataset, uint64_t seed, uint32_t epoch, int64_t *items);

/* As dataset_order, for any count and purpose. Each purpose has its own `stream`. */
void dataset_shuffle(int64_t *items, int64_t count, uint64_t seed, uint32_t epoch, uint32_t stream);

/* Checks that items can be gathered for these ports. Shapes must match apart from axes of size 1.
 * Dtypes must convert without a change of value beyond float rounding: between floats, from
 * integers and bool to floats, and from integers and bool to i32 and i64 (if all values fit).
 * Returns COMPUTE_ERROR_SHAPE, _DTYPE or _OVERFLOW otherwise. */
compute_status dataset_check(const compute_dataset *dataset, const compute_batch_port *input,
                             const compute_batch_port *target, const char *operation);

/* Checks that every target is a class, 0 … classes−1. Returns COMPUTE_ERROR_INDEX otherwise. */
compute_status dataset_check_labels(const compute_dataset *dataset, int64_t classes,
                                    const char *operation);

/* Writes the items numbered items[0 … count−1] (each in 0 … dataset count−1) to `inputs` and
 * `targets`. The result is dense and has the dtypes of the ports, which dataset_check must have
 * accepted. Uses several threads for many items. Thread-safe. */
compute_status dataset_gather(const compute_dataset *dataset, const int64_t *items, int64_t count,
                              const compute_batch_port *input, const compute_batch_port *target,
                              void *inputs, void *targets);

/* Returns the shape of a batch with this many items. */
static inline compute_shape dataset_batch_shape(compute_shape item, int64_t items) {
  compute_shape shape = {.rank = item.rank + 1, .size = {items}};
  for (int32_t i = 0; i < item.rank; i++) shape.size[i + 1] = item.size[i];
  return shape;
}

#endif
