/* SPDX-License-Identifier: MIT */
/* Convolutions along 1 … 3 axes. Data with one spatial axis gets a second axis of size 1. */
#include <inttypes.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/conv.h"
#include "graph/builders/sample.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/quantized_product.h"
#include "model/operators/window.h"

/* A convolution or transposed convolution. One along a single axis becomes one along two axes. */
typedef struct convolution {
  model_call *call;
  compute_graph *graph;
  compute_node x, filter, bias; /* bias may be {0} */
  int32_t axes;                 /* spatial axes of the node */
  int64_t groups;
  window windows[3]; /* depth (axes 3), rows and columns */
  int64_t more[3];   /* transposed: output_padding */
} convolution;

/* The index of the node's first spatial axis in `windows` and `more`. */
static int32_t first_axis(const convolution *c) {
  return 3 - c->axes;
}

/* Checks the ranks. The attribute kernel_shape may only repeat the filter's sizes. */
static compute_status check_filter(model_call *call, compute_shape x, compute_shape filter) {
  const int64_t *sizes;
  if (x.rank < 3 || x.rank != filter.rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x has rank %d, the filter %d", (int)x.rank,
                     (int)filter.rank);
  const compute_status status = window_list(call, "kernel_shape", (size_t)filter.rank - 2, &sizes);
  for (int32_t i = 2; !status && sizes && i < filter.rank; i++)
    if (sizes[i - 2] != shape_at(filter, i))
      return call_fail(call, COMPUTE_ERROR_SHAPE,
                       "kernel_shape says %" PRId64 ", the filter has %" PRId64, sizes[i - 2],
                       shape_at(filter, i));
  return status;
}

static compute_status begin(model_call *call, convolution *c) {
  const compute_shape x = call_shape(call, 0), filter = call_shape(call, 1);
  *c = (convolution){.call = call,
                     .graph = call->graph,
                     .axes = x.rank - 2,
                     .windows = {WINDOW_NONE, WINDOW_NONE, WINDOW_NONE},
                     .groups = call_attribute_i(call, "group", 1)};
  const compute_status status = check_filter(call, x, filter);
  if (status) return status;
  if (c->axes > 3)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "convolutions along %d axes", (int)c->axes);
  if (c->groups < 1 || shape_at(x, 1) % c->groups != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " groups of %" PRId64 " channels",
                     c->groups, shape_at(x, 1));
  c->x = call_input(call, 0);
  c->filter = call_input(call, 1);
  c->bias = call_input(call, 2);
  return COMPUTE_OK;
}

/* [a, b, w] → [a, b, 1, w] */
static compute_node with_rows(const convolution *c, compute_node x) {
  const compute_shape shape = compute_node_shape(c->graph, x);
  return compute_reshape(
      c->graph, x, COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), 1, shape_at(shape, 2)));
}

static compute_node without_rows(const convolution *c, compute_node y) {
  const compute_shape shape = compute_node_shape(c->graph, y);
  return compute_reshape(c->graph, y,
                         COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), shape_at(shape, 3)));
}

static compute_node add_bias(const convolution *c, compute_node y) {
  if (!compute_node_is_valid(c->bias)) return y;
  const int32_t rank = compute_node_shape(c->graph, y).rank;
  return compute_add(c->graph, y, op_along(c->call, c->bias, 1, rank));
}

static compute_conv3d_options steps(const convolution *c) {
  compute_conv3d_options o = {.groups = c->groups};
  for (int i = 0; i < 3; i++) {
    o.stride[i] = c->windows[i].stride;
    o.dilation[i] = c->windows[i].dilation;
  }
  return o;
}

/* The options for rows and columns, without depth. */
static compute_conv2d_options last_two(const compute_conv3d_options *o) {
  compute_conv2d_options made = {.groups = o->groups};
  for (int i = 0; i < 2; i++) {
    made.stride[i] = o->stride[1 + i];
    made.dilation[i] = o->dilation[1 + i];
    made.padding[i] = o->padding[1 + i];
    made.padding_more[i] = o->padding_more[1 + i];
    made.output_padding[i] = o->output_padding[1 + i];
  }
  return made;
}

/* ---- Conv ------------------------------------------------------------------------------------ */

/* The positions of a filter that lie on elements, along an axis with one window. */
typedef struct seen_axis {
  int64_t first, count; /* positions of the filter; count 0: none */
  int64_t from;         /* element of the first one */
} seen_axis;

static seen_axis find_seen(const window *w) {
  const int64_t first = w->before > 0 ? (w->before - 1) / w->dilation + 1 : 0;
  const int64_t reach = w->data - 1 + w->before; /* of the last element */
  const int64_t last = reach < 0 ? -1 : min_i64(w->size - 1, reach / w->dilation);
  return (seen_axis){first, max_i64(last - first + 1, 0), first * w->dilation - w->before};
}

/* The filter [outputs, …] as rows of the positions that lie on elements. A selection, unlike
 * slices, is computed once for a constant filter. {0} if out of memory. */
static compute_node seen_filter(const convolution *c, const seen_axis *seen, int64_t channels,
                                int64_t count) {
  compute_graph *graph = c->graph;
  const compute_shape shape = compute_node_shape(graph, c->filter);
  const window *w = c->windows;
  const compute_node rows =
      compute_reshape(graph, c->filter, COMPUTE_SHAPE(shape_at(shape, 0), -1));
  if (count == channels * w[0].size * w[1].size * w[2].size) return rows;
  int32_t *places = call_allocate(c->call, (size_t)count, sizeof *places);
  if (!places) return (compute_node){0};
  int64_t n = 0;
  for (int64_t k = 0; k < channels; k++)
    for (int64_t d = 0; d < seen[0].count; d++)
      for (int64_t h = 0; h < seen[1].count; h++)
        for (int64_t i = 0; i < seen[2].count; i++)
          places[n++] =
              (int32_t)(((k * w[0].size + seen[0].first + d) * w[1].size + seen[1].first + h) *
                            w[2].size +
                        seen[2].first + i);
  const compute_node at = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(count), places);
  return compute_gather(graph, rows, at, 1);
}

/* `true` if there is no bias, or one of shape [outputs]. */
static bool has_plain_bias(const convolution *c, compute_dtype dtype, int64_t outputs) {
  if (!compute_node_is_valid(c->bias)) return true;
  const compute_shape shape = compute_node_shape(c->graph, c->bias);
  return compute_node_dtype(c->graph, c->bias) == dtype && shape.rank == 1 &&
         shape_at(shape, 0) == outputs;
}

/* One result for each filter and image: a product of matrices, without the positions that only see
 * padding. {0} for others. */
static compute_node multiply_windows(const convolution *c) {
  enum { MOST = 1 << 16 }; /* positions of a filter */
  compute_graph *graph = c->graph;
  const compute_node none = {0};
  const compute_shape shape = compute_node_shape(graph, c->x);
  const compute_shape filters = compute_node_shape(graph, c->filter);
  const int64_t channels = shape_at(shape, 1), outputs = shape_at(filters, 0);
  compute_node x = c->x;
  seen_axis seen[3];
  const compute_dtype dtype = compute_node_dtype(graph, c->x);
  int64_t count = channels;
  if ((dtype != COMPUTE_F32 && dtype != COMPUTE_F64) || c->groups != 1 ||
      compute_node_dtype(graph, c->filter) != dtype || !has_plain_bias(c, dtype, outputs) ||
      channels != shape_at(filters, 1) || shape_count(filters) == 0 ||
      shape_count(filters) / outputs > MOST || shape_count(shape) == 0)
    return none;
  for (int i = 0; i < 3; i++) {
    seen[i] = find_seen(&c->windows[i]);
    if (c->windows[i].count != 1 || seen[i].count == 0) return none;
    count *= seen[i].count;
    const int32_t axis = 2 + i - (c->axes == 3 ? 0 : 1);
    if (axis >= 2)
      x = compute_slice(graph, x, axis, seen[i].from, seen[i].count, c->windows[i].dilation);
  }
  const compute_node filter = seen_filter(c, seen, channels, count);
  if (!compute_node_is_valid(filter)) return none;
  x = compute_reshape(graph, x, COMPUTE_SHAPE(shape_at(shape, 0), count));
  compute_node y = compute_matmul(graph, x, compute_transpose(graph, filter, COMPUTE_AXES(1, 0)));
  if (compute_node_is_valid(c->bias)) y = compute_add(graph, y, c->bias);
  const compute_shape result = {.rank = shape.rank, .size = {shape_at(shape, 0), outputs, 1, 1, 1}};
  return compute_reshape(graph, y, result);
}

static compute_node convolve_windows(const convolution *c) {
  const compute_node product = multiply_windows(c);
  if (compute_node_is_valid(product)) return product;
  compute_conv3d_options options = steps(c);
  compute_node x = c->x;
  const int first = c->axes == 3 ? 0 : 1;
  for (int i = first; i < 3; i++) {
    const window *w = &c->windows[i];
    x = op_pad(c->call, x, 2 + i - first, min_i64(w->before, 0), min_i64(w->after, 0), 0);
    options.padding[i] = max_i64(w->before, 0);
    options.padding_more[i] = max_i64(w->after, 0) - options.padding[i];
  }
  const compute_conv2d_options planes = last_two(&options);
  return c->axes == 3 ? compute_conv3d(c->graph, x, c->filter, c->bias, &options)
                      : compute_conv2d(c->graph, x, c->filter, c->bias, &planes);
}

static compute_node convolve_prepared(const convolution *c) {
  const compute_node y = convolve_windows(c);
  return c->axes == 1 ? without_rows(c, y) : y;
}

/* c->call stays NULL if the convolution is quantized. */
static compute_status convolve(model_call *call, convolution *c, compute_node *y) {
  *c = (convolution){0};
  compute_status status = quantized_conv(call, y);
  if (status || compute_node_is_valid(*y)) return status;
  status = begin(call, c);
  if (status) return status;
  const compute_shape filter = call_shape(call, 1);
  status =
      window_take(call, call_shape(call, 0), filter.size + 2, false, c->windows + first_axis(c));
  if (status) return status;
  if (c->axes == 1) {
    c->x = with_rows(c, c->x);
    c->filter = with_rows(c, c->filter);
  }
  *y = convolve_prepared(c);
  return COMPUTE_OK;
}

/* True if the elements are known, so the planner computes other filters from them once. */
static bool is_known(const model_call *call, size_t i) {
  return !call_has(call, i) || call->inputs[i]->host;
}

static compute_status conv(model_call *call) {
  compute_node y;
  convolution c;
  const compute_status status = convolve(call, &c, &y);
  if (status) return status;
  call_output(call, 0, y);
  const compute_dtype dtype = call_dtype(call, 0);
  const bool exact = dtype == COMPUTE_F32 || dtype == COMPUTE_F64;
  if (!c.call || !exact || call_trains(call) || !is_known(call, 1) || !is_known(call, 2))
    return COMPUTE_OK;
  convolution *kept = call_allocate(call, 1, sizeof *kept);
  if (!kept) return call_out_of_memory(call);
  *kept = c;
  call->outputs[0].convolution = kept;
  return COMPUTE_OK;
}

/* ---- Batch normalization in the filters ------------------------------------------------------ */

bool conv_can_normalize(const model_call *call, size_t i) {
  const convolution *c = call->inputs[i]->convolution;
  bool fits = c && c->graph == call->graph && call_is_only_use(call, i) &&
              shape_count(compute_node_shape(c->graph, c->filter)) > 0;
  for (size_t k = 1; k < call->input_count; k++)
    fits = fits && is_known(call, k) && call_dtype(call, k) == call_dtype(call, i);
  return fits;
}

/* x [channels, …] normalized by channel. */
static compute_node normalize_channels(const convolution *c, compute_node x, compute_node mean,
                                       compute_node bias, const conv_normalization *by) {
  const compute_shape shape = compute_node_shape(c->graph, x);
  const compute_node rows = compute_reshape(c->graph, x, COMPUTE_SHAPE(1, shape_at(shape, 0), -1));
  const compute_node y =
      compute_batch_norm(c->graph, rows, mean, by->variance, by->gain, bias, by->epsilon);
  return compute_reshape(c->graph, y, shape);
}

compute_node conv_normalize(model_call *call, size_t i, const conv_normalization *by) {
  convolution c = *call->inputs[i]->convolution;
  compute_graph *graph = call->graph;
  const int64_t filters = shape_at(compute_node_shape(graph, c.filter), 0);
  const compute_node zeros = compute_full(graph, call_dtype(call, i), COMPUTE_SHAPE(filters), 0);
  c.call = call;
  if (!compute_node_is_valid(c.bias)) c.bias = zeros;
  c.filter = normalize_channels(&c, c.filter, zeros, (compute_node){0}, by);
  c.bias = normalize_channels(&c, c.bias, by->mean, by->bias, by);
  return convolve_prepared(&c);
}

/* ONNX Runtime's FusedConv: a convolution with an addend (input 3) and an activation. */
static compute_status fused_conv(model_call *call) {
  compute_node y;
  convolution c;
  size_t count;
  compute_status status = convolve(call, &c, &y);
  if (status) return status;
  if (call_has(call, 3)) y = compute_add(call->graph, y, call_input(call, 3));
  const float *parameters = call_attribute_floats(call, "activation_params", &count);
  status = op_activate(call, call_attribute_s(call, "activation", ""), parameters, count, &y);
  return status ? status : call_output(call, 0, y);
}

/* ---- ConvTranspose --------------------------------------------------------------------------- */

/* The size of the whole result, before padding crops it. */
static int64_t whole_size(const window *w) {
  return (w->data - 1) * w->stride + window_dilated_size(w);
}

/* Chooses the padding for a result of the given size. */
static void pad_for(window *w, int64_t more, int64_t size, bool upper) {
  int64_t total = whole_size(w) + more - size;
  if (total < 0) total = 0;
  w->before = upper ? total / 2 : total - total / 2;
  w->after = total - w->before;
  w->count = size;
}

/* Sets the padding, and stores the size of the result in `count`. */
static compute_status size_result(convolution *c, const int64_t *pads, const int64_t *sizes) {
  model_call *call = c->call;
  const char *automatic = call_attribute_s(call, "auto_pad", "NOTSET");
  const bool upper = strcmp(automatic, "SAME_UPPER") == 0;
  const bool same = upper || strcmp(automatic, "SAME_LOWER") == 0;
  const int32_t first = first_axis(c);
  for (int32_t i = 0; i < c->axes; i++) {
    window *w = &c->windows[first + i];
    const int64_t more = c->more[first + i];
    if (sizes) {
      pad_for(w, more, sizes[i], upper);
    } else if (same) {
      pad_for(w, more, w->data * w->stride, upper);
    } else {
      w->before = pads ? pads[i] : 0;
      w->after = pads ? pads[c->axes + i] : 0;
      w->count = whole_size(w) + more - w->before - w->after;
    }
    if (w->count < 1 || more < 0)
      return call_fail(call, COMPUTE_ERROR_SHAPE,
                       "its result would have %" PRId64 " elements "
                       "along spatial axis %d",
                       w->count, (int)i);
  }
  return COMPUTE_OK;
}

static compute_status begin_transposed(model_call *call, convolution *c) {
  const int64_t *pads, *more, *sizes;
  compute_status status = begin(call, c);
  if (status) return status;
  const size_t axes = (size_t)c->axes;
  const compute_shape filter = call_shape(call, 1);
  status =
      window_read_steps(call, call_shape(call, 0), filter.size + 2, c->windows + first_axis(c));
  if (!status) status = window_list(call, "pads", 2 * axes, &pads);
  if (!status) status = window_list(call, "output_padding", axes, &more);
  if (status) return status;
  size_t given;
  call_attribute_ints(call, "output_shape", &given);
  /* Some exporters include batch and channels. */
  const size_t leading = given == axes + 2 ? 2 : 0;
  status = window_list(call, "output_shape", axes + leading, &sizes);
  for (size_t i = 0; more && i < axes; i++) c->more[(size_t)first_axis(c) + i] = more[i];
  return status ? status : size_result(c, pads, sizes ? sizes + leading : NULL);
}

/* The number of elements that the result has beyond the windows and padding. */
static int64_t further(const window *w) {
  return w->count - (whole_size(w) - w->before - w->after);
}

static bool is_direct(const window *w) {
  const int64_t more = further(w);
  return w->before >= 0 && w->after >= 0 && more >= 0 && (more < w->stride || more < w->dilation);
}

/* Crops the whole result by the padding. Elements beyond the whole result are zeros, because no
 * window reaches them. */
static compute_node cut_result(const convolution *c, compute_node y, int32_t axis,
                               const window *w) {
  return op_pad(c->call, y, axis, -w->before, w->count - (whole_size(w) - w->before), 0);
}

/* Positions before and after the data that a transposed convolution of stride 1 reads. */
static int64_t read_before(const window *w) {
  return window_dilated_size(w) - 1 - w->before;
}

static int64_t read_after(const window *w) {
  return window_dilated_size(w) - 1 - w->after;
}

/* `true` if a convolution with the flipped filter computes the same and is as fast: the filter is
 * flipped once, is not narrower than one value for each group, and reaches not much further than the
 * data. */
static bool is_forward(const convolution *c) {
  const compute_shape filter = compute_node_shape(c->graph, c->filter);
  bool forward = is_known(c->call, 1) && shape_count(filter) > 0 &&
                 shape_at(filter, 0) > c->groups && shape_at(filter, 0) % c->groups == 0;
  for (int i = 0; forward && i < 3; i++) {
    const window *w = &c->windows[i];
    forward = w->stride == 1 && is_direct(w) && further(w) == 0 && read_before(w) >= 0 &&
              read_after(w) >= 0 && window_dilated_size(w) <= w->data + 1;
  }
  return forward;
}

/* [ci, co / groups, …] → [co, ci / groups, …], with reversed positions. */
static compute_node flip_filter(const convolution *c) {
  compute_graph *graph = c->graph;
  const compute_shape from = compute_node_shape(graph, c->filter);
  const int64_t in = shape_at(from, 0) / c->groups, out = shape_at(from, 1);
  compute_shape apart = {.rank = from.rank + 1, .size = {c->groups, in, out}}, to = from;
  compute_axes flipped = {.count = from.rank - 2}, order = {.count = from.rank + 1, {0, 2, 1}};
  for (int32_t d = 2; d < from.rank; d++) {
    shape_set(&apart, d + 1, shape_at(from, d));
    flipped.axis[d - 2] = d;
    order.axis[d + 1] = d + 1;
  }
  shape_set(&to, 0, c->groups * out);
  shape_set(&to, 1, in);
  compute_node w = compute_reshape(graph, compute_flip(graph, c->filter, flipped), apart);
  return compute_reshape(graph, compute_transpose(graph, w, order), to);
}

/* A transposed convolution as one with the flipped filter, which has more kernels. */
static compute_node convolve_flipped(const convolution *c) {
  compute_conv3d_options options = steps(c);
  for (int i = 0; i < 3; i++) {
    const window *w = &c->windows[i];
    options.padding[i] = read_before(w);
    options.padding_more[i] = read_after(w) - read_before(w);
  }
  const compute_conv2d_options planes = last_two(&options);
  const compute_node filter = flip_filter(c);
  return c->axes == 3 ? compute_conv3d(c->graph, c->x, filter, c->bias, &options)
                      : compute_conv2d(c->graph, c->x, filter, c->bias, &planes);
}

static compute_node stretch(const convolution *c) {
  if (is_forward(c)) return convolve_flipped(c);
  compute_conv3d_options options = steps(c);
  bool direct[3], all = true;
  for (int i = 0; i < 3; i++) {
    const window *w = &c->windows[i];
    direct[i] = is_direct(w);
    all &= direct[i];
    options.padding[i] = direct[i] ? w->before : 0;
    options.padding_more[i] = direct[i] ? w->after - w->before : 0;
    options.output_padding[i] = direct[i] ? further(w) : 0;
  }
  const compute_conv2d_options planes = last_two(&options);
  const compute_node bias = all ? c->bias : (compute_node){0};
  compute_node y = c->axes == 3
                       ? compute_conv3d_transpose(c->graph, c->x, c->filter, bias, &options)
                       : compute_conv2d_transpose(c->graph, c->x, c->filter, bias, &planes);
  for (int i = 0; i < 3; i++)
    if (!direct[i]) y = cut_result(c, y, c->axes == 3 ? 2 + i : 1 + i, &c->windows[i]);
  return all ? y : add_bias(c, y);
}

static compute_status conv_transpose(model_call *call) {
  convolution c;
  const compute_status status = begin_transposed(call, &c);
  if (status) return status;
  if (c.axes > 1) return call_output(call, 0, stretch(&c));
  c.x = with_rows(&c, c.x);
  c.filter = with_rows(&c, c.filter);
  return call_output(call, 0, without_rows(&c, stretch(&c)));
}

/* ---- DeformConv ------------------------------------------------------------------------------ */

typedef struct deformed {
  model_call *call;
  compute_graph *graph;
  compute_shape x, filter;
  int32_t axes;
  int64_t batch, groups, offset_groups;
  int64_t taps, points; /* elements of a window; number of windows */
  window windows[WINDOW_MOST];
} deformed;

/* Coordinates along an axis: the starts of the windows, or the offsets of the elements in a
 * window. */
static compute_node grid(const deformed *d, int32_t axis, bool starts) {
  const int64_t count = starts ? d->points : d->taps;
  int64_t inner = 1;
  for (int32_t i = axis + 1; i < d->axes; i++)
    inner *= starts ? d->windows[i].count : d->windows[i].size;
  const window *w = &d->windows[axis];
  double *values = call_allocate(d->call, (size_t)count, sizeof *values);
  if (!values) return (compute_node){0};
  for (int64_t i = 0; i < count; i++)
    values[i] = (double)(starts ? i / inner % w->count * w->stride - w->before
                                : i / inner % w->size * w->dilation);
  return op_numbers(d->call, COMPUTE_F32,
                    starts ? COMPUTE_SHAPE(1, count) : COMPUTE_SHAPE(count, 1), values);
}

/* The positions to sample: [n · offset groups, taps · points] for each axis. */
static void find_points(const deformed *d, compute_node *at) {
  compute_graph *graph = d->graph;
  const int64_t images = d->batch * d->offset_groups;
  const compute_node offsets =
      compute_reshape(graph, op_cast(d->call, call_input(d->call, 2), COMPUTE_F32),
                      COMPUTE_SHAPE(images, d->taps, d->axes, d->points));
  for (int32_t axis = 0; axis < d->axes; axis++) {
    const compute_node regular = compute_add(graph, grid(d, axis, true), grid(d, axis, false));
    const compute_node shift = compute_reshape(graph, compute_slice(graph, offsets, 2, axis, 1, 1),
                                               COMPUTE_SHAPE(images, d->taps, d->points));
    at[axis] = compute_reshape(graph, compute_add(graph, shift, regular),
                               COMPUTE_SHAPE(images, d->taps * d->points));
  }
}

/* All elements of all windows: [n, groups, channels / groups · taps, points]. */
static compute_node read_windows(const deformed *d) {
  static const sample_options linear = {.mode = COMPUTE_SAMPLE_LINEAR,
                                        .border = COMPUTE_SAMPLE_ZEROS};
  compute_graph *graph = d->graph;
  const int64_t images = d->batch * d->offset_groups, channels = shape_at(d->x, 1);
  compute_node at[WINDOW_MOST];
  find_points(d, at);
  compute_shape shape = d->x;
  shape_set(&shape, 0, images);
  shape_set(&shape, 1, channels / d->offset_groups);
  const compute_node x = compute_reshape(graph, call_input(d->call, 0), shape);
  compute_node read = part_sample(d->graph, x, at, &linear);
  if (call_has(d->call, 4)) {
    const compute_node mask = compute_reshape(graph, call_input(d->call, 4),
                                              COMPUTE_SHAPE(images, 1, d->taps * d->points));
    read = compute_mul(graph, read, mask);
  }
  return compute_reshape(
      graph, read, COMPUTE_SHAPE(d->batch, d->groups, channels / d->groups * d->taps, d->points));
}

static compute_status deform_conv(model_call *call) {
  deformed d = {.call = call,
                .graph = call->graph,
                .x = call_shape(call, 0),
                .filter = call_shape(call, 1),
                .groups = call_attribute_i(call, "group", 1),
                .offset_groups = call_attribute_i(call, "offset_group", 1)};
  compute_status status = check_filter(call, d.x, d.filter);
  if (!status) status = window_take(call, d.x, d.filter.size + 2, false, d.windows);
  if (status) return status;
  d.axes = d.x.rank - 2;
  d.batch = shape_at(d.x, 0);
  if (d.groups < 1 || d.offset_groups < 1 || shape_at(d.x, 1) % d.groups != 0 ||
      shape_at(d.x, 1) % d.offset_groups != 0 || shape_at(d.filter, 0) % d.groups != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "%" PRId64 " groups and %" PRId64 " offset groups of %" PRId64 " channels",
                     d.groups, d.offset_groups, shape_at(d.x, 1));
  compute_shape result = {.rank = d.x.rank, .size = {d.batch, shape_at(d.filter, 0)}};
  for (int32_t i = 0; i < d.axes; i++) shape_set(&result, 2 + i, d.windows[i].count);
  status = compute_shape_count(result, &d.points);
  if (status) return call_fail(call, status, "its result has too many elements");
  d.points = op_count(result, 2, result.rank);
  d.taps = op_count(d.filter, 2, d.filter.rank);
  const compute_shape taps =
      COMPUTE_SHAPE(d.groups, shape_at(d.filter, 0) / d.groups, shape_at(d.filter, 1) * d.taps);
  compute_node y = compute_matmul(d.graph, compute_reshape(d.graph, call_input(call, 1), taps),
                                  read_windows(&d));
  y = compute_reshape(d.graph, y, result);
  if (call_has(call, 3))
    y = compute_add(d.graph, y, op_along(call, call_input(call, 3), 1, result.rank));
  return call_output(call, 0, y);
}

/* ---- CausalConvWithState --------------------------------------------------------------------- */

/* Convolves x [n, c, l], with the k − 1 positions before it, with a filter [c, 1, k]. */
static compute_status causal_conv_with_state(model_call *call) {
  const compute_shape x = call_shape(call, 0), filter = call_shape(call, 1);
  if (x.rank != 3 || filter.rank != 3 || shape_at(filter, 0) != shape_at(x, 1) ||
      shape_at(filter, 1) != 1 || shape_at(filter, 2) < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "a filter [channels,1,k] does not fit the input");
  compute_graph *graph = call->graph;
  const int64_t before = shape_at(filter, 2) - 1, length = shape_at(x, 2) + before;
  compute_node parts[2] = {call_input(call, 3), call_input(call, 0)};
  if (!call_has(call, 3))
    parts[0] = call_zeros(call, call_dtype(call, 0),
                          COMPUTE_SHAPE(shape_at(x, 0), shape_at(x, 1), before));
  const compute_node all = compute_concat(graph, parts, 2, 2);
  const compute_conv2d_options options = {.groups = shape_at(x, 1)};
  compute_node y = compute_conv2d(
      graph, compute_reshape(graph, all, COMPUTE_SHAPE(shape_at(x, 0), shape_at(x, 1), 1, length)),
      compute_reshape(graph, call_input(call, 1), COMPUTE_SHAPE(shape_at(x, 1), 1, 1, before + 1)),
      call_input(call, 2), &options);
  y = compute_reshape(graph, y, x);
  const char *activation = call_attribute_s(call, "activation", "none");
  if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0)
    y = compute_silu(graph, y);
  else if (strcmp(activation, "none") != 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "activation '%s'", activation);
  call_output(call, 0, y);
  return call_output(call, 1, compute_slice(graph, all, 2, length - before, before, 1));
}

static const operator_row rows[] = {
    {"", "CausalConvWithState", 27, causal_conv_with_state},
    {"", "Conv", 1, conv},
    {"", "ConvTranspose", 1, conv_transpose},
    {"", "DeformConv", 19, deform_conv},
    {"com.microsoft", "FusedConv", 1, fused_conv},
};

const operator_family operators_conv = OPERATOR_FAMILY(rows);
