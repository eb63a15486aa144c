/* SPDX-License-Identifier: MIT */
/* Operations on all sums of a tile. */
#ifndef CPU_GEMM_SUMS_H
#define CPU_GEMM_SUMS_H

#include <string.h>

typedef gemm_vector gemm_sums[GEMM_ROWS][GEMM_MAX_VECTORS];

/* Parts of k of GEMM_PART elements are summed separately if GEMM_FOLDS is 1 and k is longer than
 * GEMM_WHOLE. */
enum { GEMM_PART = CPU_GEMM_PART, GEMM_WHOLE = CPU_GEMM_WHOLE };

/* The length of k in all runs. */
GEMM_INLINE int64_t gemm_length(const cpu_gemm_block *block) {
  return block->k * (block->runs > 1 ? block->runs : 1);
}

GEMM_INLINE bool gemm_has_parts(const cpu_gemm_block *block) {
  return GEMM_FOLDS && gemm_length(block) > GEMM_WHOLE;
}

/* Prefetches rows of a tile's output. */
GEMM_INLINE void gemm_prefetch_rows(const int rows, const int vectors, const void *to,
                                    int64_t row_bytes) {
  const char *line = to;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    __builtin_prefetch(line + i * row_bytes, 1);
    if (GEMM_VECTOR_BYTES == 64 && vectors > 1 && GEMM_TERMS == 0)
      __builtin_prefetch(line + i * row_bytes + GEMM_VECTOR_BYTES, 1);
  }
}

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

/* Stores `count` sums, a constant, or adds them. */
GEMM_INLINE void gemm_store_few(const int count, bool adds, const GEMM_ELEMENT *restrict x,
                                GEMM_ELEMENT *restrict c) {
  GEMM_UNROLL
  for (int j = 0; j < count; j++) c[j] = adds ? c[j] + x[j] : x[j];
}

/* Stores the sums of a tile that extends past the edge of C, or adds them to C. They are at `x`, in
 * rows `x_row` apart. One code serves all shapes of tiles. */
static __attribute__((noinline)) void gemm_store_edge(const cpu_gemm_block *tile,
                                                      const GEMM_ELEMENT *x, int64_t x_row) {
  enum { FEW = 4 };
  const bool adds = tile->accumulate;
  GEMM_ELEMENT *c = tile->c;
  for (int64_t i = tile->m; i > 0; i--, x += x_row, c += tile->c_row) {
    int64_t j = 0;
    for (; j + FEW <= tile->n; j += FEW) {
      if (adds)
        gemm_store_few(FEW, true, x + j, c + j);
      else
        gemm_store_few(FEW, false, x + j, c + j);
    }
    for (; j < tile->n; j++) gemm_store_few(1, adds, x + j, c + j);
  }
}

/* Moves the sums of a tile to memory. */
GEMM_INLINE void gemm_lay_down(const int rows, const int vectors, gemm_sums sum, gemm_vector *x) {
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) x[i * vectors + v] = sum[i][v];
  }
}

/* The sum of a vector's lanes, by halves. */
GEMM_INLINE GEMM_ELEMENT gemm_sum_lanes(const gemm_vector *vector) {
  GEMM_ELEMENT lane[GEMM_LANES];
  memcpy(lane, vector, sizeof lane);
  GEMM_UNROLL
  for (int half = GEMM_LANES / 2; half > 0; half /= 2) {
    GEMM_UNROLL
    for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  }
  return lane[0];
}

#endif
