/* exp and its relatives in f32: expm1, sigmoid, silu, tanh, softplus, elu.
 *
 * Method: W. J. Cody and W. Waite, "Software manual for the elementary functions" (1980), chapter
 * 6: x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 as the sum of a short and a small number, and a
 * polynomial in r, evaluated as G. Estrin (1960) does, since a loop over these functions is bound
 * by the length of the dependency chain. Coefficients: a minimax fit by the Remez exchange, rounded
 * to f32 one after another with the remaining ones fitted anew.
 *
 * A function called …_core serves the arguments that the comment names, mostly all that occur; the
 * one without serves every float and costs up to twice as much. tile_f32.c chooses for a whole
 * tile. */
#ifndef CPU_ISA_MATH_EXP_F32_H
#define CPU_ISA_MATH_EXP_F32_H

#include "math_base.h"
#include "math_log_f32.h"

#define MATH_LOG2_E_F32   0x1.715476p+0f
#define MATH_LN2_HIGH_F32 0x1.63p-1f         /* 9 bits: its product with n is exact */
#define MATH_LN2_LOW_F32  (-0x1.bd0106p-13f) /* high + low = ln 2 */

/* x = n ln 2 + r, for |x| up to some hundreds. The low byte of `biased` is n + 127, modulo 256. */
typedef struct math_reduced_f32 {
  float r;
  uint32_t biased;
} math_reduced_f32;

#define MATH_EXP_SHIFT (MATH_SHIFT_F32 + 127)

CPU_INLINE math_reduced_f32 math_reduce_f32(float x) {
  const float shifted = math_madd_f32(x, MATH_LOG2_E_F32, MATH_EXP_SHIFT);
  const float n = shifted - MATH_EXP_SHIFT;
  const float r = math_madd_f32(n, -MATH_LN2_HIGH_F32, x);
  return (math_reduced_f32){.r = math_madd_f32(n, -MATH_LN2_LOW_F32, r),
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

#endif
