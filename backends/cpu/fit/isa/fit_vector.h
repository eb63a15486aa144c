/* Vectors of f32 in which every lane is another ROI: as wide as the instruction set has them.
 *
 * Sums, differences and products are the compiler's own on vector types; what has no operator is
 * named here once per instruction set. Nothing moves values from lane to lane except the
 * transposition, so that what a lane computes cannot depend on its neighbours. */
#ifndef CPU_FIT_VECTOR_H
#define CPU_FIT_VECTOR_H

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
FIT_INLINE vf v_min(vf a, vf b) { /* b where one of them is NaN */
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
}
FIT_INLINE vf v_max(vf a, vf b) {
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}
FIT_INLINE vf v_sqrt(vf a) {
  return (vf)_mm512_sqrt_ps((__m512)a);
}
/* An approximation to 14 bits and a step of Newton's method: an ulp or two. Not for 0 and ∞. */
FIT_INLINE vf v_reciprocal(vf a) {
  const vf r = (vf)_mm512_rcp14_ps((__m512)a);
  return r * v_fnma(a, r, v_set(2));
}
FIT_INLINE vm v_less(vf a, vf b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
FIT_INLINE vm v_at_least(vf a, vf b) { /* a ≥ b; not where one of them is NaN */
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
/* From 12 bits. */
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
#if defined(__ARM_FEATURE_FMA)
FIT_INLINE vf v_fma(vf a, vf b, vf c) {
  for (int i = 0; i < FIT_LANES; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#else
FIT_INLINE vf v_fma(vf a, vf b, vf c) {
  return a * b + c;
}
#endif
FIT_INLINE vf v_fms(vf a, vf b, vf c) {
  return v_fma(a, b, -c);
}
FIT_INLINE vf v_fnma(vf a, vf b, vf c) {
  return v_fma(-a, b, c);
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
FIT_INLINE vf v_sqrt(vf a) {
  for (int i = 0; i < FIT_LANES; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
FIT_INLINE vf v_reciprocal(vf a) {
  return 1 / a;
}
FIT_INLINE uint32_t v_bits(vm m) {
  uint32_t bits = 0;
  for (int i = 0; i < FIT_LANES; i++) bits |= (uint32_t)(m[i] != 0) << i;
  return bits;
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
FIT_INLINE vf v_clamp(vf a, vf low, vf high) { /* low where a is NaN */
  return v_min(v_max(a, low), high);
}
FIT_INLINE vf v_keep(vm m, vf a) { /* m ? a : 0 */
  return v_select(m, a, v_set(0));
}

#endif
