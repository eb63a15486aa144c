/* SPDX-License-Identifier: MIT */
/* The loop of the programs that end most layers of networks, once per instruction set. */
#ifndef CPU_ISA_FINISH_TABLE_H
#define CPU_ISA_FINISH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* y = min(max((x + a) + (b + c), low) + zero, high) over rows of contiguous elements; NaN is kept.
 * `zero` is −0, which changes nothing, or 0, which turns −0 into +0. x is f32; a, b, c and y are
 * all f32, or all bf16. NULL omits an addend, and c requires b. y may share memory with an addend,
 * or with x if it has the same type. Rows are `_row` elements apart. */
typedef struct cpu_finish_lines {
  int64_t rows, count;
  const float *x;
  const void *a, *b, *c;
  int64_t x_row, a_row, b_row, c_row, y_row;
  bool a_repeats; /* one element of a per row */
  float low, zero, high;
  void *y;
} cpu_finish_lines;

typedef struct cpu_finish_table {
  void (*run)(const cpu_finish_lines *lines);      /* f32 */
  void (*run_bf16)(const cpu_finish_lines *lines); /* a, b, c and y */
} cpu_finish_table;

CPU_DECLARE(cpu_finish_table, cpu_finish);

#endif
