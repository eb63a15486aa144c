/* SPDX-License-Identifier: MIT */
/* From sums in i32, or of two tensors of bytes, to bytes; core/isa.h says how this file is
 * compiled, requantize_table.h and requantize_sum_table.h what the loops do. */
#include "requantize_sum_table.h"

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

/* `zero` is less ROUNDING_BITS. */
CPU_INLINE uint8_t round_to_byte(float value, int32_t zero, int32_t least, int32_t most) {
  int32_t whole = math_bits_f32(value + ROUNDING) + zero;
  whole = value == value ? whole : 0;
  whole = whole > least ? whole : least;
  return (uint8_t)(whole < most ? whole : most);
}

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
    y[i] = round_to_byte(value, zero, least, most);
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
#define MAGNITUDE(v)      _mm512_abs_ps(v)
#define WIDEN_SIGNED(x)   _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(x)))
#define WIDEN_UNSIGNED(x) _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(x)))
#define ALL_AT_MOST(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ) == 0xffff)
/* What quotients need to become bytes. Those of i8 are made as u8, with the highest bit changed. */
typedef struct store_numbers {
  __m512i zero; /* shorts */
  __m512i least, most, flip;
} store_numbers;
CPU_INLINE store_numbers take_store_numbers(const cpu_requantize_lines *l) {
  return (store_numbers){_mm512_set1_epi16((short)(l->zero + (l->is_signed ? 128 : 0))),
                         _mm512_set1_epi8((char)l->least), _mm512_set1_epi8((char)l->most),
                         _mm512_set1_epi8((char)(l->is_signed ? 128 : 0))};
}
CPU_INLINE void store_few(const int vectors, const int rows, const store_numbers *n, words w[2][2],
                          uint8_t *y, int64_t y_row) {
  __m512i shorts[2];
  for (int i = 0; i < 2; i++)
    shorts[i] = _mm512_adds_epi16(_mm512_packs_epi32(w[i][0], w[i][1]), n->zero);
  __m512i bytes = _mm512_packus_epi16(shorts[0], shorts[1]);
  bytes = _mm512_min_epu8(n->most, _mm512_max_epu8(n->least, bytes));
  bytes = _mm512_xor_si512(bytes, n->flip);
  /* Each quarter has four bytes of each vector and row. */
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  bytes = _mm512_permutexvar_epi32(order, bytes);
  const __m256i row[2] = {_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64(bytes, 1)};
  for (int i = 0; i < rows; i++) {
    if (vectors > 1)
      _mm256_storeu_si256((void *)(y + i * y_row), row[i]);
    else
      _mm_storeu_si128((void *)(y + i * y_row), _mm256_castsi256_si128(row[i]));
  }
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
#define WIDEN_SIGNED(x)   _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(x)))
#define WIDEN_UNSIGNED(x) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(x)))
#define MAGNITUDE(v)      _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define ALL_AT_MOST(a, b) (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)) == 0xff)
/* What quotients need to become bytes. Those of i8 are made as u8, with the highest bit changed. */
typedef struct store_numbers {
  __m256i zero; /* shorts */
  __m256i least, most, flip;
} store_numbers;
CPU_INLINE store_numbers take_store_numbers(const cpu_requantize_lines *l) {
  return (store_numbers){_mm256_set1_epi16((short)(l->zero + (l->is_signed ? 128 : 0))),
                         _mm256_set1_epi8((char)l->least), _mm256_set1_epi8((char)l->most),
                         _mm256_set1_epi8((char)(l->is_signed ? 128 : 0))};
}
CPU_INLINE void store_few(const int vectors, const int rows, const store_numbers *n, words w[2][2],
                          uint8_t *y, int64_t y_row) {
  __m256i shorts[2];
  for (int i = 0; i < 2; i++)
    shorts[i] = _mm256_adds_epi16(_mm256_packs_epi32(w[i][0], w[i][1]), n->zero);
  __m256i bytes = _mm256_packus_epi16(shorts[0], shorts[1]);
  bytes = _mm256_min_epu8(n->most, _mm256_max_epu8(n->least, bytes));
  bytes = _mm256_xor_si256(bytes, n->flip);
  /* Each half has four bytes of each vector and row. */
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  const __m128i row[2] = {_mm_unpacklo_epi32(low, high), _mm_unpackhi_epi32(low, high)};
  for (int i = 0; i < rows; i++) {
    if (vectors > 1)
      _mm_storeu_si128((void *)(y + i * y_row), row[i]);
    else
      _mm_storel_epi64((void *)(y + i * y_row), row[i]);
  }
}
#endif

#ifdef LANES
typedef struct numbers {
  floats low, high, divisor, reciprocal;
  words zero;
  store_numbers stored;
} numbers;

CPU_INLINE numbers take_numbers(const cpu_requantize_lines *l) {
  return (numbers){.low = V(set1_ps)(l->low),
                   .high = V(set1_ps)(l->high),
                   .divisor = V(set1_ps)(l->divisor),
                   .reciprocal = V(set1_ps)(l->reciprocal),
                   .zero = V(set1_epi32)(l->zero - ROUNDING_BITS),
                   .stored = take_store_numbers(l)};
}

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
  const numbers n = take_numbers(lines);
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

/* ---- Blocks -----------------------------------------------------------------------------------
 *
 * The usual case (`blocks`): all rows have the same offsets, scales and biases, and none of these
 * is so large that a quotient could leave the range of whole numbers. Then limits may be applied to
 * bytes, many at a time, and nothing is NaN. */

/* Of the columns of a vector. */
typedef struct column_numbers {
  words offset;
  floats scale, bias;
} column_numbers;

CPU_INLINE column_numbers take_columns(const cpu_requantize_lines *l, int64_t i) {
  return (column_numbers){l->offset_along ? LOAD_WORDS(l->offset + i) : V(set1_epi32)(*l->offset),
                          l->scale_along ? V(loadu_ps)(l->scale + i) : V(set1_ps)(*l->scale),
                          l->bias_along ? V(loadu_ps)(l->bias + i) : V(set1_ps)(*l->bias)};
}

/* Whether no quotient exceeds 2^30. */
CPU_INLINE bool are_moderate(const column_numbers *c, const numbers *n) {
  const floats limit = V(mul_ps)(n->divisor, V(set1_ps)(0x1p30f));
  const floats value = V(mul_ps)(MAGNITUDE(c->scale), V(set1_ps)(0x1p31f));
  return ALL_AT_MOST(V(add_ps)(value, MAGNITUDE(c->bias)), limit);
}

/* Quotients, rounded: as in requantize_vector, the limits apart. */
CPU_INLINE words divide_moderate(floats value, const numbers *n) {
  const floats near = V(mul_ps)(value, n->reciprocal);
  return V(cvtps_epi32)(V(fmadd_ps)(V(fnmadd_ps)(near, n->divisor, value), n->reciprocal, near));
}

CPU_INLINE words divide_vector(const column_numbers *c, const numbers *n, const int32_t *x) {
  const words sum = V(add_epi32)(LOAD_WORDS(x), c->offset);
  return divide_moderate(V(add_ps)(V(mul_ps)(V(cvtepi32_ps)(sum), c->scale), c->bias), n);
}

/* `rows` (1 or 2) rows of `vectors` (1 or 2) vectors. */
CPU_INLINE void requantize_few(const int vectors, const int rows, const column_numbers *c,
                               const numbers *n, const int32_t *x, int64_t x_row, uint8_t *y,
                               int64_t y_row) {
  const int32_t *next = rows > 1 ? x + x_row : x;
  words w[2][2];
  w[0][0] = divide_vector(&c[0], n, x);
  w[0][1] = vectors > 1 ? divide_vector(&c[1], n, x + LANES) : w[0][0];
  w[1][0] = rows > 1 ? divide_vector(&c[0], n, next) : w[0][0];
  w[1][1] = rows == 1 ? w[0][1] : vectors > 1 ? divide_vector(&c[1], n, next + LANES) : w[1][0];
  store_few(vectors, rows, &n->stored, w, y, y_row);
}

/* Some columns of some rows, or false where their numbers are too large. */
CPU_INLINE bool requantize_columns(const int vectors, const cpu_requantize_lines *l,
                                   const numbers *n, int64_t row, int64_t end, int64_t first) {
  const column_numbers c[2] = {take_columns(l, first),
                               take_columns(l, vectors > 1 ? first + LANES : first)};
  if (!are_moderate(&c[0], n) || !are_moderate(&c[1], n)) return false;
  const int64_t x_row = l->x_row, y_row = l->y_row;
  const int32_t *x = l->x + row * x_row + first;
  uint8_t *y = l->y + row * y_row + first;
  for (; row + 2 <= end; row += 2, x += 2 * x_row, y += 2 * y_row)
    requantize_few(vectors, 2, c, n, x, x_row, y, y_row);
  if (row < end) requantize_few(vectors, 1, c, n, x, x_row, y, y_row);
  return true;
}

/* The same of all columns: by two vectors, or one; the last ones may overlap those before. */
CPU_INLINE bool requantize_band(const cpu_requantize_lines *l, const numbers *n, int64_t row,
                                int64_t end) {
  const int64_t count = l->count;
  int64_t i = 0;
  for (; i + 2 * LANES <= count; i += 2 * LANES)
    if (!requantize_columns(2, l, n, row, end, i)) return false;
  for (; i < count; i += LANES)
    if (!requantize_columns(1, l, n, row, end, i + LANES <= count ? i : count - LANES))
      return false;
  return true;
}

/* All lines, some rows at a time, so that what is written stays close; false if that is not
 * possible, with bytes that are to be overwritten. The lines are not copied: whole vectors of what
 * the caller has just written number by number would have to wait. */
static bool requantize_blocks(const cpu_requantize_lines *l) {
  enum { ROWS = 16 };
  if (!l->blocks || l->count < LANES) return false;
  const numbers n = take_numbers(l);
  const int64_t rows = l->rows;
  for (int64_t row = 0; row < rows; row += ROWS)
    if (!requantize_band(l, &n, row, row + ROWS < rows ? row + ROWS : rows)) return false;
  return true;
}

CPU_INLINE floats term_vector(const bool is_signed, const cpu_requantize_term *t, int64_t i) {
  const words whole = is_signed ? WIDEN_SIGNED(t->from + i) : WIDEN_UNSIGNED(t->from + i);
  return V(mul_ps)(V(sub_ps)(V(cvtepi32_ps)(whole), V(set1_ps)(t->zero)), V(set1_ps)(t->scale));
}

CPU_INLINE words sum_vector(const bool a_signed, const bool b_signed, const cpu_requantize_term *a,
                            const cpu_requantize_term *b, const numbers *n, int64_t i) {
  return divide_moderate(V(add_ps)(term_vector(a_signed, a, i), term_vector(b_signed, b, i)), n);
}

/* Whole vectors, two rows of two as above; returns how many elements these are. */
CPU_INLINE int64_t add_vectors(const bool a_signed, const bool b_signed,
                               const cpu_requantize_term *a, const cpu_requantize_term *b,
                               const cpu_requantize_lines *l) {
  const numbers n = take_numbers(l);
  const cpu_requantize_term first = *a, second = *b; /* bytes may alias them */
  const int64_t count = l->count;
  uint8_t *y = l->y;
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES) {
    words w[2][2];
    for (int k = 0; k < 4; k++)
      w[k / 2][k % 2] = sum_vector(a_signed, b_signed, &first, &second, &n, i + k * LANES);
    store_few(2, 2, &n.stored, w, y + i, 2 * LANES);
  }
  return i;
}
#else
CPU_INLINE int64_t add_vectors(const bool a_signed, const bool b_signed,
                               const cpu_requantize_term *a, const cpu_requantize_term *b,
                               const cpu_requantize_lines *l) {
  (void)a_signed, (void)b_signed, (void)a, (void)b, (void)l;
  return 0;
}
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *l) {
  requantize_rows(f, l);
}
static bool requantize_blocks(const cpu_requantize_lines *l) {
  (void)l;
  return false;
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
  if (requantize_blocks(l)) return;
  loops[divides][l->offset_along][l->scale_along][l->bias_along](l);
}

/* ---- Sums of bytes ----------------------------------------------------------------------------
 */

CPU_INLINE float term_value(const bool is_signed, const cpu_requantize_term *t, int64_t i) {
  const uint8_t x = t->from[i];
  return ((is_signed ? (float)(int8_t)x : (float)x) - t->zero) * t->scale;
}

CPU_INLINE void add_terms(const bool a_signed, const bool b_signed, const cpu_requantize_term *a,
                          const cpu_requantize_term *b, const cpu_requantize_lines *l) {
  const cpu_requantize_term first = *a, second = *b;
  const float low = l->low, high = l->high, divisor = l->divisor;
  const int32_t zero = l->zero - ROUNDING_BITS;
  const int32_t least = l->is_signed ? -128 : 0, most = l->is_signed ? 127 : 255;
  const int64_t count = l->count;
  uint8_t *y = l->y;
  const int64_t done = add_vectors(a_signed, b_signed, a, b, l);
  CPU_INDEPENDENT
  for (int64_t i = done; i < count; i++) {
    float value = term_value(a_signed, &first, i) + term_value(b_signed, &second, i);
    value = low > value ? low : value;
    value = high < value ? high : value;
    y[i] = round_to_byte(value / divisor, zero, least, most);
  }
}

static void run_sum(const cpu_requantize_term terms[2], const cpu_requantize_lines *l) {
  const cpu_requantize_term *a = &terms[0], *b = &terms[1];
  if (a->is_signed && b->is_signed)
    add_terms(true, true, a, b, l);
  else if (a->is_signed)
    add_terms(true, false, a, b, l);
  else if (b->is_signed)
    add_terms(false, true, a, b, l);
  else
    add_terms(false, false, a, b, l);
}

const cpu_requantize_table CPU_SYMBOL(cpu_requantize) = {run};
const cpu_requantize_sum_table CPU_SYMBOL(cpu_requantize_sum) = {run_sum};
