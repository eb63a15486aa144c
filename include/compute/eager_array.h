/* SPDX-License-Identifier: MIT */
/** @file
 * Eager calls of the operations in graph_array.h, and of those in graph_nn.h that an array library
 * has. They follow the rules of eager.h, and give the same bits as a graph.
 *
 * compute_tensor_unique, _unique_slices and _nonzero have no builder: the size of their result depends
 * on values. They run on the CPU. */
#ifndef COMPUTE_EAGER_ARRAY_H
#define COMPUTE_EAGER_ARRAY_H

#include "compute/eager.h"
#include "compute/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise --------------------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_log2(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_log10(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_signbit(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_atan2(const compute_tensor *a, const compute_tensor *b,
                                                compute_tensor **result);
COMPUTE_API compute_status compute_tensor_copysign(const compute_tensor *a, const compute_tensor *b,
                                                   compute_tensor **result);
COMPUTE_API compute_status compute_tensor_hypot(const compute_tensor *a, const compute_tensor *b,
                                                compute_tensor **result);
COMPUTE_API compute_status compute_tensor_logaddexp(const compute_tensor *a,
                                                    const compute_tensor *b,
                                                    compute_tensor **result);

/* ---- Reductions ---------------------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_logsumexp(const compute_tensor *x, compute_axes axes,
                                                    bool keep_axes, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_var(const compute_tensor *x, compute_axes axes,
                                              double correction, bool keep_axes,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_std(const compute_tensor *x, compute_axes axes,
                                              double correction, bool keep_axes,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_norm(const compute_tensor *x, double p, compute_axes axes,
                                               bool keep_axes, compute_tensor **result);

/** `count` (≥ 1) operands; see compute_einsum. */
COMPUTE_API compute_status compute_tensor_einsum(const char *equation,
                                                 compute_tensor *const *operands, size_t count,
                                                 compute_tensor **result);

/* ---- Joining and arranging ----------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_stack(compute_tensor *const *parts, size_t count,
                                                int32_t axis, compute_tensor **result);

/** Writes `count` new tensors to parts[i]; none on failure. */
COMPUTE_API compute_status compute_tensor_split(const compute_tensor *x, int32_t axis,
                                                const int64_t *sizes, size_t count,
                                                compute_tensor **parts);

COMPUTE_API compute_status compute_tensor_tile(const compute_tensor *x, compute_shape repeats,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_flip(const compute_tensor *x, compute_axes axes,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_roll(const compute_tensor *x, int64_t shift, int32_t axis,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_tril(const compute_tensor *x, int64_t diagonal,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_triu(const compute_tensor *x, int64_t diagonal,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_pad(const compute_tensor *x, int32_t axis, int64_t before,
                                              int64_t after, compute_pad_mode mode, double value,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_pad_i64(const compute_tensor *x, int32_t axis,
                                                  int64_t before, int64_t after,
                                                  compute_pad_mode mode, int64_t value,
                                                  compute_tensor **result);

/* ---- Normalisation and embedding ----------------------------------------------------------- */

/** gain and bias may be NULL. */
COMPUTE_API compute_status compute_tensor_rms_norm(const compute_tensor *x,
                                                   const compute_tensor *gain, double epsilon,
                                                   compute_tensor **result);
COMPUTE_API compute_status compute_tensor_group_norm(const compute_tensor *x, int64_t groups,
                                                     const compute_tensor *gain,
                                                     const compute_tensor *bias, double epsilon,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_rotary_embedding(const compute_tensor *x,
                                                           const compute_tensor *cosines,
                                                           const compute_tensor *sines,
                                                           bool interleaved,
                                                           compute_tensor **result);

/** [...] i32 or i64 → [..., classes] of `dtype`; see compute_one_hot. */
COMPUTE_API compute_status compute_tensor_one_hot(const compute_tensor *labels, int64_t classes,
                                                  compute_dtype dtype, compute_tensor **result);

/* ---- Resizing and sampling ----------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_upsample2d(const compute_tensor *x, int64_t height,
                                                     int64_t width, compute_upsample_mode mode,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_resize(const compute_tensor *x, compute_shape shape,
                                                 const compute_resize_options *options,
                                                 compute_tensor **result);
COMPUTE_API compute_status compute_tensor_grid_sample(const compute_tensor *x,
                                                      const compute_tensor *grid,
                                                      compute_sample_mode mode,
                                                      compute_sample_border border,
                                                      bool align_corners, compute_tensor **result);

/* ---- Order and searching ------------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_cumulative_sum(const compute_tensor *x, int32_t axis,
                                                         bool exclusive, bool reverse,
                                                         compute_tensor **result);
COMPUTE_API compute_status compute_tensor_cumulative_product(const compute_tensor *x, int32_t axis,
                                                             bool exclusive, bool reverse,
                                                             compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sort(const compute_tensor *x, int32_t axis,
                                               bool descending, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_argsort(const compute_tensor *x, int32_t axis,
                                                  bool descending, compute_tensor **result);

/** *values and *positions (either may be NULL) receive new tensors; see compute_top_k. */
COMPUTE_API compute_status compute_tensor_top_k(const compute_tensor *x, int64_t k, int32_t axis,
                                                bool smallest, compute_tensor **values,
                                                compute_tensor **positions);

COMPUTE_API compute_status compute_tensor_searchsorted(const compute_tensor *sorted,
                                                       const compute_tensor *values, bool right,
                                                       compute_tensor **result);
COMPUTE_API compute_status compute_tensor_histogram(const compute_tensor *x, int64_t bins,
                                                    double low, double high,
                                                    compute_tensor **result);
COMPUTE_API compute_status compute_tensor_interp(const compute_tensor *x, const compute_tensor *xp,
                                                 const compute_tensor *fp, compute_tensor **result);

/* ---- Results whose size depends on values -------------------------------------------------- */

/** The distinct elements of x in ascending order, [found]. −0 equals 0, and all NaN are one element,
 * the last. The others, i64, may be NULL: the place of each one's first occurrence [found], the
 * number of each element of x [elements of x], and how often each occurs [found]. Elements count in
 * row-major order. COMPUTE_ERROR_OVERFLOW from 2^32 − 1 elements on. Nothing is written on failure. */
COMPUTE_API compute_status compute_tensor_unique(const compute_tensor *x, compute_tensor **values,
                                                 compute_tensor **first, compute_tensor **inverse,
                                                 compute_tensor **counts);

/** The distinct slices of x along `axis` (negative counts from the end), as compute_tensor_unique:
 * values have x's shape with the number of slices found along the axis. Slices have the order of
 * their first different element. NaN equals NaN, and −0 equals 0. `inverse` is [size of the axis].
 * COMPUTE_ERROR_SHAPE for an axis that x does not have. */
COMPUTE_API compute_status compute_tensor_unique_slices(const compute_tensor *x, int32_t axis,
                                                        compute_tensor **values,
                                                        compute_tensor **first,
                                                        compute_tensor **inverse,
                                                        compute_tensor **counts);

/** The coordinates of the elements that are not zero, i64 [rank, found], in row-major order; NaN is
 * not zero. A scalar counts as a vector of one. */
COMPUTE_API compute_status compute_tensor_nonzero(const compute_tensor *x, compute_tensor **result);

#ifdef __cplusplus
}
#endif
#endif
