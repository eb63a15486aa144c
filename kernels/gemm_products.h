/* The end of a loop along k: of the slabs in local memory each item adds ITEM_M × ITEM_N products
 * for every k, and all wait until the slabs have been read. */
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
