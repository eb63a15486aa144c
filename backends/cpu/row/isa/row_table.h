/* SPDX-License-Identifier: MIT */
/* The inner loops of reductions and row operations, once per instruction set. reduce.c and row.c
 * decide on elements, order and threads; these loops only process memory whose elements already
 * have the accumulating type.
 *
 * A loop processes a block of at most a few thousand elements, so that its rounding error is small;
 * the callers sum the blocks pairwise. */
#ifndef CPU_ROW_ROW_TABLE_H
#define CPU_ROW_ROW_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/backend.h"
#include "core/isa.h"
#include "program/isa/tile_table.h"

/* Lines of a stack: so few are folded in the same order for any number of columns. */
enum { CPU_STACK_LINES = 64 };

/* Folds. "Lines" are `step` elements apart; the elements of one line are contiguous. */
typedef struct cpu_fold {
  /* folded[l] = all `length` elements of line l. */
  void (*rows)(const void *source, int64_t step, int64_t lines, int64_t length, void *folded);

  /* folded[i] = folded[i] combined with element i of every line. */
  void (*columns)(const void *source, int64_t step, int64_t lines, int64_t length, void *folded);

  /* folded[s · length + i] = element i of every line of stack s; stacks are `apart` elements apart.
   * The same as clear and columns for each stack; at most CPU_STACK_LINES lines. */
  void (*stacks)(const void *source, int64_t apart, int64_t stacks, int64_t step, int64_t lines,
                 int64_t length, void *folded);

  /* folded[0 … length−1] = the neutral value. */
  void (*clear)(void *folded, int64_t length);
} cpu_fold;

/* Searches for the first extremum. A NaN is more extreme than every number. */
typedef struct cpu_search {
  /* values[l], positions[l] = extremum of line l; its i-th element has position first + i·stride,
   * with stride ≥ 0. `length` is at least 1. */
  void (*rows)(const void *source, int64_t step, int64_t lines, int64_t length, int64_t first,
               int64_t stride, void *values, int64_t *positions);

  /* values[i], positions[i] = extremum over element i of every line; line l has position
   * first + l·stride. `lines` is at least 1. `more`: `values` and `positions` have the extremum
   * of the preceding lines already. */
  void (*columns)(const void *source, int64_t step, int64_t lines, int64_t length, int64_t first,
                  int64_t stride, void *values, int64_t *positions, bool more);

  /* The same for each of `stacks` stacks of lines, `apart` elements apart. */
  void (*stacks)(const void *source, int64_t apart, int64_t stacks, int64_t step, int64_t lines,
                 int64_t length, int64_t first, int64_t stride, void *values, int64_t *positions);

  /* Keeps the more extreme of two results; of equal ones, the one at the lower position. */
  void (*merge)(void *values, int64_t *positions, const void *other_values,
                const int64_t *other_positions, int64_t length);
} cpu_search;

/* The loops of one element type. BOOL has only the maximum and minimum; functions that a type does
 * not have are NULL. */
typedef struct cpu_reduce_loops {
  cpu_fold fold[COMPUTE_COMBINE_MIN + 1]; /* by compute_combine: SUM … MIN */
  cpu_fold squares;                       /* F64: sums of the squares of f32 elements */
  cpu_search largest, smallest;           /* ARGMAX, ARGMIN */
} cpu_reduce_loops;

CPU_DECLARE_NUMBERS(cpu_reduce_loops, cpu_reduce);
CPU_DECLARE(cpu_reduce_loops, cpu_reduce_byte);

/* A panel of `length` positions of `width` rows. "Single" loops run along one row after the other:
 * position p of row w is at w·step + p. "Wide" loops run across rows: it is at p·step + w. Panels
 * have at most some ten thousand positions. */
typedef struct cpu_row_panel {
  const void *source;
  int64_t source_step;
  void *target; /* may equal the source */
  int64_t target_step;
  int64_t length, width;
  int64_t ahead; /* distance in elements from the source to the panel that is read next; loops with
                  * more computation than memory traffic prefetch it. 0: unknown */
  bool tiny;     /* moments: deviations whose squares are not normal numbers count as well */
} cpu_row_panel;

/* `peak`, `total`, … have one entry per row. */
typedef struct cpu_row_way {
  /* peak = the largest element, −infinity if there is none; NaNs are ignored. */
  void (*maximum)(const cpu_row_panel *panel, double *peak);

  /* target = exponential_scale · exp(source − peak), total = the sum of exp(source − peak). Without
   * a target, only the sum. A peak of −infinity counts as 0. Exponentials too small for a float,
   * including exp(−infinity), become some tiny number. */
  void (*exponentials)(const cpu_row_panel *panel, const double *peak, double *total);

  /* mean = the mean, spread = the sum of squared differences from it, correct for all finite f32.
   * `length` is at least 1. */
  void (*moments)(const cpu_row_panel *panel, double *mean, double *spread);

  /* target = (source − shift) · factor + offset. For f32 the factor may be out of range of f32. */
  void (*scale)(const cpu_row_panel *panel, const double *shift, const double *factor,
                const double *offset);

  /* target = ((source − shift) · factor + offset) · gain[position] + bias[position]; only
   * "single". */
  void (*affine)(const cpu_row_panel *panel, const double *shift, const double *factor,
                 const double *offset, const void *gain, const void *bias);

  /* The same with gain, bias and target in bf16; only f32. */
  void (*affine_bf16)(const cpu_row_panel *panel, const double *shift, const double *factor,
                      const double *offset, const void *gain, const void *bias);

  /* target = (source − first) − second. */
  void (*subtract)(const cpu_row_panel *panel, const double *first, const double *second);

  /* target = softmax of whole rows, with the same infinities and NaNs as row.c; only "single". */
  void (*softmax)(const cpu_row_panel *panel);
} cpu_row_way;

typedef struct cpu_row_loops {
  cpu_row_way single, wide;
  double exponential_scale;
} cpu_row_loops;

CPU_DECLARE_FLOATS(cpu_row_loops, cpu_row);

/* ---- SCAN ------------------------------------------------------------------------------------ */

/* The inner loops of running sums, products, maxima and minima, by type and instruction set.
 *
 * Every row is divided into blocks of CPU_SCAN_BLOCK elements. A result is the prefix fold within
 * the block, combined with the fold of all blocks before it, so it does not depend on which thread
 * computes which block. */

enum {
  CPU_SCAN_BLOCK = 1024,
  CPU_SCAN_SHORT = 16,       /* elements of rows that `rows` scans */
  CPU_SCAN_STACK_BYTES = 64, /* of one element of each row of a stack */
};

/* Rows, or stacks of `width` neighbouring rows, with `length` elements. Distances in elements, for
 * the source and the result, which may be the same: between elements of a row, and between rows or
 * stacks. */
typedef struct cpu_scan_lines {
  const void *source;
  void *result;
  int64_t step[2], apart[2];
  int64_t count, length, width;
  bool exclusive;
} cpu_scan_lines;

typedef struct cpu_scan_loops {
  /* A block of up to CPU_SCAN_BLOCK elements along a row; local = its running fold. */
  void (*local)(void *local, const void *source, int64_t count);

  /* result[i] = carry combined with local[i] if inclusive. If exclusive, result[0] = carry and
   * result[i] = carry combined with local[i − 1]. */
  void (*finish)(void *result, const void *carry, const void *local, int64_t count, bool exclusive);

  /* One step of `count` neighbouring rows. */
  void (*step)(void *result, const void *carry, void *local, const void *source, int64_t count,
               bool exclusive);

  /* Whole short rows, in the order of local and finish. */
  void (*rows)(const cpu_scan_lines *lines);

  /* Whole stacks of few neighbouring rows, in the order of step. */
  void (*stacks)(const cpu_scan_lines *lines);

  void (*combine)(void *into, const void *other, int64_t count); /* into = into combined with
                                                                  * other */
  void (*clear)(void *values, int64_t count);                    /* fills with the neutral value */
  void (*identity)(void *value); /* the first value of an exclusive fold */
} cpu_scan_loops;

/* The folds of one element type: F64, F32, I64 or I32. */
typedef struct cpu_scan_folds {
  cpu_scan_loops fold[COMPUTE_COMBINE_MIN + 1]; /* by compute_combine */
} cpu_scan_folds;

CPU_DECLARE_NUMBERS(cpu_scan_folds, cpu_scan);

#endif
