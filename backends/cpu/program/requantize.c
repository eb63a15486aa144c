/* SPDX-License-Identifier: MIT */
/* The programs that follow products of quantized numbers:
 *
 *   round(limit((x + offset) · scale + bias) / divisor) + zero
 *
 * stored as bytes, where all but the conversions may be missing. They run as one loop instead of
 * one for each instruction, with the interpreter's results: the missing parts are neutral numbers.
 */
#include "program/requantize.h"

#include <math.h>

#include "program/lines.h"

/* The parts in their order; an instruction moves the program on to a later one. */
typedef enum part {
  PART_SUM,
  PART_OFFSET,
  PART_FLOAT,
  PART_SCALE,
  PART_BIAS,
  PART_LOW,
  PART_HIGH,
  PART_DIVISOR,
  PART_ROUND,
  PART_ZERO
} part;

typedef struct reading {
  const compute_program *program;
  const compute_dtype *inputs;
  cpu_requantize *made;
  uint16_t value; /* of the last instruction that was read */
  part at;
} reading;

/* The other operand of a binary instruction that continues the chain, or NULL. */
static const compute_instruction *other_operand(const reading *r, const compute_instruction *i,
                                                bool commutes) {
  if (i->a == r->value && i->b != r->value) return &r->program->instructions[i->b];
  return commutes && i->b == r->value && i->a != r->value ? &r->program->instructions[i->a] : NULL;
}

static bool move_on(reading *r, part to) {
  if (r->at >= to) return false;
  r->at = to;
  return true;
}

/* An operand from an input, or a number. */
static bool take_operand(const reading *r, const compute_instruction *from, compute_dtype dtype,
                         int16_t *input, float *number) {
  if (!from || from->type != dtype) return false;
  if (from->code == COMPUTE_I_CONSTANT && number) {
    *number = (float)from->immediate.f64;
    return true;
  }
  const int64_t index = from->immediate.i64;
  if (from->code != COMPUTE_I_LOAD || !input || index == 0 || r->inputs[index] != dtype)
    return false;
  *input = (int16_t)index;
  return true;
}

static bool read_add(reading *r, const compute_instruction *i) {
  cpu_requantize *q = r->made;
  const compute_instruction *with = other_operand(r, i, true);
  if (i->type == COMPUTE_I32)
    return move_on(r, PART_OFFSET) && take_operand(r, with, COMPUTE_I32, &q->offset, NULL);
  if (r->at < PART_ROUND)
    return move_on(r, PART_BIAS) && take_operand(r, with, COMPUTE_F32, &q->bias, &q->bias_number);
  return move_on(r, PART_ZERO) && take_operand(r, with, COMPUTE_F32, NULL, &q->zero);
}

static bool read_instruction(reading *r, const compute_instruction *i) {
  cpu_requantize *q = r->made;
  switch (i->code) {
  case COMPUTE_I_ADD: return read_add(r, i);
  case COMPUTE_I_CAST: return i->type == COMPUTE_F32 && i->a == r->value && move_on(r, PART_FLOAT);
  case COMPUTE_I_MUL:
    return move_on(r, PART_SCALE) &&
           take_operand(r, other_operand(r, i, true), COMPUTE_F32, &q->scale, &q->scale_number);
  case COMPUTE_I_RELU: q->low = 0; return i->a == r->value && move_on(r, PART_LOW);
  case COMPUTE_I_MAX:
    return move_on(r, PART_LOW) &&
           take_operand(r, other_operand(r, i, true), COMPUTE_F32, NULL, &q->low) && !isnan(q->low);
  case COMPUTE_I_MIN:
    return move_on(r, PART_HIGH) &&
           take_operand(r, other_operand(r, i, true), COMPUTE_F32, NULL, &q->high) &&
           !isnan(q->high);
  case COMPUTE_I_DIV:
    return move_on(r, PART_DIVISOR) &&
           take_operand(r, other_operand(r, i, false), COMPUTE_F32, NULL, &q->divisor);
  case COMPUTE_I_ROUND: return i->a == r->value && move_on(r, PART_ROUND);
  default: return false;
  }
}

void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *requantize) {
  cpu_requantize *q = requantize;
  /* x + −0 is x, whatever its sign. */
  *q = (cpu_requantize){.offset = -1,
                        .scale = -1,
                        .bias = -1,
                        .scale_number = 1,
                        .bias_number = -0.0f,
                        .low = -INFINITY,
                        .high = INFINITY,
                        .divisor = 1};
  if (program->count < 2 || output_count != 1 || inputs[0] != COMPUTE_I32 ||
      (outputs[0] != COMPUTE_I8 && outputs[0] != COMPUTE_U8))
    return;
  reading r = {.program = program, .inputs = inputs, .made = q};
  bool begun = false;
  for (uint32_t k = 0; k < program->count; k++) {
    const compute_instruction *i = &program->instructions[k];
    const bool is_source = i->code == COMPUTE_I_LOAD || i->code == COMPUTE_I_CONSTANT;
    if (i->code == COMPUTE_I_LOAD && i->immediate.i64 == 0) {
      if (begun || i->type != COMPUTE_I32) return;
      begun = true;
      r.value = (uint16_t)k;
    } else if (!is_source) {
      if (!begun || !read_instruction(&r, i)) return;
      r.value = (uint16_t)k;
    }
  }
  if (!begun || r.at < PART_ROUND || program->outputs[0] != r.value) return;
  if (!(fabsf(q->zero) <= 255) || q->zero != rintf(q->zero)) return;
  q->is_signed = outputs[0] == COMPUTE_I8;
  q->loops = CPU_PICK(isa, cpu_requantize);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The first element of an input, or of `number` where there is none. */
static const void *place(const cpu_lines *l, int16_t input, const void *number, int64_t *row,
                         bool *along) {
  *row = 0;
  *along = false;
  if (input < 0) return number;
  const int64_t *step = l->box->input_step[input];
  *along = step[l->along] != 0;
  return l->box->input[input] + cpu_lines_offset(l, step, row) * 4;
}

static void run_lines(const cpu_requantize *q, const cpu_lines *l) {
  static const int32_t none = 0;
  const cpu_box *box = l->box;
  cpu_requantize_lines lines = {.rows = l->rows,
                                .count = l->count,
                                .low = q->low,
                                .high = q->high,
                                .divisor = q->divisor,
                                .zero = (int32_t)q->zero,
                                .is_signed = q->is_signed};
  bool along;
  lines.x = place(l, 0, NULL, &lines.x_row, &along);
  lines.offset = place(l, q->offset, &none, &lines.offset_row, &lines.offset_along);
  lines.scale = place(l, q->scale, &q->scale_number, &lines.scale_row, &lines.scale_along);
  lines.bias = place(l, q->bias, &q->bias_number, &lines.bias_row, &lines.bias_along);
  lines.y = box->output[0] + cpu_lines_offset(l, box->output_step[0], &lines.y_row);
  q->loops->run(&lines);
}

bool cpu_requantize_run(const cpu_requantize *q, const cpu_box *box, int32_t along) {
  if (!q->loops || box->input_step[0][along] != 1 || box->output_step[0][along] != 1) return false;
  const int16_t inputs[] = {q->offset, q->scale, q->bias};
  for (int i = 0; i < 3; i++) {
    const int64_t step = inputs[i] < 0 ? 0 : box->input_step[inputs[i]][along];
    if (step != 0 && step != 1) return false;
  }
  cpu_lines lines = cpu_lines_first(box, along);
  do run_lines(q, &lines);
  while (cpu_lines_next(&lines));
  return true;
}
