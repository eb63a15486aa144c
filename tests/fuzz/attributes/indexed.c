/* SPDX-License-Identifier: MIT */
/* GATHER and SCATTER. */
#include "fuzz/attributes/attributes.h"

void read_gather(reader *r, compute_gather_attributes *a) {
  a->axis_size = number(r);
  a->axis_stride = number(r);
  a->from_zero = byte(r) & 1;
  a->mode = (compute_scatter_mode)(byte(r) % 6);
}

void read_scatter(reader *r, compute_scatter_attributes *a) {
  read_gather(r, a);
}
