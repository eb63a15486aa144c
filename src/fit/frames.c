/* SPDX-License-Identifier: MIT */
/* Frames with any number of ROIs each.
 *
 * The items of the iterator are frames, so each frame crosses the bus once for all its ROIs. A step
 * stores its results in a part, in chunks of ROIs with separate memory. The iterator's only output
 * is one byte per frame. Its delivery means that the parts of these frames are complete and next in
 * order. A failed batch is repeated as a whole, in pieces or on the CPU, and creates its parts
 * again. */
#include "fit/frames.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "fit/fitter.h"

static const char operation[] = "compute_fit_run";

#define MIB              ((int64_t)1 << 20)
#define BATCH_BYTES      (32 * MIB) /* of frames: usually some thousand ROIs */
#define FIND_BATCH_BYTES (8 * MIB)  /* finding also needs several times this memory */

/* ---- Parts --------------------------------------------------------------------------------- */

static void part_free(fit_part *part) {
  while (part->chunks) {
    fit_chunk *next = part->chunks->next;
    chunk_give(part->chunks);
    part->chunks = next;
  }
  base_release(part->corners);
  base_release(part);
}

/* Removes the parts of these frames from the list and returns them. */
static fit_part *take_parts(compute_fit *fit, int64_t first, int64_t frames) {
  fit_part *taken;
  pthread_mutex_lock(&fit->parts_mutex);
  fit_part **from = &fit->parts;
  while (*from && (*from)->first < first) from = &(*from)->next;
  fit_part **to = from;
  while (*to && (*to)->first < first + frames) to = &(*to)->next;
  taken = from == to ? NULL : *from;
  fit_part *rest = *to;
  *to = NULL;
  *from = rest;
  pthread_mutex_unlock(&fit->parts_mutex);
  return taken;
}

static void drop_parts(fit_part *part) {
  while (part) {
    fit_part *next = part->next;
    part_free(part);
    part = next;
  }
}

static void put_part(compute_fit *fit, fit_part *part) {
  pthread_mutex_lock(&fit->parts_mutex);
  fit_part **at = &fit->parts;
  while (*at && (*at)->first < part->first) at = &(*at)->next;
  part->next = *at;
  *at = part;
  pthread_mutex_unlock(&fit->parts_mutex);
}

/* ---- The step ------------------------------------------------------------------------------ */

/* Returns the index of the first ROI whose frame is not before `frame`. */
static int64_t roi_of_frame(const compute_fit_run_options *options, int64_t frame) {
  int64_t low = 0, high = options->count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (options->corners[3 * middle] < frame)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Fills the corners of a chunk from the corners of the run. Frames are counted from the batch's
 * first one. */
static void fill_corners(const fit_part *part, const int32_t *from, fit_chunk *chunk) {
  int32_t *to = chunk->host_input[0];
  for (int64_t i = 0; i < chunk->count; i++) {
    to[3 * i] = (int32_t)(from[3 * i] - part->first);
    to[3 * i + 1] = from[3 * i + 1];
    to[3 * i + 2] = from[3 * i + 2];
  }
  for (int64_t i = 3 * chunk->count; i < 3 * chunk->capacity; i++) to[i] = -1;
}

static void fill_chunk(const fit_part *part, int64_t done, fit_chunk *chunk) {
  const compute_fit *fit = chunk->device_plans->fit;
  const compute_fit_run_options *options = fit->delivery->options;
  const int32_t *corners = part->corners ? part->corners : options->corners + 3 * part->first_roi;
  fill_corners(part, corners + 3 * done, chunk);
  for (int32_t i = FIT_SINGLE_FIRST; i < FIT_SPLINE_INPUT; i++) {
    const char *array = fit_input_array(options, i);
    const size_t row = (size_t)fit_input_width(fit, i) * sizeof(float);
    if (!chunk->host_input[i]) continue;
    memcpy(chunk->host_input[i], array + row * (size_t)(part->first_roi + done),
           row * (size_t)chunk->count);
    memset((char *)chunk->host_input[i] + row * (size_t)chunk->count, 0,
           row * (size_t)(chunk->capacity - chunk->count));
  }
}

static uint32_t inputs_of(const compute_fit_run_options *options) {
  uint32_t inputs = COMPUTE_FIT_WITH_CORNERS;
  for (int32_t i = FIT_SINGLE_FIRST; i < FIT_SPLINE_INPUT; i++)
    if (fit_input_array(options, i)) inputs |= UINT32_C(1) << i;
  return inputs;
}

static compute_status submit_chunks(fit_device_plans *device_plans, const compute_batch_step *step,
                                    fit_part *part) {
  const uint32_t inputs = inputs_of(device_plans->fit->delivery->options);
  fit_chunk **end = &part->chunks;
  compute_status status = COMPUTE_OK;
  for (int64_t done = 0; !status && done < part->rois;) {
    const int64_t rows = chunk_rows(part->rois - done);
    fit_plan *plan;
    status = device_plans_get(device_plans, step->items, rows, inputs, &plan);
    if (!status) status = chunk_take(device_plans, rows, inputs, end);
    if (status) break;
    fit_chunk *chunk = *end;
    end = &chunk->next;
    chunk->count = part->rois - done < rows ? part->rois - done : rows;
    fill_chunk(part, done, chunk);
    status = chunk_submit(chunk, plan, step->inputs[0], step->queue);
    done += chunk->count;
  }
  return status;
}

static compute_status work_on(compute_fit *fit, const compute_batch_step *step, fit_part *part) {
  const compute_fit_run_options *options = fit->delivery->options;
  fit_device_plans *device_plans;
  compute_status status = device_plans_of(fit, step->device, &device_plans);
  if (status) return status;
  if (fit->find) {
    const int64_t start = clock_now();
    status = movie_find(device_plans, step, part);
    atomic_fetch_add(&fit->finding, clock_now() - start);
  } else if (options->count > 0) {
    part->first_roi = roi_of_frame(options, part->first);
    part->rois = roi_of_frame(options, part->first + part->frames) - part->first_roi;
  }
  return !status ? submit_chunks(device_plans, step, part) : status;
}

static compute_status step(void *user, const compute_batch_step *step) {
  compute_fit *fit = user;
  fit_part *part = base_allocate(1, sizeof *part);
  if (!part)
    return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a batch");
  drop_parts(take_parts(fit, step->first, step->items));
  part->first = step->first;
  part->frames = step->items;
  const compute_status status = work_on(fit, step, part);
  if (!status) {
    put_part(fit, part);
    return status;
  }
  compute_error error; /* wait, because submitted work may still use the chunks */
  compute_error_get(fit->context, &error);
  if (step->queue) (void)compute_queue_wait(step->queue);
  if (error.status == status) error_restore(fit->context, &error);
  part_free(part);
  return status;
}

/* ---- Delivering ---------------------------------------------------------------------------- */

/* Returns the corners of all parts as one array: the caller's array, or the found corners. */
static compute_status collect_corners(fit_delivery *d, const fit_part *parts, int64_t rois,
                                      int32_t **made, const int32_t **corners) {
  *made = NULL;
  *corners = d->options->corners;
  if (!d->fit->find) {
    if (*corners) *corners += 3 * d->summary.count;
    return COMPUTE_OK;
  }
  *corners = parts->corners;
  if (!parts->next) return COMPUTE_OK;
  *made = base_allocate((uint64_t)rois + 1, 3 * sizeof **made);
  *corners = *made;
  if (!*made)
    return error_set(d->fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for corners");
  int64_t done = 0;
  for (const fit_part *p = parts; p; done += p->rois, p = p->next)
    if (p->rois > 0) memcpy(*made + 3 * done, p->corners, (size_t)p->rois * 3 * sizeof **made);
  return COMPUTE_OK;
}

static compute_status deliver_parts(fit_delivery *d, const fit_part *parts, int64_t frames) {
  const int32_t *corners;
  int32_t *made;
  int64_t rois = 0, place = 0;
  for (const fit_part *p = parts; p; p = p->next) rois += p->rois;
  compute_status status = collect_corners(d, parts, rois, &made, &corners);
  if (!status) status = delivery_begin(d, rois);
  for (const fit_part *p = parts; !status && p; p = p->next)
    for (const fit_chunk *c = p->chunks; c; place += c->count, c = c->next)
      delivery_take(d, place, c->count, c->host_records);
  if (!status) status = delivery_end(d, rois, corners, frames);
  base_release(made);
  return status;
}

static compute_status deliver(void *user, int64_t first, int64_t items, const void *data) {
  fit_delivery *d = user;
  fit_part *parts = take_parts(d->fit, first, items);
  (void)data;
  if (!parts)
    return error_set(d->fit->context, COMPUTE_ERROR_INTERNAL, operation,
                     "the fits of frame %" PRId64 " are lost", first);
  const compute_status status = deliver_parts(d, parts, first + items);
  drop_parts(parts);
  return status;
}

/* ---- Making and running -------------------------------------------------------------------- */

/* Returns the default number of frames per batch. The iterator considers only the bytes of frames.
 * Here the work is in the ROIs, and few of them do not fill a device. */
static int64_t usual_batch(const compute_fit *fit) {
  const int64_t frame =
      fit->frame_rows * fit->frame_columns * (int64_t)compute_dtype_size(fit->dtype);
  const int64_t frames = (fit->find ? FIND_BATCH_BYTES : BATCH_BYTES) / frame;
  return frames < 1 ? 1 : frames > 1024 ? 1024 : frames;
}

/* Compiles the plans that every device will need, so that compute_fit_create reports their
 * errors. */
static compute_status compile_first(compute_fit *fit) {
  compute_batch_device_info info;
  compute_error before;
  compute_error_get(NULL, &before);
  for (size_t i = 0; compute_batch_device_at(fit->batch, i, &info) == COMPUTE_OK; i++) {
    fit_device_plans *device_plans;
    fit_plan *plan;
    compute_status status = device_plans_of(fit, info.device, &device_plans);
    fit->find_devices = (int64_t)i + 1;
    if (!status && fit->find)
      status = device_plans_get(device_plans, movie_piece(device_plans, info.batch), 0, 0, &plan);
    if (!status)
      status = device_plans_get(device_plans, info.batch, chunk_rows(1), COMPUTE_FIT_WITH_CORNERS,
                                &plan);
    if (status) return status;
  }
  error_restore(NULL, &before); /* a missing additional device is not a failure */
  return COMPUTE_OK;
}

compute_status frames_open(compute_fit *fit) {
  const compute_batch_port frame = {fit->dtype, COMPUTE_SHAPE(fit->frame_rows, fit->frame_columns)};
  const compute_batch_port mark = {COMPUTE_U8, COMPUTE_SCALAR};
  compute_batch_options options = fit_batch_options(fit);
  options.step = step;
  options.inputs = &frame;
  options.input_count = 1;
  options.outputs = &mark;
  if (options.batch == 0 && options.memory == 0) options.batch = usual_batch(fit);
  const compute_status status = compute_batch_create(fit->context, &options, &fit->batch);
  return !status ? compile_first(fit) : status;
}

/* Checks that all corners were in frames of the source. */
static compute_status check_end(const compute_fit *fit, const fit_delivery *d) {
  const compute_fit_run_options *options = d->options;
  if (fit->find || d->summary.count == options->count) return COMPUTE_OK;
  return error_set(fit->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "corners[%" PRId64 "]: frame %d, but the source ended after %" PRId64 " frames",
                   d->summary.count, (int)options->corners[3 * d->summary.count],
                   d->summary.frames);
}

compute_status frames_run(compute_fit *fit, const compute_fit_run_options *options,
                          fit_delivery *delivery) {
  const compute_batch_sink sink = {.write = deliver, .user = delivery};
  if (options->frames == 0) return COMPUTE_OK;
  fit->delivery = delivery;
  compute_status status =
      fit_run_batch(fit, fit->batch,
                    &(compute_batch_run_options){.items = options->frames,
                                                 .sources = &options->pixels,
                                                 .sinks = &sink,
                                                 .progress = options->progress,
                                                 .progress_user = options->progress_user,
                                                 .progress_seconds = options->progress_seconds},
                    delivery);
  fit->delivery = NULL;
  drop_parts(take_parts(fit, 0, INT64_MAX)); /* computed after the event that ended the run */
  return !status ? check_end(fit, delivery) : status;
}

void frames_close(compute_fit *fit) {
  while (fit->device_plans) {
    fit_device_plans *next = fit->device_plans->next;
    device_plans_free(fit->device_plans);
    fit->device_plans = next;
  }
}
