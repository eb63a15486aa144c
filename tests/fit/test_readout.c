/* SPDX-License-Identifier: MIT */
/* The camera COMPUTE_FIT_READOUT, compared with exact sums in double precision. With k electrons,
 * Poisson with mean m, a pixel reads d with the density Σ P(k) φ(d − k). */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"

/* ---- Exact sums ----------------------------------------------------------------------------- */

enum { MOST_ELECTRONS = 4096 };

static double log_factorial(int64_t k) {
  static double known[MOST_ELECTRONS];
  assert_in_range(k, 0, MOST_ELECTRONS - 1);
  if (known[2] == 0)
    for (int i = 2; i < MOST_ELECTRONS; i++) known[i] = lgamma(i + 1.0);
  return known[k];
}

/* ln p(d | m), and the mean of k. */
static double exact(double d, double m, double variance, double *mean) {
  static double log_p[MOST_ELECTRONS];
  const double v = fmax(variance, 0.05), reach = 9 * sqrt(m + v) + 30, log_m = log(m);
  const int64_t low = (int64_t)fmax(floor(fmin(m, d) - reach), 0);
  const int64_t end = (int64_t)ceil(fmax(m, d) + reach);
  double largest = -INFINITY, sum = 0, moment = 0;
  for (int64_t k = low; k < end; k++) {
    const double off = d - (double)k;
    log_p[k] = (double)k * log_m - m - log_factorial(k) - off * off / (2 * v);
    largest = fmax(largest, log_p[k]);
  }
  for (int64_t k = low; k < end; k++) {
    const double p = exp(log_p[k] - largest);
    sum += p;
    moment += (double)k * p;
  }
  *mean = moment / sum;
  return largest + log(sum) - 0.5 * log(2 * acos(-1) * v);
}

static double exact_information(double m, double variance) {
  const double v = fmax(variance, 0.05), noise = sqrt(m + v);
  const double step = fmin(sqrt(v) / 5, noise / 10);
  double sum = 0;
  for (double d = fmax(m - 9 * noise, -9 * sqrt(v)); d < m + 10 * noise + 12; d += step) {
    double mean;
    const double p = exp(exact(d, m, v, &mean));
    sum += p * (mean / m - 1) * (mean / m - 1);
  }
  return sum * step;
}

/* ---- Flat images ---------------------------------------------------------------------------- */

static const double means[] = {0.02, 0.3, 2, 10, 80},
                    variances[] = {0, 0.07, 0.4, 1.5, 5.9, 6.1, 20, 50, 600};
enum { MEANS = 5, VARIANCES = 9, SIDE = 6, PIXELS = SIDE * SIDE, MANY = 24 };

/* Only the background is free. */
static compute_fit_problem flat_problem(double variance) {
  return (compute_fit_problem){.model = COMPUTE_FIT_XYNB,
                               .camera = COMPUTE_FIT_READOUT,
                               .rows = SIDE,
                               .columns = SIDE,
                               .sigma = {1.2},
                               .epsilon = 1e-3,
                               .fixed = 7,
                               .start_set = 7,
                               .start = {2.5, 2.5, 0.001},
                               .variance = variance};
}

static void bounds_are_those_of_the_exact_distribution(void **state) {
  (void)state;
  for (int i = 0; i < MEANS; i++)
    for (int j = 0; j < VARIANCES; j++) {
      double std[4];
      const compute_fit_problem p = flat_problem(variances[j]);
      assert_ok(
          compute_fit_crlb(test_context, &p, (double[]){2.5, 2.5, 0, means[i]}, NULL, std, NULL));
      const double right = 1 / sqrt(PIXELS * exact_information(means[i], variances[j]));
      if (fabs(std[3] / right - 1) > 1e-4)
        fail_msg("mean %g, variance %g: %.7g instead of %.7g", means[i], variances[j], std[3],
                 right);
    }
}

/* At the end of the fit the exact score is 0, and the uncertainty equals the exact one within half
 * of the information's error. Maps mix variances of all sizes. */
static void flat_images_have_their_exact_optimum(void **state) {
  static float pixels[MANY * PIXELS], fitted[MANY * 4], std[MANY * 4], map[PIXELS];
  static uint8_t status[MANY];
  (void)state;
  for (int i = 0; i < MEANS; i++)
    for (int j = 0; j <= VARIANCES; j++) {
      compute_fit *fit;
      for (int k = 0; k < PIXELS; k++) map[k] = (float)variances[j < VARIANCES ? j : k % VARIANCES];
      compute_simulation s = {.problem = flat_problem(0), .seed = 3, .variance = map};
      s.background = (compute_range){means[i], means[i]};
      s.photons = (compute_range){0.001, 0.001};
      assert_ok(compute_simulate_rois(test_context, &s, 0, MANY, pixels, NULL));
      compute_fit_options options = {.problem = flat_problem(0), .variance = {map, SIDE, SIDE}};
      assert_ok(compute_fit_create(test_context, &options, &fit));
      assert_ok(
          compute_fit_run(fit,
                          &(compute_fit_run_options){
                              .pixels = {.array = pixels},
                              .count = MANY,
                              .results = {.parameters = fitted, .std = std, .status = status}},
                          NULL));
      compute_fit_release(fit);
      for (int n = 0; n < MANY; n++) {
        if (status[n] != COMPUTE_FIT_CONVERGED) {
          assert_true(means[i] < 10); /* at its bound, or no light */
          assert_true(status[n] != COMPUTE_FIT_MAX_ITERATIONS);
          continue;
        }
        const double m = (double)fitted[n * 4 + 3], deviation = (double)std[n * 4 + 3];
        double score = 0, information = 0;
        for (int k = 0; k < PIXELS; k++) {
          double mean;
          exact((double)pixels[n * PIXELS + k], m, (double)map[k], &mean);
          score += mean / m - 1;
        }
        if (fabs(score) * deviation > 0.01)
          fail_msg("mean %g, variances %d: %g standard deviations off", means[i], j,
                   score * deviation);
        if (n > 0) continue;
        for (int k = 0; k < PIXELS; k++) information += exact_information(m, (double)map[k]);
        if (fabs(deviation * sqrt(information) - 1) > 0.003)
          fail_msg("mean %g, variances %d: std is %.4f of the exact one", means[i], j,
                   deviation * sqrt(information));
      }
    }
}

/* ---- Spots ---------------------------------------------------------------------------------- */

enum { ROI = 21, ROI_PIXELS = ROI * ROI, COUNT = 5000 };

/* Spots with 5 photons in their brightest pixel. The position is fixed where it cannot be found. */
static compute_simulation dim_spots(double background, double variance) {
  compute_simulation s = {.problem = {.model = COMPUTE_FIT_XYNB,
                                      .camera = COMPUTE_FIT_READOUT,
                                      .rows = ROI,
                                      .columns = ROI,
                                      .sigma = {2.5},
                                      .fixed = 3,
                                      .start_set = 3,
                                      .start = {10, 10},
                                      .variance = variance},
                          .seed = 8};
  s.position = (compute_range){0, 0};
  s.photons = (compute_range){200, 200};
  s.background = (compute_range){background, background};
  return s;
}

static float roi_pixels[COUNT * ROI_PIXELS], truth[COUNT * 4], fitted[COUNT * 4], std[COUNT * 4];
static float other[COUNT * 4], significance[COUNT];
static uint8_t status[COUNT];

static void run(compute_context *context, const compute_fit_problem *problem, float *parameters,
                float *significances, int64_t count) {
  compute_fit *fit;
  compute_fit_options options = {.problem = *problem};
  options.problem.outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD | COMPUTE_FIT_STATUS |
                            (significances ? COMPUTE_FIT_SIGNIFICANCE : 0);
  assert_ok(compute_fit_create(context, &options, &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = roi_pixels},
                                                       .count = count,
                                                       .results = {.parameters = parameters,
                                                                   .std = std,
                                                                   .significance = significances,
                                                                   .status = status}},
                            NULL));
  compute_fit_release(fit);
}

/* `bias`: mean error over the standard deviation. `ratio`: standard deviation over the bound. */
static void judge(int32_t parameter, double *bias, double *ratio) {
  double sum = 0, squares = 0, bound = 0, count = 0;
  for (int64_t i = 0; i < COUNT; i++) {
    const int64_t at = i * 4 + parameter;
    const double error = (double)fitted[at] - (double)truth[at];
    if (status[i] != COMPUTE_FIT_CONVERGED) continue;
    sum += error;
    squares += error * error;
    bound += (double)std[at] * (double)std[at];
    count++;
  }
  assert_true(count > 0.98 * COUNT);
  const double deviation = sqrt(squares / count - sum / count * (sum / count));
  *bias = sum / count / deviation;
  *ratio = deviation / sqrt(bound / count);
}

static void dim_spots_attain_the_bound_without_bias(void **state) {
  static const double levels[][2] = {{1, 20}, {2, 20}, {1.5, 50}, {2, 50}, {0.5, 0.07}, {1, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    const compute_simulation s = dim_spots(levels[i][0], levels[i][1]);
    assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, roi_pixels, truth));
    run(test_context, &s.problem, fitted, NULL, COUNT);
    for (int32_t a = 2; a < 4; a++) {
      double bias, ratio;
      judge(a, &bias, &ratio);
      if (fabs(bias) > 0.1 || ratio < 0.95 || ratio > 1.05)
        fail_msg("background %g, variance %g, parameter %d: bias %.3f, std/CRLB %.3f", levels[i][0],
                 levels[i][1], (int)a, bias, ratio);
    }
  }
}

/* The reason for two cameras. */
static void the_approximation_is_biased_where_there_is_little_of_both(void **state) {
  static const double levels[][2] = {{0.5, 0.07}, {1, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    double bias, ratio;
    compute_simulation s = dim_spots(levels[i][0], levels[i][1]);
    assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, roi_pixels, truth));
    s.problem.camera = COMPUTE_FIT_SCMOS;
    run(test_context, &s.problem, fitted, NULL, COUNT);
    judge(3, &bias, &ratio);
    assert_true(bias > 0.2);
  }
}

static void threads_and_solvers_do_not_matter(void **state) {
  (void)state;
  enum { SOME = 600 };
  for (int rough = 0; rough < 2; rough++) {
    compute_simulation s = dim_spots(2, rough ? 1.3 : 30);
    s.problem.fixed = 0;
    s.photons = (compute_range){3000, 3000};
    assert_ok(compute_simulate_rois(test_context, &s, 0, SOME, roi_pixels, truth));
    for (int threads = 1; threads <= 3; threads++) {
      compute_context *context;
      assert_ok(
          compute_open(&context, &(compute_open_options){.device = "cpu", .threads = threads}));
      run(context, &s.problem, threads == 1 ? fitted : other, NULL, SOME);
      test_close(context);
      if (threads > 1) assert_memory_equal(fitted, other, SOME * 4 * sizeof *fitted);
    }
    s.problem.solver = COMPUTE_FIT_LEVENBERG_MARQUARDT;
    run(test_context, &s.problem, other, NULL, SOME);
    for (int i = 0; i < SOME * 4; i++) assert_true(fabsf(other[i] - fitted[i]) <= 0.02F * std[i]);
  }
}

/* The exact log-likelihoods of the fitted spot and of the most likely flat background. */
static double exact_significance(const compute_fit_problem *p, const float *pixels,
                                 const double *parameters) {
  static double image[ROI_PIXELS];
  double low = COMPUTE_FIT_LEAST_PHOTONS, high = 1000, sum = 0, mean;
  assert_ok(compute_fit_image(test_context, p, parameters, image));
  for (int round = 0; round < 30; round++) {
    const double flat = (low + high) / 2;
    double score = 0;
    for (int k = 0; k < ROI_PIXELS; k++) {
      exact((double)pixels[k], flat, p->variance, &mean);
      score += mean / flat - 1;
    }
    *(score > 0 ? &low : &high) = flat;
  }
  for (int k = 0; k < ROI_PIXELS; k++)
    sum += exact((double)pixels[k], image[k], p->variance, &mean) -
           exact((double)pixels[k], low, p->variance, &mean);
  return sqrt(fmax(2 * sum, 0));
}

static void significance_is_that_of_the_exact_likelihood(void **state) {
  (void)state;
  enum { FEW = 4 };
  for (int j = 1; j < VARIANCES; j++) {
    compute_simulation s = dim_spots(2, variances[j]);
    s.problem.fixed = 0;
    s.photons = (compute_range){1500, 1500};
    assert_ok(compute_simulate_rois(test_context, &s, 0, FEW, roi_pixels, truth));
    run(test_context, &s.problem, fitted, significance, FEW);
    for (int i = 0; i < FEW; i++) {
      const double own[] = {(double)fitted[4 * i], (double)fitted[4 * i + 1],
                            (double)fitted[4 * i + 2], (double)fitted[4 * i + 3]};
      const double right = exact_significance(&s.problem, roi_pixels + i * ROI_PIXELS, own);
      if (fabs((double)significance[i] - right) > 2e-3 + 1e-3 * right)
        fail_msg("variance %g: %.6g instead of %.6g", variances[j], (double)significance[i], right);
    }
  }
}

static void what_the_camera_has_not_is_refused(void **state) {
  static const uint32_t tests[] = {COMPUTE_FIT_RATIO, COMPUTE_FIT_P_RAW, COMPUTE_FIT_P_VALUE};
  compute_fit *fit;
  (void)state;
  for (int i = 0; i < 3; i++) {
    compute_fit_options options = {.problem = flat_problem(1)};
    options.problem.outputs = COMPUTE_FIT_PARAMETERS | tests[i];
    assert_fails(compute_fit_create(test_context, &options, &fit), COMPUTE_ERROR_INVALID_ARGUMENT);
    test_check_message(test_context, "p-values");
  }
  compute_fit_options options = {.problem = flat_problem(1)};
  options.problem.solver = COMPUTE_FIT_NEWTON;
  assert_fails(compute_fit_create(test_context, &options, &fit), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "Newton");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_are_those_of_the_exact_distribution),
      cmocka_unit_test(flat_images_have_their_exact_optimum),
      cmocka_unit_test(dim_spots_attain_the_bound_without_bias),
      cmocka_unit_test(the_approximation_is_biased_where_there_is_little_of_both),
      cmocka_unit_test(threads_and_solvers_do_not_matter),
      cmocka_unit_test(significance_is_that_of_the_exact_likelihood),
      cmocka_unit_test(what_the_camera_has_not_is_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
