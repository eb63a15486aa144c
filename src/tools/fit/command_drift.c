/* SPDX-License-Identifier: MIT */
/* compute-fit drift: estimates the drift of the sample and corrects the localisations by it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "tools/fit/command.h"
#include "tools/fit/drift.h"
#include "tools/fit/summary.h"
#include "tools/fit/whole_file.h"
#include "tools/output_check.h"

typedef struct drift_job {
  const fit_arguments *a;
  table table;
  spots spots;
  session session;
  drift_result drift;
  double seconds;
} drift_job;

static int check_arguments(const fit_arguments *a) {
  const char *path = a->picture;
  const size_t length = path ? strlen(path) : 0;
  if (path && (length < 5 || strcasecmp(path + length - 4, ".svg"))) {
    fit_say("--picture: '%s' must end in .svg", path);
    return EXIT_USAGE;
  }
  const int result = fit_check_table_output(a);
  if (result) return result;
  const struct { const char *option, *path; } more[] = {{"--picture", path}, {"--table", a->table}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    if (more[i].path && !a->force && fit_refuse_existing(more[i].path)) return EXIT_FAILED;
    if (output_check(&fit_program, more[i].option, more[i].path)) return EXIT_FAILED;
  }
  return EXIT_GOOD;
}

static int estimate(drift_job *job) {
  failure why = {0};
  const fit_arguments *a = job->a;
  const drift_options options = {.window = a->window,
                                 .range = a->max_shift,
                                 .devices = job->session.device,
                                 .device_count = job->session.device_count};
  const double start = clock_seconds();
  if (drift_estimate(job->session.context, &job->spots, &options, &job->drift, &why))
    return fit_say_failure(&why);
  job->seconds = clock_seconds() - start;
  return EXIT_GOOD;
}

static int write_corrected(drift_job *job) {
  failure why = {0};
  spots *s = &job->spots;
  for (int64_t i = 0; i < s->count; i++) {
    double x, y;
    drift_at(&job->drift, (double)s->frame[i], &x, &y);
    s->x[i] -= x;
    s->y[i] -= y;
  }
  spots_put(s, &job->table);
  return table_write(&job->table, job->a->output, job->a->force, "drift", &why)
             ? fit_say_failure(&why)
             : EXIT_GOOD;
}

/* The drift of each frame from the first with localisations to the last; counted from 0, as in the
 * other tables in pixels. */
static int write_table(const drift_job *job) {
  whole_file file;
  failure why = {0};
  if (!job->a->table) return EXIT_GOOD;
  if (whole_file_open(&file, job->a->table, &why)) return fit_say_failure(&why);
  fprintf(file.stream, "\"frame\",\"x [px]\",\"y [px]\"\n");
  for (int64_t frame = job->drift.first; frame <= job->drift.last; frame++) {
    double x, y;
    drift_at(&job->drift, (double)frame, &x, &y);
    fprintf(file.stream, "%" PRId64 ",%.6f,%.6f\n", frame, x, y);
  }
  return whole_file_close(&file, COMPUTE_OK, &why) ? fit_say_failure(&why) : EXIT_GOOD;
}

static int write_plot(const drift_job *job) {
  failure why = {0};
  const char *input = job->a->line.operand, *folder = strrchr(input, '/');
  if (!job->a->picture) return EXIT_GOOD;
  return drift_plot(&job->drift, job->spots.pixel_size, folder ? folder + 1 : input,
                    job->a->picture, &why)
             ? fit_say_failure(&why)
             : EXIT_GOOD;
}

/* The extent of the drift along an axis. */
static double extent(const double *values, int64_t count) {
  double least = values[0], most = values[0];
  for (int64_t i = 1; i < count; i++) {
    least = fmin(least, values[i]);
    most = fmax(most, values[i]);
  }
  return most - least;
}

static int summarize(const drift_job *job) {
  const fit_arguments *a = job->a;
  const drift_result *d = &job->drift;
  const double x = extent(d->x, d->windows), y = extent(d->y, d->windows);
  if (wants_text(a))
    printf("%s: drift of %.3g pixels in x and %.3g in y, from %" PRId64 " windows of %" PRId64
           " frames\n  %" PRId64 " of %" PRId64
           " shifts between windows measured, residual %.2g pixels; %.3g s\n",
           a->output, x, y, d->windows, d->window, d->fitted, d->pairs, d->residual, job->seconds);
  return json_end_table(a,
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "localisations",
                                  (json_int_t)job->spots.count, "windows", (json_int_t)d->windows,
                                  "window", (json_int_t)d->window, "shifts", (json_int_t)d->pairs,
                                  "shifts_measured", (json_int_t)d->fitted, "residual",
                                  json_number(d->residual), "extent_x", json_number(x), "extent_y",
                                  json_number(y), "seconds", json_number(job->seconds)));
}

int command_drift(const fit_arguments *a) {
  drift_job job = {.a = a};
  int result = check_arguments(a);
  if (!result) result = session_open(a, &job.session);
  if (!result) result = spots_open(a, &job.table, &job.spots);
  if (!result) result = estimate(&job);
  if (!result) result = write_corrected(&job);
  if (!result) result = write_table(&job);
  if (!result) result = write_plot(&job);
  if (!result) result = summarize(&job);
  drift_release(&job.drift);
  if (job.session.context) session_close(&job.session);
  spots_release(&job.spots);
  table_release(&job.table);
  return result;
}
