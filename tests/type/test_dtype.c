/* SPDX-License-Identifier: MIT */
/* Conversions of single elements: every f16 and bf16, every tie between two neighbours, and the
 * limits of the integer types. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/type/dtype.h"

/* ---- Half-width floats, from their definitions --------------------------------------------- */

/* A half-width format: its widths, and the conversions under test. */
typedef struct format {
  compute_dtype dtype;
  int exponent_bits, mantissa_bits;
  uint16_t (*narrow)(float);
  float (*widen)(uint16_t);
} format;

static const format formats[] = {
    {COMPUTE_F16, 5, 10, dtype_f32_to_f16, dtype_f16_to_f32},
    {COMPUTE_BF16, 8, 7, dtype_f32_to_bf16, dtype_bf16_to_f32},
};
#define FORMATS (sizeof formats / sizeof *formats)

/* The bits of the format's infinity, the first pattern after the finite numbers. */
static uint32_t infinity_of(const format *f) {
  return ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
}

/* The value of a finite, positive bit pattern by IEEE 754. For the infinity's bits: the number that
 * would follow if the format continued, which decides where rounding overflows. */
static double meaning(const format *f, uint32_t bits) {
  int bias = (1 << (f->exponent_bits - 1)) - 1;
  int exponent = (int)(bits >> f->mantissa_bits);
  double mantissa = (double)(bits & ((1u << f->mantissa_bits) - 1));
  if (exponent == 0) return ldexp(mantissa, 1 - bias - f->mantissa_bits);
  return ldexp(mantissa + (double)(1u << f->mantissa_bits), exponent - bias - f->mantissa_bits);
}

static void every_pattern_widens_to_its_meaning(void **state) {
  (void)state;
  for (size_t k = 0; k < FORMATS; k++) {
    const format *f = &formats[k];
    for (uint32_t bits = 0; bits < infinity_of(f); bits++) {
      assert_true((double)f->widen((uint16_t)bits) == meaning(f, bits));
      assert_true((double)f->widen((uint16_t)(bits | 0x8000)) == -meaning(f, bits));
    }
    assert_true(signbit(f->widen(0x8000)));
    assert_true(isinf(f->widen((uint16_t)infinity_of(f))));
  }
}

static void every_pattern_survives_a_round_trip(void **state) {
  (void)state;
  for (size_t k = 0; k < FORMATS; k++) {
    const format *f = &formats[k];
    for (uint32_t bits = 0; bits < 65536; bits++) {
      uint16_t back = f->narrow(f->widen((uint16_t)bits));
      if ((bits & 0x7fff) <= infinity_of(f)) {
        assert_int_equal(back, bits);
      } else {
        /* A NaN stays a NaN with the same sign; it may become quiet. */
        assert_true((back & 0x7fff) > infinity_of(f));
        assert_int_equal(back & 0x8000, bits & 0x8000);
      }
      unsigned char element[8];
      dtype_store(f->dtype, element, (double)f->widen((uint16_t)bits));
      memcpy(&back, element, sizeof back);
      if ((bits & 0x7fff) <= infinity_of(f)) assert_int_equal(back, bits);
    }
  }
}

/* Through dtype_store, from double. */
static uint32_t stored(const format *f, double value) {
  uint16_t bits;
  unsigned char element[8];
  dtype_store(f->dtype, element, value);
  memcpy(&bits, element, sizeof bits);
  return bits;
}

static void ties_round_to_even_and_nothing_else_does(void **state) {
  (void)state;
  for (size_t k = 0; k < FORMATS; k++) {
    const format *f = &formats[k];
    for (uint32_t bits = 0; bits < infinity_of(f); bits++) {
      double low = meaning(f, bits), high = meaning(f, bits + 1);
      double middle = low + (high - low) / 2; /* exact in double, and in f32 */
      uint32_t even = bits & 1 ? bits + 1 : bits;
      float middle32 = (float)middle;
      assert_true((double)middle32 == middle);
      assert_int_equal(f->narrow(middle32), even);
      assert_int_equal(f->narrow(nextafterf(middle32, 0)), bits);
      assert_int_equal(f->narrow(nextafterf(middle32, INFINITY)), bits + 1);
      assert_int_equal(f->narrow(-middle32), even | 0x8000);
      /* So close to the tie that an intermediate f32 would lose the difference. */
      assert_int_equal(stored(f, middle), even);
      assert_int_equal(stored(f, nextafter(middle, 0)), bits);
      assert_int_equal(stored(f, nextafter(middle, INFINITY)), bits + 1);
      assert_int_equal(stored(f, -nextafter(middle, INFINITY)), (bits + 1) | 0x8000);
    }
    assert_int_equal(stored(f, 1e300), infinity_of(f));
    assert_int_equal(stored(f, -INFINITY), infinity_of(f) | 0x8000);
    assert_int_equal(stored(f, 1e-300), 0);
  }
}

static void integers_round_once_to_half_width(void **state) {
  (void)state;
  uint16_t bits;
  /* 2^62 + 2^54 is a tie of bf16. One more is not, and neither f32 nor f64 can represent it. */
  int64_t tie = ((int64_t)1 << 62) + ((int64_t)1 << 54);
  dtype_store_integer(COMPUTE_BF16, &bits, tie);
  assert_true(dtype_bf16_to_f32(bits) == 0x1p62f);
  dtype_store_integer(COMPUTE_BF16, &bits, tie + 1);
  assert_true(dtype_bf16_to_f32(bits) == 0x1.02p62f);
  dtype_store_integer(COMPUTE_BF16, &bits, -tie - 1);
  assert_true(dtype_bf16_to_f32(bits) == -0x1.02p62f);
  dtype_store_integer(COMPUTE_BF16, &bits, tie - 1);
  assert_true(dtype_bf16_to_f32(bits) == 0x1p62f);
  dtype_store_integer(COMPUTE_BF16, &bits, INT64_MAX);
  assert_true(dtype_bf16_to_f32(bits) == 0x1p63f);
  dtype_store_integer(COMPUTE_F16, &bits, 2049);
  assert_true(dtype_f16_to_f32(bits) == 2048.0f);
  dtype_store_integer(COMPUTE_F16, &bits, INT64_MIN);
  assert_true(isinf(dtype_f16_to_f32(bits)));
}

/* ---- Integers and bool --------------------------------------------------------------------- */

static int64_t as_integer(compute_dtype dtype, double value) {
  unsigned char element[8];
  dtype_store(dtype, element, value);
  return dtype_load_integer(dtype, element);
}

static void floats_truncate_and_saturate(void **state) {
  (void)state;
  static const compute_dtype types[] = {COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,  COMPUTE_U16,
                                        COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32, COMPUTE_U64};
  static const int64_t low[] = {INT64_MIN, INT32_MIN, 0, 0, -128, -32768, 0, 0};
  static const int64_t high[] = {INT64_MAX, INT32_MAX, 255,        65535,
                                 127,       32767,     UINT32_MAX, -1 /* as bits */};
  for (size_t i = 0; i < 8; i++) {
    assert_int_equal(as_integer(types[i], NAN), 0);
    assert_int_equal(as_integer(types[i], INFINITY), high[i]);
    assert_int_equal(as_integer(types[i], -INFINITY), low[i]);
    assert_int_equal(as_integer(types[i], 1e30), high[i]);
    assert_int_equal(as_integer(types[i], 2.999), 2);
    assert_int_equal(as_integer(types[i], -0.999), 0);
  }
  assert_int_equal(as_integer(COMPUTE_I64, 0x1p63), INT64_MAX);
  assert_int_equal(as_integer(COMPUTE_I64, 0x1.fffffffffffffp62), 0x7ffffffffffffc00);
  assert_int_equal(as_integer(COMPUTE_I64, -0x1p63), INT64_MIN);
  assert_int_equal(as_integer(COMPUTE_I32, 2147483646.9), 2147483646);
  assert_int_equal(as_integer(COMPUTE_I32, -2.5), -2);
  assert_int_equal(as_integer(COMPUTE_U8, 255.9), 255);
  assert_int_equal(as_integer(COMPUTE_U64, 0x1p63), INT64_MIN);
  assert_int_equal(as_integer(COMPUTE_U64, 0x1.fffffffffffffp63), INT64_C(-2048));
  assert_int_equal(as_integer(COMPUTE_U64, 0x1.fffffffffffffp62), 0x7ffffffffffffc00);
}

static void integers_wrap_when_narrowed(void **state) {
  (void)state;
  int32_t i32;
  uint8_t u8;
  uint16_t u16;
  dtype_store_integer(COMPUTE_I32, &i32, INT64_C(0x123456789));
  assert_int_equal(i32, 0x23456789);
  dtype_store_integer(COMPUTE_I32, &i32, INT64_C(0x80000000));
  assert_int_equal(i32, INT32_MIN);
  dtype_store_integer(COMPUTE_U8, &u8, 300);
  assert_int_equal(u8, 44);
  dtype_store_integer(COMPUTE_U8, &u8, -1);
  assert_int_equal(u8, 255);
  dtype_store_integer(COMPUTE_U16, &u16, 65536 + 7);
  assert_int_equal(u16, 7);
  dtype_store_integer(COMPUTE_U16, &u16, -1);
  assert_int_equal(u16, 65535);
  assert_true(dtype_load(COMPUTE_U16, &u16) == 65535);
  int8_t i8;
  int16_t i16;
  uint32_t u32;
  const uint64_t u64 = UINT64_MAX;
  dtype_store_integer(COMPUTE_I8, &i8, 200);
  assert_int_equal(i8, -56);
  assert_int_equal(dtype_load_integer(COMPUTE_I8, &i8), -56);
  dtype_store_integer(COMPUTE_I16, &i16, 40000);
  assert_int_equal(dtype_load_integer(COMPUTE_I16, &i16), 40000 - 65536);
  dtype_store_integer(COMPUTE_U32, &u32, -1);
  assert_true(dtype_load(COMPUTE_U32, &u32) == 4294967295.0);
  assert_true(dtype_load(COMPUTE_U64, &u64) == 0x1p64);
  assert_int_equal(dtype_load_integer(COMPUTE_U64, &u64), -1);
}

static void large_integers_are_exact(void **state) {
  (void)state;
  static const int64_t values[] = {
      INT64_MAX, INT64_MIN, ((int64_t)1 << 53) + 1, -((int64_t)1 << 53) - 1, INT64_MAX - 1, 0};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    int64_t element;
    dtype_store_integer(COMPUTE_I64, &element, values[i]);
    assert_int_equal(dtype_load_integer(COMPUTE_I64, &element), values[i]);
  }
}

static void anything_but_zero_is_true(void **state) {
  (void)state;
  assert_int_equal(as_integer(COMPUTE_BOOL, 0.0), 0);
  assert_int_equal(as_integer(COMPUTE_BOOL, -0.0), 0);
  assert_int_equal(as_integer(COMPUTE_BOOL, NAN), 1);
  assert_int_equal(as_integer(COMPUTE_BOOL, 1e-320), 1);
  assert_int_equal(as_integer(COMPUTE_BOOL, -INFINITY), 1);
  uint8_t element;
  dtype_store_integer(COMPUTE_BOOL, &element, INT64_C(1) << 40);
  assert_int_equal(element, 1);
}

static void unaligned_elements_are_read_and_written(void **state) {
  (void)state;
  unsigned char bytes[9];
  for (int dtype = COMPUTE_F64; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    dtype_store((compute_dtype)dtype, bytes + 1, 1.0);
    assert_true(dtype_load((compute_dtype)dtype, bytes + 1) == 1.0);
    assert_int_equal(dtype_load_integer((compute_dtype)dtype, bytes + 1), 1);
  }
}

/* ---- Facts --------------------------------------------------------------------------------- */

static void facts_agree_with_the_header(void **state) {
  (void)state;
  static const struct {
    compute_dtype dtype, compute_type;
    size_t size;
    const char *name;
  } rows[] = {
      {COMPUTE_F64, COMPUTE_F64, 8, "f64"}, {COMPUTE_F32, COMPUTE_F32, 4, "f32"},
      {COMPUTE_F16, COMPUTE_F32, 2, "f16"}, {COMPUTE_BF16, COMPUTE_F32, 2, "bf16"},
      {COMPUTE_I64, COMPUTE_I64, 8, "i64"}, {COMPUTE_I32, COMPUTE_I32, 4, "i32"},
      {COMPUTE_U8, COMPUTE_I32, 1, "u8"},   {COMPUTE_BOOL, COMPUTE_BOOL, 1, "bool"},
      {COMPUTE_U16, COMPUTE_I32, 2, "u16"}, {COMPUTE_I8, COMPUTE_I32, 1, "i8"},
      {COMPUTE_I16, COMPUTE_I32, 2, "i16"}, {COMPUTE_U32, COMPUTE_I64, 4, "u32"},
      {COMPUTE_U64, COMPUTE_I64, 8, "u64"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(compute_dtype_size(rows[i].dtype), rows[i].size);
    assert_string_equal(compute_dtype_name(rows[i].dtype), rows[i].name);
    assert_int_equal(dtype_compute_type(rows[i].dtype), rows[i].compute_type);
    assert_true(dtype_is_valid(rows[i].dtype));
  }
}

static void numbers_that_are_no_dtype_are_recognised(void **state) {
  (void)state;
  static const int wrong[] = {0, 14, 15, 255, 256, -1, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    compute_dtype dtype = (compute_dtype)wrong[i];
    assert_int_equal(compute_dtype_size(dtype), 0);
    assert_string_equal(compute_dtype_name(dtype), "invalid");
    assert_false(dtype_is_valid(dtype) || dtype_is_float(dtype) || dtype_is_integer(dtype));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pattern_widens_to_its_meaning),
      cmocka_unit_test(every_pattern_survives_a_round_trip),
      cmocka_unit_test(ties_round_to_even_and_nothing_else_does),
      cmocka_unit_test(integers_round_once_to_half_width),
      cmocka_unit_test(floats_truncate_and_saturate),
      cmocka_unit_test(integers_wrap_when_narrowed),
      cmocka_unit_test(large_integers_are_exact),
      cmocka_unit_test(anything_but_zero_is_true),
      cmocka_unit_test(unaligned_elements_are_read_and_written),
      cmocka_unit_test(facts_agree_with_the_header),
      cmocka_unit_test(numbers_that_are_no_dtype_are_recognised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
