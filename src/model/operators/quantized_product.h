/* SPDX-License-Identifier: MIT */
/* Products of quantized numbers and their scales. */
#ifndef MODEL_OPERATORS_QUANTIZED_PRODUCT_H
#define MODEL_OPERATORS_QUANTIZED_PRODUCT_H

#include "model/operators/integer.h"
#include "model/record.h"

/* Input i, a scale or zero point: of a whole tensor as a scalar, of the rows or the columns of a
 * matrix so that it broadcasts to it. {0} if it is left out. */
compute_node quantized_parameter(model_call *call, size_t i, bool rows);

/* The same of a scale, as f32. */
compute_node quantized_scale(model_call *call, size_t i, bool rows);

/* Input i less the zero point in input `zero`. */
integer_factor quantized_factor(model_call *call, size_t i, size_t zero, bool rows);

/* Inputs a and b less their zero points, multiplied: i32, or floats if a is one. Zero points and
 * scales are of a whole tensor, of the rows of a, or of the columns of b. */
compute_node quantized_product(model_call *call, size_t a, size_t a_zero, size_t b, size_t b_zero);

/* A scalar, or a vector with one element for each filter, as it broadcasts to the sums; unchanged
 * for those of a product of matrices (NULL). */
compute_node quantized_of_filters(model_call *call, const integer_sums *sums, compute_node x);

/* The scale of a product of inputs with scales x and w, divided by the result's scale y (SIZE_MAX
 * for none). */
compute_node quantized_joint_scale(model_call *call, const integer_sums *sums, size_t x, size_t w,
                                   size_t y);

/* Conv of dequantized bytes: integer sums, scaled, and the bias. {0} if the inputs are not that, or
 * floats are faster. */
compute_status quantized_conv(model_call *call, compute_node *y);

/* The product of MatMul and Gemm, likewise. */
compute_node quantized_matmul(model_call *call, bool a_transposed, bool b_transposed);

#endif
