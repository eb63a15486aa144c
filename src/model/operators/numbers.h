/* SPDX-License-Identifier: MIT */
/* Arithmetic for all numeric dtypes. Graphs do not compare u64, so this file composes such
 * operations from supported ones. */
#ifndef MODEL_OPERATORS_NUMBERS_H
#define MODEL_OPERATORS_NUMBERS_H

#include "model/record.h"

typedef compute_node (*binary_builder)(compute_graph *graph, compute_node a, compute_node b);

bool number_is_unsigned(compute_dtype dtype);

/* An i64 scalar, the dtype of indices and positions. */
compute_node number_i64(model_call *call, int64_t value);

/* `compare` is compute_less or another comparison. */
compute_node number_compare(model_call *call, binary_builder compare, compute_node a,
                            compute_node b);
compute_node number_minimum(model_call *call, compute_node a, compute_node b);
compute_node number_maximum(model_call *call, compute_node a, compute_node b);

/* Integer quotients are truncated. */
compute_node number_divide(model_call *call, compute_node a, compute_node b);

/* a − n · b, with the quotient n truncated (remainder) or rounded down (modulo). */
compute_node number_remainder(model_call *call, compute_node a, compute_node b);
compute_node number_modulo(model_call *call, compute_node a, compute_node b);

/* Arithmetic shift for signed integers. */
compute_node number_shift_right(model_call *call, compute_node a, compute_node b);

/* base^exponent in base's dtype; the exponent may have any dtype. */
compute_node number_power(model_call *call, compute_node base, compute_node exponent);

/* The same for a known exponent. Uses products and roots if they are equally exact. */
compute_node number_power_of(model_call *call, compute_node base, double exponent);

#endif
