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

/* What DequantizeLinear made a value of: bytes or i32, and f32 scales of the whole or along
 * `axis`. */
typedef struct quantized_form {
  model_value values, scale, zero; /* kind VALUE_ABSENT for no zero point */
  int32_t axis;                    /* −1: of the whole */
} quantized_form;

/* If inputs a and b have been dequantized from bytes, makes a call of what they were: values, scale
 * and zero point of a as inputs 0 … 2, of b as 3 … 5. The scale of a is of the whole; that of b
 * may be along `axis` of it. */
bool quantized_call(model_call *call, size_t a, size_t b, int32_t axis, model_call *own);

/* Whether input i has been dequantized from bytes by one known positive scale: then elements can be
 * moved, or the largest chosen, before that. */
bool quantized_is_ordered(const model_call *call, size_t i);

/* A call of DequantizeLinear with what input i was made of, or false. quantized_again makes output
 * 0 of the call of `bytes` as input i was made of its own. */
bool quantized_origin(model_call *call, size_t i, model_call *own);
compute_status quantized_again(model_call *own, compute_node bytes);

#endif
