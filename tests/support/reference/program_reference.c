/* SPDX-License-Identifier: MIT */
/* The double reference of programs: the types of instructions, and the instructions that only
 * programs have. graph_evaluate_element.c has the arithmetic of single operations. */
#include "support/reference/program_reference.h"

#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate.h"
#include "support/harness/values.h"

bool reference_is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

compute_dtype reference_type(compute_dtype dtype) {
  if (dtype == COMPUTE_F16 || dtype == COMPUTE_BF16) return COMPUTE_F32;
  if (!test_is_integer(dtype)) return dtype;
  if (dtype == COMPUTE_U32) return COMPUTE_I64;
  return compute_dtype_size(dtype) < 8 ? COMPUTE_I32 : COMPUTE_I64;
}

/* ---- Elements ------------------------------------------------------------------------------ */

reference_value reference_load(compute_dtype dtype, const void *element) {
  if (reference_is_float(dtype))
    return (reference_value){.real = evaluate_decode_real(dtype, element)};
  return (reference_value){.whole = evaluate_decode_integer(dtype, element)};
}

/* Encodes a number that one of the two formats represents in its 16 bits. */
static uint16_t encode_half(compute_dtype dtype, double value) {
  const int fraction = dtype == COMPUTE_F16 ? 10 : 7, bias = dtype == COMPUTE_F16 ? 15 : 127;
  const unsigned sign = signbit(value) ? 0x8000u : 0, most = 2u * (unsigned)bias + 1;
  if (isnan(value)) return (uint16_t)(most << fraction | 1u << (fraction - 1));
  if (isinf(value)) return (uint16_t)(sign | most << fraction);
  int exponent = 0;
  frexp(value, &exponent); /* |value| = 1.… · 2^(exponent − 1) */
  if (value == 0 || exponent - 1 < 1 - bias)
    return (uint16_t)(sign | (unsigned)ldexp(fabs(value), bias - 1 + fraction));
  const double mantissa = ldexp(fabs(value), fraction + 1 - exponent) - (1 << fraction);
  return (uint16_t)(sign | (unsigned)(exponent - 1 + bias) << fraction | (unsigned)mantissa);
}

void reference_store(compute_dtype dtype, void *element, compute_dtype type,
                     reference_value value) {
  const reference_value stored = reference_cast(type, value, dtype);
  const float f32 = (float)stored.real;
  uint16_t half;
  switch (dtype) {
  case COMPUTE_F64: memcpy(element, &stored.real, 8); break;
  case COMPUTE_F32: memcpy(element, &f32, 4); break;
  case COMPUTE_F16:
  case COMPUTE_BF16:
    half = encode_half(dtype, stored.real);
    memcpy(element, &half, 2);
    break;
  default: test_integer_set(dtype, element, stored.whole);
  }
}

reference_value reference_fit(compute_dtype type, reference_value value) {
  if (reference_is_float(type))
    return (reference_value){.real = evaluate_round(type, (long double)value.real)};
  return (reference_value){.whole = evaluate_wrap(type, (uint64_t)value.whole)};
}

reference_value reference_cast(compute_dtype from, reference_value value, compute_dtype to) {
  const bool real = reference_is_float(from);
  if (reference_is_float(to)) {
    const long double exact = real ? (long double)value.real : (long double)value.whole;
    return (reference_value){.real = evaluate_round(to, exact)};
  }
  if (real) return (reference_value){.whole = evaluate_from_real(to, value.real)};
  return (reference_value){.whole = evaluate_wrap(to, (uint64_t)value.whole)};
}

/* ---- Points -------------------------------------------------------------------------------- */

int64_t reference_position(const reference_point *point) {
  int64_t position = 0;
  for (int32_t i = 0; i < point->rank; i++) position = position * point->size[i] + point->at[i];
  return position;
}

bool reference_next(reference_point *point) {
  for (int32_t i = point->rank - 1; i >= 0; i--) {
    if (++point->at[i] < point->size[i]) return true;
    point->at[i] = 0;
  }
  return false;
}

/* ---- Instructions -------------------------------------------------------------------------- */

/* The graph's operation for an instruction; −1: none. */
static int operation_of(compute_instruction_code code) {
  switch (code) {
  case COMPUTE_I_NEG: return OP_neg;
  case COMPUTE_I_ABS: return OP_abs;
  case COMPUTE_I_SIGN: return OP_sign;
  case COMPUTE_I_SQUARE: return OP_square;
  case COMPUTE_I_SQRT: return OP_sqrt;
  case COMPUTE_I_RSQRT: return OP_rsqrt;
  case COMPUTE_I_RECIPROCAL: return OP_reciprocal;
  case COMPUTE_I_EXP: return OP_exp;
  case COMPUTE_I_EXPM1: return OP_expm1;
  case COMPUTE_I_LOG: return OP_log;
  case COMPUTE_I_LOG1P: return OP_log1p;
  case COMPUTE_I_SIN: return OP_sin;
  case COMPUTE_I_COS: return OP_cos;
  case COMPUTE_I_ATAN: return OP_atan;
  case COMPUTE_I_TAN: return OP_tan;
  case COMPUTE_I_ASIN: return OP_asin;
  case COMPUTE_I_ACOS: return OP_acos;
  case COMPUTE_I_SINH: return OP_sinh;
  case COMPUTE_I_COSH: return OP_cosh;
  case COMPUTE_I_ASINH: return OP_asinh;
  case COMPUTE_I_ACOSH: return OP_acosh;
  case COMPUTE_I_ATANH: return OP_atanh;
  case COMPUTE_I_TANH: return OP_tanh;
  case COMPUTE_I_ERF: return OP_erf;
  case COMPUTE_I_FLOOR: return OP_floor;
  case COMPUTE_I_CEIL: return OP_ceil;
  case COMPUTE_I_ROUND: return OP_round;
  case COMPUTE_I_TRUNC: return OP_trunc;
  case COMPUTE_I_RELU: return OP_relu;
  case COMPUTE_I_SIGMOID: return OP_sigmoid;
  case COMPUTE_I_GELU: return OP_gelu;
  case COMPUTE_I_GELU_TANH: return OP_gelu_tanh;
  case COMPUTE_I_SILU: return OP_silu;
  case COMPUTE_I_SOFTPLUS: return OP_softplus;
  case COMPUTE_I_LEAKY_RELU: return OP_leaky_relu;
  case COMPUTE_I_ELU: return OP_elu;
  case COMPUTE_I_IS_NAN: return OP_is_nan;
  case COMPUTE_I_IS_FINITE: return OP_is_finite;
  case COMPUTE_I_BIT_NOT: return OP_bit_not;
  case COMPUTE_I_BIT_AND: return OP_bit_and;
  case COMPUTE_I_BIT_OR: return OP_bit_or;
  case COMPUTE_I_BIT_XOR: return OP_bit_xor;
  case COMPUTE_I_SHIFT_LEFT: return OP_shift_left;
  case COMPUTE_I_SHIFT_RIGHT: return OP_shift_right;
  case COMPUTE_I_NOT: return OP_logical_not;
  case COMPUTE_I_ADD: return OP_add;
  case COMPUTE_I_SUB: return OP_sub;
  case COMPUTE_I_MUL: return OP_mul;
  case COMPUTE_I_DIV: return OP_div;
  case COMPUTE_I_MOD: return OP_mod;
  case COMPUTE_I_POW: return OP_pow;
  case COMPUTE_I_MIN: return OP_minimum;
  case COMPUTE_I_MAX: return OP_maximum;
  case COMPUTE_I_EQ: return OP_equal;
  case COMPUTE_I_NE: return OP_not_equal;
  case COMPUTE_I_LT: return OP_less;
  case COMPUTE_I_LE: return OP_less_equal;
  case COMPUTE_I_GT: return OP_greater;
  case COMPUTE_I_GE: return OP_greater_equal;
  case COMPUTE_I_AND: return OP_logical_and;
  case COMPUTE_I_OR: return OP_logical_or;
  case COMPUTE_I_XOR: return OP_logical_xor;
  case COMPUTE_I_LOAD:
  case COMPUTE_I_CONSTANT:
  case COMPUTE_I_COORDINATE:
  case COMPUTE_I_POSITION:
  case COMPUTE_I_RANDOM:
  case COMPUTE_I_DRAW_NORMAL:
  case COMPUTE_I_DRAW_EXPONENTIAL:
  case COMPUTE_I_DRAW_GUMBEL:
  case COMPUTE_I_DRAW_GAMMA:
  case COMPUTE_I_DRAW_POISSON:
  case COMPUTE_I_DRAW_BETA:
  case COMPUTE_I_DRAW_BINOMIAL:
  case COMPUTE_I_DRAW_TRUNCATED_NORMAL:
  case COMPUTE_I_DRAW_GAMMA_SLOPE:
  case COMPUTE_I_CAST:
  case COMPUTE_I_ROUND_F16:
  case COMPUTE_I_ROUND_BF16:
  case COMPUTE_I_SELECT: break;
  }
  return -1;
}

static reference_value compute(const compute_instruction *in, compute_dtype from,
                               const reference_value operand[3]) {
  const int op = operation_of((compute_instruction_code)in->code);
  const compute_dtype type = (compute_dtype)in->type;
  if (op < 0) return (reference_value){.real = NAN, .whole = INT64_MIN};
  if (!reference_is_float(from)) {
    const int64_t whole[3] = {operand[0].whole, operand[1].whole, operand[2].whole};
    return (reference_value){.whole = evaluate_integer(op, from, whole)};
  }
  const double real[3] = {operand[0].real, operand[1].real, operand[2].real};
  const double result = evaluate_real(op, real, in->immediate.f64);
  if (reference_is_float(type)) return reference_fit(type, (reference_value){.real = result});
  return (reference_value){.whole = result != 0};
}

reference_value reference_instruction(const compute_instruction *in, compute_dtype from,
                                      const reference_value operand[3],
                                      const reference_point *point) {
  const compute_dtype type = (compute_dtype)in->type;
  const int64_t number = in->immediate.i64;
  switch ((compute_instruction_code)in->code) {
  case COMPUTE_I_CONSTANT:
    return reference_fit(type, (reference_value){.real = in->immediate.f64, .whole = number});
  case COMPUTE_I_COORDINATE:
    return (reference_value){.whole = number < point->rank ? point->at[number] : 0};
  case COMPUTE_I_POSITION: return (reference_value){.whole = reference_position(point)};
  case COMPUTE_I_RANDOM:
    return (reference_value){.real = evaluate_random((uint64_t)operand[0].whole,
                                                     (uint64_t)operand[1].whole, (uint32_t)number,
                                                     type == COMPUTE_F64)};
  case COMPUTE_I_DRAW_NORMAL:
  case COMPUTE_I_DRAW_EXPONENTIAL:
  case COMPUTE_I_DRAW_GUMBEL:
  case COMPUTE_I_DRAW_GAMMA:
  case COMPUTE_I_DRAW_POISSON:
  case COMPUTE_I_DRAW_BETA:
  case COMPUTE_I_DRAW_BINOMIAL:
  case COMPUTE_I_DRAW_TRUNCATED_NORMAL:
  case COMPUTE_I_DRAW_GAMMA_SLOPE:
    return (reference_value){
        .real = evaluate_draw(in->code, operand[0].real, operand[1].real, operand[2].real)};
  case COMPUTE_I_CAST: return reference_cast(from, operand[0], type);
  case COMPUTE_I_ROUND_F16: return reference_fit(COMPUTE_F16, operand[0]);
  case COMPUTE_I_ROUND_BF16: return reference_fit(COMPUTE_BF16, operand[0]);
  case COMPUTE_I_SELECT: return operand[0].whole ? operand[1] : operand[2];
  default: return compute(in, from, operand);
  }
}

void program_reference(const compute_program *program, const reference_point *point,
                       reference_input input, const void *user, reference_value *values) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *in = &program->instructions[i];
    if (in->code == COMPUTE_I_LOAD) {
      values[i] = input(user, (uint32_t)in->immediate.i64);
      continue;
    }
    /* The index of a missing operand is 0 and does no harm. */
    const reference_value operand[3] = {values[in->a], values[in->b], values[in->c]};
    values[i] =
        reference_instruction(in, (compute_dtype)program->instructions[in->a].type, operand, point);
  }
}
