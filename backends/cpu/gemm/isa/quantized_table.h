/* SPDX-License-Identifier: MIT */
/* Expands numbers of a few bits to floats, and computes dot products with them; once per
 * instruction set. */
#ifndef CPU_ISA_QUANTIZED_TABLE_H
#define CPU_ISA_QUANTIZED_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* Columns of a right factor. Each column has bytes, and one scale and one zero point per block, all
 * contiguous; columns are `_column` elements apart. */
typedef struct cpu_quantized_columns {
  const uint8_t *numbers;
  const float *scale, *zero;
  int64_t numbers_column, scale_column, zero_column;
  int64_t block; /* in numbers */
  int32_t bits;
} cpu_quantized_columns;

enum { CPU_QUANTIZED_ROWS = 8 }; /* most rows of `dot` */

typedef struct cpu_quantized_table {
  /* Expands the numbers first … first + count − 1 of the first column. */
  void (*expand)(const cpu_quantized_columns *columns, int64_t first, int64_t count, float *to);

  /* Expands `width` columns, the width of a panel, interleaved: to[p · width + j]. `scale` and
   * `zero` are interleaved the same way, starting with the block of `first`; those in `columns` are
   * not used. The numbers of a block, and the numbers before `first`, must fill words of 32 bits.
   * NULL if there is no loop. */
  void (*panel)(const cpu_quantized_columns *columns, const float *scale, const float *zero,
                int64_t first, int64_t count, int64_t width, float *to);

  /* Dot products with up to CPU_QUANTIZED_ROWS rows of A, a_row elements apart. sums[i · sums_row +
   * j] is row i times column j, over k numbers; k is a multiple of `group`. `group` returns 0 if
   * there is no loop for such numbers. All three functions are NULL if there are no loops at all.
   * Rows of A must be in the loop's order; `arrange` puts them there. An element's sum does not
   * depend on the number of rows or columns. */
  int32_t (*group)(int32_t bits, int64_t block);
  void (*arrange)(int32_t bits, int64_t block, float *row, int64_t count);
  void (*dot)(const cpu_quantized_columns *columns, int64_t count, const float *a, int64_t a_row,
              int64_t rows, int64_t k, float *sums, int64_t sums_row);
} cpu_quantized_table;

CPU_DECLARE(cpu_quantized_table, cpu_quantized);

#endif
