/* SPDX-License-Identifier: MIT */
/* Slices of a tensor along an axis, for host functions that choose some of them. */
#ifndef MODEL_SELECT_H
#define MODEL_SELECT_H

#include "core/tensor/search.h"
#include "model/record.h"

/* The slices along the node's attribute "axis". *axis is −1 without it: each element is one. */
compute_status slices_find(host_call *call, const host_tensor *tensor, slices *s, int32_t *axis);

/* Makes `output` of the slices at `places`, one after another. */
compute_status slices_take(host_call *call, const host_tensor *tensor, const slices *s,
                           int32_t axis, const int64_t *places, int64_t count, host_tensor *output);

/* Records a host function whose first `required` inputs must be given. Its work is `rows` for each element
 * of the input `counted`. */
compute_status select_on_host(model_call *call, size_t required, host_function function,
                              size_t counted, double rows);

#endif
