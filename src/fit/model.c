/* SPDX-License-Identifier: MIT */
/* The model's formulas, as in compute/fit_model.h.
 *
 * The light fraction of a pixel along an axis is the difference of the error function at its two
 * edges. Far from the centre, the complement is used: a difference of two numbers near 1 would lose
 * its digits. */
#include "fit/model.h"

#include <math.h>

#include "core/base/error.h"
#include "core/kernel/common/fit_problem.h"

#define LEAST_ALPHA 1e-3 /* so that a width exists for every z */

/* Returns the integral of a Gaussian of width 1/sqrt 2 from a to b > a. */
static double between(double a, double b) {
  if (a > 0) return 0.5 * (erfc(a) - erfc(b));
  if (b < 0) return 0.5 * (erfc(-b) - erfc(-a));
  return 0.5 * (erf(b) - erf(a));
}

static void integrated_axis(fit_axis *axis, int32_t count, double center, double sigma) {
  const double scale = 1 / (sqrt(2.0) * sigma), density = 1 / (sqrt(2 * M_PI) * sigma);
  for (int32_t i = 0; i < count; i++) {
    const double a = i - 0.5 - center, b = i + 0.5 - center;
    const double at_a = exp(-a * a * scale * scale), at_b = exp(-b * b * scale * scale);
    axis->part[i] = between(a * scale, b * scale);
    axis->by_position[i] = density * (at_a - at_b);
    axis->by_sigma[i] = density / sigma * (a * at_a - b * at_b);
  }
}

static void sampled_axis(fit_axis *axis, int32_t count, double center, double sigma) {
  const double density = 1 / (sqrt(2 * M_PI) * sigma);
  for (int32_t i = 0; i < count; i++) {
    const double a = (i - center) / sigma;
    axis->part[i] = density * exp(-0.5 * a * a);
    axis->by_position[i] = axis->part[i] * a / sigma;
    axis->by_sigma[i] = axis->part[i] * (a * a - 1) / sigma;
  }
}

static void prepare_axis(fit_axis *axis, compute_fit_profile profile, int32_t count, double center,
                         double sigma) {
  if (profile == COMPUTE_FIT_SAMPLED)
    sampled_axis(axis, count, center, sigma);
  else
    integrated_axis(axis, count, center, sigma);
}

/* Returns the width of an astigmatic spot at z along axis 0 (x) or 1 (y), and its derivative. */
static double width_at(const compute_fit_problem *p, int axis, double z, double *by_z) {
  const double t = (axis == 0 ? z - p->gamma : z + p->gamma) / p->depth;
  const double a = p->a[axis], b = p->b[axis];
  const double alpha = 1 + t * t * (1 + t * (a + t * b));
  const double slope = t * (2 + t * (3 * a + t * 4 * b)) / p->depth;
  const bool flat = alpha < LEAST_ALPHA;
  const double root = sqrt(flat ? LEAST_ALPHA : alpha);
  *by_z = flat ? 0 : p->sigma[axis] * slope / (2 * root);
  return p->sigma[axis] * root;
}

void fit_spot_prepare(fit_spot *spot, const compute_fit_problem *p, const float *spline,
                      const double *parameters) {
  const int32_t light = compute_fit_has_z(p->model) ? 3 : 2;
  double sigma[2] = {p->sigma[0], p->sigma[1]};
  spot->model = p->model;
  spot->light = parameters[light];
  spot->background = parameters[light + 1];
  if (p->model == COMPUTE_FIT_SPLINE) {
    spline_put(p, spline, parameters, p->rows, p->columns, &spot->place);
    return;
  }
  for (int axis = 0; axis < 2; axis++) {
    spot->sigma_by_z[axis] = 0;
    if (p->model == COMPUTE_FIT_XYNBS) sigma[axis] = parameters[4];
    if (p->model == COMPUTE_FIT_XYNBSXSY) sigma[axis] = parameters[4 + axis];
    if (p->model == COMPUTE_FIT_XYZNB)
      sigma[axis] = width_at(p, axis, parameters[2], &spot->sigma_by_z[axis]);
  }
  prepare_axis(&spot->x, p->profile, p->columns, parameters[0], sigma[0]);
  prepare_axis(&spot->y, p->profile, p->rows, parameters[1], sigma[1]);
}

static void spline_pixel(const fit_spot *spot, int32_t row, int32_t column, fit_pixel *pixel) {
  const double n = spot->light;
  const double f = spline_value(&spot->place, row, column, pixel->slope);
  const double light = spot->background + n * f;
  pixel->light = light > COMPUTE_FIT_LEAST_PHOTONS ? light : COMPUTE_FIT_LEAST_PHOTONS;
  for (int axis = 0; axis < 3; axis++) pixel->slope[axis] *= n;
  pixel->slope[3] = f;
  pixel->slope[4] = 1;
}

void fit_spot_pixel(const fit_spot *spot, int32_t row, int32_t column, fit_pixel *pixel) {
  if (spot->model == COMPUTE_FIT_SPLINE) {
    spline_pixel(spot, row, column, pixel);
    return;
  }
  const double x = spot->x.part[column], y = spot->y.part[row], n = spot->light;
  const double by_sigma_x = n * spot->x.by_sigma[column] * y;
  const double by_sigma_y = n * x * spot->y.by_sigma[row];
  double *next = pixel->slope;
  pixel->light = spot->background + n * x * y;
  *next++ = n * spot->x.by_position[column] * y;
  *next++ = n * x * spot->y.by_position[row];
  if (spot->model == COMPUTE_FIT_XYZNB)
    *next++ = by_sigma_x * spot->sigma_by_z[0] + by_sigma_y * spot->sigma_by_z[1];
  *next++ = x * y;
  *next++ = 1;
  if (spot->model == COMPUTE_FIT_XYNBS) *next++ = by_sigma_x + by_sigma_y;
  if (spot->model == COMPUTE_FIT_XYNBSXSY) {
    *next++ = by_sigma_x;
    *next++ = by_sigma_y;
  }
}

compute_status fit_problem_take(const compute_context *context, const char *operation,
                                const compute_fit_problem *problem, compute_fit_problem *normal) {
  char reason[256];
  if (!fit_problem_check(problem, reason, sizeof reason))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "problem.%s", reason);
  if (problem->rows * problem->columns < fit_problem_free_count(problem))
    return error_set(context, COMPUTE_ERROR_SHAPE, operation,
                     "an ROI of %d × %d has fewer pixels than the %d free parameters",
                     (int)problem->rows, (int)problem->columns,
                     (int)fit_problem_free_count(problem));
  *normal = fit_problem_normalize(problem);
  return COMPUTE_OK;
}
