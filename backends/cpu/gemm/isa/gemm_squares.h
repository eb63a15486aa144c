/* SPDX-License-Identifier: MIT */
/* The loop along k by instructions that multiply squares: USMMLA and BFMMLA. Each operand has two
 * rows of two words, and the instruction adds the four dot products of their rows. It is as fast as
 * an instruction for dot products, which makes half as many. Part of gemm_tile.h.
 *
 * BFMMLA adds the products of a row's first word, and then of its second word, with the roundings
 * of two BFDOT. So sums have the same bits as in the loop of single words. */
#ifndef CPU_GEMM_SQUARES_H
#define CPU_GEMM_SQUARES_H

/* Rows of sums to squares of two rows and two columns, or back. `rows` is a constant. */
GEMM_INLINE void gemm_turn_squares(const int rows, const int vectors, gemm_sums from,
                                   gemm_sums to) {
  GEMM_UNROLL
  for (int i = 0; i < rows; i += 2) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      const gemm_vector upper = from[i][v], lower = from[i + 1][v];
      to[i][v] = __builtin_shufflevector(upper, lower, 0, 1, 4, 5);
      to[i + 1][v] = __builtin_shufflevector(upper, lower, 2, 3, 6, 7);
    }
  }
}

/* Two words of each of two rows of A. */
GEMM_INLINE gemm_vector gemm_take_square(const gemm_element_at *upper,
                                         const gemm_element_at *lower) {
  uint64x1_t words[2];
  memcpy(&words[0], upper, sizeof words[0]);
  memcpy(&words[1], lower, sizeof words[1]);
  return (gemm_vector)vcombine_u64(words[0], words[1]);
}

/* Adds the products of `steps` words of k, an even number. Words of A are contiguous along k. The
 * last of an odd number of rows is multiplied twice. */
GEMM_INLINE void gemm_add_squares(const int rows, const int vectors, const cpu_gemm_block *tile,
                                  gemm_cursor at, int64_t steps, gemm_sums sum) {
  const int even = rows + rows % 2;
  const int64_t a_row = tile->a_row, b_k = tile->b_k;
  const gemm_element_at *left[GEMM_ROWS];
  gemm_sums square, all;
  GEMM_UNROLL
  for (int i = 0; i < even; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) all[i][v] = sum[i < rows ? i : rows - 1][v];
  }
  gemm_turn_squares(even, vectors, all, square);
  gemm_place_rows(rows, 3, false, tile, at.a, left);
  for (; steps > 0; steps -= 2, at.b += 2 * b_k) {
    gemm_vector right[2 * GEMM_MAX_VECTORS];
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      const GEMM_ELEMENT *from = at.b + v * GEMM_LANES;
      const gemm_vector first = *(const gemm_vector_at *)from;
      const gemm_vector second = *(const gemm_vector_at *)(from + b_k);
      right[2 * v] = __builtin_shufflevector(first, second, 0, 4, 1, 5);
      right[2 * v + 1] = __builtin_shufflevector(first, second, 2, 6, 3, 7);
    }
    GEMM_UNROLL
    for (int i = 0; i < even; i += 2) {
      const int next = i + 1 < rows ? i + 1 : i;
      const gemm_vector words =
          gemm_take_square(left[i / 3] + i % 3 * a_row, left[next / 3] + next % 3 * a_row);
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) {
        square[i][v] = GEMM_MULTIPLY_SQUARES(words, right[2 * v], square[i][v]);
        square[i + 1][v] = GEMM_MULTIPLY_SQUARES(words, right[2 * v + 1], square[i + 1][v]);
      }
    }
    GEMM_UNROLL
    for (int g = 0; 3 * g < rows; g++) left[g] += 2;
  }
  gemm_turn_squares(even, vectors, square, all);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = all[i][v];
  }
}

#endif
