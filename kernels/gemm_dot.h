/* SPDX-License-Identifier: MIT */
/* The sums of a few columns of C, for all rows, pasted between the loop over batches and the
 * epilogue. The time goes into reading A once, so each item keeps several loads of up to 16 bytes
 * pending. The items of a row interleave along k, each adds its share, and a tree adds the shares.
 *
 * Items that load simultaneously load neighbouring memory. With A_ALONG_K, a load has A_VECTOR
 * values of k, and an item processes ITEM_ROWS rows at once. If A's rows are contiguous instead, a
 * load has the item's A_VECTOR = ITEM_ROWS rows, and the item processes STEPS values of k at once.
 * Afterwards the item with lane 0 of each place has its sums in scratch: row i, column j in
 * scratch[(i * COLUMNS + j) * GROUP + item]. */

/* Loads a vector of A (or B) along its lines element by element, with 0 past `left`. */
//@ gemm_dot_loads
#if A_ALONG_K
#define A_LINE A_K
#else
#define A_LINE A_ROW
#endif
DEVICE void load_a(A_TYPE held[A_VECTOR], GLOBAL const A_TYPE *from, INDEX line, INDEX left) {
  UNROLL for (int i = 0; i < A_VECTOR; i++) held[i] = i < left ? from[i * line] : (A_TYPE)0;
}
DEVICE void load_b(B_TYPE held[A_VECTOR], GLOBAL const B_TYPE *from, INDEX line, INDEX left) {
  UNROLL for (int i = 0; i < A_VECTOR; i++) held[i] = i < left ? from[i * line] : (B_TYPE)0;
}

//@ gemm_dot
SUM sum[ITEM_ROWS][COLUMNS];
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] = 0;
}
#define DOT_SUM sum[i_ / COLUMNS][i_ % COLUMNS]
SUM_PARTS_BEGIN(ITEM_ROWS *COLUMNS)
#if A_ALONG_K
#define LANE_STEP 1
const int lane = item % SHARERS, place = item / SHARERS;
const INDEX first_row = ((INDEX)GROUP_ID_X * ROWS + place) * ITEM_ROWS;
GLOBAL const B_TYPE *b = IN_B + batch_b;
const boolean whole_a = IS_ALIGNED(IN_A + batch_a, A_ROW, A_VECTOR, A_TYPE);
const boolean whole_b = B_VECTOR > 1 && IS_ALIGNED(b, COLUMNS > 1 ? B_COLUMN : 0, A_VECTOR, B_TYPE);
GLOBAL const A_TYPE *a[ITEM_ROWS]; /* rows past the last repeat it */
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  const INDEX row = first_row + i < shape.m ? first_row + i : shape.m - 1;
  a[i] = IN_A + batch_a + row * A_ROW;
}
for (INDEX k = k_begin + lane * A_VECTOR; k < k_end; k += SHARERS * A_VECTOR) {
  SUM_PARTS_ADD(ITEM_ROWS *COLUMNS, DOT_SUM, A_VECTOR)
  const INDEX left = k_end - k;
  A_TYPE of_a[ITEM_ROWS][A_VECTOR];
  if (whole_a && left >= A_VECTOR) {
    UNROLL for (int i = 0; i < ITEM_ROWS; i++) VLOAD(A_VECTOR, A_TYPE, of_a[i], a[i] + k * A_K);
  } else {
    UNROLL for (int i = 0; i < ITEM_ROWS; i++) load_a(of_a[i], a[i] + k * A_K, A_LINE, left);
  }
  UNROLL for (int j = 0; j < COLUMNS; j++) {
    B_TYPE of_b[A_VECTOR];
    if (whole_b && left >= A_VECTOR) {
      VLOAD(A_VECTOR, B_TYPE, of_b, b + k * B_K + j * B_COLUMN);
    } else {
      load_b(of_b, b + k * B_K + j * B_COLUMN, B_K, left);
    }
    UNROLL for (int e = 0; e < A_VECTOR; e++) {
      const SUM factor = DECODE_B(of_b, e);
      UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
        sum[i][j] = SUM_MAD(DECODE_A(of_a[i], e), factor, sum[i][j]);
      }
    }
  }
}
#else
#define LANE_STEP ROWS
const int lane = item / ROWS, place = item % ROWS;
const INDEX first_row = ((INDEX)GROUP_ID_X * ROWS + place) * ITEM_ROWS;
const INDEX left = shape.m - first_row;
GLOBAL const A_TYPE *a = IN_A + batch_a + first_row * A_ROW;
const boolean whole = left >= A_VECTOR && IS_ALIGNED(a, A_K, A_VECTOR, A_TYPE);
for (INDEX k0 = k_begin + lane; k0 < k_end; k0 += SHARERS * STEPS) {
  SUM_PARTS_ADD(ITEM_ROWS *COLUMNS, DOT_SUM, STEPS)
  A_TYPE of_a[STEPS][A_VECTOR];
  if (whole && k0 + (STEPS - 1) * SHARERS < k_end) {
    UNROLL for (int s = 0; s < STEPS; s++) {
      VLOAD(A_VECTOR, A_TYPE, of_a[s], a + (k0 + s * SHARERS) * A_K);
    }
  } else {
    UNROLL for (int s = 0; s < STEPS; s++) {
      const INDEX k = k0 + s * SHARERS;
      load_a(of_a[s], a + k * A_K, A_LINE, k < k_end ? left : 0);
    }
  }
  UNROLL for (int s = 0; s < STEPS; s++) {
    const INDEX k = k0 + s * SHARERS;
    UNROLL for (int j = 0; j < COLUMNS; j++) {
      const SUM factor = k < k_end ? LOAD_B(batch_b + k * B_K + j * B_COLUMN) : (SUM)0;
      UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
        sum[i][j] = SUM_MAD(DECODE_A(of_a[s], i), factor, sum[i][j]);
      }
    }
  }
}
#endif
SUM_PARTS_END(ITEM_ROWS *COLUMNS, DOT_SUM)
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  UNROLL for (int j = 0; j < COLUMNS; j++) scratch[(i * COLUMNS + j) * GROUP + item] = sum[i][j];
}
BARRIER();
for (int step = SHARERS / 2; step > 0; step /= 2) {
  if (lane < step) {
    UNROLL for (int s = 0; s < ITEM_ROWS * COLUMNS; s++) {
      scratch[s * GROUP + item] += scratch[s * GROUP + item + step * LANE_STEP];
    }
  }
  BARRIER();
}
