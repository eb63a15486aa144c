/* SPDX-License-Identifier: MIT */
/* Exact products of quantized numbers: of 8 bits by compute_matmul_integer, which takes them as
 * they lie, else widened. Convolutions are products of the filter and a matrix of all windows,
 * whose bytes are a quarter of what windows of floats would be. */
#include "model/operators/integer.h"

#include "model/operators/op.h"
#include "model/operators/window.h"

/* So many products of 8 bits with zero points fit a sum in i32. */
enum { MOST_PRODUCTS = 33025 };

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* ---- Products of matrices -------------------------------------------------------------------- */

bool integer_is_zero(const model_call *call, size_t i) {
  if (!call_has(call, i) || !call->inputs[i]->host) return false;
  const compute_shape shape = call_shape(call, i);
  const size_t size = compute_dtype_size(call_dtype(call, i));
  const unsigned char *bytes = call->inputs[i]->host;
  for (size_t k = (size_t)op_count(shape, 0, shape.rank) * size; k > 0; k--)
    if (bytes[k - 1] != 0) return false;
  return !op_is_float(call_dtype(call, i));
}

integer_factor integer_input(const model_call *call, size_t i, compute_node values,
                             size_t zero_input, compute_node zero) {
  if (integer_is_zero(call, zero_input)) zero = (compute_node){0};
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

/* Filters of a group below which a product of matrices has too few rows; elements of a filter for
 * each channel beyond which the windows are too large. */
enum { LEAST_FILTERS = 8, MOST_TAPS = 64 };

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
  compute_node x; /* padded */
  compute_shape filter, result;
  int32_t axes;   /* spatial */
  int64_t groups; /* 1: the matrices are [n, …]; else [n, groups, …] */
  int64_t taps, points;
  window windows[WINDOW_MOST];
} unrolled;

/* [n, groups, a, b, …], without the groups if there is but one. */
static compute_node grouped(const unrolled *u, compute_node x, int64_t a, int64_t b, int64_t c) {
  const int64_t sizes[] = {u->result.size[0], u->groups, a, b, c};
  compute_shape shape = {.rank = 0};
  for (int i = 0; i < 5; i++)
    if (sizes[i] > 0 && (i != 1 || u->groups > 1)) shape.size[shape.rank++] = sizes[i];
  return compute_reshape(u->call->graph, x, shape);
}

/* The elements that every window has at one place: [n, groups, channels / groups, 1, windows]. */
static compute_node tap_elements(const unrolled *u, int64_t tap) {
  compute_graph *graph = u->call->graph;
  compute_node x = u->x;
  for (int32_t i = u->axes - 1; i >= 0; i--) {
    const window *w = &u->windows[i];
    const int64_t place = tap % w->size * w->dilation;
    tap /= w->size;
    x = compute_slice(graph, x, 2 + i, place, w->count, w->stride);
  }
  return grouped(u, x, u->filter.size[1], 1, u->points);
}

/* All windows as matrices: [n, groups, channels / groups · taps, windows]. */
static compute_node all_windows(const unrolled *u) {
  model_call *call = u->call;
  compute_node *parts = call_allocate(call, (size_t)u->taps, sizeof *parts);
  if (!parts) return (compute_node){0};
  for (int64_t i = 0; i < u->taps; i++) parts[i] = tap_elements(u, i);
  const int32_t axis = u->groups > 1 ? 3 : 2;
  const compute_node all =
      u->taps == 1 ? parts[0] : compute_concat(call->graph, parts, (size_t)u->taps, axis);
  return grouped(u, all, u->filter.size[1] * u->taps, u->points, 0);
}

/* The windows, and data with the zero point around it. */
static compute_status unroll(model_call *call, size_t x, double padding, unrolled *u) {
  const compute_status status =
      window_take(call, call_shape(call, x), u->filter.size + 2, false, u->windows);
  if (status) return status;
  u->axes = u->filter.rank - 2;
  u->groups = call_attribute_i(call, "group", 1);
  u->taps = op_count(u->filter, 2, u->filter.rank);
  u->result = (compute_shape){.rank = u->filter.rank,
                              .size = {call_shape(call, x).size[0], u->filter.size[0]}};
  u->x = call_input(call, x);
  for (int32_t i = 0; i < u->axes; i++) {
    const window *w = &u->windows[i];
    u->result.size[2 + i] = w->count;
    u->x = op_pad(call, u->x, 2 + i, w->before, w->after, padding);
  }
  if (compute_shape_count(u->result, &u->points))
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "its result cannot be counted");
  u->points = op_count(u->result, 2, u->result.rank);
  return COMPUTE_OK;
}

compute_status integer_convolution(model_call *call, size_t x, size_t x_zero, size_t w,
                                   size_t w_zero, integer_sums *sums) {
  compute_graph *graph = call->graph;
  unrolled u = {.call = call, .filter = call_shape(call, w)};
  double padding = 0;
  compute_status status = call_has(call, x_zero) ? call_number(call, x_zero, &padding) : COMPUTE_OK;
  if (!status) status = unroll(call, x, padding, &u);
  if (status) return status;
  const int64_t filters = u.filter.size[0] / u.groups, k = u.filter.size[1] * u.taps;
  const compute_shape of_filters =
      u.groups > 1 ? COMPUTE_SHAPE(u.groups, filters, k) : COMPUTE_SHAPE(filters, k);
  sums->channels = of_filters;
  sums->channels.size[of_filters.rank - 1] = 1;
  sums->result = u.result;
  compute_node zeros[2] = {{0}, {0}};
  if (call_has(call, x_zero))
    zeros[0] = compute_reshape(graph, call_input(call, x_zero), COMPUTE_SCALAR);
  if (call_has(call, w_zero)) {
    const bool one = op_count(call_shape(call, w_zero), 0, call_shape(call, w_zero).rank) == 1;
    zeros[1] =
        compute_reshape(graph, call_input(call, w_zero), one ? COMPUTE_SCALAR : sums->channels);
  }
  const integer_factor a = integer_input(
      call, w, compute_reshape(graph, call_input(call, w), of_filters), w_zero, zeros[1]);
  integer_factor b = integer_input(call, x, all_windows(&u), x_zero, zeros[0]);
  b.host = NULL; /* of x, not of its windows */
  sums->values = integer_product(call, &a, &b);
  return COMPUTE_OK;
}
