/* SPDX-License-Identifier: MIT */
/* Max pooling of square blocks, once per instruction set. conv_rows.c uses it on a panel's results
 * while they are near the core, or on sums in registers. Steps are in elements. */
#ifndef CPU_ISA_POOLED_TABLE_H
#define CPU_ISA_POOLED_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* rows × columns blocks of pool × pool pixels, with `channels` contiguous channels; the rows of x
 * are contiguous. If a block has a NaN, its result is NaN. */
typedef struct cpu_pooled_panel {
  int64_t pool, rows, columns, channels;
  const float *x;
  int64_t x_pixel;
  float *y;
  int64_t y_row, y_pixel;
} cpu_pooled_panel;

/* Max pooling of 2 × 2 sums of products for one panel of result channels, the columns of a tile of
 * the f32 product. A window is `runs` runs of `run` elements of x, `x_run` apart. The filter has a
 * line of the panel's channels for each element of the window. A sum becomes min(max(sum + bias,
 * low) + zero, high), as in finish_table.h; bias may be NULL. */
typedef struct cpu_pooled_windows {
  int64_t rows, columns; /* of blocks */
  int64_t runs, run, x_run;
  int64_t first[2], past[2]; /* runs of the upper and the lower sums of a block */
  const float *x;
  int64_t x_row, x_pixel; /* elements between the windows of two sums */
  const float *filter, *bias;
  float low, zero, high;
  float *y;
  int64_t y_row, y_pixel;
} cpu_pooled_windows;

typedef struct cpu_pooled_table {
  void (*run)(const cpu_pooled_panel *panel);
  void (*convolve)(const cpu_pooled_windows *windows);
  bool (*is_finite)(const float *x, int64_t count); /* of all elements */
} cpu_pooled_table;

CPU_DECLARE(cpu_pooled_table, cpu_pooled);

#endif
