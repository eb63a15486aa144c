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

/* Numbers are shuffled within 16 bytes only, because this is cheaper. Lane j of a vector therefore
 * holds number PLACE(j) of those in memory. SORT puts numbers in this order, UNSORT back. */
enum { corner = 16 / sizeof(ELEMENT) };
#define PLACE(j)                                                                                   \
  ((j) / corner * (corner / 2) + (j) % (corner / 2) +                                              \
   ((j) % corner < corner / 2 ? 0 : pack_lanes / 2))

#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define EVEN(a, b)                                                                                 \
  __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30)
#define ODD(a, b)                                                                                  \
  __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31)
#define SORT(a) __builtin_shufflevector(a, a, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
#define UNSORT(a)                                                                                  \
  __builtin_shufflevector(a, a, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
#define BACKWARD(a)                                                                                \
  __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#elif VECTOR_BYTES == 64
#define EVEN(a, b)  ZIP_LOW(a, b)
#define ODD(a, b)   ZIP_HIGH(a, b)
#define SORT(a)     __builtin_shufflevector(a, a, 0, 4, 1, 5, 2, 6, 3, 7)
#define UNSORT(a)   __builtin_shufflevector(a, a, 0, 2, 4, 6, 1, 3, 5, 7)
#define BACKWARD(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32)
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define SORT(a)     __builtin_shufflevector(a, a, 0, 1, 4, 5, 2, 3, 6, 7)
#define UNSORT(a)   SORT(a)
#define BACKWARD(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif VECTOR_BYTES == 32
#define EVEN(a, b)  ZIP_LOW(a, b)
#define ODD(a, b)   ZIP_HIGH(a, b)
#define SORT(a)     __builtin_shufflevector(a, a, 0, 2, 1, 3)
#define UNSORT(a)   SORT(a)
#define BACKWARD(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#elif defined(CPU_VARIANT_F32)
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define SORT(a)     (a)
#define UNSORT(a)   (a)
#define BACKWARD(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#else
#define EVEN(a, b)  ZIP_LOW(a, b)
#define ODD(a, b)   ZIP_HIGH(a, b)
#define SORT(a)     (a)
#define UNSORT(a)   (a)
#define BACKWARD(a) __builtin_shufflevector(a, a, 1, 0)
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
    for (int j = 0; j < pack_lanes; j++)
      if (PLACE(j) < l->count) to[j] = from[PLACE(j) * l->lane];
    for (int j = 0; l->part != 0 && j < pack_lanes; j++)
      if (PLACE(j) < l->count) to[pack_lanes + j] = from[PLACE(j) * l->lane + l->part];
  }
}

static void store_elements(const cpu_fourier_lines *l, int64_t first, int64_t points, ELEMENT scale,
                           const pack *x) {
  for (int64_t k = first; k < points; k++) {
    const ELEMENT *from = (const ELEMENT *)(x + 2 * k);
    ELEMENT *to = (ELEMENT *)l->data + k * l->point;
    for (int j = 0; j < pack_lanes; j++)
      if (PLACE(j) < l->count) to[PLACE(j) * l->lane] = from[j] * scale;
    for (int j = 0; l->part != 0 && j < pack_lanes; j++)
      if (PLACE(j) < l->count) to[PLACE(j) * l->lane + l->part] = from[pack_lanes + j] * scale;
  }
}

/* Rows of complex numbers: half as many points as lanes at a time. Rows beyond the last line repeat
 * the first. These and their callers are one function: calls in calls were slower here. */
ALWAYS_INLINE int64_t load_rows(const cpu_fourier_lines *l, bool whole, bool swapped,
                                int64_t points, pack *x) {
  const ELEMENT *row[pack_lanes], *first = (const ELEMENT *)l->data - swapped;
  const int64_t lane = l->lane;
  int64_t k = 0;
  for (int j = 0; j < pack_lanes; j++)
    row[j] = first + (whole || PLACE(j) < l->count ? PLACE(j) * lane : 0);
  for (; k + pack_lanes / 2 <= points; k += pack_lanes / 2) {
    pack a[pack_lanes];
    transpose_load(row, 2 * k, a);
#define WRITE(j) x[2 * k + ((j) ^ (int)swapped)] = a[j];
    LANES(WRITE)
#undef WRITE
  }
  return k;
}

ALWAYS_INLINE int64_t store_rows(const cpu_fourier_lines *l, bool whole, bool swapped,
                                 int64_t points, pack scale, const pack *x) {
  ELEMENT *row[pack_lanes], *first = (ELEMENT *)l->data - swapped;
  const int64_t lane = l->lane, count = l->count;
  int64_t k = 0;
  for (int j = 0; j < pack_lanes; j++) row[j] = first + PLACE(j) * lane;
  for (; k + pack_lanes / 2 <= points; k += pack_lanes / 2) {
    pack a[pack_lanes];
#define READ(j) a[j] = x[2 * k + ((j) ^ (int)swapped)] * scale;
    LANES(READ)
#undef READ
    transpose(a);
    for (int j = 0; j < pack_lanes; j++)
      if (whole || PLACE(j) < count) pack_store(row[j] + 2 * k, a[j]);
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
    k = swapped ? load_rows(l, true, true, points, x) : load_rows(l, true, false, points, x);
  else if (paired && l->point == 2)
    k = load_rows(l, false, swapped, points, x);
  else if (whole && l->lane == 1)
    for (; k < points; k++) {
      const ELEMENT *real = (const ELEMENT *)l->data + k * l->point;
      const pack r = pack_load(real), i = l->part ? pack_load(real + l->part) : pack_all(0);
      put(x, k, (complex_pack){SORT(r), SORT(i)});
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
    k = swapped ? store_rows(l, true, true, points, by_scale, x)
                : store_rows(l, true, false, points, by_scale, x);
  else if (paired && l->point == 2)
    k = store_rows(l, false, swapped, points, by_scale, x);
  else if (whole && l->lane == 1)
    for (; k < points; k++) {
      const complex_pack a = scaled(get(x, k), by_scale);
      ELEMENT *real = (ELEMENT *)l->data + k * l->point;
      pack_store(real, UNSORT(a.r));
      if (l->part) pack_store(real + l->part, UNSORT(a.i));
    }
  store_elements(l, k, points, (ELEMENT)scale, x);
}

#endif
