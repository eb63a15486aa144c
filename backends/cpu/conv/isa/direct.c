/* SPDX-License-Identifier: MIT */
/* Loops for direct convolution, once per instruction set (core/isa.h) and element type;
 * conv_table.h has their contracts.
 *
 * A block of results stays in registers during all taps. For a 3 × 3 filter, an element of the
 * source, once loaded, serves all rows of the block that use it. This halves the loads, which cost
 * more than the multiplications because few of them are aligned. Blocks at the right and the lower
 * edge overlap their neighbours instead of being narrower: computing some results twice is cheaper
 * than a remainder loop.
 *
 * Vectors are GCC's, 16 bytes wide without AVX. Contraction is off in the whole project, so
 * multiply-adds are explicit. */
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "conv_table.h"
#include "pin.h"
#include "program/isa/element.h"

#if defined(__AVX512F__) && defined(CPU_VARIANT_F32)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX512F__)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__) && defined(CPU_VARIANT_F32)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#elif defined(__aarch64__) && defined(CPU_VARIANT_F32)
#define FMA(a, b, c) ((pack)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#elif defined(__aarch64__)
#define FMA(a, b, c) ((pack)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#elif defined(__riscv_v) && defined(__clang__)
#define FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

#if defined(__clang__)
#define DIRECT_UNROLL _Pragma("unroll")
#else
#define DIRECT_UNROLL _Pragma("GCC unroll 32")
#endif

#if VECTOR_BYTES == 64 || defined(__aarch64__)
#define DIRECT_REGISTERS 32
#else
#define DIRECT_REGISTERS 16
#endif

enum {
  DIRECT_ROWS = 4,                       /* of results, per block */
  DIRECT_WIDE = 8,                       /* vectors of a single row */
  DIRECT_TAPS = 9,                       /* with sums in registers together … */
  DIRECT_FACTORS = DIRECT_REGISTERS / 16 /* … for so many factors */
};

typedef ELEMENT pack_at /* at any element's address */
    __attribute__((vector_size(VECTOR_BYTES), aligned(__alignof__(ELEMENT))));

ALWAYS_INLINE pack load(const ELEMENT *at) {
  return *(const pack_at *)at;
}

/* ---- Windows times the filter --------------------------------------------------------------- */

/* Long sums of f32 are computed in parts, as in gemm_tile.h. */
enum { DIRECT_PART = 256, DIRECT_WHOLE = DIRECT_PART + DIRECT_PART / 2 };
typedef pack direct_sums[DIRECT_ROWS][DIRECT_WIDE];

ALWAYS_INLINE bool has_parts(const cpu_direct_sweep *s) {
  return sizeof(ELEMENT) == sizeof(float) && s->taps > DIRECT_WHOLE;
}

ALWAYS_INLINE void clear(const int rows, const int vectors, direct_sums sum) {
  DIRECT_UNROLL
  for (int r = 0; r < rows; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = (pack){0};
  }
}

ALWAYS_INLINE void add(const int rows, const int vectors, direct_sums to, direct_sums from) {
  DIRECT_UNROLL
  for (int r = 0; r < rows; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) to[r][v] += from[r][v];
  }
}

/* Computes `rows` × `vectors` vectors of results; the vectors of a row are `apart` elements
 * apart. */
ALWAYS_INLINE void block_of(const bool parts, const int rows, const int vectors,
                            const cpu_direct_sweep *s, int64_t row, int64_t column, int64_t apart) {
  const ELEMENT *from = (const ELEMENT *)s->source + row * s->source_row + column;
  const ELEMENT *weight = s->weight;
  direct_sums sum, before; /* `before`: sum of the preceding parts */
  int64_t end = parts ? DIRECT_PART : s->taps;
  clear(rows, vectors, sum);
  if (parts) clear(rows, vectors, before);
  for (int64_t t = 0;; end += DIRECT_PART) {
    if (end > s->taps) end = s->taps;
    for (; t < end; t++) {
      const ELEMENT *x = from + s->place[t];
      const pack w = weight[t] - (pack){0};
      DIRECT_UNROLL
      for (int r = 0; r < rows; r++) {
        DIRECT_UNROLL
        for (int v = 0; v < vectors; v++)
          sum[r][v] = FMA(w, load(x + r * s->source_row + v * apart), sum[r][v]);
      }
    }
    if (!parts || t == s->taps) break;
    add(rows, vectors, before, sum);
    clear(rows, vectors, sum);
  }
  if (parts) add(rows, vectors, sum, before);
  ELEMENT *to = (ELEMENT *)s->result + row * s->result_row + column;
  DIRECT_UNROLL
  for (int r = 0; r < rows; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) *(pack_at *)(to + r * s->result_row + v * apart) = sum[r][v];
  }
}

ALWAYS_INLINE void block(const int rows, const int vectors, const cpu_direct_sweep *s, int64_t row,
                         int64_t column, int64_t apart) {
  if (has_parts(s))
    block_of(true, rows, vectors, s, row, column, apart);
  else
    block_of(false, rows, vectors, s, row, column, apart);
}

/* The same for 3 × 3 neighbours in one part; the order of sums is the same. */
ALWAYS_INLINE void square(const int vectors, const cpu_direct_sweep *s, int64_t row, int64_t column,
                          int64_t apart) {
  const ELEMENT *from = (const ELEMENT *)s->source + row * s->source_row + column;
  const ELEMENT *weight = s->weight;
  direct_sums sum;
  clear(DIRECT_ROWS, vectors, sum);
  for (int64_t t = 0; t < s->taps; t += 9) {
    const ELEMENT *x = from + s->place[t];
    pack w[9];
    DIRECT_UNROLL
    for (int i = 0; i < 9; i++) w[i] = weight[t + i] - (pack){0};
    DIRECT_UNROLL
    for (int i = 0; i < DIRECT_ROWS + 2; i++) {
      DIRECT_UNROLL
      for (int j = 0; j < 3; j++) {
        DIRECT_UNROLL
        for (int v = 0; v < vectors; v++) {
          pack a = load(x + j + v * apart);
          PIN(a);
          DIRECT_UNROLL
          for (int r = 0; r < DIRECT_ROWS; r++)
            if (i - r >= 0 && i - r < 3) sum[r][v] = FMA(w[3 * (i - r) + j], a, sum[r][v]);
        }
      }
      x += s->source_row;
    }
  }
  ELEMENT *to = (ELEMENT *)s->result + row * s->result_row + column;
  DIRECT_UNROLL
  for (int r = 0; r < DIRECT_ROWS; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) *(pack_at *)(to + r * s->result_row + v * apart) = sum[r][v];
  }
}

static void pairs(const cpu_direct_sweep *s, int64_t row, int64_t column, int64_t apart) {
  if (s->squares && !has_parts(s))
    square(2, s, row, column, apart);
  else
    block(DIRECT_ROWS, 2, s, row, column, apart);
}

static void singles(const cpu_direct_sweep *s, int64_t row, int64_t column) {
  if (s->squares && !has_parts(s))
    square(1, s, row, column, 0);
  else
    block(DIRECT_ROWS, 1, s, row, column, 0);
}

/* Computes DIRECT_ROWS rows of results. */
static void strip(const cpu_direct_sweep *s, int64_t row) {
  const int64_t columns = s->columns;
  if (columns <= pack_lanes) {
    singles(s, row, 0);
    return;
  }
  if (columns < 2 * pack_lanes) {
    pairs(s, row, 0, columns - pack_lanes);
    return;
  }
  int64_t column = 0;
  for (; column + 2 * pack_lanes <= columns; column += 2 * pack_lanes)
    pairs(s, row, column, pack_lanes);
  if (columns - column > pack_lanes)
    pairs(s, row, columns - 2 * pack_lanes, pack_lanes);
  else if (columns > column)
    singles(s, row, columns - pack_lanes);
}

static void line(const cpu_direct_sweep *s, int64_t row) {
  const int64_t columns = s->columns, wide = DIRECT_WIDE * pack_lanes;
  int64_t column = 0;
  for (; column + wide <= columns; column += wide)
    block(1, DIRECT_WIDE, s, row, column, pack_lanes);
  for (; column < columns; column += pack_lanes)
    block(1, 1, s, row,
          column + pack_lanes <= columns || columns < pack_lanes ? column : columns - pack_lanes,
          0);
}

static void sweep(const cpu_direct_sweep *s) {
  if (s->rows < DIRECT_ROWS) {
    for (int64_t row = 0; row < s->rows; row++) line(s, row);
    return;
  }
  int64_t row = 0;
  for (; row + DIRECT_ROWS <= s->rows; row += DIRECT_ROWS) strip(s, row);
  if (row < s->rows) strip(s, s->rows - DIRECT_ROWS);
}

/* ---- Windows times results ------------------------------------------------------------------ */

ALWAYS_INLINE pack keep(pack x, pack_mask mask) {
  return (pack)((pack_mask)x & mask);
}

/* Adds the products of one vector of columns, `masked` or not. */
ALWAYS_INLINE void step(const int factors, const int taps, const bool squares, const bool masked,
                        const cpu_direct_correlation *c, const int64_t *place, const ELEMENT *x,
                        const ELEMENT *y, pack_mask mask, pack sum[DIRECT_FACTORS][DIRECT_TAPS]) {
  pack factor[DIRECT_FACTORS];
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    factor[f] = load(y + f * c->factor_plane);
    if (masked) factor[f] = keep(factor[f], mask);
  }
  DIRECT_UNROLL
  for (int t = 0; t < taps; t++) {
    const ELEMENT *at = squares ? x + place[t / 3 * 3] + t % 3 : x + place[t];
    pack a = load(at);
    if (masked) a = keep(a, mask);
    if (factors > 1) PIN(a);
    DIRECT_UNROLL
    for (int f = 0; f < factors; f++) sum[f][t] = FMA(factor[f], a, sum[f][t]);
  }
}

/* Adds all rows for some factors and taps. A remainder of columns is read as the row's last whole
 * vector. Its other columns are masked on both sides, because 0 · ∞ is not 0. */
ALWAYS_INLINE void correlate_block(const int factors, const int taps, const bool squares,
                                   const cpu_direct_correlation *c, int64_t tap, int64_t first) {
  const int64_t rest = c->columns % pack_lanes;
  const int64_t last = c->columns < pack_lanes ? 0 : c->columns - pack_lanes;
  const int64_t low = c->columns < pack_lanes ? 0 : pack_lanes - rest, high = low + rest;
  pack sum[DIRECT_FACTORS][DIRECT_TAPS];
  pack_mask mask;
  int64_t place[DIRECT_TAPS];
  for (int j = 0; j < pack_lanes; j++) mask[j] = j >= low && j < high ? -1 : 0;
  DIRECT_UNROLL
  for (int t = 0; t < taps; t++) place[t] = c->place[tap + t];
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    DIRECT_UNROLL
    for (int t = 0; t < taps; t++) sum[f][t] = (pack){0};
  }
  const ELEMENT *x = c->source, *y = (const ELEMENT *)c->factor + first * c->factor_plane;
  for (int64_t row = 0; row < c->rows; row++) {
    for (int64_t j = 0; j + pack_lanes <= c->columns; j += pack_lanes)
      step(factors, taps, squares, false, c, place, x + j, y + j, mask, sum);
    if (rest > 0) step(factors, taps, squares, true, c, place, x + last, y + last, mask, sum);
    x += c->source_row;
    y += c->factor_row;
  }
  ELEMENT *to = (ELEMENT *)c->sums + first * c->sums_plane + tap * pack_lanes;
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    DIRECT_UNROLL
    for (int t = 0; t < taps; t++)
      *(pack_at *)(to + f * c->sums_plane + t * pack_lanes) += sum[f][t];
  }
}

#define DIRECT_CASE(factors, taps)                                                                 \
  case taps: correlate_block(factors, taps, false, c, tap, first); break;

static void correlate_one(const cpu_direct_correlation *c, int64_t tap, int64_t taps,
                          int64_t first) {
  switch (c->squares ? 0 : taps) {
    DIRECT_CASE(1, 1)
    DIRECT_CASE(1, 2)
    DIRECT_CASE(1, 3)
    DIRECT_CASE(1, 4)
    DIRECT_CASE(1, 5)
    DIRECT_CASE(1, 6)
    DIRECT_CASE(1, 7)
    DIRECT_CASE(1, 8)
    DIRECT_CASE(1, 9)
  default: correlate_block(1, 9, true, c, tap, first);
  }
}

#if VECTOR_BYTES == 64
static void correlate_two(const cpu_direct_correlation *c, int64_t tap, int64_t taps,
                          int64_t first) {
  switch (c->squares ? 0 : taps) {
    DIRECT_CASE(2, 1)
    DIRECT_CASE(2, 2)
    DIRECT_CASE(2, 3)
    DIRECT_CASE(2, 4)
    DIRECT_CASE(2, 5)
    DIRECT_CASE(2, 6)
    DIRECT_CASE(2, 7)
    DIRECT_CASE(2, 8)
    DIRECT_CASE(2, 9)
  default: correlate_block(2, 9, true, c, tap, first);
  }
}
#endif

static void correlate(const cpu_direct_correlation *c) {
  int64_t first = 0;
  for (int64_t tap = 0; tap < c->taps; tap += DIRECT_TAPS) {
    const int64_t rest = c->taps - tap, taps = rest < DIRECT_TAPS ? rest : DIRECT_TAPS;
    first = 0;
#if VECTOR_BYTES == 64
    for (; first + 2 <= c->factors; first += 2) correlate_two(c, tap, taps, first);
#endif
    for (; first < c->factors; first++) correlate_one(c, tap, taps, first);
  }
}

static void total(void *totals, const void *sums, int64_t count, int64_t parts) {
  ELEMENT *to = totals;
  for (int64_t i = 0; i < count; i++) {
    const ELEMENT *from = (const ELEMENT *)sums + i * pack_lanes;
    ELEMENT lane[pack_lanes];
    pack sum = load(from);
    for (int64_t p = 1; p < parts; p++) sum += load(from + p * count * pack_lanes);
    *(pack_at *)lane = sum;
    for (int half = pack_lanes / 2; half > 0; half /= 2)
      for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    to[i] = lane[0];
  }
}

/* ---- Rows and columns ------------------------------------------------------------------------ */

typedef ELEMENT short_at __attribute__((vector_size(16), aligned(__alignof__(ELEMENT))));

/* The last vector of a row overlaps the one before. The row four further is prefetched: the
 * hardware prefetcher stops at the end of each short run. */
static void copy(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                 int64_t columns) {
  enum { AHEAD = 4, SHORT = 16 / (int)sizeof(ELEMENT) };
  ELEMENT *t = to;
  const ELEMENT *f = from;
  for (int64_t i = 0; i < rows; i++, t += to_row, f += from_row) {
    const ELEMENT *next = f + (i + AHEAD < rows ? AHEAD * from_row : 0);
    int64_t j = 0;
    if (columns >= pack_lanes) {
      for (; j + pack_lanes <= columns; j += pack_lanes) {
        __builtin_prefetch(next + j);
        *(pack_at *)(t + j) = load(f + j);
      }
      if (j < columns) *(pack_at *)(t + columns - pack_lanes) = load(f + columns - pack_lanes);
    } else if (columns >= SHORT) {
      for (; j + SHORT <= columns; j += SHORT) *(short_at *)(t + j) = *(const short_at *)(f + j);
      *(short_at *)(t + columns - SHORT) = *(const short_at *)(f + columns - SHORT);
    } else {
      for (; j < columns; j++) t[j] = f[j];
    }
  }
}

static void pick(void *to, const void *from, int64_t count, int64_t step) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict f = from;
  for (int64_t i = 0; i < count; i++) t[i] = f[step * i];
}

static void spread(void *to, const void *from, int64_t count, int64_t step) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict f = from;
  for (int64_t i = 0; i < count; i++) t[step * i] = f[i];
}

static void interleave(void *to, const void *even, const void *odd, int64_t count) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict e = even, *restrict o = odd;
  for (int64_t i = 0; i < count / 2; i++) {
    t[2 * i] = e[i];
    t[2 * i + 1] = o[i];
  }
  if (count % 2) t[count - 1] = e[count / 2];
}

/* Prefetches a row further down, like copy. */
static void separate(void *even, void *odd, int64_t to_row, const void *from, int64_t from_row,
                     int64_t rows, int64_t columns) {
  enum { AHEAD = 4, LINE = 64 / (int)sizeof(ELEMENT) };
  for (int64_t i = 0; i < rows; i++) {
    ELEMENT *restrict e = (ELEMENT *)even + i * to_row, *restrict o = (ELEMENT *)odd + i * to_row;
    const ELEMENT *restrict f = (const ELEMENT *)from + i * from_row;
    const ELEMENT *next = f + (i + AHEAD < rows ? AHEAD * from_row : 0);
    for (int64_t j = 0; j < columns; j += LINE) __builtin_prefetch(next + j);
    for (int64_t j = 0; j < columns / 2; j++) {
      e[j] = f[2 * j];
      o[j] = f[2 * j + 1];
    }
    if (columns % 2) e[columns / 2] = f[columns - 1];
  }
}

const cpu_direct_loops CPU_VARIANT_SYMBOL(cpu_direct) = {.lanes = pack_lanes,
                                                         .sweep = sweep,
                                                         .correlate = correlate,
                                                         .total = total,
                                                         .copy = copy,
                                                         .separate = separate,
                                                         .pick = pick,
                                                         .spread = spread,
                                                         .interleave = interleave};
