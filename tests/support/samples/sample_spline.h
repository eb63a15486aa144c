/* SPDX-License-Identifier: MIT */
/* A measured spot that is none: an astigmatic Gaussian as a spline, for tests. */
#ifndef SUPPORT_SAMPLE_SPLINE_H
#define SUPPORT_SAMPLE_SPLINE_H

#include "compute/fit_model.h"

/* Makes the problem one of SPLINE: some cells more than its ROI, z from −0.6 to 0.6 µm. Its size
 * must be set. */
void sample_spline_describe(compute_fit_problem *problem);

/* The number of f32 that it takes, and these. */
int64_t sample_spline_size(const compute_fit_problem *problem);
void sample_spline_fill(const compute_fit_problem *problem, float *coefficients);

/* The Gaussian itself in a pixel `x`, `y` from the spot. */
double sample_spline_value(double x, double y, double z);

#endif
