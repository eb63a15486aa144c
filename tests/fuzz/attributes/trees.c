/* SPDX-License-Identifier: MIT */
/* TREES. */
#include "fuzz/attributes/attributes.h"

void read_trees(reader *r, compute_trees_attributes *a) {
  a->features = number(r);
  a->columns = byte(r) & 1 ? a->features : number(r);
  a->nodes = number(r);
  a->trees = number(r);
  a->values = number(r);
  a->combine = (compute_combine)(byte(r) % 7);
  a->words = bits(r, 2);
}
