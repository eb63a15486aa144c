/* SPDX-License-Identifier: MIT */
/* How far a fitted spot stands out from an empty ROI. */
#ifndef TOOLS_FIT_SIGNIFICANCE_H
#define TOOLS_FIT_SIGNIFICANCE_H

#include "compute/fit_model.h"

/* The camera's maps from the ROI's first pixel on. */
typedef struct significance_maps {
  const float *variance; /* readout; NULL: problem->variance everywhere */
  const uint8_t *mask;   /* 0 for pixels that the fit ignores; NULL: it ignores none */
  int64_t variance_stride, mask_stride; /* columns of the maps */
} significance_maps;

/* The root of twice the log-likelihood ratio of the fitted spot and a flat background with as much
 * light, expected at the fitted parameters: standard deviations, as far as that root is normal. NaN
 * where a parameter is NaN. */
double significance_of_fit(const compute_fit_problem *problem, const float *parameters,
                           const significance_maps *maps);

#endif
