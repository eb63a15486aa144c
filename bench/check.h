/* SPDX-License-Identifier: MIT */
/* Checking results against the double-precision reference. */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include "operations.h"

/* The true values of an output: of all of it, or, if that would take too long, of its first and
 * last row and of random rows. */
typedef struct bench_check {
  compute_dtype dtype; /* of the output */
  int64_t chunk_elements, chunk_count;
  int64_t *first; /* position of each chunk */
  int64_t *count; /* and its elements */
  double *value, *scale;
} bench_check;

/* Computes them, in about `seconds`. Returns 0, or -1 when out of memory. */
int bench_check_create(const bench_problem *problem, compute_shape shape, compute_dtype dtype,
                       double seconds, bench_check *check);
void bench_check_release(bench_check *check);

/* The largest error of `output`, relative to the reference's scale; NaN if any value is. With
 * `lenient`, the scale is at least a thousandth of the largest value: for peers, whose results only
 * have to show that they did the same work. */
double bench_check_error(const bench_check *check, const void *output, bool lenient);

#endif
