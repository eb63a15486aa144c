/* SPDX-License-Identifier: MIT */
/* The functions of kernels/functions_*.h, compiled here in the C dialect without changes. Other
 * dialects differ only by contraction, which the bounds allow. */
#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/type/dtype.h"
#include "support/harness/values.h"
#include "support/reference/angles.h"

#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-macros"
#define FOR_CPU
#define FOR_CPU_WITH_F64
#include "../../kernels/dialect_c.h"
#include "../../kernels/functions_convert.h"
#include "../../kernels/functions_f32.h"
#include "../../kernels/functions_random.h"
#include "../../kernels/functions_trigonometry.h"

/* The generator's definitions for the words of functions_narrow.h. */
#define narrow          u8
#define value           i32
#define saturate_narrow saturate_u8
#include "../../kernels/functions_narrow.h"
#undef narrow
#undef value
#undef saturate_narrow
#define convert_f32_u8(x) saturate_u8(convert_f32_i32(x))
#define convert_f64_u8(x) saturate_u8(convert_f64_i32(x))
#define narrow            u16
#define value             i32
#define saturate_narrow   saturate_u16
#include "../../kernels/functions_narrow.h"
#undef narrow
#undef value
#undef saturate_narrow
#define convert_f32_u16(x) saturate_u16(convert_f32_i32(x))
#define convert_f64_u16(x) saturate_u16(convert_f64_i32(x))
#define narrow             i8
#define value              i32
#define saturate_narrow    saturate_i8
#include "../../kernels/functions_narrow.h"
#undef narrow
#undef value
#undef saturate_narrow
#define convert_f32_i8(x) saturate_i8(convert_f32_i32(x))
#define convert_f64_i8(x) saturate_i8(convert_f64_i32(x))
#define narrow            i16
#define value             i32
#define saturate_narrow   saturate_i16
#include "../../kernels/functions_narrow.h"
#undef narrow
#undef value
#undef saturate_narrow
#define convert_f32_i16(x) saturate_i16(convert_f32_i32(x))
#define convert_f64_i16(x) saturate_i16(convert_f64_i32(x))
#define narrow             u32
#define value              i64
#define saturate_narrow    saturate_u32
#include "../../kernels/functions_narrow.h"
#undef narrow
#undef value
#undef saturate_narrow
#define convert_f32_u32(x) saturate_u32(convert_f32_i64(x))
#define convert_f64_u32(x) saturate_u32(convert_f64_i64(x))

/* ---- Accuracy ------------------------------------------------------------------------------ */

typedef struct function_row {
  const char *name;
  float (*function)(float x);
  long double (*reference)(long double x);
  float low, high; /* the range of samples, in addition to floats with random bits between them */
  double ulp;
} function_row;

#define WRAP(name)                                                                                 \
  static float wrap_##name(float x) {                                                              \
    return name##_f32(x);                                                                          \
  }
WRAP(exp)
WRAP(expm1)
WRAP(log)
WRAP(log1p)
WRAP(sin)
WRAP(cos)
WRAP(atan)
WRAP(tan)
WRAP(asin)
WRAP(acos)
WRAP(sinh)
WRAP(cosh)
WRAP(asinh)
WRAP(acosh)
WRAP(atanh)
WRAP(tanh)
WRAP(erf)
WRAP(sigmoid)
WRAP(gelu)
WRAP(gelu_tanh)
WRAP(silu)
WRAP(softplus)

static long double sigmoid(long double x) {
  return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double gelu(long double x) {
  return x * 0.5L * erfcl(-x * sqrtl(0.5L));
}
static long double gelu_tanh(long double x) {
  return x * sigmoid(sqrtl(8 / acosl(-1)) * (x + 0.044715L * x * x * x));
}
static long double silu(long double x) {
  return x * sigmoid(x);
}
static long double softplus(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

static const function_row function_rows[] = {
    {"exp", wrap_exp, expl, -105, 90, 1.2},
    {"expm1", wrap_expm1, expm1l, -20, 89, 2},
    {"log", wrap_log, logl, 0, 3e38f, 1.5},
    {"log1p", wrap_log1p, log1pl, -1, 3e38f, 1.5},
    {"sin", wrap_sin, angle_sin, -30, 30, 3},
    {"sin, large", wrap_sin, angle_sin, -3e38f, 3e38f, 3},
    {"cos", wrap_cos, angle_cos, -30, 30, 3},
    {"cos, large", wrap_cos, angle_cos, -3e38f, 3e38f, 3},
    {"atan", wrap_atan, atanl, -12, 12, 1.6},
    {"tan", wrap_tan, angle_tan, -30, 30, 4},
    {"asin", wrap_asin, asinl, -1, 1, 2.2},
    {"acos", wrap_acos, acosl, -1, 1, 1.5},
    {"sinh", wrap_sinh, sinhl, -89, 89, 2},
    {"cosh", wrap_cosh, coshl, -89, 89, 2},
    {"asinh", wrap_asinh, asinhl, -50, 50, 2.2},
    {"acosh", wrap_acosh, acoshl, 1, 50, 2.5},
    {"atanh", wrap_atanh, atanhl, -1, 1, 2.2},
    {"tan, large", wrap_tan, angle_tan, -3e38f, 3e38f, 4},
    {"asinh, large", wrap_asinh, asinhl, -3e38f, 3e38f, 2.2},
    {"acosh, large", wrap_acosh, acoshl, 1, 3e38f, 2.5},
    {"tanh", wrap_tanh, tanhl, -12, 12, 3},
    {"erf", wrap_erf, erfl, -5, 5, 1.5},
    {"sigmoid", wrap_sigmoid, sigmoid, -105, 40, 2.6},
    {"gelu", wrap_gelu, gelu, -14.4f, 15, 4},
    {"gelu_tanh", wrap_gelu_tanh, gelu_tanh, -10.8f, 11, 3.5},
    {"silu", wrap_silu, silu, -108, 40, 3.5},
    {"softplus", wrap_softplus, softplus, -105, 40, 2},
};

static float draw(test_random *random, const function_row *row) {
  if (test_random_bits(random) & 1) {
    return (float)test_random_uniform(random, (double)row->low, (double)row->high);
  }
  for (;;) {
    const uint32_t bits = (uint32_t)test_random_bits(random);
    float x;
    memcpy(&x, &bits, sizeof x);
    if (x >= row->low && x <= row->high) return x;
  }
}

static void functions_keep_their_precision_over_the_whole_range(void **state) {
  (void)state;
  test_random random = {.state = 17};
  for (size_t i = 0; i < sizeof function_rows / sizeof *function_rows; i++) {
    const function_row *row = &function_rows[i];
    for (int n = 0; n < 40000; n++) {
      const float x = draw(&random, row);
      const long double expected = row->reference(x);
      if (fabsl(expected) > 3.4e38L) continue;
      const double unit = test_spacing(COMPUTE_F32, (double)expected);
      const double error = (double)fabsl((long double)row->function(x) - expected) / unit;
      if (error <= row->ulp) continue;
      fail_msg("%s(%a) is off by %.2f ulp", row->name, (double)x, error);
    }
  }
}

static void powers_match_the_c_library(void **state) {
  (void)state;
  static const float special[] = {0,  -0.0f, 1,      -1, 2,     -2,       3,         -3,  0.5f,
                                  -8, 1e38f, 1e-45f, 17, 1e10f, INFINITY, -INFINITY, NAN, 16777216};
  const size_t count = sizeof special / sizeof *special;
  test_random random = {.state = 3};
  for (size_t i = 0; i < count * count + 40000; i++) {
    const bool drawn = i >= count * count;
    const float a = drawn ? (float)test_random_uniform(&random, 0, 20) : special[i / count];
    const float b = drawn ? (float)test_random_uniform(&random, -25, 25) : special[i % count];
    const double expected = pow((double)a, (double)b), actual = (double)pow_f32(a, b);
    if (isnan(expected) ? isnan(actual) : actual == (double)(float)expected) continue;
    if (fabs(actual - expected) <= test_spacing(COMPUTE_F32, expected)) continue;
    fail_msg("pow(%a, %a) is %a instead of %a", (double)a, (double)b, actual, expected);
  }
}

static void infinities_zeros_and_nan_come_out_as_the_limits_say(void **state) {
  (void)state;
  assert_true(exp_f32(-INFINITY) == 0 && exp_f32(INFINITY) == INFINITY && isnan(exp_f32(NAN)));
  assert_true(log_f32(0) == -INFINITY && isnan(log_f32(-1)) && log_f32(INFINITY) == INFINITY);
  assert_true(log1p_f32(-1) == -INFINITY && isnan(log1p_f32(-2)) && isnan(log1p_f32(NAN)));
  assert_true(expm1_f32(-INFINITY) == -1 && expm1_f32(INFINITY) == INFINITY);
  assert_true(tanh_f32(-INFINITY) == -1 && erf_f32(INFINITY) == 1 && isnan(erf_f32(NAN)));
  assert_true(isnan(sin_f32(INFINITY)) && isnan(cos_f32(NAN)) && cos_f32(0) == 1);
  assert_true(sigmoid_f32(-INFINITY) == 0 && sigmoid_f32(INFINITY) == 1 && isnan(sigmoid_f32(NAN)));
  assert_true(gelu_f32(INFINITY) == INFINITY && isnan(gelu_f32(-INFINITY)) && isnan(gelu_f32(NAN)));
  assert_true(isnan(gelu_tanh_f32(-INFINITY)) && gelu_tanh_f32(INFINITY) == INFINITY);
  assert_true(isnan(silu_f32(-INFINITY)) && silu_f32(INFINITY) == INFINITY && isnan(silu_f32(NAN)));
  assert_true(softplus_f32(-INFINITY) == 0 && softplus_f32(INFINITY) == INFINITY);
  assert_true(isnan(tan_f32(INFINITY)) && isnan(asin_f32(1.5f)) && isnan(acos_f32(-INFINITY)));
  assert_true(asin_f32(-1) == -(float)M_PI_2 && acos_f32(1) == 0 && acos_f32(-1) == (float)M_PI);
  assert_true(sinh_f32(-90) == -INFINITY && cosh_f32(-INFINITY) == INFINITY && cosh_f32(0) == 1);
  assert_true(asinh_f32(-INFINITY) == -INFINITY && acosh_f32(INFINITY) == INFINITY);
  assert_true(acosh_f32(1) == 0 && isnan(acosh_f32(0.9f)) && isnan(acosh_f32(-INFINITY)));
  assert_true(atanh_f32(-1) == -INFINITY && isnan(atanh_f32(2)) && isnan(atanh_f32(NAN)));
  assert_true(atan_f32(INFINITY) == (float)M_PI_2 && isnan(atan_f32(NAN)));
  float (*const keeping[])(float) = {wrap_expm1, wrap_log1p, wrap_sin,   wrap_tan,
                                     wrap_asin,  wrap_sinh,  wrap_asinh, wrap_atanh,
                                     wrap_atan,  wrap_tanh,  wrap_erf};
  for (size_t i = 0; i < sizeof keeping / sizeof *keeping; i++) {
    assert_true(signbit(keeping[i](-0.0f)) && !signbit(keeping[i](0.0f)));
  }
}

/* ---- Conversions --------------------------------------------------------------------------- */

static void every_f16_and_bf16_widens_as_the_library_does(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
    const float f16 = widen_f16((uint16_t)bits), bf16 = widen_bf16((uint16_t)bits);
    const float expected_f16 = dtype_f16_to_f32((uint16_t)bits);
    const float expected_bf16 = dtype_bf16_to_f32((uint16_t)bits);
    if (isnan(expected_f16)) {
      assert_true(isnan(f16));
    } else {
      assert_memory_equal(&f16, &expected_f16, 4);
      assert_int_equal(convert_f32_f16(f16), bits);
    }
    assert_memory_equal(&bf16, &expected_bf16, 4);
    if (!isnan(bf16)) assert_int_equal(convert_f32_bf16(bf16), bits);
  }
}

static void f32_narrows_as_the_library_does(void **state) {
  (void)state;
  test_random random = {.state = 5};
  for (int n = 0; n < 300000; n++) {
    uint32_t bits = (uint32_t)test_random_bits(&random);
    if (n & 1) bits = (bits & 0x8fffffff) | 0x30000000; /* where f16 has numbers */
    if (n & 2) bits &= 0xfffff000;                      /* ties */
    const float x = as_f32(bits);
    if (isnan(x)) {
      assert_true(isnan(widen_f16(convert_f32_f16(x))) && isnan(widen_bf16(convert_f32_bf16(x))));
      continue;
    }
    assert_int_equal(convert_f32_f16(x), dtype_f32_to_f16(x));
    assert_int_equal(convert_f32_bf16(x), dtype_f32_to_bf16(x));
  }
}

/* Integers and f64 are rounded once, although they pass through f32. */
static void wide_numbers_narrow_with_one_rounding(void **state) {
  (void)state;
  test_random random = {.state = 11};
  for (int n = 0; n < 100000; n++) {
    const int64_t x = (int64_t)test_random_bits(&random) >> (n % 64);
    const int64_t tie = (x & -(INT64_C(1) << (n % 50))) + (n & 3) - 1;
    const int64_t tried[] = {x, tie, x & -(INT64_C(1) << 40), -tie};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
      const int64_t value = tried[i];
      uint16_t expected;
      test_values one = {.dtype = COMPUTE_BF16, .data = &expected};
      /* The nearest f64 is on the same side of every tie of such a short format, or on the tie
       * itself. In this case, the low bits decide. */
      const int64_t cut = (value & ~INT64_C(2047)) | (value & 2047 ? 1024 : 0);
      const double odd = llabs(value) > (INT64_C(1) << 52) ? (double)cut : (double)value;
      test_values_set(&one, 0, odd);
      assert_int_equal(convert_i64_bf16(value), expected);
      one.dtype = COMPUTE_F16;
      test_values_set(&one, 0, odd);
      assert_int_equal(convert_i64_f16(value), expected);
      const double real = (double)value * 0x1p-40;
      test_values_set(&one, 0, real);
      assert_int_equal(convert_f64_f16(real), expected);
    }
  }
}

static void reals_become_integers_by_truncation_and_saturate(void **state) {
  (void)state;
  static const double values[] = {0,
                                  -0.9,
                                  1.99,
                                  -1.99,
                                  255.5,
                                  256,
                                  -1,
                                  2147483647.0,
                                  2147483648.0,
                                  -2147483648.0,
                                  -2147483649.0,
                                  9.3e18,
                                  -9.3e18,
                                  1e300,
                                  -1e300,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  9223372036854774784.0};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    const double x = values[i];
    const float f = (float)x;
    int32_t i32_expected;
    int64_t i64_expected;
    uint8_t u8_expected;
    uint16_t u16_expected;
    int8_t i8_expected;
    int16_t i16_expected;
    uint32_t u32_expected;
    uint64_t u64_expected;
    dtype_store(COMPUTE_I32, &i32_expected, x);
    dtype_store(COMPUTE_I64, &i64_expected, x);
    dtype_store(COMPUTE_U8, &u8_expected, x);
    dtype_store(COMPUTE_U16, &u16_expected, x);
    assert_int_equal(convert_f64_i32(x), i32_expected);
    assert_true(convert_f64_i64(x) == i64_expected);
    assert_int_equal(convert_f64_u8(x), u8_expected);
    assert_int_equal(convert_f64_u16(x), u16_expected);
    dtype_store(COMPUTE_I8, &i8_expected, (double)x);
    dtype_store(COMPUTE_I16, &i16_expected, (double)x);
    dtype_store(COMPUTE_U32, &u32_expected, (double)x);
    dtype_store(COMPUTE_U64, &u64_expected, (double)x);
    assert_int_equal(convert_f64_i8(x), i8_expected);
    assert_int_equal(convert_f64_i16(x), i16_expected);
    assert_int_equal(convert_f64_u32(x), u32_expected);
    assert_true(convert_f64_u64(x) == u64_expected);
    dtype_store(COMPUTE_I32, &i32_expected, (double)f);
    dtype_store(COMPUTE_I64, &i64_expected, (double)f);
    dtype_store(COMPUTE_U8, &u8_expected, (double)f);
    dtype_store(COMPUTE_U16, &u16_expected, (double)f);
    assert_int_equal(convert_f32_i32(f), i32_expected);
    assert_true(convert_f32_i64(f) == i64_expected);
    assert_int_equal(convert_f32_u8(f), u8_expected);
    assert_int_equal(convert_f32_u16(f), u16_expected);
    dtype_store(COMPUTE_I8, &i8_expected, (double)f);
    dtype_store(COMPUTE_I16, &i16_expected, (double)f);
    dtype_store(COMPUTE_U32, &u32_expected, (double)f);
    dtype_store(COMPUTE_U64, &u64_expected, (double)f);
    assert_int_equal(convert_f32_i8(f), i8_expected);
    assert_int_equal(convert_f32_i16(f), i16_expected);
    assert_int_equal(convert_f32_u32(f), u32_expected);
    assert_true(convert_f32_u64(f) == u64_expected);
  }
}

/* Known answers of Philox4x32-10 with key and counter 0, and all ones (Salmon et al., 2011). */
static void random_words_are_those_of_philox(void **state) {
  (void)state;
  const random_four words = random_words(0, 0, 0);
  assert_true(words.word0 == 0x6627e8d5 && words.word1 == 0xe169c58d);
  assert_true(words.word2 == 0xbc57ac4c && words.word3 == 0x9b00dbd8);
  assert_true(random_f32(0, 0, 0) == (float)(0x6627e8d5 >> 8) * 0x1p-24f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_keep_their_precision_over_the_whole_range),
      cmocka_unit_test(powers_match_the_c_library),
      cmocka_unit_test(infinities_zeros_and_nan_come_out_as_the_limits_say),
      cmocka_unit_test(every_f16_and_bf16_widens_as_the_library_does),
      cmocka_unit_test(f32_narrows_as_the_library_does),
      cmocka_unit_test(wide_numbers_narrow_with_one_rounding),
      cmocka_unit_test(reals_become_integers_by_truncation_and_saturate),
      cmocka_unit_test(random_words_are_those_of_philox),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
