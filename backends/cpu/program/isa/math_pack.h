/* SPDX-License-Identifier: MIT */
/* The frequent f32 functions on vectors (packs, element.h). Compilers also vectorise the functions
 * of one element (math_f32.h), but for long functions that code is slower: it rereads an argument
 * from memory for each use, and turns limits into comparisons and blends.
 *
 * The number of multiply-adds determines the speed: processors have as many additional units for
 * additions. So polynomials use one per coefficient (Horner), and the quotients of tanh and sigmoid
 * use e^r = (d + r) / (d − r), where d takes two. */
#ifndef CPU_PROGRAM_MATH_PACK_H
#define CPU_PROGRAM_MATH_PACK_H

#include <float.h>

#include "element.h"
#include "limits.h"
#include "math_f32.h"

#if defined(__ARM_FEATURE_FMA) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef uint32_t pack_bits __attribute__((vector_size(VECTOR_BYTES)));

/* a b + c, as math_madd_f32. */
ALWAYS_INLINE pack pack_madd(pack a, pack b, pack c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__ARM_FEATURE_FMA) && defined(__ARM_NEON)
  return (pack)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

/* The larger one, as unsigned numbers. */
ALWAYS_INLINE pack_bits pack_larger_bits(pack_bits a, pack_bits b) {
#if defined(__AVX512F__)
  return (pack_bits)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (pack_bits)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
  const pack_bits take = (pack_bits)(a > b);
  return (a & take) | (b & ~take);
#endif
}

/* True if any element's bits, as an unsigned number, exceed `limit`. */
ALWAYS_INLINE int pack_any_above(pack_bits bits, uint32_t limit) {
  const pack_bits limits = (pack_bits)((pack_bits){0} + limit);
#if defined(__AVX512F__)
  return _mm512_cmpgt_epu32_mask((__m512i)bits, (__m512i)limits) != 0;
#elif defined(__AVX2__)
  const __m256i at_most =
      _mm256_cmpeq_epi32(_mm256_max_epu32((__m256i)bits, (__m256i)limits), (__m256i)limits);
  return _mm256_movemask_epi8(at_most) != -1;
#else
  const pack_bits above = (pack_bits)(bits > limits);
  uint32_t any = 0;
  for (int j = 0; j < pack_lanes; j++) any |= above[j];
  return any != 0;
#endif
}

ALWAYS_INLINE pack pack_magnitude(pack x) {
  return (pack)((pack_bits)x & 0x7fffffff);
}

/* Copies the sign of `sign` to a non-negative number. */
ALWAYS_INLINE pack pack_signed(pack magnitude, pack sign) {
  return (pack)((pack_bits)magnitude | ((pack_bits)sign & 0x80000000));
}

/* ---- exp ------------------------------------------------------------------------------------- */

/* x = n ln 2 + r. */
ALWAYS_INLINE pack pack_exp_remainder(pack x, pack n) {
  return pack_madd(n, pack_all(0x1.bd0106p-13f), pack_madd(n, pack_all(-0x1.63p-1f), x));
}

ALWAYS_INLINE pack pack_expm1_small(pack r) { /* expm1_small_f32 */
  const pack square = r * r;
  const pack low = pack_madd(pack_all(0x1.5554660p-3f), r, pack_all(0.5f));
  const pack middle = pack_madd(pack_all(0x1.1257cc0p-7f), r, pack_all(0x1.5553000p-5f));
  const pack high = pack_madd(pack_all(0x1.6feb880p-10f), square, middle);
  return pack_madd(pack_madd(high, square, low), square, r);
}

/* exp(x) for x ≤ 0 and NaN; 0 where the result would not be a normal number: below −87. */
ALWAYS_INLINE pack pack_exp_falling(pack x) {
  const pack y = CPU_AT_LEAST(pack_all(-87), x);
  const pack shifted = pack_madd(y, pack_all(0x1.715476p+0f), pack_all(EXP_SHIFT));
  const pack n = shifted - EXP_SHIFT, power = (pack)((pack_bits)shifted << 23);
  const pack small = pack_expm1_small(pack_exp_remainder(y, n));
#if defined(__AVX512F__)
  const __mmask16 normal = _mm512_cmp_ps_mask(x, pack_all(-87), _CMP_NLT_UQ);
  return _mm512_maskz_fmadd_ps(normal, power, small, power);
#else
  const pack result = pack_madd(power, small, power);
  return (pack)((pack_bits)result & ~(pack_bits)(x < pack_all(-87)));
#endif
}

/* As exp_scaled_f32, for x ≤ 0 and NaN; below −110 it returns the result of −110. */
ALWAYS_INLINE pack pack_exp_scaled(pack x) {
  const pack y = CPU_AT_LEAST(pack_all(-110), x), shift = pack_all(EXP_SHIFT + 64.0f);
  const pack shifted = pack_madd(y, pack_all(0x1.715476p+0f), shift);
  const pack power = (pack)((pack_bits)shifted << 23);
  return pack_madd(power, pack_expm1_small(pack_exp_remainder(y, shifted - shift)), power);
}

/* ---- sigmoid --------------------------------------------------------------------------------- */

/* 1 / (1 + exp(−x)) = a / (a + b), a = 2^n (d + r), b = d − r, d = r coth(r / 2), for |x| ≤ 87. */
ALWAYS_INLINE pack pack_sigmoid_core(pack x) {
  const pack shifted = pack_madd(x, pack_all(0x1.715476p+0f), pack_all(0x1.8p23f));
  const pack n = shifted - pack_all(0x1.8p23f);
  const pack r = pack_madd(n, pack_all(0x1.bd0106p-13f), pack_madd(n, pack_all(-0x1.63p-1f), x));
  const pack square = r * r;
  const pack d = pack_madd(pack_madd(pack_all(-0x1.6aa4eap-9f), square, pack_all(0x1.55551ep-3f)),
                           square, pack_all(2));
  const pack a = (pack)((pack_bits)(d + r) + ((pack_bits)shifted << 23));
  return a / (a + (d - r));
}

/* ---- silu ------------------------------------------------------------------------------------ */

#if defined(__AVX512F__)

/* Tables for 2^(j / 16). silu_powers has its bits less j << 19, rounded to 12 digits so that adding
 * 1 rarely rounds: `number << 19` adds the last four bits of the number (j) back. silu_errors has
 * the logarithm of the rounding error. */
_Alignas(64) static const uint32_t silu_powers[16] = {
    0x3f800000, 0x3f7db000, 0x3f7b9000, 0x3f79c000, 0x3f783000, 0x3f76f000, 0x3f760000, 0x3f756000,
    0x3f750000, 0x3f751000, 0x3f756000, 0x3f762000, 0x3f774000, 0x3f78d000, 0x3f7ac000, 0x3f7d2000};
_Alignas(64) static const float silu_errors[16] = {
    0x0.0p+0f,        0x1.40ea36p-13f,  -0x1.51eb06p-13f, -0x1.ae102ap-14f,
    -0x1.ab4930p-13f, -0x1.0bd64ap-13f, 0x1.ca8ce0p-16f,  0x1.6e6bd0p-13f,
    -0x1.c00c40p-14f, 0x1.3ef782p-13f,  -0x1.295520p-13f, -0x1.696bfcp-14f,
    -0x1.7b9c1cp-14f, 0x1.c81dd6p-15f,  -0x1.b1d1bap-17f, -0x1.6ed6bap-14f};

/* x / (1 + exp(−x)) for |x| ≤ 87. x = −n ln 2 / 16 + r: with the powers of 2 from a table, r is so
 * small that exp(−r) needs only three terms. */
ALWAYS_INLINE pack pack_silu_core(pack x) {
  const pack shifted = pack_madd(x, pack_all(-16 * 0x1.715476p+0f), pack_all(0x1.8p23f));
  const __m512i number = (__m512i)shifted; /* its last four bits index the tables */
  const pack n = shifted - pack_all(0x1.8p23f);
  const pack error = _mm512_permutexvar_ps(number, _mm512_load_ps(silu_errors));
  const pack r =
      pack_madd(n, pack_all(0x1.63p-5f), x) + pack_madd(n, pack_all(-0x1.bd0106p-17f), error);
  const __m512i digits = _mm512_permutexvar_epi32(number, _mm512_load_si512(silu_powers));
  const pack power = (pack)(((pack_bits)number << 19) + (pack_bits)digits);
  const pack more = pack_madd(pack_all(-0x1.555556p-3f), r, pack_all(0.5f));
  return x / pack_madd(power, pack_madd(more, r * r, -r), power + 1);
}

#else

ALWAYS_INLINE pack pack_silu_core(pack x) {
  const pack shifted = pack_madd(x, pack_all(-0x1.715476p+0f), pack_all(EXP_SHIFT));
  const pack power = (pack)((pack_bits)shifted << 23);
  const pack small = pack_expm1_small(pack_exp_remainder(-x, shifted - EXP_SHIFT));
  return x / pack_madd(power, small, power + 1);
}

#endif

/* ---- tanh ------------------------------------------------------------------------------------ */

/* With 2x = n ln 2 + 2h, p = 2^n and 1 + w = h coth h, the result is (p − 1) + ((p + 1) h + (p − 1)
 * w) divided by (p + 1) + ((p + 1) w + (p − 1) h). 1 − p instead of p − 1 keeps −0. ln 2 as one
 * rounded number is exact enough: it changes 2x by 2e-9 n, and tanh is insensitive where n is
 * large. */
ALWAYS_INLINE pack pack_tanh(pack x) {
  const pack y = CPU_AT_LEAST(pack_all(-9.1f), CPU_AT_MOST(pack_all(9.1f), x));
  const pack shifted = pack_madd(y, pack_all(0x1.715476p+1f), pack_all(EXP_SHIFT));
  const pack n = shifted - EXP_SHIFT, p = (pack)((pack_bits)shifted << 23);
  const pack h = pack_madd(n, pack_all(-0x1.62e430p-2f), y), square = h * h;
  const pack w = pack_madd(pack_all(-0x1.6aa4eap-6f), square, pack_all(0x1.55551ep-2f)) * square;
  const pack more = p + 1, less = 1 - p;
  return (pack_madd(more, h, -(less * w)) - less) / (pack_madd(more, w, -(less * h)) + more);
}

/* ---- gelu by tanh ---------------------------------------------------------------------------- */

#if defined(__FMA__) || (defined(__ARM_FEATURE_FMA) && defined(__ARM_NEON))
#define PACK_GELU_TANH

/* x / (1 + exp(−v)), v = x (A + B x²), A = √(8/π), B = 0.044715 A, for x ≥ −9.9 and NaN with a
 * positive sign. An error of v is a relative error of the exponential, so v is the sum of two
 * numbers. */
ALWAYS_INLINE pack pack_gelu_tanh_core(pack x) {
  const pack first = pack_all(0x1.988454p+0f), second = pack_all(0x1.2444f2p-4f);
  const pack y = CPU_AT_MOST(pack_all(9.9f), x), square = y * y;
  const pack sum = pack_madd(second, square, first), part = sum - first;
  const pack rounding = (first - (sum - part)) + pack_madd(second, square, -part);
  const pack digits = pack_madd(pack_all(2.398832e-09f), square, pack_all(-4.534068e-08f));
  const pack error = rounding + pack_madd(second, pack_madd(y, y, -square), digits);
  const pack v = y * sum, low = pack_madd(y, error, pack_madd(y, sum, -v));
  const pack shifted = pack_madd(v, pack_all(-0x1.715476p+0f), pack_all(EXP_SHIFT));
  const pack power = (pack)((pack_bits)shifted << 23);
  const pack small = pack_expm1_small(pack_exp_remainder(-v, shifted - EXP_SHIFT) - low);
  return x / pack_madd(power, small, power + 1);
}

#endif

/* ---- erf and gelu with tables ---------------------------------------------------------------- */

#if defined(__AVX512F__)

/* Coefficients by segment, two registers each: one instruction selects them for a vector. */
#define PACK_PICK(table, segment)                                                                  \
  _mm512_permutex2var_ps(_mm512_load_ps(table), segment, _mm512_load_ps((table) + 16))

#include "math_tables.h"

/* A polynomial in the distance from the nearest eighth. From 63 / 16 on, erf is 1 in f32; just
 * below it, the nearest eighth is the last one in the table. */
ALWAYS_INLINE pack pack_erf(pack x) {
  const pack a = CPU_AT_MOST(pack_all(0x1.f7fffep+1f), pack_magnitude(x));
  const pack shifted = a + 0x1.8p20f, d = a - (shifted - 0x1.8p20f);
  const __m512i segment = (__m512i)shifted; /* its last five bits */
  pack y = pack_madd(PACK_PICK(erf_table[5], segment), d, PACK_PICK(erf_table[4], segment));
  y = pack_madd(y, d, PACK_PICK(erf_table[3], segment));
  y = pack_madd(y, d, PACK_PICK(erf_table[2], segment));
  y = pack_madd(y, d, PACK_PICK(erf_table[1], segment));
  /* Up to 1 / 16 the table starts with 0 and the first derivative less 1, which keeps its
   * digits. */
  const pack first = _mm512_mask_mov_ps(PACK_PICK(erf_table[0], segment),
                                        _mm512_cmp_ps_mask(a, pack_all(0x1p-4f), _CMP_LE_OQ), a);
  return pack_signed(pack_madd(y, d, first), x);
}

/* For x ≥ −5.9 and NaN with a positive sign: max(x, 0) − t Φ(−t), t = |x|, which keeps the relative
 * precision of negative arguments. The second term is a polynomial in the distance from a point
 * near the nearest 3 / 16. From 5.9 on, the difference is x in f32. */
ALWAYS_INLINE pack pack_gelu_core(pack x) {
  const pack t = (pack)_mm512_min_epu32((__m512i)pack_magnitude(x), (__m512i)pack_all(5.9f));
  const pack shifted = pack_madd(t, pack_all(16.0f / 3), pack_all(0x1.8p23f));
  const __m512i segment = (__m512i)shifted; /* its last five bits */
  const pack d = t - PACK_PICK(gelu_table[0], segment);
  pack y = pack_madd(PACK_PICK(gelu_table[7], segment), d, PACK_PICK(gelu_table[6], segment));
  y = pack_madd(y, d, PACK_PICK(gelu_table[5], segment));
  y = pack_madd(y, d, PACK_PICK(gelu_table[4], segment));
  y = pack_madd(y, d, PACK_PICK(gelu_table[3], segment));
  y = pack_madd(y, d, PACK_PICK(gelu_table[2], segment));
  /* The smaller of x and −0 as unsigned numbers is max(x, −0). */
  const pack ramp = (pack)_mm512_min_epu32((__m512i)x, (__m512i)pack_all(-0.0f));
  return pack_madd(-y, d, ramp - PACK_PICK(gelu_table[1], segment));
}

/* For all other x, as gelu_whole_f32: −t Φ(−t), with t Φ(−t) exp(t² / 2) as a polynomial in 1 / t²,
 * interpolated from 5.89 to 14.5. −t² / 2 = n ln 2 − r / 2, with the rounding error of t² included;
 * the polynomial includes the error of ln 2. Scaled by 2^64 until the end, as in unscale_f32. */
ALWAYS_INLINE pack pack_gelu_tail(pack x) {
  const pack t = (pack)_mm512_min_epu32((__m512i)pack_magnitude(x), (__m512i)pack_all(14.5f));
  const pack square = t * t, error = pack_madd(t, t, -square), inverse = 1 / square;
  pack y = pack_madd(pack_all(0x1.51c20ep+4f), inverse, pack_all(-0x1.582bcap+2f));
  y = pack_madd(y, inverse, pack_all(0x1.2ff1f6p+0f));
  y = pack_madd(y, inverse, pack_all(-0x1.986f48p-2f));
  y = pack_madd(y, inverse, pack_all(0x1.98843cp-2f));
  const pack shift = pack_all(0x1.8p23f + 64);
  const pack shifted = pack_madd(square, pack_all(-0.5f * 0x1.715476p+0f), shift);
  const pack r = pack_madd(shifted - shift, pack_all(0x1.62e430p+0f), square) + error;
  pack p = pack_madd(pack_all(0x1.6feb88p-16f), r, pack_all(-0x1.1257ccp-12f));
  p = pack_madd(p, r, pack_all(0x1.5553p-9f));
  p = pack_madd(p, r, pack_all(-0x1.555466p-6f));
  p = pack_madd(p, r, pack_all(0.125f));
  p = pack_madd(p, r, pack_all(-0.5f)); /* (exp(−r / 2) − 1) / r */
  const pack first = (pack)((pack_bits)y + ((pack_bits)shifted << 23));
  const pack fall = pack_madd(first * r, p, first);
  const pack_bits units = (pack_bits)pack_madd(fall, pack_all(0x1p85f), pack_all(0x1p23f));
  const pack_bits small = units - (pack_bits)pack_all(0x1p23f);
  const __mmask16 is_small = _mm512_cmp_ps_mask(fall, pack_all(0x1p-62f), _CMP_LT_OQ);
  const __m512i size =
      _mm512_mask_mov_epi32((__m512i)((pack_bits)fall - (64u << 23)), is_small, (__m512i)small);
  /* −Infinity gives NaN, as its product with 0 does. */
  const __mmask16 is_finite = _mm512_cmp_ps_mask(x, pack_all(-FLT_MAX), _CMP_GE_OQ);
  return _mm512_mask_mov_ps(pack_all(__builtin_nanf("")), is_finite,
                            (pack)((pack_bits)size | 0x80000000));
}

/* The largest x, as an unsigned number, for the short form. */
#define LIMIT_GELU_CORE 0xc0bccccdu /* −5.9 */

ALWAYS_INLINE pack pack_gelu(pack x) {
  const __m512i limit = (__m512i)((pack_bits){0} + LIMIT_GELU_CORE);
  return _mm512_mask_mov_ps(pack_gelu_core(x), _mm512_cmpgt_epu32_mask((__m512i)x, limit),
                            pack_gelu_tail(x));
}

#elif defined(__AVX2__)

#include "math_tables.h"

#define PACK_PICK(table, segment)                                                                  \
  _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)(const void *)(table)), segment)

/* As above, with four segments, which end at 0.65, 1.74, 2.84 and where erf is 1 in f32. Only the
 * last two bits of a segment number count, so NaN also has a segment. */
ALWAYS_INLINE pack pack_erf(pack x) {
  const pack a = CPU_AT_MOST(pack_all(3.925f), pack_magnitude(x));
  const __m256i segment = _mm256_cvtps_epi32(pack_madd(a, pack_all(0.91463f), pack_all(-0.09451f)));
  const pack d = a - PACK_PICK(erf_quarters[0], segment);
  pack y = pack_madd(PACK_PICK(erf_quarters[9], segment), d, PACK_PICK(erf_quarters[8], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[7], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[6], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[5], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[4], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[3], segment));
  y = pack_madd(y, d, PACK_PICK(erf_quarters[2], segment));
  /* In the first segment the first row is 0, and d is a. */
  const pack first =
      _mm256_blendv_ps(PACK_PICK(erf_quarters[1], segment), a, _mm256_cmp_ps(d, a, _CMP_EQ_OQ));
  return pack_signed(pack_madd(y, d, first), x);
}

#endif

#endif
