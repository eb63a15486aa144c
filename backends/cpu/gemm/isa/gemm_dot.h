/* SPDX-License-Identifier: MIT */
/* Dot products of few rows, which do not repay packing B: for operands contiguous along k. The
 * including file defines gemm_dot_element, an element of B in place, and gemm_dot_rest, which
 * completes a dot product from an element or word on. */
#ifndef CPU_GEMM_DOT_H
#define CPU_GEMM_DOT_H

#include <string.h>

/* Dot products of `rows` rows of A and `columns` columns of B; both are constants. Prefetches the
 * next columns at the same time: each is a new run of memory, which the hardware does not
 * prefetch. */
GEMM_INLINE void gemm_dot_tile(const int rows, const int columns, const cpu_gemm_block *block,
                               const GEMM_ELEMENT *a, const gemm_dot_element *b, GEMM_ELEMENT *c) {
  enum { EACH = sizeof(GEMM_ELEMENT) / sizeof *b };
  gemm_vector sum[4][4];
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) sum[i][j] = (gemm_vector){0};
  }
  const int64_t whole = EACH == 1 ? block->k : block->elements / EACH;
  int64_t p = 0;
  for (; p + GEMM_LANES <= whole; p += GEMM_LANES) {
    gemm_vector right[4];
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      const gemm_dot_element *from = b + j * block->b_column + EACH * p;
      memcpy(&right[j], from, sizeof right[j]);
      __builtin_prefetch(from + columns * block->b_column);
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      gemm_vector left; /* words may begin at any element */
      memcpy(&left, a + i * block->a_row + p, sizeof left);
      GEMM_UNROLL
      for (int j = 0; j < columns; j++) sum[i][j] = GEMM_MULTIPLY_ADD(left, right[j], sum[i][j]);
    }
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int j = 0; j < columns; j++) {
      const GEMM_ELEMENT total = gemm_dot_rest(block, a + i * block->a_row, b + j * block->b_column,
                                               p, gemm_sum_lanes(&sum[i][j]));
      GEMM_ELEMENT *to = c + i * block->c_row + j;
      *to = block->accumulate ? *to + total : total;
    }
  }
}

GEMM_INLINE void gemm_dot_columns(const int rows, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, GEMM_ELEMENT *c) {
  const int columns = rows > 2 ? 2 : 4;
  const gemm_dot_element *b = block->b;
  int64_t j = 0;
  for (; j + columns <= block->n; j += columns)
    gemm_dot_tile(rows, columns, block, a, b + j * block->b_column, c + j);
  for (; j < block->n; j++) gemm_dot_tile(rows, 1, block, a, b + j * block->b_column, c + j);
}

static void gemm_dot(const cpu_gemm_block *block) {
  const GEMM_ELEMENT *a = block->a;
  GEMM_ELEMENT *c = block->c;
  for (int64_t i = 0; i < block->m; i += 4, a += 4 * block->a_row, c += 4 * block->c_row) {
    switch (block->m - i) {
    case 1: gemm_dot_columns(1, block, a, c); break;
    case 2: gemm_dot_columns(2, block, a, c); break;
    case 3: gemm_dot_columns(3, block, a, c); break;
    default: gemm_dot_columns(4, block, a, c); break;
    }
  }
}

#endif
