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

/* Windows of 3 × 3 are taken in multiples of this many, whatever a line's length. */
#define CPU_WINDOW_WHOLE 16

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

  /* Maxima of 3 × 3 windows with stride 2, of one lane (F types only). All of these take whole
   * multiples of CPU_WINDOW_WHOLE windows: lines have room for them, and for as many again behind.
   *
   * search_three: of one row, the largest column of every window and which it is, 0 … 2. Window i
   * has source[2i] in its middle; `before` is the column before the first one, NULL if there is
   * none; there are `width` columns from the source on. `room` is for three lines. */
  void (*search_three)(void *best, void *column, const void *source, void *room, const void *before,
                       int64_t windows, int64_t width);

  /* The largest of three such rows (the first and the last may be missing: best[i] is NULL), as
   * 3 · row + column, and −1 after `windows` of them up to the room's end. */
  void (*choose_three)(void *code, const void *const best[3], const void *const column[3],
                       int64_t windows, int64_t room);

  /* Elements of a row that is the last of windows `above` and the first of windows `below` (codes
   * of choose_three; one may be NULL), or the middle of windows. `left` is that column before. */
  void (*deliver_three)(void *target, void *left, const void *above, const void *above_gradient,
                        const void *below, const void *below_gradient, int64_t windows);
  void (*deliver_middle)(void *target, void *left, const void *code, const void *gradient,
                         int64_t windows);
} cpu_window_loops;

CPU_DECLARE_NUMBERS(cpu_window_loops, cpu_window);
CPU_DECLARE(cpu_window_loops, cpu_window_u8); /* maximum only … */
CPU_DECLARE(cpu_window_loops, cpu_window_i8); /* … of several lanes */

#endif
