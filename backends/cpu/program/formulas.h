/* SPDX-License-Identifier: MIT */
/* Programs that are compiled to one loop each (isa/formulas.def). */
#ifndef CPU_PROGRAM_FORMULAS_H
#define CPU_PROGRAM_FORMULAS_H

#include "program/program.h"

/* Reads a program; formula->loop is NULL if it is none of them. */
void cpu_formula_read(const cpu_isa *isa, const compute_program *program,
                      const compute_dtype *inputs, uint32_t output_count,
                      const compute_dtype *outputs, cpu_formula *formula);

/* Whether a tile's operands lie as the loop takes them. */
bool cpu_formula_suits(const cpu_formula *formula, const cpu_tile *tile);

/* Elements start … start + count − 1 of such a tile; output k is written to outputs[k]. */
void cpu_formula_run(const cpu_formula *formula, const cpu_tile *tile, int64_t start, int64_t count,
                     void *const *outputs);

/* From one line to the next, in elements of each operand. */
typedef struct cpu_line_steps {
  int64_t input[COMPUTE_MAX_OPERANDS], output[COMPUTE_MAX_OPERANDS];
} cpu_line_steps;

/* `lines` lines of such a tile's length, the first of which is the tile, whose outputs are dense.
 */
void cpu_formula_run_lines(const cpu_formula *formula, const cpu_tile *tile,
                           const cpu_line_steps *step, int64_t lines);

/* A box in lines along one of its dimensions, whose input 0 is what finished values are; false if
 * the loop does not take them. */
bool cpu_formula_run_box(const cpu_formula *formula, const cpu_box *box, int32_t along);

#endif
