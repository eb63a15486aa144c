/* Instructions on I64 and on I32 values: compiled for each (core/isa.h). Arithmetic wraps, so it is
 * done in the unsigned type. */
#include "element.h"
#include "tile_loops.h"

typedef ELEMENT integer;
typedef ARITHMETIC natural;

CPU_INLINE integer op_neg(integer x) {
  return (integer)(0 - (natural)x);
}
CPU_INLINE integer op_abs(integer x) {
  return x < 0 ? op_neg(x) : x;
}
CPU_INLINE integer op_sign(integer x) {
  return (integer)((x > 0) - (x < 0));
}
CPU_INLINE integer op_mul(integer a, integer b) {
  return (integer)((natural)a * (natural)b);
}
CPU_INLINE integer op_square(integer x) {
  return op_mul(x, x);
}
CPU_INLINE integer op_relu(integer x) {
  return x > 0 ? x : 0;
}
CPU_INLINE integer op_add(integer a, integer b) {
  return (integer)((natural)a + (natural)b);
}
CPU_INLINE integer op_sub(integer a, integer b) {
  return (integer)((natural)a - (natural)b);
}
CPU_INLINE integer op_min(integer a, integer b) {
  return a < b ? a : b;
}
CPU_INLINE integer op_max(integer a, integer b) {
  return a > b ? a : b;
}

/* Division by 0 gives 0; that by −1 is kept from the processor, which traps on the lowest number.
 */
CPU_INLINE integer op_div(integer a, integer b) {
  const integer quotient = a / (b == 0 || b == -1 ? 1 : b);
  return b == -1 ? op_neg(a) : b == 0 ? 0 : quotient;
}
CPU_INLINE integer op_mod(integer a, integer b) {
  const integer remainder = a % (b == 0 || b == -1 ? 1 : b);
  return b == 0 || b == -1 ? 0 : remainder;
}

/* By squaring. A negative exponent gives the truncated quotient 1 / a^|b|: 0 unless a is ±1. */
CPU_INLINE integer op_pow(integer a, integer b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  integer result = 1;
  for (; b; b >>= 1) {
    if (b & 1) result = op_mul(result, a);
    a = op_mul(a, a);
  }
  return result;
}

CPU_INLINE integer op_bit_not(integer x) {
  return ~x;
}
CPU_INLINE integer op_bit_and(integer a, integer b) {
  return a & b;
}
CPU_INLINE integer op_bit_or(integer a, integer b) {
  return a | b;
}
CPU_INLINE integer op_bit_xor(integer a, integer b) {
  return a ^ b;
}

/* A negative number of bits is a large one to the unsigned type. C leaves undefined what a shift by
 * the width or more gives. */
#define WIDTH (8 * sizeof(integer))
CPU_INLINE integer op_shift_left(integer a, integer b) {
  const natural bits = (natural)b, shifted = (natural)a << (bits & (WIDTH - 1));
  return bits < WIDTH ? (integer)shifted : 0;
}
CPU_INLINE integer op_shift_right(integer a, integer b) {
  const natural bits = (natural)b;
  return a >> (bits < WIDTH ? bits : WIDTH - 1);
}

CPU_INLINE int32_t op_eq(integer a, integer b) {
  return -(a == b);
}
CPU_INLINE int32_t op_ne(integer a, integer b) {
  return -(a != b);
}
CPU_INLINE int32_t op_lt(integer a, integer b) {
  return -(a < b);
}
CPU_INLINE int32_t op_le(integer a, integer b) {
  return -(a <= b);
}
CPU_INLINE int32_t op_gt(integer a, integer b) {
  return -(a > b);
}
CPU_INLINE int32_t op_ge(integer a, integer b) {
  return -(a >= b);
}

UNARY_LOOP(op_neg, integer, integer)
UNARY_LOOP(op_abs, integer, integer)
UNARY_LOOP(op_sign, integer, integer)
UNARY_LOOP(op_square, integer, integer)
UNARY_LOOP(op_relu, integer, integer)
BINARY_LOOP(op_add, integer, integer)
BINARY_LOOP(op_sub, integer, integer)
BINARY_LOOP(op_mul, integer, integer)
BINARY_LOOP(op_min, integer, integer)
BINARY_LOOP(op_max, integer, integer)
UNARY_LOOP(op_bit_not, integer, integer)
BINARY_LOOP(op_bit_and, integer, integer)
BINARY_LOOP(op_bit_or, integer, integer)
BINARY_LOOP(op_bit_xor, integer, integer)
BINARY_LOOP(op_shift_left, integer, integer)
BINARY_LOOP(op_shift_right, integer, integer)
BINARY_LOOP(op_eq, int32_t, integer)
BINARY_LOOP(op_ne, int32_t, integer)
BINARY_LOOP(op_lt, int32_t, integer)
BINARY_LOOP(op_le, int32_t, integer)
BINARY_LOOP(op_gt, int32_t, integer)
BINARY_LOOP(op_ge, int32_t, integer)
SELECT_LOOP(op_select, integer)

/* No processor divides integers in vectors: nothing to promise the compiler here. */
#undef CPU_INDEPENDENT
#define CPU_INDEPENDENT
BINARY_LOOP(op_div, integer, integer)
BINARY_LOOP(op_mod, integer, integer)
BINARY_LOOP(op_pow, integer, integer)

const cpu_tile_loops CPU_VARIANT_SYMBOL(cpu_tile) = {
    [COMPUTE_I_NEG] = UNARY_ROW(op_neg),
    [COMPUTE_I_ABS] = UNARY_ROW(op_abs),
    [COMPUTE_I_SIGN] = UNARY_ROW(op_sign),
    [COMPUTE_I_SQUARE] = UNARY_ROW(op_square),
    [COMPUTE_I_RELU] = UNARY_ROW(op_relu),
    [COMPUTE_I_ADD] = BINARY_ROW(op_add),
    [COMPUTE_I_SUB] = BINARY_ROW(op_sub),
    [COMPUTE_I_MUL] = BINARY_ROW(op_mul),
    [COMPUTE_I_DIV] = BINARY_ROW(op_div),
    [COMPUTE_I_MOD] = BINARY_ROW(op_mod),
    [COMPUTE_I_POW] = BINARY_ROW(op_pow),
    [COMPUTE_I_MIN] = BINARY_ROW(op_min),
    [COMPUTE_I_MAX] = BINARY_ROW(op_max),
    [COMPUTE_I_EQ] = BINARY_ROW(op_eq),
    [COMPUTE_I_NE] = BINARY_ROW(op_ne),
    [COMPUTE_I_LT] = BINARY_ROW(op_lt),
    [COMPUTE_I_LE] = BINARY_ROW(op_le),
    [COMPUTE_I_GT] = BINARY_ROW(op_gt),
    [COMPUTE_I_GE] = BINARY_ROW(op_ge),
    [COMPUTE_I_SELECT] = SELECT_ROW(op_select),
    [COMPUTE_I_BIT_NOT] = UNARY_ROW(op_bit_not),
    [COMPUTE_I_BIT_AND] = BINARY_ROW(op_bit_and),
    [COMPUTE_I_BIT_OR] = BINARY_ROW(op_bit_or),
    [COMPUTE_I_BIT_XOR] = BINARY_ROW(op_bit_xor),
    [COMPUTE_I_SHIFT_LEFT] = BINARY_ROW(op_shift_left),
    [COMPUTE_I_SHIFT_RIGHT] = BINARY_ROW(op_shift_right),
};
