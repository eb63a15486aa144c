/* SPDX-License-Identifier: MIT */
/* The widths of an astigmatic spot over z, in the form that XYZNB takes:
 * sigma · sqrt(1 + t² + A t³ + B t⁴) with t = (z − gamma)/depth for x, (z + gamma)/depth for y. */
#ifndef TOOLS_FIT_WIDTHS_H
#define TOOLS_FIT_WIDTHS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct width_sample {
  double z;        /* of the stage, micrometres */
  double sigma[2]; /* pixels, along x and y */
  double std[2];   /* their uncertainties; 0: equal weights */
} width_sample;

typedef struct width_curves {
  double sigma[2], a[2], b[2], depth, gamma;
  double zero;     /* the stage's z that becomes 0: the middle between the foci */
  double residual; /* root mean square of the widths' errors, pixels */
  int64_t used;    /* samples that are not outliers */
} width_curves;

/* Fits the curves by least squares; outliers are left out. `quartic`: with A and B, otherwise these
 * are 0. False if the samples do not determine them: too few, or no focus among them. */
bool width_curves_fit(const width_sample *samples, int64_t count, bool quartic, width_curves *c);

/* The width along an axis (0: x) at a z of the stage. */
double width_at(const width_curves *c, int axis, double z);

#endif
