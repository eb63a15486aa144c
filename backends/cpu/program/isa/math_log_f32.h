/* log and log1p in f32.
 *
 * Method: Cody and Waite (1980), chapter 5, with a polynomial instead of their rational function:
 * x = 2^k (1 + f) with 1 + f in √½ … √2, log(1 + f) = f − f²/2 + f³ R(f). Evaluation, coefficients
 * and the names …_core as in math_exp_f32.h. */
#ifndef CPU_ISA_MATH_LOG_F32_H
#define CPU_ISA_MATH_LOG_F32_H

#include "math_base.h"

#define MATH_LN2_F32          0x1.62e430p-1f
#define MATH_LOG_LN2_HIGH_F32 0x1.63p-1f /* 9 bits: exact times k; high + low = ln 2 */
#define MATH_LOG_LN2_LOW_F32  (-0x1.bd0106p-13f)
#define MATH_ROOT_HALF_BITS   0x3f3504f3u /* √½ */

/* f³ R(f), for f in √½ − 1 … √2 − 1. */
CPU_INLINE float math_log_tail_f32(float f) {
  const float square = f * f;
  const float a = math_madd_f32(-0x1.0002280p-2f, f, 0x1.5555540p-2f);
  const float b = math_madd_f32(-0x1.5472200p-3f, f, 0x1.99a0360p-3f);
  const float c = math_madd_f32(-0x1.0d7ebc0p-3f, f, 0x1.22d5fc0p-3f);
  const float d = math_madd_f32(-0x1.3a22620p-4f, f, 0x1.05a5560p-3f);
  const float low = math_madd_f32(b, square, a), high = math_madd_f32(d, square, c);
  return math_madd_f32(high, square * square, low) * (square * f);
}

/* log(1 + f). */
CPU_INLINE float math_log1p_small_f32(float f) {
  return f + math_madd_f32(-0.5f * f, f, math_log_tail_f32(f));
}

/* k ln 2 + log(1 + f). */
CPU_INLINE float math_log_sum_f32(float k, float f) {
  const float tail = math_madd_f32(k, MATH_LOG_LN2_LOW_F32, math_log_tail_f32(f));
  return math_madd_f32(k, MATH_LOG_LN2_HIGH_F32, f + math_madd_f32(-0.5f * f, f, tail));
}

/* k for the bits of x; anything for those of a number that has no logarithm. */
CPU_INLINE int32_t math_log_exponent_f32(int32_t bits) {
  return (int32_t)((uint32_t)bits - MATH_ROOT_HALF_BITS) >> 23;
}
CPU_INLINE float math_log_fraction_f32(int32_t bits, int32_t k) {
  return math_from_bits_f32((int32_t)((uint32_t)bits - ((uint32_t)k << 23))) - 1;
}

/* For normal positive finite x. */
CPU_INLINE float math_log_core_f32(float x) {
  const int32_t bits = math_bits_f32(x), k = math_log_exponent_f32(bits);
  return math_log_sum_f32((float)k, math_log_fraction_f32(bits, k));
}

CPU_INLINE float math_log_f32(float x) {
  const float tiny = x < 0x1p-126f ? 1 : 0;
  const float normal = x < 0x1p-126f ? x * 0x1p23f : x;
  const int32_t bits = math_bits_f32(normal), k = math_log_exponent_f32(bits);
  const float result = math_log_sum_f32((float)k - 23 * tiny, math_log_fraction_f32(bits, k));
  const float outside = x == 0 ? -__builtin_inff() : __builtin_nanf("");
  const float finite = x < __builtin_inff() ? result : x; /* ∞ and NaN stay */
  return ((x > 0) | (x != x)) ? finite : outside;
}

/* As log of u = 1 + x, but f is made from x itself: x = 2^k (1 + f) − 1. */
CPU_INLINE float math_log1p_f32(float x) {
  const float u = 1 + x;
  const int32_t k = math_log_exponent_f32(math_bits_f32(u));
  /* 2^−k may not be a normal number; four times that is. */
  const float scale = math_power_of_two_f32(2 - k);
  const float scaled = math_madd_f32(0.25f * x, scale, math_madd_f32(0.25f, scale, -1));
  const float f = k == 0 ? x : scaled;
  const float result = math_copy_sign_f32(math_log_sum_f32((float)k, f), x);
  const float outside = x == -1 ? -__builtin_inff() : __builtin_nanf("");
  const float finite = x < __builtin_inff() ? result : x;
  return ((x > -1) | (x != x)) ? finite : outside;
}

#endif
