/* Programs, an instruction at a time. */
#include "kernel/program.h"
#include "validate/number.h"

void number_run(const compute_program *program, const number *inputs, const int64_t *coordinate,
                int64_t position, number *values, number *outputs) {
  if (program->count == 0) {
    outputs[0] = inputs[0];
    return;
  }
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *at = &program->instructions[i];
    const int operands = program_operand_count((compute_instruction_code)at->code);
    switch (at->code) {
    case COMPUTE_I_LOAD: values[i] = inputs[at->immediate.i64]; break;
    case COMPUTE_I_COORDINATE:
      values[i] = (number){.integer = coordinate[at->immediate.i64]};
      break;
    case COMPUTE_I_POSITION: values[i] = (number){.integer = position}; break;
    default:
      values[i] = number_apply(
          at, operands > 0 ? (compute_dtype)program->instructions[at->a].type : COMPUTE_DTYPE_NONE,
          operands > 0 ? &values[at->a] : NULL, operands > 1 ? &values[at->b] : NULL,
          operands > 2 ? &values[at->c] : NULL);
    }
  }
  for (uint32_t k = 0; k < program->output_count; k++) outputs[k] = values[program->outputs[k]];
}
