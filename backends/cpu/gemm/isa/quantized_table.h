/* SPDX-License-Identifier: MIT */
/* Numbers of a few bits as floats, and dot products with them, once per instruction set. */
#ifndef CPU_ISA_QUANTIZED_TABLE_H
#define CPU_ISA_QUANTIZED_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* Columns of a right factor: of each its bytes, and a scale and a zero point for each block, side
 * by side; `_column` elements from one column to the next. */
typedef struct cpu_quantized_columns {
  const uint8_t *numbers;
  const float *scale, *zero;
  int64_t numbers_column, scale_column, zero_column;
  int64_t block; /* numbers */
  int32_t bits;
} cpu_quantized_columns;

enum { CPU_QUANTIZED_ROWS = 8 }; /* of `dot`, at most */

typedef struct cpu_quantized_table {
  /* The numbers first … first + count − 1 of the first column. */
  void (*expand)(const cpu_quantized_columns *columns, int64_t first, int64_t count, float *to);

  /* The same of `width` columns, those of a panel of products, side by side: to[p · width + j]. So
   * lie scales and zero points of each block, of which the first is that of `first`, and `columns`
   * has neither. Numbers of a block, and those before `first`, fill words of 32 bits. NULL if there
   * is no loop. */
  void (*panel)(const cpu_quantized_columns *columns, const float *scale, const float *zero,
                int64_t first, int64_t count, int64_t width, float *to);

  /* Dot products with up to CPU_QUANTIZED_ROWS rows of A, a_row elements apart: sums[i · sums_row +
   * j] of row i with column j, over k numbers, a multiple of `group`: 0 if there is no loop for
   * such numbers; NULL, as all three, if there is none at all. Rows of A have been put in the
   * loop's order by `arrange`. An element's sum depends neither on the number of rows nor on that
   * of columns. */
  int32_t (*group)(int32_t bits, int64_t block);
  void (*arrange)(int32_t bits, int64_t block, float *row, int64_t count);
  void (*dot)(const cpu_quantized_columns *columns, int64_t count, const float *a, int64_t a_row,
              int64_t rows, int64_t k, float *sums, int64_t sums_row);
} cpu_quantized_table;

CPU_DECLARE(cpu_quantized_table, cpu_quantized);

#endif
