/* Loops for direct convolution; isa.h says how this file is compiled, direct_table.h what each
 * does.
 *
 * Vectors are GCC's, 16 bytes wide without AVX; contraction is off in the whole project, so
 * multiply-adds are asked for by name. */
#include "direct_table.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define DIRECT_BYTES            64
#define DIRECT_FMA_f32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define DIRECT_FMA_f64(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define DIRECT_BYTES            32
#define DIRECT_FMA_f32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define DIRECT_FMA_f64(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#define DIRECT_BYTES            16
#define DIRECT_FMA_f32(a, b, c) ((a) * (b) + (c))
#define DIRECT_FMA_f64(a, b, c) ((a) * (b) + (c))
#endif

#define DIRECT_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define DIRECT_UNROLL _Pragma("unroll")
#else
#define DIRECT_UNROLL _Pragma("GCC unroll 32")
#endif

/* Keeps a vector in a register. Left to itself gcc makes the load a part of each instruction that
 * uses it, which then load it again. */
#if DIRECT_BYTES == 64
#define DIRECT_PIN(vector) __asm__("" : "+v"(vector))
#elif defined(__x86_64__)
#define DIRECT_PIN(vector) __asm__("" : "+x"(vector))
#else
#define DIRECT_PIN(vector) ((void)(vector))
#endif

enum {
  DIRECT_ROWS = 4,                            /* of results, at a time */
  DIRECT_WIDE = 8,                            /* vectors of a single row */
  DIRECT_TAPS = 9,                            /* whose sums are in registers at a time, */
  DIRECT_FACTORS = DIRECT_BYTES == 64 ? 2 : 1 /* for so many factors: 18 of 32 or 9 of 16 */
};

#define ELEMENT      float
#define MASK         int32_t
#define NAME(x)      direct_##x##_f32
#define FMA(a, b, c) DIRECT_FMA_f32(a, b, c)
#include "direct_kernels.h"
#undef ELEMENT
#undef MASK
#undef NAME
#undef FMA

#define ELEMENT      double
#define MASK         int64_t
#define NAME(x)      direct_##x##_f64
#define FMA(a, b, c) DIRECT_FMA_f64(a, b, c)
#include "direct_kernels.h"

#define DIRECT_LOOPS(type)                                                                         \
  {                                                                                                \
    direct_lanes_##type, direct_sweep_##type, direct_correlate_##type, direct_total_##type,        \
        direct_copy_##type, direct_pick_##type, direct_spread_##type, direct_interleave_##type     \
  }

const cpu_direct_table CPU_SYMBOL(cpu_direct_table) = {.f32 = DIRECT_LOOPS(f32),
                                                       .f64 = DIRECT_LOOPS(f64)};
