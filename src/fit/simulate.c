/* SPDX-License-Identifier: MIT */
/* ROI stacks and movies. The context's threads can divide the work freely, since every draw is
 * identified by its ROI or frame and its pixel. */
#include "fit/simulate.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"

#define ROIS_OF_TASK 256
#define BAND_PIXELS  ((int64_t)1 << 16) /* pixels of a frame per task: half a MiB of doubles */

/* ---- ROIs ------------------------------------------------------------------------------------ */

typedef struct roi_work {
  const simulation *s;
  int64_t first, count;
  void *pixels;
  float *truth;
} roi_work;

static void make_roi(const roi_work *work, int64_t index) {
  const simulation *s = work->s;
  const int64_t size = s->rows * s->columns;
  const noise_source source = {s->given.seed, (uint64_t)(work->first + index)};
  const float background = simulation_background(s, &source);
  double expected[COMPUTE_FIT_MAX_SIDE * COMPUTE_FIT_MAX_SIDE];
  simulation_spot spot;
  simulation_draw_spot(s, &source, 0, background, &spot);
  for (int64_t i = 0; i < size; i++) expected[i] = (double)background;
  simulation_add_spot(s, &spot, 0, s->rows, expected);
  simulation_expose(s, &source, 0, size, expected, work->pixels, index * size);
  if (work->truth)
    memcpy(work->truth + index * s->parameters, spot.truth,
           (size_t)s->parameters * sizeof *spot.truth);
}

static void roi_task(void *argument, int64_t task, int32_t worker) {
  const roi_work *work = argument;
  (void)worker;
  const int64_t begin = task * ROIS_OF_TASK;
  const int64_t end = work->count - begin < ROIS_OF_TASK ? work->count : begin + ROIS_OF_TASK;
  for (int64_t i = begin; i < end; i++) make_roi(work, i);
}

compute_status compute_simulate_rois(compute_context *context, const compute_simulation *given,
                                     int64_t first, int64_t count, void *pixels, float *truth) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_simulate_rois";
  simulation s;
  if (!context) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  compute_status status = simulation_check(context, given, false, operation, &s);
  if (!status) status = simulation_check_items(&s, first, count, operation);
  if (status || count == 0) return status;
  if (!pixels) return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "pixels is NULL");
  roi_work work = {&s, first, count, pixels, truth};
  thread_pool_run(context->threads, (count - 1) / ROIS_OF_TASK + 1, roi_task, &work);
  return COMPUTE_OK;
}

/* ---- Movies ---------------------------------------------------------------------------------- */

typedef struct movie_work {
  const simulation *s;
  int64_t first;
  int64_t bands, band_rows; /* row tiles of a frame */
  const int64_t *begins;    /* index of each frame's first spot in `truth` */
  void *pixels;
  float *truth;
  _Atomic bool short_of_memory;
} movie_work;

static int64_t spots_of_frame(const simulation *s, int64_t frame) {
  const noise_source source = {s->given.seed, (uint64_t)frame};
  if (s->given.emitters > 0) return simulation_emitters_on(s, frame);
  return (int64_t)noise_poisson(&source, NOISE_SPOTS, 0, s->given.spots);
}

static void write_truth(const movie_work *work, int64_t index, int64_t number,
                        const simulation_spot *spot) {
  const int32_t parameters = work->s->parameters;
  float *row = work->truth + (work->begins[index] + number) * (1 + parameters);
  row[0] = (float)(work->first + index);
  memcpy(row + 1, spot->truth, (size_t)parameters * sizeof *row);
}

/* Each row tile of a frame draws all of its spots again. This is cheap compared with the pixels'
 * noise. */
static void band_task(void *argument, int64_t task, int32_t worker) {
  movie_work *work = argument;
  (void)worker;
  const simulation *s = work->s;
  const int64_t index = task / work->bands, row = task % work->bands * work->band_rows;
  const int64_t rows = s->rows - row < work->band_rows ? s->rows - row : work->band_rows;
  const noise_source source = {s->given.seed, (uint64_t)(work->first + index)};
  const float background = simulation_background(s, &source);
  double *expected = base_allocate((uint64_t)(rows * s->columns), sizeof *expected);
  if (!expected) {
    atomic_store_explicit(&work->short_of_memory, true, memory_order_relaxed);
    return;
  }
  for (int64_t i = 0; i < rows * s->columns; i++) expected[i] = (double)background;
  uint32_t emitter = 0;
  for (int64_t i = 0; i < work->begins[index + 1] - work->begins[index]; i++) {
    simulation_spot spot;
    simulation_draw_spot(s, &source, (uint32_t)i, background, &spot);
    if (s->given.emitters > 0) simulation_move_to_emitter(s, work->first + index, &emitter, &spot);
    simulation_add_spot(s, &spot, row, rows, expected);
    if (row == 0 && work->truth) write_truth(work, index, i, &spot);
  }
  simulation_expose(s, &source, row * s->columns, rows * s->columns, expected, work->pixels,
                    (index * s->rows + row) * s->columns);
  base_release(expected);
}

compute_status compute_simulate_spot_count(compute_context *context,
                                           const compute_simulation *given, int64_t first,
                                           int64_t count, int64_t *spots) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_simulate_spot_count";
  simulation s;
  const compute_status missing = error_if_null(context, operation, context, spots);
  if (missing) return missing;
  *spots = 0;
  compute_status status = simulation_check(context, given, true, operation, &s);
  if (!status) status = simulation_check_items(&s, first, count, operation);
  if (status) return status;
  for (int64_t i = 0; i < count; i++) *spots += spots_of_frame(&s, first + i);
  return COMPUTE_OK;
}

compute_status compute_simulate_movie(compute_context *context, const compute_simulation *given,
                                      int64_t first, int64_t count, void *pixels, float *truth) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_simulate_movie";
  simulation s;
  if (!context) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  compute_status status = simulation_check(context, given, true, operation, &s);
  if (!status) status = simulation_check_items(&s, first, count, operation);
  if (status || count == 0) return status;
  if (!pixels) return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "pixels is NULL");

  int64_t *begins = base_allocate((uint64_t)count + 1, sizeof *begins);
  if (!begins)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the numbers of spots");
  for (int64_t i = 0; i < count; i++) begins[i + 1] = begins[i] + spots_of_frame(&s, first + i);

  movie_work work = {.s = &s, .first = first, .begins = begins, .pixels = pixels, .truth = truth};
  work.band_rows = s.columns < BAND_PIXELS ? BAND_PIXELS / s.columns : 1;
  work.bands = (s.rows - 1) / work.band_rows + 1;
  thread_pool_run(context->threads, count * work.bands, band_task, &work);
  base_release(begins);
  if (atomic_load_explicit(&work.short_of_memory, memory_order_relaxed))
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a part of a frame's expected image");
  return COMPUTE_OK;
}
