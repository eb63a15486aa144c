/* SPDX-License-Identifier: MIT */
/* BINCOUNT: a row at a time. */
#include <math.h>
#include <string.h>

#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

static compute_dtype type(const compute_kernel_descriptor *d) {
  return d->input_count == 2 ? dtype_compute_type(d->inputs[1].dtype) : COMPUTE_I64;
}

/* w->row has the magnitudes of the sums, and the number of terms of each. */
static bool bincount(const evaluation *e, int64_t unit, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const int64_t bins = e->unit_length;
  const int32_t last = d->rank - 1;
  const bool weighted = d->input_count == 2;
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(d->size, d->rank, unit * bins, coordinate);
  memset(w->row, 0, (size_t)bins * sizeof *w->row);
  memset(w->results, 0, (size_t)bins * sizeof *w->results);
  for (int64_t i = 0; i < compute_bincount_of(d)->axis_size; i++) {
    coordinate[last] = i;
    const int64_t bin = evaluate_load(&e->input[0], d->rank, coordinate).integer;
    if (bin < 0 || bin >= bins) return false;
    w->row[bin].integer++;
    if (!weighted) continue;
    const number x = evaluate_load(&e->input[1], d->rank, coordinate);
    w->results[bin].real += x.real;
    w->results[bin].error += x.error;
    w->row[bin].real += fabs(x.real);
  }
  for (int64_t bin = 0; bin < bins; bin++) {
    number *sum = &w->results[bin];
    const double terms = (double)w->row[bin].integer;
    if (weighted)
      *sum = number_sum(type(d), sum->real, w->row[bin].real, sum->error, terms, sum->error == 0);
    else
      sum->integer = w->row[bin].integer;
  }
  return true;
}

static void cut(evaluation *e) {
  e->unit_length = e->row_length = e->d->size[e->d->rank - 1];
  e->units = e->unit_length > 0 ? e->units / e->unit_length : 0;
}

/* For one bin. */
static uint64_t work(const compute_kernel_descriptor *d, uint64_t program) {
  const uint64_t bins = (uint64_t)d->size[d->rank - 1];
  return program + 4 * (uint64_t)compute_bincount_of(d)->axis_size / (bins > 0 ? bins : 1);
}

const evaluation_kind evaluation_kind_bincount = {
    .evaluate = bincount, .cut = cut, .work = work, .type = type};
