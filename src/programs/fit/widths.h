/* SPDX-License-Identifier: MIT */
/* The widths of an astigmatic spot over z, in the form of the model XYZNB:
 * sigma · sqrt(1 + t² + A t³ + B t⁴) with t = (z − gamma)/depth for x, (z + gamma)/depth for y. */
#ifndef TOOLS_FIT_WIDTHS_H
#define TOOLS_FIT_WIDTHS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct width_sample {
  double z;        /* of the stage, in micrometres */
  double sigma[2]; /* along x and y, in pixels */
  double std[2];   /* uncertainties of sigma; 0: equal weights */
} width_sample;

typedef struct width_curves {
  double sigma[2], a[2], b[2], depth, gamma;
  double zero;     /* the stage's z that becomes 0: the middle between the foci */
  double residual; /* root mean square error of the widths, in pixels */
  int64_t used;    /* number of samples that are not outliers */
} width_curves;

/* Fits the curves by least squares, without outliers. `quartic`: fits A and B, otherwise they are
 * 0. False if the samples do not determine the curves: too few samples, or no focus among them. */
bool width_curves_fit(const width_sample *samples, int64_t count, bool quartic, width_curves *c);

/* The width along an axis (0: x, 1: y) at the stage's z. */
double width_at(const width_curves *c, int axis, double z);

#endif
