/* SPDX-License-Identifier: MIT */
/* Winograd's minimal filtering: 4 × 4 results of a 3 × 3 filter from a patch of 6 × 6 elements,
 * with 36 products for each channel instead of 144. The points of interpolation are 0, ±1, ±2 and
 * infinity. The transforms are
 *
 *        | 4  0 −5  0  1  0 |       |  1/4    0     0  |
 *        | 0 −4 −4  1  1  0 |       | −1/6  −1/6  −1/6 |        | 1  1  1  1  1  0 |
 *   B' = | 0  4 −4 −1  1  0 |   G = | −1/6   1/6  −1/6 |   A' = | 0  1 −1  2 −2  0 |
 *        | 0 −2 −1  2  1  0 |       | 1/24  1/12   1/6 |        | 0  1  1  4  4  0 |
 *        | 0  2 −1 −2  1  0 |       | 1/24 −1/12   1/6 |        | 0  1 −1  8 −8  1 |
 *        | 0  4  0 −5  0  1 |       |   0     0     1  |
 *
 * and the results are A'·(sum over channels of G·filter·G' times B'·patch·B)·A. The product in the
 * middle is element by element, so it is 36 matrix products of filters by patches.
 *
 * `from` and `to` are lines of elements, `step` apart. */
//@ conv_winograd
DEVICE void winograd_patch(const f32 *from, f32 *to, int step) {
  const f32 d0 = from[0], d1 = from[step], d2 = from[2 * step], d3 = from[3 * step],
            d4 = from[4 * step], d5 = from[5 * step];
  const f32 even = MAD_f32(-4.0f, d2, d4), odd = MAD_f32(-4.0f, d1, d3);
  const f32 near = d4 - d2, far = 2.0f * (d3 - d1);
  to[0] = MAD_f32(4.0f, d0, MAD_f32(-5.0f, d2, d4));
  to[step] = even + odd;
  to[2 * step] = even - odd;
  to[3 * step] = near + far;
  to[4 * step] = near - far;
  to[5 * step] = MAD_f32(4.0f, d1, MAD_f32(-5.0f, d3, d5));
}

DEVICE void winograd_filter(const f32 *from, int from_step, f32 *to, int step) {
  const f32 g0 = from[0], g1 = from[from_step], g2 = from[2 * from_step];
  const f32 sixth = 1.0f / 6.0f, outer = MAD_f32(0.25f, g0, g2) * sixth,
            inner = g1 * (0.5f * sixth);
  const f32 sum = (g0 + g2) * -sixth;
  to[0] = 0.25f * g0;
  to[step] = sum - g1 * sixth;
  to[2 * step] = sum + g1 * sixth;
  to[3 * step] = outer + inner;
  to[4 * step] = outer - inner;
  to[5 * step] = g2;
}

DEVICE void winograd_results(const f32 *from, int from_step, f32 *to, int step) {
  const f32 m0 = from[0], m5 = from[5 * from_step];
  const f32 near_sum = from[from_step] + from[2 * from_step];
  const f32 near_difference = from[from_step] - from[2 * from_step];
  const f32 far_sum = from[3 * from_step] + from[4 * from_step];
  const f32 far_difference = from[3 * from_step] - from[4 * from_step];
  to[0] = m0 + near_sum + far_sum;
  to[step] = MAD_f32(2.0f, far_difference, near_difference);
  to[2 * step] = MAD_f32(4.0f, far_sum, near_sum);
  to[3 * step] = MAD_f32(8.0f, far_difference, near_difference) + m5;
}

/* The place of an item's patch: m0, and the first row and column of its results. */
#define FIND_PATCH(tile)                                                                           \
  const INDEX line_ = DIVIDE(tile, shape.tiles_across);                                            \
  const INDEX first2 = ((tile)-line_ * shape.tiles_across) * 4;                                    \
  const INDEX m0 = DIVIDE(line_, shape.tiles_down);                                                \
  const INDEX first1 = (line_ - m0 * shape.tiles_down) * 4;

/* Transforms a filter, of channel `outer` and term k0, to `weights`: 36 matrices of terms by
 * channels. */
//@ conv_winograd_filters
f32 filter[9], part[18], whole[36];
const INDEX base = WEIGHT_FIRST + outer * shape.weight_channel + k0 * shape.weight_k0;
UNROLL for (int i = 0; i < 3; i++) {
  UNROLL for (int j = 0; j < 3; j++) {
    filter[i * 3 + j] =
        LOAD_WEIGHT(base + WINOGRAD_TAP(i) * shape.weight_k1 + WINOGRAD_TAP(j) * WEIGHT_K2);
  }
}
UNROLL for (int j = 0; j < 3; j++) winograd_filter(filter + j, 3, part + j, 3);
UNROLL for (int i = 0; i < 6; i++) winograd_filter(part + i * 3, 1, whole + i * 6, 1);
UNROLL for (int i = 0; i < 36; i++) weights[i * shape.elements + index] = whole[i];

/* Transforms a patch of the data's channel k0 to `patches`: 36 matrices of terms by tiles. */
//@ conv_winograd_patches
f32 patch[36];
const INDEX far = batch_data + m0 * shape.data_m0 + k0 * shape.data_k0;
const INDEX h0 = first1 + H_FIRST + WINOGRAD_FIRST, v0 = first2 + V_FIRST + WINOGRAD_FIRST;
UNROLL for (int i = 0; i < 6; i++) {
  UNROLL for (int j = 0; j < 6; j++) {
    patch[i * 6 + j] =
        IS_INSIDE(h0 + i, v0 + j) ? (f32)LOAD_DATA(DATA_AT(far, h0 + i, v0 + j)) : 0.0f;
  }
}
UNROLL for (int j = 0; j < 6; j++) winograd_patch(patch + j, patch + j, 6);
UNROLL for (int i = 0; i < 6; i++) winograd_patch(patch + i * 6, patch + i * 6, 1);
UNROLL for (int i = 0; i < 36; i++) patches[i * shape.elements + index] = patch[i];

/* Transforms the products of a tile in one channel to its results: `result`, line by line. */
//@ conv_winograd_results
f32 product[36], part[24], result[16];
UNROLL for (int i = 0; i < 36; i++) product[i] = partial[i * shape.elements + index];
UNROLL for (int j = 0; j < 6; j++) winograd_results(product + j, 6, part + j, 6);
UNROLL for (int i = 0; i < 4; i++) winograd_results(part + i * 6, 1, result + i * 4, 1);
