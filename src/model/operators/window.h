/* SPDX-License-Identifier: MIT */
/* The placement of filter and pooling windows along the spatial axes of [n, c, spatial…]. */
#ifndef MODEL_OPERATORS_WINDOW_H
#define MODEL_OPERATORS_WINDOW_H

#include "model/record.h"

enum { WINDOW_MOST = COMPUTE_MAX_RANK - 2 };

/* Windows along one axis. Window i covers the elements i·stride − before + k·dilation. */
typedef struct window {
  int64_t data;           /* number of elements */
  int64_t size, dilation; /* k is 0 … size − 1 */
  int64_t stride;
  int64_t before, after; /* padding; cropping if negative */
  int64_t count;         /* number of windows */
} window;

/* One window of one element: a placeholder for an axis that the data lacks. */
#define WINDOW_NONE                                                                                \
  { 1, 1, 1, 1, 0, 0, 1 }

/* dilation · (size − 1) + 1 */
int64_t window_dilated_size(const window *w);

/* Computes the windows of `sizes` along the spatial axes from strides, dilations, pads and
 * auto_pad. `ceiling`: windows that begin inside count even if they end outside. */
compute_status window_take(model_call *call, compute_shape x, const int64_t *sizes, bool ceiling,
                           window *windows);

/* Computes all fields except padding and count, for callers that find those in another way. */
compute_status window_read_steps(model_call *call, compute_shape x, const int64_t *sizes,
                                 window *windows);

/* The attribute `name` with `count` numbers, or NULL if absent. */
compute_status window_list(model_call *call, const char *name, size_t count,
                           const int64_t **values);

#endif
