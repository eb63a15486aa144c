/* SPDX-License-Identifier: MIT */
/* The steps of an estimate:
 *
 *   1. Shifts between windows that are near in time, searched within the given range, give a first
 *      curve.
 *   2. The localisations are corrected by the curve. The remaining shifts between all pairs of
 *      windows are measured near zero and added to it. This step is done twice, because drift
 *      within a window blurs its peaks.
 *
 * A peak of a correlation is a spot on a background in an image of counts. The library's own fit
 * therefore finds it, with its uncertainty. For this, bins are about as wide as the spread of the
 * localisations. */
#include "programs/fit/drift.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/drift_private.h"

enum {
  PEAK_SIDE = 15,
  SEARCH_SIDE = 41,
  MOST_SIDE = 801,
  DEFAULT_WINDOWS = 20,
  MOST_WINDOWS = 500,
  PARAMETERS = 5
};
enum { LEAST_OF_WINDOW = 400 };
#define USUAL_STD 0.1 /* pixels; used if the table has no uncertainties */

typedef struct estimate {
  compute_context *context;
  const drift_options *options;
  const spots *s;
  drift_result *d;
  window_set w;
  double bin;
  shift *x, *y; /* of the pairs */
  float *rois, *fits, *stds;
  double *places; /* [pairs, 2] first bins of the ROIs, as position differences */
  uint8_t *statuses;
} estimate;

void drift_release(drift_result *d) {
  free(d->time);
  for (int axis = 0; axis < 3; axis++) {
    free(d->axis[axis].value);
    free(d->axis[axis].slope);
  }
  *d = (drift_result){0};
}

void drift_at(const drift_result *d, double frame, double at[3]) {
  for (int axis = 0; axis < 3; axis++) {
    const drift_axis *a = &d->axis[axis];
    at[axis] = axis < d->axes ? spline_at(d->time, a->value, a->slope, d->windows, frame) : 0;
  }
}

bool drift_move(drift_result *d, int axis, const double *more) {
  drift_axis *a = &d->axis[axis];
  for (int64_t i = 0; i < d->windows; i++) a->value[i] += more[i];
  return spline_slopes(d->time, a->value, d->windows, a->slope);
}

/* ---- Windows ------------------------------------------------------------------------------- */

static compute_status no_memory(failure *why) {
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the correlations");
}

/* Finds the first and last frame of the localisations, which may be a part of the movie. Returns
 * the number of frames from the first to the last. */
static int64_t find_frames(const spots *s, drift_result *d) {
  d->first = s->count > 0 ? s->frame[0] : 0;
  d->last = d->first;
  for (int64_t i = 1; i < s->count; i++) {
    if (s->frame[i] < d->first) d->first = s->frame[i];
    if (s->frame[i] > d->last) d->last = s->frame[i];
  }
  return d->last - d->first + 1;
}

static int64_t choose_window(int64_t count, int64_t frames, int64_t wanted) {
  int64_t windows = count / LEAST_OF_WINDOW;
  if (wanted > 0) return wanted;
  windows = windows < 2 ? 2 : windows > DEFAULT_WINDOWS ? DEFAULT_WINDOWS : windows;
  return (frames + windows - 1) / windows;
}

/* Sorts the spots by frame with a counting sort. */
static bool sort_spots(const spots *s, int64_t first, int64_t frames, int64_t *order) {
  int64_t *begin = calloc((size_t)frames + 2, sizeof *begin);
  if (!begin) return false;
  for (int64_t i = 0; i < s->count; i++) begin[s->frame[i] - first + 1]++;
  for (int64_t f = 0; f < frames; f++) begin[f + 1] += begin[f];
  for (int64_t i = 0; i < s->count; i++) order[begin[s->frame[i] - first]++] = i;
  free(begin);
  return true;
}

/* Divides the spots into windows. No window is empty. */
static compute_status cut_windows(estimate *e, int64_t wanted, failure *why) {
  const spots *s = e->s;
  window_set *w = &e->w;
  const int64_t frames = find_frames(s, e->d), zero = e->d->first;
  const int64_t window = choose_window(s->count, frames, wanted), most = frames / window + 2;
  w->order = malloc((size_t)(s->count + 1) * sizeof *w->order);
  w->begin = calloc((size_t)most + 1, sizeof *w->begin);
  w->x = malloc((size_t)(s->count + 1) * sizeof *w->x);
  w->y = malloc((size_t)(s->count + 1) * sizeof *w->y);
  w->grid = calloc((size_t)most, sizeof *w->grid);
  double *const time = e->d->time = calloc((size_t)most, sizeof *time);
  bool good = w->order && w->begin && w->x && w->y && w->grid && time;
  for (int axis = 0; axis < 3; axis++) {
    drift_axis *const a = &e->d->axis[axis];
    a->value = calloc((size_t)most, sizeof *a->value);
    a->slope = calloc((size_t)most, sizeof *a->slope);
    good = good && a->value && a->slope;
  }
  if (!good || !sort_spots(s, zero, frames, w->order)) return no_memory(why);
  for (int64_t first = 0, end = 0; first < s->count; first = end) {
    const int64_t number = (s->frame[w->order[first]] - zero) / window;
    double sum = 0;
    for (; end < s->count && (s->frame[w->order[end]] - zero) / window == number; end++)
      sum += (double)s->frame[w->order[end]];
    time[w->count] = sum / (double)(end - first);
    w->begin[++w->count] = end;
  }
  e->d->window = window;
  e->d->windows = w->count;
  if (w->count > MOST_WINDOWS)
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, "give a longer --window",
                       "drift would compare %" PRId64 " windows, each with all others; at most %d",
                       w->count, MOST_WINDOWS);
  if (w->count > 1) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, "give a smaller --window",
                     "drift needs at least two windows with localisations; %" PRId64
                     " frames with windows of %" PRId64 " give %" PRId64,
                     frames, window, w->count);
}

/* Corrects the spots by the current drift estimate, and sorts the spots of each window into
 * cells. */
static compute_status place_windows(estimate *e, double cell, failure *why) {
  window_set *w = &e->w;
  for (int64_t k = 0; k < e->s->count; k++) {
    double drift[3];
    drift_at(e->d, (double)e->s->frame[w->order[k]], drift);
    w->x[k] = e->s->x[w->order[k]] - drift[0];
    w->y[k] = e->s->y[w->order[k]] - drift[1];
  }
  for (int64_t i = 0; i < w->count; i++) {
    const int64_t first = w->begin[i];
    cell_grid_release(&w->grid[i]);
    if (!cell_grid_make(w->x + first, w->y + first, w->begin[i + 1] - first, cell, &w->grid[i]))
      return no_memory(why);
  }
  return COMPUTE_OK;
}

/* ---- Shifts -------------------------------------------------------------------------------- */

/* Computes the differences of a pair within side · bin / 2 of zero, and cuts the ROI around the
 * peak. */
static bool cut_peak(estimate *e, int64_t pair, int32_t side, float *histogram) {
  const shift *s = &e->x[pair];
  int32_t top, left;
  memset(histogram, 0, (size_t)side * (size_t)side * sizeof *histogram);
  const int64_t found =
      correlate(&e->w.grid[s->a], &e->w.grid[s->b], 0, 0, e->bin, side, histogram);
  correlation_peak(histogram, side, &top, &left);
  const int32_t most = side - PEAK_SIDE;
  top = top < PEAK_SIDE / 2 ? 0 : top - PEAK_SIDE / 2 > most ? most : top - PEAK_SIDE / 2;
  left = left < PEAK_SIDE / 2 ? 0 : left - PEAK_SIDE / 2 > most ? most : left - PEAK_SIDE / 2;
  for (int32_t i = 0; i < PEAK_SIDE; i++)
    memcpy(e->rois + (pair * PEAK_SIDE + i) * PEAK_SIDE, histogram + (top + i) * side + left,
           PEAK_SIDE * sizeof *histogram);
  e->places[2 * pair] = (left - (side - 1) / 2.0) * e->bin;
  e->places[2 * pair + 1] = (top - (side - 1) / 2.0) * e->bin;
  return found > 0;
}

static compute_status fit_peaks(estimate *e, int64_t pairs, failure *why) {
  compute_fit *fit = NULL;
  const compute_fit_options options = {
      .problem = {.model = COMPUTE_FIT_XYNBS,
                  .rows = PEAK_SIDE,
                  .columns = PEAK_SIDE,
                  .sigma = {1.6},
                  .iterations = 200,
                  .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD | COMPUTE_FIT_STATUS},
      .devices = e->options->devices,
      .device_count = e->options->device_count,
      .name = "drift"};
  const compute_fit_run_options run = {
      .pixels = {.array = e->rois},
      .count = pairs,
      .results = {.parameters = e->fits, .std = e->stds, .status = e->statuses}};
  compute_status status = compute_fit_create(e->context, &options, &fit);
  if (!status) status = compute_fit_run(fit, &run, NULL);
  compute_fit_release(fit);
  if (!status) return COMPUTE_OK;
  compute_error error = {0};
  compute_error_get(e->context, &error);
  return failure_set(why, status, error.remedy, "%s", error.message);
}

/* Converts fitted peaks to shifts with weights. Shifts without a peak get weight 0. */
static void take_shifts(estimate *e, int64_t pairs) {
  int64_t fitted = 0;
  for (int64_t i = 0; i < pairs; i++) {
    const float *p = e->fits + i * PARAMETERS, *std = e->stds + i * PARAMETERS;
    const uint8_t status = e->statuses[i];
    const bool good = (status == COMPUTE_FIT_CONVERGED || status == COMPUTE_FIT_AT_BOUND ||
                       status == COMPUTE_FIT_MAX_ITERATIONS) &&
                      std[0] > 0 && std[1] > 0 && p[2] > 4 * std[2] && p[0] > 0.5f && p[1] > 0.5f &&
                      p[0] < PEAK_SIDE - 1.5f && p[1] < PEAK_SIDE - 1.5f;
    e->x[i].value = good ? e->places[2 * i] + (double)p[0] * e->bin : 0;
    e->y[i].value = good ? e->places[2 * i + 1] + (double)p[1] * e->bin : 0;
    e->x[i].weight = good ? 1 / (double)(std[0] * std[0]) : 0;
    e->y[i].weight = good ? 1 / (double)(std[1] * std[1]) : 0;
    fitted += good;
  }
  e->d->pairs = pairs;
  e->d->axis[0].fitted = e->d->axis[1].fitted = fitted;
}

static compute_status measure(estimate *e, int64_t pairs, int32_t side, failure *why) {
  float *histogram = malloc((size_t)side * (size_t)side * sizeof *histogram);
  compute_status status = histogram ? place_windows(e, e->bin * side / 2, why) : no_memory(why);
  for (int64_t i = 0; i < pairs && !status; i++) (void)cut_peak(e, i, side, histogram);
  free(histogram);
  if (!status) status = fit_peaks(e, pairs, why);
  if (!status) take_shifts(e, pairs);
  return status;
}

/* ---- The estimate -------------------------------------------------------------------------- */

/* Adds the least-squares solution of the shifts to the windows' drift, and updates the curve. */
static compute_status improve(estimate *e, int64_t pairs, failure *why) {
  drift_result *d = e->d;
  const int32_t windows = (int32_t)e->w.count;
  double *more = malloc(2 * (size_t)windows * sizeof *more);
  if (!more) return no_memory(why);
  d->axis[0].residual = drift_solve(e->x, pairs, windows, more);
  d->axis[1].residual = drift_solve(e->y, pairs, windows, more + windows);
  const bool solved = d->axis[0].residual >= 0 && d->axis[1].residual >= 0;
  const bool good = solved && drift_move(d, 0, more) && drift_move(d, 1, more + windows);
  free(more);
  if (solved) return good ? COMPUTE_OK : no_memory(why);
  return failure_set(
      why, COMPUTE_ERROR_INVALID_ARGUMENT, "try a longer --window, or a larger --max-shift",
      "the windows have too little in common: %" PRId64 " of %" PRId64 " pairs have a peak",
      d->axis[0].fitted, d->pairs);
}

static compute_status allocate_pairs(estimate *e, failure *why) {
  const size_t pairs = (size_t)(e->w.count * (e->w.count - 1) / 2 + 1);
  e->x = calloc(pairs, sizeof *e->x);
  e->y = calloc(pairs, sizeof *e->y);
  e->rois = calloc(pairs, (size_t)PEAK_SIDE * PEAK_SIDE * sizeof *e->rois);
  e->fits = calloc(pairs, PARAMETERS * sizeof *e->fits);
  e->stds = calloc(pairs, PARAMETERS * sizeof *e->stds);
  e->places = calloc(pairs, 2 * sizeof *e->places);
  e->statuses = calloc(pairs, 1);
  return e->x && e->y && e->rois && e->fits && e->stds && e->places && e->statuses ? COMPUTE_OK
                                                                                   : no_memory(why);
}

/* Makes the drift relative to the first frame with localisations. */
static void begin_at_zero(drift_result *d) {
  double at[3];
  drift_at(d, (double)d->first, at);
  for (int axis = 0; axis < d->axes; axis++)
    for (int64_t i = 0; i < d->windows; i++) d->axis[axis].value[i] -= at[axis];
}

/* Estimates the drift along z, from localisations that may be of one emitter according to x and
 * y. */
static compute_status run_heights(estimate *e, double reach, failure *why) {
  if (!e->s->z) return COMPUTE_OK;
  const compute_status status = place_windows(e, reach, why);
  if (status) return status;
  return drift_add_heights(&e->w, e->s, reach, e->x, e->d) ? COMPUTE_OK : no_memory(why);
}

static compute_status run(estimate *e, failure *why) {
  e->d->axes = 2;
  compute_status status = cut_windows(e, e->options->window, why);
  if (!status) status = allocate_pairs(e, why);
  if (status) return status;
  const double std = spots_median_std(e->s), fine = std > 0 ? std : USUAL_STD;
  const double wanted = 2 * ceil(e->options->range / fine + PEAK_SIDE / 2) + 1,
               side = fmin(wanted, MOST_SIDE);
  e->bin = fine * wanted / side; /* coarse for a large range */
  int64_t pairs = drift_pairs(e->w.count, DRIFT_NEIGHBOURS, e->x);
  memcpy(e->y, e->x, (size_t)pairs * sizeof *e->y);
  status = measure(e, pairs, (int32_t)side, why);
  if (!status) status = improve(e, pairs, why);
  e->bin = fine;
  for (int round = 0; round < DRIFT_ROUNDS && !status; round++) {
    pairs = drift_pairs(e->w.count, e->w.count, e->x);
    memcpy(e->y, e->x, (size_t)pairs * sizeof *e->y);
    status = measure(e, pairs, SEARCH_SIDE, why);
    if (!status) status = improve(e, pairs, why);
  }
  if (!status) status = run_heights(e, 2 * fine, why);
  if (!status) begin_at_zero(e->d);
  return status;
}

compute_status drift_estimate(compute_context *context, const spots *s,
                              const drift_options *options, drift_result *d, failure *why) {
  *d = (drift_result){0};
  estimate e = {.context = context, .options = options, .s = s, .d = d};
  const compute_status status = run(&e, why);
  for (int64_t i = 0; i < e.w.count && e.w.grid; i++) cell_grid_release(&e.w.grid[i]);
  free(e.w.begin);
  free(e.w.order);
  free(e.w.x);
  free(e.w.y);
  free(e.w.grid);
  free(e.x);
  free(e.y);
  free(e.rois);
  free(e.fits);
  free(e.stds);
  free(e.places);
  free(e.statuses);
  return status;
}
