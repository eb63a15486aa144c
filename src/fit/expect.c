/* SPDX-License-Identifier: MIT */
/* The expected result of a fit, computed in double precision without fitting: compute_fit_image,
 * compute_fit_crlb and the names. */
#include <math.h>
#include <string.h>

#include "compute/fit.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/kernel/common/fit_problem.h"
#include "fit/model.h"
#include "fit/readout.h"

/* ---- Names --------------------------------------------------------------------------------- */

const char *compute_fit_model_name(compute_fit_model model) {
  return fit_model_name(model);
}

const char *compute_fit_parameter_name(compute_fit_model model, int32_t parameter) {
  static const char *const names[COMPUTE_FIT_MODEL_COUNT][COMPUTE_FIT_MAX_PARAMETERS] = {
      [COMPUTE_FIT_XYNB] = {"x", "y", "photons", "background"},
      [COMPUTE_FIT_XYNBS] = {"x", "y", "photons", "background", "sigma"},
      [COMPUTE_FIT_XYNBSXSY] = {"x", "y", "photons", "background", "sigma_x", "sigma_y"},
      [COMPUTE_FIT_XYZNB] = {"x", "y", "z", "photons", "background"},
      [COMPUTE_FIT_SPLINE] = {"x", "y", "z", "photons", "background"}};
  const bool exists = parameter >= 0 && parameter < compute_fit_parameter_count(model);
  return exists ? names[model][parameter] : NULL;
}

const char *compute_fit_status_name(compute_fit_status status) {
  static const char *const names[COMPUTE_FIT_STATUS_COUNT] = {
      "NOT_RUN", "CONVERGED", "MAX_ITERATIONS", "AT_BOUND", "SINGULAR", "BAD_DATA"};
  return (unsigned)status < COMPUTE_FIT_STATUS_COUNT ? names[status] : NULL;
}

/* ---- Checks -------------------------------------------------------------------------------- */

static compute_status refuse(const compute_context *context, const char *operation,
                             const char *name, double value) {
  return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "parameter %s is %g, which no spot can have", name, value);
}

static compute_status check_parameters(const compute_context *context, const char *operation,
                                       const compute_fit_problem *p, const double *parameters) {
  const int32_t light = compute_fit_has_z(p->model) ? 3 : 2;
  for (int32_t i = 0; i < compute_fit_parameter_count(p->model); i++) {
    const double value = parameters[i];
    const bool width = i > light + 1, positive = i == light || i == light + 1;
    if (!isfinite(value) || (width && !(value > 0)) || (positive && value < 0))
      return refuse(context, operation, compute_fit_parameter_name(p->model, i), value);
    if (p->model != COMPUTE_FIT_SPLINE || i > 2) continue;
    double lower, upper;
    fit_problem_usual_bounds(p, i, &lower, &upper);
    if ((float)value < (float)lower || (float)value > (float)upper) /* a fit at its bound is f32 */
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "parameter %s is %g; the spline covers the ROI from %g to %g",
                       compute_fit_parameter_name(p->model, i), value, lower, upper);
  }
  return COMPUTE_OK;
}

static compute_status prepare(compute_context *context, const char *operation,
                              const compute_fit_problem *problem, const double *parameters,
                              compute_fit_problem *normal) {
  const compute_status missing = error_if_null(context, operation, context, problem, parameters);
  if (missing) return missing;
  compute_status status = fit_problem_take(context, operation, problem, normal);
  if (!status && normal->model == COMPUTE_FIT_SPLINE)
    status = spline_check(context, operation, normal, problem->spline);
  return !status ? check_parameters(context, operation, normal, parameters) : status;
}

/* ---- The image ----------------------------------------------------------------------------- */

compute_status compute_fit_image(compute_context *context, const compute_fit_problem *problem,
                                 const double *parameters, double *image) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_fit_image";
  compute_fit_problem p;
  fit_spot spot;
  fit_pixel pixel;
  const compute_status status = prepare(context, operation, problem, parameters, &p);
  if (status) return status;
  if (!image) return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "image is NULL");
  fit_spot_prepare(&spot, &p, problem->spline, parameters);
  for (int32_t i = 0; i < p.rows; i++)
    for (int32_t j = 0; j < p.columns; j++) {
      fit_spot_pixel(&spot, i, j, &pixel);
      image[i * p.columns + j] = pixel.light;
    }
  return COMPUTE_OK;
}

/* ---- The bound ----------------------------------------------------------------------------- */

enum { MOST = COMPUTE_FIT_MAX_PARAMETERS };

/* Computes the information matrix of the free parameters, whose numbers are in `free`. Returns
 * false if the expected value of a pixel is 0. */
static bool information(const compute_fit_problem *p, const float *spline, const double *parameters,
                        const double *variance, const int32_t *free, int32_t count,
                        double matrix[MOST][MOST]) {
  fit_spot spot;
  fit_pixel pixel;
  fit_spot_prepare(&spot, p, spline, parameters);
  memset(matrix, 0, MOST * sizeof *matrix);
  for (int32_t i = 0; i < p->rows; i++) {
    for (int32_t j = 0; j < p->columns; j++) {
      fit_spot_pixel(&spot, i, j, &pixel);
      const double extra = variance ? variance[i * p->columns + j] : p->variance;
      const double weight = p->camera == COMPUTE_FIT_READOUT
                                ? fit_readout_information(pixel.light, extra)
                                : 1 / (pixel.light + extra);
      if (!(weight > 0) || isinf(weight)) return false;
      for (int32_t a = 0; a < count; a++)
        for (int32_t b = 0; b <= a; b++)
          matrix[a][b] += pixel.slope[free[a]] * pixel.slope[free[b]] * weight;
    }
  }
  return true;
}

/* Inverts a symmetric matrix from its lower half. Uses Cholesky decomposition after scaling to a
 * unit diagonal. Returns false if the matrix is singular. */
static bool invert(double matrix[MOST][MOST], int32_t n, double inverse[MOST][MOST]) {
  double unit[MOST], lower[MOST][MOST] = {{0}}, whole[MOST][MOST] = {{0}};
  for (int32_t i = 0; i < n; i++) {
    unit[i] = 1 / sqrt(matrix[i][i]);
    if (!isfinite(unit[i])) return false;
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = 0; j <= i; j++) {
      double sum = matrix[i][j] * unit[i] * unit[j];
      for (int32_t k = 0; k < j; k++) sum -= lower[i][k] * lower[j][k];
      if (i == j && !(sum > 1e-13)) return false;
      lower[i][j] = i == j ? sqrt(sum) : sum / lower[j][j];
    }
  }
  for (int32_t column = 0; column < n; column++) { /* lower · whole = 1 */
    for (int32_t i = column; i < n; i++) {
      double sum = i == column ? 1 : 0;
      for (int32_t k = column; k < i; k++) sum -= lower[i][k] * whole[k][column];
      whole[i][column] = sum / lower[i][i];
    }
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = 0; j < n; j++) {
      double sum = 0;
      for (int32_t k = i > j ? i : j; k < n; k++) sum += whole[k][i] * whole[k][j];
      inverse[i][j] = sum * (unit[i] * unit[j]);
    }
  }
  return true;
}

static compute_status check_variance(const compute_context *context, const char *operation,
                                     const compute_fit_problem *p, const double *variance) {
  if (!variance) return COMPUTE_OK;
  if (p->camera != COMPUTE_FIT_SCMOS && p->camera != COMPUTE_FIT_READOUT)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "a map of variances is given, but the camera is neither sCMOS nor readout");
  for (int32_t i = 0; i < p->rows * p->columns; i++)
    if (!(variance[i] >= 0) || isinf(variance[i]))
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "variance[%d] is %g; it must not be negative", (int)i, variance[i]);
  return COMPUTE_OK;
}

compute_status compute_fit_crlb(compute_context *context, const compute_fit_problem *problem,
                                const double *parameters, const double *variance, double *std,
                                double *covariance) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_fit_crlb";
  compute_fit_problem p;
  double matrix[MOST][MOST], inverse[MOST][MOST];
  int32_t free[MOST], count = 0;
  compute_status status = prepare(context, operation, problem, parameters, &p);
  if (!status) status = check_variance(context, operation, &p, variance);
  if (status) return status;
  const int32_t all = compute_fit_parameter_count(p.model);
  for (int32_t i = 0; i < all; i++)
    if (!(p.fixed >> i & 1)) free[count++] = i;
  if (!information(&p, problem->spline, parameters, variance, free, count, matrix) ||
      !invert(matrix, count, inverse))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the Fisher information of these parameters is singular: an ROI of %d × %d "
                     "cannot distinguish them",
                     (int)p.rows, (int)p.columns);
  const double excess = p.camera == COMPUTE_FIT_EMCCD ? 2 : 1;
  for (int32_t i = 0; covariance && i < all * all; i++) covariance[i] = 0;
  for (int32_t i = 0; std && i < all; i++) std[i] = 0;
  for (int32_t i = 0; i < count; i++) {
    if (std) std[free[i]] = sqrt(excess * inverse[i][i]);
    for (int32_t j = 0; covariance && j < count; j++)
      covariance[free[i] * all + free[j]] = excess * inverse[i][j];
  }
  return COMPUTE_OK;
}
