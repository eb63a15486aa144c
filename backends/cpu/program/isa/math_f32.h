/* SPDX-License-Identifier: MIT */
/* The vector functions in f32: kernels/functions_f32.h and functions_trigonometry.h, plus the
 * functions here, which only the CPU computes differently. tests/cpu/test_math.c measures them.
 *
 * A function named …_core accepts only the arguments in its comment, usually all that occur. The
 * function without the suffix accepts every float and costs up to twice as much. tile_float.c
 * chooses for a whole tile. */
#ifndef CPU_PROGRAM_MATH_F32_H
#define CPU_PROGRAM_MATH_F32_H

#include <math.h>

#include "math_base.h"

#include "../../../../kernels/functions_f32.h"
#include "../../../../kernels/functions_trigonometry.h"

/* ---- Short forms ----------------------------------------------------------------------------- */

/* For normal positive finite x. */
CPU_INLINE float log_core_f32(float x) {
  const uint32_t bits = as_u32(x);
  const int32_t k = log_exponent_f32(bits);
  return log_sum_f32((float)k, log_fraction_f32(bits, k));
}

/* The remainder is exact, which takes a loop of unknown length per element, so call the C
 * library. */
CPU_INLINE float mod_f32(float a, float b) {
  return fmodf(a, b);
}

/* ---- gelu by tanh --------------------------------------------------------------------------- */

/* These use f64, which other devices need not have. */

/* x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 = x / (1 + exp(v)), v = −√(8/π) (x + 0.044715 x³). For
 * large v, the error of v is the error of the result, so v is f64. With −|v| = n ln 2 + r: r, and
 * the exponent field of 2^(n + 64). */
CPU_INLINE float gelu_tanh_rest_f32(float x, uint32_t *exponent) {
  const float low = x > -10.9f ? x : -10.9f;
  const double wide = (double)(low < 10.9f ? low : 10.9f);
  const double v = wide * (-1.5957691216057308 - 0.07135481627260025 * (wide * wide));
  const double magnitude = math_fabs_f64(v);
  const double shifted = magnitude * -0x1.71547652b82fep+0 + MATH_SHIFT_F64;
  const double n = shifted - MATH_SHIFT_F64;
  *exponent = (uint32_t)math_bits_f64(shifted) + 191; /* the low bits have n */
  return (float)(-magnitude - n * 0x1.62e42fefa39efp-1);
}
CPU_INLINE float gelu_tanh_sum_f32(float x, float rest, uint32_t exponent) {
  /* exp(−|v|) times 2^64, as in silu_f32. */
  const float scaled = (1 + expm1_small_f32(rest)) * as_f32(exponent << 23);
  const float limited = x < -10.9f ? 10.9f : -x;
  const float quotient = (x < 0 ? limited * scaled : x) / math_madd_f32(scaled, 0x1p-64f, 1);
  const float result = x < 0 ? -unscale_f32(quotient) : quotient;
  return x == -__builtin_inff() ? __builtin_nanf("") : result;
}

/* ---- Sine, cosine and tangent ---------------------------------------------------------------- */

/* sin, cos and tan in f32.
 *
 * The argument is reduced in f64: x = n π/2 + r, with π/2 as the sum of three numbers. The first
 * two have 33 bits, so their products with n are exact (W. J. Cody and W. Waite, 1980, chapter 8).
 * This is valid for |x| up to TRIG_LIMIT; larger arguments need more digits of π. */

#define TRIG_LIMIT 0x1p20f

/* An angle out of range counts as 0: its quadrant might not fit int32_t. */
CPU_INLINE reduced_angle reduce_angle_wide_f32(float x) {
  const double wide = (double)(math_fabs_f32(x) <= TRIG_LIMIT ? x : 0);
  const double n = (wide * 0x1.45f306dc9c883p-1 + MATH_SHIFT_F64) - MATH_SHIFT_F64;
  double d = wide - n * 0x1.921fb54400000p+0;
  d = d - n * 0x1.0b4611a600000p-34;
  d = d - n * 0x1.3198a2e037073p-69;
  return (reduced_angle){.r = (float)d, .quadrant = (int32_t)n};
}

/* sin(x + shift π/2) and tan(x) for |x| ≤ TRIG_LIMIT; tan_f32 accepts every argument. */
CPU_INLINE float sine_core_f32(float x, int32_t shift) {
  return sine_reduced_f32(reduce_angle_wide_f32(x), shift);
}
CPU_INLINE float tan_core_f32(float x) {
  return tan_reduced_f32(reduce_angle_wide_f32(x));
}

#endif
