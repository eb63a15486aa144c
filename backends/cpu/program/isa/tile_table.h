/* SPDX-License-Identifier: MIT */
/* The loops behind one program instruction, by computing type and instruction set.
 *
 * A loop computes `count` results from operands that are dense arrays, or, depending on the
 * variant, one repeated element. The result may be exactly an operand's array, but must not
 * otherwise overlap it. Nothing is assumed about alignment beyond the element's own.
 *
 * Values of type BOOL are masks here, int32_t 0 or -1: the natural result of a comparison and input
 * of a select, without packing to bytes in between. */
#ifndef CPU_ISA_TILE_TABLE_H
#define CPU_ISA_TILE_TABLE_H

#include "compute/backend.h"
#include "core/isa.h"

typedef enum cpu_type {
  CPU_TYPE_F64 = 0,
  CPU_TYPE_F32 = 1,
  CPU_TYPE_I64 = 2,
  CPU_TYPE_I32 = 3,
  CPU_TYPE_BOOL = 4,
  CPU_TYPE_COUNT = 5
} cpu_type;

/* Which operands are one element. Bit 0: operand a (of SELECT: b), bit 1: operand b (of SELECT: c).
 * Unary loops have variant 0 only; variant 3 exists for SELECT only, whose condition is dense. */
#define CPU_TILE_VARIANTS 4

/* `immediate` is the instruction's: a slope, say, or the stream of RANDOM. */
typedef union cpu_immediate {
  double f64;
  int64_t i64;
} cpu_immediate;

typedef void (*cpu_tile_loop)(int64_t count, void *result, const void *a, const void *b,
                              const void *c, cpu_immediate immediate);

/* Loops of one computing type: that of the operands, for SELECT that of b and c. NULL where the
 * instruction does not exist for the type. */
typedef cpu_tile_loop cpu_tile_loops[COMPUTE_I_END][CPU_TILE_VARIANTS];

/* A function of f32 in place: `rows` rows of `count` elements, `row` apart. NULL for instructions
 * without such a loop. */
typedef void (*cpu_tile_rows_loop)(int64_t rows, int64_t count, float *y, int64_t row);
typedef cpu_tile_rows_loop cpu_tile_rows[COMPUTE_I_END];

/* A dtype's elements, `stride` apart, to values of its computing type and back. */
typedef void (*cpu_load_loop)(int64_t count, void *result, const void *source, int64_t stride);
typedef void (*cpu_store_loop)(int64_t count, void *destination, int64_t stride,
                               const void *source);
typedef void (*cpu_convert_loop)(int64_t count, void *result, const void *source);

/* destination[c][r] = source[r][c]; strides in bytes. */
typedef void (*cpu_transpose_block)(int64_t rows, int64_t columns, const void *source,
                                    int64_t source_stride, void *destination,
                                    int64_t destination_stride);

struct cpu_tile_table {
  const cpu_tile_loops *compute[CPU_TYPE_COUNT];
  const cpu_tile_rows *rows;

  /* [from][to]; from a type to itself it is a copy. */
  const cpu_convert_loop (*cast)[CPU_TYPE_COUNT];

  /* [from]: prepares values of a type for `store` as a dtype with another computing type. Not
   * always the cast: it saturates to u8 and u16, and rounds f64 to f16 only once. */
  const cpu_convert_loop (*narrow)[COMPUTE_DTYPE_COUNT];

  const cpu_load_loop *load;            /* [dtype] */
  const cpu_store_loop *store;          /* [dtype] */
  const cpu_transpose_block *transpose; /* [log2 of the element's bytes] */
  void (*fill)(int64_t count, void *result, const void *element, uint32_t element_bytes);
  void (*sequence)(int64_t count, int64_t *result, int64_t first, int64_t step);

  /* Copies with non-temporal stores; `destination` is 64-aligned. A fence must follow before other
   * threads read. */
  void (*stream)(void *destination, const void *source, int64_t bytes);
};

CPU_DECLARE(cpu_tile_table, cpu_tile_table);
CPU_DECLARE_NUMBERS(cpu_tile_loops, cpu_tile); /* parts of it, as is the next */
CPU_DECLARE(cpu_tile_loops, cpu_tile_bool);
CPU_DECLARE(cpu_tile_rows, cpu_tile_rows);

#endif
