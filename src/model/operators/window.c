/* SPDX-License-Identifier: MIT */
#include "model/operators/window.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/type/shape.h"

int64_t window_dilated_size(const window *w) {
  return w->dilation * (w->size - 1) + 1;
}

/* The numbers must fit in 31 bits, so that a product of two does not overflow. */
compute_status window_list(model_call *call, const char *name, size_t count,
                           const int64_t **values) {
  size_t given;
  *values = call_attribute_ints(call, name, &given);
  if (!*values || given == 0) {
    *values = NULL;
    return COMPUTE_OK;
  }
  if (given != count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%s has %zu numbers, not %zu", name, given, count);
  for (size_t i = 0; i < count; i++)
    if ((*values)[i] > INT32_MAX || (*values)[i] < -INT32_MAX)
      return call_fail(call, COMPUTE_ERROR_OVERFLOW, "%s has %" PRId64, name, (*values)[i]);
  return COMPUTE_OK;
}

compute_status window_read_steps(model_call *call, compute_shape x, const int64_t *sizes,
                                 window *windows) {
  const size_t axes = (size_t)x.rank - 2;
  const int64_t *strides, *dilations;
  compute_status status = window_list(call, "strides", axes, &strides);
  if (!status) status = window_list(call, "dilations", axes, &dilations);
  if (status) return status;
  for (size_t i = 0; i < axes; i++) {
    windows[i] = (window){.data = shape_at(x, 2 + (int32_t)i),
                          .size = sizes[i],
                          .stride = strides ? strides[i] : 1,
                          .dilation = dilations ? dilations[i] : 1};
    if (windows[i].size < 1 || windows[i].stride < 1 || windows[i].dilation < 1 ||
        windows[i].size > INT32_MAX)
      return call_fail(call, COMPUTE_ERROR_SHAPE,
                       "windows of %" PRId64 " with stride %" PRId64 " and dilation %" PRId64,
                       windows[i].size, windows[i].stride, windows[i].dilation);
  }
  return COMPUTE_OK;
}

/* SAME padding: the number of windows is the data's size over the stride, rounded up. */
static void pad_same(window *w, bool upper) {
  w->count = divide_up(w->data, w->stride);
  const int64_t total = max_i64((w->count - 1) * w->stride + window_dilated_size(w) - w->data, 0);
  w->before = upper ? total / 2 : total - total / 2;
  w->after = total - w->before;
}

static compute_status count_windows(model_call *call, bool ceiling, window *w) {
  const int64_t left = w->data + w->before + w->after - window_dilated_size(w);
  if (left < 0 && !(ceiling && left + w->stride > 0))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "a window spans %" PRId64 " elements, more than the %" PRId64
                     " of the data and %" PRId64 " of its padding",
                     window_dilated_size(w), w->data, w->before + w->after);
  w->count = (ceiling ? divide_up(max_i64(left, 0), w->stride) : left / w->stride) + 1;
  if (ceiling && w->count > 1 && (w->count - 1) * w->stride >= w->data + w->before) w->count--;
  return COMPUTE_OK;
}

compute_status window_take(model_call *call, compute_shape x, const int64_t *sizes, bool ceiling,
                           window *windows) {
  const size_t axes = (size_t)x.rank - 2;
  const char *automatic = call_attribute_s(call, "auto_pad", "NOTSET");
  const bool given = strcmp(automatic, "NOTSET") == 0, upper = strcmp(automatic, "SAME_UPPER") == 0;
  const bool same = upper || strcmp(automatic, "SAME_LOWER") == 0;
  const int64_t *pads = NULL;
  compute_status status = window_read_steps(call, x, sizes, windows);
  if (!status && given) status = window_list(call, "pads", 2 * axes, &pads);
  if (!status && !given && !same && strcmp(automatic, "VALID") != 0)
    status = call_fail(call, COMPUTE_ERROR_FORMAT, "auto_pad is '%s'", automatic);
  for (size_t i = 0; i < axes && !status; i++) {
    if (pads) {
      windows[i].before = pads[i];
      windows[i].after = pads[axes + i];
    }
    if (same)
      pad_same(&windows[i], upper);
    else
      status = count_windows(call, ceiling && given, &windows[i]);
  }
  return status;
}
