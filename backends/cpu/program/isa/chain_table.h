/* SPDX-License-Identifier: MIT */
/* Chains: instructions that follow each other, run over a few vectors at a time. Their last result
 * stays in registers; an instruction is a function that works on them and goes on to the next.
 *
 * So an instruction costs no memory access for its result and one at most for its operand, without
 * a loop for each combination of them. Elements of f32 chains are f32, masks (tile_table.h), or i32
 * that are converted; those of f64 chains are f64. */
#ifndef CPU_ISA_CHAIN_TABLE_H
#define CPU_ISA_CHAIN_TABLE_H

#include "compute/backend.h"
#include "core/isa.h"

/* Its real type is known only where the vectors are. */
typedef void (*cpu_chain_handler)(void);

/* An entry of a chain's code. */
typedef struct cpu_chain_code {
  cpu_chain_handler handler;
  union {
    const void *from;          /* element 0 of the operand in memory */
    unsigned char repeated[8]; /* … or the one that repeats */
    void *to;                  /* of a store */
    double immediate;          /* of a unary instruction */
  };
} cpu_chain_code;

/* Variants of a handler. The operand in memory is one element; it is the instruction's first
 * operand, and the value in registers the second. Of a select, whose condition is in registers, the
 * second operand is one element, and the third, which is in the entry after it. */
enum { CPU_CHAIN_REPEATED = 1, CPU_CHAIN_REVERSED = 2, CPU_CHAIN_THIRD_REPEATED = 2 };
typedef cpu_chain_handler cpu_chain_row[4];

typedef struct cpu_chain_table {
  int64_t block; /* elements in registers */
  uint32_t element_bytes;
  cpu_chain_row load;
  cpu_chain_handler store, end;
  cpu_chain_handler convert;                 /* of i32; NULL if there is none */
  const cpu_chain_row (*row)[COMPUTE_I_END]; /* NULL where chains do not have the instruction */

  /* Elements 0 … count − 1, at least a block. If there is a rest, it is part of a last block that
   * computes some elements again. */
  void (*run)(const cpu_chain_code *code, int64_t count);
} cpu_chain_table;

CPU_DECLARE_FLOATS(cpu_chain_table, cpu_chain);

#endif
