/* SPDX-License-Identifier: MIT */
/* Instructions on f32 or f64 that compile to a few operations, as expressions of one element: x, or
 * x and y. Loops over tiles (tile_float.c) and chains (chain.c) are generated from them.
 *
 *   row(CODE, name, value)
 *
 * PARAMETER is the instruction's immediate. Comparisons give true or false. */
#ifndef CPU_ISA_ARITHMETIC_H
#define CPU_ISA_ARITHMETIC_H

#include "element.h"
#include "math_base.h"

typedef ELEMENT real;
#define REAL(name) CPU_PASTE(name, CPU_VARIANT)
#define REAL_MAX   (sizeof(real) == 4 ? 0x1.fffffep127f : 0x1.fffffffffffffp1023)

/* With an instruction for whole numbers, compilers use it for the built-in functions. */
#if (defined(__SSE4_1__) || defined(__aarch64__)) && defined(CPU_VARIANT_F32)
#define WHOLE(name, x) __builtin_##name##f(x)
#elif defined(__SSE4_1__) || defined(__aarch64__)
#define WHOLE(name, x) __builtin_##name(x)
#else
#define WHOLE(name, x) name##_of(x)
CPU_INLINE real rint_of(real x) {
  return REAL(math_rint)(x);
}
CPU_INLINE real floor_of(real x) {
  const real r = REAL(math_rint)(x);
  return REAL(math_copysign)(r > x ? r - 1 : r, x);
}
CPU_INLINE real ceil_of(real x) {
  const real r = REAL(math_rint)(x);
  return REAL(math_copysign)(r < x ? r + 1 : r, x);
}
CPU_INLINE real trunc_of(real x) {
  const real magnitude = REAL(math_fabs)(x), r = REAL(math_rint)(magnitude);
  return REAL(math_copysign)(r > magnitude ? r - 1 : r, x);
}
#endif

/* The processor's minimum and maximum return the second operand if one is NaN, so only a NaN in the
 * first needs an extra step. */
CPU_INLINE real least(real a, real b) {
  const real m = a < b ? a : b;
  return a != a ? a : m;
}
CPU_INLINE real largest(real a, real b) {
  const real m = a > b ? a : b;
  return a != a ? a : m;
}

/* clang-format off */
#define ARITHMETIC_UNARY(row)                                     \
  row(NEG,        neg,        -x)                                 \
  row(ABS,        abs,        REAL(math_fabs)(x))                 \
  row(SIGN,       sign,       x > 0 ? 1 : x < 0 ? -1 : x)         \
  row(SQUARE,     square,     (x * x))                            \
  row(SQRT,       sqrt,       REAL(math_sqrt)(x))                 \
  row(RSQRT,      rsqrt,      1 / REAL(math_sqrt)(x))             \
  row(RECIPROCAL, reciprocal, 1 / x)                              \
  row(RELU,       relu,       0 > x ? 0 : x) /* keeps NaN */         \
  row(LEAKY_RELU, leaky_relu, x > 0 ? x : PARAMETER * x)          \
  row(ROUND,      round,      WHOLE(rint, x))                     \
  row(FLOOR,      floor,      WHOLE(floor, x))                    \
  row(CEIL,       ceil,       WHOLE(ceil, x))                     \
  row(TRUNC,      trunc,      WHOLE(trunc, x))

#define ARITHMETIC_BINARY(row)  \
  row(ADD, add, x + y)          \
  row(SUB, sub, x - y)          \
  row(MUL, mul, (x * y))        \
  row(DIV, div, x / y)          \
  row(MIN, min, least(x, y))    \
  row(MAX, max, largest(x, y))

#define ARITHMETIC_QUESTION(row)  \
  row(IS_NAN, is_nan, x != x)     \
  row(IS_FINITE, is_finite, REAL(math_fabs)(x) <= REAL_MAX)
/* clang-format on */

#endif
