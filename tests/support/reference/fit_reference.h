/* SPDX-License-Identifier: MIT */
/* Fits one ROI in double precision, as compute/fit_model.h defines it, without regard to speed and
 * without any library code. Tests compare the devices' fits with it.
 *
 * The coefficients of SPLINE are problem->spline. Pixels are the camera's values. For every solver,
 * the result is the optimum of the objective: the maximum of the likelihood, or for
 * COMPUTE_FIT_LEAST_SQUARES the least sum of squares. */
#ifndef SUPPORT_FIT_REFERENCE_H
#define SUPPORT_FIT_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/fit_model.h"

#define FIT_REFERENCE_PIXELS (COMPUTE_FIT_MAX_SIDE * COMPUTE_FIT_MAX_SIDE)

/* The ROI's inputs besides its pixels; NULL if absent. Maps have the ROI's size and replace the
 * problem's number. P is the model's number of parameters. */
typedef struct fit_reference_inputs {
  const double *offset, *gain, *variance;
  const uint8_t *mask;                 /* 0: ignore the pixel */
  const double *sigma;                 /* [2] */
  const double *start, *lower, *upper; /* [P], NaN for "not given" */
} fit_reference_inputs;

typedef struct fit_reference_result {
  /* CONVERGED, AT_BOUND, SINGULAR, BAD_DATA or MAX_ITERATIONS (should never occur). All numbers are
   * NaN for BAD_DATA; std, covariance and both p are NaN for SINGULAR. */
  compute_fit_status status;
  int32_t used, free_count; /* counted pixels; free parameters */
  double parameters[COMPUTE_FIT_MAX_PARAMETERS];
  double std[COMPUTE_FIT_MAX_PARAMETERS];
  double covariance[COMPUTE_FIT_MAX_PARAMETERS * COMPUTE_FIT_MAX_PARAMETERS]; /* [P, P] */
  double ratio, p_raw, p_value, significance;
} fit_reference_result;

/* Computes the optimum. `inputs` may be NULL. */
void fit_reference(const compute_fit_problem *problem, const double *pixels,
                   const fit_reference_inputs *inputs, fit_reference_result *result);

/* Computes all results at given parameters, at an optimum or not. `status` is CONVERGED, SINGULAR
 * or BAD_DATA. Compare these with a fit's other outputs at the fit's own parameters. */
void fit_reference_at(const compute_fit_problem *problem, const double *pixels,
                      const fit_reference_inputs *inputs, const double *parameters,
                      fit_reference_result *result);

/* Square roots of the Cramér–Rao bound [P] and the covariance [P, P]; either may be NULL. Returns
 * false if the information is singular. */
bool fit_reference_bound(const compute_fit_problem *problem, const fit_reference_inputs *inputs,
                         const double *parameters, double *std, double *covariance);

/* The expected image in electrons [rows, columns], without readout variance, and (unless NULL) its
 * derivatives [rows, columns, P]. `sigma` [2] is the ROI's width, or NULL. */
void fit_reference_image(const compute_fit_problem *problem, const double *sigma,
                         const double *parameters, double *image, double *derivatives);

/* Mean and variance of a pixel's deviance at a mean of `mu` electrons, summed to within 1e-8.
 * `gamma`: the output of an electron multiplier instead of a Poisson number. */
void fit_reference_moments(bool gamma, double mu, double *mean, double *variance);

/* The first and second derivative of that mean with respect to `mu`. */
void fit_reference_moment_slopes(bool gamma, double mu, double *slope, double *curvature);

/* The regularised upper incomplete gamma function Q(a, x), to 1e-12. */
double fit_reference_upper_gamma(double a, double x);

#endif
