/* The inner loops of reductions and row operations, once per instruction set. Which elements they
 * meet, in which order and on which thread, is decided in reduce.c and row.c; here are only loops
 * over memory whose elements already have the accumulating type.
 *
 * A loop sees a block of at most a few thousand elements, so that its own rounding error is
 * small; the callers add up the blocks pairwise. */
#ifndef CPU_ISA_REDUCE_TABLE_H
#define CPU_ISA_REDUCE_TABLE_H

#include <stdint.h>

#include "compute/backend.h"
#include "core/isa.h"

/* Folds. "Lines" lie `step` elements apart; the elements of one line lie side by side. */
typedef struct cpu_fold {
  /* folded[l] = all `length` elements of line l. */
  void (*rows)(const void *source, int64_t step, int64_t lines, int64_t length, void *folded);

  /* folded[i] = folded[i] combined with element i of every line. */
  void (*columns)(const void *source, int64_t step, int64_t lines, int64_t length, void *folded);

  /* folded[0 … length−1] = the value that changes nothing. */
  void (*clear)(void *folded, int64_t length);
} cpu_fold;

/* Searches for the first extremum. A NaN is more extreme than every number. */
typedef struct cpu_search {
  /* values[l], positions[l] = extremum of line l; its i-th element has position first + i·stride,
   * with stride ≥ 0. `length` is at least 1. */
  void (*rows)(const void *source, int64_t step, int64_t lines, int64_t length, int64_t first,
               int64_t stride, void *values, int64_t *positions);

  /* values[i], positions[i] = extremum over element i of every line; line l has position
   * first + l·stride. `lines` is at least 1. */
  void (*columns)(const void *source, int64_t step, int64_t lines, int64_t length, int64_t first,
                  int64_t stride, void *values, int64_t *positions);

  /* Keeps the more extreme of two results, the one at the lower position if they are alike. */
  void (*merge)(void *values, int64_t *positions, const void *other_values,
                const int64_t *other_positions, int64_t length);
} cpu_search;

/* Row operations on a panel of `length` positions of `width` rows. "Single" loops run along one row
 * after the other: position p of row w is at w·step + p. "Wide" ones run across rows: it is at
 * p·step + w. Panels hold at most some ten thousand positions. */
typedef struct cpu_row_panel {
  const void *source;
  int64_t source_step;
  void *target; /* may be the source itself */
  int64_t target_step;
  int64_t length, width;
} cpu_row_panel;

/* `peak`, `total`, … have one entry for each row. */
typedef struct cpu_row_loops {
  /* peak = the largest element, −infinity if there is none; NaNs are passed over. */
  void (*maximum)(const cpu_row_panel *panel, double *peak);

  /* target = exponential_scale · exp(source − peak), total = the sum of exp(source − peak). Without
   * a target only the sum. A peak of −infinity counts as 0. Exponentials too small for a float
   * are some tiny number, also that of −infinity. */
  void (*exponentials)(const cpu_row_panel *panel, const double *peak, double *total);

  /* mean = the mean, spread = the sum of squared differences from it. `length` is at least 1. */
  void (*moments)(const cpu_row_panel *panel, double *mean, double *spread);

  /* target = (source − shift) · factor + offset. */
  void (*scale)(const cpu_row_panel *panel, const double *shift, const double *factor,
                const double *offset);

  /* target = (source − first) − second. */
  void (*subtract)(const cpu_row_panel *panel, const double *first, const double *second);

  double exponential_scale;
} cpu_row_loops;

typedef struct cpu_row_table {
  const cpu_row_loops *f64_single, *f64_wide;
  const cpu_row_loops *f32_single, *f32_wide;
} cpu_row_table;

struct cpu_reduce_table {
  /* By compute_combine (SUM … MIN) and dtype: F64, F32, I64, I32, and BOOL for the maximum and
   * minimum. An empty entry has no functions. */
  cpu_fold fold[4][COMPUTE_DTYPE_COUNT];
  cpu_search search[2][COMPUTE_DTYPE_COUNT]; /* ARGMAX, ARGMIN; F64, F32, I64, I32 */
  const cpu_row_table *row;
};

extern const cpu_reduce_table cpu_reduce_table_scalar, cpu_reduce_table_avx2,
    cpu_reduce_table_avx512;
extern const cpu_row_table cpu_row_table_scalar, cpu_row_table_avx2, cpu_row_table_avx512;

#endif
