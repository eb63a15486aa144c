/* SPDX-License-Identifier: MIT */
/* Vectors of LANES sums, for products that a single item computes. */
//@ gemm_vector
#if defined(__OPENCL_VERSION__)
typedef VECTOR_PASTE(SUM_BASE, LANES) VECTOR;
#define VECTOR_LOAD(pointer)         VECTOR_PASTE(vload, LANES)(0, pointer)
#define VECTOR_STORE(pointer, value) VECTOR_PASTE(vstore, LANES)(value, 0, pointer)
#define VECTOR_OF(x)                 ((VECTOR)(x))
#define VECTOR_MAD(a, b, c)          SUM_MAD(a, b, c)
#define VECTOR_ADD(a, b)             ((a) + (b))
#else
typedef struct VECTOR {
  SUM lane[LANES];
} VECTOR;
DEVICE VECTOR VECTOR_LOAD(const SUM *from) {
  VECTOR value;
  UNROLL for (int i = 0; i < LANES; i++) value.lane[i] = from[i];
  return value;
}
DEVICE void VECTOR_STORE(SUM *to, VECTOR value) {
  UNROLL for (int i = 0; i < LANES; i++) to[i] = value.lane[i];
}
DEVICE VECTOR VECTOR_OF(SUM x) {
  VECTOR value;
  UNROLL for (int i = 0; i < LANES; i++) value.lane[i] = x;
  return value;
}
DEVICE VECTOR VECTOR_MAD(VECTOR a, VECTOR b, VECTOR c) {
  UNROLL for (int i = 0; i < LANES; i++) c.lane[i] = SUM_MAD(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}
DEVICE VECTOR VECTOR_ADD(VECTOR a, VECTOR b) {
  UNROLL for (int i = 0; i < LANES; i++) a.lane[i] += b.lane[i];
  return a;
}
#endif

/* Packs a panel of PACK_WIDTH neighbours in the outer dimension, contiguous for each k. `left` of
 * them exist; the others are 0. Pasted once for A and once for B. The loop order follows the
 * strides, so memory is read in whole cache lines. */
//@ gemm_pack
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
