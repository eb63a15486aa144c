/* Transposition: pixels of FIT_LANES regions, each with an address of its own, to [pixel][lane]. */
#ifndef CPU_FIT_GATHER_H
#define CPU_FIT_GATHER_H

#include "fit_vector.h"

typedef enum fit_element { FIT_F32, FIT_U16, FIT_U8 } fit_element;

/* ---- One by one ---------------------------------------------------------------------------- */

FIT_INLINE float fit_element_at(const int element, const unsigned char *at) {
  if (element == FIT_U8) return *at;
  if (element == FIT_U16) {
    uint16_t whole;
    memcpy(&whole, at, sizeof whole);
    return whole;
  }
  float value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* For any strides. */
FIT_INLINE void fit_gather_any(const int element, const unsigned char *const *from, int64_t row,
                               int64_t column, int32_t rows, int32_t columns, vf *plane) {
  float *to = (float *)plane;
  for (int lane = 0; lane < FIT_LANES; lane++)
    for (int32_t i = 0; i < rows; i++)
      for (int32_t j = 0; j < columns; j++)
        to[((int64_t)i * columns + j) * FIT_LANES + lane] =
            fit_element_at(element, from[lane] + i * row + j * column);
}

/* ---- Four pixels at a time ------------------------------------------------------------------ */

#if FIT_LANES == 16

/* Four pixels of lanes j, 4 + j, 8 + j and 12 + j. A load that repeats its 16 (or 8) bytes under a
 * mask keeps to the load ports and leaves the one for shuffles alone. */
FIT_INLINE vf fit_load_four(const int element, const unsigned char *const *from, int j,
                            int64_t at) {
#define FIT_LOAD(lane) (const void *)(from[lane] + at)
  if (element == FIT_F32) {
    __m512 four = _mm512_castps128_ps512(_mm_loadu_ps(FIT_LOAD(j)));
    four = _mm512_mask_broadcast_f32x4(four, 0x00f0, _mm_loadu_ps(FIT_LOAD(4 + j)));
    four = _mm512_mask_broadcast_f32x4(four, 0x0f00, _mm_loadu_ps(FIT_LOAD(8 + j)));
    return (vf)_mm512_mask_broadcast_f32x4(four, 0xf000, _mm_loadu_ps(FIT_LOAD(12 + j)));
  }
  __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64(FIT_LOAD(j)));
  four = _mm256_mask_broadcastq_epi64(four, 2, _mm_loadl_epi64(FIT_LOAD(4 + j)));
  four = _mm256_mask_broadcastq_epi64(four, 4, _mm_loadl_epi64(FIT_LOAD(8 + j)));
  four = _mm256_mask_broadcastq_epi64(four, 8, _mm_loadl_epi64(FIT_LOAD(12 + j)));
  return (vf)_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(four));
#undef FIT_LOAD
}

/* Turns each 4 × 4 of the four vectors about its diagonal. */
FIT_INLINE void fit_turn_four(const vf *four, vf *to) {
  const __m512 a = (__m512)four[0], b = (__m512)four[1], c = (__m512)four[2], d = (__m512)four[3];
  const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)),
                cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)),
                ab2 = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)),
                cd2 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
  to[0] = (vf)_mm512_unpacklo_pd(ab, cd);
  to[1] = (vf)_mm512_unpackhi_pd(ab, cd);
  to[2] = (vf)_mm512_unpacklo_pd(ab2, cd2);
  to[3] = (vf)_mm512_unpackhi_pd(ab2, cd2);
}

#elif FIT_LANES == 8

/* Four pixels of lanes j and 4 + j. */
FIT_INLINE vf fit_load_four(const int element, const unsigned char *const *from, int j,
                            int64_t at) {
  const void *low = from[j] + at, *high = from[4 + j] + at;
  if (element == FIT_F32)
    return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high),
                                    1);
  const __m128i four = _mm_unpacklo_epi64(_mm_loadl_epi64(low), _mm_loadl_epi64(high));
  return (vf)_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(four));
}

FIT_INLINE void fit_turn_four(const vf *four, vf *to) {
  const __m256 a = (__m256)four[0], b = (__m256)four[1], c = (__m256)four[2], d = (__m256)four[3];
  const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)),
                cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)),
                ab2 = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)),
                cd2 = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  to[0] = (vf)_mm256_unpacklo_pd(ab, cd);
  to[1] = (vf)_mm256_unpackhi_pd(ab, cd);
  to[2] = (vf)_mm256_unpacklo_pd(ab2, cd2);
  to[3] = (vf)_mm256_unpackhi_pd(ab2, cd2);
}

#endif

#if FIT_LANES >= 8

/* Lines of pixels side by side, `line` bytes apart. The last four of a line may overlap the four
 * before them: nothing behind a line is read. */
FIT_INLINE void fit_gather_lines(const int element, const unsigned char *const *from, int64_t line,
                                 int32_t lines, int32_t length, vf *plane) {
  const int64_t size = element == FIT_F32 ? 4 : 2;
  for (int32_t i = 0; i < lines; i++, plane += length)
    for (int32_t j = 0; j < length; j += 4) {
      const int32_t first = j + 4 > length ? length - 4 : j;
      const int64_t at = i * line + first * size;
      vf four[4];
      FIT_UNROLL
      for (int k = 0; k < 4; k++) four[k] = fit_load_four(element, from, k, at);
      fit_turn_four(four, plane + first);
    }
}

#endif

FIT_INLINE void fit_gather_as(const int element, const unsigned char *const *from, int64_t row,
                              int64_t column, int32_t rows, int32_t columns, vf *plane) {
#if FIT_LANES >= 8
  const int64_t size = element == FIT_F32 ? 4 : 2;
  if (column == size && row == columns * size && rows * columns >= 4) {
    fit_gather_lines(element, from, 0, 1, rows * columns, plane);
    return;
  }
  if (column == size && columns >= 4) {
    fit_gather_lines(element, from, row, rows, columns, plane);
    return;
  }
#endif
  fit_gather_any(element, from, row, column, rows, columns, plane);
}

/* The other way: columns of results to records whose columns lie side by side. */
FIT_INLINE void fit_scatter(const vf *column, int32_t columns, unsigned char *const *to) {
#if FIT_LANES >= 8
  for (int32_t c = 0; columns >= 4 && c < columns; c += 4) {
    const int32_t first = c + 4 > columns ? columns - 4 : c;
    vf four[4];
    fit_turn_four(column + first, four);
    for (int j = 0; j < 4; j++)
      for (int part = 0; part < FIT_LANES / 4; part++)
        memcpy(to[4 * part + j] + 4 * first, (const float *)&four[j] + 4 * part, 16);
  }
  if (columns >= 4) return;
#endif
  for (int lane = 0; lane < FIT_LANES; lane++)
    for (int32_t c = 0; c < columns; c++)
      memcpy(to[lane] + 4 * c, (const float *)&column[c] + lane, 4);
}

/* `row` and `column` are strides in bytes. Lanes whose address is NULL get what another one has. */
FIT_APART void fit_gather(fit_element element, const unsigned char *const *given, int64_t row,
                          int64_t column, int32_t rows, int32_t columns, vf *plane) {
  const unsigned char *from[FIT_LANES], *any = NULL;
  for (int lane = 0; lane < FIT_LANES; lane++)
    if (given[lane]) any = given[lane];
  if (!any) {
    for (int32_t p = 0; p < rows * columns; p++) plane[p] = v_set(1);
    return;
  }
  for (int lane = 0; lane < FIT_LANES; lane++) from[lane] = given[lane] ? given[lane] : any;
  switch (element) {
  case FIT_F32: fit_gather_as(FIT_F32, from, row, column, rows, columns, plane); break;
  case FIT_U16: fit_gather_as(FIT_U16, from, row, column, rows, columns, plane); break;
  case FIT_U8: fit_gather_any(FIT_U8, from, row, column, rows, columns, plane); break;
  }
}

#endif
