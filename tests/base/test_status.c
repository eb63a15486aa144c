/* SPDX-License-Identifier: MIT */
/* Status codes and versions: every code has a unique text and identifier. */
#include "support/harness/test.h"

#include <string.h>

static void every_code_has_a_name_and_a_text(void **state) {
  (void)state;
  const size_t count = compute_status_list(0, NULL);
  assert_true(count > 20);
  for (size_t i = 0; i < count; i++) {
    compute_status status = COMPUTE_OK;
    assert_int_equal(compute_status_list(i, &status), count);
    assert_true(i == 0 ? status == COMPUTE_OK : status != COMPUTE_OK);
    assert_string_not_equal(compute_status_text(status), "unknown status");
    assert_int_equal(strncmp(compute_status_name(status), "COMPUTE_", 8), 0);
    for (size_t j = 0; j < i; j++) {
      compute_status other = COMPUTE_OK;
      compute_status_list(j, &other);
      assert_int_not_equal(other, status);
      assert_string_not_equal(compute_status_text(other), compute_status_text(status));
    }
  }
}

static void a_number_that_is_no_code_is_unknown(void **state) {
  (void)state;
  assert_string_equal(compute_status_text((compute_status)-1), "unknown status");
  assert_string_equal(compute_status_text((compute_status)199), "unknown status");
  assert_string_equal(compute_status_name((compute_status)12345), "unknown status");
}

static void an_index_past_the_end_leaves_the_code_alone(void **state) {
  (void)state;
  compute_status status = COMPUTE_ERROR_TIMEOUT;
  const size_t count = compute_status_list(SIZE_MAX, &status);
  assert_int_equal(status, COMPUTE_ERROR_TIMEOUT);
  assert_int_equal(compute_status_list(count, &status), count);
  assert_int_equal(status, COMPUTE_ERROR_TIMEOUT);
}

static void codes_keep_their_numbers(void **state) {
  (void)state;
  assert_int_equal(COMPUTE_ERROR_INVALID_ARGUMENT, 100);
  assert_int_equal(COMPUTE_ERROR_SHAPE, 200);
  assert_int_equal(COMPUTE_ERROR_NO_DEVICE, 300);
  assert_int_equal(COMPUTE_ERROR_OUT_OF_MEMORY, 400);
  assert_int_equal(COMPUTE_ERROR_COMPILATION, 500);
  assert_int_equal(COMPUTE_ERROR_FILE, 600);
  assert_int_equal(COMPUTE_ERROR_INTERNAL, 900);
}

static void version_number_and_text_agree(void **state) {
  (void)state;
  char text[32];
  const uint32_t version = compute_version();
  snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
  assert_string_equal(compute_version_text(), text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_a_name_and_a_text),
      cmocka_unit_test(a_number_that_is_no_code_is_unknown),
      cmocka_unit_test(an_index_past_the_end_leaves_the_code_alone),
      cmocka_unit_test(codes_keep_their_numbers),
      cmocka_unit_test(version_number_and_text_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
