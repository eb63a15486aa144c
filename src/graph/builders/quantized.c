/* SPDX-License-Identifier: MIT */
/* Matrices of small integers packed in bytes, and products with them. A product is one node for the
 * kernel. Its last operand is the same product composed of other operations. */
#include <inttypes.h>
#include <string.h>

#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

enum { MOST_INPUTS = 5 };

typedef struct quantized_call {
  compute_graph *graph;
  const char *operation;
  compute_node packed, scale, zero;
  compute_quantized_gemm_attributes geometry; /* padding zeroed */
  int64_t n, blocks;                          /* per row */
} quantized_call;

static bool check_options(quantized_call *call, int64_t k,
                          const compute_quantized_options *options) {
  compute_quantized_gemm_attributes *g = &call->geometry;
  if (!options)
    return graph_refuse(call->graph, COMPUTE_ERROR_NULL_POINTER, call->operation,
                        "options is NULL");
  if (options->bits != 2 && options->bits != 4 && options->bits != 8)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "options.bits is %" PRId32 "; it must be 2, 4 or 8", options->bits);
  if (options->block < 1 || options->block > INT64_MAX / 16 ||
      options->block * options->bits % 8 != 0)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "blocks of %" PRId64 " numbers of %" PRId32 " bits are not whole bytes",
                        options->block, options->bits);
  if (k < 0)
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                        "k is %" PRId64, k);
  memset(g, 0, sizeof *g); /* compared as bytes */
  g->k = k;
  g->block = options->block;
  g->bits = options->bits;
  g->zeros = network_given(call->zero);
  call->blocks = k / g->block + (k % g->block != 0);
  return graph_check_reserved(call->graph, call->operation, "options", options->reserved);
}

static bool check_of_blocks(const quantized_call *call, const char *name, const graph_node *node) {
  char text[BUILD_TEXT];
  if (node->shape.rank == 2 && shape_at(node->shape, 0) == call->n &&
      shape_at(node->shape, 1) == call->blocks)
    return true;
  return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, call->operation,
                      "%s is %s; %" PRId64 " rows of %" PRId64 " blocks need [%" PRId64 ",%" PRId64
                      "]",
                      name, compute_shape_text(node->shape, text, sizeof text), call->n,
                      call->blocks, call->n, call->blocks);
}

static bool check_matrix(quantized_call *call) {
  compute_graph *graph = call->graph;
  const compute_node operands[] = {call->packed, call->scale, call->zero};
  const compute_quantized_gemm_attributes *g = &call->geometry;
  uint32_t index[3];
  char text[BUILD_TEXT];
  if (!build_operands(graph, call->operation, operands, g->zeros ? 3 : 2, index)) return false;
  const graph_node *packed = build_at(graph, index[0]), *scale = build_at(graph, index[1]);
  if (packed->dtype != COMPUTE_U8)
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, call->operation, "packed is %s instead of u8",
                        compute_dtype_name(packed->dtype));
  if (!build_domain(graph, call->operation, DOMAIN_FLOAT, scale->dtype)) return false;
  const int64_t bytes = g->block * g->bits / 8;
  const bool matrix = packed->shape.rank == 2;
  if (!matrix || shape_at(packed->shape, 1) % bytes != 0 ||
      shape_at(packed->shape, 1) / bytes != call->blocks)
    return graph_refuse(
        graph, COMPUTE_ERROR_SHAPE, call->operation,
        "packed is %s; %" PRId64 " numbers are %" PRId64 " blocks of %" PRId64 " bytes in each row",
        compute_shape_text(packed->shape, text, sizeof text), g->k, call->blocks, bytes);
  call->n = shape_at(packed->shape, 0);
  if (!check_of_blocks(call, "scale", scale)) return false;
  if (!g->zeros) return true;
  const graph_node *zero = build_at(graph, index[2]);
  if (zero->dtype != COMPUTE_U8 &&
      !build_same_dtype(graph, call->operation, scale->dtype, zero->dtype))
    return false;
  return check_of_blocks(call, "zero", zero);
}

/* ---- The composed form ----------------------------------------------------------------------- */

/* Unpacks the numbers as i32 [n, blocks, block]. */
static compute_node numbers(const quantized_call *call) {
  static const int32_t shifts[2][4] = {{0, 2, 4, 6}, {0, 4}};
  compute_graph *graph = call->graph;
  const compute_quantized_gemm_attributes *g = &call->geometry;
  const int64_t each = 8 / g->bits;
  compute_node x = compute_cast(graph, call->packed, COMPUTE_I32);
  if (each > 1) {
    const compute_node places =
        compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(each), shifts[g->bits == 4]);
    const compute_node mask = compute_scalar_i64(graph, COMPUTE_I32, (1 << g->bits) - 1);
    x = compute_reshape(graph, x,
                        COMPUTE_SHAPE(call->n, call->blocks * (g->block * g->bits / 8), 1));
    x = compute_bit_and(graph, compute_shift_right(graph, x, places), mask);
  }
  return compute_reshape(graph, x, COMPUTE_SHAPE(call->n, call->blocks, g->block));
}

/* The dequantized matrix [n, k] in `dtype`, f32 or f64. */
static compute_node expand(const quantized_call *call, compute_dtype dtype) {
  compute_graph *graph = call->graph;
  const compute_quantized_gemm_attributes *g = &call->geometry;
  const compute_shape each = COMPUTE_SHAPE(call->n, call->blocks, 1);
  const compute_node scale = compute_reshape(graph, compute_cast(graph, call->scale, dtype), each);
  const compute_node zero =
      g->zeros ? compute_reshape(graph, compute_cast(graph, call->zero, dtype), each)
               : compute_scalar(graph, dtype, 1 << (g->bits - 1));
  compute_node x = compute_cast(graph, numbers(call), dtype);
  x = compute_mul(graph, compute_sub(graph, x, zero), scale);
  x = compute_reshape(graph, x, COMPUTE_SHAPE(call->n, call->blocks * g->block));
  return compute_slice(graph, x, 1, 0, g->k, 1);
}

compute_node compute_dequantize(compute_graph *graph, compute_node packed, compute_node scale,
                                compute_node zero, int64_t k,
                                const compute_quantized_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  quantized_call call = {
      .graph = graph, .operation = "dequantize", .packed = packed, .scale = scale, .zero = zero};
  if (!build_start(graph, call.operation) || !check_options(&call, k, options) ||
      !check_matrix(&call) ||
      !build_size(graph, call.operation, COMPUTE_SHAPE(call.n, call.blocks, call.geometry.block)))
    return BUILD_NONE;
  const compute_dtype dtype = compute_node_dtype(graph, scale);
  const compute_node x = expand(&call, dtype_compute_type(dtype));
  const compute_node result = compute_cast(graph, x, dtype);
  return graph->status ? BUILD_NONE : result;
}

/* ---- Products -------------------------------------------------------------------------------- */

static compute_node record(const quantized_call *call, compute_node a) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = compute_node_dtype(graph, a), sums = dtype_compute_type(dtype);
  const compute_node right = compute_transpose(graph, expand(call, sums), COMPUTE_AXES(1, 0));
  const compute_node composed =
      compute_cast(graph, compute_matmul(graph, compute_cast(graph, a, sums), right), dtype);
  compute_node operands[MOST_INPUTS] = {a, call->packed, call->scale};
  uint32_t inputs[MOST_INPUTS];
  size_t count = 3;
  if (call->geometry.zeros) operands[count++] = call->zero;
  operands[count++] = composed;
  if (!build_operands(graph, call->operation, operands, count, inputs)) return BUILD_NONE;
  graph_node node = {.op = OP_quantized_matmul,
                     .dtype = dtype,
                     .shape = compute_node_shape(graph, composed),
                     .constant = graph_constant_create(1, sizeof call->geometry)};
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, call->operation,
                      "not enough memory for a node");
  memcpy(node.constant, &call->geometry, sizeof call->geometry);
  return build_node(graph, call->operation, &node, inputs, count);
}

compute_node compute_quantized_matmul(compute_graph *graph, compute_node a, compute_node packed,
                                      compute_node scale, compute_node zero,
                                      const compute_quantized_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  quantized_call call = {.graph = graph,
                         .operation = "quantized_matmul",
                         .packed = packed,
                         .scale = scale,
                         .zero = zero};
  uint32_t index;
  if (!build_operands(graph, call.operation, &a, 1, &index) ||
      !build_domain(graph, call.operation, DOMAIN_FLOAT, build_at(graph, index)->dtype))
    return BUILD_NONE;
  compute_shape shape = build_at(graph, index)->shape;
  if (shape.rank == 0)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, call.operation, "a is a scalar");
  const bool row = shape.rank == 1;
  const int64_t k = shape_at(shape, shape.rank - 1);
  if (!check_options(&call, k, options) || !check_matrix(&call) ||
      !build_size(graph, call.operation, COMPUTE_SHAPE(call.n, call.blocks, call.geometry.block)))
    return BUILD_NONE;
  if (row) a = compute_reshape(graph, a, COMPUTE_SHAPE(1, k));
  compute_node y = graph->status ? BUILD_NONE : record(&call, a);
  if (row) y = compute_reshape(graph, y, COMPUTE_SHAPE(call.n));
  return graph->status ? BUILD_NONE : y;
}
