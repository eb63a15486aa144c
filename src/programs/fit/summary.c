/* SPDX-License-Identifier: MIT */
/* See summary.h. */
#include "programs/fit/summary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "programs/common/terminal.h"

const char *json_camera_name(compute_fit_camera camera) {
  static const char *const name[] = {"ideal", "emccd", "scmos", "readout"};
  return name[camera];
}

const char *json_solver_name(compute_fit_solver solver) {
  static const char *const name[] = {"fisher", "newton", "levenberg-marquardt", "least-squares"};
  return name[solver];
}

static json_t *begin(const fit_arguments *a) {
  return json_pack("{s:s,s:s,s:s}", "program", "compute-fit", "version", compute_version_text(),
                   "command", option_command_name(&a->line));
}

json_t *json_begin(const fit_arguments *a, const compute_fit_problem *problem) {
  json_t *root = begin(a);
  json_t *more = json_pack(
      "{s:s,s:s,s:s,s:s,s:[ii]}", "model", compute_fit_model_name(problem->model), "camera",
      json_camera_name(problem->camera), "solver", json_solver_name(problem->solver), "profile",
      problem->profile == COMPUTE_FIT_SAMPLED ? "sampled" : "integrated", "roi", (int)problem->rows,
      (int)problem->columns);
  if (problem->model != COMPUTE_FIT_SPLINE)
    json_object_set_new(more, "sigma",
                        json_pack("[ff]", problem->sigma[0],
                                  problem->sigma[1] > 0 ? problem->sigma[1] : problem->sigma[0]));
  if (a->line.command & (COMMAND_VALIDATE | COMMAND_BENCH)) {
    json_object_del(more, "model");
    json_object_del(more, "roi");
  }
  json_object_update(root, more);
  json_decref(more);
  return root;
}

int json_end(const fit_arguments *a, json_t *root) {
  int result = EXIT_GOOD;
  if (a->json && (!root || json_write(root, a->json))) {
    fit_say("--json: '%s' could not be written: %s", a->json,
            root ? strerror(errno) : "out of memory");
    result = EXIT_FAILED;
  }
  json_decref(root);
  return result;
}

int json_end_table(const fit_arguments *a, json_t *results) {
  json_t *root = begin(a);
  json_t *files =
      json_pack("{s:o,s:o}", "input", json_text(a->line.operand), "output", json_text(a->output));
  json_object_update(root, files);
  json_object_update(root, results);
  json_decref(files);
  json_decref(results);
  return json_end(a, root);
}

/* ---- Fits against the truth ---------------------------------------------------------------- */

enum { BARS = 20 };

json_t *quality_errors_json(const statistics *s, uint32_t fixed) {
  json_t *root = json_object();
  for (int32_t i = 0; i < compute_fit_parameter_count(s->model); i++) {
    if (fixed & (1u << i)) continue;
    json_object_set_new(
        root, compute_fit_parameter_name(s->model, i),
        json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "count", (json_int_t)s->error[i].count, "bias",
                  json_number(statistics_bias(s, i)), "bias_standard_error",
                  json_number(statistics_bias_error(s, i)), "std",
                  json_number(statistics_std(s, i)), "crlb", json_number(statistics_crlb(s, i)),
                  "std_over_crlb", json_number(statistics_ratio(s, i))));
  }
  return root;
}

json_t *quality_uniformity_json(const uniformity *u) {
  int64_t bar[BARS] = {0};
  if (u->count == 0) return json_null();
  for (int64_t i = 0; i < STATISTICS_P_CELLS; i++) bar[i * BARS / STATISTICS_P_CELLS] += u->cell[i];
  json_t *histogram = json_array();
  for (int i = 0; i < BARS; i++) json_array_append_new(histogram, json_integer((json_int_t)bar[i]));
  return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "count", (json_int_t)u->count, "ks_distance",
                   json_number(uniformity_distance(u)), "ks_probability",
                   json_number(uniformity_probability(u)), "below_0.01",
                   json_number(uniformity_below(u, 0.01)), "below_0.05",
                   json_number(uniformity_below(u, 0.05)), "histogram", histogram);
}

void quality_print_errors(const statistics *s, uint32_t fixed) {
  printf("  %-10s %12s %12s %12s %12s %9s\n", "parameter", "bias", "+-", "std", "CRLB", "std/CRLB");
  for (int32_t i = 0; i < compute_fit_parameter_count(s->model); i++)
    if (!(fixed & (1u << i)))
      printf("  %-10s %12.3g %12.2g %12.5g %12.5g %9.4f\n", compute_fit_parameter_name(s->model, i),
             statistics_bias(s, i), statistics_bias_error(s, i), statistics_std(s, i),
             statistics_crlb(s, i), statistics_ratio(s, i));
}

void quality_print_uniformity(const char *name, const uniformity *u) {
  if (u->count == 0) return;
  terminal_line(17,
                "  %-14s %.1f %% below 0.01, %.1f %% below 0.05; distance from uniform %.4f "
                "(Kolmogorov-Smirnov)",
                name, 100 * uniformity_below(u, 0.01), 100 * uniformity_below(u, 0.05),
                uniformity_distance(u));
}
