/* SPDX-License-Identifier: MIT */
/* How windows (of filters and pools) lie along the spatial axes of a tensor [n, c, spatial…]. */
#ifndef MODEL_OPERATORS_WINDOW_H
#define MODEL_OPERATORS_WINDOW_H

#include "model/record.h"

enum { WINDOW_MOST = COMPUTE_MAX_RANK - 2 };

/* Windows along one axis. Window i has the elements i·stride − before + k·dilation of the data. */
typedef struct window {
  int64_t data;           /* elements */
  int64_t size, dilation; /* k is 0 … size − 1 */
  int64_t stride;
  int64_t before, after; /* padding, or elements that are left out if negative */
  int64_t count;         /* windows */
} window;

/* One window of one element: the axis that one-dimensional data lacks. */
#define WINDOW_NONE                                                                                \
  { 1, 1, 1, 1, 0, 0, 1 }

/* dilation · (size − 1) + 1 */
int64_t window_reach(const window *w);

/* The spatial axes, for windows of `sizes`, after strides, dilations, pads and auto_pad. `ceiling`:
 * windows that begin inside count although they end outside. */
compute_status window_take(model_call *call, compute_shape x, const int64_t *sizes, bool ceiling,
                           window *windows);

/* All but the padding and the count, for those that find them in another way. */
compute_status window_read_steps(model_call *call, compute_shape x, const int64_t *sizes,
                                 window *windows);

/* The attribute `name` with `count` numbers, or NULL if the node does not have it. */
compute_status window_list(model_call *call, const char *name, size_t count,
                           const int64_t **values);

#endif
