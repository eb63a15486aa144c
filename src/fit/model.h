/* SPDX-License-Identifier: MIT */
/* The model of a spot in double precision, for expected images and bounds. Kernels compute it in
 * f32. */
#ifndef FIT_MODEL_H
#define FIT_MODEL_H

#include "compute/device.h"
#include "compute/fit_model.h"
#include "fit/spline.h"

/* The light in a pixel and its derivatives by all parameters of the model. */
typedef struct fit_pixel {
  double light; /* mu: electrons, without readout variance */
  double slope[COMPUTE_FIT_MAX_PARAMETERS];
} fit_pixel;

/* One axis of a spot: the fraction of its light in each pixel, and the derivatives of this fraction
 * by position and width. */
typedef struct fit_axis {
  double part[COMPUTE_FIT_MAX_SIDE];
  double by_position[COMPUTE_FIT_MAX_SIDE];
  double by_sigma[COMPUTE_FIT_MAX_SIDE];
} fit_axis;

typedef struct fit_spot {
  compute_fit_model model;
  double light, background;
  double sigma_by_z[2]; /* derivatives of the widths in x and y; XYZNB */
  fit_axis x, y;
  spline_place place; /* SPLINE */
} fit_spot;

/* Prepares a spot with these parameters. The problem must be normalised and the widths positive.
 * `spline` contains the coefficients of SPLINE. */
void fit_spot_prepare(fit_spot *spot, const compute_fit_problem *problem, const float *spline,
                      const double *parameters);

/* Computes one pixel of the spot. */
void fit_spot_pixel(const fit_spot *spot, int32_t row, int32_t column, fit_pixel *pixel);

/* Checks a problem from a public call and fills in its defaults. COMPUTE_ERROR_INVALID_ARGUMENT
 * names the field. COMPUTE_ERROR_SHAPE: fewer pixels than free parameters. */
compute_status fit_problem_take(const compute_context *context, const char *operation,
                                const compute_fit_problem *problem, compute_fit_problem *normal);

#endif
