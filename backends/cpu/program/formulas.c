/* SPDX-License-Identifier: MIT */
/* Programs of isa/formulas.def, whose rows are patterns (pattern.h). */
#include "program/formulas.h"

#include "program/lines.h"
#include "program/pattern.h"

#define FORMULA(name, outputs, body)                                                               \
  _Static_assert(sizeof body <= CPU_PATTERN_TOKENS, "a token has at least one character");
#include "program/isa/formulas.def"

static const struct {
  const char *text;
  uint32_t outputs;
} formulas[CPU_FORMULA_COUNT] = {
#define FORMULA(name, outputs, body) [CPU_FORMULA_##name] = {body, outputs},
#include "program/isa/formulas.def"
};

void cpu_formula_read(const cpu_isa *isa, const compute_program *program,
                      const compute_dtype *inputs, uint32_t output_count,
                      const compute_dtype *outputs, cpu_formula *formula) {
  *formula = (cpu_formula){.outputs = output_count};
  for (uint32_t k = 0; k < output_count; k++)
    if (outputs[k] != COMPUTE_F32) return;
  for (uint32_t f = 0; f < CPU_FORMULA_COUNT && !formula->loop; f++)
    if (formulas[f].outputs == output_count &&
        cpu_pattern_match(formulas[f].text, program, inputs, COMPUTE_F32, &formula->operands))
      formula->loop = CPU_PICK(isa, cpu_formulas)->loop[f];
}

/* ---- Running --------------------------------------------------------------------------------- */

bool cpu_formula_suits(const cpu_formula *formula, const cpu_tile *tile) {
  const cpu_match *with = &formula->operands;
  if (!formula->loop) return false;
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    if (with->input[n] >= 0 && tile->input_stride[with->input[n]] != 1) return false;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    if (with->repeated[n] >= 0 && tile->input_stride[with->repeated[n]] != 0) return false;
  return true;
}

/* The inputs of a tile from its element `start` on. */
static cpu_formula_operands place_inputs(const cpu_formula *formula, const cpu_tile *tile,
                                         int64_t start) {
  const cpu_match *with = &formula->operands;
  cpu_formula_operands o = {.input_line = {0}};
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    o.input[n] =
        with->input[n] < 0 ? with->number : (const float *)tile->input[with->input[n]] + start;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    o.repeated[n] = with->repeated[n] < 0 ? &with->number[n] : tile->input[with->repeated[n]];
  return o;
}

void cpu_formula_run(const cpu_formula *formula, const cpu_tile *tile, int64_t start, int64_t count,
                     void *const *outputs) {
  cpu_formula_operands o = place_inputs(formula, tile, start);
  for (uint32_t k = 0; k < CPU_FORMULA_OUTPUTS; k++)
    o.output[k] = outputs[k < formula->outputs ? k : 0];
  formula->loop(1, count, &o);
}

void cpu_formula_run_lines(const cpu_formula *formula, const cpu_tile *tile,
                           const cpu_line_steps *step, int64_t lines) {
  const cpu_match *with = &formula->operands;
  cpu_formula_operands o = place_inputs(formula, tile, 0);
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    if (with->input[n] >= 0) o.input_line[n] = step->input[with->input[n]];
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    if (with->repeated[n] >= 0) o.repeated_line[n] = step->input[with->repeated[n]];
  for (uint32_t k = 0; k < CPU_FORMULA_OUTPUTS; k++) {
    const uint32_t output = k < formula->outputs ? k : 0;
    o.output[k] = tile->output[output];
    o.output_line[k] = step->output[output];
  }
  formula->loop(lines, tile->count, &o);
}

bool cpu_formula_run_box(const cpu_formula *formula, const cpu_box *box, int32_t along) {
  const uint32_t inputs = box->program->input_count;
  cpu_tile tile = {.count = box->count[along]};
  if (!formula->loop) return false;
  for (uint32_t i = 0; i < inputs; i++) tile.input_stride[i] = box->input_step[i][along];
  if (!cpu_formula_suits(formula, &tile)) return false;
  for (uint32_t k = 0; k < formula->outputs; k++)
    if (box->output_step[k][along] != 1) return false;
  cpu_lines lines = cpu_lines_first(box, along);
  do {
    cpu_line_steps step;
    for (uint32_t i = 0; i < inputs; i++)
      tile.input[i] = box->input[i] + cpu_lines_offset(&lines, box->input_step[i], &step.input[i]) *
                                          (int64_t)box->program->input_bytes[i];
    for (uint32_t k = 0; k < formula->outputs; k++)
      tile.output[k] =
          box->output[k] +
          cpu_lines_offset(&lines, box->output_step[k], &step.output[k]) * (int64_t)sizeof(float);
    cpu_formula_run_lines(formula, &tile, &step, lines.rows);
  } while (cpu_lines_next(&lines));
  return true;
}
