/* SPDX-License-Identifier: MIT */
/* Depthwise convolution on planes (loops: planes_table.h; compilation: core/isa.h).
 *
 * Data are read in place. Where a window extends past its row, loads are masked. The last vector of
 * a row of results overlaps the one before. A block of results, some rows high and a vector wide,
 * stays in registers during all taps; an element of the data, once loaded, serves all its rows.
 * With stride 2, the even and odd columns of two vectors are separated. AVX2 does this within
 * 16-byte lanes, with the cheapest shuffles, and reorders the finished sums.
 *
 * Without masked loads, planes are copied with their padding instead (conv_direct.c). */
#include <stdbool.h>

#include "planes_table.h"

#if defined(__AVX2__) && defined(__FMA__)

#include "floats.h"
#include "program/isa/limits.h"

#if defined(__AVX512F__)
#define EVEN(a, b)                                                                                 \
  _mm512_permutex2var_ps(                                                                          \
      a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b)
#define ODD(a, b)                                                                                  \
  _mm512_permutex2var_ps(                                                                          \
      a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b)
#define IN_ORDER(x) (x)
/* The last element of `a`, then all of `b` except its last. */
#define AFTER(a, b) ((floats)_mm512_alignr_epi32((__m512i)(b), (__m512i)(a), LANES - 1))
/* One element, in the last lane; masked by bit 0. */
#define LOAD_ONE(from) _mm512_set1_ps(*(from))
#define LOAD_ONE_MASKED(from, mask)                                                                \
  _mm512_maskz_loadu_ps((load_mask)((mask) << (LANES - 1)), (from) - (LANES - 1))
#define AHEAD_OF_PAIRS            1
#define LOAD_MASKED(from, mask)   _mm512_maskz_loadu_ps(mask, from)
#define STORE_MASKED(to, mask, x) _mm512_mask_storeu_ps(to, mask, x)
#define LEAST_COLUMNS             1
typedef __mmask16 load_mask;
#else
#define EVEN(a, b)              _mm256_shuffle_ps(a, b, 0x88)
#define ODD(a, b)               _mm256_shuffle_ps(a, b, 0xdd)
#define IN_ORDER(x)             ((floats)_mm256_permute4x64_pd((__m256d)(x), 0xd8))
#define LOAD_MASKED(from, mask) _mm256_maskload_ps(from, mask)
#define AHEAD_OF_PAIRS          0
#define LEAST_COLUMNS           LANES
typedef __m256i load_mask;
#endif

enum {
  ROWS = VECTOR_BYTES == 64 ? 7 : 4, /* of a block; networks use multiples of 7 */
  MOST_SIZE = 5,
  MOST_LOADS = 6, /* per row of data, for a vector of results */
  MOST_SOURCES = (ROWS - 1) * 2 + MOST_SIZE,
  AHEAD = 4096 / (int)sizeof(float) /* least prefetch distance */
};

/* The lanes whose column is inside the data. */
INLINE load_mask mask_of(int64_t column, int64_t width) {
  int64_t first = column < 0 ? -column : 0, end = width - column;
  first = first > LANES ? LANES : first;
  end = end < 0 ? 0 : end > LANES ? LANES : end;
#if VECTOR_BYTES == 64
  return (load_mask)(((1u << end) - 1) & ~((1u << first) - 1));
#else
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), lane),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), lane));
#endif
}

/* Column of load `n` of a row, relative to the first. With stride 2, loads are pairs of vectors;
 * with AVX-512, a single element precedes them. */
INLINE int64_t column_of(int n, int stride) {
  const int pair = n - AHEAD_OF_PAIRS;
  return stride == 1 || pair < 0 ? n : AHEAD_OF_PAIRS + pair / 2 * 2 + pair % 2 * LANES;
}

/* Number of loads per row. */
INLINE int loads_of(int size, int stride) {
  return stride == 1 || AHEAD_OF_PAIRS ? size : size + 1;
}

INLINE floats load(const float *from, bool masked, load_mask mask) {
  floats x = masked ? (floats)LOAD_MASKED(from, mask) : (floats) * (const floats_at *)from;
  PIN(x);
  return x;
}

/* Reads the data of one row for all columns of the filter. */
INLINE void read_row(const int size, const int stride, const bool masked, const float *from,
                     const load_mask *mask, floats x[MOST_SIZE]) {
  if (stride == 1) {
    UNROLL
    for (int j = 0; j < size; j++) x[j] = load(from + j, masked, mask[j]);
    return;
  }
  UNROLL
  for (int j = AHEAD_OF_PAIRS; j < size; j += 2) {
    const floats a = load(from + column_of(j, 2), masked, mask[j]);
    const floats b = load(from + column_of(j + 1, 2), masked, mask[j + 1]);
    x[j] = EVEN(a, b);
    if (j + 1 < size) x[j + 1] = ODD(a, b);
  }
#if AHEAD_OF_PAIRS
  /* The first column's data are the third's, shifted by one. */
  const floats first = masked ? (floats)LOAD_ONE_MASKED(from, mask[0]) : (floats)LOAD_ONE(from);
  x[0] = AFTER(first, x[2]);
#endif
}

INLINE floats finish(const cpu_planes_band *b, floats x) {
  const floats none = {0}, low = b->low - none, zero = b->zero - none, high = b->high - none;
  x += b->bias - none;
  x = (floats)CPU_AT_LEAST(low, x) + zero;
  return (floats)CPU_AT_MOST(high, x);
}

/* Computes `rows` vectors of results, from row `row` and column q on. At an edge, where windows may
 * extend past the data, source[i] is the data for the block's row i. The first four parameters are
 * constants. */
INLINE void block(const int rows, const int size, const int stride, const bool edge,
                  const floats *weight, const cpu_planes_band *b, const float *const *source,
                  int64_t row, int64_t q) {
  const int64_t column = q * stride - b->padding[1];
  const float *inside = b->data + (row * stride - b->padding[0]) * b->data_row + column;
  load_mask mask[MOST_LOADS];
  floats sum[ROWS];
  UNROLL
  for (int n = 0; n < MOST_LOADS; n++)
    mask[n] = edge ? mask_of(column + column_of(n, stride), b->width) : (load_mask){0};
  UNROLL
  for (int r = 0; r < rows; r++) sum[r] = (floats){0};
  UNROLL
  for (int i = 0; i < (rows - 1) * stride + size; i++) {
    floats x[MOST_SIZE];
    read_row(size, stride, edge, edge ? source[i] + column : inside, mask, x);
    inside += b->data_row;
    UNROLL
    for (int j = 0; j < size; j++) {
      UNROLL
      for (int r = 0; r < rows; r++)
        if (i - r * stride >= 0 && i - r * stride < size)
          sum[r] = MULTIPLY_ADD_FLOATS(weight[(i - r * stride) * size + j], x[j], sum[r]);
    }
  }
  float *to = b->results + (row - b->row) * b->results_row + q;
  UNROLL
  for (int r = 0; r < rows; r++, to += b->results_row) {
    const floats y = finish(b, stride == 1 ? sum[r] : IN_ORDER(sum[r]));
#if VECTOR_BYTES == 64
    if (b->columns < LANES) {
      STORE_MASKED(to, mask_of(0, b->columns), y);
      continue;
    }
#endif
    *(floats_at *)to = y;
  }
}

/* Computes `rows` rows of results from `row` on. Prefetches data further down, as planes are
 * contiguous: the hardware prefetcher is too slow for the fastest of these loops. */
INLINE void make_strip(const int rows, const int size, const int stride, const floats *weight,
                       const cpu_planes_band *b, int64_t row) {
  const int64_t top = row * stride - b->padding[0], span = rows * stride * b->width;
  const bool cut = top < 0 || top + (rows - 1) * stride + size > b->height;
  const float *source[MOST_SOURCES];
  for (int i = 0; i < (rows - 1) * stride + size; i++) {
    const int64_t at = top + i;
    source[i] = at < 0 || at >= b->height ? b->zeros : b->data + at * b->data_row;
  }
  __asm__("" : : "r"(source) : "memory"); /* keeps gcc from caching them in vector registers */
  const float *next = b->data + row * stride * b->data_row + (span > AHEAD ? span : AHEAD);
  for (int64_t i = 0; i < span; i += 64 / (int)sizeof(float)) __builtin_prefetch(next + i);
  const int64_t last = b->columns < LANES ? 0 : b->columns - LANES;
  const int64_t reach = column_of(loads_of(size, stride) - 1, stride) + LANES;
  for (int64_t first = 0; first < b->columns; first += LANES) {
    const int64_t q = first < last ? first : last, column = q * stride - b->padding[1];
    if (cut || column < 0 || column + reach > b->width)
      block(rows, size, stride, true, weight, b, source, row, q);
    else
      block(rows, size, stride, false, weight, b, source, row, q);
  }
}

INLINE void run(const int size, const int stride, const cpu_planes_band *band) {
  const cpu_planes_band own = *band, *const b = &own; /* a copy that no store can alias */
  floats weight[MOST_SIZE * MOST_SIZE];
  UNROLL
  for (int t = 0; t < size * size; t++) weight[t] = b->filter[t] - (floats){0};
  const int64_t end = b->row + b->rows;
  int64_t row = b->row;
  if (b->rows < ROWS) {
    for (; row < end; row++) make_strip(1, size, stride, weight, b, row);
    return;
  }
  for (; row < end; row += ROWS) /* the last strip may repeat rows */
    make_strip(ROWS, size, stride, weight, b, row + ROWS <= end ? row : end - ROWS);
}

static void run3(const cpu_planes_band *b) {
  run(3, 1, b);
}

static void run3s2(const cpu_planes_band *b) {
  run(3, 2, b);
}

static void run5(const cpu_planes_band *b) {
  run(5, 1, b);
}

static void run5s2(const cpu_planes_band *b) {
  run(5, 2, b);
}

/* ---- Any filter with stride 1 ---------------------------------------------------------------- */

enum { MOST_ABREAST = 4 }; /* vectors of a block */

typedef load_mask column_masks[CPU_PLANES_TAPS];

/* Computes `rows` rows of `vectors` vectors. A tap's weight is read once for all of them. At an edge,
 * one vector is read with the mask of each column of the filter. The first three parameters are
 * constants. */
INLINE void tap_block(const int rows, const int vectors, const bool edge, const cpu_planes_band *b,
                      const load_mask *mask, int64_t row, int64_t q) {
  const int64_t column = q - b->padding[1];
  const float *weight = b->filter;
  floats sum[4][MOST_ABREAST];
  UNROLL
  for (int r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = (floats){0};
  }
  for (int64_t i = 0; i < b->size[0]; i++) {
    const float *from[4];
    UNROLL
    for (int r = 0; r < rows; r++) {
      const int64_t at = row + r - b->padding[0] + i * b->dilation[0];
      from[r] = (at < 0 || at >= b->height ? b->zeros : b->data + at * b->data_row) + column;
    }
    for (int64_t j = 0; j < b->size[1]; j++) {
      const floats w = *weight++ - (floats){0};
      UNROLL
      for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
          const float *at = from[r] + j * b->dilation[1] + v * LANES;
          const floats x =
              edge ? (floats)LOAD_MASKED(at, mask[j]) : (floats) * (const floats_at *)at;
          sum[r][v] = MULTIPLY_ADD_FLOATS(w, x, sum[r][v]);
        }
      }
    }
  }
  float *to = b->results + (row - b->row) * b->results_row + q;
  UNROLL
  for (int r = 0; r < rows; r++, to += b->results_row) {
    UNROLL
    for (int v = 0; v < vectors; v++) {
      const floats y = finish(b, sum[r][v]);
#if VECTOR_BYTES == 64
      if (b->columns < LANES) {
        STORE_MASKED(to, mask_of(0, b->columns), y);
        continue;
      }
#endif
      *(floats_at *)(to + v * LANES) = y;
    }
  }
}

/* True if windows of `vectors` vectors from column q on extend past the data. */
INLINE bool is_edge(const cpu_planes_band *b, int64_t q, int vectors) {
  const int64_t column = q - b->padding[1];
  return column < 0 || column + (b->size[1] - 1) * b->dilation[1] + vectors * LANES > b->width;
}

/* Computes all rows of `vectors` vectors from column q on, which is constant as `edge` is. */
INLINE void tap_columns(const int vectors, const bool edge, const cpu_planes_band *b, int64_t q) {
  const int tall = vectors > 2 ? 2 : 4;
  const int64_t end = b->row + b->rows;
  int64_t row = b->row;
  column_masks mask;
  for (int64_t j = 0; edge && j < b->size[1]; j++)
    mask[j] = mask_of(q - b->padding[1] + j * b->dilation[1], b->width);
  for (; row + tall <= end; row += tall) tap_block(tall, vectors, edge, b, mask, row, q);
  for (; row < end; row++) tap_block(1, vectors, edge, b, mask, row, q);
}

/* The last block of columns overlaps the one before. */
static void run_taps(const cpu_planes_band *band) {
  const cpu_planes_band own = *band, *const b = &own; /* a copy that no store can alias */
  const int64_t last = b->columns < LANES ? 0 : b->columns - LANES;
  for (int64_t next = 0; next < b->columns;) {
    const bool wide = next + MOST_ABREAST * LANES <= b->columns && !is_edge(b, next, MOST_ABREAST);
    const int64_t q = next < last ? next : last;
    next += (wide ? MOST_ABREAST : 1) * LANES;
    if (wide)
      tap_columns(MOST_ABREAST, false, b, q);
    else if (is_edge(b, q, 1))
      tap_columns(1, true, b, q);
    else
      tap_columns(1, false, b, q);
  }
}

const cpu_planes_table CPU_SYMBOL(cpu_planes) = {LEAST_COLUMNS, run3,   run3s2,
                                                 run5,          run5s2, run_taps};

#else

const cpu_planes_table CPU_SYMBOL(cpu_planes) = {.least_columns = 0};

#endif
