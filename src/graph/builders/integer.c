/* SPDX-License-Identifier: MIT */
/* Products and convolutions of 8-bit integers. Zero points stay outside the kernel:
 *
 *   (A − a)(B − b) = AB − a · (sums of B's columns − k · b) − b · (sums of A's rows)
 *
 * A convolution uses the sums of a filter's and of a window's elements instead. A window's sum is
 * its convolution with ones. Integers wrap, so the total is exact whenever the result fits i32,
 * even if a term overflows. The sums of a constant operand are folded before the first run. */
#include <inttypes.h>

#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* The largest number of products whose sum always fits i32. */
static int64_t most_products(compute_dtype a, compute_dtype b, bool shifted) {
  const int64_t a_most = a == COMPUTE_I8 && !shifted ? 128 : 255;
  const int64_t b_most = b == COMPUTE_I8 && !shifted ? 128 : 255;
  /* If one factor is signed and one is not, the most negative product has the largest magnitude. */
  return (a_most != b_most ? -(int64_t)INT32_MIN : INT32_MAX) / (a_most * b_most);
}

static bool is_given(compute_node node) {
  return node.id != 0 || node.graph != 0;
}

typedef struct integer_call {
  compute_graph *graph;
  const char *operation;
  compute_node operand[2], zero[2];
  bool shifted[2]; /* has a zero point that may differ from 0 */
} integer_call;

static bool is_zero(const graph_node *node) {
  return node->op == OP_constant && node->uniform && *(const unsigned char *)node->constant == 0;
}

/* Checks the dtypes and finds the zero points that matter. */
static bool read_operands(integer_call *call) {
  compute_graph *graph = call->graph;
  uint32_t operand[2], zero;
  if (!build_operands(graph, call->operation, call->operand, 2, operand)) return false;
  for (int i = 0; i < 2; i++) {
    const compute_dtype dtype = build_at(graph, operand[i])->dtype;
    if (!build_domain(graph, call->operation, DOMAIN_BYTE, dtype)) return false;
    if (!is_given(call->zero[i])) continue;
    if (!build_operands(graph, call->operation, &call->zero[i], 1, &zero) ||
        !build_same_dtype(graph, call->operation, dtype, build_at(graph, zero)->dtype))
      return false;
    call->shifted[i] = !is_zero(build_at(graph, zero));
  }
  return true;
}

static bool check_sums(const integer_call *call, int64_t products) {
  const compute_dtype a = compute_node_dtype(call->graph, call->operand[0]);
  const compute_dtype b = compute_node_dtype(call->graph, call->operand[1]);
  const bool shifted = call->shifted[0] || call->shifted[1];
  const int64_t most = most_products(a, b, shifted);
  if (products <= most) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_OVERFLOW, call->operation,
                      "sums of %" PRId64 " products of %s and %s%s might exceed i32, which is sure "
                      "to hold %" PRId64,
                      products, compute_dtype_name(a), compute_dtype_name(b),
                      shifted ? " with zero points" : "", most);
}

static compute_node wide(const integer_call *call, compute_node x) {
  return compute_cast(call->graph, x, COMPUTE_I32);
}

/* ---- Matrix products ------------------------------------------------------------------------- */

/* True if a zero point is constant along k. */
static bool check_zero(const integer_call *call, int i) {
  char text[BUILD_TEXT];
  const compute_shape shape = compute_node_shape(call->graph, call->zero[i]);
  const int32_t rank = compute_node_shape(call->graph, call->operand[i]).rank;
  const int32_t k = shape.rank - 1 - i; /* position of that axis */
  const bool vector = rank == 1 && shape.rank > 0;
  if (!vector && (k < 0 || shape_at(shape, k) == 1)) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation, "%s has shape %s; %s",
                      i ? "b_zero" : "a_zero", compute_shape_text(shape, text, sizeof text),
                      vector ? "that of a vector must be a scalar"
                      : i    ? "it must broadcast against [..., 1, n]"
                             : "it must broadcast against [..., m, 1]");
}

/* Sums along k. The summed axis stays with size 1 if the result has an axis in that place. */
static compute_node sums_along_k(const integer_call *call, int i) {
  const int32_t rank = compute_node_shape(call->graph, call->operand[i]).rank;
  const int32_t other = compute_node_shape(call->graph, call->operand[1 - i]).rank;
  return compute_sum(call->graph, wide(call, call->operand[i]),
                     COMPUTE_AXES(i == 0 || rank == 1 ? rank - 1 : rank - 2), other > 1);
}

/* A zero point in the result's axes: without the axis that a vector operand lacks. */
static compute_node zero_of_result(const integer_call *call, int i) {
  compute_node zero = wide(call, call->zero[i]);
  compute_shape shape = compute_node_shape(call->graph, zero);
  const bool vector = compute_node_shape(call->graph, call->operand[1 - i]).rank == 1;
  if (!vector || shape.rank < 1 + i) return zero;
  if (i == 1) shape_set(&shape, shape.rank - 2, shape_at(shape, shape.rank - 1));
  shape.rank--;
  return compute_reshape(call->graph, zero, shape);
}

static compute_node without_zero(const integer_call *call, compute_node product, int64_t k) {
  compute_graph *graph = call->graph;
  if (call->shifted[0]) {
    compute_node sums = sums_along_k(call, 1);
    if (call->shifted[1])
      sums = compute_sub(
          graph, sums,
          compute_mul(graph, zero_of_result(call, 1), compute_scalar_i64(graph, COMPUTE_I32, k)));
    product = compute_sub(graph, product, compute_mul(graph, zero_of_result(call, 0), sums));
  }
  if (call->shifted[1])
    product = compute_sub(graph, product,
                          compute_mul(graph, zero_of_result(call, 1), sums_along_k(call, 0)));
  return product;
}

compute_node compute_matmul_integer(compute_graph *graph, compute_node a, compute_node b,
                                    compute_node a_zero, compute_node b_zero) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  integer_call call = {
      .graph = graph, .operation = "matmul_integer", .operand = {a, b}, .zero = {a_zero, b_zero}};
  if (!read_operands(&call)) return BUILD_NONE;
  const compute_node product =
      build_product(graph, call.operation, OP_matmul_integer, COMPUTE_I32, a, b);
  if (graph->status) return BUILD_NONE;
  const compute_shape left = compute_node_shape(graph, a);
  const int64_t k = shape_at(left, left.rank - 1);
  if (!check_sums(&call, k)) return BUILD_NONE;
  for (int i = 0; i < 2; i++)
    if (call.shifted[i] && !check_zero(&call, i)) return BUILD_NONE;
  const compute_shape shape = compute_node_shape(graph, product);
  const compute_node result = without_zero(&call, product, k);
  char text[BUILD_TEXT];
  if (graph->status || compute_shape_equal(shape, compute_node_shape(graph, result))) return result;
  return graph_fail(graph, COMPUTE_ERROR_SHAPE, call.operation,
                    "the zero points do not broadcast to the result %s",
                    compute_shape_text(shape, text, sizeof text));
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* True if the shapes of the zero points fit. */
static bool check_conv_zeros(const integer_call *call) {
  static const char *const names[] = {"x_zero", "filter_zero"};
  const compute_shape filter = compute_node_shape(call->graph, call->operand[1]);
  char text[BUILD_TEXT];
  for (int i = 0; i < 2; i++) {
    if (!is_given(call->zero[i])) continue;
    const compute_shape shape = compute_node_shape(call->graph, call->zero[i]);
    int64_t count;
    if (compute_shape_count(shape, &count) == COMPUTE_OK && count == 1) continue;
    if (i == 1 && filter.rank > 0 && shape.rank == 1 && shape_at(shape, 0) == shape_at(filter, 0))
      continue;
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation, "%s has shape %s; %s",
                        names[i], compute_shape_text(shape, text, sizeof text),
                        i ? "it must be one number, or one for each filter"
                          : "it must be one number");
  }
  return true;
}

/* The element of a constant, or NULL if its value is unknown. */
static const unsigned char *known(const compute_graph *graph, compute_node x, int64_t index) {
  const graph_node *node = build_at(graph, x.id - 1);
  if (node->op != OP_constant || !node->constant) return NULL;
  return (const unsigned char *)node->constant + (node->uniform ? 0 : index);
}

/* Bytes less 128, as i8. A filter and its zero point may be shifted together. */
static compute_node signed_bytes(const integer_call *call, compute_node x) {
  const compute_node half = compute_scalar(call->graph, COMPUTE_U8, 128);
  return compute_cast(call->graph, compute_sub(call->graph, x, half), COMPUTE_I8);
}

/* Makes a u8 filter with a zero point i8: kernels multiply i8 fastest, and the new zero point is
 * very often 0. */
static void make_filter_signed(integer_call *call) {
  compute_graph *graph = call->graph;
  const compute_node zero = call->zero[1];
  int64_t count = 0;
  if (!call->shifted[1] || compute_node_dtype(graph, call->operand[1]) != COMPUTE_U8) return;
  (void)compute_shape_count(compute_node_shape(graph, zero), &count);
  bool symmetric = true;
  for (int64_t i = 0; symmetric && i < count; i++) {
    const unsigned char *element = known(graph, zero, i);
    symmetric = element && *element == 128;
  }
  call->operand[1] = signed_bytes(call, call->operand[1]);
  call->shifted[1] = !symmetric;
  if (!symmetric) call->zero[1] = signed_bytes(call, zero);
}

/* Pads x with its zero point, and removes the padding from the options. */
static compute_node surrounded(const integer_call *call, compute_conv2d_options *options) {
  compute_graph *graph = call->graph;
  const compute_node x = call->operand[0], zero = call->zero[0];
  const unsigned char *element = known(graph, zero, 0);
  const bool is_signed = compute_node_dtype(graph, x) == COMPUTE_I8;
  const int64_t value = !element ? 0 : is_signed ? (int8_t)*element : *element;
  const compute_shape plane = compute_node_shape(graph, x);
  compute_node padded = x,
               inside = compute_full(graph, COMPUTE_BOOL,
                                     COMPUTE_SHAPE(shape_at(plane, 2), shape_at(plane, 3)), 1);
  for (int i = 0; i < 2; i++) {
    const int64_t before = options->padding[i], after = before + options->padding_more[i];
    padded = compute_pad_i64(graph, padded, 2 + i, before, after, COMPUTE_PAD_CONSTANT, value);
    if (!element)
      inside = compute_pad_i64(graph, inside, i, before, after, COMPUTE_PAD_CONSTANT, 0);
    options->padding[i] = options->padding_more[i] = 0;
  }
  if (element) return padded;
  return compute_select(graph, inside, padded, compute_reshape(graph, zero, COMPUTE_SCALAR));
}

/* Reshapes x to broadcast along the channel axis. */
static compute_node of_filters(const integer_call *call, compute_node x) {
  const compute_shape shape = compute_node_shape(call->graph, x);
  const bool one = shape.rank != 1 || shape_at(shape, 0) == 1;
  return one ? compute_reshape(call->graph, x, COMPUTE_SCALAR)
             : network_along(call->graph, x, 1, 4);
}

/* The sum of each window, computed once for all filters that read it: [n, groups, 1, p, q]. */
static compute_node window_sums(const integer_call *call, compute_node x, compute_shape result,
                                const compute_conv2d_options *options) {
  compute_graph *graph = call->graph;
  const int64_t groups = options->groups > 1 ? options->groups : 1;
  compute_shape ones = compute_node_shape(graph, call->operand[1]);
  shape_set(&ones, 0, groups);
  const compute_node sums = network_conv2d_integer(
      graph, call->operation, x, compute_full(graph, COMPUTE_I8, ones, 1), options);
  return compute_reshape(
      graph, sums,
      COMPUTE_SHAPE(shape_at(result, 0), groups, 1, shape_at(result, 2), shape_at(result, 3)));
}

/* y − filter_zero · (sums of the windows − count · x_zero) */
static compute_node without_filter_zero(const integer_call *call, compute_node y, compute_node x,
                                        int64_t count, const compute_conv2d_options *options) {
  compute_graph *graph = call->graph;
  const compute_shape result = compute_node_shape(graph, y);
  compute_node sums = window_sums(call, x, result, options);
  if (call->shifted[0]) {
    const compute_node zero = compute_reshape(graph, wide(call, call->zero[0]), COMPUTE_SCALAR);
    sums = compute_sub(graph, sums,
                       compute_mul(graph, zero, compute_scalar_i64(graph, COMPUTE_I32, count)));
  }
  if (graph->status) return BUILD_NONE;
  const int64_t groups = shape_at(compute_node_shape(graph, sums), 1);
  const int64_t each = groups > 0 ? shape_at(result, 1) / groups : 0;
  sums = compute_broadcast(
      graph, sums,
      COMPUTE_SHAPE(shape_at(result, 0), groups, each, shape_at(result, 2), shape_at(result, 3)));
  sums = compute_reshape(graph, sums, result);
  return compute_sub(graph, y,
                     compute_mul(graph, of_filters(call, wide(call, call->zero[1])), sums));
}

/* y − x_zero · (sums of the filters) */
static compute_node without_x_zero(const integer_call *call, compute_node y) {
  compute_graph *graph = call->graph;
  const compute_node sums =
      compute_sum(graph, wide(call, call->operand[1]), COMPUTE_AXES(1, 2, 3), false);
  const compute_node zero = compute_reshape(graph, wide(call, call->zero[0]), COMPUTE_SCALAR);
  return compute_sub(graph, y, compute_mul(graph, zero, network_along(graph, sums, 1, 4)));
}

compute_node compute_conv2d_integer(compute_graph *graph, compute_node x, compute_node filter,
                                    compute_node x_zero, compute_node filter_zero,
                                    const compute_conv2d_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  integer_call call = {.graph = graph,
                       .operation = "conv2d_integer",
                       .operand = {x, filter},
                       .zero = {x_zero, filter_zero}};
  compute_conv2d_options o = options ? *options : (compute_conv2d_options){.groups = 1};
  if (!read_operands(&call) || !check_conv_zeros(&call) ||
      !network_conv2d_integer_fits(graph, call.operation, x, filter, &o))
    return BUILD_NONE;
  const compute_shape taps = compute_node_shape(graph, filter);
  const int64_t count = shape_at(taps, 1) * shape_at(taps, 2) * shape_at(taps, 3);
  if (!check_sums(&call, count)) return BUILD_NONE;
  make_filter_signed(&call);
  o.padding[1] = o.padding[1] == -1 ? o.padding[0] : o.padding[1];
  const bool padded = o.padding[0] || o.padding[1] || o.padding_more[0] || o.padding_more[1];
  const compute_node whole = call.shifted[0] && padded ? surrounded(&call, &o) : x;
  compute_node y = network_conv2d_integer(graph, call.operation, whole, call.operand[1], &o);
  if (call.shifted[0]) y = without_x_zero(&call, y);
  if (call.shifted[1]) y = without_filter_zero(&call, y, whole, count, &o);
  return y;
}
