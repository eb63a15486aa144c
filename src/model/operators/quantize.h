/* SPDX-License-Identifier: MIT */
/* Quantized numbers: q represents (q − zero) · scale. */
#ifndef MODEL_OPERATORS_QUANTIZE_H
#define MODEL_OPERATORS_QUANTIZE_H

#include "model/record.h"

/* Quantizes x, already divided by the scale, to `type`: rounds to even, adds `zero` ({0} for
 * none), saturates. `saturate` affects only 8-bit floats. */
compute_status quantize_to(model_call *call, compute_node x, compute_node zero, int32_t type,
                           bool saturate, compute_node *result);

/* x quantized to u8. Scale and zero point are scalars computed from the extremes of x. */
typedef struct dynamic_quantization {
  compute_node values, scale, zero;
} dynamic_quantization;

dynamic_quantization quantize_dynamic(model_call *call, compute_node x);

/* The source of a value that DequantizeLinear made: bytes or i32, with f32 scales for the whole
 * tensor or along `axis`. */
typedef struct quantized_form {
  model_value values, scale, zero; /* kind VALUE_ABSENT without a zero point */
  int32_t axis;                    /* −1: whole tensor */
} quantized_form;

/* If inputs a and b were dequantized from bytes, makes a call with their sources: values, scale
 * and zero point of a as inputs 0 … 2, of b as 3 … 5. a must have one scale; the scale of b may
 * be along its `axis`. */
bool quantized_call(model_call *call, size_t a, size_t b, int32_t axis, model_call *own);

/* Returns true if input i was dequantized from bytes with one known positive scale. Then moving
 * elements and taking maxima can run on the bytes. */
bool quantized_is_ordered(const model_call *call, size_t i);

/* Makes a DequantizeLinear call with the source of input i; returns false if there is none.
 * quantized_again dequantizes `bytes` with the same parameters into output 0. */
bool quantized_origin(model_call *call, size_t i, model_call *own);
compute_status quantized_again(model_call *own, compute_node bytes);

#endif
