/* SPDX-License-Identifier: MIT */
/* Instructions on I64 and on I32 values: compiled once for each (core/isa.h). Arithmetic wraps, so
 * it uses the unsigned type. */
#include "element.h"
#include "tile_loops.h"

typedef ELEMENT integer;
typedef ARITHMETIC natural;

CPU_INLINE integer multiply(integer a, integer b) {
  return (integer)((natural)a * (natural)b);
}

/* Division by 0 gives 0. Division by −1 avoids the processor's instruction, which traps for the
 * lowest number. */
CPU_INLINE integer divide(integer a, integer b) {
  const integer quotient = a / (b == 0 || b == -1 ? 1 : b);
  return b == -1 ? (integer)(0 - (natural)a) : b == 0 ? 0 : quotient;
}
CPU_INLINE integer remainder_of(integer a, integer b) {
  const integer remainder = a % (b == 0 || b == -1 ? 1 : b);
  return b == 0 || b == -1 ? 0 : remainder;
}

/* By squaring. A negative exponent gives the truncated quotient 1 / a^|b|: 0 unless a is ±1. */
CPU_INLINE integer power(integer a, integer b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  integer result = 1;
  for (; b; b >>= 1) {
    if (b & 1) result = multiply(result, a);
    a = multiply(a, a);
  }
  return result;
}

/* A negative number of bits is a large unsigned one. In C, a shift by the width or more is
 * undefined. */
#define WIDTH (8 * sizeof(integer))
CPU_INLINE integer shifted_left(integer a, integer b) {
  const natural bits = (natural)b, shifted = (natural)a << (bits & (WIDTH - 1));
  return bits < WIDTH ? (integer)shifted : 0;
}
CPU_INLINE integer shifted_right(integer a, integer b) {
  const natural bits = (natural)b;
  return a >> (bits < WIDTH ? bits : WIDTH - 1);
}

UNARY_LOOP(neg, integer, integer, (integer)(0 - (natural)x))
UNARY_LOOP(abs, integer, integer, x < 0 ? (integer)(0 - (natural)x) : x)
UNARY_LOOP(sign, integer, integer, (integer)((x > 0) - (x < 0)))
UNARY_LOOP(square, integer, integer, multiply(x, x))
UNARY_LOOP(relu, integer, integer, x > 0 ? x : 0)
UNARY_LOOP(bit_not, integer, integer, ~x)
BINARY_LOOP(add, integer, integer, (integer)((natural)x + (natural)y))
BINARY_LOOP(sub, integer, integer, (integer)((natural)x - (natural)y))
BINARY_LOOP(mul, integer, integer, multiply(x, y))
BINARY_LOOP(min, integer, integer, x < y ? x : y)
BINARY_LOOP(max, integer, integer, x > y ? x : y)
BINARY_LOOP(bit_and, integer, integer, (x & y))
BINARY_LOOP(bit_or, integer, integer, x | y)
BINARY_LOOP(bit_xor, integer, integer, x ^ y)
BINARY_LOOP(shift_left, integer, integer, shifted_left(x, y))
BINARY_LOOP(shift_right, integer, integer, shifted_right(x, y))
#define COMPARISON(CODE, name, value) BINARY_LOOP(name, int32_t, integer, -(value))
COMPARISONS(COMPARISON)
SELECT_LOOP(select, integer)

/* No processor has vector integer division, so give no vectorisation hint here. */
#undef CPU_INDEPENDENT
#define CPU_INDEPENDENT
BINARY_LOOP(div, integer, integer, divide(x, y))
BINARY_LOOP(mod, integer, integer, remainder_of(x, y))
BINARY_LOOP(pow, integer, integer, power(x, y))

const cpu_tile_loops CPU_VARIANT_SYMBOL(cpu_tile) = {
    [COMPUTE_I_NEG] = UNARY_ROW(neg),
    [COMPUTE_I_ABS] = UNARY_ROW(abs),
    [COMPUTE_I_SIGN] = UNARY_ROW(sign),
    [COMPUTE_I_SQUARE] = UNARY_ROW(square),
    [COMPUTE_I_RELU] = UNARY_ROW(relu),
    [COMPUTE_I_ADD] = BINARY_ROW(add),
    [COMPUTE_I_SUB] = BINARY_ROW(sub),
    [COMPUTE_I_MUL] = BINARY_ROW(mul),
    [COMPUTE_I_DIV] = BINARY_ROW(div),
    [COMPUTE_I_MOD] = BINARY_ROW(mod),
    [COMPUTE_I_POW] = BINARY_ROW(pow),
    [COMPUTE_I_MIN] = BINARY_ROW(min),
    [COMPUTE_I_MAX] = BINARY_ROW(max),
    /* clang-format off */
    COMPARISONS(BINARY_ROW_OF)
        /* clang-format on */
        [COMPUTE_I_SELECT] = SELECT_ROW(select),
    [COMPUTE_I_BIT_NOT] = UNARY_ROW(bit_not),
    [COMPUTE_I_BIT_AND] = BINARY_ROW(bit_and),
    [COMPUTE_I_BIT_OR] = BINARY_ROW(bit_or),
    [COMPUTE_I_BIT_XOR] = BINARY_ROW(bit_xor),
    [COMPUTE_I_SHIFT_LEFT] = BINARY_ROW(shift_left),
    [COMPUTE_I_SHIFT_RIGHT] = BINARY_ROW(shift_right),
};
