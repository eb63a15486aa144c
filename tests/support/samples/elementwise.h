/* SPDX-License-Identifier: MIT */
/* Every elementwise operation of ops.def with its builder, as data for tests. */
#ifndef SUPPORT_ELEMENTWISE_H
#define SUPPORT_ELEMENTWISE_H

#include "compute/compute.h"

typedef struct elementwise_row {
  const char *name;
  const char *domain; /* for operation_dtypes */
  int arity;
  bool differentiable;
  bool result_is_bool;
  double low, high, ulp; /* as in ops.def */
  double scalar;         /* for operations with an attribute */
  compute_node (*call1)(compute_graph *, compute_node);
  compute_node (*call2)(compute_graph *, compute_node, compute_node);
  compute_node (*call3)(compute_graph *, compute_node, compute_node, compute_node);
  compute_node (*scaled)(compute_graph *, compute_node, double);
} elementwise_row;

/* The row at `index`, or NULL past the end. */
const elementwise_row *elementwise_at(size_t index);

/* Appends the operation to a graph; `user` is its elementwise_row. */
compute_node elementwise_build(compute_graph *graph, const compute_node *operands,
                               const void *user);

#endif
