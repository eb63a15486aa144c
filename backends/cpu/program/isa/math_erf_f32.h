/* erf and the two forms of gelu in f32. Coefficients: minimax fits by iteratively reweighted least
 * squares (C. Lawson, 1961), rounded to f32. erf and gelu come in parts, for tile_f32.c to run one
 * after the other. */
#ifndef CPU_ISA_MATH_ERF_F32_H
#define CPU_ISA_MATH_ERF_F32_H

#include <float.h>

#include "math_exp_f32.h"

/* log erfc(|x|), from 1 to where erf is 1 to f32. */
CPU_INLINE float math_erf_exponent_f32(float x) {
  /* As integers, which has an instruction of its own; what NaN becomes here does no harm. */
  const int32_t bits = math_bits_f32(x) & INT32_MAX, limit = 0x407c28f6; /* 3.94 */
  const float a = math_from_bits_f32(bits < limit ? bits : limit), a2 = a * a;
  const float p0 = math_madd_f32(0x1.20863e0p+0f, a, 0x1.70a8300p-12f);
  const float p1 = math_madd_f32(0x1.a615fe0p-4f, a, 0x1.46c3c80p-1f);
  const float p2 = math_madd_f32(0x1.8174420p-9f, a, -0x1.6556fe0p-6f);
  const float p3 = math_madd_f32(-0x1.8569e40p-13f, a2, p2);
  return -math_madd_f32(math_madd_f32(p3, a2, p1), a2, p0);
}

/* Up to 1, and for NaN: x + x S(x²). From there 1 − tail. */
CPU_INLINE float math_erf_sum_f32(float x, float tail) {
  const float z = x * x, z2 = z * z;
  const float s0 = math_madd_f32(-0x1.81273e0p-2f, z, 0x1.06eba80p-3f);
  const float s1 = math_madd_f32(-0x1.b7f71a0p-6f, z, 0x1.ce2ce60p-4f);
  const float s2 = math_madd_f32(-0x1.a3515e0p-11f, z, 0x1.53f2240p-8f);
  const float s3 = math_madd_f32(0x1.4771fe0p-14f, z2, s2);
  const float s = math_madd_f32(math_madd_f32(s3, z2, s1), z2, s0);
  const float inner = math_madd_f32(s, x, x);
  return math_abs_f32(x) > 1 ? math_copy_sign_f32(1 - tail, x) : inner;
}

CPU_INLINE float math_erf_f32(float x) {
  return math_erf_sum_f32(x, math_exp_core_f32(math_erf_exponent_f32(x)));
}

/* What t * t loses by rounding. */
CPU_INLINE float math_square_error_f32(float t, float square) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(t, t, -square);
#else
  const float high = math_from_bits_f32(math_bits_f32(t) & (int32_t)0xfffff000u), low = t - high;
  return ((high * high - square) + 2 * high * low) + low * low;
#endif
}

/* square − 2 n LN2 for whole n ≤ 0, where LN2 is ln 2 rounded to f32. */
CPU_INLINE float math_gelu_reduce_f32(float square, float n) {
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
CPU_INLINE float math_gelu_magnitude_f32(float x) {
  const int32_t magnitude = math_bits_f32(x) & INT32_MAX, limit = 0x41680000;
  return math_from_bits_f32(magnitude < limit ? magnitude : limit);
}

/* t exp(−t²/2) 2^64, made from t² and its rounding error, as −t²/2 = n ln 2 − r/2. What the
 * rounding of ln 2 does to it, exp(−1.4e-9 t²), is in the fit of M. */
#define MATH_GELU_SHIFT (MATH_SHIFT_F32 + 64)
CPU_INLINE float math_gelu_tail_f32(float x) {
  const float t = math_gelu_magnitude_f32(x), square = t * t;
  const float shifted = math_madd_f32(square, -0.5f * MATH_LOG2_E_F32, MATH_GELU_SHIFT);
  const float n = shifted - MATH_GELU_SHIFT;
  const float r = math_gelu_reduce_f32(square, n) + math_square_error_f32(t, square);
  const float r2 = r * r;
  const float e0 = math_madd_f32(-0x1.5554660p-6f, r, 0.125f);
  const float e1 = math_madd_f32(-0x1.1257cc0p-12f, r, 0x1.5553000p-9f);
  const float e2 = math_madd_f32(math_madd_f32(0x1.6feb880p-16f, r2, e1), r2, e0);
  const float e = math_madd_f32(e2, r2, -0.5f * r); /* exp(−r/2) − 1 */
  const float scaled =
      t * math_scale_f32(1, (uint32_t)math_bits_f32(shifted) - MATH_SHIFT_BITS_F32); /* exact */
  return math_madd_f32(scaled, e, scaled);
}

/* From here down gelu is no normal number. */
#define MATH_GELU_TINY (-13.15f)

/* gelu(x) for such x, from |gelu(x)| 2^64. Processors take more than a hundred cycles for an
 * operation whose result is not normal, so the bits are made without one: added to 2^23, the number
 * of units of 2^−149 is rounded to a whole number and stands in the low bits. */
CPU_INLINE float math_gelu_tiny_f32(float scaled) {
  const float units = scaled * 0x1p85f;
  const float rounded = (units < 0x1.fffffcp22f ? units : 0x1.fffffcp22f) + 0x1p23f;
  return math_from_bits_f32((math_bits_f32(rounded) - math_bits_f32(0x1p23f)) | INT32_MIN);
}

/* P and Q in f64: in f32 their roundings alone would add up to some 3 ulp. 0 x is −0, and for −∞
 * NaN, as −∞ · 0 is. */
CPU_INLINE float math_gelu_sum_f32(float x, float tail) {
  const double t = math_gelu_magnitude_f32(x), square = t * t;
  const double p0 = math_madd_f64(0x1.50c1c80p+5f, t, 0x1.7eda540p+5f);
  const double p1 = math_madd_f64(0x1.f636040p+1f, t, 0x1.1a45440p+4f);
  const double p = math_madd_f64(math_madd_f64(0x1.9885340p-2f, square, p1), square, p0);
  const double q0 = math_madd_f64(0x1.411d600p+7f, t, 0x1.7eda540p+6f);
  const double q1 = math_madd_f64(0x1.69ab140p+5f, t, 0x1.ce21c60p+6f);
  const double q2 = t + 0x1.3abb2c0p+3f;
  const double q = math_madd_f64(math_madd_f64(q2, square, q1), square, q0);
  const float ratio = (float)(p / q), scaled = tail * ratio;
  /* Keeps the product normal where it does not matter: for large x, and where `tiny` replaces it.
   */
  const float factor = math_gelu_magnitude_f32(x) > -MATH_GELU_TINY ? 1 : tail;
  const float sum = math_madd_f32(-factor, math_scale_f32(ratio, (uint32_t)-64),
                                  math_bits_f32(x) < 0 ? 0 * x : x);
  const float tiny = math_gelu_tiny_f32(scaled);
  return x < MATH_GELU_TINY && x >= -FLT_MAX ? tiny : sum;
}

CPU_INLINE float math_gelu_f32(float x) {
  return math_gelu_sum_f32(x, math_gelu_tail_f32(x));
}

/* x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 = x / (1 + exp(v)), v = −√(8/π) (x + 0.044715 x³).
 * The error of v is that of the result for large v, hence its f64. */
CPU_INLINE float math_gelu_tanh_f32(float x) {
  double wide = (double)(x > 10.9f ? 10.9f : x < -10.9f ? -10.9f : x);
  const double v = wide * (-1.5957691216057308 - 0.07135481627260025 * (wide * wide));
  const double magnitude = math_abs_f64(v);
  const double n = (magnitude * -0x1.71547652b82fep+0 + MATH_SHIFT_F64) - MATH_SHIFT_F64;
  const float r = (float)(-magnitude - n * 0x1.62e42fefa39efp-1);
  /* exp(−|v|) times 2^64, as in math_silu_f32. */
  const float scaled = (1 + math_expm1_small_f32(r)) * math_power_of_two_f32((int32_t)n + 64);
  const float limited = x < -10.9f ? -10.9f : x;
  const float quotient = (x < 0 ? limited * scaled : x) / (1 + scaled * 0x1p-64f);
  const float result = quotient * (x < 0 ? 0x1p-64f : 1);
  return x == -__builtin_inff() ? __builtin_nanf("") : result;
}

#endif
