/* SPDX-License-Identifier: MIT */
/* Arithmetic on every dtype of numbers. Graphs do not order u64; what needs an order is composed
 * here of what they do with it. */
#ifndef MODEL_OPERATORS_NUMBERS_H
#define MODEL_OPERATORS_NUMBERS_H

#include "model/record.h"

typedef compute_node (*binary_builder)(compute_graph *graph, compute_node a, compute_node b);

bool number_is_unsigned(compute_dtype dtype);

/* A scalar, as indices and positions are counted. */
compute_node number_i64(model_call *call, int64_t value);

/* `compare` is compute_less or another comparison. */
compute_node number_compare(model_call *call, binary_builder compare, compute_node a,
                            compute_node b);
compute_node number_minimum(model_call *call, compute_node a, compute_node b);
compute_node number_maximum(model_call *call, compute_node a, compute_node b);

/* The quotient of integers is truncated. */
compute_node number_divide(model_call *call, compute_node a, compute_node b);

/* a − n · b, n the quotient truncated, or rounded down. */
compute_node number_remainder(model_call *call, compute_node a, compute_node b);
compute_node number_modulo(model_call *call, compute_node a, compute_node b);

/* The sign of signed integers stays. */
compute_node number_shift_right(model_call *call, compute_node a, compute_node b);

/* base to the power exponent, of base's dtype; exponent is of any. */
compute_node number_power(model_call *call, compute_node base, compute_node exponent);

/* The same for an exponent that is known: products and roots where that is as exact. */
compute_node number_power_of(model_call *call, compute_node base, double exponent);

#endif
