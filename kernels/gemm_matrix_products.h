/* The end of a loop along k: each warp multiplies its WARP_M lines of A with its WARP_N lines of B,
 * eight words of them at a time, in blocks of 16 × 8 as the units take them. Lane l holds, of each
 * block of A, the words l % 4 and l % 4 + 4 of the lines l / 4 and l / 4 + 8; of a block of B, the
 * same words of line l / 4; and of the sums, rows l / 4 and l / 4 + 8, columns 2 · (l % 4) and the
 * next. */
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
