/* SPDX-License-Identifier: MIT */
/* Quantized numbers: q stands for (q − zero) · scale. */
#ifndef MODEL_OPERATORS_QUANTIZE_H
#define MODEL_OPERATORS_QUANTIZE_H

#include "model/record.h"

/* x, which has been divided by the scale, as numbers of `type`: rounded to even, `zero` added ({0}
 * for none), saturated. `saturate` counts for floats of 8 bits only. */
compute_status quantize_to(model_call *call, compute_node x, compute_node zero, int32_t type,
                           bool saturate, compute_node *result);

/* x as u8 with the scale and zero point of its own extremes, both scalars. */
typedef struct dynamic_quantization {
  compute_node values, scale, zero;
} dynamic_quantization;

dynamic_quantization quantize_dynamic(model_call *call, compute_node x);

/* Inputs a and b less their zero points, multiplied: i32, or floats if a is one. Zero points and
 * scales are of all of a tensor, of the rows of a, or of the columns of b. */
compute_node quantized_product(model_call *call, size_t a, size_t a_zero, size_t b, size_t b_zero);

/* Input i, a scale, as f32 that broadcasts to a product. */
compute_node quantized_scale(model_call *call, size_t i, bool rows);

#endif
