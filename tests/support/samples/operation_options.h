/* SPDX-License-Identifier: MIT */
/* Words of tests/operations.def for the options of builders. */
#ifndef SUPPORT_OPERATION_OPTIONS_H
#define SUPPORT_OPERATION_OPTIONS_H

#include <math.h>

#include "compute/fit.h"
#include "compute/graph_array.h"
#include "compute/graph_nn.h"
#include "compute/spots.h"

#define CONV(...)      (&(compute_conv2d_options){__VA_ARGS__})
#define CONV3(...)     (&(compute_conv3d_options){__VA_ARGS__})
#define POOL(...)      (&(compute_pool2d_options){__VA_ARGS__})
#define POOL3(...)     (&(compute_pool3d_options){__VA_ARGS__})
#define ATTENTION(...) (&(compute_attention_options){__VA_ARGS__})
#define RECURRENT(...) (&(compute_recurrent_options){__VA_ARGS__})
#define QUANTIZED(...) (&(compute_quantized_options){__VA_ARGS__})
#define SPOTS(...)     (&(compute_spot_options){__VA_ARGS__})
#define FIT(...)       (&(compute_fit_problem){.model = COMPUTE_FIT_XYNB, __VA_ARGS__})

/* An operand that is left out. */
static const compute_node none;

static const compute_resize_options linear_resize = {.mode = COMPUTE_RESIZE_LINEAR,
                                                     .antialias = true};
static const compute_resize_options cubic_resize = {.mode = COMPUTE_RESIZE_CUBIC,
                                                    .coordinates = COMPUTE_RESIZE_ALIGN_CORNERS};

/* The first part of an axis with 4 or 5 elements, joined to the second: the sizes are first and the
 * rest of 5. */
static inline compute_node split_at(compute_graph *g, compute_node x, int32_t axis, int64_t first) {
  compute_node parts[2];
  const compute_shape shape = compute_node_shape(g, x);
  const int32_t at = axis < 0 ? axis + shape.rank : axis;
  const int64_t size = at >= 0 && at < shape.rank ? shape.size[at] : 0;
  const int64_t sizes[2] = {first, (int64_t)((uint64_t)size - (uint64_t)first)};
  compute_split(g, x, axis, sizes, 2, parts);
  return parts[1];
}

/* Two parts in the other order. */
static inline compute_node split_of(compute_graph *g, compute_node x) {
  compute_node parts[2];
  compute_split(g, x, 1, (const int64_t[]){2, 3}, 2, parts);
  return compute_concat(g, (const compute_node[]){parts[1], parts[0]}, 2, 1);
}

static inline compute_node top_places(compute_graph *g, compute_node x) {
  compute_node positions;
  compute_top_k(g, x, 2, 1, true, &positions);
  return positions;
}

#endif
