/* SPDX-License-Identifier: MIT */
/** @file
 * Eager calls: one operation on tensors, done when the call returns.
 *
 * Each function is the operation of the same name in graph.h, with the same rules for shapes and
 * dtypes. It runs through the same plans, cached by operation, attributes, dtypes, shapes and
 * device (the context keeps the 256 most recently used). The work happens on the device of the
 * first operand; operands on other devices of the context are copied there. Operands may be views.
 *
 * *result receives a new dense tensor on that device; it belongs to the caller (or to the open
 * memory scope). *result is unchanged on failure. All functions are thread-safe. They return
 * COMPUTE_OK or: COMPUTE_ERROR_NULL_POINTER, _WRONG_CONTEXT for operands of two contexts, _SHAPE,
 * _DTYPE, _OVERFLOW and _INVALID_ARGUMENT as for the operation in graph.h, _INDEX for an index
 * outside its axis, _OUT_OF_MEMORY, _OUT_OF_DEVICE_MEMORY, and the errors of compute_run.
 *
 * Constants are made by compute_tensor_full and compute_tensor_from_host (tensor.h), views that
 * share memory by compute_tensor_…_view. */
#ifndef COMPUTE_EAGER_H
#define COMPUTE_EAGER_H

#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sources ------------------------------------------------------------------------------- */

/** Each element is its own position along `axis`, from 0 (a number dtype). */
COMPUTE_API compute_status compute_tensor_index(compute_device *device, compute_dtype dtype,
                                                compute_shape shape, int32_t axis,
                                                compute_tensor **result);

/** Uniform in [0, 1), as compute_random_uniform; `seed` is an i64 scalar, whose device is used.
 * compute_tensor_random takes its seed as a number. */
COMPUTE_API compute_status compute_tensor_random_uniform(const compute_tensor *seed,
                                                         compute_dtype dtype, compute_shape shape,
                                                         uint32_t stream, compute_tensor **result);

/* ---- Elementwise, one operand -------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_neg(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_abs(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sign(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_square(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sqrt(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_rsqrt(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_reciprocal(const compute_tensor *x,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_exp(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_expm1(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_log(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_log1p(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sin(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_cos(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_tan(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_asin(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_acos(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_atan(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sinh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_cosh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_tanh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_asinh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_acosh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_atanh(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_erf(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_floor(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_ceil(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_round(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_trunc(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_is_nan(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_is_finite(const compute_tensor *x,
                                                    compute_tensor **result);
COMPUTE_API compute_status compute_tensor_bit_not(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_logical_not(const compute_tensor *x,
                                                      compute_tensor **result);

/** Activations. */
COMPUTE_API compute_status compute_tensor_relu(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sigmoid(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_gelu(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_gelu_tanh(const compute_tensor *x,
                                                    compute_tensor **result);
COMPUTE_API compute_status compute_tensor_silu(const compute_tensor *x, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_softplus(const compute_tensor *x,
                                                   compute_tensor **result);
COMPUTE_API compute_status compute_tensor_leaky_relu(const compute_tensor *x, double slope,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_elu(const compute_tensor *x, double alpha,
                                              compute_tensor **result);

/** Another dtype. dtype.h describes how values convert. */
COMPUTE_API compute_status compute_tensor_cast(const compute_tensor *x, compute_dtype dtype,
                                               compute_tensor **result);

/* ---- Elementwise, several operands --------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_add(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_sub(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_mul(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_div(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_mod(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_pow(const compute_tensor *a, const compute_tensor *b,
                                              compute_tensor **result);
COMPUTE_API compute_status compute_tensor_minimum(const compute_tensor *a, const compute_tensor *b,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_maximum(const compute_tensor *a, const compute_tensor *b,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_equal(const compute_tensor *a, const compute_tensor *b,
                                                compute_tensor **result);
COMPUTE_API compute_status compute_tensor_not_equal(const compute_tensor *a,
                                                    const compute_tensor *b,
                                                    compute_tensor **result);
COMPUTE_API compute_status compute_tensor_less(const compute_tensor *a, const compute_tensor *b,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_less_equal(const compute_tensor *a,
                                                     const compute_tensor *b,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_greater(const compute_tensor *a, const compute_tensor *b,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_greater_equal(const compute_tensor *a,
                                                        const compute_tensor *b,
                                                        compute_tensor **result);
COMPUTE_API compute_status compute_tensor_logical_and(const compute_tensor *a,
                                                      const compute_tensor *b,
                                                      compute_tensor **result);
COMPUTE_API compute_status compute_tensor_logical_or(const compute_tensor *a,
                                                     const compute_tensor *b,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_logical_xor(const compute_tensor *a,
                                                      const compute_tensor *b,
                                                      compute_tensor **result);

COMPUTE_API compute_status compute_tensor_bit_and(const compute_tensor *a, const compute_tensor *b,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_bit_or(const compute_tensor *a, const compute_tensor *b,
                                                 compute_tensor **result);
COMPUTE_API compute_status compute_tensor_bit_xor(const compute_tensor *a, const compute_tensor *b,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_shift_left(const compute_tensor *a,
                                                     const compute_tensor *b,
                                                     compute_tensor **result);
COMPUTE_API compute_status compute_tensor_shift_right(const compute_tensor *a,
                                                      const compute_tensor *b,
                                                      compute_tensor **result);

/** a where `condition` (bool) is true, else b. */
COMPUTE_API compute_status compute_tensor_select(const compute_tensor *condition,
                                                 const compute_tensor *a, const compute_tensor *b,
                                                 compute_tensor **result);

/** x limited to low … high. */
COMPUTE_API compute_status compute_tensor_clamp(const compute_tensor *x, double low, double high,
                                                compute_tensor **result);
COMPUTE_API compute_status compute_tensor_clamp_i64(const compute_tensor *x, int64_t low,
                                                    int64_t high, compute_tensor **result);

/* ---- Shape: dense copies; compute_tensor_…_view copies nothing ------------------------------ */

/** Axes in a new order; an empty list reverses them, COMPUTE_NO_AXES leaves them. */
COMPUTE_API compute_status compute_tensor_transpose(const compute_tensor *x, compute_axes order,
                                                    compute_tensor **result);

/** Another shape with the same number of elements; one size may be −1. */
COMPUTE_API compute_status compute_tensor_reshape(const compute_tensor *x, compute_shape shape,
                                                  compute_tensor **result);

/** Elements start, start + step, … (`count` of them) along `axis`. */
COMPUTE_API compute_status compute_tensor_slice(const compute_tensor *x, int32_t axis,
                                                int64_t start, int64_t count, int64_t step,
                                                compute_tensor **result);

/** Size-1 and missing leading dimensions repeated. */
COMPUTE_API compute_status compute_tensor_broadcast(const compute_tensor *x, compute_shape shape,
                                                    compute_tensor **result);

/** `count` (≥ 1) tensors joined along `axis`. */
COMPUTE_API compute_status compute_tensor_concat(compute_tensor *const *parts, size_t count,
                                                 int32_t axis, compute_tensor **result);

/** Zeros with `size` elements along `axis`, x written at start, start + step, …. */
COMPUTE_API compute_status compute_tensor_embed(const compute_tensor *x, int32_t axis, int64_t size,
                                                int64_t start, int64_t step,
                                                compute_tensor **result);

/* ---- Matrix product ------------------------------------------------------------------------ */

COMPUTE_API compute_status compute_tensor_matmul(const compute_tensor *a, const compute_tensor *b,
                                                 compute_tensor **result);

/** As compute_matmul_integer; zero points may be NULL. */
COMPUTE_API compute_status compute_tensor_matmul_integer(const compute_tensor *a,
                                                         const compute_tensor *b,
                                                         const compute_tensor *a_zero,
                                                         const compute_tensor *b_zero,
                                                         compute_tensor **result);

/* ---- Reductions and rows ------------------------------------------------------------------- */

/** Along `axes` (empty: all; COMPUTE_NO_AXES: none); with keep_axes the reduced axes stay with
 * size 1. */
COMPUTE_API compute_status compute_tensor_sum(const compute_tensor *x, compute_axes axes,
                                              bool keep_axes, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_mean(const compute_tensor *x, compute_axes axes,
                                               bool keep_axes, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_prod(const compute_tensor *x, compute_axes axes,
                                               bool keep_axes, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_max(const compute_tensor *x, compute_axes axes,
                                              bool keep_axes, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_min(const compute_tensor *x, compute_axes axes,
                                              bool keep_axes, compute_tensor **result);

/** Position of the first extremum along one axis, i64. */
COMPUTE_API compute_status compute_tensor_argmax(const compute_tensor *x, int32_t axis,
                                                 bool keep_axis, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_argmin(const compute_tensor *x, int32_t axis,
                                                 bool keep_axis, compute_tensor **result);

COMPUTE_API compute_status compute_tensor_softmax(const compute_tensor *x, int32_t axis,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_log_softmax(const compute_tensor *x, int32_t axis,
                                                      compute_tensor **result);
COMPUTE_API compute_status compute_tensor_normalize(const compute_tensor *x, double epsilon,
                                                    compute_tensor **result);

/** gain and bias may be NULL. */
COMPUTE_API compute_status compute_tensor_layer_norm(const compute_tensor *x,
                                                     const compute_tensor *gain,
                                                     const compute_tensor *bias, double epsilon,
                                                     compute_tensor **result);

/* ---- Indexing ------------------------------------------------------------------------------ */

COMPUTE_API compute_status compute_tensor_gather(const compute_tensor *x,
                                                 const compute_tensor *indices, int32_t axis,
                                                 compute_tensor **result);
COMPUTE_API compute_status compute_tensor_gather_elements(const compute_tensor *x,
                                                          const compute_tensor *indices,
                                                          int32_t axis, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_scatter_add(const compute_tensor *x,
                                                      const compute_tensor *indices, int32_t axis,
                                                      int64_t size, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_scatter_add_elements(const compute_tensor *x,
                                                               const compute_tensor *indices,
                                                               int32_t axis, compute_shape shape,
                                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_scatter(const compute_tensor *data,
                                                  const compute_tensor *updates,
                                                  const compute_tensor *indices, int32_t axis,
                                                  compute_scatter_mode mode,
                                                  compute_tensor **result);
COMPUTE_API compute_status compute_tensor_scatter_elements(const compute_tensor *data,
                                                           const compute_tensor *updates,
                                                           const compute_tensor *indices,
                                                           int32_t axis, compute_scatter_mode mode,
                                                           compute_tensor **result);

/** weights may be NULL. */
COMPUTE_API compute_status compute_tensor_bincount(const compute_tensor *x,
                                                   const compute_tensor *weights, int64_t bins,
                                                   int32_t axis, compute_tensor **result);

/* ---- Losses -------------------------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_cross_entropy(const compute_tensor *logits,
                                                        const compute_tensor *labels,
                                                        compute_tensor **result);
COMPUTE_API compute_status compute_tensor_mean_squared_error(const compute_tensor *a,
                                                             const compute_tensor *b,
                                                             compute_tensor **result);

#ifdef __cplusplus
}
#endif
#endif
