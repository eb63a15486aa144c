/* SPDX-License-Identifier: MIT */
/* Products of up to four rows of bf16: makes words of two rows of a large B in memory order. */
#ifndef CPU_GEMM_STREAM_BF16_H
#define CPU_GEMM_STREAM_BF16_H

#define GEMM_STREAM_PARTS 1
#include "gemm_stream_parts.h"

/* Loads up to 32 elements of a row of B. */
GEMM_INLINE __m512i gemm_load_halves(const uint16_t *from, int64_t count) {
  return count >= GEMM_COLUMNS ? _mm512_loadu_si512((const void *)from)
                               : _mm512_maskz_loadu_epi16((UINT32_C(1) << count) - 1, from);
}

/* Adds the products with two rows of B to up to 32 columns of `rows` rows of C; `rows` is a
 * constant. The second row may not exist. Prefetches rows further on at the same time. */
GEMM_INLINE void gemm_stream_words(const int rows, const gemm_vector *left, const uint16_t *b,
                                   int64_t b_k, bool second, float *c, int64_t c_row,
                                   int64_t columns, int64_t ahead) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(GEMM_LANES));
  const __m512i even = gemm_load_halves(b, columns);
  const __m512i odd = second ? gemm_load_halves(b + b_k, columns) : _mm512_setzero_si512();
  const gemm_vector right[2] = {(gemm_vector)_mm512_permutex2var_epi16(even, low, odd),
                                (gemm_vector)_mm512_permutex2var_epi16(even, high, odd)};
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
        const __mmask16 mask = (__mmask16)((1u << left_over) - 1);
        const gemm_vector sum = (gemm_vector)_mm512_maskz_loadu_ps(mask, to);
        _mm512_mask_storeu_ps(to, mask, (__m512)GEMM_MULTIPLY_ADD(left[i], right[v], sum));
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
