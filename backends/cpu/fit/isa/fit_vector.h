/* SPDX-License-Identifier: MIT */
/* Vectors of f32 with one ROI per lane, as wide as the instruction set supports.
 *
 * Sums, differences and products use the compiler's vector types; operations without an operator
 * are defined here once per instruction set. Only the transposition moves values between lanes, so
 * a lane's result cannot depend on its neighbours. */
#ifndef CPU_FIT_FIT_VECTOR_H
#define CPU_FIT_FIT_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FIT_INLINE static inline __attribute__((always_inline, unused))
#define FIT_APART                                                                                  \
  static __attribute__((noinline, unused)) /* large, and called from several places */
#if defined(__clang__)
#define FIT_UNROLL _Pragma("unroll")
#else
#define FIT_UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(__AVX512F__)
#include <immintrin.h>
#define FIT_LANES 16
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define FIT_LANES 8
#else
#define FIT_LANES 4
#ifdef __aarch64__
#include <arm_neon.h>
#endif
#endif

#define FIT_ALL_LANES ((1u << FIT_LANES) - 1)

typedef float vf __attribute__((vector_size(4 * FIT_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * FIT_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * FIT_LANES)));

#if FIT_LANES == 16

typedef __mmask16 vm;

FIT_INLINE vf v_set(float x) {
  return (vf)_mm512_set1_ps(x);
}
FIT_INLINE vf v_fma(vf a, vf b, vf c) { /* a b + c */
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
FIT_INLINE vf v_fms(vf a, vf b, vf c) { /* a b − c */
  return (vf)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)c);
}
FIT_INLINE vf v_fnma(vf a, vf b, vf c) { /* c − a b */
  return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
FIT_INLINE vf v_min(vf a, vf b) { /* b if either is NaN */
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
}
FIT_INLINE vf v_max(vf a, vf b) {
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}
FIT_INLINE vf v_sqrt(vf a) {
  return (vf)_mm512_sqrt_ps((__m512)a);
}
/* An approximation to 14 bits and one Newton step: accurate to an ulp or two. Not for 0 and ∞. */
FIT_INLINE vf v_reciprocal(vf a) {
  const vf r = (vf)_mm512_rcp14_ps((__m512)a);
  return r * v_fnma(a, r, v_set(2));
}
FIT_INLINE vm v_less(vf a, vf b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
FIT_INLINE vm v_at_least(vf a, vf b) { /* a ≥ b; false if either is NaN */
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
}
FIT_INLINE vm v_and(vm a, vm b) {
  return (vm)(a & b);
}
FIT_INLINE vm v_or(vm a, vm b) {
  return (vm)(a | b);
}
FIT_INLINE vm v_and_not(vm a, vm b) { /* a and not b */
  return (vm)(a & ~b);
}
FIT_INLINE vf v_select(vm m, vf a, vf b) { /* m ? a : b */
  return (vf)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a);
}
FIT_INLINE uint32_t v_bits(vm m) {
  return m;
}
FIT_INLINE vm v_mask(uint32_t bits) {
  return (vm)bits;
}

#elif FIT_LANES == 8

typedef vi vm;

FIT_INLINE vf v_set(float x) {
  return (vf)_mm256_set1_ps(x);
}
FIT_INLINE vf v_fma(vf a, vf b, vf c) {
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
FIT_INLINE vf v_fms(vf a, vf b, vf c) {
  return (vf)_mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)c);
}
FIT_INLINE vf v_fnma(vf a, vf b, vf c) {
  return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
FIT_INLINE vf v_min(vf a, vf b) {
  return (vf)_mm256_min_ps((__m256)a, (__m256)b);
}
FIT_INLINE vf v_max(vf a, vf b) {
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}
FIT_INLINE vf v_sqrt(vf a) {
  return (vf)_mm256_sqrt_ps((__m256)a);
}
/* From an approximation to 12 bits. */
FIT_INLINE vf v_reciprocal(vf a) {
  const vf r = (vf)_mm256_rcp_ps((__m256)a);
  return v_fma(r, v_fnma(a, r, v_set(1)), r);
}
FIT_INLINE vm v_less(vf a, vf b) {
  return (vm)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ);
}
FIT_INLINE vm v_at_least(vf a, vf b) {
  return (vm)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ);
}
FIT_INLINE vf v_select(vm m, vf a, vf b) {
  return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m);
}
FIT_INLINE uint32_t v_bits(vm m) {
  return (uint32_t)_mm256_movemask_ps((__m256)m);
}
FIT_INLINE vm v_mask(uint32_t bits) {
  const vi lane = {1, 2, 4, 8, 16, 32, 64, 128};
  const vi all = (vi)_mm256_set1_epi32((int32_t)bits);
  return (vm)((all & lane) == lane);
}

#else

typedef vi vm;

FIT_INLINE vf v_set(float x) {
  return (vf){x, x, x, x};
}
#ifdef __aarch64__
FIT_INLINE vf v_fma(vf a, vf b, vf c) {
  return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
FIT_INLINE vf v_fnma(vf a, vf b, vf c) {
  return (vf)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
FIT_INLINE vf v_sqrt(vf a) {
  return (vf)vsqrtq_f32((float32x4_t)a);
}
FIT_INLINE uint32_t v_bits(vm m) {
  return vaddvq_u32((uint32x4_t)m & (uint32x4_t){1, 2, 4, 8});
}
#else
FIT_INLINE vf v_fma(vf a, vf b, vf c) {
  return a * b + c;
}
FIT_INLINE vf v_fnma(vf a, vf b, vf c) {
  return v_fma(-a, b, c);
}
FIT_INLINE vf v_sqrt(vf a) {
  for (int i = 0; i < FIT_LANES; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
FIT_INLINE uint32_t v_bits(vm m) {
  uint32_t bits = 0;
  for (int i = 0; i < FIT_LANES; i++) bits |= (uint32_t)(m[i] != 0) << i;
  return bits;
}
#endif
FIT_INLINE vf v_fms(vf a, vf b, vf c) {
  return v_fma(a, b, -c);
}
FIT_INLINE vm v_less(vf a, vf b) {
  return (vm)(a < b);
}
FIT_INLINE vm v_at_least(vf a, vf b) {
  return (vm)(a >= b);
}
FIT_INLINE vf v_select(vm m, vf a, vf b) {
  return (vf)(((vi)a & m) | ((vi)b & ~m));
}
FIT_INLINE vf v_min(vf a, vf b) {
  return v_select(v_less(a, b), a, b);
}
FIT_INLINE vf v_max(vf a, vf b) {
  return v_select(v_less(b, a), a, b);
}
FIT_INLINE vf v_reciprocal(vf a) {
  return 1 / a;
}
FIT_INLINE vm v_mask(uint32_t bits) {
  vm m;
  for (int i = 0; i < FIT_LANES; i++) m[i] = -(int32_t)(bits >> i & 1);
  return m;
}

#endif

#if FIT_LANES != 16
FIT_INLINE vm v_and(vm a, vm b) {
  return a & b;
}
FIT_INLINE vm v_or(vm a, vm b) {
  return a | b;
}
FIT_INLINE vm v_and_not(vm a, vm b) {
  return a & ~b;
}
#endif

FIT_INLINE vf v_abs(vf a) {
  return (vf)((vi)a & INT32_MAX);
}
FIT_INLINE vf v_clamp(vf a, vf low, vf high) { /* low if a is NaN */
  return v_min(v_max(a, low), high);
}
FIT_INLINE vf v_keep(vm m, vf a) { /* m ? a : 0 */
  return v_select(m, a, v_set(0));
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* Functions of vectors for the fit: powers of 2, the logarithm, the Gaussian's tail.
 *
 * Coefficients: minimax fits by iteratively reweighted least squares (C. Lawson, 1961), rounded to
 * f32. */

#define FIT_LOG2_E 1.44269504f
#define FIT_LN_2   0.69314718f

/* 2^−t for t ≥ 0, and 2^−126 for t ≥ 126: relative error 1.5e-7. */
FIT_INLINE vf fit_power(vf t) {
  t = v_min(t, v_set(126));
  const vf shift = v_set(0x1.8p23f);
  const vf shifted = shift - t, f = t + (shifted - shift);
  vf p = v_fma(v_set(-0x1.5c08e6p-10f), f, v_set(0x1.3d0c54p-7f));
  p = v_fma(p, f, v_set(-0x1.c6b6e4p-5f));
  p = v_fma(p, f, v_set(0x1.ebf918p-3f));
  p = v_fma(p, f, v_set(-0x1.62e428p-1f));
  p = v_fma(p, f, v_set(1));
  return (vf)((vu)p + ((vu)shifted << 23));
}

/* Natural logarithm of a normal positive number: absolute error 1e-7 near 1, relative elsewhere. */
FIT_INLINE vf fit_log(vf x) {
  const vi offset = (vi)x - 0x3f3504f3; /* √½ */
  const vi exponent = offset >> 23;
  const vf f = (vf)((vu)x - ((vu)exponent << 23)) - 1;
  const vf n = __builtin_convertvector(exponent, vf);
  const vf f2 = f * f;
  const vf p0 = v_fma(v_set(0.33335263f), f, v_set(-0.50000584f));
  const vf p1 = v_fma(v_set(0.19888276f), f, v_set(-0.24961466f));
  const vf p2 = v_fma(v_set(0.16335651f), f, v_set(-0.17325996f));
  const vf high = v_fma(v_fma(v_set(-0.10034621f), f2, p2), f2, p1);
  const vf p = v_fma(high, f2, p0);
  return v_fma(n, v_set(FIT_LN_2), v_fma(p, f2, f));
}

/* erfc(u) / 2 divided by exp(−u²), from v = u √log2(e) ≥ 0: a polynomial in 1 / (1 + p v) without a
 * constant term, in the form of C. Hastings (1955). Its product with exp(−u²) is within 2e-8 of
 * erfc / 2, and relatively within 1e-5 down to 1e-7, 7e-4 down to 1e-38. */
FIT_INLINE vf fit_tail_ratio(vf v) {
  const vf t = v_reciprocal(v_fma(v, v_set(0.29139411f), v_set(1)));
  vf p = v_fma(v_set(-0.10219176f), t, v_set(0.4013159f));
  p = v_fma(p, t, v_set(-0.36985177f));
  p = v_fma(p, t, v_set(0.37271497f));
  p = v_fma(p, t, v_set(-0.021693567f));
  p = v_fma(p, t, v_set(0.12318883f));
  p = v_fma(p, t, v_set(0.096517399f));
  return p * t;
}

/* ---- The incomplete gamma function ----------------------------------------------------------- */

/* The regularized upper incomplete gamma function Q(a, x), for p-values.
 *
 * For a ≥ 2.5, N. M. Temme's uniform expansion ("The asymptotic expansion of the incomplete gamma
 * functions", SIAM J. Math. Anal. 10, 1979): with λ = x/a, η²/2 = λ − 1 − ln λ, η having the sign
 * of λ − 1,
 *
 *   Q = ½ erfc(η √(a/2)) + exp(−a η²/2) / √(2πa) · (C0(η) + C1(η)/a + C2(η)/a² + …)
 *
 * Errors: 3e-5 absolute there, and in the upper tail 1e-3 relative down to 1e-30; below, the result
 * goes to 0. A smaller a means fewer than five degrees of freedom: this is rare, so each one is
 * computed separately. */

#define FIT_GAMMA_LEAST 2.5f

/* Small a: by the series, or by Legendre's continued fraction in W. J. Lentz's form (1976). */
__attribute__((noinline)) static float fit_upper_gamma_small(float a_given, float x_given) {
  const double a = (double)a_given, x = (double)x_given;
  if (!(a > 0) || !(x >= 0)) return __builtin_nanf("");
  if (x <= 0) return 1;
  if (x > 200) return 0;
  const double front = exp(a * log(x) - x) / tgamma(a);
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 100 && term > 1e-12 * sum; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return (float)(1 - front * sum);
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 300; n++) {
    const double factor = n * (a - n);
    b += 2;
    d = 1 / (factor * d + b);
    c = b + factor / c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-12) break;
  }
  return (float)(front * h);
}

/* m − ln(1 + m), without cancellation for small m: with s = m/(2 + m) it is m s − 2 (s³/3 + s⁵/5 +
 * …). */
FIT_INLINE vf fit_log_excess(vf m) {
  const vf s = m * v_reciprocal(m + 2), s2 = s * s;
  vf p = v_fma(s2, v_set(2.0f / 11), v_set(2.0f / 9));
  p = v_fma(p, s2, v_set(2.0f / 7));
  p = v_fma(p, s2, v_set(2.0f / 5));
  p = v_fma(p, s2, v_set(2.0f / 3));
  const vf near = v_fnma(p * s2, s, m * s);
  const vf far = m - fit_log(v_max(m + 1, v_set(1e-30f)));
  return v_select(v_less(v_abs(s), v_set(0.2f)), near, far);
}

/* C0 + C1/a + C2/a². */
FIT_INLINE vf fit_temme_terms(vf eta, vf m, vf inverse) {
  vf c0 = v_fma(eta, v_set(-2.1854485e-6f), v_set(3.9192632e-5f));
  c0 = v_fma(c0, eta, v_set(-1.7875514e-4f));
  c0 = v_fma(c0, eta, v_set(3.5273369e-4f));
  c0 = v_fma(c0, eta, v_set(1.1574074e-3f));
  c0 = v_fma(c0, eta, v_set(-1.4814815e-2f));
  c0 = v_fma(c0, eta, v_set(8.3333333e-2f));
  c0 = v_fma(c0, eta, v_set(-0.33333333f));
  vf c1 = v_fma(eta, v_set(7.6491609e-6f), v_set(-1.8098550e-5f));
  c1 = v_fma(c1, eta, v_set(-4.0187757e-7f));
  c1 = v_fma(c1, eta, v_set(2.0576132e-4f));
  c1 = v_fma(c1, eta, v_set(-9.9022634e-4f));
  c1 = v_fma(c1, eta, v_set(2.6455026e-3f));
  c1 = v_fma(c1, eta, v_set(-3.4722222e-3f));
  c1 = v_fma(c1, eta, v_set(-1.8518519e-3f));
  vf c2 = v_fma(eta, v_set(-1.0736653e-4f), v_set(2.0093879e-6f));
  c2 = v_fma(c2, eta, v_set(7.7160494e-4f));
  c2 = v_fma(c2, eta, v_set(-2.6813272e-3f));
  c2 = v_fma(c2, eta, v_set(4.1335979e-3f));
  const vf near = v_fma(v_fma(c2, inverse, c1), inverse, c0);
  /* Far from η = 0: C0 = 1/m − 1/η, C1 = 1/η³ − 1/m³ − 1/m² − 1/12m. */
  const vm is_near = v_less(v_abs(eta), v_set(1));
  const vf q = v_reciprocal(v_select(is_near, v_set(1), eta));
  const vf r = v_reciprocal(v_select(is_near, v_set(1), m));
  const vf far1 = v_fnma(v_fma(r, r + 1, v_set(1.0f / 12)), r, q * q * q);
  return v_select(is_near, near, v_fma(far1, inverse, r - q));
}

FIT_APART vf fit_upper_gamma(vf a, vf x) {
  const vm regular = v_and(v_less(v_set(FIT_GAMMA_LEAST), a), v_less(a, v_set(1e30f)));
  const vf safe = v_select(regular, a, v_set(FIT_GAMMA_LEAST));
  const vf inverse = v_reciprocal(safe);
  const vf m = v_min(x * inverse, v_set(1e4f)) - 1;
  const vf excess = v_max(fit_log_excess(m), v_set(0));
  const vf power = safe * excess * FIT_LOG2_E, root = v_sqrt(power);
  const vm right = v_less(v_set(0), m);
  const vf magnitude = v_sqrt(excess + excess), eta = v_select(right, magnitude, -magnitude);
  const vf e = v_keep(v_less(power, v_set(120)), fit_power(power));
  const vf tail = e * fit_tail_ratio(root);
  const vf correction = e * fit_temme_terms(eta, m, inverse) * v_sqrt(inverse) * 0.39894228f;
  vf q = v_clamp(v_select(right, tail, 1 - tail) + correction, v_set(0), v_set(1));
  /* Lanes with NaN, or with an a too small for the expansion. */
  uint32_t others = FIT_ALL_LANES & ~v_bits(v_and(regular, v_less(v_set(-1), x)));
  for (; others; others &= others - 1) {
    const int lane = __builtin_ctz(others);
    q[lane] = fit_upper_gamma_small(a[lane], x[lane]);
  }
  return q;
}

#endif
