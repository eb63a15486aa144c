/* SPDX-License-Identifier: MIT */
/* The rows of tests/operations.def; its first comment explains how to add one. */
#ifndef SUPPORT_OPERATION_SAMPLES_H
#define SUPPORT_OPERATION_SAMPLES_H

#include "support/harness/operation.h"

enum { OPERATION_SAMPLES = 4 }; /* maximum per row */

/* The tests that take a row. Every row is also built with each allocation failing. */
enum {
  OPERATION_OPERANDS = 1,   /* operands of every kind: test_operand_kinds.c */
  OPERATION_DERIVATIVE = 2, /* gradient by differences: the two test_gradients.c */
  OPERATION_AGAIN = 4,      /* also the gradient of its gradient */
  OPERATION_SEVERAL = 8     /* the expression has several calls: some may have recorded nodes */
};

typedef compute_node operation_builder(compute_graph *graph, const compute_node *operands,
                                       const void *user);

typedef struct operation_sample {
  const char *name;
  const char *operation; /* name in ops.def, or the builder's name after `compute_` */
  unsigned uses;
  operation_builder *build;                                              /* ignores `user` */
  operation_operand operands[OPERATION_SAMPLES][OPERATION_MAX_OPERANDS]; /* dtype NONE ends them */
} operation_sample;

/* The row at `index`, or NULL past the end. */
const operation_sample *operation_sample_at(size_t index);

/* Makes a row's sample number `index` a case without a tolerance; returns false past the last one.
 * A row without operands has one sample. */
bool operation_sample_case(const operation_sample *row, size_t index, operation_case *sample);

/* The first sample with f64 operands that are distinct and apart, as differences require. Indices
 * and other integers stay unchanged. */
operation_case operation_sample_derivative(const operation_sample *row);

/* Adds a case's operands to a graph as inputs. */
void operation_sample_inputs(compute_graph *graph, const operation_case *sample,
                             compute_node inputs[OPERATION_MAX_OPERANDS]);

/* A row of LARGE: a builder for any size of its data. */
typedef struct operation_large {
  const char *name;
  compute_node (*build)(compute_graph *graph, int64_t size);
} operation_large;

const operation_large *operation_large_at(size_t index);

#endif
