/* SPDX-License-Identifier: MIT */
/* Observers find the ranges of known distributions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/observe.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { COUNT = 100000 };

/* Normal numbers by the method of Box and Muller. */
static void fill_normal(float *x, double mean) {
  test_random random = {5};
  for (int i = 0; i < COUNT; i++) {
    const double u = test_random_uniform(&random, 1e-9, 1), v = test_random_uniform(&random, 0, 1);
    x[i] = (float)(mean + sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
}

static observer observe(const float *x, int64_t count) {
  observer seen = {.bins = calloc(OBSERVER_BINS, sizeof(uint64_t))};
  assert_non_null(seen.bins);
  /* Parts, so that the histogram must widen. */
  for (int64_t at = 0; at < count; at += 1000)
    observer_add(&seen, x + at, count - at < 1000 ? count - at : 1000);
  return seen;
}

static uint64_t all_bins(const observer *seen) {
  uint64_t sum = 0;
  for (int i = 0; i < OBSERVER_BINS; i++) sum += seen->bins[i];
  return sum;
}

static void normal_numbers_have_known_ranges(void **state) {
  (void)state;
  static float x[COUNT];
  fill_normal(x, 0);
  observer seen = observe(x, COUNT);
  assert_true(all_bins(&seen) == COUNT && seen.count == COUNT);
  const number_range whole = observer_range(&seen, COMPUTE_RANGE_MIN_MAX, 0, 255);
  assert_true(whole.low < -3.8 && whole.high > 3.8);
  /* Both tails hold 0.05 % each: 3.29 standard deviations. */
  const number_range part = observer_range(&seen, COMPUTE_RANGE_PERCENTILE, 99.9, 255);
  assert_true(fabs(part.low + 3.29) < 0.15 && fabs(part.high - 3.29) < 0.15);
  /* Most of a coarse grid is finer than the whole range; the best for 16 levels is near 2.8. */
  const number_range coarse = observer_range(&seen, COMPUTE_RANGE_MSE, 0, 15);
  assert_true(coarse.high > 2.2 && coarse.high < 3.2);
  const number_range fine = observer_range(&seen, COMPUTE_RANGE_MSE, 0, 255);
  assert_true(fine.high > 3.5);
  const number_range likely = observer_range(&seen, COMPUTE_RANGE_ENTROPY, 0, 255);
  if (!(likely.high > 2.5)) fail_msg("entropy cuts at %g", likely.high);
  free(seen.bins);
}

/* Half of the numbers are 0, as after Relu. */
static void zeros_do_not_narrow_the_range(void **state) {
  (void)state;
  static float x[COUNT];
  fill_normal(x, 0);
  for (int i = 0; i < COUNT; i++) x[i] = x[i] > 0 ? x[i] : 0;
  observer seen = observe(x, COUNT);
  const number_range likely = observer_range(&seen, COMPUTE_RANGE_ENTROPY, 0, 255);
  if (!(likely.low == 0 && likely.high > 2.5)) fail_msg("entropy cuts at %g", likely.high);
  free(seen.bins);
}

static void one_far_number_is_cut(void **state) {
  (void)state;
  static float x[COUNT];
  fill_normal(x, 0);
  x[77] = 1000;
  observer seen = observe(x, COUNT);
  assert_true(observer_range(&seen, COMPUTE_RANGE_MIN_MAX, 0, 255).high == 1000);
  assert_true(observer_range(&seen, COMPUTE_RANGE_PERCENTILE, 99.9, 255).high < 8);
  assert_true(all_bins(&seen) == COUNT);
  free(seen.bins);
}

static void ranges_contain_zero(void **state) {
  (void)state;
  static const float above[] = {3, 4, 5}, zeros[] = {0, 0, -0.0F};
  for (int method = 0; method <= COMPUTE_RANGE_MSE; method++) {
    observer seen = observe(above, 3), none = observe(zeros, 3);
    const number_range range = observer_range(&seen, (compute_quantize_range)method, 99, 255);
    assert_true(range.low == 0 && range.high > 0.3 && range.high <= 5);
    const number_range empty = observer_range(&none, (compute_quantize_range)method, 99, 255);
    assert_true(empty.low == 0 && empty.high == 0 && none.count == 3);
    free(seen.bins);
    free(none.bins);
  }
}

static void numbers_that_are_not_finite_are_counted_apart(void **state) {
  (void)state;
  static const float x[] = {1, NAN, INFINITY, -2, -INFINITY, 3e38F, 1e-45F};
  observer seen = observe(x, 7);
  assert_true(seen.not_finite == 3 && seen.count == 4 && all_bins(&seen) == 4);
  assert_true(seen.low == -2 && seen.high == (double)3e38F);
  free(seen.bins);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(normal_numbers_have_known_ranges),
      cmocka_unit_test(zeros_do_not_narrow_the_range),
      cmocka_unit_test(one_far_number_is_cut),
      cmocka_unit_test(ranges_contain_zero),
      cmocka_unit_test(numbers_that_are_not_finite_are_counted_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
