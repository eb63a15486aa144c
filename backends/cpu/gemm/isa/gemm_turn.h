/* SPDX-License-Identifier: MIT */
/* Transposes operands that are contiguous along k into slivers of A and panels of B, in squares of
 * 16 × 16 elements (8 × 8 for 8-byte elements) in AVX-512 registers. Part of gemm_pack.h.
 *
 * First the elements in each group of four (two) rows are transposed within pieces of 16 bytes.
 * Then the pieces are transposed as a 4 × 4 matrix. Every step is a single shuffle; a row costs
 * four (three). */
#ifndef CPU_GEMM_TURN_H
#define CPU_GEMM_TURN_H

#include <immintrin.h>

#define GEMM_SQUARE GEMM_LANES
enum { GEMM_PIECE = 16 / GEMM_ELEMENT_BYTES };

typedef uint64_t gemm_pieces __attribute__((vector_size(64)));

/* Transposes GEMM_PIECE rows within each piece: rows of `row` become columns of the result. */
GEMM_INLINE void gemm_turn_within_pieces(const gemm_vector *row, gemm_vector *turned) {
#if GEMM_ELEMENT_BYTES == 8
  turned[0] = __builtin_shufflevector(row[0], row[1], 0, 8, 2, 10, 4, 12, 6, 14);
  turned[1] = __builtin_shufflevector(row[0], row[1], 1, 9, 3, 11, 5, 13, 7, 15);
#else
  gemm_pieces low[2], high[2];
  GEMM_UNROLL
  for (int i = 0; i < 2; i++) {
    const gemm_vector even = row[2 * i], odd = row[2 * i + 1];
    low[i] = (gemm_pieces)__builtin_shufflevector(even, odd, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9,
                                                  25, 12, 28, 13, 29);
    high[i] = (gemm_pieces)__builtin_shufflevector(even, odd, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26,
                                                   11, 27, 14, 30, 15, 31);
  }
  turned[0] = (gemm_vector)__builtin_shufflevector(low[0], low[1], 0, 8, 2, 10, 4, 12, 6, 14);
  turned[1] = (gemm_vector)__builtin_shufflevector(low[0], low[1], 1, 9, 3, 11, 5, 13, 7, 15);
  turned[2] = (gemm_vector)__builtin_shufflevector(high[0], high[1], 0, 8, 2, 10, 4, 12, 6, 14);
  turned[3] = (gemm_vector)__builtin_shufflevector(high[0], high[1], 1, 9, 3, 11, 5, 13, 7, 15);
#endif
}

/* Piece i of row j becomes piece j of row i. */
GEMM_INLINE void gemm_turn_pieces(gemm_vector *r0, gemm_vector *r1, gemm_vector *r2,
                                  gemm_vector *r3) {
  const gemm_pieces a = (gemm_pieces)*r0, b = (gemm_pieces)*r1, c = (gemm_pieces)*r2,
                    d = (gemm_pieces)*r3;
  const gemm_pieces ab_low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  const gemm_pieces ab_high = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  const gemm_pieces cd_low = __builtin_shufflevector(c, d, 0, 1, 2, 3, 8, 9, 10, 11);
  const gemm_pieces cd_high = __builtin_shufflevector(c, d, 4, 5, 6, 7, 12, 13, 14, 15);
  *r0 = (gemm_vector)__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5, 8, 9, 12, 13);
  *r1 = (gemm_vector)__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7, 10, 11, 14, 15);
  *r2 = (gemm_vector)__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5, 8, 9, 12, 13);
  *r3 = (gemm_vector)__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7, 10, 11, 14, 15);
}

GEMM_INLINE void gemm_turn(gemm_vector square[GEMM_SQUARE]) {
  gemm_vector turned[GEMM_SQUARE];
  GEMM_UNROLL
  for (int i = 0; i < GEMM_SQUARE; i += GEMM_PIECE) gemm_turn_within_pieces(square + i, turned + i);
  GEMM_UNROLL
  for (int i = 0; i < GEMM_PIECE; i++) {
    gemm_turn_pieces(turned + i, turned + GEMM_PIECE + i, turned + 2 * GEMM_PIECE + i,
                     turned + 3 * GEMM_PIECE + i);
  }
  GEMM_UNROLL
  for (int i = 0; i < GEMM_SQUARE; i++) square[i] = turned[i];
}

#if GEMM_ELEMENT_BYTES == 8
#define GEMM_LOAD(mask, from)      ((gemm_vector)_mm512_maskz_loadu_epi64((__mmask8)(mask), from))
#define GEMM_STORE(to, mask, from) _mm512_mask_storeu_epi64(to, (__mmask8)(mask), (__m512i)(from))
#else
#define GEMM_LOAD(mask, from)      ((gemm_vector)_mm512_maskz_loadu_epi32((__mmask16)(mask), from))
#define GEMM_STORE(to, mask, from) _mm512_mask_storeu_epi32(to, (__mmask16)(mask), (__m512i)(from))
#endif

/* Distance in elements at which rows are prefetched: there are more rows than the hardware
 * prefetches. */
enum { GEMM_TURN_AHEAD = 256 / GEMM_ELEMENT_BYTES };

#if GEMM_ELEMENT_BYTES == 8
#define GEMM_EVEN 0, 2, 4, 6, 9, 11, 13, 15
#else
#define GEMM_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#endif

/* Loads `count` elements, every one or every second. No other memory is read. */
GEMM_INLINE gemm_vector gemm_load_row(const GEMM_ELEMENT *row, const int step, int64_t count) {
  const GEMM_ELEMENT *rest = row + GEMM_SQUARE - 1; /* its first element is skipped */
  if (step == 1 && count == GEMM_SQUARE) return *(const gemm_vector_at *)row;
  if (step == 1) return GEMM_LOAD((1u << count) - 1, row);
  if (count == GEMM_SQUARE)
    return __builtin_shufflevector(*(const gemm_vector_at *)row, *(const gemm_vector_at *)rest,
                                   GEMM_EVEN);
  const unsigned load = (unsigned)((UINT64_C(1) << (2 * count - 1)) - 1);
  return __builtin_shufflevector(GEMM_LOAD(load, row), GEMM_LOAD(load >> (GEMM_SQUARE - 1), rest),
                                 GEMM_EVEN);
}

/* Transposes a square. Its rows begin at from[place[i]]; `count` of its columns, `step` elements
 * apart, become rows of `rows` elements. `step` is a compile-time constant; for a whole square,
 * `rows` and `count` are too. */
GEMM_INLINE void gemm_turn_square(GEMM_ELEMENT *to, int64_t to_row, int64_t rows, int64_t count,
                                  const GEMM_ELEMENT *from, const int step,
                                  const int64_t place[GEMM_SQUARE]) {
  const unsigned store = (1u << rows) - 1;
  gemm_vector square[GEMM_SQUARE];
  GEMM_UNROLL
  for (int i = 0; i < GEMM_SQUARE; i++) {
    const GEMM_ELEMENT *row = from + place[i];
    square[i] = gemm_load_row(row, step, count);
    __builtin_prefetch(row + GEMM_TURN_AHEAD);
  }
  gemm_turn(square);
  GEMM_UNROLL
  for (int j = 0; j < GEMM_SQUARE; j++) {
    if (j >= count) break;
    if (rows == GEMM_SQUARE)
      *(gemm_vector_at *)(to + j * to_row) = square[j];
    else
      GEMM_STORE(to + j * to_row, store, square[j]);
  }
}

GEMM_INLINE void gemm_turn_rows(GEMM_ELEMENT *sliver, int64_t sliver_row, int64_t rows, int64_t k,
                                const GEMM_ELEMENT *from, int64_t from_row, const int step) {
  for (int64_t i = 0; i < rows; i += GEMM_SQUARE) {
    const int64_t height = rows - i < GEMM_SQUARE ? rows - i : GEMM_SQUARE;
    int64_t place[GEMM_SQUARE], p = 0;
    for (int r = 0; r < GEMM_SQUARE; r++) place[r] = (i + (r < height ? r : 0)) * from_row;
    __asm__("" : "+m"(place)); /* otherwise gcc splits them into pieces of vectors */
    GEMM_ELEMENT *to = sliver + i;
    if (height == GEMM_SQUARE) {
      for (; p + GEMM_SQUARE <= k; p += GEMM_SQUARE, to += GEMM_SQUARE * sliver_row)
        gemm_turn_square(to, sliver_row, GEMM_SQUARE, GEMM_SQUARE, from + p * step, step, place);
    } else {
      for (; p + GEMM_SQUARE <= k; p += GEMM_SQUARE, to += GEMM_SQUARE * sliver_row)
        gemm_turn_square(to, sliver_row, height, GEMM_SQUARE, from + p * step, step, place);
    }
    if (p < k) gemm_turn_square(to, sliver_row, height, k - p, from + p * step, step, place);
  }
}

#undef GEMM_EVEN

#endif
