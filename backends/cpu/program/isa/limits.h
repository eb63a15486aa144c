/* SPDX-License-Identifier: MIT */
/* Limits on f32 vectors with the semantics of programs: low > x ? low : x in each element, and high
 * < x ? high : x. So NaN is kept. */
#ifndef CPU_ISA_LIMITS_H
#define CPU_ISA_LIMITS_H

#if defined(__AVX512F__)
#include <immintrin.h>
#define CPU_AT_LEAST(low, x) _mm512_max_ps(low, x)
#define CPU_AT_MOST(high, x) _mm512_min_ps(high, x)
#elif defined(__AVX2__)
#include <immintrin.h>
#define CPU_AT_LEAST(low, x) _mm256_max_ps(low, x)
#define CPU_AT_MOST(high, x) _mm256_min_ps(high, x)
#else
#define CPU_CHOOSE(mask, a, b)                                                                     \
  ((__typeof__(b))(((__typeof__(mask))(a) & (mask)) | ((__typeof__(mask))(b) & ~(mask))))
#define CPU_AT_LEAST(low, x) CPU_CHOOSE((low) > (x), low, x)
#define CPU_AT_MOST(high, x) CPU_CHOOSE((high) < (x), high, x)
#endif

#endif
