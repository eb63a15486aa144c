/* SPDX-License-Identifier: MIT */
/* The inner loops of direct convolution, by computing type and instruction set: planes times single
 * filter elements, vectorised along rows. conv_direct.c decides which planes meet. All strides are
 * in elements; columns lie side by side. */
#ifndef CPU_CONV_CONV_TABLE_H
#define CPU_CONV_CONV_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* result[row][column] = sum over t of weight[t] · source[row·source_row + column + place[t]], in
 * the order of t. Fewer columns than a vector are written as a whole vector, rows in their order:
 * the result then needs result_row ≥ columns, and room for a vector after its last row. The source
 * must be readable to whole vectors. */
typedef struct cpu_direct_sweep {
  int64_t rows, columns, taps;
  const void *source;
  int64_t source_row;
  const int64_t *place;
  const void *weight;
  bool squares; /* each nine places are 3 × 3 neighbours, source_row apart */
  void *result;
  int64_t result_row;
} cpu_direct_sweep;

/* sums[f][t][lane] += factor[f][row][column] · source[row·source_row + column + place[t]], over all
 * rows and columns. With fewer columns than a vector, both must be readable to whole vectors. */
typedef struct cpu_direct_correlation {
  int64_t rows, columns, taps, factors;
  const void *source;
  int64_t source_row;
  const int64_t *place;
  bool squares;
  const void *factor;
  int64_t factor_row, factor_plane;
  void *sums;
  int64_t sums_plane; /* from one factor's to the next's */
} cpu_direct_correlation;

typedef struct cpu_direct_loops {
  int32_t lanes; /* of a vector */
  void (*sweep)(const cpu_direct_sweep *sweep);
  void (*correlate)(const cpu_direct_correlation *correlation);

  /* totals[i] = the sum of its lanes, over `parts` arrays one after the other, in their order. */
  void (*total)(void *totals, const void *sums, int64_t count, int64_t parts);

  /* Rows of elements side by side. */
  void (*copy)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
               int64_t columns);

  /* Rows of `columns` elements, those with even and those with odd numbers side by side. */
  void (*separate)(void *even, void *odd, int64_t to_row, const void *from, int64_t from_row,
                   int64_t rows, int64_t columns);

  /* to[i] = from[i·step] and to[i·step] = from[i] */
  void (*pick)(void *to, const void *from, int64_t count, int64_t step);
  void (*spread)(void *to, const void *from, int64_t count, int64_t step);

  /* to[2·i] = even[i], to[2·i + 1] = odd[i], `count` of `to` in all */
  void (*interleave)(void *to, const void *even, const void *odd, int64_t count);
} cpu_direct_loops;

CPU_DECLARE_FLOATS(cpu_direct_loops, cpu_direct);

/* ---- Winograd's minimal filtering ------------------------------------------------------------ */

/* The inner loops of Winograd's minimal filtering, F(4 × 4, 3 × 3) in f32, per instruction set.
 *
 * A tile of 4 × 4 results comes from a patch of 6 × 6 of the source. Patch, filter and sums are
 * turned into 36 numbers each, its positions, which are multiplied one by one: 36 products where
 * the plain sum takes 144. Tiles lie side by side in vectors; a plane is one element of all
 * patches. conv_winograd.c says how they are arranged. */

enum {
  CPU_WINOGRAD_TILE = 4,       /* results in each direction */
  CPU_WINOGRAD_PATCH = 6,      /* elements of the source that they need */
  CPU_WINOGRAD_POSITIONS = 36, /* PATCH² */
  CPU_WINOGRAD_ROWS = 16,      /* rows of a filter tile have room for so many; as lanes at most */
};

typedef struct cpu_winograd {
  int32_t lanes; /* `count`s below are multiples of it; memory is there to the full */

  /* One row of neighbouring patches into its six planes: planes[j·pitch + t] = line[4·t + j]. Reads
   * 4·count + 4 elements. */
  void (*split)(const float *line, int64_t count, float *planes, int64_t pitch);

  /* Patches, as 36 planes, to positions. Tile t of position p goes to
   * to[p·position + t / panel · panel_step + t % panel]; `panel` is a multiple of lanes. */
  void (*source)(const float *planes, int64_t pitch, int64_t count, float *to, int64_t position,
                 int64_t panel, int64_t panel_step);

  /* `rows` ≤ ROWS filters (from one to the next: `outer`) of each of `depth` channels (`inner`) to
   * positions: to[p·position + c·rows + i]. taps[t] says where tap t is; in elements, as all. */
  void (*filter)(const float *filter, int64_t rows, int64_t outer, int64_t depth, int64_t inner,
                 const int64_t taps[9], float *to, int64_t position);

  /* Sums of all positions to planes of results: 16 of them, `pitch` apart. */
  void (*result)(const float *sums, int64_t position, int64_t count, float *planes, int64_t pitch);

  /* One row of results from its four planes: line[4·t + j] = planes[j·pitch + t]. */
  void (*join)(const float *planes, int64_t pitch, int64_t count, float *line);
} cpu_winograd;

CPU_DECLARE(cpu_winograd, cpu_winograd);

#endif
