/* SPDX-License-Identifier: MIT */
/* Conversions between ONNX's types, those included that have no dtype of their own. */
#ifndef MODEL_OPERATORS_CAST_H
#define MODEL_OPERATORS_CAST_H

#include "model/record.h"

typedef struct cast_options {
  bool saturate;          /* to floats of 8 bits: the largest where they overflow */
  const char *round_mode; /* to float8e8m0: "up", "down" or "nearest" */
} cast_options;

/* x with the values that `type` holds, in its dtype. A type without a dtype fails the call. */
compute_status cast_to(model_call *call, compute_node x, int32_t type, const cast_options *options,
                       compute_node *result);

compute_status cast_rule(model_call *call);
compute_status cast_like_rule(model_call *call);
compute_status bit_cast_rule(model_call *call);

#endif
