/* SPDX-License-Identifier: MIT */
/* Convolution and pooling along three axes, composed of operations along two. A convolution makes
 * the depth slices of a window further channels of an image, unless its windows are lines. A pool
 * folds the rows and columns of all slices first, then the depth. */
#include <inttypes.h>

#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

typedef struct volume_call {
  compute_graph *graph;
  const char *operation;
  compute_shape x, filter;
  compute_dtype dtype;   /* dtype of x */
  char text[BUILD_TEXT]; /* shape of x */
} volume_call;

enum {
  MOST_SLICES = 4096, /* of a transposed filter; each slice takes four nodes */
  MOST_COPIES = 8     /* slices of a filter, for which views of the data are joined */
};

/* Geometry of the windows along the depth. */
typedef struct depth {
  int64_t data, size, stride, dilation, before, after;
  int64_t reach; /* dilation · (size − 1) + 1 */
  int64_t count; /* windows */
} depth;

/* ---- Options --------------------------------------------------------------------------------- */

/* Number i of an option. 0 means the first number; if the first is also 0, `usual`. */
static int64_t step_of(const int64_t *given, int i, int64_t usual) {
  return given[i] ? given[i] : given[0] ? given[0] : usual;
}

static int64_t padding_of(const int64_t *given, int i) {
  return i && given[i] == -1 ? given[0] : given[i];
}

static bool refuse_option(const volume_call *call, const char *name, int64_t value,
                          const char *allowed) {
  return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                      "%s is %" PRId64 "; it must be %s", name, value, allowed);
}

/* Reads the options of the depth. The two-dimensional builders check the options of rows and
 * columns. */
static bool read_depth(const volume_call *call, const compute_conv3d_options *o, depth *d) {
  *d = (depth){.data = shape_at(call->x, 2),
               .size = shape_at(call->filter, 2),
               .stride = step_of(o->stride, 0, 1),
               .dilation = step_of(o->dilation, 0, 1),
               .before = o->padding[0]};
  if (d->stride < 1) return refuse_option(call, "stride", d->stride, "at least 1 (0 means 1)");
  if (d->dilation < 1)
    return refuse_option(call, "dilation", d->dilation, "at least 1 (0 means 1)");
  if (d->before < 0) return refuse_option(call, "padding", d->before, "at least 0");
  if (o->padding_more[0] < -d->before)
    return refuse_option(call, "padding_more", o->padding_more[0], "at least -padding");
  int64_t around;
  if (checked_multiply(d->size - 1, d->dilation, &d->reach) &&
      checked_add(d->reach, 1, &d->reach) &&
      checked_add(d->before, o->padding_more[0], &d->after) &&
      checked_add(d->before, d->after, &around) && d->reach < INT64_MAX / 4 &&
      around < INT64_MAX / 4 && d->stride < INT64_MAX / 4)
    return graph_check_reserved(call->graph, call->operation, "options", o->reserved);
  return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                      "stride %" PRId64 ", dilation %" PRId64 " and padding %" PRId64
                      " on %s reach beyond 63 bits",
                      d->stride, d->dilation, d->before, call->text);
}

static compute_conv2d_options plane_options(const compute_conv3d_options *o) {
  compute_conv2d_options made = {.groups = o->groups};
  for (int i = 0; i < 2; i++) {
    made.stride[i] = step_of(o->stride, 1 + i, 1);
    made.dilation[i] = step_of(o->dilation, 1 + i, 1);
    made.padding[i] = padding_of(o->padding, 1 + i);
    made.output_padding[i] = o->output_padding[1 + i];
    made.padding_more[i] = o->padding_more[1 + i];
  }
  return made;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static bool begin(volume_call *call, compute_node x) {
  uint32_t input;
  if (!build_operands(call->graph, call->operation, &x, 1, &input)) return false;
  call->x = build_at(call->graph, input)->shape;
  call->dtype = build_at(call->graph, input)->dtype;
  compute_shape_text(call->x, call->text, sizeof call->text);
  if (call->x.rank == 5) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "x has shape %s; it must be [batch,channels,depth,height,width]", call->text);
}

static bool begin_convolution(volume_call *call, compute_node x, compute_node filter) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!begin(call, x) || !build_operands(call->graph, call->operation, &filter, 1, &input))
    return false;
  call->filter = build_at(call->graph, input)->shape;
  if (call->filter.rank == 5 && shape_at(call->filter, 2) > 0) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "the filter has shape %s; it must be [channels,channels / "
                      "groups,slices,rows,columns], with elements",
                      compute_shape_text(call->filter, text, sizeof text));
}

/* The product of two sizes; −1, with an error, if it overflows. */
static int64_t joined(const volume_call *call, int64_t a, int64_t b) {
  int64_t product;
  if (checked_multiply(a, b, &product)) return product;
  graph_fail(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
             "%" PRId64 " × %" PRId64 " elements on %s exceed 63 bits", a, b, call->text);
  return -1;
}

/* Swaps axes 1 and 2 of five. */
static compute_node turned(const volume_call *call, compute_node x) {
  return compute_transpose(call->graph, x, COMPUTE_AXES(0, 2, 1, 3, 4));
}

/* A filter with its slices as channels: [a, b · slices, rows, columns]. */
static compute_node flat_filter(const volume_call *call, compute_node filter) {
  const int64_t *size = call->filter.size;
  return compute_reshape(call->graph, filter,
                         COMPUTE_SHAPE(size[0], joined(call, size[1], size[2]), size[3], size[4]));
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* [n, c, d, h, w] → [n, windows, c, size, h, w]. Each slice of the filter reads a view of x. */
static compute_node join_slices(const volume_call *call, compute_node x, const depth *d) {
  compute_graph *graph = call->graph;
  const int64_t *size = call->x.size;
  compute_node views[MOST_COPIES];
  for (int64_t k = 0; k < d->size; k++) {
    const compute_node slices = compute_slice(graph, x, 2, k * d->dilation, d->count, d->stride);
    views[k] = compute_reshape(graph, turned(call, slices),
                               COMPUTE_SHAPE(size[0], d->count, size[1], 1, size[3], size[4]));
  }
  return compute_concat(graph, views, (uint32_t)d->size, 3);
}

/* The same for filters of many slices. */
static compute_node gather_slices(const volume_call *call, compute_node x, const depth *d) {
  compute_graph *graph = call->graph;
  const compute_shape taps = COMPUTE_SHAPE(d->count, d->size);
  const compute_node first = compute_mul(graph, compute_index(graph, COMPUTE_I64, taps, 0),
                                         compute_scalar_i64(graph, COMPUTE_I64, d->stride));
  const compute_node further = compute_mul(graph, compute_index(graph, COMPUTE_I64, taps, 1),
                                           compute_scalar_i64(graph, COMPUTE_I64, d->dilation));
  const compute_node gathered = compute_gather(graph, x, compute_add(graph, first, further), 2);
  return compute_transpose(graph, gathered, COMPUTE_AXES(0, 2, 1, 3, 4, 5));
}

/* [n, c, d, h, w] → [n · windows, c · size, h, w] */
static compute_node fold_depth(const volume_call *call, compute_node x, const depth *d) {
  compute_graph *graph = call->graph;
  const int64_t *size = call->x.size;
  if (d->before > 0 || d->after > 0)
    x = compute_pad(graph, x, 2, d->before, d->after, COMPUTE_PAD_CONSTANT, 0);
  if (d->size == 1)
    x = turned(call, compute_slice(graph, x, 2, 0, d->count, d->stride));
  else
    x = d->size <= MOST_COPIES ? join_slices(call, x, d) : gather_slices(call, x, d);
  return compute_reshape(graph, x,
                         COMPUTE_SHAPE(joined(call, size[0], d->count),
                                       joined(call, size[1], d->size), size[3], size[4]));
}

/* True if the nodes of fold_depth can be recorded. */
static bool check_fold(const volume_call *call, const depth *d) {
  const int64_t *size = call->x.size;
  compute_shape padded = call->x;
  int64_t reach;
  if (!checked_add(size[2], d->before + d->after, &reach)) reach = INT64_MAX;
  shape_set(&padded, 2, reach);
  return build_size(call->graph, call->operation, padded) &&
         build_size(call->graph, call->operation, COMPUTE_SHAPE(d->count, d->size)) &&
         build_size(call->graph, call->operation,
                    COMPUTE_SHAPE(size[0], size[1], d->count, d->size, size[3], size[4]));
}

/* Counts the windows along the depth that fit into the data and its padding. */
static bool count_windows(const volume_call *call, depth *d) {
  int64_t padded;
  if (!checked_add(d->data, d->before + d->after, &padded)) padded = INT64_MAX;
  d->count = padded < d->reach ? 0 : (padded - d->reach) / d->stride + 1;
  if (d->count > 0) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "the filter spans %" PRId64 " slices, more than the %" PRId64
                      " of x %s with its padding",
                      d->reach, padded, call->text);
}

/* True if windows along spatial axis i are single elements, one for each element of x. */
static bool is_single(const volume_call *call, const compute_conv3d_options *o, int i) {
  return shape_at(call->filter, 2 + i) == 1 && step_of(o->stride, i, 1) == 1 &&
         step_of(o->dilation, i, 1) >= 1 && padding_of(o->padding, i) == 0 &&
         o->padding_more[i] == 0 && o->output_padding[i] == 0;
}

/* Spatial axes `first` and first + 1 of five become one. */
static compute_node merged(const volume_call *call, compute_node x, compute_shape shape,
                           int first) {
  const int64_t *size = shape.size;
  const int64_t both = joined(call, size[2 + first], size[3 + first]);
  return compute_reshape(call->graph, x,
                         first ? COMPUTE_SHAPE(size[0], size[1], size[2], both)
                               : COMPUTE_SHAPE(size[0], size[1], both, size[4]));
}

/* A convolution along one of three axes. Two others that are neighbours become one axis. */
static compute_node convolve_line(const volume_call *call, compute_node x, compute_node filter,
                                  compute_node bias, const compute_conv3d_options *o, int first) {
  compute_graph *graph = call->graph;
  const int axis = first ? 0 : 2; /* along which windows may be longer than one element */
  const int at = first ? 0 : 1;   /* its place among two axes */
  compute_conv2d_options line = {.groups = o->groups, .stride = {1, 1}, .dilation = {1, 1}};
  line.stride[at] = step_of(o->stride, axis, 1);
  line.dilation[at] = step_of(o->dilation, axis, 1);
  line.padding[at] = padding_of(o->padding, axis);
  line.padding_more[at] = o->padding_more[axis];
  line.output_padding[at] = o->output_padding[axis];
  const compute_node y = network_conv2d(graph, call->operation, merged(call, x, call->x, first),
                                        merged(call, filter, call->filter, first), bias, &line);
  const compute_shape shape = compute_node_shape(graph, y);
  if (graph->status) return BUILD_NONE;
  compute_shape apart = call->x;
  shape_set(&apart, 1, shape_at(shape, 1));
  shape_set(&apart, 2 + axis, shape_at(shape, 2 + at));
  return compute_reshape(graph, y, apart);
}

compute_node compute_conv3d(compute_graph *graph, compute_node x, compute_node filter,
                            compute_node bias, const compute_conv3d_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const compute_conv3d_options usual;
  BUILD_ALL_OR_NOTHING(graph);
  volume_call call = {.graph = graph, .operation = "conv3d"};
  const compute_conv3d_options *o = options ? options : &usual;
  depth d;
  if (!begin_convolution(&call, x, filter) || !read_depth(&call, o, &d) ||
      !count_windows(&call, &d) || !check_fold(&call, &d))
    return BUILD_NONE;
  if (o->output_padding[0] != 0) {
    refuse_option(&call, "output_padding", o->output_padding[0],
                  "0; only compute_conv3d_transpose has it");
    return BUILD_NONE;
  }
  if (is_single(&call, o, 1) && (is_single(&call, o, 0) || is_single(&call, o, 2)))
    return convolve_line(&call, x, filter, bias, o, is_single(&call, o, 2));
  const compute_conv2d_options planes = plane_options(o);
  const compute_node y = network_conv2d(graph, call.operation, fold_depth(&call, x, &d),
                                        flat_filter(&call, filter), bias, &planes);
  const compute_shape shape = compute_node_shape(graph, y);
  if (graph->status) return BUILD_NONE;
  const compute_node apart =
      compute_reshape(graph, y,
                      COMPUTE_SHAPE(shape_at(call.x, 0), d.count, shape_at(shape, 1),
                                    shape_at(shape, 2), shape_at(shape, 3)));
  return turned(&call, apart);
}

/* ---- Transposed convolution ------------------------------------------------------------------ */

/* Adds the products of each slice of x with the filter's slices, [n · d, channels · size, h, w].
 * Each goes to its place in the result, [n, whole, channels, h, w]. */
static compute_node spread_depth(const volume_call *call, compute_node y, const depth *d,
                                 int64_t whole, int64_t channels) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, y);
  const int64_t batch = shape_at(call->x, 0), rows = shape_at(shape, 2),
                columns = shape_at(shape, 3);
  y = compute_reshape(graph, y, COMPUTE_SHAPE(batch, d->data, channels, d->size, rows, columns));
  compute_node sum = BUILD_NONE;
  for (int64_t k = 0; k < d->size && !graph->status; k++) {
    compute_node slice = compute_reshape(graph, compute_slice(graph, y, 3, k, 1, 1),
                                         COMPUTE_SHAPE(batch, d->data, channels, rows, columns));
    slice = compute_embed(graph, slice, 1, whole, k * d->dilation, d->stride);
    sum = k ? compute_add(graph, sum, slice) : slice;
  }
  return sum;
}

/* *whole = slices of the result without padding. `more` of them follow all windows. */
static bool measure_whole(const volume_call *call, const depth *d, int64_t more, int64_t *whole) {
  if (more < 0 || (more > 0 && more >= d->stride && more >= d->dilation))
    return refuse_option(call, "output_padding", more,
                         "at least 0 and less than stride or dilation");
  if (d->size > MOST_SLICES)
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                        "the filter has %" PRId64 " slices; at most %d are possible", d->size,
                        MOST_SLICES);
  if (!checked_multiply(d->data - 1, d->stride, whole) ||
      !checked_add(*whole, d->reach + more, whole))
    return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                        "the result of %s with stride %" PRId64 " cannot be counted in 63 bits",
                        call->text, d->stride);
  if (d->data > 0 && *whole > d->before + d->after) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "x %s with padding %" PRId64
                      " would give no slices; there must be at least 1",
                      call->text, d->before);
}

compute_node compute_conv3d_transpose(compute_graph *graph, compute_node x, compute_node filter,
                                      compute_node bias, const compute_conv3d_options *options) {
  static const compute_conv3d_options usual;
  BUILD_ALL_OR_NOTHING(graph);
  volume_call call = {.graph = graph, .operation = "conv3d_transpose"};
  const compute_conv3d_options *o = options ? options : &usual;
  depth d;
  int64_t whole = 0;
  if (!begin_convolution(&call, x, filter) || !read_depth(&call, o, &d) ||
      !measure_whole(&call, &d, o->output_padding[0], &whole))
    return BUILD_NONE;
  const compute_conv2d_options planes = plane_options(o);
  const int64_t *size = call.x.size;
  const compute_node images =
      compute_reshape(graph, turned(&call, x),
                      COMPUTE_SHAPE(joined(&call, size[0], size[2]), size[1], size[3], size[4]));
  compute_node y = network_conv2d_transpose(graph, call.operation, images,
                                            flat_filter(&call, filter), BUILD_NONE, &planes);
  if (graph->status) return BUILD_NONE;
  const compute_shape flat = compute_node_shape(graph, y);
  const int64_t channels = shape_at(flat, 1) / d.size;
  const compute_shape shape =
      COMPUTE_SHAPE(size[0], whole, channels, shape_at(flat, 2), shape_at(flat, 3));
  if (!network_check_bias(graph, call.operation, call.dtype, bias, channels) ||
      !build_size(graph, call.operation, shape))
    return BUILD_NONE;
  y = spread_depth(&call, y, &d, whole, channels);
  y = compute_slice(graph, y, 1, d.before, whole - d.before - d.after, 1);
  return network_add_bias(graph, turned(&call, y), bias);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Splits a pool's options: `planes` for rows and columns, `depths` for the depth, as rows of one
 * column. */
static void split_options(const compute_pool3d_options *o, compute_pool2d_options *planes,
                          compute_pool2d_options *depths) {
  *planes = (compute_pool2d_options){.ceil = o->ceil, .exclude_padding = o->exclude_padding};
  *depths = *planes;
  for (int i = 0; i < 3; i++) {
    compute_pool2d_options *to = i ? planes : depths;
    const int at = i ? i - 1 : 0;
    to->size[at] = step_of(o->size, i, 0);
    to->stride[at] = step_of(o->stride, i, to->size[at]);
    to->dilation[at] = step_of(o->dilation, i, 1);
    to->padding[at] = padding_of(o->padding, i);
    to->padding_more[at] = o->padding_more[i];
  }
  depths->size[1] = depths->stride[1] = depths->dilation[1] = 1;
}

/* Pools the images of all slices. The result has planes whose rows are the slices. */
static compute_node pool_images(const volume_call *call, compute_node images,
                                compute_window_operation fold,
                                const compute_pool2d_options *options, compute_shape *shape) {
  compute_graph *graph = call->graph;
  const compute_node y = network_pool2d(graph, call->operation, images, fold, options);
  *shape = compute_node_shape(graph, y);
  if (graph->status) return BUILD_NONE;
  return compute_reshape(graph, y,
                         COMPUTE_SHAPE(shape_at(call->x, 0), shape_at(call->x, 1),
                                       shape_at(call->x, 2),
                                       joined(call, shape_at(*shape, 2), shape_at(*shape, 3))));
}

/* The places of the maxima that were chosen along the depth. A window without an element has chosen
 * −1; such windows occur only if `gaps`. */
static compute_node follow(compute_graph *graph, compute_node places, compute_node chosen,
                           bool gaps) {
  const compute_node flat = compute_reshape(graph, places, COMPUTE_SHAPE(-1));
  if (!gaps) return compute_gather(graph, flat, chosen, 0);
  const compute_node none = compute_scalar_i64(graph, COMPUTE_I64, -1);
  const compute_node zero = compute_scalar_i64(graph, COMPUTE_I64, 0);
  const compute_node found = compute_gather(graph, flat, compute_maximum(graph, chosen, zero), 0);
  return compute_select(graph, compute_less(graph, chosen, zero), none, found);
}

static compute_node pool(compute_graph *graph, const char *operation, compute_node x,
                         compute_window_operation fold, const compute_pool3d_options *options) {
  BUILD_ALL_OR_NOTHING(graph);
  volume_call call = {.graph = graph, .operation = operation};
  compute_pool2d_options planes, depths;
  compute_shape shape;
  if (!begin(&call, x)) return BUILD_NONE;
  if (!options)
    return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation,
                      "options is NULL; the size of the windows must be given");
  if (!graph_check_reserved(graph, operation, "options", options->reserved)) return BUILD_NONE;
  split_options(options, &planes, &depths);
  const bool place = fold == COMPUTE_WINDOW_ARGMAX;
  const bool widened = fold == COMPUTE_WINDOW_AVERAGE && dtype_is_half(call.dtype);
  if (widened) x = compute_cast(graph, x, COMPUTE_F32); /* so no mean is rounded twice */
  const int64_t *size = call.x.size;
  const compute_node images = compute_reshape(
      graph, x, COMPUTE_SHAPE(size[0], joined(&call, size[1], size[2]), size[3], size[4]));
  const compute_node slices =
      pool_images(&call, images, place ? COMPUTE_WINDOW_MAX : fold, &planes, &shape);
  if (graph->status) return BUILD_NONE;
  compute_node y = network_pool2d(graph, operation, slices, fold, &depths);
  if (graph->status) return BUILD_NONE;
  const int64_t count = shape_at(compute_node_shape(graph, y), 2);
  if (place)
    y = follow(graph, pool_images(&call, images, fold, &planes, &shape), y, depths.dilation[0] > 1);
  if (widened) y = compute_cast(graph, y, call.dtype);
  return compute_reshape(
      graph, y, COMPUTE_SHAPE(size[0], size[1], count, shape_at(shape, 2), shape_at(shape, 3)));
}

compute_node compute_max_pool3d(compute_graph *graph, compute_node x,
                                const compute_pool3d_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return pool(graph, "max_pool3d", x, COMPUTE_WINDOW_MAX, options);
}

compute_node compute_argmax_pool3d(compute_graph *graph, compute_node x,
                                   const compute_pool3d_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return pool(graph, "argmax_pool3d", x, COMPUTE_WINDOW_ARGMAX, options);
}

compute_node compute_average_pool3d(compute_graph *graph, compute_node x,
                                    const compute_pool3d_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return pool(graph, "average_pool3d", x, COMPUTE_WINDOW_AVERAGE, options);
}
