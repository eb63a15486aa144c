/* SPDX-License-Identifier: MIT */
/* These conversions follow the formats' definitions by arithmetic on doubles. They check the
 * library's conversions and therefore differ from them on purpose. */
#include "support/harness/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t test_random_bits(test_random *random) {
  uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

int64_t test_random_integer(test_random *random, int64_t low, int64_t high) {
  const uint64_t range = (uint64_t)high - (uint64_t)low + 1;
  const uint64_t bits = test_random_bits(random);
  return (int64_t)((uint64_t)low + (range ? bits % range : bits));
}

double test_random_uniform(test_random *random, double low, double high) {
  return low + (high - low) * ((double)(test_random_bits(random) >> 11) * 0x1p-53);
}

/* ---- Formats ------------------------------------------------------------------------------- */

typedef struct float_format {
  int fraction_bits;
  int lowest, highest; /* exponents of normal numbers */
} float_format;

static const float_format float_formats[COMPUTE_DTYPE_COUNT] = {
    [COMPUTE_F64] = {52, -1022, 1023},
    [COMPUTE_F32] = {23, -126, 127},
    [COMPUTE_F16] = {10, -14, 15},
    [COMPUTE_BF16] = {7, -126, 127},
};

static bool is_float(compute_dtype dtype) {
  return float_formats[dtype].highest != 0;
}

double test_spacing(compute_dtype dtype, double value) {
  const float_format *format = &float_formats[dtype];
  const double size = fabs(value);
  int exponent = size > 0 && isfinite(size) ? ilogb(size) : format->lowest;
  if (!(size > 0)) exponent = format->lowest;
  if (isinf(size)) exponent = format->highest;
  if (exponent < format->lowest) exponent = format->lowest;
  if (exponent > format->highest) exponent = format->highest;
  return ldexp(1, exponent - format->fraction_bits);
}

static uint16_t encode_half(compute_dtype dtype, double value) {
  const float_format *format = &float_formats[dtype];
  const unsigned infinity = (unsigned)(2 * format->highest + 1) << format->fraction_bits;
  const unsigned sign = signbit(value) ? 0x8000U : 0;
  if (isnan(value)) return (uint16_t)(infinity | (1U << (format->fraction_bits - 1)));
  if (isinf(value)) return (uint16_t)(sign | infinity);
  const double spacing = test_spacing(dtype, value);
  const double rounded = nearbyint(fabs(value) / spacing) * spacing;
  if (rounded >= ldexp(1, format->highest + 1)) return (uint16_t)(sign | infinity);
  /* The quotient counts every representable number of its binade. The lowest binade holds the
   * denormals; they have no leading one to subtract. */
  const double unit = test_spacing(dtype, rounded);
  unsigned bits = (unsigned)(rounded / unit);
  if (rounded >= ldexp(1, format->lowest))
    bits += (unsigned)(ilogb(rounded) - format->lowest) << format->fraction_bits;
  return (uint16_t)(sign | bits);
}

static double decode_half(compute_dtype dtype, uint16_t bits) {
  const float_format *format = &float_formats[dtype];
  const unsigned fraction = bits & ((1U << format->fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format->fraction_bits;
  double value;
  if (exponent == 2 * format->highest + 1)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp(fraction, format->lowest - format->fraction_bits);
  else
    value = ldexp(fraction + ldexp(1, format->fraction_bits),
                  exponent - 1 + format->lowest - format->fraction_bits);
  return bits & 0x8000 ? -value : value;
}

/* Range and memory format of the integer dtypes. */
typedef struct integer_format {
  bool exists, is_signed;
  int64_t low;
  uint64_t high;
} integer_format;

#define FORMAT_FLOAT(element)                                                                      \
  { false, false, 0, 0 }
#define FORMAT_LOGIC(element)                                                                      \
  { false, false, 0, 1 }
#define FORMAT_SIGNED(element)                                                                     \
  {                                                                                                \
    true, true, -(int64_t)(UINT64_MAX >> (65 - 8 * sizeof(element))) - 1,                          \
        UINT64_MAX >> (65 - 8 * sizeof(element))                                                   \
  }
#define FORMAT_UNSIGNED(element)                                                                   \
  { true, false, 0, UINT64_MAX >> (64 - 8 * sizeof(element)) }
#define FORMAT(code, number, name, kind, bytes, type, element) [number] = FORMAT_##kind(element),
static const integer_format integer_formats[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(FORMAT)};

bool test_is_integer(compute_dtype dtype) {
  return integer_formats[dtype].exists;
}

bool test_is_unsigned(compute_dtype dtype) {
  return test_is_integer(dtype) && !integer_formats[dtype].is_signed;
}

int64_t test_saturate(compute_dtype dtype, double value) {
  const integer_format *format = &integer_formats[dtype];
  if (isnan(value)) return 0;
  const double whole = trunc(value);
  if (whole <= (double)format->low) return format->low;
  if (whole >= (double)format->high) return (int64_t)format->high;
  return whole < 0 ? (int64_t)whole : (int64_t)(uint64_t)whole;
}

int64_t test_integer_get(compute_dtype dtype, const void *element) {
  switch (dtype) {
#define GET(code, number, name, kind, bytes, type, element_type)                                   \
  case COMPUTE_##code: return (int64_t) * (const element_type *)element;
    COMPUTE_DTYPES(GET)
  case COMPUTE_DTYPE_NONE: break;
  }
  return 0;
}

void test_integer_set(compute_dtype dtype, void *element, int64_t value) {
  switch (dtype) {
#define SET(code, number, name, kind, bytes, type, element_type)                                   \
  case COMPUTE_##code: *(element_type *)element = (element_type)value; break;
    COMPUTE_DTYPES(SET)
  case COMPUTE_DTYPE_NONE: break;
  }
}

int64_t test_wrap(compute_dtype dtype, int64_t value) {
  unsigned char element[8] __attribute__((aligned(8)));
  if (dtype == COMPUTE_BOOL) return value != 0;
  test_integer_set(dtype, element, value);
  return test_integer_get(dtype, element);
}

double test_values_get(const test_values *values, int64_t index) {
  const void *element =
      (const char *)values->data + (size_t)index * compute_dtype_size(values->dtype);
  switch (values->dtype) {
  case COMPUTE_F64: return *(const double *)element;
  case COMPUTE_F32: return *(const float *)element;
  case COMPUTE_F16:
  case COMPUTE_BF16: return decode_half(values->dtype, *(const uint16_t *)element);
  case COMPUTE_U64: return (double)*(const uint64_t *)element;
  default: return (double)test_integer_get(values->dtype, element);
  }
}

void test_values_set(test_values *values, int64_t index, double value) {
  void *element = (char *)values->data + (size_t)index * compute_dtype_size(values->dtype);
  switch (values->dtype) {
  case COMPUTE_F64: *(double *)element = value; break;
  case COMPUTE_F32: *(float *)element = (float)value; break;
  case COMPUTE_F16:
  case COMPUTE_BF16: *(uint16_t *)element = encode_half(values->dtype, value); break;
  case COMPUTE_BOOL: *(uint8_t *)element = value != 0; break;
  default: test_integer_set(values->dtype, element, test_saturate(values->dtype, value)); break;
  }
}

test_values test_values_create(compute_dtype dtype, compute_shape shape) {
  test_values values = {.dtype = dtype, .shape = shape};
  if (compute_shape_count(shape, &values.count)) abort();
  values.bytes = (size_t)values.count * compute_dtype_size(dtype);
  values.data = calloc(values.bytes ? values.bytes : 1, 1);
  if (!values.data) abort();
  return values;
}

void test_values_release(test_values *values) {
  free(values->data);
  *values = (test_values){0};
}

/* ---- Contents ------------------------------------------------------------------------------ */

static double special_float(compute_dtype dtype, uint64_t which) {
  const float_format *format = &float_formats[dtype];
  const double tiny = ldexp(1, format->lowest), step = test_spacing(dtype, 0);
  const double largest = ldexp(2 - ldexp(1, -format->fraction_bits), format->highest);
  const double numbers[] = {NAN, INFINITY, 0.0, largest,     tiny, step, tiny - step, 1.0,
                            NAN, INFINITY, 0.0, largest / 2, tiny, step, 3 * step,    0.5};
  const double value = numbers[which % 16];
  return which % 32 < 16 ? value : -value;
}

static int64_t special_integer(compute_dtype dtype, uint64_t which) {
  const int64_t low = integer_formats[dtype].low, high = (int64_t)integer_formats[dtype].high;
  const int64_t numbers[] = {low, high, 0, 1, low < 0 ? -1 : 255, low + 1, high - 1, 2};
  return numbers[which % 8];
}

static void set_integer(test_values *values, int64_t index, int64_t value) {
  test_integer_set(values->dtype,
                   (char *)values->data + (size_t)index * compute_dtype_size(values->dtype), value);
}

static void fill_distinct(test_values *values, double low, double high, test_random *random) {
  for (int64_t i = 0; i < values->count; i++)
    test_values_set(values, i,
                    low + (high - low) * ((double)i + 0.5) /
                              (double)(values->count ? values->count : 1));
  for (int64_t i = values->count - 1; i > 0; i--) {
    const int64_t j = test_random_integer(random, 0, i);
    const double a = test_values_get(values, i), b = test_values_get(values, j);
    test_values_set(values, i, b);
    test_values_set(values, j, a);
  }
}

void test_values_fill(test_values *values, test_fill fill, double low, double high, uint64_t seed) {
  test_random random = {seed};
  if (fill == FILL_DISTINCT) {
    fill_distinct(values, low, high, &random);
    return;
  }
  const bool floating = is_float(values->dtype), logic = values->dtype == COMPUTE_BOOL;
  if (test_is_unsigned(values->dtype) && low < 0) low = 0;
  for (int64_t i = 0; i < values->count; i++) {
    const bool special = fill == FILL_SPECIAL && test_random_bits(&random) % 2;
    if (logic)
      set_integer(values, i, (int64_t)(test_random_bits(&random) & 1));
    else if (floating)
      test_values_set(values, i,
                      special ? special_float(values->dtype, test_random_bits(&random))
                              : test_random_uniform(&random, low, high));
    else
      set_integer(values, i,
                  special ? special_integer(values->dtype, test_random_bits(&random))
                          : test_random_integer(&random, (int64_t)ceil(low), (int64_t)floor(high)));
  }
}

/* ---- Comparison ---------------------------------------------------------------------------- */

/* Replaces infinity by the number that would follow the largest one, so that distances are
 * finite. */
static double bounded(compute_dtype dtype, double value) {
  const double limit = ldexp(1, float_formats[dtype].highest);
  return fabs(value) >= 2 * limit || isinf(value) ? copysign(2 * limit, value) : value;
}

bool test_close_enough(compute_dtype dtype, double actual, double expected,
                       const test_tolerance *tolerance, double *error) {
  if (error) *error = actual == expected ? 0 : INFINITY;
  if (!is_float(dtype) || isnan(expected) || isnan(actual)) {
    const bool same = actual == expected || (isnan(expected) && isnan(actual));
    if (error && same) *error = 0;
    return same;
  }
  if (isinf(expected)) return actual == expected;
  const bool half = dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
  const compute_dtype computed = half ? COMPUTE_F32 : dtype;
  double reference = expected;
  /* An operation without an error bound must give the exact result, rounded once. */
  if (dtype == COMPUTE_F32 && tolerance->ulp == 0) reference = (double)(float)expected;
  const double allowed = tolerance->ulp * test_spacing(computed, expected) +
                         (half ? 0.5 * test_spacing(dtype, expected) : 0) + tolerance->atol +
                         tolerance->rtol * fabs(expected);
  if (dtype != COMPUTE_F64) { /* 2^1024 is no double, so a double reference cannot exceed it */
    actual = bounded(dtype, actual);
    reference = bounded(dtype, reference);
  } else if (isinf(actual)) {
    actual = copysign(DBL_MAX, actual);
  }
  const double difference = fabs(actual - reference);
  if (error) *error = difference == 0 ? 0 : difference / allowed;
  return difference <= allowed;
}
