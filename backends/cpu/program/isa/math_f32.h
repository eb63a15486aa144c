/* The vector functions in f32; how they are measured is in tests/cpu/test_math.c. */
#ifndef CPU_PROGRAM_MATH_F32_H
#define CPU_PROGRAM_MATH_F32_H

#include <float.h>
#include <math.h>

#include "math_base.h"

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* log and log1p in f32.
 *
 * Method: Cody and Waite (1980), chapter 5, with a polynomial instead of their rational function:
 * x = 2^k (1 + f) with 1 + f in √½ … √2, log(1 + f) = f − f²/2 + f³ R(f). Evaluation, coefficients
 * and the names …_core as below. */

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

/* ---- Exponentials ---------------------------------------------------------------------------- */

/* exp and its relatives in f32: expm1, sigmoid, silu, tanh, softplus, elu.
 *
 * Method: W. J. Cody and W. Waite, "Software manual for the elementary functions" (1980), chapter
 * 6: x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 as the sum of a short and a small number, and a
 * polynomial in r, evaluated as G. Estrin (1960) does, since a loop over these functions is bound
 * by the length of the dependency chain. Coefficients: a minimax fit by the Remez exchange, rounded
 * to f32 one after another with the remaining ones fitted anew.
 *
 * A function called …_core serves the arguments that the comment names, mostly all that occur; the
 * one without serves every float and costs up to twice as much. tile_float.c chooses for a whole
 * tile. */

#define MATH_LOG2_E_F32   0x1.715476p+0f
#define MATH_LN2_HIGH_F32 0x1.63p-1f         /* 9 bits: its product with n is exact */
#define MATH_LN2_LOW_F32  (-0x1.bd0106p-13f) /* high + low = ln 2 */

/* x = n ln 2 + r, for |x| up to some hundreds. The low byte of `biased` is n + 127, modulo 256. */
typedef struct math_reduced_f32 {
  float r;
  uint32_t biased;
} math_reduced_f32;

#define MATH_EXP_SHIFT (MATH_SHIFT_F32 + 127)

/* r for `shifted` = n + MATH_EXP_SHIFT. */
CPU_INLINE float math_exp_rest_f32(float x, float shifted) {
  const float n = shifted - MATH_EXP_SHIFT;
  return math_madd_f32(n, -MATH_LN2_LOW_F32, math_madd_f32(n, -MATH_LN2_HIGH_F32, x));
}

CPU_INLINE math_reduced_f32 math_reduce_f32(float x) {
  const float shifted = math_madd_f32(x, MATH_LOG2_E_F32, MATH_EXP_SHIFT);
  return (math_reduced_f32){.r = math_exp_rest_f32(x, shifted),
                            .biased = (uint32_t)math_bits_f32(shifted)};
}

/* 2^n, where that is a normal number. */
CPU_INLINE float math_reduced_power_f32(math_reduced_f32 reduced) {
  return math_from_bits_f32((int32_t)(reduced.biased << 23));
}
CPU_INLINE int32_t math_reduced_exponent_f32(math_reduced_f32 reduced) {
  return (int32_t)reduced.biased - math_bits_f32(MATH_EXP_SHIFT);
}

/* exp(r) − 1 for |r| ≤ ln 2 / 2. */
CPU_INLINE float math_expm1_small_f32(float r) {
  const float square = r * r;
  const float low = math_madd_f32(0x1.5554660p-3f, r, 0.5f);
  const float middle = math_madd_f32(0x1.1257cc0p-7f, r, 0x1.5553000p-5f);
  const float q = math_madd_f32(math_madd_f32(0x1.6feb880p-10f, square, middle), square, low);
  return math_madd_f32(q, square, r);
}

/* For |x| ≤ MATH_EXP_LIMIT, where the result is a normal number. */
#define MATH_EXP_LIMIT 87.0f
CPU_INLINE float math_exp_core_f32(float x) {
  const math_reduced_f32 reduced = math_reduce_f32(x);
  return math_scale_f32(1 + math_expm1_small_f32(reduced.r), reduced.biased - 127);
}

CPU_INLINE float math_exp_f32(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const math_reduced_f32 reduced = math_reduce_f32(x);
  /* Two steps, since 2^n alone may be out of range; only the last one rounds. */
  const int32_t n = math_reduced_exponent_f32(reduced), half = n >> 1;
  const float y = (1 + math_expm1_small_f32(reduced.r)) * math_power_of_two_f32(half);
  return y * math_power_of_two_f32(n - half);
}

/* exp(x) 2^64, which keeps its precision down to where exp(x) is no longer a normal number. For
 * −110 ≤ x ≤ 0. */
CPU_INLINE float math_exp_scaled_f32(float x) {
  const math_reduced_f32 reduced = math_reduce_f32(x);
  return (1 + math_expm1_small_f32(reduced.r)) *
         math_from_bits_f32((int32_t)((reduced.biased + 64) << 23));
}

/* 2^n exp(r) − 1 = 2^n (exp(r) − 1) + (2^n − 1), halved so that 2^n stays in range. */
CPU_INLINE float math_expm1_f32(float x) {
  float y = x > 88.8f ? 88.8f : x;
  y = y < -18.0f ? -18.0f : y;
  const math_reduced_f32 reduced = math_reduce_f32(y);
  const float half = math_from_bits_f32((int32_t)((reduced.biased - 1) << 23));
  const float result = 2 * math_madd_f32(half, math_expm1_small_f32(reduced.r), half - 0.5f);
  return math_abs_f32(x) < 0x1p-24f ? x : result; /* keeps −0 and what 2^−1 would round */
}

CPU_INLINE float math_elu_f32(float x, float alpha) {
  return x > 0 ? x : alpha * math_expm1_f32(x);
}

/* 1 / (1 + exp(−x)), for |x| ≤ MATH_EXP_LIMIT. */
CPU_INLINE float math_sigmoid_core_f32(float x) {
  return 1 / (1 + math_exp_core_f32(-x));
}

/* For negative x exp(x) / (1 + exp(x)), which underflows gracefully. */
CPU_INLINE float math_sigmoid_f32(float x) {
  float magnitude = math_abs_f32(x);
  magnitude = magnitude > 104.0f ? 104.0f : magnitude;
  const float e = math_exp_scaled_f32(-magnitude) * 0x1p-64f;
  return (x < 0 ? e : 1) / (1 + e);
}

/* x / (1 + exp(−x)), for |x| ≤ MATH_EXP_LIMIT. */
CPU_INLINE float math_silu_core_f32(float x) {
  return x / (1 + math_exp_core_f32(-x));
}

/* For negative x as above. The scaling is undone last, so that a small exp(x) times a large x is
 * not rounded twice. −∞ gives NaN, as −∞ · 0 does. */
CPU_INLINE float math_silu_f32(float x) {
  float magnitude = math_abs_f32(x);
  magnitude = magnitude > 110.0f ? 110.0f : magnitude;
  const float scaled = math_exp_scaled_f32(-magnitude);
  const float quotient = (x < 0 ? -magnitude * scaled : x) / (1 + scaled * 0x1p-64f);
  const float result = quotient * (x < 0 ? 0x1p-64f : 1);
  return x == -__builtin_inff() ? __builtin_nanf("") : result;
}

/* With t = exp(2|x|) − 1: t / (t + 2), or, where t is large, 1 − 2 / (t + 2), which is more exact.
 */
CPU_INLINE float math_tanh_f32(float x) {
  float magnitude = math_abs_f32(x);
  magnitude = magnitude > 9.1f ? 9.1f : magnitude;
  const math_reduced_f32 reduced = math_reduce_f32(magnitude + magnitude);
  const float p = math_expm1_small_f32(reduced.r), power = math_reduced_power_f32(reduced);
  const float t = math_madd_f32(power, p, power - 1);
  const float quotient = (magnitude > 0.55f ? 2 : t) / math_madd_f32(power, p, power + 1);
  const float result = magnitude > 0.55f ? 1 - quotient : quotient;
  return math_from_bits_f32(math_bits_f32(result) | (math_bits_f32(x) & INT32_MIN));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(−|x|)). */
CPU_INLINE float math_softplus_f32(float x) {
  float magnitude = math_abs_f32(x);
  magnitude = magnitude > 104.0f ? 104.0f : magnitude;
  const float e = math_exp_scaled_f32(-magnitude) * 0x1p-64f;
  /* 1 + e lies in 1 … 2: from √2 on, log(1 + e) = ln 2 + log(1 + (e − 1) / 2). */
  const float upper = e > 0x1.a8279ap-2f ? MATH_LN2_F32 : 0;
  const float f = e > 0x1.a8279ap-2f ? 0.5f * e - 0.5f : e;
  return (0 > x ? 0 : x) + (upper + math_log1p_small_f32(f));
}

/* ---- The error function ---------------------------------------------------------------------- */

/* erf and the two forms of gelu in f32. Coefficients: minimax fits by iteratively reweighted least
 * squares (C. Lawson, 1961), rounded to f32. erf and gelu come in parts, for tile_float.c to run
 * one after the other. */

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

/* ---- Powers ---------------------------------------------------------------------------------- */

/* pow and mod in f32. pow computes 2^(b log2 a) in f64, where the errors of the logarithm are far
 * below those of f32 even when b multiplies them. */

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

/* ---- What generated kernels compute in the same way ------------------------------------------ */

/* The words that kernels/functions_trigonometry.h is written in. */
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
#define DEVICE            CPU_INLINE
#define CONSTANT_TABLE    static const
#define BUILTIN_f32(name) __builtin_##name##f
#define MAD_f32(a, b, c)  math_madd_f32(a, b, c)
#define INFINITY_f32      __builtin_inff()
#define NAN_f32           __builtin_nanf("")
#define as_f32(bits)      math_from_bits_f32((int32_t)(bits))
#define as_u32(x)         ((uint32_t)math_bits_f32(x))

/* What it uses of functions_f32.h. */
#define log1p_f32(x)                 math_log1p_f32(x)
#define expm1_small_f32(r)           math_expm1_small_f32(r)
#define exp_shifted_f32(x)           math_madd_f32(x, MATH_LOG2_E_F32, MATH_EXP_SHIFT)
#define exp_rest_f32(x, shifted)     math_exp_rest_f32(x, shifted)
#define exp_power_f32(shifted, more) as_f32((as_u32(shifted) + (u32)(more)) << 23)

#include "../../../../kernels/functions_trigonometry.h"

/* ---- Sine, cosine and tangent ---------------------------------------------------------------- */

/* sin, cos and tan in f32.
 *
 * The argument is reduced in f64: x = n π/2 + r, with π/2 as the sum of three numbers, the first
 * two of 33 bits, so that their products with n are exact (W. J. Cody and W. Waite, 1980, chapter
 * 8). That serves |x| up to MATH_TRIG_LIMIT. Larger arguments take more digits of π than these. */

#define MATH_TRIG_LIMIT 0x1p20f

CPU_INLINE reduced_angle math_reduce_angle_f32(float x) {
  const double wide = (double)x;
  const double n = (wide * 0x1.45f306dc9c883p-1 + MATH_SHIFT_F64) - MATH_SHIFT_F64;
  double d = wide - n * 0x1.921fb54400000p+0;
  d = d - n * 0x1.0b4611a600000p-34;
  d = d - n * 0x1.3198a2e037073p-69;
  return (reduced_angle){.r = (float)d, .quadrant = (int32_t)n};
}

/* sin(x + shift π/2) for |x| ≤ MATH_TRIG_LIMIT. */
CPU_INLINE float math_sine_f32(float x, int32_t shift) {
  const reduced_angle angle = math_reduce_angle_f32(x);
  const float r = angle.r, z = r * r;
  const int32_t quadrant = angle.quadrant + shift;

  float s = -0x1.9955b60p-13f;
  s = math_madd_f32(s, z, 0x1.11077c0p-7f);
  s = math_madd_f32(s, z, -0x1.5555460p-3f);
  const float sine = math_copy_sign_f32(math_madd_f32(s * z, r, r), r); /* keeps −0 */
  float c = 0x1.9a68600p-16f;
  c = math_madd_f32(c, z, -0x1.6c0e300p-10f);
  c = math_madd_f32(c, z, 0x1.55554e0p-5f);
  const float cosine = math_madd_f32(c, z * z, math_madd_f32(-0.5f, z, 1));

  const float value = quadrant & 1 ? cosine : sine;
  return math_from_bits_f32(math_bits_f32(value) ^ (int32_t)((uint32_t)(quadrant & 2) << 30));
}

/* tan(x) for such x; tan_f32 serves every other. */
CPU_INLINE float math_tan_core_f32(float x) {
  return tan_reduced_f32(math_reduce_angle_f32(x));
}

#endif
