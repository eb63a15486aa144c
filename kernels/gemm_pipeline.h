/* SPDX-License-Identifier: MIT */
/* Matrix multiplication on matrix units with asynchronous copies of the operands to local memory,
 * which bypass registers. STAGES pairs of slabs form a ring: one pair is multiplied while the pairs
 * of the next steps along k are copied.
 *
 * Slabs hold elements as in memory (TF32 factors as whole f32), in pieces of 16 bytes. Lines for
 * each k are padded. Lines along k are not: BLOCK_AT permutes the pieces of each line differently,
 * so that a warp's simultaneous reads hit different banks. */
//@ gemm_pipeline
#define PIECE (16 / MATRIX_BYTES)
#define STEPS (TILE_K / (8 * PER_WORD))

#ifdef MATRIX_ROUND
#define MATRIX_BITS(x) as_u32(x)
#else
#define MATRIX_BITS(x) (x)
#endif

/* BLOCK_COPY copies an item's share of a slab. `step` is the distance between lines. lines_left and
 * left count the lines, and the elements in each, before the operand's edge; zeros follow the edge.
 * `whole`: all of the slab exists and is aligned. Pasted once for A and once for B. */
//@ gemm_pipeline_copy
#define LINE_PIECES ((BLOCK_ALONG_K ? TILE_K : BLOCK_SIDE) / PIECE)
#define COPIES      (BLOCK_SIDE * TILE_K / PIECE / GROUP)
#define COPY_PLACE                                                                                 \
  const int place = item + copy * GROUP;                                                           \
  const int line = place / LINE_PIECES, first = place % LINE_PIECES * PIECE;                       \
  GLOBAL const BLOCK_TYPE *at = from + line * step + first;                                        \
  LOCAL MATRIX_TYPE *to = slab + BLOCK_AT(line, first);
DEVICE void BLOCK_COPY(LOCAL MATRIX_TYPE *slab, GLOBAL const BLOCK_TYPE *from, INDEX step,
                       boolean whole, boolean aligned, int item, INDEX lines_left, INDEX left) {
  if (whole) {
    UNROLL for (int copy = 0; copy < COPIES; copy++) {
      COPY_PLACE
      COPY_PIECE(to, at);
    }
    return;
  }
  NO_UNROLL for (int copy = 0; copy < COPIES; copy++) {
    COPY_PLACE
    const INDEX rest = line < lines_left && first < left ? left - first : 0;
    const int count = rest < PIECE ? (int)rest : PIECE;
    if (aligned) {
      COPY_PART(to, count > 0 ? at : from, count * (int)sizeof(BLOCK_TYPE));
    } else {
      MATRIX_TYPE value[PIECE];
      UNROLL for (int lane = 0; lane < PIECE; lane++) {
        value[lane] = lane < count ? MATRIX_BITS(at[lane]) : (MATRIX_TYPE)0;
      }
      VSTORE(PIECE, MATRIX_TYPE, to, value);
    }
  }
}
#undef COPY_PLACE
#undef COPIES
#undef LINE_PIECES

/* Sets the starts of a tile's operands, and defines COPY_NEXT. It starts copying the next pair of
 * slabs, or nothing after the last. Copies are ended for every pair in either case. */
//@ gemm_pipeline_operands
#define COPY_NEXT(stage)                                                                           \
  if (k_left > 0) {                                                                                \
    LOCAL MATRIX_TYPE *slab_ = ring + (stage)*STAGE_ELEMENTS;                                      \
    copy_a(slab_, a, A_STEP, whole_a &&k_left >= TILE_K, aligned_a, item,                          \
           A_ALONG_K ? shape.m - row0 : k_left, A_ALONG_K ? k_left : shape.m - row0);              \
    copy_b(slab_ + SLAB_OF_A, b, B_STEP, whole_b && k_left >= TILE_K, aligned_b, item,             \
           B_ALONG_K ? shape.n - column0 : k_left, B_ALONG_K ? k_left : shape.n - column0);        \
    a += TILE_K * A_K;                                                                             \
    b += TILE_K * B_K;                                                                             \
    k_left -= TILE_K;                                                                              \
  }                                                                                                \
  COPIES_END()
GLOBAL const A_TYPE *a = IN_A + batch_a + row0 * A_ROW + k_begin * A_K;
GLOBAL const B_TYPE *b = IN_B + batch_b + column0 * B_COLUMN + k_begin * B_K;
const boolean aligned_a = IS_ALIGNED(a, A_STEP, PIECE, A_TYPE);
const boolean aligned_b = IS_ALIGNED(b, B_STEP, PIECE, B_TYPE);
const boolean whole_a = aligned_a && row0 + TILE_M <= shape.m;
const boolean whole_b = aligned_b && column0 + TILE_N <= shape.n;
INDEX k_left = k_end - k_begin;
const INDEX pairs = (k_left + TILE_K - 1) / TILE_K;

/* The sums of one tile of C, pasted between the loop over batches and the epilogue.
 *
 * Before the last step of a pair of slabs, all items have read all of it. So after the pair's only
 * barrier, its place in the ring is free for the pair STAGES later. Each step multiplies fragments
 * that the previous step loaded. After the last pair, empty copies keep the number of pending
 * copies constant, and the last load is not used. */
//@ gemm_pipeline_tile
#define LOAD_STEP(into, stage, step)                                                               \
  do {                                                                                             \
    LOCAL const MATRIX_TYPE *slab_ = ring + (stage)*STAGE_ELEMENTS;                                \
    UNROLL for (int i = 0; i < ITEM_M; i++) {                                                      \
      block_a(of_a[into][i], slab_, warp_row + 16 * i, (step)*8 * PER_WORD, item % 32);            \
    }                                                                                              \
    UNROLL for (int j = 0; j < WARP_N / 8; j += 2) {                                               \
      block_b(of_b[into][j], slab_ + SLAB_OF_A, warp_column + 8 * j, (step)*8 * PER_WORD,          \
              item % 32);                                                                          \
    }                                                                                              \
  } while (0)
SUM sum[ITEM_M][ITEM_N];
FRAGMENT of_a[2][ITEM_M][4], of_b[2][WARP_N / 8][2];
UNROLL for (int i = 0; i < ITEM_M; i++) {
  UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = 0;
}
SUM_PARTS_BEGIN(ITEM_M *ITEM_N)
NO_UNROLL for (int first = 0; first < STAGES; first++) {
  COPY_NEXT(first);
}
COPIES_WAIT(STAGES - 1);
BARRIER();
LOAD_STEP(0, 0, 0);
int stage = 0;
NO_UNROLL for (INDEX pair = 0; pair < pairs; pair++) {
  SUM_PARTS_ADD(ITEM_M *ITEM_N, TILE_SUM, TILE_K)
  const int next = stage + 1 < STAGES ? stage + 1 : 0;
  UNROLL for (int step = 0; step < STEPS; step++) {
    const boolean last = step == STEPS - 1;
    if (last) {
      COPIES_WAIT(STAGES - 2);
      BARRIER();
    }
    LOAD_STEP((step + 1) % 2, last ? next : stage, (step + 1) % STEPS);
    if (last) {
      COPY_NEXT(stage);
    }
    UNROLL for (int i = 0; i < ITEM_M; i++) {
      UNROLL for (int j = 0; j < WARP_N / 8; j++) {
        MATRIX_MULTIPLY(sum[i] + 4 * j, of_a[step % 2][i], of_b[step % 2][j]);
      }
    }
  }
  stage = next;
}
BARRIER();
SUM_PARTS_END(ITEM_M *ITEM_N, TILE_SUM)
