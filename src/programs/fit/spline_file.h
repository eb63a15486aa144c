/* SPDX-License-Identifier: MIT */
/* The calibration of a measured spot, as YAML: the spot's values at nodes. */
#ifndef TOOLS_FIT_SPLINE_FILE_H
#define TOOLS_FIT_SPLINE_FILE_H

#include "programs/fit/failure.h"
#include "programs/fit/options.h"

/* Values at nodes, [planes, rows, columns], and the positions of the nodes. */
typedef struct spline_values {
  int32_t planes, rows, columns;
  double spot[2], z_first, z_step; /* as in compute_fit_problem */
  float *values;                   /* free with free() */
} spline_values;

/* Finds the file of --calibration, and sets the model from it. Returns an exit status. */
int calibration_take(fit_arguments *a);

/* Fails with COMPUTE_ERROR_FILE, _FORMAT or _OUT_OF_MEMORY, without values. */
compute_status spline_file_read(const char *path, spline_values *s, failure *why);

/* `comment` is a line about the origin of the file. */
compute_status spline_file_write(const char *path, const spline_values *s, const char *comment,
                                 failure *why);

/* Sets the problem's model to SPLINE with this spot. The coefficients are static, because the
 * process fits with one spot only; the next call replaces them. Fails with
 * COMPUTE_ERROR_INVALID_ARGUMENT or _OUT_OF_MEMORY. */
compute_status spline_values_use(const spline_values *s, compute_fit_problem *problem,
                                 failure *why);

#endif
