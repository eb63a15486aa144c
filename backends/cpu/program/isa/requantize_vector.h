/* SPDX-License-Identifier: MIT */
/* Sums to bytes, vector by vector. requantize.c shares this with micro-kernels, which have their
 * sums in registers. REQUANTIZE_LANES is defined if such vectors exist. */
#ifndef CPU_ISA_REQUANTIZE_VECTOR_H
#define CPU_ISA_REQUANTIZE_VECTOR_H

#include "program/isa/requantize_table.h"
#include "program/isa/tile_loops.h"

/* Adding this to a number of up to 2^22 leaves the nearest integer, ties to even, in the low
 * bits. */
#define REQUANTIZE_ROUNDING      0x1.8p23f
#define REQUANTIZE_ROUNDING_BITS 0x4b400000

/* max(a, b) is a > b ? a : b, so a NaN in the second operand is kept; min likewise. */
#if defined(__AVX512BW__)
#include <immintrin.h>
#define REQUANTIZE_LANES            16
#define REQUANTIZE_V(name)          _mm512_##name
#define AND_ORDERED(i, v)           _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), i)
#define REQUANTIZE_LOAD_WORDS(from) _mm512_loadu_si512(from)
#define REQUANTIZE_XOR(a, b)        _mm512_xor_si512(a, b)
#define AS_WORDS(v)                 _mm512_castps_si512(v)
typedef __m512 requantize_floats;
typedef __m512i requantize_words;
/* Stores words, limited to bytes. */
CPU_INLINE void store_one(uint8_t *y, requantize_words w, bool is_signed) {
  _mm_storeu_si128((void *)y,
                   is_signed ? _mm512_cvtsepi32_epi8(w)
                             : _mm512_cvtusepi32_epi8(_mm512_max_epi32(w, _mm512_setzero_si512())));
}
CPU_INLINE void store_two(uint8_t *y, requantize_words a, requantize_words b, bool is_signed) {
  store_one(y, a, is_signed);
  store_one(y + REQUANTIZE_LANES, b, is_signed);
}
#define REQUANTIZE_MAGNITUDE(v)      _mm512_abs_ps(v)
#define WIDEN_SIGNED(x)              _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(x)))
#define WIDEN_UNSIGNED(x)            _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(x)))
#define REQUANTIZE_ALL_AT_MOST(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ) == 0xffff)
/* Parameters for the conversion of quotients to bytes. i8 is computed as u8, with the highest bit
 * flipped. */
typedef struct requantize_store {
  __m512i zero; /* shorts */
  __m512i least, most, flip;
  bool limits; /* some of the last three have an effect */
} requantize_store;
CPU_INLINE requantize_store requantize_take_store(const cpu_requantize_lines *l) {
  return (requantize_store){_mm512_set1_epi16((short)(l->zero + (l->is_signed ? 128 : 0))),
                            _mm512_set1_epi8((char)l->least), _mm512_set1_epi8((char)l->most),
                            _mm512_set1_epi8((char)(l->is_signed ? 128 : 0)),
                            l->is_signed || l->least > 0 || l->most < UINT8_MAX};
}
/* Four vectors of quotients as bytes, one vector after the other. */
CPU_INLINE __m512i requantize_pack(const requantize_store *n, requantize_words w[2][2]) {
  __m512i shorts[2];
  for (int i = 0; i < 2; i++)
    shorts[i] = _mm512_adds_epi16(_mm512_packs_epi32(w[i][0], w[i][1]), n->zero);
  __m512i bytes = _mm512_packus_epi16(shorts[0], shorts[1]);
  if (n->limits) {
    bytes = _mm512_min_epu8(n->most, _mm512_max_epu8(n->least, bytes));
    bytes = _mm512_xor_si512(bytes, n->flip);
  }
  /* Each quarter has four bytes of every vector. */
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_permutexvar_epi32(order, bytes);
}
CPU_INLINE void requantize_store_few(const int vectors, const int rows, const requantize_store *n,
                                     requantize_words w[2][2], uint8_t *y, int64_t y_row) {
  const __m512i bytes = requantize_pack(n, w);
  const __m256i row[2] = {_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64(bytes, 1)};
  for (int i = 0; i < rows; i++) {
    if (vectors > 1)
      _mm256_storeu_si256((void *)(y + i * y_row), row[i]);
    else
      _mm_storeu_si128((void *)(y + i * y_row), _mm256_castsi256_si128(row[i]));
  }
}
/* Stores up to four rows of a vector. */
CPU_INLINE void requantize_store_rows(const int rows, const requantize_store *n,
                                      requantize_words w[2][2], uint8_t *y, int64_t y_row) {
  const __m512i bytes = requantize_pack(n, w);
  _mm_storeu_si128((void *)y, _mm512_castsi512_si128(bytes));
  if (rows > 1) _mm_storeu_si128((void *)(y + y_row), _mm512_extracti32x4_epi32(bytes, 1));
  if (rows > 2) _mm_storeu_si128((void *)(y + 2 * y_row), _mm512_extracti32x4_epi32(bytes, 2));
  if (rows > 3) _mm_storeu_si128((void *)(y + 3 * y_row), _mm512_extracti32x4_epi32(bytes, 3));
}
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define REQUANTIZE_LANES             8
#define REQUANTIZE_V(name)           _mm256_##name
#define AND_ORDERED(i, v)            _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_ORD_Q)), i)
#define REQUANTIZE_LOAD_WORDS(from)  _mm256_loadu_si256((const void *)(from))
#define REQUANTIZE_XOR(a, b)         _mm256_xor_si256(a, b)
#define AS_WORDS(v)                  _mm256_castps_si256(v)
typedef __m256 requantize_floats;
typedef __m256i requantize_words;
/* Words, limited to bytes. */
CPU_INLINE __m128i pack_shorts(__m256i shorts, bool is_signed) {
  const __m128i low = _mm256_castsi256_si128(shorts), high = _mm256_extracti128_si256(shorts, 1);
  return is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high);
}
CPU_INLINE void store_two(uint8_t *y, requantize_words a, requantize_words b, bool is_signed) {
  const __m128i bytes = pack_shorts(_mm256_packs_epi32(a, b), is_signed);
  _mm_storeu_si128((void *)y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}
CPU_INLINE void store_one(uint8_t *y, requantize_words a, bool is_signed) {
  const __m128i bytes = pack_shorts(_mm256_packs_epi32(a, a), is_signed);
  _mm_storel_epi64((void *)y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}
#define WIDEN_SIGNED(x)              _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(x)))
#define WIDEN_UNSIGNED(x)            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(x)))
#define REQUANTIZE_MAGNITUDE(v)      _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define REQUANTIZE_ALL_AT_MOST(a, b) (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)) == 0xff)
/* Parameters for the conversion of quotients to bytes. i8 is computed as u8, with the highest bit
 * flipped. */
typedef struct requantize_store {
  __m256i zero; /* shorts */
  __m256i least, most, flip;
} requantize_store;
CPU_INLINE requantize_store requantize_take_store(const cpu_requantize_lines *l) {
  return (requantize_store){_mm256_set1_epi16((short)(l->zero + (l->is_signed ? 128 : 0))),
                            _mm256_set1_epi8((char)l->least), _mm256_set1_epi8((char)l->most),
                            _mm256_set1_epi8((char)(l->is_signed ? 128 : 0))};
}
/* Four vectors of quotients as bytes: two vectors in each half register. */
CPU_INLINE void requantize_pack(const requantize_store *n, requantize_words w[2][2],
                                __m128i half[2]) {
  __m256i shorts[2];
  for (int i = 0; i < 2; i++)
    shorts[i] = _mm256_adds_epi16(_mm256_packs_epi32(w[i][0], w[i][1]), n->zero);
  __m256i bytes = _mm256_packus_epi16(shorts[0], shorts[1]);
  bytes = _mm256_min_epu8(n->most, _mm256_max_epu8(n->least, bytes));
  bytes = _mm256_xor_si256(bytes, n->flip);
  /* Each half has four bytes of every vector. */
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  half[0] = _mm_unpacklo_epi32(low, high);
  half[1] = _mm_unpackhi_epi32(low, high);
}
CPU_INLINE void requantize_store_few(const int vectors, const int rows, const requantize_store *n,
                                     requantize_words w[2][2], uint8_t *y, int64_t y_row) {
  __m128i row[2];
  requantize_pack(n, w, row);
  for (int i = 0; i < rows; i++) {
    if (vectors > 1)
      _mm_storeu_si128((void *)(y + i * y_row), row[i]);
    else
      _mm_storel_epi64((void *)(y + i * y_row), row[i]);
  }
}
/* Stores up to four rows of a vector. */
CPU_INLINE void requantize_store_rows(const int rows, const requantize_store *n,
                                      requantize_words w[2][2], uint8_t *y, int64_t y_row) {
  __m128i half[2];
  requantize_pack(n, w, half);
  for (int i = 0; i < rows; i++)
    _mm_storel_epi64((void *)(y + i * y_row),
                     i % 2 == 0 ? half[i / 2] : _mm_unpackhi_epi64(half[i / 2], half[i / 2]));
}
#endif

#ifdef REQUANTIZE_LANES
typedef struct requantize_numbers {
  requantize_floats low, high, divisor, reciprocal, rest;
  requantize_words zero, sign; /* sign of the offset: −1 if it is subtracted, or 0 */
  requantize_store stored;
} requantize_numbers;

CPU_INLINE requantize_numbers requantize_take_numbers(const cpu_requantize_lines *l) {
  return (requantize_numbers){.low = REQUANTIZE_V(set1_ps)(l->low),
                              .high = REQUANTIZE_V(set1_ps)(l->high),
                              .divisor = REQUANTIZE_V(set1_ps)(l->divisor),
                              .reciprocal = REQUANTIZE_V(set1_ps)(l->reciprocal),
                              .rest = REQUANTIZE_V(set1_ps)(l->rest),
                              .zero = REQUANTIZE_V(set1_epi32)(l->zero - REQUANTIZE_ROUNDING_BITS),
                              .sign = REQUANTIZE_V(set1_epi32)(l->subtracts ? -1 : 0),
                              .stored = requantize_take_store(l)};
}

/* ± offset */
CPU_INLINE requantize_words requantize_offset(requantize_words sign, requantize_words offset) {
  return REQUANTIZE_V(sub_epi32)(REQUANTIZE_XOR(offset, sign), sign);
}

/* Parameters for the columns of a vector. */
typedef struct requantize_column {
  requantize_words offset;
  requantize_floats scale, bias;
} requantize_column;

CPU_INLINE requantize_column requantize_take_column(const cpu_requantize_lines *l,
                                                    const requantize_numbers *n, int64_t i) {
  const requantize_words offset =
      l->offset_along ? REQUANTIZE_LOAD_WORDS(l->offset + i) : REQUANTIZE_V(set1_epi32)(*l->offset);
  return (requantize_column){
      requantize_offset(n->sign, offset),
      l->scale_along ? REQUANTIZE_V(loadu_ps)(l->scale + i) : REQUANTIZE_V(set1_ps)(*l->scale),
      l->bias_along ? REQUANTIZE_V(loadu_ps)(l->bias + i) : REQUANTIZE_V(set1_ps)(*l->bias)};
}

/* True if no quotient exceeds 2^30. */
CPU_INLINE bool requantize_are_moderate(const requantize_column *c, const requantize_numbers *n) {
  const requantize_floats limit = REQUANTIZE_V(mul_ps)(n->divisor, REQUANTIZE_V(set1_ps)(0x1p30f));
  const requantize_floats value =
      REQUANTIZE_V(mul_ps)(REQUANTIZE_MAGNITUDE(c->scale), REQUANTIZE_V(set1_ps)(0x1p31f));
  return REQUANTIZE_ALL_AT_MOST(REQUANTIZE_V(add_ps)(value, REQUANTIZE_MAGNITUDE(c->bias)), limit);
}

/* Quotients rounded to whole numbers, without limits: by the reciprocal and its rounding error,
 * which is exact enough here (`blocks`). */
CPU_INLINE requantize_words requantize_divide(requantize_floats value,
                                              const requantize_numbers *n) {
  return REQUANTIZE_V(cvtps_epi32)(
      REQUANTIZE_V(fmadd_ps)(value, n->reciprocal, REQUANTIZE_V(mul_ps)(value, n->rest)));
}

/* The same for sums that already include the offset. */
CPU_INLINE requantize_words requantize_whole(const requantize_column *c,
                                             const requantize_numbers *n, requantize_words sum) {
  const requantize_floats value = REQUANTIZE_V(mul_ps)(REQUANTIZE_V(cvtepi32_ps)(sum), c->scale);
  return requantize_divide(REQUANTIZE_V(add_ps)(value, c->bias), n);
}

/* The same for sums. */
CPU_INLINE requantize_words requantize_sums(const requantize_column *c, const requantize_numbers *n,
                                            requantize_words sum) {
  return requantize_whole(c, n, REQUANTIZE_V(add_epi32)(sum, c->offset));
}
#endif

#endif
