/* SPDX-License-Identifier: MIT */
/* The loop that makes bytes of the sum of two tensors of bytes, once per instruction set. */
#ifndef CPU_ISA_REQUANTIZE_SUM_TABLE_H
#define CPU_ISA_REQUANTIZE_SUM_TABLE_H

#include "requantize_table.h"

/* (f32(x) − zero) · scale of bytes that lie side by side in rows, `row` from one to the next. */
typedef struct cpu_requantize_term {
  const uint8_t *from;
  int64_t row;
  bool is_signed;
  float zero, scale;
  float factor; /* or 0; with one, x · factor of both terms, of the bytes themselves, and `added`,
                 * in two multiply-adds, are quotients that become the same bytes for all x */
  float added;
} cpu_requantize_term;

typedef struct cpu_requantize_sum_table {
  /* Rows as in requantize_table.h, of the sum of two terms instead of that of x, offset, scale and
   * bias; lines->blocks, and no sum exceeds CPU_REQUANTIZE_LARGEST divisors. y may be one of the
   * terms' bytes. */
  void (*run)(const cpu_requantize_term terms[2], const cpu_requantize_lines *lines);
  /* Finds such factors, if there are any. */
  void (*find_factors)(cpu_requantize_term terms[2], const cpu_requantize_lines *lines);
} cpu_requantize_sum_table;

CPU_DECLARE(cpu_requantize_sum_table, cpu_requantize_sum);

#endif
