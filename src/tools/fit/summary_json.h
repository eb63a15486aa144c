/* What the summaries of all subcommands as JSON have in common. */
#ifndef TOOLS_FIT_JSON_H
#define TOOLS_FIT_JSON_H

#include "tools/fit/options.h"
#include "tools/json_text.h"

/* {"program", "version", "command", "model", "camera", "solver", "profile", "roi", "sigma"}; for a
 * subcommand that goes through several models without "model" and "roi". */
json_t *json_begin(const fit_arguments *a, const compute_fit_problem *problem);

/* "ideal", "emccd", "scmos"; "fisher", …. */
const char *json_camera_name(compute_fit_camera camera);
const char *json_solver_name(compute_fit_solver solver);

/* Writes `root` where --json says and gives it back; `root` may be NULL for want of memory. Returns
 * an exit status. Without --json nothing is written. */
int json_end(const fit_arguments *a, json_t *root);

#endif
