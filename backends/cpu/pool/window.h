/* SPDX-License-Identifier: MIT */
/* Pooling on the CPU, inside: what its files share.
 *
 *   window.c       makes a kernel: reads the descriptor, picks lines and units of work; reads
 *                  lines, and runs the epilogue over finished ones
 *   window_unit.c  a unit: forward it folds windows or finds their maxima, by data it gives
 *                  gradients out
 *   window_threes.c  the same by data for windows of 3 × 3 with stride 2, averages of 2 × 2
 *
 * A plane's row is a line: positions side by side, of one element each, or, where channels lie
 * side by side, of all channels. Rows are read where they lie if they are such lines of the
 * computing type; otherwise a unit's rows are converted first. A window is folded over its rows,
 * then over its columns, so that neighbouring windows share most of the work and all loops run
 * along lines. */
#ifndef CPU_WINDOW_H
#define CPU_WINDOW_H

#include "program/program.h"
#include "pool/isa/window_table.h"
#include "core/nest.h"

typedef struct window_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t stride[4];
  bool direct; /* rows are lines of the computing type */
} window_operand;

/* Results first … end − 1 of a line, whose tap s lies in the data; pair: and s + 1, too. */
typedef struct window_share {
  int64_t first, end, s;
  bool pair;
} window_share;

typedef struct cpu_window {
  cpu_kernel head;
  compute_window_attributes shape;
  int64_t size[4];         /* the space */
  int64_t plane;           /* elements of one plane of the data */
  uint32_t element, value; /* bytes of an element of a line, and of what a window becomes */
  compute_dtype type;
  const cpu_window_loops *loops;
  window_operand input[2]; /* of the window itself */
  uint32_t input_count, extra_count, output_count;
  window_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs from its number 1 on */
  window_operand output[COMPUTE_MAX_OPERANDS];
  cpu_program *epilogue;
  bool in_place;         /* results may be written where they belong */
  bool turns;            /* they only have to be turned: from lines of channels to planes */
  int64_t lanes, groups; /* groups of lanes in the channels */
  int64_t rows, columns; /* of the space in one unit */
  int64_t bands, chunks, units, per_task, tasks;
  int64_t first_inside, end_inside; /* forward: columns whose windows lie inside the data */
  uint64_t worker_bytes, source_bytes, line_bytes, values_bytes, offset_bytes;
  window_share *taps;   /* by data: for each column of the window */
  window_share *shares; /* the same in the order in which they are given their gradients */
  int64_t share_count;
  bool halves;           /* by data: windows of 2 × 2 that neither overlap nor leave the data */
  bool halves_short;     /* windows of 2 × 2 that are all of dense lines, and those short */
  bool threes;           /* by data: windows of 3 × 3 with stride 2, or averages of 2 × 2 */
  bool dense[3];         /* then: whether all planes of an input, or of the output, are one line */
  unsigned char *counts; /* AVERAGE: of every result column, the elements of its window, and as
                            many 1 as read too far */
} cpu_window;

typedef struct window_launch {
  const cpu_window *kernel;
  void *const *pointers;
  unsigned char *workers;
} window_launch;

typedef struct window_unit {
  int64_t image, channel;
  int64_t row, rows, column, columns; /* of the space */
} window_unit;

/* Rows of an operand of the window, as lines. */
typedef struct window_lines {
  const unsigned char *data;  /* of position (row, column) */
  int64_t row, column, pitch; /* pitch: elements from line to line */
} window_lines;

window_unit window_find_unit(const cpu_window *kernel, int64_t unit);

/* Lines of rows row … row + rows − 1, columns column … column + columns − 1 of inputs[which], where
 * they lie or in `room`. */
window_lines window_read(const window_launch *l, int which, const window_unit *unit, int64_t row,
                         int64_t rows, int64_t column, int64_t columns, unsigned char *room);

/* Results of a unit, in lines of `columns` positions. */
void window_finish(const window_launch *l, const window_unit *unit, unsigned char *values);

/* Where a unit's line `row` of the output is. */
unsigned char *window_output(const window_launch *l, const window_unit *unit, int64_t row);

/* Makes one plane of all planes that follow each other without a window across them, so that small
 * planes cost no more than parts of large ones. Before lines and units are chosen. */
void window_merge_planes(cpu_window *kernel);

/* Sets halves_short, and dense, once lines are chosen. */
void window_find_short_halves(cpu_window *kernel);
void window_find_dense(cpu_window *kernel);

void window_find_unit_maxima(const window_launch *l, int64_t unit, unsigned char *scratch);
void window_fold_unit(const window_launch *l, int64_t unit, unsigned char *scratch);
compute_status window_gradient_prepare(cpu_window *kernel);
void window_gradient_unit(const window_launch *l, int64_t unit, unsigned char *scratch);

/* window_threes.c: whether it knows the gradient, its scratch memory, and a unit, of whose data
 * `line_count` rows may be read. */
bool window_has_threes(const cpu_window *kernel);
uint64_t window_threes_bytes(const cpu_window *kernel);
void window_threes_unit(const window_launch *l, int64_t number, const window_unit *unit,
                        const window_lines *lines, int64_t line_count, unsigned char *target,
                        int64_t pitch, unsigned char *room);

/* Taps of dimension d whose elements of result `i` lie in the data: *first … *end − 1. */
void window_taps(const compute_window_attributes *w, int d, int64_t i, int64_t *first,
                 int64_t *end);

/* By how many elements AVERAGE divides along dimension d. */
int64_t window_count(const compute_window_attributes *w, int d, int64_t i);

/* Results of dimension d whose windows have an element in data first … end − 1. */
void window_results(const compute_window_attributes *w, int d, int64_t first, int64_t end,
                    int64_t *from, int64_t *to);

#endif
