/* SPDX-License-Identifier: MIT */
/* Measured spots: evaluation in double precision, and checks. */
#ifndef FIT_SPLINE_H
#define FIT_SPLINE_H

#include "compute/device.h"
#include "compute/fit_model.h"

/* A spot placed on pixels: the cell of the first pixel, and the powers of the position within the
 * cell. */
typedef struct spline_place {
  const float *first; /* coefficients of the cell of the pixel in row 0 and column 0 */
  int64_t columns;    /* cells in a row of the spline */
  double x[2][4], y[2][4], z[2][4]; /* powers, and their derivatives by the spot's position */
} spline_place;

/* Checks that coefficients are given and finite. The problem's fields must have been checked. */
compute_status spline_check(const compute_context *context, const char *operation,
                            const compute_fit_problem *problem, const float *coefficients);

/* Finds the pixels along x or y that the spline reaches from `position`: from *begin to before
 * *end. */
void spline_reach(const compute_fit_problem *problem, int axis, double position, int64_t *begin,
                  int64_t *end);

/* Places a spot at (x, y, z) on rows × columns pixels. The spline must reach all of them. */
void spline_put(const compute_fit_problem *problem, const float *coefficients,
                const double position[3], int64_t rows, int64_t columns, spline_place *place);

/* Returns the value f in a pixel. `slope` (may be NULL) gets its derivatives by x, y and z. */
double spline_value(const spline_place *place, int64_t row, int64_t column, double slope[3]);

#endif
