/* SPDX-License-Identifier: MIT */
/* Programs of the form min(max((x + a) + (b + c), low), high), as one loop. */
#ifndef CPU_PROGRAM_FINISH_H
#define CPU_PROGRAM_FINISH_H

#include "program/program.h"

/* Reads a program; finish->loops is NULL if it has another form. */
void cpu_finish_read(const cpu_isa *isa, const compute_program *program,
                     const compute_dtype *inputs, uint32_t output_count,
                     const compute_dtype *outputs, cpu_finish *finish);

/* A program in f32 with one input, which it loads first. */
enum { CPU_FINISH_MOST = 16 };
typedef struct cpu_finish_rest {
  compute_instruction instructions[CPU_FINISH_MOST + 1];
  uint32_t count;
  uint16_t output;
} cpu_finish_rest;

/* Splits a program with results of `dtype` into such a loop, as long as possible, and a rest that
 * reads only the loop's result. first->loops is NULL if that is impossible. */
void cpu_finish_divide(const cpu_isa *isa, const compute_program *program,
                       const compute_dtype *inputs, uint32_t output_count,
                       const compute_dtype *outputs, compute_dtype dtype, cpu_finish *first,
                       cpu_finish_rest *rest);

/* `true` if a program from f32 to f32 is a chain of functions of one value. */
bool cpu_finish_are_functions(const cpu_program *program);

/* Runs such a program over numbers in place. */
void cpu_finish_apply(const void *functions, int64_t count, float *x);

/* The loop that runs a program, or that precedes program->rest; NULL if there is no such start. */
static inline const cpu_finish *cpu_finish_of(const cpu_program *program) {
  if (program->finish.loops) return &program->finish;
  return program->rest ? &program->first : NULL;
}

/* The same for callers that also apply program->functions. */
static inline const cpu_finish *cpu_finish_applied(const cpu_program *program) {
  return program->functions ? &program->sum : cpu_finish_of(program);
}

/* `true` if a program ends by adding an input to another of its values; returns both. */
bool cpu_finish_adds(const compute_program *program, const compute_dtype *inputs,
                     uint32_t output_count, const compute_dtype *outputs, int16_t *added,
                     uint16_t *before);

/* Runs program->rest over a loop's results in place: `rows` rows of `columns`, `row` apart. */
void cpu_finish_run_rest(const cpu_program *program, float *y, int64_t row, int64_t rows,
                         int64_t columns);

/* Replaces cpu_box_run; false if the operands are not contiguous along that dimension. */
bool cpu_finish_run(const cpu_finish *finish, const cpu_box *box, int32_t along);

#endif
