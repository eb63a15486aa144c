/* SPDX-License-Identifier: MIT */
/* MAP and COPY, which have none, and CALL. */
#include "fuzz/attributes/attributes.h"

void read_map(reader *r, compute_map_attributes *a) {
  (void)r;
  (void)a;
}

void read_copy(reader *r, compute_copy_attributes *a) {
  (void)r;
  (void)a;
}

static compute_status call_nothing(const void *call, void *const *operands) {
  (void)call;
  (void)operands;
  return COMPUTE_OK;
}

void read_call(reader *r, compute_call_attributes *a) {
  a->run = byte(r) & 1 ? call_nothing : NULL;
  a->name = byte(r) & 1 ? "name" : NULL;
  for (int i = 0; i < COMPUTE_MAX_OPERANDS; i++) a->count[i] = number(r);
}
