/* SPDX-License-Identifier: MIT */
/* FOURIER. */
#include "fuzz/attributes/attributes.h"

void read_fourier(reader *r, compute_fourier_attributes *a) {
  a->length = number(r);
  a->points = number(r);
  a->scale = byte(r) * 0.01;
  a->inverse = byte(r) & 1;
  a->real = byte(r) & 1;
  a->halved = byte(r) & 1;
}
