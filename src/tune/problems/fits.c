/* SPDX-License-Identifier: MIT */
/* Problems of FIT: spots near the middle of ROIs, with the default outputs. SPOTS has none.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kernel/fit_problem.h"
#include "tune/problem.h"
#include "type/dtype.h"

#define K INT64_C(1024)

/* ROIs × rows × columns. */
static const problem_row rows[] = {
    {"xynb", COMPUTE_FIT_XYNB, COMPUTE_U16, 32 * K, 7, 7, 0, true},
    {"xynb", COMPUTE_FIT_XYNB, COMPUTE_F32, 8 * K, 15, 15, 0, false},
    {"xynbsxsy", COMPUTE_FIT_XYNBSXSY, COMPUTE_U16, 16 * K, 9, 9, 0, false},
    {"xyznb", COMPUTE_FIT_XYZNB, COMPUTE_F32, 8 * K, 13, 13, 0, false},
    {.a = 0},
};

static void build_fit(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t pixels = row->b * row->c;
  const compute_fit_problem problem = {.model = (compute_fit_model)row->form,
                                       .rows = (int32_t)row->b,
                                       .columns = (int32_t)row->c,
                                       .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD,
                                       .sigma = {1.3},
                                       .depth = 0.4,
                                       .gamma = 0.3,
                                       .start_set = row->form == COMPUTE_FIT_XYZNB ? 4 : 0,
                                       .start[2] = 0.1};
  compute_fit_attributes *fit = kernel_attributes_in(&p->attributes, d, sizeof *fit);
  fit->problem = fit_problem_normalize(&problem);
  const int64_t columns = compute_fit_column(fit->problem.model, fit->problem.outputs, 0);
  d->rank = 1;
  d->size[0] = row->a;
  d->input_count = d->output_count = 1;
  p->inputs[0] = (compute_operand){.dtype = row->dtype, .stride = {pixels, row->c, 1}};
  p->output = (compute_operand){.dtype = COMPUTE_F32, .stride = {columns, 1}};
  p->input_elements[0] = (uint64_t)(row->a * pixels);
  p->output_elements = (uint64_t)(row->a * columns);
}

/* A spot near the middle of each ROI, with shot noise. */
static void fill_spots(const tune_problem *problem, uint32_t input, void *data) {
  (void)input;
  const compute_fit_problem *p = &compute_fit_of(&problem->descriptor)->problem;
  const compute_dtype dtype = problem->inputs[0].dtype;
  const size_t size = compute_dtype_size(dtype);
  const uint64_t pixels = (uint64_t)(p->rows * p->columns);
  const double wider = p->model == COMPUTE_FIT_XYNB ? 1 : 1.2;
  for (uint64_t i = 0; i < problem->input_elements[0]; i++) {
    const uint64_t roi = i / pixels, pixel = i % pixels;
    const double x = (double)(pixel % (uint64_t)p->columns) - (p->columns - 1) * 0.5 -
                     0.5 * problem_number(roi << 32 ^ 1);
    const double y = (double)(pixel / (uint64_t)p->columns) - (p->rows - 1) * 0.5 -
                     0.5 * problem_number(roi << 32 ^ 2);
    const double a = x / p->sigma[0], b = y / (p->sigma[1] * wider);
    const double mean = 10 + 200 * exp(-0.5 * (a * a + b * b));
    const double noise =
        problem_number(i << 2) + problem_number(i << 2 ^ 1) + problem_number(i << 2 ^ 2);
    const double value = floor(mean + sqrt(mean) * noise + 0.5);
    dtype_store(dtype, (char *)data + i * size, value > 0 ? value : 0);
  }
}

/* Two solvers agree within a small fraction of a standard deviation; the deviations are as accurate
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

/* No device generates it, so it has no parameters. */
const problem_kind problem_kind_spots = {0};

/* CALL has none either: there is nothing to choose. */
const problem_kind problem_kind_call = {0};
