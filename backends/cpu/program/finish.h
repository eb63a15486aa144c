/* SPDX-License-Identifier: MIT */
/* Programs of the form min(max((x + a) + (b + c), low), high), as one loop. */
#ifndef CPU_PROGRAM_FINISH_H
#define CPU_PROGRAM_FINISH_H

#include "program/program.h"

/* Reads a program; finish->loops is NULL if it has another form. */
void cpu_finish_read(const cpu_isa *isa, const compute_program *program,
                     const compute_dtype *inputs, uint32_t output_count,
                     const compute_dtype *outputs, cpu_finish *finish);

/* A program of one input, in f32, that begins with loading it. */
enum { CPU_FINISH_MOST = 16 };
typedef struct cpu_finish_rest {
  compute_instruction instructions[CPU_FINISH_MOST + 1];
  uint32_t count;
  uint16_t output;
} cpu_finish_rest;

/* Divides a program with results of `dtype` into such a loop, as long as possible, and what
 * follows, which reads nothing else. first->loops is NULL if it cannot be divided. */
void cpu_finish_divide(const cpu_isa *isa, const compute_program *program,
                       const compute_dtype *inputs, uint32_t output_count,
                       const compute_dtype *outputs, compute_dtype dtype, cpu_finish *first,
                       cpu_finish_rest *rest);

/* Whether a program, from f32 to f32, is a chain of functions of one value. */
bool cpu_finish_are_functions(const cpu_program *program);

/* Runs such a program over numbers where they are. */
void cpu_finish_apply(const void *functions, int64_t count, float *x);

/* The loop that runs a program, or that program->rest follows; NULL if it does not begin so. */
static inline const cpu_finish *cpu_finish_of(const cpu_program *program) {
  if (program->finish.loops) return &program->finish;
  return program->rest ? &program->first : NULL;
}

/* The same for who applies program->functions, too. */
static inline const cpu_finish *cpu_finish_applied(const cpu_program *program) {
  return program->functions ? &program->sum : cpu_finish_of(program);
}

/* Whether a program ends with adding an input to another value of its own: which, and which value.
 */
bool cpu_finish_adds(const compute_program *program, const compute_dtype *inputs,
                     uint32_t output_count, const compute_dtype *outputs, int16_t *added,
                     uint16_t *before);

/* Runs program->rest over a loop's results where they are: `rows` rows of `columns`, `row` apart.
 */
void cpu_finish_run_rest(const cpu_program *program, float *y, int64_t row, int64_t rows,
                         int64_t columns);

/* cpu_box_run, or false where the operands do not lie side by side along that dimension. */
bool cpu_finish_run(const cpu_finish *finish, const cpu_box *box, int32_t along);

#endif
