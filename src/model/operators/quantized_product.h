/* SPDX-License-Identifier: MIT */
/* Products of quantized numbers and their scales. */
#ifndef MODEL_OPERATORS_QUANTIZED_PRODUCT_H
#define MODEL_OPERATORS_QUANTIZED_PRODUCT_H

#include "model/operators/integer.h"
#include "model/record.h"

/* Input i, a scale or zero point: a scalar for a whole tensor, or reshaped to broadcast over a
 * matrix's rows or columns. {0} if omitted. */
compute_node quantized_parameter(model_call *call, size_t i, bool rows);

/* The same for a scale, as f32. */
compute_node quantized_scale(model_call *call, size_t i, bool rows);

/* Input i minus the zero point in input `zero`. */
integer_factor quantized_factor(model_call *call, size_t i, size_t zero, bool rows);

/* The product of inputs a and b minus their zero points: i32, or floats if an input is float.
 * Zero points and scales apply to a whole tensor, to the rows of a, or to the columns of b. */
compute_node quantized_product(model_call *call, size_t a, size_t a_zero, size_t b, size_t b_zero);

/* Reshapes a scalar or a per-filter vector to broadcast to the sums. Unchanged for matrix
 * products (`sums` NULL). */
compute_node quantized_of_filters(model_call *call, const integer_sums *sums, compute_node x);

/* The scale of x times the scale of w, divided by the result's scale y (SIZE_MAX for none). */
compute_node quantized_joint_scale(model_call *call, const integer_sums *sums, size_t x, size_t w,
                                   size_t y);

/* Conv of dequantized bytes: integer sums, scaled, plus the bias. {0} if the inputs do not
 * qualify or floats are faster. */
compute_status quantized_conv(model_call *call, compute_node *y);

/* The same for the product of MatMul and Gemm. */
compute_node quantized_matmul(model_call *call, bool a_transposed, bool b_transposed);

#endif
