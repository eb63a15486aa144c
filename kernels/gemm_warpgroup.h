/* SPDX-License-Identifier: MIT */
/* The matrix multiplication by warpgroups, which multiply straight from local memory: as
 * gemm_pipeline.h, of which the copies are, but nothing is loaded into registers, and products of a
 * pair of slabs are still under way while the next pair is waited for.
 *
 * A warpgroup has 64 rows and all columns of the tile, ITEM_M times: block i of warpgroup g has the
 * rows from 64 · (i · WARPGROUPS + g). Slabs are those of README.md, with TILE_K = 64 elements. */
//@ gemm_warpgroup
#define WARPGROUPS          (TILE_M / (64 * ITEM_M))
#define WARPS_M             (4 * WARPGROUPS)
#define WARPS_N             1
#define WARP_N              TILE_N
#define GROUP               (128 * WARPGROUPS)
#define ITEM_N              (TILE_N / 2)
#define STAGED_PITCH        (TILE_N + 8)
#define BLOCK_ROW(i, place) (((i)*WARPS_M + (place)) * 16)

#define BLOCK_BYTES (64 * TILE_K * MATRIX_BYTES) /* of 64 rows or columns in a slab */
#define PER_WORD    (MATRIX_BYTES == 2 ? 2 : 1)

#define IS_ALIGNED(from, step, vector, type)                                                       \
  ((size_t)(from) % ((vector) * sizeof(type)) == 0 && (step) % (vector) == 0)

#if defined(__CUDACC__)
struct __align__(1024) SLAB {
  u32 word[256];
};
#define NO_UNROLL _Pragma("unroll 1")
#else
typedef struct __attribute__((aligned(1024))) SLAB {
  u32 word[256];
} SLAB;
#define NO_UNROLL
#endif

/* The sums of one tile of C. At the barrier before the products of a pair, every warpgroup has
 * waited for the products of the pair before the last: what is copied next takes that one's place
 * in the ring. */
//@ gemm_warpgroup_tile
SUM sum[ITEM_M][ITEM_N];
UNROLL for (int i = 0; i < ITEM_M; i++) {
  UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = 0;
}
NO_UNROLL for (int first = 0; first < STAGES - 2; first++) {
  COPY_NEXT(first);
}
int stage = 0, free_stage = STAGES - 2;
NO_UNROLL for (INDEX pair = 0; pair < pairs; pair++) {
  COPIES_WAIT(STAGES - 3);
  SLABS_SHOW();
  BARRIER();
  LOCAL const MATRIX_TYPE *slab = ring + stage * STAGE_ELEMENTS;
  const u64 of_a = SLAB_AT(slab + warpgroup * (BLOCK_BYTES / MATRIX_BYTES), BLOCK_BYTES);
  const u64 of_b = SLAB_AT(slab + SLAB_OF_A, BLOCK_BYTES);
  PRODUCTS_BEGIN();
  UNROLL for (int step = 0; step < STEPS; step++) {
    UNROLL for (int i = 0; i < ITEM_M; i++) {
      multiply_slabs(
          sum[i], SLAB_FORTH(of_a, i * WARPGROUPS * BLOCK_BYTES + step * (A_ALONG_K ? 32 : 2048)),
          SLAB_FORTH(of_b, step * (B_ALONG_K ? 32 : 2048)), 1);
    }
  }
  PRODUCTS_END();
  COPY_NEXT(free_stage);
  PRODUCTS_WAIT(1);
  stage = stage + 1 < STAGES ? stage + 1 : 0;
  free_stage = free_stage + 1 < STAGES ? free_stage + 1 : 0;
}
PRODUCTS_WAIT(0);
UNROLL for (int i = 0; i < ITEM_M; i++) {
  PRODUCTS_KEEP(sum[i], ITEM_N);
}
BARRIER();
