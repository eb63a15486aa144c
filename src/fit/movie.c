/* SPDX-License-Identifier: MIT */
/* Spot finding on frames that are already on a device. The device filters the frames and marks
 * spots, and the host converts the marks to corners. The fit then reads the same frames. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "fit/frames.h"

static const char operation[] = "compute_fit_run";

#define FIRST_ROOM 1024               /* spots in the first attempt, before their number is known */
#define CPU_PIXELS ((int64_t)1 << 21) /* pixels per search */

static compute_status short_of_memory(const compute_fit *fit) {
  return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for spots");
}

/* The marks that a device has found, in host memory. */
typedef struct finding {
  const bool *spots;
  const float *response;
} finding;

/* Makes the first `frames` frames of a tensor readable for the host. */
static compute_status bring(compute_tensor *tensor, void *copy, int64_t frames, const void **data) {
  compute_tensor *part = NULL;
  *data = copy ? copy : compute_tensor_data(tensor);
  if (!copy) return COMPUTE_OK;
  compute_status status = compute_tensor_slice_view(tensor, 0, 0, frames, 1, &part);
  if (!status) status = compute_tensor_read(part, copy, (size_t)tensor_dense_bytes(part));
  compute_tensor_release(part);
  return status;
}

/* Searches `frames` of the step's frames from `first` on, with the plan for this number. */
static compute_status mark_piece(fit_device_plans *device_plans, const compute_batch_step *step,
                                 const fit_marks *marks, int64_t first, int64_t frames) {
  compute_tensor *pixels = NULL, *spots = NULL, *response = NULL;
  fit_plan *plan;
  compute_binding bindings[3];
  size_t count = 0;
  compute_status status = device_plans_get(device_plans, frames, 0, 0, &plan);
  if (!status) status = compute_tensor_slice_view(step->inputs[0], 0, first, frames, 1, &pixels);
  if (!status) status = compute_tensor_slice_view(marks->spots, 0, first, frames, 1, &spots);
  if (!status && marks->response)
    status = compute_tensor_slice_view(marks->response, 0, first, frames, 1, &response);
  if (!status) {
    bindings[count++] = (compute_binding){.node = plan->pixels, .tensor = pixels};
    bindings[count++] = (compute_binding){.node = plan->output, .tensor = spots};
    if (response) bindings[count++] = (compute_binding){.node = plan->response, .tensor = response};
    status = compute_run_with(
        plan->plan, bindings, count,
        &(compute_run_options){.queue = step->queue, .fallback = COMPUTE_FALLBACK_STRICT}, NULL);
  }
  if (step->queue) { /* also on failure, before the views are released */
    compute_error error;
    if (status) compute_error_get(device_plans->fit->context, &error);
    const compute_status waited = compute_queue_wait(step->queue);
    if (!status)
      status = waited;
    else if (error.status == status)
      error_restore(device_plans->fit->context, &error);
  }
  compute_tensor_release(pixels);
  compute_tensor_release(spots);
  compute_tensor_release(response);
  return status;
}

int64_t movie_piece(const fit_device_plans *device_plans, int64_t frames) {
  const compute_fit *fit = device_plans->fit;
  const int64_t piece = CPU_PIXELS / (fit->frame_rows * fit->frame_columns);
  if (device_plans->device != fit->context->cpu || piece >= frames) return frames;
  return piece > 0 ? piece : 1;
}

static compute_status mark_spots(fit_device_plans *device_plans, const compute_batch_step *step,
                                 const fit_marks *marks, finding *f) {
  const int64_t piece = movie_piece(device_plans, step->items);
  const void *spots = NULL, *response = NULL;
  compute_status status = COMPUTE_OK;
  for (int64_t done = 0; !status && done < step->items; done += piece)
    status = mark_piece(device_plans, step, marks, done,
                        step->items - done < piece ? step->items - done : piece);
  if (!status) status = bring(marks->spots, marks->host_spots, step->items, &spots);
  if (!status && marks->response)
    status = bring(marks->response, marks->host_response, step->items, &response);
  f->spots = spots;
  f->response = response;
  return status;
}

/* Creates an array for all spots. The first attempt returns their number if the array is too
 * small. */
static compute_status make_corners(const compute_fit *fit, const finding *f, fit_part *part) {
  int64_t room = FIRST_ROOM;
  compute_status status = COMPUTE_ERROR_OVERFLOW;
  compute_error before;
  compute_error_get(fit->context, &before);
  for (int attempt = 0; status == COMPUTE_ERROR_OVERFLOW && attempt < 2; attempt++) {
    base_release(part->corners);
    part->corners = base_allocate((uint64_t)room, 3 * sizeof *part->corners);
    if (!part->corners) return short_of_memory(fit);
    status =
        compute_spot_corners(fit->context, &fit->spots, f->spots, f->response, part->frames,
                             fit->frame_rows, fit->frame_columns, fit->problem.rows,
                             fit->problem.columns, part->first, part->corners, room, &part->rois);
    room = part->rois;
  }
  if (!status) error_restore(fit->context, &before);
  return status;
}

compute_status movie_find(fit_device_plans *device_plans, const compute_batch_step *step,
                          fit_part *part) {
  finding f = {0};
  fit_marks *marks;
  compute_status status = marks_take(device_plans, step->items, &marks);
  if (status) return status;
  status = mark_spots(device_plans, step, marks, &f);
  if (!status) status = make_corners(device_plans->fit, &f, part);
  marks_give(device_plans, marks);
  return status;
}
