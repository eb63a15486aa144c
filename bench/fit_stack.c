/* SPDX-License-Identifier: MIT */
/* Simulated ROIs, and checks of their fits; see fit.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"

static size_t parameter_count(const fit_stack *stack) {
  return (size_t)compute_fit_parameter_count(stack->problem.model);
}

static size_t pixel_bytes(const fit_stack *stack) {
  return stack->dtype == COMPUTE_U16 ? sizeof(uint16_t) : sizeof(float);
}

size_t fit_stack_bytes(const fit_stack *stack) {
  return (size_t)stack->count * (size_t)stack->problem.rows * (size_t)stack->problem.columns *
         pixel_bytes(stack);
}

/* A measured spot: XYZNB's widths, on nodes that reach four pixels beyond an ROI. */
enum { PLANES = 13, BEYOND = 4 };

static double width_at(double z) {
  const double t = z / 0.4;
  return 1.3 * sqrt(1 + t * t);
}

static compute_status make_spline(compute_context *context, fit_stack *stack) {
  compute_fit_problem *p = &stack->problem;
  const int32_t nodes = p->rows + 2 * BEYOND, cells = nodes - 1;
  const double middle = 0.5 * cells;
  float *values = malloc((size_t)PLANES * (size_t)nodes * (size_t)nodes * sizeof *values);
  stack->coefficients = malloc((size_t)(PLANES - 1) * (size_t)cells * (size_t)cells *
                               COMPUTE_FIT_SPLINE_COEFFICIENTS * sizeof(float));
  p->cells[0] = PLANES - 1;
  p->cells[1] = p->cells[2] = cells;
  p->z_step = 0.1;
  p->z_first = -0.05 * (PLANES - 1);
  p->spot[0] = p->spot[1] = middle;
  p->spline = stack->coefficients;
  compute_status status = values && stack->coefficients ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int32_t i = 0; !status && i < PLANES * nodes * nodes; i++) {
    const double z = p->z_first + p->z_step * (i / (nodes * nodes));
    const double a = (i % nodes - middle) / width_at(z - 0.25);
    const double b = (i / nodes % nodes - middle) / width_at(z + 0.25);
    values[i] = (float)(exp(-0.5 * (a * a + b * b)) /
                        (2 * 3.14159265358979 * width_at(z - 0.25) * width_at(z + 0.25)));
  }
  if (!status)
    status = compute_fit_spline_make(context, values, PLANES, nodes, nodes, stack->coefficients);
  free(values);
  return status;
}

compute_status fit_stack_create(compute_context *context, compute_fit_model model,
                                compute_fit_camera camera, int32_t side, compute_dtype dtype,
                                int64_t count, fit_stack *stack) {
  *stack = (fit_stack){
      .problem = {.model = model, .camera = camera, .rows = side, .columns = side, .sigma = {1.3}},
      .dtype = dtype,
      .count = count};
  if (camera == COMPUTE_FIT_READOUT) stack->problem.variance = 1;
  if (model == COMPUTE_FIT_XYZNB) {
    stack->problem.depth = 0.4;
    stack->problem.gamma = 0.25;
  }
  compute_status status = model == COMPUTE_FIT_SPLINE ? make_spline(context, stack) : COMPUTE_OK;
  compute_simulation simulation = {.problem = stack->problem,
                                   .dtype = dtype,
                                   .seed = 1,
                                   .photons = {1000, 1000},
                                   .background = {10, 10},
                                   .position = {-0.5, 0.5},
                                   .z = {-0.2, 0.2}};
  stack->pixels = malloc(fit_stack_bytes(stack));
  stack->truth = malloc((size_t)count * parameter_count(stack) * sizeof *stack->truth);
  if (!status && (!stack->pixels || !stack->truth)) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!status)
    status = compute_simulate_rois(context, &simulation, 0, count, stack->pixels, stack->truth);
  if (status) fit_stack_release(stack);
  return status;
}

void fit_stack_release(fit_stack *stack) {
  free(stack->pixels);
  free(stack->truth);
  free(stack->coefficients);
  stack->pixels = NULL;
  stack->truth = stack->coefficients = NULL;
}

/* With readout noise a fit has neither ratio nor p-value. */
static bool has_ratio(const fit_stack *stack) {
  return stack->problem.camera != COMPUTE_FIT_READOUT;
}

/* ---- Results ------------------------------------------------------------------------------- */

compute_fit_results fit_results_create(const fit_stack *stack) {
  const size_t n = (size_t)stack->count, p = parameter_count(stack);
  compute_fit_results r = {.parameters = malloc(n * p * sizeof(float)),
                           .std = malloc(n * p * sizeof(float)),
                           .iterations = malloc(n * sizeof(int32_t)),
                           .status = malloc(n)};
  bool good = r.parameters && r.std && r.iterations && r.status;
  if (has_ratio(stack)) {
    r.ratio = malloc(n * sizeof(float));
    r.p_value = malloc(n * sizeof(float));
    good = good && r.ratio && r.p_value;
  }
  if (good) return r;
  fit_results_release(&r);
  return r;
}

void fit_results_release(compute_fit_results *r) {
  free(r->parameters);
  free(r->std);
  free(r->ratio);
  free(r->p_value);
  free(r->iterations);
  free(r->status);
  *r = (compute_fit_results){0};
}

void fit_results_from_records(const fit_stack *stack, const float *records,
                              compute_fit_results *r) {
  const compute_fit_model model = stack->problem.model;
  const int32_t p = compute_fit_parameter_count(model), width = compute_fit_column(model, 0, 0);
  const int32_t std = compute_fit_column(model, 0, COMPUTE_FIT_STD);
  for (int64_t i = 0; i < stack->count; i++) {
    const float *from = records + i * width;
    memcpy(r->parameters + i * p, from, (size_t)p * sizeof *from);
    memcpy(r->std + i * p, from + std, (size_t)p * sizeof *from);
    r->ratio[i] = from[compute_fit_column(model, 0, COMPUTE_FIT_RATIO)];
    r->p_value[i] = from[compute_fit_column(model, 0, COMPUTE_FIT_P_VALUE)];
    r->iterations[i] = (int32_t)from[compute_fit_column(model, 0, COMPUTE_FIT_ITERATIONS)];
    r->status[i] = (uint8_t)from[compute_fit_column(model, 0, COMPUTE_FIT_STATUS)];
  }
}

/* ---- Checks -------------------------------------------------------------------------------- */

static bool is_fit(uint8_t status) {
  return status == COMPUTE_FIT_CONVERGED;
}

/* Mean of (result − truth) in units of its standard error, and the results' spread in units of the
 * bound. Results further than ten bounds from the truth are outliers, excluded here but not from
 * the converged fraction. */
static void judge_parameter(const fit_stack *stack, const compute_fit_results *r, size_t k,
                            bench_fit *fit) {
  const size_t p = parameter_count(stack);
  double sum = 0, squares = 0, bound = 0, count = 0;
  for (size_t i = 0; i < (size_t)stack->count; i++) {
    const double off = (double)r->parameters[i * p + k] - (double)stack->truth[i * p + k];
    const double std = (double)r->std[i * p + k];
    if (!is_fit(r->status[i]) || !(fabs(off) < 10 * std)) continue;
    sum += off;
    squares += off * off;
    bound += std * std;
    count++;
  }
  const double mean = sum / count, spread = sqrt((squares / count - mean * mean) / (bound / count));
  const double bias = fabs(mean) / sqrt(bound / count);
  if (k == 0) fit->std_over_bound = spread;
  if (!(fabs(spread - 1) <= fabs(fit->worst_std_over_bound - 1)))
    fit->worst_std_over_bound = spread;
  if (!(bias <= fit->worst_bias)) fit->worst_bias = bias;
}

/* The largest relative difference between the reported uncertainties and the bound at the result,
 * in double precision, over some ROIs. */
static double judge_bounds(compute_context *context, const fit_stack *stack,
                           const compute_fit_results *r) {
  const size_t p = parameter_count(stack);
  const int64_t step = stack->count > 100 ? stack->count / 100 : 1;
  double worst = 0;
  for (int64_t i = 0; i < stack->count; i += step) {
    double theta[COMPUTE_FIT_MAX_PARAMETERS], std[COMPUTE_FIT_MAX_PARAMETERS];
    if (!is_fit(r->status[i])) continue;
    for (size_t k = 0; k < p; k++) theta[k] = (double)r->parameters[(size_t)i * p + k];
    if (compute_fit_crlb(context, &stack->problem, theta, NULL, std, NULL)) return NAN;
    for (size_t k = 0; k < p; k++) {
      const double error = fabs((double)r->std[(size_t)i * p + k] / std[k] - 1);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

/* With only 10 000 ROIs, 2 % is chance. XYZNB near its foci, and widths fitted along with the
 * background, are not quite Gaussian at this many photons. */
static void require_of_fit(const fit_stack *stack, bench_record *record) {
  const bench_fit *f = &record->fit;
  const bool shape = stack->problem.model != COMPUTE_FIT_XYNB;
  const double worst = shape ? 0.2 : 0.05;
  bench_require_least(record, "converged fraction", "", f->converged, shape ? 0.98 : 0.99);
  bench_require_most(record, "spread of x / bound", "", f->std_over_bound, 1.05);
  bench_require_least(record, "spread of x / bound", "", f->std_over_bound, 0.95);
  bench_require_most(record, "spread of a parameter / bound", "", f->worst_std_over_bound,
                     1 + worst);
  bench_require_least(record, "spread of a parameter / bound", "", f->worst_std_over_bound,
                      1 - worst);
  bench_require_most(record, "bias of a parameter / bound", "", f->worst_bias, shape ? 0.3 : 0.1);
  /* The information of pixels with readout noise is a fitted formula: kernels/fit_readout.h. */
  bench_require_most(record, "error of the uncertainties", "", f->bound_error,
                     has_ratio(stack) ? 1e-3 : 3e-3);
  if (!has_ratio(stack)) return;
  bench_require_most(record, "mean p-value", "", f->p_mean, 0.53);
  bench_require_least(record, "mean p-value", "", f->p_mean, 0.47);
}

void fit_judge(compute_context *context, const fit_stack *stack, const compute_fit_results *r,
               bench_record *record) {
  bench_fit *fit = &record->fit;
  *fit = (bench_fit){.rows = stack->problem.rows,
                     .columns = stack->problem.columns,
                     .parameters = (int32_t)parameter_count(stack),
                     .rois = stack->count,
                     .worst_std_over_bound = 1};
  double iterations = 0, converged = 0, p_value = 0;
  for (int64_t i = 0; i < stack->count; i++) {
    iterations += r->iterations[i];
    if (!is_fit(r->status[i])) continue;
    converged++;
    if (r->p_value) p_value += (double)r->p_value[i];
  }
  fit->iterations = iterations / (double)stack->count;
  fit->converged = converged / (double)stack->count;
  fit->p_mean = p_value / converged;
  for (size_t k = 0; k < parameter_count(stack); k++) judge_parameter(stack, r, k, fit);
  fit->bound_error = record->max_rel_err = judge_bounds(context, stack, r);
  require_of_fit(stack, record);
}
