/* SPDX-License-Identifier: MIT */
/* compute-fit bench: fits per second for every model and size. A fit goes from pixels in memory to
 * parameters, uncertainties, likelihood ratio and p-value in memory. */
#include <stdio.h>
#include <stdlib.h>

#include "programs/fit/summary.h"
#include "programs/fit/simulation.h"

/* So many ROIs that a run takes longer than its start-up. */
enum { USUAL_COUNT = 100000 };

static json_t *case_json(const trial *t, double median_rate) {
  const statistics *s = t->statistics;
  const compute_fit_problem *p = &t->simulation.problem;
  return json_pack("{s:s,s:[ii],s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:o}", "model",
                   compute_fit_model_name(p->model), "roi", (int)p->rows, (int)p->columns, "dtype",
                   t->simulation.dtype == COMPUTE_U16 ? "u16" : "f32", "rois", (json_int_t)t->count,
                   "runs", (json_int_t)t->runs, "rois_per_second", median_rate,
                   "rois_per_second_best", (double)t->count / t->best_seconds, "converged_fraction",
                   (double)s->of_status[COMPUTE_FIT_CONVERGED] / (double)s->count,
                   "iterations_mean", (double)s->iterations / (double)s->count, "std_over_crlb_x",
                   json_number(statistics_ratio(s, 0)));
}

static int run_case(const fit_arguments *a, session *s, const trial_case *c, compute_dtype dtype,
                    json_t *list) {
  compute_fit_problem problem;
  int result = trial_problem(a, c, &problem);
  if (result) return result;
  trial t = {.simulation = simulation_from_arguments(a, &problem, NULL),
             .count = a->rois > 0 ? a->rois : USUAL_COUNT,
             .least_seconds = a->seconds};
  t.simulation.dtype = dtype;
  result = trial_run(s, a->batch, &t);
  if (!result) {
    const double rate = (double)t.count / t.median_seconds;
    if (wants_text(a))
      printf("%-9s %3d x %-3d %-5s %10.3f %10.3f %8.2f %10.2f %10.4f\n",
             compute_fit_model_name(c->model), (int)c->rows, (int)c->columns,
             dtype == COMPUTE_U16 ? "u16" : "f32", rate / 1e6,
             (double)t.count / t.best_seconds / 1e6,
             (double)t.statistics->iterations / (double)t.count,
             100 * (double)t.statistics->of_status[COMPUTE_FIT_CONVERGED] / (double)t.count,
             statistics_ratio(t.statistics, 0));
    fflush(stdout);
    json_array_append_new(list, case_json(&t, rate));
  }
  free(t.statistics);
  return result;
}

static int run_cases(const fit_arguments *a, session *s, json_t *list) {
  static const compute_dtype both[] = {COMPUTE_F32, COMPUTE_U16};
  trial_case cases[TRIAL_MOST_CASES];
  const int32_t count = trial_cases(a, false, cases);
  const bool given = option_given(&a->line, "--dtype");
  int result = EXIT_GOOD;
  for (int32_t i = 0; i < count && !result; i++)
    for (int k = 0; k < (given ? 1 : 2) && !result; k++)
      result = run_case(a, s, &cases[i], given ? fit_dtypes[a->dtype] : both[k], list);
  return result;
}

int command_bench(const fit_arguments *a) {
  session s;
  int result = session_open(a, &s);
  if (result) return result;
  json_t *list = json_array();
  if (wants_text(a)) {
    printf("on %s: millions of fits per second, from pixels in memory\n", s.names);
    printf("%-9s %9s %-5s %10s %10s %8s %10s %10s\n", "model", "ROI", "dtype", "median", "best",
           "steps", "converged%", "std/CRLB");
  }
  result = run_cases(a, &s, list);
  if (!result && a->json) {
    json_t *root = json_pack("{s:s,s:s,s:s,s:o,s:O}", "program", "compute-fit", "version",
                             compute_version_text(), "command", "bench", "device",
                             json_text(s.names), "cases", list);
    result = json_end(a, root);
  }
  json_decref(list);
  session_close(&s);
  if (result == EXIT_INTERRUPTED) fit_say("interrupted");
  return result;
}
