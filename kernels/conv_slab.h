/* How a factor of a convolution comes into local memory: SLAB_FETCH reads an item's share of the
 * next slab into registers, SLAB_PUT puts it into the slab. Pasted once for the data (SLAB_IS_DATA)
 * and once for the weight.
 *
 * An item has SLAB_OUTERS positions (channels) and SLAB_TERMS terms: SLAB_OUTER(j) and SLAB_TERM(i)
 * say which ones of the slab. Where each of the former begins is in `base`, worked out once. What
 * the terms add to that stands in local memory, four numbers for each (see conv_tiled.h): so it is
 * worked out by few items, and the others only add and compare. */
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

DEVICE void SLAB_PUT(LOCAL SUM *slab, SLAB_TYPE held[SLAB_TERMS][SLAB_OUTERS], int item) {
  UNROLL for (int i = 0; i < SLAB_TERMS; i++) {
    UNROLL for (int j = 0; j < SLAB_OUTERS; j++) {
      slab[SLAB_TERM(i) * SLAB_PITCH + SLAB_OUTER(j)] = SLAB_DECODE(held[i], j);
    }
  }
}
