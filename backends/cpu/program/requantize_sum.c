/* SPDX-License-Identifier: MIT */
/* The programs that add or multiply two tensors of quantized numbers:
 *
 *   round(limit((a − zero of a) · scale of a + (b − zero of b) · scale of b) / divisor) + zero
 *
 * The operands are bytes, and the result is stored as bytes. Zeros, scales, limits and divisor are
 * numbers and may be missing. They run as one loop with the interpreter's results. */
#include <math.h>
#include <string.h>

#include "program/pattern.h"
#include "program/requantize.h"

#define TERM(k, zero, scale)                                                                       \
  MAYBE(EITHER(MUL(MAYBE(SUB(MAYBE(TO_F32(BYTES(k))), NUMBER(zero))), NUMBER(scale))))
static const char sum_of_bytes[] = REQUANTIZED(ADD(TERM(0, 4, 6), TERM(1, 5, 7)));
static const char product_of_bytes[] = REQUANTIZED(MUL(TERM(0, 4, 6), TERM(1, 5, 7)));
_Static_assert(sizeof sum_of_bytes <= CPU_PATTERN_TOKENS, "a token has at least one character");

/* `true` if no quotient is too large for the loop. */
static bool is_moderate(const cpu_requantize_sum *sum) {
  const cpu_requantize_lines lines = cpu_requantize_bind(&sum->makes, NULL);
  double term[2];
  for (int t = 0; t < 2; t++)
    term[t] = (255 + fabs((double)sum->zero[t])) * fabs((double)sum->scale[t]);
  const double most = sum->multiplies ? term[0] * term[1] : term[0] + term[1];
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

int32_t cpu_requantize_sum_read(const cpu_isa *isa, const compute_program *program,
                                const compute_dtype *inputs, uint32_t output_count,
                                const compute_dtype *outputs, cpu_requantize_sum *sum,
                                compute_dtype *byte) {
  cpu_match m;
  *sum = (cpu_requantize_sum){.makes = cpu_requantize_none()};
  cpu_requantize *makes = &sum->makes;
  if (output_count != 1 || (outputs[0] != COMPUTE_I8 && outputs[0] != COMPUTE_U8)) return -1;
  if (!cpu_pattern_match(sum_of_bytes, program, inputs, COMPUTE_F32, &m)) {
    sum->multiplies = cpu_pattern_match(product_of_bytes, program, inputs, COMPUTE_F32, &m);
    if (!sum->multiplies || m.bytes >= 0) return -1;
  }
  if (!cpu_requantize_limits(&m, makes)) return -1;
  for (int t = 0; t < 2; t++) {
    sum->input[t] = m.input[t];
    sum->is_signed[t] = m.is_signed[t];
    sum->zero[t] = m.is_number[4 + t] ? m.number[4 + t] : 0;
    sum->scale[t] = m.is_number[6 + t] ? m.number[6 + t] : 1;
  }
  makes->is_signed = outputs[0] == COMPUTE_I8;
  makes->divides = cpu_requantize_divides(makes);
  const int own = cpu_requantize_own_term(sum);
  const bool inside = m.bytes >= 0;
  if (!is_moderate(sum) || (inside && (inputs[0] != COMPUTE_I32 || sum->input[1 - own] == 0)))
    return -1;
  sum->loops = CPU_PICK(isa, cpu_requantize_sum);
  if (!sum->multiplies) find_factors(sum);
  *byte = sum->is_signed[own] ? COMPUTE_I8 : COMPUTE_U8;
  return m.bytes;
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
  (sum->multiplies ? sum->loops->multiply : sum->loops->run)(terms, &lines);
}

bool cpu_requantize_sum_run(const cpu_requantize_sum *sum, const cpu_tile *tile) {
  enum { REPEATED = 1024 }; /* copies of a byte that the whole tile shares */
  uint8_t repeated[2][REPEATED];
  cpu_requantize_term terms[2];
  int64_t step[2], most = tile->count, count;
  if (!sum->loops || tile->output_stride[0] != 1) return false;
  for (int t = 0; t < 2; t++) {
    step[t] = tile->input_stride[sum->input[t]];
    terms[t].from = tile->input[sum->input[t]];
    if (step[t] != 0 && step[t] != 1) return false;
    if (step[t] == 1) continue;
    most = cpu_min(tile->count, REPEATED);
    memset(repeated[t], *terms[t].from, (size_t)most);
    terms[t].from = repeated[t];
  }
  for (int64_t done = 0; done < tile->count; done += count) {
    count = cpu_min(most, tile->count - done);
    terms[0].row = terms[1].row = count;
    cpu_requantize_sum_lines(
        sum, terms,
        &(cpu_requantize_lines){
            .rows = 1, .count = count, .y = (uint8_t *)tile->output[0] + done, .y_row = count});
    for (int t = 0; t < 2; t++) terms[t].from += step[t] * count;
  }
  return true;
}
