/* SPDX-License-Identifier: MIT */
/* Programs that turn sums in i32, or of two tensors of bytes, into quantized bytes, as one loop. */
#ifndef CPU_PROGRAM_REQUANTIZE_H
#define CPU_PROGRAM_REQUANTIZE_H

#include "program/program.h"

/* Reads a program; requantize->loops is NULL if it has another form. */
void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *requantize);

/* The same of a program with terms in place of an offset. */
void cpu_requantize_product_read(const cpu_isa *isa, const compute_program *program,
                                 const compute_dtype *inputs, uint32_t output_count,
                                 const compute_dtype *outputs, cpu_requantize_product *product);

/* Without a program: x is rounded and stored. */
cpu_requantize cpu_requantize_none(void);

/* Whether the zero is one that the loops add. */
bool cpu_requantize_has_zero(const cpu_requantize *requantize);

/* Whether two products, with the reciprocal of the divisor and with what is left of it, give all
 * bytes that the quotients give. Both grow with what is divided, so it is enough that they pass
 * from each whole number to the next at the same place. */
bool cpu_requantize_divides(const cpu_requantize *requantize);

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

/* The same for programs that add two tensors of bytes: sum->loops is NULL … */
void cpu_requantize_sum_read(const cpu_isa *isa, const compute_program *program,
                             const compute_dtype *inputs, uint32_t output_count,
                             const compute_dtype *outputs, cpu_requantize_sum *sum);

/* A program that makes bytes of input 0, sums in i32, and then such a sum of them and of an input:
 * false, or that sum, whose input 0 stands for the bytes; the value that becomes bytes, and their
 * dtype. */
bool cpu_requantize_residual_read(const cpu_isa *isa, const compute_program *program,
                                  const compute_dtype *inputs, uint32_t output_count,
                                  const compute_dtype *outputs, cpu_requantize_sum *sum,
                                  uint16_t *value, compute_dtype *byte);

/* Which term of such a sum is input 0. */
static inline int cpu_requantize_own_term(const cpu_requantize_sum *sum) {
  return sum->input[0] == 0 ? 0 : 1;
}

/* Adds rows of bytes: of `from` only where they lie, of `to` only rows, count and y are given. */
void cpu_requantize_sum_lines(const cpu_requantize_sum *sum, const cpu_requantize_term from[2],
                              const cpu_requantize_lines *to);

/* … and cpu_program_run, or false where the operands are not contiguous. */
bool cpu_requantize_sum_run(const cpu_requantize_sum *sum, const cpu_tile *tile);

/* cpu_box_run, or false where the operands are not contiguous along that dimension. */
bool cpu_requantize_run(const cpu_requantize *requantize, const cpu_box *box, int32_t along);

#endif
