/* What the summaries of all subcommands as JSON have in common; see json.h. */
#include "tools/fit/summary_json.h"

#include <errno.h>
#include <string.h>

const char *json_camera_name(compute_fit_camera camera) {
  static const char *const name[] = {"ideal", "emccd", "scmos"};
  return name[camera];
}

const char *json_solver_name(compute_fit_solver solver) {
  static const char *const name[] = {"fisher", "newton", "levenberg-marquardt", "least-squares"};
  return name[solver];
}

json_t *json_begin(const fit_arguments *a, const compute_fit_problem *problem) {
  json_t *root = json_pack("{s:s,s:s,s:s}", "program", "compute-fit", "version",
                           compute_version_text(), "command", arguments_command_name(a->command));
  json_t *more = json_pack(
      "{s:s,s:s,s:s,s:s,s:[ii],s:[ff]}", "model", compute_fit_model_name(problem->model), "camera",
      json_camera_name(problem->camera), "solver", json_solver_name(problem->solver), "profile",
      problem->profile == COMPUTE_FIT_SAMPLED ? "sampled" : "integrated", "roi", (int)problem->rows,
      (int)problem->columns, "sigma", problem->sigma[0],
      problem->sigma[1] > 0 ? problem->sigma[1] : problem->sigma[0]);
  if (a->command & (COMMAND_VALIDATE | COMMAND_BENCH)) {
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
            root ? strerror(errno) : "memory is short");
    result = EXIT_FAILED;
  }
  json_decref(root);
  return result;
}
