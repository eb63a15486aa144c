/* SPDX-License-Identifier: MIT */
/* The double reference for single elements, by the definitions of include/compute/backend.h and
 * dtype.h. Where the textbook formula cancels, it uses an equivalent formula that does not. */
#include "support/reference/graph_evaluate.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/harness/values.h"

/* ---- Numbers of other dtypes --------------------------------------------------------------- */

double evaluate_round(compute_dtype dtype, long double value) {
  int digits = 53, lowest = -1074; /* bits of the significand, exponent of the last subnormal bit */
  if (dtype == COMPUTE_F32) digits = 24, lowest = -149;
  if (dtype == COMPUTE_F16) digits = 11, lowest = -24;
  if (dtype == COMPUTE_BF16) digits = 8, lowest = -133;
  if (value == 0 || !isfinite(value)) return (double)value;
  int exponent;
  frexpl(value, &exponent);
  int last = exponent - digits > lowest ? exponent - digits : lowest;
  long double rounded = ldexpl(rintl(ldexpl(value, -last)), last);
  if (dtype == COMPUTE_F16 && fabsl(rounded) > 65504) return copysign(INFINITY, (double)value);
  if ((dtype == COMPUTE_F32 || dtype == COMPUTE_BF16) && fabsl(rounded) >= 0x1p128L) {
    return copysign(INFINITY, (double)value);
  }
  return (double)rounded;
}

int64_t evaluate_wrap(compute_dtype dtype, uint64_t value) {
  return test_wrap(dtype, (int64_t)value);
}

int64_t evaluate_from_real(compute_dtype dtype, double value) {
  return dtype == COMPUTE_BOOL ? value != 0 : test_saturate(dtype, value);
}

static double decode_f16(uint16_t bits) {
  int sign = bits >> 15, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = fraction ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    magnitude = ldexp(fraction, -24);
  } else {
    magnitude = ldexp(1024 + fraction, exponent - 25);
  }
  return sign ? -magnitude : magnitude;
}

double evaluate_decode_real(compute_dtype dtype, const void *element) {
  double f64;
  float f32;
  uint16_t half;
  uint32_t bits;
  switch (dtype) {
  case COMPUTE_F64: memcpy(&f64, element, sizeof f64); return f64;
  case COMPUTE_F32: memcpy(&f32, element, sizeof f32); return (double)f32;
  case COMPUTE_F16: memcpy(&half, element, sizeof half); return decode_f16(half);
  default: /* bf16: the upper half of an f32 */
    memcpy(&half, element, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&f32, &bits, sizeof f32);
    return (double)f32;
  }
}

int64_t evaluate_decode_integer(compute_dtype dtype, const void *element) {
  unsigned char aligned[8] __attribute__((aligned(8)));
  memcpy(aligned, element, compute_dtype_size(dtype));
  return test_integer_get(dtype, aligned);
}

/* Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". */
double evaluate_random(uint64_t key, uint64_t counter, uint32_t stream, bool wide) {
  uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0};
  for (int round = 0; round < 10; round++) {
    uint64_t p = UINT64_C(0xD2511F53) * c[0], q = UINT64_C(0xCD9E8D57) * c[2];
    uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q,
                        (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  if (!wide) return (double)(c[0] >> 8) / 16777216.0;
  return (double)(((uint64_t)c[1] << 32 | c[0]) >> 11) / 9007199254740992.0;
}

/* ---- Elementwise on doubles ---------------------------------------------------------------- */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x) {
  double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + exp(-2 * u)); /* (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)) */
}

static double smaller(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a < b ? a : b;
}

static double larger(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a > b ? a : b;
}

double evaluate_real(int op, const double *x, double scalar) {
  const double a = x[0];
  switch (op) {
  case OP_neg: return -a;
  case OP_abs: return fabs(a);
  case OP_sign: return a > 0 ? 1 : a < 0 ? -1 : a;
  case OP_square: return a * a;
  case OP_sqrt: return sqrt(a);
  case OP_rsqrt: return 1 / sqrt(a);
  case OP_reciprocal: return 1 / a;
  case OP_exp: return exp(a);
  case OP_expm1: return expm1(a);
  case OP_log: return log(a);
  case OP_log1p: return log1p(a);
  case OP_sin: return sin(a);
  case OP_cos: return cos(a);
  case OP_atan: return atan(a);
  case OP_tan: return tan(a);
  case OP_asin: return asin(a);
  case OP_acos: return acos(a);
  case OP_sinh: return sinh(a);
  case OP_cosh: return cosh(a);
  case OP_asinh: return asinh(a);
  case OP_acosh: return acosh(a);
  case OP_atanh: return atanh(a);
  case OP_tanh: return tanh(a);
  case OP_erf: return erf(a);
  case OP_floor: return floor(a);
  case OP_ceil: return ceil(a);
  case OP_round: return rint(a);
  case OP_trunc: return trunc(a);
  case OP_relu: return 0 > a ? 0 : a;
  case OP_sigmoid: return sigmoid(a);
  case OP_gelu: return a * 0.5 * erfc(-a / sqrt(2));
  case OP_gelu_tanh: return gelu_tanh(a);
  case OP_silu: return a * sigmoid(a);
  case OP_softplus: return a > 0 ? a + log1p(exp(-a)) : log1p(exp(a));
  case OP_leaky_relu: return a > 0 ? a : scalar * a;
  case OP_elu: return a > 0 ? a : scalar * expm1(a);
  case OP_is_nan: return isnan(a) != 0;
  case OP_is_finite: return isfinite(a) != 0;
  case OP_add: return a + x[1];
  case OP_sub: return a - x[1];
  case OP_mul: return a * x[1];
  case OP_div: return a / x[1];
  case OP_mod: return fmod(a, x[1]);
  case OP_pow: return pow(a, x[1]);
  case OP_minimum: return smaller(a, x[1]);
  case OP_maximum: return larger(a, x[1]);
  case OP_equal: return a == x[1];
  case OP_not_equal: return a != x[1];
  case OP_less: return a < x[1];
  case OP_less_equal: return a <= x[1];
  case OP_greater: return a > x[1];
  case OP_greater_equal: return a >= x[1];
  case OP_select: return a != 0 ? x[1] : x[2];
  default: return NAN;
  }
}

/* ---- Elementwise on integers --------------------------------------------------------------- */

/* INT64_MIN / −1 does not fit and wraps to itself. */
static int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t remainder_of(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

/* Uses multiplication and division, so that nothing depends on C's shifts. u8 and u16 are computed
 * in i32. */
static int64_t shift(compute_dtype dtype, int64_t a, int64_t b, bool left) {
  const bool wide = compute_dtype_size(dtype) == 8 || dtype == COMPUTE_U32;
  const int64_t width = wide ? 64 : 32;
  uint64_t product = (uint64_t)a;
  if (b < 0 || b >= width) return left || a >= 0 ? 0 : -1;
  for (int64_t i = 0; i < b; i++) {
    product *= 2;
    a = (a - (a % 2 != 0 && a < 0)) / 2; /* the floor */
  }
  return left ? (int64_t)product : a;
}

static uint64_t power(uint64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == UINT64_MAX ? (exponent & 1 ? base : 1) : 0;
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

int64_t evaluate_integer(int op, compute_dtype dtype, const int64_t *x) {
  const int64_t a = x[0];
  const uint64_t u = (uint64_t)a;
  switch (op) {
  case OP_neg: return evaluate_wrap(dtype, 0 - u);
  case OP_abs: return evaluate_wrap(dtype, a < 0 ? 0 - u : u);
  case OP_sign: return (a > 0) - (a < 0);
  case OP_square: return evaluate_wrap(dtype, u * u);
  case OP_relu: return a > 0 ? a : 0;
  case OP_bit_not: return evaluate_wrap(dtype, UINT64_MAX - u);
  case OP_bit_and: return evaluate_wrap(dtype, u & (uint64_t)x[1]);
  case OP_bit_or: return evaluate_wrap(dtype, u | (uint64_t)x[1]);
  case OP_bit_xor: return evaluate_wrap(dtype, u ^ (uint64_t)x[1]);
  case OP_shift_left: return evaluate_wrap(dtype, (uint64_t)shift(dtype, a, x[1], true));
  case OP_shift_right: return evaluate_wrap(dtype, (uint64_t)shift(dtype, a, x[1], false));
  case OP_logical_not: return !a;
  case OP_add: return evaluate_wrap(dtype, u + (uint64_t)x[1]);
  case OP_sub: return evaluate_wrap(dtype, u - (uint64_t)x[1]);
  case OP_mul: return evaluate_wrap(dtype, u * (uint64_t)x[1]);
  case OP_div: return evaluate_wrap(dtype, (uint64_t)divide(a, x[1]));
  case OP_mod: return evaluate_wrap(dtype, (uint64_t)remainder_of(a, x[1]));
  case OP_pow: return evaluate_wrap(dtype, power(u, x[1]));
  case OP_minimum: return a < x[1] ? a : x[1];
  case OP_maximum: return a > x[1] ? a : x[1];
  case OP_equal: return a == x[1];
  case OP_not_equal: return a != x[1];
  case OP_less: return a < x[1];
  case OP_less_equal: return a <= x[1];
  case OP_greater: return a > x[1];
  case OP_greater_equal: return a >= x[1];
  case OP_logical_and: return a && x[1];
  case OP_logical_or: return a || x[1];
  case OP_logical_xor: return !a != !x[1];
  case OP_select: return a ? x[1] : x[2];
  default: return INT64_MIN;
  }
}
