/* SPDX-License-Identifier: MIT */
/* Problems of FIT: spots near the middle of ROIs, with the default outputs. SPOTS has no
 * problems. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "compute/backend/fit_kinds.h"

#include "codegen/tune/problems/problem.h"
#include "core/kernel/common/fit_problem.h"
#include "core/type/dtype.h"

#define K INT64_C(1024)

/* ROIs × rows × columns. */
static const problem_row rows[] = {
    {"xynb", COMPUTE_FIT_XYNB, COMPUTE_U16, 32 * K, 7, 7, 0, true},
    {"xynb", COMPUTE_FIT_XYNB, COMPUTE_F32, 8 * K, 15, 15, 0, false},
    {"xynbsxsy", COMPUTE_FIT_XYNBSXSY, COMPUTE_U16, 16 * K, 9, 9, 0, false},
    {"xyznb", COMPUTE_FIT_XYZNB, COMPUTE_F32, 8 * K, 13, 13, 0, false},
    {"spline", COMPUTE_FIT_SPLINE, COMPUTE_U16, 8 * K, 13, 13, 0, false},
    {.a = 0},
};

/* ---- A measured spot ------------------------------------------------------------------------- */

/* SIGMA is the width in focus. From −DEPTH to DEPTH the width grows along x and shrinks along y. */
#define SIGMA  1.3
#define DEPTH  0.4
#define SPREAD 0.3
enum { PLANES = 4, BEYOND = 4 }; /* cells; pixels beyond an ROI on each side */

static void describe_spot(compute_fit_problem *p) {
  p->cells[0] = PLANES;
  p->cells[1] = p->rows + 2 * BEYOND - 1;
  p->cells[2] = p->columns + 2 * BEYOND - 1;
  p->z_step = 2 * DEPTH / PLANES;
  p->z_first = -DEPTH;
  p->spot[0] = 0.5 * p->cells[2];
  p->spot[1] = 0.5 * p->cells[1];
}

/* A Gaussian from `from` to one pixel further, as a cubic. more[] is its change as it widens. */
static void cubics(double from, double gaussian[4], double more[4]) {
  double value[2][2], slope[2][2];
  for (int end = 0; end < 2; end++) {
    const double x = (from + end) / SIGMA,
                 height = exp(-0.5 * x * x) / (2.5066282746310002 * SIGMA);
    value[0][end] = height;
    value[1][end] = height * (x * x - 1) * SPREAD;
    slope[0][end] = -height * x / SIGMA;
    slope[1][end] = height * (3 - x * x) * x / SIGMA * SPREAD;
  }
  for (int k = 0; k < 2; k++) {
    double *const c = k == 0 ? gaussian : more;
    const double rise = value[k][1] - value[k][0];
    c[0] = value[k][0];
    c[1] = slope[k][0];
    c[2] = 3 * rise - 2 * slope[k][0] - slope[k][1];
    c[3] = slope[k][0] + slope[k][1] - 2 * rise;
  }
}

static void fill_spline(const compute_fit_problem *p, float *to) {
  for (int32_t plane = 0; plane < p->cells[0]; plane++)
    for (int32_t row = 0; row < p->cells[1]; row++)
      for (int32_t column = 0; column < p->cells[2];
           column++, to += COMPUTE_FIT_SPLINE_COEFFICIENTS) {
        double x[4], y[4], wide_x[4], wide_y[4];
        const double z = 2.0 * plane / PLANES - 1, step = 2.0 / PLANES;
        cubics(column - p->spot[0], x, wide_x);
        cubics(row - p->spot[1], y, wide_y);
        for (int j = 0; j < 4; j++)
          for (int i = 0; i < 4; i++) {
            const double change = y[j] * wide_x[i] - wide_y[j] * x[i];
            to[4 * j + i] = (float)(y[j] * x[i] + z * change);
            to[16 + 4 * j + i] = (float)(step * change);
            to[32 + 4 * j + i] = to[48 + 4 * j + i] = 0;
          }
      }
}

/* ---- Problems -------------------------------------------------------------------------------- */

static void build_fit(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t pixels = row->b * row->c;
  const bool has_z = compute_fit_has_z((compute_fit_model)row->form);
  compute_fit_problem problem = {.model = (compute_fit_model)row->form,
                                 .rows = (int32_t)row->b,
                                 .columns = (int32_t)row->c,
                                 .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD,
                                 .sigma = {SIGMA},
                                 .depth = DEPTH,
                                 .gamma = 0.3,
                                 .start_set = has_z ? 4 : 0,
                                 .start[2] = 0.1};
  if (problem.model == COMPUTE_FIT_SPLINE) describe_spot(&problem);
  compute_fit_attributes *fit = kernel_attributes_in(&p->attributes, d, sizeof *fit);
  fit->problem = fit_problem_normalize(&problem);
  const int64_t columns = compute_fit_column(fit->problem.model, fit->problem.outputs, 0);
  d->rank = 1;
  d->size[0] = row->a;
  d->input_count = d->output_count = 1;
  if (problem.model == COMPUTE_FIT_SPLINE) {
    d->input_count = 2;
    p->inputs[1] =
        (compute_operand){.dtype = COMPUTE_F32, .stride = {COMPUTE_FIT_SPLINE_COEFFICIENTS, 1}};
    p->input_elements[1] = COMPUTE_FIT_SPLINE_COEFFICIENTS * (uint64_t)problem.cells[0] *
                           (uint64_t)(problem.cells[1] * problem.cells[2]);
  }
  p->inputs[0] = (compute_operand){.dtype = row->dtype, .stride = {pixels, row->c, 1}};
  p->output = (compute_operand){.dtype = COMPUTE_F32, .stride = {columns, 1}};
  p->input_elements[0] = (uint64_t)(row->a * pixels);
  p->output_elements = (uint64_t)(row->a * columns);
}

/* A spot near the middle of each ROI, with shot noise. */
static void fill_spots(const tune_problem *problem, uint32_t input, void *data) {
  const compute_fit_problem *p = &compute_fit_of(&problem->descriptor)->problem;
  if (input == 1) {
    fill_spline(p, data);
    return;
  }
  const compute_dtype dtype = problem->inputs[0].dtype;
  const size_t size = compute_dtype_size(dtype);
  const uint64_t pixels = (uint64_t)p->rows * (uint64_t)p->columns;
  const double wider = p->model == COMPUTE_FIT_XYNB ? 1 : 1.2;
  for (uint64_t i = 0; i < problem->input_elements[0]; i++) {
    const uint64_t roi = i / pixels, pixel = i % pixels;
    const double x = (double)(pixel % (uint64_t)p->columns) - (p->columns - 1) * 0.5 -
                     0.5 * problem_number(roi << 32 ^ 1);
    const double y = (double)(pixel / (uint64_t)p->columns) - (p->rows - 1) * 0.5 -
                     0.5 * problem_number(roi << 32 ^ 2);
    const double a = x / SIGMA, b = y / (SIGMA * wider);
    const double mean = 10 + 200 * exp(-0.5 * (a * a + b * b));
    const double noise =
        problem_number(i << 2) + problem_number(i << 2 ^ 1) + problem_number(i << 2 ^ 2);
    const double value = floor(mean + sqrt(mean) * noise + 0.5);
    dtype_store(dtype, (char *)data + i * size, value > 0 ? value : 0);
  }
}

/* Two solvers agree within a small fraction of a standard deviation. The deviations are as accurate
 * as their parameters. */
static bool check_fits(const tune_problem *problem, const void *given, const void *wanted,
                       char *reason, size_t reason_bytes) {
  const float *got = given, *expected = wanted;
  const int32_t n =
      compute_fit_parameter_count(compute_fit_of(&problem->descriptor)->problem.model);
  for (uint64_t at = 0; at < problem->output_elements; at += 2 * (uint64_t)n)
    for (int32_t i = 0; i < 2 * n; i++) {
      const double a = (double)got[at + (uint64_t)i], b = (double)expected[at + (uint64_t)i];
      const double deviation = (double)expected[at + (uint64_t)(n + i % n)];
      const double allowed = i < n ? 0.03 * deviation : 0.003 * fabs(b);
      if (isnan(deviation) ? isnan(a) || i < n : fabs(a - b) <= allowed) continue;
      snprintf(reason, reason_bytes, "column %d of fit %" PRIu64 " is %.9g instead of %.9g", (int)i,
               at / (2 * (uint64_t)n), a, b);
      return false;
    }
  return true;
}

const problem_kind problem_kind_fit = {
    .rows = rows, .build = build_fit, .fill = fill_spots, .check = check_fits};

/* No device generates SPOTS, so it has no parameters. */
const problem_kind problem_kind_spots = {0};

/* No device generates LINALG. */
const problem_kind problem_kind_linalg = {0};

/* No device generates TREES. */
const problem_kind problem_kind_trees = {0};

/* CALL has no parameters: it has no choices. */
const problem_kind problem_kind_call = {0};
