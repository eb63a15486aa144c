/* SPDX-License-Identifier: MIT */
/* Building, checking, printing and counting programs (compute/backend/kernel_descriptor.h). */
#ifndef KERNEL_PROGRAM_H
#define KERNEL_PROGRAM_H

#include "compute/backend.h"
#include "core/base/text.h"

/* A program under construction. Identical instructions are stored once. All zero: empty. */
typedef struct program_builder {
  compute_instruction instruction[COMPUTE_MAX_INSTRUCTIONS];
  uint32_t count;
  uint16_t output[COMPUTE_MAX_OPERANDS];
  uint32_t output_count;
  bool full; /* too many instructions; the program is unusable */
} program_builder;

/* These functions return the value's number. */
uint16_t program_load(program_builder *b, compute_dtype type, uint32_t input);
uint16_t program_constant(program_builder *b, compute_dtype type, double value);
uint16_t program_constant_integer(program_builder *b, compute_dtype type, int64_t value);
uint16_t program_apply(program_builder *b, compute_instruction_code code, compute_dtype type,
                       uint16_t a, uint16_t operand_b, uint16_t c);
uint16_t program_instruction(program_builder *b, compute_instruction instruction);
void program_store(program_builder *b, uint16_t value);

/* Returns the instruction with unused operands and immediate set to 0. */
compute_instruction program_normalize(compute_instruction instruction);

/* A view of the builder's arrays, valid as long as the builder. */
compute_program program_finish(const program_builder *b);

/* The number of operands: 0, 1, 2 or 3. */
int program_operand_count(compute_instruction_code code);
const char *program_code_name(compute_instruction_code code);

/* `true` if the instruction is discontinuous: a small change of an operand may change the result by
 * much. These are casts, comparisons, selections, sign, rounding to integers, and remainders. */
bool program_code_jumps(compute_instruction_code code);

/* The cost of an instruction on a typical CPU: in additions (simple) or exponentials (functions),
 * and in operations when only these are counted. On a GPU, memory dominates in all but the longest
 * programs. */
typedef struct program_price {
  double simple, functions;
  uint32_t flops;
} program_price;

program_price program_code_price(compute_instruction_code code);

/* Arithmetic operations for one element. A transcendental function counts as 8. */
uint32_t program_flops(const compute_program *program);

/* `true` if the program is well formed: operands precede, types agree, loads are below input_count,
 * outputs exist. Otherwise `reason` has the cause. */
bool program_check(const compute_program *program, uint32_t input_count, char *reason,
                   size_t reason_bytes);

/* Prints every output, such as "relu(add(in0, in1))". */
void program_print(const compute_program *program, text_buffer *text);

#endif
