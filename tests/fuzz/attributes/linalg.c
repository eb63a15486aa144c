/* SPDX-License-Identifier: MIT */
/* LINALG. */
#include "fuzz/attributes/attributes.h"

void read_linalg(reader *r, compute_linalg_attributes *a) {
  a->function = (compute_linalg_function)(byte(r) % 10);
  a->flags = bits(r, 3);
  a->rows = number(r);
  a->columns = byte(r) & 1 ? a->rows : number(r);
  a->right = number(r);
}
