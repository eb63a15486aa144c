/* SPDX-License-Identifier: MIT */
/* The loop that turns sums of quantized products into bytes, once per instruction set. */
#ifndef CPU_ISA_REQUANTIZE_TABLE_H
#define CPU_ISA_REQUANTIZE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* Quotients beyond these are none that bytes tell apart, and may become these. */
#define CPU_REQUANTIZE_LARGEST 0x1p22f

/* y = byte(round(min(max((f32)(x + offset) · scale + bias, low), high) / divisor) + zero) over rows
 * of contiguous elements, with x − offset if it `subtracts`. The conversion saturates and makes 0
 * of a NaN. Of offset, scale and bias each row has one number at its pointer, or, with `along`, as
 * many as elements. Rows are `_row` elements apart. A divisor of 1 costs nothing. */
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
  float reciprocal; /* of the divisor, rounded; or 0, if a product with it and a step of Newton's
                     * do not give each quotient between `low` and `high` */
  float rest; /* with `blocks`: value · reciprocal + value · rest, the second product rounded, is
               * the quotient up to what rounding to whole numbers does not tell apart */
  int32_t zero;
  bool is_signed; /* y is i8 */
  /* What `low` and `high` become, + 128 if y is signed; `blocks`: limits may be applied to these
   * bytes instead, as the divisor is positive and has a reciprocal, and offset, scale and bias are
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
