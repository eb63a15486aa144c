/* SPDX-License-Identifier: MIT */
/* Products of few rows with a B that is contiguous along k: squares of B are transposed in registers
 * (gemm_square.h). So each sum adds its products in the order of k, as in a register tile. */
#ifndef CPU_GEMM_STREAM_TURNED_H
#define CPU_GEMM_STREAM_TURNED_H

/* Most rows at a time, and vectors of columns: several chains of sums hide their latency. */
enum { GEMM_TURNED_ROWS = 4, GEMM_TURNED = 2, GEMM_TURNED_AHEAD = 256 / sizeof(GEMM_ELEMENT) };
typedef gemm_vector gemm_turned_sums[GEMM_TURNED_ROWS][GEMM_TURNED];

/* Adds the products of a square of B with `steps` steps of A to vector v of the sums. Constants
 * wherever this is inlined: rows, v, and steps for whole squares. */
GEMM_INLINE void gemm_add_square(const int rows, const int v, const cpu_gemm_block *block,
                                 const GEMM_ELEMENT *a, int64_t steps,
                                 const gemm_vector right[GEMM_LANES], gemm_turned_sums sum) {
  const int64_t a_row = block->a_row, a_k = block->a_k;
  GEMM_UNROLL
  for (int p = 0; p < GEMM_LANES; p++) {
    if (p >= steps) break;
    GEMM_UNROLL
    for (int i = 0; i < rows; i++)
      sum[i][v] = GEMM_MULTIPLY_ADD(a[i * a_row + p * a_k] - (gemm_vector){0}, right[p], sum[i][v]);
  }
}

/* Stores the sums of up to one vector of columns, or adds them to C. */
GEMM_INLINE void gemm_turned_store(const cpu_gemm_block *block, gemm_vector sum, GEMM_ELEMENT *c,
                                   int64_t columns) {
  GEMM_ELEMENT x[GEMM_LANES];
  if (columns >= GEMM_LANES) {
    gemm_vector_at *to = (gemm_vector_at *)c;
    *to = block->accumulate ? *to + sum : sum;
    return;
  }
  memcpy(x, &sum, sizeof x);
  for (int64_t j = 0; j < columns; j++) c[j] = block->accumulate ? c[j] + x[j] : x[j];
}

/* `rows` rows and `vectors` vectors of columns; both are constants. At the same time prefetches as
 * many columns further on: each is a new run of memory. */
GEMM_INLINE void gemm_turned_tile(const int rows, const int vectors, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c) {
  enum { LINE = 64 / sizeof(GEMM_ELEMENT) };
  const int64_t column = block->b_column;
  gemm_turned_sums sum;
  gemm_vector right[GEMM_LANES];
  int64_t p = 0;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = (gemm_vector){0};
  }
  for (; p + GEMM_LANES <= block->k; p += GEMM_LANES) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      const GEMM_ELEMENT *from = b + v * GEMM_LANES * column + p;
      const GEMM_ELEMENT *later = from + GEMM_TURNED_AHEAD;
      gemm_take_square(right, from, column);
      for (int j = p % LINE == 0 ? 0 : GEMM_LANES; j < GEMM_LANES; j++, later += column)
        __builtin_prefetch(later);
      gemm_add_square(rows, v, block, a + p * block->a_k, GEMM_LANES, right, sum);
    }
  }
  if (p < block->k) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      GEMM_ELEMENT rest[GEMM_LANES * GEMM_LANES] = {0};
      for (int j = 0; j < GEMM_LANES; j++)
        memcpy(rest + j * GEMM_LANES, b + (v * GEMM_LANES + j) * column + p,
               (size_t)(block->k - p) * sizeof *rest);
      gemm_take_square(right, rest, GEMM_LANES);
      gemm_add_square(rows, v, block, a + p * block->a_k, block->k - p, right, sum);
    }
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      gemm_turned_store(block, sum[i][v], c + i * block->c_row + v * GEMM_LANES, GEMM_LANES);
  }
}

/* Up to one vector of the last columns; zeros are in place of missing ones. */
GEMM_INLINE void gemm_turned_edge(const int rows, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                  int64_t columns) {
  gemm_turned_sums sum;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) sum[i][0] = (gemm_vector){0};
  for (int64_t p = 0; p < block->k; p += GEMM_LANES) {
    const int64_t steps = block->k - p < GEMM_LANES ? block->k - p : GEMM_LANES;
    GEMM_ELEMENT some[GEMM_LANES * GEMM_LANES] = {0};
    gemm_vector right[GEMM_LANES];
    for (int64_t j = 0; j < columns; j++)
      memcpy(some + j * GEMM_LANES, b + j * block->b_column + p, (size_t)steps * sizeof *some);
    gemm_take_square(right, some, GEMM_LANES);
    gemm_add_square(rows, 0, block, a + p * block->a_k, steps, right, sum);
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) gemm_turned_store(block, sum[i][0], c + i * block->c_row, columns);
}

GEMM_INLINE void gemm_turned_rows(const int rows, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, GEMM_ELEMENT *c) {
  const int vectors = GEMM_TURNED;
  const GEMM_ELEMENT *b = block->b;
  int64_t j = 0;
  for (; j + vectors * GEMM_LANES <= block->n; j += vectors * GEMM_LANES)
    gemm_turned_tile(rows, vectors, block, a, b + j * block->b_column, c + j);
  for (; j < block->n; j += GEMM_LANES)
    gemm_turned_edge(rows, block, a, b + j * block->b_column, c + j,
                     block->n - j < GEMM_LANES ? block->n - j : GEMM_LANES);
}

static void gemm_stream_turned(const cpu_gemm_block *block) {
  for (int64_t i = 0; i < block->m; i += GEMM_TURNED_ROWS) {
    const GEMM_ELEMENT *a = (const GEMM_ELEMENT *)block->a + i * block->a_row;
    GEMM_ELEMENT *c = (GEMM_ELEMENT *)block->c + i * block->c_row;
    switch (block->m - i) {
    case 1: gemm_turned_rows(1, block, a, c); break;
    case 2: gemm_turned_rows(2, block, a, c); break;
    case 3: gemm_turned_rows(3, block, a, c); break;
    default: gemm_turned_rows(4, block, a, c); break;
    }
  }
}

#endif
