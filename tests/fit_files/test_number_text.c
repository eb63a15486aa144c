/* Numbers as text: as printf writes them, but for ties that doubles cannot hold. */
#include "cli/fit/number_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

static const char *fixed(double value, int decimals) {
  static char text[NUMBER_TEXT_BYTES + 1];
  memset(text, 'x', sizeof text);
  char *end = number_fixed(text, value, decimals);
  assert_true(end > text && end <= text + NUMBER_TEXT_BYTES);
  assert_int_equal(*end, 'x');
  *end = 0;
  return text;
}

static const char *brief(double value) {
  static char text[NUMBER_TEXT_BYTES + 1];
  memset(text, 'x', sizeof text);
  char *end = number_short(text, value);
  assert_true(end > text && end <= text + NUMBER_TEXT_BYTES);
  *end = 0;
  return text;
}

static double uniform(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(*seed >> 11) * 0x1p-53;
}

static void fixed_numbers_are_printfs(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int i = 0; i < 200000; i++) {
    int decimals = i % 10;
    double value = (uniform(&seed) - 0.5) * pow(10, floor(uniform(&seed) * 12) - 4);
    char expected[64];
    snprintf(expected, sizeof expected, "%.*f", decimals, value);
    double rounded = strtod(expected, NULL);
    if (rounded == 0) snprintf(expected, sizeof expected, "%.*f", decimals, 0.0); /* no "-0" */
    if (fabs(value) * pow(10, decimals) >= 0x1p52) continue;
    const char *text = fixed(value, decimals);
    if (strcmp(text, expected) == 0) continue;
    /* Within the error of one product from the middle between two. */
    double unit = pow(10, -decimals), far = fabs(strtod(text, NULL) - value) / unit;
    if (far > 0.5 + 1e-15 * fabs(value) / unit) fail_msg("%s for %s", text, expected);
  }
}

static void integers_are_exact(void **state) {
  (void)state;
  static const int64_t values[] = {0,    7,     -7,        10,      99,        100,      12345,
                                   9999, 10000, 123456789, -100000, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char text[NUMBER_TEXT_BYTES + 1], expected[32];
    *number_integer(text, values[i]) = 0;
    snprintf(expected, sizeof expected, "%lld", (long long)values[i]);
    assert_string_equal(text, expected);
  }
  assert_string_equal(fixed(7, 0), "7");
  assert_string_equal(fixed(0.5, 4), "0.5000");
  assert_string_equal(fixed(-0.00001, 4), "0.0000");
  assert_string_equal(fixed(-1.00005e3, 1), "-1000.0"); /* the double is a little smaller */
}

static void short_numbers_have_seven_digits(void **state) {
  (void)state;
  uint64_t seed = 5;
  for (int i = 0; i < 100000; i++) {
    double value = (uniform(&seed) - 0.5) * pow(10, uniform(&seed) * 600 - 300);
    const char *text = brief(value);
    assert_true(fabs(strtod(text, NULL) - value) <= 0.50001e-6 * fabs(value));
  }
  assert_string_equal(brief(0), "0");
  assert_string_equal(brief(1), "1.000000");
  assert_string_equal(brief(0.9999999999), "1.0000000");
  assert_string_equal(brief(0.5), "0.5000000");
  assert_string_equal(brief(0.00012345678), "0.0001234568");
  assert_string_equal(brief(1234567.8), "1234568");
  assert_string_equal(brief(12345678), "1.234568e7");
  assert_string_equal(brief(9.9999999e-30), "1.000000e-29");
  assert_string_equal(brief(1e-30), "1.000000e-30");
  assert_string_equal(brief((double)1e-30f), "1.000000e-30");
  assert_string_equal(brief(5e-324), "4.940656e-324");
  assert_string_equal(brief(-1.5e300), "-1.500000e300");
}

static void what_is_no_number_has_a_name(void **state) {
  (void)state;
  assert_string_equal(fixed((double)NAN, 3), "NaN");
  assert_string_equal(fixed((double)INFINITY, 3), "Infinity");
  assert_string_equal(brief(-(double)INFINITY), "-Infinity");
  assert_string_equal(brief((double)NAN), "NaN");
  assert_string_equal(fixed(1e30, 3), "1.00000000e30");
  assert_string_equal(fixed(-1.7976931348623157e308, 9), "-1.79769313e308");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_numbers_are_printfs),
      cmocka_unit_test(integers_are_exact),
      cmocka_unit_test(short_numbers_have_seven_digits),
      cmocka_unit_test(what_is_no_number_has_a_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
