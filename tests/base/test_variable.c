/* SPDX-License-Identifier: MIT */
/* Environment variables: one table, one reader. */
#include "support/harness/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/variable.h"

static void the_table_is_complete_and_without_repeats(void **state) {
  (void)state;
  static const char *const expected[] = {
      "COMPUTE_DEVICE",  "COMPUTE_BACKENDS",    "COMPUTE_BACKEND_PATH", "COMPUTE_LOG",
      "COMPUTE_THREADS", "COMPUTE_CACHE_DIR",   "COMPUTE_CPU_ISA",      "COMPUTE_POOL_BUDGET",
      "COMPUTE_BLAS",    "COMPUTE_CACHE_LIMIT", "COMPUTE_PROFILE"};
  size_t count = 0;
  while (compute_variable_at(count)) count++;
  assert_null(compute_variable_at(count + 1));
  assert_null(compute_variable_at(SIZE_MAX));
  for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
      const compute_variable *variable = compute_variable_at(i);
      assert_true(strlen(variable->values) > 0 && strlen(variable->description) > 0);
      found += strcmp(variable->name, expected[e]) == 0;
    }
    assert_int_equal(found, 1);
  }
}

static void only_variables_of_the_table_are_read(void **state) {
  (void)state;
  setenv("COMPUTE_CPU_ISA", "scalar", 1);
  setenv("COMPUTE_SOMETHING_ELSE", "x", 1);
  assert_string_equal(variable_text("COMPUTE_CPU_ISA"), "scalar");
  assert_null(variable_text("COMPUTE_SOMETHING_ELSE"));
  assert_null(variable_text(NULL));
  setenv("COMPUTE_CPU_ISA", "", 1);
  assert_null(variable_text("COMPUTE_CPU_ISA"));
  unsetenv("COMPUTE_CPU_ISA");
  assert_null(variable_text("COMPUTE_CPU_ISA"));
}

static char logged[1024];

static void remember(void *user, compute_log_level level, const char *module, const char *message) {
  (void)user;
  (void)level;
  (void)module;
  snprintf(logged, sizeof logged, "%s", message);
}

static void a_number_must_be_whole_and_in_range(void **state) {
  (void)state;
  static const char *const bad[] = {"x",  "3x", "1.5", "0",      "65",
                                    "-1", " ",  "0x4", "4 four", "99999999999999999999"};
  compute_log_set(remember, NULL, COMPUTE_LOG_WARNING);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    logged[0] = '\0';
    setenv("COMPUTE_THREADS", bad[i], 1);
    assert_int_equal(variable_integer("COMPUTE_THREADS", 1, 64, 7), 7);
    assert_non_null(strstr(logged, "COMPUTE_THREADS"));
    assert_non_null(strstr(logged, bad[i]));
  }
  logged[0] = '\0';
  setenv("COMPUTE_THREADS", "64", 1);
  assert_int_equal(variable_integer("COMPUTE_THREADS", 1, 64, 7), 64);
  setenv("COMPUTE_THREADS", "", 1);
  assert_int_equal(variable_integer("COMPUTE_THREADS", 1, 64, 7), 7);
  unsetenv("COMPUTE_THREADS");
  assert_int_equal(variable_integer("COMPUTE_THREADS", 1, 64, 7), 7);
  assert_string_equal(logged, "");
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_is_complete_and_without_repeats),
      cmocka_unit_test(only_variables_of_the_table_are_read),
      cmocka_unit_test(a_number_must_be_whole_and_in_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
