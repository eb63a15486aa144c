/* SPDX-License-Identifier: MIT */
/* The mathematics of a drift estimate: the values of windows from shifts between pairs of windows,
 * and a curve through these values. */
#ifndef TOOLS_FIT_DRIFT_CURVE_H
#define TOOLS_FIT_DRIFT_CURVE_H

#include <stdbool.h>
#include <stdint.h>

/* The measured value[b] − value[a]. Weight 0: unknown. */
typedef struct shift {
  int32_t a, b;
  double value, weight;
} shift;

/* Lists all pairs of `values` values, with weight 0. The second value of a pair comes at most
 * `apart` after the first. */
int64_t drift_pairs(int64_t values, int64_t apart, shift *shifts);

/* Computes the values that fit the shifts best in the sense of least squares, with value[0] = 0.
 * Shifts that differ strongly from the others lose their weight. Returns the weighted root mean
 * square of the residuals. Returns a negative number when out of memory, or if the shifts do not
 * connect all values. */
double drift_solve(const shift *shifts, int64_t count, int32_t values, double *value);

/* Computes the slopes of the natural cubic spline at its knots. Returns false when out of
 * memory. */
bool spline_slopes(const double *time, const double *value, int64_t count, double *slope);

/* Evaluates this spline. Beyond its ends it is a straight line. */
double spline_at(const double *time, const double *value, const double *slope, int64_t count,
                 double at);

#endif
