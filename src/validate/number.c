/* Elementwise arithmetic with error bounds.
 *
 * The error of a function of one operand is found by evaluating it at both ends of where the
 * operand may lie; that needs no derivative, and sees poles and edges. What the devices' own
 * functions lose is counted in units in the last place, generously (OpenCL allows 16 for some). */
#include "validate/number.h"

#include <float.h>
#include <math.h>

#include "type/dtype.h"
#include "base/random.h"

enum { ARITHMETIC = 3, FUNCTION = 20 }; /* units in the last place */

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

static bool is_float(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32;
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
  /* Devices may take numbers below the normal ones for zero. */
  if (fabs(value) < least && (value != 0 || error > 0)) error += least;
  if (fabs(value) > most)
    return fabs(value) - error > most ? (number){.real = copysign((double)INFINITY, value)}
                                      : vague(value);
  return fabs(value) + error > most ? vague(value) : (number){.real = value, .error = error};
}

/* A device may take an input below the normal numbers of f32 for zero. */
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

/* Truncates and saturates, as compute/dtype.h says. */
static int64_t truncated(compute_dtype type, double value) {
  unsigned char element[8];
  dtype_store(type, element, value);
  return dtype_load_integer(type, element);
}

static number cast_float(const number *n, compute_dtype from, compute_dtype to) {
  if (to == from) return *n;
  if (is_float(to)) {
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

number number_cast(const number *n, compute_dtype from, compute_dtype to) {
  if (is_float(from)) return cast_float(n, from, to);
  if (number_is_vague(n)) return is_float(to) ? vague(0) : whole(0, false);
  if (is_float(to)) return number_round(to, (double)n->integer, 0, 1, true);
  if (to == COMPUTE_BOOL) return whole(n->integer != 0, true);
  return whole(wrap(to, (uint64_t)n->integer), true);
}

/* ---- Functions of one float ---------------------------------------------------------------- */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x) {
  return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double function(compute_instruction_code code, double x, double scalar) {
  switch (code) {
  case COMPUTE_I_NEG: return -x;
  case COMPUTE_I_ABS: return fabs(x);
  case COMPUTE_I_SIGN: return isnan(x) ? x : (x > 0) - (x < 0);
  case COMPUTE_I_SQUARE: return x * x;
  case COMPUTE_I_SQRT: return sqrt(x);
  case COMPUTE_I_RSQRT: return 1 / sqrt(x);
  case COMPUTE_I_RECIPROCAL: return 1 / x;
  case COMPUTE_I_EXP: return exp(x);
  case COMPUTE_I_EXPM1: return expm1(x);
  case COMPUTE_I_LOG: return log(x);
  case COMPUTE_I_LOG1P: return log1p(x);
  case COMPUTE_I_SIN: return sin(x);
  case COMPUTE_I_COS: return cos(x);
  case COMPUTE_I_TANH: return tanh(x);
  case COMPUTE_I_ERF: return erf(x);
  case COMPUTE_I_FLOOR: return floor(x);
  case COMPUTE_I_CEIL: return ceil(x);
  case COMPUTE_I_ROUND: return rint(x);
  case COMPUTE_I_TRUNC: return trunc(x);
  case COMPUTE_I_RELU: return isnan(x) ? x : x > 0 ? x : 0;
  case COMPUTE_I_SIGMOID: return sigmoid(x);
  case COMPUTE_I_GELU: return isinf(x) ? x : x * 0.5 * erfc(-x / M_SQRT2);
  case COMPUTE_I_GELU_TANH: return isinf(x) ? x : gelu_tanh(x);
  case COMPUTE_I_SILU: return isinf(x) ? x : x * sigmoid(x);
  case COMPUTE_I_SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
  case COMPUTE_I_LEAKY_RELU: return x > 0 ? x : scalar * x;
  case COMPUTE_I_ELU: return x > 0 ? x : scalar * expm1(x);
  default: return (double)NAN;
  }
}

/* Units in the last place that a device may lose, and what it may lose besides, where the result is
 * small against what it is made of. */
static double ulps_of(compute_instruction_code code) {
  switch (code) {
  case COMPUTE_I_NEG:
  case COMPUTE_I_ABS:
  case COMPUTE_I_SIGN:
  case COMPUTE_I_RELU:
  case COMPUTE_I_FLOOR:
  case COMPUTE_I_CEIL:
  case COMPUTE_I_ROUND:
  case COMPUTE_I_TRUNC: return 0;
  case COMPUTE_I_SQUARE:
  case COMPUTE_I_SQRT:
  case COMPUTE_I_RECIPROCAL:
  case COMPUTE_I_LEAKY_RELU: return ARITHMETIC;
  default: return FUNCTION;
  }
}

static double besides(compute_instruction_code code, compute_dtype type, double x) {
  const double epsilon = number_epsilon(type);
  switch (code) {
  case COMPUTE_I_SIN:
  case COMPUTE_I_COS: return 4 * epsilon;
  case COMPUTE_I_GELU:
  case COMPUTE_I_GELU_TANH:
  case COMPUTE_I_SILU: return isfinite(x) ? 4 * epsilon * fabs(x) : 0; /* x (1 + erf x), by parts */
  case COMPUTE_I_SOFTPLUS: return 4 * epsilon;
  default: return 0;
  }
}

/* How far the function moves while its operand moves as far as it may. */
static double spread(compute_instruction_code code, const number *a, double scalar, double result) {
  if (a->error == 0) return 0;
  const double low = function(code, a->real - a->error, scalar);
  const double high = function(code, a->real + a->error, scalar);
  double most = fmax(fabs(low - result), fabs(high - result));
  if (isnan(low) || isnan(high)) return (double)INFINITY;
  if ((code == COMPUTE_I_SIN || code == COMPUTE_I_COS) && most < a->error)
    most = fmin(a->error, 2); /* between the ends it may turn round */
  return most;
}

/* -inf · 0 by the formula, 0 by the limit: both are in use. */
static bool is_disputed(compute_instruction_code code, double x) {
  return x == -(double)INFINITY &&
         (code == COMPUTE_I_GELU || code == COMPUTE_I_GELU_TANH || code == COMPUTE_I_SILU);
}

/* As storing to `dtype` and loading again rounds it. */
static double rounded_to(compute_dtype dtype, double value) {
  unsigned char element[8];
  dtype_store(dtype, element, value);
  return dtype_load(dtype, element);
}

/* A value that may lie on either side of the middle between two neighbours may become either. */
static number apply_rounding(compute_dtype dtype, const number *a) {
  if (number_is_vague(a) || isnan(a->real)) return *a;
  const double value = rounded_to(dtype, a->real);
  const double low = rounded_to(dtype, a->real - a->error);
  const double high = rounded_to(dtype, a->real + a->error);
  number result = {.real = value};
  if (low != high) result.error = fmax(high - value, value - low);
  /* A device may take what is below the normal numbers of f32 for zero. */
  if (value != 0 && fabs(value) < (double)FLT_MIN) result.error += fabs(value);
  return result;
}

static number apply_function(compute_instruction_code code, compute_dtype type, const number *a,
                             double scalar) {
  if (code == COMPUTE_I_ROUND_F16) return apply_rounding(COMPUTE_F16, a);
  if (code == COMPUTE_I_ROUND_BF16) return apply_rounding(COMPUTE_BF16, a);
  const double result = function(code, a->real, scalar);
  if (number_is_vague(a) || is_disputed(code, a->real)) return vague(result);
  const double error = spread(code, a, scalar, result) + besides(code, type, a->real);
  return number_round(type, result, error, ulps_of(code), a->error == 0);
}

/* ---- Two floats ---------------------------------------------------------------------------- */

static number divide(compute_dtype type, const number *a, const number *b, bool exact) {
  const double result = a->real / b->real;
  const double nearest = fabs(b->real) - b->error;
  if (b->error > 0 && nearest <= 0) return vague(result);
  const double error =
      exact || !isfinite(result) ? 0 : (a->error + fabs(result) * b->error) / nearest;
  return number_round(type, result, error, ARITHMETIC, exact);
}

/* A device may find the quotient's whole part one off where it is nearly whole, and works in the
 * type's own precision on what may be a long division. */
static number modulo(compute_dtype type, const number *a, const number *b, bool exact) {
  const double result = fmod(a->real, b->real);
  if (exact) return number_round(type, result, 0, ARITHMETIC, true);
  const double low = trunc((fabs(a->real) - a->error) / (fabs(b->real) + b->error));
  const double high = trunc((fabs(a->real) + a->error) / (fabs(b->real) - b->error));
  if (!(low == high) || fabs(b->real) <= b->error) return vague(result);
  return number_round(type, result, a->error + high * b->error, ARITHMETIC, false);
}

static number power(compute_dtype type, const number *a, const number *b, bool exact) {
  const double result = pow(a->real, b->real);
  double error = 0;
  for (int corner = 0; corner < 4 && !exact; corner++) {
    const double x = a->real + (corner & 1 ? a->error : -a->error);
    const double y = b->real + (corner & 2 ? b->error : -b->error);
    const double moved = fabs(pow(x, y) - result);
    if (isnan(moved)) return vague(result);
    error = fmax(error, moved);
  }
  return number_round(type, result, error, FUNCTION, exact);
}

static number apply_two(compute_instruction_code code, compute_dtype type, const number *a,
                        const number *b) {
  const bool exact = a->error == 0 && b->error == 0;
  const double x = a->real, y = b->real;
  if (number_is_vague(a) || number_is_vague(b)) return vague(x);
  switch (code) {
  case COMPUTE_I_ADD: return number_round(type, x + y, a->error + b->error, 1, exact);
  case COMPUTE_I_SUB: return number_round(type, x - y, a->error + b->error, 1, exact);
  case COMPUTE_I_MUL: {
    const double error = exact ? 0 : fabs(x) * b->error + fabs(y) * a->error + a->error * b->error;
    return number_round(type, x * y, error, 1, exact);
  }
  case COMPUTE_I_DIV: return divide(type, a, b, exact);
  case COMPUTE_I_MOD: return modulo(type, a, b, exact);
  case COMPUTE_I_POW: return power(type, a, b, exact);
  case COMPUTE_I_MIN:
  case COMPUTE_I_MAX: {
    const bool first = code == COMPUTE_I_MIN ? x < y : x > y;
    const double value = isnan(x) || isnan(y) ? (double)NAN : first ? x : y;
    return number_round(type, value, fmax(a->error, b->error), 0, exact);
  }
  default: return vague(x);
  }
}

/* ---- Truths -------------------------------------------------------------------------------- */

/* -1, 0, 1, or 2 when a NaN is among them. */
static int order(compute_dtype type, const number *a, const number *b) {
  if (!is_float(type)) return (a->integer > b->integer) - (a->integer < b->integer);
  if (isnan(a->real) || isnan(b->real)) return 2;
  return (a->real > b->real) - (a->real < b->real);
}

static number compare(compute_instruction_code code, compute_dtype type, const number *a,
                      const number *b) {
  const int way = order(type, a, b);
  const double error = a->error + b->error;
  const bool sure = error == 0 || (is_float(type) && fabs(a->real - b->real) > error);
  switch (code) {
  case COMPUTE_I_EQ: return whole(way == 0, sure);
  case COMPUTE_I_NE: return whole(way != 0, sure);
  case COMPUTE_I_LT: return whole(way == -1, sure);
  case COMPUTE_I_LE: return whole(way == -1 || way == 0, sure);
  case COMPUTE_I_GT: return whole(way == 1, sure);
  default: return whole(way == 1 || way == 0, sure);
  }
}

static number select_one(compute_dtype type, const number *condition, const number *b,
                         const number *c) {
  number chosen = condition->integer ? *b : *c;
  if (!number_is_vague(condition)) return chosen;
  if (!is_float(type)) return whole(chosen.integer, b->integer == c->integer);
  const double apart = fabs(b->real - c->real);
  chosen.error = isnan(apart) ? (double)INFINITY : apart + fmax(b->error, c->error);
  return chosen;
}

/* ---- Integers ------------------------------------------------------------------------------ */

static int64_t integer_of(compute_instruction_code code, compute_dtype type, int64_t a, int64_t b) {
  const uint64_t u = (uint64_t)a, v = (uint64_t)b;
  switch (code) {
  case COMPUTE_I_NEG: return wrap(type, 0 - u);
  case COMPUTE_I_ABS: return wrap(type, a < 0 ? 0 - u : u);
  case COMPUTE_I_SIGN: return (a > 0) - (a < 0);
  case COMPUTE_I_SQUARE: return wrap(type, u * u);
  case COMPUTE_I_RELU: return a > 0 ? a : 0;
  case COMPUTE_I_ADD: return wrap(type, u + v);
  case COMPUTE_I_SUB: return wrap(type, u - v);
  case COMPUTE_I_MUL: return wrap(type, u * v);
  case COMPUTE_I_DIV: return b == 0 ? 0 : b == -1 ? wrap(type, 0 - u) : a / b;
  case COMPUTE_I_MOD: return b == 0 || b == -1 ? 0 : a % b;
  case COMPUTE_I_MIN: return a < b ? a : b;
  case COMPUTE_I_MAX: return a > b ? a : b;
  case COMPUTE_I_AND: return a && b;
  case COMPUTE_I_OR: return a || b;
  case COMPUTE_I_XOR: return !a != !b;
  default: return !a; /* NOT */
  }
}

number number_apply(const compute_instruction *i, compute_dtype type_a, const number *a,
                    const number *b, const number *c) {
  const compute_instruction_code code = (compute_instruction_code)i->code;
  const compute_dtype type = (compute_dtype)i->type;
  switch (code) {
  case COMPUTE_I_CONSTANT:
    return is_float(type) ? (number){.real = i->immediate.f64}
                          : (number){.integer = i->immediate.i64};
  case COMPUTE_I_CAST: return number_cast(a, type_a, type);
  case COMPUTE_I_RANDOM: {
    if (number_is_vague(a) || number_is_vague(b)) return vague(0);
    const uint64_t key = (uint64_t)a->integer, counter = (uint64_t)b->integer;
    const uint32_t stream = (uint32_t)i->immediate.i64;
    return (number){.real = type == COMPUTE_F32 ? (double)random_f32(key, counter, stream)
                                                : random_f64(key, counter, stream)};
  }
  case COMPUTE_I_IS_NAN: return whole(isnan(a->real), !number_is_vague(a));
  case COMPUTE_I_IS_FINITE: return whole(isfinite(a->real), !number_is_vague(a));
  case COMPUTE_I_SELECT: return select_one(type, a, b, c);
  case COMPUTE_I_EQ:
  case COMPUTE_I_NE:
  case COMPUTE_I_LT:
  case COMPUTE_I_LE:
  case COMPUTE_I_GT:
  case COMPUTE_I_GE: return compare(code, type_a, a, b);
  default: break;
  }
  if (is_float(type)) {
    return b != NULL ? apply_two(code, type, a, b)
                     : apply_function(code, type, a, i->immediate.f64);
  }
  const bool sure = !number_is_vague(a) && (b == NULL || !number_is_vague(b));
  return whole(integer_of(code, type, a->integer, b != NULL ? b->integer : 0), sure);
}
