/* SPDX-License-Identifier: MIT */
/* Pools along 1 … 3 axes. Data with one axis gets another of size 1. */
#include "model/operators/operators.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compute/call.h"
#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "graph/node/graph.h"
#include "model/operators/op.h"
#include "model/operators/quantize.h"
#include "model/operators/window.h"

typedef enum pool_kind {
  POOL_MAX,
  POOL_MEAN,        /* of the elements inside the data */
  POOL_MEAN_PADDED, /* of the elements inside data and padding */
  POOL_SUM,
  POOL_PLACE /* index of the maximum */
} pool_kind;

typedef struct pool {
  model_call *call;
  compute_graph *graph;
  pool_kind kind;
  int32_t axes;
  bool ceiling;
  window windows[3]; /* depth, rows and columns; the last `axes` of them are used */
} pool;

static compute_status begin(model_call *call, pool_kind kind, pool *p) {
  const compute_shape x = call_shape(call, 0);
  const int64_t *sizes;
  *p = (pool){.call = call,
              .graph = call->graph,
              .kind = kind,
              .axes = x.rank - 2,
              .windows = {WINDOW_NONE, WINDOW_NONE, WINDOW_NONE}};
  if (x.rank < 3)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d; it must be at least 3",
                     (int)x.rank);
  if (p->axes > 3)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "pools along %d axes", (int)p->axes);
  const compute_status status = window_list(call, "kernel_shape", (size_t)p->axes, &sizes);
  if (status) return status;
  if (!sizes) return call_fail(call, COMPUTE_ERROR_FORMAT, "kernel_shape is missing");
  const bool given = strcmp(call_attribute_s(call, "auto_pad", "NOTSET"), "NOTSET") == 0;
  p->ceiling = given && kind != POOL_SUM && call_attribute_i(call, "ceil_mode", 0) != 0;
  return window_take(call, x, sizes, call_attribute_i(call, "ceil_mode", 0) != 0,
                     p->windows + 3 - p->axes);
}

/* A sum is computed as a mean over whole windows, so their part beyond the padding counts as
 * padding. */
static int64_t padding_after(const pool *p, const window *w) {
  const int64_t end = (w->count - 1) * w->stride - w->before + window_dilated_size(w);
  return p->kind == POOL_SUM ? max_i64(end - w->data, 0) : w->after;
}

static compute_pool3d_options options_of(const pool *p) {
  compute_pool3d_options o = {.ceil = p->ceiling, .exclude_padding = p->kind == POOL_MEAN};
  for (int i = 0; i < 3; i++) {
    const window *w = &p->windows[i];
    o.size[i] = w->size;
    o.stride[i] = w->stride;
    o.dilation[i] = w->dilation;
    o.padding[i] = w->before;
    o.padding_more[i] = padding_after(p, w) - w->before;
  }
  return o;
}

static compute_node pool_volumes(const pool *p, compute_node x) {
  const compute_pool3d_options o = options_of(p);
  if (p->kind == POOL_MAX) return compute_max_pool3d(p->graph, x, &o);
  return p->kind == POOL_PLACE ? compute_argmax_pool3d(p->graph, x, &o)
                               : compute_average_pool3d(p->graph, x, &o);
}

static compute_node pool_images(const pool *p, compute_node x) {
  const compute_pool3d_options all = options_of(p);
  compute_pool2d_options o = {.ceil = all.ceil, .exclude_padding = all.exclude_padding};
  for (int i = 0; i < 2; i++) {
    o.size[i] = all.size[1 + i];
    o.stride[i] = all.stride[1 + i];
    o.dilation[i] = all.dilation[1 + i];
    o.padding[i] = all.padding[1 + i];
    o.padding_more[i] = all.padding_more[1 + i];
  }
  if (p->kind == POOL_MAX) return compute_max_pool2d(p->graph, x, &o);
  return p->kind == POOL_PLACE ? compute_argmax_pool2d(p->graph, x, &o)
                               : compute_average_pool2d(p->graph, x, &o);
}

static compute_node apply(const pool *p, compute_node x) {
  compute_shape shape = compute_node_shape(p->graph, x);
  if (p->axes == 3) return pool_volumes(p, x);
  if (p->axes == 2) return pool_images(p, x);
  const compute_node rows = compute_reshape(
      p->graph, x, COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), 1, shape_at(shape, 2)));
  shape_set(&shape, 2, p->windows[2].count);
  return compute_reshape(p->graph, pool_images(p, rows), shape);
}

/* ---- MaxPool --------------------------------------------------------------------------------- */

/* Converts indices in x to column-major order: the first spatial axis varies fastest. */
static compute_node turn_places(const pool *p, compute_node places, compute_shape x) {
  compute_graph *graph = p->graph;
#define WHOLE(value) compute_scalar_i64(graph, COMPUTE_I64, max_i64(value, 1))
  compute_node rest = compute_mod(graph, places, WHOLE(op_count(x, 2, x.rank)));
  compute_node turned = compute_sub(graph, places, rest);
  for (int32_t axis = x.rank - 1; axis >= 2; axis--) {
    const compute_node at = compute_mod(graph, rest, WHOLE(shape_at(x, axis)));
    rest = compute_div(graph, rest, WHOLE(shape_at(x, axis)));
    turned = compute_add(graph, turned, compute_mul(graph, at, WHOLE(op_count(x, 2, axis))));
  }
#undef WHOLE
  return turned;
}

/* Returns true if bytes can be pooled before they are dequantized. */
static bool pools_bytes(const model_call *call, const pool *p) {
  bool dense = true; /* every window contains an element */
  for (int i = 0; i < 3; i++) dense = dense && p->windows[i].dilation == 1;
  return dense && !p->ceiling && !call_wants(call, 1) && quantized_is_ordered(call, 0);
}

static compute_status max_pool(model_call *call) {
  pool p;
  model_call own;
  const compute_status status = begin(call, POOL_MAX, &p);
  if (status) return status;
  if (pools_bytes(call, &p) && quantized_origin(call, 0, &own))
    return quantized_again(&own, apply(&p, call_input(&own, 0)));
  const compute_node x = call_input(call, 0);
  call_output(call, 0, apply(&p, x));
  if (!call_wants(call, 1)) return COMPUTE_OK;
  p.kind = POOL_PLACE;
  const compute_node places = apply(&p, x);
  const bool columns_first = call_attribute_i(call, "storage_order", 0) != 0;
  return call_output(call, 1,
                     columns_first ? turn_places(&p, places, call_shape(call, 0)) : places);
}

/* ---- The other pools ------------------------------------------------------------------------- */

static compute_status average_pool(model_call *call) {
  pool p;
  const bool padded = call_attribute_i(call, "count_include_pad", 0) != 0;
  const compute_status status = begin(call, padded ? POOL_MEAN_PADDED : POOL_MEAN, &p);
  return status ? status : call_output(call, 0, apply(&p, call_input(call, 0)));
}

static compute_status lp_pool(model_call *call) {
  pool p;
  const double power = (double)call_attribute_i(call, "p", 2);
  const compute_status status = begin(call, POOL_SUM, &p);
  if (status) return status;
  const compute_node x = op_wide(call, call_input(call, 0));
  compute_node sum = apply(&p, part_power_of_magnitude(call->graph, x, power));
  double size = 1;
  for (int i = 0; i < 3; i++) size *= (double)p.windows[i].size;
  sum = compute_mul(call->graph, sum, call_scalar_like(call, sum, size));
  return call_output(call, 0,
                     op_cast(call, part_root(call->graph, sum, power), call_dtype(call, 0)));
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
  const compute_node x = op_wide(call, call_input(call, 0));
  return call_output(call, 0,
                     op_cast(call, op_norm(call, x, axes, power, true), call_dtype(call, 0)));
}

/* ---- MaxUnpool ------------------------------------------------------------------------------- */

/* The shape that the indices refer to. */
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
    if (!checked_multiply(shape_at(*shape, 2 + (int32_t)i) - 1, strides ? strides[i] : 1, &size) ||
        !checked_add(size, sizes[i] - padding, &size) || size < 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its result has no size along spatial axis %zu",
                       i);
    shape_set(shape, 2 + (int32_t)i, size);
  }
  int64_t count;
  status = compute_shape_count(*shape, &count);
  return status ? call_fail(call, status, "its result has too many elements") : COMPUTE_OK;
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
  for (size_t i = 0; i < count; i++)
    if (sizes[i] < 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "output_shape has the size %" PRId64, sizes[i]);
  compute_node y = compute_max_unpool(call->graph, call_input(call, 0), call_input(call, 1), shape);
  for (int32_t i = 0; sizes && i < shape.rank; i++)
    y = op_pad(call, y, i, 0, sizes[i] - shape_at(shape, i), 0);
  return call_output(call, 0, y);
}

/* ---- Regions of interest --------------------------------------------------------------------- */

/* The number of sample points per bin depends on the regions, so these are host functions on the
 * CPU. */
typedef struct region_options {
  double scale;
  int64_t ratio; /* points along each side of a bin; 0: one per element */
  bool maximum, half_pixel;
} region_options;

/* A bin of a region along one axis: its first point and the distance between points. */
typedef struct region_side {
  double begin, step;
  int64_t points;
} region_side;

/* Limits per side and per bin, because a file may request any number. */
enum { MOST_POINTS = 1 << 16, MOST_IN_BIN = 1 << 24 };

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

/* Two neighbours along an axis and the second one's weight; false outside of the data. */
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

/* A sample point: four elements of a plane with their weights. at[0] is −1 outside of the data. */
typedef struct region_point {
  int64_t at[4];
  double weight[4];
} region_point;

enum { POINTS = 64, CHANNELS = 64 }; /* block sizes */

static region_point find_point(const compute_shape *shape, const region_side *rows, int64_t i,
                               const region_side *columns, int64_t j) {
  const int64_t width = shape_at(*shape, 3);
  neighbours y, x;
  if (!find_neighbours(rows->begin + (double)i * rows->step, shape_at(*shape, 2), &y) ||
      !find_neighbours(columns->begin + (double)j * columns->step, width, &x))
    return (region_point){{-1}, {0}};
  return (region_point){
      {y.low * width + x.low, y.low * width + x.high, y.high * width + x.low,
       y.high * width + x.high},
      {(1 - y.part) * (1 - x.part), (1 - y.part) * x.part, y.part * (1 - x.part), y.part * x.part}};
}

/* fmax without a call: of a NaN and a number, the number. */
static inline double larger(double a, double b) {
  return a > b || b != b ? a : b;
}

/* Four weighted elements of a point; zeros outside of the data. */
static inline void weigh(const float *plane, const region_point *p, double value[4]) {
  const bool inside = p->at[0] >= 0;
  for (int k = 0; k < 4; k++) value[k] = inside ? p->weight[k] * (double)plane[p->at[k]] : 0;
}

/* Adds the points' contribution in one channel to `result`, the bin's result so far. */
static double add_points(const float *plane, const region_point *points, int64_t count,
                         double result) {
  double value[4];
  for (int64_t n = 0; n < count; n++) {
    weigh(plane, &points[n], value);
    result += value[0] + value[1] + value[2] + value[3];
  }
  return result;
}

/* Four maxima at once: each comparison waits for its own maximum only, and the order of maxima
 * does not matter. The first value may be NaN. */
static double largest_point(const float *plane, const region_point *points, int64_t count,
                            double result) {
  double most[4] = {result, result, result, result}, value[4];
  for (int64_t n = 0; n < count; n++) {
    weigh(plane, &points[n], value);
    for (int k = 0; k < 4; k++) most[k] = larger(most[k], value[k]);
  }
  return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

static double read_points(bool maximum, const float *plane, const region_point *points,
                          int64_t count, double result) {
  return maximum ? largest_point(plane, points, count, result)
                 : add_points(plane, points, count, result);
}

/* Computes one bin for at most CHANNELS channels, whose results are `step` apart. */
static void read_bin(const region_options *o, const float *planes, const compute_shape *shape,
                     const region_side *rows, const region_side *columns, int64_t channels,
                     float *result, int64_t step) {
  const int64_t all = rows->points * columns->points,
                plane = shape_at(*shape, 2) * shape_at(*shape, 3);
  region_point points[POINTS];
  double sums[CHANNELS];
  for (int64_t c = 0; c < channels; c++) sums[c] = o->maximum && all > 0 ? (double)NAN : 0;
  for (int64_t first = 0; first < all; first += POINTS) {
    const int64_t count = min_i64(POINTS, all - first);
    for (int64_t n = 0; n < count; n++)
      points[n] = find_point(shape, rows, (first + n) / columns->points, columns,
                             (first + n) % columns->points);
    for (int64_t c = 0; c < channels; c++)
      sums[c] = read_points(o->maximum, planes + c * plane, points, count, sums[c]);
  }
  for (int64_t c = 0; c < channels; c++)
    result[c * step] = (float)(o->maximum || all == 0 ? sums[c] : sums[c] / (double)all);
}

/* Finds the image of region r, or fails. */
static compute_status image_of(const compute_call_arguments *a, int64_t r, int64_t image,
                               const float **planes) {
  const compute_shape *x = &a->inputs[0].shape;
  if (image < 0 || image >= shape_at(*x, 0))
    return compute_call_fail(a, COMPUTE_ERROR_INDEX,
                             "region %" PRId64 " is of image %" PRId64 " of %" PRId64, r, image,
                             shape_at(*x, 0));
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
  const int64_t bins = shape_at(*y, 2) * shape_at(*y, 3), plane = shape_at(*x, 2) * shape_at(*x, 3);
  float *result = a->outputs[0].data;
  int64_t first, end;
  compute_call_share(shape_at(*y, 0) * bins, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) {
    const int64_t r = i / bins, bin = i % bins;
    const float *corner = corners + 4 * r, *planes = NULL;
    region_side rows, columns;
    const compute_status status = image_of(a, r, images[r], &planes);
    if (status) return status;
    if (!place_side(o, (double)corner[1], (double)corner[3], bin / shape_at(*y, 3), shape_at(*y, 2),
                    &rows) ||
        !place_side(o, (double)corner[0], (double)corner[2], bin % shape_at(*y, 3), shape_at(*y, 3),
                    &columns) ||
        rows.points * columns.points > MOST_IN_BIN)
      return compute_call_fail(a, COMPUTE_ERROR_INVALID_ARGUMENT,
                               "region %" PRId64 " is too large or not finite", r);
    for (int64_t c = 0; c < shape_at(*y, 1); c += CHANNELS)
      read_bin(o, planes + c * plane, x, &rows, &columns, min_i64(CHANNELS, shape_at(*y, 1) - c),
               result + (r * shape_at(*y, 1) + c) * bins + bin, bins);
  }
  return COMPUTE_OK;
}

/* Finds the first and end element of a bin with integer bounds. */
static bool whole_side(double scale, double from, double to, int64_t bin, int64_t bins,
                       int64_t size, int64_t *first, int64_t *end) {
  const double begin = round(from * scale), length = fmax(round(to * scale) - begin + 1, 1);
  if (!isfinite(begin) || !isfinite(length)) return false;
  /* One rounding, after a product of integers: the last bin ends where the region does. */
  const double low = floor((double)bin * length / (double)bins) + begin,
               high = ceil((double)(bin + 1) * length / (double)bins) + begin;
  *first = (int64_t)fmin(fmax(low, 0), (double)size);
  *end = (int64_t)fmin(fmax(high, 0), (double)size);
  return true;
}

/* A part of a plane: rows top … bottom − 1 and columns left … right − 1. */
typedef struct region_bin {
  int64_t top, bottom, left, right;
} region_bin;

/* The largest number of a bin in each channel, or 0 if the bin is empty. Results are `step`
 * apart. */
static void pool_bin(const float *planes, const compute_shape *shape, const region_bin *bin,
                     int64_t channels, float *result, int64_t step) {
  const int64_t width = shape_at(*shape, 3), plane = shape_at(*shape, 2) * width;
  for (int64_t c = 0; c < channels; c++, planes += plane, result += step) {
    float most = bin->top < bin->bottom && bin->left < bin->right ? -INFINITY : 0;
    for (int64_t row = bin->top; row < bin->bottom; row++)
      for (int64_t column = bin->left; column < bin->right; column++) {
        const float x = planes[row * width + column];
        most = x > most ? x : most;
      }
    *result = most;
  }
}

/* x [n, c, h, w] and regions [r, 5] → [r, c, rows, columns] */
static compute_status pool_regions(void *user, const compute_call_arguments *a, int32_t part,
                                   int32_t parts) {
  const region_options *o = user;
  const compute_shape *x = &a->inputs[0].shape, *y = &a->outputs[0].shape;
  const int64_t channels = shape_at(*y, 1), bins = shape_at(*y, 2) * shape_at(*y, 3);
  float *result = a->outputs[0].data;
  int64_t first, end;
  region_bin bin = {0};
  compute_call_share(shape_at(*y, 0) * bins, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) {
    const int64_t r = i / bins, number = i % bins, column = number % shape_at(*y, 3);
    const float *region = (const float *)a->inputs[1].data + 5 * r, *planes = NULL;
    const bool is_new = i == first || column == 0; /* else as high as the bin before */
    const double image = (double)region[0];
    const compute_status status = image_of(
        a, r, image >= 0 && image < (double)shape_at(*x, 0) ? (int64_t)image : -1, &planes);
    if (status) return status;
    if ((is_new &&
         !whole_side(o->scale, (double)region[2], (double)region[4], number / shape_at(*y, 3),
                     shape_at(*y, 2), shape_at(*x, 2), &bin.top, &bin.bottom)) ||
        !whole_side(o->scale, (double)region[1], (double)region[3], column, shape_at(*y, 3),
                    shape_at(*x, 3), &bin.left, &bin.right))
      return compute_call_fail(a, COMPUTE_ERROR_INVALID_ARGUMENT,
                               "region %" PRId64 " is not finite", r);
    pool_bin(planes, x, &bin, channels, result + r * channels * bins + number, bins);
  }
  return COMPUTE_OK;
}

/* Records either function. Casts the `inputs` to f32, except for the third. */
static compute_status call_regions(model_call *call, compute_call_function function,
                                   const region_options *options, compute_node *inputs,
                                   size_t count, int64_t rows, int64_t columns) {
  const compute_shape x = call_shape(call, 0);
  const int64_t regions = shape_at(call_shape(call, 1), 0);
  if (x.rank != 4 || shape_at(x, 2) < 1 || shape_at(x, 3) < 1 || rows < 1 || columns < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "x has rank %d, and regions %" PRId64 " × %" PRId64 " bins", (int)x.rank, rows,
                     columns);
  region_options *kept = base_allocate(1, sizeof *kept);
  if (!kept) return call_out_of_memory(call);
  *kept = *options;
  inputs[0] = op_cast(call, inputs[0], COMPUTE_F32);
  inputs[1] = op_cast(call, inputs[1], COMPUTE_F32);
  const compute_call_output output = {COMPUTE_F32,
                                      COMPUTE_SHAPE(regions, shape_at(x, 1), rows, columns)};
  const compute_call_options how = {.name = call->node->type,
                                    .flags = COMPUTE_CALL_PURE,
                                    .parts = COMPUTE_CALL_PARTS_AUTOMATIC,
                                    .release = base_release};
  const compute_node y =
      compute_call(call->graph, function, kept, inputs, count, &output, 1, &how, NULL);
  const double bins = (double)(regions * shape_at(x, 1) * rows) * (double)columns;
  graph_call_price(call->graph, y, bins * (double)max_i64(options->ratio, 1));
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
  if (regions.rank != 2 || shape_at(regions, 1) != 4 || images.rank != 1 ||
      shape_at(images, 0) != shape_at(regions, 0))
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
  if (!bins || regions.rank != 2 || shape_at(regions, 1) != 5)
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
