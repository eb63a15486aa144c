/* SPDX-License-Identifier: MIT */
/* Matrix multiplication by warpgroups, which read their operands directly from local memory. It
 * uses the copies of gemm_pipeline.h. But nothing is loaded into registers, and the products of one
 * pair of slabs still run while the group waits for the next pair.
 *
 * A warpgroup has 64 rows and all columns of the tile, ITEM_M times: block i of warpgroup g has the
 * rows from 64 · (i · WARPGROUPS + g) on. README.md defines slabs; along k they have lines of 128
 * bytes.
 *
 * TF32 must be rounded and contiguous along k. Earlier launches have packed its slabs, and one item
 * copies them whole. */
//@ gemm_warpgroup
#define WARPGROUPS          (TILE_M / (64 * ITEM_M))
#define WARPS_M             (4 * WARPGROUPS)
#define WARPS_N             1
#define WARP_N              TILE_N
#define GROUP               (128 * WARPGROUPS)
#define ITEM_N              (TILE_N / 2)
#define STAGED_PITCH        (TILE_N + 8)
#define BLOCK_ROW(i, place) (((i)*WARPS_M + (place)) * 16)

#define BLOCK_BYTES    (64 * TILE_K * MATRIX_BYTES) /* 64 rows or columns in a slab */
#define STEPS          4                            /* in a line of 128 bytes along k */
#define PIECE          (16 / MATRIX_BYTES)
#define MATRIX_BITS(x) (x)

#if defined(__CUDACC__)
struct __align__(1024) SLAB {
  u32 word[256];
};
#else
typedef struct __attribute__((aligned(1024))) SLAB {
  u32 word[256];
} SLAB;
#endif

/* PACK writes one slab of an operand to global memory in the units' layout: rounded TF32, since
 * TILE_K is 32 elements. A whole group takes part. The operand's edge is outer_left lines and
 * k_left elements away; zeros follow it. Pasted once for A and once for B. */
//@ gemm_warpgroup_pack
DEVICE void PACK(GLOBAL u32 *to, GLOBAL const PACK_TYPE *PACK_IN, INDEX from, INDEX outer_step,
                 INDEX k_step, INDEX outer_left, INDEX k_left, LOCAL u32 *image, int item) {
  for (int place = item; place < PACK_SIDE * 8; place += PACK_GROUP) {
    const int line = PACK_ALONG_K ? place / 8 : place % PACK_SIDE;
    const int piece = PACK_ALONG_K ? place % 8 : place / PACK_SIDE;
    u32 word[4];
    UNROLL for (int lane = 0; lane < 4; lane++) {
      const int k = piece * 4 + lane;
      const boolean exists = line < outer_left && k < k_left;
      word[lane] = exists ? F32_TO_TF32(PACK_LOAD(from + line * outer_step + k * k_step)) : 0;
    }
    VSTORE(4, u32, image + line * 32 + (piece ^ line % 8) * 4, word);
  }
  BARRIER();
  for (int place = item; place < PACK_SIDE * 8; place += PACK_GROUP) {
    u32 word[4];
    VLOAD(4, u32, word, image + place * 4);
    VSTORE(4, u32, to + place * 4, word);
  }
  BARRIER();
}

/* Replaces gemm_pipeline_operands for prepacked slabs, which one item copies. */
//@ gemm_warpgroup_panels
#define COPY_NEXT(place)                                                                           \
  if (copied < pairs) {                                                                            \
    if (item == 0) {                                                                               \
      LOCAL MATRIX_TYPE *slab_ = ring + (place)*STAGE_ELEMENTS;                                    \
      ARRIVAL_EXPECT(arrivals + (place), STAGE_ELEMENTS * MATRIX_BYTES);                           \
      COPY_BULK(slab_, a + copied * (TILE_M * TILE_K), TILE_M * TILE_K * MATRIX_BYTES,             \
                arrivals + (place));                                                               \
      COPY_BULK(slab_ + SLAB_OF_A, b + copied * (TILE_N * TILE_K), TILE_N * TILE_K * MATRIX_BYTES, \
                arrivals + (place));                                                               \
    }                                                                                              \
    copied++;                                                                                      \
  }
const INDEX pairs = shape.pairs;
INDEX copied = 0;
GLOBAL const u32 *a = panels_a + (FIRST_A + row0 / TILE_M) * pairs * (TILE_M * TILE_K);
GLOBAL const u32 *b = panels_b + (FIRST_B + column0 / TILE_N) * pairs * (TILE_N * TILE_K);
SLABS_SHOW();
BARRIER();

/* The sums of one tile of C. At the barrier before the products of a pair, every warpgroup has
 * waited for the products of the pair before the last, so the next copy may take its place in the
 * ring. A barrier separates the start of copies by one item from the wait for them. */
//@ gemm_warpgroup_tile
#if IS_PACKED
#define PAIR_WAIT() ARRIVAL_WAIT(arrivals + stage, phase)
#else
#define PAIR_WAIT()                                                                                \
  COPIES_WAIT(STAGES - 3);                                                                         \
  SLABS_SHOW()
#endif
SUM sum[ITEM_M][ITEM_N];
UNROLL for (int i = 0; i < ITEM_M; i++) {
  UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = 0;
}
SUM_PARTS_BEGIN(ITEM_M *ITEM_N)
int free_stage = stage;
NO_UNROLL for (int first = 0; first < STAGES - 2; first++) {
  COPY_NEXT(free_stage);
  free_stage = free_stage + 1 < STAGES ? free_stage + 1 : 0;
}
#if IS_PACKED
BARRIER();
#endif
NO_UNROLL for (INDEX pair = 0; pair < pairs; pair++) {
  PAIR_WAIT();
  BARRIER();
  LOCAL const MATRIX_TYPE *slab = ring + stage * STAGE_ELEMENTS;
  const u64 of_a = SLAB_AT(slab + warpgroup * (BLOCK_BYTES / MATRIX_BYTES), BLOCK_BYTES);
  const u64 of_b = SLAB_AT(slab + SLAB_OF_A, BLOCK_BYTES);
#ifdef SUM_PART
  if (summed >= SUM_PART) {
    PRODUCTS_WAIT(0);
    UNROLL for (int i = 0; i < ITEM_M; i++) {
      PRODUCTS_KEEP(sum[i], ITEM_N);
    }
  }
#endif
  SUM_PARTS_ADD(ITEM_M *ITEM_N, TILE_SUM, TILE_K)
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
  free_stage = free_stage + 1 < STAGES ? free_stage + 1 : 0;
  stage++;
  if (stage == STAGES) {
    stage = 0;
    phase ^= 1;
  }
}
PRODUCTS_WAIT(0);
UNROLL for (int i = 0; i < ITEM_M; i++) {
  PRODUCTS_KEEP(sum[i], ITEM_N);
}
BARRIER();
SUM_PARTS_END(ITEM_M *ITEM_N, TILE_SUM)
