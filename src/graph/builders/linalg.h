/* SPDX-License-Identifier: MIT */
/* Nodes of linear algebra, for builders and gradients.
 *
 * A node's value has one row for each matrix: the results of its function, then the status, as the
 * kind LINALG lists them. Builders take the parts out as views. */
#ifndef GRAPH_LINALG_H
#define GRAPH_LINALG_H

#include "compute/linalg.h"
#include "graph/builders/build.h"

/* The node of all results, for operands with checked shapes. b is {0} without B. */
compute_node linalg_node(compute_graph *graph, const char *operation,
                         const compute_linalg_attributes *a, compute_node x, compute_node b);

/* The results from number `start` on: a matrix, a vector, or one element for each matrix. */
compute_node linalg_take(compute_graph *graph, compute_node packed, int64_t start, int64_t rows,
                         int64_t columns);
compute_node linalg_take_vector(compute_graph *graph, compute_node packed, int64_t start,
                                int64_t count);
compute_node linalg_take_one(compute_graph *graph, compute_node packed, int64_t at);

/* The status, in i32. */
compute_node linalg_status(compute_graph *graph, compute_node packed);

/* Sizes of the last two axes. */
int64_t linalg_rows(const compute_graph *graph, compute_node x);
int64_t linalg_columns(const compute_graph *graph, compute_node x);

/* The last two axes exchanged. */
compute_node linalg_transpose(compute_graph *graph, compute_node x);

/* Matrices with these diagonals [..., n], and 0 elsewhere. */
compute_node linalg_spread(compute_graph *graph, compute_node diagonal);

/* Vectors [..., n] as [..., 1, n] and as [..., n, 1]. */
compute_node linalg_as_row(compute_graph *graph, compute_node x);
compute_node linalg_as_column(compute_graph *graph, compute_node x);

/* [n, n]: true on the diagonal, and 1 there. */
compute_node linalg_on_diagonal(compute_graph *graph, int64_t n);
compute_node linalg_identity(compute_graph *graph, compute_dtype dtype, int64_t n);

/* ---- Calls ----------------------------------------------------------------------------------- */

/* The operands of one call, in the dtype that the kind computes in. */
typedef struct linalg_call {
  compute_graph *graph;
  const char *operation;
  compute_node a, b;
  compute_dtype dtype; /* of the caller */
  bool vector;         /* b was a vector */
} linalg_call;

/* Check the operands: a, square or not, and b with as many rows. */
bool linalg_begin(linalg_call *c, compute_graph *graph, const char *operation, compute_node a,
                  bool square);
bool linalg_begin_pair(linalg_call *c, compute_graph *graph, const char *operation, compute_node a,
                       compute_node b, bool square);

/* The node of a function of c->a, and of c->b if it is given. */
compute_node linalg_apply(linalg_call *c, compute_linalg_function function, uint32_t flags);

/* To the dtype of the call, and back to the caller's. */
compute_node linalg_to_work(linalg_call *c, compute_node x);
compute_node linalg_from_work(linalg_call *c, compute_node x);

/* Sets the status (may be NULL) from the packed results, and returns `result` in the caller's
 * dtype; {0} after an error. */
compute_node linalg_finish(linalg_call *c, compute_node packed, compute_node result,
                           compute_node *status);

/* A solution without the axis that a vector b got. */
compute_node linalg_as_given(linalg_call *c, compute_node x);

/* The result of a refused call. */
static inline compute_node linalg_none(compute_node *status) {
  if (status) *status = BUILD_NONE;
  return BUILD_NONE;
}

#endif
