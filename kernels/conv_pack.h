/* Copies the weight of ITEM_M channels for all terms, channels side by side. Missing ones are 0. */
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
