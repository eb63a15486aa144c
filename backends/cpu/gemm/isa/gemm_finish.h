/* SPDX-License-Identifier: MIT */
/* Finishes a tile's sums in the micro-kernel: to f32 or bf16, with addends and limits
 * (cpu_gemm_finish). The family's file includes gemm_stored_f32.h or gemm_stored_bf16.h before. */
#ifndef CPU_GEMM_FINISH_H
#define CPU_GEMM_FINISH_H

#include "gemm_sums.h"
#include "program/isa/limits.h"

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
  if (count == GEMM_LANES)
    gemm_store(to, x);
  else
    for (int64_t j = 0; j < count; j++) to[j] = gemm_narrow((float)x[j]);
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

/* Adds a tile's first addend, along the columns or one for each row, and `zero`: see
 * gemm_finish_tile. */
GEMM_INLINE void gemm_add_first(const int rows, const int vectors, const cpu_gemm_finish *f,
                                const cpu_gemm_block *tile, gemm_sums sum) {
  const gemm_vector none = {0}, zero = f->zero - none;
  const gemm_stored *a = f->a;
  if (a && f->a_repeats) {
    a += tile->row * f->a_row;
    GEMM_UNROLL
    for (int i = 0; i < rows; i++, a += f->a_row) {
      const gemm_vector own = gemm_widen(*a) + zero;
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += own;
    }
    return;
  }
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) {
    const gemm_vector along = (a ? gemm_load(a + tile->column + v * GEMM_LANES) : -none) + zero;
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) sum[i][v] += along;
  }
}

/* Adds the addends shaped like the result: b, or b + c. */
GEMM_INLINE void gemm_add_others(const int rows, const int vectors, const cpu_gemm_finish *f,
                                 const cpu_gemm_block *tile, gemm_sums sum) {
  if (!f->b) return;
  const gemm_stored *b = (const gemm_stored *)f->b + tile->row * f->b_row + tile->column;
  if (!f->c) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++, b += f->b_row) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += gemm_load(b + v * GEMM_LANES);
    }
    return;
  }
  const gemm_stored *c = (const gemm_stored *)f->c + tile->row * f->c_row + tile->column;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++, b += f->b_row, c += f->c_row) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      sum[i][v] += gemm_load(b + v * GEMM_LANES) + gemm_load(c + v * GEMM_LANES);
  }
}

/* Limits a tile's sums and stores them. */
GEMM_INLINE void gemm_store_limited(const int rows, const int vectors, const cpu_gemm_finish *f,
                                    const cpu_gemm_block *tile, gemm_sums sum) {
  const gemm_vector none = {0}, low = f->low - none, high = f->high - none;
  gemm_stored *y = (gemm_stored *)f->y + tile->row * f->y_row + tile->column;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++, y += f->y_row) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      sum[i][v] = (gemm_vector)CPU_AT_MOST(high, CPU_AT_LEAST(low, sum[i][v]));
    GEMM_UNROLL
    for (int v = 0; v + 1 < vectors; v += 2)
      gemm_store_two(y + v * GEMM_LANES, sum[i][v], sum[i][v + 1]);
    if (vectors == 1) gemm_store(y, sum[i][0]);
  }
}

/* True if a result of the tile might be a denormal that a store would flush. `added`: the sums were
 * added to other sums, and may be denormals. */
GEMM_INLINE bool gemm_might_lose(const int rows, const int vectors, const cpu_gemm_finish *f,
                                 const cpu_gemm_block *tile, bool added, gemm_sums sum) {
  const gemm_vector none = {0};
  const gemm_stored *a = f->a, *b = f->b, *c = f->c;
  unsigned lost = gemm_lost(f->low - none) | gemm_lost(f->high - none);
  if (added) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) lost |= gemm_lost(sum[i][v]);
    }
  }
  if (a && f->a_repeats) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++)
      lost |= gemm_tiny(gemm_widen(a[(tile->row + i) * f->a_row]) - none);
  } else if (a) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      lost |= gemm_tiny(gemm_load(a + tile->column + v * GEMM_LANES) + (f->zero - none));
  }
  if (b) b += tile->row * f->b_row + tile->column;
  if (c) c += tile->row * f->c_row + tile->column;
  lost |= gemm_tiny_rows(rows, vectors, b, f->b_row) | gemm_tiny_rows(rows, vectors, c, f->c_row);
  return lost != 0;
}

/* Finishes a whole tile in registers. This is the usual case: an addend along the columns or one
 * per row, and perhaps one or two addends shaped like the result. The operations are the same as
 * above, except that `zero` is added to the first addend. `zero` makes zeros positive, and a sum is
 * a negative zero only if both terms are. Each step is one code for all combinations of addends.
 * Returns false and does nothing if the first addend is a matrix, or if a result might be lost. */
GEMM_INLINE bool gemm_finish_tile(const int rows, const int vectors, const cpu_gemm_finish *f,
                                  const cpu_gemm_block *tile, bool added, gemm_sums sum) {
  if (f->a && !f->a_repeats && f->a_row != 0) return false;
  if (GEMM_LOSES && gemm_might_lose(rows, vectors, f, tile, added, sum)) return false;
  gemm_add_first(rows, vectors, f, tile, sum);
  gemm_add_others(rows, vectors, f, tile, sum);
  gemm_store_limited(rows, vectors, f, tile, sum);
  return true;
}

/* Prefetches the operands of a tile's finish that come from far away. A row shared by all tiles is
 * not among them. */
GEMM_INLINE void gemm_prefetch_addends(const int rows, const int vectors, const cpu_gemm_finish *f,
                                       const cpu_gemm_block *tile) {
  if (f->b && f->b_row != 0)
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < vectors; v++)
        __builtin_prefetch((const gemm_stored *)f->b + (tile->row + i) * f->b_row + tile->column +
                           v * GEMM_LANES);
  if (f->c && f->c_row != 0)
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < vectors; v++)
        __builtin_prefetch((const gemm_stored *)f->c + (tile->row + i) * f->c_row + tile->column +
                           v * GEMM_LANES);
}

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

#ifdef GEMM_BF16
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

GEMM_INLINE void gemm_prefetch_target(const int rows, const int vectors,
                                      const cpu_gemm_block *tile) {
  const cpu_gemm_finish *f = tile->finish;
  if (!f) {
    gemm_prefetch_rows(rows, vectors, tile->c, tile->c_row * (int64_t)sizeof(GEMM_ELEMENT));
    return;
  }
  gemm_prefetch_addends(rows, vectors, f, tile);
  gemm_prefetch_rows(rows, vectors, (gemm_stored *)f->y + tile->row * f->y_row + tile->column,
                     f->y_row * (int64_t)sizeof(gemm_stored));
}

/* Sets the first sums of a tile's columns. */
GEMM_INLINE bool gemm_begin(const int vectors, const cpu_gemm_block *tile, gemm_vector *first) {
  (void)tile;
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) first[v] = (gemm_vector){0};
  return false;
}

/* Finishes a tile's sums through memory: at the edge of C, or if they cannot stay in registers. */
static void gemm_finish_stored(const cpu_gemm_block *tile, bool adds, float *x, int64_t x_row) {
  const cpu_gemm_finish *f = tile->finish;
  if (adds) gemm_add_rows(x, x_row, tile->c, tile->c_row, tile->m, tile->n);
#ifdef GEMM_BF16
  if (f->apply) {
    gemm_finish_applied(f, tile->row, tile->column, tile->m, tile->n, x, x_row);
    return;
  }
#endif
  gemm_finish(f, tile->row, tile->column, tile->m, tile->n, x, x_row);
}

/* Finishes a tile's sums if the block asks for it; otherwise returns false. */
GEMM_INLINE bool gemm_deliver(const int rows, const int vectors, const cpu_gemm_block *tile,
                              bool begun, gemm_sums sum) {
  const cpu_gemm_finish *f = tile->finish;
  (void)begun;
  if (!f) return false;
  const bool whole = tile->n == vectors * GEMM_LANES;
  if (whole && tile->accumulate)
    gemm_add_stored(rows, vectors, sum, (const GEMM_ELEMENT *)tile->c, tile->c_row);
  if (whole && !f->apply &&
      gemm_finish_tile(rows, vectors, f, tile, gemm_has_parts(tile) || tile->accumulate, sum))
    return true;
  gemm_vector x[GEMM_ROWS * GEMM_MAX_VECTORS];
  gemm_lay_down(rows, vectors, sum, x);
  gemm_finish_stored(tile, !whole && tile->accumulate, (float *)x, vectors * GEMM_LANES);
  return true;
}

#ifdef GEMM_AMX
/* True if the tile is finished in registers; otherwise gemm_deliver_stored finishes all its rows in
 * memory. */
GEMM_INLINE bool gemm_stays(const cpu_gemm_block *tile, bool begun) {
  const cpu_gemm_finish *f = tile->finish;
  (void)begun;
  return !f || (!f->apply && (!f->a || f->a_repeats || f->a_row == 0));
}

GEMM_INLINE bool gemm_deliver_stored(const cpu_gemm_block *tile, float *x, int64_t x_row) {
  if (tile->finish) gemm_finish_stored(tile, tile->accumulate, x, x_row);
  return tile->finish != NULL;
}
#endif

/* Applies the epilogue's last function to a finished tile, in place. */
GEMM_INLINE void gemm_delivered(const cpu_gemm_block *tile) {
#ifdef GEMM_BF16
  (void)tile;
#else
  const cpu_gemm_finish *f = tile->finish;
  if (f && f->after)
    f->after(tile->m, tile->n, (float *)f->y + tile->row * f->y_row + tile->column, f->y_row);
#endif
}

#endif
