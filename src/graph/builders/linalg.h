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

/* The diagonal of square matrices [..., n], and matrices of diagonals. */
compute_node linalg_diagonal(compute_graph *graph, compute_node x);
compute_node linalg_spread(compute_graph *graph, compute_node diagonal);

/* [n, n] */
compute_node linalg_identity(compute_graph *graph, compute_dtype dtype, int64_t n);

#endif
