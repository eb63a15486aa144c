/* SPDX-License-Identifier: MIT */
/* Transposes a square matrix of as many packs as a pack has elements. */
#ifndef CPU_PROGRAM_TRANSPOSE_H
#define CPU_PROGRAM_TRANSPOSE_H

#include "element.h"

/* Exchanges blocks of `width` elements between two rows of a matrix that are `width` apart. */
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define LOW1(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define HIGH1(a, b)                                                                                \
  __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define LOW2(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH2(a, b)                                                                                \
  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define LOW4(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define HIGH4(a, b)                                                                                \
  __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LOW8(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH8(a, b)                                                                                \
  __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#elif (VECTOR_BYTES == 64) || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
#define LOW1(a, b)  __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define HIGH1(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define LOW2(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW4(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
#define LOW1(a, b)  __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define HIGH1(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define LOW2(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#else
#define LOW1(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define HIGH1(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif

#define CROSS(n, i)                                                                                \
  {                                                                                                \
    const pack low = LOW##n(a[i], a[(i) + n]), high = HIGH##n(a[i], a[(i) + n]);                   \
    a[i] = low;                                                                                    \
    a[(i) + n] = high;                                                                             \
  }

/* A square matrix of `lanes` rows. */
ALWAYS_INLINE void transpose(pack *a) {
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
  CROSS(1, 0);
  CROSS(1, 2);
  CROSS(1, 4);
  CROSS(1, 6);
  CROSS(1, 8);
  CROSS(1, 10);
  CROSS(1, 12);
  CROSS(1, 14);
  CROSS(2, 0);
  CROSS(2, 1);
  CROSS(2, 4);
  CROSS(2, 5);
  CROSS(2, 8);
  CROSS(2, 9);
  CROSS(2, 12);
  CROSS(2, 13);
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
#elif (VECTOR_BYTES == 64) || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
  CROSS(1, 0);
  CROSS(1, 2);
  CROSS(1, 4);
  CROSS(1, 6);
  CROSS(2, 0);
  CROSS(2, 1);
  CROSS(2, 4);
  CROSS(2, 5);
  CROSS(4, 0);
  CROSS(4, 1);
  CROSS(4, 2);
  CROSS(4, 3);
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
  CROSS(1, 0);
  CROSS(1, 2);
  CROSS(2, 0);
  CROSS(2, 1);
#else
  CROSS(1, 0);
#endif
}

#undef CROSS

#endif
