/* SPDX-License-Identifier: MIT */
/* The programs that follow products of quantized numbers:
 *
 *   round(limit((x ± offset) · scale + bias) / divisor) + zero
 *
 * stored as bytes. Everything except the conversions may be missing. They run as one loop instead
 * of one loop per instruction and give the interpreter's results: missing parts are neutral
 * numbers. */
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
  cpu_requantize_product *product; /* receives the terms; or NULL */
  uint16_t value;                  /* of the last instruction that was read */
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

/* Reads an operand: an input, or a number. */
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

/* Reads a factor, or an added or subtracted constant, of an integer expression, and its other
 * operand. */
static bool take_integer(const reading *r, const compute_instruction *i, uint32_t *number,
                         uint16_t *other) {
  const compute_instruction *a = &r->program->instructions[i->a],
                            *b = &r->program->instructions[i->b];
  const bool turned = b->code != COMPUTE_I_CONSTANT;
  if (turned && (a->code != COMPUTE_I_CONSTANT || i->code == COMPUTE_I_SUB)) return false;
  *number = (uint32_t)(turned ? a : b)->immediate.i64;
  *other = turned ? i->b : i->a;
  return true;
}

/* Reads one more term: the value, subtracted if `negative`. */
static bool take_term(reading *r, uint16_t value, bool negative) {
  if (r->product->count == CPU_REQUANTIZE_TERMS) return false;
  cpu_requantize_term_i32 term = {.factor = negative ? UINT32_MAX : 1};
  for (;;) {
    const compute_instruction *i = &r->program->instructions[value];
    uint32_t number;
    if (i->type != COMPUTE_I32) return false;
    if (i->code == COMPUTE_I_LOAD) {
      term.input = (int16_t)i->immediate.i64;
      r->product->term[r->product->count++] = term;
      return term.input > 0 && r->inputs[term.input] == COMPUTE_I32;
    }
    if (i->code != COMPUTE_I_ADD && i->code != COMPUTE_I_SUB && i->code != COMPUTE_I_MUL)
      return false;
    if (!take_integer(r, i, &number, &value)) return false;
    if (i->code == COMPUTE_I_MUL)
      term.factor *= number;
    else
      term.constant += term.factor * (i->code == COMPUTE_I_SUB ? -number : number);
  }
}

static bool read_term(reading *r, const compute_instruction *i, bool commutes, bool negative) {
  if (r->at > PART_OFFSET) return false;
  r->at = PART_OFFSET;
  return other_operand(r, i, commutes) && take_term(r, i->a == r->value ? i->b : i->a, negative);
}

static bool read_add(reading *r, const compute_instruction *i) {
  cpu_requantize *q = r->made;
  const compute_instruction *with = other_operand(r, i, true);
  if (i->type == COMPUTE_I32 && r->product) return read_term(r, i, true, false);
  if (i->type == COMPUTE_I32)
    return move_on(r, PART_OFFSET) &&
           take_operand(r, with, COMPUTE_I32, &q->input[CPU_REQUANTIZE_OFFSET], NULL);
  if (r->at < PART_ROUND)
    return move_on(r, PART_BIAS) &&
           take_operand(r, with, COMPUTE_F32, &q->input[CPU_REQUANTIZE_BIAS], &q->bias_number);
  return move_on(r, PART_ZERO) && take_operand(r, with, COMPUTE_F32, NULL, &q->zero);
}

static bool read_instruction(reading *r, const compute_instruction *i) {
  cpu_requantize *q = r->made;
  switch (i->code) {
  case COMPUTE_I_ADD: return read_add(r, i);
  case COMPUTE_I_SUB:
    if (i->type == COMPUTE_I32 && r->product) return read_term(r, i, false, true);
    q->subtracts = true;
    return i->type == COMPUTE_I32 && move_on(r, PART_OFFSET) &&
           take_operand(r, other_operand(r, i, false), COMPUTE_I32,
                        &q->input[CPU_REQUANTIZE_OFFSET], NULL);
  case COMPUTE_I_CAST: return i->type == COMPUTE_F32 && i->a == r->value && move_on(r, PART_FLOAT);
  case COMPUTE_I_MUL:
    return move_on(r, PART_SCALE) &&
           take_operand(r, other_operand(r, i, true), COMPUTE_F32, &q->input[CPU_REQUANTIZE_SCALE],
                        &q->scale_number);
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

cpu_requantize cpu_requantize_none(void) {
  /* x + −0 is x, for either sign of zero. */
  return (cpu_requantize){.input = {-1, -1, -1},
                          .scale_number = 1,
                          .bias_number = -0.0f,
                          .low = -INFINITY,
                          .high = INFINITY,
                          .divisor = 1};
}

bool cpu_requantize_has_zero(const cpu_requantize *q) {
  return fabsf(q->zero) <= 255 && q->zero == rintf(q->zero);
}

/* `true` if an instruction only computes a part of a term. */
static bool is_within_term(const reading *r, const compute_instruction *i) {
  return r->product && i->type == COMPUTE_I32 && i->a != r->value && i->b != r->value;
}

static void read_program(const cpu_isa *isa, reading *r, uint32_t output_count,
                         const compute_dtype *outputs) {
  const compute_program *program = r->program;
  cpu_requantize *q = r->made;
  *q = cpu_requantize_none();
  if (program->count < 2 || output_count != 1 || r->inputs[0] != COMPUTE_I32 ||
      (outputs[0] != COMPUTE_I8 && outputs[0] != COMPUTE_U8))
    return;
  bool begun = false;
  for (uint32_t k = 0; k < program->count; k++) {
    const compute_instruction *i = &program->instructions[k];
    const bool is_source = i->code == COMPUTE_I_LOAD || i->code == COMPUTE_I_CONSTANT;
    if (i->code == COMPUTE_I_LOAD && i->immediate.i64 == 0) {
      if (begun || i->type != COMPUTE_I32) return;
      begun = true;
      r->value = (uint16_t)k;
    } else if (!is_source && !(begun && is_within_term(r, i))) {
      if (!begun || !read_instruction(r, i)) return;
      r->value = (uint16_t)k;
    }
  }
  if (!begun || r->at < PART_ROUND || program->outputs[0] != r->value) return;
  if (!cpu_requantize_has_zero(q)) return;
  q->is_signed = outputs[0] == COMPUTE_I8;
  q->divides = cpu_requantize_divides(q);
  q->loops = CPU_PICK(isa, cpu_requantize);
}

void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *requantize) {
  reading r = {.program = program, .inputs = inputs, .made = requantize};
  read_program(isa, &r, output_count, outputs);
}

void cpu_requantize_product_read(const cpu_isa *isa, const compute_program *program,
                                 const compute_dtype *inputs, uint32_t output_count,
                                 const compute_dtype *outputs, cpu_requantize_product *product) {
  *product = (cpu_requantize_product){0};
  reading r = {.program = program, .inputs = inputs, .made = &product->makes, .product = product};
  read_program(isa, &r, output_count, outputs);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Then neither 1 / x nor the remainder of a relevant quotient is subnormal. */
static bool has_reciprocal(float x) {
  return fabsf(x) >= 0x1p-60f && fabsf(x) <= 0x1p60f;
}

static float between(float x, float most) {
  return fminf(fmaxf(x, -most), most);
}

/* The byte of a value, + 128 if bytes are signed. */
static uint8_t byte_of(const cpu_requantize *q, float value) {
  const float first = q->is_signed ? -128 : 0;
  return (uint8_t)fminf(fmaxf(rintf(value / q->divisor) + q->zero - first, 0), 255);
}

/* The rounding error of 1 / divisor, rounded. */
static float rest_of(float divisor) {
  return (float)(1 / (double)divisor - (double)(1 / divisor));
}

bool cpu_requantize_divides(const cpu_requantize *q) {
  enum { NEAR = 2 };
  const float divisor = q->divisor, reciprocal = 1 / divisor, rest = rest_of(divisor);
  if (!has_reciprocal(divisor) || divisor < 0) return false;
  const int first = (q->is_signed ? -128 : 0) - (int)q->zero;
  for (int below = first; below < first + 255; below++) {
    float value = (float)((below + 0.5) * (double)divisor);
    for (int i = 0; i < NEAR; i++) value = nextafterf(value, -INFINITY);
    int above = 0;
    for (int i = 0; i <= 2 * NEAR; i++, value = nextafterf(value, INFINITY)) {
      const bool exceeds = rintf(value / divisor) > (float)below;
      if (exceeds != (rintf(fmaf(value, reciprocal, value * rest)) > (float)below)) return false;
      above += exceeds;
    }
    if (above == 0 || above > 2 * NEAR) return false;
  }
  return true;
}

cpu_requantize_lines cpu_requantize_bind(const cpu_requantize *q,
                                         const cpu_requantize_operand *operands) {
  static const int32_t none = 0;
  const void *const numbers[] = {&none, &q->scale_number, &q->bias_number};
  cpu_requantize_operand o[CPU_REQUANTIZE_INPUTS];
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++)
    o[i] = q->input[i] < 0 ? (cpu_requantize_operand){numbers[i], 0, false} : operands[i];
  /* Limits for quotients of up to CPU_REQUANTIZE_LARGEST. */
  const bool reciprocal = has_reciprocal(q->divisor);
  const float most = reciprocal ? CPU_REQUANTIZE_LARGEST * fabsf(q->divisor) : INFINITY;
  const float low = between(q->low, most), high = between(q->high, most);
  bool blocks = q->divides && low <= high;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) blocks = blocks && o[i].row == 0;
  return (cpu_requantize_lines){.offset = o[CPU_REQUANTIZE_OFFSET].at,
                                .offset_row = o[CPU_REQUANTIZE_OFFSET].row,
                                .offset_along = o[CPU_REQUANTIZE_OFFSET].along,
                                .scale = o[CPU_REQUANTIZE_SCALE].at,
                                .scale_row = o[CPU_REQUANTIZE_SCALE].row,
                                .scale_along = o[CPU_REQUANTIZE_SCALE].along,
                                .bias = o[CPU_REQUANTIZE_BIAS].at,
                                .bias_row = o[CPU_REQUANTIZE_BIAS].row,
                                .bias_along = o[CPU_REQUANTIZE_BIAS].along,
                                .subtracts = q->subtracts,
                                .low = low,
                                .high = high,
                                .divisor = q->divisor,
                                .reciprocal = reciprocal ? 1 / q->divisor : 0,
                                .rest = blocks ? rest_of(q->divisor) : 0,
                                .zero = (int32_t)q->zero,
                                .is_signed = q->is_signed,
                                .blocks = blocks,
                                .least = blocks ? byte_of(q, low) : 0,
                                .most = blocks ? byte_of(q, high) : 0};
}

static void run_lines(const cpu_requantize *q, const cpu_lines *l) {
  const cpu_box *box = l->box;
  cpu_requantize_operand operands[CPU_REQUANTIZE_INPUTS];
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const int64_t *step = box->input_step[q->input[i]];
    cpu_requantize_operand *o = &operands[i];
    o->at = box->input[q->input[i]] + cpu_lines_offset(l, step, &o->row) * 4;
    o->along = step[l->along] != 0;
  }
  cpu_requantize_lines lines = cpu_requantize_bind(q, operands);
  lines.rows = l->rows;
  lines.count = l->count;
  lines.x =
      (const void *)(box->input[0] + cpu_lines_offset(l, box->input_step[0], &lines.x_row) * 4);
  lines.y = box->output[0] + cpu_lines_offset(l, box->output_step[0], &lines.y_row);
  q->loops->run(&lines);
}

bool cpu_requantize_run(const cpu_requantize *q, const cpu_box *box, int32_t along) {
  if (!q->loops || box->input_step[0][along] != 1 || box->output_step[0][along] != 1) return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    const int64_t step = q->input[i] < 0 ? 0 : box->input_step[q->input[i]][along];
    if (step != 0 && step != 1) return false;
  }
  cpu_lines lines = cpu_lines_first(box, along);
  do run_lines(q, &lines);
  while (cpu_lines_next(&lines));
  return true;
}
