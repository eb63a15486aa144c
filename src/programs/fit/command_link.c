/* SPDX-License-Identifier: MIT */
/* compute-fit link: combines the localisations of one emitter in consecutive frames. */
#include <inttypes.h>
#include <stdlib.h>

#include "programs/common/output_check.h"
#include "programs/fit/command.h"
#include "programs/fit/link.h"
#include "programs/fit/summary.h"

typedef struct link_job {
  const fit_arguments *a;
  table table, linked;
  spots spots;
  int64_t *group, groups;
  double distance; /* pixels */
} link_job;

/* Chooses the default distance, so that it misses one of 3000 pairs of the same emitter. The
 * distance of two positions has a Rayleigh distribution of sqrt(2) standard deviations. */
static int choose_distance(link_job *job) {
  job->distance =
      job->a->reach > 0 ? job->a->reach : 4 * 1.4142135623730951 * spots_median_std(&job->spots);
  if (job->distance > 0 || job->spots.count == 0) return EXIT_GOOD;
  fit_say("the table has no uncertainties; give --max-distance");
  return EXIT_USAGE;
}

static int link_all(link_job *job) {
  failure why = {0};
  job->group = malloc((size_t)(job->spots.count + 1) * sizeof *job->group);
  job->groups = job->group ? link_groups(&job->spots, job->distance > 0 ? job->distance : 1,
                                         job->a->dark, job->group)
                           : -1;
  if (job->groups < 0) {
    fit_say("out of memory for the groups");
    return EXIT_FAILED;
  }
  if (link_combine(&job->table, &job->spots, job->group, job->groups, &job->linked, &why) ||
      table_write(&job->linked, job->a->output, job->a->force, "link", &why))
    return fit_say_failure(&why);
  return EXIT_GOOD;
}

static int summarize(const link_job *job) {
  const fit_arguments *a = job->a;
  const double mean = job->groups > 0 ? (double)job->spots.count / (double)job->groups : 0;
  if (wants_text(a))
    printf("%s: %" PRId64 " emitters in %" PRId64
           " localisations, %.3g each; within %.3g pixels, up to %" PRId64 " dark frames\n",
           a->output, job->groups, job->spots.count, mean, job->distance, a->dark);
  return json_end_table(a, json_pack("{s:I,s:I,s:o,s:I}", "localisations",
                                     (json_int_t)job->spots.count, "linked",
                                     (json_int_t)job->groups, "max_distance",
                                     json_number(job->distance), "max_dark", (json_int_t)a->dark));
}

int command_link(const fit_arguments *a) {
  link_job job = {.a = a};
  int result = fit_check_table_output(a);
  if (!result) result = spots_open(a, &job.table, &job.spots);
  if (!result) result = choose_distance(&job);
  if (!result) result = link_all(&job);
  if (!result) result = summarize(&job);
  free(job.group);
  table_release(&job.linked);
  spots_release(&job.spots);
  table_release(&job.table);
  return result;
}
