/* The four combinations of one type: a template, included by isa/scan.c with
 *
 *   ELEMENT, ARITHMETIC  the type, and the one to add and multiply in: unsigned for integers, where
 *                        overflow wraps
 *   TYPED(x)             x with the type's suffix
 *   IS_NAN(x)            whether x is not a number
 *   ZERO                 the sum that changes nothing: −0 for floats
 *   LOWEST, HIGHEST      the ends of its range, infinities for floats */

CPU_INLINE ELEMENT TYPED(plus)(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a + (ARITHMETIC)b);
}
CPU_INLINE ELEMENT TYPED(times)(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a * (ARITHMETIC)b);
}
/* Comparisons hand `b` on if either is NaN; only one in `a` needs care. */
CPU_INLINE ELEMENT TYPED(larger)(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a > b ? a : b;
  return IS_NAN(a) ? a : extremum;
}
CPU_INLINE ELEMENT TYPED(smaller)(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a < b ? a : b;
  return IS_NAN(a) ? a : extremum;
}

#define NAME(x)       TYPED(sum_##x)
#define COMBINE(a, b) TYPED(plus)(a, b)
#define NEUTRAL       ZERO
#define IDENTITY      0
#include "scan_kernels.h"

#define NAME(x)       TYPED(product_##x)
#define COMBINE(a, b) TYPED(times)(a, b)
#define NEUTRAL       1
#define IDENTITY      1
#include "scan_kernels.h"

#define NAME(x)       TYPED(maximum_##x)
#define COMBINE(a, b) TYPED(larger)(a, b)
#define NEUTRAL       LOWEST
#define IDENTITY      LOWEST
#include "scan_kernels.h"

#define NAME(x)       TYPED(minimum_##x)
#define COMBINE(a, b) TYPED(smaller)(a, b)
#define NEUTRAL       HIGHEST
#define IDENTITY      HIGHEST
#include "scan_kernels.h"

#undef ELEMENT
#undef ARITHMETIC
#undef TYPED
#undef IS_NAN
#undef ZERO
#undef LOWEST
#undef HIGHEST
