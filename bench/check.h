/* SPDX-License-Identifier: MIT */
/* Judging results against the double-precision reference. */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include "operations.h"

/* The true values of an output at chosen positions: everywhere, or where that would take too long,
 * its first and last row and rows drawn at random. */
typedef struct bench_check {
  compute_dtype dtype; /* of the output */
  int64_t chunk_elements, chunk_count;
  int64_t *first; /* position of each chunk */
  int64_t *count; /* and its elements */
  double *value, *scale;
} bench_check;

/* Computes them, in about `seconds`. Returns 0, or -1 when memory is short. */
int bench_check_create(const bench_problem *problem, compute_shape shape, compute_dtype dtype,
                       double seconds, bench_check *check);
void bench_check_release(bench_check *check);

/* The largest error of `output`, relative to the reference's scale; NaN if any value is. With
 * `lenient`, values near zero count as a thousandth of the largest: for peers, whose results only
 * have to show that they did the same work. */
double bench_check_error(const bench_check *check, const void *output, bool lenient);

#endif
