/* Loops for ROW (softmax, log-softmax, normalize); isa.h says how this file is compiled,
 * reduce_table.h what each loop does. */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "program/isa/math_exp_f32.h"
#include "program/isa/math_f64.h"
#include "reduce_table.h"
#include "program/isa/tile_loops.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Softmax divides by the sum anyway, so its exponentials may be too large by a constant factor:
 * that saves the care for denormal results here. exp(−110) divided by the sum is 0 in the end. */
CPU_INLINE float exp_scaled_f32(float x) {
  return math_exp_scaled_f32(x < -110.0f ? -110.0f : x);
}

#define ELEMENT       float
#define ARITHMETIC    float
#define MASK          int32_t
#define NAME(x)       x##_f32
#define EXP(x)        exp_scaled_f32(x)
#define EXP_SCALE     0x1p64
#define LOWEST_FINITE (-FLT_MAX)
#include "row_kernels.h"
#undef ELEMENT
#undef ARITHMETIC
#undef MASK
#undef NAME
#undef EXP
#undef EXP_SCALE
#undef LOWEST_FINITE

#define ELEMENT       double
#define ARITHMETIC    double
#define MASK          int64_t
#define NAME(x)       x##_f64
#define EXP(x)        math_exp_f64(x)
#define EXP_SCALE     1.0
#define LOWEST_FINITE (-DBL_MAX)
#include "row_kernels.h"

#define LOOPS(kind, type, scale)                                                                   \
  {                                                                                                \
    kind##_maximum_##type, kind##_exponentials_##type, kind##_moments_##type, kind##_scale_##type, \
        kind##_subtract_##type, scale                                                              \
  }

static const cpu_row_loops single_f64 = LOOPS(single, f64, 1), wide_f64 = LOOPS(wide, f64, 1);
static const cpu_row_loops single_f32 = LOOPS(single, f32, 0x1p64);
static const cpu_row_loops wide_f32 = LOOPS(wide, f32, 0x1p64);

const cpu_row_table CPU_SYMBOL(cpu_row_table) = {
    .f64_single = &single_f64,
    .f64_wide = &wide_f64,
    .f32_single = &single_f32,
    .f32_wide = &wide_f32,
};
