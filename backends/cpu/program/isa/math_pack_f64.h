/* SPDX-License-Identifier: MIT */
/* The f64 functions on packs (element.h) that rows of attention scores need. */
#ifndef CPU_PROGRAM_MATH_PACK_F64_H
#define CPU_PROGRAM_MATH_PACK_F64_H

#include <string.h>

#include "element.h"
#include "math_f64.h"

/* exp of each element of x ≤ 0 or NaN. */
ALWAYS_INLINE pack pack_exp_f64(pack p) {
  ELEMENT x[pack_lanes];
  memcpy(x, &p, sizeof p);
  for (int j = 0; j < pack_lanes; j++) x[j] = exp_f64(x[j]);
  return pack_load(x);
}

/* The larger elements; the element of a if b is NaN. */
ALWAYS_INLINE pack pack_higher_f64(pack a, pack b) {
  const pack_mask take_b = (pack_mask)(b > a);
  return (pack)(((pack_mask)b & take_b) | ((pack_mask)a & ~take_b));
}

#endif
