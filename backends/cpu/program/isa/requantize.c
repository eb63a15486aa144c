/* SPDX-License-Identifier: MIT */
/* From sums in i32 to bytes; core/isa.h says how this file is compiled, requantize_table.h what the
 * loop does. */
#include "requantize_table.h"

#include "math_base.h"
#include "program/isa/tile_loops.h"

/* Added to a number of up to 2^22, leaves the nearest integer, ties to even, in the low bits. */
#define ROUNDING      0x1.8p23f
#define ROUNDING_BITS 0x4b400000

/* How values are divided. With `reciprocal`, the rounded 1 / divisor, value · reciprocal and a step
 * of Newton's on what that leaves give the correctly rounded quotient (Markstein), in a fifth of a
 * division's time. */
typedef enum division { DIVISION_NONE, DIVISION, DIVISION_RECIPROCAL } division;

/* Which operands have an element for each of x, and how values are divided: constants wherever the
 * functions below are inlined. */
typedef struct form {
  bool offsets, scales, biases;
  division divides;
} form;

/* One row, element by element. */
CPU_INLINE void requantize_row(const form f, const cpu_requantize_lines *l, const int32_t *x,
                               const int32_t *offset, const float *scale, const float *bias,
                               uint8_t *y) {
  const int64_t count = l->count; /* a local: bytes may alias anything */
  const uint32_t one_offset = (uint32_t)*offset;
  const float one_scale = *scale, one_bias = *bias, divisor = l->divisor;
  const float low = l->low, high = l->high;
  const int32_t zero = l->zero - ROUNDING_BITS;
  const int32_t least = l->is_signed ? -128 : 0, most = l->is_signed ? 127 : 255;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const int32_t sum = (int32_t)((uint32_t)x[i] + (f.offsets ? (uint32_t)offset[i] : one_offset));
    float value = (float)sum * (f.scales ? scale[i] : one_scale) + (f.biases ? bias[i] : one_bias);
    value = low > value ? low : value;
    value = high < value ? high : value;
    if (f.divides) {
      value /= divisor;
      value = -CPU_REQUANTIZE_LARGEST > value ? -CPU_REQUANTIZE_LARGEST : value;
      value = CPU_REQUANTIZE_LARGEST < value ? CPU_REQUANTIZE_LARGEST : value;
    }
    int32_t whole = math_bits_f32(value + ROUNDING) + zero;
    whole = value == value ? whole : 0;
    whole = whole > least ? whole : least;
    whole = whole < most ? whole : most;
    y[i] = (uint8_t)whole;
  }
}

CPU_INLINE void requantize_rows(const form f, const cpu_requantize_lines *l) {
  for (int64_t row = 0; row < l->rows; row++)
    requantize_row(f, l, l->x + row * l->x_row, l->offset + row * l->offset_row,
                   l->scale + row * l->scale_row, l->bias + row * l->bias_row,
                   l->y + row * l->y_row);
}

/* ---- Vectors ----------------------------------------------------------------------------------
 */

/* max(a, b) is a > b ? a : b, so that a second operand that is NaN stays; min likewise. */
#if defined(__AVX512BW__)
#include <immintrin.h>
#define LANES             16
#define V(name)           _mm512_##name
#define AND_ORDERED(i, v) _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), i)
#define LOAD_WORDS(from)  _mm512_loadu_si512(from)
#define AS_WORDS(v)       _mm512_castps_si512(v)
typedef __m512 floats;
typedef __m512i words;
/* Words, limited to bytes. */
CPU_INLINE void store_one(uint8_t *y, words w, bool is_signed) {
  _mm_storeu_si128((void *)y,
                   is_signed ? _mm512_cvtsepi32_epi8(w)
                             : _mm512_cvtusepi32_epi8(_mm512_max_epi32(w, _mm512_setzero_si512())));
}
CPU_INLINE void store_two(uint8_t *y, words a, words b, bool is_signed) {
  store_one(y, a, is_signed);
  store_one(y + LANES, b, is_signed);
}
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LANES             8
#define V(name)           _mm256_##name
#define AND_ORDERED(i, v) _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_ORD_Q)), i)
#define LOAD_WORDS(from)  _mm256_loadu_si256((const void *)(from))
#define AS_WORDS(v)       _mm256_castps_si256(v)
typedef __m256 floats;
typedef __m256i words;
/* Words, limited to bytes. */
CPU_INLINE __m128i pack_shorts(__m256i shorts, bool is_signed) {
  const __m128i low = _mm256_castsi256_si128(shorts), high = _mm256_extracti128_si256(shorts, 1);
  return is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high);
}
CPU_INLINE void store_two(uint8_t *y, words a, words b, bool is_signed) {
  const __m128i bytes = pack_shorts(_mm256_packs_epi32(a, b), is_signed);
  _mm_storeu_si128((void *)y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}
CPU_INLINE void store_one(uint8_t *y, words a, bool is_signed) {
  const __m128i bytes = pack_shorts(_mm256_packs_epi32(a, a), is_signed);
  _mm_storel_epi64((void *)y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}
#endif

#ifdef LANES
typedef struct numbers {
  floats low, high, divisor, reciprocal;
  words zero;
} numbers;

/* The bytes of a vector of sums, each in a word that is not limited yet. */
CPU_INLINE words requantize_vector(const form f, const numbers *n, const int32_t *x,
                                   const int32_t *offset, const float *scale, const float *bias,
                                   int64_t i) {
  const words offsets = f.offsets ? LOAD_WORDS(offset + i) : V(set1_epi32)(*offset);
  const floats scales = f.scales ? V(loadu_ps)(scale + i) : V(set1_ps)(*scale);
  const floats biases = f.biases ? V(loadu_ps)(bias + i) : V(set1_ps)(*bias);
  const words sum = V(add_epi32)(LOAD_WORDS(x + i), offsets);
  floats value = V(add_ps)(V(mul_ps)(V(cvtepi32_ps)(sum), scales), biases);
  value = V(min_ps)(n->high, V(max_ps)(n->low, value));
  if (f.divides == DIVISION) {
    value = V(div_ps)(value, n->divisor);
    value = V(min_ps)(V(set1_ps)(CPU_REQUANTIZE_LARGEST),
                      V(max_ps)(V(set1_ps)(-CPU_REQUANTIZE_LARGEST), value));
  }
  if (f.divides == DIVISION_RECIPROCAL) {
    const floats near = V(mul_ps)(value, n->reciprocal);
    value = V(fmadd_ps)(V(fnmadd_ps)(near, n->divisor, value), n->reciprocal, near);
  }
  const floats shifted = V(add_ps)(value, V(set1_ps)(ROUNDING));
  return AND_ORDERED(V(add_epi32)(AS_WORDS(shifted), n->zero), value);
}

/* The same for rows of at least a vector; the last one may overlap the one before. */
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *lines) {
  const cpu_requantize_lines l = *lines; /* bytes may alias what it points to */
  const numbers n = {.low = V(set1_ps)(l.low),
                     .high = V(set1_ps)(l.high),
                     .divisor = V(set1_ps)(l.divisor),
                     .reciprocal = V(set1_ps)(l.reciprocal),
                     .zero = V(set1_epi32)(l.zero - ROUNDING_BITS)};
  if (l.count < LANES) {
    requantize_rows(f, lines);
    return;
  }
  for (int64_t row = 0; row < l.rows; row++) {
    const int32_t *x = l.x + row * l.x_row, *offset = l.offset + row * l.offset_row;
    const float *scale = l.scale + row * l.scale_row, *bias = l.bias + row * l.bias_row;
    uint8_t *y = l.y + row * l.y_row;
    int64_t i = 0;
    for (; i + 2 * LANES <= l.count; i += 2 * LANES)
      store_two(y + i, requantize_vector(f, &n, x, offset, scale, bias, i),
                requantize_vector(f, &n, x, offset, scale, bias, i + LANES), l.is_signed);
    for (; i < l.count; i += LANES) {
      const int64_t at = i + LANES <= l.count ? i : l.count - LANES;
      store_one(y + at, requantize_vector(f, &n, x, offset, scale, bias, at), l.is_signed);
    }
  }
}
#else
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *l) {
  requantize_rows(f, l);
}
#endif

#define REQUANTIZE(name, offsets, scales, biases, divides)                                         \
  static void name(const cpu_requantize_lines *l) {                                                \
    requantize((form){offsets, scales, biases, divides}, l);                                       \
  }
#define REQUANTIZE_ALL(name, divides)                                                              \
  REQUANTIZE(name##_000, false, false, false, divides)                                             \
  REQUANTIZE(name##_001, false, false, true, divides)                                              \
  REQUANTIZE(name##_010, false, true, false, divides)                                              \
  REQUANTIZE(name##_011, false, true, true, divides)                                               \
  REQUANTIZE(name##_100, true, false, false, divides)                                              \
  REQUANTIZE(name##_101, true, false, true, divides)                                               \
  REQUANTIZE(name##_110, true, true, false, divides)                                               \
  REQUANTIZE(name##_111, true, true, true, divides)
REQUANTIZE_ALL(scaled, DIVISION_NONE)
REQUANTIZE_ALL(divided, DIVISION)
REQUANTIZE_ALL(multiplied, DIVISION_RECIPROCAL)

#define REQUANTIZE_NAMES(name)                                                                     \
  {                                                                                                \
    {{name##_000, name##_001}, {name##_010, name##_011}}, {                                        \
      {name##_100, name##_101}, {                                                                  \
        name##_110, name##_111                                                                     \
      }                                                                                            \
    }                                                                                              \
  }

static void run(const cpu_requantize_lines *l) {
  static void (*const loops[3][2][2][2])(const cpu_requantize_lines *) = {
      REQUANTIZE_NAMES(scaled), REQUANTIZE_NAMES(divided), REQUANTIZE_NAMES(multiplied)};
  const division divides = l->divisor == 1      ? DIVISION_NONE
                           : l->reciprocal == 0 ? DIVISION
                                                : DIVISION_RECIPROCAL;
  loops[divides][l->offset_along][l->scale_along][l->bias_along](l);
}

const cpu_requantize_table CPU_SYMBOL(cpu_requantize) = {run};
