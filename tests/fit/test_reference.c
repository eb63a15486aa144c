/* SPDX-License-Identifier: MIT */
/* The reference fit in double precision: its derivatives, its uncertainties compared with known
 * ones, its test of fit, and that it recovers the parameters of an image. */
#include <math.h>
#include <string.h>

#include "support/reference/fit_reference.h"
#include "support/harness/test.h"

#define NAN_6                                                                                      \
  { NAN, NAN, NAN, NAN, NAN, NAN }

#define assert_near(actual, expected, tolerance)                                                   \
  check_near((actual), (expected), (tolerance), __LINE__)

static void check_near(double actual, double expected, double tolerance, int line) {
  if (fabs(actual - expected) <= tolerance) return;
  fail_msg("line %d: %.17g instead of %.17g, more than %g apart", line, actual, expected,
           tolerance);
}

static const compute_fit_model models[] = {COMPUTE_FIT_XYNB, COMPUTE_FIT_XYNBS,
                                           COMPUTE_FIT_XYNBSXSY, COMPUTE_FIT_XYZNB};

/* A rectangular ROI with different values for x and y. */
static compute_fit_problem sample_problem(compute_fit_model model) {
  return (compute_fit_problem){.model = model,
                               .rows = 7,
                               .columns = 9,
                               .sigma = {1.2, 1.35},
                               .depth = 0.4,
                               .gamma = 0.25,
                               .a = {0.1, -0.15},
                               .b = {0.02, 0.03}};
}

static void sample_parameters(compute_fit_model model, double *parameters) {
  static const double flat[] = {4.3, 2.8, 900, 7.5, 1.4, 1.15}, deep[] = {4.3, 2.8, 0.13, 900, 7.5};
  memcpy(parameters, model == COMPUTE_FIT_XYZNB ? deep : flat,
         (size_t)compute_fit_parameter_count(model) * sizeof(double));
}

static void derivatives_are_the_slopes_of_the_image(void **state) {
  (void)state;
  for (int profile = 0; profile < 2; profile++) {
    for (size_t m = 0; m < 4; m++) {
      compute_fit_problem problem = sample_problem(models[m]);
      problem.profile = (compute_fit_profile)profile;
      int32_t count = compute_fit_parameter_count(models[m]);
      double parameters[6], image[63], above[63], below[63], by[63 * 6];
      sample_parameters(models[m], parameters);
      fit_reference_image(&problem, NULL, parameters, image, by);
      for (int32_t a = 0; a < count; a++) {
        double moved[6], step = 1e-5 * fmax(1, fabs(parameters[a])), largest = 0;
        memcpy(moved, parameters, sizeof moved);
        moved[a] = parameters[a] + step;
        fit_reference_image(&problem, NULL, moved, above, NULL);
        moved[a] = parameters[a] - step;
        fit_reference_image(&problem, NULL, moved, below, NULL);
        for (int i = 0; i < 63; i++) largest = fmax(largest, fabs(by[i * count + a]));
        for (int i = 0; i < 63; i++)
          assert_near((above[i] - below[i]) / (2 * step), by[i * count + a], 1e-7 * largest);
      }
    }
  }
}

static void uncertainties_are_those_of_the_table(void **state) {
  (void)state;
  static const struct {
    compute_fit_model model;
    int32_t side;
    double sigma, photons, background, variance;
    double std[4]; /* x, N, bg, sigma */
  } cases[] = {
      {COMPUTE_FIT_XYNB, 7, 1.0, 1000, 10, 0, {0.0409295, 37.8405, 0.619068, 0}},
      {COMPUTE_FIT_XYNBS, 7, 1.0, 1000, 10, 0, {0.0409295, 43.9154, 0.763228, 0.0320610}},
      {COMPUTE_FIT_XYNB, 7, 1.3, 1000, 10, 0, {0.0564668, 44.5480, 0.772533, 0}},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 0, {0.0562606, 38.4927, 0.339909, 0}},
      {COMPUTE_FIT_XYNBSXSY, 11, 1.3, 1000, 10, 0, {0.0562606, 43.5451, 0.379170, 0.0531347}},
      {COMPUTE_FIT_XYNB, 11, 1.3, 200, 5, 0, {0.151399, 19.8764, 0.233760, 0}},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 25, {0.0738914, 47.7466, 0.613720, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double middle = 0.5 * (cases[i].side - 1), std[6], covariance[36];
    double parameters[] = {middle,         middle,        cases[i].photons, cases[i].background,
                           cases[i].sigma, cases[i].sigma};
    compute_fit_problem problem = {.model = cases[i].model,
                                   .camera = COMPUTE_FIT_SCMOS,
                                   .rows = cases[i].side,
                                   .columns = cases[i].side,
                                   .sigma = {cases[i].sigma},
                                   .variance = cases[i].variance};
    assert_true(fit_reference_bound(&problem, NULL, parameters, std, covariance));
    static const int places[] = {0, 2, 3, 4};
    for (int k = 0; k < (cases[i].std[3] > 0 ? 4 : 3); k++) {
      /* The table has six digits: half a unit of the last digit is up to 5e-6 of the value. */
      double expected = cases[i].std[k], digit = pow(10, floor(log10(expected)) - 5);
      assert_near(std[places[k]], expected, 0.5 * digit + 1e-7 * expected);
    }
    assert_near(std[1], std[0], 1e-12);
    assert_near(covariance[0], std[0] * std[0], 1e-15);
  }
}

static void uncertainties_tend_to_the_closed_forms(void **state) {
  (void)state;
  const double sigma = 1.3, photons = 1000, width2 = sigma * sigma + 1.0 / 12;
  const double parameters[] = {31.5, 31.5, photons, 1e-9, sigma};
  compute_fit_problem problem = {
      .model = COMPUTE_FIT_XYNBS, .rows = 64, .columns = 64, .sigma = {sigma}, .fixed = 1u << 3};
  double std[5], covariance[25];
  assert_true(fit_reference_bound(&problem, NULL, parameters, std, covariance));
  /* The closed forms treat the pixel as a widening of the Gaussian, which is right to second
   * order. */
  assert_near(std[0], sqrt(width2 / photons), 1e-3 * std[0]);
  assert_near(std[2], sqrt(photons), 1e-3 * std[2]);
  assert_near(std[4], width2 / (2 * sigma * sqrt(photons)), 1e-3 * std[4]);
  assert_true(std[3] == 0 && covariance[3 * 5 + 3] == 0 && covariance[3 * 5] == 0);
}

static void moments_of_the_deviance_are_those_of_the_table(void **state) {
  (void)state;
  static const double table[][3] = {
      {0.1, 0.4741, 0.8604}, {0.5, 1.0070, 0.7297}, {1, 1.1468, 1.3646}, {2, 1.1394, 2.2330},
      {5, 1.0467, 2.2668},   {10, 1.0188, 2.0877},  {20, 1.0088, 2.0373}};
  double mean, variance;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    fit_reference_moments(false, table[i][0], &mean, &variance);
    assert_near(mean, table[i][1], 5e-5);
    assert_near(variance, table[i][2], 5e-5);
  }
  /* Expected values: sums in 60 digits. */
  fit_reference_moments(true, 0.1, &mean, &variance);
  assert_near(mean, 0.554909955611959, 1e-12);
  assert_near(variance, 4.547995087074834, 1e-11);
  fit_reference_moments(true, 5, &mean, &variance);
  assert_near(mean, 1.9980070619145822, 1e-11);
  assert_near(variance, 7.364917361433945, 1e-10);
  /* The sum and the series agree where they meet. */
  for (int gamma = 0; gamma < 2; gamma++) {
    double other[2];
    fit_reference_moments(gamma == 1, 1000, &mean, &variance);
    fit_reference_moments(gamma == 1, 1000.0000001, &other[0], &other[1]);
    assert_near(mean, other[0], 1e-8);
    assert_near(variance, other[1], 1e-7);
  }
}

static void slopes_are_those_of_the_moments(void **state) {
  (void)state;
  for (int gamma = 0; gamma < 2; gamma++) {
    for (double mu = 0.02; mu < 300; mu *= 1.7) {
      double step = 1e-3 * mu, mean[3], variance, slope, curvature;
      for (int i = 0; i < 3; i++)
        fit_reference_moments(gamma == 1, mu + (i - 1) * step, &mean[i], &variance);
      fit_reference_moment_slopes(gamma == 1, mu, &slope, &curvature);
      assert_near((mean[2] - mean[0]) / (2 * step), slope, 2e-6 * (1 + 1 / mu));
      assert_near((mean[2] - 2 * mean[1] + mean[0]) / (step * step), curvature,
                  1e-5 * (1 + 1 / (mu * mu)));
    }
  }
}

/* The macros of the devices, evaluated in f32 as there. */
#define AS_IT_IS(x) x
#include "../../kernels/fit_moments.h"

static void approximate_moments_are_as_good_as_their_file_says(void **state) {
  (void)state;
  for (double mu = 1e-3; mu < 2e4; mu *= 1.07) {
    float x = fminf((float)mu, FIT_MOMENTS_LARGEST);
    float below[] = {1 / FIT_POISSON_BELOW(fmaf, AS_IT_IS, x),
                     1 / FIT_GAMMA_BELOW(fmaf, AS_IT_IS, x)};
    float means[] = {FIT_POISSON_MEAN(fmaf, AS_IT_IS, x), FIT_GAMMA_MEAN(fmaf, AS_IT_IS, x)};
    float variances[] = {FIT_POISSON_VARIANCE(fmaf, AS_IT_IS, x),
                         FIT_GAMMA_VARIANCE(fmaf, AS_IT_IS, x)};
    float beneath[] = {1 / FIT_POISSON_SLOPE_BELOW(fmaf, AS_IT_IS, x),
                       1 / FIT_GAMMA_SLOPE_BELOW(fmaf, AS_IT_IS, x)};
    float slopes[] = {FIT_POISSON_SLOPE(fmaf, AS_IT_IS, x), FIT_GAMMA_SLOPE(fmaf, AS_IT_IS, x)};
    float curvatures[] = {FIT_POISSON_CURVATURE(fmaf, AS_IT_IS, x),
                          FIT_GAMMA_CURVATURE(fmaf, AS_IT_IS, x)};
    for (int gamma = 0; gamma < 2; gamma++) {
      static const double bounds[2][2][2] = {{{1.4e-3, 2.9e-3}, {5.4e-4, 1.8e-3}},
                                             {{2.8e-4, 4.8e-4}, {1.5e-4, 2.9e-4}}};
      double mean, variance;
      const double *bound = bounds[mu >= 0.03][gamma];
      fit_reference_moments(gamma == 1, mu, &mean, &variance);
      assert_near(means[gamma] * below[gamma], mean, bound[0] * mean);
      assert_near(variances[gamma] * below[gamma], variance, bound[1] * variance);
      if (mu < 0.01 || mu > 40) continue;
      fit_reference_moment_slopes(gamma == 1, mu, &mean, &variance);
      double tail = mu < 1 ? 1 / sqrt(mu) : 1 / (mu * sqrt(mu));
      assert_near(slopes[gamma] * beneath[gamma], mean, 0.007 * tail + 0.007 * fabs(mean));
      tail /= mu < 1 ? sqrt(mu) : mu;
      assert_near(curvatures[gamma] * beneath[gamma], variance,
                  0.01 * tail + 0.007 * fabs(variance));
    }
  }
  float zero = 0;
  assert_true(FIT_POISSON_BELOW(fmaf, AS_IT_IS, zero) > 0);
  assert_true(FIT_GAMMA_BELOW(fmaf, AS_IT_IS, zero) > 0);
}

static void upper_gamma_is_that_of_chi_squared(void **state) {
  (void)state;
  assert_near(fit_reference_upper_gamma(1, 2), exp(-2), 1e-14);
  assert_near(fit_reference_upper_gamma(0.5, 1.7), erfc(sqrt(1.7)), 1e-13);
  assert_near(fit_reference_upper_gamma(3, 5), exp(-5) * (1 + 5 + 12.5), 1e-13);
  for (double a = 0.5; a < 3000; a *= 1.9) { /* the recurrence, across both methods */
    for (double x = 0.3 * a; x < 2 * a; x *= 1.1) {
      double front = exp(a * log(x) - x - lgamma(a + 1));
      assert_near(fit_reference_upper_gamma(a + 1, x), fit_reference_upper_gamma(a, x) + front,
                  1e-11);
    }
  }
  assert_true(fit_reference_upper_gamma(20, 0) == 1);
  assert_true(fit_reference_upper_gamma(2, 700) > 0);
}

/* Converts electrons to counts, with maps that differ at every pixel. */
static void to_counts(const compute_fit_problem *problem, const fit_reference_inputs *inputs,
                      double *pixels) {
  for (int i = 0; i < problem->rows * problem->columns; i++) {
    if (problem->camera == COMPUTE_FIT_IDEAL) continue;
    double gain = inputs->gain[i] / (problem->camera == COMPUTE_FIT_EMCCD ? problem->em_gain : 1);
    pixels[i] = pixels[i] / gain + inputs->offset[i];
  }
}

static void noise_free_images_give_back_their_parameters(void **state) {
  (void)state;
  double offset[63], gain[63], variance[63], pixels[63];
  uint8_t mask[63];
  for (int i = 0; i < 63; i++) {
    offset[i] = 100 + i;
    gain[i] = 0.4 + 0.01 * i;
    variance[i] = 1 + 0.3 * i;
    mask[i] = i != 17 && i != 40;
  }
  const fit_reference_inputs inputs = {offset, gain, variance, mask, NULL, NULL, NULL, NULL};
  for (size_t m = 0; m < 4; m++) {
    for (int camera = 0; camera < 3; camera++) {
      for (int solver = 0; solver < 4; solver += 3) {
        for (int profile = 0; profile < 2; profile++) {
          compute_fit_problem problem = sample_problem(models[m]);
          problem.camera = (compute_fit_camera)camera;
          problem.solver = (compute_fit_solver)solver;
          problem.profile = (compute_fit_profile)profile;
          problem.em_gain = 200;
          double truth[6];
          fit_reference_result result, there;
          sample_parameters(models[m], truth);
          fit_reference_image(&problem, NULL, truth, pixels, NULL);
          to_counts(&problem, &inputs, pixels);
          pixels[17] = NAN; /* masked */
          fit_reference(&problem, pixels, &inputs, &result);
          assert_int_equal(result.status, COMPUTE_FIT_CONVERGED);
          assert_int_equal(result.used, 61);
          fit_reference_at(&problem, pixels, &inputs, truth, &there);
          for (int a = 0; a < result.free_count; a++) {
            assert_near(result.parameters[a], truth[a], 1e-6 * result.std[a]);
            assert_near(result.std[a], there.std[a], 1e-6 * result.std[a]);
          }
          assert_near(result.ratio, 0, 1e-9);
          assert_true(result.p_raw > 0.999 && result.p_value > 0.99);
        }
      }
    }
  }
}

/* For a few rough images, the gradient at the optimum is 0 along each free parameter, and no
 * neighbour is better. */
static void nothing_beside_the_optimum_is_better(void **state) {
  (void)state;
  uint32_t word = 12345;
  for (int trial = 0; trial < 40; trial++) {
    compute_fit_problem problem = sample_problem(models[trial % 4]);
    int32_t count = compute_fit_parameter_count(problem.model);
    double truth[6], pixels[63];
    fit_reference_result result, other;
    sample_parameters(problem.model, truth);
    fit_reference_image(&problem, NULL, truth, pixels, NULL);
    for (int i = 0; i < 63; i++) {
      double sum = 0; /* roughly normal */
      for (int k = 0; k < 12; k++) sum += (word = word * 1664525u + 1013904223u) * 0x1p-32;
      pixels[i] = fmax(0, rint(pixels[i] + sqrt(pixels[i]) * (sum - 6)));
    }
    fit_reference(&problem, pixels, NULL, &result);
    assert_int_equal(result.status, COMPUTE_FIT_CONVERGED);
    for (int a = 0; a < count; a++) {
      for (int side = -1; side <= 1; side += 2) {
        double moved[6];
        memcpy(moved, result.parameters, sizeof moved);
        moved[a] += side * 1e-3 * result.std[a];
        fit_reference_at(&problem, pixels, NULL, moved, &other);
        assert_true(other.ratio < result.ratio);
        moved[a] += side * result.std[a];
        fit_reference_at(&problem, pixels, NULL, moved, &other);
        assert_true(other.ratio < result.ratio);
      }
    }
  }
}

static void fixed_parameters_and_bounds_hold(void **state) {
  (void)state;
  compute_fit_problem problem = sample_problem(COMPUTE_FIT_XYNBS);
  double truth[6], pixels[63], start[] = {NAN, NAN, NAN, 9, NAN}, upper[] = NAN_6;
  fit_reference_result result;
  sample_parameters(problem.model, truth);
  fit_reference_image(&problem, NULL, truth, pixels, NULL);
  problem.fixed = 1u << 3;
  fit_reference(&problem, pixels, &(fit_reference_inputs){.start = start}, &result);
  assert_int_equal(result.status, COMPUTE_FIT_CONVERGED);
  assert_int_equal(result.free_count, 4);
  assert_true(result.parameters[3] == 9 && result.std[3] == 0);
  assert_true(result.parameters[2] < truth[2] - 10); /* the background takes some of the photons */

  problem.fixed = 0;
  upper[0] = 4.1;
  fit_reference(&problem, pixels, &(fit_reference_inputs){.upper = upper}, &result);
  assert_int_equal(result.status, COMPUTE_FIT_AT_BOUND);
  assert_true(result.parameters[0] == 4.1 && result.std[0] > 0);
}

static void bad_data_is_told(void **state) {
  (void)state;
  compute_fit_problem problem = sample_problem(COMPUTE_FIT_XYNB);
  double pixels[63], truth[6], map[63], start[] = NAN_6, lower[] = NAN_6, upper[] = NAN_6;
  uint8_t mask[63] = {0};
  fit_reference_result result;
  sample_parameters(problem.model, truth);
#define BAD(...)                                                                                   \
  fit_reference(&problem, pixels, &(fit_reference_inputs){__VA_ARGS__}, &result);                  \
  assert_int_equal(result.status, COMPUTE_FIT_BAD_DATA);                                           \
  assert_true(isnan(result.parameters[0]) && isnan(result.ratio))
  memset(pixels, 0, sizeof pixels);
  BAD(.mask = NULL); /* no light */
  fit_reference_image(&problem, NULL, truth, pixels, NULL);
  BAD(.mask = mask);
  mask[30] = mask[31] = mask[32] = 1; /* fewer than parameters */
  BAD(.mask = mask);
  BAD(.sigma = (double[]){1.3, -1});
  lower[2] = 20, upper[2] = 10;
  BAD(.lower = lower, .upper = upper);
  problem.fixed = 1;
  BAD(.start = start);
  problem.fixed = 0;
  problem.camera = COMPUTE_FIT_SCMOS;
  for (int i = 0; i < 63; i++) map[i] = i == 5 ? 0 : 1;
  BAD(.gain = map);
  map[5] = NAN;
  BAD(.variance = map);
  pixels[62] = INFINITY;
  BAD(.mask = NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(derivatives_are_the_slopes_of_the_image),
      cmocka_unit_test(uncertainties_are_those_of_the_table),
      cmocka_unit_test(uncertainties_tend_to_the_closed_forms),
      cmocka_unit_test(moments_of_the_deviance_are_those_of_the_table),
      cmocka_unit_test(slopes_are_those_of_the_moments),
      cmocka_unit_test(approximate_moments_are_as_good_as_their_file_says),
      cmocka_unit_test(upper_gamma_is_that_of_chi_squared),
      cmocka_unit_test(noise_free_images_give_back_their_parameters),
      cmocka_unit_test(nothing_beside_the_optimum_is_better),
      cmocka_unit_test(fixed_parameters_and_bounds_hold),
      cmocka_unit_test(bad_data_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
