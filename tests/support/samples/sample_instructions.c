/* SPDX-License-Identifier: MIT */
/* A MAP kernel for each instruction with each valid type of operands and result: the cases that a
 * backend must implement one by one. Codes and types come from the library's check of programs, so
 * a new instruction is included automatically. */
#include <stdio.h>

#include "support/reference/program_reference.h"
#include "support/samples/sample_kernels.h"

enum { ALL = 255, ROWS = 3, COLUMNS = 173 };

static const compute_dtype types[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I64, COMPUTE_I32,
                                      COMPUTE_BOOL};

static void set_immediate(compute_instruction *made) {
  switch ((compute_instruction_code)made->code) {
  case COMPUTE_I_LOAD: made->immediate.i64 = 0; break;
  case COMPUTE_I_CONSTANT:
    if (reference_is_float((compute_dtype)made->type))
      made->immediate.f64 = -2.625;
    else
      made->immediate.i64 = made->type == COMPUTE_BOOL ? 1 : -3;
    break;
  case COMPUTE_I_COORDINATE: made->immediate.i64 = 1; break;
  case COMPUTE_I_RANDOM: made->immediate.i64 = 7; break;
  default: made->immediate.f64 = 0.3; break; /* slope and alpha; other instructions have none */
  }
}

/* All operands of an instruction have one type, except a selection's condition. */
static compute_dtype operand_type(compute_instruction_code code, int operand, compute_dtype from) {
  return code == COMPUTE_I_SELECT && operand == 0 ? COMPUTE_BOOL : from;
}

static void sample_instruction(compute_instruction_code code, compute_dtype type,
                               compute_dtype from, sample_visitor visit, void *user) {
  sample_kernel s;
  char reason[160];
  const int operands = code == COMPUTE_I_LOAD ? 1 : program_operand_count(code);
  compute_instruction made = {.code = (uint8_t)code, .type = (uint8_t)type};
  uint16_t value[3] = {0};
  sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(ROWS, COLUMNS), "instruction %s %s%s%s",
               program_code_name(code), compute_dtype_name(type), operands > 0 ? " of " : "",
               operands > 0 ? compute_dtype_name(from) : "");
  for (int i = 0; i < operands; i++) {
    const compute_dtype own = operand_type(code, i, from);
    sample_input(&s, own, ALL);
    value[i] = program_load(&s.epilogue, own, (uint32_t)i);
  }
  made.a = value[0];
  made.b = value[1];
  made.c = value[2];
  set_immediate(&made);
  program_store(&s.epilogue, program_instruction(&s.epilogue, made));
  const compute_program program = program_finish(&s.epilogue);
  if (!program_check(&program, s.descriptor.input_count, reason, sizeof reason)) return;
  sample_output(&s, type, ALL);
  s.low = -9;
  s.high = 9;
  s.special = true;
  s.tolerance = (test_tolerance){16, type == COMPUTE_F32 ? 2e-7 : 2e-16, 0};
  sample_end(&s, visit, user);
}

void sample_every_instruction(sample_visitor visit, void *user) {
  const size_t count = sizeof types / sizeof *types;
  for (int code = 0; code < COMPUTE_I_END; code++) {
    const compute_instruction_code which = (compute_instruction_code)code;
    const bool leaf = program_operand_count(which) == 0 && which != COMPUTE_I_LOAD;
    for (size_t i = 0; i < count; i++)
      for (size_t k = 0; k < (leaf ? 1 : count); k++)
        if (which != COMPUTE_I_LOAD || i == k)
          sample_instruction(which, types[i], types[k], visit, user);
  }
}
