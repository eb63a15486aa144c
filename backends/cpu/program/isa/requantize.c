/* SPDX-License-Identifier: MIT */
/* From sums in i32 to bytes; core/isa.h says how this file is compiled, requantize_table.h what the
 * loop does. */
#include "requantize_table.h"

#include "math_base.h"
#include "program/isa/tile_loops.h"

/* Added to a number of up to 2^22, leaves the nearest integer, ties to even, in the low bits. */
#define ROUNDING      0x1.8p23f
#define ROUNDING_BITS 0x4b400000
#define LARGEST       0x1p22f

/* How values are divided. With `reciprocal`, the rounded 1 / divisor, value · reciprocal and a step
 * of Newton's on what that leaves give the correctly rounded quotient (Markstein), in a fifth of a
 * division's time; what is too large for the step, and NaN, are so before it, too. */
typedef enum division { DIVISION_NONE, DIVISION, DIVISION_RECIPROCAL } division;

/* Which operands have an element for each of x, and how values are divided: constants wherever the
 * functions below are inlined. */
typedef struct form {
  bool offsets, scales, biases;
  division divides;
} form;

/* One row, element by element. Numbers beyond LARGEST saturate either way. */
CPU_INLINE void requantize_row(const form f, const cpu_requantize_lines *l, const int32_t *x,
                               const int32_t *offset, const float *scale, const float *bias,
                               uint8_t *y) {
  const int64_t count = l->count; /* a local: bytes may alias anything */
  const uint32_t one_offset = (uint32_t)*offset;
  const float one_scale = *scale, one_bias = *bias, divisor = l->divisor;
  const float low = f.divides || l->low > -LARGEST ? l->low : -LARGEST;
  const float high = f.divides || l->high < LARGEST ? l->high : LARGEST;
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
      value = -LARGEST > value ? -LARGEST : value;
      value = LARGEST < value ? LARGEST : value;
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
/* `then` where |v| < LARGEST, else v */
#define WHERE_SMALL(v, then)                                                                       \
  _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(LARGEST), _CMP_LT_OQ), \
                     then)
#define LOAD_WORDS(from) _mm512_loadu_si512(from)
#define AS_WORDS(v)      _mm512_castps_si512(v)
typedef __m512 floats;
typedef __m512i words;
CPU_INLINE void store_bytes(uint8_t *y, words w) {
  _mm_storeu_si128((void *)y, _mm512_cvtepi32_epi8(w));
}
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LANES             8
#define V(name)           _mm256_##name
#define AND_ORDERED(i, v) _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_ORD_Q)), i)
#define WHERE_SMALL(v, then)                                                                       \
  _mm256_blendv_ps(v, then,                                                                        \
                   _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v),                       \
                                 _mm256_set1_ps(LARGEST), _CMP_LT_OQ))
#define LOAD_WORDS(from) _mm256_loadu_si256((const void *)(from))
#define AS_WORDS(v)      _mm256_castps_si256(v)
typedef __m256 floats;
typedef __m256i words;
CPU_INLINE void store_bytes(uint8_t *y, words w) {
  const words low = _mm256_and_si256(w, _mm256_set1_epi32(255));
  const __m128i shorts =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storel_epi64((void *)y, _mm_packus_epi16(shorts, shorts));
}
#endif

#ifdef LANES
/* The same for rows of at least a vector; the last one may overlap the one before. */
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *lines) {
  const cpu_requantize_lines l = *lines; /* bytes may alias what it points to */
  const floats low = V(set1_ps)(f.divides || l.low > -LARGEST ? l.low : -LARGEST);
  const floats high = V(set1_ps)(f.divides || l.high < LARGEST ? l.high : LARGEST);
  const floats least_value = V(set1_ps)(-LARGEST), most_value = V(set1_ps)(LARGEST);
  const floats divisor = V(set1_ps)(l.divisor), reciprocal = V(set1_ps)(1 / l.divisor);
  const floats rounding = V(set1_ps)(ROUNDING);
  const words zero = V(set1_epi32)(l.zero - ROUNDING_BITS);
  const words least = V(set1_epi32)(l.is_signed ? -128 : 0);
  const words most = V(set1_epi32)(l.is_signed ? 127 : 255);
  if (l.count < LANES) {
    requantize_rows(f, lines);
    return;
  }
  for (int64_t row = 0; row < l.rows; row++) {
    const int32_t *x = l.x + row * l.x_row, *offset = l.offset + row * l.offset_row;
    const float *scale = l.scale + row * l.scale_row, *bias = l.bias + row * l.bias_row;
    uint8_t *y = l.y + row * l.y_row;
    for (int64_t next = 0; next < l.count; next += LANES) {
      const int64_t i = next + LANES <= l.count ? next : l.count - LANES;
      const words offsets = f.offsets ? LOAD_WORDS(offset + i) : V(set1_epi32)(*offset);
      const floats scales = f.scales ? V(loadu_ps)(scale + i) : V(set1_ps)(*scale);
      const floats biases = f.biases ? V(loadu_ps)(bias + i) : V(set1_ps)(*bias);
      const words sum = V(add_epi32)(LOAD_WORDS(x + i), offsets);
      floats value = V(add_ps)(V(mul_ps)(V(cvtepi32_ps)(sum), scales), biases);
      value = V(min_ps)(high, V(max_ps)(low, value));
      if (f.divides == DIVISION) value = V(div_ps)(value, divisor);
      if (f.divides == DIVISION_RECIPROCAL) {
        const floats near = V(mul_ps)(value, reciprocal);
        const floats rest = V(fnmadd_ps)(near, divisor, value);
        value = WHERE_SMALL(near, V(fmadd_ps)(rest, reciprocal, near));
      }
      if (f.divides) value = V(min_ps)(most_value, V(max_ps)(least_value, value));
      const floats shifted = V(add_ps)(value, rounding);
      words whole = V(add_epi32)(AS_WORDS(shifted), zero);
      whole = V(min_epi32)(V(max_epi32)(AND_ORDERED(whole, value), least), most);
      store_bytes(y + i, whole);
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

/* Neither 1 / x nor what is left of a quotient that counts is subnormal then. */
static bool has_reciprocal(float x) {
  return (x >= 0x1p-60f && x <= 0x1p60f) || (x <= -0x1p-60f && x >= -0x1p60f);
}

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
  const division divides = l->divisor == 1              ? DIVISION_NONE
                           : has_reciprocal(l->divisor) ? DIVISION_RECIPROCAL
                                                        : DIVISION;
  loops[divides][l->offset_along][l->scale_along][l->bias_along](l);
}

const cpu_requantize_table CPU_SYMBOL(cpu_requantize) = {run};
