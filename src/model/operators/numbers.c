/* SPDX-License-Identifier: MIT */
/* u64 is computed as i64 with corrections; see each section. */
#include "model/operators/numbers.h"

#include <math.h>

#include "model/operators/op.h"

bool number_is_unsigned(compute_dtype dtype) {
  return dtype == COMPUTE_U8 || dtype == COMPUTE_U16 || dtype == COMPUTE_U32 ||
         dtype == COMPUTE_U64;
}

compute_node number_i64(model_call *call, int64_t value) {
  return compute_scalar_i64(call->graph, COMPUTE_I64, value);
}

static bool is_u64(const model_call *call, compute_node x) {
  return compute_node_dtype(call->graph, x) == COMPUTE_U64;
}

static compute_node integer_like(model_call *call, compute_node x, int64_t value) {
  return compute_scalar_i64(call->graph, compute_node_dtype(call->graph, x), value);
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Converts u64 to i64 with the same order: the highest bit is inverted. */
static compute_node order_of(model_call *call, compute_node x) {
  if (!is_u64(call, x)) return x;
  x = compute_cast(call->graph, x, COMPUTE_I64);
  return compute_bit_xor(call->graph, x, integer_like(call, x, INT64_MIN));
}

compute_node number_compare(model_call *call, binary_builder compare, compute_node a,
                            compute_node b) {
  return compare(call->graph, order_of(call, a), order_of(call, b));
}

compute_node number_minimum(model_call *call, compute_node a, compute_node b) {
  if (!is_u64(call, a)) return compute_minimum(call->graph, a, b);
  return compute_select(call->graph, number_compare(call, compute_less, a, b), a, b);
}

compute_node number_maximum(model_call *call, compute_node a, compute_node b) {
  if (!is_u64(call, a)) return compute_maximum(call->graph, a, b);
  return compute_select(call->graph, number_compare(call, compute_less, a, b), b, a);
}

/* ---- Quotients ------------------------------------------------------------------------------- */

static compute_node shift_right_u64(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  const compute_node by = compute_cast(graph, b, COMPUTE_I64);
  const compute_node one = integer_like(call, by, 1);
  compute_node half = compute_shift_right(graph, compute_cast(graph, a, COMPUTE_I64), one);
  half = compute_bit_and(graph, half, integer_like(call, half, INT64_MAX));
  half = compute_shift_right(graph, half, compute_sub(graph, by, one));
  return compute_select(graph, compute_equal(graph, by, integer_like(call, by, 0)), a,
                        compute_cast(graph, half, COMPUTE_U64));
}

/* (a / 2) / b as i64, doubled, is the quotient or one less. A divisor of 2^63 or more is negative
 * as i64; then the quotient is 0 or 1. */
static compute_node divide_u64(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  const compute_node one = integer_like(call, a, 1), zero = integer_like(call, a, 0);
  const compute_node divisor = compute_cast(graph, b, COMPUTE_I64);
  compute_node half = compute_cast(graph, shift_right_u64(call, a, one), COMPUTE_I64);
  half = compute_cast(graph, compute_div(graph, half, divisor), COMPUTE_U64);
  const compute_node large = compute_less(graph, divisor, number_i64(call, 0));
  const compute_node low = compute_select(graph, large, zero, compute_shift_left(graph, half, one));
  const compute_node rest = compute_sub(graph, a, compute_mul(graph, low, b));
  const compute_node more = number_compare(call, compute_greater_equal, rest, b);
  const compute_node quotient = compute_add(graph, low, compute_cast(graph, more, COMPUTE_U64));
  return compute_select(graph, compute_equal(graph, b, zero), zero, quotient);
}

compute_node number_divide(model_call *call, compute_node a, compute_node b) {
  return is_u64(call, a) ? divide_u64(call, a, b) : compute_div(call->graph, a, b);
}

compute_node number_remainder(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  if (!is_u64(call, a)) return compute_mod(graph, a, b);
  return compute_sub(graph, a, compute_mul(graph, divide_u64(call, a, b), b));
}

compute_node number_modulo(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  const compute_node rest = number_remainder(call, a, b);
  if (number_is_unsigned(compute_node_dtype(graph, a))) return rest;
  const compute_node zero = call_scalar_like(call, rest, 0);
  const compute_node differ =
      compute_logical_xor(graph, compute_less(graph, rest, zero), compute_less(graph, b, zero));
  const compute_node fix = compute_logical_and(graph, compute_not_equal(graph, rest, zero), differ);
  return compute_select(graph, fix, compute_add(graph, rest, b), rest);
}

compute_node number_shift_right(model_call *call, compute_node a, compute_node b) {
  return is_u64(call, a) ? shift_right_u64(call, a, b) : compute_shift_right(call->graph, a, b);
}

/* ---- Powers ---------------------------------------------------------------------------------- */

/* Exponentiation by squaring in i64. From an exponent of 64 on only its parity counts: bases other
 * than −1, 0 and 1 have overflowed. A negative exponent gives 0, or ±1 for a base of ±1. */
static compute_node power_of_integers(model_call *call, compute_node base, compute_node exponent) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = compute_node_dtype(graph, base);
  const compute_node zero = number_i64(call, 0);
  const compute_node one = number_i64(call, 1);
  base = op_cast(call, base, COMPUTE_I64);
  exponent = op_cast(call, exponent, COMPUTE_I64);
  const compute_node parity = compute_bit_and(graph, exponent, one);
  const compute_node large = compute_add(graph, parity, number_i64(call, 62));
  const compute_node negative = compute_less(graph, exponent, zero);
  exponent = compute_select(graph, compute_greater(graph, exponent, large), large, exponent);
  exponent = compute_select(graph, negative, parity, exponent);
  const compute_node fraction = compute_logical_and(
      graph, negative,
      compute_logical_or(graph, compute_less(graph, base, compute_neg(graph, one)),
                         compute_greater(graph, base, one)));
  compute_node square = base;
  compute_node result = one;
  for (int64_t bit = 1; bit < 64; bit *= 2) {
    const compute_node set = compute_not_equal(
        graph, compute_bit_and(graph, exponent, integer_like(call, exponent, bit)), zero);
    result = compute_select(graph, set, compute_mul(graph, result, square), result);
    square = compute_square(graph, square);
  }
  return op_cast(call, compute_select(graph, fraction, zero, result), dtype);
}

/* Truncates as a conversion in C, except within the rounding error of a whole number. */
static compute_node power_to_integer(model_call *call, compute_node base, compute_node exponent) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = compute_node_dtype(graph, base);
  const compute_node power =
      compute_pow(graph, op_cast(call, base, COMPUTE_F64), op_cast(call, exponent, COMPUTE_F64));
  const compute_node nearest = compute_round(graph, power);
  const compute_node error = compute_abs(graph, compute_sub(graph, power, nearest));
  const compute_node bound =
      compute_mul(graph, compute_abs(graph, power), call_scalar_like(call, power, 1e-14));
  const compute_node whole =
      compute_select(graph, compute_less_equal(graph, error, bound), nearest, power);
  return compute_cast(graph, whole, dtype);
}

compute_node number_power(model_call *call, compute_node base, compute_node exponent) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = compute_node_dtype(graph, base);
  const compute_dtype by = compute_node_dtype(graph, exponent);
  if (!op_is_float(dtype))
    return op_is_float(by) ? power_to_integer(call, base, exponent)
                           : power_of_integers(call, base, exponent);
  compute_dtype wide = dtype;
  if (op_is_float(by) && by != dtype)
    wide = dtype == COMPUTE_F64 || by == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  const compute_node power =
      compute_pow(graph, op_cast(call, base, wide), op_cast(call, exponent, wide));
  return op_cast(call, power, dtype);
}

/* Powers to ±0.5 ignore the sign of zero and of infinity. So −0 becomes 0 and −∞ becomes ∞. */
static compute_node root_base(model_call *call, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_node lowest = call_scalar_like(call, x, -(double)INFINITY);
  const compute_node highest = call_scalar_like(call, x, (double)INFINITY);
  x = compute_add(graph, x, call_scalar_like(call, x, 0));
  return compute_select(graph, compute_equal(graph, x, lowest), highest, x);
}

compute_node number_power_of(model_call *call, compute_node base, double exponent) {
  compute_graph *graph = call->graph;
  if (exponent == 1) return base;
  if (exponent == 2) return compute_square(graph, base);
  if (exponent == 3) return compute_mul(graph, base, compute_square(graph, base));
  const compute_dtype dtype = compute_node_dtype(graph, base);
  if (!op_is_float(dtype)) {
    const bool whole = exponent >= -64 && exponent <= 64 && exponent == (double)(int)exponent;
    return number_power(call, base,
                        compute_scalar(graph, whole ? COMPUTE_I64 : COMPUTE_F64, exponent));
  }
  if (exponent == 0.5) return compute_sqrt(graph, root_base(call, base));
  if (exponent == -0.5) return compute_rsqrt(graph, root_base(call, base));
  if (exponent == -1) return compute_reciprocal(graph, base);
  base = op_wide(call, base);
  return op_cast(call, compute_pow(graph, base, call_scalar_like(call, base, exponent)), dtype);
}
