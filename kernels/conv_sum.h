/* One sum by one item, at POSITION and CHANNEL. */
SPLIT_POSITION(POSITION)
const INDEX h0 = H_OF_POSITION, v0 = V_OF_POSITION;
const INDEX far = batch_data + m0 * shape.data_m0;
const INDEX near = WEIGHT_FIRST + CHANNEL * shape.weight_channel;
for (INDEX k0 = 0; k0 < shape.k0; k0++) {
  for (INDEX k1 = 0; k1 < SIZE_K1; k1++) {
    const INDEX h = h0 + H_OF_TERM;
    if (h < 0 || h >= shape.height) continue;
    for (INDEX k2 = 0; k2 < SIZE_K2; k2++) {
      const INDEX v = v0 + V_OF_TERM;
      if (v < 0 || v >= shape.width) continue;
      sum = SUM_MAD(LOAD_DATA(DATA_AT(far + k0 * shape.data_k0, h, v)),
                    LOAD_WEIGHT(near + WEIGHT_OF_TERM), sum);
    }
  }
}
