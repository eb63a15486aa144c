/* SPDX-License-Identifier: MIT */
/* Conversions between ONNX types. A type without a dtype is computed in a wider dtype: casting to
 * such a type rounds or wraps the values. */
#include "model/operators/cast.h"

#include <math.h>
#include <string.h>

#include "compute/call.h"
#include "model/file/types.h"
#include "model/operators/op.h"

/* ---- Floats of 8, 6 and 4 bits --------------------------------------------------------------- */

static double largest_of(const type_row *row) {
  double largest = 0;
  for (unsigned bits = 0; bits < 1u << (row->small.exponent + row->small.fraction); bits++) {
    const double value = (double)type_small_float(row, bits);
    if (isfinite(value) && value > largest) largest = value;
  }
  return largest;
}

/* Divides *x by powers of two until it is below 2, and multiplies *unit by the same powers. *x must
 * be at least 0 and below 2^(2 · highest). */
static void divide_exponent(model_call *call, int highest, compute_node *x, compute_node *unit) {
  compute_graph *graph = call->graph;
  for (int step = highest; step > 0; step /= 2) {
    const compute_node power = call_scalar_like(call, *x, ldexp(1, step));
    const compute_node inverse = call_scalar_like(call, *x, ldexp(1, -step));
    const compute_node above = compute_greater_equal(graph, *x, power);
    *x = compute_select(graph, above, compute_mul(graph, *x, inverse), *x);
    *unit = compute_select(graph, above, compute_mul(graph, *unit, power), *unit);
  }
}

/* Rounds |x| to even, to the digits of the type, as if exponents had no upper limit. Magnitudes
 * above twice the largest number become twice the largest number. */
static compute_node round_magnitude(model_call *call, compute_node x, const small_float *form,
                                    double largest) {
  compute_graph *graph = call->graph;
  const int lowest = 1 - form->bias; /* exponent of the smallest number that is not subnormal */
  compute_node y =
      compute_minimum(graph, compute_abs(graph, x), call_scalar_like(call, x, 2 * largest));
  y = compute_mul(graph, y, call_scalar_like(call, x, ldexp(1, -lowest)));
  compute_node unit = call_scalar_like(call, x, ldexp(1, lowest - form->fraction));
  divide_exponent(call, 1 << (form->exponent - 1), &y, &unit);
  y = compute_mul(graph, y, call_scalar_like(call, x, ldexp(1, form->fraction)));
  return compute_mul(graph, compute_round(graph, y), unit);
}

static compute_node to_small_float(model_call *call, compute_node x, const type_row *row,
                                   bool saturate) {
  compute_graph *graph = call->graph;
  const small_float *form = &row->small;
  const double largest = largest_of(row);
  const double beyond = saturate || form->special == ALL_FINITE    ? largest
                        : form->special == LAST_IS_INFINITY_OR_NAN ? (double)INFINITY
                                                                   : (double)NAN;
  const compute_node zero = call_scalar_like(call, x, 0);
  compute_node y = round_magnitude(call, x, form, largest);
  const compute_node over = compute_greater(graph, y, call_scalar_like(call, x, largest));
  y = compute_select(graph, over, call_scalar_like(call, x, beyond), y);
  y = compute_select(graph, compute_less(graph, x, zero), compute_neg(graph, y), y);
  const compute_node nothing =
      form->special == MINUS_ZERO_IS_NAN ? zero : compute_mul(graph, x, zero);
  y = compute_select(graph, compute_equal(graph, y, zero), nothing, y);
  return form->special == ALL_FINITE ? compute_select(graph, compute_is_nan(graph, x), zero, y) : y;
}

/* Rounds x to a power of two from 2^−127 to 2^127. */
static compute_node to_exponent(model_call *call, compute_node x, const cast_options *options) {
  compute_graph *graph = call->graph;
  const double least = ldexp(1, -127), most = ldexp(1, 127);
  compute_node y = compute_clamp(graph, x, least, 2 * most);
  y = compute_mul(graph, y, call_scalar_like(call, x, most));
  compute_node unit = call_scalar_like(call, x, least);
  divide_exponent(call, 128, &y, &unit);
  const compute_node two = call_scalar_like(call, x, 2);
  const compute_node one = call_scalar_like(call, x, 1), middle = call_scalar_like(call, x, 1.5);
  compute_node up = compute_greater(graph, y, one);
  if (strcmp(options->round_mode, "nearest") == 0) up = compute_greater_equal(graph, y, middle);
  if (strcmp(options->round_mode, "down") != 0)
    unit = compute_select(graph, up, compute_mul(graph, unit, two), unit);
  const compute_node nan = call_scalar_like(call, x, (double)NAN);
  const compute_node last = call_scalar_like(call, x, most);
  const compute_node over = compute_greater(graph, unit, last);
  unit = compute_select(graph, over, options->saturate ? last : nan, unit);
  const compute_node below = compute_less(graph, x, call_scalar_like(call, x, least));
  if (!options->saturate) unit = compute_select(graph, below, nan, unit);
  return compute_select(graph, compute_is_nan(graph, x), nan, unit);
}

/* ---- Integers of 4 and 2 bits ---------------------------------------------------------------- */

static compute_node to_narrow_integer(model_call *call, compute_node x, const type_row *row) {
  compute_graph *graph = call->graph;
  x = op_cast(call, x, COMPUTE_I32);
  if (row->form == ELEMENT_UNSIGNED) {
    const compute_node mask = compute_scalar(graph, COMPUTE_I32, (double)((1 << row->bits) - 1));
    return compute_cast(graph, compute_bit_and(graph, x, mask), row->dtype);
  }
  const compute_node away = compute_scalar(graph, COMPUTE_I32, 32 - row->bits);
  x = compute_shift_right(graph, compute_shift_left(graph, x, away), away);
  return compute_cast(graph, x, row->dtype);
}

/* ---- Cast ------------------------------------------------------------------------------------ */

static compute_node cast_small(model_call *call, compute_node x, const type_row *row,
                               const cast_options *options) {
  compute_dtype wide = COMPUTE_F32;
  if (compute_node_dtype(call->graph, x) == COMPUTE_F64 || row->small.special == POWER_OF_TWO)
    wide = COMPUTE_F64;
  x = op_cast(call, x, wide);
  x = row->small.special == POWER_OF_TWO ? to_exponent(call, x, options)
                                         : to_small_float(call, x, row, options->saturate);
  return op_cast(call, x, COMPUTE_F32);
}

compute_status cast_to(model_call *call, compute_node x, int32_t type, const cast_options *options,
                       compute_node *result) {
  const type_row *row = type_find(type);
  if (!row || row->dtype == COMPUTE_DTYPE_NONE)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "casts to type %s are not supported",
                     onnx_type_name(type));
  if (row->form == ELEMENT_SMALL_FLOAT)
    *result = cast_small(call, x, row, options);
  else if (row->form == ELEMENT_UNSIGNED || row->form == ELEMENT_SIGNED)
    *result = to_narrow_integer(call, x, row);
  else
    *result = op_cast(call, x, row->dtype);
  return COMPUTE_OK;
}

static compute_status cast_input(model_call *call, int32_t type) {
  const cast_options options = {call_attribute_i(call, "saturate", 1) != 0,
                                call_attribute_s(call, "round_mode", "up")};
  if (!call_has(call, 0) || call->inputs[0]->kind != VALUE_TENSOR)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "only tensors of numbers are cast");
  if (type == call_type(call, 0)) return call_output_value(call, 0, call->inputs[0]);
  compute_node result;
  const compute_status status = cast_to(call, call_input(call, 0), type, &options, &result);
  return status ? status : call_output_as(call, 0, type, result);
}

compute_status cast_rule(model_call *call) {
  return cast_input(call, (int32_t)call_attribute_i(call, "to", ONNX_UNDEFINED));
}

compute_status cast_like_rule(model_call *call) {
  return cast_input(call, call_type(call, 1));
}

/* ---- BitCast --------------------------------------------------------------------------------- */

static compute_status copy_bytes(void *user, const compute_call_arguments *arguments, int32_t part,
                                 int32_t parts) {
  (void)user;
  const compute_call_tensor *from = &arguments->inputs[0], *to = &arguments->outputs[0];
  const size_t size = compute_dtype_size(to->dtype);
  int64_t first, end;
  compute_call_share(to->count, part, parts, &first, &end);
  memcpy((char *)to->data + (size_t)first * size, (const char *)from->data + (size_t)first * size,
         (size_t)(end - first) * size);
  return COMPUTE_OK;
}

/* A cast between integers of the same width keeps the bits, also for 4 and 2 bits. */
static bool keeps_bits(const type_row *row) {
  return row->dtype != COMPUTE_BOOL && !op_is_float(row->dtype);
}

compute_status bit_cast_rule(model_call *call) {
  static const cast_options none = {.round_mode = "up"};
  const int32_t type = (int32_t)call_attribute_i(call, "to", ONNX_UNDEFINED);
  const type_row *from = type_find(call_type(call, 0)), *to = type_find(type);
  if (!from || !to || from->bits != to->bits || to->bits == 0)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "%s and %s differ in size",
                     onnx_type_name(call_type(call, 0)), onnx_type_name(type));
  compute_node x = call_input(call, 0);
  if (keeps_bits(from) && keeps_bits(to)) {
    const compute_status status = cast_to(call, x, type, &none, &x);
    return status ? status : call_output_as(call, 0, type, x);
  }
  if (from->form == ELEMENT_SMALL_FLOAT || to->form == ELEMENT_SMALL_FLOAT)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "the bits of %s are not kept",
                     onnx_type_name(from->form == ELEMENT_SMALL_FLOAT ? call_type(call, 0) : type));
  const compute_call_output output = {to->dtype, call_shape(call, 0)};
  const compute_call_options options = {
      .name = "BitCast", .flags = COMPUTE_CALL_PURE, .parts = COMPUTE_CALL_PARTS_AUTOMATIC};
  return call_output_as(
      call, 0, type,
      compute_call(call->graph, copy_bytes, NULL, &x, 1, &output, 1, &options, NULL));
}
