/* SPDX-License-Identifier: MIT */
/* A few columns of C, one row for each SHARERS items: what stands between the loop over batches and
 * the epilogue. The items of a row take turns along k, each adds up its share, and a tree adds the
 * shares. Items that read at the same time read side by side: along k, or, if A's rows lie side by
 * side (A_ALONG_K is 0), one k of several rows. Afterwards the item with lane 0 of each row has its
 * COLUMNS sums in scratch[j * GROUP + item]. */
//@ gemm_dot
#if A_ALONG_K
#define LANE_STEP 1
const int lane = item % SHARERS;
const INDEX row = (INDEX)GROUP_ID_X * ROWS + item / SHARERS;
#else
#define LANE_STEP ROWS
const int lane = item / ROWS;
const INDEX row = (INDEX)GROUP_ID_X * ROWS + item % ROWS;
#endif
SUM sum[COLUMNS];
UNROLL for (int j = 0; j < COLUMNS; j++) sum[j] = 0;
if (row < shape.m) {
  GLOBAL const A_TYPE *a = IN_A + batch_a + row * A_ROW;
  const boolean whole = (size_t)(a + k_begin * A_K) % (A_VECTOR * sizeof(A_TYPE)) == 0;
  for (INDEX k0 = k_begin + lane * A_VECTOR; k0 < k_end; k0 += SHARERS * A_VECTOR) {
    if (whole && k0 + A_VECTOR <= k_end) {
      A_TYPE held[A_VECTOR];
      VLOAD(A_VECTOR, A_TYPE, held, a + k0 * A_K);
      UNROLL for (int i = 0; i < A_VECTOR; i++) {
        UNROLL for (int j = 0; j < COLUMNS; j++) {
          const INDEX at = batch_b + (k0 + i) * B_K + j * B_COLUMN;
          sum[j] = SUM_MAD(DECODE_A(held, i), LOAD_B(at), sum[j]);
        }
      }
    } else {
      for (INDEX k = k0; k < k_end && k < k0 + A_VECTOR; k++) {
        UNROLL for (int j = 0; j < COLUMNS; j++) {
          const INDEX at = batch_b + k * B_K + j * B_COLUMN;
          sum[j] = SUM_MAD(DECODE_A(a, k * A_K), LOAD_B(at), sum[j]);
        }
      }
    }
  }
}
UNROLL for (int j = 0; j < COLUMNS; j++) scratch[j * GROUP + item] = sum[j];
BARRIER();
for (int step = SHARERS / 2; step > 0; step /= 2) {
  if (lane < step) {
    UNROLL for (int j = 0; j < COLUMNS; j++) {
      scratch[j * GROUP + item] += scratch[j * GROUP + item + step * LANE_STEP];
    }
  }
  BARRIER();
}
