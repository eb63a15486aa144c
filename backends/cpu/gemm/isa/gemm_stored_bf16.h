/* SPDX-License-Identifier: MIT */
/* Addends and results in bf16 (gemm_finish.h), and their conversions, for one element and for
 * vectors. */
#ifndef CPU_GEMM_STORED_BF16_H
#define CPU_GEMM_STORED_BF16_H

#include "program/isa/math_base.h"

typedef uint16_t gemm_stored;

GEMM_INLINE float gemm_widen(gemm_stored bits) {
  return convert_bf16_to_f32(bits);
}
GEMM_INLINE gemm_stored gemm_narrow(float x) {
  return convert_f32_to_bf16(x);
}

#if defined(__aarch64__)
#define GEMM_LOSES 0 /* BFCVTN keeps denormals */

GEMM_INLINE gemm_vector gemm_load(const gemm_stored *from) {
  return (gemm_vector)vshll_n_u16(vld1_u16(from), 16);
}
GEMM_INLINE unsigned gemm_lost(gemm_vector x) {
  (void)x;
  return 0;
}
GEMM_INLINE unsigned gemm_tiny(gemm_vector x) {
  return gemm_lost(x);
}
GEMM_INLINE unsigned gemm_tiny_rows(const int rows, const int vectors, const gemm_stored *from,
                                    int64_t row) {
  (void)rows, (void)vectors, (void)from, (void)row;
  return 0;
}
GEMM_INLINE void gemm_store(gemm_stored *to, gemm_vector x) {
  vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(x)));
}
GEMM_INLINE void gemm_store_two(gemm_stored *to, gemm_vector x, gemm_vector next) {
  gemm_store(to, x);
  gemm_store(to + GEMM_LANES, next);
}
#else
#define GEMM_LOSES 1 /* denormals */

GEMM_INLINE gemm_vector gemm_load(const gemm_stored *from) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
  return (gemm_vector)_mm512_slli_epi32(bits, 16);
}
GEMM_INLINE gemm_vector gemm_load_first(const gemm_stored *from, int64_t count) {
  const __m256i bits = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), from);
  return (gemm_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}
/* Mask of elements that the conversion below would flush to zero: denormals, which are rare. */
GEMM_INLINE unsigned gemm_lost(gemm_vector x) {
  enum { DENORMAL = 0x20 };
  return _mm512_fpclass_ps_mask(x, DENORMAL);
}
GEMM_INLINE void gemm_store(gemm_stored *to, gemm_vector x) {
  _mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}
GEMM_INLINE void gemm_store_first(gemm_stored *to, gemm_vector x, int64_t count) {
  _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)_mm512_cvtneps_pbh(x));
}
GEMM_INLINE void gemm_store_two(gemm_stored *to, gemm_vector x, gemm_vector next) {
  _mm512_storeu_si512((void *)to, (__m512i)_mm512_cvtne2ps_pbh(next, x));
}

/* Sums of the dot-product instruction are zero or normal. Such a sum plus an addend that is zero or
 * not tiny is again zero or normal, because close numbers differ by a multiple of their last
 * places. With a limit of 2^-90, the sum of two bf16 numbers is at least 2^-97. So it is enough to
 * check the addends, which are fewer than the sums or half as large: if none is tiny, no result is
 * a denormal. */
enum { GEMM_TINY_BITS = 37 << 7 }; /* 2^-90 in bf16 */

GEMM_INLINE unsigned gemm_tiny(gemm_vector x) {
  const __m512i limit = _mm512_set1_epi32(2 * (GEMM_TINY_BITS << 16) - 1);
  const __m512i twice = _mm512_slli_epi32((__m512i)x, 1);
  return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(twice, _mm512_set1_epi32(1)), limit);
}
/* The same for a tile's addends in memory; NULL has none. */
GEMM_INLINE unsigned gemm_tiny_rows(const int rows, const int vectors, const gemm_stored *from,
                                    int64_t row) {
  const __m512i one = _mm512_set1_epi16(1);
  __m512i least = _mm512_set1_epi16(-1);
  if (!from) return 0;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++, from += row) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v += 2) {
      const gemm_stored *at = from + v * GEMM_LANES;
      const __m512i x = vectors > 1 ? _mm512_loadu_si512((const void *)at)
                                    : _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)at));
      const __m512i twice = _mm512_add_epi16(x, x);
      least = _mm512_min_epu16(least, _mm512_sub_epi16(twice, one));
    }
  }
  return _mm512_cmplt_epu16_mask(least, _mm512_set1_epi16(2 * GEMM_TINY_BITS - 1));
}
#endif

#endif
