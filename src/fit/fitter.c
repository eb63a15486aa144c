/* SPDX-License-Identifier: MIT */
/* Creation and release of fitters, and checks of their options. */
#include "fit/fitter.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/registry.h"
#include "fit/model.h"
#include "fit/spline.h"

static object_kind fitter_object = {.name = "fitter", .plural = "fitters"};

static const char operation[] = "compute_fit_create";

/* ---- Checks -------------------------------------------------------------------------------- */

static compute_status refuse(const compute_fit *fit, const char *what) {
  return error_set(fit->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s", what);
}

static compute_status check_frames(compute_fit *fit, const compute_fit_options *o) {
  const compute_fit_problem *p = &o->problem;
  fit->frame_rows = o->frame_rows;
  fit->frame_columns = o->frame_columns;
  fit->frames = o->frame_rows != 0 && (p->flags & COMPUTE_FIT_STACK) == 0;
  fit->find = o->find;
  if ((o->frame_rows == 0) != (o->frame_columns == 0))
    return refuse(fit, "frame_rows and frame_columns: set both or neither");
  if (o->find && !fit->frames)
    return refuse(fit, "find: needs frames; set frame_rows and frame_columns");
  if (o->frame_rows == 0) return COMPUTE_OK;
  if (o->frame_rows < p->rows || o->frame_columns < p->columns || o->frame_rows > INT32_MAX ||
      o->frame_columns > INT32_MAX)
    return error_set(fit->context, COMPUTE_ERROR_SHAPE, operation,
                     "frame_rows, frame_columns: frames of %" PRId64 " × %" PRId64
                     " hold no ROI of %d × %d",
                     o->frame_rows, o->frame_columns, (int)p->rows, (int)p->columns);
  return COMPUTE_OK;
}

static compute_status check_options(compute_fit *fit, const compute_fit_options *o) {
  compute_status status = error_if_reserved(fit->context, operation, "options", o->reserved);
  if (!status)
    status = error_if_reserved(fit->context, operation, "options.spots", o->spots.reserved);
  if (status) return status;
  if (o->problem.inputs != 0)
    return refuse(fit, "problem.inputs: must be 0; it follows from the other options");
  fit->dtype = o->dtype == COMPUTE_DTYPE_NONE ? COMPUTE_F32 : o->dtype;
  if (fit->dtype != COMPUTE_F32 && fit->dtype != COMPUTE_U16)
    return error_set(fit->context, COMPUTE_ERROR_DTYPE, operation,
                     "dtype: pixels must be f32 or u16");
  return check_frames(fit, o);
}

/* ---- Maps ---------------------------------------------------------------------------------- */

static compute_status take_map(compute_fit *fit, int index, const void *values, int64_t rows,
                               int64_t columns) {
  const bool large = fit->frame_rows != 0;
  const int64_t want_rows = large ? fit->frame_rows : fit->problem.rows;
  const int64_t want_columns = large ? fit->frame_columns : fit->problem.columns;
  compute_device *device =
      fit->context->cpu ? fit->context->cpu : registry_default_device(fit->context);
  if (!values) return COMPUTE_OK;
  if (rows != want_rows || columns != want_columns)
    return error_set(fit->context, COMPUTE_ERROR_SHAPE, operation,
                     "%s: a map of %" PRId64 " × %" PRId64 "; the %s have %" PRId64 " × %" PRId64,
                     fit_input_name(1 + index), rows, columns, large ? "frames" : "ROIs", want_rows,
                     want_columns);
  return compute_tensor_from_host(device, fit_input_dtype(1 + index), COMPUTE_SHAPE(rows, columns),
                                  values, &fit->tables[index]);
}

/* Takes the spline's coefficients. They must be numbers: a NaN would make fits fail without a
 * visible reason. */
static compute_status take_spline(compute_fit *fit, const float *values) {
  const int32_t *cells = fit->problem.cells;
  const int64_t count = (int64_t)cells[0] * cells[1] * cells[2];
  compute_device *device =
      fit->context->cpu ? fit->context->cpu : registry_default_device(fit->context);
  if (fit->problem.model != COMPUTE_FIT_SPLINE) return COMPUTE_OK;
  const compute_status status = spline_check(fit->context, operation, &fit->problem, values);
  if (status) return status;
  return compute_tensor_from_host(device, COMPUTE_F32,
                                  COMPUTE_SHAPE(count, COMPUTE_FIT_SPLINE_COEFFICIENTS), values,
                                  &fit->tables[FIT_MAP_COUNT]);
}

static compute_status take_maps(compute_fit *fit, const compute_fit_options *o) {
  compute_status status = take_map(fit, 0, o->offset.values, o->offset.rows, o->offset.columns);
  if (!status) status = take_map(fit, 1, o->gain.values, o->gain.rows, o->gain.columns);
  if (!status) status = take_map(fit, 2, o->variance.values, o->variance.rows, o->variance.columns);
  if (!status) status = take_map(fit, 3, o->mask, o->mask_rows, o->mask_columns);
  return status;
}

/* ---- Making and releasing ------------------------------------------------------------------ */

/* Stores the problem with the inputs and outputs that the fitter computes. */
static compute_status take_problem(compute_fit *fit, const compute_fit_options *o) {
  compute_fit_problem problem = o->problem;
  if (o->offset.values) problem.inputs |= COMPUTE_FIT_WITH_OFFSET;
  if (o->gain.values) problem.inputs |= COMPUTE_FIT_WITH_GAIN;
  if (o->variance.values) problem.inputs |= COMPUTE_FIT_WITH_VARIANCE;
  if (o->mask) problem.inputs |= COMPUTE_FIT_WITH_MASK;
  if (!fit->frames) problem.flags |= COMPUTE_FIT_STACK & o->problem.flags;
  const compute_status status = fit_problem_take(fit->context, operation, &problem, &fit->problem);
  if (status) return status;
  fit->wanted = fit->problem.outputs;
  fit->problem.flags = problem.flags; /* used when corners exist */
  fit->problem.outputs |= FIT_COUNTED;
  fit->corners_in_maps =
      !fit->frames && fit->frame_rows != 0 && (fit->problem.inputs & FIT_MAPS) != 0;
  return COMPUTE_OK;
}

static compute_status take_devices(compute_fit *fit, const compute_fit_options *o) {
  fit->batch_items = o->batch;
  fit->slots = o->slots;
  fit->memory = o->memory;
  fit->fallback = o->fallback;
  fit->flags = o->flags;
  fit->spots = o->spots;
  fit->name = base_duplicate(o->name ? o->name : "fit");
  if (!fit->name) goto short_of_memory;
  if (!o->devices || o->device_count == 0 || o->device_count > 64) {
    fit->device_count = o->device_count; /* the iterator reports errors */
    return o->device_count == 0 ? COMPUTE_OK : refuse(fit, "devices and device_count do not match");
  }
  fit->devices = base_allocate(o->device_count, sizeof *fit->devices);
  if (!fit->devices) goto short_of_memory;
  memcpy(fit->devices, o->devices, o->device_count * sizeof *fit->devices);
  fit->device_count = o->device_count;
  return COMPUTE_OK;

short_of_memory:
  return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a fitter");
}

compute_status compute_fit_create(compute_context *context, const compute_fit_options *options,
                                  compute_fit **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (result) *result = NULL;
  if (!context || !options || !result)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     !context   ? "context"
                     : !options ? "options"
                                : "fit");
  compute_fit *fit = base_allocate(1, sizeof *fit);
  if (!fit)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a fitter");
  fit->context = context;
  pthread_mutex_init(&fit->mutex, NULL);
  pthread_mutex_init(&fit->parts_mutex, NULL);
  context_object_created(context, &fitter_object, fit);
  compute_status status = check_options(fit, options);
  if (!status) status = take_problem(fit, options);
  if (!status) status = take_maps(fit, options);
  if (!status) status = take_spline(fit, options->problem.spline);
  if (!status) status = take_devices(fit, options);
  if (!status)
    status = fit->frames ? frames_open(fit)
                         : stack_open(fit, fit->corners_in_maps ? COMPUTE_FIT_WITH_CORNERS : 0);
  if (status) {
    compute_fit_release(fit);
    return status;
  }
  *result = fit;
  return COMPUTE_OK;
}

void compute_fit_release(compute_fit *fit) {
  if (IS_INHERITED(fit, context)) return;
  if (!fit) return;
  compute_context *context = fit->context;
  compute_error before;
  compute_error_get(context, &before);
  if (fit->state == FIT_STARTED || fit->state == FIT_ENDED) {
    compute_fit_cancel(fit);
    pthread_join(fit->thread, NULL);
  }
  compute_batch_release(fit->batch);
  frames_close(fit);
  for (int i = 0; i < FIT_TABLES; i++) compute_tensor_release(fit->tables[i]);
  base_release(fit->devices);
  base_release(fit->name);
  pthread_mutex_destroy(&fit->mutex);
  pthread_mutex_destroy(&fit->parts_mutex);
  context_object_leaves(context, fit);
  base_release(fit);
  error_restore(context, &before);
  context_object_released(context, &fitter_object);
}
