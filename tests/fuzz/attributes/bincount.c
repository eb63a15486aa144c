/* SPDX-License-Identifier: MIT */
/* BINCOUNT. */
#include "fuzz/attributes/attributes.h"

void read_bincount(reader *r, compute_bincount_attributes *a) {
  a->axis_size = number(r);
}
