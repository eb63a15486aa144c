/* SPDX-License-Identifier: MIT */
/* The vector functions in f32: those of kernels/functions_f32.h and functions_trigonometry.h, and
 * here those that only the CPU computes differently. tests/cpu/test_math.c measures them.
 *
 * A function called …_core is for the arguments that the comment names, usually all that occur; the
 * one without is for every float and costs up to twice as much. tile_float.c chooses for a whole
 * tile. */
#ifndef CPU_PROGRAM_MATH_F32_H
#define CPU_PROGRAM_MATH_F32_H

#include <float.h>
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

/* 1 / (1 + exp(−x)) and x / (1 + exp(−x)), where exp_core_f32 serves. */
CPU_INLINE float sigmoid_core_f32(float x) {
  return 1 / (1 + exp_core_f32(-x));
}
CPU_INLINE float silu_core_f32(float x) {
  return x / (1 + exp_core_f32(-x));
}

/* The remainder is exact, which takes a loop of unknown length per element: the C library's. */
CPU_INLINE float mod_f32(float a, float b) {
  return fmodf(a, b);
}

/* ---- gelu ------------------------------------------------------------------------------------ */

/* Faster and more accurate with f64 than the versions for devices without it. In parts, which
 * tile_float.c runs in sequence. */

/* The rounding error of t
 *
 * t. */
CPU_INLINE float square_error_f32(float t, float square) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(t, t, -square);
#else
  const float high = math_from_bits_f32(math_bits_f32(t) & (int32_t)0xfffff000u), low = t - high;
  return ((high * high - square) + 2 * high * low) + low * low;
#endif
}

/* square − 2 n LN2 for whole n ≤ 0, where LN2 is ln 2 rounded to f32. */
CPU_INLINE float gelu_reduce_f32(float square, float n) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(n, 0x1.62e430p+0f, square);
#else
  return (square + n * 0x1.62e0p+0f) + n * 0x1.0cp-14f; /* both products are exact */
#endif
}

/* gelu(x) = x Φ(x) = max(x, 0) − t Φ(−t), t = |x|, and Φ(−t) = exp(−t²/2) M(t), where Mills' ratio
 * M changes slowly: a rational function P/Q of t meets it over the whole range. No digits cancel,
 * so negative arguments keep their relative precision down to the underflow. Past 14.5 the result
 * is x or 0. */
CPU_INLINE float gelu_magnitude_f32(float x) {
  const int32_t magnitude = math_bits_f32(x) & INT32_MAX, limit = 0x41680000;
  return math_from_bits_f32(magnitude < limit ? magnitude : limit);
}

/* t exp(−t²/2) 2^64, made from t² and its rounding error, as −t²/2 = n ln 2 − r/2. The effect of
 * rounding ln 2, exp(−1.4e-9 t²), is included in the fit of M. */
#define GELU_SHIFT (EXP_SHIFT + 64)
CPU_INLINE float gelu_tail_f32(float x) {
  const float t = gelu_magnitude_f32(x), square = t * t;
  const float shifted = math_madd_f32(square, -0.5f * 0x1.715476p+0f, GELU_SHIFT);
  const float n = shifted - GELU_SHIFT;
  const float r = gelu_reduce_f32(square, n) + square_error_f32(t, square);
  const float r2 = r * r;
  const float e0 = math_madd_f32(-0x1.5554660p-6f, r, 0.125f);
  const float e1 = math_madd_f32(-0x1.1257cc0p-12f, r, 0x1.5553000p-9f);
  const float e2 = math_madd_f32(math_madd_f32(0x1.6feb880p-16f, r2, e1), r2, e0);
  const float e = math_madd_f32(e2, r2, -0.5f * r);   /* exp(−r/2) − 1 */
  const float scaled = t * exp_power_f32(shifted, 0); /* exact */
  return math_madd_f32(scaled, e, scaled);
}

/* Below this gelu is subnormal. */
#define GELU_TINY (-13.15f)

/* gelu(x) for such x, from |gelu(x)| 2^64. Processors take more than a hundred cycles for an
 * operation with a subnormal result, so the bits are computed without one: added to 2^23, the
 * number of units of 2^−149 is rounded to a whole number in the low bits. */
CPU_INLINE float gelu_tiny_f32(float scaled) {
  const float units = scaled * 0x1p85f;
  const float rounded = (units < 0x1.fffffcp22f ? units : 0x1.fffffcp22f) + 0x1p23f;
  return math_from_bits_f32((math_bits_f32(rounded) - math_bits_f32(0x1p23f)) | INT32_MIN);
}

/* P and Q in f64: in f32 their rounding errors alone would add up to about 3 ulp. 0 x is −0, and
 * for −∞ NaN, as −∞ · 0 is. */
CPU_INLINE float gelu_sum_f32(float x, float tail) {
  const double t = gelu_magnitude_f32(x), square = t * t;
  const double p0 = math_madd_f64(0x1.50c1c80p+5f, t, 0x1.7eda540p+5f);
  const double p1 = math_madd_f64(0x1.f636040p+1f, t, 0x1.1a45440p+4f);
  const double p = math_madd_f64(math_madd_f64(0x1.9885340p-2f, square, p1), square, p0);
  const double q0 = math_madd_f64(0x1.411d600p+7f, t, 0x1.7eda540p+6f);
  const double q1 = math_madd_f64(0x1.69ab140p+5f, t, 0x1.ce21c60p+6f);
  const double q2 = t + 0x1.3abb2c0p+3f;
  const double q = math_madd_f64(math_madd_f64(q2, square, q1), square, q0);
  const float ratio = (float)(p / q), scaled = tail * ratio;
  /* Keeps the product normal where its value does not matter: for large x, and where `tiny`
   * replaces it.
   */
  const float factor = gelu_magnitude_f32(x) > -GELU_TINY ? 1 : tail;
  const float small = as_f32(as_u32(ratio) - (64u << 23)); /* ratio 2^−64 */
  const float sum = math_madd_f32(-factor, small, math_bits_f32(x) < 0 ? 0 * x : x);
  const float tiny = gelu_tiny_f32(scaled);
  return x < GELU_TINY && x >= -FLT_MAX ? tiny : sum;
}

/* x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 = x / (1 + exp(v)), v = −√(8/π) (x + 0.044715 x³).
 * The error of v is that of the result for large v, hence its f64. */
CPU_INLINE float gelu_tanh_wide_f32(float x) {
  double wide = (double)(x > 10.9f ? 10.9f : x < -10.9f ? -10.9f : x);
  const double v = wide * (-1.5957691216057308 - 0.07135481627260025 * (wide * wide));
  const double magnitude = math_fabs_f64(v);
  const double shifted = magnitude * -0x1.71547652b82fep+0 + MATH_SHIFT_F64;
  const double n = shifted - MATH_SHIFT_F64;
  const float r = (float)(-magnitude - n * 0x1.62e42fefa39efp-1);
  /* exp(−|v|) times 2^64, as in silu_f32. */
  const uint32_t exponent = (uint32_t)math_bits_f64(shifted) + 191; /* the low bits have n */
  const float scaled = (1 + expm1_small_f32(r)) * as_f32(exponent << 23);
  const float limited = x < -10.9f ? -10.9f : x;
  const float quotient = (x < 0 ? limited * scaled : x) / (1 + scaled * 0x1p-64f);
  const float result = quotient * (x < 0 ? 0x1p-64f : 1);
  return x == -__builtin_inff() ? __builtin_nanf("") : result;
}

/* ---- Sine, cosine and tangent ---------------------------------------------------------------- */

/* sin, cos and tan in f32.
 *
 * The argument is reduced in f64: x = n π/2 + r, with π/2 as the sum of three numbers, the first
 * two of 33 bits, so that their products with n are exact (W. J. Cody and W. Waite, 1980, chapter
 * 8). That serves |x| up to TRIG_LIMIT. Larger arguments take more digits of π than these. */

#define TRIG_LIMIT 0x1p20f

CPU_INLINE reduced_angle reduce_angle_wide_f32(float x) {
  const double wide = (double)x;
  const double n = (wide * 0x1.45f306dc9c883p-1 + MATH_SHIFT_F64) - MATH_SHIFT_F64;
  double d = wide - n * 0x1.921fb54400000p+0;
  d = d - n * 0x1.0b4611a600000p-34;
  d = d - n * 0x1.3198a2e037073p-69;
  return (reduced_angle){.r = (float)d, .quadrant = (int32_t)n};
}

/* sin(x + shift π/2) and tan(x) for |x| ≤ TRIG_LIMIT; tan_f32 serves every other. */
CPU_INLINE float sine_core_f32(float x, int32_t shift) {
  return sine_reduced_f32(reduce_angle_wide_f32(x), shift);
}
CPU_INLINE float tan_core_f32(float x) {
  return tan_reduced_f32(reduce_angle_wide_f32(x));
}

#endif
