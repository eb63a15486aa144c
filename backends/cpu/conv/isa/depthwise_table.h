/* SPDX-License-Identifier: MIT */
/* The loop of depthwise convolution with channels last, once per instruction set. */
#ifndef CPU_ISA_DEPTHWISE_TABLE_H
#define CPU_ISA_DEPTHWISE_TABLE_H

#include <stdint.h>

#include "core/isa.h"

enum { CPU_DEPTHWISE_MOST_ROWS = 64 }; /* ≥ MOST_FILTER_ROWS (core/kernel/kinds/conv.c) */

/* The results of f32 sums x: min(max(x + bias, low) + zero, high), as in finish_table.h. The bias
 * has one element per channel, with the data's dtype; so have the results. */
typedef struct cpu_depthwise_finish {
  const void *bias;
  float low, zero, high;
  /* a function of the f32 results, applied to rows in place (cpu_tile_rows_loop); or NULL */
  void (*after)(int64_t rows, int64_t count, float *y, int64_t row);
} cpu_depthwise_finish;

/* One row of results: sums[q][c] = the sum over filter rows r and columns s, in this order, of
 * weights[r][s][c] · rows[r][q · stride + s · dilation − padding][c], without taps outside a row.
 * Channels are contiguous; there are at least as many as a vector has lanes. */
typedef struct cpu_depthwise_line {
  const void *rows[CPU_DEPTHWISE_MOST_ROWS]; /* the data's column 0; NULL: outside the data */
  int64_t filter_rows, filter_columns;
  int64_t stride, dilation, padding, width; /* in pixels; width of the data */
  int64_t pixel;                            /* elements between pixels of the data */
  const void *weights; /* f32; or bytes, widened to 16 bits, in the low halves of words */
  int64_t weights_tap; /* elements between the weights of two taps */
  int64_t count, channels;
  void *sums; /* f32 or i32; the data's dtype if finished */
  int64_t sums_pixel;
  const cpu_depthwise_finish *finish; /* of f32 sums, before the store; or NULL */
} cpu_depthwise_line;

typedef void (*cpu_depthwise_loop)(const cpu_depthwise_line *line);

typedef struct cpu_depthwise_table {
  int32_t lanes;
  cpu_depthwise_loop run, run_bf16;  /* sums in f32 */
  cpu_depthwise_loop run_u8, run_i8; /* in i32 */
} cpu_depthwise_table;

CPU_DECLARE(cpu_depthwise_table, cpu_depthwise);
extern const cpu_depthwise_table cpu_depthwise_bf16_avx512; /* run_bf16, if CPU_BF16_AVX512 */

#endif
