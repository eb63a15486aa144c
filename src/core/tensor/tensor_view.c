/* SPDX-License-Identifier: MIT */
/* Views: other shapes, strides and offsets over the same buffer. */
#include "core/tensor/tensor.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/type/shape.h"

static compute_context *context_of(const compute_tensor *tensor) {
  return tensor->buffer->device->context;
}

static compute_status check_call(const compute_tensor *tensor, const char *operation,
                                 compute_tensor **view) {
  if (view) *view = NULL;
  if (!tensor) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "tensor is NULL");
  }
  if (!view) {
    return error_set(context_of(tensor), COMPUTE_ERROR_NULL_POINTER, operation, "view is NULL");
  }
  return COMPUTE_OK;
}

static compute_status create_view(compute_tensor *tensor, const char *operation,
                                  compute_shape shape, const int64_t *strides, int64_t offset,
                                  bool read_only, compute_tensor **result) {
  compute_tensor *view = base_allocate(1, sizeof *view);
  if (!view) {
    return error_set(context_of(tensor), COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough host memory for a view's record");
  }
  atomic_init(&view->references, 1);
  view->dtype = tensor->dtype;
  view->shape = shape_normalize(shape);
  memcpy(view->strides, strides, sizeof view->strides);
  view->offset = offset;
  view->buffer = buffer_retain(tensor->buffer);
  view->read_only = tensor->read_only || read_only;
  context_object_created(context_of(tensor), &tensor_object, view);
  *result = view;
  return scope_register(view);
}

static compute_status fail_axis(const compute_tensor *tensor, const char *operation, int32_t axis) {
  char text[192];
  return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                   "axis %d is outside the rank of %s", (int)axis,
                   compute_shape_text(tensor->shape, text, sizeof text));
}

compute_status compute_tensor_slice_view(compute_tensor *tensor, int32_t axis, int64_t start,
                                         int64_t count, int64_t step, compute_tensor **view) {
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_slice_view";
  compute_status status = check_call(tensor, operation, view);
  if (status) return status;
  int32_t at = shape_axis(tensor->shape.rank, axis);
  if (at < 0) return fail_axis(tensor, operation, axis);
  char why[SHAPE_RANGE_TEXT], text[192];
  if (shape_range(tensor->shape.size[at], count, step, &start, why, sizeof why)) {
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation, "axis %d of %s: %s",
                     (int)at, compute_shape_text(tensor->shape, text, sizeof text), why);
  }
  compute_shape shape = tensor->shape;
  int64_t strides[COMPUTE_MAX_RANK];
  memcpy(strides, tensor->strides, sizeof strides);
  shape.size[at] = count;
  /* An empty view keeps the tensor's start, so that it never points past the buffer. An unused step
   * must not overflow. */
  int64_t offset = tensor->offset;
  if (shape_count(shape) > 0) {
    offset += start * strides[at] * (int64_t)compute_dtype_size(tensor->dtype);
  }
  if (count > 1) {
    strides[at] = (int64_t)((uint64_t)strides[at] * (uint64_t)step);
  }
  return create_view(tensor, operation, shape, strides, offset, false, view);
}

compute_status compute_tensor_transpose_view(compute_tensor *tensor, compute_axes order,
                                             compute_tensor **view) {
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_transpose_view";
  compute_status status = check_call(tensor, operation, view);
  if (status) return status;
  int32_t rank = tensor->shape.rank;
  uint32_t mask;
  char text[192];
  const bool reversed = order.count == 0, kept = order.count == COMPUTE_NO_AXES.count;
  if ((!reversed && !kept && order.count != rank) || !shape_axes_mask(rank, order, &mask)) {
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                     "the %d axes given are not a permutation of the axes of %s", (int)order.count,
                     compute_shape_text(tensor->shape, text, sizeof text));
  }
  compute_shape shape = {.rank = rank};
  int64_t strides[COMPUTE_MAX_RANK] = {0};
  for (int32_t i = 0; i < rank; i++) {
    int32_t from = reversed ? rank - 1 - i : kept ? i : shape_axis(rank, order.axis[i]);
    shape.size[i] = tensor->shape.size[from];
    strides[i] = tensor->strides[from];
  }
  return create_view(tensor, operation, shape, strides, tensor->offset, false, view);
}

/* Replaces a size of −1 by the inferred size. Returns false if there is no valid size. */
static bool infer_size(compute_shape *shape, int64_t count) {
  int32_t open = -1;
  int64_t known = 1;
  if (shape->rank < 0 || shape->rank > COMPUTE_MAX_RANK) return true; /* the caller reports it */
  for (int32_t i = 0; i < shape->rank; i++) {
    if (shape->size[i] == -1) {
      if (open >= 0) return false;
      open = i;
    } else if (shape->size[i] < 0 || !checked_multiply(known, shape->size[i], &known)) {
      return true;
    }
  }
  if (open < 0) return true;
  if (known == 0 || count % known != 0) return false;
  shape->size[open] = count / known;
  return true;
}

compute_status compute_tensor_reshape_view(compute_tensor *tensor, compute_shape shape,
                                           compute_tensor **view) {
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_reshape_view";
  compute_status status = check_call(tensor, operation, view);
  if (status) return status;
  char from[192], to[192];
  compute_shape_text(tensor->shape, from, sizeof from);
  compute_shape_text(shape, to, sizeof to);
  int64_t count = shape_count(tensor->shape), new_count;
  if (!infer_size(&shape, count)) {
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                     "the size -1 in %s cannot be inferred from %s", to, from);
  }
  status = shape_validate(shape, &new_count);
  if (status) {
    return error_set(context_of(tensor), status, operation, "invalid shape %s: %s", to,
                     shape_problem(shape, status));
  }
  if (new_count != count) {
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                     "%s has %" PRId64 " elements, %s has %" PRId64, from, count, to, new_count);
  }
  int64_t strides[COMPUTE_MAX_RANK];
  if (!shape_reshape_strides(tensor->shape, tensor->strides, shape, strides)) {
    return error_set_native(context_of(tensor), COMPUTE_ERROR_SHAPE, 0, operation,
                            "copy it first: compute_tensor_to_device",
                            "the strides of %s do not allow %s without a copy", from, to);
  }
  return create_view(tensor, operation, shape, strides, tensor->offset, false, view);
}

compute_status compute_tensor_broadcast_view(compute_tensor *tensor, compute_shape shape,
                                             compute_tensor **view) {
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_broadcast_view";
  compute_status status = check_call(tensor, operation, view);
  if (status) return status;
  char from[192], to[192];
  int64_t count, bytes, strides[COMPUTE_MAX_RANK];
  compute_shape_text(shape, to, sizeof to);
  status = shape_validate(shape, &count);
  if (!status && !checked_multiply(count, (int64_t)compute_dtype_size(tensor->dtype), &bytes)) {
    status = COMPUTE_ERROR_OVERFLOW;
  }
  if (status) {
    return error_set(context_of(tensor), status, operation, "invalid shape %s: %s", to,
                     shape_problem(shape, status));
  }
  if (!shape_broadcast_strides(tensor->shape, tensor->strides, shape, strides)) {
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                     "%s does not broadcast to %s",
                     compute_shape_text(tensor->shape, from, sizeof from), to);
  }
  return create_view(tensor, operation, shape, strides, tensor->offset, true, view);
}
