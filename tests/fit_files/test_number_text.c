/* SPDX-License-Identifier: MIT */
/* Numbers as text equal the output of printf to the last digit. */
#include "programs/fit/number_text.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

/* The text that `call` writes, with a final zero. Nothing is written past NUMBER_TEXT_BYTES. */
#define WRITTEN(call)                                                                              \
  static char text[NUMBER_TEXT_BYTES + 1];                                                         \
  text[NUMBER_TEXT_BYTES] = 'x';                                                                   \
  char *end = (call);                                                                              \
  assert_true(end > text && end <= text + NUMBER_TEXT_MOST);                                       \
  assert_int_equal(text[NUMBER_TEXT_BYTES], 'x');                                                  \
  *end = 0;                                                                                        \
  return text

static const char *fixed(double value, int decimals) {
  WRITTEN(number_fixed(text, value, decimals));
}

static const char *brief(double value) {
  WRITTEN(number_short(text, value));
}

static const char *whole(int64_t value) {
  WRITTEN(number_integer(text, value));
}

/* ---- Comparison with printf ---------------------------------------------------------------- */

/* Shortens "e-07" to "e-7". */
static void shorten_exponent(char *text) {
  char *e = strchr(text, 'e');
  snprintf(e + 1, 8, "%d", atoi(e + 1));
}

/* The text of a value that is not finite; NULL for a number. */
static const char *name_of(double value) {
  if (isnan(value)) return "NaN";
  if (isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return NULL;
}

static const char *expected_fixed(double value, int decimals) {
  static char text[400];
  if (name_of(value)) return name_of(value);
  if (fabs(value) * pow(10, decimals) >= 0x1p53) {
    snprintf(text, sizeof text, "%.8e", value);
    shorten_exponent(text);
    return text;
  }
  snprintf(text, sizeof text, "%.*f", decimals, value);
  if (strtod(text, NULL) == 0) snprintf(text, sizeof text, "%.*f", decimals, 0.0); /* no "-0" */
  return text;
}

static const char *expected_brief(double value) {
  static char text[400];
  const double size = fabs(value);
  if (name_of(value)) return name_of(value);
  if (size == 0) return "0";
  if (size < 1e-4 || size >= 1e7) {
    snprintf(text, sizeof text, "%.6e", value);
    shorten_exponent(text);
    return text;
  }
  int decimals = 6;
  for (double limit = 10; size >= limit; limit *= 10) decimals--;
  decimals += (size < 1) + (size < 0.1) + (size < 0.01) + (size < 0.001);
  snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/* ---- Values -------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 32 ^ *seed << 20;
}

static double uniform(uint64_t *seed) {
  return (double)(draw(seed) >> 11) * 0x1p-53;
}

/* A cycle of many kinds: random bits, typical table values, f32, halves of a last digit as near as
 * doubles allow, and their neighbours. */
static double any_value(uint64_t *seed, int i, int decimals) {
  double value;
  const uint64_t bits = draw(seed);
  switch (i % 6) {
  case 0: memcpy(&value, &bits, sizeof value); return value;
  case 1: return (uniform(seed) - 0.5) * pow(10, floor(uniform(seed) * 12) - 4);
  case 2: return (double)(float)((uniform(seed) - 0.2) * 2000);
  case 3: return (floor(uniform(seed) * 1e6) + 0.5) / pow(10, decimals);
  case 4: return nextafter((floor(uniform(seed) * 1e3) + 0.5) / pow(10, decimals), i % 4 - 1.0);
  default: return ldexp(floor(uniform(seed) * 4096) - 1024, (int)(uniform(seed) * 40) - 20);
  }
}

static const double particular[] = {0,
                                    -0.0,
                                    0.5,
                                    1.5,
                                    2.5,
                                    0.125,
                                    0.0625,
                                    1e-4,
                                    9.9999995,
                                    9.99999949,
                                    9.9999995e-5,
                                    9999999.5,
                                    99999999.5,
                                    99999999,
                                    100000000,
                                    99999.9995,
                                    99999.99995,
                                    0.99999995,
                                    0.09999999,
                                    -1e-9,
                                    1e7,
                                    1e15,
                                    9007199254740991,
                                    9007199254740992,
                                    4503599627370495.5,
                                    4503599627370496,
                                    900719925474.0992,
                                    1e22,
                                    1e23,
                                    1.7976931348623157e308,
                                    DBL_MIN,
                                    5e-324,
                                    2.2250738585072009e-308,
                                    FLT_MIN,
                                    1e-45,
                                    FLT_MAX,
                                    (double)INFINITY,
                                    -(double)INFINITY,
                                    (double)NAN,
                                    9.5e-7,
                                    1234567.5,
                                    0.3,
                                    1e-5};

#define PARTICULAR (int)(sizeof particular / sizeof *particular)

/* Value number `i` of a test. */
static double value_at(uint64_t *seed, int i, int decimals) {
  if (i >= 2 * PARTICULAR) return any_value(seed, i, decimals);
  return i % 2 ? -particular[i / 2] : particular[i / 2];
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void fixed_numbers_are_printfs(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int decimals = 0; decimals <= 9; decimals++) {
    for (int i = 0; i < 200000; i++) {
      const double value = value_at(&seed, i, decimals);
      const char *text = fixed(value, decimals), *expected = expected_fixed(value, decimals);
      if (strcmp(text, expected)) fail_msg("%s for %s (%a)", text, expected, value);
    }
  }
}

static void short_numbers_are_printfs(void **state) {
  (void)state;
  uint64_t seed = 5;
  for (int i = 0; i < 1000000; i++) {
    const double value = value_at(&seed, i, 7);
    const char *text = brief(value), *expected = expected_brief(value);
    if (strcmp(text, expected)) fail_msg("%s for %s (%a)", text, expected, value);
    if (isfinite(value)) assert_true(fabs(strtod(text, NULL) - value) <= 0.5e-6 * fabs(value));
  }
}

static void check_cells(const double *values, int32_t count, int decimals) {
  number_cell cells[NUMBER_CELLS];
  number_cells(values, count, decimals, cells);
  for (int32_t i = 0; i < count; i++) {
    const char *expected = decimals == NUMBER_SHORT     ? brief(values[i])
                           : decimals == NUMBER_INTEGER ? whole((int64_t)values[i])
                                                        : fixed(values[i], decimals);
    assert_int_equal(cells[i].length, strlen(expected));
    if (memcmp(cells[i].text, expected, cells[i].length))
      fail_msg("%.*s for %s", cells[i].length, cells[i].text, expected);
  }
}

static void cells_hold_the_same(void **state) {
  (void)state;
  uint64_t seed = 7;
  double values[NUMBER_CELLS];
  for (int i = 0, at = 0; i < 60000; i++) {
    const int decimals = i % 12 - 2;
    const int32_t count = i % 3 ? NUMBER_CELLS : (int32_t)(draw(&seed) % NUMBER_CELLS + 1);
    for (int32_t k = 0; k < count; k++, at++) {
      values[k] = i % 2 ? value_at(&seed, at, decimals < 0 ? 7 : decimals) : 1000 * uniform(&seed);
      if (decimals == NUMBER_INTEGER)
        values[k] = (double)((int64_t)draw(&seed) >> (11 + draw(&seed) % 52));
    }
    check_cells(values, count, decimals);
  }
}

static void integers_are_exact(void **state) {
  (void)state;
  static const int64_t values[] = {0,       7,        -7,        10,        99,
                                   100,     12345,    9999,      10000,     123456789,
                                   -100000, 99999999, 100000000, INT64_MAX, INT64_MIN};
  uint64_t seed = 9;
  for (size_t i = 0; i < 200000; i++) {
    const int64_t value =
        i < sizeof values / sizeof *values ? values[i] : (int64_t)draw(&seed) >> draw(&seed) % 64;
    char expected[32];
    snprintf(expected, sizeof expected, "%lld", (long long)value);
    assert_string_equal(whole(value), expected);
  }
}

static void numbers_look_as_promised(void **state) {
  (void)state;
  assert_string_equal(fixed(7, 0), "7");
  assert_string_equal(fixed(0.5, 4), "0.5000");
  assert_string_equal(fixed(-0.00001, 4), "0.0000");
  assert_string_equal(fixed(-1.00005e3, 1), "-1000.0"); /* the double is slightly smaller */
  assert_string_equal(fixed(1e30, 3), "1.00000000e30");
  assert_string_equal(fixed(-1.7976931348623157e308, 9), "-1.79769313e308");
  assert_string_equal(brief(0), "0");
  assert_string_equal(brief(1), "1.000000");
  assert_string_equal(brief(0.9999999999), "1.0000000");
  assert_string_equal(brief(0.00012345678), "0.0001234568");
  assert_string_equal(brief(1234567.8), "1234568");
  assert_string_equal(brief(12345678), "1.234568e7");
  assert_string_equal(brief(9.9999999e-30), "1.000000e-29");
  assert_string_equal(brief(5e-324), "4.940656e-324");
  assert_string_equal(brief(-(double)INFINITY), "-Infinity");
  assert_string_equal(fixed((double)NAN, 3), "NaN");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_numbers_are_printfs), cmocka_unit_test(short_numbers_are_printfs),
      cmocka_unit_test(cells_hold_the_same),       cmocka_unit_test(integers_are_exact),
      cmocka_unit_test(numbers_look_as_promised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
