/* SPDX-License-Identifier: MIT */
/* The inner loops of pooling, by computing type and instruction set.
 *
 * A line has contiguous positions of `lanes` contiguous elements each: 1 if a plane's rows are
 * dense, all channels if channels are contiguous. window.c chooses the lines. */
#ifndef CPU_ISA_WINDOW_TABLE_H
#define CPU_ISA_WINDOW_TABLE_H

#include <stdbool.h>

#include "core/isa.h"

/* Marks an element whose gradient belongs to another unit's rows. */
#define CPU_WINDOW_ELSEWHERE INT64_MIN

/* Most results of a short line. */
#define CPU_WINDOW_SHORT 256

/* Windows of 3 × 3 are processed in multiples of at most this many, for any line length. */
#define CPU_WINDOW_WHOLE 16

/* Elements of state per window in spread_maxima and spread_averages. */
#define CPU_WINDOW_STATE 4

/* A row of 3 × 3 (or 2 × 2) windows with stride 2. Its first data row is shared with the windows
 * above; the second is its middle row. Data rows, read or written, start at the first window's
 * middle column (2 × 2: at its first column); one column may precede it. Reads and writes cover
 * whole multiples of CPU_WINDOW_WHOLE windows. */
typedef struct cpu_window_stride2 {
  /* MAX: rows of the data. The first is NULL if the windows above have processed it, or if it does
   * not exist (see has_top). The last is NULL if it does not exist. */
  const void *row[3];
  bool has_top;
  bool three;                    /* 3 × 3, not 2 × 2 */
  bool left;                     /* a column precedes the start column */
  int64_t windows, pairs, width; /* results; data pairs, columns from the start column on */
  const void *gradient;          /* NULL if there are no such windows */
  const void *columns;
  int64_t rows;    /* AVERAGE: row divisor; `columns` has the column divisors */
  void *target[2]; /* first and middle row; NULL: not written */
  /* Of the windows above, CPU_WINDOW_STATE elements each. If there are none, all bits are set (MAX)
   * or clear (AVERAGE). */
  void *state;
} cpu_window_stride2;

/* The rows of a row of windows: the first tap inside the data, the number of such taps, and what
 * AVERAGE divides by. */
typedef struct cpu_window_row {
  int64_t skip, taps, count;
} cpu_window_row;

/* Rows of windows of a plane, or all rows of several planes. Widths and distances are in elements.
 * No window is outside the data. */
typedef struct cpu_window_fold {
  const void *source; /* of a plane: `height` lines of `width` elements, `pitch` apart */
  int64_t height, width, pitch, source_plane;
  void *to;
  int64_t to_pitch, to_plane, row_count, columns; /* of results of a plane */
  int64_t planes;
  const cpu_window_row *rows; /* of result i: rows[i · row_step] */
  int64_t row_step;
  int64_t first, row_stride, row_dilation; /* first: the line of tap 0 of the first result */
  int64_t before;                          /* padding to the left */
  int64_t taps, tap_step, column_stride;
  const int64_t *offset;     /* of taps in a line that is dealt out to column_stride > 1 arrays */
  const void *divisors;      /* AVERAGE: the columns of windows; NULL: results are sums */
  void *room;                /* `block` lines of line_pitch elements; twice, with offsets */
  int64_t block, line_pitch; /* with more than one plane, all rows are in a block */
} cpu_window_fold;

typedef struct cpu_window_loops {
  /* result[q] = source[q·step + t·tap_step] folded over t = 0 … taps − 1; steps are in positions,
   * taps is at least 1, and the result does not overlap the source. NaN counts as the maximum. */
  void (*maximum)(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
                  int64_t tap_step, int64_t lanes);

  /* If source[q·step] is larger than best[q], or the first: best[q] becomes this element, and
   * tap[q] becomes `code`. With `pair` (step 2, lanes 1), the same then follows for source[q·step +
   * 1] and code + 1. Taps are signed integers as wide as the elements; −1 before the first. */
  void (*search)(void *best, void *tap, const void *source, int64_t count, int64_t step,
                 int64_t lanes, int64_t code, bool pair);

  void (*sum)(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
              int64_t tap_step, int64_t lanes); /* floats only, as all below */

  /* Windows of rows at once, with padding as elements that change no result. */
  void (*fold_maxima)(const cpu_window_fold *windows);
  void (*fold_sums)(const cpu_window_fold *windows);

  /* values[q] /= rows · columns[q] */
  void (*divide)(void *values, int64_t rows, const void *columns, int64_t count, int64_t lanes);

  /* Search and delivery in one loop, for 2 × 2 windows without overlap and lanes 1: the elements of
   * two lines become the source where `above` and `below` have the window's first maximum, else
   * 0. */
  void (*halve)(void *upper, void *lower, const void *above, const void *below, const void *source,
                int64_t count);

  /* target[q·step] += source[q]; with `pair` (step 2, lanes 1), also target[q·step + 1]. */
  void (*expand)(void *target, const void *source, int64_t count, int64_t step, int64_t lanes,
                 bool pair);

  /* target[q·step] += source[q] if tap[q] is `code`; with `pair` (step 2, lanes 1), also
   * target[q·step + 1] += source[q] if it is code + 1. Adds 0 otherwise. */
  void (*deliver)(void *target, const void *source, const void *tap, int64_t count, int64_t step,
                  int64_t lanes, int64_t code, bool pair);

  /* target[offset[tap[q]] + q·step·lanes + lane] += source[q], tap by tap; offsets in elements. */
  void (*scatter)(void *target, const void *source, const void *tap, const int64_t *offset,
                  int64_t count, int64_t step, int64_t lanes);

  /* For planes that 2 × 2 windows halve, with lines too short for loops along them: `rows` lines of
   * `count` results (at most CPU_WINDOW_SHORT), and twice as many lines of 2 · count elements, all
   * dense. halve_short is the equivalent of halve, the others fold; average_short divides as
   * well. */
  void (*halve_short)(void *to, const void *data, const void *source, int64_t rows, int64_t count);
  void (*maximum_short)(void *result, const void *source, int64_t rows, int64_t count);
  void (*average_short)(void *result, const void *source, int64_t rows, int64_t count);

  /* Gradients of 3 × 3 windows with stride 2, for lanes 1 (floats only). */
  void (*spread_maxima)(const cpu_window_stride2 *windows);
  void (*spread_averages)(const cpu_window_stride2 *windows);
} cpu_window_loops;

CPU_DECLARE_NUMBERS(cpu_window_loops, cpu_window);
CPU_DECLARE(cpu_window_loops, cpu_window_u8); /* maximum only … */
CPU_DECLARE(cpu_window_loops, cpu_window_i8); /* … if lanes > 1 */

#endif
