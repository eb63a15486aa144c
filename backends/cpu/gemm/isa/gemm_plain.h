/* SPDX-License-Identifier: MIT */
/* Tiles whose sums go to C as they are. */
#ifndef CPU_GEMM_PLAIN_H
#define CPU_GEMM_PLAIN_H

#include "gemm_sums.h"

GEMM_INLINE void gemm_prefetch_target(const int rows, const int vectors,
                                      const cpu_gemm_block *tile) {
  gemm_prefetch_rows(rows, vectors, tile->c, tile->c_row * (int64_t)sizeof(GEMM_ELEMENT));
}

/* Sets the first sums of a tile's columns. */
GEMM_INLINE bool gemm_begin(const int vectors, const cpu_gemm_block *tile, gemm_vector *first) {
  (void)tile;
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) first[v] = (gemm_vector){0};
  return false;
}

GEMM_INLINE bool gemm_deliver(const int rows, const int vectors, const cpu_gemm_block *tile,
                              bool begun, gemm_sums sum) {
  (void)rows, (void)vectors, (void)tile, (void)begun, (void)sum;
  return false;
}

GEMM_INLINE void gemm_delivered(const cpu_gemm_block *tile) {
  (void)tile;
}

#endif
