/* SPDX-License-Identifier: MIT */
/* Helpers shared by several operator families. Most are parts of the graph's own compositions, with
 * the call in place of its graph. */
#ifndef MODEL_OPERATORS_OP_H
#define MODEL_OPERATORS_OP_H

#include "core/type/dtype.h"
#include "graph/builders/parts.h"
#include "model/record.h"

#define op_is_float             dtype_is_float
#define op_cast(call, ...)      part_cast((call)->graph, __VA_ARGS__)
#define op_wide_dtype           part_wide_dtype
#define op_wide(call, x)        part_wide((call)->graph, x)
#define op_numbers(call, ...)   part_numbers((call)->graph, __VA_ARGS__)
#define op_integers(call, ...)  part_integers((call)->graph, __VA_ARGS__)
#define op_move_axis(call, ...) part_move_axis((call)->graph, __VA_ARGS__)
#define op_along(call, ...)     network_along((call)->graph, __VA_ARGS__)
#define op_count                part_count
#define op_axes                 part_axes
#define op_norm(call, ...)      part_norm((call)->graph, __VA_ARGS__)

/* Pads an axis with `before` and `after` elements of `value`; crops where they are negative. */
compute_node op_pad(model_call *call, compute_node x, int32_t axis, int64_t before, int64_t after,
                    double value);

/* Applies the named activation of ONNX Runtime's fused operators; "" is none. */
compute_status op_activate(model_call *call, const char *name, const float *parameters,
                           size_t count, compute_node *x);

#endif
