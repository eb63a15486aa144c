/* SPDX-License-Identifier: MIT */
/* The reference of BINCOUNT: counts, or sums of weights in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/kernel_reference_kinds.h"

/* Counts the row that begins at row->at. `sum` has an element for each bin. */
static void count_row(const reference *r, const reference_point *row, reference_value *sum) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  const bool weighted = d->input_count == 2;
  int64_t at[COMPUTE_MAX_RANK];
  memcpy(at, row->at, sizeof at);
  memset(sum, 0, (size_t)d->size[last] * sizeof *sum);
  for (at[last] = 0; at[last] < compute_bincount_of(d)->axis_size; at[last]++) {
    const int64_t bin = reference_at(r, 0, at, d->rank).whole;
    if (bin < 0 || bin >= d->size[last]) continue;
    const double weight = weighted ? reference_at(r, 1, at, d->rank).real : 1;
    sum[bin].whole++;
    sum[bin].real += weight;
    sum[bin].terms += fabs(weight);
  }
  for (at[last] = 0; at[last] < d->size[last]; at[last]++)
    r->write(r->user, 0, at, weighted ? COMPUTE_F64 : COMPUTE_I64, &sum[at[last]]);
}

bool reference_bincount(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  int64_t size[COMPUTE_MAX_RANK];
  reference_point row;
  if (!reference_begin(&row, d->size, d->rank)) return true;
  memcpy(size, d->size, sizeof size);
  size[d->rank - 1] = 1;
  reference_begin(&row, size, d->rank);
  reference_value *sum = malloc((size_t)d->size[d->rank - 1] * sizeof *sum);
  if (!sum) return false;
  do count_row(r, &row, sum);
  while (reference_next(&row));
  free(sum);
  return true;
}
