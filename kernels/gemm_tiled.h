/* The sums of one tile of C: what stands between the loop over batches and the epilogue.
 *
 * The group goes along k in steps of TILE_K. In each, items first put the elements of A and B that
 * they hold in registers into local memory, then start to fetch those of the next step, and while
 * these are under way each item adds ITEM_M × ITEM_N products for every k. Elements past the edges
 * are not read and count as 0. Whether there are any is asked of the tile as a whole, so that only
 * tiles at an edge pay for it element by element. The loop ends with gemm_products.h. */
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
fetch_a(held_a, a, A_ROW, A_K, whole_a &&k_left >= TILE_K, item, shape.m - row0, k_left);
fetch_b(held_b, b, B_COLUMN, B_K, whole_b &&k_left >= TILE_K, item, shape.n - column0, k_left);
while (k_left > 0) {
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
