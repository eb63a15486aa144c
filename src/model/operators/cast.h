/* SPDX-License-Identifier: MIT */
/* Conversions between ONNX types, including types without a dtype. */
#ifndef MODEL_OPERATORS_CAST_H
#define MODEL_OPERATORS_CAST_H

#include "model/record.h"

typedef struct cast_options {
  bool saturate;          /* 8-bit floats: overflow gives the largest value */
  const char *round_mode; /* to float8e8m0: "up", "down" or "nearest" */
} cast_options;

/* Rounds x to values of `type`, in the type's dtype. Fails the call for a type without a dtype. */
compute_status cast_to(model_call *call, compute_node x, int32_t type, const cast_options *options,
                       compute_node *result);

compute_status cast_rule(model_call *call);
compute_status cast_like_rule(model_call *call);
compute_status bit_cast_rule(model_call *call);

#endif
