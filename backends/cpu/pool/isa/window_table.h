/* SPDX-License-Identifier: MIT */
/* The inner loops of pooling, by computing type and instruction set.
 *
 * A line holds positions side by side, each of `lanes` elements side by side: 1 where rows of a
 * plane lie densely, all channels where channels do. window.c decides which lines meet. */
#ifndef CPU_ISA_WINDOW_TABLE_H
#define CPU_ISA_WINDOW_TABLE_H

#include <stdbool.h>

#include "core/isa.h"

/* Marks an element whose gradient belongs to somebody else's rows. */
#define CPU_WINDOW_ELSEWHERE INT64_MIN

/* Results of a line that counts as short. */
#define CPU_WINDOW_SHORT 256

/* Windows of 3 × 3 are taken in multiples of this many at most, whatever a line's length. */
#define CPU_WINDOW_WHOLE 16

/* Elements of the state that spread_maxima and spread_averages keep for each window. */
#define CPU_WINDOW_STATE 4

/* A row of windows of 3 × 3 (or 2 × 2) with stride 2, and of the data its first row, which it
 * shares with the windows above, and its middle one. Rows of the data, read or written, are given
 * from the first window's middle column on (of 2 × 2: the first column); one column may lie before.
 * Whole multiples of CPU_WINDOW_WHOLE windows are read and written. */
typedef struct cpu_window_threes {
  /* MAX: rows of the data. The first is NULL if it was the last of the windows before, or is not
   * there, which has_top tells; the last is NULL if it is not there. */
  const void *row[3];
  bool has_top;
  bool three;                    /* not 2 × 2 */
  bool left;                     /* whether there is a column before */
  int64_t windows, pairs, width; /* of results; of columns from the given one on; columns */
  const void *gradient;          /* NULL if there are no such windows */
  const void *columns;
  int64_t rows;    /* AVERAGE: elements of the windows along each dimension */
  void *target[2]; /* first and middle row; NULL: not written */
  void *state;     /* of the windows above, CPU_WINDOW_STATE elements for each: all bits are set
                      (MAX) or none (AVERAGE) where there are none above */
} cpu_window_threes;

typedef struct cpu_window_loops {
  /* result[q] = source[q·step + t·tap_step] folded over t = 0 … taps − 1, all in positions; taps is
   * at least 1, the result apart from the source. A NaN is the largest. */
  void (*maximum)(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
                  int64_t tap_step, int64_t lanes);

  /* Where source[q·step] is larger than best[q], or the first: it becomes that, and tap[q] becomes
   * `code`. With `pair` (step 2, one lane) then the same with source[q·step + 1] and code + 1. Taps
   * are signed integers as wide as the elements; −1 before the first. */
  void (*search)(void *best, void *tap, const void *source, int64_t count, int64_t step,
                 int64_t lanes, int64_t code, bool pair);

  void (*sum)(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
              int64_t tap_step, int64_t lanes); /* F types only, as all below */

  /* values[q] /= rows · columns[q] */
  void (*divide)(void *values, int64_t rows, const void *columns, int64_t count, int64_t lanes);

  /* All of it at once for windows of 2 × 2 that do not overlap, of one lane: the elements of two
   * lines become the source where `above` and `below` have the window's first largest, else 0. */
  void (*halve)(void *upper, void *lower, const void *above, const void *below, const void *source,
                int64_t count);

  /* target[q·step] += source[q]; with `pair` (step 2, one lane), also target[q·step + 1]. */
  void (*expand)(void *target, const void *source, int64_t count, int64_t step, int64_t lanes,
                 bool pair);

  /* target[q·step] += source[q] where tap[q] is `code`; with `pair` (step 2, one lane), also
   * target[q·step + 1] += source[q] where it is code + 1. Adds 0 elsewhere. */
  void (*deliver)(void *target, const void *source, const void *tap, int64_t count, int64_t step,
                  int64_t lanes, int64_t code, bool pair);

  /* target[offset[tap[q]] + q·step·lanes + lane] += source[q], tap by tap; offsets in elements. */
  void (*scatter)(void *target, const void *source, const void *tap, const int64_t *offset,
                  int64_t count, int64_t step, int64_t lanes);

  /* Planes that windows of 2 × 2 halve, of lines too short for loops along them: `rows` lines of
   * `count` results (at most CPU_WINDOW_SHORT), and twice as many lines of 2 · count elements, all
   * dense. halve_short does halve's work, the others fold; average_short divides, too. */
  void (*halve_short)(void *to, const void *data, const void *source, int64_t rows, int64_t count);
  void (*maximum_short)(void *result, const void *source, int64_t rows, int64_t count);
  void (*average_short)(void *result, const void *source, int64_t rows, int64_t count);

  /* Gradients of windows of 3 × 3 with stride 2, of one lane (F types only). */
  void (*spread_maxima)(const cpu_window_threes *windows);
  void (*spread_averages)(const cpu_window_threes *windows);
} cpu_window_loops;

CPU_DECLARE_NUMBERS(cpu_window_loops, cpu_window);
CPU_DECLARE(cpu_window_loops, cpu_window_u8); /* maximum only … */
CPU_DECLARE(cpu_window_loops, cpu_window_i8); /* … of several lanes */

#endif
