/* How one operand comes into local memory: SLAB_FETCH reads an item's share of the next slab into
 * registers, SLAB_PUT puts it into the slab. Pasted once for A and once for B; "outer" is the
 * operand's dimension other than k. Neighbouring items read neighbouring memory: along k if
 * SLAB_ALONG_K, else along the outer dimension. */
#if SLAB_ALONG_K
#define SLAB_LINE (TILE_K / SLAB_VECTOR)
#define SLAB_PLACE                                                                                 \
  const int k = place % SLAB_LINE * SLAB_VECTOR;                                                   \
  const int outer = place / SLAB_LINE;
#else
#define SLAB_LINE (SLAB_SIDE / SLAB_VECTOR)
#define SLAB_PLACE                                                                                 \
  const int outer = place % SLAB_LINE * SLAB_VECTOR;                                               \
  const int k = place / SLAB_LINE;
#endif

/* `whole`: all of the slab exists and is aligned. Else what is past outer_left or k_left counts as
 * 0. */
DEVICE void SLAB_FETCH(SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], GLOBAL const SLAB_TYPE *from,
                       INDEX outer_step, INDEX k_step, boolean whole, int item, INDEX outer_left,
                       INDEX k_left) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    GLOBAL const SLAB_TYPE *at = from + outer * outer_step + k * k_step;
    if (whole) {
      VLOAD(SLAB_VECTOR, SLAB_TYPE, held[load], at);
    } else {
      UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
#if SLAB_ALONG_K
        const boolean exists = outer < outer_left && k + lane < k_left;
        held[load][lane] = exists ? at[lane * k_step] : (SLAB_TYPE)0;
#else
        const boolean exists = outer + lane < outer_left && k < k_left;
        held[load][lane] = exists ? at[lane * outer_step] : (SLAB_TYPE)0;
#endif
      }
    }
  }
}

#ifdef MATRIX_TYPE
/* The lines of this slab go along k, in the elements that matrix units take. */
DEVICE void SLAB_PUT(LOCAL MATRIX_TYPE *slab, SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], int item) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    MATRIX_TYPE value[SLAB_VECTOR];
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      value[lane] = MATRIX_ELEMENT(SLAB_DECODE(held[load], lane));
    }
#if SLAB_ALONG_K
    VSTORE(SLAB_VECTOR, MATRIX_TYPE, slab + outer * SLAB_PITCH + k, value);
#else
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      slab[(outer + lane) * SLAB_PITCH + k] = value[lane];
    }
#endif
  }
}
#else
DEVICE void SLAB_PUT(LOCAL SUM *slab, SLAB_TYPE held[SLAB_LOADS][SLAB_VECTOR], int item) {
  UNROLL for (int load = 0; load < SLAB_LOADS; load++) {
    const int place = item + load * GROUP;
    SLAB_PLACE
    SUM value[SLAB_VECTOR];
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      value[lane] = SLAB_DECODE(held[load], lane);
    }
#if SLAB_ALONG_K
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane++) {
      slab[(k + lane) * SLAB_PITCH + outer] = value[lane];
    }
#else
    UNROLL for (int lane = 0; lane < SLAB_VECTOR; lane += SLAB_PIECE) {
      LOCAL_STORE(SLAB_PIECE, slab + k * SLAB_PITCH + outer + lane, value + lane);
    }
#endif
  }
}
#endif
#undef SLAB_LINE
#undef SLAB_PLACE
