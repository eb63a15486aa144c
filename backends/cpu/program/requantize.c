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
#include <string.h>

#include "program/lines.h"
#include "program/pattern.h"

/* REPEATED(4) is the scale and REPEATED(5) the bias; see REQUANTIZED for the numbers. */
static const char sums_to_bytes[] = REQUANTIZED(
    MAYBE(EITHER(ADD(MAYBE(EITHER(MUL(TO_F32(FIRST_AND_TERMS), REPEATED(4)))), REPEATED(5)))));

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

bool cpu_requantize_limits(const cpu_match *m, cpu_requantize *q) {
  float *const parts[] = {&q->low, &q->high, &q->divisor, &q->zero};
  for (int n = 0; n < 4; n++)
    if (m->is_number[n]) *parts[n] = m->number[n];
  return !isnan(q->low) && !isnan(q->high) && cpu_requantize_has_zero(q);
}

static void take_number(const cpu_match *m, int role, int16_t *input, float *number) {
  *input = m->repeated[role];
  if (m->is_number[role]) *number = m->number[role];
}

/* One term as it is loaded is the offset. */
static void take_terms(const cpu_match *m, cpu_requantize *q) {
  const cpu_requantize_term_i32 *term = m->term;
  q->subtracts = term->factor == UINT32_MAX;
  if (m->terms == 1 && term->constant == 0 && (term->factor == 1 || q->subtracts)) {
    q->input[CPU_REQUANTIZE_OFFSET] = term->input;
    return;
  }
  q->subtracts = false;
  q->terms = m->terms;
  memcpy(q->term, m->term, sizeof q->term);
}

void cpu_requantize_read(const cpu_isa *isa, const compute_program *program,
                         const compute_dtype *inputs, uint32_t output_count,
                         const compute_dtype *outputs, cpu_requantize *q) {
  cpu_match m;
  *q = cpu_requantize_none();
  if (output_count != 1 || (outputs[0] != COMPUTE_I8 && outputs[0] != COMPUTE_U8) ||
      !cpu_pattern_match(sums_to_bytes, program, inputs, COMPUTE_F32, &m) ||
      !cpu_requantize_limits(&m, q))
    return;
  take_number(&m, 4, &q->input[CPU_REQUANTIZE_SCALE], &q->scale_number);
  take_number(&m, 5, &q->input[CPU_REQUANTIZE_BIAS], &q->bias_number);
  take_terms(&m, q);
  q->is_signed = outputs[0] == COMPUTE_I8;
  q->divides = cpu_requantize_divides(q);
  q->loops = CPU_PICK(isa, cpu_requantize);
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
  if (!cpu_requantize_is_alone(q) || box->input_step[0][along] != 1 ||
      box->output_step[0][along] != 1)
    return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    const int64_t step = q->input[i] < 0 ? 0 : box->input_step[q->input[i]][along];
    if (step != 0 && step != 1) return false;
  }
  cpu_lines lines = cpu_lines_first(box, along);
  do run_lines(q, &lines);
  while (cpu_lines_next(&lines));
  return true;
}
