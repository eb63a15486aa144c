/* SPDX-License-Identifier: MIT */
/* Complex vectors in memory: interleaved numbers, rows, and single elements. */
#ifndef CPU_FOURIER_MOVES_H
#define CPU_FOURIER_MOVES_H

#include "butterflies.h"
#include "program/isa/transpose.h"

/* f(0) … f(lanes − 1), and the transform of so many vectors. */
#define EIGHT(f)      f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define EIGHT_MORE(f) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define LANES(f)     EIGHT(f) EIGHT_MORE(f)
#define dft_lanes(a) dft16(a)
#elif (VECTOR_BYTES == 64) || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
#define LANES(f)     EIGHT(f)
#define dft_lanes(a) dft8(a)
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
#define LANES(f)     f(0) f(1) f(2) f(3)
#define dft_lanes(a) dft4(&(a)[0], &(a)[1], &(a)[2], &(a)[3])
#else
#define LANES(f)     f(0) f(1)
#define dft_lanes(a) dft2(&(a)[0], &(a)[1])
#endif

ALWAYS_INLINE complex_pack get(const pack *x, int64_t at) {
  return (complex_pack){x[2 * at], x[2 * at + 1]};
}
ALWAYS_INLINE void put(pack *x, int64_t at, complex_pack a) {
  x[2 * at] = a.r;
  x[2 * at + 1] = a.i;
}

#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define EVEN(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)                                                                                  \
  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ZIP_LOW(a, b)                                                                              \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b)                                                                             \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define BACKWARD(a)                                                                                \
  __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#elif (VECTOR_BYTES == 64) || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
#define EVEN(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define BACKWARD(a)    __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
#define EVEN(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define BACKWARD(a)    __builtin_shufflevector(a, a, 3, 2, 1, 0)
#else
#define EVEN(a, b)     __builtin_shufflevector(a, b, 0, 2)
#define ODD(a, b)      __builtin_shufflevector(a, b, 1, 3)
#define ZIP_LOW(a, b)  EVEN(a, b)
#define ZIP_HIGH(a, b) ODD(a, b)
#define BACKWARD(a)    __builtin_shufflevector(a, a, 1, 0)
#endif

/* Contiguous complex numbers. */
ALWAYS_INLINE complex_pack deinterleave(const ELEMENT *x, bool swapped) {
  const pack a = pack_load(x), b = pack_load(x + pack_lanes);
  const pack even = EVEN(a, b), odd = ODD(a, b);
  return swapped ? (complex_pack){odd, even} : (complex_pack){even, odd};
}
ALWAYS_INLINE void interleave(complex_pack a, bool swapped, ELEMENT *to) {
  const pack first = swapped ? a.i : a.r, second = swapped ? a.r : a.i;
  pack_store(to, ZIP_LOW(first, second));
  pack_store(to + pack_lanes, ZIP_HIGH(first, second));
}
ALWAYS_INLINE complex_pack reversed(complex_pack a) {
  return (complex_pack){BACKWARD(a.r), BACKWARD(a.i)};
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void load_elements(const cpu_fourier_lines *l, int64_t first, int64_t points, pack *x) {
  for (int64_t k = first; k < points; k++) {
    ELEMENT *to = (ELEMENT *)(x + 2 * k);
    const ELEMENT *from = (const ELEMENT *)l->data + k * l->point;
    for (int j = 0; j < 2 * pack_lanes; j++) to[j] = 0;
    for (int32_t j = 0; j < l->count; j++) to[j] = from[j * l->lane];
    for (int32_t j = 0; l->part != 0 && j < l->count; j++)
      to[pack_lanes + j] = from[j * l->lane + l->part];
  }
}

static void store_elements(const cpu_fourier_lines *l, int64_t first, int64_t points, ELEMENT scale,
                           const pack *x) {
  for (int64_t k = first; k < points; k++) {
    const ELEMENT *from = (const ELEMENT *)(x + 2 * k);
    ELEMENT *to = (ELEMENT *)l->data + k * l->point;
    for (int32_t j = 0; j < l->count; j++) to[j * l->lane] = from[j] * scale;
    for (int32_t j = 0; l->part != 0 && j < l->count; j++)
      to[j * l->lane + l->part] = from[pack_lanes + j] * scale;
  }
}

/* Rows of complex numbers: half as many points as lanes at a time. */
static int64_t load_rows(const cpu_fourier_lines *l, const ELEMENT *from, bool swapped,
                         int64_t points, pack *x) {
  int64_t k = 0;
  for (; k + pack_lanes / 2 <= points; k += pack_lanes / 2) {
    pack a[pack_lanes];
#define READ(j) a[j] = pack_load(from + j * l->lane + 2 * k);
    LANES(READ)
#undef READ
    transpose(a);
#define WRITE(j) x[2 * k + ((j) ^ (int)swapped)] = a[j];
    LANES(WRITE)
#undef WRITE
  }
  return k;
}

static int64_t store_rows(const cpu_fourier_lines *l, ELEMENT *to, bool swapped, int64_t points,
                          pack scale, const pack *x) {
  int64_t k = 0;
  for (; k + pack_lanes / 2 <= points; k += pack_lanes / 2) {
    pack a[pack_lanes];
#define READ(j) a[j] = x[2 * k + ((j) ^ (int)swapped)] * scale;
    LANES(READ)
#undef READ
    transpose(a);
#define WRITE(j) pack_store(to + j * l->lane + 2 * k, a[j]);
    LANES(WRITE)
#undef WRITE
  }
  return k;
}

static void load(const cpu_fourier_lines *l, int64_t points, int64_t padded, void *block) {
  const bool whole = l->count == pack_lanes, paired = l->part == 1 || l->part == -1;
  const bool swapped = l->part == -1;
  const ELEMENT *from = (const ELEMENT *)l->data - swapped;
  pack *x = block;
  int64_t k = 0;
  if (whole && paired && l->lane == 2)
    for (; k < points; k++) put(x, k, deinterleave(from + k * l->point, swapped));
  else if (whole && paired && l->point == 2)
    k = load_rows(l, from, swapped, points, x);
  else if (whole && l->lane == 1)
    for (; k < points; k++) {
      const ELEMENT *real = (const ELEMENT *)l->data + k * l->point;
      put(x, k, (complex_pack){pack_load(real), l->part ? pack_load(real + l->part) : pack_all(0)});
    }
  load_elements(l, k, points, x);
  for (k = points; k < padded; k++) put(x, k, (complex_pack){pack_all(0), pack_all(0)});
}

static void store(const cpu_fourier_lines *l, int64_t points, double scale, const void *block) {
  const bool whole = l->count == pack_lanes, paired = l->part == 1 || l->part == -1;
  const bool swapped = l->part == -1;
  const pack *x = block, by_scale = pack_all((ELEMENT)scale);
  ELEMENT *to = (ELEMENT *)l->data - swapped;
  int64_t k = 0;
  if (whole && paired && l->lane == 2)
    for (; k < points; k++) interleave(scaled(get(x, k), by_scale), swapped, to + k * l->point);
  else if (whole && paired && l->point == 2)
    k = store_rows(l, to, swapped, points, by_scale, x);
  else if (whole && l->lane == 1)
    for (; k < points; k++) {
      const complex_pack a = scaled(get(x, k), by_scale);
      ELEMENT *real = (ELEMENT *)l->data + k * l->point;
      pack_store(real, a.r);
      if (l->part) pack_store(real + l->part, a.i);
    }
  store_elements(l, k, points, (ELEMENT)scale, x);
}

#endif
