/* SPDX-License-Identifier: MIT */
/* Logarithms and exponentials of simulated noise have the bits of the functions
 * for random numbers (kernels/functions_random_draw.h). Each room has its own text. */
#include <math.h>
#include <string.h>

#include "fit/noise_math.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

/* The kernels' functions as plain C, under another name than the core's. */
#define draw_number draw_number_here
#include "../../src/core/kernel/common/draw.c"

enum { NUMBERS = 200000 };

static void assert_same_bits(double a, double b, double x) {
  if (memcmp(&a, &b, sizeof a) != 0) fail_msg("at %a: %a and %a", x, a, b);
}

static void logarithms_have_the_same_bits(void **state) {
  (void)state;
  test_random random = {1};
  for (int i = 0; i < NUMBERS; i++) {
    const double x = exp(test_random_uniform(&random, -700, 700));
    assert_same_bits(noise_log(x), draw_log(x), x);
  }
}

static void exponentials_have_the_same_bits(void **state) {
  (void)state;
  test_random random = {2};
  for (int i = 0; i < NUMBERS; i++) {
    const double x = test_random_uniform(&random, -700, 700);
    assert_same_bits(noise_exp(x), draw_exp(x), x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logarithms_have_the_same_bits),
      cmocka_unit_test(exponentials_have_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
