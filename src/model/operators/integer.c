/* SPDX-License-Identifier: MIT */
/* Exact products of quantized numbers: of 8 bits by compute_matmul_integer, which takes them as
 * they lie, else widened. Convolutions are products of a matrix of all windows, whose bytes are a
 * quarter of what windows of floats would be, and the filters. Channels come last, so that windows
 * are copied in long runs and the results are the next convolution's data as they lie. */
#include "model/operators/integer.h"

#include "model/operators/op.h"
#include "model/operators/window.h"

/* So many products of 8 bits with zero points fit a sum in i32. */
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

/* The sums along k of known values [..., m, k] or, on the `right`, [..., k, n]: a constant with
 * that axis as 1. {0} when memory is short. */
static compute_node known_sums(model_call *call, const integer_factor *f, bool right) {
  compute_shape shape = compute_node_shape(call->graph, f->values);
  const int32_t axis = shape.rank - (right ? 2 : 1);
  const int64_t outer = op_count(shape, 0, axis), k = shape.size[axis];
  const int64_t inner = op_count(shape, axis + 1, shape.rank);
  const bool is_signed = compute_node_dtype(call->graph, f->values) == COMPUTE_I8;
  const uint8_t *from = f->host;
  int32_t *sums = call_allocate(call, (size_t)(outer * inner), sizeof *sums);
  if (!sums) return (compute_node){0};
  for (int64_t o = 0; o < outer; o++)
    for (int64_t p = 0; p < k; p++, from += inner)
      for (int64_t i = 0; i < inner; i++)
        sums[o * inner + i] += is_signed ? (int8_t)from[i] : from[i];
  shape.size[axis] = 1;
  return compute_constant(call->graph, COMPUTE_I32, shape, sums);
}

/* zero · sums, where the zero point is that of one factor and the sums are the other's. */
static compute_node zero_products(model_call *call, const integer_factor *zero, compute_node sums) {
  return compute_mul(call->graph, op_cast(call, zero->zero, COMPUTE_I32), sums);
}

/* The term of one factor's zero point, if the other is known, is subtracted here:
 * (A − a)(B − b) = A(B − b) − a · (sums of B − k · b), and the same with A and B exchanged. */
static compute_node with_known_sums(model_call *call, const integer_factor *a,
                                    const integer_factor *b, bool right, compute_node sums) {
  compute_graph *graph = call->graph;
  const integer_factor *known = right ? b : a, *other = right ? a : b;
  const compute_shape left = compute_node_shape(graph, a->values);
  const compute_node k = compute_scalar_i64(graph, COMPUTE_I32, left.size[left.rank - 1]);
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
         left.size[left.rank - 1] <= MOST_PRODUCTS;
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

/* Filters of a group below which a product of matrices is too narrow; elements of a filter for each
 * channel beyond which the windows are too large; channels of a group below which their runs are
 * too short. */
enum { LEAST_FILTERS = 8, MOST_TAPS = 64, LEAST_CHANNELS = 16 };

/* Conv reports a kernel_shape that is not the filter's. */
static bool says_kernel_shape(const model_call *call, compute_shape filter) {
  size_t count;
  const int64_t *sizes = call_attribute_ints(call, "kernel_shape", &count);
  if (!sizes || count == 0) return true;
  bool same = count == (size_t)filter.rank - 2;
  for (size_t i = 0; same && i < count; i++) same = sizes[i] == filter.size[2 + i];
  return same;
}

bool integer_convolution_fits(const model_call *call, size_t x, size_t x_zero, size_t w,
                              size_t w_zero) {
  const compute_shape data = call_shape(call, x), filter = call_shape(call, w);
  const int64_t groups = call_attribute_i(call, "group", 1);
  if (data.rank < 3 || data.rank > 5 || filter.rank != data.rank || groups < 1 ||
      data.size[0] < 1 || data.size[1] != groups * filter.size[1] || filter.size[0] % groups != 0 ||
      filter.size[0] / groups < LEAST_FILTERS || op_count(filter, 1, filter.rank) > MOST_PRODUCTS ||
      op_count(filter, 1, filter.rank) < 1 || op_count(filter, 2, filter.rank) > MOST_TAPS ||
      !says_kernel_shape(call, filter))
    return false;
  if (!is_byte(call_dtype(call, x)) || !is_byte(call_dtype(call, w))) return false;
  if (call_has(call, w_zero) && call_dtype(call, w_zero) != call_dtype(call, w)) return false;
  return !call_has(call, x_zero) ||
         (call->inputs[x_zero]->host && call_dtype(call, x_zero) == call_dtype(call, x) &&
          op_count(call_shape(call, x_zero), 0, call_shape(call, x_zero).rank) == 1);
}

typedef struct unrolled {
  model_call *call;
  compute_node x; /* padded; channels last, or planes */
  compute_shape filter, result;
  int32_t axes; /* spatial */
  int64_t groups, taps, points;
  int64_t k;   /* elements of a window that meet a filter, by tap, then channel */
  bool planes; /* by channel, then tap: of few channels, whose runs would be short */
  window windows[WINDOW_MOST];
} unrolled;

/* The element that every window has at one place: [n, groups, channels / groups, 1, spatial …]. */
static compute_node tap_planes(const unrolled *u, int64_t tap) {
  compute_graph *graph = u->call->graph;
  compute_node x = u->x;
  for (int32_t i = u->axes - 1; i >= 0; i--) {
    const window *w = &u->windows[i];
    x = compute_slice(graph, x, 2 + i, tap % w->size * w->dilation, w->count, w->stride);
    tap /= w->size;
  }
  compute_shape shape = u->result;
  shape.rank += 2;
  for (int32_t i = u->axes - 1; i >= 0; i--) shape.size[4 + i] = u->result.size[2 + i];
  shape.size[1] = u->groups;
  shape.size[2] = u->filter.size[1];
  shape.size[3] = 1;
  return compute_reshape(graph, x, shape);
}

static compute_node all_planes(const unrolled *u) {
  model_call *call = u->call;
  compute_node *parts = call_allocate(call, (size_t)u->taps, sizeof *parts);
  if (!parts) return (compute_node){0};
  for (int64_t i = 0; i < u->taps; i++) parts[i] = tap_planes(u, i);
  compute_node all =
      u->taps == 1 ? parts[0] : compute_concat(call->graph, parts, (size_t)u->taps, 3);
  const int64_t n = u->result.size[0];
  all = compute_reshape(call->graph, all,
                        u->groups == 1 ? COMPUTE_SHAPE(n, u->k, u->points)
                                       : COMPUTE_SHAPE(n, u->groups, u->k, u->points));
  return u->groups == 1 ? op_move_axis(call, all, 2, 1) : op_move_axis(call, all, 3, 2);
}

/* The element that every window has at one place: [n, spatial …, channels] or [n, spatial …,
 * groups, channels / groups]. */
static compute_node tap_elements(const unrolled *u, int64_t tap) {
  compute_graph *graph = u->call->graph;
  compute_node x = u->x;
  for (int32_t i = u->axes - 1; i >= 0; i--) {
    const window *w = &u->windows[i];
    const int64_t place = tap % w->size * w->dilation;
    tap /= w->size;
    x = compute_slice(graph, x, 1 + i, place, w->count, w->stride);
  }
  if (u->groups == 1) return x;
  compute_shape shape = compute_node_shape(graph, x);
  shape.size[shape.rank - 1] = u->groups;
  shape.size[shape.rank++] = u->filter.size[1];
  return compute_reshape(graph, x, shape);
}

/* All windows as matrices [n, windows, k] or [n, groups, windows, k]. */
static compute_node all_windows(const unrolled *u) {
  model_call *call = u->call;
  if (u->planes) return all_planes(u);
  compute_node *parts = call_allocate(call, (size_t)u->taps, sizeof *parts);
  if (!parts) return (compute_node){0};
  for (int64_t i = 0; i < u->taps; i++) parts[i] = tap_elements(u, i);
  const compute_node all =
      u->taps == 1 ? parts[0] : compute_concat(call->graph, parts, (size_t)u->taps, -1);
  const int64_t n = u->result.size[0];
  if (u->groups == 1) return compute_reshape(call->graph, all, COMPUTE_SHAPE(n, u->points, u->k));
  return compute_transpose(
      call->graph, compute_reshape(call->graph, all, COMPUTE_SHAPE(n, u->points, u->groups, u->k)),
      COMPUTE_AXES(0, 2, 1, 3));
}

/* The filters in the order of the windows' elements: [filters, k], from `host`, [filters, channels,
 * taps] of bytes. */
static compute_node reorder(const unrolled *u, compute_dtype dtype, const unsigned char *host) {
  const int64_t filters = u->filter.size[0], channels = u->filter.size[1];
  unsigned char *bytes = call_allocate(u->call, (size_t)(filters * u->k), 1);
  if (!bytes) return (compute_node){0};
  for (int64_t f = 0; f < filters; f++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t t = 0; t < u->taps; t++)
        bytes[f * u->k + t * channels + c] = host[(f * channels + c) * u->taps + t];
  return compute_constant(u->call->graph, dtype, COMPUTE_SHAPE(filters, u->k), bytes);
}

/* The filters as matrices [k, filters] or [groups, k, filters / groups]. */
static compute_node all_filters(const unrolled *u, size_t w) {
  model_call *call = u->call;
  compute_graph *graph = call->graph;
  const int64_t filters = u->filter.size[0], channels = u->filter.size[1];
  compute_node x = {0};
  if (u->planes || u->taps == 1)
    x = compute_reshape(graph, call_input(call, w), COMPUTE_SHAPE(filters, u->k));
  else if (call->inputs[w]->host)
    x = reorder(u, call_dtype(call, w), call->inputs[w]->host);
  if (!compute_node_is_valid(x)) {
    x = compute_reshape(graph, call_input(call, w), COMPUTE_SHAPE(filters, channels, u->taps));
    x = compute_reshape(graph, op_move_axis(call, x, 2, 1), COMPUTE_SHAPE(filters, u->k));
  }
  if (u->groups == 1) return op_move_axis(call, x, 1, 0);
  x = compute_reshape(graph, x, COMPUTE_SHAPE(u->groups, filters / u->groups, u->k));
  return op_move_axis(call, x, 2, 1);
}

/* The windows, and data with the zero point around it. */
static compute_status unroll(model_call *call, size_t x, double padding, unrolled *u) {
  const compute_shape data = call_shape(call, x);
  const compute_status status = window_take(call, data, u->filter.size + 2, false, u->windows);
  if (status) return status;
  u->axes = u->filter.rank - 2;
  u->groups = call_attribute_i(call, "group", 1);
  u->taps = op_count(u->filter, 2, u->filter.rank);
  u->k = u->taps * u->filter.size[1];
  u->result = (compute_shape){.rank = u->filter.rank, .size = {data.size[0], u->filter.size[0]}};
  u->planes = u->filter.size[1] < LEAST_CHANNELS;
  u->x = call_input(call, x);
  if (!u->planes) u->x = op_move_axis(call, u->x, 1, data.rank - 1);
  for (int32_t i = 0; i < u->axes; i++) {
    const window *w = &u->windows[i];
    u->result.size[2 + i] = w->count;
    u->x = op_pad(call, u->x, (u->planes ? 2 : 1) + i, w->before, w->after, padding);
  }
  if (compute_shape_count(u->result, &u->points))
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "its result has too many elements");
  u->points = op_count(u->result, 2, u->result.rank);
  return COMPUTE_OK;
}

/* The elements of input i if it is left out (none), or `count` of a dtype that are known. */
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

/* The bias (SIZE_MAX for none) less what the data's zero point adds to the sums of each filter, if
 * all that is known: i32 [filters]. */
static int32_t *known_offsets(const unrolled *u, double padding, size_t w, size_t w_zero,
                              size_t bias) {
  model_call *call = u->call;
  const int64_t filters = u->filter.size[0];
  const compute_dtype dtype = call_dtype(call, w);
  const compute_shape zero_shape = call_shape(call, w_zero);
  const bool one = op_count(zero_shape, 0, zero_shape.rank) == 1;
  const void *of_w, *of_zero, *of_bias;
  if (!take_known(call, w, dtype, filters * u->k, &of_w) ||
      !take_known(call, w_zero, dtype, one ? 1 : filters, &of_zero) ||
      !take_known(call, bias, COMPUTE_I32, filters, &of_bias))
    return NULL;
  int32_t *offsets = call_allocate(call, (size_t)filters, sizeof *offsets);
  for (int64_t f = 0; offsets && f < filters; f++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < u->k; i++) sum += byte_at(dtype, of_w, f * u->k + i);
    if (of_zero) sum -= u->k * byte_at(dtype, of_zero, one ? 0 : f);
    const uint32_t start = of_bias ? ((const uint32_t *)of_bias)[f] : 0;
    offsets[f] = (int32_t)(start - (uint32_t)((int64_t)padding * sum)); /* wraps, as sums do */
  }
  return offsets;
}

static compute_node zero_point(model_call *call, size_t i, compute_shape channels) {
  if (!is_zero_point(call, i)) return (compute_node){0};
  const bool one = op_count(call_shape(call, i), 0, call_shape(call, i).rank) == 1;
  return compute_reshape(call->graph, call_input(call, i), one ? COMPUTE_SCALAR : channels);
}

compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   size_t w_zero, size_t bias, integer_sums *sums) {
  compute_graph *graph = call->graph;
  unrolled u = {.call = call, .filter = call_shape(call, w)};
  double padding = 0;
  compute_status status = call_has(call, x_zero) ? call_number(call, x_zero, &padding) : COMPUTE_OK;
  if (!status) status = unroll(call, x, padding, &u);
  if (status) return status;
  const int64_t filters = u.filter.size[0];
  *sums = (integer_sums){.channels = u.groups > 1 ? COMPUTE_SHAPE(u.groups, 1, filters / u.groups)
                                                  : COMPUTE_SHAPE(filters),
                         .result = u.result,
                         .channels_last = true};
  const compute_node a = all_windows(&u), b = all_filters(&u, w);
  const compute_node w_point = zero_point(call, w_zero, sums->channels);
  int32_t *offsets = known_offsets(&u, padding, w, w_zero, bias);
  if (offsets) {
    const compute_node none = {0};
    const compute_node added = compute_constant(graph, COMPUTE_I32, sums->channels, offsets);
    sums->values = compute_add(graph, compute_matmul_integer(graph, a, b, none, w_point), added);
    return COMPUTE_OK;
  }
  sums->values =
      compute_matmul_integer(graph, a, b, zero_point(call, x_zero, COMPUTE_SCALAR), w_point);
  if (call_has(call, bias))
    sums->values = compute_add(graph, sums->values,
                               compute_reshape(graph, call_input(call, bias), sums->channels));
  return COMPUTE_OK;
}

compute_node integer_result(model_call *call, const integer_sums *sums, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  if (!sums->channels_last) return compute_reshape(graph, x, sums->result);
  if (shape.rank == 4) return compute_reshape(graph, op_move_axis(call, x, 3, 2), sums->result);
  compute_shape last = sums->result;
  for (int32_t i = 1; i + 1 < last.rank; i++) last.size[i] = sums->result.size[i + 1];
  last.size[last.rank - 1] = sums->result.size[1];
  return op_move_axis(call, compute_reshape(graph, x, last), last.rank - 1, 1);
}
