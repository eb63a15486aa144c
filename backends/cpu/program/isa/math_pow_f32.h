/* pow and mod in f32. pow computes 2^(b log2 a) in f64, where the errors of the logarithm are far
 * below those of f32 even when b multiplies them. */
#ifndef CPU_ISA_MATH_POW_F32_H
#define CPU_ISA_MATH_POW_F32_H

#include <math.h>

#include "math_log_f32.h"

/* log2 of a positive finite number: k + 2/ln 2 (s + s³/3 + s⁵/5 + …), s = (m − 1) / (m + 1), for
 * x = 2^k m with m in √½ … √2. */
CPU_INLINE double math_log2_wide_f32(float x) {
  const int32_t tiny = x < 0x1p-126f;
  const float normal = x < 0x1p-126f ? x * 0x1p23f : x;
  const int32_t bits = math_bits_f32(normal), k = math_log_exponent_f32(bits);
  const double f = (double)math_log_fraction_f32(bits, k); /* m − 1 */
  const double s = f / (f + 2), z = s * s;
  double q = 2.8853900817779268 / 17;
  q = math_madd_f64(q, z, 2.8853900817779268 / 15);
  q = math_madd_f64(q, z, 2.8853900817779268 / 13);
  q = math_madd_f64(q, z, 2.8853900817779268 / 11);
  q = math_madd_f64(q, z, 2.8853900817779268 / 9);
  q = math_madd_f64(q, z, 2.8853900817779268 / 7);
  q = math_madd_f64(q, z, 2.8853900817779268 / 5);
  q = math_madd_f64(q, z, 2.8853900817779268 / 3);
  q = math_madd_f64(q, z, 2.8853900817779268);
  return (double)(k - 23 * tiny) + s * q;
}

/* 2^y for |y| ≤ 1000: the Taylor series of exp(f ln 2) for |f| ≤ ½. */
CPU_INLINE double math_exp2_wide(double y) {
  const double shifted = y + MATH_SHIFT_F64, f = (y - (shifted - MATH_SHIFT_F64));
  const double r = f * 0.6931471805599453;
  double q = 1.0 / 3628800;
  q = math_madd_f64(q, r, 1.0 / 362880);
  q = math_madd_f64(q, r, 1.0 / 40320);
  q = math_madd_f64(q, r, 1.0 / 5040);
  q = math_madd_f64(q, r, 1.0 / 720);
  q = math_madd_f64(q, r, 1.0 / 120);
  q = math_madd_f64(q, r, 1.0 / 24);
  q = math_madd_f64(q, r, 1.0 / 6);
  q = math_madd_f64(q, r, 0.5);
  q = math_madd_f64(q, r, 1);
  q = math_madd_f64(q, r, 1);
  return q * math_power_of_two_f64(math_bits_f64(shifted) - math_bits_f64(MATH_SHIFT_F64));
}

/* The special cases are those of C's pow (ISO C, annex F.10.4.4). */
CPU_INLINE float math_pow_f32(float a, float b) {
  const float infinity = __builtin_inff();
  const float magnitude = math_abs_f32(a), size = math_abs_f32(b);
  const int32_t ordinary = (magnitude > 0) & (magnitude < infinity);
  double y = (double)b * math_log2_wide_f32(ordinary ? magnitude : 1);
  y = y > 1000 ? 1000 : y;
  y = y < -1000 ? -1000 : y;
  float result = (float)math_exp2_wide(y);
  /* 0 and ∞ as base: 0 or ∞ by the sign of the exponent. */
  const float at_zero = b < 0 ? infinity : 0, at_infinity = b < 0 ? 0 : infinity;
  result = magnitude == 0 ? at_zero : result;
  result = magnitude == infinity ? at_infinity : result;
  /* A negative base has a real power only for whole exponents; an odd one keeps the sign. */
  const float half = 0.5f * size;
  const int32_t whole = (size >= 0x1p23f) | (math_round_f32(size) == size);
  const int32_t odd = (size < 0x1p24f) & whole & (math_round_f32(half) != half);
  const float undefined = __builtin_nanf("");
  const float signed_result = odd ? math_copy_sign_f32(result, a) : result;
  result = ((a < 0) & (magnitude < infinity) & !whole) ? undefined : signed_result;
  /* Powers of ±1, and the infinite exponent; then what is 1 for every partner, NaN included. */
  result = ((magnitude == 1) & (size == infinity)) ? 1 : result;
  result = ((a != a) | (b != b)) ? undefined : result;
  return ((a == 1) | (b == 0)) ? 1 : result;
}

/* The remainder is exact, which takes a loop of unknown length per element: the C library's. */
CPU_INLINE float math_mod_f32(float a, float b) {
  return fmodf(a, b);
}

#endif
