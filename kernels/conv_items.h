/* SPDX-License-Identifier: MIT */
/* ITEM_M neighbouring results in a row of positions, of one channel, by one item. Pasted between
 * the choice of `line`, `first` (the position in the line) and `count`, and the epilogue. A CPU
 * computes the results that a tap hits as one vector loop; a GPU unrolls the loop and tests each
 * result. */
//@ conv_direct
const INDEX m0 = OVER_M1(line), m1 = line - m0 * SIZE_M1;
const INDEX h0 = H_OF_POSITION, v0 = first * shape.v_m + V_FIRST;
const INDEX far = batch_data + m0 * shape.data_m0;
const INDEX near = WEIGHT_FIRST + CHANNEL * shape.weight_channel;
SUM sum[ITEM_M];
UNROLL for (int i = 0; i < ITEM_M; i++) sum[i] = 0;
SUM_PARTS_BEGIN(ITEM_M)
for (INDEX k0 = 0; k0 < shape.k0; k0++) {
  for (INDEX k1 = 0; k1 < SIZE_K1; k1++) {
    SUM_PARTS_ADD(ITEM_M, sum[i_], SIZE_K2)
    const INDEX h = h0 + H_OF_TERM;
    if (h < 0 || h >= shape.height) continue;
    for (INDEX k2 = 0; k2 < SIZE_K2; k2++) {
      const INDEX v = v0 + V_OF_TERM;
      const SUM weight = LOAD_WEIGHT(near + WEIGHT_OF_TERM);
      const INDEX data = DATA_AT(far + k0 * shape.data_k0, h, v);
#ifdef FOR_CPU
      const INDEX low = v < 0 ? DIVIDE(shape.step_v - 1 - v, shape.step_v) : 0;
      const INDEX room = v < shape.width ? DIVIDE(shape.width - 1 - v, shape.step_v) + 1 : 0;
      const INDEX high = room < count ? room : count;
      INDEPENDENT for (INDEX i = low; i < high; i++) {
        sum[i] = SUM_MAD(LOAD_DATA(data + i * POSITION_STEP), weight, sum[i]);
      }
#else
      UNROLL for (int i = 0; i < ITEM_M; i++) {
        const INDEX at = v + i * shape.v_m;
        if (at >= 0 && at < shape.width && i < count) {
          sum[i] = SUM_MAD(LOAD_DATA(data + i * POSITION_STEP), weight, sum[i]);
        }
      }
#endif
    }
  }
}
SUM_PARTS_END(ITEM_M, sum[i_])

/* One sum by a group, or on a CPU by an item with LANES separate sums. Pasted between the loop over
 * batches and the epilogue. Neighbouring items take neighbouring terms; a tree adds their sums,
 * always in the same order. Afterwards the sum is in scratch[0]. */
//@ conv_dot
SPLIT_POSITION(POSITION)
const INDEX h0 = H_OF_POSITION, v0 = V_OF_POSITION;
const INDEX far = batch_data + m0 * shape.data_m0;
const INDEX near = WEIGHT_FIRST + CHANNEL * shape.weight_channel;
#if ALONE
SUM scratch[LANES];
for (int lane = 0; lane < LANES; lane++) scratch[lane] = 0;
SUM_PARTS_BEGIN(LANES)
for (INDEX k0 = 0; k0 < shape.k0; k0++) {
  for (INDEX k1 = 0; k1 < SIZE_K1; k1++) {
    SUM_PARTS_ADD(LANES, scratch[i_], SIZE_K2 / LANES + 1)
    const INDEX h = h0 + H_OF_TERM;
    if (h < 0 || h >= shape.height) continue;
    const INDEX data = DATA_AT(far + k0 * shape.data_k0, h, v0);
    const INDEX weight = near + k0 * shape.weight_k0 + k1 * shape.weight_k1;
    for (INDEX first = 0; first < SIZE_K2; first += LANES) {
      INDEPENDENT for (int lane = 0; lane < LANES; lane++) {
        const INDEX k2 = first + lane, v = v0 + V_OF_TERM;
        if (k2 < SIZE_K2 && v >= 0 && v < shape.width) {
          scratch[lane] = SUM_MAD(LOAD_DATA(data + k2 * TERM_STEP),
                                  LOAD_WEIGHT(weight + k2 * WEIGHT_K2), scratch[lane]);
        }
      }
    }
  }
}
SUM_PARTS_END(LANES, scratch[i_])
for (int step = LANES / 2; step > 0; step /= 2) {
  for (int lane = 0; lane < step; lane++) scratch[lane] += scratch[lane + step];
}
#else
SUM sum = 0;
SUM_PARTS_BEGIN(1)
for (INDEX k = k_begin + item; k < k_end; k += GROUP) {
  SUM_PARTS_ADD(1, sum, 1)
  SPLIT_TERM(k)
  const INDEX h = h0 + H_OF_TERM, v = v0 + V_OF_TERM;
  if (IS_INSIDE(h, v)) {
    sum = SUM_MAD(LOAD_DATA(DATA_AT(far + k0 * shape.data_k0, h, v)),
                  LOAD_WEIGHT(near + WEIGHT_OF_TERM), sum);
  }
}
SUM_PARTS_END(1, sum)
scratch[item] = sum;
BARRIER();
for (int step = GROUP / 2; step > 0; step /= 2) {
  if (item < step) scratch[item] += scratch[item + step];
  BARRIER();
}
#endif
