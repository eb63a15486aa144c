/* The inner loops of direct convolution, by computing type and instruction set: planes times single
 * filter elements, vectorised along rows. conv_direct.c decides which planes meet. All strides are
 * in elements; columns lie side by side. */
#ifndef CPU_ISA_DIRECT_TABLE_H
#define CPU_ISA_DIRECT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* result[row][column] = sum over t of weight[t] · source[row·source_row + column + place[t]], in
 * the order of t. Fewer columns than a vector are written as a whole vector, rows in their order:
 * the result then needs result_row ≥ columns, and room for a vector behind its last row. The source
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

  /* totals[i] = the sum of its lanes, over `parts` arrays one behind the other, in their order. */
  void (*total)(void *totals, const void *sums, int64_t count, int64_t parts);

  /* Rows of elements side by side. */
  void (*copy)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
               int64_t columns);

  /* to[i] = from[i·step] and to[i·step] = from[i] */
  void (*pick)(void *to, const void *from, int64_t count, int64_t step);
  void (*spread)(void *to, const void *from, int64_t count, int64_t step);

  /* to[2·i] = even[i], to[2·i + 1] = odd[i], `count` of `to` in all */
  void (*interleave)(void *to, const void *even, const void *odd, int64_t count);
} cpu_direct_loops;

struct cpu_direct_table {
  cpu_direct_loops f32, f64;
};

extern const cpu_direct_table cpu_direct_table_scalar, cpu_direct_table_avx2,
    cpu_direct_table_avx512;

#endif
