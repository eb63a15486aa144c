/* SPDX-License-Identifier: MIT */
/* The vector functions match the C library in a wider type, on every instruction set of the
 * machine. The bounds below come from a run over all 2^32 floats. The tests take every 4099th
 * float, which is a multiple of no step between the numbers, and the floats around the seams. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"
#include "support/reference/angles.h"
#include "program/isa/tile_table.h"

static const char *const sets[] = {"scalar", "avx2", "avx512"};
enum { SETS = 3, PART = 1024, STEP = 4099 };

/* NULL if this machine lacks the instruction set. */
static const cpu_tile_table *table_of(int set) {
  const char *problem;
  const cpu_isa *isa = cpu_isa_select(sets[set], &problem);
  return problem ? NULL : isa->tile;
}

/* ---- References ----------------------------------------------------------------------------- */

static double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double silu(double x) {
  return x == -INFINITY ? NAN : x < -2000 ? -0.0 : x * sigmoid(x);
}
static double softplus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double sine(double x) {
  return (double)angle_sin(x);
}
static double cosine(double x) {
  return (double)angle_cos(x);
}
static double tangent(double x) {
  return (double)angle_tan(x);
}
static double elu(double x) {
  return x > 0 ? x : expm1(x);
}
static double gelu(double x) {
  return x == -INFINITY ? NAN : x < -100 ? -0.0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double gelu_tanh(double x) {
  if (x < -100) return x == -INFINITY ? NAN : -0.0;
  return x * sigmoid(sqrt(8 / M_PI) * (x + 0.044715 * x * x * x));
}

/* Largest errors in units in the last place, over all floats. */
static const struct {
  const char *name;
  compute_instruction_code code;
  double (*reference)(double);
  double ulp;
} functions[] = {
    {"exp", COMPUTE_I_EXP, exp, 1.1},       {"expm1", COMPUTE_I_EXPM1, expm1, 1.7},
    {"log", COMPUTE_I_LOG, log, 0.9},       {"log1p", COMPUTE_I_LOG1P, log1p, 1.6},
    {"sin", COMPUTE_I_SIN, sine, 3},        {"cos", COMPUTE_I_COS, cosine, 3},
    {"atan", COMPUTE_I_ATAN, atan, 1.6},    {"tan", COMPUTE_I_TAN, tangent, 4},
    {"asin", COMPUTE_I_ASIN, asin, 2.1},    {"acos", COMPUTE_I_ACOS, acos, 1.3},
    {"sinh", COMPUTE_I_SINH, sinh, 1.8},    {"cosh", COMPUTE_I_COSH, cosh, 1.6},
    {"asinh", COMPUTE_I_ASINH, asinh, 1.9}, {"acosh", COMPUTE_I_ACOSH, acosh, 2.2},
    {"atanh", COMPUTE_I_ATANH, atanh, 2.1}, {"tanh", COMPUTE_I_TANH, tanh, 2.5},
    {"erf", COMPUTE_I_ERF, erf, 1.3},       {"sigmoid", COMPUTE_I_SIGMOID, sigmoid, 2.3},
    {"gelu", COMPUTE_I_GELU, gelu, 2.9},    {"gelu_tanh", COMPUTE_I_GELU_TANH, gelu_tanh, 3},
    {"silu", COMPUTE_I_SILU, silu, 2.3},    {"softplus", COMPUTE_I_SOFTPLUS, softplus, 1.8},
    {"elu", COMPUTE_I_ELU, elu, 1.7},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- f32 ------------------------------------------------------------------------------------ */

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Error of one result in units in the last place; infinite if it is of the wrong kind. */
static double error_of(float actual, double expected) {
  if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual) ? 0 : INFINITY;
  if (expected == 0) return actual == 0 && !signbit(actual) == !signbit(expected) ? 0 : INFINITY;
  if (isinf(expected)) return (double)actual == expected ? 0 : INFINITY;
  int exponent;
  frexp(expected, &exponent);
  const double spacing = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
  /* An infinite result counts as the first number beyond f32. */
  const double value = isinf(actual) ? copysign(0x1p128, (double)actual) : (double)actual;
  const double limited = fabs(expected) > 0x1p128 ? copysign(0x1p128, expected) : expected;
  return fabs(value - limited) / spacing;
}

/* Checks one part of at most PART arguments. */
static void check_part(const cpu_tile_table *table, int set, int f, const float *x, int64_t count) {
  float y[PART];
  const cpu_immediate alpha = {.f64 = 1};
  (*table->compute[CPU_TYPE_F32])[functions[f].code][0](count, y, x, NULL, NULL, alpha);
  for (int64_t i = 0; i < count; i++) {
    const double expected = functions[f].reference((double)x[i]);
    const double error = error_of(y[i], expected);
    if (error > functions[f].ulp)
      fail_msg("%s, %s(%.9g) is %.9g, not %.9g: %.2f units of the last place", sets[set],
               functions[f].name, (double)x[i], (double)y[i], expected, error);
  }
}

static void f32_functions_keep_their_bounds(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (int f = 0; f < FUNCTIONS; f++) {
      float x[PART];
      int64_t count = 0;
      for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
        x[count++] = from_bits((uint32_t)bits);
        if (count < PART) continue;
        check_part(table, set, f, x, count);
        count = 0;
      }
      check_part(table, set, f, x, count);
    }
  }
}

/* Arguments where a method changes its range, and special numbers. They are tested alone in a tile
 * and among ordinary arguments: a tile's path depends on all its elements. */
static void f32_seams_and_special_arguments(void **state) {
  static const float seams[] = {
      0,           0.5f,      89.4f,   89.5f,    90,       0x1p30f, 0.78539816f, 1.57079637f,
      0x1p-149f,   0x1p-126f, 1e-30f,  0x1p-24f, 0x1p-12f, 0.0625f, 0.41421357f, 0.55f,
      0.70710677f, 3.9375f,   1,       1.5f,     3.92f,    3.94f,   9.0f,        9.1f,
      10.9f,       13.1f,     14.5f,   16.63f,   17.32f,   18,      80,          86.9f,
      87,          87.5f,     88.72f,  88.73f,   88.8f,    89,      103.9f,      104,
      110,         2e4f,      1048575, 1048576,  1048577,  1e10f,   1e30f,       FLT_MAX,
      5.9f,        INFINITY};
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (int f = 0; f < FUNCTIONS; f++)
      for (size_t s = 0; s < sizeof seams / sizeof seams[0]; s++)
        for (int sign = -1; sign <= 1; sign += 2) {
          float x[67];
          for (int i = 0; i < 67; i++) x[i] = 0.1f * (float)(i - 30);
          const float seam = (float)sign * seams[s];
          x[3] = seam;
          x[64] = nextafterf(seam, INFINITY);
          x[65] = nextafterf(seam, -INFINITY);
          check_part(table, set, f, x, 67);
          check_part(table, set, f, &seam, 1);
        }
    const float nan = NAN, negative_nan = -NAN;
    for (int f = 0; f < FUNCTIONS; f++) {
      check_part(table, set, f, &nan, 1);
      check_part(table, set, f, &negative_nan, 1);
    }
  }
}

static void f32_results_may_overwrite_their_arguments(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (int f = 0; f < FUNCTIONS; f++) {
      const cpu_tile_loop loop = (*table->compute[CPU_TYPE_F32])[functions[f].code][0];
      const cpu_immediate alpha = {.f64 = 0.25};
      float x[PART], y[PART];
      for (int i = 0; i < PART; i++) x[i] = 0.03f * (float)(i - 400) + (i % 100 == 7 ? 2e6f : 0);
      loop(PART, y, x, NULL, NULL, alpha);
      loop(PART, x, x, NULL, NULL, alpha);
      assert_memory_equal(x, y, sizeof x);
    }
  }
}

static void f32_functions_of_rows_have_the_bits_of_the_loops(void **state) {
  enum { ROWS = 3, ROW = 80 };
  static const int64_t counts[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 40, 48, 63, 64, 79, ROW};
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    assert_non_null((*table->rows)[COMPUTE_I_SILU]);
    for (int f = 0; f < FUNCTIONS; f++) {
      const cpu_tile_rows_loop rows = (*table->rows)[functions[f].code];
      const cpu_tile_loop loop = (*table->compute[CPU_TYPE_F32])[functions[f].code][0];
      for (size_t c = 0; rows && c < sizeof counts / sizeof counts[0]; c++) {
        const int64_t steps[] = {counts[c], ROW};
        for (int s = 0; s < 2; s++) {
          float x[ROWS * ROW], y[ROWS * ROW];
          for (int i = 0; i < ROWS * ROW; i++)
            x[i] = 0.1f * (float)(i - 100) + (i == 77 ? 1e3f : 0);
          memcpy(y, x, sizeof y);
          for (int r = 0; r < ROWS; r++)
            loop(counts[c], y + r * steps[s], x + r * steps[s], NULL, NULL,
                 (cpu_immediate){.i64 = 0});
          rows(ROWS, counts[c], x, steps[s]);
          assert_memory_equal(x, y, sizeof x);
        }
      }
    }
  }
}

/* ---- pow and mod ---------------------------------------------------------------------------- */

static void check_pow(const cpu_tile_table *table, int set, float a, float b) {
  const cpu_immediate none = {.i64 = 0};
  const cpu_tile_loop *loops = (*table->compute[CPU_TYPE_F32])[COMPUTE_I_POW];
  float x[9], y[9], r[3][9];
  for (int i = 0; i < 9; i++) x[i] = a, y[i] = b;
  loops[0](9, r[0], x, y, NULL, none);
  loops[1](9, r[1], &a, y, NULL, none);
  loops[2](9, r[2], x, &b, NULL, none);
  const double expected = pow((double)a, (double)b);
  for (int v = 0; v < 3; v++)
    if (error_of(r[v][0], expected) > 1 || error_of(r[v][8], expected) > 1)
      fail_msg("%s, pow(%.9g, %.9g) is %.9g, not %.9g", sets[set], (double)a, (double)b,
               (double)r[v][0], expected);
}

static void pow_is_within_one_unit(void **state) {
  static const float special[] = {0,        0.5f, 1,       2,          3,
                                  4,        2.5f, 1e-40f,  8388607.5f, 16777215,
                                  16777216, 1e9f, FLT_MAX, INFINITY,   NAN};
  enum { SPECIAL = sizeof special / sizeof special[0] };
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (int i = 0; i < 4 * SPECIAL * SPECIAL; i++) {
      const float a = special[i / 4 % SPECIAL], b = special[i / 4 / SPECIAL];
      check_pow(table, set, i & 1 ? -a : a, i & 2 ? -b : b);
    }
    test_random random = {17};
    for (int i = 0; i < 200000; i++) {
      const float a = (float)exp(test_random_uniform(&random, -50, 50));
      const double reach = 104 / fmax(fabs(log((double)a)), 1e-3);
      check_pow(table, set, a, (float)test_random_uniform(&random, -reach, reach));
      check_pow(table, set, from_bits((uint32_t)test_random_bits(&random)),
                from_bits((uint32_t)test_random_bits(&random)));
      check_pow(table, set, -a, (float)test_random_integer(&random, -9, 9));
    }
  }
}

static void mod_is_exact(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    test_random random = {5};
    for (int i = 0; i < 20000; i++) {
      const float a = from_bits((uint32_t)test_random_bits(&random));
      const float b = from_bits((uint32_t)test_random_bits(&random));
      const cpu_immediate none = {.i64 = 0};
      float r;
      (*table->compute[CPU_TYPE_F32])[COMPUTE_I_MOD][0](1, &r, &a, &b, NULL, none);
      assert_true(error_of(r, fmod((double)a, (double)b)) == 0);
    }
  }
}

/* ---- Loops of two operands ------------------------------------------------------------------- */

enum { PAIRS = 700 };

/* Runs the three variants on operands that repeat or not; `each` is the function of one element. */
#define CHECK_PAIRS(name, type_name, type, each, same)                                             \
  static void name(const cpu_tile_table *table, int set, compute_instruction_code code,            \
                   const type *a, const type *b) {                                                 \
    static type r[PAIRS];                                                                          \
    const cpu_immediate none = {.i64 = 0};                                                         \
    const cpu_tile_loop *loops = (*table->compute[CPU_TYPE_##type_name])[code];                    \
    for (int v = 0; v < 3; v++)                                                                    \
      for (int64_t count = PAIRS; count > 0; count = count * 2 / 3) {                              \
        loops[v](count, r, a, b, NULL, none);                                                      \
        for (int64_t i = 0; i < count; i++) {                                                      \
          const type x = a[v == 1 ? 0 : i], y = b[v == 2 ? 0 : i], expected = each;                \
          if (!(same))                                                                             \
            fail_msg("%s, code %d, variant %d, element %lld of %lld", sets[set], code, v,          \
                     (long long)i, (long long)count);                                              \
        }                                                                                          \
      }                                                                                            \
  }
#define SAME_FLOAT                                                                                 \
  (isnan(expected) ? isnan(r[i]) : r[i] == expected && !signbit(r[i]) == !signbit(expected))
CHECK_PAIRS(check_mods, F32, float, fmodf(x, y), SAME_FLOAT)
CHECK_PAIRS(check_quotients, I32, int32_t, (int32_t)(y == 0 ? 0 : (int64_t)x / y), r[i] == expected)
CHECK_PAIRS(check_rests, I32, int32_t, (int32_t)(y == 0 ? 0 : (int64_t)x % y), r[i] == expected)
CHECK_PAIRS(check_wide_quotients, I64, int64_t,
            y == 0    ? 0
            : y == -1 ? (int64_t)(0 - (uint64_t)x)
                      : x / y,
            r[i] == expected)
CHECK_PAIRS(check_wide_rests, I64, int64_t, y == 0 || y == -1 ? 0 : x % y, r[i] == expected)

/* The result of a power does not depend on the other elements of its tile. */
static float lone_power(const cpu_tile_table *table, float a, float b) {
  const cpu_immediate none = {.i64 = 0};
  float r;
  (*table->compute[CPU_TYPE_F32])[COMPUTE_I_POW][0](1, &r, &a, &b, NULL, none);
  return r;
}
CHECK_PAIRS(check_powers, F32, float, lone_power(table, x, y), SAME_FLOAT)

/* Quotients of all sizes: most tiles have only small ones, as ordinary data have. */
static void mods_and_powers_of_tiles_are_those_of_elements(void **state) {
  static const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1, 2, 8388608, 0.5f};
  static float a[PAIRS], b[PAIRS];
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    test_random random = {7};
    for (int round = 0; round < 60; round++) {
      const double reach = round < 40 ? 6 : 60;
      for (int i = 0; i < PAIRS; i++) {
        a[i] = (float)(exp(test_random_uniform(&random, -reach, reach)) * (i % 3 ? 1 : -1));
        b[i] = (float)(exp(test_random_uniform(&random, -2, 2)) * (i % 5 ? 1 : -1));
        if (round % 4 == 1) b[i] = (float)test_random_integer(&random, -4, 4);
        if (round % 4 == 2) a[i] = b[i] * (float)test_random_integer(&random, -99, 99);
        if (round % 4 == 3 && test_random_integer(&random, 0, 99) == 0)
          a[i] = special[test_random_integer(&random, 0, 9)];
        if (round % 4 == 3 && test_random_integer(&random, 0, 99) == 0)
          b[i] = special[test_random_integer(&random, 0, 9)];
      }
      check_mods(table, set, COMPUTE_I_MOD, a, b);
      check_powers(table, set, COMPUTE_I_POW, a, b);
    }
  }
}

/* One key or many, one counter or many: the same numbers. */
static void random_numbers_do_not_depend_on_the_variant(void **state) {
  enum { COUNT = 77 };
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    test_random random = {11};
    for (int round = 0; round < 50; round++) {
      int64_t key[COUNT], counter[COUNT];
      const cpu_immediate stream = {.i64 = (int64_t)(test_random_bits(&random) & UINT32_MAX)};
      const int64_t first = (int64_t)test_random_bits(&random), count = 1 + round * 3 % COUNT;
      for (int i = 0; i < COUNT; i++) {
        key[i] = (int64_t)test_random_bits(&random);
        counter[i] = round % 2 ? (int64_t)test_random_bits(&random) : INT64_C(0xfffffff0) + i;
      }
      const cpu_tile_loop *loops = (*table->compute[CPU_TYPE_F32])[COMPUTE_I_RANDOM];
      float each[COUNT], together[COUNT];
      for (int i = 0; i < COUNT; i++) loops[0](1, &each[i], &first, &counter[i], NULL, stream);
      loops[1](count, together, &first, counter, NULL, stream);
      assert_memory_equal(each, together, (size_t)count * sizeof *each);
      for (int i = 0; i < COUNT; i++) loops[0](1, &each[i], &key[i], &first, NULL, stream);
      loops[2](count, together, key, &first, NULL, stream);
      assert_memory_equal(each, together, (size_t)count * sizeof *each);
    }
  }
}

static void integers_divide_exactly(void **state) {
  static const int64_t special[] = {0,         1,         -1,        2,         -2,
                                    3,         7,         INT32_MAX, INT32_MIN, INT32_MIN + 1,
                                    INT64_MAX, INT64_MIN, 641,       65536,     INT64_MIN + 1};
  enum { SPECIAL = sizeof special / sizeof special[0] };
  static int32_t a[PAIRS], b[PAIRS];
  static int64_t wide_a[PAIRS], wide_b[PAIRS];
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    test_random random = {9};
    for (int round = 0; round < 300; round++) {
      const int shift_a = (int)test_random_integer(&random, 0, 62);
      const int shift_b = (int)test_random_integer(&random, 0, 62);
      for (int i = 0; i < PAIRS; i++) {
        wide_a[i] = (int64_t)test_random_bits(&random) >> shift_a;
        wide_b[i] = (int64_t)test_random_bits(&random) >> shift_b;
        if (i % 4 == 0) wide_b[i] = special[test_random_integer(&random, 0, SPECIAL - 1)];
        if (i % 7 == 1) wide_a[i] = special[test_random_integer(&random, 0, SPECIAL - 1)];
        if (i % 3 == 0) wide_a[i] -= wide_b[i] == 0 || wide_b[i] == -1 ? 0 : wide_a[i] % wide_b[i];
        a[i] = (int32_t)wide_a[i];
        b[i] = (int32_t)wide_b[i];
      }
      check_quotients(table, set, COMPUTE_I_DIV, a, b);
      check_rests(table, set, COMPUTE_I_MOD, a, b);
      check_wide_quotients(table, set, COMPUTE_I_DIV, wide_a, wide_b);
      check_wide_rests(table, set, COMPUTE_I_MOD, wide_a, wide_b);
    }
  }
}

/* ---- f64 ------------------------------------------------------------------------------------ */

/* mingw's acosl has an error of two units of f64 near 1. */
static long double wide_acos(long double x) {
  return 2 * atan2l(sqrtl((1 - x) / 2), sqrtl((1 + x) / 2));
}
static long double wide_sigmoid(long double x) {
  return 1 / (1 + expl(-x));
}
static long double wide_silu(long double x) {
  return x / (1 + expl(-x));
}
static long double wide_softplus(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}
static long double wide_gelu(long double x) {
  return 0.5L * x * erfcl(-x * 0.707106781186547524401L);
}

/* Functions with vector code in f64, with a range and a bound. */
static const struct {
  const char *name;
  compute_instruction_code code;
  long double (*reference)(long double);
  double low, high, ulp;
} wide[] = {
    {"exp", COMPUTE_I_EXP, expl, -708, 709.7, 2},
    {"exp", COMPUTE_I_EXP, expl, -745, -708, 2},
    {"log", COMPUTE_I_LOG, logl, 1e-300, 3, 2},
    {"log", COMPUTE_I_LOG, logl, 0.5, 2, 2},
    {"log", COMPUTE_I_LOG, logl, 1, 1e300, 2},
    {"atan", COMPUTE_I_ATAN, atanl, -8, 8, 1},
    {"tan", COMPUTE_I_TAN, angle_tan, -100000, 100000, 1},
    {"asin", COMPUTE_I_ASIN, asinl, -1, 1, 1},
    {"acos", COMPUTE_I_ACOS, wide_acos, -1, 1, 1},
    {"sinh", COMPUTE_I_SINH, sinhl, -30, 30, 2},
    {"cosh", COMPUTE_I_COSH, coshl, -30, 30, 2},
    {"asinh", COMPUTE_I_ASINH, asinhl, -50, 50, 2},
    {"acosh", COMPUTE_I_ACOSH, acoshl, 1, 50, 2},
    {"atanh", COMPUTE_I_ATANH, atanhl, -1, 1, 2},
    {"tanh", COMPUTE_I_TANH, tanhl, -20, 20, 3},
    {"tanh", COMPUTE_I_TANH, tanhl, -1e-5, 1e-5, 3},
    {"sigmoid", COMPUTE_I_SIGMOID, wide_sigmoid, -40, 40, 3},
    {"silu", COMPUTE_I_SILU, wide_silu, -40, 40, 4},
    {"softplus", COMPUTE_I_SOFTPLUS, wide_softplus, -40, 40, 4},
    {"gelu", COMPUTE_I_GELU, wide_gelu, -1, 8, 4},
    {"expm1", COMPUTE_I_EXPM1, expm1l, -5, 5, 2},
    {"log1p", COMPUTE_I_LOG1P, log1pl, -0.9, 50, 2},
    {"sin", COMPUTE_I_SIN, angle_sin, -1e5, 1e5, 1},
    {"cos", COMPUTE_I_COS, angle_cos, -1e5, 1e5, 1},
    {"erf", COMPUTE_I_ERF, erfl, -6, 6, 2},
};

static void f64_functions_keep_their_bounds(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (size_t f = 0; f < sizeof wide / sizeof wide[0]; f++) {
      const cpu_immediate none = {.i64 = 0};
      test_random random = {f};
      for (int part = 0; part < 40; part++) {
        double x[PART], y[PART];
        for (int i = 0; i < PART; i++)
          x[i] = test_random_uniform(&random, wide[f].low, wide[f].high);
        (*table->compute[CPU_TYPE_F64])[wide[f].code][0](PART, y, x, NULL, NULL, none);
        for (int i = 0; i < PART; i++) {
          const long double expected = wide[f].reference((long double)x[i]);
          const double spacing = test_spacing(COMPUTE_F64, (double)expected);
          if (!(fabsl((long double)y[i] - expected) <= (long double)(wide[f].ulp * spacing)))
            fail_msg("%s, f64 %s(%.17g) is %.17g, not %.17Lg", sets[set], wide[f].name, x[i], y[i],
                     expected);
        }
      }
    }
  }
}

static void check_wide(const cpu_tile_table *table, compute_instruction_code code, double x,
                       double expected) {
  const cpu_immediate alpha = {.f64 = 1};
  double y;
  (*table->compute[CPU_TYPE_F64])[code][0](1, &y, &x, NULL, NULL, alpha);
  if (!((isnan(y) && isnan(expected)) || (y == expected && !signbit(y) == !signbit(expected))))
    fail_msg("code %d of %.17g is %.17g, not %.17g", code, x, y, expected);
}

static void f64_special_arguments(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++) {
    const cpu_tile_table *table = table_of(set);
    if (!table) continue;
    for (int f = 0; f < FUNCTIONS; f++) check_wide(table, functions[f].code, NAN, NAN);
    check_wide(table, COMPUTE_I_EXP, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_EXP, 1000, INFINITY);
    check_wide(table, COMPUTE_I_EXP, -INFINITY, 0);
    check_wide(table, COMPUTE_I_EXP, -1000, 0);
    check_wide(table, COMPUTE_I_EXP, 0, 1);
    check_wide(table, COMPUTE_I_LOG, 0, -INFINITY);
    check_wide(table, COMPUTE_I_LOG, -1, NAN);
    check_wide(table, COMPUTE_I_LOG, 1, 0);
    check_wide(table, COMPUTE_I_LOG, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_LOG, 0x1p-1074, log(0x1p-1074));
    check_wide(table, COMPUTE_I_ATAN, -0.0, -0.0);
    check_wide(table, COMPUTE_I_ATAN, -INFINITY, -M_PI_2);
    check_wide(table, COMPUTE_I_TAN, -0.0, -0.0);
    check_wide(table, COMPUTE_I_TAN, INFINITY, NAN);
    check_wide(table, COMPUTE_I_ASIN, -1, -M_PI_2);
    check_wide(table, COMPUTE_I_ASIN, 1.5, NAN);
    check_wide(table, COMPUTE_I_ACOS, 1, 0);
    check_wide(table, COMPUTE_I_ACOS, -1, M_PI);
    check_wide(table, COMPUTE_I_ACOS, -1.5, NAN);
    check_wide(table, COMPUTE_I_SINH, -0.0, -0.0);
    check_wide(table, COMPUTE_I_SINH, -INFINITY, -INFINITY);
    check_wide(table, COMPUTE_I_COSH, -INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_COSH, 0, 1);
    check_wide(table, COMPUTE_I_ASINH, -INFINITY, -INFINITY);
    check_wide(table, COMPUTE_I_ASINH, -0.0, -0.0);
    check_wide(table, COMPUTE_I_ACOSH, 1, 0);
    check_wide(table, COMPUTE_I_ACOSH, 0.5, NAN);
    check_wide(table, COMPUTE_I_ACOSH, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_ATANH, 1, INFINITY);
    check_wide(table, COMPUTE_I_ATANH, -1, -INFINITY);
    check_wide(table, COMPUTE_I_ATANH, -2, NAN);
    check_wide(table, COMPUTE_I_ATANH, -0.0, -0.0);
    check_wide(table, COMPUTE_I_TANH, -0.0, -0.0);
    check_wide(table, COMPUTE_I_TANH, -INFINITY, -1);
    check_wide(table, COMPUTE_I_SIGMOID, -INFINITY, 0);
    check_wide(table, COMPUTE_I_SIGMOID, INFINITY, 1);
    check_wide(table, COMPUTE_I_SILU, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_SILU, -INFINITY, NAN);
    check_wide(table, COMPUTE_I_GELU, -INFINITY, NAN);
    check_wide(table, COMPUTE_I_GELU, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_GELU_TANH, INFINITY, INFINITY);
    check_wide(table, COMPUTE_I_SOFTPLUS, -INFINITY, 0);
    check_wide(table, COMPUTE_I_ELU, -INFINITY, -1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f32_functions_keep_their_bounds),
      cmocka_unit_test(f32_seams_and_special_arguments),
      cmocka_unit_test(f32_results_may_overwrite_their_arguments),
      cmocka_unit_test(f32_functions_of_rows_have_the_bits_of_the_loops),
      cmocka_unit_test(pow_is_within_one_unit),
      cmocka_unit_test(mod_is_exact),
      cmocka_unit_test(mods_and_powers_of_tiles_are_those_of_elements),
      cmocka_unit_test(random_numbers_do_not_depend_on_the_variant),
      cmocka_unit_test(integers_divide_exactly),
      cmocka_unit_test(f64_functions_keep_their_bounds),
      cmocka_unit_test(f64_special_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
