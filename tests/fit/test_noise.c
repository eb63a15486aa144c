/* SPDX-License-Identifier: MIT */
/* The random draws of simulations: their distributions, and that they never change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit/noise.h"
#include "fit/noise_math.h"
#include "support/reference/fit_reference.h"
#include "support/harness/test.h"

#define SAMPLES 200000
#define SIGMAS  4.5 /* tolerance in standard errors: exceeded once in 10^5 */

static void functions_are_exact(void **state) {
  (void)state;
  for (double x = -7; x < 7; x += 1.0 / 4096 + 1e-7)
    assert_true(fabs(noise_erf(x) - erf(x)) < 4e-16);
  for (double x = -690; x < 690; x += 0.0137) assert_true(fabs(noise_exp(x) / exp(x) - 1) < 6e-16);
  for (double x = 1e-300; x < 1e300; x *= 1.37)
    assert_true(fabs(noise_log(x) - log(x)) <= 5e-16 * fabs(log(x)));
  for (double x = 0.5; x < 2; x += 1.0 / 8192)
    assert_true(fabs(noise_log(x) - log(x)) <= 6e-16 * fabs(log(x)));
  assert_true(noise_exp(0) == 1 && noise_log(1) == 0 && noise_erf(0) == 0);
}

/* Compares mean and variance of `count` values with the expected ones. `fourth` is the central
 * fourth moment, which determines the error of the variance. */
static void check_moments(const double *values, int count, double mean, double variance,
                          double fourth, const char *name) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; i++) {
    sum += values[i] - mean;
    squares += (values[i] - mean) * (values[i] - mean);
  }
  double mean_off = sum / count / sqrt(variance / count);
  double variance_off = (squares / count - variance) / sqrt((fourth - variance * variance) / count);
  if (fabs(mean_off) > SIGMAS || fabs(variance_off) > SIGMAS)
    fail_msg("%s, mean %g: mean off by %g and variance by %g standard errors", name, mean, mean_off,
             variance_off);
}

static double values[SAMPLES];

static void draw_poisson(uint64_t seed, double mean, int count) {
  double means[NOISE_RUN];
  for (int i = 0; i < NOISE_RUN; i++) means[i] = mean;
  for (int i = 0; i < count; i += NOISE_RUN) {
    noise_source source = {seed, (uint64_t)i};
    int run = count - i < NOISE_RUN ? count - i : NOISE_RUN;
    noise_poisson_run(&source, NOISE_ELECTRONS, 5, run, means, values + i);
  }
}

static void poisson_numbers_have_the_moments_of_their_mean(void **state) {
  (void)state;
  static const double means[] = {0.01, 0.3, 1,   4,   9.99, 15.9, 16,  16.5, 20,
                                 33,   60,  100, 1e3, 1e4,  1e5,  1e6, 1e9};
  for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
    double mean = means[m];
    draw_poisson(m, mean, SAMPLES);
    check_moments(values, SAMPLES, mean, mean, mean + 3 * mean * mean, "Poisson");
    for (int i = 0; i < SAMPLES; i++) assert_true(values[i] >= 0 && values[i] == rint(values[i]));
  }
  noise_source source = {1, 2};
  assert_true(noise_poisson(&source, NOISE_ELECTRONS, 3, 0) == 0);
}

/* Pearson's chi-squared over all numbers with a sufficient expected count. */
static void poisson_numbers_have_their_probabilities(void **state) {
  (void)state;
  static const double means[] = {0.5, 3, 12, 15.99, 16.01, 25, 80};
  for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
    double mean = means[m], seen[200] = {0}, sum = 0, cells = 0, rest = SAMPLES,
           rest_seen = SAMPLES;
    draw_poisson(100 + m, mean, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) seen[(int)values[i]]++;
    for (int k = 0; k < 200; k++) {
      double expected = SAMPLES * exp(k * log(mean) - mean - lgamma(k + 1.0));
      if (expected < 20) continue;
      sum += (seen[k] - expected) * (seen[k] - expected) / expected;
      rest -= expected;
      rest_seen -= seen[k];
      cells++;
    }
    assert_true(fabs(rest_seen - rest) < 6 * sqrt(rest) + 1);
    double p = fit_reference_upper_gamma(cells / 2, sum / 2);
    if (p < 1e-4 || p > 1 - 1e-5) fail_msg("mean %g: chi-squared %g of %g", mean, sum, cells);
  }
}

static void a_run_is_its_numbers_one_by_one(void **state) {
  (void)state;
  noise_source source = {77, UINT64_C(0x123456789a)};
  double means[NOISE_RUN], numbers[NOISE_RUN];
  for (int i = 0; i < NOISE_RUN; i++) means[i] = pow(1.3, i - 10);
  for (uint32_t place = 0; place < 3; place++) {
    for (int count = 1; count <= NOISE_RUN; count += 9) {
      noise_poisson_run(&source, NOISE_ELECTRONS, place, count, means, numbers);
      for (int i = 0; i < count; i++)
        assert_true(numbers[i] ==
                    noise_poisson(&source, NOISE_ELECTRONS, place + (uint32_t)i, means[i]));
    }
  }
}

static void gamma_numbers_have_the_moments_of_their_terms(void **state) {
  (void)state;
  static const double terms[] = {1, 2, 5, 8, 9, 20, 1000};
  for (size_t t = 0; t < sizeof terms / sizeof *terms; t++) {
    double n = terms[t];
    for (int i = 0; i < SAMPLES; i++) {
      noise_source source = {t, (uint64_t)i};
      values[i] = noise_gamma(&source, NOISE_MULTIPLIER, 9, n);
      assert_true(values[i] > 0);
    }
    check_moments(values, SAMPLES, n, n, 3 * n * n + 6 * n, "gamma");
  }
  noise_source source = {1, 2};
  assert_true(noise_gamma(&source, NOISE_MULTIPLIER, 3, 0) == 0);
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The largest distance between the empirical and the true distribution function
 * (Kolmogorov–Smirnov), times the root of the count: above 2.2 once in 10^4. */
static double largest_distance(double (*below)(double)) {
  double largest = 0;
  qsort(values, SAMPLES, sizeof *values, ascending);
  for (int i = 0; i < SAMPLES; i++) {
    double expected = below(values[i]);
    largest = fmax(largest, fabs(expected - (double)i / SAMPLES));
    largest = fmax(largest, fabs(expected - (i + 1.0) / SAMPLES));
  }
  return largest * sqrt(SAMPLES);
}

static double below_normal(double x) {
  return 0.5 * erfc(-x / sqrt(2));
}

static double below_gamma_five(double x) {
  return 1 - fit_reference_upper_gamma(5, x);
}

static double below_gamma_fifty(double x) {
  return 1 - fit_reference_upper_gamma(50, x);
}

static double below_uniform(double x) {
  return x;
}

static void continuous_numbers_have_their_distributions(void **state) {
  (void)state;
  for (int i = 0; i < SAMPLES; i++)
    values[i] = noise_normal(&(noise_source){3, (uint64_t)i}, NOISE_READOUT, 1);
  check_moments(values, SAMPLES, 0, 1, 3, "normal");
  assert_true(largest_distance(below_normal) < 2.2);
  for (int i = 0; i < SAMPLES; i++)
    values[i] = noise_gamma(&(noise_source){4, (uint64_t)i}, NOISE_MULTIPLIER, 1, 5);
  assert_true(largest_distance(below_gamma_five) < 2.2);
  for (int i = 0; i < SAMPLES; i++)
    values[i] = noise_gamma(&(noise_source){5, (uint64_t)i}, NOISE_MULTIPLIER, 1, 50);
  assert_true(largest_distance(below_gamma_fifty) < 2.2);
  for (int i = 0; i < SAMPLES; i++)
    values[i] = noise_uniform(&(noise_source){6, (uint64_t)i}, NOISE_TRUTH, 1);
  assert_true(largest_distance(below_uniform) < 2.2);
}

/* Simulated files can be reproduced. */
static void numbers_never_change(void **state) {
  (void)state;
  const noise_source source = {42, UINT64_C(5000000000)};
  assert_true(noise_uniform(&source, NOISE_TRUTH, 7) == 0x1.5bd9a1c207479p-1);
  assert_true(noise_normal(&source, NOISE_READOUT, 7) == 0x1.e0aeeaa9b13bfp+0);
  assert_true(noise_gamma(&source, NOISE_MULTIPLIER, 7, 3) == 0x1.271a9d41717b6p+3);
  assert_true(noise_gamma(&source, NOISE_MULTIPLIER, 7, 30) == 0x1.88f56abf442c3p+4);
  static const double means[] = {0.5, 5, 15, 17, 30, 100, 1e3, 1e6};
  static const double numbers[] = {0, 3, 16, 15, 26, 111, 1002, 1000500};
  for (uint32_t i = 0; i < 8; i++)
    assert_true(noise_poisson(&source, NOISE_ELECTRONS, i, means[i]) == numbers[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_exact),
      cmocka_unit_test(poisson_numbers_have_the_moments_of_their_mean),
      cmocka_unit_test(poisson_numbers_have_their_probabilities),
      cmocka_unit_test(a_run_is_its_numbers_one_by_one),
      cmocka_unit_test(gamma_numbers_have_the_moments_of_their_terms),
      cmocka_unit_test(continuous_numbers_have_their_distributions),
      cmocka_unit_test(numbers_never_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
