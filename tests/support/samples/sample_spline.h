/* SPDX-License-Identifier: MIT */
/* A synthetic "measured" spot for tests: an astigmatic Gaussian as a spline. */
#ifndef SUPPORT_SAMPLE_SPLINE_H
#define SUPPORT_SAMPLE_SPLINE_H

#include "compute/fit_model.h"

/* Makes the problem a SPLINE problem: some cells more than its ROI, z from −0.6 to 0.6 µm. Its size
 * must be set. */
void sample_spline_describe(compute_fit_problem *problem);

/* The number of f32 coefficients, and their values. */
int64_t sample_spline_size(const compute_fit_problem *problem);
void sample_spline_fill(const compute_fit_problem *problem, float *coefficients);

/* The Gaussian at a pixel `x`, `y` from the spot. */
double sample_spline_value(double x, double y, double z);

#endif
