/* SPDX-License-Identifier: MIT */
/* The reference of FOURIER: its definition in long double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/kernel_reference_kinds.h"

static const long double turn = 6.283185307179586476925286766559L;

/* One result. `roots` has the cosines and sines of length parts of a turn. */
static void add_up(const reference *r, const int64_t *to, const long double *roots) {
  const compute_kernel_descriptor *d = r->d;
  const compute_fourier_attributes *a = compute_fourier_of(d);
  const int32_t axis = d->rank - 2;
  long double sum = 0, terms = 0;
  int64_t at[COMPUTE_MAX_RANK];
  memcpy(at, to, sizeof at);
  for (at[axis] = 0; at[axis] < a->points; at[axis]++) {
    const int64_t j = at[axis], w = j * to[axis] % a->length;
    const long double c = roots[2 * w], s = (a->inverse ? 1 : -1) * roots[2 * w + 1];
    const bool alone = j == 0 || 2 * j == a->length;
    const long double weight = a->halved && !alone ? 2 : 1;
    at[axis + 1] = 0;
    const long double real = (long double)reference_at(r, 0, at, d->rank).real;
    at[axis + 1] = 1;
    const bool has_other = !a->real && !(a->halved && alone);
    const long double other = has_other ? (long double)reference_at(r, 0, at, d->rank).real : 0;
    sum += weight * (to[axis + 1] == 0 ? real * c - other * s : real * s + other * c);
    terms += weight * (fabsl(real) + fabsl(other));
  }
  /* Terms that cancel leave the rounding of long double, or of double where that is the same. */
  if (fabsl(sum) < 4 * LDBL_EPSILON * terms) sum = 0;
  const reference_value value = {.real = (double)(sum * (long double)a->scale),
                                 .terms = (double)(terms * fabsl((long double)a->scale))};
  r->write(r->user, 0, to, COMPUTE_F64, &value);
}

bool reference_fourier(const reference *r) {
  const int64_t n = compute_fourier_of(r->d)->length;
  reference_point point;
  if (!reference_begin(&point, r->d->size, r->d->rank)) return true;
  long double *roots = malloc((size_t)n * 2 * sizeof *roots);
  if (!roots) return false;
  for (int64_t k = 0; k < n; k++) {
    roots[2 * k] = cosl(turn * (long double)k / (long double)n);
    roots[2 * k + 1] = sinl(turn * (long double)k / (long double)n);
  }
  do add_up(r, point.at, roots);
  while (reference_next(&point));
  free(roots);
  return true;
}
