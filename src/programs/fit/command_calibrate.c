/* SPDX-License-Identifier: MIT */
/* compute-fit calibrate: the astigmatic model from the widths of beads at known heights, or the
 * mean of the beads as a spline. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "programs/common/output_check.h"
#include "programs/fit/calibrate.h"
#include "programs/fit/command.h"
#include "programs/fit/summary.h"
#include "programs/fit/table.h"
#include "programs/fit/whole_file.h"
#include "programs/fit/widths.h"

typedef struct calibrate_job {
  const fit_arguments *a;
  table table;
  spots spots;
  width_sample *samples;
  int64_t count;
  width_curves curves;
} calibrate_job;

static int check_arguments(const fit_arguments *a) {
  if (!a->output) {
    fit_say("calibrate needs --output FILE (-o): a .yaml file for --calibration");
    return EXIT_USAGE;
  }
  if (!option_given(&a->line, "--z-step") || a->z_step == 0) {
    fit_say("calibrate needs --z-step: how far the stage moves from one frame to the next");
    return EXIT_USAGE;
  }
  if (option_given(&a->line, "--model") && !compute_fit_has_z((compute_fit_model)a->model)) {
    fit_say("calibrate --model: XYZNB or SPLINE");
    return EXIT_USAGE;
  }
  if (a->model != COMPUTE_FIT_SPLINE && (a->images || option_given(&a->line, "--roi"))) {
    fit_say("%s is for --model SPLINE", a->images ? "--images" : "--roi");
    return EXIT_USAGE;
  }
  if (!a->force && fit_refuse_existing(a->output)) return EXIT_FAILED;
  return output_check(&fit_program, "--output", a->output);
}

static const table_column *find_either(const table *t, const char *one, const char *two,
                                       const char *three) {
  const table_column *c = table_find(t, one);
  if (!c) c = table_find(t, two);
  return c ? c : table_find(t, three);
}

/* Takes the positive widths of both axes, in pixels. */
static int take_samples(calibrate_job *job) {
  const table *t = &job->table;
  const table_column *width[2] = {find_either(t, "sigma_x", "sx", "sigma1"),
                                  find_either(t, "sigma_y", "sy", "sigma2")};
  const table_column *std[2] = {find_either(t, "sigma_x_std", "sx_std", "uncertainty_sigma1"),
                                find_either(t, "sigma_y_std", "sy_std", "uncertainty_sigma2")};
  const double unit = table_in_nm(t) ? job->spots.pixel_size : 1;
  if (!width[0] || !width[1]) {
    fit_say("'%s' has no widths along x and y; fit the beads with --model XYNBSXSY",
            job->a->line.operand);
    return EXIT_FAILED;
  }
  job->samples = malloc((size_t)(t->rows + 1) * sizeof *job->samples);
  for (int64_t i = 0; job->samples && i < t->rows; i++) {
    const double *row = t->values + i * t->stride;
    width_sample s = {.z = (double)job->spots.frame[i] * job->a->z_step};
    bool good = true;
    for (int axis = 0; axis < 2; axis++) {
      s.sigma[axis] = row[width[axis]->first] / unit;
      s.std[axis] = std[axis] ? row[std[axis]->first] / unit : 0;
      good = good && s.sigma[axis] > 0 && isfinite(s.sigma[axis]) && s.std[axis] >= 0 &&
             isfinite(s.std[axis]);
    }
    if (good) job->samples[job->count++] = s;
  }
  if (job->samples) return EXIT_GOOD;
  fit_say("out of memory for the widths");
  return EXIT_FAILED;
}

static int write_curves(const calibrate_job *job) {
  const width_curves *c = &job->curves;
  whole_file file;
  failure why = {0};
  if (whole_file_open(&file, job->a->output, &why)) return fit_say_failure(&why);
  fprintf(file.stream,
          "# sigma sqrt(1 + t^2 + A t^3 + B t^4), t = (z -+ gamma) / depth; z = 0 is at %.6g um of "
          "the stack\n"
          "depth: %.6f   # micrometres\ngamma: %.6f\n"
          "sigma_x: %.6f   # pixels\nsigma_y: %.6f\n"
          "ax: %.6f\nay: %.6f\nbx: %.6f\nby: %.6f\n",
          c->zero, c->depth, c->gamma, c->sigma[0], c->sigma[1], c->a[0], c->a[1], c->b[0],
          c->b[1]);
  return whole_file_close(&file, COMPUTE_OK, &why) ? fit_say_failure(&why) : EXIT_GOOD;
}

static int summarize(const calibrate_job *job) {
  const fit_arguments *a = job->a;
  const width_curves *c = &job->curves;
  if (wants_text(a))
    printf("%s: foci %.4g um apart, z = 0 at frame %.2f, depth %.4g um, widths in focus %.4g and "
           "%.4g pixels\n  %" PRId64 " of %" PRId64
           " widths used, root mean square error %.2g pixels\n",
           a->output, 2 * c->gamma, c->zero / a->z_step, c->depth, c->sigma[0], c->sigma[1],
           c->used, job->count, c->residual);
  return json_end_table(a, json_pack("{s:I,s:I,s:o,s:o,s:o,s:[o,o],s:[o,o],s:[o,o],s:o}", "widths",
                                     (json_int_t)job->count, "used", (json_int_t)c->used, "zero",
                                     json_number(c->zero), "depth", json_number(c->depth), "gamma",
                                     json_number(c->gamma), "sigma", json_number(c->sigma[0]),
                                     json_number(c->sigma[1]), "a", json_number(c->a[0]),
                                     json_number(c->a[1]), "b", json_number(c->b[0]),
                                     json_number(c->b[1]), "residual", json_number(c->residual)));
}

static bool has_widths(const table *t) {
  return find_either(t, "sigma_x", "sx", "sigma1") && find_either(t, "sigma_y", "sy", "sigma2");
}

/* Finds the frame with z = 0: halfway between the foci, if the table has suitable widths. */
static int make_spline(calibrate_job *job) {
  const fit_arguments *a = job->a;
  double zero = NAN;
  int result = has_widths(&job->table) ? take_samples(job) : EXIT_GOOD;
  if (!result && job->count > 0 && width_curves_fit(job->samples, job->count, true, &job->curves))
    zero = job->curves.zero / a->z_step;
  if (!(zero >= 0 && zero <= (double)(job->spots.frames - 1))) zero = NAN;
  return result ? result : calibrate_spline(a, &job->spots, zero);
}

static int make_curves(calibrate_job *job) {
  int result = take_samples(job);
  if (!result && !width_curves_fit(job->samples, job->count, !job->a->quadratic, &job->curves)) {
    fit_say("the widths of '%s' do not determine the curves: the stack must reach beyond both foci",
            job->a->line.operand);
    result = EXIT_FAILED;
  }
  if (!result) result = write_curves(job);
  return result ? result : summarize(job);
}

int command_calibrate(const fit_arguments *a) {
  calibrate_job job = {.a = a};
  int result = check_arguments(a);
  if (!result) result = spots_open(a, &job.table, &job.spots);
  if (!result) result = a->model == COMPUTE_FIT_SPLINE ? make_spline(&job) : make_curves(&job);
  free(job.samples);
  spots_release(&job.spots);
  table_release(&job.table);
  return result;
}
