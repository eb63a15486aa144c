/* SPDX-License-Identifier: MIT */
/* Packs bf16 into words with AVX-512, which every machine that multiplies bf16 has. Part of
 * gemm_pack_words.h. Masks end lines and columns, so nothing outside the source is read. */
#ifndef CPU_GEMM_PACK_BF16_H
#define CPU_GEMM_PACK_BF16_H

enum {
  GEMM_SIDE = 16,       /* words in a vector */
  GEMM_TOGETHER = 8,    /* panels per pass: rows of B are read in runs of several cache lines */
  GEMM_PAIRS_AHEAD = 8, /* prefetch distance in lines */
  GEMM_EVEN_LANES = 0x88,
  GEMM_ODD_LANES = 0xdd
};

/* The first `count` bits of a mask. */
GEMM_INLINE uint32_t gemm_mask(int64_t count) {
  return count >= 32 ? ~UINT32_C(0) : count <= 0 ? 0 : (UINT32_C(1) << count) - 1;
}

/* Transposes sixteen rows of sixteen words: first within lanes of four words, then across lanes. */
GEMM_INLINE void gemm_turn_words(__m512i row[GEMM_SIDE]) {
  __m512i half[GEMM_SIDE], quad[GEMM_SIDE];
  GEMM_UNROLL
  for (int i = 0; i < GEMM_SIDE; i += 2) {
    half[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  GEMM_UNROLL
  for (int i = 0; i < GEMM_SIDE; i += 4) {
    quad[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    quad[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    quad[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    quad[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  GEMM_UNROLL
  for (int i = 0; i < 4; i++) {
    const __m512i even0 = _mm512_shuffle_i32x4(quad[i], quad[4 + i], GEMM_EVEN_LANES);
    const __m512i even1 = _mm512_shuffle_i32x4(quad[8 + i], quad[12 + i], GEMM_EVEN_LANES);
    const __m512i odd0 = _mm512_shuffle_i32x4(quad[i], quad[4 + i], GEMM_ODD_LANES);
    const __m512i odd1 = _mm512_shuffle_i32x4(quad[8 + i], quad[12 + i], GEMM_ODD_LANES);
    row[i] = _mm512_shuffle_i32x4(even0, even1, GEMM_EVEN_LANES);
    row[4 + i] = _mm512_shuffle_i32x4(odd0, odd1, GEMM_EVEN_LANES);
    row[8 + i] = _mm512_shuffle_i32x4(even0, even1, GEMM_ODD_LANES);
    row[12 + i] = _mm512_shuffle_i32x4(odd0, odd1, GEMM_ODD_LANES);
  }
}

/* For sources contiguous along k. */
static void gemm_turn_lines(uint32_t *to, const gemm_line_source *source) {
  const int64_t lines = (source->k + 1) / 2, width = source->width;
  for (int64_t j = 0; j < width; j += GEMM_SIDE) {
    const gemm_unit *from = source->from + j * source->along;
    const int64_t exist = source->count - j;
    const __mmask16 columns = (__mmask16)gemm_mask(width - j);
    for (int64_t p = 0; p < lines; p += GEMM_SIDE, from += 2 * GEMM_SIDE) {
      __m512i row[GEMM_SIDE];
      const __mmask32 mask = gemm_mask(source->k - 2 * p);
      GEMM_UNROLL
      for (int i = 0; i < GEMM_SIDE; i++)
        row[i] = i < exist ? _mm512_maskz_loadu_epi16(mask, from + i * source->along)
                           : _mm512_setzero_si512();
      gemm_turn_words(row);
      uint32_t *at = to + p * width + j;
      GEMM_UNROLL
      for (int q = 0; q < GEMM_SIDE; q++)
        if (p + q < lines) _mm512_mask_storeu_epi32(at + q * width, columns, row[q]);
    }
  }
}

/* Packs words of up to 32 columns from two rows of k; the second may not exist. */
GEMM_INLINE void gemm_weave(uint32_t *to, const gemm_unit *from, int64_t step, bool second,
                            int64_t count, int64_t width) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(GEMM_SIDE));
  const __mmask32 mask = gemm_mask(count);
  const __m512i a = _mm512_maskz_loadu_epi16(mask, from);
  const __m512i b = _mm512_maskz_loadu_epi16(second ? mask : 0, from + (second ? step : 0));
  const __m512i words[2] = {_mm512_permutex2var_epi16(a, low, b),
                            _mm512_permutex2var_epi16(a, high, b)};
  _mm512_mask_storeu_epi32(to, (__mmask16)gemm_mask(width), words[0]);
  if (width > GEMM_SIDE)
    _mm512_mask_storeu_epi32(to + GEMM_SIDE, (__mmask16)gemm_mask(width - GEMM_SIDE), words[1]);
}

/* For sources with contiguous rows or columns. */
static void gemm_weave_lines(uint32_t *to, const gemm_line_source *source) {
  const int64_t width = source->width;
  for (int64_t p = 0; p < source->k; p += 2, to += width)
    for (int64_t j = 0; j < width; j += 2 * GEMM_SIDE)
      gemm_weave(to + j, source->from + p * source->step + j, source->step, p + 1 < source->k,
                 source->count - j, width - j);
}

/* Packs full panels of a B with contiguous columns. Prefetches rows of k further on at the same
 * time. */
static void gemm_weave_panels(uint32_t *to, const gemm_line_source *source, int64_t panels) {
  const int64_t apart = (source->k + 1) / 2 * GEMM_COLUMNS;
  for (int64_t first = 0; first < panels; first += GEMM_TOGETHER) {
    const int64_t count = panels - first < GEMM_TOGETHER ? panels - first : GEMM_TOGETHER;
    for (int64_t p = 0; p < source->k; p += 2) {
      const gemm_unit *from = source->from + p * source->step + first * GEMM_COLUMNS;
      uint32_t *line = to + first * apart + p / 2 * GEMM_COLUMNS;
      const gemm_unit *next = from + 2 * GEMM_PAIRS_AHEAD * source->step;
      const bool far = p + 2 * GEMM_PAIRS_AHEAD + 1 < source->k;
      for (int64_t q = 0; q < count; q++, from += GEMM_COLUMNS, line += apart) {
        if (far) __builtin_prefetch(next + q * GEMM_COLUMNS);
        if (far) __builtin_prefetch(next + q * GEMM_COLUMNS + source->step);
        gemm_weave(line, from, source->step, p + 1 < source->k, GEMM_COLUMNS, GEMM_COLUMNS);
      }
    }
  }
}

/* Packs pixels of up to four channels, each in a separate plane, as two words each. */
static void gemm_weave_pixels(gemm_unit *to, int64_t pixels, int64_t channels,
                              const cpu_gemm_source *source) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(GEMM_SIDE / 2));
  const gemm_unit *from = source->data;
  for (int64_t i = 0; i < pixels; i += GEMM_SIDE, from += GEMM_SIDE, to += 4 * GEMM_SIDE) {
    const int64_t count = pixels - i < GEMM_SIDE ? pixels - i : GEMM_SIDE;
    __m512i x[4];
    for (int64_t c = 0; c < 4; c++) {
      const __mmask16 mask = (__mmask16)(c < channels ? gemm_mask(count) : 0);
      const __m256i halves = _mm256_maskz_loadu_epi16(mask, from + (mask ? c * source->inner : 0));
      x[c] = _mm512_cvtepu16_epi32(halves);
    }
    const __m512i first = _mm512_or_si512(x[0], _mm512_slli_epi32(x[1], 16));
    const __m512i second = _mm512_or_si512(x[2], _mm512_slli_epi32(x[3], 16));
    _mm512_mask_storeu_epi32(to, (__mmask16)gemm_mask(2 * count),
                             _mm512_permutex2var_epi32(first, low, second));
    _mm512_mask_storeu_epi32(to + 2 * GEMM_SIDE, (__mmask16)gemm_mask(2 * count - GEMM_SIDE),
                             _mm512_permutex2var_epi32(first, high, second));
  }
}

#endif
