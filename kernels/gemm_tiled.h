/* SPDX-License-Identifier: MIT */
/* Local memory for the tiled matrix multiplication: two slabs of TILE_K rows each. A's slab has the
 * rows of the tile side by side, B's its columns. Both are read in pieces of up to 16 bytes.
 *
 * An item's rows are not contiguous: its next piece comes after one piece of every other item. So
 * neighbouring items read neighbouring pieces, without bank conflicts. The four elements of padding
 * at the end of a slab's row keep transposing stores off each other's banks. */
//@ gemm_local
#define ITEMS_M (TILE_M / ITEM_M)
#define ITEMS_N (TILE_N / ITEM_N)
#define GROUP   (ITEMS_M * ITEMS_N)
#define PITCH_A (TILE_M + 4)
#define PITCH_B (TILE_N + 4)

#define TILED_ROW(i) STAGED_ROW(i, item_row)
#define TILED_COLUMN(j)                                                                            \
  ((j) / COLUMN_PIECE * (ITEMS_N * COLUMN_PIECE) + item_column * COLUMN_PIECE + (j) % COLUMN_PIECE)

/* The row of the tile for TILED_ROW(i) of the items in line `line`. */
#define STAGED_ROW(i, line)                                                                        \
  ((i) / ROW_PIECE * (ITEMS_M * ROW_PIECE) + (line)*ROW_PIECE + (i) % ROW_PIECE)

/* LOCAL_LOAD and LOCAL_STORE move a piece of 1, 2 or 4 sums; SLAB is 16 bytes of a slab. */
#if defined(__OPENCL_VERSION__)
typedef VECTOR_PASTE(SUM_BASE, SLAB_SUMS) SLAB;
#define LOCAL_LOAD(n, array, pointer)  VECTOR_PASTE(LOCAL_LOAD_, n)(array, pointer)
#define LOCAL_STORE(n, pointer, array) VECTOR_PASTE(LOCAL_STORE_, n)(pointer, array)
#define LOCAL_LOAD_1(array, pointer)   ((array)[0] = *(pointer))
#define LOCAL_LOAD_2(array, pointer)                                                               \
  vstore2(*(LOCAL const VECTOR_PASTE(SUM_BASE, 2) *)(pointer), 0, array)
#define LOCAL_LOAD_4(array, pointer)                                                               \
  vstore4(*(LOCAL const VECTOR_PASTE(SUM_BASE, 4) *)(pointer), 0, array)
#define LOCAL_STORE_1(pointer, array) (*(pointer) = (array)[0])
#define LOCAL_STORE_2(pointer, array)                                                              \
  (*(LOCAL VECTOR_PASTE(SUM_BASE, 2) *)(pointer) = vload2(0, array))
#define LOCAL_STORE_4(pointer, array)                                                              \
  (*(LOCAL VECTOR_PASTE(SUM_BASE, 4) *)(pointer) = vload4(0, array))
#define UNROLL_SLAB _Pragma("unroll 2")
#elif defined(__CUDACC__)
typedef vector_of<SUM, SLAB_SUMS> SLAB;
#define LOCAL_LOAD(n, array, pointer)  VLOAD(n, SUM, array, pointer)
#define LOCAL_STORE(n, pointer, array) VSTORE(n, SUM, pointer, array)
#define UNROLL_SLAB                    _Pragma("unroll 2")
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[SLAB_SUMS];
} SLAB;
#define LOCAL_LOAD(n, array, pointer)  VLOAD(n, SUM, array, pointer)
#define LOCAL_STORE(n, pointer, array) VSTORE(n, SUM, pointer, array)
#define UNROLL_SLAB
#endif

/* Moves one operand into local memory. SLAB_FETCH reads an item's share of the next slab into
 * registers; SLAB_PUT writes it to the slab. Pasted once for A and once for B; "outer" is the
 * operand's dimension other than k. Neighbouring items read neighbouring memory: along k if
 * SLAB_ALONG_K, else along the outer dimension. */
//@ gemm_slab
#if SLAB_ALONG_K
#define SLAB_LINE (TILE_K / SLAB_VECTOR)
#define SLAB_PLACE                                                                                 \
  const int k = place % SLAB_LINE * SLAB_VECTOR;                                                   \
  const int outer = place / SLAB_LINE;
#else
#define SLAB_LINE (SLAB_SIDE / SLAB_VECTOR)
#define SLAB_PLACE                                                                                 \
  const int outer = place % SLAB_LINE * SLAB_VECTOR;                                               \
  const int k = place / SLAB_LINE;
#endif

/* `whole`: all of the slab exists and is aligned. Otherwise elements past outer_left or k_left
 * count as 0. */
DEVICE void SLAB_FETCH(SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], GLOBAL const SLAB_TYPE *from,
                       INDEX outer_step, INDEX k_step, boolean whole, int item, INDEX outer_left,
                       INDEX k_left) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    GLOBAL const SLAB_TYPE *at = from + outer * outer_step + k * k_step;
    if (whole) {
      VLOAD(SLAB_VECTOR, SLAB_TYPE, held[load], at);
    } else {
      UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
#if SLAB_ALONG_K
        const boolean exists = outer < outer_left && k + lane < k_left;
        held[load][lane] = exists ? at[lane * k_step] : (SLAB_TYPE)0;
#else
        const boolean exists = outer + lane < outer_left && k < k_left;
        held[load][lane] = exists ? at[lane * outer_step] : (SLAB_TYPE)0;
#endif
      }
    }
  }
}

#ifdef MATRIX_TYPE
DEVICE void SLAB_PUT(LOCAL MATRIX_TYPE *slab, SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], int item) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    MATRIX_TYPE value[SLAB_VECTOR];
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      value[lane] = MATRIX_ELEMENT(SLAB_DECODE(held[load], lane));
    }
#if SLAB_ALONG_K
    VSTORE(SLAB_VECTOR, MATRIX_TYPE, slab + outer * SLAB_PITCH + k, value);
#else
    VSTORE(SLAB_VECTOR, MATRIX_TYPE, slab + k * SLAB_PITCH + outer, value);
#endif
  }
}
#else
DEVICE void SLAB_PUT(LOCAL SUM *slab, SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], int item) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    SUM value[SLAB_VECTOR];
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      value[lane] = SLAB_DECODE(held[load], lane);
    }
#if SLAB_ALONG_K
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      slab[(k + lane) * SLAB_PITCH + outer] = value[lane];
    }
#else
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane += SLAB_PIECE) {
      LOCAL_STORE(SLAB_PIECE, slab + k * SLAB_PITCH + outer + lane, value + lane);
    }
#endif
  }
}
#endif
#undef SLAB_LINE
#undef SLAB_PLACE

/* The sums of one tile of C, pasted between the loop over batches and the epilogue.
 *
 * The group advances along k in steps of TILE_K. In each step, items first write the elements of A
 * and B in their registers to local memory, and then start to fetch the next ones. Meanwhile each
 * item adds ITEM_M × ITEM_N products for every k. Elements past the edges are not read and count as
 * 0. The edge test is made once per tile, so only tiles at an edge pay for tests of each element.
 * The loop ends with gemm_products. */
//@ gemm_tiled
GLOBAL const A_TYPE *a = IN_A + batch_a + row0 * A_ROW + k_begin * A_K;
GLOBAL const B_TYPE *b = IN_B + batch_b + column0 * B_COLUMN + k_begin * B_K;
const boolean whole_a = row0 + TILE_M <= shape.m && IS_ALIGNED(a, A_STEP, A_VECTOR, A_TYPE);
const boolean whole_b = column0 + TILE_N <= shape.n && IS_ALIGNED(b, B_STEP, B_VECTOR, B_TYPE);
INDEX k_left = k_end - k_begin;
A_TYPE held_a[A_LOADS][A_VECTOR];
B_TYPE held_b[B_LOADS][B_VECTOR];
SUM sum[ITEM_M][ITEM_N];
UNROLL for (int i = 0; i < ITEM_M; i++) {
  UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = 0;
}
SUM_PARTS_BEGIN(ITEM_M *ITEM_N)
fetch_a(held_a, a, A_ROW, A_K, whole_a &&k_left >= TILE_K, item, shape.m - row0, k_left);
fetch_b(held_b, b, B_COLUMN, B_K, whole_b &&k_left >= TILE_K, item, shape.n - column0, k_left);
while (k_left > 0) {
  SUM_PARTS_ADD(ITEM_M *ITEM_N, TILE_SUM, TILE_K)
  put_a(slab_a, held_a, item);
  put_b(slab_b, held_b, item);
  BARRIER();
  k_left -= TILE_K;
  if (k_left > 0) {
    a += TILE_K * A_K;
    b += TILE_K * B_K;
    fetch_a(held_a, a, A_ROW, A_K, whole_a && k_left >= TILE_K, item, shape.m - row0, k_left);
    fetch_b(held_b, b, B_COLUMN, B_K, whole_b && k_left >= TILE_K, item, shape.n - column0, k_left);
  }

  /* The end of a loop along k: each item adds ITEM_M × ITEM_N products for every k of the slabs in
   * local memory, and all items wait until the slabs have been read. */
  //@ gemm_products
  UNROLL_SLAB for (int k = 0; k < TILE_K; k++) {
    SUM of_a[ITEM_M], of_b[ITEM_N];
    UNROLL for (int i = 0; i < ITEM_M; i += ROW_PIECE) {
      LOCAL_LOAD(ROW_PIECE, of_a + i, slab_a + k * PITCH_A + TILED_ROW(i));
    }
    UNROLL for (int j = 0; j < ITEM_N; j += COLUMN_PIECE) {
      LOCAL_LOAD(COLUMN_PIECE, of_b + j, slab_b + k * PITCH_B + TILED_COLUMN(j));
    }
    UNROLL for (int i = 0; i < ITEM_M; i++) {
      UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = SUM_MAD(of_a[i], of_b[j], sum[i][j]);
    }
  }
  BARRIER();
}
