/* SPDX-License-Identifier: MIT */
/* Depthwise convolution with channels last (loop: depthwise_table.h; compilation: core/isa.h).
 *
 * A vector holds channels of one pixel. The sums of some neighbouring pixels stay in registers
 * during all taps, so that each weight is loaded once for all of them. In windows 3 or 5 columns
 * wide, each vector of the data is loaded once as well. At the edges of a row, pixels are computed
 * one by one, with more vectors of each. All channels of these pixels come next: cache lines of the
 * data are read in sequence, each of them once.
 *
 * Bytes and their weights are widened to the low halves of 32-bit words, and multiplied as pairs of
 * 16 bits: this is faster than 32-bit products.
 *
 * The variant `bf16`, for machines with AVX512-BF16, has the loop of that dtype only. */
#include "depthwise_table.h"
#include "floats.h"
#include "program/isa/limits.h"

#if defined(__AVX512BW__)
#define MULTIPLY_LOW(a, b) ((words)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)))
#define WIDEN_U8(from)     ((words)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(from))))
#define WIDEN_I8(from)     ((words)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(from))))
#define WIDEN_U16(from)                                                                            \
  ((unsigned_words)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(from))))
#define NARROW_U16(words) ((halves_at)_mm512_cvtepi32_epi16((__m512i)(words)))
#elif defined(__AVX2__) && defined(__FMA__)
#define MULTIPLY_LOW(a, b) ((words)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#define WIDEN_U8(from)     ((words)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(from))))
#define WIDEN_I8(from)     ((words)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(from))))
#define WIDEN_U16(from)                                                                            \
  ((unsigned_words)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(from))))
/* For words below 2^16: packing works per 128-bit half, with four words each. */
#define NARROW_U16(words)                                                                          \
  ((halves_at)_mm256_castsi256_si128(_mm256_permute4x64_epi64(                                     \
      _mm256_packus_epi32((__m256i)(words), (__m256i)(words)), _MM_SHUFFLE(3, 1, 2, 0))))
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#define MULTIPLY_LOW(a, b) ((words)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#else
#define MULTIPLY_LOW(a, b) (((a) << 16 >> 16) * (b))
#endif
#define WIDEN_U8(from)    __builtin_convertvector(*(const bytes_at *)(from), words)
#define WIDEN_I8(from)    __builtin_convertvector(*(const signed_bytes_at *)(from), words)
#define WIDEN_U16(from)   __builtin_convertvector(*(const halves_at *)(from), unsigned_words)
#define NARROW_U16(words) __builtin_convertvector(words, halves_at)
#endif

typedef uint32_t unsigned_words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t halves_at __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2)));
typedef int32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t words_at __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef uint8_t bytes_at __attribute__((vector_size(LANES), aligned(1)));
typedef int8_t signed_bytes_at __attribute__((vector_size(LANES), aligned(1)));

enum { MOST_PIXELS = 7, TILE_VECTORS = 2, EDGE_VECTORS = 6, MOST_TAPS = 5 };
enum { DENORMAL = 0x20 }; /* fpclass category of denormals: the bf16 conversion flushes them */

/* Converts between f32 and bf16, one vector each, with rounding to nearest even; a NaN stays a NaN.
 * The explicit instructions are needed: compilers widen and narrow such vectors by halves. */
INLINE floats widen_bf16(const uint16_t *from) {
  return (floats)(WIDEN_U16(from) << 16);
}
INLINE unsigned_words round_bf16(floats x) { /* result in the upper halves */
  const unsigned_words bits = (unsigned_words)x;
  const unsigned_words rounded = bits + 0x7fff + (bits >> 16 & 1), nan = bits | 0x400000;
  const unsigned_words is_nan = (unsigned_words)(x != x);
  return (nan & is_nan) | (rounded & ~is_nan);
}
INLINE void store_bf16(uint16_t *to, floats x) {
#ifdef CPU_VARIANT_BF16
  if (!_mm512_fpclass_ps_mask(x, DENORMAL)) {
    _mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x));
    return;
  }
#endif
  *(halves_at *)to = NARROW_U16(round_bf16(x) >> 16);
}

/* Applies the limits to sums with their bias. */
INLINE floats limit_floats(const cpu_depthwise_finish *f, floats x) {
  const floats none = {0}, low = f->low - none, zero = f->zero - none, high = f->high - none;
  x = (floats)CPU_AT_LEAST(low, x) + zero;
  return (floats)CPU_AT_MOST(high, x);
}
INLINE void finish_f32(const cpu_depthwise_finish *f, int64_t c, floats x, float *to) {
  *(floats_at *)to = limit_floats(f, x + *(const floats_at *)((const float *)f->bias + c));
}
/* Runs the function after the limits on `pixels` results from q on, while they are in a close
 * cache. */
INLINE void finish_after(const cpu_depthwise_line *l, int64_t q, int64_t pixels) {
  if (l->finish && l->finish->after && pixels > 0)
    l->finish->after(pixels, l->channels, (float *)l->sums + q * l->sums_pixel, l->sums_pixel);
}
INLINE void finish_bf16(const cpu_depthwise_finish *f, int64_t c, floats x, uint16_t *to) {
  store_bf16(to, limit_floats(f, x + widen_bf16((const uint16_t *)f->bias + c)));
}

#ifdef CPU_VARIANT_BF16
#include "depthwise_pairs.h"
#else
#define DATA                  float
#define SUM                   float
#define SUMS                  floats
#define SUMS_AT               floats_at
#define LOAD(from)            (*(const floats_at *)(from))
#define MULTIPLY_ADD(a, b, c) MULTIPLY_ADD_FLOATS(a, b, c)
#define RESULT                float
#define FINISH                finish_f32
#define NAME(x)               x##_f32
#include "depthwise_line.h"
#endif

#define DATA                  uint16_t
#define SUM                   float
#define SUMS                  floats
#define SUMS_AT               floats_at
#define LOAD(from)            widen_bf16(from)
#define MULTIPLY_ADD(a, b, c) MULTIPLY_ADD_FLOATS(a, b, c)
#define RESULT                uint16_t
#define FINISH                finish_bf16
#define NAME(x)               x##_bf16
#ifdef CPU_VARIANT_BF16
#define PAIRS
#endif
#include "depthwise_line.h"

#ifdef CPU_VARIANT_BF16
const cpu_depthwise_table CPU_VARIANT_SYMBOL(cpu_depthwise) = {.lanes = LANES,
                                                               .run_bf16 = run_bf16};
#else
#define DATA                  uint8_t
#define SUM                   int32_t
#define SUMS                  words
#define SUMS_AT               words_at
#define LOAD(from)            WIDEN_U8(from)
#define MULTIPLY_ADD(a, b, c) (MULTIPLY_LOW(a, b) + (c))
#define RESULT                int32_t
#define FINISH(f, c, x, to)   ((void)(f), *(words_at *)(to) = (x))
#define NAME(x)               x##_u8
#include "depthwise_line.h"

#define DATA                  int8_t
#define SUM                   int32_t
#define SUMS                  words
#define SUMS_AT               words_at
#define LOAD(from)            WIDEN_I8(from)
#define MULTIPLY_ADD(a, b, c) (MULTIPLY_LOW(a, b) + (c))
#define RESULT                int32_t
#define FINISH(f, c, x, to)   ((void)(f), *(words_at *)(to) = (x))
#define NAME(x)               x##_i8
#include "depthwise_line.h"

const cpu_depthwise_table CPU_SYMBOL(cpu_depthwise) = {
    .lanes = LANES, .run = run_f32, .run_bf16 = run_bf16, .run_u8 = run_u8, .run_i8 = run_i8};
#endif
