/* SPDX-License-Identifier: MIT */
/* The common parts of the subcommands' summaries, as text and as JSON. */
#ifndef TOOLS_FIT_SUMMARY_H
#define TOOLS_FIT_SUMMARY_H

#include "programs/common/json_text.h"
#include "programs/fit/options.h"
#include "programs/fit/statistics.h"

/* {"program", "version", "command", "model", "camera", "solver", "profile", "roi", "sigma"};
 * without "model" and "roi" for a subcommand that covers several models. */
json_t *json_begin(const fit_arguments *a, const compute_fit_problem *problem);

/* "ideal", "emccd", "scmos", "readout"; "fisher", …. */
const char *json_camera_name(compute_fit_camera camera);
const char *json_solver_name(compute_fit_solver solver);

/* Writes `root` to the file of --json, if given, and releases it. `root` may be NULL (out of
 * memory). Returns an exit status. */
int json_end(const fit_arguments *a, json_t *root);

/* Writes the summary of a command on tables, as json_end: "program", "version", "command", "input",
 * "output" and the members of `results`, which it releases. */
int json_end_table(const fit_arguments *a, json_t *results);

/* {"x": {"count", "bias", "bias_standard_error", "std", "crlb", "std_over_crlb"}, …}, without the
 * parameters whose bit in `fixed` is set. */
json_t *quality_errors_json(const statistics *s, uint32_t fixed);

/* {"count", "ks_distance", "ks_probability", "below_0.01", "below_0.05", "histogram"}; null without
 * numbers. */
json_t *quality_uniformity_json(const uniformity *u);

/* Prints a table with a line for each parameter. */
void quality_print_errors(const statistics *s, uint32_t fixed);

/* Prints the line "p-value …". */
void quality_print_uniformity(const char *name, const uniformity *u);

#endif
