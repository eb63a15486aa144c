/* SPDX-License-Identifier: MIT */
/* compute-fit crlb: the smallest standard deviations that an unbiased fit of one spot can have. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/fit/command.h"
#include "programs/fit/summary.h"
#include "programs/fit/settings.h"

enum { P = COMPUTE_FIT_MAX_PARAMETERS };

typedef struct bound {
  compute_fit_problem problem;
  int32_t count;
  double value[P], std[P], covariance[P * P];
} bound;

static int one_value(const char *option, const compute_range *range, double *value) {
  *value = range->low;
  if (range->low == range->high) return EXIT_GOOD;
  fit_say("%s: crlb is for one spot; give a number, not a range", option);
  return EXIT_USAGE;
}

/* Places the spot, by default in the middle of the ROI. --fix NAME=V overrides all other
 * options. */
static int take_spot(const fit_arguments *a, bound *b) {
  const compute_fit_problem *p = &b->problem;
  double photons, background, z;
  if (one_value("--photons", &a->photons, &photons) ||
      one_value("--background", &a->background, &background) || one_value("--z", &a->z, &z))
    return EXIT_USAGE;
  double *v = b->value;
  b->count = compute_fit_parameter_count(p->model);
  *v++ = isnan(a->x) ? (p->columns - 1) / 2.0 : a->x;
  *v++ = isnan(a->y) ? (p->rows - 1) / 2.0 : a->y;
  if (compute_fit_has_z(p->model)) *v++ = z;
  *v++ = photons;
  *v++ = background;
  if (p->model == COMPUTE_FIT_XYNBS || p->model == COMPUTE_FIT_XYNBSXSY) *v++ = p->sigma[0];
  if (p->model == COMPUTE_FIT_XYNBSXSY) *v = p->sigma[1] > 0 ? p->sigma[1] : p->sigma[0];
  for (int32_t i = 0; i < b->count; i++)
    if (p->start_set & (1u << i)) b->value[i] = p->start[i];
  return EXIT_GOOD;
}

static void print_text(const bound *b) {
  printf("%s, %d x %d pixels\n", compute_fit_model_name(b->problem.model), (int)b->problem.rows,
         (int)b->problem.columns);
  printf("  %-12s %12s %12s\n", "parameter", "value", "std");
  for (int32_t i = 0; i < b->count; i++)
    printf("  %-12s %12.6g %12.6g%s\n", compute_fit_parameter_name(b->problem.model, i),
           b->value[i], b->std[i], b->problem.fixed & (1u << i) ? "  held fixed" : "");
}

static json_t *make_json(const fit_arguments *a, const bound *b) {
  json_t *root = json_begin(a, &b->problem), *parameters = json_object(),
         *covariance = json_array();
  for (int32_t i = 0; i < b->count; i++) {
    json_t *row = json_array();
    for (int32_t k = 0; k < b->count; k++)
      json_array_append_new(row, json_number(b->covariance[i * b->count + k]));
    json_array_append_new(covariance, row);
    json_object_set_new(parameters, compute_fit_parameter_name(b->problem.model, i),
                        json_pack("{s:f,s:o,s:b}", "value", b->value[i], "std",
                                  json_number(b->std[i]), "fixed",
                                  (b->problem.fixed & (1u << i)) != 0));
  }
  json_object_set_new(root, "parameters", parameters);
  json_object_set_new(root, "covariance", covariance);
  return root;
}

int command_crlb(const fit_arguments *a) {
  bound b = {0};
  session s;
  if (a->variance.file) {
    fit_say("--variance: crlb takes a number of electrons squared, not a map");
    return EXIT_USAGE;
  }
  int result = problem_from_arguments(a, &b.problem);
  if (!result) result = take_spot(a, &b);
  if (!result) result = session_open(a, &s);
  if (result) return result;
  if (compute_fit_crlb(s.context, &b.problem, b.value, NULL, b.std, b.covariance))
    result = fit_say_error(NULL, s.context);
  if (!result && wants_text(a)) print_text(&b);
  if (!result && a->json) result = json_end(a, make_json(a, &b));
  session_close(&s);
  return result;
}
