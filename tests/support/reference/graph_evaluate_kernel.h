/* SPDX-License-Identifier: MIT */
/* The operations with a kind of kernel, used by graph_evaluate.h: each is one kernel over dense
 * elements, which the reference of kernels computes. */
#ifndef SUPPORT_GRAPH_EVALUATE_KERNEL_H
#define SUPPORT_GRAPH_EVALUATE_KERNEL_H

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"

typedef enum evaluate_outcome {
  EVALUATE_DONE,
  EVALUATE_NO_MEMORY,
  EVALUATE_OTHER
} evaluate_outcome;

/* Computes `y` (zeros, of the node's shape) from the values `x` of the node's operands. The indices
 * must be in their axis. OTHER: the operation has no kind. */
evaluate_outcome evaluate_kernel(const graph_node *node, evaluate_value *const *x,
                                 evaluate_value *y);

/* Returns true if operand 1 has indices. */
bool evaluate_is_indexed(const graph_node *node);

#endif
