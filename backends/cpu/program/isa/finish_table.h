/* SPDX-License-Identifier: MIT */
/* The loop of the programs that end most layers of networks, once per instruction set. */
#ifndef CPU_ISA_FINISH_TABLE_H
#define CPU_ISA_FINISH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* y = min(max((x + a) + (b + c), low) + zero, high) over rows of elements side by side; a NaN stays
 * one. `zero` is −0, which changes nothing, or 0, which makes −0 positive.
 * x is f32; a, b, c and y are f32, or all of them bf16. NULL leaves an addend out, and c is only
 * there with b. y may be an addend, or x if that has its type. Rows are `_row` elements apart. */
typedef struct cpu_finish_lines {
  int64_t rows, count;
  const float *x;
  const void *a, *b, *c;
  int64_t x_row, a_row, b_row, c_row, y_row;
  bool a_repeats; /* one element of a for each row */
  float low, zero, high;
  void *y;
} cpu_finish_lines;

typedef struct cpu_finish_table {
  void (*run)(const cpu_finish_lines *lines);      /* f32 */
  void (*run_bf16)(const cpu_finish_lines *lines); /* a, b, c and y */
} cpu_finish_table;

CPU_DECLARE(cpu_finish_table, cpu_finish);

#endif
