/* SPDX-License-Identifier: MIT */
/* compute-fit validate: checks that the fitter reaches the theoretical limits on this machine. It
 * tests every model at several light levels: bias, spread against the Cramér–Rao bound, and
 * p-values against the uniform distribution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/summary.h"
#include "programs/fit/simulation.h"

enum { USUAL_COUNT = 50000 };

/* Tolerances beyond chance. Maximum likelihood is slightly biased, more so with few photons. It
 * reaches the bound only in the limit of many photons. */
static const double LEAST_CONVERGED = 0.99, BIAS_OF_STD = 0.1, RATIO = 0.02;

/* Tolerances for the distribution of p-values, by camera. The fit treats the readout noise of an
 * sCMOS as Poisson noise, which is an approximation. For an EMCCD it uses the moments of an
 * infinite gain. */
static const double DISTANCE[] = {0.005, 0.015, 0.05, 0}; /* readout has no p-values */

/* Photons and backgrounds of the test spots. */
static const struct {
  double photons, background;
} level[] = {{1000, 1}, {500, 2}, {1000, 10}, {5000, 20}};
enum { LEVEL_COUNT = sizeof level / sizeof *level };

typedef struct verdict {
  double worst_bias;  /* the largest |bias| / std of a parameter */
  double worst_ratio; /* the std/CRLB with the largest distance from 1 */
  int32_t bias_parameter, ratio_parameter;
  double distance;
  bool converged, bias, ratio, p_value;
} verdict;

static bool passed(const verdict *v) {
  return v->converged && v->bias && v->ratio && v->p_value;
}

static verdict judge(const statistics *s, compute_fit_camera camera) {
  const double n = (double)s->count;
  verdict v = {.worst_ratio = 1, .bias = true, .ratio = true};
  v.converged = (double)s->of_status[COMPUTE_FIT_CONVERGED] >= LEAST_CONVERGED * n;
  for (int32_t i = 0; i < compute_fit_parameter_count(s->model); i++) {
    const double std = statistics_std(s, i), bias = fabs(statistics_bias(s, i)) / std;
    const double ratio = statistics_ratio(s, i);
    if (!(bias <= v.worst_bias)) v.worst_bias = bias, v.bias_parameter = i;
    if (!(fabs(ratio - 1) <= fabs(v.worst_ratio - 1))) v.worst_ratio = ratio, v.ratio_parameter = i;
    v.bias &= bias <= BIAS_OF_STD + 4 / sqrt(n);
    v.ratio &= fabs(ratio - 1) <= RATIO + 4 / sqrt(2 * n);
  }
  v.distance = uniformity_distance(&s->p_value);
  v.p_value = camera == COMPUTE_FIT_READOUT ||
              v.distance <= DISTANCE[camera] + 1.95 / sqrt(n); /* one in a thousand by chance */
  return v;
}

static void print_case(const trial *t, const verdict *v) {
  const statistics *s = t->statistics;
  const compute_fit_problem *p = &t->simulation.problem;
  printf("%-9s %2dx%-2d %6g %5g %8.2f %8.4f %-8s %8.4f %-8s %7.4f  %s%s%s%s%s\n",
         compute_fit_model_name(p->model), (int)p->rows, (int)p->columns, t->simulation.photons.low,
         t->simulation.background.low,
         100 * (double)s->of_status[COMPUTE_FIT_CONVERGED] / (double)s->count, v->worst_bias,
         compute_fit_parameter_name(p->model, v->bias_parameter), v->worst_ratio,
         compute_fit_parameter_name(p->model, v->ratio_parameter), v->distance,
         passed(v) ? "pass" : "FAIL:", v->converged ? "" : " converged", v->bias ? "" : " bias",
         v->ratio ? "" : " std/CRLB", v->p_value ? "" : " p-value");
  fflush(stdout);
}

static json_t *case_json(const trial *t, const verdict *v) {
  const statistics *s = t->statistics;
  const compute_fit_problem *p = &t->simulation.problem;
  json_t *root =
      json_pack("{s:s,s:[ii],s:f,s:f,s:I,s:f,s:o,s:o,s:b,s:{s:b,s:b,s:b,s:b}}", "model",
                compute_fit_model_name(p->model), "roi", (int)p->rows, (int)p->columns, "photons",
                t->simulation.photons.low, "background", t->simulation.background.low, "rois",
                (json_int_t)s->count, "converged_fraction",
                (double)s->of_status[COMPUTE_FIT_CONVERGED] / (double)s->count, "parameters",
                quality_errors_json(s, 0), "p_value", quality_uniformity_json(&s->p_value), "pass",
                (int)passed(v), "passed", "converged", (int)v->converged, "bias", (int)v->bias,
                "std_over_crlb", (int)v->ratio, "p_value", (int)v->p_value);
  return root;
}

/* By default z varies over the range where both widths depend on it, and the fit uses three
 * starting values. */
static void set_z(const fit_arguments *a, trial *t) {
  compute_fit_problem *p = &t->simulation.problem;
  if (p->model == COMPUTE_FIT_SPLINE && !option_given(&a->line, "--z")) {
    const double range = p->cells[0] * p->z_step; /* without the ends, where z meets its bound */
    t->simulation.z = (compute_range){p->z_first + 0.2 * range, p->z_first + 0.8 * range};
  }
  if (p->model != COMPUTE_FIT_XYZNB) return;
  if (!option_given(&a->line, "--z")) t->simulation.z = (compute_range){-0.2, 0.2};
  if (option_given(&a->line, "--z-start")) return;
  p->z_start_count = 3;
  p->z_start[0] = -0.3;
  p->z_start[1] = 0;
  p->z_start[2] = 0.3;
}

static int run_case(const fit_arguments *a, session *s, const trial_case *c, int place,
                    json_t *list, bool *good) {
  compute_fit_problem problem;
  int result = trial_problem(a, c, &problem);
  if (result) return result;
  trial t = {.simulation = simulation_from_arguments(a, &problem, NULL),
             .count = a->rois > 0 ? a->rois : USUAL_COUNT};
  t.simulation.dtype = COMPUTE_F32;
  if (!option_given(&a->line, "--photons"))
    t.simulation.photons = (compute_range){level[place].photons, level[place].photons};
  if (!option_given(&a->line, "--background"))
    t.simulation.background = (compute_range){level[place].background, level[place].background};
  set_z(a, &t);
  result = trial_run(s, 0, &t);
  if (!result) {
    const verdict v = judge(t.statistics, problem.camera);
    *good &= passed(&v);
    if (wants_text(a)) print_case(&t, &v);
    json_array_append_new(list, case_json(&t, &v));
  }
  free(t.statistics);
  return result;
}

static void print_head(const session *s) {
  printf("on %s: simulated ROIs fitted and compared with the truth\n", s->names);
  printf("bias in units of the standard deviation; the worst parameter is named\n");
  printf("%-9s %-5s %6s %5s %8s %17s %17s %8s\n", "model", " ROI", "N", "bg", "conv. %",
         "|bias|/std     of", "std/CRLB       of", "p: D");
}

int command_validate(const fit_arguments *a) {
  trial_case cases[TRIAL_MOST_CASES];
  session s;
  bool good = true;
  const int32_t count = trial_cases(a, true, cases);
  const bool one_level =
      option_given(&a->line, "--photons") && option_given(&a->line, "--background");
  if (a->offset.file || a->gain.file || a->gain_adu.file || a->variance.file) {
    fit_say("validate takes numbers for the camera, not maps");
    return EXIT_USAGE;
  }
  int result = session_open(a, &s);
  if (result) return result;
  json_t *list = json_array();
  if (wants_text(a)) print_head(&s);
  for (int32_t i = 0; i < count && !result; i++)
    for (int k = 0; k < (one_level ? 1 : LEVEL_COUNT) && !result; k++)
      result = run_case(a, &s, &cases[i], k, list, &good);
  if (!result && wants_text(a)) printf("%s\n", good ? "all passed" : "some FAILED");
  if (!result && a->json)
    result = json_end(a, json_pack("{s:s,s:s,s:s,s:o,s:b,s:O}", "program", "compute-fit", "version",
                                   compute_version_text(), "command", "validate", "device",
                                   json_text(s.names), "pass", (int)good, "cases", list));
  json_decref(list);
  session_close(&s);
  if (result == EXIT_INTERRUPTED) fit_say("interrupted");
  return result || good ? result : EXIT_FAILED;
}
