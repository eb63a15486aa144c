/* SPDX-License-Identifier: MIT */
/* compute-fit calibrate --model SPLINE: the mean of all beads as a spline.
 *
 * Beads are moved on top of each other and averaged. Each of their images is then fitted with the
 * spline through the average, which gives the remaining shifts of the beads. These steps are
 * repeated. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/bead_stack.h"
#include "programs/fit/calibrate.h"
#include "programs/fit/command.h"
#include "programs/fit/spline_file.h"
#include "programs/fit/summary.h"

enum {
  USUAL_ROI = 13,
  REACH = 4,  /* maximum distance of a spot from the middle of the ROI, in pixels */
  INNER = 2,  /* the same for aligning; the rest of the margin gives it more light */
  ROUNDS = 4, /* of averaging and aligning */
  P = 5
};
#define NODE_STEP 0.05 /* um between planes, at least: spots have no finer structure */
#define SHORTEST  0.25 /* um: the period in z that smoothing reduces by half */

typedef struct spline_job {
  const fit_arguments *a;
  const spots *spots;
  double zero; /* frame */
  bead_stack stack;
  double *average;      /* [frames, side, side] */
  spline_values spline; /* of all frames; at the end only the planes to write */
  compute_fit_problem problem;
  session session;
  float *rois, *start, *parameters;
  uint8_t *status;
  double spread[3]; /* root mean square of the last round's moves, um in z */
} spline_job;

/* ---- The average --------------------------------------------------------------------------- */

/* Smooths n values, `stride` apart. Minimises Σ (s − v)² + weight Σ (second differences of s)². The
 * normal equations are solved by L D Lᵀ with two diagonals beside the main one. */
static void smooth(double *v, int64_t n, int64_t stride, double weight, double *work) {
  double *d = work, *l1 = work + n, *l2 = work + 2 * n;
  for (int64_t i = 0; i < n; i++) {
    const bool first = i >= 2, middle = i >= 1 && i < n - 1, last = i < n - 2;
    const double main = 1 + weight * ((first ? 1 : 0) + (middle ? 4 : 0) + (last ? 1 : 0));
    const double next = -2 * weight * ((i >= 1 && i < n - 1) + (i < n - 2));
    d[i] = main - (i >= 1 ? l1[i - 1] * l1[i - 1] * d[i - 1] : 0) -
           (i >= 2 ? l2[i - 2] * l2[i - 2] * d[i - 2] : 0);
    l1[i] = i < n - 1 ? (next - (i >= 1 ? l1[i - 1] * d[i - 1] * l2[i - 1] : 0)) / d[i] : 0;
    l2[i] = i < n - 2 ? weight / d[i] : 0;
    v[i * stride] -= (i >= 1 ? l1[i - 1] * v[(i - 1) * stride] : 0) +
                     (i >= 2 ? l2[i - 2] * v[(i - 2) * stride] : 0);
  }
  for (int64_t i = n; i-- > 0;)
    v[i * stride] = v[i * stride] / d[i] - (i < n - 1 ? l1[i] * v[(i + 1) * stride] : 0) -
                    (i < n - 2 ? l2[i] * v[(i + 2) * stride] : 0);
}

static int average_beads(spline_job *job) {
  const bead_stack *stack = &job->stack;
  const int64_t plane = (int64_t)stack->side * stack->side, all = stack->frames * plane;
  const double omega = 2 * acos(-1) * fabs(job->a->z_step) / SHORTEST;
  const double bend = 2 - 2 * cos(fmin(omega, acos(-1)));
  double photons = 0, *work = malloc((size_t)(3 * stack->frames) * sizeof *work);
  bool room = work != NULL;
  memset(job->average, 0, (size_t)all * sizeof *job->average);
  for (int64_t i = 0; room && i < stack->count; i++) {
    photons += stack->beads[i].photons;
    room = bead_add_moved(stack, &stack->beads[i], job->average);
  }
  for (int64_t p = 0; room && p < plane; p++)
    smooth(job->average + p, stack->frames, plane, 1 / (bend * bend), work);
  for (int64_t i = 0; room && i < all; i++)
    job->spline.values[i] = (float)fmax(job->average[i] / photons, 0);
  free(work);
  if (room) return EXIT_GOOD;
  fit_say("out of memory for the beads");
  return EXIT_FAILED;
}

/* ---- Aligning ------------------------------------------------------------------------------ */

/* Cuts all images of a bead to the ROI. Their heights are the starting values. */
static void take_rois(const spline_job *job, const bead *b) {
  const int64_t window = job->stack.window, rows = job->problem.rows;
  const int64_t first = (window - rows) / 2;
  for (int64_t k = 0; k < job->stack.frames; k++) {
    float *to = job->rois + k * rows * rows;
    for (int64_t p = 0; p < rows * rows; p++)
      to[p] = b->pixels[(k * window + first + p / rows) * window + first + p % rows];
    for (int i = 0; i < P; i++) job->start[k * P + i] = NAN;
    job->start[k * P + 2] = (float)(((double)k + b->shift[2] - job->zero) * fabs(job->a->z_step));
  }
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Measures the position of a bead from the middle half of its images. Returns false if too few of
 * them could be fitted. */
static bool measure(const spline_job *job, double shift[3]) {
  const int64_t frames = job->stack.frames, first = frames / 4, end = frames - first;
  double *values = malloc((size_t)frames * sizeof *values);
  int64_t count = 0;
  for (int axis = 0; values && axis < 3; axis++) {
    count = 0;
    for (int64_t k = first; k < end; k++) {
      const double value = (double)job->parameters[k * P + axis];
      if (job->status[k] != COMPUTE_FIT_CONVERGED) continue;
      values[count++] = axis < 2 ? value - (job->problem.rows - 1) / 2
                                 : value / fabs(job->a->z_step) - (double)k + job->zero;
    }
    qsort(values, (size_t)count, sizeof *values, ascending);
    if (count > 0) shift[axis] = (values[count / 2] + values[(count - 1) / 2]) / 2;
  }
  free(values);
  return 2 * count >= end - first;
}

/* Moves the beads relative to each other. Their mean position does not change. */
static void move_beads(spline_job *job, double (*shift)[3]) {
  bead_stack *stack = &job->stack;
  for (int axis = 0; axis < 3; axis++) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < stack->count; i++)
      mean += (shift[i][axis] - stack->beads[i].shift[axis]) / (double)stack->count;
    for (int64_t i = 0; i < stack->count; i++) {
      const double moved = shift[i][axis] - mean - stack->beads[i].shift[axis];
      stack->beads[i].shift[axis] += moved;
      square += moved * moved / (double)stack->count;
    }
    job->spread[axis] = sqrt(square) * (axis == 2 ? fabs(job->a->z_step) : 1);
  }
}

static int fit_bead(spline_job *job, compute_fit *fit, const bead *b) {
  const compute_fit_run_options run = {
      .pixels = {.array = job->rois},
      .count = job->stack.frames,
      .start = job->start,
      .results = {.parameters = job->parameters, .status = job->status}};
  take_rois(job, b);
  return compute_fit_run(fit, &run, NULL) ? fit_say_error(NULL, job->session.context) : EXIT_GOOD;
}

static int align_beads(spline_job *job) {
  bead_stack *stack = &job->stack;
  compute_fit *fit = NULL;
  failure why = {0};
  if (spline_values_use(&job->spline, &job->problem, &why)) return fit_say_failure(&why);
  double(*shift)[3] = malloc((size_t)stack->count * sizeof *shift);
  int result = shift ? EXIT_GOOD : EXIT_FAILED;
  if (!shift) fit_say("out of memory for the beads");
  if (!result && compute_fit_create(job->session.context,
                                    &(compute_fit_options){.problem = job->problem}, &fit))
    result = fit_say_error(NULL, job->session.context);
  for (int64_t i = 0; !result && i < stack->count;) {
    result = fit_bead(job, fit, &stack->beads[i]);
    const bool good = !result && measure(job, shift[i]) && fabs(shift[i][0]) < BEAD_MARGIN &&
                      fabs(shift[i][1]) < BEAD_MARGIN;
    if (good || result)
      i++;
    else
      bead_stack_drop(stack, i);
  }
  compute_fit_release(fit);
  if (!result && stack->count == 0) {
    fit_say("no bead of '%s' is like the others: do the images belong to the table?",
            job->a->line.operand);
    result = EXIT_FAILED;
  }
  if (!result) move_beads(job, shift);
  free(shift);
  return result;
}

/* ---- The result ---------------------------------------------------------------------------- */

/* Reverses the order of the planes, for a stage that moves down. */
static void turn_round(spline_values *s) {
  const int64_t plane = (int64_t)s->rows * s->columns;
  for (int64_t k = 0; k < s->planes / 2; k++)
    for (int64_t p = 0; p < plane; p++) {
      float *low = s->values + k * plane + p, *high = s->values + (s->planes - 1 - k) * plane + p;
      const float kept = *low;
      *low = *high;
      *high = kept;
    }
  s->z_first = -(s->z_first + (s->planes - 1) * s->z_step);
}

/* Selects the planes that all beads have, and thins them. z ascends, and the plane at z = 0 has a
 * sum of 1. */
static void finish(spline_job *job) {
  spline_values *s = &job->spline;
  const int64_t plane = (int64_t)s->rows * s->columns;
  const double step = fabs(job->a->z_step);
  double farthest = 0, sum = 0;
  for (int64_t i = 0; i < job->stack.count; i++)
    farthest = fmax(farthest, fabs(job->stack.beads[i].shift[2]));
  const int64_t lost = (int64_t)ceil(farthest - 0.01);
  const int64_t first = lost < job->stack.frames / 4 ? lost : job->stack.frames / 4;
  const double most = (double)(job->stack.frames - 1 - 2 * first); /* keeps at least two nodes */
  const int64_t thin = step < NODE_STEP ? (int64_t)fmin(NODE_STEP / step, most) : 1;
  const int64_t planes = (job->stack.frames - 1 - 2 * first) / thin + 1;
  const int64_t middle = (int64_t)(job->zero + 0.5);
  for (int64_t p = 0; p < plane; p++) sum += (double)s->values[middle * plane + p];
  for (int64_t k = 0; k < planes; k++)
    for (int64_t p = 0; p < plane; p++)
      s->values[k * plane + p] = (float)((double)s->values[(first + k * thin) * plane + p] / sum);
  s->planes = (int32_t)planes;
  s->z_first = ((double)first - job->zero) * step;
  s->z_step = step * (double)thin;
  if (job->a->z_step < 0) turn_round(s);
}

static int write_spline(const spline_job *job) {
  const fit_arguments *a = job->a;
  const spline_values *s = &job->spline;
  const double last = s->z_first + (s->planes - 1) * s->z_step;
  char comment[96];
  failure why = {0};
  snprintf(comment, sizeof comment, "the mean of %" PRId64 " beads; z = 0 is at frame %.2f",
           job->stack.count, job->zero);
  if (spline_file_write(a->output, s, comment, &why)) return fit_say_failure(&why);
  if (wants_text(a))
    printf("%s: %" PRId64 " of %" PRId64 " beads, z from %.4g to %.4g um, for ROIs of up to %d "
           "pixels\n  last moved by %.2g and %.2g pixels and %.2g um (root mean square)\n",
           a->output, job->stack.count, job->stack.found, s->z_first, last,
           (int)(s->rows - 2 * REACH), job->spread[0], job->spread[1], job->spread[2]);
  return json_end_table(
      a, json_pack("{s:I,s:I,s:o,s:o,s:[o,o],s:[o,o,o]}", "beads", (json_int_t)job->stack.count,
                   "found", (json_int_t)job->stack.found, "zero",
                   json_number(job->zero * fabs(a->z_step)), "z_step", json_number(s->z_step), "z",
                   json_number(s->z_first), json_number(last), "moved", json_number(job->spread[0]),
                   json_number(job->spread[1]), json_number(job->spread[2])));
}

static int allocate(spline_job *job) {
  const size_t frames = (size_t)job->stack.frames, rows = (size_t)job->problem.rows;
  const size_t nodes = frames * (size_t)job->stack.side * (size_t)job->stack.side;
  job->average = malloc(nodes * sizeof *job->average);
  job->spline.values = malloc(nodes * sizeof *job->spline.values);
  job->rois = malloc(frames * rows * rows * sizeof *job->rois);
  job->start = malloc(frames * P * sizeof *job->start);
  job->parameters = malloc(frames * P * sizeof *job->parameters);
  job->status = malloc(frames);
  if (job->average && job->spline.values && job->rois && job->start && job->parameters &&
      job->status)
    return EXIT_GOOD;
  fit_say("out of memory for the beads");
  return EXIT_FAILED;
}

static int read_beads(spline_job *job) {
  const fit_arguments *a = job->a;
  const int32_t roi = option_given(&a->line, "--roi") ? a->roi.rows : USUAL_ROI;
  failure why = {0};
  movie *images = NULL;
  if (roi % 2 == 0 || (option_given(&a->line, "--roi") && a->roi.columns != roi)) {
    fit_say("--roi: calibrate takes an odd number, for a square");
    return EXIT_USAGE;
  }
  if (movie_open(a->images, &images, &why)) return fit_say_failure(&why);
  const movie_info *info = movie_information(images);
  compute_status status = COMPUTE_OK;
  if (job->spots->frames > info->count)
    status = failure_set(&why, COMPUTE_ERROR_FORMAT, NULL,
                         "'%s' has %" PRId64 " images, but the table has %" PRId64 " frames",
                         a->images, info->count, job->spots->frames);
  if (!status)
    status = bead_stack_find(job->spots, info->count, info->rows, info->columns, roi + 2 * REACH,
                             &job->stack, &why);
  if (!status && (job->stack.count == 0 || job->stack.frames < 8))
    status = failure_set(&why, COMPUTE_ERROR_FORMAT, NULL,
                         "'%s': %" PRId64 " of %" PRId64
                         " beads are apart from others and from the border, in %" PRId64 " images",
                         a->line.operand, job->stack.count, job->stack.found, job->stack.frames);
  if (!status) status = bead_stack_read(&job->stack, images, &why);
  movie_close(images);
  return status ? fit_say_failure(&why) : EXIT_GOOD;
}

static void describe(spline_job *job) {
  const int32_t side = job->stack.side, roi = side - 2 * INNER;
  const double step = fabs(job->a->z_step);
  job->problem.rows = job->problem.columns = roi;
  job->problem.start_set = 1 << 2; /* each ROI has its own start of z */
  job->spline.planes = (int32_t)job->stack.frames;
  job->spline.rows = job->spline.columns = side;
  job->spline.spot[0] = job->spline.spot[1] = (side - 1) / 2;
  job->spline.z_first = -job->zero * step;
  job->spline.z_step = step;
}

int calibrate_spline(const fit_arguments *a, const spots *s, double zero) {
  spline_job job = {.a = a, .spots = s};
  int result = EXIT_GOOD;
  if (!a->images) {
    fit_say("calibrate --model SPLINE needs --images MOVIE: the stack of beads");
    return EXIT_USAGE;
  }
  result = read_beads(&job);
  job.zero = isnan(zero) ? (double)(job.stack.frames - 1) / 2 : zero;
  describe(&job);
  if (!result) result = allocate(&job);
  if (!result) result = session_begin(a, &job.session);
  const bool open = !result;
  for (int round = 0; !result && round < ROUNDS; round++) {
    result = average_beads(&job);
    if (!result && round + 1 < ROUNDS) result = align_beads(&job);
  }
  if (!result) {
    finish(&job);
    result = write_spline(&job);
  }
  if (open) session_close(&job.session);
  bead_stack_release(&job.stack);
  free(job.average);
  free(job.spline.values);
  free(job.rois);
  free(job.start);
  free(job.parameters);
  free(job.status);
  return result;
}
