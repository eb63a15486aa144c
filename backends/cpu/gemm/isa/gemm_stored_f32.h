/* SPDX-License-Identifier: MIT */
/* Addends and results in f32 (gemm_finish.h), for one element and for vectors. They are stored as
 * they are, so no number is ever lost. */
#ifndef CPU_GEMM_STORED_F32_H
#define CPU_GEMM_STORED_F32_H

#define GEMM_LOSES 0

typedef GEMM_ELEMENT gemm_stored;

GEMM_INLINE float gemm_widen(gemm_stored x) {
  return x;
}
GEMM_INLINE gemm_vector gemm_load(const gemm_stored *from) {
  return *(const gemm_vector_at *)from;
}
GEMM_INLINE unsigned gemm_lost(gemm_vector x) {
  (void)x;
  return 0;
}
GEMM_INLINE void gemm_store(gemm_stored *to, gemm_vector x) {
  *(gemm_vector_at *)to = x;
}
#if GEMM_VECTOR_BYTES == 64
GEMM_INLINE gemm_vector gemm_load_first(const gemm_stored *from, int64_t count) {
  return (gemm_vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
GEMM_INLINE void gemm_store_first(gemm_stored *to, gemm_vector x, int64_t count) {
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
}
#endif
GEMM_INLINE void gemm_store_two(gemm_stored *to, gemm_vector x, gemm_vector next) {
  gemm_store(to, x);
  gemm_store(to + GEMM_LANES, next);
}
GEMM_INLINE unsigned gemm_tiny(gemm_vector x) {
  (void)x;
  return 0;
}
GEMM_INLINE unsigned gemm_tiny_rows(const int rows, const int vectors, const gemm_stored *from,
                                    int64_t row) {
  (void)rows, (void)vectors, (void)from, (void)row;
  return 0;
}
GEMM_INLINE gemm_stored gemm_narrow(float x) {
  return x;
}

#endif
