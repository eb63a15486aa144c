/* SPDX-License-Identifier: MIT */
/* Quantization and dequantization. */
#include "model/operators/quantize.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/file/types.h"
#include "model/operators/cast.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* ---- Values ---------------------------------------------------------------------------------- */

/* The range of a quantized type; false if `row` is not one. */
static bool range_of(const type_row *row, double *low, double *high) {
  if (!row || row->bits == 0 || row->bits > 16 || row->dtype == COMPUTE_BOOL ||
      op_is_float(row->dtype))
    return false;
  const bool negative = row->dtype == COMPUTE_I8 || row->dtype == COMPUTE_I16;
  *low = negative ? -ldexp(1, row->bits - 1) : 0;
  *high = ldexp(1, negative ? row->bits - 1 : row->bits) - 1;
  return true;
}

compute_status quantize_to(model_call *call, compute_node x, compute_node zero, int32_t type,
                           bool saturate, compute_node *result) {
  const type_row *row = type_find(type);
  const cast_options options = {saturate, "nearest"};
  double low, high;
  if (row && row->form == ELEMENT_SMALL_FLOAT) {
    /* Only types with saturating overflow use their zero points. */
    if (compute_node_is_valid(zero) && row->small.special == ALL_FINITE)
      x = compute_add(call->graph, op_wide(call, x),
                      op_cast(call, zero, op_wide_dtype(compute_node_dtype(call->graph, x))));
    return cast_to(call, x, type, &options, result);
  }
  if (!range_of(row, &low, &high))
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "numbers are not quantized to %s",
                     onnx_type_name(type));
  x = op_wide(call, compute_round(call->graph, x));
  if (compute_node_is_valid(zero))
    x = compute_add(call->graph, x, op_cast(call, zero, compute_node_dtype(call->graph, x)));
  const bool whole = (size_t)row->bits == 8 * compute_dtype_size(row->dtype);
  if (!whole) x = compute_clamp(call->graph, x, low, high); /* else the conversion saturates */
  *result = compute_cast(call->graph, x, row->dtype);
  return COMPUTE_OK;
}

dynamic_quantization quantize_dynamic(model_call *call, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_node none = call_scalar_like(call, x, 0), one = call_scalar_like(call, x, 1);
  const compute_node steps = call_scalar_like(call, x, 255);
  const compute_shape shape = compute_node_shape(graph, x);
  compute_node most = none, least = none;
  if (op_count(shape, 0, shape.rank) > 0) {
    most = compute_maximum(graph, compute_max(graph, x, COMPUTE_ALL_AXES, false), none);
    least = compute_minimum(graph, compute_min(graph, x, COMPUTE_ALL_AXES, false), none);
  }
  const compute_node same = compute_equal(graph, most, least);
  const compute_node range = compute_div(graph, compute_sub(graph, most, least), steps);
  const compute_node scale = compute_select(graph, same, one, range);
  compute_node zero = compute_div(graph, compute_neg(graph, least), scale);
  zero = compute_round(graph, compute_clamp(graph, zero, 0, 255));
  const compute_node q =
      compute_add(graph, compute_round(graph, compute_div(graph, x, scale)), zero);
  return (dynamic_quantization){compute_cast(graph, compute_clamp(graph, q, 0, 255), COMPUTE_U8),
                                scale, compute_cast(graph, zero, COMPUTE_U8)};
}

/* ---- Scales and zero points ------------------------------------------------------------------ */

/* Repeats one number for each block along `axis` to one for each element. */
static compute_status spread_blocks(model_call *call, size_t i, int32_t axis, int64_t block,
                                    compute_node *result) {
  const compute_shape x = call_shape(call, 0);
  compute_shape own = call_shape(call, i);
  bool fits = own.rank == x.rank && block > 0 && shape_at(x, axis) <= INT64_MAX / 2;
  for (int32_t k = 0; fits && k < x.rank; k++)
    fits = shape_at(own, k) ==
           (k == axis ? shape_at(x, k) / block + (shape_at(x, k) % block != 0) : shape_at(x, k));
  if (!fits)
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "input %zu does not fit blocks of %" PRId64 " along axis %d", i, block,
                     (int)axis);
  if (shape_at(own, axis) <= 1) return COMPUTE_OK;
  if (own.rank == COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "blocks in a tensor of %d axes",
                     (int)own.rank);
  compute_shape apart = own, wide, joined = own;
  apart.rank++;
  for (int32_t k = own.rank; k > axis + 1; k--) shape_set(&apart, k, shape_at(own, k - 1));
  shape_set(&apart, axis + 1, 1);
  wide = apart;
  shape_set(&wide, axis + 1, block);
  shape_set(&joined, axis, shape_at(own, axis) * block); /* below twice x's size */
  *result = compute_broadcast(call->graph, compute_reshape(call->graph, *result, apart), wide);
  *result = compute_reshape(call->graph, *result, joined);
  if (shape_at(joined, axis) > shape_at(x, axis))
    *result = compute_slice(call->graph, *result, axis, 0, shape_at(x, axis), 1);
  return COMPUTE_OK;
}

/* Shapes input i to broadcast to input 0. It is a scale or zero point for the tensor, an axis or
 * blocks. {0} if it is omitted. */
static compute_status spread(model_call *call, size_t i, compute_node *result) {
  const compute_shape x = call_shape(call, 0), own = call_shape(call, i);
  const int64_t block = call_attribute_i(call, "block_size", 0);
  int32_t axis = 0;
  *result = call_input(call, i);
  if (!call_has(call, i)) return COMPUTE_OK;
  if (own.rank <= 1 && op_count(own, 0, own.rank) == 1) {
    *result = compute_reshape(call->graph, *result, COMPUTE_SCALAR);
    return COMPUTE_OK;
  }
  if (x.rank != 1) {
    const compute_status status = call_axis(call, call_attribute_i(call, "axis", 1), x.rank, &axis);
    if (status) return status;
  }
  if (own.rank != 1 || (x.rank == 1 && block > 0))
    return spread_blocks(call, i, axis, block, result);
  if (shape_at(own, 0) != shape_at(x, axis))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "input %zu has %" PRId64 " elements for an axis of %" PRId64, i,
                     shape_at(own, 0), shape_at(x, axis));
  *result = op_along(call, *result, axis, x.rank);
  return COMPUTE_OK;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* The float dtype that an attribute names, or `fallback`. */
static compute_status float_attribute(model_call *call, const char *name, compute_dtype fallback,
                                      compute_dtype *dtype) {
  const int64_t type = call_attribute_i(call, name, 0);
  *dtype = type > 0 && type <= INT32_MAX ? onnx_dtype((int32_t)type) : fallback;
  return op_is_float(*dtype)
             ? COMPUTE_OK
             : call_fail(call, COMPUTE_ERROR_DTYPE, "%s is not a float", type ? name : "the scale");
}

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* Makes a value available in this graph. False if it belongs to another graph and is not a
 * constant. */
static bool take_value(uint32_t graph, const model_value *from, model_value *value) {
  *value = *from;
  if (value->kind == VALUE_ABSENT || value->node.graph == graph) return true;
  value->node = (compute_node){0};
  return value->host != NULL;
}

/* The scale of a whole tensor if it is known, positive and far from overflow; else 0. */
static float known_scale(const model_value *scale) {
  float value;
  if (!scale->host || scale->dtype != COMPUTE_F32 ||
      op_count(scale->shape, 0, scale->shape.rank) != 1)
    return 0;
  memcpy(&value, scale->host, sizeof value);
  return value >= 0x1p-100f && value <= 0x1p100f ? value : 0;
}

static bool same_zero(const model_value *a, const model_value *b) {
  const unsigned char none = 0, *of_a = a->host, *of_b = b->host;
  if (a->kind == VALUE_ABSENT) of_a = &none;
  if (b->kind == VALUE_ABSENT) of_b = &none;
  return of_a && of_b && op_count(b->shape, 0, b->shape.rank) <= 1 && *of_a == *of_b;
}

/* The values before dequantization, if it used the same scale and zero point: x·s/s rounds to x, so
 * quantizing gives them back. Else {0}. */
static compute_node before_dequantizing(model_call *call, int32_t type) {
  const quantized_form *form = call->inputs[0]->quantized;
  const model_value absent = {.kind = VALUE_ABSENT};
  const model_value *zero = call_has(call, 2) ? call->inputs[2] : &absent;
  model_value values;
  if (!form || form->axis != -1 || !is_byte(form->values.dtype) || form->values.type != type ||
      call_attribute(call, "precision") || call_trains(call) || known_scale(&form->scale) == 0 ||
      known_scale(&form->scale) != known_scale(call->inputs[1]) || !same_zero(&form->zero, zero) ||
      !take_value(call_input(call, 0).graph, &form->values, &values))
    return (compute_node){0};
  return values.node;
}

static compute_status quantize_linear(model_call *call) {
  compute_node scale, zero, result;
  compute_dtype dtype;
  compute_status status = spread(call, 1, &scale);
  if (!status) status = spread(call, 2, &zero);
  if (!status) status = float_attribute(call, "precision", call_dtype(call, 1), &dtype);
  if (status) return status;
  int32_t type = (int32_t)call_attribute_i(call, "output_dtype", ONNX_UNDEFINED);
  if (call_has(call, 2)) type = call_type(call, 2);
  if (type == ONNX_UNDEFINED) type = ONNX_UINT8;
  const compute_node before = before_dequantizing(call, type);
  if (compute_node_is_valid(before)) return call_output_as(call, 0, type, before);
  const compute_node x = compute_div(call->graph, op_cast(call, call_input(call, 0), dtype),
                                     op_cast(call, scale, dtype));
  status = quantize_to(call, x, zero, type, call_attribute_i(call, "saturate", 1) != 0, &result);
  return status ? status : call_output_as(call, 0, type, result);
}

/* Records the source of output 0. If memory runs out, output 0 has no source, which is valid. */
static void keep_form(model_call *call) {
  const compute_shape x = call_shape(call, 0), scale = call_shape(call, 1);
  const bool whole = scale.rank <= 1 && op_count(scale, 0, scale.rank) == 1;
  int32_t axis = -1;
  if (call->outputs[0].dtype != COMPUTE_F32 || call_dtype(call, 1) != COMPUTE_F32 ||
      (!is_byte(call_dtype(call, 0)) && call_dtype(call, 0) != COMPUTE_I32) ||
      (!whole && scale.rank != 1) ||
      (call_has(call, 2) && call_dtype(call, 2) != call_dtype(call, 0)) ||
      call_attribute_i(call, "block_size", 0) != 0)
    return;
  if (!whole && x.rank > 1 && call_axis(call, call_attribute_i(call, "axis", 1), x.rank, &axis))
    return;
  quantized_form *form = call_allocate(call, 1, sizeof *form);
  if (!form) return;
  form->values = *call->inputs[0];
  form->scale = *call->inputs[1];
  if (call_has(call, 2)) form->zero = *call->inputs[2];
  form->axis = whole ? -1 : axis > 0 ? axis : 0;
  call->outputs[0].quantized = form;
}

bool quantized_call(model_call *call, size_t a, size_t b, int32_t axis, model_call *own) {
  const size_t inputs[] = {a, b};
  model_value *values = call_allocate(call, 6, sizeof *values);
  model_value **places = call_allocate(call, 6, sizeof *places);
  if (!values || !places || call_trains(call)) return false;
  for (size_t i = 0; i < 2; i++) {
    const quantized_form *form =
        call_has(call, inputs[i]) ? call->inputs[inputs[i]]->quantized : NULL;
    if (!form || !is_byte(form->values.dtype) ||
        (form->axis >= 0 && (i == 0 || form->axis != axis)))
      return false;
    const uint32_t graph = call_input(call, inputs[i]).graph;
    if (!take_value(graph, &form->values, &values[3 * i]) ||
        !take_value(graph, &form->scale, &values[3 * i + 1]) ||
        !take_value(graph, &form->zero, &values[3 * i + 2]))
      return false;
  }
  for (size_t i = 0; i < 6; i++) places[i] = &values[i];
  *own = *call;
  own->inputs = places;
  own->input_count = 6;
  return true;
}

static compute_status dequantize_linear(model_call *call) {
  compute_node scale, zero;
  compute_dtype dtype;
  compute_status status = spread(call, 1, &scale);
  if (!status) status = spread(call, 2, &zero);
  if (!status) status = float_attribute(call, "output_dtype", call_dtype(call, 1), &dtype);
  if (status) return status;
  const compute_dtype wide = op_wide_dtype(dtype);
  compute_node x = call_input(call, 0);
  if (compute_node_is_valid(zero) && !op_is_float(call_dtype(call, 0))) {
    /* Differences of 16-bit numbers are exact in every wide float; for i32 they may not be. */
    const compute_dtype exact = call_dtype(call, 0) == COMPUTE_I32 ? COMPUTE_I32 : wide;
    x = compute_sub(call->graph, op_cast(call, x, exact), op_cast(call, zero, exact));
  }
  x = compute_mul(call->graph, op_cast(call, x, wide), op_cast(call, scale, wide));
  call_output(call, 0, op_cast(call, x, dtype));
  if (call->output_count > 0 && compute_node_is_valid(x)) keep_form(call);
  return COMPUTE_OK;
}

bool quantized_is_ordered(const model_call *call, size_t i) {
  const quantized_form *form = call->inputs[i]->quantized;
  return form && form->axis == -1 && is_byte(form->values.dtype) && known_scale(&form->scale) > 0 &&
         !call_trains(call);
}

bool quantized_origin(model_call *call, size_t i, model_call *own) {
  const quantized_form *form = call->inputs[i]->quantized;
  const uint32_t graph = call_input(call, i).graph;
  model_value *values = call_allocate(call, 3, sizeof *values);
  model_value **places = call_allocate(call, 3, sizeof *places);
  if (!values || !places || !form || !take_value(graph, &form->values, &values[0]) ||
      !take_value(graph, &form->scale, &values[1]) || !take_value(graph, &form->zero, &values[2]))
    return false;
  for (size_t k = 0; k < 3; k++) places[k] = &values[k];
  *own = *call;
  own->inputs = places;
  own->input_count = 3;
  return true;
}

compute_status quantized_again(model_call *own, compute_node bytes) {
  model_value *values = own->inputs[0];
  values->shape = compute_node_shape(own->graph, bytes);
  values->node = bytes;
  values->host = NULL;
  values->id = -1;
  return dequantize_linear(own);
}

static compute_status dynamic_quantize_linear(model_call *call) {
  const dynamic_quantization q = quantize_dynamic(call, call_input(call, 0));
  call_output(call, 0, q.values);
  call_output(call, 1, q.scale);
  return call_output(call, 2, q.zero);
}

static const operator_row rows[] = {
    {"", "QuantizeLinear", 10, quantize_linear},
    {"", "DequantizeLinear", 10, dequantize_linear},
    {"", "DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"com.microsoft", "QuantizeLinear", 1, quantize_linear},
    {"com.microsoft", "DequantizeLinear", 1, dequantize_linear},
};

const operator_family operators_quantize = OPERATOR_FAMILY(rows);
