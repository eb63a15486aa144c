/* SPDX-License-Identifier: MIT */
/* Loops for LINALG, once per instruction set (core/isa.h) and element type; linalg_table.h defines
 * each loop.
 *
 * The algorithms are in the headers below. They are compiled twice: for numbers that are packs, one
 * matrix in each lane, and for single elements. */
#include "linalg_table.h"

#include "program/isa/madd.h"
#include "program/isa/transpose.h"

#define NOT_A_NUMBER ((ELEMENT)__builtin_nan(""))

/* EPSILON: the distance of 1 to the next number. NEGLIGIBLE, beside 1, even if squared.
 * MOST_EXPONENT: of a power of two whose reciprocal is normal. TINY counts as 0 in a matrix whose
 * largest element is about 1. */
#if defined(CPU_VARIANT_F32)
#define ROOT_OF(x)    __builtin_sqrtf(x)
#define EPSILON       0x1p-23f
#define NEGLIGIBLE    0x1p-60f
#define MOST_EXPONENT 120
#define TINY          0x1p-100f
#else
#define ROOT_OF(x)    __builtin_sqrt(x)
#define EPSILON       0x1p-52
#define NEGLIGIBLE    0x1p-500
#define MOST_EXPONENT 1000
#define TINY          0x1p-960
#endif

/* ---- Lanes ----------------------------------------------------------------------------------- */

#define FORM(name) CPU_PASTE(lanes, name)
#define VALUE      pack
#define TEST       pack_mask
enum { lanes_WIDTH = pack_lanes, lanes_UNIT = 1 };

ALWAYS_INLINE pack lanes_all(ELEMENT x) {
  return pack_all(x);
}
ALWAYS_INLINE pack lanes_pick(pack_mask test, pack yes, pack no) {
#if defined(__SSE2__) && !defined(__AVX2__)
  __asm__("" : "+x"(test)); /* gcc 12 fails where it sees that this is a choice */
#endif
  return (pack)((pack_mask)no ^ (((pack_mask)no ^ (pack_mask)yes) & test));
}
ALWAYS_INLINE pack_mask lanes_not(pack_mask test) {
  return ~test;
}
ALWAYS_INLINE pack lanes_root(pack x) {
  for (int j = 0; j < pack_lanes; j++) x[j] = ROOT_OF(x[j]);
  return x;
}
ALWAYS_INLINE pack lanes_get(const pack *x) {
  return *x;
}
ALWAYS_INLINE void lanes_put(pack *to, pack x) {
  *to = x;
}
ALWAYS_INLINE pack lanes_repeat(pack x) {
  return x;
}
ALWAYS_INLINE pack lanes_total(pack x) {
  return x;
}
/* Moves `pack_lanes` neighbouring elements of each matrix, from number `at` on. */
ALWAYS_INLINE void lanes_gather(const ELEMENT *const *from, int64_t at, pack *to) {
  pack a[pack_lanes];
  for (int lane = 0; lane < pack_lanes; lane++) a[lane] = pack_load(from[lane] + at);
  transpose(a);
  for (int k = 0; k < pack_lanes; k++) to[k] = a[k];
}
ALWAYS_INLINE void lanes_scatter(const pack *from, ELEMENT *const *to, int64_t at) {
  pack a[pack_lanes];
  for (int k = 0; k < pack_lanes; k++) a[k] = from[k];
  transpose(a);
  for (int lane = 0; lane < pack_lanes; lane++) pack_store(to[lane] + at, a[lane]);
}
ALWAYS_INLINE pack lanes_madd(pack a, pack b, pack c) {
  return MADD(a, b, c);
}
ALWAYS_INLINE pack lanes_nmadd(pack a, pack b, pack c) {
  return NMADD(a, b, c);
}

#include "linalg_steps.h"

#include "linalg_reflect.h"

#include "linalg_eigen.h"

#include "linalg_jacobi.h"

#include "linalg_run.h"

/* Alone only. */
#define lanes_sweep_square(a, n, vectors, values, turned, square, memory, crew, status)            \
  ((void)(square), (void)(memory))
#define lanes_sweep_numbers(n) 0

#include "linalg_spectral.h"

#define lanes_run_general(p, m, memory) ((void)(p), (void)(m), (void)(memory))

#include "linalg_call.h"

#undef FORM
#undef VALUE
#undef TEST

/* ---- One matrix ------------------------------------------------------------------------------ */

#define FORM(name) CPU_PASTE(line, name)
#define VALUE      ELEMENT
#define TEST       MASK
enum { line_WIDTH = 1, line_UNIT = pack_lanes };

ALWAYS_INLINE ELEMENT line_all(ELEMENT x) {
  return x;
}
ALWAYS_INLINE ELEMENT line_pick(MASK test, ELEMENT yes, ELEMENT no) {
  return test ? yes : no;
}
ALWAYS_INLINE MASK line_not(MASK test) {
  return !test;
}
ALWAYS_INLINE ELEMENT line_root(ELEMENT x) {
  return ROOT_OF(x);
}
ALWAYS_INLINE pack line_get(const ELEMENT *x) {
  return pack_load(x);
}
ALWAYS_INLINE void line_put(ELEMENT *to, pack x) {
  pack_store(to, x);
}
ALWAYS_INLINE pack line_repeat(ELEMENT x) {
  return pack_all(x);
}
ALWAYS_INLINE ELEMENT line_total(pack x) {
  return pack_sum(x);
}
ALWAYS_INLINE void line_gather(const ELEMENT *const *from, int64_t at, ELEMENT *to) {
  pack_store(to, pack_load(from[0] + at));
}
ALWAYS_INLINE void line_scatter(const ELEMENT *from, ELEMENT *const *to, int64_t at) {
  pack_store(to[0] + at, pack_load(from));
}
ALWAYS_INLINE ELEMENT line_madd(ELEMENT a, ELEMENT b, ELEMENT c) {
  return ONE_MADD(a, b, c);
}
ALWAYS_INLINE ELEMENT line_nmadd(ELEMENT a, ELEMENT b, ELEMENT c) {
  return ONE_MADD(-a, b, c);
}

#include "linalg_steps.h"

#include "linalg_reflect.h"

#include "linalg_eigen.h"

#include "linalg_jacobi.h"

#include "linalg_run.h"

#include "linalg_bidiagonal.h"

#include "linalg_spectral.h"

#include "linalg_general.h"

#include "linalg_call.h"

const cpu_linalg_loops CPU_VARIANT_SYMBOL(cpu_linalg) = {
    .lanes = pack_lanes, .numbers = line_numbers, .together = lanes_run, .alone = line_run};
