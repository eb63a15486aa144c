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
 * lowest number. No processor divides vectors of integers; in f64 a quotient of i32 is exact. */
#if defined(CPU_VARIANT_I32)
#define QUOTIENT(a, b) ((integer)((double)(a) / (double)(b)))
#else
#define QUOTIENT(a, b) ((a) / (b))
#endif
CPU_INLINE integer divide(integer a, integer b) {
  const integer quotient = QUOTIENT(a, b == 0 || b == -1 ? 1 : b);
  return b == -1 ? (integer)(0 - (natural)a) : b == 0 ? 0 : quotient;
}
CPU_INLINE integer remainder_of(integer a, integer b) {
  const integer divisor = b == 0 || b == -1 ? 1 : b;
  return (integer)((natural)a - (natural)QUOTIENT(a, divisor) * (natural)divisor);
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

BINARY_LOOP(div, integer, integer, divide(x, y))
BINARY_LOOP(mod, integer, integer, remainder_of(x, y))
BINARY_LOOP(pow, integer, integer, power(x, y))

/* ---- Division by one number ------------------------------------------------------------------ */

#if defined(CPU_VARIANT_I32)
/* The factor is 1 / b and a little more: for i32 its product with a whole multiple of b is not
 * below the quotient, and with other numbers it does not reach the next one. */
typedef double reciprocal;

static reciprocal reciprocal_of(integer b) {
  return 1 / (double)b * (1 + 0x1p-45);
}
CPU_INLINE integer quotient_by(integer a, reciprocal r) {
  return (integer)((double)a * r);
}
#elif defined(__SIZEOF_INT128__)
/* As the high half of a product (T. Granlund and P. Montgomery, "Division by invariant integers using
 * multiplication", 1994). */
__extension__ typedef unsigned __int128 wide_natural;
typedef struct reciprocal {
  natural factor, sign; /* sign: −1 for a negative divisor */
  int shift;
} reciprocal;

static reciprocal reciprocal_of(integer b) {
  const natural size = b < 0 ? 0 - (natural)b : (natural)b;
  const int digits = 64 - __builtin_clzll(size - 1);
  const wide_natural over = ((wide_natural)1 << digits) - size;
  return (reciprocal){(natural)((over << 64) / size + 1), b < 0 ? ~(natural)0 : 0, digits - 1};
}
CPU_INLINE integer quotient_by(integer a, reciprocal r) {
  const natural sign = a < 0 ? ~(natural)0 : 0, size = ((natural)a ^ sign) - sign;
  const natural high = (natural)((wide_natural)r.factor * size >> 64);
  const natural quotient = (high + ((size - high) >> 1)) >> r.shift;
  return (integer)((quotient ^ sign ^ r.sign) - (sign ^ r.sign));
}
#else
typedef integer reciprocal;
CPU_INLINE reciprocal reciprocal_of(integer b) {
  return b;
}
CPU_INLINE integer quotient_by(integer a, reciprocal r) {
  return a / r;
}
#endif

/* Larger divisors than 1; the others have simple loops. */
#define NUMBER_LOOP(name, value)                                                                   \
  static void name##_number(int64_t count, void *result, const void *a, const void *b,             \
                            const void *c, cpu_immediate immediate) {                              \
    const integer *as = a, number = *(const integer *)b;                                           \
    integer *r = result;                                                                           \
    if (number >= -1 && number <= 1) {                                                             \
      name##_right(count, result, a, b, c, immediate);                                             \
      return;                                                                                      \
    }                                                                                              \
    const reciprocal by = reciprocal_of(number);                                                   \
    CPU_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const integer x = as[i], quotient = quotient_by(x, by);                                      \
      r[i] = value;                                                                                \
    }                                                                                              \
  }
NUMBER_LOOP(div, quotient)
NUMBER_LOOP(mod, (integer)((natural)x - (natural)quotient * (natural)number))

const cpu_tile_loops CPU_VARIANT_SYMBOL(cpu_tile) = {
    [COMPUTE_I_NEG] = UNARY_ROW(neg),
    [COMPUTE_I_ABS] = UNARY_ROW(abs),
    [COMPUTE_I_SIGN] = UNARY_ROW(sign),
    [COMPUTE_I_SQUARE] = UNARY_ROW(square),
    [COMPUTE_I_RELU] = UNARY_ROW(relu),
    [COMPUTE_I_ADD] = BINARY_ROW(add),
    [COMPUTE_I_SUB] = BINARY_ROW(sub),
    [COMPUTE_I_MUL] = BINARY_ROW(mul),
    [COMPUTE_I_DIV] = {div_loop, div_left, div_number},
    [COMPUTE_I_MOD] = {mod_loop, mod_left, mod_number},
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
