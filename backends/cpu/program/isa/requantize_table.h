/* SPDX-License-Identifier: MIT */
/* The loop that converts sums of quantized products to bytes, once per instruction set. */
#ifndef CPU_ISA_REQUANTIZE_TABLE_H
#define CPU_ISA_REQUANTIZE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* Larger quotients all give the same byte, so they may be limited to this. */
#define CPU_REQUANTIZE_LARGEST 0x1p22f

/* y = byte(round(min(max((f32)(x + offset) · scale + bias, low), high) / divisor) + zero) over rows
 * of contiguous elements; x − offset if it `subtracts`. The conversion saturates, and NaN becomes
 * 0. Offset, scale and bias have one number per row, or, with `_along`, one per element. Rows are
 * `_row` elements apart. A divisor of 1 costs nothing. */
typedef struct cpu_requantize_lines {
  int64_t rows, count;
  const int32_t *x;
  int64_t x_row;
  const int32_t *offset;
  const float *scale, *bias;
  int64_t offset_row, scale_row, bias_row;
  bool offset_along, scale_along, bias_along;
  bool subtracts;
  float low, high, divisor;
  float reciprocal; /* 1 / divisor, rounded; or 0 if a product with it and one Newton step do not
                     * give every quotient between `low` and `high` exactly */
  float rest; /* with `blocks`: value · reciprocal + value · rest, with a rounded second product,
               * gives quotients that round to the same whole numbers */
  int32_t zero;
  bool is_signed; /* y is i8 */
  /* `low` and `high` as bytes, + 128 if y is signed. `blocks`: limits may be applied to these bytes
   * instead, because the divisor is positive and has a reciprocal, and offset, scale and bias are
   * the same in all rows. */
  bool blocks;
  uint8_t least, most;
  uint8_t *y;
  int64_t y_row;
} cpu_requantize_lines;

typedef struct cpu_requantize_table {
  void (*run)(const cpu_requantize_lines *lines);
} cpu_requantize_table;

CPU_DECLARE(cpu_requantize_table, cpu_requantize);

#endif
