/* SPDX-License-Identifier: MIT */
/* Programs that convert i32 sums, or the sum of two tensors of bytes, to quantized bytes, as one
 * loop. */
#ifndef CPU_PROGRAM_REQUANTIZE_H
#define CPU_PROGRAM_REQUANTIZE_H

#include "program/program.h"

/* Reads a program; requantize->loops is NULL if it has another form. */
void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *requantize);

/* `true` for a loop that needs no sums of terms. */
static inline bool cpu_requantize_is_alone(const cpu_requantize *requantize) {
  return requantize->loops && requantize->terms == 0;
}

/* Takes the numbers of REQUANTIZED (pattern.h): low, high, divisor, zero. Returns false if the loops cannot apply
 * them. */
bool cpu_requantize_limits(const cpu_match *match, cpu_requantize *requantize);

/* For no program: x is rounded and stored. */
cpu_requantize cpu_requantize_none(void);

/* `true` if the loops can add the zero point. */
bool cpu_requantize_has_zero(const cpu_requantize *requantize);

/* `true` if two products, with the reciprocal of the divisor and with its rounding error, give the
 * same bytes as all quotients. Both grow with the dividend, so it is enough that they step from
 * each whole number to the next at the same place. */
bool cpu_requantize_divides(const cpu_requantize *requantize);

/* An input of the loop: one number for each row, or, if `along`, for each element. */
typedef struct cpu_requantize_operand {
  const void *at;
  int64_t row; /* distance between rows, in elements */
  bool along;
} cpu_requantize_operand;

/* The loop's parameters with its numbers and inputs; operands without an input are not read. The
 * caller sets sums, bytes and counts. */
cpu_requantize_lines cpu_requantize_bind(const cpu_requantize *requantize,
                                         const cpu_requantize_operand *operands);

/* The same for programs that add two tensors of bytes: sum->loops is NULL if it has another form.
 * See also cpu_requantize_sum_run. For a program that converts input 0 (i32 sums) to bytes before it
 * adds them, input 0 of the sum represents the bytes; returns the value that becomes bytes, or −1,
 * and their dtype. */
int32_t cpu_requantize_sum_read(const cpu_isa *isa, const compute_program *program,
                                const compute_dtype *inputs, uint32_t output_count,
                                const compute_dtype *outputs, cpu_requantize_sum *sum,
                                compute_dtype *byte);

/* The term of such a sum that is input 0. */
static inline int cpu_requantize_own_term(const cpu_requantize_sum *sum) {
  return sum->input[0] == 0 ? 0 : 1;
}

/* Adds rows of bytes. `from` supplies only addresses and rows; `to` supplies only rows, count and
 * y. */
void cpu_requantize_sum_lines(const cpu_requantize_sum *sum, const cpu_requantize_term from[2],
                              const cpu_requantize_lines *to);

/* Replaces cpu_program_run; false if the operands are not contiguous. */
bool cpu_requantize_sum_run(const cpu_requantize_sum *sum, const cpu_tile *tile);

/* Replaces cpu_box_run; false if the operands are not contiguous along that dimension. */
bool cpu_requantize_run(const cpu_requantize *requantize, const cpu_box *box, int32_t along);

#endif
