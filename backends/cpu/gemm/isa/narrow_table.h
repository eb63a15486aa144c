/* SPDX-License-Identifier: MIT */
/* Products of a small matrix and a long one, by element type and instruction set. */
#ifndef CPU_NARROW_TABLE_H
#define CPU_NARROW_TABLE_H

#include <stdbool.h>

#include "core/isa.h"

enum {
  CPU_NARROW_ROWS = 16,  /* most rows of A and C */
  CPU_NARROW_DEPTH = 32, /* most of k */
  CPU_NARROW_BYTES = 256 /* of the columns of one call */
};

/* C (m × n) = A (m × k) · B (k × n) · factor, strides in elements. n is at most CPU_NARROW_BYTES of elements.
 * One of b_k and b_column is 1, and one of c_row and c_column. */
typedef struct cpu_narrow_block {
  int64_t m, n, k;
  const void *a;
  int64_t a_row, a_k;
  const void *b;
  int64_t b_k, b_column;
  void *c;
  int64_t c_row, c_column;
  double factor; /* of f32: an f32 */
} cpu_narrow_block;

typedef struct cpu_narrow_loops {
  void (*multiply)(const cpu_narrow_block *block);
  /* Copies m rows of n elements, CPU_NARROW_BYTES apart, to the columns of C: lines of m elements,
   * c_column apart. */
  void (*turn_out)(const cpu_narrow_block *block, const void *rows);
} cpu_narrow_loops;

CPU_DECLARE_FLOATS(cpu_narrow_loops, cpu_narrow);

enum {
  CPU_NARROW_BYTE_ROWS = 8, /* most rows of A and C */
  CPU_NARROW_PIECE = 16     /* rows of A end with zeros after a multiple of so many elements */
};

/* C (m × n) = A (m × k) · B (k × n), B with contiguous lines of k bytes, b_column apart. */
typedef struct cpu_narrow_bytes_block {
  int64_t m, n, k;
  const int16_t *a; /* bytes, widened */
  int64_t a_row;
  const uint8_t *b;
  int64_t b_column;
  bool b_signed;
  int32_t *c;
  int64_t c_row;
} cpu_narrow_bytes_block;

typedef struct cpu_narrow_bytes_loops {
  void (*multiply)(const cpu_narrow_bytes_block *block);
} cpu_narrow_bytes_loops;

CPU_DECLARE(cpu_narrow_bytes_loops, cpu_narrow_bytes);

#endif
