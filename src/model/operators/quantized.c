/* SPDX-License-Identifier: MIT */
/* Operators on quantized numbers. Products are exact: in i32, or, for some convolutions, in floats
 * that represent every sum. The result is scaled and rounded to even. */
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"
#include "model/operators/quantize.h"
#include "model/operators/quantized_product.h"

static compute_node less(model_call *call, compute_node x, compute_node zero, compute_dtype dtype) {
  x = op_cast(call, x, dtype);
  return compute_node_is_valid(zero) ? compute_sub(call->graph, x, op_cast(call, zero, dtype)) : x;
}

/* Rounds x, already divided by the scale, to `type`, and sets output 0. */
static compute_status finish(model_call *call, compute_node x, compute_node zero, int32_t type) {
  compute_node result;
  const compute_status status = quantize_to(call, x, zero, type, true, &result);
  return status ? status : call_output_as(call, 0, type, result);
}

/* ---- Products of matrices -------------------------------------------------------------------- */

static compute_status matmul_integer_rule(model_call *call) {
  return call_output(call, 0, quantized_product(call, 0, 2, 1, 3));
}

/* Output 0 = sums · scale + bias, in a float dtype. */
static compute_status scaled(model_call *call, compute_node sums, compute_node scale, size_t bias,
                             compute_dtype dtype) {
  compute_node y = compute_mul(call->graph, op_cast(call, sums, COMPUTE_F32), scale);
  if (call_has(call, bias))
    y = compute_add(call->graph, y, op_cast(call, call_input(call, bias), COMPUTE_F32));
  return call_output(call, 0, op_cast(call, y, dtype));
}

static compute_status matmul_integer_to_float_rule(model_call *call) {
  const compute_node scale =
      compute_mul(call->graph, quantized_scale(call, 2, true), quantized_scale(call, 3, false));
  return scaled(call, quantized_product(call, 0, 4, 1, 5), scale, 6, call_dtype(call, 2));
}

static compute_status dynamic_quantize_matmul_rule(model_call *call) {
  const dynamic_quantization a =
      quantize_dynamic(call, op_cast(call, call_input(call, 0), COMPUTE_F32));
  const integer_factor left = {.values = a.values, .zero = a.zero};
  const integer_factor right = quantized_factor(call, 1, 3, false);
  const compute_node sums = integer_product(call, &left, &right);
  const compute_node scale = compute_mul(call->graph, a.scale, quantized_scale(call, 2, false));
  return scaled(call, sums, scale, 4, call_dtype(call, 0));
}

static compute_status qlinear_matmul_rule(model_call *call) {
  compute_graph *graph = call->graph;
  compute_node scale =
      compute_mul(graph, quantized_scale(call, 1, true), quantized_scale(call, 4, false));
  scale = compute_div(graph, scale, quantized_scale(call, 6, true));
  const compute_node sums = op_cast(call, quantized_product(call, 0, 2, 3, 5), COMPUTE_F32);
  return finish(call, compute_mul(graph, sums, scale), quantized_parameter(call, 7, true),
                call_type(call, 7));
}

/* Input i, transposed if the attribute is set. Only an input without a transposition keeps its host
 * values. */
static integer_factor gemm_factor(model_call *call, size_t i, size_t zero, const char *transposed) {
  integer_factor f = quantized_factor(call, i, zero, false);
  if (call_attribute_i(call, transposed, 0) == 0) return f;
  f.values = op_move_axis(call, f.values, 1, 0);
  f.host = NULL;
  return f;
}

static compute_status qgemm_rule(model_call *call) {
  compute_graph *graph = call->graph;
  for (size_t i = 0; i < 4; i += 3)
    if (call_shape(call, i).rank != 2)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu has rank %d, not 2", i,
                       (int)call_shape(call, i).rank);
  const integer_factor a = gemm_factor(call, 0, 2, "transA");
  const integer_factor b = gemm_factor(call, 3, 5, "transB");
  compute_node sums = integer_product(call, &a, &b);
  if (call_has(call, 6)) sums = compute_add(graph, sums, call_input(call, 6));
  compute_node scale =
      compute_mul(graph, quantized_scale(call, 1, false), quantized_scale(call, 4, false));
  const double alpha = call_attribute_f(call, "alpha", 1);
  if (alpha != 1) scale = compute_mul(graph, scale, call_scalar_like(call, scale, alpha));
  if (!call_has(call, 7)) return scaled(call, sums, scale, SIZE_MAX, COMPUTE_F32);
  scale = compute_div(graph, scale, quantized_scale(call, 7, false));
  return finish(call, compute_mul(graph, op_cast(call, sums, COMPUTE_F32), scale),
                quantized_parameter(call, 8, false),
                call_has(call, 8) ? call_type(call, 8) : ONNX_UINT8);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* Applies ONNX's operator `name` to one or two inputs, with the attributes of this node. *result
 * may be one of the inputs. */
static compute_status record_as(model_call *call, const char *name, const compute_node *inputs,
                                size_t count, compute_node *result) {
  const model_rule rule = operator_find("", name, INT32_MAX);
  model_value values[2], *places[2], output = {.kind = VALUE_ABSENT};
  if (!rule) return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "%s is not known", name);
  if (compute_graph_status(call->graph)) {
    *result = (compute_node){0};
    return COMPUTE_OK; /* reported after the rule */
  }
  for (size_t i = 0; i < count; i++) {
    const compute_dtype dtype = compute_node_dtype(call->graph, inputs[i]);
    values[i] = (model_value){.kind = VALUE_TENSOR,
                              .type = onnx_type_of(dtype),
                              .dtype = dtype,
                              .shape = compute_node_shape(call->graph, inputs[i]),
                              .id = -1,
                              .node = inputs[i]};
    places[i] = &values[i];
  }
  model_call own = *call;
  own.version = INT32_MAX;
  own.inputs = places;
  own.input_count = count;
  own.outputs = &output;
  own.output_count = 1;
  const compute_status status = rule(&own);
  *result = output.node;
  return status;
}

/* Returns true if f32 represents every sum of 8-bit products exactly, in any order. A filter with
 * several channels and more than one element may use an algorithm that rounds, so it does not
 * qualify. */
static bool is_narrow(compute_shape filter) {
  const int64_t largest = (1 << 24) / (255 * 255);
  bool plain = filter.rank > 2 && op_count(filter, 1, filter.rank) <= largest;
  for (int32_t i = 2; plain && i < filter.rank; i++)
    plain = shape_at(filter, 1) == 1 || shape_at(filter, i) == 1;
  return plain;
}

/* Convolves in the narrowest float dtype that represents every sum. */
static compute_status convolve_floats(model_call *call, size_t x, size_t x_zero, size_t w,
                                      size_t w_zero, integer_sums *sums) {
  const compute_shape filter = call_shape(call, w);
  const compute_dtype dtype = is_narrow(filter) ? COMPUTE_F32 : COMPUTE_F64;
  compute_node zero = quantized_parameter(call, w_zero, false);
  if (call_has(call, w_zero) && compute_node_shape(call->graph, zero).rank == 1)
    zero = op_along(call, zero, 0, filter.rank);
  const compute_node inputs[2] = {
      less(call, call_input(call, x), quantized_parameter(call, x_zero, false), dtype),
      less(call, call_input(call, w), zero, dtype)};
  compute_node y;
  const compute_status status = record_as(call, "Conv", inputs, 2, &y);
  if (status) return status;
  sums->values = compute_cast(call->graph, compute_round(call->graph, y), COMPUTE_I32);
  sums->result = compute_node_shape(call->graph, y);
  sums->channels = (compute_shape){.rank = sums->result.rank - 1, .size = {shape_at(filter, 0)}};
  for (int32_t i = 1; i < sums->channels.rank; i++) shape_set(&sums->channels, i, 1);
  return COMPUTE_OK;
}

/* Convolves inputs x and w minus their zero points, and adds the bias (SIZE_MAX for none). The sums
 * are exact, in i32 or floats. */
static compute_status convolve(model_call *call, size_t x, size_t x_zero, size_t w, size_t w_zero,
                               size_t bias, integer_sums *sums) {
  if (integer_convolution_fits(call, x, x_zero, w, w_zero))
    return integer_convolution(call, x, x_zero, w, w_zero, bias, sums);
  const compute_status status = convolve_floats(call, x, x_zero, w, w_zero, sums);
  if (!status && call_has(call, bias))
    sums->values = compute_add(call->graph, sums->values,
                               quantized_of_filters(call, sums, call_input(call, bias)));
  return status;
}

static compute_status conv_integer_rule(model_call *call) {
  integer_sums sums;
  const compute_status status = convolve(call, 0, 2, 1, 3, SIZE_MAX, &sums);
  return status ? status : call_output(call, 0, integer_result(call, &sums, sums.values));
}

static compute_status qlinear_conv_rule(model_call *call) {
  integer_sums sums;
  compute_node y;
  compute_status status = convolve(call, 0, 2, 3, 5, 8, &sums);
  if (status) return status;
  y = compute_mul(call->graph, op_cast(call, sums.values, COMPUTE_F32),
                  quantized_joint_scale(call, &sums, 1, 4, 6));
  status = quantize_to(call, y, quantized_parameter(call, 7, false), call_type(call, 7), true, &y);
  return status ? status
                : call_output_as(call, 0, call_type(call, 7), integer_result(call, &sums, y));
}

/* ---- ONNX Runtime: operators with one scale per tensor --------------------------------------- */

/* Dequantizes input i with scale i + 1 and zero point i + 2. */
static compute_node plain(model_call *call, size_t i) {
  const compute_node x =
      less(call, call_input(call, i), quantized_parameter(call, i + 2, false), COMPUTE_F32);
  return compute_mul(call->graph, x, quantized_scale(call, i + 1, false));
}

/* Quantizes x with scale i and zero point i + 1, and sets output 0. */
static compute_status requantize(model_call *call, compute_node x, size_t i, int32_t type) {
  x = compute_div(call->graph, x, quantized_scale(call, i, false));
  return finish(call, x, quantized_parameter(call, i + 1, false), type);
}

static compute_status qlinear_binary_rule(model_call *call) {
  const compute_node a = plain(call, 0), b = plain(call, 3);
  const bool adds = strcmp(call->node->type, "QLinearAdd") == 0;
  return requantize(call, adds ? compute_add(call->graph, a, b) : compute_mul(call->graph, a, b), 6,
                    call_type(call, 0));
}

static compute_status qlinear_activation_rule(model_call *call) {
  const compute_node x = plain(call, 0);
  const compute_node y =
      strcmp(call->node->type, "QLinearSigmoid") == 0
          ? compute_sigmoid(call->graph, x)
          : compute_leaky_relu(call->graph, x, call_attribute_f(call, "alpha", 0.01));
  return requantize(call, y, 3, call_type(call, 0));
}

static compute_status qlinear_pool_rule(model_call *call) {
  const int32_t rank = call_shape(call, 0).rank;
  const bool last = call_attribute_i(call, "channels_last", 0) != 0 && rank > 2;
  compute_node x = plain(call, 0);
  if (last) x = op_move_axis(call, x, rank - 1, 1);
  const compute_status status = record_as(call, call->node->type + strlen("QLinear"), &x, 1, &x);
  if (status) return status;
  return requantize(call, last ? op_move_axis(call, x, 1, rank - 1) : x, 3, call_type(call, 0));
}

/* Each part is quantized by itself: as a function of one byte it is a table on the CPU. */
static compute_status qlinear_concat_rule(model_call *call) {
  const size_t count = call->input_count < 2 ? 0 : (call->input_count - 2) / 3;
  int32_t axis;
  if (count == 0 || call->input_count != 2 + 3 * count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "it has %zu inputs", call->input_count);
  compute_status status =
      call_axis(call, call_attribute_i(call, "axis", 0), call_shape(call, 2).rank, &axis);
  if (status) return status;
  compute_node *parts = call_allocate(call, count, sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  const compute_node scale = quantized_scale(call, 0, false);
  for (size_t i = 0; i < count && !status; i++)
    status = quantize_to(call, compute_div(call->graph, plain(call, 2 + 3 * i), scale),
                         quantized_parameter(call, 1, false), call_type(call, 1), true, &parts[i]);
  if (status) return status;
  return call_output_as(call, 0, call_type(call, 1),
                        compute_concat(call->graph, parts, count, axis));
}

/* Before opset 13 all axes from `axis` on count as one. */
static compute_status qlinear_softmax_rule(model_call *call) {
  const bool flat = call_attribute_i(call, "opset", 13) < 13;
  compute_node x = plain(call, 0);
  const compute_shape shape = compute_node_shape(call->graph, x);
  int32_t axis;
  const compute_status status =
      call_axis(call, call_attribute_i(call, "axis", -1), call_shape(call, 0).rank, &axis);
  if (status) return status;
  if (flat)
    x = compute_reshape(call->graph, x,
                        COMPUTE_SHAPE(op_count(shape, 0, axis), op_count(shape, axis, shape.rank)));
  x = compute_softmax(call->graph, x, flat ? 1 : axis);
  return requantize(call, compute_reshape(call->graph, x, shape), 3, call_type(call, 0));
}

static compute_status qlinear_where_rule(model_call *call) {
  const compute_node y =
      compute_select(call->graph, call_input(call, 0), plain(call, 1), plain(call, 4));
  return requantize(call, y, 7, call_type(call, 1));
}

static const operator_row rows[] = {
    {"", "MatMulInteger", 10, matmul_integer_rule},
    {"", "ConvInteger", 10, conv_integer_rule},
    {"", "QLinearMatMul", 10, qlinear_matmul_rule},
    {"", "QLinearConv", 10, qlinear_conv_rule},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, dynamic_quantize_matmul_rule},
    {"com.microsoft", "MatMulIntegerToFloat", 1, matmul_integer_to_float_rule},
    {"com.microsoft", "QGemm", 1, qgemm_rule},
    {"com.microsoft", "QLinearAdd", 1, qlinear_binary_rule},
    {"com.microsoft", "QLinearAveragePool", 1, qlinear_pool_rule},
    {"com.microsoft", "QLinearConcat", 1, qlinear_concat_rule},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, qlinear_pool_rule},
    {"com.microsoft", "QLinearLeakyRelu", 1, qlinear_activation_rule},
    {"com.microsoft", "QLinearMul", 1, qlinear_binary_rule},
    {"com.microsoft", "QLinearSigmoid", 1, qlinear_activation_rule},
    {"com.microsoft", "QLinearSoftmax", 1, qlinear_softmax_rule},
    {"com.microsoft", "QLinearWhere", 1, qlinear_where_rule},
};

const operator_family operators_quantized = OPERATOR_FAMILY(rows);
