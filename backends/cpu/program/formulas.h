/* SPDX-License-Identifier: MIT */
/* Programs that are compiled to one loop each (isa/formulas.def). */
#ifndef CPU_PROGRAM_FORMULAS_H
#define CPU_PROGRAM_FORMULAS_H

#include "program/program.h"

/* Reads a program; formula->loop is NULL if no row matches. */
void cpu_formula_read(const cpu_isa *isa, const compute_program *program,
                      const compute_dtype *inputs, uint32_t output_count,
                      const compute_dtype *outputs, cpu_formula *formula);

/* `true` if the loop supports the layout of the tile's operands. */
bool cpu_formula_suits(const cpu_formula *formula, const cpu_tile *tile);

/* Computes elements start … start + count − 1 of such a tile; output k is written to outputs[k]. */
void cpu_formula_run(const cpu_formula *formula, const cpu_tile *tile, int64_t start, int64_t count,
                     void *const *outputs);

/* Distance from one line to the next, in elements of each operand. */
typedef struct cpu_line_steps {
  int64_t input[COMPUTE_MAX_OPERANDS], output[COMPUTE_MAX_OPERANDS];
} cpu_line_steps;

/* Computes `lines` lines of the tile's length with contiguous outputs. The tile describes the first
 * line. */
void cpu_formula_run_lines(const cpu_formula *formula, const cpu_tile *tile,
                           const cpu_line_steps *step, int64_t lines);

/* Runs a box in lines along one of its dimensions, with the finished values as input 0; false if
 * the loop does not support it. */
bool cpu_formula_run_box(const cpu_formula *formula, const cpu_box *box, int32_t along);

#endif
