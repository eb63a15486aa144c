/* SPDX-License-Identifier: MIT */
/* Pools along any number of axes. Maxima and sums can be taken along one axis after the other, so
 * that all are made of the library's pools along two; where these cannot say how the windows lie,
 * the data is padded first. */
#include "model/operators.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arithmetic.h"
#include "compute/call.h"
#include "model/operators/op.h"
#include "model/operators/window.h"

typedef enum pool_kind {
  POOL_MAX,
  POOL_MEAN,        /* of the elements inside the data */
  POOL_MEAN_PADDED, /* of the elements inside data and padding */
  POOL_SUM
} pool_kind;

typedef struct pool {
  model_call *call;
  compute_graph *graph;
  pool_kind kind;
  int32_t axes;
  window windows[WINDOW_MOST];
} pool;

/* ---- Along two axes -------------------------------------------------------------------------- */

/* The end of the last window, which may lie outside. */
static int64_t last_end(const window *w) {
  return (w->count - 1) * w->stride - w->before + window_reach(w);
}

/* Whether the library's pool with w->before on both sides has the same windows. */
static bool is_direct(const window *w, pool_kind kind, bool ceiling) {
  const int64_t left = w->data + 2 * w->before - window_reach(w);
  if (w->before < 0 || w->before > w->size / 2 || left < 0) return false;
  int64_t count = (ceiling ? divide_up(left, w->stride) : left / w->stride) + 1;
  if (ceiling && (count - 1) * w->stride >= w->data + w->before) count--;
  if (count != w->count) return false;
  if (kind == POOL_MAX) return true;
  if (w->dilation != 1) return false;
  if (kind == POOL_MEAN) return true;
  return last_end(w) <= w->data + w->before &&
         (kind == POOL_SUM || last_end(w) <= w->data + w->after);
}

/* How often the mean over all elements of a window goes into the mean over those that count. */
static compute_node correction(const pool *p, const window *w, int32_t axis, compute_dtype dtype) {
  const int64_t first = p->kind == POOL_MEAN ? 0 : -w->before;
  const int64_t end = w->data + (p->kind == POOL_MEAN ? 0 : w->after);
  double *factors = call_allocate(p->call, (size_t)w->count, sizeof *factors);
  if (!factors) return (compute_node){0};
  for (int64_t i = 0; i < w->count; i++) {
    const int64_t begin = i * w->stride - w->before;
    /* Elements before `first` and before `end`. */
    const int64_t skipped = min_i64(divide_up(max_i64(first - begin, 0), w->dilation), w->size);
    const int64_t taken = min_i64(divide_up(max_i64(end - begin, 0), w->dilation), w->size);
    factors[i] = (double)w->size / (double)(taken - skipped);
  }
  return op_along(p->call, op_numbers(p->call, dtype, COMPUTE_SHAPE(w->count), factors), axis, 4);
}

static compute_node pad_windows(const pool *p, compute_node x, int32_t axis, const window *w) {
  return op_pad(p->call, x, axis, w->before, last_end(w) - w->data,
                p->kind == POOL_MAX ? -(double)INFINITY : 0);
}

/* Means of windows with dilation: a convolution of each channel. */
static compute_node mean_by_convolution(const pool *p, compute_node x, const window *rows,
                                        const window *columns) {
  compute_graph *graph = p->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  const compute_conv2d_options options = {.stride = {rows->stride, columns->stride},
                                          .dilation = {rows->dilation, columns->dilation}};
  const compute_node planes = compute_reshape(
      graph, x, COMPUTE_SHAPE(shape.size[0] * shape.size[1], 1, shape.size[2], shape.size[3]));
  const compute_node filter = compute_full(graph, compute_node_dtype(graph, x),
                                           COMPUTE_SHAPE(1, 1, rows->size, columns->size),
                                           1 / ((double)rows->size * (double)columns->size));
  const compute_node y = compute_conv2d(graph, planes, filter, (compute_node){0}, &options);
  return compute_reshape(graph, y,
                         COMPUTE_SHAPE(shape.size[0], shape.size[1], rows->count, columns->count));
}

/* x is [n, c, h, w]. */
static compute_node pool_two(const pool *p, compute_node x, const window *rows,
                             const window *columns) {
  const window *const windows[] = {rows, columns};
  compute_pool2d_options options = {.exclude_padding = p->kind == POOL_MEAN};
  const bool spread = p->kind != POOL_MAX && (rows->dilation != 1 || columns->dilation != 1);
  bool direct[2];
  for (int i = 0; i < 2; i++)
    options.ceil |= !is_direct(windows[i], p->kind, false) && is_direct(windows[i], p->kind, true);
  for (int i = 0; i < 2; i++) {
    const window *w = windows[i];
    direct[i] = !spread && is_direct(w, p->kind, options.ceil);
    if (!direct[i]) x = pad_windows(p, x, 2 + i, w);
    options.size[i] = w->size;
    options.stride[i] = w->stride;
    options.dilation[i] = p->kind == POOL_MAX ? w->dilation : 0;
    options.padding[i] = direct[i] ? w->before : 0;
  }
  if (p->kind == POOL_MAX) return compute_max_pool2d(p->graph, x, &options);
  x = spread ? mean_by_convolution(p, x, rows, columns)
             : compute_average_pool2d(p->graph, x, &options);
  for (int i = 0; i < 2; i++)
    if (!direct[i] && p->kind != POOL_SUM)
      x = compute_mul(p->graph, x,
                      correction(p, windows[i], 2 + i, compute_node_dtype(p->graph, x)));
  if (p->kind != POOL_SUM) return x;
  const double size = (double)rows->size * (double)columns->size;
  return compute_mul(p->graph, x, call_scalar_like(p->call, x, size));
}

/* ---- Along all axes -------------------------------------------------------------------------- */

/* The last two axes together, then each of the others. */
static compute_node pool_all(const pool *p, compute_node x) {
  static const window none = WINDOW_NONE;
  compute_shape shape = compute_node_shape(p->graph, x);
  for (int32_t axis = p->axes - 1; axis >= 0; axis--) {
    const window *columns = axis == p->axes - 1 ? &p->windows[axis] : NULL;
    if (columns) axis--;
    const window *rows = axis >= 0 ? &p->windows[axis] : &none;
    const int32_t first = axis < 0 ? 2 : 2 + axis;
    const int64_t height = axis < 0 ? 1 : shape.size[first];
    const int64_t width = op_count(shape, axis < 0 ? first : first + 1, shape.rank);
    const window whole = {width, 1, 1, 1, 0, 0, width};
    const compute_node planes = compute_reshape(
        p->graph, x, COMPUTE_SHAPE(shape.size[0], op_count(shape, 1, first), height, width));
    x = pool_two(p, planes, rows, columns ? columns : &whole);
    if (axis >= 0) shape.size[first] = rows->count;
    if (columns) shape.size[shape.rank - 1] = columns->count;
    x = compute_reshape(p->graph, x, shape);
  }
  return x;
}

static compute_status begin(model_call *call, pool_kind kind, pool *p) {
  const compute_shape x = call_shape(call, 0);
  const int64_t *sizes;
  *p = (pool){.call = call, .graph = call->graph, .kind = kind, .axes = x.rank - 2};
  if (x.rank < 3)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d; it must be at least 3",
                     (int)x.rank);
  const compute_status status = window_list(call, "kernel_shape", (size_t)p->axes, &sizes);
  if (status) return status;
  if (!sizes) return call_fail(call, COMPUTE_ERROR_FORMAT, "kernel_shape is missing");
  return window_take(call, x, sizes, call_attribute_i(call, "ceil_mode", 0) != 0, p->windows);
}

/* ---- MaxPool's second output ----------------------------------------------------------------- */

/* Each window's elements as a last axis. */
static compute_node window_elements(const pool *p, compute_node x) {
  compute_axes order = {.count = 2 + 2 * p->axes, .axis = {0, 1}};
  for (int32_t axis = p->axes - 1; axis >= 0; axis--) {
    const window *w = &p->windows[axis];
    int64_t *places = call_allocate(p->call, (size_t)(w->count * w->size), sizeof *places);
    if (!places) return (compute_node){0};
    for (int64_t i = 0; i < w->count; i++)
      for (int64_t k = 0; k < w->size; k++)
        places[i * w->size + k] = i * w->stride + k * w->dilation;
    x = pad_windows(p, x, 2 + axis, w);
    x = compute_gather(p->graph, x, op_integers(p->call, COMPUTE_SHAPE(w->count, w->size), places),
                       2 + axis);
    order.axis[2 + axis] = 2 + 2 * axis;
    order.axis[2 + p->axes + axis] = 3 + 2 * axis;
  }
  compute_shape shape = compute_node_shape(p->graph, x), joined = {.rank = 3 + p->axes};
  for (int32_t i = 0; i < joined.rank - 1; i++) joined.size[i] = shape.size[order.axis[i]];
  joined.size[joined.rank - 1] = -1;
  return compute_reshape(p->graph, compute_transpose(p->graph, x, order), joined);
}

/* The place in x, counted over all of it, of the element that each window's maximum is. */
static compute_node places_of_maxima(const pool *p, compute_node x, compute_shape shape) {
  compute_graph *graph = p->graph;
  const bool columns_first = call_attribute_i(p->call, "storage_order", 0) != 0;
  const compute_node chosen = compute_argmax(graph, window_elements(p, x), 2 + p->axes, false);
  const compute_shape result = compute_node_shape(graph, chosen);
  const int64_t plane = op_count(shape, 2, shape.rank);
  const int64_t distances[2] = {shape.size[1] * plane, plane};
#define WHOLE(value) compute_scalar_i64(graph, COMPUTE_I64, value)
  compute_node place = WHOLE(0);
  for (int32_t i = 0; i < 2; i++)
    place = compute_add(
        graph, place,
        compute_mul(graph, compute_index(graph, COMPUTE_I64, result, i), WHOLE(distances[i])));
  int64_t below = 1;
  for (int32_t axis = p->axes - 1; axis >= 0; axis--) {
    const window *w = &p->windows[axis];
    const int64_t distance =
        columns_first ? op_count(shape, 2, 2 + axis) : op_count(shape, 3 + axis, shape.rank);
    compute_node k = compute_div(graph, chosen, WHOLE(below));
    k = compute_mul(graph, compute_mod(graph, k, WHOLE(w->size)), WHOLE(w->dilation));
    compute_node at = compute_index(graph, COMPUTE_I64, result, 2 + axis);
    at = compute_add(graph, compute_mul(graph, at, WHOLE(w->stride)), k);
    at = compute_clamp_i64(graph, compute_sub(graph, at, WHOLE(w->before)), 0, w->data - 1);
    place = compute_add(graph, place, compute_mul(graph, at, WHOLE(distance)));
    below *= w->size;
  }
#undef WHOLE
  return place;
}

/* A table of the elements of all windows must be possible. */
static compute_status check_places(const pool *p) {
  int64_t product = 1;
  for (int32_t i = 0; i < p->axes; i++)
    if (!checked_multiply(product, p->windows[i].size, &product) ||
        !checked_multiply(product, p->windows[i].count, &product) || product > INT64_MAX >> 8)
      return call_fail(p->call, COMPUTE_ERROR_OVERFLOW, "its windows have too many elements");
  if (2 + 2 * p->axes > COMPUTE_MAX_RANK)
    return call_fail(p->call, COMPUTE_ERROR_UNSUPPORTED, "indices of pools along %d axes",
                     (int)p->axes);
  return COMPUTE_OK;
}

static compute_status max_pool(model_call *call) {
  pool p;
  compute_status status = begin(call, POOL_MAX, &p);
  if (!status && call_wants(call, 1)) status = check_places(&p);
  if (status) return status;
  const compute_dtype dtype = call_dtype(call, 0);
  compute_node x = call_input(call, 0);
  if (!op_is_float(dtype)) x = compute_cast(p.graph, x, COMPUTE_F32); /* i8 and u8: exact */
  call_output(call, 0, op_cast(call, pool_all(&p, x), dtype));
  if (call_wants(call, 1)) call_output(call, 1, places_of_maxima(&p, x, call_shape(call, 0)));
  return COMPUTE_OK;
}

/* ---- The other pools ------------------------------------------------------------------------- */

static compute_status average_pool(model_call *call) {
  pool p;
  const bool padded = call_attribute_i(call, "count_include_pad", 0) != 0;
  const compute_status status = begin(call, padded ? POOL_MEAN_PADDED : POOL_MEAN, &p);
  return status ? status : call_output(call, 0, pool_all(&p, call_input(call, 0)));
}

static compute_status lp_pool(model_call *call) {
  pool p;
  const double power = (double)call_attribute_i(call, "p", 2);
  const compute_status status = begin(call, POOL_SUM, &p);
  if (status) return status;
  const compute_node x = op_wide(call, call_input(call, 0));
  const compute_node sum = pool_all(&p, op_power_of_magnitude(call, x, power));
  return call_output(call, 0, op_cast(call, op_root(call, sum, power), call_dtype(call, 0)));
}

static compute_status global_average_pool(model_call *call) {
  const compute_axes axes = op_axes(2, call_shape(call, 0).rank);
  return call_output(call, 0, compute_mean(call->graph, call_input(call, 0), axes, true));
}

static compute_status global_max_pool(model_call *call) {
  const compute_axes axes = op_axes(2, call_shape(call, 0).rank);
  return call_output(call, 0, compute_max(call->graph, call_input(call, 0), axes, true));
}

static compute_status global_lp_pool(model_call *call) {
  const double power = (double)call_attribute_i(call, "p", 2);
  const compute_axes axes = op_axes(2, call_shape(call, 0).rank);
  compute_node x = op_wide(call, call_input(call, 0));
  x = compute_sum(call->graph, op_power_of_magnitude(call, x, power), axes, true);
  return call_output(call, 0, op_cast(call, op_root(call, x, power), call_dtype(call, 0)));
}

/* ---- MaxUnpool ------------------------------------------------------------------------------- */

/* The shape to which the indices refer. */
static compute_status unpooled_shape(model_call *call, compute_shape *shape) {
  const size_t axes = (size_t)shape->rank - 2;
  const int64_t *sizes, *strides, *pads;
  compute_status status = window_list(call, "kernel_shape", axes, &sizes);
  if (!status) status = window_list(call, "strides", axes, &strides);
  if (!status) status = window_list(call, "pads", 2 * axes, &pads);
  if (status) return status;
  if (!sizes) return call_fail(call, COMPUTE_ERROR_FORMAT, "kernel_shape is missing");
  for (size_t i = 0; i < axes; i++) {
    int64_t size;
    const int64_t padding = pads ? pads[i] + pads[axes + i] : 0;
    if (!checked_multiply(shape->size[2 + i] - 1, strides ? strides[i] : 1, &size) ||
        !checked_add(size, sizes[i] - padding, &size) || size < 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its result has no size along spatial axis %zu",
                       i);
    shape->size[2 + i] = size;
  }
  int64_t count;
  status = compute_shape_count(*shape, &count);
  return status ? call_fail(call, status, "its result cannot be counted") : COMPUTE_OK;
}

/* Windows that overlap have the same maximum: it is written as often, and must not be added. */
static compute_node scatter(model_call *call, compute_node x, compute_node places, int64_t size) {
  compute_graph *graph = call->graph;
  const compute_shape flat = COMPUTE_SHAPE(-1);
  x = compute_reshape(graph, x, flat);
  places = compute_reshape(graph, places, flat);
  const compute_node ones =
      compute_full(graph, compute_node_dtype(graph, x), compute_node_shape(graph, x), 1);
  const compute_node times = compute_scatter_add(graph, ones, places, 0, size);
  const compute_node sum = compute_scatter_add(graph, x, places, 0, size);
  return compute_div(graph, sum, compute_maximum(graph, times, call_scalar_like(call, x, 1)));
}

static compute_status max_unpool(model_call *call) {
  compute_shape shape = call_shape(call, 0);
  const int64_t *sizes = NULL;
  size_t count = 0;
  if (shape.rank < 3 || !compute_shape_equal(shape, call_shape(call, 1)))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "data and indices need the same shape, of rank 3 "
                     "at least");
  compute_status status = unpooled_shape(call, &shape);
  if (!status && call_has(call, 2)) status = call_integers(call, 2, &sizes, &count);
  if (status) return status;
  if (sizes && count != (size_t)shape.rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "output_shape has %zu numbers, not %d", count,
                     (int)shape.rank);
  compute_node y =
      scatter(call, call_input(call, 0), call_input(call, 1), op_count(shape, 0, shape.rank));
  y = compute_reshape(call->graph, y, shape);
  for (int32_t i = 0; sizes && i < shape.rank; i++)
    y = op_pad(call, y, i, 0, sizes[i] - shape.size[i], 0);
  return call_output(call, 0, y);
}

/* ---- Regions of interest --------------------------------------------------------------------- */

/* How many points a bin is read at depends on the regions, so that these are functions on the CPU.
 */
typedef struct region_options {
  double scale;
  int64_t ratio; /* points along each side of a bin; 0: as many as it has elements */
  bool maximum, half_pixel;
} region_options;

/* A bin of a region: its first point, and the distance of points, along one axis. */
typedef struct region_side {
  double begin, step;
  int64_t points;
} region_side;

enum { MOST_POINTS = 1 << 16 };

static bool place_side(const region_options *o, double from, double to, int64_t bin, int64_t bins,
                       region_side *side) {
  const double shift = o->half_pixel ? 0.5 : 0;
  const double begin = from * o->scale - shift;
  double length = to * o->scale - shift - begin;
  if (!o->half_pixel && length < 1) length = 1;
  const double size = length / (double)bins, points = o->ratio ? (double)o->ratio : ceil(size);
  if (!(points <= MOST_POINTS)) return false;
  side->points = points > 0 ? (int64_t)points : 0;
  side->step = size / points;
  side->begin = begin + (double)bin * size + side->step / 2;
  return isfinite(begin);
}

/* Two neighbours along an axis, and the weight of the second; false outside of the data. */
typedef struct neighbours {
  int64_t low, high;
  double part;
} neighbours;

static bool find_neighbours(double at, int64_t size, neighbours *n) {
  if (!(at >= -1 && at <= (double)size)) return false;
  at = max_f64(at, 0);
  n->low = min_i64((int64_t)at, size - 1);
  n->high = min_i64(n->low + 1, size - 1);
  n->part = n->high > n->low ? at - (double)n->low : 0;
  return true;
}

static double read_point(const region_options *o, const float *plane, int64_t width,
                         const neighbours *y, const neighbours *x) {
  const double a = (1 - y->part) * (1 - x->part) * (double)plane[y->low * width + x->low];
  const double b = (1 - y->part) * x->part * (double)plane[y->low * width + x->high];
  const double c = y->part * (1 - x->part) * (double)plane[y->high * width + x->low];
  const double d = y->part * x->part * (double)plane[y->high * width + x->high];
  return o->maximum ? fmax(fmax(a, b), fmax(c, d)) : a + b + c + d;
}

/* One bin of one channel. */
static double read_bin(const region_options *o, const float *plane, const compute_shape *shape,
                       const region_side *rows, const region_side *columns) {
  const int64_t height = shape->size[2], width = shape->size[3];
  double result = 0;
  bool first = true;
  for (int64_t i = 0; i < rows->points; i++)
    for (int64_t j = 0; j < columns->points; j++) {
      neighbours y, x;
      const bool inside = find_neighbours(rows->begin + (double)i * rows->step, height, &y) &&
                          find_neighbours(columns->begin + (double)j * columns->step, width, &x);
      const double value = inside ? read_point(o, plane, width, &y, &x) : 0;
      if (!o->maximum)
        result += value;
      else
        result = first ? value : fmax(result, value);
      first = false;
    }
  const int64_t points = rows->points * columns->points;
  return o->maximum || points == 0 ? result : result / (double)points;
}

/* The image of region r, or an error. */
static compute_status image_of(const compute_call_arguments *a, int64_t r, int64_t image,
                               const float **planes) {
  const compute_shape *x = &a->inputs[0].shape;
  if (image < 0 || image >= x->size[0])
    return compute_call_fail(a, COMPUTE_ERROR_INDEX,
                             "region %" PRId64 " is of image %" PRId64 " of %" PRId64, r, image,
                             x->size[0]);
  *planes = (const float *)a->inputs[0].data + image * op_count(*x, 1, 4);
  return COMPUTE_OK;
}

/* x [n, c, h, w], regions [r, 4] and images [r] → [r, c, rows, columns] */
static compute_status align_regions(void *user, const compute_call_arguments *a, int32_t part,
                                    int32_t parts) {
  const region_options *o = user;
  const compute_shape *x = &a->inputs[0].shape, *y = &a->outputs[0].shape;
  const float *corners = a->inputs[1].data;
  const int64_t *images = a->inputs[2].data;
  const int64_t bins = y->size[2] * y->size[3], plane = x->size[2] * x->size[3];
  float *result = a->outputs[0].data;
  int64_t first, end;
  compute_call_share(y->size[0] * bins, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) {
    const int64_t r = i / bins, bin = i % bins;
    const float *corner = corners + 4 * r, *planes = NULL;
    region_side rows, columns;
    const compute_status status = image_of(a, r, images[r], &planes);
    if (status) return status;
    if (!place_side(o, (double)corner[1], (double)corner[3], bin / y->size[3], y->size[2], &rows) ||
        !place_side(o, (double)corner[0], (double)corner[2], bin % y->size[3], y->size[3],
                    &columns))
      return compute_call_fail(a, COMPUTE_ERROR_INVALID_ARGUMENT,
                               "region %" PRId64 " is too large or not finite", r);
    for (int64_t c = 0; c < y->size[1]; c++)
      result[(r * y->size[1] + c) * bins + bin] =
          (float)read_bin(o, planes + c * plane, x, &rows, &columns);
  }
  return COMPUTE_OK;
}

/* Where a bin of whole elements begins and ends. */
static bool whole_side(double scale, double from, double to, int64_t bin, int64_t bins,
                       int64_t size, int64_t *first, int64_t *end) {
  const double begin = round(from * scale), length = fmax(round(to * scale) - begin + 1, 1);
  const double step = length / (double)bins;
  if (!isfinite(begin) || !isfinite(length)) return false;
  const double low = floor((double)bin * step) + begin,
               high = ceil((double)(bin + 1) * step) + begin;
  *first = (int64_t)fmin(fmax(low, 0), (double)size);
  *end = (int64_t)fmin(fmax(high, 0), (double)size);
  return true;
}

/* x [n, c, h, w] and regions [r, 5] → [r, c, rows, columns] */
static compute_status pool_regions(void *user, const compute_call_arguments *a, int32_t part,
                                   int32_t parts) {
  const region_options *o = user;
  const compute_shape *x = &a->inputs[0].shape, *y = &a->outputs[0].shape;
  const int64_t bins = y->size[2] * y->size[3], width = x->size[3];
  float *result = a->outputs[0].data;
  int64_t first, end;
  compute_call_share(y->size[0] * y->size[1] * bins, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) {
    const int64_t bin = i % bins, c = i / bins % y->size[1], r = i / bins / y->size[1];
    const float *region = (const float *)a->inputs[1].data + 5 * r, *planes = NULL;
    int64_t top, bottom, left, right;
    const double image = (double)region[0];
    const compute_status status =
        image_of(a, r, image >= 0 && image < (double)x->size[0] ? (int64_t)image : -1, &planes);
    if (status) return status;
    if (!whole_side(o->scale, (double)region[2], (double)region[4], bin / y->size[3], y->size[2],
                    x->size[2], &top, &bottom) ||
        !whole_side(o->scale, (double)region[1], (double)region[3], bin % y->size[3], y->size[3],
                    width, &left, &right))
      return compute_call_fail(a, COMPUTE_ERROR_INVALID_ARGUMENT,
                               "region %" PRId64 " is not finite", r);
    const float *plane = planes + c * x->size[2] * width;
    float most = top < bottom && left < right ? -INFINITY : 0;
    for (int64_t row = top; row < bottom; row++)
      for (int64_t column = left; column < right; column++)
        most = fmaxf(most, plane[row * width + column]);
    result[i] = most;
  }
  return COMPUTE_OK;
}

/* The call of either: `inputs` are cast to f32, but for the third. */
static compute_status call_regions(model_call *call, compute_call_function function,
                                   const region_options *options, compute_node *inputs,
                                   size_t count, int64_t rows, int64_t columns) {
  const compute_shape x = call_shape(call, 0);
  const int64_t regions = call_shape(call, 1).size[0];
  if (x.rank != 4 || x.size[2] < 1 || x.size[3] < 1 || rows < 1 || columns < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "x has rank %d, and regions %" PRId64 " × %" PRId64 " bins", (int)x.rank, rows,
                     columns);
  region_options *kept = base_allocate(1, sizeof *kept);
  if (!kept) return call_out_of_memory(call);
  *kept = *options;
  inputs[0] = op_cast(call, inputs[0], COMPUTE_F32);
  inputs[1] = op_cast(call, inputs[1], COMPUTE_F32);
  const compute_call_output output = {COMPUTE_F32,
                                      COMPUTE_SHAPE(regions, x.size[1], rows, columns)};
  const compute_call_options how = {.name = call->node->type,
                                    .flags = COMPUTE_CALL_PURE,
                                    .parts = COMPUTE_CALL_PARTS_AUTOMATIC,
                                    .release = base_release};
  const compute_node y =
      compute_call(call->graph, function, kept, inputs, count, &output, 1, &how, NULL);
  return call_output(call, 0, op_cast(call, y, call_dtype(call, 0)));
}

static compute_status roi_align(model_call *call) {
  const char *usual = call->version < 16 ? "output_half_pixel" : "half_pixel";
  const char *coordinates = call_attribute_s(call, "coordinate_transformation_mode", usual);
  const region_options options = {.scale = call_attribute_f(call, "spatial_scale", 1),
                                  .ratio = call_attribute_i(call, "sampling_ratio", 0),
                                  .maximum =
                                      strcmp(call_attribute_s(call, "mode", "avg"), "max") == 0,
                                  .half_pixel = strcmp(coordinates, "half_pixel") == 0};
  const compute_shape regions = call_shape(call, 1), images = call_shape(call, 2);
  if (regions.rank != 2 || regions.size[1] != 4 || images.rank != 1 ||
      images.size[0] != regions.size[0])
    return call_fail(call, COMPUTE_ERROR_SHAPE, "regions must be [r, 4], and their images [r]");
  if (options.ratio < 0 || options.ratio > MOST_POINTS)
    return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "sampling_ratio is %" PRId64,
                     options.ratio);
  compute_node inputs[] = {call_input(call, 0), call_input(call, 1),
                           op_cast(call, call_input(call, 2), COMPUTE_I64)};
  return call_regions(call, align_regions, &options, inputs, 3,
                      call_attribute_i(call, "output_height", 1),
                      call_attribute_i(call, "output_width", 1));
}

static compute_status max_roi_pool(model_call *call) {
  const region_options options = {.scale = call_attribute_f(call, "spatial_scale", 1)};
  const compute_shape regions = call_shape(call, 1);
  const int64_t *bins;
  const compute_status status = window_list(call, "pooled_shape", 2, &bins);
  if (status) return status;
  if (!bins || regions.rank != 2 || regions.size[1] != 5)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "regions must be [r, 5], and pooled_shape given");
  compute_node inputs[] = {call_input(call, 0), call_input(call, 1)};
  return call_regions(call, pool_regions, &options, inputs, 2, bins[0], bins[1]);
}

static const operator_row rows[] = {
    {"", "MaxPool", 1, max_pool},
    {"", "AveragePool", 1, average_pool},
    {"", "LpPool", 2, lp_pool},
    {"", "GlobalAveragePool", 1, global_average_pool},
    {"", "GlobalMaxPool", 1, global_max_pool},
    {"", "GlobalLpPool", 2, global_lp_pool},
    {"", "MaxUnpool", 9, max_unpool},
    {"", "RoiAlign", 10, roi_align},
    {"", "MaxRoiPool", 1, max_roi_pool},
};

const operator_family operators_pool = OPERATOR_FAMILY(rows);
