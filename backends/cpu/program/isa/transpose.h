/* SPDX-License-Identifier: MIT */
/* Transposes a square matrix of as many packs as a pack has elements. */
#ifndef CPU_PROGRAM_TRANSPOSE_H
#define CPU_PROGRAM_TRANSPOSE_H

#include "element.h"

/* Low and high halves of two vectors of 16 bytes, by turns; of longer vectors, in each 16 bytes.
 * ZIP: single elements, PAIR: two floats. */
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define ZIP_LOW(a, b)                                                                              \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define ZIP_HIGH(a, b)                                                                             \
  __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PAIR_LOW(a, b)                                                                             \
  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define PAIR_HIGH(a, b)                                                                            \
  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif VECTOR_BYTES == 64
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#elif VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32)
#define ZIP_LOW(a, b)   __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define ZIP_HIGH(a, b)  __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PAIR_LOW(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#elif VECTOR_BYTES == 32
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#elif defined(CPU_VARIANT_F32)
#define ZIP_LOW(a, b)   __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define PAIR_LOW(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define PAIR_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#else
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif

/* Exchanges blocks of `width` elements between two rows of a matrix that are `width` apart. */
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define LOW4(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define HIGH4(a, b)                                                                                \
  __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LOW8(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH8(a, b)                                                                                \
  __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#elif VECTOR_BYTES == 64
#define LOW2(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW4(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#elif VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32)
#define LOW4(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#elif VECTOR_BYTES == 32
#define LOW2(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

#define CROSS(n, i)                                                                                \
  {                                                                                                \
    const pack low = LOW##n(a[i], a[(i) + n]), high = HIGH##n(a[i], a[(i) + n]);                   \
    a[i] = low;                                                                                    \
    a[(i) + n] = high;                                                                             \
  }

/* Transposes the small matrix in each 16 bytes of as many rows as 16 bytes have elements. */
ALWAYS_INLINE void transpose_corner(pack *a) {
#if defined(CPU_VARIANT_F32)
  const pack p = ZIP_LOW(a[0], a[1]), q = ZIP_HIGH(a[0], a[1]);
  const pack r = ZIP_LOW(a[2], a[3]), s = ZIP_HIGH(a[2], a[3]);
  a[0] = PAIR_LOW(p, r);
  a[1] = PAIR_HIGH(p, r);
  a[2] = PAIR_LOW(q, s);
  a[3] = PAIR_HIGH(q, s);
#else
  const pack low = ZIP_LOW(a[0], a[1]), high = ZIP_HIGH(a[0], a[1]);
  a[0] = low;
  a[1] = high;
#endif
}

ALWAYS_INLINE void transpose_corners(pack *a) {
  enum { elements = 16 / sizeof(ELEMENT) };
  for (int i = 0; i < pack_lanes; i += elements) transpose_corner(a + i);
}

/* A square matrix of `lanes` rows. */
ALWAYS_INLINE void transpose(pack *a) {
  transpose_corners(a);
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
  CROSS(4, 0);
  CROSS(4, 1);
  CROSS(4, 2);
  CROSS(4, 3);
  CROSS(4, 8);
  CROSS(4, 9);
  CROSS(4, 10);
  CROSS(4, 11);
  CROSS(8, 0);
  CROSS(8, 1);
  CROSS(8, 2);
  CROSS(8, 3);
  CROSS(8, 4);
  CROSS(8, 5);
  CROSS(8, 6);
  CROSS(8, 7);
#elif VECTOR_BYTES == 64
  CROSS(2, 0);
  CROSS(2, 1);
  CROSS(2, 4);
  CROSS(2, 5);
  CROSS(4, 0);
  CROSS(4, 1);
  CROSS(4, 2);
  CROSS(4, 3);
#elif VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32)
  CROSS(4, 0);
  CROSS(4, 1);
  CROSS(4, 2);
  CROSS(4, 3);
#elif VECTOR_BYTES == 32
  CROSS(2, 0);
  CROSS(2, 1);
#endif
}

/* The same from rows in memory, whose halves are loaded to their places. */
#if VECTOR_BYTES == 32 && defined(__AVX2__) && defined(CPU_VARIANT_F32)
#define MEET(low, high)                                                                            \
  (pack) _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1)
#elif VECTOR_BYTES == 32 && defined(__AVX2__)
#define MEET(low, high)                                                                            \
  (pack) _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)), _mm_loadu_pd(high), 1)
#endif

ALWAYS_INLINE void transpose_load(const ELEMENT *const *row, int64_t at, pack *a) {
#if defined(MEET)
  enum { half = pack_lanes / 2 };
  for (int i = 0; i < half; i++) {
    a[i] = MEET(row[i] + at, row[i + half] + at);
    a[i + half] = MEET(row[i] + at + half, row[i + half] + at + half);
  }
  transpose_corners(a);
#else
  for (int i = 0; i < pack_lanes; i++) a[i] = pack_load(row[i] + at);
  transpose(a);
#endif
}

#undef CROSS
#undef MEET

#endif
