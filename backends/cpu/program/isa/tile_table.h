/* SPDX-License-Identifier: MIT */
/* The loops of one program instruction, by computing type and instruction set.
 *
 * A loop computes `count` results from operands that are contiguous arrays or, depending on the
 * variant, one repeated element. The result may be exactly an operand's array, but must not overlap
 * it otherwise. Operands need no alignment beyond the element's.
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

/* Bits for operands of one element. Bit 0: operand a (of SELECT: b), bit 1: operand b (of SELECT:
 * c). Unary loops have only variant 0; variant 3 exists only for SELECT, whose condition is an
 * array. A draw with parameters has only variant 0: its immediate has bit i set if operand i is one
 * element. */
#define CPU_TILE_VARIANTS 4

/* The instruction's `immediate`, for example a slope, or the stream of RANDOM. */
typedef union cpu_immediate {
  double f64;
  int64_t i64;
} cpu_immediate;

typedef void (*cpu_tile_loop)(int64_t count, void *result, const void *a, const void *b,
                              const void *c, cpu_immediate immediate);

/* Loops of one computing type: the operands' type; for SELECT, the type of b and c. NULL if the
 * type does not have the instruction. */
typedef cpu_tile_loop cpu_tile_loops[COMPUTE_I_END][CPU_TILE_VARIANTS];

/* An f32 function in place: `rows` rows of `count` elements, `row` apart. NULL for instructions
 * without such a loop. */
typedef void (*cpu_tile_rows_loop)(int64_t rows, int64_t count, float *y, int64_t row);
typedef cpu_tile_rows_loop cpu_tile_rows[COMPUTE_I_END];

/* Converts a dtype's elements, `stride` apart, to values of its computing type and back. */
typedef void (*cpu_load_loop)(int64_t count, void *result, const void *source, int64_t stride);
typedef void (*cpu_store_loop)(int64_t count, void *destination, int64_t stride,
                               const void *source);
typedef void (*cpu_convert_loop)(int64_t count, void *result, const void *source);

/* Values of one byte (program/bytes.h): their loops, and the way to memory. Conditions of a SELECT
 * are bytes as well. */
typedef enum cpu_bytes_kind {
  CPU_BYTES_TRUTH, /* every byte but 0 is true; results are 0 or 1 */
  CPU_BYTES_UNSIGNED,
  CPU_BYTES_SIGNED,
  CPU_BYTES_KINDS
} cpu_bytes_kind;

typedef struct cpu_byte_table {
  const cpu_tile_loops *loops[CPU_BYTES_KINDS];
  cpu_load_loop load;
  cpu_store_loop store;
  cpu_convert_loop copy, copy_truth;
  /* result[i] = table[bytes[i]] */
  void (*look_up)(int64_t count, uint8_t *result, const uint8_t *bytes, const uint8_t *table);
} cpu_byte_table;

/* destination[c][r] = source[r][c]; strides in bytes. */
typedef void (*cpu_transpose_block)(int64_t rows, int64_t columns, const void *source,
                                    int64_t source_stride, void *destination,
                                    int64_t destination_stride);

struct cpu_tile_table {
  const cpu_tile_loops *compute[CPU_TYPE_COUNT];
  const cpu_tile_rows *rows;

  /* [from][to]; a copy if both are the same. */
  const cpu_convert_loop (*cast)[CPU_TYPE_COUNT];

  /* [from]: converts values for `store` as a dtype with another computing type. It may differ from
   * the cast: it saturates to u8 and u16, and rounds f64 to f16 only once. */
  const cpu_convert_loop (*narrow)[COMPUTE_DTYPE_COUNT];

  const cpu_byte_table *bytes;
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
CPU_DECLARE_NUMBERS(cpu_tile_loops, cpu_tile); /* declares the parts of it; the next lines as
                                                * well */
CPU_DECLARE(cpu_tile_loops, cpu_tile_bool);
CPU_DECLARE(cpu_tile_loops, cpu_tile_truth);
CPU_DECLARE(cpu_tile_loops, cpu_tile_unsigned);
CPU_DECLARE(cpu_tile_loops, cpu_tile_signed);
CPU_DECLARE(cpu_byte_table, cpu_tile_bytes);
CPU_DECLARE(cpu_tile_rows, cpu_tile_rows);

#endif
