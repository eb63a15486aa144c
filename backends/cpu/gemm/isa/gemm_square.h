/* SPDX-License-Identifier: MIT */
/* Transposes squares of a B that is contiguous along k: as many columns and steps of k as a vector
 * has lanes. Halves of the vectors are loaded from two columns, so that no shuffle crosses them. */
#ifndef CPU_GEMM_SQUARE_H
#define CPU_GEMM_SQUARE_H

#if GEMM_VECTOR_BYTES == 32
typedef GEMM_ELEMENT gemm_half_vector
    __attribute__((vector_size(16), aligned(__alignof__(GEMM_ELEMENT))));
enum { GEMM_HALF = 16 / sizeof(GEMM_ELEMENT) };

GEMM_INLINE gemm_vector gemm_load_halves_of(const GEMM_ELEMENT *low, const GEMM_ELEMENT *high) {
  const gemm_half_vector a = *(const gemm_half_vector *)low, b = *(const gemm_half_vector *)high;
#if GEMM_ELEMENT_BYTES == 8
  return __builtin_shufflevector(a, b, 0, 1, 2, 3);
#else
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
}

/* Step p of k becomes the vector to[p]; columns are `column` apart. */
GEMM_INLINE void gemm_take_square(gemm_vector to[GEMM_LANES], const GEMM_ELEMENT *from,
                                  int64_t column) {
  const GEMM_ELEMENT *across = from + GEMM_HALF * column;
  GEMM_FORGET(from); /* compilers would keep the address of every column on the stack */
  GEMM_FORGET(across);
  GEMM_UNROLL
  for (int half = 0; half < 2; half++, to += GEMM_HALF, from += GEMM_HALF, across += GEMM_HALF) {
    gemm_vector x[GEMM_HALF];
    GEMM_UNROLL
    for (int j = 0; j < GEMM_HALF; j++)
      x[j] = gemm_load_halves_of(from + j * column, across + j * column);
#if GEMM_ELEMENT_BYTES == 8
    to[0] = __builtin_shufflevector(x[0], x[1], 0, 4, 2, 6);
    to[1] = __builtin_shufflevector(x[0], x[1], 1, 5, 3, 7);
#else
    const gemm_vector a = __builtin_shufflevector(x[0], x[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const gemm_vector b = __builtin_shufflevector(x[0], x[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const gemm_vector c = __builtin_shufflevector(x[2], x[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const gemm_vector d = __builtin_shufflevector(x[2], x[3], 2, 10, 3, 11, 6, 14, 7, 15);
    to[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
    to[1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
    to[2] = __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13);
    to[3] = __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15);
#endif
  }
}
#elif GEMM_VECTOR_BYTES == 64
GEMM_INLINE void gemm_take_square(gemm_vector to[GEMM_LANES], const GEMM_ELEMENT *from,
                                  int64_t column) {
  GEMM_UNROLL
  for (int j = 0; j < GEMM_LANES; j++) to[j] = *(const gemm_vector_at *)(from + j * column);
  gemm_turn(to);
}
#else
GEMM_INLINE void gemm_take_square(gemm_vector to[GEMM_LANES], const GEMM_ELEMENT *from,
                                  int64_t column) {
  GEMM_ELEMENT turned[GEMM_LANES * GEMM_LANES];
  gemm_turn_square(turned, GEMM_LANES, from, column, 1);
  memcpy(to, turned, sizeof turned);
}
#endif

#endif
