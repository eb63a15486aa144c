/* SPDX-License-Identifier: MIT */
/* ROIs that are simulated and fitted in memory; see simulation.h. */
#include "programs/fit/simulation.h"

#include <stdlib.h>
#include <string.h>

#include "programs/common/clock.h"
#include "programs/fit/settings.h"

typedef struct buffers {
  void *pixels;
  float *truth, *parameters, *std, *ratio, *p_raw, *p_value;
  int32_t *iterations;
  uint8_t *status;
} buffers;

static bool allocate(buffers *b, const trial *t) {
  const compute_fit_problem *p = &t->simulation.problem;
  const size_t n = (size_t)t->count, f = sizeof(float),
               parameters = (size_t)compute_fit_parameter_count(p->model);
  b->pixels =
      malloc(n * (size_t)p->rows * (size_t)p->columns * compute_dtype_size(t->simulation.dtype));
  b->truth = malloc(n * parameters * f);
  b->parameters = malloc(n * parameters * f);
  b->std = malloc(n * parameters * f);
  b->ratio = malloc(n * f);
  b->p_raw = malloc(n * f);
  b->p_value = malloc(n * f);
  b->iterations = malloc(n * sizeof *b->iterations);
  b->status = malloc(n);
  return b->pixels && b->truth && b->parameters && b->std && b->ratio && b->p_raw && b->p_value &&
         b->iterations && b->status;
}

static void release(buffers *b) {
  void *all[] = {b->pixels, b->truth,   b->parameters, b->std,   b->ratio,
                 b->p_raw,  b->p_value, b->iterations, b->status};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static bool go_on(void *user, const compute_batch_progress *progress) {
  (void)user;
  (void)progress;
  return !interrupted;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { MOST_RUNS = 1000 };

/* The first run also allocates buffers and warms up, so it counts only if it is the only run. */
static int run_fits(session *s, compute_fit *fit, trial *t, const compute_fit_run_options *run) {
  double seconds[MOST_RUNS];
  const double start = clock_seconds();
  int64_t runs = 0;
  do {
    const double begin = clock_seconds();
    compute_status status = compute_fit_run(fit, run, NULL);
    if (status == COMPUTE_ERROR_CANCELLED) return EXIT_INTERRUPTED;
    if (status) return fit_say_error(NULL, s->context);
    seconds[runs++] = clock_seconds() - begin;
  } while (runs < MOST_RUNS && t->least_seconds > 0 &&
           (runs < 4 || clock_seconds() - start < t->least_seconds));
  double *counted = runs > 1 ? seconds + 1 : seconds;
  t->runs = runs > 1 ? runs - 1 : runs;
  qsort(counted, (size_t)t->runs, sizeof *counted, ascending);
  t->best_seconds = counted[0];
  t->median_seconds = counted[t->runs / 2];
  return EXIT_GOOD;
}

static int fit(session *s, int64_t batch, trial *t, buffers *b) {
  compute_fit *fitter = NULL;
  const compute_fit_options options = {.problem = t->simulation.problem,
                                       .dtype = t->simulation.dtype,
                                       .devices = s->device,
                                       .device_count = s->device_count,
                                       .batch = batch,
                                       .name = "compute-fit"};
  const bool tested = t->simulation.problem.camera != COMPUTE_FIT_READOUT; /* has no tests */
  const compute_fit_results results = {
      .parameters = b->parameters,
      .std = b->std,
      .ratio = tested ? b->ratio : NULL,
      .p_raw = t->simulation.problem.outputs & COMPUTE_FIT_P_RAW ? b->p_raw : NULL,
      .p_value = tested ? b->p_value : NULL,
      .iterations = b->iterations,
      .status = b->status};
  const compute_fit_run_options run = {
      .pixels = {.array = b->pixels}, .count = t->count, .results = results, .progress = go_on};
  if (compute_fit_create(s->context, &options, &fitter)) return fit_say_error(NULL, s->context);
  int result = run_fits(s, fitter, t, &run);
  compute_fit_release(fitter);
  if (!result) statistics_add(t->statistics, t->count, &results, b->truth);
  return result;
}

int trial_run(session *s, int64_t batch, trial *t) {
  buffers b = {0};
  int result = EXIT_GOOD;
  t->statistics = statistics_create(t->simulation.problem.model);
  if (!t->statistics || !allocate(&b, t)) {
    fit_say("out of memory for %lld ROIs", (long long)t->count);
    result = EXIT_FAILED;
  } else if (compute_simulate_rois(s->context, &t->simulation, 0, t->count, b.pixels, b.truth)) {
    result = fit_say_error(NULL, s->context);
  } else {
    result = fit(s, batch, t, &b);
  }
  release(&b);
  return result;
}

int32_t trial_cases(const fit_arguments *a, bool one_size, trial_case cases[TRIAL_MOST_CASES]) {
  static const int32_t usual[COMPUTE_FIT_MODEL_COUNT] = {9, 9, 9, 11, 13};
  static const int32_t both[] = {7, 11};
  const bool given = option_given(&a->line, "--roi");
  int32_t count = 0;
  for (int32_t m = 0; m < COMPUTE_FIT_MODEL_COUNT; m++) {
    const bool chosen = option_given(&a->line, "--model") || a->calibration;
    if (chosen ? a->model != m : m == COMPUTE_FIT_SPLINE) continue; /* SPLINE needs a file */
    const compute_fit_model model = (compute_fit_model)m;
    if (given)
      cases[count++] = (trial_case){model, a->roi.rows, a->roi.columns};
    else if (one_size)
      cases[count++] = (trial_case){model, usual[m], usual[m]};
    else
      for (int i = 0; i < 2; i++) cases[count++] = (trial_case){model, both[i], both[i]};
  }
  return count;
}

int trial_problem(const fit_arguments *a, const trial_case *c, compute_fit_problem *problem) {
  fit_arguments of_case = *a;
  of_case.model = (int32_t)c->model;
  of_case.roi = (size_value){c->rows, c->columns};
  return problem_from_arguments(&of_case, problem);
}
