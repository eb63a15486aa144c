/* SPDX-License-Identifier: MIT */
/* Observers: the values of an activation as a histogram with a fixed number of bins, and the range
 * that represents them best. Pure functions. */
#ifndef QUANTIZE_OBSERVE_H
#define QUANTIZE_OBSERVE_H

#include <stdint.h>

#include "compute/quantize.h"

enum { OBSERVER_BINS = 4096 };

/* Bins of equal width divide −reach to reach, a power of two. When a value lies outside, reach
 * doubles and pairs of bins are merged, which is exact. */
typedef struct observer {
  double low, high;    /* of the finite values, and 0 */
  double reach;        /* 0 before the first value that is not 0 */
  uint64_t count;      /* of finite values */
  uint64_t not_finite; /* of infinities and NaN */
  uint64_t zeros;      /* of values that are exactly 0 */
  uint64_t *bins;      /* OBSERVER_BINS */
} observer;

/* Adds values; `bins` must exist. */
void observer_add(observer *seen, const float *values, int64_t count);

typedef struct number_range {
  double low, high; /* low <= 0 <= high */
} number_range;

/* The range for integers of `steps` steps. `percentile` is a part of 100. */
number_range observer_range(const observer *seen, compute_quantize_range method, double percentile,
                            int32_t steps);

#endif
