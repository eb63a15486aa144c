/* SPDX-License-Identifier: MIT */
/* Copies the weight of ITEM_M channels for all terms, channels side by side. Missing channels are
 * 0. */
//@ conv_pack
const INDEX channel0 = panel * ITEM_M;
GLOBAL SUM *to = weights + (batch * shape.panels + panel) * shape.room * ITEM_M;
for (INDEX k0 = 0; k0 < shape.k0; k0++) {
  for (INDEX k1 = 0; k1 < SIZE_K1; k1++) {
    for (INDEX i = 0; i < ITEM_M; i++) {
      const INDEX near = WEIGHT_FIRST + (channel0 + i) * shape.weight_channel +
                         k0 * shape.weight_k0 + k1 * shape.weight_k1;
      const boolean exists = channel0 + i < shape.channels;
      for (INDEX k2 = 0; k2 < SIZE_K2; k2++) {
        to[k2 * ITEM_M + i] = exists ? LOAD_WEIGHT(near + k2 * WEIGHT_K2) : (SUM)0;
      }
    }
    to += SIZE_K2 * ITEM_M;
  }
}

/* Copies the data of ITEM_N positions for the terms k_begin … k_end − 1 to `panel`, positions side
 * by side, with 0 outside the data. If the result is as wide as the data, consecutive positions are
 * consecutive in the data even across rows (is_dense). A term's elements are then one stretch of
 * memory with some elements masked. */
//@ conv_gather
INDEX base[ITEM_N], down[ITEM_N], across[ITEM_N];
boolean is_dense = 1;
for (int i = 0; i < ITEM_N; i++) {
  const INDEX position = position0 + i;
  base[i] = base[0] + i;
  down[i] = OUTSIDE;
  across[i] = 0;
  if (position < POSITIONS) {
    SPLIT_POSITION(position)
    down[i] = H_OF_POSITION;
    across[i] = V_OF_POSITION;
    base[i] = DATA_AT(batch_data + m0 * shape.data_m0, down[i], across[i]);
    is_dense = is_dense && base[i] == base[0] + i;
  }
}
INDEX digit0 = 0, digit1 = 0, digit2 = 0;
if (k_begin < k_end) {
  SPLIT_TERM(k_begin)
  digit0 = k0;
  digit1 = k1;
  digit2 = k2;
}
GLOBAL SUM *to = panel;
for (INDEX k = k_begin; k < k_end; k++) {
  const INDEX k0 = digit0, k1 = digit1, k2 = digit2;
  const INDEX step_h = H_OF_TERM, step_v = V_OF_TERM;
  const INDEX step = DATA_AT(k0 * shape.data_k0, step_h, step_v);
  if (is_dense) {
    const INDEX from = base[0] + step;
    INDEPENDENT for (int i = 0; i < ITEM_N; i++) {
      const INDEX h = down[i] + step_h, v = across[i] + step_v;
      to[i] = IS_INSIDE(h, v) ? LOAD_DATA(from + i) : (SUM)0;
    }
  } else {
    INDEPENDENT for (int i = 0; i < ITEM_N; i++) {
      const INDEX h = down[i] + step_h, v = across[i] + step_v;
      to[i] = IS_INSIDE(h, v) ? LOAD_DATA(base[i] + step) : (SUM)0;
    }
  }
  to += ITEM_N;
  digit2++;
  if (digit2 == SIZE_K2) {
    digit2 = 0;
    digit1++;
    if (digit1 == SIZE_K1) {
      digit1 = 0;
      digit0++;
    }
  }
}
