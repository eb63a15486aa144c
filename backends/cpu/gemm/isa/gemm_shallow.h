/* SPDX-License-Identifier: MIT */
/* Products of short k, for example outer products: writing C takes longer than the multiplications.
 *
 * A register tile starts and ends for so few steps of k. So here all of B's rows stay in registers
 * for a few columns, and one loop runs over all rows of A. Sums have the bits of tiles. */
#ifndef CPU_GEMM_SHALLOW_H
#define CPU_GEMM_SHALLOW_H

/* The longest k, and the longest one with two vectors of columns in registers. */
#if GEMM_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { GEMM_SHALLOW = 8, GEMM_SHALLOW_PAIR = 8 };
#else
enum { GEMM_SHALLOW = 8, GEMM_SHALLOW_PAIR = 4 };
#endif

/* True if the loops below take the block: its sums go to C as they are. */
GEMM_INLINE bool gemm_is_shallow(gemm_layout layout, const cpu_gemm_block *block) {
  return layout == GEMM_STRIDED && block->k <= GEMM_SHALLOW && block->k > 0 && block->m > 2 &&
         block->runs <= 1 && !block->slivers && !block->accumulate && !block->finish &&
         !block->requantize && !block->read && !block->written;
}

/* All rows of `vectors` vectors of columns. Both numbers are constants. */
GEMM_INLINE void gemm_shallow_columns(const int depth, const int vectors,
                                      const cpu_gemm_block *block, const GEMM_ELEMENT *b,
                                      GEMM_ELEMENT *c) {
  gemm_vector right[GEMM_SHALLOW][2];
  GEMM_UNROLL
  for (int p = 0; p < depth; p++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      right[p][v] = *(const gemm_vector_at *)(b + p * block->b_k + v * GEMM_LANES);
  }
  const GEMM_ELEMENT *a = block->a;
  const int64_t a_row = block->a_row, a_k = block->a_k, c_row = block->c_row;
  for (int64_t i = block->m; i > 0; i--, a += a_row, c += c_row) {
    gemm_vector sum[2] = {{0}};
    GEMM_UNROLL
    for (int p = 0; p < depth; p++) gemm_add_row(vectors, GEMM_REPEAT(a[p * a_k]), right[p], sum);
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(c + v * GEMM_LANES) = sum[v];
  }
}

GEMM_INLINE void gemm_shallow_panel(const int depth, const cpu_gemm_block *block,
                                    const GEMM_ELEMENT *b, GEMM_ELEMENT *c) {
  if (depth <= GEMM_SHALLOW_PAIR) {
    gemm_shallow_columns(depth, 2, block, b, c);
    return;
  }
  gemm_shallow_columns(depth, 1, block, b, c);
  gemm_shallow_columns(depth, 1, block, b + GEMM_LANES, c + GEMM_LANES);
}

/* Multiplies all rows of one panel of columns of C. */
static void gemm_shallow(const cpu_gemm_block *block, const GEMM_ELEMENT *b, GEMM_ELEMENT *c) {
  switch (block->k) {
  case 1: gemm_shallow_panel(1, block, b, c); break;
  case 2: gemm_shallow_panel(2, block, b, c); break;
  case 3: gemm_shallow_panel(3, block, b, c); break;
  case 4: gemm_shallow_panel(4, block, b, c); break;
  case 5: gemm_shallow_panel(5, block, b, c); break;
  case 6: gemm_shallow_panel(6, block, b, c); break;
  case 7: gemm_shallow_panel(7, block, b, c); break;
  default: gemm_shallow_panel(8, block, b, c); break;
  }
}

#endif
