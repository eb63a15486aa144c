/* SPDX-License-Identifier: MIT */
/* Where streams (gemm_stream.h, gemm_stream_bf16.h) add their products. */
#ifndef CPU_GEMM_STREAM_PARTS_H
#define CPU_GEMM_STREAM_PARTS_H

#include <string.h>

/* The sums of one block of k stay separate, in the L1 cache, and are then added to the sums before
 * them. One running f32 sum over a long k would lose the digits of the last terms. */
enum { GEMM_PART_SUMS = GEMM_STREAM_PARTS ? 16 << 10 : sizeof(GEMM_ELEMENT) }; /* bytes */

GEMM_INLINE bool gemm_stream_apart(const cpu_gemm_block *block, int64_t columns) {
  return GEMM_STREAM_PARTS && block->accumulate && !block->continues &&
         (uint64_t)(block->m * columns) * sizeof(GEMM_ELEMENT) <= GEMM_PART_SUMS;
}

/* Returns the start of the sums of some columns, and their row stride in `*row`: either zeros in
 * `part`, or C. */
GEMM_INLINE GEMM_ELEMENT *gemm_stream_begin(const cpu_gemm_block *block, GEMM_ELEMENT *c,
                                            int64_t columns, GEMM_ELEMENT *part, int64_t *row) {
  const bool apart = gemm_stream_apart(block, columns);
  GEMM_ELEMENT *to = apart ? part : c;
  *row = apart ? columns : block->c_row;
  for (int64_t i = 0; i < block->m && (apart || !block->accumulate); i++)
    memset(to + i * *row, 0, (size_t)columns * sizeof *to);
  return to;
}

GEMM_INLINE void gemm_stream_end(const cpu_gemm_block *block, GEMM_ELEMENT *c, int64_t columns,
                                 const GEMM_ELEMENT *part) {
  for (int64_t i = 0; i < block->m && gemm_stream_apart(block, columns); i++)
    for (int64_t j = 0; j < columns; j++) c[i * block->c_row + j] += part[i * columns + j];
}

#endif
