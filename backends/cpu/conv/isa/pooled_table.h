/* SPDX-License-Identifier: MIT */
/* The largest results of square blocks, once per instruction set: what conv_rows.c makes of a
 * panel's results while they are near the core, or of sums while they are in registers. Steps are
 * in elements. */
#ifndef CPU_ISA_POOLED_TABLE_H
#define CPU_ISA_POOLED_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* rows × columns blocks of pool × pool pixels of `channels` channels, which lie side by side; the
 * rows of x follow each other. A NaN is the largest. */
typedef struct cpu_pooled_panel {
  int64_t pool, rows, columns, channels;
  const float *x;
  int64_t x_pixel;
  float *y;
  int64_t y_row, y_pixel;
} cpu_pooled_panel;

/* The same of 2 × 2 sums of products for one panel of result channels, the columns of a tile of the
 * f32 product: a window is `runs` runs of `run` elements of x, `x_run` apart, and the filter has a
 * line of the panel's channels for each of its elements. A sum becomes
 * min(max(sum + bias, low) + zero, high), as in finish_table.h, where bias may be NULL. */
typedef struct cpu_pooled_windows {
  int64_t rows, columns; /* of blocks */
  int64_t runs, run, x_run;
  int64_t first[2], past[2]; /* the runs of the upper and lower sums of each block */
  const float *x;
  int64_t x_row, x_pixel; /* from one sum's window to the next one's */
  const float *filter, *bias;
  float low, zero, high;
  float *y;
  int64_t y_row, y_pixel;
} cpu_pooled_windows;

typedef struct cpu_pooled_table {
  void (*run)(const cpu_pooled_panel *panel);
  void (*convolve)(const cpu_pooled_windows *windows);
  bool (*is_finite)(const float *x, int64_t count); /* all elements */
} cpu_pooled_table;

CPU_DECLARE(cpu_pooled_table, cpu_pooled);

#endif
