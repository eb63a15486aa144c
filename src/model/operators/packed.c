/* SPDX-License-Identifier: MIT */
/* ONNX Runtime's block-quantized weights: a few bits each, packed in bytes, one scale per block.
 * They stay packed in memory. */
#include <inttypes.h>

#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/quantize.h"

/* Unpacks bytes [rows, n] to i32 [rows, n · 8 / bits], the lowest bits first. */
static compute_node unpack(model_call *call, compute_node bytes, int64_t bits) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, bytes);
  const int32_t shifts[] = {0, (int32_t)bits, 2 * (int32_t)bits, 3 * (int32_t)bits};
  bytes = compute_cast(graph, bytes, COMPUTE_I32);
  if (bits == 8) return bytes;
  const compute_node places = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(8 / bits), shifts);
  const compute_node mask = compute_scalar_i64(graph, COMPUTE_I32, (1 << bits) - 1);
  bytes = compute_reshape(graph, bytes, COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1), 1));
  bytes = compute_bit_and(graph, compute_shift_right(graph, bytes, places), mask);
  return compute_reshape(graph, bytes,
                         COMPUTE_SHAPE(shape_at(shape, 0), shape_at(shape, 1) * (8 / bits)));
}

static compute_status check_bits(model_call *call, int64_t bits, int64_t block) {
  if (bits != 2 && bits != 4 && bits != 8)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "numbers of %" PRId64 " bits", bits);
  if (block < 1 || block > 1 << 20 || block * bits % 8 != 0)
    return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "blocks of %" PRId64 " numbers", block);
  return COMPUTE_OK;
}

/* ---- MatMulNBits ----------------------------------------------------------------------------- */

typedef struct packed_matrix {
  int64_t bits, block;
  int64_t rows, columns; /* of the matrix B; the product is A · Bᵀ */
  int64_t blocks;        /* per row */
} packed_matrix;

static compute_status read_matrix(model_call *call, packed_matrix *m) {
  const compute_shape shape = call_shape(call, 1);
  m->bits = call_attribute_i(call, "bits", 4);
  m->block = call_attribute_i(call, "block_size", 0);
  m->rows = call_attribute_i(call, "N", 0);
  m->columns = call_attribute_i(call, "K", 0);
  if (call_attribute_i(call, "weight_prepacked", 0) != 0)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its weights are in a device's own layout");
  const compute_status status = check_bits(call, m->bits, m->block);
  if (status) return status;
  m->blocks = m->columns / m->block + (m->columns % m->block != 0);
  if (m->columns < 1 || shape.rank != 3 || shape_at(shape, 0) != m->rows ||
      shape_at(shape, 1) != m->blocks || shape_at(shape, 2) != m->block * m->bits / 8 ||
      call_dtype(call, 1) != COMPUTE_U8)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "its bytes are not %" PRId64 " rows of %" PRId64 " blocks", m->rows,
                     m->blocks);
  return COMPUTE_OK;
}

/* Unpacks constant zero points of the model, one byte for each. */
static compute_status unpack_zeros(model_call *call, const packed_matrix *m, int64_t row_bytes,
                                   compute_node *zero) {
  const void *data;
  const compute_status status = call_host(call, 3, &data);
  if (status) return status;
  unsigned char *bytes = call_allocate(call, (size_t)m->rows * (size_t)m->blocks, 1);
  if (!bytes) return call_out_of_memory(call);
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->blocks; j++) {
      const unsigned from = ((const unsigned char *)data)[i * row_bytes + j * m->bits / 8];
      const unsigned number = from >> (j * m->bits % 8) & ((1u << m->bits) - 1);
      bytes[i * m->blocks + j] = (unsigned char)number;
    }
  *zero = compute_constant(call->graph, COMPUTE_U8, COMPUTE_SHAPE(m->rows, m->blocks), bytes);
  return COMPUTE_OK;
}

/* The zero points [rows, blocks], floats in `dtype` or u8; {0} if the node has none. */
static compute_status zero_points(model_call *call, const packed_matrix *m, compute_dtype dtype,
                                  compute_node *zero) {
  compute_graph *graph = call->graph;
  const compute_shape shape = COMPUTE_SHAPE(m->rows, m->blocks), given = call_shape(call, 3);
  const int64_t bytes = (m->blocks * m->bits + 7) / 8;
  *zero = (compute_node){0};
  if (!call_has(call, 3)) return COMPUTE_OK;
  const bool floats = op_is_float(call_dtype(call, 3));
  if (op_count(given, 0, given.rank) != m->rows * (floats ? m->blocks : bytes))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "its zero points are not %" PRId64 " rows of %" PRId64 " blocks", m->rows,
                     m->blocks);
  if (!floats && call->inputs[3]->host) return unpack_zeros(call, m, bytes, zero);
  *zero =
      compute_reshape(graph, call_input(call, 3), floats ? shape : COMPUTE_SHAPE(m->rows, bytes));
  if (!floats) *zero = compute_slice(graph, unpack(call, *zero, m->bits), 1, 0, m->blocks, 1);
  *zero = compute_cast(graph, *zero, floats ? dtype : COMPUTE_U8);
  return COMPUTE_OK;
}

/* Dequantizes the matrix [rows, columns]. Input 4 names the block of each column, whose scale and
 * zero point apply. */
static compute_node indexed_matrix(model_call *call, const packed_matrix *m, compute_node bytes,
                                   compute_node scale, compute_node zero,
                                   const compute_quantized_options *options) {
  compute_graph *graph = call->graph;
  const compute_shape shape = COMPUTE_SHAPE(m->rows, m->blocks);
  compute_node index = op_cast(call, call_input(call, 4), COMPUTE_I64);
  if (call_shape(call, 4).rank == 1 && shape_at(call_shape(call, 4), 0) > m->columns)
    index = compute_slice(graph, index, 0, 0, m->columns, 1);
  const compute_node one = compute_full(graph, COMPUTE_F32, shape, 1);
  const compute_node none = compute_full(graph, COMPUTE_F32, shape, 0);
  compute_node w = compute_dequantize(graph, bytes, one, none, m->columns, options);
  zero = compute_node_is_valid(zero)
             ? compute_gather(graph, op_cast(call, zero, COMPUTE_F32), index, 1)
             : compute_scalar(graph, COMPUTE_F32, 1 << (m->bits - 1));
  w = compute_sub(graph, w, zero);
  return compute_mul(graph, w, compute_gather(graph, op_cast(call, scale, COMPUTE_F32), index, 1));
}

static compute_status matmul_bits_rule(model_call *call) {
  compute_graph *graph = call->graph;
  packed_matrix m = {0};
  compute_node zero = {0};
  compute_status status = read_matrix(call, &m);
  if (!status) status = zero_points(call, &m, call_dtype(call, 2), &zero);
  if (status) return status;
  const compute_quantized_options options = {.bits = (int32_t)m.bits, .block = m.block};
  const compute_node a = call_input(call, 0);
  const compute_node bytes = compute_reshape(
      graph, call_input(call, 1), COMPUTE_SHAPE(m.rows, m.blocks * (m.block * m.bits / 8)));
  const compute_node scale =
      compute_reshape(graph, call_input(call, 2), COMPUTE_SHAPE(m.rows, m.blocks));
  compute_node y;
  if (call_has(call, 4)) {
    const compute_node w = indexed_matrix(call, &m, bytes, scale, zero, &options);
    y = compute_matmul(
        graph, a,
        compute_transpose(graph, op_cast(call, w, call_dtype(call, 0)), COMPUTE_AXES(1, 0)));
  } else {
    y = compute_quantized_matmul(graph, a, bytes, scale, zero, &options);
  }
  if (call_has(call, 5)) y = compute_add(graph, y, call_input(call, 5));
  return call_output(call, 0, y);
}

/* ---- GatherBlockQuantized -------------------------------------------------------------------- */

/* Gathers slices of input i along `axis`, unpacks the last axis if it is packed, and casts to
 * f32. */
static compute_node gather_numbers(model_call *call, size_t i, int32_t axis, int64_t bits) {
  compute_graph *graph = call->graph;
  const bool packed = call_type(call, i) == ONNX_UINT8;
  compute_node x = compute_gather(graph, call_input(call, i), call_input(call, 1), axis);
  compute_shape shape = compute_node_shape(graph, x);
  if (packed && shape.rank > 0) {
    const int64_t last = shape_at(shape, shape.rank - 1);
    x = compute_reshape(graph, x, COMPUTE_SHAPE(op_count(shape, 0, shape.rank - 1), last));
    x = unpack(call, x, bits);
    shape_set(&shape, shape.rank - 1, last * (8 / bits));
    x = compute_reshape(graph, x, shape);
  }
  return op_cast(call, x, COMPUTE_F32);
}

/* [..., n] → [..., blocks, n / blocks] */
static compute_node in_blocks(model_call *call, compute_node x, int64_t blocks) {
  compute_shape shape = compute_node_shape(call->graph, x);
  const int64_t size = blocks > 0 ? shape_at(shape, shape.rank - 1) / blocks : 0;
  shape_set(&shape, shape.rank - 1, blocks);
  shape_set(&shape, shape.rank++, size);
  return compute_reshape(call->graph, x, shape);
}

static compute_status gather_block_quantized_rule(model_call *call) {
  compute_graph *graph = call->graph;
  const compute_shape data = call_shape(call, 0), scales = call_shape(call, 2);
  const int64_t bits = call_attribute_i(call, "bits", 4);
  const int64_t block = call_attribute_i(call, "block_size", 128);
  int32_t axis, quantized;
  compute_status status = check_bits(call, bits, block);
  if (!status) status = call_axis(call, call_attribute_i(call, "gather_axis", 0), data.rank, &axis);
  if (!status)
    status = call_axis(call, call_attribute_i(call, "quantize_axis", 1), data.rank, &quantized);
  if (status) return status;
  if (quantized != data.rank - 1 || axis == quantized || scales.rank != data.rank ||
      data.rank + call_shape(call, 1).rank > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "only blocks along the last axis, and slices along another, are supported");
  const compute_node x = gather_numbers(call, 0, axis, bits);
  const compute_shape result = compute_node_shape(graph, x);
  const int64_t count = result.rank ? shape_at(result, result.rank - 1) : 0;
  const int64_t blocks = shape_at(scales, scales.rank - 1);
  if (blocks < 1 || count % blocks != 0 || (blocks > 1 && count / blocks != block))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%" PRId64 " scales for %" PRId64 " numbers",
                     blocks, count);
  compute_node zero =
      compute_scalar(graph, COMPUTE_F32, call_type(call, 0) == ONNX_UINT8 ? 1 << (bits - 1) : 0);
  if (call_has(call, 3)) {
    zero = gather_numbers(call, 3, axis, bits);
    zero = compute_slice(graph, zero, result.rank - 1, 0, blocks, 1);
    zero = in_blocks(call, zero, blocks);
  }
  const compute_node scale = in_blocks(
      call, compute_gather(graph, call_input(call, 2), call_input(call, 1), axis), blocks);
  compute_node y = compute_sub(graph, in_blocks(call, x, blocks), zero);
  y = compute_mul(graph, y, op_cast(call, scale, COMPUTE_F32));
  return call_output(call, 0,
                     op_cast(call, compute_reshape(graph, y, result), call_dtype(call, 2)));
}

static const operator_row rows[] = {
    {"com.microsoft", "GatherBlockQuantized", 1, gather_block_quantized_rule},
    {"com.microsoft", "MatMulNBits", 1, matmul_bits_rule},
};

const operator_family operators_packed = OPERATOR_FAMILY(rows);
