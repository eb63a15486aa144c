/* SPDX-License-Identifier: MIT */
/* Local memory of the matrix multiplication on matrix units: two slabs, A's with the rows of the
 * tile below each other and B's with its columns, each a line of TILE_K elements along k. Elements
 * are what the units take: f16, bf16, or f32 cut to TF32.
 *
 * Four words at the end of each line keep the 32 lanes of a warp, which read 8 lines times 4 words
 * at once, off each other's banks, and lines at multiples of 16 bytes. */
//@ gemm_matrix
#define WARPS_N    (TILE_N / WARP_N)
#define WARPS_M    (TILE_M / WARP_M)
#define GROUP      (32 * WARPS_M * WARPS_N)
#define PER_WORD   ((int)(4 / sizeof(MATRIX_TYPE)))
#define PITCH_A    (TILE_K + 4 * PER_WORD)
#define PITCH_B    PITCH_A
#define LINE_WORDS (TILE_K / PER_WORD)

/* What an item holds of the warp's WARP_M × WARP_N sums: four of each 16 × 8 block. */
#define ITEM_M (WARP_M / 16)
#define ITEM_N (WARP_N / 8 * 4)

#define IS_ALIGNED(from, step, vector, type)                                                       \
  ((size_t)(from) % ((vector) * sizeof(type)) == 0 && (step) % (vector) == 0)

#if defined(__CUDACC__)
typedef vector_of<SUM, 4> SLAB;
#define NO_UNROLL _Pragma("unroll 1")
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[4];
} SLAB;
#define NO_UNROLL
#endif

/* The end of a loop along k: each warp multiplies its WARP_M lines of A with its WARP_N lines of B,
 * eight words of them at a time, in blocks of 16 × 8 as the units take them. Lane l holds, of each
 * block of A, the words l % 4 and l % 4 + 4 of the lines l / 4 and l / 4 + 8; of a block of B, the
 * same words of line l / 4; and of the sums, rows l / 4 and l / 4 + 8, columns 2 · (l % 4) and the
 * next. */
//@ gemm_matrix_products
UNROLL for (int word = 0; word < LINE_WORDS; word += 8) {
  u32 of_a[ITEM_M][4], of_b[WARP_N / 8][2];
  UNROLL for (int i = 0; i < ITEM_M; i++) {
    LOCAL const MATRIX_TYPE *at =
        slab_a + (warp_row + 16 * i + line) * PITCH_A + (word + quad) * PER_WORD;
    of_a[i][0] = LOAD_WORD(at);
    of_a[i][1] = LOAD_WORD(at + 8 * PITCH_A);
    of_a[i][2] = LOAD_WORD(at + 4 * PER_WORD);
    of_a[i][3] = LOAD_WORD(at + 8 * PITCH_A + 4 * PER_WORD);
  }
  UNROLL for (int j = 0; j < WARP_N / 8; j++) {
    LOCAL const MATRIX_TYPE *at =
        slab_b + (warp_column + 8 * j + line) * PITCH_B + (word + quad) * PER_WORD;
    of_b[j][0] = LOAD_WORD(at);
    of_b[j][1] = LOAD_WORD(at + 4 * PER_WORD);
  }
  UNROLL for (int i = 0; i < ITEM_M; i++) {
    UNROLL for (int j = 0; j < WARP_N / 8; j++) {
      MATRIX_MULTIPLY(sum[i] + 4 * j, of_a[i], of_b[j]);
    }
  }
}
BARRIER();
}
