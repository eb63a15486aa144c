/* SPDX-License-Identifier: MIT */
/* Local memory for matrix multiplication on matrix units. There are two slabs: A's with the rows of
 * the tile, B's with its columns. Elements have the units' type: f16, bf16, f64, or f32 cut to TF32
 * (pipelines keep whole f32). A slab's lines follow the operand's order in memory: along k, a line
 * for each row or column; or across, a line for each k.
 *
 * Padding of four words ends each line (eight for TF32 and f64 with a line for each k). It puts the
 * lanes' simultaneous reads on different banks and keeps lines at multiples of 16 bytes. Lines
 * along k of a pipeline have no padding. */
//@ gemm_matrix
#define WARPS_N  (TILE_N / WARP_N)
#define WARPS_M  (TILE_M / WARP_M)
#define GROUP    (32 * WARPS_M * WARPS_N)
#define PER_WORD (MATRIX_BYTES == 2 ? 2 : 1) /* elements of k in a fragment's word */

/* An item's part of the warp's WARP_M × WARP_N sums: four of each 16 × 8 block. */
#define ITEM_M (WARP_M / 16)
#define ITEM_N (WARP_N / 8 * 4)

/* STAGED_PITCH is the row stride of sums that are staged in local memory. BLOCK_ROW is the first of
 * the tile's 16 rows in block i of the warps at row position `place`. */
#define STAGED_PITCH        (WARP_N + 8)
#define BLOCK_ROW(i, place) ((place)*WARP_M + (i)*16)

#if defined(__CUDACC__)
typedef vector_of<SUM, 4> SLAB;
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[4];
} SLAB;
#endif

/* BLOCK_LOAD loads a block of one operand in the units' layout: 16 lines of the tile and eight
 * words of k. Lane l gets the words l % 4 (and l % 4 + 4) of the lines l / 4 (and l / 4 + 8); for A
 * the two lines of a word come first, for B the two words of a line. An f64 counts as a word here.
 * BLOCK_AT is an element's place in a slab. MATRIX_ROUND is for slabs whose words still need
 * rounding. Pasted once for A and once for B. */
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

/* The end of a loop along k: each warp multiplies its WARP_M lines of A by its WARP_N lines of B,
 * eight words at a time, in blocks of 16 × 8. Lane l holds sums of rows l / 4 and l / 4 + 8, and of
 * columns 2 · (l % 4) and the next. */
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
