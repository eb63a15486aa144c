/* SPDX-License-Identifier: MIT */
/* Matrix products: MatMul, Gemm, and Einsum as a sequence of matrix products. */
#include "model/operators/operators.h"

#include <string.h>

#include "compute/graph_array.h"
#include "core/type/shape.h"
#include "model/operators/formula.h"
#include "model/operators/op.h"
#include "model/operators/quantized_product.h"

/* ---- MatMul and Gemm ------------------------------------------------------------------------- */

static compute_node swap_last(model_call *call, compute_node x) {
  const int32_t rank = compute_node_shape(call->graph, x).rank;
  return rank < 2 ? x : op_move_axis(call, x, rank - 1, rank - 2);
}

static compute_node scale(model_call *call, compute_node x, double factor) {
  return factor == 1 ? x : compute_mul(call->graph, x, call_scalar_like(call, x, factor));
}

static compute_status matmul(model_call *call) {
  const compute_node y = quantized_matmul(call, false, false);
  if (compute_node_is_valid(y)) return call_output(call, 0, y);
  return call_output(call, 0, formula_matmul(call, call_input(call, 0), call_input(call, 1)));
}

/* An operand of ONNX Runtime's FusedMatMul. It may be transposed, and its first axis may move
 * behind the other batch axes. */
static compute_node fused_operand(model_call *call, size_t i, const char *batch,
                                  const char *matrix) {
  compute_node x = call_input(call, i);
  const int32_t rank = call_shape(call, i).rank;
  if (rank > 2 && call_attribute_i(call, batch, 0) != 0) x = op_move_axis(call, x, 0, rank - 2);
  return call_attribute_i(call, matrix, 0) != 0 ? swap_last(call, x) : x;
}

static compute_status fused_matmul(model_call *call) {
  const compute_node y =
      compute_matmul(call->graph, fused_operand(call, 0, "transBatchA", "transA"),
                     fused_operand(call, 1, "transBatchB", "transB"));
  return call_output(call, 0, scale(call, y, call_attribute_f(call, "alpha", 1)));
}

static compute_node multiply_and_add(model_call *call) {
  const double beta = call_attribute_f(call, "beta", 1);
  const bool a_transposed = call_attribute_i(call, "transA", 0) != 0;
  const bool b_transposed = call_attribute_i(call, "transB", 0) != 0;
  compute_node y = quantized_matmul(call, a_transposed, b_transposed);
  if (!compute_node_is_valid(y)) {
    compute_node a = call_input(call, 0), b = call_input(call, 1);
    if (a_transposed) a = swap_last(call, a);
    if (b_transposed) b = swap_last(call, b);
    y = compute_matmul(call->graph, a, b);
  }
  y = scale(call, y, call_attribute_f(call, "alpha", 1));
  if (!call_has(call, 2) || beta == 0) return y;
  return compute_add(call->graph, y, scale(call, call_input(call, 2), beta));
}

static compute_status check_matrices(model_call *call) {
  for (size_t i = 0; i < 2; i++)
    if (call_shape(call, i).rank != 2)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu has rank %d, not 2", i,
                       (int)call_shape(call, i).rank);
  return COMPUTE_OK;
}

static compute_status gemm(model_call *call) {
  const compute_status status = check_matrices(call);
  return status ? status : call_output(call, 0, multiply_and_add(call));
}

static compute_status fused_gemm(model_call *call) {
  const float parameters[] = {(float)call_attribute_f(call, "activation_alpha", 0),
                              (float)call_attribute_f(call, "activation_beta", 0)};
  size_t count = call_attribute(call, "activation_alpha") ? 1 : 0;
  if (call_attribute(call, "activation_beta")) count = 2;
  compute_status status = check_matrices(call);
  if (status) return status;
  compute_node y = multiply_and_add(call);
  status = op_activate(call, call_attribute_s(call, "activation", ""), parameters, count, &y);
  return status ? status : call_output(call, 0, y);
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

static compute_status einsum_rule(model_call *call) {
  compute_node *terms = call_allocate(call, call->input_count, sizeof *terms);
  if (!terms) return call_out_of_memory(call);
  for (size_t i = 0; i < call->input_count; i++) terms[i] = call_input(call, i);
  return call_output(call, 0,
                     compute_einsum(call->graph, call_attribute_s(call, "equation", ""), terms,
                                    call->input_count));
}

static const operator_row rows[] = {
    {"", "MatMul", 1, matmul},
    {"", "Gemm", 7, gemm},
    {"", "Einsum", 12, einsum_rule},
    {"com.microsoft", "FusedMatMul", 1, fused_matmul},
    {"com.microsoft", "TransposeMatMul", 1, fused_matmul},
    {"com.microsoft", "FusedGemm", 1, fused_gemm},
};

const operator_family operators_product = OPERATOR_FAMILY(rows);
