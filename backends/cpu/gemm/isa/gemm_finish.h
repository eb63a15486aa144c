/* SPDX-License-Identifier: MIT */
/* Finishing of a tile's sums in the micro-kernel: to f32 or bf16 with addends and limits
 * (cpu_gemm_finish), or to bytes (cpu_gemm_requantize). Part of gemm_tile.c. */
#ifndef CPU_GEMM_FINISH_H
#define CPU_GEMM_FINISH_H

#ifdef GEMM_FINISHES
#include "program/isa/limits.h"
#ifdef CPU_VARIANT_BF16
#include "program/isa/math_base.h"
#endif

/* An addend or result in memory, and its conversions, for one element and for vectors. */
#ifdef CPU_VARIANT_BF16
typedef uint16_t gemm_stored;

GEMM_INLINE float gemm_widen(gemm_stored bits) {
  return convert_bf16_to_f32(bits);
}
GEMM_INLINE gemm_vector gemm_load(const gemm_stored *from) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
  return (gemm_vector)_mm512_slli_epi32(bits, 16);
}
GEMM_INLINE gemm_vector gemm_load_first(const gemm_stored *from, int64_t count) {
  const __m256i bits = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), from);
  return (gemm_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}
GEMM_INLINE gemm_stored gemm_narrow(float x) {
  return convert_f32_to_bf16(x);
}
/* Mask of elements that the conversion below would flush to zero: denormals, which are rare. */
GEMM_INLINE unsigned gemm_lost(gemm_vector x) {
  enum { DENORMAL = 0x20 };
  return _mm512_fpclass_ps_mask(x, DENORMAL);
}
GEMM_INLINE void gemm_store(gemm_stored *to, gemm_vector x) {
  _mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}
GEMM_INLINE void gemm_store_first(gemm_stored *to, gemm_vector x, int64_t count) {
  _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)_mm512_cvtneps_pbh(x));
}
GEMM_INLINE void gemm_store_two(gemm_stored *to, gemm_vector x, gemm_vector next) {
  _mm512_storeu_si512((void *)to, (__m512i)_mm512_cvtne2ps_pbh(next, x));
}

/* Sums of the dot-product instruction are zero or normal. Such a sum plus an addend that is zero or
 * not tiny is again zero or normal, because close numbers differ by a multiple of their last
 * places. With a limit of 2^-90, the sum of two bf16 numbers is at least 2^-97. So it is enough to
 * check the addends, which are fewer than the sums or half as large: if none is tiny, no result is
 * a denormal. */
enum { GEMM_TINY_BITS = 37 << 7 }; /* 2^-90 in bf16 */

GEMM_INLINE unsigned gemm_tiny(gemm_vector x) {
  const __m512i limit = _mm512_set1_epi32(2 * (GEMM_TINY_BITS << 16) - 1);
  const __m512i twice = _mm512_slli_epi32((__m512i)x, 1);
  return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(twice, _mm512_set1_epi32(1)), limit);
}
/* The same for a tile's addends in memory; NULL has none. */
GEMM_INLINE unsigned gemm_tiny_rows(const int rows, const int vectors, const gemm_stored *from,
                                    int64_t row) {
  const __m512i one = _mm512_set1_epi16(1);
  __m512i least = _mm512_set1_epi16(-1);
  if (!from) return 0;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++, from += row) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v += 2) {
      const gemm_stored *at = from + v * GEMM_LANES;
      const __m512i x = vectors > 1 ? _mm512_loadu_si512((const void *)at)
                                    : _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)at));
      const __m512i twice = _mm512_add_epi16(x, x);
      least = _mm512_min_epu16(least, _mm512_sub_epi16(twice, one));
    }
  }
  return _mm512_cmplt_epu16_mask(least, _mm512_set1_epi16(2 * GEMM_TINY_BITS - 1));
}
#else
typedef GEMM_ELEMENT gemm_stored;

GEMM_INLINE float gemm_widen(gemm_stored x) {
  return x;
}
GEMM_INLINE gemm_vector gemm_load(const gemm_stored *from) {
  return *(const gemm_vector_at *)from;
}
GEMM_INLINE unsigned gemm_lost(gemm_vector x) {
  (void)x;
  return 0;
}
GEMM_INLINE void gemm_store(gemm_stored *to, gemm_vector x) {
  *(gemm_vector_at *)to = x;
}
#if GEMM_VECTOR_BYTES == 64
GEMM_INLINE gemm_vector gemm_load_first(const gemm_stored *from, int64_t count) {
  return (gemm_vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
GEMM_INLINE void gemm_store_first(gemm_stored *to, gemm_vector x, int64_t count) {
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
}
#endif
GEMM_INLINE void gemm_store_two(gemm_stored *to, gemm_vector x, gemm_vector next) {
  gemm_store(to, x);
  gemm_store(to + GEMM_LANES, next);
}
GEMM_INLINE unsigned gemm_tiny(gemm_vector x) {
  (void)x;
  return 0;
}
GEMM_INLINE unsigned gemm_tiny_rows(const int rows, const int vectors, const gemm_stored *from,
                                    int64_t row) {
  (void)rows, (void)vectors, (void)from, (void)row;
  return 0;
}
GEMM_INLINE gemm_stored gemm_narrow(float x) {
  return x;
}
#endif

#if GEMM_VECTOR_BYTES == 64
/* Stores numbers one by one if there are denormals among them, which the vector conversion would
 * flush to zero. Other numbers convert to the same bits either way. This is rare, and therefore not
 * inlined. */
static __attribute__((noinline)) void gemm_store_each(int64_t count, const float *x,
                                                      gemm_stored *y) {
  for (int64_t j = 0; j < count; j++) y[j] = gemm_narrow(x[j]);
}

GEMM_INLINE gemm_vector gemm_load_some(const gemm_stored *from, int64_t count) {
  return count == GEMM_LANES ? gemm_load(from) : gemm_load_first(from, count);
}
GEMM_INLINE void gemm_store_some(gemm_stored *to, gemm_vector x, int64_t count) {
  if (gemm_lost(x))
    gemm_store_each(count, (const float *)&x, to);
  else if (count == GEMM_LANES)
    gemm_store(to, x);
  else
    gemm_store_first(to, x, count);
}
#else
/* Without masks, single elements handle the end of a row. */
GEMM_INLINE gemm_vector gemm_load_some(const gemm_stored *from, int64_t count) {
  (void)count;
  return gemm_load(from);
}
GEMM_INLINE void gemm_store_some(gemm_stored *to, gemm_vector x, int64_t count) {
  (void)count;
  gemm_store(to, x);
}
GEMM_INLINE gemm_stored gemm_finished(const cpu_gemm_finish *f, int64_t i, int64_t j, float x) {
  const gemm_stored *a = f->a, *b = f->b, *c = f->c;
  if (a) x += gemm_widen(a[i * f->a_row + (f->a_repeats ? 0 : j)]);
  if (b && c)
    x += gemm_widen(b[i * f->b_row + j]) + gemm_widen(c[i * f->c_row + j]);
  else if (b)
    x += gemm_widen(b[i * f->b_row + j]);
  x = (f->low > x ? f->low : x) + f->zero;
  return gemm_narrow(f->high < x ? f->high : x);
}
#endif

/* Finishes a vector of sums. If y is NULL, the results replace the sums. The has_… flags, and
 * whether y is NULL, are compile-time constants wherever this is inlined. */
GEMM_INLINE void gemm_finish_vector(const bool has_a, const bool repeats, const bool has_b,
                                    const bool has_c, const cpu_gemm_finish *f, float *x,
                                    const gemm_stored *a, const gemm_stored *b,
                                    const gemm_stored *c, gemm_stored *y, int64_t count) {
  const gemm_vector none = {0}, low = f->low - none, zero = f->zero - none, high = f->high - none;
  gemm_vector sum = *(gemm_vector *)x;
  if (has_a) sum += repeats ? gemm_widen(*a) - none : gemm_load_some(a, count);
  if (has_c)
    sum += gemm_load_some(b, count) + gemm_load_some(c, count);
  else if (has_b)
    sum += gemm_load_some(b, count);
  sum = (gemm_vector)CPU_AT_LEAST(low, sum) + zero;
  sum = (gemm_vector)CPU_AT_MOST(high, sum);
  if (y)
    gemm_store_some(y, sum, count);
  else
    *(gemm_vector *)x = sum;
}

/* Finishes a tile. Its sums are at `x`, in rows of whole vectors, `x_row` apart. With `keeps` the
 * results replace them, in f32. */
GEMM_INLINE void gemm_finish_rows(const bool has_a, const bool repeats, const bool has_b,
                                  const bool has_c, const bool keeps, const cpu_gemm_finish *f,
                                  int64_t row, int64_t column, int64_t rows, int64_t columns,
                                  float *x, int64_t x_row) {
  const int64_t whole = columns / GEMM_LANES * GEMM_LANES;
  const gemm_stored *a =
      has_a ? (const gemm_stored *)f->a + row * f->a_row + (repeats ? 0 : column) : NULL;
  const gemm_stored *b = has_b ? (const gemm_stored *)f->b + row * f->b_row + column : NULL;
  const gemm_stored *c = has_c ? (const gemm_stored *)f->c + row * f->c_row + column : NULL;
  gemm_stored *y = (gemm_stored *)f->y + row * f->y_row + column;
#define GEMM_FINISH_VECTOR(j, count)                                                               \
  gemm_finish_vector(has_a, repeats, has_b, has_c, f, x + (j), has_a && !repeats ? a + (j) : a,    \
                     has_b ? b + (j) : NULL, has_c ? c + (j) : NULL, keeps ? NULL : y + (j),       \
                     count)
  for (int64_t i = 0; i < rows; i++, x += x_row) {
    for (int64_t j = 0; j < whole; j += GEMM_LANES) GEMM_FINISH_VECTOR(j, GEMM_LANES);
#if GEMM_VECTOR_BYTES == 64
    if (whole < columns) GEMM_FINISH_VECTOR(whole, columns - whole);
#else
    for (int64_t j = whole; j < columns; j++) y[j] = gemm_finished(f, row + i, column + j, x[j]);
#endif
    if (has_a) a += f->a_row;
    if (has_b) b += f->b_row;
    if (has_c) c += f->c_row;
    y += f->y_row;
  }
#undef GEMM_FINISH_VECTOR
}

/* Finishes a whole tile in registers. This is the usual case: an addend along the columns or one
 * per row, and perhaps one or two addends shaped like the result. The operations are the same as
 * above, except that `zero` is added to the first addend. `zero` makes zeros positive, and a sum is
 * a negative zero only if both terms are. Returns false and does nothing if a result might be a
 * denormal that would be flushed. */
GEMM_INLINE bool gemm_finish_tile(const int rows, const int vectors, const bool repeats,
                                  const bool has_b, const bool has_c, const cpu_gemm_finish *f,
                                  const cpu_gemm_block *block,
                                  gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  const gemm_vector none = {0}, low = f->low - none, zero = f->zero - none, high = f->high - none;
  const int64_t a_row = f->a_row, b_row = f->b_row, c_row = f->c_row, y_row = f->y_row;
  const gemm_stored *a = (const gemm_stored *)f->a;
  const gemm_stored *b =
      has_b ? (const gemm_stored *)f->b + block->row * b_row + block->column : NULL;
  const gemm_stored *c =
      has_c ? (const gemm_stored *)f->c + block->row * c_row + block->column : NULL;
  gemm_stored *y = (gemm_stored *)f->y + block->row * y_row + block->column;
  gemm_vector along[GEMM_MAX_VECTORS];
  unsigned lost = gemm_lost(low) | gemm_lost(high);
  if (repeats) a += block->row * a_row;
  GEMM_UNROLL
  for (int v = 0; v < vectors && !repeats; v++) {
    along[v] = (a ? gemm_load(a + block->column + v * GEMM_LANES) : -none) + zero;
    lost |= gemm_tiny(along[v]);
  }
  GEMM_UNROLL
  for (int i = 0; i < rows && repeats; i++) lost |= gemm_tiny(gemm_widen(a[i * a_row]) - none);
  lost |= gemm_tiny_rows(rows, vectors, b, b_row) | gemm_tiny_rows(rows, vectors, c, c_row);
  if (lost) return false;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    const gemm_vector own = repeats ? gemm_widen(*a) + zero : none;
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      gemm_vector x = sum[i][v] + (repeats ? own : along[v]);
      if (has_c)
        x += gemm_load(b + v * GEMM_LANES) + gemm_load(c + v * GEMM_LANES);
      else if (has_b)
        x += gemm_load(b + v * GEMM_LANES);
      sum[i][v] = (gemm_vector)CPU_AT_MOST(high, CPU_AT_LEAST(low, x));
    }
    GEMM_UNROLL
    for (int v = 0; v + 1 < vectors; v += 2)
      gemm_store_two(y + v * GEMM_LANES, sum[i][v], sum[i][v + 1]);
    if (vectors == 1) gemm_store(y, sum[i][0]);
    if (repeats) a += a_row;
    if (has_b) b += b_row;
    if (has_c) c += c_row;
    y += y_row;
  }
  return true;
}

/* Selects gemm_finish_tile for the addends present; returns false also for combinations it does not
 * support. `added`: the sums were added to other sums, and may be denormals. */
GEMM_INLINE bool gemm_finish_whole(const int rows, const int vectors, const cpu_gemm_finish *f,
                                   const cpu_gemm_block *block, bool added,
                                   gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  if (f->a && (f->a_repeats ? f->c != NULL : f->a_row != 0)) return false;
  if (added) {
    unsigned lost = 0;
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) lost |= gemm_lost(sum[i][v]);
    }
    if (lost) return false;
  }
#define GEMM_FINISH_TILE(repeats, has_b, has_c)                                                    \
  gemm_finish_tile(rows, vectors, repeats, has_b, has_c, f, block, sum)
  if (f->a && f->a_repeats)
    return f->b ? GEMM_FINISH_TILE(true, true, false) : GEMM_FINISH_TILE(true, false, false);
  return f->c   ? GEMM_FINISH_TILE(false, true, true)
         : f->b ? GEMM_FINISH_TILE(false, true, false)
                : GEMM_FINISH_TILE(false, false, false);
}

/* Prefetches the operands of a tile's finish that come from far away. A row shared by all tiles is
 * not among them. */
GEMM_INLINE void gemm_finish_ahead(const int rows, const int vectors, const cpu_gemm_finish *f,
                                   const cpu_gemm_block *block) {
  if (f->b && f->b_row != 0)
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < vectors; v++)
        __builtin_prefetch((const gemm_stored *)f->b + (block->row + i) * f->b_row + block->column +
                           v * GEMM_LANES);
  if (f->c && f->c_row != 0)
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < vectors; v++)
        __builtin_prefetch((const gemm_stored *)f->c + (block->row + i) * f->c_row + block->column +
                           v * GEMM_LANES);
}

#ifdef GEMM_NATIVE
/* Applies the epilogue's last function to a finished tile, in place. */
GEMM_INLINE void gemm_finish_after(const cpu_gemm_block *block, int64_t rows, int64_t columns) {
  const cpu_gemm_finish *f = block->finish;
  if (f && f->after)
    f->after(rows, columns, (float *)f->y + block->row * f->y_row + block->column, f->y_row);
}
#endif

/* Adds C to a tile's sums. */
static void gemm_add_rows(float *x, int64_t x_row, const float *c, int64_t c_row, int64_t rows,
                          int64_t columns) {
  for (int64_t i = 0; i < rows; i++, x += x_row, c += c_row)
    for (int64_t j = 0; j < columns; j++) x[j] += c[j];
}

GEMM_INLINE void gemm_finish_as(const bool keeps, const cpu_gemm_finish *f, int64_t row,
                                int64_t column, int64_t rows, int64_t columns, float *x,
                                int64_t x_row) {
  const bool has_b = f->b != NULL, has_c = f->c != NULL;
#define GEMM_FINISH(has_a, repeats)                                                                \
  if (has_c)                                                                                       \
    gemm_finish_rows(has_a, repeats, true, true, keeps, f, row, column, rows, columns, x, x_row);  \
  else if (has_b)                                                                                  \
    gemm_finish_rows(has_a, repeats, true, false, keeps, f, row, column, rows, columns, x, x_row); \
  else                                                                                             \
    gemm_finish_rows(has_a, repeats, false, false, keeps, f, row, column, rows, columns, x, x_row)
  if (!f->a) {
    GEMM_FINISH(false, false);
  } else if (f->a_repeats) {
    GEMM_FINISH(true, true);
  } else {
    GEMM_FINISH(true, false);
  }
#undef GEMM_FINISH
}

static void gemm_finish(const cpu_gemm_finish *f, int64_t row, int64_t column, int64_t rows,
                        int64_t columns, float *x, int64_t x_row) {
  gemm_finish_as(false, f, row, column, rows, columns, x, x_row);
}

#ifdef CPU_VARIANT_BF16
/* Finishes a tile with functions. They are faster over many numbers, so they run over all rows at
 * once, including the padding of the last vectors. */
static void gemm_finish_applied(const cpu_gemm_finish *f, int64_t row, int64_t column, int64_t rows,
                                int64_t columns, float *x, int64_t x_row) {
  gemm_finish_as(true, f, row, column, rows, columns, x, x_row);
  f->apply(f->functions, rows * x_row, x);
  gemm_stored *y = (gemm_stored *)f->y + row * f->y_row + column;
  for (int64_t i = 0; i < rows; i++, x += x_row, y += f->y_row) {
    int64_t j = 0;
    for (; j + 2 * GEMM_LANES <= columns; j += 2 * GEMM_LANES) {
      const gemm_vector *at = (const gemm_vector *)(x + j);
      if (gemm_lost(at[0]) | gemm_lost(at[1])) break;
      gemm_store_two(y + j, at[0], at[1]);
    }
    for (; j < columns; j += GEMM_LANES)
      gemm_store_some(y + j, *(const gemm_vector *)(x + j),
                      columns - j < GEMM_LANES ? columns - j : GEMM_LANES);
  }
}
#endif
#endif

#ifdef GEMM_REQUANTIZES
#include "program/isa/requantize_vector.h"

#ifdef REQUANTIZE_LANES
/* True if a tile starts from its columns' offsets, which takes no time, instead of zeros. */
GEMM_INLINE bool gemm_begins_with_offsets(const int vectors, const cpu_gemm_block *block,
                                          int64_t columns) {
  return block->requantize && block->requantize->lines.blocks && columns == vectors * GEMM_LANES;
}

GEMM_INLINE gemm_vector gemm_offset(const cpu_gemm_block *block, int v) {
  const cpu_requantize_lines *l = &block->requantize->lines;
  const requantize_words sign = REQUANTIZE_V(set1_epi32)(l->subtracts ? -1 : 0);
  return (gemm_vector)requantize_offset(
      sign, l->offset_along ? REQUANTIZE_LOAD_WORDS(l->offset + block->column + v * GEMM_LANES)
                            : REQUANTIZE_V(set1_epi32)(*l->offset));
}

/* Requantizes some vectors of all rows in registers: two rows of two vectors, or four rows of one,
 * at a time. Returns false if the numbers are too large. */
GEMM_INLINE bool gemm_requantize_strip(const int rows, const int first, const int vectors,
                                       const requantize_numbers *n, const cpu_gemm_block *block,
                                       gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  const cpu_requantize_lines *l = &block->requantize->lines;
  const int64_t y_row = l->y_row, column = block->column + first * GEMM_LANES;
  uint8_t *y = l->y + block->row * y_row + column;
  requantize_column c[2];
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) {
    c[v] = requantize_take_column(l, n, column + v * GEMM_LANES);
    if (!requantize_are_moderate(&c[v], n)) return false;
  }
  const int together = 4 / vectors;
  GEMM_UNROLL
  for (int i = 0; i < rows; i += together) {
    requantize_words w[2][2];
    GEMM_UNROLL
    for (int k = 0; k < 4; k++) {
      const int row = i + k / vectors < rows ? i + k / vectors : i, v = k % vectors;
      w[k / 2][k % 2] = requantize_whole(&c[v], n, (requantize_words)sum[row][first + v]);
    }
    const int left = rows - i < together ? rows - i : together;
    if (vectors == 1)
      requantize_store_rows(left, &n->stored, w, y + i * y_row, y_row);
    else
      requantize_store_few(2, left, &n->stored, w, y + i * y_row, y_row);
  }
  return true;
}

/* The same for a whole tile that started from the offsets. */
GEMM_INLINE bool gemm_requantize_tile(const int rows, const int vectors,
                                      const cpu_gemm_block *block,
                                      gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  const requantize_numbers n = requantize_take_numbers(&block->requantize->lines);
  bool done = true;
  GEMM_UNROLL
  for (int v = 0; v < vectors; v += 2)
    done = done && gemm_requantize_strip(rows, v, vectors > 1 ? 2 : 1, &n, block, sum);
  return done;
}
#else
GEMM_INLINE bool gemm_begins_with_offsets(const int vectors, const cpu_gemm_block *block,
                                          int64_t columns) {
  (void)vectors, (void)block, (void)columns;
  return false;
}
GEMM_INLINE gemm_vector gemm_offset(const cpu_gemm_block *block, int v) {
  (void)block, (void)v;
  return (gemm_vector){0};
}
GEMM_INLINE bool gemm_requantize_tile(const int rows, const int vectors,
                                      const cpu_gemm_block *block,
                                      gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  (void)rows, (void)vectors, (void)block, (void)sum;
  return false;
}
#endif

/* Requantizes a tile's sums through memory. */
static void gemm_requantize_stored(const cpu_gemm_block *block, int64_t rows, int64_t columns,
                                   const GEMM_ELEMENT *x) {
  cpu_requantize_lines l = block->requantize->lines;
  l.rows = rows;
  l.count = columns;
  l.x = (const int32_t *)x;
  l.x_row = GEMM_MAX_VECTORS * GEMM_LANES;
  l.offset += block->row * l.offset_row + (l.offset_along ? block->column : 0);
  l.scale += block->row * l.scale_row + (l.scale_along ? block->column : 0);
  l.bias += block->row * l.bias_row + (l.bias_along ? block->column : 0);
  l.y += block->row * l.y_row + block->column;
  block->requantize->run(&l);
}

/* Requantizes a tile's sums, after adding the terms of rows. `begun`: the sums started from the
 * offsets. */
GEMM_INLINE void gemm_requantize(const int rows, const int vectors, const cpu_gemm_block *block,
                                 const GEMM_ELEMENT *c, int64_t columns, bool begun,
                                 gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS]) {
  enum { ROW = GEMM_MAX_VECTORS * GEMM_LANES };
  const bool whole = columns == vectors * GEMM_LANES;
  if (block->requantize->rows) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += block->requantize->rows[block->row + i];
    }
  }
  if (whole && block->accumulate) gemm_add_stored(rows, vectors, sum, c, block->c_row);
  if (begun && gemm_requantize_tile(rows, vectors, block, sum)) return;
  gemm_vector x[GEMM_ROWS][GEMM_MAX_VECTORS], offset[GEMM_MAX_VECTORS];
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) offset[v] = begun ? gemm_offset(block, v) : (gemm_vector){0};
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) x[i][v] = sum[i][v] - offset[v];
  }
  GEMM_ELEMENT *from = (GEMM_ELEMENT *)x;
  for (int64_t i = 0; !whole && block->accumulate && i < rows; i++)
    for (int64_t j = 0; j < columns; j++) from[i * ROW + j] += c[i * block->c_row + j];
  gemm_requantize_stored(block, rows, columns, from);
}
#endif

#endif
