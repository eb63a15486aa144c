/* SPDX-License-Identifier: MIT */
/* Products of 8-bit integers. Zero points stay outside of the kernel:
 *
 *   (A − a)(B − b) = AB − a · (sums of B's columns − k · b) − b · (sums of A's rows)
 *
 * Integers wrap, so the whole is exact wherever the result fits i32, whatever its parts do. The
 * sums of a constant operand are folded before the first run. */
#include <inttypes.h>

#include "graph/build/build.h"
#include "type/shape.h"

/* The largest number of products whose sum i32 holds for sure. */
static int64_t most_products(compute_dtype a, compute_dtype b, bool shifted) {
  const int64_t a_most = a == COMPUTE_I8 && !shifted ? 128 : 255;
  const int64_t b_most = b == COMPUTE_I8 && !shifted ? 128 : 255;
  /* Only the product of a signed and an unsigned one is never as large as it is small. */
  return (a_most != b_most ? -(int64_t)INT32_MIN : INT32_MAX) / (a_most * b_most);
}

static bool is_given(compute_node node) {
  return node.id != 0 || node.graph != 0;
}

typedef struct integer_call {
  compute_graph *graph;
  const char *operation;
  compute_node operand[2], zero[2];
  bool shifted[2]; /* by a zero point that is not known to be 0 */
} integer_call;

static bool is_zero(const graph_node *node) {
  return node->op == OP_constant && node->uniform && *(const unsigned char *)node->constant == 0;
}

/* Dtypes, and which zero points count. */
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

/* Whether a zero point repeats along k. */
static bool check_zero(const integer_call *call, int i) {
  char text[BUILD_TEXT];
  const compute_shape shape = compute_node_shape(call->graph, call->zero[i]);
  const int32_t rank = compute_node_shape(call->graph, call->operand[i]).rank;
  const int32_t k = shape.rank - 1 - i; /* the place of that axis */
  const bool vector = rank == 1 && shape.rank > 0;
  if (!vector && (k < 0 || shape.size[k] == 1)) return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation, "%s has shape %s; %s",
                      i ? "b_zero" : "a_zero", compute_shape_text(shape, text, sizeof text),
                      vector ? "that of a vector must be a scalar"
                      : i    ? "it must broadcast against [..., 1, n]"
                             : "it must broadcast against [..., m, 1]");
}

/* Sums along k, with that axis as 1 where the result has one of its own in that place. */
static compute_node sums_along_k(const integer_call *call, int i) {
  const int32_t rank = compute_node_shape(call->graph, call->operand[i]).rank;
  const int32_t other = compute_node_shape(call->graph, call->operand[1 - i]).rank;
  return compute_sum(call->graph, wide(call, call->operand[i]),
                     COMPUTE_AXES(i == 0 || rank == 1 ? rank - 1 : rank - 2), other > 1);
}

/* A zero point as the result has it: without the axis that a vector operand loses. */
static compute_node zero_of_result(const integer_call *call, int i) {
  compute_node zero = wide(call, call->zero[i]);
  compute_shape shape = compute_node_shape(call->graph, zero);
  const bool vector = compute_node_shape(call->graph, call->operand[1 - i]).rank == 1;
  if (!vector || shape.rank < 1 + i) return zero;
  if (i == 1) shape.size[shape.rank - 2] = shape.size[shape.rank - 1];
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
  BUILD_ALL_OR_NOTHING(graph);
  integer_call call = {
      .graph = graph, .operation = "matmul_integer", .operand = {a, b}, .zero = {a_zero, b_zero}};
  if (!read_operands(&call)) return BUILD_NONE;
  const compute_node product =
      build_product(graph, call.operation, OP_matmul_integer, COMPUTE_I32, a, b);
  if (graph->status) return BUILD_NONE;
  const compute_shape left = compute_node_shape(graph, a);
  const int64_t k = left.size[left.rank - 1];
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
