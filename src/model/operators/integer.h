/* SPDX-License-Identifier: MIT */
/* Exact products of quantized numbers, summed in i32. */
#ifndef MODEL_OPERATORS_INTEGER_H
#define MODEL_OPERATORS_INTEGER_H

#include "model/record.h"

/* A factor of a product: `values` minus `zero` ({0} for none), which broadcasts as in
 * compute_matmul_integer. `host` has the dense values if they are known, else NULL. Sums of
 * known values are computed once instead of in every run. */
typedef struct integer_factor {
  compute_node values, zero;
  const void *host;
} integer_factor;

/* Returns true if both factors are bytes and the sums fit in i32. */
bool integer_fits(const model_call *call, const integer_factor *a, const integer_factor *b);

/* The product as i32, or as floats if a factor is a float. Factors may be wider than 8 bits. */
compute_node integer_product(model_call *call, const integer_factor *a, const integer_factor *b);

/* A factor with `values` from input i and `zero` from input `zero_input`. */
integer_factor integer_input(const model_call *call, size_t i, compute_node values,
                             size_t zero_input, compute_node zero);

/* Returns true if the convolution of input x with filter w, minus these zero points, fits 8-bit
 * integer kernels. */
bool integer_convolution_fits(const model_call *call, size_t x, size_t x_zero, size_t w,
                              size_t w_zero);

/* The i32 sums of a convolution. Record the elementwise operations that follow before
 * integer_result, so that they become part of the same kernel. */
typedef struct integer_sums {
  compute_node values;    /* i32; images: [n · depth, filters, rows, columns], or as `result` */
  compute_shape channels; /* shape of a per-filter vector that broadcasts to `values` */
  compute_shape result;   /* [n, filters, …] */
} integer_sums;

/* Adds the i32 `bias`; SIZE_MAX for none. */
compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   size_t w_zero, size_t bias, integer_sums *sums);

/* Reshapes x, which was computed from the sums, to the convolution's result. */
compute_node integer_result(model_call *call, const integer_sums *sums, compute_node x);

/* Returns true if a zero point is omitted or known to be 0 everywhere. */
bool integer_is_0(const model_value *value);

#endif
