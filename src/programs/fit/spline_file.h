/* SPDX-License-Identifier: MIT */
/* The calibration of a measured spot: its values at nodes, as YAML. */
#ifndef TOOLS_FIT_SPLINE_FILE_H
#define TOOLS_FIT_SPLINE_FILE_H

#include "programs/fit/failure.h"
#include "programs/fit/options.h"

/* Values at nodes, [planes, rows, columns], and where they are. */
typedef struct spline_values {
  int32_t planes, rows, columns;
  double spot[2], z_first, z_step; /* as in compute_fit_problem */
  float *values;                   /* free with free() */
} spline_values;

/* Sets the model of --calibration, and where its file is. Returns an exit status. */
int calibration_take(fit_arguments *a);

/* COMPUTE_ERROR_FILE, _FORMAT or _OUT_OF_MEMORY; then there are no values. */
compute_status spline_file_read(const char *path, spline_values *s, failure *why);

/* `comment`: a line about its origin. */
compute_status spline_file_write(const char *path, const spline_values *s, const char *comment,
                                 failure *why);

/* Makes the problem one of SPLINE with this spot. The coefficients belong to the process, which
 * fits with one spot, and are replaced by the next call. COMPUTE_ERROR_INVALID_ARGUMENT,
 * _OUT_OF_MEMORY.
 */
compute_status spline_values_use(const spline_values *s, compute_fit_problem *problem,
                                 failure *why);

#endif
