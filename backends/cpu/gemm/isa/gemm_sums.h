/* SPDX-License-Identifier: MIT */
/* Operations on all sums of a tile. Part of gemm_tile.c. */
#ifndef CPU_GEMM_SUMS_H
#define CPU_GEMM_SUMS_H

typedef gemm_vector gemm_sums[GEMM_ROWS][GEMM_MAX_VECTORS];

GEMM_INLINE void gemm_clear(const int rows, const int vectors, gemm_sums sum) {
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = (gemm_vector){0};
  }
}

GEMM_INLINE void gemm_add_sums(const int rows, const int vectors, gemm_sums to, gemm_sums from) {
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) to[i][v] += from[i][v];
  }
}

GEMM_INLINE void gemm_add_stored(const int rows, const int vectors, gemm_sums to,
                                 const GEMM_ELEMENT *c, int64_t c_row) {
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      to[i][v] += *(const gemm_vector_at *)(c + i * c_row + v * GEMM_LANES);
  }
}

#if GEMM_TERMS
/* True if any of a tile's terms is nonzero, or if the test is not worth its cost. */
GEMM_INLINE bool gemm_any(const int vectors, const gemm_vector *terms) {
#ifdef __AVX512F__
  __m512i all = (__m512i)terms[0];
  GEMM_UNROLL
  for (int v = 1; v < vectors; v++) all = _mm512_or_si512(all, (__m512i)terms[v]);
  return _mm512_test_epi32_mask(all, all) != 0;
#else
  (void)vectors, (void)terms;
  return true;
#endif
}
#endif

/* Stores the first `columns` columns of a tile that extends past the edge of C. */
GEMM_INLINE void gemm_store_edge(const int rows, const int vectors, gemm_sums sum, GEMM_ELEMENT *c,
                                 int64_t c_row, int64_t columns, bool accumulate) {
  GEMM_ELEMENT line[GEMM_MAX_VECTORS * GEMM_LANES];
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(line + v * GEMM_LANES) = sum[i][v];
    for (int64_t j = 0; j < columns; j++)
      c[i * c_row + j] = accumulate ? c[i * c_row + j] + line[j] : line[j];
  }
}

#endif
