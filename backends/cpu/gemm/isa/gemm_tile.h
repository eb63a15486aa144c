/* SPDX-License-Identifier: MIT */
/* The register tile: up to GEMM_ROWS rows and a few vectors of columns of C, whose sums stay in
 * registers while k runs. There is one function for each number of rows and vectors.
 *
 * The family's file defines the type (gemm_vector.h) and GEMM_MULTIPLY_ADD(a, b, c), a·b + c. It
 * includes a header that takes the sums (gemm_plain.h, gemm_finish.h, gemm_requantize.h) before
 * this one.
 *
 * A may have any strides, since its elements are broadcast anyway. The hardware prefetches six rows
 * as six runs of memory, so there packing A is at most a copy of rows. It cannot follow twelve
 * rows, so these are packed tile by tile, in the order of use ("slivers"). Fourteen rows take so
 * long per step of k that they are packed only if they compete for few cache sets. B's columns must
 * be contiguous in panels.
 *
 * Elements are summed in the order of k for every tile shape, so results do not depend on the tiles
 * of C. The error of one running sum of floats grows with k (6e-4 for 100,000 equal elements in
 * f32). So parts of k are summed separately, and then added to the sums of earlier parts in the L1
 * cache.
 *
 * Only the loop along k differs between the memory layouts: its strides are constants where they
 * can be. The rest of a tile is one code for all layouts, and the sums stay in their registers. A
 * whole tile for each layout would be no faster, and take two to three times the code. */
#ifndef CPU_GEMM_TILE_H
#define CPU_GEMM_TILE_H

/* Memory layouts of A and B:
 * - GEMM_STRIDED: any strides.
 * - GEMM_COPYING: the same; B's panel is also stored at tile->copy, for the next tiles.
 * - GEMM_LISTED: B's rows at the offsets of tile->b_rows.
 * - GEMM_LISTED_COPYING: both.
 * - GEMM_RUNS: A contiguous along k (a_k = 1) and B in a packed panel (b_k = GEMM_COLUMNS), in one
 *   run of k or several.
 * - GEMM_SPREAD: as GEMM_RUNS, with A's rows at the offsets of tile->a_rows.
 * - GEMM_ABREAST: B in several packed panels, which are read side by side. */
typedef enum gemm_layout {
  GEMM_STRIDED,
  GEMM_COPYING,
  GEMM_LISTED,
  GEMM_LISTED_COPYING,
  GEMM_RUNS,
  GEMM_SPREAD,
  GEMM_ABREAST
} gemm_layout;

/* Broadcasts an element of A to every lane. */
#ifndef GEMM_REPEAT
#define GEMM_REPEAT(x) ((x) - (gemm_vector){0})
#endif

/* Where a tile is in k. */
typedef struct gemm_cursor {
  const gemm_element_at *a;
  const GEMM_ELEMENT *b;
  int64_t p; /* steps of k done, in all runs */
} gemm_cursor;

/* Multiplies an element of A by a row of B. */
GEMM_INLINE void gemm_add_row(const int vectors, gemm_vector left, const gemm_vector *right,
                              gemm_vector *sum) {
#ifdef GEMM_MULTIPLY_ADD_TWO
  GEMM_UNROLL
  for (int v = 0; v + 1 < vectors; v += 2) GEMM_MULTIPLY_ADD_TWO(left, right + v, sum + v);
  if (vectors == 1) sum[0] = GEMM_MULTIPLY_ADD(left, right[0], sum[0]);
#else
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) sum[v] = GEMM_MULTIPLY_ADD(left, right[v], sum[v]);
#endif
}

/* The offset of vector v in a row of B. */
GEMM_INLINE int64_t gemm_vector_place(const gemm_layout layout, const cpu_gemm_block *tile, int v) {
  return layout == GEMM_ABREAST ? v / 2 * tile->b_column + v % 2 * GEMM_LANES : v * GEMM_LANES;
}

/* The rows of A for a loop along k: one pointer for each `each` rows. */
GEMM_INLINE void gemm_place_rows(const int rows, const int each, const bool spread,
                                 const cpu_gemm_block *tile, const gemm_element_at *a,
                                 const gemm_element_at *left[GEMM_ROWS]) {
  GEMM_UNROLL
  for (int g = 0; each * g < rows; g++) {
    left[g] = a + (spread ? tile->a_rows[g] : each * g * tile->a_row);
    GEMM_FORGET(left[g]);
  }
}

#ifdef GEMM_MULTIPLY_SQUARES
#define GEMM_SQUARES 1
#include "gemm_squares.h"
#else
#define GEMM_SQUARES 0
#endif

/* The loop along k. `layout` is a constant wherever this is inlined. */
GEMM_INLINE void gemm_add_steps(const int rows, const int vectors, const gemm_layout layout,
                                const cpu_gemm_block *tile, gemm_cursor at, int64_t steps,
                                gemm_sums sum) {
#ifdef GEMM_MULTIPLY_SQUARES
  if (rows > 1 && (layout == GEMM_STRIDED || layout == GEMM_RUNS) && tile->a_k == 1) {
    const int64_t even = steps / 2 * 2;
    gemm_add_squares(rows, vectors, tile, at, even, sum);
    at.a += even;
    at.b += even * tile->b_k;
    at.p += even;
    steps -= even;
  }
#endif
  const bool spread = layout == GEMM_SPREAD, runs = layout == GEMM_RUNS || spread;
  const bool listed = layout == GEMM_LISTED || layout == GEMM_LISTED_COPYING;
  const bool copies = layout == GEMM_COPYING || layout == GEMM_LISTED_COPYING;
  const bool asks = GEMM_ASKS(rows, vectors) && !listed && !copies;
  const int each = spread ? 1 : 3;
  const int64_t a_row = tile->a_row, a_k = runs ? 1 : tile->a_k;
  const int64_t b_k = runs || layout == GEMM_ABREAST ? GEMM_COLUMNS : tile->b_k;
  const int64_t ahead_k = tile->ahead_bytes;
  const char *ahead = asks ? (const char *)tile->ahead + at.p * ahead_k : NULL;
  const int64_t *place = listed ? tile->b_rows + at.p : NULL;
  GEMM_ELEMENT *copy = copies ? (GEMM_ELEMENT *)tile->copy + at.p * GEMM_COLUMNS : NULL;
  const gemm_element_at *left[GEMM_ROWS];
  gemm_place_rows(rows, each, spread, tile, at.a, left);
  GEMM_STEPS
  for (; steps > 0; steps--) {
    gemm_vector right[GEMM_MAX_VECTORS];
    const GEMM_ELEMENT *from = listed ? at.b + *place++ : at.b;
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) {
      right[v] = *(const gemm_vector_at *)(from + gemm_vector_place(layout, tile, v));
      if (rows <= GEMM_FEW && !listed && layout != GEMM_ABREAST)
        __builtin_prefetch(from + GEMM_FAR + v * GEMM_LANES);
    }
    if (asks) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += ahead_k;
    }
    if (copies) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(copy + v * GEMM_LANES) = right[v];
      copy += GEMM_COLUMNS;
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++)
      gemm_add_row(vectors, GEMM_REPEAT(left[i / each][i % each * a_row]), right, sum[i]);
    GEMM_UNROLL
    for (int g = 0; each * g < rows; g++) left[g] += a_k;
    if (!listed) at.b += b_k;
  }
}

/* Adds the products of `steps` steps of k. One and two rows leave registers for two panels, and one
 * row for four; these hide the latency again. More rows do not. Only the first of several tiles
 * copies, so its rows are more than half of GEMM_ROWS. */
GEMM_INLINE void gemm_add_products(const int rows, const int vectors, const gemm_layout layout,
                                   const cpu_gemm_block *tile, gemm_cursor at, int64_t steps,
                                   gemm_sums sum) {
#define GEMM_CASE(name, exists)                                                                    \
  case name:                                                                                       \
    if (exists) gemm_add_steps(rows, vectors, name, tile, at, steps, sum);                         \
    break
  switch (layout) {
    GEMM_CASE(GEMM_STRIDED, vectors <= 4);
    GEMM_CASE(GEMM_RUNS, vectors <= 2);
    GEMM_CASE(GEMM_SPREAD, vectors <= 2 && GEMM_ROWS <= CPU_GEMM_FORESEEN);
    GEMM_CASE(GEMM_ABREAST, vectors > 2 && GEMM_MOST_ABREAST > 1);
    GEMM_CASE(GEMM_LISTED, vectors <= 4 && GEMM_GROUP == 1);
    GEMM_CASE(GEMM_COPYING, vectors == 2 && rows > GEMM_ROWS / 2 && GEMM_GROUP == 1);
    GEMM_CASE(GEMM_LISTED_COPYING, vectors == 2 && rows > GEMM_ROWS / 2 && GEMM_GROUP == 1);
  }
#undef GEMM_CASE
}

/* Adds the terms after a run of k: row terms to the sums, column terms to `terms`. */
GEMM_INLINE void gemm_take_terms(const int rows, const int vectors, const gemm_layout layout,
                                 const cpu_gemm_block *tile, const gemm_cursor *at, gemm_sums sum,
                                 gemm_vector *terms) {
  if (!GEMM_TERMS) return;
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) {
    const int64_t place = vectors > 2 ? gemm_vector_place(layout, tile, v) : v * GEMM_LANES;
    terms[v] += *(const gemm_vector_at *)(at->b + place);
  }
  if (!tile->slivers) return;
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] += (GEMM_ELEMENT)at->a[i * tile->a_row];
  }
}

/* Adds the products of all runs of k to the sums. */
GEMM_INLINE void gemm_multiply_tile(const int rows, const int vectors, const gemm_layout layout,
                                    const cpu_gemm_block *tile, gemm_sums sum, gemm_vector *terms) {
  gemm_cursor at = {.a = tile->a, .b = tile->b};
  int64_t rest = gemm_length(tile), run = tile->k, part = 0;
  const bool folds = gemm_has_parts(tile);
  gemm_sums room;
  gemm_vector(*before)[GEMM_MAX_VECTORS] = room; /* the sums of earlier parts of k */
  GEMM_FORGET(before); /* in memory: compilers would keep them on the stack and in registers */
  if (folds) gemm_clear(rows, vectors, before);
  do {
    const int64_t steps = folds && run > GEMM_PART ? GEMM_PART : run;
    gemm_add_products(rows, vectors, layout, tile, at, steps, sum);
    at.a += steps * tile->a_k;
    at.b += steps * tile->b_k;
    at.p += steps;
    gemm_take_terms(rows, vectors, layout, tile, &at, sum, terms);
    rest -= steps;
    run -= steps;
    part += steps;
    if (run == 0 && rest > 0) {
      at.a += tile->a_run - tile->k;
      at.b += GEMM_TERMS * GEMM_COLUMNS;
      run = tile->k;
    }
    if (folds && rest > 0 && part >= GEMM_PART) {
      gemm_add_sums(rows, vectors, before, sum);
      gemm_clear(rows, vectors, sum);
      part = 0;
    }
  } while (rest > 0);
  if (folds) gemm_add_sums(rows, vectors, sum, before);
}

/* Stores the sums in C. The tile may end inside its last vector. */
GEMM_INLINE void gemm_store_tile(const int rows, const int vectors, const cpu_gemm_block *tile,
                                 gemm_sums sum) {
  GEMM_ELEMENT *c = tile->c;
  const int64_t c_row = tile->c_row;
  if (tile->n < vectors * GEMM_LANES) {
    gemm_vector x[GEMM_ROWS * GEMM_MAX_VECTORS];
    gemm_lay_down(rows, vectors, sum, x);
    gemm_store_edge(tile, (GEMM_ELEMENT *)x, vectors * GEMM_LANES);
    return;
  }
  if (tile->accumulate) gemm_add_stored(rows, vectors, sum, c, c_row);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      *(gemm_vector_at *)(c + i * c_row + v * GEMM_LANES) = sum[i][v];
  }
}

/* Computes one tile. `rows` and `vectors` are constants wherever this is inlined. Of the block, a,
 * a_row, a_k, b, b_k, c, row and column are the tile's, n is its columns, and b_k is 0 if B's rows
 * are listed. */
GEMM_INLINE void gemm_tile(const int rows, const int vectors, const gemm_layout layout,
                           const cpu_gemm_block *tile) {
  gemm_sums sum;
  gemm_vector terms[GEMM_MAX_VECTORS]; /* of columns */
  gemm_prefetch_target(rows, vectors, tile);
  const bool begun = gemm_begin(vectors, tile, terms);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = terms[v];
  }
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) terms[v] = (gemm_vector){0};
  gemm_multiply_tile(rows, vectors, layout, tile, sum, terms);
  if (GEMM_TERMS && gemm_any(vectors, terms)) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += terms[v];
    }
  }
  if (!gemm_deliver(rows, vectors, tile, begun, sum)) gemm_store_tile(rows, vectors, tile, sum);
}

typedef void (*gemm_tile_function)(gemm_layout layout, const cpu_gemm_block *tile);

#define GEMM_TILE(rows, vectors)                                                                   \
  static void gemm_tile_##rows##x##vectors(gemm_layout layout, const cpu_gemm_block *tile) {       \
    gemm_tile(rows, vectors, layout, tile);                                                        \
  }
#define GEMM_TILE_PAIR(rows) GEMM_TILE(rows, 1) GEMM_TILE(rows, 2)
#if defined(GEMM_AMX)
#include "gemm_amx.h"
#define GEMM_AMX_TILE(vectors)                                                                     \
  static void gemm_amx_tile_##vectors(gemm_layout layout, const cpu_gemm_block *tile) {            \
    (void)layout;                                                                                  \
    gemm_amx_tile(vectors, tile);                                                                  \
  }
GEMM_AMX_TILE(1)
GEMM_AMX_TILE(2)
#else
#define GEMM_BY_AMX(rows) false
#define GEMM_HEIGHT(rows) (rows) /* which tile of a list below */
GEMM_TILE(1, 4)
GEMM_TILE(2, 4)
GEMM_TILE_PAIR(4)
GEMM_TILE_PAIR(5)
GEMM_TILE_PAIR(6)
#endif
#if !defined(GEMM_AMX) || GEMM_TERMS
GEMM_TILE_PAIR(1)
GEMM_TILE_PAIR(2)
GEMM_TILE_PAIR(3)
#endif
#if GEMM_ROWS > 6 && !defined(GEMM_AMX)
GEMM_TILE_PAIR(7)
GEMM_TILE_PAIR(8)
GEMM_TILE_PAIR(9)
GEMM_TILE_PAIR(10)
GEMM_TILE_PAIR(11)
GEMM_TILE_PAIR(12)
#endif
#if GEMM_ROWS > 12 && !defined(GEMM_AMX)
GEMM_TILE_PAIR(13)
GEMM_TILE_PAIR(14)
#endif
#if GEMM_MOST_ABREAST > 1
GEMM_TILE(1, 8)
#endif

/* The tiles of one width, by their rows less 1. */
#define GEMM_LIST_6(v)                                                                             \
  gemm_tile_1x##v, gemm_tile_2x##v, gemm_tile_3x##v, gemm_tile_4x##v, gemm_tile_5x##v,             \
      gemm_tile_6x##v
#define GEMM_LIST_12(v)                                                                            \
  GEMM_LIST_6(v), gemm_tile_7x##v, gemm_tile_8x##v, gemm_tile_9x##v, gemm_tile_10x##v,             \
      gemm_tile_11x##v, gemm_tile_12x##v
#define GEMM_LIST_14(v)  GEMM_LIST_12(v), gemm_tile_13x##v, gemm_tile_14x##v
#define GEMM_LIST_AMX(v) gemm_tile_1x##v, gemm_tile_2x##v, gemm_tile_3x##v, gemm_amx_tile_##v
#if defined(GEMM_AMX) && GEMM_TERMS
#define GEMM_LIST GEMM_LIST_AMX
#elif defined(GEMM_AMX)
#define GEMM_LIST(v) gemm_amx_tile_##v
#elif GEMM_ROWS > 12
#define GEMM_LIST GEMM_LIST_14
#elif GEMM_ROWS > 6
#define GEMM_LIST GEMM_LIST_12
#else
#define GEMM_LIST GEMM_LIST_6
#endif
static const gemm_tile_function gemm_narrow_tiles[] = {GEMM_LIST(1)};
static const gemm_tile_function gemm_full_tiles[] = {GEMM_LIST(2)};
#ifndef GEMM_AMX
static const gemm_tile_function gemm_wide_tiles[] = {gemm_tile_1x4, gemm_tile_2x4};
#endif
#if GEMM_MOST_ABREAST > 1
static const gemm_tile_function gemm_four_tiles[] = {gemm_tile_1x8};
#endif

#endif
