/* SPDX-License-Identifier: MIT */
/* Loops for SCAN, once per instruction set (core/isa.h) and element type; row_table.h defines each
 * loop. */
#include "program/isa/element.h"
#include "program/isa/tile_loops.h"
#include "row_table.h"

#if IS_FLOAT
#define ZERO (-(ELEMENT)0) /* the neutral sum */
#else
#define ZERO 0
#endif

CPU_INLINE ELEMENT plus(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a + (ARITHMETIC)b);
}
CPU_INLINE ELEMENT times(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a * (ARITHMETIC)b);
}
/* Comparisons return `b` if either is NaN, so only a NaN in `a` needs an extra step. */
CPU_INLINE ELEMENT larger(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a > b ? a : b;
  return IS_NAN(a) ? a : extremum;
}
CPU_INLINE ELEMENT smaller(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a < b ? a : b;
  return IS_NAN(a) ? a : extremum;
}

enum { SCAN_VECTORS = CPU_SCAN_STACK_BYTES / 16 }; /* of a stack; one element is a vector, too */
typedef ELEMENT single __attribute__((vector_size(sizeof(ELEMENT))));

#define NAME(x)       sum_##x
#define COMBINE(a, b) plus(a, b)
#define NEUTRAL       ZERO
#define IDENTITY      0
#include "scan_kernels.h"

#define NAME(x)       product_##x
#define COMBINE(a, b) times(a, b)
#define NEUTRAL       1
#define IDENTITY      1
#include "scan_kernels.h"

#define NAME(x)       maximum_##x
#define COMBINE(a, b) larger(a, b)
#define NEUTRAL       LOWEST
#define IDENTITY      LOWEST
#include "scan_kernels.h"

#define NAME(x)       minimum_##x
#define COMBINE(a, b) smaller(a, b)
#define NEUTRAL       HIGHEST
#define IDENTITY      HIGHEST
#include "scan_kernels.h"

#define LOOPS(name)                                                                                \
  {                                                                                                \
    name##_local, name##_finish, name##_step, name##_rows, name##_stacks, name##_combine,          \
        name##_clear, name##_identity                                                              \
  }

const cpu_scan_folds CPU_VARIANT_SYMBOL(cpu_scan) = {
    .fold = {[COMPUTE_COMBINE_SUM] = LOOPS(sum),
             [COMPUTE_COMBINE_PROD] = LOOPS(product),
             [COMPUTE_COMBINE_MAX] = LOOPS(maximum),
             [COMPUTE_COMBINE_MIN] = LOOPS(minimum)}};
