/* SPDX-License-Identifier: MIT */
/* The programs that add two tensors of quantized numbers:
 *
 *   round(limit((a − zero of a) · scale of a + (b − zero of b) · scale of b) / divisor) + zero
 *
 * The operands are bytes, and the result is stored as bytes. Zeros, scales, limits and divisor are
 * numbers and may be missing. They run as one loop with the interpreter's results. A program is
 * read from its result backwards. */
#include <math.h>

#include "program/requantize.h"

typedef struct reading {
  const compute_program *program;
  const compute_dtype *inputs;
  uint16_t value; /* value to read next */
} reading;

static const compute_instruction *now(const reading *r) {
  return &r->program->instructions[r->value];
}

static bool is_code(const reading *r, compute_instruction_code code) {
  return now(r)->code == code && now(r)->type == COMPUTE_F32;
}

/* Moves on to the operand of an instruction whose other operand (the second, or either if it
 * commutes) is a number; stays if there is no such instruction. */
static bool read_number(reading *r, compute_instruction_code code, bool commutes, float *number) {
  const compute_instruction *i = now(r);
  if (!is_code(r, code)) return false;
  for (int turned = 0; turned <= (commutes ? 1 : 0); turned++) {
    const compute_instruction *other = &r->program->instructions[turned ? i->a : i->b];
    if (other->code != COMPUTE_I_CONSTANT) continue;
    *number = (float)other->immediate.f64;
    r->value = turned ? i->b : i->a;
    return true;
  }
  return false;
}

/* Reads an i32 that was converted from f32 and limited to the range of bytes. */
static bool read_byte(reading r, bool *is_signed, uint16_t *value) {
  static const compute_instruction_code codes[] = {COMPUTE_I_MIN, COMPUTE_I_MAX};
  int64_t limit[2];
  for (int k = 0; k < 2; k++) {
    const compute_instruction *i = now(&r), *number = &r.program->instructions[i->b];
    if (i->code != codes[k] || i->type != COMPUTE_I32 || number->code != COMPUTE_I_CONSTANT)
      return false;
    limit[k] = number->immediate.i64;
    r.value = i->a;
  }
  *is_signed = limit[0] == INT8_MAX;
  *value = now(&r)->a;
  return now(&r)->code == COMPUTE_I_CAST && now(&r)->type == COMPUTE_I32 &&
         r.program->instructions[*value].type == COMPUTE_F32 &&
         limit[0] == (*is_signed ? INT8_MAX : UINT8_MAX) && limit[1] == (*is_signed ? INT8_MIN : 0);
}

/* (f32(input) − zero) · scale. If `bytes` is given, the input may be such a byte, and *bytes
 * receives its value. */
static bool read_term(reading r, cpu_requantize_sum *sum, int term, uint16_t *bytes) {
  sum->scale[term] = 1;
  sum->zero[term] = 0;
  read_number(&r, COMPUTE_I_MUL, true, &sum->scale[term]);
  read_number(&r, COMPUTE_I_SUB, false, &sum->zero[term]);
  if (is_code(&r, COMPUTE_I_CAST)) r.value = now(&r)->a;
  const compute_instruction *i = now(&r);
  if (bytes && read_byte(r, &sum->is_signed[term], bytes)) {
    sum->input[term] = 0;
    return true;
  }
  if (i->code != COMPUTE_I_LOAD || (i->type != COMPUTE_I32 && i->type != COMPUTE_F32)) return false;
  sum->input[term] = (int16_t)i->immediate.i64;
  const compute_dtype dtype = r.inputs[sum->input[term]];
  sum->is_signed[term] = dtype == COMPUTE_I8;
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* Reads the part after the sum, in reverse order. */
static bool read_end(reading *r, cpu_requantize *makes) {
  read_number(r, COMPUTE_I_ADD, true, &makes->zero);
  if (!is_code(r, COMPUTE_I_ROUND)) return false;
  r->value = now(r)->a;
  read_number(r, COMPUTE_I_DIV, false, &makes->divisor);
  read_number(r, COMPUTE_I_MIN, true, &makes->high);
  if (is_code(r, COMPUTE_I_RELU)) {
    makes->low = 0;
    r->value = now(r)->a;
  } else {
    read_number(r, COMPUTE_I_MAX, true, &makes->low);
  }
  return !isnan(makes->low) && !isnan(makes->high);
}

/* `true` if no quotient is too large for the loop. */
static bool is_moderate(const cpu_requantize_sum *sum) {
  const cpu_requantize_lines lines = cpu_requantize_bind(&sum->makes, NULL);
  double most = 0;
  for (int t = 0; t < 2; t++)
    most += (255 + fabs((double)sum->zero[t])) * fabs((double)sum->scale[t]);
  return lines.blocks && most <= CPU_REQUANTIZE_LARGEST * (double)lines.divisor;
}

static void find_factors(cpu_requantize_sum *sum) {
  const cpu_requantize_lines lines = cpu_requantize_bind(&sum->makes, NULL);
  cpu_requantize_term terms[2];
  for (int t = 0; t < 2; t++)
    terms[t] = (cpu_requantize_term){
        .is_signed = sum->is_signed[t], .zero = sum->zero[t], .scale = sum->scale[t]};
  sum->loops->find_factors(terms, &lines);
  for (int t = 0; t < 2; t++) {
    sum->factor[t] = terms[t].factor;
    sum->added[t] = terms[t].added;
  }
}

static void read_sum(const cpu_isa *isa, const compute_program *program,
                     const compute_dtype *inputs, uint32_t output_count,
                     const compute_dtype *outputs, cpu_requantize_sum *sum, uint16_t *bytes) {
  *sum = (cpu_requantize_sum){.makes = cpu_requantize_none()};
  if (program->count == 0 || output_count != 1 ||
      (outputs[0] != COMPUTE_I8 && outputs[0] != COMPUTE_U8))
    return;
  cpu_requantize *makes = &sum->makes;
  reading r = {program, inputs, program->outputs[0]};
  makes->is_signed = outputs[0] == COMPUTE_I8;
  if (!read_end(&r, makes) || !is_code(&r, COMPUTE_I_ADD)) return;
  const compute_instruction *add = now(&r);
  if (!read_term((reading){program, inputs, add->a}, sum, 0, bytes) ||
      !read_term((reading){program, inputs, add->b}, sum, 1, bytes))
    return;
  if (!cpu_requantize_has_zero(makes)) return;
  makes->divides = cpu_requantize_divides(makes);
  if (!is_moderate(sum)) return;
  sum->loops = CPU_PICK(isa, cpu_requantize_sum);
  find_factors(sum);
}

void cpu_requantize_sum_read(const cpu_isa *isa, const compute_program *program,
                             const compute_dtype *inputs, uint32_t output_count,
                             const compute_dtype *outputs, cpu_requantize_sum *sum) {
  read_sum(isa, program, inputs, output_count, outputs, sum, NULL);
}

bool cpu_requantize_residual_read(const cpu_isa *isa, const compute_program *program,
                                  const compute_dtype *inputs, uint32_t output_count,
                                  const compute_dtype *outputs, cpu_requantize_sum *sum,
                                  uint16_t *value, compute_dtype *byte) {
  *sum = (cpu_requantize_sum){0};
  if (inputs[0] != COMPUTE_I32) return false; /* input 0 has no other dtype */
  read_sum(isa, program, inputs, output_count, outputs, sum, value);
  const int own = cpu_requantize_own_term(sum);
  if (!sum->loops || sum->input[own] != 0 || sum->input[1 - own] == 0) {
    sum->loops = NULL;
    return false;
  }
  *byte = sum->is_signed[own] ? COMPUTE_I8 : COMPUTE_U8;
  return true;
}

void cpu_requantize_sum_lines(const cpu_requantize_sum *sum, const cpu_requantize_term from[2],
                              const cpu_requantize_lines *to) {
  cpu_requantize_term terms[2];
  cpu_requantize_lines lines = cpu_requantize_bind(&sum->makes, NULL);
  for (int t = 0; t < 2; t++)
    terms[t] = (cpu_requantize_term){from[t].from,  from[t].row,    sum->is_signed[t], sum->zero[t],
                                     sum->scale[t], sum->factor[t], sum->added[t]};
  lines.rows = to->rows;
  lines.count = to->count;
  lines.y = to->y;
  lines.y_row = to->y_row;
  if (terms[0].row == lines.count && terms[1].row == lines.count && lines.y_row == lines.count) {
    lines.count *= lines.rows;
    lines.rows = 1;
  }
  sum->loops->run(terms, &lines);
}

bool cpu_requantize_sum_run(const cpu_requantize_sum *sum, const cpu_tile *tile) {
  if (!sum->loops || tile->output_stride[0] != 1) return false;
  cpu_requantize_term terms[2];
  for (int t = 0; t < 2; t++) {
    if (tile->input_stride[sum->input[t]] != 1) return false;
    terms[t].from = tile->input[sum->input[t]];
    terms[t].row = tile->count;
  }
  cpu_requantize_sum_lines(
      sum, terms,
      &(cpu_requantize_lines){
          .rows = 1, .count = tile->count, .y = tile->output[0], .y_row = tile->count});
  return true;
}
