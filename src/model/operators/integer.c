/* SPDX-License-Identifier: MIT */
/* Exact products of quantized numbers. 8-bit factors use compute_matmul_integer and
 * compute_conv2d_integer directly; matrix factors may be wider. */
#include "model/operators/integer.h"

#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/window.h"

/* Limit on products of 8-bit numbers with zero points in an i32 sum. */
enum { MOST_PRODUCTS = 33025 };

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* ---- Products of matrices -------------------------------------------------------------------- */

bool integer_is_0(const model_value *value) {
  if (value->kind == VALUE_ABSENT) return true;
  const unsigned char *bytes = value->host;
  if (!bytes || op_is_float(value->dtype)) return false;
  const int64_t count = op_count(value->shape, 0, value->shape.rank);
  for (int64_t k = count * (int64_t)compute_dtype_size(value->dtype); k > 0; k--)
    if (bytes[k - 1] != 0) return false;
  return true;
}

static bool is_zero_point(const model_call *call, size_t i) {
  return call_has(call, i) && !integer_is_0(call->inputs[i]);
}

integer_factor integer_input(const model_call *call, size_t i, compute_node values,
                             size_t zero_input, compute_node zero) {
  if (!is_zero_point(call, zero_input)) zero = (compute_node){0};
  return (integer_factor){values, zero, call_has(call, i) ? call->inputs[i]->host : NULL};
}

static bool is_of_bytes(const model_call *call, const integer_factor *f) {
  const compute_dtype dtype = compute_node_dtype(call->graph, f->values);
  return is_byte(dtype) &&
         (!compute_node_is_valid(f->zero) || compute_node_dtype(call->graph, f->zero) == dtype);
}

static compute_node widened(model_call *call, const integer_factor *f) {
  const compute_dtype dtype = compute_node_dtype(call->graph, f->values);
  const compute_dtype wide = op_is_float(dtype) ? dtype : COMPUTE_I32;
  const compute_node x = op_cast(call, f->values, wide);
  return compute_node_is_valid(f->zero) ? compute_sub(call->graph, x, op_cast(call, f->zero, wide))
                                        : x;
}

/* Sums along k of known values [..., m, k] or, on the `right`, [..., k, n], as a constant with
 * size 1 on that axis. {0} if out of memory. */
static compute_node known_sums(model_call *call, const integer_factor *f, bool right) {
  compute_shape shape = compute_node_shape(call->graph, f->values);
  const int32_t axis = shape.rank - (right ? 2 : 1);
  const int64_t outer = op_count(shape, 0, axis), k = shape_at(shape, axis);
  const int64_t inner = op_count(shape, axis + 1, shape.rank);
  const bool is_signed = compute_node_dtype(call->graph, f->values) == COMPUTE_I8;
  const uint8_t *from = f->host;
  int32_t *sums = call_allocate(call, (size_t)(outer * inner), sizeof *sums);
  if (!sums) return (compute_node){0};
  for (int64_t o = 0; o < outer; o++)
    for (int64_t p = 0; p < k; p++, from += inner)
      for (int64_t i = 0; i < inner; i++)
        sums[o * inner + i] += is_signed ? (int8_t)from[i] : from[i];
  shape_set(&shape, axis, 1);
  return compute_constant(call->graph, COMPUTE_I32, shape, sums);
}

/* zero · sums: the zero point of one factor times the sums of the other. */
static compute_node zero_products(model_call *call, const integer_factor *zero, compute_node sums) {
  return compute_mul(call->graph, op_cast(call, zero->zero, COMPUTE_I32), sums);
}

/* If one factor is known, subtracts the term of the other's zero point here: (A − a)(B − b) =
 * A(B − b) − a · (sums of B − k · b), and the same with A and B exchanged. */
static compute_node with_known_sums(model_call *call, const integer_factor *a,
                                    const integer_factor *b, bool right, compute_node sums) {
  compute_graph *graph = call->graph;
  const integer_factor *known = right ? b : a, *other = right ? a : b;
  const compute_shape left = compute_node_shape(graph, a->values);
  const compute_node k = compute_scalar_i64(graph, COMPUTE_I32, shape_at(left, left.rank - 1));
  const compute_node none = {0};
  const compute_node product = compute_matmul_integer(
      graph, a->values, b->values, right ? none : a->zero, right ? b->zero : none);
  if (compute_node_is_valid(known->zero))
    sums = compute_sub(graph, sums, zero_products(call, known, k));
  return compute_sub(graph, product, zero_products(call, other, sums));
}

bool integer_fits(const model_call *call, const integer_factor *a, const integer_factor *b) {
  const compute_shape left = compute_node_shape(call->graph, a->values);
  return is_of_bytes(call, a) && is_of_bytes(call, b) && left.rank > 0 &&
         shape_at(left, left.rank - 1) <= MOST_PRODUCTS;
}

compute_node integer_product(model_call *call, const integer_factor *a, const integer_factor *b) {
  compute_graph *graph = call->graph;
  const compute_shape left = compute_node_shape(graph, a->values);
  const compute_shape right = compute_node_shape(graph, b->values);
  if (!integer_fits(call, a, b)) return compute_matmul(graph, widened(call, a), widened(call, b));
  const bool matrices = left.rank > 1 && right.rank > 1;
  const bool known_b = b->host && compute_node_is_valid(a->zero);
  const bool known_a = a->host && compute_node_is_valid(b->zero);
  if (matrices && (known_a || known_b)) {
    const compute_node sums = known_sums(call, known_b ? b : a, known_b);
    if (compute_node_is_valid(sums)) return with_known_sums(call, a, b, known_b, sums);
  }
  return compute_matmul_integer(graph, a->values, b->values, a->zero, b->zero);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* Minimum filters per group, or single-channel groups, that fill integer vectors. */
enum { LEAST_FILTERS = 8 };

static bool fills_vectors(compute_shape filter, int64_t groups) {
  const bool depthwise = shape_at(filter, 0) == groups && shape_at(filter, 1) == 1;
  return shape_at(filter, 0) / (depthwise ? 1 : groups) >= LEAST_FILTERS;
}

/* Returns false if kernel_shape contradicts the filter. Conv reports that error. */
static bool says_kernel_shape(const model_call *call, compute_shape filter) {
  size_t count;
  const int64_t *sizes = call_attribute_ints(call, "kernel_shape", &count);
  if (!sizes || count == 0) return true;
  bool same = count == (size_t)filter.rank - 2;
  for (size_t i = 0; same && i < count; i++) same = sizes[i] == shape_at(filter, 2 + (int32_t)i);
  return same;
}

/* `true` if compute_conv2d_integer does all padding. Only it pads with a zero point that a run
 * computes. */
static bool pads_planes_only(const model_call *call, int32_t rank) {
  size_t count;
  const int64_t *pads = call_attribute_ints(call, "pads", &count);
  for (size_t i = 0; pads && i < count; i++)
    if (pads[i] < 0) return false;
  return rank < 5;
}

bool integer_convolution_fits(const model_call *call, size_t x, size_t x_zero, size_t w,
                              size_t w_zero) {
  const compute_shape data = call_shape(call, x), filter = call_shape(call, w);
  const int64_t groups = call_attribute_i(call, "group", 1);
  if (data.rank < 3 || data.rank > 5 || filter.rank != data.rank || groups < 1 ||
      shape_at(data, 0) < 1 || shape_at(data, 1) != groups * shape_at(filter, 1) ||
      shape_at(filter, 0) % groups != 0 || !fills_vectors(filter, groups) ||
      op_count(filter, 1, filter.rank) > MOST_PRODUCTS || op_count(filter, 1, filter.rank) < 1 ||
      !says_kernel_shape(call, filter))
    return false;
  if (!is_byte(call_dtype(call, x)) || !is_byte(call_dtype(call, w))) return false;
  if (call_has(call, w_zero) && call_dtype(call, w_zero) != call_dtype(call, w)) return false;
  return !call_has(call, x_zero) ||
         (call_dtype(call, x_zero) == call_dtype(call, x) &&
          op_count(call_shape(call, x_zero), 0, call_shape(call, x_zero).rank) == 1 &&
          (call->inputs[x_zero]->host || pads_planes_only(call, data.rank)));
}

typedef struct convolution {
  model_call *call;
  compute_node x, w, w_zero; /* for one depth: [n, c, h, w], cropped so that windows begin inside */
  compute_shape filter, result;
  compute_conv2d_options options;
  window depth; /* of three axes, else WINDOW_NONE */
  int64_t k;    /* elements of a window */
} convolution;

/* Pads an axis of x with the zero point, or crops it. If the zero point is 0, the convolution
 * pads instead. */
static void surround(convolution *c, int32_t axis, const window *w, double zero, int i) {
  const bool plain = zero == 0 && w->before >= 0 && w->after >= 0;
  c->options.stride[i] = w->stride;
  c->options.dilation[i] = w->dilation;
  if (plain) {
    c->options.padding[i] = w->before;
    c->options.padding_more[i] = w->after - w->before;
  } else {
    c->x = op_pad(c->call, c->x, axis, w->before, w->after, zero);
  }
}

static compute_status read_convolution(model_call *call, size_t x, double zero, convolution *c) {
  const compute_shape data = call_shape(call, x);
  window windows[WINDOW_MOST];
  int64_t count;
  const compute_status status = window_take(call, data, c->filter.size + 2, false, windows);
  if (status) return status;
  const int32_t axes = data.rank - 2;
  c->options.groups = call_attribute_i(call, "group", 1);
  c->k = op_count(c->filter, 1, c->filter.rank);
  c->depth = (window)WINDOW_NONE;
  c->result =
      (compute_shape){.rank = data.rank, .size = {shape_at(data, 0), shape_at(c->filter, 0)}};
  for (int32_t i = 0; i < axes; i++) shape_set(&c->result, 2 + i, windows[i].count);
  if (compute_shape_count(c->result, &count))
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "its result has too many elements");
  c->x = call_input(call, x);
  if (axes == 3) {
    c->depth = windows[0];
    c->x = op_pad(call, c->x, 2, c->depth.before, c->depth.after, zero);
  }
  for (int32_t i = axes > 2 ? axes - 2 : 0; i < axes; i++)
    surround(c, 2 + i, &windows[i], zero, i + 2 - axes);
  return COMPUTE_OK;
}

static compute_node plane_of(const convolution *c, compute_node x) {
  const compute_shape shape = compute_node_shape(c->call->graph, x);
  if (shape.rank != 3) return x;
  return compute_reshape(
      c->call->graph, x,
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), 1, shape_at(shape, 2)));
}

/* For three axes: the data for tap `tap` along the depth, as images [n · depth, c, h, w]. */
static compute_node slice_of(const convolution *c, int64_t tap) {
  compute_graph *graph = c->call->graph;
  const window *d = &c->depth;
  compute_node x = compute_slice(graph, c->x, 2, tap * d->dilation, d->count, d->stride);
  x = op_move_axis(c->call, x, 2, 1);
  const compute_shape s = compute_node_shape(graph, x);
  return compute_reshape(graph, x,
                         COMPUTE_SHAPE(shape_at(s, 0) * shape_at(s, 1), shape_at(s, 2),
                                       shape_at(s, 3), shape_at(s, 4)));
}

static compute_node filter_slice(const convolution *c, int64_t tap) {
  compute_graph *graph = c->call->graph;
  const compute_node w = compute_slice(graph, c->w, 2, tap, 1, 1);
  const compute_shape s = c->filter;
  return compute_reshape(
      graph, w, COMPUTE_SHAPE(shape_at(s, 0), shape_at(s, 1), shape_at(s, 3), shape_at(s, 4)));
}

/* The sums of all products, minus those with zero points; `x_zero` or {0}. */
static compute_node convolve(const convolution *c, compute_node x_zero) {
  compute_graph *graph = c->call->graph;
  if (c->filter.rank < 5)
    return compute_conv2d_integer(graph, plane_of(c, c->x), plane_of(c, c->w), x_zero, c->w_zero,
                                  &c->options);
  compute_node sum = {0};
  for (int64_t tap = 0; tap < c->depth.size; tap++) {
    const compute_node part = compute_conv2d_integer(graph, slice_of(c, tap), filter_slice(c, tap),
                                                     x_zero, c->w_zero, &c->options);
    sum = tap == 0 ? part : compute_add(graph, sum, part);
  }
  return sum;
}

/* Gets the elements of input i: NULL if omitted, or `count` known elements of a dtype. Returns
 * false otherwise. */
static bool take_known(model_call *call, size_t i, compute_dtype dtype, int64_t count,
                       const void **data) {
  *data = NULL;
  if (!call_has(call, i)) return true;
  const compute_shape shape = call_shape(call, i);
  return call_dtype(call, i) == dtype && call->inputs[i]->host &&
         op_count(shape, 0, shape.rank) == count && call_host(call, i, data) == COMPUTE_OK;
}

static int32_t byte_at(compute_dtype dtype, const unsigned char *bytes, int64_t at) {
  return dtype == COMPUTE_I8 ? (int8_t)bytes[at] : bytes[at];
}

/* The bias (SIZE_MAX for none) minus the contribution of the data's zero point to each filter's
 * sums: i32 [filters]. NULL unless all of it is known. */
static int32_t *known_offsets(const convolution *c, double padding, size_t w, size_t w_zero,
                              size_t bias) {
  model_call *call = c->call;
  const int64_t filters = shape_at(c->filter, 0);
  const compute_dtype dtype = call_dtype(call, w);
  const compute_shape zero_shape = call_shape(call, w_zero);
  const bool one = op_count(zero_shape, 0, zero_shape.rank) == 1;
  const void *of_w, *of_zero, *of_bias;
  if (!take_known(call, w, dtype, filters * c->k, &of_w) ||
      !take_known(call, w_zero, dtype, one ? 1 : filters, &of_zero) ||
      !take_known(call, bias, COMPUTE_I32, filters, &of_bias))
    return NULL;
  int32_t *offsets = call_allocate(call, (size_t)filters, sizeof *offsets);
  for (int64_t f = 0; offsets && f < filters; f++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < c->k; i++) sum += byte_at(dtype, of_w, f * c->k + i);
    if (of_zero) sum -= c->k * byte_at(dtype, of_zero, one ? 0 : f);
    const uint32_t start = of_bias ? ((const uint32_t *)of_bias)[f] : 0;
    offsets[f] = (int32_t)(start - (uint32_t)((int64_t)padding * sum)); /* wraps around like the
                                                                         * sums */
  }
  return offsets;
}

/* Subtracts 128 from u8 filters and their zero points, if both are known. Kernels multiply i8
 * fastest, and the usual zero points of 128 become 0. */
static bool take_signed_filter(convolution *c, size_t w, size_t w_zero) {
  model_call *call = c->call;
  const int64_t count = op_count(c->filter, 0, c->filter.rank);
  const compute_shape zeros = call_shape(call, w_zero);
  const int64_t zero_count = op_count(zeros, 0, zeros.rank);
  const void *of_w, *of_zero;
  if (!call_has(call, w_zero) || call_dtype(call, w) != COMPUTE_U8 ||
      !take_known(call, w, COMPUTE_U8, count, &of_w) ||
      !take_known(call, w_zero, COMPUTE_U8, zero_count, &of_zero))
    return false;
  unsigned char *bytes = call_allocate(call, (size_t)(count + zero_count), 1);
  if (!bytes) return false;
  bool any = false;
  for (int64_t i = 0; i < count; i++) bytes[i] = ((const unsigned char *)of_w)[i] ^ 128;
  for (int64_t i = 0; i < zero_count; i++) {
    bytes[count + i] = ((const unsigned char *)of_zero)[i] ^ 128;
    any = any || bytes[count + i] != 0;
  }
  c->w = compute_constant(call->graph, COMPUTE_I8, c->filter, bytes);
  if (any) c->w_zero = compute_constant(call->graph, COMPUTE_I8, zeros, bytes + count);
  return true;
}

compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   size_t w_zero, size_t bias, integer_sums *sums) {
  compute_graph *graph = call->graph;
  const compute_node none = {0};
  convolution c = {.call = call, .filter = call_shape(call, w)};
  double zero = 0;
  const bool known = !call_has(call, x_zero) || call->inputs[x_zero]->host;
  compute_status status =
      known && call_has(call, x_zero) ? call_number(call, x_zero, &zero) : COMPUTE_OK;
  if (!status) status = read_convolution(call, x, zero, &c);
  if (status) return status;
  const int64_t filters = shape_at(c.filter, 0);
  if (!take_signed_filter(&c, w, w_zero)) {
    c.w = call_input(call, w);
    c.w_zero = is_zero_point(call, w_zero) ? call_input(call, w_zero) : none;
  }
  *sums = (integer_sums){.channels = COMPUTE_SHAPE(filters, 1, 1), .result = c.result};
  int32_t *offsets = known ? known_offsets(&c, zero, w, w_zero, bias) : NULL;
  if (offsets) {
    const compute_node added = compute_constant(graph, COMPUTE_I32, sums->channels, offsets);
    sums->values = compute_add(graph, convolve(&c, none), added);
    return COMPUTE_OK;
  }
  sums->values = convolve(&c, !known || zero != 0 ? call_input(call, x_zero) : none);
  if (call_has(call, bias))
    sums->values = compute_add(graph, sums->values,
                               compute_reshape(graph, call_input(call, bias), sums->channels));
  return COMPUTE_OK;
}

compute_node integer_result(model_call *call, const integer_sums *sums, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_shape result = sums->result;
  if (result.rank != 5 || compute_node_shape(graph, x).rank != 4)
    return compute_reshape(graph, x, result);
  x = compute_reshape(graph, x,
                      COMPUTE_SHAPE(shape_at(result, 0), shape_at(result, 2), shape_at(result, 1),
                                    shape_at(result, 3), shape_at(result, 4)));
  return op_move_axis(call, x, 1, 2);
}
