/* SPDX-License-Identifier: MIT */
/* Packing of operands: copies, transpositions and conversions to the computing type.
 *
 * GEMM_NATIVE is the dtype that needs no conversion. Integers compute in
 * unsigned types, so that overflow wraps. */
#ifndef CPU_GEMM_PACK_H
#define CPU_GEMM_PACK_H

#include <string.h>

#include "core/cpu.h"

/* Converts f16 to f32 by moving the bit fields. Multiplying by 2^112 corrects the exponent, and
 * also makes denormals normal. Infinity and NaN become 2^16 or more. */
GEMM_INLINE float gemm_half(uint16_t half) {
  const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
  float value;
  memcpy(&value, &magnitude, 4);
  value *= 0x1p112f;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits |= value >= 65536.0f ? 0x7f800000u : 0;
  bits |= (uint32_t)(half & 0x8000) << 16;
  memcpy(&value, &bits, 4);
  return value;
}

GEMM_INLINE float gemm_brain(uint16_t brain) {
  const uint32_t bits = (uint32_t)brain << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/* GEMM_INTEGER_CASE(code, element) for each integer dtype. */
#define GEMM_DTYPE_FLOAT(...)
#define GEMM_DTYPE_LOGIC(...)
#define GEMM_DTYPE_SIGNED(code, element)                           GEMM_INTEGER_CASE(code, element)
#define GEMM_DTYPE_UNSIGNED(code, element)                         GEMM_INTEGER_CASE(code, element)
#define GEMM_DTYPE(code, number, name, kind, bytes, type, element) GEMM_DTYPE_##kind(code, element)

/* Element `index` of an array of `dtype`, a constant wherever this is inlined. */
GEMM_INLINE GEMM_ELEMENT gemm_read(const void *data, int64_t index, const compute_dtype dtype) {
  switch (dtype) {
#ifndef GEMM_INTEGER
  case COMPUTE_F64: return (GEMM_ELEMENT)((const double *)data)[index];
  case COMPUTE_F32: return (GEMM_ELEMENT)((const float *)data)[index];
  case COMPUTE_F16: return (GEMM_ELEMENT)gemm_half(((const uint16_t *)data)[index]);
  case COMPUTE_BF16: return (GEMM_ELEMENT)gemm_brain(((const uint16_t *)data)[index]);
#else
#define GEMM_INTEGER_CASE(code, element)                                                           \
  case COMPUTE_##code:                                                                             \
    return (GEMM_ELEMENT)((const element *)data)[index];
    COMPUTE_DTYPES(GEMM_DTYPE)
#undef GEMM_INTEGER_CASE
#endif
  default: return 0;
  }
}

GEMM_INLINE void gemm_convert(const compute_dtype dtype, GEMM_ELEMENT *packed, int64_t row,
                              int64_t outer, int64_t inner, const void *data, int64_t outer_stride,
                              int64_t inner_stride) {
  for (int64_t i = 0; i < outer; i++) {
    GEMM_ELEMENT *to = packed + i * row;
    const int64_t first = i * outer_stride;
    if (inner_stride == 1) {
      for (int64_t j = 0; j < inner; j++) to[j] = gemm_read(data, first + j, dtype);
    } else {
      for (int64_t j = 0; j < inner; j++) to[j] = gemm_read(data, first + j * inner_stride, dtype);
    }
  }
}

#define GEMM_CONVERT_CASE(dtype)                                                                   \
  case dtype:                                                                                      \
    gemm_convert(dtype, packed, row, outer, inner, data, outer_stride, inner_stride);              \
    break;

/* Converts outer × inner elements of any dtype from `data`. */
static void gemm_gather(GEMM_ELEMENT *packed, int64_t row, int64_t outer, int64_t inner,
                        const void *data, compute_dtype dtype, int64_t outer_stride,
                        int64_t inner_stride) {
  switch (dtype) {
#ifndef GEMM_INTEGER
    GEMM_CONVERT_CASE(COMPUTE_F64)
    GEMM_CONVERT_CASE(COMPUTE_F32)
    GEMM_CONVERT_CASE(COMPUTE_F16)
    GEMM_CONVERT_CASE(COMPUTE_BF16)
#else
#define GEMM_INTEGER_CASE(code, element) GEMM_CONVERT_CASE(COMPUTE_##code)
    COMPUTE_DTYPES(GEMM_DTYPE)
#undef GEMM_INTEGER_CASE
#endif
  default: break;
  }
}

/* Copies fewer elements than 64 bytes hold, by overlapping copies: a loop over a few elements costs
 * more. */
GEMM_INLINE void gemm_copy_rest(GEMM_ELEMENT *restrict to, const GEMM_ELEMENT *restrict from,
                                int64_t count) {
  enum { HALF = 32 / sizeof(GEMM_ELEMENT), QUARTER = 16 / sizeof(GEMM_ELEMENT) };
  if (count >= HALF) {
    memcpy(to, from, 32);
    memcpy(to + count - HALF, from + count - HALF, 32);
  } else if (count >= QUARTER) {
    memcpy(to, from, 16);
    memcpy(to + count - QUARTER, from + count - QUARTER, 16);
  } else {
    for (int64_t j = 0; j < count; j++) to[j] = from[j];
  }
}

/* Copies rows of the computing type. The hardware prefetcher stops at the end of each short run, so
 * we prefetch the run four rows further on. */
static void gemm_copy_rows(GEMM_ELEMENT *packed, int64_t row, int64_t outer, int64_t inner,
                           const GEMM_ELEMENT *from, int64_t from_row) {
  enum { AHEAD = 4, LINE = 64 / sizeof(GEMM_ELEMENT) };
  for (int64_t i = 0; i < outer; i++, packed += row, from += from_row) {
    const GEMM_ELEMENT *next = from + (i + AHEAD < outer ? AHEAD * from_row : 0);
    int64_t j = 0;
    for (; j + LINE <= inner; j += LINE) {
      __builtin_prefetch(next + j);
      memcpy(packed + j, from + j, 64);
    }
    gemm_copy_rest(packed + j, from + j, inner - j);
  }
}

#if GEMM_VECTOR_BYTES == 64
#include "gemm_turn.h"
#else
/* Transposes four rows of four elements (8-byte elements: two of two). */
#define GEMM_SQUARE ((int)(16 / sizeof(GEMM_ELEMENT)))
typedef GEMM_ELEMENT gemm_square_row
    __attribute__((vector_size(16), aligned(__alignof__(GEMM_ELEMENT))));

/* Loads elements of a row, every one or every second; reads no memory behind them. */
GEMM_INLINE gemm_square_row gemm_load_row(const GEMM_ELEMENT *row, const int step) {
  const gemm_square_row first = *(const gemm_square_row *)row;
  if (step == 1) return first;
  const gemm_square_row rest = *(const gemm_square_row *)(row + GEMM_SQUARE - 1);
#if GEMM_ELEMENT_BYTES == 8
  return __builtin_shufflevector(first, rest, 0, 3);
#else
  return __builtin_shufflevector(first, rest, 0, 2, 5, 7);
#endif
}

GEMM_INLINE void gemm_turn_square(GEMM_ELEMENT *to, int64_t to_row, const GEMM_ELEMENT *from,
                                  int64_t from_row, const int step) {
#if GEMM_ELEMENT_BYTES == 8
  const gemm_square_row r0 = gemm_load_row(from, step);
  const gemm_square_row r1 = gemm_load_row(from + from_row, step);
  *(gemm_square_row *)to = __builtin_shufflevector(r0, r1, 0, 2);
  *(gemm_square_row *)(to + to_row) = __builtin_shufflevector(r0, r1, 1, 3);
#else
  const gemm_square_row r0 = gemm_load_row(from, step);
  const gemm_square_row r1 = gemm_load_row(from + from_row, step);
  const gemm_square_row r2 = gemm_load_row(from + 2 * from_row, step);
  const gemm_square_row r3 = gemm_load_row(from + 3 * from_row, step);
  const gemm_square_row low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const gemm_square_row low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const gemm_square_row high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const gemm_square_row high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  *(gemm_square_row *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  *(gemm_square_row *)(to + to_row) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  *(gemm_square_row *)(to + 2 * to_row) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  *(gemm_square_row *)(to + 3 * to_row) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
#endif
}

GEMM_INLINE void gemm_turn_rows(GEMM_ELEMENT *sliver, int64_t sliver_row, int64_t rows, int64_t k,
                                const GEMM_ELEMENT *from, int64_t from_row, const int step) {
  int64_t i = 0;
  for (; i + GEMM_SQUARE <= rows; i += GEMM_SQUARE) {
    int64_t p = 0;
    for (; p + GEMM_SQUARE <= k; p += GEMM_SQUARE)
      gemm_turn_square(sliver + p * sliver_row + i, sliver_row, from + i * from_row + p * step,
                       from_row, step);
    for (; p < k; p++) {
      for (int r = 0; r < GEMM_SQUARE; r++)
        sliver[p * sliver_row + i + r] = from[(i + r) * from_row + p * step];
    }
  }
  for (; i < rows; i++) {
    for (int64_t p = 0; p < k; p++) sliver[p * sliver_row + i] = from[i * from_row + p * step];
  }
}
#endif

/* Transposes `rows` rows with contiguous elements into k rows of `rows` elements: one tile's part
 * of A. */
static void gemm_turn_sliver(GEMM_ELEMENT *sliver, int64_t sliver_row, int64_t rows, int64_t k,
                             const GEMM_ELEMENT *from, int64_t from_row) {
  gemm_turn_rows(sliver, sliver_row, rows, k, from, from_row, 1);
}

/* The same for every second element, as in a convolution with stride 2. */
static void gemm_turn_picked(GEMM_ELEMENT *sliver, int64_t sliver_row, int64_t rows, int64_t k,
                             const GEMM_ELEMENT *from, int64_t from_row) {
  gemm_turn_rows(sliver, sliver_row, rows, k, from, from_row, 2);
}

/* Copies every second element, as in a convolution with stride 2. A separate loop, because
 * compilers make shuffles of it if the step is constant. */
static void gemm_pick_rows(GEMM_ELEMENT *restrict packed, int64_t row, int64_t outer, int64_t inner,
                           const GEMM_ELEMENT *restrict from, int64_t from_row) {
  for (int64_t i = 0; i < outer; i++, packed += row, from += from_row)
    for (int64_t j = 0; j < inner; j++) packed[j] = from[2 * j];
}

static void gemm_pack_rows(void *packed, int64_t row, int64_t outer, int64_t inner,
                           const cpu_gemm_source *source) {
  if (source->dtype == GEMM_NATIVE && source->inner == 1)
    gemm_copy_rows(packed, row, outer, inner, source->data, source->outer);
  else if (source->dtype == GEMM_NATIVE && source->outer == 1)
    gemm_turn_sliver(packed, row, inner, outer, source->data, source->inner);
  else if (source->dtype == GEMM_NATIVE && source->inner == 2)
    gemm_pick_rows(packed, row, outer, inner, source->data, source->outer);
  else if (source->dtype == GEMM_NATIVE && source->outer == 2)
    gemm_turn_picked(packed, row, inner, outer, source->data, source->inner);
  else
    gemm_gather(packed, row, outer, inner, source->data, source->dtype, source->outer,
                source->inner);
}

static void gemm_convert_sliver(GEMM_ELEMENT *sliver, int64_t rows, int64_t k,
                                const cpu_gemm_source *source, int64_t first) {
  enum { CHUNK = 64 };
  GEMM_ELEMENT line[GEMM_ROWS * CHUNK];
  const int64_t size = cpu_dtype_size(source->dtype);
  const char *data = (const char *)source->data + first * source->outer * size;
  if (source->inner != 1) {
    gemm_gather(sliver, rows, k, rows, data, source->dtype, source->inner, source->outer);
    return;
  }
  for (int64_t p = 0; p < k; p += CHUNK) {
    const int64_t count = k - p < CHUNK ? k - p : CHUNK;
    gemm_gather(line, CHUNK, rows, count, data + p * size, source->dtype, source->outer, 1);
    gemm_turn_sliver(sliver + p * rows, rows, rows, count, line, CHUNK);
  }
}

static void gemm_pack_slivers(void *packed, int64_t m, int64_t k, const cpu_gemm_source *source) {
  const GEMM_ELEMENT *from = source->data;
  GEMM_ELEMENT *to = packed;
  const int64_t tiles = gemm_tile_count(m);
  for (int64_t t = 0, first = 0; t < tiles; t++) {
    const int64_t rows = gemm_tile_rows(m, tiles, t);
    if (source->dtype == GEMM_NATIVE && source->inner == 1)
      gemm_turn_sliver(to, rows, rows, k, from + first * source->outer, source->outer);
    else
      gemm_convert_sliver(to, rows, k, source, first);
    to += rows * k;
    first += rows;
  }
}

#include "gemm_square.h"

#if GEMM_VECTOR_BYTES == 64
/* Transposes columns with contiguous elements, `column` apart, into a full panel. */
static void gemm_turn_panel(GEMM_ELEMENT *panel, int64_t k, const GEMM_ELEMENT *from,
                            int64_t column) {
  gemm_turn_sliver(panel, GEMM_COLUMNS, GEMM_COLUMNS, k, from, column);
}
#else
/* The same; prefetches each column further on, as the hardware does not follow so many. */
static void gemm_turn_panel(GEMM_ELEMENT *panel, int64_t k, const GEMM_ELEMENT *from,
                            int64_t column) {
  enum { LINE = 64 / sizeof(GEMM_ELEMENT), AHEAD = 4 * LINE };
  int64_t p = 0;
  for (; p + GEMM_LANES <= k; p += GEMM_LANES) {
    GEMM_UNROLL
    for (int j = 0; j < GEMM_COLUMNS; j += GEMM_LANES) {
      const GEMM_ELEMENT *later = from + j * column + p + AHEAD;
      gemm_vector x[GEMM_LANES];
      gemm_take_square(x, from + j * column + p, column);
      GEMM_UNROLL
      for (int q = 0; q < GEMM_LANES; q++)
        *(gemm_vector_at *)(panel + (p + q) * GEMM_COLUMNS + j) = x[q];
      for (int q = p % LINE == 0 ? 0 : GEMM_LANES; q < GEMM_LANES; q++, later += column)
        __builtin_prefetch(later);
    }
  }
  for (; p < k; p++) {
    for (int j = 0; j < GEMM_COLUMNS; j++) panel[p * GEMM_COLUMNS + j] = from[j * column + p];
  }
}
#endif

/* Copies full panels of a B with contiguous columns, a few panels per pass, so that a row of B is
 * read in runs of several cache lines. */
static void gemm_copy_panels(GEMM_ELEMENT *packed, int64_t k, int64_t panels,
                             const GEMM_ELEMENT *from, int64_t from_k) {
  enum { TOGETHER = 4, AHEAD = 8 };
  for (int64_t first = 0; first < panels; first += TOGETHER) {
    const int64_t count = panels - first < TOGETHER ? panels - first : TOGETHER;
    for (int64_t p = 0; p < k; p++) {
      const GEMM_ELEMENT *row = from + p * from_k + first * GEMM_COLUMNS;
      GEMM_ELEMENT *to = packed + (first * k + p) * GEMM_COLUMNS;
      for (int64_t q = 0; q < count; q++, row += GEMM_COLUMNS, to += k * GEMM_COLUMNS) {
        __builtin_prefetch(row + AHEAD * from_k);
        *(gemm_vector_at *)to = *(const gemm_vector_at *)row;
        *(gemm_vector_at *)(to + GEMM_LANES) = *(const gemm_vector_at *)(row + GEMM_LANES);
      }
    }
  }
}

/* Converts one panel of any dtype, strides and width. If k is contiguous, converts in that order
 * first and then transposes. */
static void gemm_convert_panel(GEMM_ELEMENT *panel, int64_t k, int64_t columns,
                               const cpu_gemm_source *source, int64_t first) {
  enum { CHUNK = 64 };
  GEMM_ELEMENT turned[GEMM_COLUMNS * CHUNK];
  const int64_t size = cpu_dtype_size(source->dtype);
  const char *data = (const char *)source->data + first * source->inner * size;
  if (source->outer != 1 || columns < GEMM_COLUMNS) {
    if (columns < GEMM_COLUMNS) {
      memset(panel, 0, (size_t)(k * GEMM_COLUMNS) * sizeof *panel);
    }
    gemm_gather(panel, GEMM_COLUMNS, k, columns, data, source->dtype, source->outer, source->inner);
    return;
  }
  for (int64_t p = 0; p < k; p += CHUNK) {
    const int64_t count = k - p < CHUNK ? k - p : CHUNK;
    gemm_gather(turned, CHUNK, GEMM_COLUMNS, count, data + p * size, source->dtype, source->inner,
                1);
    gemm_turn_panel(panel + p * GEMM_COLUMNS, count, turned, CHUNK);
  }
}

static void gemm_pack_panels(void *packed, int64_t k, int64_t n, const cpu_gemm_source *source) {
  const int64_t full = n / GEMM_COLUMNS;
  const GEMM_ELEMENT *from = source->data;
  GEMM_ELEMENT *to = packed;
  int64_t done = 0;
  if (source->dtype == GEMM_NATIVE && source->inner == 1) {
    gemm_copy_panels(to, k, full, from, source->outer);
    done = full;
  } else if (source->dtype == GEMM_NATIVE && source->outer == 1) {
    for (; done < full; done++)
      gemm_turn_panel(to + done * k * GEMM_COLUMNS, k, from + done * GEMM_COLUMNS * source->inner,
                      source->inner);
  }
  for (int64_t j = done * GEMM_COLUMNS; j < n; j += GEMM_COLUMNS) {
    const int64_t columns = n - j < GEMM_COLUMNS ? n - j : GEMM_COLUMNS;
    gemm_convert_panel(to + j * k, k, columns, source, j);
  }
}

static void gemm_pack_pieces(void *packed, int64_t k, const void *b, const int64_t *rows,
                             int64_t pieces, const int64_t *from, const int64_t *to) {
  GEMM_ELEMENT *panel = packed;
  for (int64_t p = 0; p < k; p++, panel += GEMM_COLUMNS) {
    const GEMM_ELEMENT *row = (const GEMM_ELEMENT *)b + rows[p];
    for (int64_t i = 0; i < pieces; i++)
      *(gemm_vector_at *)(panel + to[i]) = *(const gemm_vector_at *)(row + from[i]);
  }
}

#endif
