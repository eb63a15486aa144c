/* SPDX-License-Identifier: MIT */
/* Matches programs against isa/formulas.def: each row is a pattern, compared with a program from
 * its outputs backwards. */
#include "program/formulas.h"

#include <string.h>

#include "program/lines.h"

/* A row as text in postfix form: "i1r0*" is the product of IN(1) and REPEATED(0). */
#define IN(n)           "i" #n
#define REPEATED(n)     "r" #n
#define VALUE(n)        "v" #n
#define OUT(n, e)       e "o" #n
#define ADD(a, b)       a b "+"
#define SUB(a, b)       a b "-"
#define MUL(a, b)       a b "*"
#define DIV(a, b)       a b "/"
#define SQUARE(a)       a "q"
#define SQRT(a)         a "s"
#define RELU(a)         a "m"
#define LE(a, b)        a b "<"
#define SELECT(c, a, b) c a b "?"

enum { MOST_TOKENS = 64 };
#define FORMULA(name, outputs, body)                                                               \
  _Static_assert(sizeof body <= MOST_TOKENS, "a token has at least one character");
#include "program/isa/formulas.def"

static const struct {
  const char *text;
  uint32_t outputs;
} formulas[CPU_FORMULA_COUNT] = {
#define FORMULA(name, outputs, body) [CPU_FORMULA_##name] = {body, outputs},
#include "program/isa/formulas.def"
};

static const uint8_t codes[] = {
    ['+'] = COMPUTE_I_ADD,  ['-'] = COMPUTE_I_SUB,    ['*'] = COMPUTE_I_MUL,
    ['/'] = COMPUTE_I_DIV,  ['q'] = COMPUTE_I_SQUARE, ['s'] = COMPUTE_I_SQRT,
    ['m'] = COMPUTE_I_RELU, ['<'] = COMPUTE_I_LE,     ['?'] = COMPUTE_I_SELECT,
};

typedef struct token {
  char kind;
  uint8_t number;     /* the number in i, r and v tokens */
  uint8_t operand[3]; /* token numbers */
} token;

typedef struct matching {
  const compute_program *program;
  const compute_dtype *inputs;
  cpu_formula *made;
  token tokens[MOST_TOKENS];
  uint8_t root[CPU_FORMULA_OUTPUTS]; /* the token that computes an output */
  struct {
    uint8_t token;
    uint16_t value;
  } pending[MOST_TOKENS]; /* pairs still to compare */
  uint32_t pending_count;
} matching;

static void read_tokens(matching *m, const char *text) {
  uint8_t stack[MOST_TOKENS], count = 0, depth = 0;
  while (*text) {
    const char kind = *text++;
    if (kind == 'o') {
      m->root[*text++ - '0'] = stack[--depth];
      continue;
    }
    token *t = &m->tokens[count];
    *t = (token){.kind = kind};
    if (kind == 'i' || kind == 'r' || kind == 'v') {
      t->number = (uint8_t)(*text++ - '0');
    } else {
      const int operands = cpu_operand_count(codes[(unsigned char)kind]);
      depth = (uint8_t)(depth - operands);
      memcpy(t->operand, &stack[depth], (size_t)operands);
    }
    stack[depth++] = count++;
  }
}

static bool take_input(const matching *m, const compute_instruction *i, int16_t *input) {
  const int16_t number = (int16_t)i->immediate.i64;
  if (i->code != COMPUTE_I_LOAD || i->type != COMPUTE_F32 || m->inputs[number] != COMPUTE_F32 ||
      (*input >= 0 && *input != number))
    return false;
  *input = number;
  return true;
}

static bool take_repeated(const matching *m, const compute_instruction *i, uint8_t number) {
  cpu_formula *made = m->made;
  if (i->code != COMPUTE_I_CONSTANT)
    return !made->is_number[number] && take_input(m, i, &made->repeated[number]);
  const float constant = (float)i->immediate.f64;
  if (i->type != COMPUTE_F32 || made->repeated[number] >= 0 ||
      (made->is_number[number] && memcmp(&constant, &made->number[number], sizeof constant) != 0))
    return false;
  made->is_number[number] = true;
  made->number[number] = constant;
  return true;
}

static void compare_later(matching *m, uint8_t t, uint16_t value) {
  m->pending[m->pending_count].token = t;
  m->pending[m->pending_count++].value = value;
}

static bool compare(matching *m, const token *t, uint16_t value) {
  const compute_instruction *i = &m->program->instructions[value];
  const uint16_t operand[] = {i->a, i->b, i->c};
  switch (t->kind) {
  case 'i': return take_input(m, i, &m->made->input[t->number]);
  case 'r': return take_repeated(m, i, t->number);
  case 'v': return m->program->outputs[t->number] == value;
  default: break;
  }
  const uint8_t code = codes[(unsigned char)t->kind];
  if (i->code != code || i->type != (code == COMPUTE_I_LE ? COMPUTE_BOOL : COMPUTE_F32))
    return false;
  for (int k = 0; k < cpu_operand_count(code); k++) compare_later(m, t->operand[k], operand[k]);
  return true;
}

static bool matches(matching *m, uint32_t outputs) {
  for (uint32_t k = 0; k < outputs; k++) compare_later(m, m->root[k], m->program->outputs[k]);
  while (m->pending_count > 0) {
    m->pending_count--;
    const token *t = &m->tokens[m->pending[m->pending_count].token];
    if (!compare(m, t, m->pending[m->pending_count].value)) return false;
  }
  return true;
}

static cpu_formula no_formula(void) {
  cpu_formula f = {.loop = NULL};
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++) f.input[n] = -1;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++) f.repeated[n] = -1;
  return f;
}

void cpu_formula_read(const cpu_isa *isa, const compute_program *program,
                      const compute_dtype *inputs, uint32_t output_count,
                      const compute_dtype *outputs, cpu_formula *formula) {
  *formula = no_formula();
  for (uint32_t k = 0; k < output_count; k++)
    if (outputs[k] != COMPUTE_F32) return;
  for (uint32_t f = 0; f < CPU_FORMULA_COUNT; f++) {
    cpu_formula made = no_formula();
    matching m = {.program = program, .inputs = inputs, .made = &made};
    if (formulas[f].outputs != output_count) continue;
    read_tokens(&m, formulas[f].text);
    if (!matches(&m, output_count)) continue;
    made.loop = CPU_PICK(isa, cpu_formulas)->loop[f];
    made.outputs = output_count;
    *formula = made;
    return;
  }
}

/* ---- Running --------------------------------------------------------------------------------- */

bool cpu_formula_suits(const cpu_formula *formula, const cpu_tile *tile) {
  if (!formula->loop) return false;
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    if (formula->input[n] >= 0 && tile->input_stride[formula->input[n]] != 1) return false;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    if (formula->repeated[n] >= 0 && tile->input_stride[formula->repeated[n]] != 0) return false;
  return true;
}

/* The inputs of a tile from its element `start` on. */
static cpu_formula_operands place_inputs(const cpu_formula *formula, const cpu_tile *tile,
                                         int64_t start) {
  cpu_formula_operands o = {.input_line = {0}};
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    o.input[n] = formula->input[n] < 0 ? formula->number
                                       : (const float *)tile->input[formula->input[n]] + start;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    o.repeated[n] =
        formula->repeated[n] < 0 ? &formula->number[n] : tile->input[formula->repeated[n]];
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
  cpu_formula_operands o = place_inputs(formula, tile, 0);
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++)
    if (formula->input[n] >= 0) o.input_line[n] = step->input[formula->input[n]];
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++)
    if (formula->repeated[n] >= 0) o.repeated_line[n] = step->input[formula->repeated[n]];
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
