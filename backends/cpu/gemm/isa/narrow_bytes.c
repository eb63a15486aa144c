/* SPDX-License-Identifier: MIT */
/* Products of a few rows of weights with many lines of bytes, which are read in place: a dot product
 * for each element, and every line is widened once for all rows. Sums are exact. */
#include "narrow_table.h"
#include "program/isa/tile_loops.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>

CPU_INLINE __m256i widen(const bool is_signed, const void *from) {
  const __m128i bytes = _mm_loadu_si128(from);
  return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

CPU_INLINE int32_t sum_of(__m256i x) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(2, 3, 0, 1))));
}

CPU_INLINE void multiply_lines(const int64_t m, const bool is_signed,
                               const cpu_narrow_bytes_block *x) {
  const int64_t whole = x->k / CPU_NARROW_PIECE * CPU_NARROW_PIECE, rest = x->k - whole;
  for (int64_t j = 0; j < x->n; j++) {
    const uint8_t *line = x->b + j * x->b_column;
    __m256i sum[CPU_NARROW_BYTE_ROWS];
    for (int64_t i = 0; i < m; i++) sum[i] = _mm256_setzero_si256();
    for (int64_t p = 0; p < whole; p += CPU_NARROW_PIECE) {
      const __m256i v = widen(is_signed, line + p);
      for (int64_t i = 0; i < m; i++) {
        const __m256i w = _mm256_loadu_si256((const void *)(x->a + i * x->a_row + p));
        sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(v, w));
      }
    }
    if (rest > 0) {
      uint8_t last[CPU_NARROW_PIECE] = {0};
      memcpy(last, line + whole, (size_t)rest);
      const __m256i v = widen(is_signed, last);
      for (int64_t i = 0; i < m; i++) {
        const __m256i w = _mm256_loadu_si256((const void *)(x->a + i * x->a_row + whole));
        sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(v, w));
      }
    }
    for (int64_t i = 0; i < m; i++) x->c[i * x->c_row + j] = sum_of(sum[i]);
  }
}
#else
CPU_INLINE void multiply_lines(const int64_t m, const bool is_signed,
                               const cpu_narrow_bytes_block *x) {
  for (int64_t j = 0; j < x->n; j++) {
    const uint8_t *line = x->b + j * x->b_column;
    for (int64_t i = 0; i < m; i++) {
      const int16_t *w = x->a + i * x->a_row;
      uint32_t sum = 0;
      for (int64_t p = 0; p < x->k; p++)
        sum += (uint32_t)(w[p] * (is_signed ? (int16_t)(int8_t)line[p] : (int16_t)line[p]));
      x->c[i * x->c_row + j] = (int32_t)sum;
    }
  }
}
#endif

CPU_INLINE void multiply_rows(const int64_t m, const cpu_narrow_bytes_block *x) {
  if (x->b_signed)
    multiply_lines(m, true, x);
  else
    multiply_lines(m, false, x);
}

static void multiply(const cpu_narrow_bytes_block *x) {
  switch (x->m) {
  case 1: multiply_rows(1, x); break;
  case 2: multiply_rows(2, x); break;
  case 3: multiply_rows(3, x); break;
  case 4: multiply_rows(4, x); break;
  case 5: multiply_rows(5, x); break;
  case 6: multiply_rows(6, x); break;
  case 7: multiply_rows(7, x); break;
  default: multiply_rows(8, x); break;
  }
}

const cpu_narrow_bytes_loops CPU_SYMBOL(cpu_narrow_bytes) = {multiply};
