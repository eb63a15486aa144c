/* SPDX-License-Identifier: MIT */
/* The loop of the programs that end most layers of networks, once per instruction set. */
#ifndef CPU_ISA_FINISH_TABLE_H
#define CPU_ISA_FINISH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* y = min(max((x + a) + (b + c), low) + zero, high) over rows of elements side by side; a NaN stays
 * one. `zero` is −0, which changes nothing, or 0, which makes −0 positive.
 * NULL leaves an addend out, and c is only there with b. y may be x or an addend. Rows are `_row`
 * elements apart. */
typedef struct cpu_finish_lines {
  int64_t rows, count;
  const float *x, *a, *b, *c;
  int64_t x_row, a_row, b_row, c_row, y_row;
  bool a_repeats; /* one element of a for each row */
  float low, zero, high;
  float *y;
} cpu_finish_lines;

typedef struct cpu_finish_table {
  void (*run)(const cpu_finish_lines *lines);
} cpu_finish_table;

CPU_DECLARE(cpu_finish_table, cpu_finish);

#endif
