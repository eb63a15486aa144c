/* SPDX-License-Identifier: MIT */
/* JSON written by the library is read back unchanged, and the reader accepts nothing that a writer
 * must not write. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "support/harness/test.h"

static json_input input_of(char *text) {
  return (json_input){text, text, text + strlen(text)};
}

/* Writes `words` as a string and reads it again. */
static void check_string(const char *words, const char *written, const char *read) {
  text_buffer text = {0};
  json_put_string(&text, words);
  assert_false(text.failed);
  assert_string_equal(text.data, written);
  json_input input = input_of(text.data);
  char *found;
  assert_true(json_take_string(&input, &found));
  assert_true(json_ends(&input));
  assert_string_equal(found, read);
  text_release(&text);
}

static void strings_are_read_as_they_were_written(void **state) {
  (void)state;
  check_string("", "\"\"", "");
  check_string("layer.0.weight", "\"layer.0.weight\"", "layer.0.weight");
  check_string("\"\\/\b\n\x1f\x7f", "\"\\\"\\\\/\\u0008\\u000a\\u001f\x7f\"", "\"\\/\b\n\x1f\x7f");
  check_string("µm ≤ 𝄞", "\"µm ≤ 𝄞\"", "µm ≤ 𝄞");
}

static void invalid_utf8_is_replaced(void **state) {
  (void)state;
  check_string("a\xff\xc3", "\"a\xef\xbf\xbd\xef\xbf\xbd\"", "a\xef\xbf\xbd\xef\xbf\xbd");
  check_string("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"",
               "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
  check_string("\xc0\xaf/", "\"\xef\xbf\xbd\xef\xbf\xbd/\"", "\xef\xbf\xbd\xef\xbf\xbd/");
}

static void members_and_numbers(void **state) {
  (void)state;
  text_buffer text = {0};
  json_put_member(&text, "name", "a\"b");
  json_put_number(&text, "x", -0.5);
  json_put_number(&text, "large", 1e300);
  json_put_number(&text, "none", strtod("nan", NULL));
  json_put_number(&text, "endless", strtod("-inf", NULL));
  json_put_count(&text, "n", UINT64_MAX);
  assert_string_equal(text.data,
                      "\"name\": \"a\\\"b\", \"x\": -0.5, \"large\": 1e+300, \"none\": 0, "
                      "\"endless\": 0, \"n\": 18446744073709551615");
  text_release(&text);
}

/* Needs a locale with a decimal comma; without one, this test shows nothing. */
static void numbers_have_a_point_in_every_locale(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
  text_buffer text = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (setlocale(LC_NUMERIC, names[i])) break;
  json_put_number(&text, "x", 2.25);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(text.data, ", \"x\": 2.25");
  text_release(&text);
}

static void escapes_are_resolved(void **state) {
  (void)state;
  char text[] = " \t\n\r\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00b5\\u2264\\ud834\\udd1e\" , 7";
  json_input input = input_of(text);
  char *found;
  int64_t value;
  assert_true(json_take_string(&input, &found));
  assert_string_equal(found, "\"\\/\b\f\n\r\tµ≤𝄞");
  assert_false(json_take(&input, ':'));
  assert_true(json_take(&input, ','));
  assert_int_equal(json_take_whole(&input, &value), JSON_NUMBER);
  assert_int_equal(value, 7);
  assert_true(json_ends(&input));
}

static void malformed_strings_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"",
                                      "a",
                                      "\"",
                                      "\"a",
                                      "\"\\",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u123g\"",
                                      "\"\\u0000\"",
                                      "\"\\ud834\"",
                                      "\"\\udd1e\"",
                                      "\"\\ud834\\u0041\"",
                                      "\"\n\"",
                                      "\"\xff\"",
                                      "\"\xc3\""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[32], *found;
    snprintf(text, sizeof text, "%s", wrong[i]);
    json_input input = input_of(text);
    assert_false(json_take_string(&input, &found));
  }
}

static void whole_numbers_are_exact_or_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    json_number result;
    int64_t value;
  } cases[] = {{"0", JSON_NUMBER, 0},
               {"9223372036854775807", JSON_NUMBER, INT64_MAX},
               {"9223372036854775808", JSON_TOO_LARGE, 0},
               {"100000000000000000000000000000", JSON_TOO_LARGE, 0},
               {"", JSON_NO_NUMBER, 0},
               {"-1", JSON_NO_NUMBER, 0},
               {"01", JSON_NO_NUMBER, 0},
               {"1.0", JSON_NO_NUMBER, 0},
               {"1e3", JSON_NO_NUMBER, 0},
               {"x", JSON_NO_NUMBER, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[40];
    int64_t value;
    snprintf(text, sizeof text, "%s", cases[i].text);
    json_input input = input_of(text);
    assert_int_equal(json_take_whole(&input, &value), cases[i].result);
    if (cases[i].result == JSON_NUMBER) assert_int_equal(value, cases[i].value);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_are_read_as_they_were_written),
      cmocka_unit_test(invalid_utf8_is_replaced),
      cmocka_unit_test(members_and_numbers),
      cmocka_unit_test(numbers_have_a_point_in_every_locale),
      cmocka_unit_test(escapes_are_resolved),
      cmocka_unit_test(malformed_strings_are_refused),
      cmocka_unit_test(whole_numbers_are_exact_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
