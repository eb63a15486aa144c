/* SPDX-License-Identifier: MIT */
/* compute-fit fit, and the run itself. One thread reads the movie, and another writes and evaluates
 * the results. The final report depends on the progress of both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/clock.h"
#include "programs/fit/cluster.h"
#include "programs/fit/fit_job.h"

static compute_status read_images(void *user, int64_t first, int64_t items, void *data,
                                  int64_t *count) {
  fit_job *job = user;
  const int64_t begin = first + (job->frames ? job->first_frame : job->first_roi);
  const int64_t left = job->info.count - begin;
  *count = 0;
  if (items > left) items = left;
  compute_status status = movie_read(job->movie, begin, items, data, &job->read_failure);
  if (!status && job->saturation &&
      saturation_scan(job->saturation, job->info.dtype, begin, items, data))
    status = failure_set(&job->read_failure, COMPUTE_ERROR_OUT_OF_MEMORY,
                         "is the level of --saturation right?",
                         "out of memory for the saturated pixels of %s", job->a->line.operand);
  if (!status) *count = items;
  return status;
}

/* Returns the number of complete frames of a stack with corners after `done` ROIs of this run: the
 * frame of the next ROI. */
static int64_t frames_of_stack(const fit_job *job, int64_t done) {
  if (done < job->run_corner_count) return job->run_corners[3 * done];
  return done > 0 ? (int64_t)job->run_corners[3 * (done - 1)] + 1 : 0;
}

/* Draws a converged fit with the width of its uncertainty. Without corners all ROIs are
 * superimposed. */
static void draw_fit(const fit_job *job, const compute_fit_results *results, const int32_t *corners,
                     int64_t i) {
  const int32_t parameters = compute_fit_parameter_count(job->problem.model);
  const float *at = results->parameters + i * parameters;
  const float *std = results->std ? results->std + i * parameters : NULL;
  if (results->status[i] != COMPUTE_FIT_CONVERGED) return;
  picture_add_spot(job->picture, (double)at[0] + (corners ? corners[3 * i + 2] : 0),
                   (double)at[1] + (corners ? corners[3 * i + 1] : 0), std ? (double)std[0] : 0,
                   std ? (double)std[1] : 0);
}

/* Draws the selected fits. */
static void draw_results(const fit_job *job, int64_t first, int64_t count,
                         const compute_fit_results *results, const int32_t *corners) {
  const column_rows all = {.results = results,
                           .corners = corners,
                           .roi = job->first_roi + first,
                           .frame = job->first_frame};
  column_rows some;
  for (int64_t i = 0; job->picture && i < count;) {
    i = selection_choose(&job->selection, &all, i, count, &some);
    for (int32_t k = 0; k < some.count; k++) draw_fit(job, results, corners, some.index[k]);
  }
}

static compute_status take_results(void *user, int64_t first, int64_t count,
                                   const compute_fit_results *results, const int32_t *corners,
                                   int64_t next_frame) {
  fit_job *job = user;
  const float *truth = job->truth.values;
  if (!job->frames && job->run_corners) {
    corners = job->run_corners + 3 * first;
    next_frame = frames_of_stack(job, first + count);
  }
  compute_status status = results_file_append(job->results, first, count, results, corners,
                                              next_frame, &job->write_failure);
  if (status) return status;
  if (truth && !job->frames)
    truth += (job->first_roi + first) * compute_fit_parameter_count(job->problem.model);
  statistics_add(job->statistics, count, results, job->frames ? NULL : truth);
  if (truth && job->frames)
    match_add(&job->match, job->statistics, count, results, corners, job->first_frame, next_frame);
  draw_results(job, first, count, results, corners);
  if (job->saturation)
    saturation_forget(job->saturation,
                      job->frames ? job->first_frame + next_frame : job->first_roi + first + count);
  return COMPUTE_OK;
}

/* Truths of frames from an earlier run do not count as missed. */
static void skip_truths(fit_job *job) {
  match *m = &job->match;
  const int32_t step = 1 + compute_fit_parameter_count(job->problem.model);
  while (m->next < m->truths && m->truth[m->next * step] < (float)job->first_frame) m->next++;
}

/* Reports that the output is complete, or how far it came and how to continue. */
static int say_interrupted(const fit_job *job, results_progress done, bool kept) {
  const char *what = job->frames ? "frames" : "ROIs";
  const int64_t items = job->frames ? done.frames : done.rois;
  fit_say("%s after %" PRId64 " of %" PRId64 " %s", interrupted ? "interrupted" : "ended", items,
          job->info.count, what);
  if (kept)
    fprintf(stderr,
            "  '%s.incomplete' holds them; the same command with --resume continues there\n",
            job->a->output);
  return interrupted ? EXIT_INTERRUPTED : EXIT_FAILED;
}

static int say_failed(fit_job *job, compute_status status) {
  if (!cluster_say(job) && status != COMPUTE_ERROR_CANCELLED) {
    if (job->write_failure.status)
      fit_say_failure(&job->write_failure);
    else if (job->read_failure.status)
      fit_say_failure(&job->read_failure);
    else
      fit_say_error(NULL, job->session.context);
  }
  if (!cluster_leads(job)) return EXIT_FAILED;
  results_progress done;
  const bool kept = results_file_abandon(job->results, &done);
  job->results = NULL;
  return say_interrupted(job, done, kept);
}

static int finish(fit_job *job) {
  if (!cluster_leads(job)) return EXIT_GOOD;
  failure why = {0};
  int64_t frames = job->whole.count;
  if (!job->frames && job->run_corners)
    frames = job->first_frame + frames_of_stack(job, job->run_corner_count);
  results_file *file = job->results;
  job->results = NULL;
  const double start = clock_seconds();
  const compute_status status = results_file_finish(file, frames, &why);
  job->completing = clock_seconds() - start;
  return status ? fit_say_failure(&why) : EXIT_GOOD;
}

const char *fit_job_slowest(const compute_fit_times *times) {
  const struct {
    const char *name;
    double seconds;
  } part[] = {{"reading", times->reading},
              {"finding", times->finding},
              {"fitting", times->fitting},
              {"writing", times->writing}};
  size_t most = 0;
  for (size_t i = 1; i < sizeof part / sizeof *part; i++)
    if (part[i].seconds > part[most].seconds) most = i;
  return part[most].name;
}

static bool show_progress(void *user, const compute_batch_progress *progress) {
  fit_job *job = user;
  const compute_batch_progress all = cluster_progress(job, progress);
  if (!compute_fit_times_get(job->fit, &job->times))
    job->bar.slowest = fit_job_slowest(&job->times);
  return fit_progress_show(&job->bar, &all);
}

int fit_job_run(fit_job *job) {
  const int32_t parameters = compute_fit_parameter_count(job->problem.model);
  compute_fit_run_options options = {
      .pixels = {.read = read_images, .user = job},
      .count = job->frames ? job->run_corner_count : job->info.count - job->first_roi,
      .frames = job->frames ? job->info.count - job->first_frame : 0,
      .corners = job->frames || job->problem.flags & COMPUTE_FIT_STACK ? job->run_corners : NULL,
      .write = take_results,
      .write_user = job,
      .progress = show_progress,
      .progress_user = job,
  };
  if (job->start.values)
    options.start = (const float *)job->start.values + job->first_roi * parameters;
  job->bar = (fit_progress){.bar = progress_begin(job->a->quiet || !cluster_leads(job), 0),
                            .verb = "fitted",
                            .items = job->frames ? "frames" : "ROIs",
                            .before = job->frames ? job->first_frame : job->first_roi};
  skip_truths(job);
  compute_status status = cluster_run(job, &options);
  progress_hide(&job->bar.bar);
  (void)compute_fit_times_get(job->fit, &job->times);
  if (status) return say_failed(job, status);
  return cluster_end(job, finish(job));
}

/* ---- The command --------------------------------------------------------------------------- */

static int write_picture(const fit_job *job) {
  failure why = {0};
  const char *path = job->a->picture;
  if (!path) return EXIT_GOOD;
  if (job->picture)
    return picture_write_png(job->picture, path, &why) ? fit_say_failure(&why) : EXIT_GOOD;
  const char *input = job->a->line.operand, *folder = strrchr(input, '/');
  return plot_write_svg(job->statistics, folder ? folder + 1 : input, path, &why)
             ? fit_say_failure(&why)
             : EXIT_GOOD;
}

/* Writes the summary and the picture. */
static int tell(const fit_job *job, int result) {
  const int summary = fit_job_summarize(job, result), drawn = write_picture(job);
  return summary ? summary : drawn;
}

int command_fit(const fit_arguments *a) {
  fit_job *job = calloc(1, sizeof *job);
  if (!job) {
    fit_say("out of memory");
    return EXIT_FAILED;
  }
  int result = fit_job_open(job, a);
  if (!result) {
    result = fit_job_run(job);
    const int told = cluster_leads(job) ? tell(job, result) : EXIT_GOOD;
    if (!result) result = told;
  }
  fit_job_close(job);
  free(job);
  return result;
}
