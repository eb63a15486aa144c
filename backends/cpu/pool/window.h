/* SPDX-License-Identifier: MIT */
/* Pooling on the CPU: the declarations that its files share.
 *
 *   window.c          makes a kernel: reads the descriptor, chooses lines and units of work
 *   window_lines.c    finds the data of a unit, reads lines, and runs the epilogue over results
 *   window_fold.c     folds the windows of a unit
 *   window_unit.c     finds the maxima of a unit, or distributes gradients
 *   window_stride2.c  distributes gradients for 3 × 3 windows with stride 2, and 2 × 2 averages
 *
 * A plane's row is a line: contiguous positions, with one element each, or with all channels if
 * channels are contiguous. Rows are read in place if they are such lines of the computing type;
 * otherwise a unit's rows are converted first. A window is folded over its rows, then over its
 * columns. So neighbouring windows share most of the work, and all loops run along lines. */
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

/* Results first … end − 1 of a line: tap s is inside the data; if `pair`, s + 1 is as well. */
typedef struct window_share {
  int64_t first, end, s;
  bool pair;
} window_share;

typedef struct cpu_window {
  cpu_kernel head;
  compute_window_attributes shape;
  int64_t size[4];         /* of the results */
  int64_t plane;           /* elements of one plane of the data */
  uint32_t element, value; /* bytes of an element of a line, and of a window's result */
  compute_dtype type;
  const cpu_window_loops *loops;
  window_operand input[2]; /* of the window, without the epilogue */
  uint32_t input_count, extra_count, output_count;
  window_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs, from input 1 on */
  window_operand output[COMPUTE_MAX_OPERANDS];
  cpu_program *epilogue;
  bool in_place;         /* results are computed directly in the output */
  bool turns;            /* the only epilogue is a transposition from lines of channels to planes */
  int64_t lanes, groups; /* channels per position of a line; groups of them */
  int64_t rows, columns; /* of results, in one unit */
  int64_t bands, chunks, units, per_task, tasks;
  int64_t first_inside, end_inside; /* forward: columns whose windows are inside the data */
  uint64_t worker_bytes, source_bytes, line_bytes, values_bytes, offset_bytes;
  window_share *taps;   /* by data: one per column of the window */
  window_share *shares; /* the same, in the order of adding gradients */
  int64_t share_count;
  bool merged; /* all planes are one; no window extends past the data's rows */
  /* Forward, if one loop folds all rows of a unit (else NULL): the rows of windows, or of the first
   * row if `merged`; elements of a padded line; lines folded together; and, with a stride along
   * lines, the taps' places. */
  cpu_window_row *fold_rows;
  int64_t fold_pitch, fold_block, *fold_offsets;
  int64_t planes, source_plane, result_plane; /* planes in one unit, and elements between them */
  bool halves;       /* by data: 2 × 2 windows that neither overlap nor leave the data */
  bool halves_short; /* 2 × 2 windows of short, dense lines */
  bool stride2;      /* by data: 3 × 3 windows with stride 2, or 2 × 2 averages */
  bool dense[3];     /* with `stride2`: all planes of an input, or of the output, form one line */
  /* AVERAGE: per result column, the elements of its window; then 1 for each column read past
   * them. */
  unsigned char *counts;
} cpu_window;

typedef struct window_launch {
  const cpu_window *kernel;
  void *const *pointers;
  unsigned char *workers;
} window_launch;

typedef struct window_unit {
  int64_t image, channel;
  int64_t row, rows, column, columns; /* of the results */
  int64_t planes;                     /* from this one on; more than one if all are whole */
} window_unit;

/* Rows of an input of the window, as lines. */
typedef struct window_lines {
  const unsigned char *data;  /* at position (row, column) */
  int64_t row, column, pitch; /* pitch: elements between two lines */
} window_lines;

window_unit window_find_unit(const cpu_window *kernel, int64_t unit);

/* Reads rows row … row + rows − 1, columns column … column + columns − 1 of inputs[which] as lines:
 * in place, or converted into `room`. */
window_lines window_read(const window_launch *l, int which, const window_unit *unit, int64_t row,
                         int64_t rows, int64_t column, int64_t columns, unsigned char *room);

/* Runs the epilogue over a unit's results, in lines of `columns` positions. */
void window_finish(const window_launch *l, const window_unit *unit, unsigned char *values);

/* Address of a unit's line `row` in the output. */
unsigned char *window_output(const window_launch *l, const window_unit *unit, int64_t row);

/* Merges contiguous planes without windows across them into one plane, so that small planes cost no
 * more than parts of large ones. Call it before lines and units are chosen. */
void window_merge_planes(cpu_window *kernel);

/* Set halves_short and dense, once lines are chosen. */
void window_find_short_halves(cpu_window *kernel);
void window_find_dense(cpu_window *kernel);

void window_find_unit_maxima(const window_launch *l, int64_t unit, unsigned char *scratch);
/* Sets the members for folding all rows of a unit, and line_bytes, if possible. Call it when units
 * have been chosen. */
compute_status window_fold_prepare(cpu_window *kernel);
void window_fold_unit(const window_launch *l, int64_t unit, unsigned char *scratch);
compute_status window_gradient_prepare(cpu_window *kernel);
void window_gradient_unit(const window_launch *l, int64_t unit, unsigned char *scratch);

/* window_stride2.c: `true` if it supports the gradient; its scratch memory; and a unit, with
 * `line_count` readable rows of data. */
bool window_has_stride2(const cpu_window *kernel);
uint64_t window_stride2_bytes(const cpu_window *kernel);
void window_stride2_unit(const window_launch *l, int64_t number, const window_unit *unit,
                         const window_lines *lines, int64_t line_count, unsigned char *target,
                         int64_t pitch, unsigned char *room);

/* Finds the taps of dimension d that are inside the data for result `i`: *first … *end − 1. */
void window_taps(const compute_window_attributes *w, int d, int64_t i, int64_t *first,
                 int64_t *end);

/* The data that windows first … first + count − 1 of dimension d cover, clipped to the existing
 * ones. */
void window_reach(const compute_window_attributes *w, int d, int64_t first, int64_t count,
                  int64_t *from, int64_t *size);

/* The divisor of AVERAGE along dimension d. */
int64_t window_count(const compute_window_attributes *w, int d, int64_t i);

/* Finds the results of dimension d whose windows contain data first … end − 1, at least in part. */
void window_results(const compute_window_attributes *w, int d, int64_t first, int64_t end,
                    int64_t *from, int64_t *to);

#endif
