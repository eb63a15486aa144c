/* SPDX-License-Identifier: MIT */
/* Products of up to four rows of bf16: makes words of two rows of a large B in memory order. */
#ifndef CPU_GEMM_STREAM_BF16_H
#define CPU_GEMM_STREAM_BF16_H

#define GEMM_STREAM_PARTS 1
#include "gemm_stream_parts.h"

#if defined(__aarch64__)
typedef uint16x8_t gemm_halves;

/* Loads up to GEMM_COLUMNS elements of a row of B; zeros follow. */
GEMM_INLINE gemm_halves gemm_load_halves(const uint16_t *from, int64_t count) {
  uint16_t some[GEMM_COLUMNS] = {0};
  if (count >= GEMM_COLUMNS) return vld1q_u16(from);
  memcpy(some, from, (size_t)count * sizeof *from);
  return vld1q_u16(some);
}
GEMM_INLINE void gemm_make_words(gemm_halves even, gemm_halves odd, gemm_vector words[2]) {
  words[0] = (gemm_vector)vzip1q_u16(even, odd);
  words[1] = (gemm_vector)vzip2q_u16(even, odd);
}
GEMM_INLINE gemm_vector gemm_load_sums(const float *from, int64_t count) {
  gemm_vector x = {0};
  memcpy(&x, from, (size_t)count * sizeof *from);
  return x;
}
GEMM_INLINE void gemm_store_sums(float *to, gemm_vector x, int64_t count) {
  memcpy(to, &x, (size_t)count * sizeof *to);
}
#else
typedef __m512i gemm_halves;

/* Loads up to GEMM_COLUMNS elements of a row of B; zeros follow. */
GEMM_INLINE gemm_halves gemm_load_halves(const uint16_t *from, int64_t count) {
  return count >= GEMM_COLUMNS ? _mm512_loadu_si512((const void *)from)
                               : _mm512_maskz_loadu_epi16((UINT32_C(1) << count) - 1, from);
}
GEMM_INLINE void gemm_make_words(gemm_halves even, gemm_halves odd, gemm_vector words[2]) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(GEMM_LANES));
  words[0] = (gemm_vector)_mm512_permutex2var_epi16(even, low, odd);
  words[1] = (gemm_vector)_mm512_permutex2var_epi16(even, high, odd);
}
GEMM_INLINE gemm_vector gemm_load_sums(const float *from, int64_t count) {
  return (gemm_vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
GEMM_INLINE void gemm_store_sums(float *to, gemm_vector x, int64_t count) {
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
}
#endif

/* Adds the products with two rows of B to up to GEMM_COLUMNS columns of `rows` rows of C; `rows` is a
 * constant. The second row may not exist. Prefetches rows further on at the same time. */
GEMM_INLINE void gemm_stream_words(const int rows, const gemm_vector *left, const uint16_t *b,
                                   int64_t b_k, bool second, float *c, int64_t c_row,
                                   int64_t columns, int64_t ahead) {
  const gemm_halves none = {0};
  gemm_vector right[2];
  gemm_make_words(gemm_load_halves(b, columns), second ? gemm_load_halves(b + b_k, columns) : none,
                  right);
  __builtin_prefetch(b + ahead * b_k);
  __builtin_prefetch(b + (ahead + 1) * b_k);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < 2; v++) {
      float *to = c + i * c_row + v * GEMM_LANES;
      const int64_t left_over = columns - v * GEMM_LANES;
      if (left_over >= GEMM_LANES) {
        *(gemm_vector_at *)to = GEMM_MULTIPLY_ADD(left[i], right[v], *(gemm_vector_at *)to);
      } else if (left_over > 0) {
        const gemm_vector sum = gemm_load_sums(to, left_over);
        gemm_store_sums(to, GEMM_MULTIPLY_ADD(left[i], right[v], sum), left_over);
      }
    }
  }
}

/* All of k, for as many columns as keep their sums in the L1 cache. */
GEMM_INLINE void gemm_stream_columns(const int rows, const cpu_gemm_block *block,
                                     const gemm_element_at *a, const uint16_t *b, float *c,
                                     int64_t c_row, int64_t columns) {
  const int64_t ahead = 2 * (1 + 4096 / columns);
  for (int64_t p = 0; p < block->k; p++, b += 2 * block->b_k) {
    const bool second = 2 * p + 1 < block->elements;
    gemm_vector left[4];
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) left[i] = GEMM_REPEAT(a[i * block->a_row + p]);
    int64_t j = 0;
    for (; j + GEMM_COLUMNS <= columns; j += GEMM_COLUMNS)
      gemm_stream_words(rows, left, b + j, block->b_k, second, c + j, c_row, GEMM_COLUMNS, ahead);
    if (j < columns)
      gemm_stream_words(rows, left, b + j, block->b_k, second, c + j, c_row, columns - j, ahead);
  }
}

/* For up to four rows. */
static void gemm_stream(const cpu_gemm_block *block) {
  enum { CLOSE = 16 << 10 };
  const int64_t width = CLOSE / (block->m * (int64_t)sizeof(float)) / GEMM_COLUMNS * GEMM_COLUMNS;
  const gemm_element_at *a = block->a;
  float sums[GEMM_PART_SUMS / sizeof(float)] __attribute__((aligned(GEMM_VECTOR_BYTES)));
  for (int64_t j = 0; j < block->n; j += width) {
    const int64_t columns = block->n - j < width ? block->n - j : width;
    const uint16_t *b = (const uint16_t *)block->b + j;
    int64_t c_row;
    float *c = gemm_stream_begin(block, (float *)block->c + j, columns, sums, &c_row);
    switch (block->m) {
    case 1: gemm_stream_columns(1, block, a, b, c, c_row, columns); break;
    case 2: gemm_stream_columns(2, block, a, b, c, c_row, columns); break;
    case 3: gemm_stream_columns(3, block, a, b, c, c_row, columns); break;
    default: gemm_stream_columns(4, block, a, b, c, c_row, columns); break;
    }
    gemm_stream_end(block, (float *)block->c + j, columns, sums);
  }
}

#endif
