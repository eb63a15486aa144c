/* SPDX-License-Identifier: MIT */
/* Chains: consecutive instructions that run over a few vectors at a time. The last result stays in
 * registers; each instruction is a function that works on it and calls the next.
 *
 * So an instruction costs no memory access for its result and at most one for its operand, without
 * a separate loop for each combination. Elements of f32 chains are f32, masks (tile_table.h), or
 * i32 that are converted; elements of f64 chains are f64. */
#ifndef CPU_ISA_CHAIN_TABLE_H
#define CPU_ISA_CHAIN_TABLE_H

#include "compute/backend.h"
#include "core/isa.h"

/* The real signature needs the vector types of chain.c. */
typedef void (*cpu_chain_handler)(void);

/* An entry of a chain's code. */
typedef struct cpu_chain_code {
  cpu_chain_handler handler;
  union {
    const void *from;          /* element 0 of the operand in memory */
    unsigned char repeated[8]; /* … or the repeated element */
    void *to;                  /* destination of a store */
    double immediate;          /* of a unary instruction */
  };
} cpu_chain_code;

/* Variants of a handler. REPEATED: the operand in memory is one element. REVERSED: it is the
 * instruction's first operand, and the value in registers is the second. For a select, with its
 * condition in registers: the second operand is one element, or the third is, which the next entry
 * holds. */
enum { CPU_CHAIN_REPEATED = 1, CPU_CHAIN_REVERSED = 2, CPU_CHAIN_THIRD_REPEATED = 2 };
typedef cpu_chain_handler cpu_chain_row[4];

typedef struct cpu_chain_table {
  int64_t block; /* elements in registers at a time */
  uint32_t element_bytes;
  cpu_chain_row load;
  cpu_chain_handler store, end;
  cpu_chain_handler convert;                 /* for i32; NULL if there is none */
  const cpu_chain_row (*row)[COMPUTE_I_END]; /* NULL if chains do not support the instruction */

  /* Computes elements 0 … count − 1; count is at least a block. A remainder is part of a last,
   * overlapping block, which computes some elements again. */
  void (*run)(const cpu_chain_code *code, int64_t count);
} cpu_chain_table;

CPU_DECLARE_FLOATS(cpu_chain_table, cpu_chain);

#endif
