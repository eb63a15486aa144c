/* Instructions on F64 and on F32 values: compiled for each (core/isa.h). */
#include <math.h>

#include "element.h"
#include "math_base.h"
#include "math_f32.h"
#include "math_f64.h"
#include "tile_loops.h"

typedef ELEMENT real;
#define REAL(name) CPU_PASTE(name, CPU_VARIANT)
#define REAL_MAX   (sizeof(real) == 4 ? 0x1.fffffep127f : 0x1.fffffffffffffp1023)

/* ---- Arithmetic ---------------------------------------------------------------------------- */

CPU_INLINE real op_neg(real x) {
  return -x;
}
CPU_INLINE real op_abs(real x) {
  return REAL(math_abs)(x);
}
CPU_INLINE real op_sign(real x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;
}
CPU_INLINE real op_square(real x) {
  return x * x;
}
CPU_INLINE real op_sqrt(real x) {
  return REAL(math_sqrt)(x);
}
CPU_INLINE real op_rsqrt(real x) {
  return 1 / REAL(math_sqrt)(x);
}
CPU_INLINE real op_reciprocal(real x) {
  return 1 / x;
}
CPU_INLINE real op_relu(real x) {
  return 0 > x ? 0 : x;
} /* in this order NaN stays */
CPU_INLINE real op_leaky_relu(real x, real slope) {
  return x > 0 ? x : slope * x;
}

CPU_INLINE real op_round(real x) {
  return REAL(math_round)(x);
}
CPU_INLINE real op_floor(real x) {
  const real r = REAL(math_round)(x);
  return REAL(math_copy_sign)(r > x ? r - 1 : r, x);
}
CPU_INLINE real op_ceil(real x) {
  const real r = REAL(math_round)(x);
  return REAL(math_copy_sign)(r < x ? r + 1 : r, x);
}
CPU_INLINE real op_trunc(real x) {
  const real magnitude = REAL(math_abs)(x), r = REAL(math_round)(magnitude);
  return REAL(math_copy_sign)(r > magnitude ? r - 1 : r, x);
}

CPU_INLINE real op_add(real a, real b) {
  return a + b;
}
CPU_INLINE real op_sub(real a, real b) {
  return a - b;
}
CPU_INLINE real op_mul(real a, real b) {
  return a * b;
}
CPU_INLINE real op_div(real a, real b) {
  return a / b;
}

/* The processor's minimum and maximum hand the second operand on when one is NaN; then only a NaN
 * in the first is left to care for. */
CPU_INLINE real op_min(real a, real b) {
  const real m = a < b ? a : b;
  return a != a ? a : m;
}
CPU_INLINE real op_max(real a, real b) {
  const real m = a > b ? a : b;
  return a != a ? a : m;
}

CPU_INLINE real op_expm1(real x) {
  return REAL(math_expm1)(x);
}
CPU_INLINE real op_log1p(real x) {
  return REAL(math_log1p)(x);
}
CPU_INLINE real op_atan(real x) {
  return REAL(atan)(x);
}
CPU_INLINE real op_asin(real x) {
  return REAL(asin)(x);
}
CPU_INLINE real op_acos(real x) {
  return REAL(acos)(x);
}
CPU_INLINE real op_sinh(real x) {
  return REAL(sinh)(x);
}
CPU_INLINE real op_cosh(real x) {
  return REAL(cosh)(x);
}
CPU_INLINE real op_asinh(real x) {
  return REAL(asinh)(x);
}
CPU_INLINE real op_acosh(real x) {
  return REAL(acosh)(x);
}
CPU_INLINE real op_atanh(real x) {
  return REAL(atanh)(x);
}
CPU_INLINE real op_tanh(real x) {
  return REAL(math_tanh)(x);
}
CPU_INLINE real op_gelu_tanh(real x) {
  return REAL(math_gelu_tanh)(x);
}
CPU_INLINE real op_softplus(real x) {
  return REAL(math_softplus)(x);
}
CPU_INLINE real op_elu(real x, real alpha) {
  return REAL(math_elu)(x, alpha);
}
CPU_INLINE real op_pow(real a, real b) {
  return REAL(math_pow)(a, b);
}
CPU_INLINE real op_mod(real a, real b) {
  return REAL(math_mod)(a, b);
}

CPU_INLINE int32_t op_is_nan(real x) {
  return -(x != x);
}
CPU_INLINE int32_t op_is_finite(real x) {
  return -(REAL(math_abs)(x) <= REAL_MAX);
}
CPU_INLINE int32_t op_eq(real a, real b) {
  return -(a == b);
}
CPU_INLINE int32_t op_ne(real a, real b) {
  return -(a != b);
}
CPU_INLINE int32_t op_lt(real a, real b) {
  return -(a < b);
}
CPU_INLINE int32_t op_le(real a, real b) {
  return -(a <= b);
}
CPU_INLINE int32_t op_gt(real a, real b) {
  return -(a > b);
}
CPU_INLINE int32_t op_ge(real a, real b) {
  return -(a >= b);
}

UNARY_LOOP(op_neg, real, real)
UNARY_LOOP(op_abs, real, real)
UNARY_LOOP(op_sign, real, real)
UNARY_LOOP(op_square, real, real)
UNARY_LOOP(op_sqrt, real, real)
UNARY_LOOP(op_rsqrt, real, real)
UNARY_LOOP(op_reciprocal, real, real)
UNARY_LOOP(op_relu, real, real)
SCALED_LOOP(op_leaky_relu, real)
UNARY_LOOP(op_round, real, real)
UNARY_LOOP(op_floor, real, real)
UNARY_LOOP(op_ceil, real, real)
UNARY_LOOP(op_trunc, real, real)
UNARY_LOOP(op_expm1, real, real)
UNARY_LOOP(op_log1p, real, real)
UNARY_LOOP(op_atan, real, real)
UNARY_LOOP(op_asin, real, real)
UNARY_LOOP(op_acos, real, real)
UNARY_LOOP(op_sinh, real, real)
UNARY_LOOP(op_cosh, real, real)
UNARY_LOOP(op_asinh, real, real)
UNARY_LOOP(op_acosh, real, real)
UNARY_LOOP(op_atanh, real, real)
UNARY_LOOP(op_tanh, real, real)
UNARY_LOOP(op_gelu_tanh, real, real)
UNARY_LOOP(op_softplus, real, real)
SCALED_LOOP(op_elu, real)
UNARY_LOOP(op_is_nan, int32_t, real)
UNARY_LOOP(op_is_finite, int32_t, real)
BINARY_LOOP(op_add, real, real)
BINARY_LOOP(op_sub, real, real)
BINARY_LOOP(op_mul, real, real)
BINARY_LOOP(op_div, real, real)
BINARY_LOOP(op_min, real, real)
BINARY_LOOP(op_max, real, real)
BINARY_LOOP(op_pow, real, real)
BINARY_LOOP(op_mod, real, real)
BINARY_LOOP(op_eq, int32_t, real)
BINARY_LOOP(op_ne, int32_t, real)
BINARY_LOOP(op_lt, int32_t, real)
BINARY_LOOP(op_le, int32_t, real)
BINARY_LOOP(op_gt, int32_t, real)
BINARY_LOOP(op_ge, int32_t, real)
SELECT_LOOP(op_select, real)

#if defined(CPU_VARIANT_F64)

CPU_INLINE double op_exp(double x) {
  return math_exp_f64(x);
}
CPU_INLINE double op_log(double x) {
  return math_log_f64(x);
}
CPU_INLINE double op_sin(double x) {
  return math_sin_f64(x);
}
CPU_INLINE double op_cos(double x) {
  return math_cos_f64(x);
}
CPU_INLINE double op_tan(double x) {
  return tan_f64(x);
}
CPU_INLINE double op_sigmoid(double x) {
  return math_sigmoid_f64(x);
}
CPU_INLINE double op_erf(double x) {
  return math_erf_f64(x);
}
CPU_INLINE double op_gelu(double x) {
  return math_gelu_f64(x);
}
CPU_INLINE double op_silu(double x) {
  return math_silu_f64(x);
}
UNARY_LOOP(op_exp, double, double)
UNARY_LOOP(op_log, double, double)
UNARY_LOOP(op_sin, double, double)
UNARY_LOOP(op_cos, double, double)
UNARY_LOOP(op_tan, double, double)
UNARY_LOOP(op_sigmoid, double, double)
UNARY_LOOP(op_erf, double, double)
UNARY_LOOP(op_gelu, double, double)
UNARY_LOOP(op_silu, double, double)

#else                              /* F32 */

/* Several functions have a short form for ordinary arguments. A tile is looked through first, at
 * the price of one maximum per element, and gets the form that serves all of it. */

/* What a tile is looked through for: an unsigned number that is large for arguments that the short
 * form does not serve. NaN is large either way. */
CPU_INLINE uint32_t key_magnitude(float x) {
  return (uint32_t)math_bits_f32(x) & INT32_MAX;
}
CPU_INLINE uint32_t key_positive(float x) {
  return (uint32_t)math_bits_f32(x) - 0x00800000;
}

/* Keys of the largest magnitude that is served, and of the largest normal number. */
#define LIMIT_EXP      0x42ae0000u /* MATH_EXP_LIMIT */
#define LIMIT_TRIG     0x49800000u /* MATH_TRIG_LIMIT */
#define LIMIT_POSITIVE 0x7effffffu

#define LARGEST_KEY(name, key)                                                                     \
  static uint32_t name(int64_t count, const float *x) {                                            \
    uint32_t largest = 0;                                                                          \
    for (int64_t i = 0; i < count; i++) largest = key(x[i]) > largest ? key(x[i]) : largest;       \
    return largest;                                                                                \
  }

LARGEST_KEY(largest_magnitude, key_magnitude)
LARGEST_KEY(largest_positive, key_positive)

#define RANGED_LOOP(name, whole, core, largest, limit)                                             \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    const float *x = a;                                                                            \
    float *r = result;                                                                             \
    (void)b, (void)c, (void)immediate;                                                             \
    if (largest(count, x) <= limit) {                                                              \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = core(x[i]);                                       \
    } else {                                                                                       \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) r[i] = whole(x[i]);                                      \
    }                                                                                              \
  }

RANGED_LOOP(op_exp, math_exp_f32, math_exp_core_f32, largest_magnitude, LIMIT_EXP)
RANGED_LOOP(op_log, math_log_f32, math_log_core_f32, largest_positive, LIMIT_POSITIVE)
RANGED_LOOP(op_tan, tan_f32, math_tan_core_f32, largest_magnitude, LIMIT_TRIG)
RANGED_LOOP(op_sigmoid, math_sigmoid_f32, math_sigmoid_core_f32, largest_magnitude, LIMIT_EXP)
RANGED_LOOP(op_silu, math_silu_f32, math_silu_core_f32, largest_magnitude, LIMIT_EXP)

/* erf and gelu go over a part of the tile several times. In one pass they need more constants than
 * AVX2 has registers, and are longer chains than the processor can overlap. */
enum { PART = 256 };

static void erf_part(int64_t count, float *r, const float *x) {
  float between[PART];
  for (int64_t i = 0; i < count; i++) between[i] = math_erf_exponent_f32(x[i]);
  for (int64_t i = 0; i < count; i++) between[i] = math_exp_core_f32(between[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = math_erf_sum_f32(x[i], between[i]);
}

static void gelu_part(int64_t count, float *r, const float *x) {
  float between[PART];
  for (int64_t i = 0; i < count; i++) between[i] = math_gelu_tail_f32(x[i]);
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = math_gelu_sum_f32(x[i], between[i]);
}

#define PARTS_LOOP(name, part)                                                                     \
  static void name##_loop(int64_t count, void *result, const void *a, const void *b,               \
                          const void *c, cpu_immediate immediate) {                                \
    (void)b, (void)c, (void)immediate;                                                             \
    for (int64_t i = 0; i < count; i += PART)                                                      \
      part(count - i < PART ? count - i : PART, (float *)result + i, (const float *)a + i);        \
  }

PARTS_LOOP(op_erf, erf_part)
PARTS_LOOP(op_gelu, gelu_part)

/* sin(x + shift π/2). Angles that the vector code cannot reduce are rare: a tile that has one goes
 * to the C library, which reduces by as many digits of 2/π as it takes. */
static void sine_loop(int64_t count, float *r, const float *x, int32_t shift) {
  if (largest_magnitude(count, x) <= LIMIT_TRIG) {
    CPU_INDEPENDENT
    for (int64_t i = 0; i < count; i++) r[i] = math_sine_f32(x[i], shift);
  } else {
    for (int64_t i = 0; i < count; i++) r[i] = shift ? cosf(x[i]) : sinf(x[i]);
  }
}

static void op_sin_loop(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate immediate) {
  (void)b, (void)c, (void)immediate;
  sine_loop(count, result, a, 0);
}

static void op_cos_loop(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate immediate) {
  (void)b, (void)c, (void)immediate;
  sine_loop(count, result, a, 1);
}

/* ---- Rounding to 16 bits ------------------------------------------------------------------- */

CPU_INLINE float op_round_f16(float x) {
  return convert_f16_to_f32(convert_f32_to_f16(x));
}
CPU_INLINE float op_round_bf16(float x) {
  return convert_bf16_to_f32(convert_f32_to_bf16(x));
}

UNARY_LOOP(op_round_f16, float, float)
UNARY_LOOP(op_round_bf16, float, float)

#endif

/* Random numbers: key a, counter b, both I64. */
static void random_loop(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate stream) {
  const int64_t *key = a, *counter = b;
  real *r = result;
  (void)c;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = REAL(random)(key[i], counter[i], stream.i64);
}
static void random_left(int64_t count, void *result, const void *a, const void *b, const void *c,
                        cpu_immediate stream) {
  const int64_t key = *(const int64_t *)a, *counter = b;
  real *r = result;
  (void)c;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = REAL(random)(key, counter[i], stream.i64);
}
static void random_right(int64_t count, void *result, const void *a, const void *b, const void *c,
                         cpu_immediate stream) {
  const int64_t *key = a, counter = *(const int64_t *)b;
  real *r = result;
  (void)c;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) r[i] = REAL(random)(key[i], counter, stream.i64);
}

const cpu_tile_loops CPU_VARIANT_SYMBOL(cpu_tile) = {
    [COMPUTE_I_RANDOM] = BINARY_ROW(random),
    [COMPUTE_I_NEG] = UNARY_ROW(op_neg),
    [COMPUTE_I_ABS] = UNARY_ROW(op_abs),
    [COMPUTE_I_SIGN] = UNARY_ROW(op_sign),
    [COMPUTE_I_SQUARE] = UNARY_ROW(op_square),
    [COMPUTE_I_SQRT] = UNARY_ROW(op_sqrt),
    [COMPUTE_I_RSQRT] = UNARY_ROW(op_rsqrt),
    [COMPUTE_I_RECIPROCAL] = UNARY_ROW(op_reciprocal),
    [COMPUTE_I_EXP] = UNARY_ROW(op_exp),
    [COMPUTE_I_EXPM1] = UNARY_ROW(op_expm1),
    [COMPUTE_I_LOG] = UNARY_ROW(op_log),
    [COMPUTE_I_LOG1P] = UNARY_ROW(op_log1p),
    [COMPUTE_I_SIN] = UNARY_ROW(op_sin),
    [COMPUTE_I_COS] = UNARY_ROW(op_cos),
    [COMPUTE_I_ATAN] = UNARY_ROW(op_atan),
    [COMPUTE_I_TAN] = UNARY_ROW(op_tan),
    [COMPUTE_I_ASIN] = UNARY_ROW(op_asin),
    [COMPUTE_I_ACOS] = UNARY_ROW(op_acos),
    [COMPUTE_I_SINH] = UNARY_ROW(op_sinh),
    [COMPUTE_I_COSH] = UNARY_ROW(op_cosh),
    [COMPUTE_I_ASINH] = UNARY_ROW(op_asinh),
    [COMPUTE_I_ACOSH] = UNARY_ROW(op_acosh),
    [COMPUTE_I_ATANH] = UNARY_ROW(op_atanh),
    [COMPUTE_I_TANH] = UNARY_ROW(op_tanh),
    [COMPUTE_I_ERF] = UNARY_ROW(op_erf),
    [COMPUTE_I_FLOOR] = UNARY_ROW(op_floor),
    [COMPUTE_I_CEIL] = UNARY_ROW(op_ceil),
    [COMPUTE_I_ROUND] = UNARY_ROW(op_round),
    [COMPUTE_I_TRUNC] = UNARY_ROW(op_trunc),
    [COMPUTE_I_RELU] = UNARY_ROW(op_relu),
    [COMPUTE_I_SIGMOID] = UNARY_ROW(op_sigmoid),
    [COMPUTE_I_GELU] = UNARY_ROW(op_gelu),
    [COMPUTE_I_GELU_TANH] = UNARY_ROW(op_gelu_tanh),
    [COMPUTE_I_SILU] = UNARY_ROW(op_silu),
    [COMPUTE_I_SOFTPLUS] = UNARY_ROW(op_softplus),
    [COMPUTE_I_LEAKY_RELU] = UNARY_ROW(op_leaky_relu),
    [COMPUTE_I_ELU] = UNARY_ROW(op_elu),
    [COMPUTE_I_IS_NAN] = UNARY_ROW(op_is_nan),
    [COMPUTE_I_IS_FINITE] = UNARY_ROW(op_is_finite),
    [COMPUTE_I_ADD] = BINARY_ROW(op_add),
    [COMPUTE_I_SUB] = BINARY_ROW(op_sub),
    [COMPUTE_I_MUL] = BINARY_ROW(op_mul),
    [COMPUTE_I_DIV] = BINARY_ROW(op_div),
    [COMPUTE_I_MOD] = BINARY_ROW(op_mod),
    [COMPUTE_I_POW] = BINARY_ROW(op_pow),
    [COMPUTE_I_MIN] = BINARY_ROW(op_min),
    [COMPUTE_I_MAX] = BINARY_ROW(op_max),
    [COMPUTE_I_EQ] = BINARY_ROW(op_eq),
    [COMPUTE_I_NE] = BINARY_ROW(op_ne),
    [COMPUTE_I_LT] = BINARY_ROW(op_lt),
    [COMPUTE_I_LE] = BINARY_ROW(op_le),
    [COMPUTE_I_GT] = BINARY_ROW(op_gt),
    [COMPUTE_I_GE] = BINARY_ROW(op_ge),
    [COMPUTE_I_SELECT] = SELECT_ROW(op_select),
#if defined(CPU_VARIANT_F32)
    [COMPUTE_I_ROUND_F16] = UNARY_ROW(op_round_f16),
    [COMPUTE_I_ROUND_BF16] = UNARY_ROW(op_round_bf16),
#endif
};
