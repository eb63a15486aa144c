/* SPDX-License-Identifier: MIT */
/* Helpers shared by several operator families. */
#ifndef MODEL_OPERATORS_OP_H
#define MODEL_OPERATORS_OP_H

#include "model/record.h"

bool op_is_float(compute_dtype dtype);

/* Casts x to a dtype, or returns x if it has that dtype. */
compute_node op_cast(model_call *call, compute_node x, compute_dtype dtype);

/* The accumulation dtype for sums of many elements: f32 for f16 and bf16. op_wide casts x to it. */
compute_dtype op_wide_dtype(compute_dtype dtype);
compute_node op_wide(model_call *call, compute_node x);

/* Constants: `values` rounded to a float dtype, or integers as i64. */
compute_node op_numbers(model_call *call, compute_dtype dtype, compute_shape shape,
                        const double *values);
compute_node op_integers(model_call *call, compute_shape shape, const int64_t *values);

/* Pads an axis with `before` and `after` elements of `value`; crops where they are negative. */
compute_node op_pad(model_call *call, compute_node x, int32_t axis, int64_t before, int64_t after,
                    double value);

/* Moves axis `from` to position `to`; the others keep their order. */
compute_node op_move_axis(model_call *call, compute_node x, int32_t from, int32_t to);

/* Reshapes a vector to rank `rank` with size 1 on the other axes. */
compute_node op_along(model_call *call, compute_node vector, int32_t axis, int32_t rank);

/* The product of sizes first … end − 1. Cannot overflow for a node's shape. */
int64_t op_count(compute_shape shape, int32_t first, int32_t end);

/* Axes first … end − 1, as a set for reductions. */
compute_axes op_axes(int32_t first, int32_t end);

/* |x|^p and x^(1/p), the parts of norms. */
compute_node op_power_of_magnitude(model_call *call, compute_node x, double p);
compute_node op_root(model_call *call, compute_node x, double p);

/* Prevents overflow of f32 powers in norms. Returns a divisor of x along `axes`; the root is
 * multiplied by it later. The divisor is the largest magnitude, or 1 if the powers stay normal
 * numbers. Tiny numbers are scaled only if `tiny` is set. An invalid node means 1 everywhere.
 * *scaled is x divided by it. */
compute_node op_range(model_call *call, compute_node x, compute_axes axes, double p, bool tiny,
                      compute_node *scaled);
/* y · range and y / range. y may lack the axes of size 1 in `range`. */
compute_node op_times_range(model_call *call, compute_node y, compute_node range);
compute_node op_over_range(model_call *call, compute_node y, compute_node range);

/* (sum over the axes of |x|^p)^(1/p), correct for all finite numbers. */
compute_node op_norm(model_call *call, compute_node x, compute_axes axes, double p, bool keep);

/* Applies the named activation of ONNX Runtime's fused operators; "" is none. */
compute_status op_activate(model_call *call, const char *name, const float *parameters,
                           size_t count, compute_node *x);

#endif
