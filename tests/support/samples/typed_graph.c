/* SPDX-License-Identifier: MIT */
#include "support/samples/typed_graph.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "support/harness/test.h"

enum { LEAVES = 8, STEPS = 24, MOST_NODES = LEAVES + STEPS, MOST_OPERANDS = 3 };

/* ---- Operations ---------------------------------------------------------------------------- */

typedef enum operation {
  LEAF,
  /* The result follows exactly from the stored operands. */
  NEG,
  ABS,
  RELU,
  SIGN,
  FLOOR,
  ROUND,
  MINIMUM,
  MAXIMUM,
  EQUAL,
  LESS,
  GREATER_EQUAL,
  IS_FINITE,
  SELECT,
  CAST,
  ROW_MAXIMUM,
  ROW_ARGMAX,
  /* Arithmetic: exact for integers, within roundings for floats. */
  ADD,
  SUB,
  MUL,
  SQUARE,
  EXP,
  TANH,
  ROW_SUM,
  PRODUCT,
  OPERATION_COUNT
} operation;

static const char *const names[OPERATION_COUNT] = {
    [NEG] = "neg",         [ABS] = "abs",         [RELU] = "relu",
    [SIGN] = "sign",       [FLOOR] = "floor",     [ROUND] = "round",
    [MINIMUM] = "minimum", [MAXIMUM] = "maximum", [EQUAL] = "equal",
    [LESS] = "less",       [SELECT] = "select",   [GREATER_EQUAL] = "greater_equal",
    [CAST] = "cast",       [ADD] = "add",         [IS_FINITE] = "is_finite",
    [ROW_MAXIMUM] = "max", [SUB] = "sub",         [ROW_ARGMAX] = "argmax",
    [MUL] = "mul",         [SQUARE] = "square",   [EXP] = "exp",
    [TANH] = "tanh",       [ROW_SUM] = "sum",     [PRODUCT] = "matmul",
};

typedef struct member {
  operation op;
  compute_node node;
  compute_dtype dtype;
  compute_shape shape;
  int operand[MOST_OPERANDS];
  int operand_count;
  bool shown;
  test_values values; /* for leaves and shown nodes */
} member;

typedef struct expression {
  compute_context *context;
  compute_graph *graph;
  test_random random;
  int64_t size[3];
  member members[MOST_NODES];
  int count;
  compute_tensor *tensors[MOST_NODES]; /* bound tensors, or the parameters' */
  compute_binding bindings[MOST_NODES];
  size_t binding_count;
} expression;

static int choose(expression *e, int options) {
  return (int)test_random_integer(&e->random, 0, options - 1);
}

static bool is_half(compute_dtype dtype) {
  return dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
}
static bool is_float(compute_dtype dtype) {
  return is_half(dtype) || dtype == COMPUTE_F32;
}

/* ---- Building ------------------------------------------------------------------------------ */

static compute_shape leaf_shape(expression *e) {
  const int64_t *n = e->size;
  switch (choose(e, 5)) {
  case 0: return COMPUTE_SHAPE(n[1], 1);
  case 1: return COMPUTE_SHAPE(n[2]);
  case 2: return COMPUTE_SCALAR;
  default: return COMPUTE_SHAPE(n[0], n[1], n[2]);
  }
}

/* Adds an input, a parameter or a constant, with values that are often equal or need rounding. */
static void add_leaf(expression *e, compute_dtype dtype, compute_shape shape) {
  member *m = &e->members[e->count];
  *m = (member){.op = LEAF, .dtype = dtype, .shape = shape};
  m->values = test_values_create(dtype, shape);
  const uint64_t seed = test_random_bits(&e->random);
  if (choose(e, 2)) { /* few values, many of them equal; large and small ones together */
    static const double some[] = {0, 1, 1, 0.3, -0.3, 2.5, 1024, -1};
    for (int64_t i = 0; i < m->values.count; i++)
      test_values_set(&m->values, i, some[choose(e, 8)]);
  } else {
    test_values_fill(&m->values, FILL_RANGE, test_is_unsigned(dtype) ? 0 : -4, 4, seed);
  }
  const int kind = choose(e, 3);
  if (kind == 0) {
    m->node = compute_constant(e->graph, dtype, shape, m->values.data);
  } else {
    e->tensors[e->count] = test_tensor(e->context, dtype, shape, m->values.data);
    m->node = kind == 1 ? compute_parameter(e->graph, e->tensors[e->count])
                        : compute_input(e->graph, dtype, shape);
    if (kind == 2)
      e->bindings[e->binding_count++] = (compute_binding){m->node, e->tensors[e->count]};
  }
  e->count++;
}

static bool broadcasts(compute_shape a, compute_shape b) {
  for (int32_t i = 1; i <= a.rank && i <= b.rank; i++) {
    const int64_t x = a.size[a.rank - i], y = b.size[b.rank - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

/* Picks a node of this dtype (NONE: any), preferably a late one; -1 if none is found. */
static int pick(expression *e, compute_dtype dtype) {
  for (int tries = 0; tries < 12; tries++) {
    const int i =
        choose(e, 2) ? e->count - 1 - choose(e, e->count < 4 ? e->count : 4) : choose(e, e->count);
    const compute_dtype found = e->members[i].dtype;
    if (dtype == COMPUTE_DTYPE_NONE ? found != COMPUTE_I64 : found == dtype) return i;
  }
  return -1;
}

static compute_node build_unary(compute_graph *g, operation op, compute_node x) {
  switch (op) {
  case NEG: return compute_neg(g, x);
  case ABS: return compute_abs(g, x);
  case RELU: return compute_relu(g, x);
  case SIGN: return compute_sign(g, x);
  case FLOOR: return compute_floor(g, x);
  case ROUND: return compute_round(g, x);
  case IS_FINITE: return compute_is_finite(g, x);
  case SQUARE: return compute_square(g, x);
  case EXP: return compute_exp(g, x);
  case TANH: return compute_tanh(g, x);
  case ROW_MAXIMUM: return compute_max(g, x, COMPUTE_AXES(-1), true);
  case ROW_ARGMAX: return compute_argmax(g, x, -1, true);
  default: return compute_sum(g, x, COMPUTE_AXES(-1), true);
  }
}

static compute_node build_binary(compute_graph *g, operation op, compute_node a, compute_node b) {
  switch (op) {
  case MINIMUM: return compute_minimum(g, a, b);
  case MAXIMUM: return compute_maximum(g, a, b);
  case EQUAL: return compute_equal(g, a, b);
  case LESS: return compute_less(g, a, b);
  case GREATER_EQUAL: return compute_greater_equal(g, a, b);
  case ADD: return compute_add(g, a, b);
  case SUB: return compute_sub(g, a, b);
  default: return compute_mul(g, a, b);
  }
}

static void append(expression *e, operation op, compute_node node, int a, int b, int c) {
  member *m = &e->members[e->count++];
  *m = (member){.op = op, .node = node, .operand = {a, b, c}};
  m->operand_count = a < 0 ? 0 : b < 0 ? 1 : c < 0 ? 2 : 3;
  m->dtype = compute_node_dtype(e->graph, node);
  m->shape = compute_node_shape(e->graph, node);
  m->shown = choose(e, 2) == 0;
}

static bool append_cast(expression *e, int x) {
  static const compute_dtype to[] = {COMPUTE_F16, COMPUTE_BF16, COMPUTE_F32,  COMPUTE_F16,
                                     COMPUTE_I32, COMPUTE_U8,   COMPUTE_BOOL, COMPUTE_I8,
                                     COMPUTE_I16, COMPUTE_U32};
  if (x < 0) return false;
  append(e, CAST, compute_cast(e->graph, e->members[x].node, to[choose(e, 10)]), x, -1, -1);
  return true;
}

static bool append_unary(expression *e) {
  static const operation on_number[] = {NEG, ABS, RELU, SIGN, SQUARE};
  static const operation on_float[] = {NEG,   ABS,   RELU,      SIGN, SQUARE,
                                       FLOOR, ROUND, IS_FINITE, EXP,  TANH};
  const int x = pick(e, COMPUTE_DTYPE_NONE);
  if (x < 0 || e->members[x].dtype == COMPUTE_BOOL) return append_cast(e, x);
  const operation op =
      is_float(e->members[x].dtype) ? on_float[choose(e, 10)] : on_number[choose(e, 5)];
  append(e, op, build_unary(e->graph, op, e->members[x].node), x, -1, -1);
  return true;
}

static bool append_binary(expression *e) {
  static const operation codes[] = {ADD, SUB,   MUL,  MINIMUM, MAXIMUM,
                                    ADD, EQUAL, LESS, EQUAL,   GREATER_EQUAL};
  const int a = pick(e, COMPUTE_DTYPE_NONE), b = a < 0 ? -1 : pick(e, e->members[a].dtype);
  if (b < 0 || !broadcasts(e->members[a].shape, e->members[b].shape)) return false;
  const operation op = e->members[a].dtype == COMPUTE_BOOL ? EQUAL : codes[choose(e, 10)];
  append(e, op, build_binary(e->graph, op, e->members[a].node, e->members[b].node), a, b, -1);
  return true;
}

static bool append_select(expression *e) {
  const int p = pick(e, COMPUTE_BOOL), a = pick(e, COMPUTE_DTYPE_NONE);
  const int b = a < 0 ? -1 : pick(e, e->members[a].dtype);
  const member *m = e->members;
  if (p < 0 || b < 0 || !broadcasts(m[p].shape, m[a].shape) ||
      !broadcasts(m[p].shape, m[b].shape) || !broadcasts(m[a].shape, m[b].shape))
    return false;
  append(e, SELECT, compute_select(e->graph, m[p].node, m[a].node, m[b].node), p, a, b);
  return true;
}

static bool append_row(expression *e) {
  static const operation codes[] = {ROW_SUM, ROW_SUM, ROW_MAXIMUM, ROW_ARGMAX};
  const int x = pick(e, COMPUTE_DTYPE_NONE);
  if (x < 0) return false;
  const compute_shape shape = e->members[x].shape;
  const operation op = codes[choose(e, 4)];
  if (shape.rank == 0 || e->members[x].dtype == COMPUTE_BOOL) return false;
  if (op != ROW_SUM && shape.size[shape.rank - 1] == 0) return false;
  append(e, op, build_unary(e->graph, op, e->members[x].node), x, -1, -1);
  if (op != ROW_ARGMAX) return true;
  return e->count < MOST_NODES && append_cast(e, e->count - 1);
}

/* [a,b,c] times the last leaf of its dtype, [c,c]. */
static bool append_product(expression *e) {
  const int w = choose(e, 2), x = pick(e, e->members[w].dtype);
  if (x < 0) return false;
  const compute_shape shape = e->members[x].shape;
  if (shape.rank != 3 || shape.size[2] != e->size[2]) return false;
  append(e, PRODUCT, compute_matmul(e->graph, e->members[x].node, e->members[w].node), x, w, -1);
  return true;
}

static void build(expression *e) {
  const compute_dtype half = choose(e, 2) ? COMPUTE_F16 : COMPUTE_BF16;
  for (int i = 0; i < 3; i++) e->size[i] = choose(e, 12) ? 1 + choose(e, 5) : 0;
  const int64_t *n = e->size;
  add_leaf(e, half, COMPUTE_SHAPE(n[2], n[2]));
  add_leaf(e, COMPUTE_F32, COMPUTE_SHAPE(n[2], n[2]));
  add_leaf(e, half, COMPUTE_SHAPE(n[0], n[1], n[2]));
  add_leaf(e, half, leaf_shape(e));
  add_leaf(e, COMPUTE_F32, leaf_shape(e));
  add_leaf(e, COMPUTE_I32, leaf_shape(e));
  static const compute_dtype narrow[] = {COMPUTE_U8, COMPUTE_U16, COMPUTE_I8, COMPUTE_I16,
                                         COMPUTE_U32};
  add_leaf(e, narrow[choose(e, 5)], leaf_shape(e));
  add_leaf(e, COMPUTE_BOOL, leaf_shape(e));
  while (e->count < MOST_NODES) {
    switch (choose(e, 12)) {
    case 0:
    case 1:
    case 2: append_unary(e); break;
    case 3:
    case 4: append_cast(e, pick(e, COMPUTE_DTYPE_NONE)); break;
    case 5: append_select(e); break;
    case 6: append_row(e); break;
    case 7: append_product(e); break;
    default: append_binary(e); break;
    }
  }
  e->members[e->count - 1].shown = true;
}

/* ---- Running ------------------------------------------------------------------------------- */

static void run(expression *e) {
  static const uint32_t flags[] = {0, 0, 0, COMPUTE_PLAN_NO_SIMPLIFICATION, COMPUTE_PLAN_NO_FUSION};
  compute_node outputs[MOST_NODES];
  size_t count = 0;
  for (int i = LEAVES; i < e->count; i++) {
    member *m = &e->members[i];
    if (!m->shown) continue;
    m->values = test_values_create(m->dtype, m->shape);
    e->tensors[i] = test_tensor(e->context, m->dtype, m->shape, NULL);
    e->bindings[e->binding_count++] = (compute_binding){m->node, e->tensors[i]};
    outputs[count++] = m->node;
  }
  compute_plan *plan = test_compile(e->graph, outputs, count, flags[choose(e, 5)]);
  assert_ok(compute_run(plan, e->bindings, e->binding_count, NULL));
  for (int i = LEAVES; i < e->count; i++) {
    member *m = &e->members[i];
    if (m->shown) assert_ok(compute_tensor_read(e->tensors[i], m->values.data, m->values.bytes));
  }
  compute_plan_release(plan);
}

/* ---- Judging ------------------------------------------------------------------------------- */

/* The element of an operand that broadcasts to element `index` of `shape`. */
static int64_t element_of(const member *operand, compute_shape shape, int64_t index) {
  int64_t result = 0, stride = 1;
  for (int32_t i = 1; i <= shape.rank; i++) {
    const int64_t size = shape.size[shape.rank - i], at = index % size;
    index /= size;
    if (i > operand->shape.rank) continue;
    const int64_t own = operand->shape.size[operand->shape.rank - i];
    if (own != 1) result += at * stride;
    stride *= own;
  }
  return result;
}

/* The possible values whose rounded form was stored. */
typedef struct interval {
  double low, high;
} interval;

static interval around(const member *m, int64_t index) {
  const double value = test_values_get(&m->values, index);
  const bool rounded = is_half(m->dtype) && m->op != LEAF;
  const double half = rounded ? 0.5 * test_spacing(m->dtype, value) : 0;
  return (interval){value - half, value + half};
}

static interval hull(const double *values, int count) {
  interval r = {values[0], values[0]};
  for (int i = 1; i < count; i++) {
    r.low = fmin(r.low, values[i]);
    r.high = fmax(r.high, values[i]);
  }
  return r;
}

static double arithmetic(operation op, double a, double b) {
  switch (op) {
  case ADD: return a + b;
  case SUB: return a - b;
  case MUL: return a * b;
  case SQUARE: return a * a;
  case EXP: return exp(a);
  default: return tanh(a);
  }
}

static interval arithmetic_on(operation op, interval a, interval b) {
  const double corner[4] = {arithmetic(op, a.low, b.low), arithmetic(op, a.low, b.high),
                            arithmetic(op, a.high, b.low), arithmetic(op, a.high, b.high)};
  interval r = hull(corner, 4);
  if (op == SQUARE && a.low < 0 && a.high > 0) r.low = 0;
  return r;
}

/* A sum, or a row of a product, in f32 and in any order. */
static interval sum_of(const expression *e, const member *m, int64_t index) {
  const member *x = &e->members[m->operand[0]];
  const int64_t length = x->shape.size[x->shape.rank - 1];
  interval r = {0, 0};
  double size = 0;
  for (int64_t k = 0; k < length; k++) {
    interval term;
    if (m->op == ROW_SUM) {
      term = around(x, index * length + k);
    } else { /* a product's operands are stored, so they are exact */
      const member *w = &e->members[m->operand[1]];
      const double a = test_values_get(&x->values, index / length * length + k);
      const double b = test_values_get(&w->values, k * length + index % length);
      term = (interval){a * b, a * b};
    }
    r.low += term.low;
    r.high += term.high;
    size += fmax(fabs(term.low), fabs(term.high));
  }
  const double error = 0x1p-23 * (double)(length + 2) * size;
  return (interval){r.low - error, r.high + error};
}

static interval expected_float(const expression *e, const member *m, int64_t index) {
  if (m->op == ROW_SUM || m->op == PRODUCT) return sum_of(e, m, index);
  const member *a = &e->members[m->operand[0]];
  const member *b = m->operand_count > 1 ? &e->members[m->operand[1]] : a;
  interval r = arithmetic_on(m->op, around(a, element_of(a, m->shape, index)),
                             around(b, element_of(b, m->shape, index)));
  const double error = 0x1p-21 * fmax(fabs(r.low), fabs(r.high)) + 1e-37;
  return (interval){r.low - error, r.high + error};
}

static bool float_is_right(const expression *e, const member *m, int64_t index, double actual) {
  const interval r = expected_float(e, m, index);
  if (!isfinite(r.low) || !isfinite(r.high)) return true; /* rounding may avoid it */
  const double most = m->dtype == COMPUTE_F16    ? 65504
                      : m->dtype == COMPUTE_BF16 ? 0x1.fep127
                                                 : (double)FLT_MAX;
  if (isinf(actual))
    return actual > 0 ? r.high > most * (1 - 0x1p-12) : r.low < -most * (1 - 0x1p-12);
  const double spacing = 0.5 * test_spacing(m->dtype, actual);
  return actual >= r.low - spacing && actual <= r.high + spacing;
}

static int64_t wrapped(compute_dtype dtype, int64_t value) {
  return test_wrap(dtype, value);
}

static int64_t integer_sum(const expression *e, const member *m, int64_t index) {
  const member *x = &e->members[m->operand[0]];
  const int64_t length = x->shape.size[x->shape.rank - 1];
  uint64_t sum = 0;
  for (int64_t k = 0; k < length; k++)
    sum += (uint64_t)(int64_t)test_values_get(&x->values, index * length + k);
  return wrapped(m->dtype, (int64_t)sum);
}

static double expected_integer(const expression *e, const member *m, int64_t index) {
  if (m->op == ROW_SUM) return (double)integer_sum(e, m, index);
  const member *x = &e->members[m->operand[0]];
  const int64_t a = (int64_t)test_values_get(&x->values, element_of(x, m->shape, index));
  int64_t b = a;
  if (m->operand_count > 1) {
    const member *y = &e->members[m->operand[1]];
    b = (int64_t)test_values_get(&y->values, element_of(y, m->shape, index));
  }
  /* The product of two u32 exceeds an i64. */
  const uint64_t u = (uint64_t)a, v = (uint64_t)b;
  const uint64_t r = m->op == ADD ? u + v : m->op == SUB ? u - v : u * v;
  return (double)wrapped(m->dtype, (int64_t)r);
}

/* The largest of a row, or its first index; NaN is larger than every number. */
static double row_extreme(const expression *e, const member *m, int64_t index) {
  const member *x = &e->members[m->operand[0]];
  const int64_t length = x->shape.size[x->shape.rank - 1];
  double best = test_values_get(&x->values, index * length);
  int64_t place = 0;
  for (int64_t k = 1; k < length && !isnan(best); k++) {
    const double value = test_values_get(&x->values, index * length + k);
    if (!(value > best) && !isnan(value)) continue;
    best = value;
    place = k;
  }
  return m->op == ROW_ARGMAX ? (double)place : best;
}

static double cast_value(compute_dtype from, compute_dtype to, double value) {
  if (!is_float(from) && !is_float(to) && to != COMPUTE_BOOL)
    return (double)wrapped(to, (int64_t)value);
  test_values one = test_values_create(to, COMPUTE_SCALAR);
  test_values_set(&one, 0, value);
  const double result = test_values_get(&one, 0);
  test_values_release(&one);
  return result;
}

static double exact_value(operation op, const double *x) {
  const double a = x[0], b = x[1];
  switch (op) {
  case NEG: return -a;
  case ABS: return fabs(a);
  case RELU: return a < 0 ? 0 : a;
  case SIGN: return isnan(a) ? a : (a > 0) - (a < 0);
  case FLOOR: return floor(a);
  case ROUND: return rint(a);
  case MINIMUM: return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
  case MAXIMUM: return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
  case EQUAL: return a == b;
  case LESS: return a < b;
  case GREATER_EQUAL: return a >= b;
  case IS_FINITE: return isfinite(a) != 0;
  default: return x[0] != 0 ? x[1] : x[2]; /* SELECT */
  }
}

static double expected_exact(const expression *e, const member *m, int64_t index) {
  double x[MOST_OPERANDS] = {0};
  if (m->op == ROW_MAXIMUM || m->op == ROW_ARGMAX) return row_extreme(e, m, index);
  for (int i = 0; i < m->operand_count; i++) {
    const member *operand = &e->members[m->operand[i]];
    x[i] = test_values_get(&operand->values, element_of(operand, m->shape, index));
  }
  if (m->op == CAST) return cast_value(e->members[m->operand[0]].dtype, m->dtype, x[0]);
  const double value = exact_value(m->op, x);
  return is_float(m->dtype) || m->dtype == COMPUTE_BOOL ? value
                                                        : (double)wrapped(m->dtype, (int64_t)value);
}

static bool element_is_right(const expression *e, const member *m, int64_t index) {
  const double actual = test_values_get(&m->values, index);
  if (m->op >= ADD && is_float(m->dtype)) return float_is_right(e, m, index, actual);
  const double expected =
      m->op >= ADD ? expected_integer(e, m, index) : expected_exact(e, m, index);
  return actual == expected || (isnan(actual) && isnan(expected));
}

static bool can_be_judged(const expression *e, const member *m) {
  if (!m->shown) return false;
  for (int i = 0; i < m->operand_count; i++) {
    const member *operand = &e->members[m->operand[i]];
    if (operand->op != LEAF && !operand->shown) return false;
  }
  return true;
}

static void complain(const expression *e, uint64_t seed, const member *m, int64_t index) {
  print_error("typed graph %llu: %s %s at element %lld: %.9g; operands", (unsigned long long)seed,
              compute_dtype_name(m->dtype), names[m->op], (long long)index,
              test_values_get(&m->values, index));
  const bool row = m->op == ROW_SUM || m->op == ROW_MAXIMUM || m->op == ROW_ARGMAX;
  for (int i = 0; i < m->operand_count && !row && m->op != PRODUCT; i++) {
    const member *x = &e->members[m->operand[i]];
    print_error(" %s %.9g", compute_dtype_name(x->dtype),
                test_values_get(&x->values, element_of(x, m->shape, index)));
  }
  print_error("\n");
}

static int judge(const expression *e, uint64_t seed) {
  int judged = 0;
  for (int i = LEAVES; i < e->count; i++) {
    const member *m = &e->members[i];
    if (!can_be_judged(e, m)) continue;
    judged++;
    for (int64_t k = 0; k < m->values.count; k++) {
      if (element_is_right(e, m, k)) continue;
      complain(e, seed, m, k);
      return -1;
    }
  }
  return judged;
}

int typed_graph_check(compute_context *context, uint64_t seed) {
  expression e = {.context = context, .random = {seed}};
  e.graph = compute_graph_create(context);
  assert_non_null(e.graph);
  build(&e);
  run(&e);
  const int judged = judge(&e, seed);
  for (int i = 0; i < e.count; i++) {
    compute_tensor_release(e.tensors[i]);
    if (e.members[i].values.data) test_values_release(&e.members[i].values);
  }
  compute_graph_release(e.graph);
  return judged;
}
