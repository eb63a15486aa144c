/* SPDX-License-Identifier: MIT */
/* Programs of the form min(max((x + a) + (b + c), low), high), as one loop. */
#ifndef CPU_PROGRAM_FINISH_H
#define CPU_PROGRAM_FINISH_H

#include "program/program.h"

/* Reads a program; finish->loops is NULL if it has another form. */
void cpu_finish_read(const cpu_isa *isa, const compute_program *program,
                     const compute_dtype *inputs, uint32_t output_count,
                     const compute_dtype *outputs, cpu_finish *finish);

/* cpu_box_run, or false where the operands do not lie side by side along that dimension. */
bool cpu_finish_run(const cpu_finish *finish, const cpu_box *box, int32_t along);

#endif
