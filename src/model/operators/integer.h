/* SPDX-License-Identifier: MIT */
/* Exact products of quantized numbers, summed in i32. */
#ifndef MODEL_OPERATORS_INTEGER_H
#define MODEL_OPERATORS_INTEGER_H

#include "model/record.h"

/* A factor of a product: `values` less `zero` ({0} for none), which broadcasts as in
 * compute_matmul_integer. `host` has the values, dense, where they are known, or is NULL: their
 * sums are then taken once, not in every run. */
typedef struct integer_factor {
  compute_node values, zero;
  const void *host;
} integer_factor;

/* Whether the product is one of bytes whose sums fit i32. */
bool integer_fits(const model_call *call, const integer_factor *a, const integer_factor *b);

/* The product as i32; as floats if a factor is one. Factors may be wider than 8 bits. */
compute_node integer_product(model_call *call, const integer_factor *a, const integer_factor *b);

/* `values`, made of input i, less `zero`, made of input `zero_input`. */
integer_factor integer_input(const model_call *call, size_t i, compute_node values,
                             size_t zero_input, compute_node zero);

/* Whether the convolution of input x with the filter w, less these zero points, can be one of 8-bit
 * integers. */
bool integer_convolution_fits(const model_call *call, size_t x, size_t x_zero, size_t w,
                              size_t w_zero);

/* Sums of a convolution: what follows element by element is recorded before integer_result, because
 * it is then part of the same kernel. */
typedef struct integer_sums {
  compute_node values;    /* i32; images: [n · depth, filters, rows, columns], or as `result` */
  compute_shape channels; /* the shape of a vector with a number for each filter, for `values` */
  compute_shape result;   /* [n, filters, …] */
} integer_sums;

/* `bias`, i32, is added; SIZE_MAX for none. */
compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   size_t w_zero, size_t bias, integer_sums *sums);

/* What was made of the sums, as the convolution's result. */
compute_node integer_result(model_call *call, const integer_sums *sums, compute_node x);

/* Whether a zero point is left out, or known to be 0 everywhere. */
bool integer_is_0(const model_value *value);

#endif
