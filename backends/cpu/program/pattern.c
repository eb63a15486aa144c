/* SPDX-License-Identifier: MIT */
/* Compares programs with patterns, from their outputs backwards. */
#include "program/pattern.h"

#include <string.h>

/* Instructions by their letter. */
static const uint8_t codes[] = {
    ['+'] = COMPUTE_I_ADD,   ['-'] = COMPUTE_I_SUB,    ['*'] = COMPUTE_I_MUL,
    ['/'] = COMPUTE_I_DIV,   ['q'] = COMPUTE_I_SQUARE, ['s'] = COMPUTE_I_SQRT,
    ['m'] = COMPUTE_I_RELU,  ['<'] = COMPUTE_I_LE,     ['?'] = COMPUTE_I_SELECT,
    ['u'] = COMPUTE_I_ROUND, ['c'] = COMPUTE_I_CAST,   ['l'] = COMPUTE_I_MAX,
    ['h'] = COMPUTE_I_MIN,
};

typedef struct token {
  char kind;
  uint8_t number; /* of a role */
  bool optional, swaps;
  uint8_t operand[3]; /* token numbers */
} token;

typedef struct matching {
  const compute_program *program;
  const compute_dtype *inputs;
  compute_dtype dtype;
  cpu_match *made;
  token tokens[CPU_PATTERN_TOKENS];
  uint32_t outputs;
  uint8_t root[COMPUTE_MAX_OPERANDS]; /* the token that computes an output */
} matching;

static void read_tokens(matching *m, const char *text) {
  uint8_t stack[CPU_PATTERN_TOKENS], count = 0, depth = 0;
  while (*text) {
    const char kind = *text++;
    if (kind == 'o') {
      m->root[*text++ - '0'] = stack[--depth];
      m->outputs++;
      continue;
    }
    if (kind == '~' || kind == '&') {
      token *last = &m->tokens[stack[depth - 1]];
      *(kind == '~' ? &last->optional : &last->swaps) = true;
      continue;
    }
    token *t = &m->tokens[count];
    *t = (token){.kind = kind};
    switch (kind) {
    case 'i':
    case 'r':
    case 'n':
    case 'v':
    case 'b': t->number = (uint8_t)(*text++ - '0'); break;
    case 'x':
    case 't': break;
    default:
      for (int o = cpu_operand_count(codes[(unsigned char)kind]); o-- > 0;)
        t->operand[o] = stack[--depth];
    }
    stack[depth++] = count++;
  }
  if (depth > 0) { /* without OUT */
    m->root[0] = stack[0];
    m->outputs = 1;
  }
}

static const compute_instruction *instruction_at(const matching *m, uint16_t value) {
  return &m->program->instructions[value];
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static bool take_input(const matching *m, const compute_instruction *i, int16_t *input) {
  const int16_t number = (int16_t)i->immediate.i64;
  if (i->code != COMPUTE_I_LOAD || i->type != COMPUTE_F32 || m->inputs[number] != m->dtype ||
      (*input >= 0 && *input != number))
    return false;
  *input = number;
  return true;
}

static bool take_number(const matching *m, const compute_instruction *i, uint8_t number) {
  cpu_match *made = m->made;
  const float constant = (float)i->immediate.f64;
  if (i->code != COMPUTE_I_CONSTANT || i->type != COMPUTE_F32 || made->repeated[number] >= 0 ||
      (made->is_number[number] && memcmp(&constant, &made->number[number], sizeof constant) != 0))
    return false;
  made->is_number[number] = true;
  made->number[number] = constant;
  return true;
}

static bool take_repeated(const matching *m, const compute_instruction *i, uint8_t number) {
  return i->code == COMPUTE_I_CONSTANT
             ? take_number(m, i, number)
             : !m->made->is_number[number] && take_input(m, i, &m->made->repeated[number]);
}

static bool is_first(const matching *m, const compute_instruction *i, compute_dtype dtype) {
  return i->code == COMPUTE_I_LOAD && i->immediate.i64 == 0 && i->type == dtype &&
         m->inputs[0] == dtype;
}

/* Takes a factor, or an added or subtracted constant, of an integer expression, and returns its
 * other operand. */
static bool take_integer(const matching *m, const compute_instruction *i, uint32_t *number,
                         uint16_t *other) {
  const compute_instruction *a = instruction_at(m, i->a), *b = instruction_at(m, i->b);
  const bool turned = b->code != COMPUTE_I_CONSTANT;
  if (turned && (a->code != COMPUTE_I_CONSTANT || i->code == COMPUTE_I_SUB)) return false;
  *number = (uint32_t)(turned ? a : b)->immediate.i64;
  *other = turned ? i->b : i->a;
  return true;
}

/* Takes one more term: the value, subtracted if `negative`. */
static bool take_term(const matching *m, uint16_t value, bool negative) {
  cpu_match *made = m->made;
  if (made->terms == CPU_REQUANTIZE_TERMS) return false;
  cpu_requantize_term_i32 term = {.factor = negative ? UINT32_MAX : 1};
  for (;;) {
    const compute_instruction *i = instruction_at(m, value);
    uint32_t number;
    if (i->type != COMPUTE_I32) return false;
    if (i->code == COMPUTE_I_LOAD) {
      term.input = (int16_t)i->immediate.i64;
      if (term.input == 0 || m->inputs[term.input] != COMPUTE_I32) return false;
      made->term[made->terms++] = term;
      return true;
    }
    if (i->code != COMPUTE_I_ADD && i->code != COMPUTE_I_SUB && i->code != COMPUTE_I_MUL)
      return false;
    if (!take_integer(m, i, &number, &value)) return false;
    if (i->code == COMPUTE_I_MUL)
      term.factor *= number;
    else
      term.constant += term.factor * (i->code == COMPUTE_I_SUB ? -number : number);
  }
}

static bool take_first_and_terms(const matching *m, uint16_t value) {
  for (;;) {
    const compute_instruction *i = instruction_at(m, value);
    if (is_first(m, i, COMPUTE_I32)) return true;
    if (i->type != COMPUTE_I32 || (i->code != COMPUTE_I_ADD && i->code != COMPUTE_I_SUB))
      return false;
    const bool subtracts = i->code == COMPUTE_I_SUB;
    if (take_term(m, i->b, subtracts))
      value = i->a;
    else if (!subtracts && take_term(m, i->a, false))
      value = i->b;
    else
      return false;
  }
}

/* The operand of a limit of i32 by a constant, or −1. */
static int32_t limited(const matching *m, uint16_t value, compute_instruction_code code,
                       int64_t *limit) {
  const compute_instruction *i = instruction_at(m, value), *number = instruction_at(m, i->b);
  if (i->code != code || i->type != COMPUTE_I32 || number->code != COMPUTE_I_CONSTANT) return -1;
  *limit = number->immediate.i64;
  return i->a;
}

/* Takes an f32 that was converted to i32 and limited to the range of bytes. */
static bool take_limited(const matching *m, uint16_t value, uint8_t number) {
  int64_t low, high;
  const int32_t below = limited(m, value, COMPUTE_I_MIN, &high);
  const int32_t cast = below < 0 ? -1 : limited(m, (uint16_t)below, COMPUTE_I_MAX, &low);
  if (cast < 0 || m->made->bytes >= 0) return false;
  const compute_instruction *i = instruction_at(m, (uint16_t)cast);
  const bool is_signed = high == INT8_MAX;
  if (i->code != COMPUTE_I_CAST || i->type != COMPUTE_I32 ||
      instruction_at(m, i->a)->type != COMPUTE_F32 || high != (is_signed ? INT8_MAX : UINT8_MAX) ||
      low != (is_signed ? INT8_MIN : 0))
    return false;
  m->made->bytes = i->a;
  m->made->is_signed[number] = is_signed;
  m->made->input[number] = 0;
  return true;
}

static bool take_bytes(const matching *m, uint16_t value, uint8_t number) {
  const compute_instruction *i = instruction_at(m, value);
  if (i->code != COMPUTE_I_LOAD) return take_limited(m, value, number);
  if (i->type != COMPUTE_I32 && i->type != COMPUTE_F32) return false;
  const compute_dtype dtype = m->inputs[i->immediate.i64];
  m->made->input[number] = (int16_t)i->immediate.i64;
  m->made->is_signed[number] = dtype == COMPUTE_I8;
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

static bool match_value(const matching *m, uint8_t number, uint16_t value);

static bool match_operands(const matching *m, const token *t, const uint16_t *operand) {
  for (int k = 0; k < cpu_operand_count(codes[(unsigned char)t->kind]); k++)
    if (!match_value(m, t->operand[k], operand[k])) return false;
  return true;
}

/* Relu, or a maximum with a number. */
static bool match_at_least(const matching *m, const token *t, const compute_instruction *i) {
  const uint8_t number = m->tokens[t->operand[1]].number;
  if (i->type != COMPUTE_F32 || (i->code != COMPUTE_I_RELU && i->code != COMPUTE_I_MAX))
    return false;
  if (i->code == COMPUTE_I_RELU) {
    m->made->is_number[number] = true;
    return match_value(m, t->operand[0], i->a);
  }
  m->made->takes_limit = take_number(m, instruction_at(m, i->b), number);
  if (m->made->takes_limit) return match_value(m, t->operand[0], i->a);
  return take_number(m, instruction_at(m, i->a), number) && match_value(m, t->operand[0], i->b);
}

static bool match_token(const matching *m, const token *t, uint16_t value) {
  const compute_instruction *i = instruction_at(m, value);
  switch (t->kind) {
  case 'i': return take_input(m, i, &m->made->input[t->number]);
  case 'r': return take_repeated(m, i, t->number);
  case 'n': return take_number(m, i, t->number);
  case 'x': return is_first(m, i, COMPUTE_F32);
  case 'v': return m->program->outputs[t->number] == value;
  case 't': return take_first_and_terms(m, value);
  case 'b': return take_bytes(m, value, t->number);
  case 'l': return match_at_least(m, t, i);
  default: break;
  }
  const uint8_t code = codes[(unsigned char)t->kind];
  if (i->code != code || i->type != (code == COMPUTE_I_LE ? COMPUTE_BOOL : COMPUTE_F32))
    return false;
  const cpu_match before = *m->made;
  const uint16_t operand[] = {i->a, i->b, i->c}, swapped[] = {i->b, i->a};
  if (match_operands(m, t, operand)) return true;
  if (!t->swaps) return false;
  *m->made = before;
  return match_operands(m, t, swapped);
}

/* An optional instruction is left out if that is possible: x + a is the inner sum of (x + a) + b. */
static bool match_value(const matching *m, uint8_t number, uint16_t value) {
  const token *t = &m->tokens[number];
  if (t->optional) {
    const cpu_match before = *m->made;
    if (match_value(m, t->operand[0], value)) return true;
    *m->made = before;
  }
  return match_token(m, t, value);
}

static cpu_match no_match(void) {
  cpu_match none = {.bytes = -1};
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++) none.input[n] = -1;
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++) none.repeated[n] = -1;
  return none;
}

bool cpu_pattern_match(const char *pattern, const compute_program *program,
                       const compute_dtype *inputs, compute_dtype dtype, cpu_match *match) {
  matching m; /* tokens need no initial values */
  m.program = program;
  m.inputs = inputs;
  m.dtype = dtype;
  m.made = match;
  m.outputs = 0;
  *match = no_match();
  read_tokens(&m, pattern);
  if (program->count == 0 || m.outputs != program->output_count) return false;
  for (uint32_t k = m.outputs; k-- > 0;)
    if (!match_value(&m, m.root[k], program->outputs[k])) return false;
  return true;
}
