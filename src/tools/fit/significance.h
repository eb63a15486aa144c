/* SPDX-License-Identifier: MIT */
/* How far a fitted spot stands out from an empty ROI. */
#ifndef TOOLS_FIT_SIGNIFICANCE_H
#define TOOLS_FIT_SIGNIFICANCE_H

#include "compute/fit_model.h"

/* The root of twice the log-likelihood ratio of the fitted spot and a flat background with as much
 * light, expected at the fitted parameters: standard deviations, as far as that root is normal.
 * `variance` is the readout variance of the ROI's first pixel, in a map with `stride` columns;
 * NULL: problem->variance everywhere. NaN where a parameter is NaN. */
double significance_of_fit(const compute_fit_problem *problem, const float *parameters,
                           const float *variance, int64_t stride);

#endif
