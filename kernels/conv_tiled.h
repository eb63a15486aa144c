/* SPDX-License-Identifier: MIT */
/* Moves a factor of a convolution into local memory. SLAB_FETCH reads an item's share of the next
 * slab into registers; SLAB_PUT writes it to the slab. Pasted once for the data (SLAB_IS_DATA) and
 * once for the weight.
 *
 * An item has SLAB_OUTERS positions (channels) and SLAB_TERMS terms of the slab, numbered by
 * SLAB_OUTER(j) and SLAB_TERM(i). The start of each position is computed once, in `base`. The
 * terms' offsets from it are in local memory, four numbers for each term (see conv_tiled): few
 * items compute them, and the others only add and compare. */
//@ conv_slab
#if SLAB_IS_DATA
DEVICE void SLAB_FETCH(SLAB_TYPE held[SLAB_TERMS][SLAB_OUTERS], GLOBAL const SLAB_TYPE *from,
                       const INDEX base[SLAB_OUTERS], const INDEX down[SLAB_OUTERS],
                       const INDEX across[SLAB_OUTERS], LOCAL const INDEX *known, INDEX height,
                       INDEX width, int item) {
  UNROLL for (int i = 0; i < SLAB_TERMS; i++) {
    LOCAL const INDEX *at = known + SLAB_TERM(i) * 4;
    const INDEX step = at[0], step_h = at[1], step_v = at[2];
    UNROLL for (int j = 0; j < SLAB_OUTERS; j++) {
      const INDEX h = down[j] + step_h, v = across[j] + step_v;
      const boolean inside = h >= 0 && h < height && v >= 0 && v < width;
      held[i][j] = inside ? from[base[j] + step] : (SLAB_TYPE)0;
    }
  }
}
#else
DEVICE void SLAB_FETCH(SLAB_TYPE held[SLAB_TERMS][SLAB_OUTERS], GLOBAL const SLAB_TYPE *from,
                       INDEX base, INDEX outer_step, LOCAL const INDEX *known, INDEX outer_left,
                       int item) {
  UNROLL for (int i = 0; i < SLAB_TERMS; i++) {
    LOCAL const INDEX *at = known + SLAB_TERM(i) * 4;
    const INDEX start = base + at[3];
    const boolean exists = at[1] != OUTSIDE;
    UNROLL for (int j = 0; j < SLAB_OUTERS; j++) {
      const boolean inside = exists && SLAB_OUTER(j) < outer_left;
      held[i][j] = inside ? from[start + SLAB_OUTER(j) * outer_step] : (SLAB_TYPE)0;
    }
  }
}
#endif

/* Writes lines of neighbouring positions (channels), one for each term, or lines along the
 * terms. */
DEVICE void SLAB_PUT(LOCAL SLAB_ELEMENT *slab, SLAB_TYPE held[SLAB_TERMS][SLAB_OUTERS], int item) {
  UNROLL for (int i = 0; i < SLAB_TERMS; i++) {
    UNROLL for (int j = 0; j < SLAB_OUTERS; j++) {
#if SLAB_ALONG_K
      LOCAL SLAB_ELEMENT *to = slab + SLAB_OUTER(j) * SLAB_PITCH + SLAB_TERM(i);
#else
      LOCAL SLAB_ELEMENT *to = slab + SLAB_TERM(i) * SLAB_PITCH + SLAB_OUTER(j);
#endif
      *to = SLAB_DECODE(held[i], j);
    }
  }
}

/* The sums of one tile of a convolution, pasted between the loop over batches and the epilogue. It
 * works as gemm_tiled does, except for addressing. WRITE_TERMS computes the contribution of each of
 * a slab's terms to an offset, to h and to v in the data, and to an offset in the weight. It writes
 * them to one of two buffers in local memory, two slabs before they are multiplied. Missing terms
 * are outside. The loop ends with gemm_products or gemm_matrix_products. */
//@ conv_tiled
#define WRITE_TERMS(buffer, first)                                                                 \
  for (int term = item; term < TILE_K; term += GROUP) {                                            \
    LOCAL INDEX *known = terms_known + ((buffer)*TILE_K + term) * 4;                               \
    const INDEX k = (first) + term;                                                                \
    known[1] = OUTSIDE;                                                                            \
    if (k < k_end) {                                                                               \
      SPLIT_TERM(k)                                                                                \
      known[0] = DATA_AT(k0 * shape.data_k0, H_OF_TERM, V_OF_TERM);                                \
      known[1] = H_OF_TERM;                                                                        \
      known[2] = V_OF_TERM;                                                                        \
      known[3] = WEIGHT_OF_TERM;                                                                   \
    } else {                                                                                       \
      known[0] = known[2] = known[3] = 0;                                                          \
    }                                                                                              \
  }
#define FETCH(buffer)                                                                              \
  fetch_data(held_data, IN_DATA, base, down, across, terms_known + (buffer)*TILE_K * 4,            \
             shape.height, shape.width, item);                                                     \
  fetch_weight(held_weight, IN_WEIGHT, weight_base, shape.weight_channel,                          \
               terms_known + (buffer)*TILE_K * 4, shape.channels - channel0, item);

DATA_TYPE held_data[DATA_TERMS][DATA_OUTERS];
WEIGHT_TYPE held_weight[WEIGHT_TERMS][WEIGHT_OUTERS];
INDEX base[DATA_OUTERS], down[DATA_OUTERS], across[DATA_OUTERS];
const INDEX weight_base = WEIGHT_FIRST + channel0 * shape.weight_channel;
SUM sum[ITEM_M][ITEM_N];
UNROLL for (int i = 0; i < ITEM_M; i++) {
  UNROLL for (int j = 0; j < ITEM_N; j++) sum[i][j] = 0;
}
SUM_PARTS_BEGIN(ITEM_M *ITEM_N)
UNROLL for (int j = 0; j < DATA_OUTERS; j++) {
  const INDEX position = position0 + DATA_OUTER(j);
  const INDEX existing = position < POSITIONS ? position : 0;
  SPLIT_POSITION(existing)
  across[j] = V_OF_POSITION;
  base[j] = DATA_AT(batch_data + m0 * shape.data_m0, H_OF_POSITION, across[j]);
  down[j] = position < POSITIONS ? H_OF_POSITION : OUTSIDE;
}
WRITE_TERMS(0, k_begin)
WRITE_TERMS(1, k_begin + TILE_K)
BARRIER();
FETCH(0)
BARRIER();
int buffer = 0;
for (INDEX k_first = k_begin; k_first < k_end; k_first += TILE_K) {
  SUM_PARTS_ADD(ITEM_M *ITEM_N, TILE_SUM, TILE_K)
  put_data(slab_data, held_data, item);
  put_weight(slab_weight, held_weight, item);
  WRITE_TERMS(buffer, k_first + 2 * TILE_K)
  BARRIER();
  buffer = 1 - buffer;
  if (k_first + TILE_K < k_end) {
    FETCH(buffer)
  }
