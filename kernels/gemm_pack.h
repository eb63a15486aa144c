/* Copies a panel, PACK_WIDTH neighbours in the outer dimension, so that they lie side by side for
 * each k. Pasted once for A and once for B. `left` is how many of them exist; the others are 0. The
 * order of the loops follows the strides: memory is read along whole cache lines. */
DEVICE void PACK(GLOBAL SUM *RESTRICT to, GLOBAL const PACK_TYPE *RESTRICT PACK_IN, INDEX from,
                 INDEX outer_step, INDEX k_step, INDEX left, INDEX count) {
  if (left < PACK_WIDTH) {
    for (INDEX k = 0; k < count; k++) {
      for (INDEX i = 0; i < PACK_WIDTH; i++) {
        to[k * PACK_WIDTH + i] = i < left ? PACK_LOAD(from + k * k_step + i * outer_step) : (SUM)0;
      }
    }
  } else if (outer_step == 1) {
    for (INDEX k = 0; k < count; k++) {
      INDEPENDENT for (INDEX i = 0; i < PACK_WIDTH; i++) {
        to[k * PACK_WIDTH + i] = PACK_LOAD(from + k * k_step + i);
      }
    }
  } else {
    for (INDEX k0 = 0; k0 < count; k0 += 16) {
      const INDEX end = k0 + 16 < count ? k0 + 16 : count;
      for (INDEX i = 0; i < PACK_WIDTH; i++) {
        for (INDEX k = k0; k < end; k++) {
          to[k * PACK_WIDTH + i] = PACK_LOAD(from + k * k_step + i * outer_step);
        }
      }
    }
  }
}
