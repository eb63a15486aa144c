/* SPDX-License-Identifier: MIT */
/* Consecutive steps of a program that run as one loop (isa/chain_table.h). */
#ifndef CPU_PROGRAM_CHAIN_H
#define CPU_PROGRAM_CHAIN_H

#include "program/program.h"

enum {
  CPU_CHAIN_STEPS = 32,                     /* per chain */
  CPU_CHAIN_CODE = 4 * CPU_CHAIN_STEPS + 1, /* entries in a chain's code */
  CPU_CHAIN_STEP_ENTRIES = 4                /* per step */
};

/* Moves steps without operands before the chains that contain them. A chain's first step receives
 * the number of its steps and their table. `type` has the type of each value. */
void cpu_chain_find(const cpu_isa *isa, const compute_program *source, const cpu_type *type,
                    cpu_program *program);

/* Writes the entries of all chains, at most CPU_CHAIN_STEP_ENTRIES per step. `last_use` is the last
 * step that uses a value. */
void cpu_chain_write(const compute_program *source, const uint16_t *last_use, cpu_program *program,
                     cpu_chain_entry *entry);

#endif
