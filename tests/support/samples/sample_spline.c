/* SPDX-License-Identifier: MIT */
#include "support/samples/sample_spline.h"

#include <math.h>

enum { PLANES = 12, MARGIN = 6 };

/* ---- The spot ------------------------------------------------------------------------------ */

static double width_at(double z) {
  return 1.2 * sqrt(1 + z * z / (0.4 * 0.4));
}

static double part(double pixel, double sigma) {
  const double scale = 1 / (sqrt(2.0) * sigma);
  return 0.5 * (erf((pixel + 0.5) * scale) - erf((pixel - 0.5) * scale));
}

double sample_spline_value(double x, double y, double z) {
  return part(x, width_at(z - 0.25)) * part(y, width_at(z + 0.25));
}

/* ---- The spline ---------------------------------------------------------------------------- */

void sample_spline_describe(compute_fit_problem *problem) {
  problem->model = COMPUTE_FIT_SPLINE;
  problem->cells[0] = PLANES;
  problem->cells[1] = problem->rows + MARGIN;
  problem->cells[2] = problem->columns + MARGIN - 1;
  problem->cells[3] = 0;
  problem->spot[0] = 0.5 * problem->cells[2] + 0.2;
  problem->spot[1] = 0.5 * problem->cells[1] - 0.1;
  problem->z_first = -0.6;
  problem->z_step = 1.2 / PLANES;
}

int64_t sample_spline_size(const compute_fit_problem *problem) {
  return (int64_t)problem->cells[0] * problem->cells[1] * problem->cells[2] * 64;
}

/* Converts values at 0, 1/3, 2/3 and 1 to the coefficients of the cubic through them. */
static void to_powers(double *c, int stride) {
  for (int i = 0; i < 64; i++) {
    if (i / stride % 4 != 0) continue;
    double *v = c + i, a = v[0], b = v[stride], d = v[2 * stride], e = v[3 * stride];
    v[stride] = -5.5 * a + 9 * b - 4.5 * d + e;
    v[2 * stride] = 9 * a - 22.5 * b + 18 * d - 4.5 * e;
    v[3 * stride] = -4.5 * a + 13.5 * b - 13.5 * d + 4.5 * e;
  }
}

void sample_spline_fill(const compute_fit_problem *problem, float *coefficients) {
  const int32_t *cells = problem->cells;
  for (int32_t n = 0; n < cells[0] * cells[1] * cells[2]; n++) {
    const int32_t column = n % cells[2], row = n / cells[2] % cells[1];
    const int32_t plane = n / (cells[2] * cells[1]);
    double c[64];
    for (int i = 0; i < 64; i++)
      c[i] = sample_spline_value(column + i % 4 / 3.0 - problem->spot[0],
                                 row + i / 4 % 4 / 3.0 - problem->spot[1],
                                 problem->z_first + (plane + i / 16 / 3.0) * problem->z_step);
    for (int stride = 1; stride < 64; stride *= 4) to_powers(c, stride);
    for (int i = 0; i < 64; i++) coefficients[64 * (int64_t)n + i] = (float)c[i];
  }
}
