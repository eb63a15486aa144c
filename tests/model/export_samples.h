/* SPDX-License-Identifier: MIT */
/* Graphs that the ONNX export tests write, load and run, together with their input tensors. */
#ifndef TESTS_MODEL_EXPORT_SAMPLES_H
#define TESTS_MODEL_EXPORT_SAMPLES_H

#include "compute/graph.h"

enum { MOST_OPERANDS = 4 };

typedef struct operand {
  compute_dtype dtype; /* NONE: the sample's dtype */
  compute_shape shape;
  double low, high;
  bool special;
} operand;

typedef struct export_sample {
  const char *name;
  size_t (*build)(compute_graph *graph, const compute_node *x, const void *user,
                  compute_node *outputs); /* returns the number of outputs */
  const void *user;
  const char *dtypes; /* a domain; NULL: the domain of each operand */
  operand operands[MOST_OPERANDS];
  double looseness; /* 0: equal bits */
} export_sample;

/* All operations but the elementwise ones. */
extern const export_sample export_samples[];
extern const size_t export_sample_count;

#endif
