/* SPDX-License-Identifier: MIT */
/* Elementwise arithmetic with error bounds.
 *
 * The error of a unary function comes from its values at both ends of the operand's interval. This
 * needs no derivative, and detects poles and edges. Errors of the devices' functions are allowed
 * for in units in the last place, generously (OpenCL allows 16 for some).
 *
 * Every instruction has a rule, rule_<name>. Their table is generated from
 * compute/backend/instructions.def, so an instruction without a rule does not compile. */
#include <float.h>
#include <math.h>

#include "core/base/random.h"
#include "core/kernel/common/draw.h"
#include "core/kernel/common/program.h"
#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

enum { ARITHMETIC = 3, ELEMENTARY = 20 }; /* units in the last place */

bool number_is_vague(const number *n) {
  return !(n->error < (double)INFINITY);
}

double number_epsilon(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-52;
  case COMPUTE_F32: return 0x1p-23;
  case COMPUTE_F16: return 0x1p-10;
  case COMPUTE_BF16: return 0x1p-7;
  default: return 0;
  }
}

static number vague(double value) {
  return (number){.real = value, .error = (double)INFINITY};
}

static number whole(int64_t value, bool sure) {
  return (number){.integer = value, .error = sure ? 0 : (double)INFINITY};
}

number number_round(compute_dtype type, double value, double error, double ulps, bool exact) {
  const double most = type == COMPUTE_F32 ? (double)FLT_MAX : DBL_MAX;
  const double least = type == COMPUTE_F32 ? (double)FLT_MIN : DBL_MIN;
  if (isnan(value))
    return exact || error < (double)INFINITY ? (number){.real = value} : vague(value);
  if (isinf(value)) return exact ? (number){.real = value} : vague(value);
  error += ulps * number_epsilon(type) * fabs(value);
  if (!(error < (double)INFINITY)) return vague(value);
  /* Devices may flush subnormal numbers to zero. */
  if (fabs(value) < least && (value != 0 || error > 0)) error += least;
  if (fabs(value) > most)
    return fabs(value) - error > most ? (number){.real = copysign((double)INFINITY, value)}
                                      : vague(value);
  return fabs(value) + error > most ? vague(value) : (number){.real = value, .error = error};
}

/* Random rounding errors of a sum grow with the square root of its length, at worst with the length
 * itself. No device adds more than a few thousand terms sequentially. */
number number_sum(compute_dtype type, double sum, double magnitude, double error, double terms,
                  bool exact) {
  const double most = type == COMPUTE_F32 ? (double)FLT_MAX : DBL_MAX;
  const double growth = fmin(terms, 8 + 4 * sqrt(terms));
  if (!isfinite(sum)) return number_round(type, sum, 0, 0, exact && error == 0);
  number n = number_round(type, sum, error + growth * number_epsilon(type) * magnitude, 1, false);
  if (magnitude > most && fabs(sum) <= most) n.error = (double)INFINITY; /* overflow on the way */
  if (terms == 0) n.error = 0;
  return n;
}

/* A device may flush a subnormal f32 input to zero. */
number number_load(compute_dtype dtype, const void *element) {
  if (dtype_is_float(dtype)) {
    number n = {.real = dtype_load(dtype, element)};
    if (dtype != COMPUTE_F64 && n.real != 0 && fabs(n.real) < (double)FLT_MIN)
      n.error = fabs(n.real);
    return n;
  }
  return (number){.integer = dtype_load_integer(dtype, element)};
}

/* ---- Casts --------------------------------------------------------------------------------- */

static int64_t wrap(compute_dtype type, uint64_t value) {
  return type == COMPUTE_I32 ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value;
}

/* Truncates and saturates, as specified in compute/dtype.h. */
static int64_t truncated(compute_dtype type, double value) {
  unsigned char element[8];
  dtype_store(type, element, value);
  return dtype_load_integer(type, element);
}

static number cast_float(const number *n, compute_dtype from, compute_dtype to) {
  if (to == from) return *n;
  if (number_is_float(to)) {
    const double ulps = to == COMPUTE_F32 ? 1 : 0;
    return number_round(to, n->real, n->error, ulps, n->error == 0);
  }
  if (number_is_vague(n)) return whole(0, false);
  const double low = n->real - n->error, high = n->real + n->error;
  if (to == COMPUTE_BOOL) {
    const bool sure = n->error == 0 || isnan(n->real) || low > 0 || high < 0;
    return whole(n->real != 0, sure); /* NaN is true */
  }
  if (n->error == 0) return whole(truncated(to, n->real), true);
  return whole(truncated(to, n->real), truncated(to, low) == truncated(to, high));
}

static number cast(const number *n, compute_dtype from, compute_dtype to) {
  if (number_is_float(from)) return cast_float(n, from, to);
  if (number_is_vague(n)) return number_is_float(to) ? vague(0) : whole(0, false);
  if (number_is_float(to)) return number_round(to, (double)n->integer, 0, 1, true);
  if (to == COMPUTE_BOOL) return whole(n->integer != 0, true);
  return whole(wrap(to, (uint64_t)n->integer), true);
}

/* ---- Rules --------------------------------------------------------------------------------- */

/* Additional errors for results that are small compared with their operands. */
typedef enum slack {
  NO_SLACK,
  SLACK,       /* some units of 1 */
  WAVE_SLACK,  /* the same; the function may also have an extremum between two operands */
  POLE_SLACK,  /* the same; it may also have a pole between two operands */
  PARTS_SLACK, /* some units of the operand, as in x (1 + erf x). The result at −infinity is
                * disputed: −inf · 0 by the formula, 0 by the limit; both are in use */
} slack;

/* One instruction under evaluation. */
typedef struct operation {
  const struct rule *rule;
  const compute_instruction *instruction;
  compute_dtype type, from; /* of the result; of a */
  const number *a, *b, *c;  /* NULL: no such operand */
  const number *inputs;     /* of the program */
  const int64_t *coordinate;
  int64_t position;
} operation;

typedef struct rule {
  number (*apply)(const operation *o);
  double (*real)(double x, double scalar); /* of one float */
  double ulps;
  slack slack;
  number (*pair)(const operation *o, bool exact); /* of two floats, neither of them vague */
  int64_t (*whole)(int64_t a, int64_t b);         /* of integers and booleans, before wrapping */
  unsigned ways; /* of comparisons: bits 0 … 3: true for less, equal, greater, and with a NaN */
} rule;

static number apply_whole(const operation *o) {
  const bool sure = !number_is_vague(o->a) && (!o->b || !number_is_vague(o->b));
  return whole(wrap(o->type, (uint64_t)o->rule->whole(o->a->integer, o->b ? o->b->integer : 0)),
               sure);
}

/* ---- Functions of one float ---------------------------------------------------------------- */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x) {
  return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double slack_of(slack kind, compute_dtype type, double x) {
  if (kind == NO_SLACK) return 0;
  const double units = 4 * number_epsilon(type);
  if (kind == PARTS_SLACK) return isfinite(x) ? units * fabs(x) : 0;
  return units;
}

/* Returns the largest deviation of the function over the operand's interval. */
static double spread(const rule *r, const number *a, double scalar, double result) {
  if (a->error == 0) return 0;
  const double low = r->real(a->real - a->error, scalar);
  const double high = r->real(a->real + a->error, scalar);
  const double most = fmax(fabs(low - result), fabs(high - result));
  if (isnan(low) || isnan(high)) return (double)INFINITY;
  /* The function increases between poles, which are π apart. */
  if (r->slack == POLE_SLACK && (low > high || a->error > 1.5)) return (double)INFINITY;
  return r->slack == WAVE_SLACK && most < a->error ? fmin(a->error, 2) : most;
}

static number apply_one(const operation *o) {
  const rule *r = o->rule;
  const number *a = o->a;
  const double scalar = o->instruction->immediate.f64;
  if (!number_is_float(o->type)) return apply_whole(o);
  const double result = r->real(a->real, scalar);
  const bool disputed = r->slack == PARTS_SLACK && a->real == -(double)INFINITY;
  if (number_is_vague(a) || disputed) return vague(result);
  const double error = spread(r, a, scalar, result) + slack_of(r->slack, o->type, a->real);
  return number_round(o->type, result, error, r->ulps, a->error == 0);
}

/* FUNCTION(name, units in the last place, slack, the value at x): floats only. NUMBER also has the
 * value of an integer a. */
#define FUNCTION(name, units, lost, value)                                                         \
  static double real_##name(double x, double scalar) {                                             \
    (void)scalar;                                                                                  \
    return value;                                                                                  \
  }                                                                                                \
  static const rule rule_##name = {                                                                \
      .apply = apply_one, .real = real_##name, .ulps = units, .slack = lost};
#define NUMBER(name, units, value, integer)                                                        \
  static double real_##name(double x, double scalar) {                                             \
    (void)scalar;                                                                                  \
    return value;                                                                                  \
  }                                                                                                \
  static int64_t whole_##name(int64_t a, int64_t b) {                                              \
    (void)b;                                                                                       \
    return integer;                                                                                \
  }                                                                                                \
  static const rule rule_##name = {                                                                \
      .apply = apply_one, .real = real_##name, .ulps = units, .whole = whole_##name};

/* Integer arithmetic that wraps. */
static int64_t minus(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t times(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* clang-format off */
NUMBER(neg,          0,          -x,                                minus(0, a))
NUMBER(abs,          0,          fabs(x),                           a < 0 ? minus(0, a) : a)
NUMBER(sign,         0,          isnan(x) ? x : (x > 0) - (x < 0),  (a > 0) - (a < 0))
NUMBER(square,       ARITHMETIC, x * x,                             times(a, a))
NUMBER(relu,         0,          isnan(x) ? x : x > 0 ? x : 0,      a > 0 ? a : 0)
FUNCTION(sqrt,       ARITHMETIC, NO_SLACK,    sqrt(x))
FUNCTION(rsqrt,      ELEMENTARY, NO_SLACK,    1 / sqrt(x))
FUNCTION(reciprocal, ARITHMETIC, NO_SLACK,    1 / x)
FUNCTION(exp,        ELEMENTARY, NO_SLACK,    exp(x))
FUNCTION(expm1,      ELEMENTARY, NO_SLACK,    expm1(x))
FUNCTION(log,        ELEMENTARY, NO_SLACK,    log(x))
FUNCTION(log1p,      ELEMENTARY, NO_SLACK,    log1p(x))
FUNCTION(sin,        ELEMENTARY, WAVE_SLACK,  sin(x))
FUNCTION(cos,        ELEMENTARY, WAVE_SLACK,  cos(x))
FUNCTION(tan,        ELEMENTARY, POLE_SLACK,  tan(x))
FUNCTION(asin,       ELEMENTARY, NO_SLACK,    asin(x))
FUNCTION(acos,       ELEMENTARY, SLACK,       acos(x))
FUNCTION(atan,       ELEMENTARY, NO_SLACK,    atan(x))
FUNCTION(sinh,       ELEMENTARY, NO_SLACK,    sinh(x))
FUNCTION(cosh,       ELEMENTARY, NO_SLACK,    cosh(x))
FUNCTION(tanh,       ELEMENTARY, NO_SLACK,    tanh(x))
FUNCTION(asinh,      ELEMENTARY, NO_SLACK,    asinh(x))
FUNCTION(acosh,      ELEMENTARY, NO_SLACK,    acosh(x))
FUNCTION(atanh,      ELEMENTARY, NO_SLACK,    atanh(x))
FUNCTION(erf,        ELEMENTARY, NO_SLACK,    erf(x))
FUNCTION(floor,      0,          NO_SLACK,    floor(x))
FUNCTION(ceil,       0,          NO_SLACK,    ceil(x))
FUNCTION(round,      0,          NO_SLACK,    rint(x))
FUNCTION(trunc,      0,          NO_SLACK,    trunc(x))
FUNCTION(sigmoid,    ELEMENTARY, NO_SLACK,    sigmoid(x))
FUNCTION(gelu,       ELEMENTARY, PARTS_SLACK, isinf(x) ? x : x * 0.5 * erfc(-x / M_SQRT2))
FUNCTION(gelu_tanh,  ELEMENTARY, PARTS_SLACK, isinf(x) ? x : gelu_tanh(x))
FUNCTION(silu,       ELEMENTARY, PARTS_SLACK, isinf(x) ? x : x * sigmoid(x))
FUNCTION(softplus,   ELEMENTARY, SLACK,       x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
FUNCTION(leaky_relu, ARITHMETIC, NO_SLACK,    x > 0 ? x : scalar * x)
FUNCTION(elu,        ELEMENTARY, NO_SLACK,    x > 0 ? x : scalar * expm1(x))
/* clang-format on */

/* Rounds a value as a store to `dtype` and a load would. */
static double rounded_to(compute_dtype dtype, double value) {
  unsigned char element[8];
  dtype_store(dtype, element, value);
  return dtype_load(dtype, element);
}

/* A value that may be on either side of the midpoint between two neighbours may become either. */
static number apply_rounding(compute_dtype dtype, const number *a) {
  if (number_is_vague(a) || isnan(a->real)) return *a;
  const double value = rounded_to(dtype, a->real);
  const double low = rounded_to(dtype, a->real - a->error);
  const double high = rounded_to(dtype, a->real + a->error);
  number result = {.real = value};
  if (low != high) result.error = fmax(high - value, value - low);
  /* A device may flush subnormal f32 values to zero. */
  if (value != 0 && fabs(value) < (double)FLT_MIN) result.error += fabs(value);
  return result;
}

/* ---- Two numbers --------------------------------------------------------------------------- */

static number apply_two(const operation *o) {
  if (!number_is_float(o->type)) return apply_whole(o);
  if (number_is_vague(o->a) || number_is_vague(o->b)) return vague(o->a->real);
  return o->rule->pair(o, o->a->error == 0 && o->b->error == 0);
}

static number sum(const operation *o, bool exact) {
  return number_round(o->type, o->a->real + o->b->real, o->a->error + o->b->error, 1, exact);
}

static number difference(const operation *o, bool exact) {
  return number_round(o->type, o->a->real - o->b->real, o->a->error + o->b->error, 1, exact);
}

static number product(const operation *o, bool exact) {
  const number *a = o->a, *b = o->b;
  const double error =
      exact ? 0 : fabs(a->real) * b->error + fabs(b->real) * a->error + a->error * b->error;
  return number_round(o->type, a->real * b->real, error, 1, exact);
}

static number quotient(const operation *o, bool exact) {
  const number *a = o->a, *b = o->b;
  const double result = a->real / b->real;
  const double nearest = fabs(b->real) - b->error;
  if (b->error > 0 && nearest <= 0) return vague(result);
  const double error =
      exact || !isfinite(result) ? 0 : (a->error + fabs(result) * b->error) / nearest;
  return number_round(o->type, result, error, ARITHMETIC, exact);
}

/* A device's integer part of the quotient may be off by one if the quotient is nearly whole. The
 * device computes a possibly long division in the type's precision. */
static number modulo(const operation *o, bool exact) {
  const number *a = o->a, *b = o->b;
  const double result = fmod(a->real, b->real);
  if (exact) return number_round(o->type, result, 0, ARITHMETIC, true);
  const double low = trunc((fabs(a->real) - a->error) / (fabs(b->real) + b->error));
  const double high = trunc((fabs(a->real) + a->error) / (fabs(b->real) - b->error));
  if (!(low == high) || fabs(b->real) <= b->error) return vague(result);
  return number_round(o->type, result, a->error + high * b->error, ARITHMETIC, false);
}

static number power(const operation *o, bool exact) {
  const number *a = o->a, *b = o->b;
  const double result = pow(a->real, b->real);
  double error = 0;
  for (int corner = 0; corner < 4 && !exact; corner++) {
    const double x = a->real + (corner & 1 ? a->error : -a->error);
    const double y = b->real + (corner & 2 ? b->error : -b->error);
    const double moved = fabs(pow(x, y) - result);
    if (isnan(moved)) return vague(result);
    error = fmax(error, moved);
  }
  return number_round(o->type, result, error, ELEMENTARY, exact);
}

static number extremum(const operation *o, bool exact, bool first) {
  const double x = o->a->real, y = o->b->real;
  const double value = isnan(x) || isnan(y) ? (double)NAN : first ? x : y;
  return number_round(o->type, value, fmax(o->a->error, o->b->error), 0, exact);
}

static number lesser(const operation *o, bool exact) {
  return extremum(o, exact, o->a->real < o->b->real);
}

static number greater(const operation *o, bool exact) {
  return extremum(o, exact, o->a->real > o->b->real);
}

/* PAIR(name, of floats, of integers a and b) */
#define PAIR(name, floats, integer)                                                                \
  static int64_t whole_##name(int64_t a, int64_t b) {                                              \
    return integer;                                                                                \
  }                                                                                                \
  static const rule rule_##name = {.apply = apply_two, .pair = floats, .whole = whole_##name};

/* clang-format off */
PAIR(add, sum,        (int64_t)((uint64_t)a + (uint64_t)b))
PAIR(sub, difference, minus(a, b))
PAIR(mul, product,    times(a, b))
PAIR(div, quotient,   b == 0 ? 0 : b == -1 ? minus(0, a) : a / b)
PAIR(mod, modulo,     b == 0 || b == -1 ? 0 : a % b)
PAIR(min, lesser,     a < b ? a : b)
PAIR(max, greater,    a > b ? a : b)
static const rule rule_pow = {.apply = apply_two, .pair = power};
/* clang-format on */

/* ---- Logic --------------------------------------------------------------------------------- */

#define TRUTH(name, value)                                                                         \
  static int64_t whole_##name(int64_t a, int64_t b) {                                              \
    (void)b;                                                                                       \
    return value;                                                                                  \
  }                                                                                                \
  static const rule rule_##name = {.apply = apply_whole, .whole = whole_##name};

TRUTH(and, a &&b)
TRUTH(or, a || b)
TRUTH(xor, !a != !b)
TRUTH(not, !a)

/* ---- Bits ---------------------------------------------------------------------------------- */

/* Integers are kept as 64 bits with their sign. Wrapping removes the bits shifted out of 32. */
static number apply_shift(const operation *o) {
  const int64_t a = o->a->integer, b = o->b->integer, width = o->type == COMPUTE_I32 ? 32 : 64;
  const bool sure = !number_is_vague(o->a) && !number_is_vague(o->b), fits = b >= 0 && b < width;
  return whole(wrap(o->type, (uint64_t)o->rule->whole(a, fits ? b : width)), sure);
}

#define SHIFT(name, value)                                                                         \
  static int64_t whole_##name(int64_t a, int64_t b) {                                              \
    return value;                                                                                  \
  }                                                                                                \
  static const rule rule_##name = {.apply = apply_shift, .whole = whole_##name};

TRUTH(bit_and, a &b)
TRUTH(bit_or, a | b)
TRUTH(bit_xor, a ^ b)
TRUTH(bit_not, ~a)
SHIFT(shift_left, b > 63 ? 0 : (int64_t)((uint64_t)a << b))
SHIFT(shift_right, a >> (b > 63 ? 63 : b))

/* ---- Comparisons --------------------------------------------------------------------------- */

/* Returns 0: less, 1: equal, 2: greater, 3: a NaN is among them. */
static unsigned order(compute_dtype type, const number *a, const number *b) {
  if (!number_is_float(type)) return 1u + (a->integer > b->integer) - (a->integer < b->integer);
  if (isnan(a->real) || isnan(b->real)) return 3;
  return 1u + (a->real > b->real) - (a->real < b->real);
}

static number apply_comparison(const operation *o) {
  const double error = o->a->error + o->b->error;
  const bool sure =
      error == 0 || (number_is_float(o->from) && fabs(o->a->real - o->b->real) > error);
  return whole(o->rule->ways >> order(o->from, o->a, o->b) & 1, sure);
}

#define COMPARISON(name, bits)                                                                     \
  static const rule rule_##name = {.apply = apply_comparison, .ways = bits};

COMPARISON(lt, 1)
COMPARISON(eq, 2)
COMPARISON(le, 1 | 2)
COMPARISON(gt, 4)
COMPARISON(ge, 2 | 4)
COMPARISON(ne, 1 | 4 | 8)

/* ---- Special instructions -------------------------------------------------------------------- */

#define RULE(name)                                                                                 \
  static number apply_##name(const operation *o);                                                  \
  static const rule rule_##name = {.apply = apply_##name};                                         \
  static number apply_##name(const operation *o)

RULE(load) {
  return o->inputs[o->instruction->immediate.i64];
}

RULE(coordinate) {
  return (number){.integer = o->coordinate[o->instruction->immediate.i64]};
}

RULE(position) {
  return (number){.integer = o->position};
}

RULE(constant) {
  return number_is_float(o->type) ? (number){.real = o->instruction->immediate.f64}
                                  : (number){.integer = o->instruction->immediate.i64};
}

RULE(random) {
  if (number_is_vague(o->a) || number_is_vague(o->b)) return vague(0);
  const uint64_t key = (uint64_t)o->a->integer, counter = (uint64_t)o->b->integer;
  const uint32_t stream = (uint32_t)o->instruction->immediate.i64;
  return (number){.real = o->type == COMPUTE_F32 ? (double)random_f32(key, counter, stream)
                                                 : random_f64(key, counter, stream)};
}

/* Draws have the same bits on every device, so they are exact if their operands are. */
static number apply_draw(const operation *o) {
  const number *const operands[3] = {o->a, o->b, o->c};
  double x[3] = {0};
  bool exact = true;
  for (int i = 0; i < 3 && operands[i]; i++) {
    x[i] = operands[i]->real;
    exact = exact && operands[i]->error == 0;
  }
  const double drawn =
      draw_number((compute_instruction_code)o->instruction->code, x[0], x[1], x[2]);
  return exact ? (number){.real = drawn} : vague(drawn);
}

#define DRAW(name) static const rule rule_draw_##name = {.apply = apply_draw};
DRAW(normal)
DRAW(exponential)
DRAW(gumbel)
DRAW(gamma)
DRAW(poisson)
DRAW(beta)
DRAW(binomial)
DRAW(truncated_normal)
DRAW(gamma_slope)

RULE(cast) {
  return cast(o->a, o->from, o->type);
}

RULE(is_nan) {
  return whole(isnan(o->a->real), !number_is_vague(o->a));
}

RULE(is_finite) {
  return whole(isfinite(o->a->real), !number_is_vague(o->a));
}

RULE(round_f16) {
  return apply_rounding(COMPUTE_F16, o->a);
}

RULE(round_bf16) {
  return apply_rounding(COMPUTE_BF16, o->a);
}

RULE(select) {
  const number *b = o->b, *c = o->c;
  number chosen = o->a->integer ? *b : *c;
  if (!number_is_vague(o->a)) return chosen;
  if (!number_is_float(o->type)) return whole(chosen.integer, b->integer == c->integer);
  const double apart = fabs(b->real - c->real);
  chosen.error = isnan(apart) ? (double)INFINITY : apart + fmax(b->error, c->error);
  return chosen;
}

/* ---- Programs ------------------------------------------------------------------------------ */

static const rule *const rules[] = {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text) [number] = &rule_##name,
#include "compute/backend/instructions.def"
};

number number_scatter(compute_scatter_mode mode, compute_dtype type, const number *a,
                      const number *b) {
  static const rule *const joins[] = {
      [COMPUTE_SCATTER_ADD] = &rule_add, [COMPUTE_SCATTER_SET] = NULL,
      [COMPUTE_SCATTER_MUL] = &rule_mul, [COMPUTE_SCATTER_MAX] = &rule_max,
      [COMPUTE_SCATTER_MIN] = &rule_min,
  };
  const rule *join = joins[mode];
  return join ? join->apply(&(operation){.rule = join, .type = type, .a = a, .b = b}) : *b;
}

void number_run(const compute_program *program, const number *inputs, const int64_t *coordinate,
                int64_t position, number *values, number *outputs) {
  if (program->count == 0) {
    outputs[0] = inputs[0];
    return;
  }
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *at = &program->instructions[i];
    const int operands = program_operand_count((compute_instruction_code)at->code);
    const operation o = {
        .rule = rules[at->code],
        .instruction = at,
        .type = (compute_dtype)at->type,
        .from =
            operands > 0 ? (compute_dtype)program->instructions[at->a].type : COMPUTE_DTYPE_NONE,
        .a = operands > 0 ? &values[at->a] : NULL,
        .b = operands > 1 ? &values[at->b] : NULL,
        .c = operands > 2 ? &values[at->c] : NULL,
        .inputs = inputs,
        .coordinate = coordinate,
        .position = position,
    };
    values[i] = o.rule->apply(&o);
  }
  for (uint32_t k = 0; k < program->output_count; k++) outputs[k] = values[program->outputs[k]];
}
