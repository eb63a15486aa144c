/* SPDX-License-Identifier: MIT */
/* The expected image and its derivatives. */
#include "support/reference/fit_reference.h"

#include <math.h>

/* The Gaussian integrated over one pixel of one axis, and its derivatives with respect to position
 * and width. */
typedef struct profile_value {
  double value, by_position, by_sigma;
} profile_value;

static const double root_two = 1.41421356237309504880, root_two_pi = 2.50662827463100050242;

/* The integral from a to b, relative to the centre. If both are on one side, it uses complements,
 * so that far tails keep their digits. */
static double integral(double a, double b, double sigma) {
  double scale = 1 / (root_two * sigma);
  if (a > 0) return 0.5 * (erfc(a * scale) - erfc(b * scale));
  if (b < 0) return 0.5 * (erfc(-b * scale) - erfc(-a * scale));
  return 0.5 * (erf(b * scale) - erf(a * scale));
}

static profile_value integrated(double pixel, double position, double sigma) {
  double a = pixel - 0.5 - position, b = pixel + 0.5 - position;
  double density = 1 / (root_two_pi * sigma);
  double at_a = exp(-a * a / (2 * sigma * sigma)), at_b = exp(-b * b / (2 * sigma * sigma));
  return (profile_value){.value = integral(a, b, sigma),
                         .by_position = density * (at_a - at_b),
                         .by_sigma = density / sigma * (a * at_a - b * at_b)};
}

static profile_value sampled(double pixel, double position, double sigma) {
  double a = pixel - position, squared = a * a / (sigma * sigma);
  double value = exp(-squared / 2) / (root_two_pi * sigma);
  return (profile_value){.value = value,
                         .by_position = value * a / (sigma * sigma),
                         .by_sigma = value * (squared - 1) / sigma};
}

/* The width of an axis at z, and its derivative. It stops shrinking below a thousandth of the area
 * in focus, because the cubic may cross zero far from the focus. */
static double astigmatic(const compute_fit_problem *problem, int axis, double sigma, double z,
                         double *by_z) {
  double t = (axis == 0 ? z - problem->gamma : z + problem->gamma) / problem->depth;
  double a = problem->a[axis], b = problem->b[axis];
  double alpha = 1 + t * t + a * t * t * t + b * t * t * t * t;
  double slope = (2 * t + 3 * a * t * t + 4 * b * t * t * t) / problem->depth;
  if (alpha < 1e-3) {
    alpha = 1e-3;
    slope = 0;
  }
  *by_z = sigma * slope / (2 * sqrt(alpha));
  return sigma * sqrt(alpha);
}

/* Sums all 64 terms of the pixel's cell: the value and the derivatives with respect to x, y and z
 * within the cell. */
static void cubic(const float *cell, const double at[3], double value[4]) {
  for (int i = 0; i < 4; i++) value[i] = 0;
  for (int n = 0; n < 64; n++) {
    int power[3] = {n % 4, n / 4 % 4, n / 16};
    for (int by = 0; by < 4; by++) {
      double term = (double)cell[n];
      for (int axis = 0; axis < 3; axis++)
        term *= by == axis + 1
                    ? (power[axis] == 0 ? 0 : power[axis] * pow(at[axis], power[axis] - 1))
                    : pow(at[axis], power[axis]);
      value[by] += term;
    }
  }
}

static void spline_image(const compute_fit_problem *problem, const double *parameters,
                         double *image, double *derivatives) {
  double first[3] = {problem->spot[0] - parameters[0], problem->spot[1] - parameters[1],
                     (parameters[2] - problem->z_first) / problem->z_step};
  int32_t most[3] = {problem->cells[2] - problem->columns, problem->cells[1] - problem->rows,
                     problem->cells[0] - 1};
  int64_t cell[3];
  for (int axis = 0; axis < 3; axis++) {
    cell[axis] = (int64_t)fmin(fmax(floor(first[axis]), 0), most[axis]);
    first[axis] -= (double)cell[axis];
  }
  for (int32_t i = 0; i < problem->rows * problem->columns; i++) {
    double f[4], photons = parameters[3], *by = derivatives + 5 * (int64_t)i;
    int64_t row = cell[1] + i / problem->columns, column = cell[0] + i % problem->columns;
    int64_t number = (cell[2] * problem->cells[1] + row) * problem->cells[2] + column;
    cubic(problem->spline + 64 * number, first, f);
    image[i] = fmax(parameters[4] + photons * f[0], COMPUTE_FIT_LEAST_PHOTONS);
    if (!derivatives) continue;
    by[0] = -photons * f[1];
    by[1] = -photons * f[2];
    by[2] = photons * f[3] / problem->z_step;
    by[3] = f[0];
    by[4] = 1;
  }
}

void fit_reference_image(const compute_fit_problem *problem, const double *sigma,
                         const double *parameters, double *image, double *derivatives) {
  if (problem->model == COMPUTE_FIT_SPLINE) {
    spline_image(problem, parameters, image, derivatives);
    return;
  }
  int32_t count = compute_fit_parameter_count(problem->model);
  bool has_z = problem->model == COMPUTE_FIT_XYZNB;
  double photons = parameters[has_z ? 3 : 2], background = parameters[has_z ? 4 : 3];
  double width[2] = {problem->sigma[0],
                     problem->sigma[1] > 0 ? problem->sigma[1] : problem->sigma[0]};
  double by_z[2] = {0, 0};
  for (int axis = 0; axis < 2; axis++) {
    if (sigma) width[axis] = sigma[axis];
    if (has_z) width[axis] = astigmatic(problem, axis, width[axis], parameters[2], &by_z[axis]);
    if (problem->model == COMPUTE_FIT_XYNBS) width[axis] = parameters[4];
    if (problem->model == COMPUTE_FIT_XYNBSXSY) width[axis] = parameters[4 + axis];
  }

  profile_value (*profile)(double, double, double) =
      problem->profile == COMPUTE_FIT_SAMPLED ? sampled : integrated;
  profile_value across[COMPUTE_FIT_MAX_SIDE], down[COMPUTE_FIT_MAX_SIDE];
  for (int32_t column = 0; column < problem->columns; column++)
    across[column] = profile(column, parameters[0], width[0]);
  for (int32_t row = 0; row < problem->rows; row++)
    down[row] = profile(row, parameters[1], width[1]);

  for (int32_t row = 0; row < problem->rows; row++) {
    for (int32_t column = 0; column < problem->columns; column++) {
      profile_value x = across[column], y = down[row];
      int64_t pixel = (int64_t)row * problem->columns + column;
      image[pixel] = background + photons * x.value * y.value;
      if (!derivatives) continue;

      double *by = derivatives + pixel * count;
      double by_sigma[2] = {photons * x.by_sigma * y.value, photons * x.value * y.by_sigma};
      by[0] = photons * x.by_position * y.value;
      by[1] = photons * x.value * y.by_position;
      by[has_z ? 3 : 2] = x.value * y.value;
      by[has_z ? 4 : 3] = 1;
      if (has_z) by[2] = by_sigma[0] * by_z[0] + by_sigma[1] * by_z[1];
      if (problem->model == COMPUTE_FIT_XYNBS) by[4] = by_sigma[0] + by_sigma[1];
      if (problem->model == COMPUTE_FIT_XYNBSXSY) {
        by[4] = by_sigma[0];
        by[5] = by_sigma[1];
      }
    }
  }
}
