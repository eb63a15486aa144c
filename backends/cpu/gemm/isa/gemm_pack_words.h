/* SPDX-License-Identifier: MIT */
/* Packs 8-bit integers and bf16 into words of 32 bits, each of GEMM_GROUP neighbours along k. A
 * word is a pair of 16 bits, or four bytes for instructions that sum four products of an unsigned
 * and a signed byte. Lines of words replace lines of elements: line p has the p-th word of each row
 * of a sliver of A (but see gemm_amx.h), or of each column of a panel of B. Zeros follow the end of
 * k.
 *
 * Bytes of the wrong sign are shifted by 128, by flipping their highest bit: a' = a + 128 for an i8
 * in A, b' = b − 128 for a u8 in B. With GEMM_SIGNED_LEFT, a u8 in A is shifted as in B, so s is
 * −128. With shifts s of A and t of B, each 128, −128 or 0, the product is
 *
 *   sum of (a' − s)(b' + t) = sum of a' b' + (t · sum of a' − k s t) − s · sum of b'
 *
 * The term in brackets belongs to a row, the last term to a column. They form the line after the
 * last one (`terms` in gemm_table.h). Pairs need no shift, so their terms are zero. */
#ifndef CPU_GEMM_PACK_WORDS_H
#define CPU_GEMM_PACK_WORDS_H

#include <string.h>

enum {
  GEMM_WORDS = 4,                      /* in a vector of 16 bytes */
  GEMM_STEP = GEMM_WORDS * GEMM_GROUP, /* elements in a vector */
  GEMM_SHIFT = 128
};

/* An element of an operand, and its form in a word. */
#ifdef GEMM_BF16
typedef uint16_t gemm_unit;
#else
typedef uint8_t gemm_unit;
#endif
#if GEMM_GROUP == 4
typedef uint8_t gemm_part;
#else
typedef uint16_t gemm_part;
#endif

typedef uint8_t gemm_bytes __attribute__((vector_size(16)));
typedef int8_t gemm_signed_bytes __attribute__((vector_size(8)));
typedef uint8_t gemm_half_bytes __attribute__((vector_size(8)));
typedef uint16_t gemm_shorts __attribute__((vector_size(16)));
typedef int16_t gemm_signed_shorts __attribute__((vector_size(16)));
typedef uint32_t gemm_words __attribute__((vector_size(16)));

/* One sliver or panel: `width` rows or columns, `along` elements apart; `count` of them exist.
 * Their elements along k are `step` apart. */
typedef struct gemm_line_source {
  const gemm_unit *from;
  int64_t k, count, width, along, step;
  bool is_signed;
  uint8_t flip; /* XORed with every byte: the highest bit, or 0 */
} gemm_line_source;

#if defined(GEMM_BF16) && defined(__AVX512BW__)
#define GEMM_VECTOR_PACKING
#include "gemm_pack_bf16.h"
#else
/* Loads the first `count` ≤ 16 bytes and flips them; zeros follow. */
GEMM_INLINE gemm_bytes gemm_take_bytes(const uint8_t *from, int64_t count, uint8_t flip) {
  gemm_bytes bytes;
  const gemm_bytes flips = (gemm_bytes){0} + flip;
  if (count >= 16) {
    memcpy(&bytes, from, 16);
  } else {
    bytes = flips;
    if (count > 0) memcpy(&bytes, from, (size_t)count);
  }
  return bytes ^ flips;
}

#ifndef GEMM_BF16
/* Widens eight bytes. */
GEMM_INLINE gemm_words gemm_widen(gemm_half_bytes bytes, bool is_signed) {
  if (!is_signed) return (gemm_words) __builtin_convertvector(bytes, gemm_shorts);
  return (gemm_words) __builtin_convertvector((gemm_signed_bytes)bytes, gemm_signed_shorts);
}
#endif

/* Loads four words of neighbours along k. */
GEMM_INLINE gemm_words gemm_take_words(const gemm_unit *from, int64_t count,
                                       const gemm_line_source *source) {
#if GEMM_GROUP == 4
  return (gemm_words)gemm_take_bytes(from, count, source->flip);
#elif defined(GEMM_BF16)
  return (gemm_words)gemm_take_bytes((const uint8_t *)from, 2 * count, source->flip);
#else
  gemm_half_bytes bytes = {0};
  if (count > 0) memcpy(&bytes, from, (size_t)(count < 8 ? count : 8));
  return gemm_widen(bytes, source->is_signed);
#endif
}

/* For sources contiguous along k: transposes squares of four words. */
static void gemm_turn_lines(uint32_t *to, const gemm_line_source *source) {
  const int64_t lines = (source->k + GEMM_GROUP - 1) / GEMM_GROUP, width = source->width;
  for (int64_t j = 0; j < width; j += GEMM_WORDS) {
    const int64_t columns = width - j < GEMM_WORDS ? width - j : GEMM_WORDS;
    const gemm_unit *from = source->from + j * source->along;
    for (int64_t p = 0; p < lines; p += GEMM_WORDS, from += GEMM_STEP) {
      gemm_words row[GEMM_WORDS];
      const int64_t left = source->k - p * GEMM_GROUP;
      GEMM_UNROLL
      for (int i = 0; i < GEMM_WORDS; i++)
        row[i] =
            gemm_take_words(from + i * source->along, j + i < source->count ? left : 0, source);
      const gemm_words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
      const gemm_words low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
      const gemm_words high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      const gemm_words high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      const gemm_words line[GEMM_WORDS] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                           __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                           __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                           __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (int64_t q = 0; q < GEMM_WORDS && p + q < lines; q++) {
        uint32_t *at = to + (p + q) * width + j;
        if (columns == GEMM_WORDS)
          memcpy(at, &line[q], sizeof line[q]);
        else
          memcpy(at, &line[q], (size_t)columns * sizeof *at);
      }
    }
  }
}

/* Makes words from GEMM_GROUP runs of sixteen bytes: one for each element of a run. */
enum { GEMM_WOVEN = 16 / sizeof(gemm_unit) };
GEMM_INLINE void gemm_weave(gemm_words word[GEMM_WORDS], const gemm_bytes row[GEMM_GROUP],
                            bool is_signed) {
#ifdef GEMM_BF16
  const gemm_shorts even = (gemm_shorts)row[0], odd = (gemm_shorts)row[1];
  (void)is_signed;
  word[0] = (gemm_words)__builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
  word[1] = (gemm_words)__builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  const gemm_bytes low = __builtin_shufflevector(row[0], row[1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                                 5, 21, 6, 22, 7, 23);
  const gemm_bytes high = __builtin_shufflevector(row[0], row[1], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                  28, 13, 29, 14, 30, 15, 31);
#if GEMM_GROUP == 4
  const gemm_bytes low2 = __builtin_shufflevector(row[2], row[3], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                                  5, 21, 6, 22, 7, 23);
  const gemm_bytes high2 = __builtin_shufflevector(row[2], row[3], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                   28, 13, 29, 14, 30, 15, 31);
  const gemm_shorts a = (gemm_shorts)low, b = (gemm_shorts)low2;
  const gemm_shorts c = (gemm_shorts)high, d = (gemm_shorts)high2;
  (void)is_signed;
  word[0] = (gemm_words)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  word[1] = (gemm_words)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  word[2] = (gemm_words)__builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11);
  word[3] = (gemm_words)__builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  gemm_half_bytes part[GEMM_WORDS];
  memcpy(part, &low, 16);
  memcpy(part + 2, &high, 16);
  GEMM_UNROLL
  for (int i = 0; i < GEMM_WORDS; i++) word[i] = gemm_widen(part[i], is_signed);
#endif
#endif
}

/* For sources with contiguous rows or columns. Prefetches rows of k further on at the same time. */
static void gemm_weave_lines(uint32_t *to, const gemm_line_source *source) {
  enum { PIECE = GEMM_WOVEN, AHEAD = 8 * GEMM_GROUP };
  const int64_t width = source->width;
  for (int64_t p = 0; p < source->k; p += GEMM_GROUP, to += width) {
    const gemm_unit *from = source->from + p * source->step;
    for (int64_t j = 0; j < width; j += PIECE) {
      gemm_bytes row[GEMM_GROUP];
      gemm_words word[GEMM_WORDS];
      const int64_t count = source->count - j, columns = width - j < PIECE ? width - j : PIECE;
      GEMM_UNROLL
      for (int g = 0; g < GEMM_GROUP; g++) {
        const bool exists = p + g < source->k;
        if (p + g + AHEAD < source->k) __builtin_prefetch(from + (g + AHEAD) * source->step + j);
        row[g] = gemm_take_bytes((const uint8_t *)(from + g * source->step + j),
                                 exists ? count * (int64_t)sizeof *from : 0, source->flip);
      }
      gemm_weave(word, row, source->is_signed);
      if (columns == PIECE)
        memcpy(to + j, word, PIECE * sizeof *to);
      else
        memcpy(to + j, word, (size_t)columns * sizeof *to);
    }
  }
}

#endif

/* For any strides: first copies a piece of some columns and of k. */
static void gemm_gather_lines(uint32_t *to, const gemm_line_source *source) {
  enum { CHUNK = 64, WIDEST = GEMM_COLUMNS > GEMM_ROWS ? GEMM_COLUMNS : GEMM_ROWS };
  gemm_unit piece[WIDEST * CHUNK];
  for (int64_t p = 0; p < source->k; p += CHUNK) {
    gemm_line_source part = *source;
    part.k = source->k - p < CHUNK ? source->k - p : CHUNK;
    for (int64_t j = 0; j < source->count; j++)
      for (int64_t q = 0; q < part.k; q++)
        piece[j * CHUNK + q] = source->from[j * source->along + (p + q) * source->step];
    part.from = piece;
    part.along = CHUNK;
    part.step = 1;
    gemm_turn_lines(to + p / GEMM_GROUP * source->width, &part);
  }
}

#if GEMM_TERMS
/* Writes the line after the last: factor · sum + rest. Bytes are signed in B, unsigned in A. */
static void gemm_add_terms(uint32_t *lines, int64_t count, int64_t width, bool right,
                           uint32_t factor, uint32_t rest) {
  uint32_t *to = lines + count * width;
  memset(to, 0, (size_t)width * sizeof *to);
  if (factor == 0) return;
#if GEMM_GROUP == 4
  const gemm_vector ones = (gemm_vector){0} + UINT32_C(0x01010101);
  for (int64_t j = 0; j < width; j += GEMM_LANES) {
    gemm_vector sum = {0};
    for (int64_t p = 0; p < count; p++) {
      const gemm_vector words = *(const gemm_vector_at *)(lines + p * width + j);
      sum = right ? GEMM_MULTIPLY_ADD(ones, words, sum) : GEMM_MULTIPLY_ADD(words, ones, sum);
    }
    sum = sum * factor + rest;
    const int64_t columns = width - j < GEMM_LANES ? width - j : GEMM_LANES;
    memcpy(to + j, &sum, (size_t)columns * sizeof *to);
  }
#else
  (void)right, (void)rest;
#endif
}
#endif

static void gemm_pack_lines(uint32_t *to, const gemm_line_source *source, bool right,
                            uint32_t factor, uint32_t rest) {
  if (source->step == 1)
    gemm_turn_lines(to, source);
  else if (source->along == 1)
    gemm_weave_lines(to, source);
  else
    gemm_gather_lines(to, source);
#if GEMM_TERMS
  gemm_add_terms(to, (source->k + GEMM_GROUP - 1) / GEMM_GROUP, source->width, right, factor, rest);
#else
  (void)right, (void)factor, (void)rest;
#endif
}

/* The shift s or t of an operand's bytes, modulo 2^32. */
GEMM_INLINE uint32_t gemm_shift_of(compute_dtype dtype, bool right) {
#ifdef GEMM_SIGNED_LEFT
  const uint32_t left = dtype == COMPUTE_U8 ? 0u - GEMM_SHIFT : 0;
#else
  const uint32_t left = dtype == COMPUTE_I8 ? GEMM_SHIFT : 0;
#endif
  if (GEMM_GROUP != 4) return 0;
  return !right ? left : dtype == COMPUTE_U8 ? GEMM_SHIFT : 0;
}

/* Copies `count` elements of A, `step` apart, into the parts of words. */
GEMM_INLINE void gemm_copy_parts(gemm_part *restrict to, const gemm_unit *restrict from,
                                 int64_t count, int64_t step, const bool is_signed,
                                 const uint8_t flip) {
  for (int64_t j = 0; j < count; j++) {
    const gemm_unit unit = from[j * step] ^ flip;
    to[j] = GEMM_GROUP == 2 && is_signed ? (gemm_part)(int8_t)unit : unit;
  }
}

#if GEMM_GROUP == 4
/* Packs rows of one word from `planes` planes; `flip` fills missing bytes. */
static void gemm_weave_rows(uint32_t *to, int64_t rows, int64_t planes,
                            const cpu_gemm_source *source, uint8_t flip) {
  enum { PIECE = 16 };
  const uint8_t *from = source->data;
  const gemm_bytes flips = (gemm_bytes){0} + flip;
  for (int64_t i = 0; i < rows; i += PIECE) {
    const size_t count = rows - i < PIECE ? (size_t)(rows - i) : PIECE;
    gemm_bytes row[GEMM_GROUP];
    gemm_words word[GEMM_WORDS];
    for (int g = 0; g < GEMM_GROUP; g++) {
      row[g] = (gemm_bytes){0};
      if (g < planes && count == PIECE)
        memcpy(&row[g], from + g * source->inner + i, PIECE);
      else if (g < planes)
        memcpy(&row[g], from + g * source->inner + i, count);
      row[g] ^= flips;
    }
    gemm_weave(word, row, false);
    memcpy(to + i, word, count * sizeof *to);
  }
}
#endif

static void gemm_pack_word_rows(void *packed, int64_t row, int64_t outer, int64_t inner,
                                const cpu_gemm_source *source) {
  const bool is_signed = source->dtype == COMPUTE_I8;
  const uint8_t flip = (uint8_t)gemm_shift_of(source->dtype, false);
  gemm_part *to = packed;
  const gemm_unit *from = source->data;
#if GEMM_GROUP == 4
  if (source->outer == 1 && row == GEMM_GROUP && inner <= GEMM_GROUP) {
    gemm_weave_rows(packed, outer, inner, source, flip);
    return;
  }
#elif defined(GEMM_VECTOR_PACKING)
  if (source->outer == 1 && row == 2 * GEMM_GROUP && inner <= row) {
    gemm_weave_pixels(packed, outer, inner, source);
    return;
  }
#endif
  if (source->inner == 1 && source->outer == inner && row == inner && inner % GEMM_GROUP == 0) {
    inner *= outer;
    outer = 1;
  }
  for (int64_t i = 0; i < outer; i++, to += row, from += source->outer) {
    if (source->inner != 1)
      gemm_copy_parts(to, from, inner, source->inner, is_signed, flip);
    else if (is_signed)
      gemm_copy_parts(to, from, inner, 1, true, flip);
    else
      gemm_copy_parts(to, from, inner, 1, false, flip);
    for (int64_t j = inner; j % GEMM_GROUP != 0; j++) to[j] = flip;
  }
}

static void gemm_pack_words(void *packed, bool right, int64_t sides, int64_t k,
                            const cpu_gemm_source *source, compute_dtype other) {
  const int64_t tiles = right ? (sides + GEMM_COLUMNS - 1) / GEMM_COLUMNS : gemm_tile_count(sides);
  const int64_t lines = (k + GEMM_GROUP - 1) / GEMM_GROUP;
  const uint32_t own = gemm_shift_of(source->dtype, right), factor = gemm_shift_of(other, !right);
  gemm_line_source part = {.k = k,
                           .along = right ? source->inner : source->outer,
                           .step = right ? source->outer : source->inner,
                           .is_signed = source->dtype == COMPUTE_I8,
                           .flip = (uint8_t)own};
  uint32_t *to = packed;
  int64_t t = 0, first = 0;
  part.from = source->data;
#ifdef GEMM_VECTOR_PACKING
  if (right && part.along == 1) {
    t = sides / GEMM_COLUMNS;
    first = t * GEMM_COLUMNS;
    gemm_weave_panels(to, &part, t);
    to += first * lines;
    part.from += first;
  }
#endif
  for (; t < tiles; t++, first += part.count) {
    part.count = right ? (sides - first < GEMM_COLUMNS ? sides - first : GEMM_COLUMNS)
                       : gemm_tile_rows(sides, tiles, t);
    part.width = right ? GEMM_COLUMNS : part.count;
    if (right)
      gemm_pack_lines(to, &part, true, 0u - factor, 0);
    else
      gemm_pack_lines(to, &part, false, factor, 0u - (uint32_t)k * own * factor);
#ifdef GEMM_AMX
    if (!right && part.count >= AMX_LEAST) gemm_amx_turn(to, lines, part.count);
#endif
    to += part.width * (lines + GEMM_TERMS);
    part.from += part.count * part.along;
  }
}

#endif
