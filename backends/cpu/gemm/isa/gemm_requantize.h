/* SPDX-License-Identifier: MIT */
/* Requantizes a tile's sums in the micro-kernel, to bytes (cpu_gemm_requantize). */
#ifndef CPU_GEMM_REQUANTIZE_H
#define CPU_GEMM_REQUANTIZE_H

#include "gemm_sums.h"
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
                                       gemm_sums sum) {
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
                                      const cpu_gemm_block *block, gemm_sums sum) {
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
                                      const cpu_gemm_block *block, gemm_sums sum) {
  (void)rows, (void)vectors, (void)block, (void)sum;
  return false;
}
#endif

/* Requantizes a tile's sums through memory. With `adds`, C is added to them before. */
static void gemm_requantize_stored(const cpu_gemm_block *block, bool adds, GEMM_ELEMENT *x,
                                   int64_t x_row) {
  const GEMM_ELEMENT *c = block->c;
  for (int64_t i = 0; adds && i < block->m; i++)
    for (int64_t j = 0; j < block->n; j++) x[i * x_row + j] += c[i * block->c_row + j];
  cpu_requantize_lines l = block->requantize->lines;
  l.rows = block->m;
  l.count = block->n;
  l.x = (const int32_t *)x;
  l.x_row = x_row;
  l.offset += block->row * l.offset_row + (l.offset_along ? block->column : 0);
  l.scale += block->row * l.scale_row + (l.scale_along ? block->column : 0);
  l.bias += block->row * l.bias_row + (l.bias_along ? block->column : 0);
  l.y += block->row * l.y_row + block->column;
  block->requantize->run(&l);
}

/* Requantizes a tile's sums, after adding the terms of rows. `begun`: the sums started from the
 * offsets. */
GEMM_INLINE void gemm_requantize(const int rows, const int vectors, const cpu_gemm_block *block,
                                 bool begun, gemm_sums sum) {
  const bool whole = block->n == vectors * GEMM_LANES;
  if (block->requantize->rows) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += block->requantize->rows[block->row + i];
    }
  }
  if (whole && block->accumulate) gemm_add_stored(rows, vectors, sum, block->c, block->c_row);
  if (begun && gemm_requantize_tile(rows, vectors, block, sum)) return;
  gemm_vector x[GEMM_ROWS * GEMM_MAX_VECTORS], offset[GEMM_MAX_VECTORS];
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) offset[v] = begun ? gemm_offset(block, v) : (gemm_vector){0};
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) x[i * vectors + v] = sum[i][v] - offset[v];
  }
  gemm_requantize_stored(block, !whole && block->accumulate, (GEMM_ELEMENT *)x,
                         vectors * GEMM_LANES);
}

GEMM_INLINE void gemm_prefetch_target(const int rows, const int vectors,
                                      const cpu_gemm_block *tile) {
  if (!tile->requantize) {
    gemm_prefetch_rows(rows, vectors, tile->c, tile->c_row * (int64_t)sizeof(GEMM_ELEMENT));
    return;
  }
  const cpu_requantize_lines *l = &tile->requantize->lines;
  gemm_prefetch_rows(rows, vectors, l->y + tile->row * l->y_row + tile->column, l->y_row);
}

/* Sets the first sums of a tile's columns. Returns true if they are the columns' offsets. */
GEMM_INLINE bool gemm_begin(const int vectors, const cpu_gemm_block *tile, gemm_vector *first) {
  const bool begins = gemm_begins_with_offsets(vectors, tile, tile->n);
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) {
    first[v] = (gemm_vector){0};
    if (begins) first[v] = gemm_offset(tile, v);
  }
  return begins;
}

/* Requantizes a tile's sums if the block asks for it; otherwise returns false. */
GEMM_INLINE bool gemm_deliver(const int rows, const int vectors, const cpu_gemm_block *tile,
                              bool begun, gemm_sums sum) {
  if (!tile->requantize) return false;
  gemm_requantize(rows, vectors, tile, begun, sum);
  return true;
}

#ifdef GEMM_AMX
/* True if the tile is requantized in registers; otherwise gemm_deliver_stored requantizes all its
 * rows in memory. */
GEMM_INLINE bool gemm_stays(const cpu_gemm_block *tile, bool begun) {
  return !tile->requantize || begun;
}

GEMM_INLINE bool gemm_deliver_stored(const cpu_gemm_block *tile, GEMM_ELEMENT *x, int64_t x_row) {
  if (!tile->requantize) return false;
  for (int64_t i = 0; tile->requantize->rows && i < tile->m; i++)
    for (int64_t j = 0; j < x_row; j++) x[i * x_row + j] += tile->requantize->rows[tile->row + i];
  gemm_requantize_stored(tile, tile->accumulate, x, x_row);
  return true;
}
#endif

GEMM_INLINE void gemm_delivered(const cpu_gemm_block *tile) {
  (void)tile;
}

#endif
