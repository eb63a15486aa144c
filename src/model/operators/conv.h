/* SPDX-License-Identifier: MIT */
/* Convolutions whose filters take a batch normalization in. */
#ifndef MODEL_OPERATORS_CONV_H
#define MODEL_OPERATORS_CONV_H

#include "model/record.h"

/* A batch normalization with known vectors, one element a channel. gain and bias may be {0}. */
typedef struct conv_normalization {
  compute_node mean, variance, gain, bias;
  double epsilon;
} conv_normalization;

/* Returns true if input i is the result of an ordinary convolution with known filters, and this
 * node is its only user. */
bool conv_can_normalize(const model_call *call, size_t i);

/* The normalized result of this convolution, which has the normalization in its filters and its
 * bias. */
compute_node conv_normalize(model_call *call, size_t i, const conv_normalization *by);

#endif
