/* SPDX-License-Identifier: MIT */
/* Steps of a program that follow each other and run as one loop (isa/chain_table.h). */
#ifndef CPU_PROGRAM_CHAIN_H
#define CPU_PROGRAM_CHAIN_H

#include "program/program.h"

enum {
  CPU_CHAIN_STEPS = 32,                     /* in one chain */
  CPU_CHAIN_CODE = 4 * CPU_CHAIN_STEPS + 1, /* entries of its code */
  CPU_CHAIN_STEP_ENTRIES = 4                /* of one step */
};

/* Steps without operands move before the chains that they are among, and a chain's first step gets
 * the number of its steps and their table. `type` is that of each value. */
void cpu_chain_find(const cpu_isa *isa, const compute_program *source, const cpu_type *type,
                    cpu_program *program);

/* Writes the entries of all chains, CPU_CHAIN_STEP_ENTRIES for each step at most. `last_use` is the
 * last step that uses a value. */
void cpu_chain_write(const compute_program *source, const uint16_t *last_use, cpu_program *program,
                     cpu_chain_entry *entry);

#endif
