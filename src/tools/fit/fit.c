/* compute-fit fit: opens everything, runs, and sums up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fit/fit_job.h"

static int write_picture(const fit_job *job) {
  char title[256];
  failure why = {0};
  const char *path = job->a->picture;
  if (!path) return EXIT_GOOD;
  if (job->picture)
    return picture_write_png(job->picture, path, &why) ? fit_say_failure(&why) : EXIT_GOOD;
  snprintf(title, sizeof title, "%.150s: %lld fits of %s", job->a->input,
           (long long)job->statistics->count, compute_fit_model_name(job->problem.model));
  return plot_write_svg(job->statistics, title, path, &why) ? fit_say_failure(&why) : EXIT_GOOD;
}

int command_fit(const fit_arguments *a) {
  fit_job *job = calloc(1, sizeof *job);
  if (!job) {
    fit_say("no memory");
    return EXIT_FAILED;
  }
  int result = fit_job_open(job, a);
  if (!result) {
    result = fit_job_run(job);
    const int summary = fit_job_summarize(job, result);
    if (!result) result = summary;
    const int drawn = write_picture(job);
    if (!result) result = drawn;
  }
  fit_job_close(job);
  free(job);
  return result;
}
