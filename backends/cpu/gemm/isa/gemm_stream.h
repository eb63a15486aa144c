/* SPDX-License-Identifier: MIT */
/* Products of few rows, which do not repay packing B: adds the rows of a large B in memory order. */
#ifndef CPU_GEMM_STREAM_H
#define CPU_GEMM_STREAM_H

#ifdef GEMM_INTEGER
#define GEMM_STREAM_PARTS 0 /* exact in any order */
#else
#define GEMM_STREAM_PARTS 1
#endif
#include "gemm_stream_parts.h"

/* Adds the products of `rows` rows of A and `depth` rows of B to C, from column 0 on; both numbers
 * are constants. Prefetches B from row `ahead` on at the same time. */
GEMM_INLINE void gemm_stream_rows(const int rows, const int depth, const cpu_gemm_block *block,
                                  const GEMM_ELEMENT *a, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                  int64_t columns, int64_t ahead) {
  gemm_vector left[4][4];
  const int64_t b_k = block->b_k, c_row = block->c_row;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int p = 0; p < depth; p++)
      left[i][p] = a[i * block->a_row + p * block->a_k] - (gemm_vector){0};
  }
  int64_t j = 0;
  for (; j + GEMM_LANES <= columns; j += GEMM_LANES) {
    gemm_vector right[4];
    GEMM_UNROLL
    for (int p = 0; p < depth; p++) {
      right[p] = *(const gemm_vector_at *)(b + p * b_k + j);
      __builtin_prefetch(b + (ahead + p) * b_k + j);
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      gemm_vector_at *to = (gemm_vector_at *)(c + i * c_row + j);
      gemm_vector sum = *to;
      GEMM_UNROLL
      for (int p = 0; p < depth; p++) sum = GEMM_MULTIPLY_ADD(left[i][p], right[p], sum);
      *to = sum;
    }
  }
  for (; j < columns; j++) { /* with the rounding of the vectors */
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int p = 0; p < depth; p++) {
        const gemm_vector right = {b[p * b_k + j]}, sum = {c[i * c_row + j]};
        c[i * c_row + j] = GEMM_MULTIPLY_ADD(left[i][p], right, sum)[0];
      }
    }
  }
}

/* Prefetch distance in elements of B. */
enum { GEMM_AHEAD = 8192 / sizeof(GEMM_ELEMENT) };

/* Processes rows of B one at a time: one run of memory reaches full bandwidth, several interleaved
 * runs do not. */
GEMM_INLINE void gemm_stream_depth(const int rows, const cpu_gemm_block *block, int64_t first,
                                   int64_t depth, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                                   int64_t columns) {
  const GEMM_ELEMENT *a = (const GEMM_ELEMENT *)block->a + first * block->a_row;
  GEMM_ELEMENT *to = c + first * block->c_row;
  const int64_t ahead = 1 + GEMM_AHEAD / columns;
  for (int64_t p = 0; p < depth; p++)
    gemm_stream_rows(rows, 1, block, a + p * block->a_k, b + p * block->b_k, to, columns, ahead);
}

#if GEMM_STREAM_PARTS
#include "gemm_stream_turned.h"
#endif

static void gemm_stream(const cpu_gemm_block *block) {
#if GEMM_STREAM_PARTS
  if (block->b_k == 1 && block->b_column != 1) {
    gemm_stream_turned(block);
    return;
  }
#endif
  enum { CLOSE = 16 << 10, DEPTH = 4, LEAST_WIDTH = 1024 / sizeof(GEMM_ELEMENT) };
  GEMM_ELEMENT sums[GEMM_PART_SUMS / sizeof(GEMM_ELEMENT)]
      __attribute__((aligned(GEMM_VECTOR_BYTES)));
  const int64_t wanted = CLOSE / (block->m * (int64_t)sizeof(GEMM_ELEMENT));
  const int64_t width = (wanted < LEAST_WIDTH ? LEAST_WIDTH : wanted) / GEMM_LANES * GEMM_LANES;
  for (int64_t j = 0; j < block->n; j += width) {
    const int64_t columns = block->n - j < width ? block->n - j : width;
    cpu_gemm_block part = *block;
    GEMM_ELEMENT *c =
        gemm_stream_begin(block, (GEMM_ELEMENT *)block->c + j, columns, sums, &part.c_row);
    for (int64_t p = 0; p < block->k; p += DEPTH) {
      const int64_t depth = block->k - p < DEPTH ? block->k - p : DEPTH;
      part.a = (const GEMM_ELEMENT *)block->a + p * block->a_k;
      const GEMM_ELEMENT *b = (const GEMM_ELEMENT *)block->b + p * block->b_k + j;
      for (int64_t i = 0; i < block->m; i += 4) {
        switch (block->m - i) {
        case 1: gemm_stream_depth(1, &part, i, depth, b, c, columns); break;
        case 2: gemm_stream_depth(2, &part, i, depth, b, c, columns); break;
        case 3: gemm_stream_depth(3, &part, i, depth, b, c, columns); break;
        default: gemm_stream_depth(4, &part, i, depth, b, c, columns); break;
        }
      }
    }
    gemm_stream_end(block, (GEMM_ELEMENT *)block->c + j, columns, sums);
  }
}

#endif
