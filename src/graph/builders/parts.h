/* SPDX-License-Identifier: MIT */
/* Parts that several compositions share, here and in models. A graph that has an error gives {0},
 * so the calls need no checks between them. */
#ifndef GRAPH_PARTS_H
#define GRAPH_PARTS_H

#include "graph/builders/build.h"

/* Casts x, or returns x if it has that dtype. */
compute_node part_cast(compute_graph *graph, compute_node x, compute_dtype dtype);

/* The dtype for sums of many elements: f32 for f16 and bf16, otherwise the same. */
compute_dtype part_wide_dtype(compute_dtype dtype);
compute_node part_wide(compute_graph *graph, compute_node x);

/* A scalar of x's dtype, and an i64 scalar. */
compute_node part_number(compute_graph *graph, compute_node x, double value);
compute_node part_integer(compute_graph *graph, int64_t value);

/* Constants: `values` rounded to a float dtype, or integers as i64. */
compute_node part_numbers(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                          const double *values);
compute_node part_integers(compute_graph *graph, compute_shape shape, const int64_t *values);

/* Moves axis `from` to position `to`; the others keep their order. */
compute_node part_move_axis(compute_graph *graph, compute_node x, int32_t from, int32_t to);

/* The product of sizes first … end − 1. Cannot overflow for a node's shape. */
int64_t part_count(compute_shape shape, int32_t first, int32_t end);

/* Axes first … end − 1, as a set for reductions. */
compute_axes part_axes(int32_t first, int32_t end);

/* |x|^p and x^(1/p), the parts of norms. */
compute_node part_power_of_magnitude(compute_graph *graph, compute_node x, double p);
compute_node part_root(compute_graph *graph, compute_node x, double p);

/* Prevents overflow of f32 powers in norms. Returns a divisor of x along `axes`; the root is
 * multiplied by it later. The divisor is the largest magnitude, or 1 if the powers stay normal
 * numbers. Tiny numbers are scaled only if `tiny` is set. An invalid node means 1 everywhere.
 * *scaled is x divided by it. */
compute_node part_range(compute_graph *graph, compute_node x, compute_axes axes, double p,
                        bool tiny, compute_node *scaled);
/* y · range and y / range. y may lack the axes of size 1 in `range`. */
compute_node part_times_range(compute_graph *graph, compute_node y, compute_node range);
compute_node part_over_range(compute_graph *graph, compute_node y, compute_node range);

/* (sum over the axes of |x|^p)^(1/p), correct for all finite numbers. */
compute_node part_norm(compute_graph *graph, compute_node x, compute_axes axes, double p,
                       bool keep);

/* log(sum over the axes of exp(x)). At least one element is summed. */
compute_node part_log_sum_exp(compute_graph *graph, compute_node x, compute_axes axes, bool keep);

/* 1 / sqrt(mean of the squares of x over the axes + epsilon). */
compute_node part_inverse_root(compute_graph *graph, compute_node x, compute_axes axes,
                               double epsilon);

/* Normalises each of `groups` groups of the channels (axis 1) of x. `groups` divides them. */
compute_node part_normalize_groups(compute_graph *graph, compute_node x, int64_t groups,
                                   double epsilon);

/* x where it is on or above (`upper`), or on or below the diagonal number k of the last two axes;
 * zeros elsewhere. k is an i64 scalar. */
compute_node part_triangle(compute_graph *graph, compute_node x, compute_node k, bool upper);

/* The matrices' column numbers, and for each row the column of its diagonal, in i32 or i64. */
void part_diagonal(compute_graph *graph, int64_t rows, int64_t columns, compute_node k,
                   compute_node *column, compute_node *diagonal);

/* Rotates pairs of the first 2 · half elements of the last axis: element i and half + i, or 2 i and
 * 2 i + 1 if `interleaved`. The angles broadcast against x with `half` as the last axis. */
compute_node part_rotate(compute_graph *graph, compute_node x, compute_node cosines,
                         compute_node sines, bool interleaved);

#endif
