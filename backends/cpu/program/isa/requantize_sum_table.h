/* SPDX-License-Identifier: MIT */
/* The loop that converts the sum or the product of two tensors of bytes to bytes, once per
 * instruction set. */
#ifndef CPU_ISA_REQUANTIZE_SUM_TABLE_H
#define CPU_ISA_REQUANTIZE_SUM_TABLE_H

#include "requantize_table.h"

/* (f32(x) − zero) · scale of contiguous bytes in rows, `row` apart. */
typedef struct cpu_requantize_term {
  const uint8_t *from;
  int64_t row;
  bool is_signed;
  float zero, scale;
  float factor; /* 0, or a factor for the raw bytes: x · factor of both terms plus `added`, in two
                 * multiply-adds, are quotients that round to the same bytes for all x */
  float added;
} cpu_requantize_term;

typedef struct cpu_requantize_sum_table {
  /* Rows as in requantize_table.h, with the sum of two terms instead of the value from x, offset,
   * scale and bias. Requires lines->blocks, and no sum above CPU_REQUANTIZE_LARGEST divisors. y may
   * share memory with one of the terms. */
  void (*run)(const cpu_requantize_term terms[2], const cpu_requantize_lines *lines);
  /* The same with the product of the terms. */
  void (*multiply)(const cpu_requantize_term terms[2], const cpu_requantize_lines *lines);
  /* Finds such factors if they exist. */
  void (*find_factors)(cpu_requantize_term terms[2], const cpu_requantize_lines *lines);
} cpu_requantize_sum_table;

CPU_DECLARE(cpu_requantize_sum_table, cpu_requantize_sum);

#endif
