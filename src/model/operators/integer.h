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

/* The product as i32; as floats if a factor is one. Factors may be wider than 8 bits. */
compute_node integer_product(model_call *call, const integer_factor *a, const integer_factor *b);

/* Input i and the zero point `zero` as a factor. */
integer_factor integer_input(const model_call *call, size_t i, compute_node values,
                             compute_node zero);

/* Whether the convolution of input x with the filter w, less these zero points, can be a product
 * of matrices of 8-bit integers. */
bool integer_convolution_fits(const model_call *call, size_t x, size_t x_zero, size_t w,
                              size_t w_zero);

/* Its sums; `w_zero` broadcasts to [filters, 1] or is {0}. */
compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   compute_node w_zero, compute_node *sums);

#endif
