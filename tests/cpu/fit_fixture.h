/* SPDX-License-Identifier: MIT */
/* Fits directly on the CPU backend: images with noise, launches of the FIT descriptor, and
 * comparison with the double-precision reference of the same ROI. */
#ifndef CPU_FIT_FIXTURE_H
#define CPU_FIT_FIXTURE_H

#include "kernel_fixture.h"

#include "compute/backend/fit_kinds.h"
#include "support/reference/fit_reference.h"

enum { FIT_INPUTS = 9, FIT_COLUMNS = 64 };

/* A launch. Inputs follow the order of the bits of COMPUTE_FIT_WITH_…; strides are in elements. */
typedef struct fit_launch {
  compute_fit_problem problem;
  compute_dtype dtype;
  int64_t count;
  const void *pixels;
  int64_t pixel_stride[3];
  const void *input[FIT_INPUTS];
  int64_t input_stride[FIT_INPUTS][3];
  int64_t frames, height, width;
  float *records;
  int64_t record_stride[2];
} fit_launch;

/* Fills in the core's defaults. */
FIXTURE_INLINE compute_fit_problem fit_problem(compute_fit_model model, int32_t rows,
                                               int32_t columns, double sigma) {
  compute_fit_problem p = {.model = model,
                           .rows = rows,
                           .columns = columns,
                           .iterations = 40,
                           .outputs = COMPUTE_FIT_ALL_OUTPUTS,
                           .flags = COMPUTE_FIT_STACK,
                           .epsilon = 0.01,
                           .sigma = {sigma, sigma},
                           .gain = 1,
                           .em_gain = 1};
  if (model == COMPUTE_FIT_XYZNB) {
    p.depth = 0.4;
    p.gamma = 0.25;
    p.a[0] = 0.05;
    p.b[1] = 0.02;
    p.z_start_count = 3;
    p.z_start[0] = -0.25;
    p.z_start[2] = 0.25;
  }
  return p;
}

FIXTURE_INLINE int32_t fit_width(const compute_fit_problem *problem) {
  return compute_fit_column(problem->model, problem->outputs, 0);
}

FIXTURE_INLINE compute_status fit_run_on(fixture *f, const fit_launch *l) {
  static const compute_dtype dtypes[FIT_INPUTS] = {COMPUTE_I32, COMPUTE_F32, COMPUTE_F32,
                                                   COMPUTE_F32, COMPUTE_U8,  COMPUTE_F32,
                                                   COMPUTE_F32, COMPUTE_F32, COMPUTE_F32};
  compute_operand in[1 + FIT_INPUTS] = {{.dtype = l->dtype}}, out = {.dtype = COMPUTE_F32};
  void *pointers[2 + FIT_INPUTS];
  union {
    const void *from;
    void *to;
  } plain = {.from = l->pixels};
  compute_fit_problem problem = l->problem;
  uint32_t inputs = 1;
  for (int d = 0; d < 3; d++) in[0].stride[d] = l->pixel_stride[d];
  pointers[0] = plain.to;
  problem.inputs = 0;
  for (int bit = 0; bit < FIT_INPUTS; bit++) {
    if (!l->input[bit]) continue;
    problem.inputs |= 1u << bit;
    in[inputs].dtype = dtypes[bit];
    for (int d = 0; d < 3; d++) in[inputs].stride[d] = l->input_stride[bit][d];
    plain.from = l->input[bit];
    pointers[inputs++] = plain.to;
  }
  for (int d = 0; d < 2; d++) out.stride[d] = l->record_stride[d];
  pointers[inputs] = l->records;
  const compute_fit_attributes attributes = {
      .problem = problem, .frames = l->frames, .rows = l->height, .columns = l->width};
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_FIT,
                                                .rank = 1,
                                                .size = {l->count},
                                                .input_count = inputs,
                                                .output_count = 1,
                                                .inputs = in,
                                                .outputs = &out,
                                                .attributes = &attributes,
                                                .attribute_bytes = sizeof attributes};
  cpu_kernel *kernel = NULL;
  compute_status status = cpu_kind_prepare(&cpu_fit_kind, f->device, &descriptor, &kernel);
  if (status) return status;
  assert_true(strlen(kernel->description) > 0);
  status = kernel->run(kernel, pointers);
  cpu_kernel_destroy(kernel);
  return status;
}

/* A dense stack with dense records. */
FIXTURE_INLINE fit_launch fit_stack(const compute_fit_problem *problem, compute_dtype dtype,
                                    int64_t count, const void *pixels, float *records) {
  const int64_t size = (int64_t)problem->rows * problem->columns;
  return (fit_launch){.problem = *problem,
                      .dtype = dtype,
                      .count = count,
                      .pixels = pixels,
                      .pixel_stride = {size, problem->columns, 1},
                      .records = records,
                      .record_stride = {fit_width(problem), 1}};
}

/* ---- Images -------------------------------------------------------------------------------- */

/* Multiplies uniform numbers; for large means it uses the normal distribution. */
FIXTURE_INLINE double fit_poisson(double mean, test_random *random) {
  if (mean > 200) {
    double normal = 0;
    for (int i = 0; i < 12; i++) normal += test_random_uniform(random, -0.5, 0.5);
    const double value = floor(mean + sqrt(mean) * normal + 0.5);
    return value > 0 ? value : 0;
  }
  const double limit = exp(-mean);
  double product = 1;
  int count = -1;
  do {
    product *= test_random_uniform(random, 0, 1);
    count++;
  } while (product > limit);
  return count;
}

/* Draws parameters of a spot near the centre of the ROI. */
FIXTURE_INLINE void fit_truth(const compute_fit_problem *p, double photons, double background,
                              test_random *random, double *truth) {
  const bool has_z = p->model == COMPUTE_FIT_XYZNB;
  truth[0] = 0.5 * (p->columns - 1) + test_random_uniform(random, -0.7, 0.7);
  truth[1] = 0.5 * (p->rows - 1) + test_random_uniform(random, -0.7, 0.7);
  truth[2] = test_random_uniform(random, -0.25, 0.25);
  truth[has_z ? 3 : 2] = photons * test_random_uniform(random, 0.8, 1.2);
  truth[has_z ? 4 : 3] = background * test_random_uniform(random, 0.8, 1.2);
  if (has_z) return;
  truth[4] = p->sigma[0] * test_random_uniform(random, 0.9, 1.15);
  truth[5] = p->sigma[1] * test_random_uniform(random, 0.9, 1.15);
}

/* The camera's image of the spot, in whole counts. */
FIXTURE_INLINE void fit_expose(const compute_fit_problem *p, const fit_reference_inputs *inputs,
                               const double *truth, test_random *random, double *values) {
  static double image[FIT_REFERENCE_PIXELS];
  fit_reference_image(p, inputs ? inputs->sigma : NULL, truth, image, NULL);
  for (int32_t i = 0; i < p->rows * p->columns; i++) {
    const double offset = inputs && inputs->offset ? inputs->offset[i] : p->offset;
    const double gain = inputs && inputs->gain ? inputs->gain[i] : p->gain;
    const double variance = inputs && inputs->variance ? inputs->variance[i] : p->variance;
    double electrons = fit_poisson(image[i], random);
    if (p->camera == COMPUTE_FIT_EMCCD) {
      double multiplied = 0; /* each electron becomes an exponential number of them */
      for (int k = 0; k < (int)electrons; k++)
        multiplied -= log(test_random_uniform(random, 1e-12, 1));
      electrons = multiplied * p->em_gain;
    }
    if (p->camera == COMPUTE_FIT_SCMOS) {
      double normal = 0;
      for (int k = 0; k < 12; k++) normal += test_random_uniform(random, -0.5, 0.5);
      electrons += normal * sqrt(variance);
    }
    const double counts =
        p->camera == COMPUTE_FIT_IDEAL ? electrons : floor(electrons / gain + offset + 0.5);
    values[i] = counts < 0 ? 0 : counts > 65535 ? 65535 : counts;
  }
}

/* ---- Checking ------------------------------------------------------------------------------ */

FIXTURE_INLINE float fit_output(const compute_fit_problem *p, const float *record, uint32_t output,
                                int32_t column) {
  return record[compute_fit_column(p->model, p->outputs, output) + column];
}

FIXTURE_INLINE compute_fit_status fit_status(const compute_fit_problem *p, const float *record) {
  return (compute_fit_status)fit_output(p, record, COMPUTE_FIT_STATUS, 0);
}

FIXTURE_INLINE void fit_expect(const char *what, int64_t roi, int32_t column, double actual,
                               double expected, double tolerance) {
  if (isnan(expected) ? !isnan(actual) : !(fabs(actual - expected) <= tolerance))
    fail_msg("%s: ROI %lld, column %d: %.9g instead of %.9g ± %.3g", what, (long long)roi, column,
             actual, expected, tolerance);
}

/* All other outputs match the fitted parameters. */
FIXTURE_INLINE void fit_check_outputs(const char *what, int64_t roi, const compute_fit_problem *p,
                                      const double *values, const fit_reference_inputs *inputs,
                                      const float *record) {
  const int32_t count = compute_fit_parameter_count(p->model);
  double own[COMPUTE_FIT_MAX_PARAMETERS] = {0};
  fit_reference_result at;
  for (int32_t i = 0; i < count; i++)
    own[i] = (double)fit_output(p, record, COMPUTE_FIT_PARAMETERS, i);
  fit_reference_at(p, values, inputs, own, &at);
  for (int32_t i = 0; i < count; i++)
    fit_expect(what, roi, i, (double)fit_output(p, record, COMPUTE_FIT_STD, i), at.std[i],
               1e-3 * at.std[i]);
  for (int32_t i = 0; i < count * count; i++)
    fit_expect(what, roi, i, (double)fit_output(p, record, COMPUTE_FIT_COVARIANCE, i),
               at.covariance[i], 3e-3 * at.std[i / count] * at.std[i % count]);
  fit_expect(what, roi, 100, (double)fit_output(p, record, COMPUTE_FIT_RATIO, 0), at.ratio,
             1e-3 + 1e-5 * fabs(at.ratio));
  fit_expect(what, roi, 101, (double)fit_output(p, record, COMPUTE_FIT_P_RAW, 0), at.p_raw, 3e-4);
  /* The moments have an error. It is larger if the background is faint: their sum then barely
   * exceeds the parameters' share. */
  const double background = own[compute_fit_has_z(p->model) ? 4 : 3];
  fit_expect(what, roi, 102, (double)fit_output(p, record, COMPUTE_FIT_P_VALUE, 0), at.p_value,
             (background < 0.1 ? 4e-2 : 1e-3) + 2e-4 * sqrt(p->rows * p->columns));
  fit_expect(what, roi, 103, (double)fit_output(p, record, COMPUTE_FIT_SIGNIFICANCE, 0),
             at.significance, 2e-3 + 1e-4 * at.significance);
}

/* A converged fit is at the optimum, within `fraction` of the uncertainties. */
FIXTURE_INLINE void fit_check_optimum(const char *what, int64_t roi, const compute_fit_problem *p,
                                      const fit_reference_result *reference, const float *record,
                                      double fraction) {
  for (int32_t i = 0; i < compute_fit_parameter_count(p->model); i++)
    fit_expect(what, roi, i, (double)fit_output(p, record, COMPUTE_FIT_PARAMETERS, i),
               reference->parameters[i],
               fraction * reference->std[i] + 2e-6 * fabs(reference->parameters[i]));
}

#endif
