/* SPDX-License-Identifier: MIT */
/* compute-fit drift: estimates the drift of the sample and corrects the localisations. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "programs/common/clock.h"
#include "programs/common/output_check.h"
#include "programs/fit/command.h"
#include "programs/fit/drift.h"
#include "programs/fit/summary.h"
#include "programs/fit/whole_file.h"

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
  const spots *s = &job->spots;
  double *moves = malloc((size_t)(s->count + 1) * 3 * sizeof *moves);
  if (!moves) {
    fit_say("out of memory for the drift");
    return EXIT_FAILED;
  }
  for (int64_t i = 0; i < s->count; i++) {
    double *move = moves + 3 * i;
    drift_at(&job->drift, (double)s->frame[i], move);
    for (int axis = 0; axis < 3; axis++) move[axis] = -move[axis];
  }
  spots_move(s, moves, &job->table);
  free(moves);
  return table_write(&job->table, job->a->output, job->a->force, "drift", &why)
             ? fit_say_failure(&why)
             : EXIT_GOOD;
}

/* Writes the drift of each frame from the first with localisations to the last. Frames are counted
 * from 0, as in the other tables in pixels. */
static int write_table(const drift_job *job) {
  whole_file file;
  failure why = {0};
  if (!job->a->table) return EXIT_GOOD;
  if (whole_file_open(&file, job->a->table, &why)) return fit_say_failure(&why);
  const bool heights = job->drift.axes > 2;
  fprintf(file.stream, "\"frame\",\"x [px]\",\"y [px]\"%s\n", heights ? ",\"z [nm]\"" : "");
  for (int64_t frame = job->drift.first; frame <= job->drift.last; frame++) {
    double drift[3];
    drift_at(&job->drift, (double)frame, drift);
    fprintf(file.stream, "%" PRId64 ",%.6f,%.6f", frame, drift[0], drift[1]);
    if (heights) fprintf(file.stream, ",%.4f", drift[2]);
    fputc('\n', file.stream);
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

/* Measures the extent of the curve along each axis over all corrected frames. The curve reaches
 * beyond the middles of the first and last window. */
static void measure_extent(const drift_result *d, double extent[3]) {
  double least[3], most[3], at[3];
  drift_at(d, (double)d->first, least);
  memcpy(most, least, sizeof most);
  for (int64_t frame = d->first + 1; frame <= d->last; frame++) {
    drift_at(d, (double)frame, at);
    for (int axis = 0; axis < 3; axis++) {
      least[axis] = fmin(least[axis], at[axis]);
      most[axis] = fmax(most[axis], at[axis]);
    }
  }
  for (int axis = 0; axis < 3; axis++) extent[axis] = most[axis] - least[axis];
}

/* Returns the root mean square residual of the lateral shifts. */
static double lateral_residual(const drift_result *d) {
  return hypot(d->axis[0].residual, d->axis[1].residual) / sqrt(2);
}

static void summarize_heights(const drift_job *job, double extent) {
  const drift_result *d = &job->drift;
  if (d->axes > 2)
    printf("  z: drift of %.3g nm; %" PRId64 " shifts measured, residual %.2g nm\n", extent,
           d->axis[2].fitted, d->axis[2].residual);
  else if (job->spots.z)
    printf("  z is as it was: the windows have too few localisations in common at one place\n");
}

static int summarize(const drift_job *job) {
  const fit_arguments *a = job->a;
  const drift_result *d = &job->drift;
  double extent[3];
  measure_extent(d, extent);
  if (wants_text(a)) {
    printf("%s: drift of %.3g pixels in x and %.3g in y, from %" PRId64 " windows of %" PRId64
           " frames\n  %" PRId64 " of %" PRId64
           " shifts between windows measured, residual %.2g pixels; %.3g s\n",
           a->output, extent[0], extent[1], d->windows, d->window, d->axis[0].fitted, d->pairs,
           lateral_residual(d), job->seconds);
    summarize_heights(job, extent[2]);
  }
  json_t *object = json_pack(
      "{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "localisations", (json_int_t)job->spots.count,
      "windows", (json_int_t)d->windows, "window", (json_int_t)d->window, "shifts",
      (json_int_t)d->pairs, "shifts_measured", (json_int_t)d->axis[0].fitted, "residual",
      json_number(lateral_residual(d)), "extent_x", json_number(extent[0]), "extent_y",
      json_number(extent[1]), "seconds", json_number(job->seconds));
  if (d->axes > 2) {
    json_object_set_new(object, "shifts_measured_z", json_integer(d->axis[2].fitted));
    json_object_set_new(object, "residual_z", json_number(d->axis[2].residual));
    json_object_set_new(object, "extent_z", json_number(extent[2]));
  }
  return json_end_table(a, object);
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
