/* SPDX-License-Identifier: MIT */
/* Strips: the tiles of all rows of A for some columns of B, and all strips of a block. */
#ifndef CPU_GEMM_STRIP_H
#define CPU_GEMM_STRIP_H

#if GEMM_GROUP == 1 && !defined(GEMM_AMX)
#include "gemm_shallow.h"
#else
GEMM_INLINE bool gemm_is_shallow(gemm_layout layout, const cpu_gemm_block *block) {
  (void)layout, (void)block;
  return false;
}
GEMM_INLINE void gemm_shallow(const cpu_gemm_block *block, const GEMM_ELEMENT *b, GEMM_ELEMENT *c) {
  (void)block, (void)b, (void)c;
}
#endif

/* The rows of a block are cut into tiles of nearly equal height. */
GEMM_INLINE int64_t gemm_tile_count(int64_t m) {
  return (m + GEMM_ROWS - 1) / GEMM_ROWS;
}
GEMM_INLINE int64_t gemm_tile_rows(int64_t m, int64_t tiles, int64_t tile) {
  return m / tiles + (tile < m % tiles);
}

/* Distributes the prefetches over `steps` steps of k: from here on, ahead_bytes is the distance
 * between steps. With 0, a step prefetches its own operands. If a step would have to prefetch more
 * than a cache line, the hardware prefetches the panel better. */
GEMM_INLINE void gemm_share_ahead(cpu_gemm_block *strip, bool last, int64_t steps) {
  enum { LINE = 64 };
  const GEMM_ELEMENT *b = strip->b;
  if (GEMM_VECTOR_BYTES == 64 && (strip->ahead || !last) && strip->ahead_bytes > 0 &&
      strip->ahead_bytes <= LINE * steps) {
    if (!last) strip->ahead = b + strip->b_column;
    strip->ahead_bytes = (strip->ahead_bytes + steps - 1) / steps;
  } else {
    strip->ahead = b;
    strip->ahead_bytes = 0;
  }
}

/* Prefetches a tile's share of the lines needed later. */
GEMM_INLINE void gemm_ask(const cpu_gemm_lines *l, const bool written, int64_t tile,
                          int64_t tiles) {
  const int64_t end = l ? l->count * (tile + 1) / tiles : 0;
  for (int64_t i = l ? l->count * tile / tiles : 0; i < end; i++)
    for (int64_t j = 0; j < l->lines; j++) {
      const char *line = (const char *)l->at + i * l->step + j * 64;
      if (written)
        __builtin_prefetch(line, 1);
      else
        __builtin_prefetch(line);
    }
}

/* The layout of the strip's next tile. The first tile of several may pack B's panel, which the
 * other tiles read. Contiguous rows of A and a packed panel are one run. */
GEMM_INLINE gemm_layout gemm_layout_of(gemm_layout layout, const cpu_gemm_block *tile) {
  if (tile->copy) return layout == GEMM_LISTED ? GEMM_LISTED_COPYING : GEMM_COPYING;
  if (layout == GEMM_STRIDED && GEMM_VECTOR_BYTES == 32 && tile->n > GEMM_LANES &&
      tile->n <= GEMM_COLUMNS && tile->a_k == 1 && tile->b_k == GEMM_COLUMNS)
    return GEMM_RUNS;
  return layout;
}

/* Multiplies all rows of one strip of columns of C, in tiles of one width. */
static void gemm_strip(const gemm_tile_function *functions, gemm_layout layout,
                       const cpu_gemm_block *block, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                       int64_t columns) {
  const int64_t tiles = gemm_tile_count(block->m);
  const GEMM_ELEMENT *a = block->a;
  cpu_gemm_block tile = *block;
  tile.n = columns;
  tile.b = b;
  tile.b_k = layout == GEMM_LISTED ? 0 : block->b_k;
  tile.column += c - (const GEMM_ELEMENT *)block->c;
  tile.copy = tiles > 1 && columns == GEMM_COLUMNS ? block->copy : NULL;
  const int64_t tile_k = gemm_length(block);
  gemm_share_ahead(&tile, tile.column + columns == block->column + block->n, tiles * tile_k);
#ifdef GEMM_AMX
  int64_t shape = 0;
#endif
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t rows = gemm_tile_rows(block->m, tiles, t);
#ifdef GEMM_AMX
    if (GEMM_BY_AMX(rows)) gemm_amx_configure(rows, block->k, &shape);
#endif
    gemm_ask(block->read, false, t, tiles);
    gemm_ask(block->written, true, t, tiles);
    if (block->slivers) {
      tile.a_row = 1;
      tile.a_k = rows;
    }
    tile.m = rows;
    tile.a = a;
    tile.c = c;
    functions[GEMM_HEIGHT(rows) - 1](gemm_layout_of(layout, &tile), &tile);
    if (tile.copy) {
      tile.b = tile.copy;
      tile.b_k = GEMM_COLUMNS;
      tile.copy = NULL;
      layout = GEMM_STRIDED;
    }
    gemm_delivered(&tile);
    a += rows * (block->slivers ? block->k + GEMM_TERMS : block->a_row);
    if (tile.a_rows) tile.a_rows += rows;
    c += rows * block->c_row;
    tile.row += rows;
    tile.ahead = (const char *)tile.ahead + tile.ahead_bytes * tile_k;
  }
}

#if GEMM_MOST_ABREAST > 1
/* The number of packed panels of B that are read side by side. */
GEMM_INLINE int64_t gemm_abreast(const cpu_gemm_block *block) {
  const bool packed = block->b_k == GEMM_COLUMNS && !block->a_rows && !block->b_rows &&
                      !block->copy && block->runs <= 1;
  return packed && block->m <= 2 ? GEMM_MOST_ABREAST / block->m : 1;
}
#endif

/* Multiplies all strips; panels of B are `panel` elements apart. */
static void gemm_strips(gemm_layout layout, const cpu_gemm_block *block, int64_t panel) {
  const GEMM_ELEMENT *b = block->b;
  GEMM_ELEMENT *c = block->c;
  int64_t rest = block->n;
#ifndef GEMM_AMX
  const bool plain = layout == GEMM_STRIDED || layout == GEMM_LISTED;
  if (plain && block->m <= 2 && panel == GEMM_COLUMNS) {
    for (; rest >= 2 * GEMM_COLUMNS; rest -= 2 * GEMM_COLUMNS) {
      gemm_strip(gemm_wide_tiles, layout, block, b, c, 2 * GEMM_COLUMNS);
      b += 2 * GEMM_COLUMNS;
      c += 2 * GEMM_COLUMNS;
    }
  }
#endif
#if GEMM_MOST_ABREAST > 1
  const int64_t abreast = gemm_abreast(block);
  if (abreast > 1) {
    for (; rest >= abreast * GEMM_COLUMNS; rest -= abreast * GEMM_COLUMNS) {
      gemm_strip(abreast == 4 ? gemm_four_tiles : gemm_wide_tiles, GEMM_ABREAST, block, b, c,
                 abreast * GEMM_COLUMNS);
      b += abreast * panel;
      c += abreast * GEMM_COLUMNS;
    }
  }
#endif
  const bool shallow = gemm_is_shallow(layout, block);
  for (; rest >= GEMM_COLUMNS; rest -= GEMM_COLUMNS) {
    if (shallow)
      gemm_shallow(block, b, c);
    else
      gemm_strip(gemm_full_tiles, layout, block, b, c, GEMM_COLUMNS);
    b += panel;
    c += GEMM_COLUMNS;
  }
  if (rest > 0)
    gemm_strip(rest > GEMM_LANES ? gemm_full_tiles : gemm_narrow_tiles, layout, block, b, c, rest);
}

/* Tiles of rows that are finished for all columns before the next: their part of C is written in the
 * order of memory. The caches hold the panels of a short k meanwhile. */
enum { GEMM_TILES_AT_ONCE = 2, GEMM_HELD_PANELS = 16 << 10, GEMM_LEAST_WRITTEN = 24 << 10 };

GEMM_INLINE bool gemm_writes_by_rows(const cpu_gemm_block *block) {
  const int64_t bytes = block->n * (int64_t)sizeof(GEMM_ELEMENT);
  return block->runs <= 1 && !block->a_rows && !block->slivers && !block->read && !block->written &&
         block->n > GEMM_COLUMNS && gemm_length(block) * bytes <= GEMM_HELD_PANELS &&
         block->m * bytes >= GEMM_LEAST_WRITTEN;
}

static void gemm_multiply_rows(const cpu_gemm_block *block) {
  cpu_gemm_block part = *block;
  const int64_t tiles = gemm_tile_count(block->m);
  part.copy = NULL; /* B is in the cache already */
  for (int64_t t = 0; t < tiles;) {
    part.m = 0;
    for (int64_t end = t + GEMM_TILES_AT_ONCE; t < tiles && t < end; t++)
      part.m += gemm_tile_rows(block->m, tiles, t);
    gemm_strips(GEMM_STRIDED, &part, block->b_column);
    part.a = (const GEMM_ELEMENT *)part.a + part.m * block->a_row;
    part.c = (GEMM_ELEMENT *)part.c + part.m * block->c_row;
    part.row += part.m;
  }
}

static void gemm_multiply(const cpu_gemm_block *block) {
  const bool spread = GEMM_ROWS <= CPU_GEMM_FORESEEN && block->a_rows;
  if (gemm_writes_by_rows(block))
    gemm_multiply_rows(block);
  else
    gemm_strips(spread            ? GEMM_SPREAD
                : block->runs > 1 ? GEMM_RUNS
                                  : GEMM_STRIDED,
                block, block->b_column);
#ifdef GEMM_AMX
  if (GEMM_BY_AMX(block->m)) AMX_RELEASE();
#endif
}

#if GEMM_GROUP == 1
static void gemm_convolve(const cpu_gemm_block *block) {
  gemm_strips(GEMM_LISTED, block, GEMM_COLUMNS);
}
#endif

/* C = the sum of `count` dense matrices. */
static void gemm_sum(void *c, int64_t c_row, int64_t m, int64_t n, const void *parts,
                     int64_t count) {
  for (int64_t i = 0; i < m; i++) {
    GEMM_ELEMENT *to = (GEMM_ELEMENT *)c + i * c_row;
    const GEMM_ELEMENT *from = (const GEMM_ELEMENT *)parts + i * n;
    for (int64_t j = 0; j < n; j++) to[j] = from[j];
    for (int64_t s = 1; s < count; s++) {
      for (int64_t j = 0; j < n; j++) to[j] += from[s * m * n + j];
    }
  }
}

#endif
