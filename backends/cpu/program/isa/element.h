/* SPDX-License-Identifier: MIT */
/* The element type that a source of an isa/ folder is compiled for (CPU_VARIANT), and its vectors.
 *
 *   ELEMENT          the type
 *   ARITHMETIC       the type for sums and products: unsigned for integers, where overflow wraps
 *   MASK             the signed integer type as wide as ELEMENT
 *   IS_NAN(x)        true if x is not a number; PACK_NAN(x): the same for a pack, as a pack
 *   LOWEST, HIGHEST  the ends of its range, infinities for floats */
#ifndef CPU_PROGRAM_ELEMENT_H
#define CPU_PROGRAM_ELEMENT_H

#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/isa.h"

#if defined(CPU_VARIANT_F64)
#define ELEMENT    double
#define ARITHMETIC double
#define MASK       int64_t
#define HIGHEST    __builtin_inf()
#elif defined(CPU_VARIANT_F32)
#define ELEMENT    float
#define ARITHMETIC float
#define MASK       int32_t
#define HIGHEST    __builtin_inff()
#elif defined(CPU_VARIANT_I64)
#define ELEMENT    int64_t
#define ARITHMETIC uint64_t
#define MASK       int64_t
#define LOWEST     INT64_MIN
#define HIGHEST    INT64_MAX
#elif defined(CPU_VARIANT_I32)
#define ELEMENT    int32_t
#define ARITHMETIC uint32_t
#define MASK       int32_t
#define LOWEST     INT32_MIN
#define HIGHEST    INT32_MAX
#elif defined(CPU_VARIANT_BYTE) /* stored BOOL: 0 and 1 */
#define ELEMENT    uint8_t
#define ARITHMETIC uint8_t
#define MASK       int8_t
#define LOWEST     0
#define HIGHEST    1
#endif

#if defined(CPU_VARIANT_F64) || defined(CPU_VARIANT_F32)
#define IS_FLOAT    1
#define LOWEST      (-HIGHEST)
#define IS_NAN(x)   ((x) != (x))
#define PACK_NAN(x) ((x) != (x))
#else
#define IS_FLOAT    0
#define IS_NAN(x)   ((void)(x), 0)
#define PACK_NAN(x) ((x) ^ (x)) /* never NaN */
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))

/* ---- Vectors ------------------------------------------------------------------------------- */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__) || defined(__riscv_v)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Vectors for accumulators that must stay in registers. Elsewhere ordinary loops vectorise well
 * enough. But compilers keep an array of accumulators in memory, and short lines would spend their
 * time on clearing and reloading it. */
typedef ELEMENT pack __attribute__((vector_size(VECTOR_BYTES)));
typedef MASK pack_mask __attribute__((vector_size(VECTOR_BYTES)));
typedef ARITHMETIC arithmetic_pack __attribute__((vector_size(VECTOR_BYTES)));

enum { pack_lanes = VECTOR_BYTES / (int)sizeof(ELEMENT) }; /* elements of a pack */

ALWAYS_INLINE pack pack_load(const ELEMENT *x) {
  pack p;
  __builtin_memcpy(&p, x, sizeof p);
  return p;
}

ALWAYS_INLINE void pack_store(ELEMENT *to, pack p) {
  __builtin_memcpy(to, &p, sizeof p);
}

ALWAYS_INLINE pack pack_all(ELEMENT x) {
  pack p = {0}; /* gcc 14 warns otherwise, though all is set below */
  for (int j = 0; j < pack_lanes; j++) p[j] = x;
  return p;
}

/* The first `count` elements (at most a pack's), filled up with LOWEST; and the matching store. */
#if defined(CPU_VARIANT_F32) && defined(__AVX512F__)
ALWAYS_INLINE pack pack_load_few(const ELEMENT *x, int64_t count) {
  return _mm512_mask_loadu_ps(pack_all(LOWEST), (__mmask16)((1 << count) - 1), x);
}
ALWAYS_INLINE void pack_store_few(ELEMENT *to, pack p, int64_t count) {
  _mm512_mask_storeu_ps(to, (__mmask16)((1 << count) - 1), p);
}
#else
ALWAYS_INLINE pack pack_load_few(const ELEMENT *x, int64_t count) {
  ELEMENT room[pack_lanes];
  for (int j = 0; j < pack_lanes; j++) room[j] = LOWEST;
  for (int64_t j = 0; j < count; j++) room[j] = x[j];
  return pack_load(room);
}
ALWAYS_INLINE void pack_store_few(ELEMENT *to, pack p, int64_t count) {
  ELEMENT room[pack_lanes];
  pack_store(room, p);
  for (int64_t j = 0; j < count; j++) to[j] = room[j];
}
#endif

ALWAYS_INLINE pack pack_add(pack a, pack b) {
  return (pack)((arithmetic_pack)a + (arithmetic_pack)b);
}

/* A pack in parts of 16 bytes: to combine whole parts first takes few instructions; to combine
 * elements takes some for each. */
enum { pack_parts = VECTOR_BYTES / 16, part_lanes = 16 / (int)sizeof(ELEMENT) };
typedef ELEMENT pack_part __attribute__((vector_size(16)));
typedef ARITHMETIC arithmetic_part __attribute__((vector_size(16)));

/* The sum of all elements, as a tree. */
ALWAYS_INLINE ELEMENT pack_sum(pack p) {
  pack_part part[pack_parts];
  __builtin_memcpy(part, &p, sizeof p);
  for (int half = pack_parts / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      part[j] = (pack_part)((arithmetic_part)part[j] + (arithmetic_part)part[j + half]);
  ELEMENT lane[part_lanes];
  for (int j = 0; j < part_lanes; j++) lane[j] = part[0][j];
  for (int half = part_lanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      lane[j] = (ELEMENT)((ARITHMETIC)lane[j] + (ARITHMETIC)lane[j + half]);
  return lane[0];
}

#endif
