/* SPDX-License-Identifier: MIT */
/* The inner loops of direct convolution, by computing type and instruction set: planes times single
 * filter elements, vectorized along rows. conv_direct.c chooses the pairs of planes. All strides
 * are in elements; columns are contiguous. */
#ifndef CPU_CONV_CONV_TABLE_H
#define CPU_CONV_CONV_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* result[row][column] = sum over t of weight[t] · source[row·source_row + column + place[t]], in
 * the order of t. Rows of fewer columns than a vector are written as a whole vector, in the order
 * of rows. The result then needs result_row ≥ columns, and memory for a vector after its last row.
 * The source must be readable to whole vectors. */
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
  int64_t sums_plane; /* elements between the sums of two factors */
} cpu_direct_correlation;

typedef struct cpu_direct_loops {
  int32_t lanes; /* per vector */
  void (*sweep)(const cpu_direct_sweep *sweep);
  void (*correlate)(const cpu_direct_correlation *correlation);

  /* totals[i] = the sum of vector i's lanes, over `parts` consecutive arrays, in their order. */
  void (*total)(void *totals, const void *sums, int64_t count, int64_t parts);

  /* Copies rows of contiguous elements. */
  void (*copy)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
               int64_t columns);

  /* Separates the even from the odd elements of rows of `columns` elements. */
  void (*separate)(void *even, void *odd, int64_t to_row, const void *from, int64_t from_row,
                   int64_t rows, int64_t columns);

  /* to[i] = from[i·step] and to[i·step] = from[i] */
  void (*pick)(void *to, const void *from, int64_t count, int64_t step);
  void (*spread)(void *to, const void *from, int64_t count, int64_t step);

  /* to[2·i] = even[i], to[2·i + 1] = odd[i]; `count` elements of `to` in total */
  void (*interleave)(void *to, const void *even, const void *odd, int64_t count);
} cpu_direct_loops;

CPU_DECLARE_FLOATS(cpu_direct_loops, cpu_direct);

/* ---- Winograd's minimal filtering ------------------------------------------------------------ */

/* The inner loops of Winograd's minimal filtering, F(4 × 4, 3 × 3) in f32, per instruction set.
 *
 * A tile of 4 × 4 results needs a patch of 6 × 6 source elements. Patch, filter and sums are
 * transformed into 36 numbers each, the positions, which are multiplied one by one: 36 products
 * instead of 144. Vectors hold neighbouring tiles; a plane is one element of all patches.
 * conv_winograd.c arranges them. */

enum {
  CPU_WINOGRAD_TILE = 4,       /* results in each direction */
  CPU_WINOGRAD_PATCH = 6,      /* source elements of a patch, in each direction */
  CPU_WINOGRAD_POSITIONS = 36, /* PATCH² */
  CPU_WINOGRAD_ROWS = 16,      /* most rows of a filter tile; the most lanes */
};

typedef struct cpu_winograd {
  int32_t lanes; /* each `count` below is a multiple of it; memory must be valid for all of them */

  /* Splits one row of neighbouring patches into its six planes: planes[j·pitch + t] = line[4·t +
   * j]. Reads 4·count + 4 elements. */
  void (*split)(const float *line, int64_t count, float *planes, int64_t pitch);

  /* Transforms patches, as 36 planes, into positions. Tile t of position p goes to to[p·position +
   * t / panel · panel_step + t % panel]; `panel` is a multiple of lanes. */
  void (*source)(const float *planes, int64_t pitch, int64_t count, float *to, int64_t position,
                 int64_t panel, int64_t panel_step);

  /* Transforms `rows` ≤ ROWS filters (stride `outer`) of each of `depth` channels (stride `inner`)
   * into positions: to[p·position + c·rows + i]. taps[t] is the offset of tap t. All steps are in
   * elements. */
  void (*filter)(const float *filter, int64_t rows, int64_t outer, int64_t depth, int64_t inner,
                 const int64_t taps[9], float *to, int64_t position);

  /* Transforms the sums of all positions into the planes of results: 16 of them, `pitch` apart. */
  void (*result)(const float *sums, int64_t position, int64_t count, float *planes, int64_t pitch);

  /* Joins one row of results from its four planes: line[4·t + j] = planes[j·pitch + t]. */
  void (*join)(const float *planes, int64_t pitch, int64_t count, float *line);
} cpu_winograd;

CPU_DECLARE(cpu_winograd, cpu_winograd);

#endif
