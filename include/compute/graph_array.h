/* SPDX-License-Identifier: MIT */
/** @file
 * Operations of graphs that are composed of others: functions of an array library. They have
 * gradients wherever their parts have them, second ones included, and run on every device. They
 * follow the rules of graph.h. eager_array.h has the same operations on tensors.
 * docs/reference/numpy.md lists them beside NumPy's calls.
 *
 * f16 and bf16 are computed in f32 and rounded once. Every function may set COMPUTE_ERROR_DTYPE,
 * _SHAPE, _OVERFLOW, _OUT_OF_MEMORY and _WRONG_GRAPH; other errors are named below. As all builders,
 * they are for the thread that builds the graph. */
#ifndef COMPUTE_GRAPH_ARRAY_H
#define COMPUTE_GRAPH_ARRAY_H

#include "compute/graph.h"
#include "compute/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise --------------------------------------------------------------------------- */

/** Logarithms to base 2 and 10, exact for powers of the base. */
COMPUTE_API compute_node compute_log2(compute_graph *graph, compute_node x);
COMPUTE_API compute_node compute_log10(compute_graph *graph, compute_node x);

/** True for negative numbers and −0. False for NaN, whatever its bits. */
COMPUTE_API compute_node compute_signbit(compute_graph *graph, compute_node x);

/** The angle of the point (b, a) in radians, −π … π, with IEEE 754's results for zeros and
 * infinities. */
COMPUTE_API compute_node compute_atan2(compute_graph *graph, compute_node a, compute_node b);

/** |a| with the sign of b (compute_signbit). Only a has a gradient. */
COMPUTE_API compute_node compute_copysign(compute_graph *graph, compute_node a, compute_node b);

/** sqrt(a² + b²) without overflow. An infinite operand gives infinity, whatever the other. */
COMPUTE_API compute_node compute_hypot(compute_graph *graph, compute_node a, compute_node b);

/** log(exp(a) + exp(b)) without overflow. */
COMPUTE_API compute_node compute_logaddexp(compute_graph *graph, compute_node a, compute_node b);

/* ---- Reductions ---------------------------------------------------------------------------- */

/** log of the sum of exp(x) along `axes`, without overflow; −infinity of no elements. Axes as for
 * compute_sum. */
COMPUTE_API compute_node compute_logsumexp(compute_graph *graph, compute_node x, compute_axes axes,
                                           bool keep_axes);

/** The squared deviations from the mean, summed along `axes` and divided by n − correction for n
 * summed elements; std is the root. A divisor below 0 counts as 0. NaN of no elements.
 * COMPUTE_ERROR_INVALID_ARGUMENT for a correction that is not finite. */
COMPUTE_API compute_node compute_var(compute_graph *graph, compute_node x, compute_axes axes,
                                     double correction, bool keep_axes);
COMPUTE_API compute_node compute_std(compute_graph *graph, compute_node x, compute_axes axes,
                                     double correction, bool keep_axes);

/** (Σ |x|^p)^(1/p) along `axes`, without overflow for p > 1; the largest |x| for p = infinity, the
 * smallest for −infinity. 0 of no elements if p > 0. COMPUTE_ERROR_INVALID_ARGUMENT for p = 0 and
 * NaN. The gradient is not defined where the norm is 0. */
COMPUTE_API compute_node compute_norm(compute_graph *graph, compute_node x, double p,
                                      compute_axes axes, bool keep_axes);

/** The product of the elements up to each one along `axis`, from its end if `reverse`; without the
 * element itself if `exclusive`. Integers wrap. It makes a pass for each doubling of the axis's
 * size. The gradient is also right where elements are 0. */
COMPUTE_API compute_node compute_cumulative_product(compute_graph *graph, compute_node x,
                                                    int32_t axis, bool exclusive, bool reverse);

/** Sums of products by an equation: "ij,jk->ik" is a matrix product. Each operand has a term, with a
 * letter for each axis; "..." is any number of axes, aligned at their ends, and broadcast. A letter
 * twice in a term takes the diagonal. Letters that the result lacks are summed. Without "->" the
 * result has the ellipsis and the letters that occur once, in alphabetical order.
 *
 * The terms are multiplied from the left as matrix products. COMPUTE_ERROR_INVALID_ARGUMENT for an
 * equation that does not fit; COMPUTE_ERROR_UNSUPPORTED if a product has more than 8 axes. */
COMPUTE_API compute_node compute_einsum(compute_graph *graph, const char *equation,
                                        const compute_node *operands, size_t count);

/* ---- Joining and arranging ----------------------------------------------------------------- */

/** `count` (≥ 1) tensors of one shape along a new axis, which is `axis` of the result. */
COMPUTE_API compute_node compute_stack(compute_graph *graph, const compute_node *parts,
                                       size_t count, int32_t axis);

/** Cuts an axis into `count` parts of sizes[i] elements, whose sum is its size, and writes them to
 * parts[i]; {0} on failure. Returns the graph's status. */
COMPUTE_API compute_status compute_split(compute_graph *graph, compute_node x, int32_t axis,
                                         const int64_t *sizes, size_t count, compute_node *parts);

/** x repeated repeats.size[i] times along axis i. The shorter of the two lists is completed with
 * ones at its front. */
COMPUTE_API compute_node compute_tile(compute_graph *graph, compute_node x, compute_shape repeats);

/** The elements along `axes` (empty: all) in reverse order. */
COMPUTE_API compute_node compute_flip(compute_graph *graph, compute_node x, compute_axes axes);

/** Element i moves to i + shift, modulo the axis's size. */
COMPUTE_API compute_node compute_roll(compute_graph *graph, compute_node x, int64_t shift,
                                      int32_t axis);

/** The matrices of the last two axes, with zeros above (tril) or below (triu) diagonal number
 * `diagonal`: 0 is the main one, positive ones are right of it. */
COMPUTE_API compute_node compute_tril(compute_graph *graph, compute_node x, int64_t diagonal);
COMPUTE_API compute_node compute_triu(compute_graph *graph, compute_node x, int64_t diagonal);

/* ---- Normalisation and embedding ----------------------------------------------------------- */

/** x / sqrt(mean of x² along the last axis + epsilon) · gain; gain has the last axis's size, or is
 * {0}. COMPUTE_ERROR_INVALID_ARGUMENT for an epsilon that is negative or not finite; likewise
 * compute_group_norm. */
COMPUTE_API compute_node compute_rms_norm(compute_graph *graph, compute_node x, compute_node gain,
                                          double epsilon);

/** x [n, channels, …] normalised over each of `groups` groups of channels, times gain, plus bias;
 * these have a number for each channel, or are {0}. With as many groups as channels it is instance
 * normalisation. */
COMPUTE_API compute_node compute_group_norm(compute_graph *graph, compute_node x, int64_t groups,
                                            compute_node gain, compute_node bias, double epsilon);

/** Rotates pairs (a, b) of the last axis to (a cos − b sin, a sin + b cos). Pair i is the elements
 * i and half + i, or 2 i and 2 i + 1 if `interleaved`. cosines and sines have `half` as their last
 * axis, at most half of x's, and broadcast to x's other axes. Elements behind 2 · half stay. */
COMPUTE_API compute_node compute_rotary_embedding(compute_graph *graph, compute_node x,
                                                  compute_node cosines, compute_node sines,
                                                  bool interleaved);

/* ---- Resizing and sampling ----------------------------------------------------------------- */

/** x in another size along any of its axes; `shape` has x's rank. Each axis is resized on its own,
 * the last one first, with places and weights that the graph stores; they are rounded to f32. NULL
 * options: nearest. COMPUTE_ERROR_OVERFLOW for an axis that gets more than 2^22 elements, and
 * COMPUTE_ERROR_INVALID_ARGUMENT for an invalid option. */
COMPUTE_API compute_node compute_resize(compute_graph *graph, compute_node x, compute_shape shape,
                                        const compute_resize_options *options);

/** x [n, c, spatial…] read at points between its elements: grid [n, points…, axes], with the same
 * number of axes, the last spatial axis's coordinate first, −1 … 1. The ends are the centres of the
 * outermost elements if align_corners is set, else their outer edges. The result is [n, c,
 * points…].
 *
 * An infinite coordinate is outside of the data. If it is infinite and the border is MIRROR, or if
 * it is NaN, LINEAR and CUBIC give NaN and NEAREST the first element along the axis; NaN gives 0
 * with ZEROS. With NEAREST the grid has no gradient. COMPUTE_ERROR_INVALID_ARGUMENT for an invalid mode or border. */
COMPUTE_API compute_node compute_grid_sample(compute_graph *graph, compute_node x,
                                             compute_node grid, compute_sample_mode mode,
                                             compute_sample_border border, bool align_corners);

/* ---- Searching ----------------------------------------------------------------------------- */

/** The places, i64, where `values` belong in the vector `sorted`, which is in ascending order:
 * before equal elements, or after them if `right`. NaN comes after all numbers. */
COMPUTE_API compute_node compute_searchsorted(compute_graph *graph, compute_node sorted,
                                              compute_node values, bool right);

/** The number of elements of x in each of `bins` (1 … 2^24) bins of equal width between low and
 * high, as i64 [bins]. A bin includes its lower edge, the last one both. Elements outside, and NaN,
 * do not count. Integers are compared as f64, which rounds those beyond 2^53. COMPUTE_ERROR_INVALID_ARGUMENT for a range that is empty or not finite. */
COMPUTE_API compute_node compute_histogram(compute_graph *graph, compute_node x, int64_t bins,
                                           double low, double high);

/** The piecewise linear function through the points (xp[i], fp[i]) at x. xp and fp are vectors of
 * one size, xp in ascending order. Outside, fp's first or last value, with a gradient of 0 for x.
 * Beside an infinite point the function has the value of the finite one; between two infinite
 * points it is NaN, unless their values are equal. */
COMPUTE_API compute_node compute_interp(compute_graph *graph, compute_node x, compute_node xp,
                                        compute_node fp);

#ifdef __cplusplus
}
#endif
#endif
