/* SPDX-License-Identifier: MIT */
/* The contents of a fit's output: its columns, their units, and the selection of rows. */
#include <stdio.h>
#include <string.h>

#include "programs/fit/fit_job.h"

/* Chooses the units. The pixel size is from --pixel-size or from the movie's metadata. Without
 * --units, columns are in nm only if --pixel-size is set. */
static int choose_units(fit_job *job) {
  const fit_arguments *a = job->a;
  results_options *o = &job->output;
  const bool nm = a->units && !strcmp(a->units, "nm");
  o->pixel_size = a->pixel_size > 0 ? a->pixel_size : job->info.pixel_size;
  o->in_pixels = a->units ? !nm : !(a->pixel_size > 0);
  if (nm && job->format != RESULTS_CSV) {
    fit_say("--units: lengths are in pixels in .%s files; nm is for .csv",
            results_format_name(job->format));
    return EXIT_USAGE;
  }
  if (!nm || o->pixel_size > 0) return EXIT_GOOD;
  fit_say("--units: '%s' does not say how large its pixels are; give --pixel-size",
          a->line.operand);
  return EXIT_USAGE;
}

static bool has_word(const char *list, const char *word) {
  const char *at = list ? strstr(list, word) : NULL;
  return at && (at == list || at[-1] == ',') && strchr(",", at[strlen(word)]);
}

/* Describes the columns of the output and the selection of rows. */
int fit_describe_output(fit_job *job) {
  const fit_arguments *a = job->a;
  failure why = {0};
  job->output = (results_options){
      .format = job->format,
      .problem = &job->problem,
      .corners = job->frames || a->corners,
      .stack = !job->frames,
      .origin = {job->origin[0], job->origin[1], job->origin[2]},
      .rows = job->whole.rows,
      .columns = job->whole.columns,
      .statuses = selection_statuses(a->keep),
      .where = a->where,
      .significance = has_word(a->outputs, "significance") || has_word(a->outputs, "all"),
      .input = a->line.operand,
      .resume = a->resume,
      .overwrite = a->force,
      .expected_rows = job->frames || a->keep || a->where ? 0 : job->info.count,
      .checkpoint_seconds = a->checkpoint,
      .threads = job->session.threads};
  if (a->saturation > 0) {
    job->saturation = saturation_create(a->saturation, job->info.rows, job->info.columns);
    if (!job->saturation) {
      fit_say("out of memory for --saturation");
      return EXIT_FAILED;
    }
  }
  job->output.saturation = job->saturation;
  const uint32_t statuses = a->keep ? job->output.statuses : selection_statuses("all");
  if (selection_make(&job->output, statuses, a->where, &job->selection, &why)) {
    fit_say("--where: %s", why.what);
    fit_say_remedy(why.remedy);
    return why.status == COMPUTE_ERROR_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
  }
  return choose_units(job);
}
