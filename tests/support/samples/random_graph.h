/* SPDX-License-Identifier: MIT */
/* Random expressions of all nodes that planners rewrite, fold, fuse and reuse. */
#ifndef SUPPORT_RANDOM_GRAPH_H
#define SUPPORT_RANDOM_GRAPH_H

#include "support/harness/values.h"

enum { RANDOM_GRAPH_OPERANDS = 4, RANDOM_GRAPH_STEPS = 30 };

typedef struct random_graph {
  uint64_t seed;   /* equal seeds, steps, sizes and dtypes give equal graphs */
  int steps;       /* 1 … RANDOM_GRAPH_STEPS operations or small groups of them */
  int64_t size[3]; /* a, b, c */
  /* All values have the shape [a,b,c], with b = c and a = 1 or a = b. So products, views,
   * reductions and elementwise operations combine everywhere. */
  bool square;
  int derivatives; /* 0 … 2: order of the derivatives with respect to the float operands */
} random_graph;

/* Shape of an operand: three of one number dtype, [a,b,c], [b,1] and [c], and bool [a,b,c]. Use
 * numbers between -3 and 3. */
compute_shape random_graph_operand(const int64_t size[3], int operand);

/* The result: several values of the expression, concatenated. */
compute_node random_graph_build(compute_graph *graph, const compute_node *operands,
                                const random_graph *request);

#endif
