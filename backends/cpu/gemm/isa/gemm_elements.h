/* SPDX-License-Identifier: MIT */
/* The rest of a family whose operands are elements of the computing type: few rows, and packing. */
#ifndef CPU_GEMM_ELEMENTS_H
#define CPU_GEMM_ELEMENTS_H

typedef GEMM_ELEMENT gemm_dot_element;

GEMM_INLINE GEMM_ELEMENT gemm_dot_rest(const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                       const gemm_dot_element *b, int64_t p, GEMM_ELEMENT total) {
  for (; p < block->k; p++) total += a[p] * b[p];
  return total;
}

#include "gemm_dot.h"
#include "gemm_pack.h"
#include "gemm_stream.h"

#define GEMM_ELEMENTS_TYPE                                                                         \
  .rows = GEMM_ROWS, .columns = GEMM_COLUMNS, .lanes = GEMM_LANES, .abreast = GEMM_MOST_ABREAST,   \
  .group = 1, .folds = GEMM_FOLDS, .multiply = gemm_multiply, .convolve = gemm_convolve,           \
  .dot = gemm_dot, .stream = gemm_stream, .pack_rows = gemm_pack_rows,                             \
  .pack_panels = gemm_pack_panels, .pack_slivers = GEMM_ROWS > 6 ? gemm_pack_slivers : NULL,       \
  .pack_pieces = gemm_pack_pieces, .sum = gemm_sum

#endif
