/* SPDX-License-Identifier: MIT */
/* Spots on frames that are already on a device: it filters and marks, the host turns the marks into
 * corners, and the fit reads the same frames. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "fit/frames.h"
#include "tensor/tensor.h"

static const char HERE[] = "compute_fit_run";

#define FIRST_ROOM 1024               /* spots, before it is known how many there are */
#define CPU_PIXELS ((int64_t)1 << 21) /* to be searched at a time */

static compute_status short_of_memory(const compute_fit *fit) {
  return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE, "not enough memory for spots");
}

/* What the device has found. */
typedef struct finding {
  compute_tensor *spots, *response; /* on the device; response NULL if not needed */
  void *host_spots, *host_response; /* the host's copies, or NULL: it addresses the device */
  const bool *spots_data;
  const float *response_data;
} finding;

static void finding_free(finding *f) {
  compute_tensor_release(f->spots);
  compute_tensor_release(f->response);
  base_release(f->host_spots);
  base_release(f->host_response);
}

static compute_status make_tensors(const fit_device_plans *device_plans, int64_t frames,
                                   finding *f) {
  const compute_fit *fit = device_plans->fit;
  const compute_shape shape = COMPUTE_SHAPE(frames, fit->frame_rows, fit->frame_columns);
  compute_status status =
      tensor_create_private(device_plans->device, COMPUTE_BOOL, shape, &f->spots);
  if (!status && fit->spots.limit != 0)
    status = tensor_create_private(device_plans->device, COMPUTE_F32, shape, &f->response);
  return status;
}

/* A tensor's elements where the host can read them. */
static compute_status bring(const fit_device_plans *device_plans, const compute_tensor *tensor,
                            void **copy, const void **data) {
  *data = NULL;
  if (!tensor) return COMPUTE_OK;
  *data = compute_tensor_data(tensor);
  if (*data != NULL) return COMPUTE_OK;
  const size_t bytes = (size_t)tensor_dense_bytes(tensor);
  *copy = base_allocate_aligned(bytes > 0 ? bytes : 1, 64);
  if (*copy == NULL) return short_of_memory(device_plans->fit);
  *data = *copy;
  return compute_tensor_read(tensor, *copy, bytes);
}

/* `frames` of the step's frames from `first` on, through the plan for that number. */
static compute_status mark_piece(fit_device_plans *device_plans, const compute_batch_step *step,
                                 const finding *f, int64_t first, int64_t frames) {
  compute_tensor *pixels = NULL, *spots = NULL, *response = NULL;
  fit_plan *plan;
  compute_binding bindings[3];
  size_t count = 0;
  compute_status status = device_plans_get(device_plans, frames, 0, 0, &plan);
  if (!status) status = compute_tensor_slice_view(step->inputs[0], 0, first, frames, 1, &pixels);
  if (!status) status = compute_tensor_slice_view(f->spots, 0, first, frames, 1, &spots);
  if (!status && f->response)
    status = compute_tensor_slice_view(f->response, 0, first, frames, 1, &response);
  if (!status) {
    bindings[count++] = (compute_binding){.node = plan->pixels, .tensor = pixels};
    bindings[count++] = (compute_binding){.node = plan->output, .tensor = spots};
    if (response) bindings[count++] = (compute_binding){.node = plan->response, .tensor = response};
    status = compute_run_with(
        plan->plan, bindings, count,
        &(compute_run_options){.queue = step->queue, .fallback = COMPUTE_RUN_STRICT}, NULL);
  }
  if (step->queue) { /* also before the views go */
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
                                 finding *f) {
  const int64_t piece = movie_piece(device_plans, step->items);
  const void *spots = NULL, *response = NULL;
  compute_status status = make_tensors(device_plans, step->items, f);
  for (int64_t done = 0; !status && done < step->items; done += piece)
    status = mark_piece(device_plans, step, f, done,
                        step->items - done < piece ? step->items - done : piece);
  if (!status) status = bring(device_plans, f->spots, &f->host_spots, &spots);
  if (!status) status = bring(device_plans, f->response, &f->host_response, &response);
  f->spots_data = spots;
  f->response_data = response;
  return status;
}

/* Room for all spots: their number is known the second time. */
static compute_status make_corners(const compute_fit *fit, const finding *f, fit_part *part) {
  int64_t room = FIRST_ROOM;
  compute_status status = COMPUTE_ERROR_OVERFLOW;
  compute_error before;
  compute_error_get(fit->context, &before);
  for (int attempt = 0; status == COMPUTE_ERROR_OVERFLOW && attempt < 2; attempt++) {
    base_release(part->corners);
    part->corners = base_allocate((size_t)room, 3 * sizeof *part->corners);
    if (!part->corners) return short_of_memory(fit);
    status =
        compute_spot_corners(fit->context, &fit->spots, f->spots_data, f->response_data,
                             part->frames, fit->frame_rows, fit->frame_columns, fit->problem.rows,
                             fit->problem.columns, part->first, part->corners, room, &part->rois);
    room = part->rois;
  }
  if (!status) error_restore(fit->context, &before);
  return status;
}

compute_status movie_find(fit_device_plans *device_plans, const compute_batch_step *step,
                          fit_part *part) {
  finding f = {0};
  compute_status status = mark_spots(device_plans, step, &f);
  if (!status) status = make_corners(device_plans->fit, &f, part);
  finding_free(&f);
  return status;
}
