/* SPDX-License-Identifier: MIT */
/* A pattern becomes a list of tokens in postfix order, then a nondeterministic automaton with one
 * entry and one exit for each part (Thompson 1968). A match follows all states at once. Stacks are
 * arrays, so a deep pattern does not recurse. */
#include "model/operators/text_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "model/operators/text.h"

enum { MOST_TOKENS = 4096, MOST_RANGES = 8192, MOST_REPEATS = 1000 };

typedef enum token_kind {
  TOKEN_EMPTY,
  TOKEN_SET,    /* one character */
  TOKEN_ASSERT, /* a position */
  TOKEN_JOIN,
  TOKEN_EITHER,
  TOKEN_MAYBE, /* ? */
  TOKEN_ANY,   /* * */
  TOKEN_MORE   /* + */
} token_kind;

typedef struct token {
  token_kind kind;
  char position; /* TOKEN_ASSERT: ^ $ b B */
  bool negated;
  int32_t first, count; /* of a set's ranges */
} token;

typedef struct pattern_range {
  uint32_t first, last;
} pattern_range;

typedef struct pattern_state {
  token token;         /* TOKEN_EMPTY: continues at once */
  int32_t next, other; /* −1: none */
} pattern_state;

typedef struct parser {
  model_call *call;
  const char *source, *at;
  token *tokens;
  pattern_range *ranges;
  int32_t count, range_count;
  /* Operands: the first token of each. Operators: '(' '|' '.', with '.' for a join. */
  int32_t *operands;
  char *operators;
  int32_t operand_count, operator_count;
  compute_status status;
} parser;

static void refuse(parser *p, const char *reason) {
  if (!p->status)
    p->status = call_fail(p->call, COMPUTE_ERROR_UNSUPPORTED, "its pattern at byte %d: %s",
                          (int)(p->at - p->source), reason);
}

static void add_token(parser *p, token t) {
  if (p->count == MOST_TOKENS)
    refuse(p, "too long");
  else
    p->tokens[p->count++] = t;
}

static void add_range(parser *p, token *set, uint32_t first, uint32_t last) {
  if (p->range_count == MOST_RANGES) {
    refuse(p, "too many ranges");
    return;
  }
  p->ranges[p->range_count++] = (pattern_range){first, last};
  set->count++;
}

/* ---- Sets ---------------------------------------------------------------------------------- */

/* Ranges of a class, in pairs. The upper-case letter stands for all other characters. \s is without
 * \v, as in RE2, and [:space:] with it. */
static const struct {
  char letter;
  const char *name;
  const char *pairs;
} classes[] = {
    {'d', "digit", "09"},   {'w', "word", "09AZ__az"}, {'s', "", "\t\n\f\r  "},
    {0, "alpha", "AZaz"},   {0, "alnum", "09AZaz"},    {0, "upper", "AZ"},
    {0, "lower", "az"},     {0, "punct", "!/:@[`{~"},  {0, "xdigit", "09AFaf"},
    {0, "space", "\t\r  "}, {0, "blank", "\t\t  "},    {0, "print", " ~"},
    {0, "graph", "!~"},
};

static void add_pairs(parser *p, token *set, const char *pairs, bool negated) {
  uint32_t from = 0;
  for (; *pairs; pairs += 2) {
    const uint32_t first = (unsigned char)pairs[0], last = (unsigned char)pairs[1];
    if (!negated)
      add_range(p, set, first, last);
    else if (first > from)
      add_range(p, set, from, first - 1);
    from = last + 1;
  }
  if (negated) add_range(p, set, from, UINT32_MAX);
}

/* Adds the class of an escape such as \d. Returns false if the letter names none. */
static bool add_class(parser *p, token *set, char letter) {
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    const char own = classes[i].letter;
    if (!own || (letter != own && letter != own - 32)) continue;
    add_pairs(p, set, classes[i].pairs, letter != own);
    return true;
  }
  return false;
}

/* The character of an escape; p->at is behind the backslash. */
static uint32_t escaped(parser *p) {
  static const char letters[] = "tnrfv0", values[] = "\t\n\r\f\v";
  const char c = *p->at;
  const char *at = c ? strchr(letters, c) : NULL;
  if (at && c != '0') {
    p->at++;
    return (unsigned char)values[at - letters];
  }
  if (!c || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    refuse(p, "an escape that is not supported");
    return 0;
  }
  return text_next(&p->at);
}

/* [:name:] in a set. Returns false if there is none at p->at. */
static bool named_class(parser *p, token *set) {
  if (strncmp(p->at, "[:", 2) != 0) return false;
  const bool negated = p->at[2] == '^';
  const char *name = p->at + 2 + negated, *end = strstr(name, ":]");
  for (size_t i = 0; end && i < sizeof classes / sizeof *classes; i++) {
    if (strlen(classes[i].name) != (size_t)(end - name) ||
        strncmp(classes[i].name, name, (size_t)(end - name)) != 0)
      continue;
    add_pairs(p, set, classes[i].pairs, negated);
    p->at = end + 2;
    return true;
  }
  refuse(p, "an unknown class");
  return true;
}

static int compare_ranges(const void *a, const void *b) {
  const pattern_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

/* Sorts the ranges of a set and joins those that overlap, for a binary search. */
static void sort_set(parser *p, token *set) {
  pattern_range *ranges = p->ranges + set->first;
  if (set->count < 2) return;
  qsort(ranges, (size_t)set->count, sizeof *ranges, compare_ranges);
  int32_t last = 0;
  for (int32_t i = 1; i < set->count; i++) {
    if (ranges[i].first > ranges[last].last)
      ranges[++last] = ranges[i];
    else if (ranges[i].last > ranges[last].last)
      ranges[last].last = ranges[i].last;
  }
  set->count = last + 1;
  p->range_count = set->first + set->count;
}

static void set_item(parser *p, token *set) {
  if (named_class(p, set)) return;
  if (*p->at == '\\' && add_class(p, set, p->at[1])) {
    p->at += 2;
    return;
  }
  uint32_t first, last;
  if (*p->at == '\\') {
    p->at++;
    first = escaped(p);
  } else {
    first = text_next(&p->at);
  }
  last = first;
  if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
    p->at++;
    if (*p->at == '\\') {
      p->at++;
      last = escaped(p);
    } else {
      last = text_next(&p->at);
    }
  }
  if (last < first) refuse(p, "a range that ends before it begins");
  add_range(p, set, first, last);
}

static void take_set(parser *p) {
  token set = {.kind = TOKEN_SET, .first = p->range_count};
  set.negated = *p->at == '^';
  p->at += set.negated;
  bool any = false;
  while (!p->status && *p->at && (*p->at != ']' || !any)) {
    set_item(p, &set);
    any = true;
  }
  if (*p->at != ']') refuse(p, "a set without its end");
  if (!p->status) p->at++;
  sort_set(p, &set);
  add_token(p, set);
}

/* ---- Operands and operators ------------------------------------------------------------------ */

static void take_atom(parser *p) {
  const char c = *p->at;
  token t = {.kind = TOKEN_SET, .first = p->range_count};
  p->operands[p->operand_count++] = p->count;
  if (c == '[') {
    p->at++;
    take_set(p);
    return;
  }
  if (c == '^' || c == '$') {
    p->at++;
    t = (token){.kind = TOKEN_ASSERT, .position = c};
  } else if (c == '\\' && (p->at[1] == 'b' || p->at[1] == 'B')) {
    t = (token){.kind = TOKEN_ASSERT, .position = p->at[1]};
    p->at += 2;
  } else if (c == '\\' && (p->at[1] == 'A' || p->at[1] == 'z')) {
    t = (token){.kind = TOKEN_ASSERT, .position = p->at[1] == 'A' ? '^' : '$'};
    p->at += 2;
  } else if (c == '\\' && add_class(p, &t, p->at[1])) {
    p->at += 2;
  } else if (c == '.') {
    p->at++;
    t.negated = true;
    add_range(p, &t, '\n', '\n');
  } else {
    p->at += c == '\\';
    const uint32_t one = c == '\\' ? escaped(p) : text_next(&p->at);
    add_range(p, &t, one, one);
  }
  add_token(p, t);
}

/* Applies the operators on top of the stack that bind at least as strongly as `next`. */
static void apply(parser *p, char next) {
  while (p->operator_count > 0) {
    const char top = p->operators[p->operator_count - 1];
    if (top == '(' || (top == '|' && next == '.')) return;
    p->operator_count--;
    p->operand_count--;
    add_token(p, (token){.kind = top == '.' ? TOKEN_JOIN : TOKEN_EITHER});
  }
}

static void push(parser *p, char operator) {
  if (operator!= '(') apply(p, operator);
  if (p->operator_count == MOST_TOKENS)
    refuse(p, "nested too deeply");
  else
    p->operators[p->operator_count++] = operator;
}

/* Appends a copy of the operand at tokens[first … first + count − 1]. */
static void repeat_operand(parser *p, int32_t first, int32_t count) {
  for (int32_t i = 0; i < count && !p->status; i++) add_token(p, p->tokens[first + i]);
}

/* The number at p->at, or −1. */
static int64_t take_number(parser *p) {
  if (*p->at < '0' || *p->at > '9') return -1;
  int64_t number = 0;
  for (; *p->at >= '0' && *p->at <= '9'; p->at++)
    if (number <= MOST_REPEATS) number = 10 * number + (*p->at - '0');
  return number;
}

/* a{m,n} is m copies of a, then n − m of a?; without n, m copies and a*. */
static void repeat_times(parser *p, int64_t least, int64_t most) {
  const int32_t first = p->operands[p->operand_count - 1], count = p->count - first;
  const int64_t copies = most < 0 ? least + 1 : most;
  if (copies == 0) {
    p->count = first;
    add_token(p, (token){.kind = TOKEN_EMPTY});
  }
  for (int64_t i = 0; i < copies && !p->status; i++) {
    if (i > 0) repeat_operand(p, first, count);
    if (i >= least) add_token(p, (token){.kind = most < 0 ? TOKEN_ANY : TOKEN_MAYBE});
    if (i > 0) add_token(p, (token){.kind = TOKEN_JOIN});
  }
}

static void take_times(parser *p) {
  p->at++;
  const int64_t least = take_number(p);
  int64_t most = least;
  if (*p->at == ',') {
    p->at++;
    most = take_number(p);
  }
  if (*p->at != '}' || least < 0 || least > MOST_REPEATS || most > MOST_REPEATS ||
      (most >= 0 && most < least)) {
    refuse(p, "a repeat that is not supported");
    return;
  }
  p->at++;
  repeat_times(p, least, most);
}

/* Repeats behind an operand. A lazy repeat matches the same whole texts. */
static void take_repeats(parser *p) {
  while (!p->status && *p->at && strchr("*+?{", *p->at)) {
    const char c = *p->at;
    if (c == '{') {
      take_times(p);
    } else {
      p->at++;
      add_token(p, (token){.kind = c == '*' ? TOKEN_ANY : c == '+' ? TOKEN_MORE : TOKEN_MAYBE});
    }
    if (*p->at == '?') p->at++;
  }
}

static void add_empty(parser *p) {
  p->operands[p->operand_count++] = p->count;
  add_token(p, (token){.kind = TOKEN_EMPTY});
}

static void open_group(parser *p) {
  p->at++;
  if (strncmp(p->at, "?:", 2) == 0)
    p->at += 2;
  else if (*p->at == '?')
    refuse(p, "a group with flags, a name or look-around");
  push(p, '(');
}

static void close_group(parser *p) {
  p->at++;
  apply(p, ')');
  if (p->operator_count == 0)
    refuse(p, "a group that was not opened");
  else
    p->operator_count--;
}

/* Room for one more operand and the operator before it. */
static bool has_room(parser *p) {
  if (p->operand_count < MOST_TOKENS && p->operator_count + 1 < MOST_TOKENS) return true;
  refuse(p, "too long");
  return false;
}

static void parse(parser *p) {
  bool after = false; /* an operand precedes */
  while (!p->status && *p->at && has_room(p)) {
    const char c = *p->at;
    if (c == '|' || c == ')') {
      if (!after) add_empty(p);
      after = c == ')';
      if (c == ')') {
        close_group(p);
        take_repeats(p);
      } else {
        push(p, '|');
        p->at++;
      }
      continue;
    }
    if (strchr("*+?{", c)) {
      refuse(p, "a repeat of nothing");
      return;
    }
    if (after) push(p, '.');
    after = c != '(';
    if (c == '(') {
      open_group(p);
    } else {
      take_atom(p);
      take_repeats(p);
    }
  }
  if (!p->status && !after && has_room(p)) add_empty(p);
  if (!p->status) apply(p, ')');
  if (!p->status && p->operator_count) refuse(p, "a group without its end");
}

/* ---- The automaton --------------------------------------------------------------------------- */

/* An automaton of a part: its first and last state. */
typedef struct part {
  int32_t first, last;
} part;

static int32_t add_state(pattern_state *states, int32_t *count, token t, int32_t next,
                         int32_t other) {
  states[*count] = (pattern_state){t, next, other};
  return (*count)++;
}

static part build_repeat(pattern_state *states, int32_t *count, token_kind kind, part of) {
  static const token empty = {.kind = TOKEN_EMPTY};
  const int32_t last = add_state(states, count, empty, -1, -1);
  const int32_t first = add_state(states, count, empty, of.first, kind == TOKEN_MORE ? -1 : last);
  states[of.last].next = last;
  if (kind != TOKEN_MAYBE) states[of.last].other = of.first;
  return (part){first, last};
}

/* At most two states for each token. */
static void build(const parser *p, pattern_state *states, part *stack, text_pattern *pattern) {
  static const token empty = {.kind = TOKEN_EMPTY};
  int32_t count = 0, top = 0;
  for (int32_t i = 0; i < p->count; i++) {
    const token t = p->tokens[i];
    if (t.kind <= TOKEN_ASSERT) {
      const int32_t last = add_state(states, &count, empty, -1, -1);
      stack[top++] = (part){add_state(states, &count, t, last, -1), last};
    } else if (t.kind == TOKEN_JOIN) {
      top--;
      states[stack[top - 1].last].next = stack[top].first;
      stack[top - 1].last = stack[top].last;
    } else if (t.kind == TOKEN_EITHER) {
      top--;
      const part a = stack[top - 1], b = stack[top];
      const int32_t last = add_state(states, &count, empty, -1, -1);
      states[a.last].next = states[b.last].next = last;
      stack[top - 1] = (part){add_state(states, &count, empty, a.first, b.first), last};
    } else {
      stack[top - 1] = build_repeat(states, &count, t.kind, stack[top - 1]);
    }
  }
  *pattern = (text_pattern){states, p->ranges, count, stack[0].first, stack[0].last};
}

compute_status pattern_compile(model_call *call, const char *source, text_pattern *pattern) {
  parser p = {.call = call, .source = source, .at = source};
  p.tokens = call_allocate(call, MOST_TOKENS, sizeof *p.tokens);
  p.ranges = call_allocate(call, MOST_RANGES, sizeof *p.ranges);
  p.operands = call_allocate(call, MOST_TOKENS, sizeof *p.operands);
  p.operators = call_allocate(call, MOST_TOKENS, sizeof *p.operators);
  if (!p.tokens || !p.ranges || !p.operands || !p.operators) return call_out_of_memory(call);
  parse(&p);
  if (p.status) return p.status;
  pattern_state *states = call_allocate(call, 2 * (size_t)p.count, sizeof *states);
  part *stack = call_allocate(call, (size_t)p.count, sizeof *stack);
  if (!states || !stack) return call_out_of_memory(call);
  build(&p, states, stack, pattern);
  return COMPUTE_OK;
}

/* ---- Matching -------------------------------------------------------------------------------- */

bool pattern_open(const text_pattern *pattern, pattern_memory *memory) {
  const size_t count = (size_t)pattern->count;
  memory->states = base_allocate(3 * count, sizeof *memory->states);
  memory->marks = base_allocate(count, sizeof *memory->marks);
  return memory->states && memory->marks;
}

void pattern_close(pattern_memory *memory) {
  base_release(memory->states);
  base_release(memory->marks);
}

static bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

/* `before` and `after` are characters, or 0 at an end of the text. */
static bool holds(const token *t, uint32_t before, uint32_t after) {
  switch (t->position) {
  case '^': return before == 0;
  case '$': return after == 0;
  case 'b': return is_word(before) != is_word(after);
  default: return is_word(before) == is_word(after);
  }
}

static bool contains(const text_pattern *pattern, const token *set, uint32_t c) {
  const pattern_range *ranges = &pattern->ranges[set->first];
  int32_t low = 0, high = set->count; /* the first range that ends at c or later */
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (ranges[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  return (low < set->count && c >= ranges[low].first) != set->negated;
}

/* Adds `from` and all states that it reaches without a character. A state is marked when it comes
 * onto the stack, so the stack has room for all. */
static void reach(const text_pattern *pattern, pattern_memory *memory, int32_t from,
                  uint32_t before, uint32_t after, int32_t *list, int32_t *count) {
  int32_t *stack = memory->states + 2 * (size_t)pattern->count, top = 0;
  if (memory->marks[from] == memory->mark) return;
  memory->marks[from] = memory->mark;
  stack[top++] = from;
  while (top > 0) {
    const int32_t at = stack[--top];
    const pattern_state *state = &pattern->states[at];
    list[(*count)++] = at;
    if (state->token.kind == TOKEN_SET) continue;
    if (state->token.kind == TOKEN_ASSERT && !holds(&state->token, before, after)) continue;
    const int32_t next[] = {state->next, state->other};
    for (int i = 0; i < 2; i++) {
      if (next[i] < 0 || memory->marks[next[i]] == memory->mark) continue;
      memory->marks[next[i]] = memory->mark;
      stack[top++] = next[i];
    }
  }
}

static void begin_step(const text_pattern *pattern, pattern_memory *memory) {
  if (++memory->mark) return;
  memset(memory->marks, 0, (size_t)pattern->count * sizeof *memory->marks);
  memory->mark = 1;
}

compute_status pattern_match(host_call *call, const text_pattern *pattern, pattern_memory *memory,
                             const char *text, bool *matches) {
  enum { MOST_UNASKED = 1 << 16 }; /* steps from state to state */
  int32_t unasked = 0;
  compute_status status = COMPUTE_OK;
  int32_t *now = memory->states, *later = now + pattern->count, count = 0;
  uint32_t c = text_next(&text);
  begin_step(pattern, memory);
  reach(pattern, memory, pattern->first, 0, c, now, &count);
  while (!status && c && count > 0) {
    const uint32_t after = text_next(&text);
    int32_t next_count = 0;
    begin_step(pattern, memory);
    for (int32_t i = 0; i < count; i++) {
      const pattern_state *state = &pattern->states[now[i]];
      if (state->token.kind == TOKEN_SET && contains(pattern, &state->token, c))
        reach(pattern, memory, state->next, c, after, later, &next_count);
    }
    int32_t *other = now;
    now = later;
    later = other;
    count = next_count;
    c = after;
    unasked += count;
    if (unasked > MOST_UNASKED) {
      status = host_continue(call);
      unasked = 0;
    }
  }
  bool found = false;
  for (int32_t i = 0; i < count; i++) found |= now[i] == pattern->last;
  *matches = found && c == 0;
  return status;
}
