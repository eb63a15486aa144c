/* SPDX-License-Identifier: MIT */
/* Local memory of the matrix multiplication on matrix units: two slabs, A's with the rows of the
 * tile and B's with its columns. Elements are what the units take: f16, bf16, f64, or f32 cut to
 * TF32, which pipelines keep whole. A slab's lines go the way in which the operand lies in memory:
 * along k, a line for each row or column; or along these, a line for each k.
 *
 * Four words at the end of each line (eight, of TF32 and f64 with a line for each k) keep what the
 * lanes of a warp read at once on different banks, and lines at multiples of 16 bytes. Lines along
 * k of a pipeline do without. */
//@ gemm_matrix
#define WARPS_N  (TILE_N / WARP_N)
#define WARPS_M  (TILE_M / WARP_M)
#define GROUP    (32 * WARPS_M * WARPS_N)
#define PER_WORD (MATRIX_BYTES == 2 ? 2 : 1) /* elements of k in a fragment's word */

/* What an item holds of the warp's WARP_M × WARP_N sums: four of each 16 × 8 block. */
#define ITEM_M (WARP_M / 16)
#define ITEM_N (WARP_N / 8 * 4)

/* Sums from a row to the next, where they are in local memory to be stored; and the first of the 16
 * rows of the tile that items of the warps in this place, from above, hold as their block i. */
#define STAGED_PITCH        (WARP_N + 8)
#define BLOCK_ROW(i, place) ((place)*WARP_M + (i)*16)

#if defined(__CUDACC__)
typedef vector_of<SUM, 4> SLAB;
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[4];
} SLAB;
#endif

/* BLOCK_LOAD reads a block of one operand, 16 lines of the tile and eight words of k, as the units
 * take them. Lane l holds the words l % 4 (and l % 4 + 4) of the lines l / 4 (and l / 4 + 8); of A
 * first the two lines of a word, of B first the two words of a line. An f64 is a word here.
 * BLOCK_AT says where in a slab an element of a line is. MATRIX_ROUND is for slabs whose words are
 * not yet what the units take. Pasted once for A and once for B. */
//@ gemm_matrix_block
DEVICE void BLOCK_LOAD(FRAGMENT *to, LOCAL const MATRIX_TYPE *slab, int outer, int k, int lane) {
  const int part = lane / 8, more_outer = BLOCK_IS_A ? part % 2 * 8 : part / 2 * 8;
  const int more_k = (BLOCK_IS_A ? part / 2 : part % 2) * 4 * PER_WORD;
#if BLOCK_ALONG_K && MATRIX_BYTES < 8
  LOAD_BLOCKS(to, slab + BLOCK_AT(outer + more_outer + lane % 8, k + more_k));
#elif !BLOCK_ALONG_K && MATRIX_BYTES == 2
  LOAD_BLOCKS_ACROSS(to, slab + BLOCK_AT(k + more_k + lane % 8, outer + more_outer));
#else
  (void)more_outer, (void)more_k;
  UNROLL for (int i = 0; i < 4; i++) {
    const int at_outer = outer + lane / 4 + (BLOCK_IS_A ? i % 2 : i / 2) * 8;
    const int at_k = k + lane % 4 + (BLOCK_IS_A ? i / 2 : i % 2) * 4;
    to[i] = slab[BLOCK_ALONG_K ? BLOCK_AT(at_outer, at_k) : BLOCK_AT(at_k, at_outer)];
  }
#endif
#ifdef MATRIX_ROUND
  UNROLL for (int i = 0; i < 4; i++) to[i] = MATRIX_ROUND(to[i]);
#endif
}

/* The end of a loop along k: each warp multiplies its WARP_M lines of A with its WARP_N lines of B,
 * eight words of them at a time, in blocks of 16 × 8. Of the sums lane l holds rows l / 4 and
 * l / 4 + 8, columns 2 · (l % 4) and the next. */
//@ gemm_matrix_products
UNROLL for (int k = 0; k < TILE_K; k += 8 * PER_WORD) {
  FRAGMENT of_a[ITEM_M][4], of_b[WARP_N / 8][2];
  UNROLL for (int i = 0; i < ITEM_M; i++) block_a(of_a[i], slab_a, warp_row + 16 * i, k, item % 32);
  UNROLL for (int j = 0; j < WARP_N / 8; j += 2) {
    block_b(of_b[j], slab_b, warp_column + 8 * j, k, item % 32);
  }
  UNROLL for (int i = 0; i < ITEM_M; i++) {
    UNROLL for (int j = 0; j < WARP_N / 8; j++) {
      MATRIX_MULTIPLY(sum[i] + 4 * j, of_a[i], of_b[j]);
    }
  }
}
BARRIER();
}
