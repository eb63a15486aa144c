/* SPDX-License-Identifier: MIT */
/* What the rules of several families record in the same way. */
#ifndef MODEL_OPERATORS_OP_H
#define MODEL_OPERATORS_OP_H

#include "model/record.h"

bool op_is_float(compute_dtype dtype);

/* x in another dtype; x itself if it has it. */
compute_node op_cast(model_call *call, compute_node x, compute_dtype dtype);

/* The dtype in which sums of many elements are kept: f32 for f16 and bf16. x in it. */
compute_dtype op_wide_dtype(compute_dtype dtype);
compute_node op_wide(model_call *call, compute_node x);

/* Constants: `values` rounded to a float dtype, and integers as i64. */
compute_node op_numbers(model_call *call, compute_dtype dtype, compute_shape shape,
                        const double *values);
compute_node op_integers(model_call *call, compute_shape shape, const int64_t *values);

/* `before` and `after` elements of `value` more along an axis; fewer, where they are negative. */
compute_node op_pad(model_call *call, compute_node x, int32_t axis, int64_t before, int64_t after,
                    double value);

/* x with its axis `from` at `to`, the others in their order. */
compute_node op_move_axis(model_call *call, compute_node x, int32_t from, int32_t to);

/* A vector as a tensor of rank `rank` whose other sizes are 1. */
compute_node op_along(model_call *call, compute_node vector, int32_t axis, int32_t rank);

/* The product of sizes first … end − 1; of a node's shape it cannot overflow. */
int64_t op_count(compute_shape shape, int32_t first, int32_t end);

/* Axes first … end − 1, as reductions take them. */
compute_axes op_axes(int32_t first, int32_t end);

/* |x|^p, and x^(1/p): what norms are made of. */
compute_node op_power_of_magnitude(model_call *call, compute_node x, double p);
compute_node op_root(model_call *call, compute_node x, double p);

/* Powers of f32 overflow long before their root would: what x is divided by, along `axes`, before
 * its elements are raised to the power p, and what the root is multiplied by. It is the largest
 * magnitude, or 1 where powers are normal numbers anyway; of tiny numbers only if these matter. An
 * invalid node stands for 1 everywhere. `scaled`: x divided by it. */
compute_node op_range(model_call *call, compute_node x, compute_axes axes, double p, bool tiny,
                      compute_node *scaled);
/* y · range, and y / range. y may lack the axes of size 1 that `range` has kept. */
compute_node op_times_range(model_call *call, compute_node y, compute_node range);
compute_node op_over_range(model_call *call, compute_node y, compute_node range);

/* (sum over the axes of |x|^p)^(1/p), right for all finite numbers. */
compute_node op_norm(model_call *call, compute_node x, compute_axes axes, double p, bool keep);

/* The activation that ONNX Runtime's fused operators name; "" is none. */
compute_status op_activate(model_call *call, const char *name, const float *parameters,
                           size_t count, compute_node *x);

#endif
