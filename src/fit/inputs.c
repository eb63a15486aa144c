/* SPDX-License-Identifier: MIT */
/* The inputs of a fit except pixels, for stacks and frames, and the checks of a run before it
 * begins. Without the checks, a corner outside its frame at the end of ten million ROIs could cost
 * an hour. */
#include <inttypes.h>
#include <stdatomic.h>

#include "core/base/error.h"
#include "fit/fitter.h"

/* ---- What stacks and frames share ---------------------------------------------------------- */

int32_t fit_input_width(const compute_fit *fit, int32_t number) {
  const uint32_t bit = UINT32_C(1) << number;
  return bit == COMPUTE_FIT_WITH_CORNERS ? 3
         : bit == COMPUTE_FIT_WITH_SIGMA ? 2
                                         : compute_fit_parameter_count(fit->problem.model);
}

const void *fit_input_array(const compute_fit_run_options *options, int32_t number) {
  const void *const arrays[FIT_INPUTS] = {
      [0] = options->corners, [5] = options->sigma, [6] = options->start,
      [7] = options->lower,   [8] = options->upper,
  };
  return arrays[number];
}

compute_node fit_record(const compute_fit *fit, compute_graph *graph, compute_node pixels,
                        uint32_t inputs, const compute_node *nodes, compute_tensor *const *tables) {
  compute_fit_problem problem = fit->problem;
  compute_node table[FIT_TABLES] = {{0}};
  problem.inputs |= inputs;
  for (int i = 0; i < FIT_TABLES; i++)
    if (tables[i]) table[i] = compute_parameter(graph, tables[i]);
  const compute_fit_nodes all = {.corners = nodes[0],
                                 .offset = table[0],
                                 .gain = table[1],
                                 .variance = table[2],
                                 .mask = table[3],
                                 .sigma = nodes[5],
                                 .start = nodes[6],
                                 .lower = nodes[7],
                                 .upper = nodes[8],
                                 .spline = table[4]};
  return compute_gaussian_fit(graph, pixels, &problem, &all);
}

compute_batch_options fit_batch_options(compute_fit *fit) {
  return (compute_batch_options){.user = fit,
                                 .output_count = 1,
                                 .devices = fit->devices,
                                 .device_count = fit->device_count,
                                 .batch = fit->batch_items,
                                 .slots = fit->slots,
                                 .memory = fit->memory,
                                 .fallback = fit->fallback,
                                 .flags = fit->flags,
                                 .name = fit->name};
}

/* ---- Errors -------------------------------------------------------------------------------- */

static const char operation[] = "compute_fit_run";

COMPUTE_PRINTF(2, 3)
static compute_status refuse(const compute_fit *fit, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const compute_status status =
      error_record_list(fit->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation, NULL, __FILE__,
                        __LINE__, format, list);
  va_end(list);
  return status;
}

/* ---- Results ------------------------------------------------------------------------------- */

static compute_status check_results(const compute_fit *fit,
                                    const compute_fit_run_options *options) {
  const compute_fit_results *r = &options->results;
  const struct {
    const void *array;
    const char *name;
  } wanted[] = {
      {r->parameters, "parameters"}, {r->std, "std"},       {r->covariance, "covariance"},
      {r->ratio, "ratio"},           {r->p_raw, "p_raw"},   {r->p_value, "p_value"},
      {r->iterations, "iterations"}, {r->status, "status"}, {r->significance, "significance"}};
  bool any = false;
  for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (!wanted[i].array) continue;
    any = true;
    if ((fit->wanted >> i & 1) == 0)
      return refuse(fit, "results.%s: not among the outputs of the problem", wanted[i].name);
  }
  if (!any) return COMPUTE_OK;
  if (fit->find)
    return refuse(fit, "results: the number of spots is not known in advance; use write");
  if (options->count == COMPUTE_BATCH_UNTIL_END)
    return refuse(fit, "results: the number of ROIs is not known in advance; use write");
  return COMPUTE_OK;
}

/* ---- Corners ------------------------------------------------------------------------------- */

typedef struct corner_check {
  const compute_fit *fit;
  const int32_t *corners;
  int64_t count, frames;
  _Atomic int64_t first_bad; /* index of the first invalid ROI, or INT64_MAX */
} corner_check;

enum { PIECE = 1 << 16 };

static bool is_inside(const corner_check *c, int64_t i) {
  const compute_fit *fit = c->fit;
  const int32_t *at = c->corners + 3 * i;
  return at[0] >= 0 && at[1] >= 0 && at[2] >= 0 && at[1] <= fit->frame_rows - fit->problem.rows &&
         at[2] <= fit->frame_columns - fit->problem.columns;
}

/* Returns true if a corner is in order and in an existing frame. */
static bool is_in_order(const corner_check *c, int64_t i) {
  if (!c->fit->frames) return true;
  return (i == 0 || c->corners[3 * i] >= c->corners[3 * i - 3]) &&
         (c->frames == COMPUTE_BATCH_UNTIL_END || c->corners[3 * i] < c->frames);
}

static void check_piece(void *argument, int64_t task, int32_t worker) {
  corner_check *c = argument;
  int64_t end = (task + 1) * PIECE;
  (void)worker;
  if (end > c->count) end = c->count;
  for (int64_t i = task * PIECE; i < end; i++) {
    if (is_inside(c, i) && is_in_order(c, i)) continue;
    int64_t least = atomic_load_explicit(&c->first_bad, memory_order_relaxed);
    while (i < least && !atomic_compare_exchange_weak_explicit(
                            &c->first_bad, &least, i, memory_order_relaxed, memory_order_relaxed)) {
    }
    return;
  }
}

static compute_status check_corners(const compute_fit *fit,
                                    const compute_fit_run_options *options) {
  corner_check c = {.fit = fit,
                    .corners = options->corners,
                    .count = options->count,
                    .frames = options->frames,
                    .first_bad = INT64_MAX};
  thread_pool_run(fit->context->threads, (c.count + PIECE - 1) / PIECE, check_piece, &c);
  const int64_t i = atomic_load_explicit(&c.first_bad, memory_order_relaxed);
  if (i == INT64_MAX) return COMPUTE_OK;
  const int32_t *at = c.corners + 3 * i;
  if (!is_inside(&c, i))
    return refuse(fit,
                  "corners[%" PRId64 "]: row %d, column %d of frame %d: an ROI of %d × %d reaches "
                  "outside frames of %" PRId64 " × %" PRId64,
                  i, (int)at[1], (int)at[2], (int)at[0], (int)fit->problem.rows,
                  (int)fit->problem.columns, fit->frame_rows, fit->frame_columns);
  if (i > 0 && at[0] < at[-3])
    return refuse(fit, "corners[%" PRId64 "]: frame %d after frame %d; sort them by frame", i,
                  (int)at[0], (int)at[-3]);
  return refuse(fit, "corners[%" PRId64 "]: frame %d, but there are %" PRId64 " frames", i,
                (int)at[0], c.frames);
}

/* ---- All checks ---------------------------------------------------------------------------- */

static compute_status check_count(const compute_fit *fit, const compute_fit_run_options *options) {
  const bool open = fit->frames ? options->frames == COMPUTE_BATCH_UNTIL_END
                                : options->count == COMPUTE_BATCH_UNTIL_END;
  if (options->count < (fit->frames ? 0 : COMPUTE_BATCH_UNTIL_END))
    return refuse(
        fit, "count: %" PRId64 "; must not be negative, except COMPUTE_BATCH_UNTIL_END for a stack",
        options->count);
  if (fit->frames && options->frames < COMPUTE_BATCH_UNTIL_END)
    return refuse(fit, "frames: %" PRId64 "; must be COMPUTE_BATCH_UNTIL_END or not negative",
                  options->frames);
  if (!fit->frames && options->frames != 0)
    return refuse(fit, "frames: must be 0; the fitter was created for a stack of ROIs, without "
                       "frame_rows and frame_columns");
  if (!open) return COMPUTE_OK;
  if (options->pixels.array)
    return refuse(fit,
                  "pixels: the length of an array is unknown; set the number of ROIs or frames");
  if (!options->write) return refuse(fit, "write: needed by a run until the end of its source");
  return COMPUTE_OK;
}

/* Checks the per-ROI arrays, which need a known number of ROIs. */
static compute_status check_arrays(const compute_fit *fit, const compute_fit_run_options *options) {
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    if (!fit_input_array(options, i)) continue;
    if (fit->find)
      return refuse(fit, "%s: must be NULL; the fitter finds its spots itself", fit_input_name(i));
    if (options->count == COMPUTE_BATCH_UNTIL_END)
      return refuse(fit, "%s: needs an entry for each ROI, so count must be set",
                    fit_input_name(i));
  }
  if (!options->corners) {
    if (options->count == 0 || fit->find) return COMPUTE_OK;
    if (fit->frames) return refuse(fit, "corners: needed with frames");
    if (fit->corners_in_maps)
      return refuse(fit, "corners: needed with maps as large as the frames");
    return COMPUTE_OK;
  }
  if (fit->frame_rows == 0)
    return refuse(
        fit, "corners: must be NULL; the fitter was created without frame_rows and frame_columns");
  return check_corners(fit, options);
}

compute_status fit_check_run(const compute_fit *fit, const compute_fit_run_options *options) {
  const compute_batch_source *pixels = &options->pixels;
  compute_status status = error_if_reserved(fit->context, operation, "options", options->reserved);
  if (!status)
    status = error_if_reserved(fit->context, operation, "options.pixels", pixels->reserved);
  if (!status)
    status =
        error_if_reserved(fit->context, operation, "options.results", options->results.reserved);
  if (status) return status;
  if (!(options->progress_seconds >= 0 && options->progress_seconds < 1e6))
    return refuse(fit, "progress_seconds: %g; must be at least 0 and less than 1e6",
                  options->progress_seconds);
  status = check_count(fit, options);
  if (!status) status = check_results(fit, options);
  return !status ? check_arrays(fit, options) : status;
}
