/* SPDX-License-Identifier: MIT */
/* Programs that turn sums in i32 into quantized bytes, as one loop. */
#ifndef CPU_PROGRAM_REQUANTIZE_H
#define CPU_PROGRAM_REQUANTIZE_H

#include "program/program.h"

/* Reads a program; requantize->loops is NULL if it has another form. */
void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *requantize);

/* An input of the loop: one number for each row, or, if `along`, for each element. */
typedef struct cpu_requantize_operand {
  const void *at;
  int64_t row; /* from row to row, in elements */
  bool along;
} cpu_requantize_operand;

/* The loop with its numbers and inputs, which are not looked at where there are none. Sums, bytes
 * and counts are left to the caller. */
cpu_requantize_lines cpu_requantize_bind(const cpu_requantize *requantize,
                                         const cpu_requantize_operand *operands);

/* cpu_box_run, or false where the operands are not contiguous along that dimension. */
bool cpu_requantize_run(const cpu_requantize *requantize, const cpu_box *box, int32_t along);

#endif
