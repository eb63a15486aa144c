/* SPDX-License-Identifier: MIT */
/* Convolution and transposed convolution. Both have the same geometry in different directions: a
 * transposed convolution is the gradient, by the data, of the convolution that it transposes. */
#include <inttypes.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* Values that both builders determine before they create a node. */
typedef struct convolution_call {
  compute_graph *graph;
  const char *operation;
  uint32_t inputs[2]; /* x, filter */
  compute_node bias;  /* or {0} */
  bool integer;       /* bytes, summed as i32 */
  compute_conv_attributes geometry;
  int64_t output_padding[2], padding_more[2];
  char x[BUILD_TEXT], filter[BUILD_TEXT]; /* shapes */
} convolution_call;

/* ---- Nodes ----------------------------------------------------------------------------------- */

compute_node network_along(compute_graph *graph, compute_node vector, int32_t axis, int32_t rank) {
  compute_shape shape = {.rank = rank - axis};
  if (rank - axis <= 1) return vector;
  shape_set(&shape, 0, shape_at(compute_node_shape(graph, vector), 0));
  for (int32_t i = 1; i < shape.rank; i++) shape_set(&shape, i, 1);
  return compute_reshape(graph, vector, shape);
}

static compute_shape result_shape(const compute_conv_attributes *c) {
  switch (c->direction) {
  case COMPUTE_CONVOLUTION_BY_DATA:
    return COMPUTE_SHAPE(c->batch, c->data_channels, c->data_size[0], c->data_size[1]);
  case COMPUTE_CONVOLUTION_BY_FILTER:
    return COMPUTE_SHAPE(c->result_channels, c->data_channels / c->groups, c->filter_size[0],
                         c->filter_size[1]);
  default: break;
  }
  return COMPUTE_SHAPE(c->batch, c->result_channels, c->result_size[0], c->result_size[1]);
}

static compute_node record(compute_graph *graph, const char *operation, graph_op op,
                           compute_dtype dtype, const compute_conv_attributes *geometry,
                           const uint32_t *inputs) {
  graph_node node = {.op = op,
                     .dtype = dtype,
                     .shape = result_shape(geometry),
                     .constant = graph_constant_create(1, sizeof *geometry)};
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a node");
  memcpy(node.constant, geometry, sizeof *geometry);
  return build_node(graph, operation, &node, inputs, 2);
}

compute_node network_convolve(compute_graph *graph, const char *operation,
                              const compute_conv_attributes *geometry, compute_node a,
                              compute_node b) {
  static const graph_op ops[] = {OP_conv2d, OP_conv2d_by_data, OP_conv2d_by_filter};
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, 2, inputs)) return BUILD_NONE;
  return record(graph, operation, ops[geometry->direction], build_at(graph, inputs[0])->dtype,
                geometry, inputs);
}

/* ---- Options --------------------------------------------------------------------------------- */

static compute_node fail_option(const convolution_call *call, const char *name, int64_t value,
                                const char *allowed) {
  return graph_fail(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                    "%s is %" PRId64 "; it must be %s", name, value, allowed);
}

/* Reads both numbers of an option and fills in the defaults. */
static bool read_pair(const convolution_call *call, const char *name, const int64_t *given,
                      int64_t *result) {
  result[0] = given[0] == 0 ? 1 : given[0];
  result[1] = given[1] == 0 ? result[0] : given[1];
  for (int i = 0; i < 2; i++) {
    if (result[i] > 0) continue;
    fail_option(call, name, result[i], "at least 1 (0 means 1)");
    return false;
  }
  return true;
}

static bool read_options(convolution_call *call, const compute_conv2d_options *options,
                         bool transposed) {
  static const compute_conv2d_options usual;
  const compute_conv2d_options *o = options ? options : &usual;
  compute_conv_attributes *c = &call->geometry;
  if (!graph_check_reserved(call->graph, call->operation, "options", o->reserved) ||
      !read_pair(call, "stride", o->stride, c->stride) ||
      !read_pair(call, "dilation", o->dilation, c->dilation)) {
    return false;
  }
  c->padding[0] = o->padding[0];
  c->padding[1] = o->padding[1] == -1 ? o->padding[0] : o->padding[1];
  for (int i = 0; i < 2; i++) {
    const int64_t more = o->output_padding[i];
    if (c->padding[i] < 0) {
      fail_option(call, "padding", c->padding[i], "at least 0");
      return false;
    }
    call->padding_more[i] = o->padding_more[i];
    if (o->padding_more[i] < -c->padding[i]) {
      fail_option(call, "padding_more", o->padding_more[i], "at least -padding");
      return false;
    }
    if (!transposed && more != 0) {
      fail_option(call, "output_padding", more, "0; only compute_conv2d_transpose has it");
      return false;
    }
    if (more < 0 || (more > 0 && more >= c->stride[i] && more >= c->dilation[i])) {
      fail_option(call, "output_padding", more, "at least 0 and less than stride or dilation");
      return false;
    }
    call->output_padding[i] = more;
  }
  if (o->groups < 0 || o->groups > INT32_MAX) {
    fail_option(call, "groups", o->groups, "1 … 2^31 − 1 (0 means 1)");
    return false;
  }
  c->groups = o->groups == 0 ? 1 : (int32_t)o->groups;
  return true;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static bool read_operands(convolution_call *call, compute_node x, compute_node filter) {
  compute_graph *graph = call->graph;
  const char *operation = call->operation;
  if (!build_operands(graph, operation, (const compute_node[]){x, filter}, 2, call->inputs))
    return false;
  const graph_node *image = build_at(graph, call->inputs[0]);
  const graph_node *taps = build_at(graph, call->inputs[1]);
  compute_shape_text(image->shape, call->x, sizeof call->x);
  compute_shape_text(taps->shape, call->filter, sizeof call->filter);
  const graph_domain domain = call->integer ? DOMAIN_BYTE : DOMAIN_FLOAT;
  if (!build_domain(graph, operation, domain, image->dtype) ||
      (call->integer ? !build_domain(graph, operation, domain, taps->dtype)
                     : !build_same_dtype(graph, operation, image->dtype, taps->dtype))) {
    return false;
  }
  if (image->shape.rank != 4 || taps->shape.rank != 4) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "needs x [batch,channels,height,width] and filter [channels,channels / "
                        "groups,rows,columns], not %s and %s",
                        call->x, call->filter);
  }
  if (shape_at(taps->shape, 2) < 1 || shape_at(taps->shape, 3) < 1) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "the filter %s has no elements",
                        call->filter);
  }
  call->geometry.batch = shape_at(image->shape, 0);
  for (int i = 0; i < 2; i++) call->geometry.filter_size[i] = shape_at(taps->shape, 2 + i);
  return true;
}

/* True if the groups divide the channels and the filter's channels match the channels of x.
 * `x_axis` is the filter axis with the channels of x: 1 (per group), or 0 for a transposed
 * convolution. */
static bool check_channels(convolution_call *call, int32_t x_axis) {
  const compute_shape x = build_at(call->graph, call->inputs[0])->shape;
  const compute_shape filter = build_at(call->graph, call->inputs[1])->shape;
  compute_conv_attributes *c = &call->geometry;
  const int64_t groups = c->groups;
  int64_t per_group;
  if (shape_at(x, 1) % groups != 0 || shape_at(filter, 0) % groups != 0) {
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                        "groups = %" PRId64 " does not divide the %" PRId64
                        " channels of x %s and the "
                        "%" PRId64 " of the filter %s",
                        groups, shape_at(x, 1), call->x, shape_at(filter, 0), call->filter);
  }
  const int64_t has = shape_at(filter, x_axis),
                needs = x_axis == 1 ? shape_at(x, 1) / groups : shape_at(x, 1);
  if (has != needs) {
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                        "the filter %s has %" PRId64 " channels at axis %d; x %s in %" PRId64
                        " groups needs %" PRId64,
                        call->filter, has, (int)x_axis, call->x, groups, needs);
  }
  if (!checked_multiply(shape_at(filter, 1), groups, &per_group)) {
    return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                        "the channels of filter %s in %" PRId64
                        " groups cannot be counted in 63 bits",
                        call->filter, groups);
  }
  c->data_channels = per_group;
  c->result_channels = shape_at(filter, 0);
  return true;
}

/* *reach = dilation · (filter − 1) + 1; *padded = the data with its padding. False, with an error,
 * if a number overflows. */
static bool measure(const convolution_call *call, int i, int64_t data, int64_t *reach,
                    int64_t *padded) {
  const compute_conv_attributes *c = &call->geometry;
  if (checked_multiply(c->filter_size[i] - 1, c->dilation[i], reach) &&
      checked_add(*reach, 1, reach) && checked_multiply(c->padding[i], 2, padded) &&
      checked_add(*padded, call->padding_more[i], padded) && checked_add(*padded, data, padded) &&
      *reach < INT64_MAX / 4 && c->stride[i] < INT64_MAX / 4 && *padded < INT64_MAX / 4)
    return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                      "filter %s with dilation %" PRId64 ", stride %" PRId64 " and padding %" PRId64
                      " on %s reaches beyond 63 bits",
                      call->filter, c->dilation[i], c->stride[i], c->padding[i], call->x);
}

static bool forward_sizes(convolution_call *call) {
  const compute_shape x = build_at(call->graph, call->inputs[0])->shape;
  compute_conv_attributes *c = &call->geometry;
  for (int i = 0; i < 2; i++) {
    int64_t reach, padded;
    c->data_size[i] = shape_at(x, 2 + i);
    if (!measure(call, i, c->data_size[i], &reach, &padded)) return false;
    if (reach > padded) {
      return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                          "the filter %s with dilation %" PRId64 " spans %" PRId64
                          " %s, more than the %" PRId64 " of x %s with padding %" PRId64,
                          call->filter, c->dilation[i], reach, i ? "columns" : "rows", padded,
                          call->x, c->padding[i]);
    }
    c->result_size[i] = (padded - reach) / c->stride[i] + 1;
  }
  return true;
}

static bool transposed_sizes(convolution_call *call) {
  const compute_shape x = build_at(call->graph, call->inputs[0])->shape;
  compute_conv_attributes *c = &call->geometry;
  for (int i = 0; i < 2; i++) {
    int64_t reach, padded, size;
    c->result_size[i] = shape_at(x, 2 + i);
    if (!measure(call, i, 0, &reach, &padded)) return false;
    if (!checked_multiply(c->result_size[i] - 1, c->stride[i], &size) ||
        !checked_add(size, reach + call->output_padding[i], &size)) {
      return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                          "the result of %s with stride %" PRId64 " cannot be counted in 63 bits",
                          call->x, c->stride[i]);
    }
    c->data_size[i] = size - padded;
    if (c->result_size[i] == 0 || c->data_size[i] < 1) {
      return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                          "x %s with filter %s, stride %" PRId64 " and padding %" PRId64
                          " would give %" PRId64 " %s; there must be at least 1",
                          call->x, call->filter, c->stride[i], c->padding[i], c->data_size[i],
                          i ? "columns" : "rows");
    }
  }
  return true;
}

/* True if the elements of a shape (sizes of 0 count as 1) times `factor` are at most a sixteenth of
 * SHAPE_MOST_ELEMENTS. The margin exists because layouts may round channels up. */
static bool is_reachable(compute_shape shape, int64_t factor) {
  int64_t product = factor;
  for (int32_t i = 0; i < shape.rank; i++)
    if (shape_at(shape, i) > 0 && !checked_multiply(product, shape_at(shape, i), &product))
      return false;
  return product <= SHAPE_MOST_ELEMENTS / 16;
}

/* Kernels compute positions in the padding, and multiply a position along one axis by another
 * axis's stride. This function refuses sizes that would overflow these numbers. */
static bool check_positions(convolution_call *call) {
  compute_conv_attributes *c = &call->geometry;
  const int64_t given[] = {c->stride[0], c->stride[1]};
  const compute_shape shapes[] = {
      COMPUTE_SHAPE(c->batch, c->data_channels, c->data_size[0], c->data_size[1]),
      COMPUTE_SHAPE(c->batch, c->result_channels, c->result_size[0], c->result_size[1]),
      COMPUTE_SHAPE(c->result_channels, c->data_channels, c->filter_size[0], c->filter_size[1])};
  int64_t most = c->batch > 1 ? c->batch : 1;
  if (c->data_channels > most) most = c->data_channels;
  if (c->result_channels > most) most = c->result_channels;
  for (int i = 0; i < 2; i++) {
    int64_t steps, taps, reach;
    /* All strides that leave one result are equivalent. The sum was checked before. */
    const int64_t padded = c->data_size[i] + 2 * c->padding[i] + call->padding_more[i];
    if (c->result_size[i] == 1 && c->stride[i] > padded) c->stride[i] = padded;
    if (!checked_multiply(c->result_size[i], c->stride[i], &steps) ||
        !checked_multiply(c->filter_size[i], c->dilation[i], &taps) ||
        !checked_add(steps, taps, &reach) || !checked_add(reach, c->padding[i], &reach))
      most = INT64_MAX;
    else if (reach > most)
      most = reach;
  }
  for (int i = 0; i < 3; i++) {
    if (is_reachable(shapes[i], most)) continue;
    return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                        "filter %s with stride %" PRId64 " × %" PRId64 ", dilation %" PRId64
                        " × %" PRId64 " and padding %" PRId64 " × %" PRId64
                        " on %s is too large to address",
                        call->filter, given[0], given[1], c->dilation[0], c->dilation[1],
                        c->padding[0], c->padding[1], call->x);
  }
  return true;
}

/* ---- Bias ------------------------------------------------------------------------------------ */

bool network_check_bias(compute_graph *graph, const char *operation, compute_dtype dtype,
                        compute_node bias, int64_t channels) {
  uint32_t index;
  if (!network_given(bias)) return true;
  if (!build_operands(graph, operation, &bias, 1, &index)) return false;
  const graph_node *node = build_at(graph, index);
  if (!build_same_dtype(graph, operation, dtype, node->dtype)) return false;
  if (node->shape.rank == 1 && shape_at(node->shape, 0) == channels) return true;
  char text[BUILD_TEXT];
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "the bias has shape %s; it must be [%" PRId64
                      "], one for each channel of the result",
                      compute_shape_text(node->shape, text, sizeof text), channels);
}

compute_node network_add_bias(compute_graph *graph, compute_node y, compute_node bias) {
  const int32_t rank = compute_node_shape(graph, y).rank;
  return network_given(bias) ? compute_add(graph, y, network_along(graph, bias, 1, rank)) : y;
}

/* ---- Builders -------------------------------------------------------------------------------- */

static bool check_bias(const convolution_call *call, int64_t channels) {
  return network_check_bias(call->graph, call->operation,
                            build_at(call->graph, call->inputs[0])->dtype, call->bias, channels);
}

compute_node network_conv2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_node filter, compute_node bias,
                            const compute_conv2d_options *options) {
  convolution_call call = {.graph = graph, .operation = operation, .bias = bias};
  if (!read_operands(&call, x, filter) || !read_options(&call, options, false) ||
      !check_channels(&call, 1) || !forward_sizes(&call) || !check_positions(&call) ||
      !check_bias(&call, call.geometry.result_channels)) {
    return BUILD_NONE;
  }
  call.geometry.direction = COMPUTE_CONVOLUTION_FORWARD;
  const compute_node y = network_convolve(graph, operation, &call.geometry, x, filter);
  return network_add_bias(graph, y, bias);
}

static bool read_integer(convolution_call *call, compute_node x, compute_node filter,
                         const compute_conv2d_options *options) {
  call->integer = true;
  call->geometry.direction = COMPUTE_CONVOLUTION_FORWARD;
  return read_operands(call, x, filter) && read_options(call, options, false) &&
         check_channels(call, 1) && forward_sizes(call) && check_positions(call);
}

bool network_conv2d_integer_fits(compute_graph *graph, const char *operation, compute_node x,
                                 compute_node filter, const compute_conv2d_options *options) {
  convolution_call call = {.graph = graph, .operation = operation};
  return read_integer(&call, x, filter, options);
}

compute_node network_conv2d_integer(compute_graph *graph, const char *operation, compute_node x,
                                    compute_node filter, const compute_conv2d_options *options) {
  convolution_call call = {.graph = graph, .operation = operation};
  if (!read_integer(&call, x, filter, options)) return BUILD_NONE;
  return record(graph, operation, OP_conv2d_integer, COMPUTE_I32, &call.geometry, call.inputs);
}

compute_node network_conv2d_transpose(compute_graph *graph, const char *operation, compute_node x,
                                      compute_node filter, compute_node bias,
                                      const compute_conv2d_options *options) {
  convolution_call call = {.graph = graph, .operation = operation, .bias = bias};
  if (!read_operands(&call, x, filter) || !read_options(&call, options, true) ||
      !check_channels(&call, 0) || !transposed_sizes(&call) || !check_positions(&call) ||
      !check_bias(&call, call.geometry.data_channels)) {
    return BUILD_NONE;
  }
  call.geometry.direction = COMPUTE_CONVOLUTION_BY_DATA;
  const compute_node y = network_convolve(graph, operation, &call.geometry, x, filter);
  return network_add_bias(graph, y, bias);
}

compute_node compute_conv2d(compute_graph *graph, compute_node x, compute_node filter,
                            compute_node bias, const compute_conv2d_options *options) {
  BUILD_ALL_OR_NOTHING(graph);
  return network_conv2d(graph, "conv2d", x, filter, bias, options);
}

compute_node compute_conv2d_transpose(compute_graph *graph, compute_node x, compute_node filter,
                                      compute_node bias, const compute_conv2d_options *options) {
  BUILD_ALL_OR_NOTHING(graph);
  return network_conv2d_transpose(graph, "conv2d_transpose", x, filter, bias, options);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

compute_node network_pool(compute_graph *graph, const char *operation,
                          const compute_window_attributes *geometry, compute_shape shape,
                          compute_node a, compute_node b) {
  static const graph_op ops[][2] = {{OP_max_pool2d, OP_max_pool2d_by_data},
                                    {OP_average_pool2d, OP_average_pool2d_by_data},
                                    {OP_argmax_pool2d, OP_argmax_pool2d}};
  uint32_t inputs[2];
  const size_t count = compute_node_is_valid(b) ? 2 : 1;
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, count, inputs))
    return BUILD_NONE;
  graph_node node = {.op = ops[geometry->operation][geometry->by_data],
                     .dtype = geometry->operation == COMPUTE_WINDOW_ARGMAX
                                  ? COMPUTE_I64
                                  : build_at(graph, inputs[0])->dtype,
                     .shape = shape,
                     .constant = graph_constant_create(1, sizeof *geometry)};
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a node");
  memcpy(node.constant, geometry, sizeof *geometry);
  return build_node(graph, operation, &node, inputs, count);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static bool fail_pool_option(compute_graph *graph, const char *operation, const char *name,
                             int64_t value, const char *allowed) {
  return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%s is %" PRId64 "; it must be %s", name, value, allowed);
}

/* Reads the options and fills in the defaults. */
static bool read_pool_options(compute_graph *graph, const char *operation,
                              const compute_pool2d_options *o, compute_window_attributes *w) {
  for (int i = 0; i < 2; i++) {
    w->size[i] = i && o->size[1] == 0 ? w->size[0] : o->size[i];
    w->stride[i] = o->stride[i] != 0 ? o->stride[i] : i && o->stride[0] ? w->stride[0] : w->size[i];
    w->dilation[i] = o->dilation[i] != 0   ? o->dilation[i]
                     : i && o->dilation[0] ? w->dilation[0]
                                           : 1;
    w->padding[i] = i && o->padding[1] == -1 ? w->padding[0] : o->padding[i];
    if (w->size[i] < 1) return fail_pool_option(graph, operation, "size", w->size[i], "at least 1");
    if (w->stride[i] < 1)
      return fail_pool_option(graph, operation, "stride", w->stride[i],
                              "at least 1 (0 means size)");
    if (w->dilation[i] < 1)
      return fail_pool_option(graph, operation, "dilation", w->dilation[i],
                              "at least 1 (0 means 1)");
    /* The padding must be less than a window: (padding − 1) / dilation < size − 1, unless it is
     * 0. */
    if (w->padding[i] < 0 ||
        (w->padding[i] > 0 && (w->padding[i] - 1) / w->dilation[i] >= w->size[i] - 1))
      return fail_pool_option(graph, operation, "padding", w->padding[i],
                              "at least 0 and less than a window");
    w->padding_more[i] = o->padding_more[i];
    const int64_t most = INT64_MAX - w->padding[i];
    if (w->padding_more[i] < -w->padding[i] || w->padding_more[i] > most ||
        (w->padding_more[i] > -w->padding[i] &&
         (w->padding[i] + w->padding_more[i] - 1) / w->dilation[i] >= w->size[i] - 1))
      return fail_pool_option(graph, operation, "padding_more", w->padding_more[i],
                              "at least -padding and, with it, less than a window");
  }
  if (w->operation != COMPUTE_WINDOW_AVERAGE && o->exclude_padding)
    return fail_pool_option(graph, operation, "exclude_padding", 1, "false for maxima");
  w->count_padding = w->operation == COMPUTE_WINDOW_AVERAGE && !o->exclude_padding;
  return graph_check_reserved(graph, operation, "options", o->reserved);
}

/* Counts the windows along axis i, as PyTorch does. */
static bool count_windows(compute_graph *graph, const char *operation, const char *x, bool ceiling,
                          compute_window_attributes *w, int i) {
  int64_t reach, padded;
  if (!checked_multiply(w->size[i] - 1, w->dilation[i], &reach) || !checked_add(reach, 1, &reach) ||
      w->padding[i] > INT64_MAX / 8 || !checked_add(w->data_size[i], 2 * w->padding[i], &padded) ||
      !checked_add(padded, w->padding_more[i], &padded) || reach > INT64_MAX / 4 ||
      padded > INT64_MAX / 4 || w->stride[i] > INT64_MAX / 4) {
    return graph_refuse(graph, COMPUTE_ERROR_OVERFLOW, operation,
                        "a window of %" PRId64 " with dilation %" PRId64
                        " on %s reaches beyond 63 bits",
                        w->size[i], w->dilation[i], x);
  }
  const int64_t left = padded - reach + (ceiling ? w->stride[i] - 1 : 0);
  int64_t count = left < 0 ? 0 : left / w->stride[i] + 1;
  if (count < 1) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "a window of %" PRId64 " with dilation %" PRId64 " spans %" PRId64
                        " %s, more than the %" PRId64 " of x %s with padding %" PRId64,
                        w->size[i], w->dilation[i], reach, i ? "columns" : "rows", padded, x,
                        w->padding[i]);
  }
  if (ceiling && (count - 1) * w->stride[i] >= w->data_size[i] + w->padding[i]) count--;
  w->result_size[i] = count;
  if (!w->count_padding) w->padding_more[i] = 0; /* it only affects the number of windows */
  /* With one window, or one element per window, the step to the next has no effect. */
  if (count == 1 && w->stride[i] > padded) w->stride[i] = padded > 1 ? padded : 1;
  if (w->size[i] == 1) w->dilation[i] = 1;
  return true;
}

compute_node network_pool2d(compute_graph *graph, const char *operation, compute_node x,
                            compute_window_operation fold, const compute_pool2d_options *options) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  if (!options)
    return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation,
                      "options is NULL; the size of the windows must be given");
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape_text(shape, text, sizeof text);
  if (!build_domain(graph, operation,
                    fold == COMPUTE_WINDOW_AVERAGE ? DOMAIN_FLOAT : DOMAIN_ORDERED,
                    build_at(graph, input)->dtype))
    return BUILD_NONE;
  if (shape.rank != 4)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x has shape %s; it must be [batch,channels,height,width]", text);
  compute_window_attributes w;
  memset(&w, 0, sizeof w); /* compared as bytes */
  w.operation = fold;
  if (!read_pool_options(graph, operation, options, &w)) return BUILD_NONE;
  for (int i = 0; i < 2; i++) {
    w.data_size[i] = shape_at(shape, 2 + i);
    if (!count_windows(graph, operation, text, options->ceil, &w, i)) return BUILD_NONE;
  }
  if (!build_size(graph, operation, COMPUTE_SHAPE(w.size[0], w.size[1]))) return BUILD_NONE;
  if (!kernel_windows_fit(&w))
    return graph_fail(graph, COMPUTE_ERROR_OVERFLOW, operation,
                      "windows of %" PRId64 " × %" PRId64 " with stride %" PRId64 " × %" PRId64
                      " and dilation %" PRId64 " × %" PRId64 " on %s reach beyond 63 bits",
                      w.size[0], w.size[1], w.stride[0], w.stride[1], w.dilation[0], w.dilation[1],
                      text);
  const compute_shape result =
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), w.result_size[0], w.result_size[1]);
  return network_pool(graph, operation, &w, result, x, BUILD_NONE);
}

compute_node compute_max_pool2d(compute_graph *graph, compute_node x,
                                const compute_pool2d_options *options) {
  return network_pool2d(graph, "max_pool2d", x, COMPUTE_WINDOW_MAX, options);
}

compute_node compute_argmax_pool2d(compute_graph *graph, compute_node x,
                                   const compute_pool2d_options *options) {
  return network_pool2d(graph, "argmax_pool2d", x, COMPUTE_WINDOW_ARGMAX, options);
}

compute_node compute_average_pool2d(compute_graph *graph, compute_node x,
                                    const compute_pool2d_options *options) {
  return network_pool2d(graph, "average_pool2d", x, COMPUTE_WINDOW_AVERAGE, options);
}

compute_node compute_max_unpool(compute_graph *graph, compute_node x, compute_node places,
                                compute_shape shape) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "max_unpool";
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t inputs[2];
  int64_t count;
  char a[BUILD_TEXT], b[BUILD_TEXT];
  if (!build_operands(graph, operation, (const compute_node[]){x, places}, 2, inputs) ||
      !build_size(graph, operation, shape))
    return BUILD_NONE;
  const graph_node *from = build_at(graph, inputs[0]), *at = build_at(graph, inputs[1]);
  if (!compute_shape_equal(from->shape, at->shape))
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "x has shape %s, its places %s",
                      compute_shape_text(from->shape, a, sizeof a),
                      compute_shape_text(at->shape, b, sizeof b));
  if (compute_shape_count(shape, &count)) return BUILD_NONE; /* checked above */
  const compute_shape flat = COMPUTE_SHAPE(-1);
  const compute_node zeros = compute_full(graph, from->dtype, COMPUTE_SHAPE(count), 0);
  const compute_node y =
      compute_scatter(graph, zeros, compute_reshape(graph, x, flat),
                      compute_reshape(graph, places, flat), 0, COMPUTE_SCATTER_SET);
  return compute_reshape(graph, y, shape);
}

/* ---- Whole images ---------------------------------------------------------------------------- */

static bool check_images(compute_graph *graph, const char *operation, compute_node x) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return false;
  const graph_node *node = build_at(graph, input);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, node->dtype)) return false;
  if (node->shape.rank == 4 && shape_at(node->shape, 2) > 0 && shape_at(node->shape, 3) > 0)
    return true;
  return graph_refuse(
      graph, COMPUTE_ERROR_SHAPE, operation,
      "x has shape %s; it must be [batch,channels,height,width] with at least one element "
      "in each image",
      compute_shape_text(node->shape, text, sizeof text));
}

compute_node compute_global_average_pool2d(compute_graph *graph, compute_node x) {
  if (!check_images(graph, "global_average_pool2d", x)) return BUILD_NONE;
  return compute_mean(graph, x, COMPUTE_AXES(2, 3), false);
}

compute_node compute_global_max_pool2d(compute_graph *graph, compute_node x) {
  if (!check_images(graph, "global_max_pool2d", x)) return BUILD_NONE;
  return compute_max(graph, x, COMPUTE_AXES(2, 3), false);
}
