/* SPDX-License-Identifier: MIT */
/* Depthwise convolution with channels last; core/isa.h says how this file is compiled,
 * depthwise_table.h what the loop does.
 *
 * A vector holds channels of one pixel. The sums of some neighbouring pixels stay in registers
 * while the taps run, so that each weight is loaded once for them, and in windows 3 or 5 columns
 * wide each vector of the data, too. At the edges of a row, pixels are alone, with more vectors of
 * each. All channels of these pixels come next: lines of the data are read one after the other,
 * and each of them once.
 *
 * Bytes are widened to the low halves of words of 32 bits, as weights are, and multiplied as pairs
 * of 16 bits, which is faster than whole words. */
#include "depthwise_table.h"
#include "program/isa/limits.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#define VECTOR_BYTES        64
#define ADD_FLOATS(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MULTIPLY_LOW(a, b)  ((words)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)))
#define WIDEN_U8(from)      ((words)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(from))))
#define WIDEN_I8(from)      ((words)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(from))))
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VECTOR_BYTES        32
#define ADD_FLOATS(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MULTIPLY_LOW(a, b)  ((words)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#define WIDEN_U8(from)      ((words)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(from))))
#define WIDEN_I8(from)      ((words)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(from))))
#else
#define VECTOR_BYTES 16
#if defined(__SSE2__)
#include <emmintrin.h>
#define MULTIPLY_LOW(a, b) ((words)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#else
#define MULTIPLY_LOW(a, b) (((a) << 16 >> 16) * (b))
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#define ADD_FLOATS(a, b, c)                                                                        \
  ((floats)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define ADD_FLOATS(a, b, c) ((a) * (b) + (c))
#endif
#define WIDEN_U8(from) __builtin_convertvector(*(const bytes_at *)(from), words)
#define WIDEN_I8(from) __builtin_convertvector(*(const signed_bytes_at *)(from), words)
#endif

#define LANES  (VECTOR_BYTES / 4)
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 20")
#endif

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef float floats_at __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef int32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t words_at __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef uint8_t bytes_at __attribute__((vector_size(LANES), aligned(1)));
typedef int8_t signed_bytes_at __attribute__((vector_size(LANES), aligned(1)));

enum { MOST_PIXELS = 7, TILE_VECTORS = 2, EDGE_VECTORS = 6, MOST_TAPS = 5 };

/* Sums of the channels from c on, finished. */
INLINE floats finish_floats(const cpu_depthwise_finish *f, int64_t c, floats x) {
  const floats none = {0}, low = f->low - none, zero = f->zero - none, high = f->high - none;
  x += *(const floats_at *)(f->bias + c);
  x = (floats)CPU_AT_LEAST(low, x) + zero;
  return (floats)CPU_AT_MOST(high, x);
}

#define DATA                  float
#define SUM                   float
#define SUMS                  floats
#define SUMS_AT               floats_at
#define LOAD(from)            (*(const floats_at *)(from))
#define MULTIPLY_ADD(a, b, c) ADD_FLOATS(a, b, c)
#define FINISH(f, c, x)       finish_floats(f, c, x)
#define NAME(x)               x##_f32
#include "depthwise_line.h"

#define DATA                  uint8_t
#define SUM                   int32_t
#define SUMS                  words
#define SUMS_AT               words_at
#define LOAD(from)            WIDEN_U8(from)
#define MULTIPLY_ADD(a, b, c) (MULTIPLY_LOW(a, b) + (c))
#define FINISH(f, c, x)       ((void)(f), (x))
#define NAME(x)               x##_u8
#include "depthwise_line.h"

#define DATA                  int8_t
#define SUM                   int32_t
#define SUMS                  words
#define SUMS_AT               words_at
#define LOAD(from)            WIDEN_I8(from)
#define MULTIPLY_ADD(a, b, c) (MULTIPLY_LOW(a, b) + (c))
#define FINISH(f, c, x)       ((void)(f), (x))
#define NAME(x)               x##_i8
#include "depthwise_line.h"

const cpu_depthwise_table CPU_SYMBOL(cpu_depthwise) = {
    .lanes = LANES, .run = run_f32, .run_u8 = run_u8, .run_i8 = run_i8};
