/* SPDX-License-Identifier: MIT */
/* The loops of whole programs (formulas.def), once per instruction set. */
#ifndef CPU_ISA_FORMULAS_TABLE_H
#define CPU_ISA_FORMULAS_TABLE_H

#include <stdint.h>

#include "core/isa.h"

enum { CPU_FORMULA_INPUTS = 4, CPU_FORMULA_NUMBERS = 9, CPU_FORMULA_OUTPUTS = 3 };

enum {
#define FORMULA(name, outputs, body) CPU_FORMULA_##name,
#include "program/isa/formulas.def"
  CPU_FORMULA_COUNT
};

/* Operands of the first of several lines of contiguous elements, and the steps from one line to the
 * next. A line has separate numbers (REPEATED), all of them readable. An output may share memory
 * with an input. */
typedef struct cpu_formula_operands {
  const float *input[CPU_FORMULA_INPUTS];
  const float *repeated[CPU_FORMULA_NUMBERS];
  float *output[CPU_FORMULA_OUTPUTS];
  int64_t input_line[CPU_FORMULA_INPUTS];
  int64_t repeated_line[CPU_FORMULA_NUMBERS];
  int64_t output_line[CPU_FORMULA_OUTPUTS];
} cpu_formula_operands;

typedef void (*cpu_formula_loop)(int64_t lines, int64_t count,
                                 const cpu_formula_operands *operands);

typedef struct cpu_formulas_table {
  cpu_formula_loop loop[CPU_FORMULA_COUNT];
} cpu_formulas_table;

CPU_DECLARE(cpu_formulas_table, cpu_formulas);

#endif
