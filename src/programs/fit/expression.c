/* SPDX-License-Identifier: MIT */
/* A parser by recursive descent. It produces a list of steps in reverse Polish order, which are
 * evaluated for many rows at a time. The list, the depth of the stack and the recursion are all
 * limited. */
#include "programs/fit/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 256, MOST_DEPTH = 24, MOST_NESTING = 64 };

typedef enum step_kind {
  STEP_NUMBER,
  STEP_COLUMN,
  STEP_NEGATE,
  STEP_NOT,
  STEP_ADD,
  STEP_SUBTRACT,
  STEP_MULTIPLY,
  STEP_DIVIDE,
  STEP_LESS,
  STEP_LESS_EQUAL,
  STEP_GREATER,
  STEP_GREATER_EQUAL,
  STEP_EQUAL,
  STEP_UNEQUAL,
  STEP_AND,
  STEP_OR
} step_kind;

typedef struct step {
  step_kind kind;
  int32_t column;
  double number;
} step;

struct expression {
  int32_t count;
  step steps[MOST_STEPS];
};

/* ---- Reading ------------------------------------------------------------------------------- */

typedef struct reader {
  const char *text, *at;
  const expression_names *names;
  expression *e;
  int32_t depth, nesting;
  failure *why;
  bool failed;
} reader;

/* Operators by precedence, the weakest first. If one operator is a prefix of another, the longer
 * one comes first. */
static const struct {
  const char *text;
  int level;
  step_kind kind;
} operators[] = {{"||", 0, STEP_OR},      {"&&", 1, STEP_AND},        {"==", 2, STEP_EQUAL},
                 {"!=", 2, STEP_UNEQUAL}, {"<=", 3, STEP_LESS_EQUAL}, {">=", 3, STEP_GREATER_EQUAL},
                 {"<", 3, STEP_LESS},     {">", 3, STEP_GREATER},     {"+", 4, STEP_ADD},
                 {"-", 4, STEP_SUBTRACT}, {"*", 5, STEP_MULTIPLY},    {"/", 5, STEP_DIVIDE}};
enum { LEVELS = 6, OPERATORS = sizeof operators / sizeof *operators };

/* Writes the part of the text around `at` and a mark below it, as the two lines of the remedy. */
static void point_at(const reader *r, const char *at, char *lines, size_t room) {
  enum { BEFORE = 50, SHOWN = 70 };
  const char *first = at - r->text > BEFORE ? at - BEFORE : r->text;
  snprintf(lines, room, "%.*s\n  %*s^", SHOWN, first, (int)(at - first), "");
}

static void fail(reader *r, const char *at, const char *what) {
  char lines[256];
  if (r->failed) return;
  r->failed = true;
  point_at(r, at, lines, sizeof lines);
  failure_set(r->why, COMPUTE_ERROR_INVALID_ARGUMENT, lines, "character %d: %s",
              (int)(at - r->text) + 1, what);
}

static void fail_name(reader *r, const char *name, size_t length) {
  char what[700];
  size_t used = (size_t)snprintf(what, sizeof what, "there is no column '%.*s'; there are ",
                                 (int)(length < 60 ? length : 60), name);
  const char *column;
  for (int32_t i = 0; used < sizeof what && (column = r->names->name(r->names->table, i)); i++)
    used += (size_t)snprintf(what + used, sizeof what - used, "%s%s", i ? ", " : "", column);
  fail(r, name, what);
}

static void skip_blanks(reader *r) {
  while (*r->at == ' ' || *r->at == '\t') r->at++;
}

/* Appends a step. `taken` is the number of values that the step replaces by one. */
static void put(reader *r, step added, int32_t taken) {
  if (r->failed) return;
  r->depth += 1 - taken;
  if (r->e->count == MOST_STEPS || r->depth > MOST_DEPTH)
    fail(r, r->at, "the expression is too long");
  else
    r->e->steps[r->e->count++] = added;
}

static void read_level(reader *r, int level);

static bool is_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

static void read_name(reader *r) {
  const char *name = r->at;
  while (is_name(*r->at)) r->at++;
  const size_t length = (size_t)(r->at - name);
  const int32_t column = r->names->find(r->names->table, name, length);
  if (column < 0)
    fail_name(r, name, length);
  else
    put(r, (step){.kind = STEP_COLUMN, .column = column}, 0);
}

static void read_number(reader *r) {
  char *end;
  const double number = strtod(r->at, &end);
  if (is_name(*end)) {
    fail(r, end, "a number ends here, and a name cannot begin");
    return;
  }
  r->at = end;
  put(r, (step){.kind = STEP_NUMBER, .number = number}, 0);
}

static void read_parentheses(reader *r) {
  const char *open = r->at++;
  read_level(r, 0);
  skip_blanks(r);
  if (*r->at == ')')
    r->at++;
  else
    fail(r, *r->at ? r->at : open,
         *r->at ? "expected an operator or ')'" : "this parenthesis is not closed");
}

static void read_value(reader *r) {
  skip_blanks(r);
  const char c = *r->at;
  if (r->failed) return;
  if (++r->nesting > MOST_NESTING) {
    fail(r, r->at, "the expression is nested too deeply");
  } else if (c == '-' || (c == '!' && r->at[1] != '=')) {
    r->at++;
    read_value(r);
    put(r, (step){.kind = c == '-' ? STEP_NEGATE : STEP_NOT}, 1);
  } else if (c == '(') {
    read_parentheses(r);
  } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)r->at[1]))) {
    read_number(r);
  } else if (is_name(c)) {
    read_name(r);
  } else {
    fail(r, r->at,
         c ? "expected a column or a number" : "expected a column or a number at the end");
  }
  r->nesting--;
}

/* Returns the operator at this place, or OPERATORS. */
static size_t operator_at(const reader *r) {
  size_t i = 0;
  while (i < OPERATORS && strncmp(r->at, operators[i].text, strlen(operators[i].text)) != 0) i++;
  return i;
}

static void read_level(reader *r, int level) {
  if (level == LEVELS) {
    read_value(r);
    return;
  }
  read_level(r, level + 1);
  while (!r->failed) {
    skip_blanks(r);
    const size_t i = operator_at(r);
    if (i == OPERATORS || operators[i].level != level) return;
    r->at += strlen(operators[i].text);
    read_level(r, level + 1);
    put(r, (step){.kind = operators[i].kind}, 2);
  }
}

compute_status expression_parse(const char *text, const expression_names *names,
                                expression **parsed, failure *why) {
  *parsed = NULL;
  expression *e = calloc(1, sizeof *e);
  if (!e)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for a condition");
  reader r = {.text = text, .at = text, .names = names, .e = e, .why = why};
  read_level(&r, 0);
  skip_blanks(&r);
  if (*r.at == '=') fail(&r, r.at, "expected an operator; equality is written ==");
  if (*r.at) fail(&r, r.at, "expected an operator");
  if (r.failed) {
    free(e);
    return COMPUTE_ERROR_INVALID_ARGUMENT;
  }
  *parsed = e;
  return COMPUTE_OK;
}

/* ---- Evaluating ---------------------------------------------------------------------------- */

#define EACH(expression)                                                                           \
  for (int32_t i = 0; i < count; i++) a[i] = (expression);                                         \
  break

static void calculate(step_kind kind, int32_t count, double *a, const double *b) {
  switch (kind) {
  case STEP_NEGATE: EACH(-a[i]);
  case STEP_NOT: EACH(a[i] == 0);
  case STEP_ADD: EACH(a[i] + b[i]);
  case STEP_SUBTRACT: EACH(a[i] - b[i]);
  case STEP_MULTIPLY: EACH(a[i] * b[i]);
  case STEP_DIVIDE: EACH(a[i] / b[i]);
  case STEP_LESS: EACH(a[i] < b[i]);
  case STEP_LESS_EQUAL: EACH(a[i] <= b[i]);
  case STEP_GREATER: EACH(a[i] > b[i]);
  case STEP_GREATER_EQUAL: EACH(a[i] >= b[i]);
  case STEP_EQUAL: EACH(a[i] == b[i]);
  case STEP_UNEQUAL: EACH(a[i] != b[i]);
  case STEP_AND: EACH(a[i] != 0 && b[i] != 0);
  case STEP_OR: EACH(a[i] != 0 || b[i] != 0);
  case STEP_NUMBER:
  case STEP_COLUMN: break;
  }
}

void expression_evaluate(const expression *e, int32_t count, expression_values values,
                         const void *rows, double *result) {
  double stack[MOST_DEPTH][EXPRESSION_MOST_ROWS];
  int32_t depth = 0;
  for (int32_t k = 0; k < e->count; k++) {
    const step *s = &e->steps[k];
    if (s->kind == STEP_NUMBER) {
      for (int32_t i = 0; i < count; i++) stack[depth][i] = s->number;
      depth++;
    } else if (s->kind == STEP_COLUMN) {
      values(rows, s->column, stack[depth++]);
    } else {
      if (s->kind >= STEP_ADD) depth--;
      calculate(s->kind, count, stack[depth - 1], stack[depth]);
    }
  }
  memcpy(result, stack[0], (size_t)count * sizeof *result);
}
