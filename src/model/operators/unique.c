/* SPDX-License-Identifier: MIT */
/* Unique: the distinct elements or slices of a tensor. A host function. */
#include <string.h>

#include "model/operators/operators.h"
#include "model/operators/select.h"

static compute_status give_numbers(host_call *call, host_tensor *output, const int64_t *numbers,
                                   int64_t count) {
  const compute_status status = host_make(call, output, COMPUTE_I64, COMPUTE_SHAPE(count));
  if (!status && count) memcpy(output->data, numbers, (size_t)count * sizeof *numbers);
  return status;
}

static compute_status give(host_call *call, const host_tensor *x, const slices *s,
                           const distinct *g, int32_t axis, host_tensor *outputs) {
  const size_t wanted = host_node(call)->output_count;
  compute_status status = slices_take(call, x, s, axis, g->first, g->count, &outputs[0]);
  if (!status && wanted > 1) status = give_numbers(call, &outputs[1], g->first, g->count);
  if (!status && wanted > 2) status = give_numbers(call, &outputs[2], g->inverse, g->along);
  if (!status && wanted > 3) status = give_numbers(call, &outputs[3], g->counts, g->count);
  return status;
}

static compute_status unique_host(host_call *call, const host_tensor *inputs,
                                  host_tensor *outputs) {
  slices s;
  int32_t axis;
  compute_status status = slices_find(call, &inputs[0], &s, &axis);
  if (status) return status;
  distinct found;
  status = distinct_find(&s, call_attribute_i(host_node(call), "sorted", 1) != 0, &found);
  if (!status) {
    status = give(call, &inputs[0], &s, &found, axis, outputs);
  } else {
    const bool memory = status == COMPUTE_ERROR_OUT_OF_MEMORY;
    host_fail(call, status, "%s", memory ? "out of memory" : "it is too long");
  }
  distinct_release(&found);
  return status;
}

static compute_status unique(model_call *call) {
  call_attribute_i(call, "axis", 0);
  call_attribute_i(call, "sorted", 1);
  return select_on_host(call, 1, unique_host, 0, 0.5);
}

static const operator_row rows[] = {
    {"", "Unique", 11, unique},
};

const operator_family operators_unique = OPERATOR_FAMILY(rows);
