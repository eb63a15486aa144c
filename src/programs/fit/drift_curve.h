/* SPDX-License-Identifier: MIT */
/* The numbers behind a drift: the values of windows from shifts between pairs of them, and a curve
 * through these. */
#ifndef TOOLS_FIT_DRIFT_CURVE_H
#define TOOLS_FIT_DRIFT_CURVE_H

#include <stdbool.h>
#include <stdint.h>

/* value[b] − value[a], measured; weight 0: unknown. */
typedef struct shift {
  int32_t a, b;
  double value, weight;
} shift;

/* Lists the pairs of `values` values of which the second comes at most `apart` after the first,
 * with weight 0. */
int64_t drift_pairs(int64_t values, int64_t apart, shift *shifts);

/* The values that fit the shifts best in the sense of least squares, value[0] = 0. Shifts far off,
 * as measured by the others, lose their weight. Returns the root mean square of the residuals, by
 * weight; negative when out of memory, or if the shifts do not connect all values. */
double drift_solve(const shift *shifts, int64_t count, int32_t values, double *value);

/* The slopes at the knots of the natural cubic spline through them; false when out of memory. */
bool spline_slopes(const double *time, const double *value, int64_t count, double *slope);

/* That spline, straight beyond its ends. */
double spline_at(const double *time, const double *value, const double *slope, int64_t count,
                 double at);

#endif
