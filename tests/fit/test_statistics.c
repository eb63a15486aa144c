/* SPDX-License-Identifier: MIT */
/* Statistical promises of fits, on the device under test: simulated ROIs with known truth, 10^5 of
 * each kind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

#define COUNT 100000
#define MOST  COMPUTE_FIT_MAX_PARAMETERS

/* ---- A study: simulate and fit -------------------------------------------------------------- */

typedef struct study {
  compute_simulation simulation;
  int32_t parameters;
  int64_t count;
  float *pixels, *truth, *fitted, *std, *p_raw, *p_value;
  int32_t *iterations;
  uint8_t *status;
  compute_fit_summary summary;
} study;

static void *room(int64_t elements, size_t size) {
  void *memory = malloc((size_t)elements * size);
  assert_non_null(memory);
  return memory;
}

static void release(study *s) {
  void *const all[] = {s->pixels, s->truth,   s->fitted,     s->std,
                       s->p_raw,  s->p_value, s->iterations, s->status};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Fits the simulated ROIs with `problem`, which may request another solver or other starting
 * values. */
static void fit(study *s, const compute_fit_problem *problem) {
  compute_fit *fitter;
  compute_fit_options options = {.problem = *problem};
  options.problem.outputs = COMPUTE_FIT_USUAL_OUTPUTS | COMPUTE_FIT_P_RAW;
  assert_ok(compute_fit_create(test_context, &options, &fitter));
  assert_ok(compute_fit_run(fitter,
                            &(compute_fit_run_options){.pixels = {.array = s->pixels},
                                                       .count = s->count,
                                                       .results = {.parameters = s->fitted,
                                                                   .std = s->std,
                                                                   .p_raw = s->p_raw,
                                                                   .p_value = s->p_value,
                                                                   .iterations = s->iterations,
                                                                   .status = s->status}},
                            &s->summary));
  compute_fit_release(fitter);
}

static void simulate(study *s, const compute_simulation *simulation, int64_t count) {
  const int64_t size = (int64_t)simulation->problem.rows * simulation->problem.columns;
  *s = (study){.simulation = *simulation, .count = count};
  s->parameters = compute_fit_parameter_count(simulation->problem.model);
  s->pixels = room(count * size, sizeof *s->pixels);
  s->truth = room(count * s->parameters, sizeof *s->truth);
  s->fitted = room(count * s->parameters, sizeof *s->fitted);
  s->std = room(count * s->parameters, sizeof *s->std);
  s->p_raw = room(count, sizeof *s->p_raw);
  s->p_value = room(count, sizeof *s->p_value);
  s->iterations = room(count, sizeof *s->iterations);
  s->status = room(count, sizeof *s->status);
  assert_ok(compute_simulate_rois(test_context, simulation, 0, count, s->pixels, s->truth));
}

static void simulate_and_fit(study *s, const compute_simulation *simulation, int64_t count) {
  simulate(s, simulation, count);
  fit(s, &simulation->problem);
}

static double converged_part(const study *s) {
  return (double)(s->summary.of_status[COMPUTE_FIT_CONVERGED] +
                  s->summary.of_status[COMPUTE_FIT_AT_BOUND]) /
         (double)s->count;
}

/* ---- Statistics of a study ------------------------------------------------------------------- */

typedef struct spread {
  double ratio; /* standard deviation over the root of the mean Cramér–Rao bound */
  double bias;  /* mean error in standard errors */
  double part;  /* mean error in standard deviations */
} spread;

/* Errors of one parameter over all converged fits. */
static spread find_spread(const study *s, int32_t parameter) {
  double sum = 0, squares = 0, bound = 0, count = 0;
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t at = i * s->parameters + parameter;
    const double error = (double)s->fitted[at] - (double)s->truth[at];
    if (s->status[i] != COMPUTE_FIT_CONVERGED) continue;
    sum += error;
    squares += error * error;
    bound += (double)s->std[at] * (double)s->std[at];
    count++;
  }
  const double mean = sum / count, deviation = sqrt(squares / count - mean * mean);
  return (spread){.ratio = deviation / sqrt(bound / count),
                  .bias = mean / deviation * sqrt(count),
                  .part = mean / deviation};
}

static int ascending(const void *left, const void *right) {
  const float a = *(const float *)left, b = *(const float *)right;
  return (a > b) - (a < b);
}

/* The largest distance between the p-values' distribution function and the uniform one (the
 * Kolmogorov–Smirnov statistic). Sorts the values. */
static double distance_from_uniform(float *p, int64_t count) {
  double largest = 0;
  qsort(p, (size_t)count, sizeof *p, ascending);
  for (int64_t i = 0; i < count; i++) {
    const double value = (double)p[i];
    if (isnan(value)) return 1;
    largest = fmax(largest, fabs(value - (double)i / (double)count));
    largest = fmax(largest, fabs(value - (double)(i + 1) / (double)count));
  }
  return largest;
}

/* ---- Precision and bias ---------------------------------------------------------------------- */

static compute_simulation spots(compute_fit_model model, compute_fit_camera camera, double photons,
                                double background) {
  compute_simulation simulation = {.problem = {.model = model,
                                               .camera = camera,
                                               .rows = 9,
                                               .columns = 9,
                                               .sigma = {1.3, 1.3},
                                               .depth = 0.4,
                                               .gamma = 0.25},
                                   .seed = 20,
                                   .photons = {photons, photons},
                                   .background = {background, background},
                                   .position = {-0.5, 0.5},
                                   .z = {-0.3, 0.3}};
  if (camera == COMPUTE_FIT_SCMOS) simulation.problem.variance = 4;
  return simulation;
}

static const compute_fit_model models[] = {COMPUTE_FIT_XYNB, COMPUTE_FIT_XYNBS,
                                           COMPUTE_FIT_XYNBSXSY, COMPUTE_FIT_XYZNB};

static bool is_position(int32_t parameter) {
  return parameter < 2;
}

/* The spread is within 2 % of the bound. The mean error is below three standard errors or, where
 * maximum likelihood itself is biased, below `part` of a standard deviation. */
static void check_spread(const study *s, int32_t parameter, double part) {
  const spread seen = find_spread(s, parameter);
  if (fabs(seen.ratio - 1) < 0.02 && (fabs(seen.bias) < 3 || fabs(seen.part) < part)) return;
  fail_msg("%s, camera %d, %s: spread %.4f of the bound, bias %.2f standard errors or %.4f sigma",
           compute_fit_model_name(s->simulation.problem.model), (int)s->simulation.problem.camera,
           compute_fit_parameter_name(s->simulation.problem.model, parameter), seen.ratio,
           seen.bias, seen.part);
}

static void bright_spots_are_found_as_exactly_as_the_bound_allows_and_without_bias(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    for (int camera = 0; camera < 3; camera++) {
      study s;
      const compute_simulation simulation = spots(models[m], (compute_fit_camera)camera, 2e5, 200);
      simulate_and_fit(&s, &simulation, COUNT);
      assert_true(converged_part(&s) == 1);
      for (int32_t a = 0; a < s.parameters; a++) check_spread(&s, a, 0);
      release(&s);
    }
  }
}

/* Maximum likelihood itself has a bias of order 1 / N. In photons, background and widths it is
 * some hundredths of the standard deviation here, and not an error of the fit. Positions have no
 * bias. */
static void usual_spots_are_found_as_exactly_as_the_bound_allows(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    study s;
    const compute_simulation simulation = spots(models[m], COMPUTE_FIT_IDEAL, 2000, 5);
    simulate_and_fit(&s, &simulation, COUNT);
    assert_true(converged_part(&s) > 0.9999);
    for (int32_t a = 0; a < s.parameters; a++) check_spread(&s, a, is_position(a) ? 0 : 0.06);
    release(&s);
  }
}

/* ---- The test of fit ------------------------------------------------------------------------- */

/* The limit of the Kolmogorov–Smirnov test for 10^5 numbers is 0.0051 at one in a hundred. Good
 * fits of Poisson images pass it at every light level. For an electron multiplier, two moments do
 * not describe the output if most pixels have no electron. */
static void p_values_are_uniform(void **state) {
  (void)state;
  static const double backgrounds[] = {0.3, 1, 3, 10, 20};
  static const double limits[2][5] = {{0.0051, 0.0051, 0.0051, 0.0051, 0.0051},
                                      {0.03, 0.02, 0.0051, 0.0051, 0.0051}};
  for (int camera = 0; camera < 2; camera++) {
    for (size_t b = 0; b < sizeof backgrounds / sizeof *backgrounds; b++) {
      study s;
      const compute_simulation simulation =
          spots(COMPUTE_FIT_XYNB, (compute_fit_camera)camera, 500, backgrounds[b]);
      simulate_and_fit(&s, &simulation, COUNT);
      const double distance = distance_from_uniform(s.p_value, s.count);
      const double raw = distance_from_uniform(s.p_raw, s.count);
      if (distance > limits[camera][b])
        fail_msg("camera %d, background %g: %.4f from uniform", camera, backgrounds[b], distance);
      /* Without the correction, the usual test would reject good fits. */
      if (backgrounds[b] <= 3) assert_true(raw > 3 * distance);
      release(&s);
    }
  }
}

/* Small p-values show that spots are twice as wide as the fit assumes. */
static void p_values_of_wrong_models_are_small(void **state) {
  (void)state;
  study s;
  compute_simulation simulation = spots(COMPUTE_FIT_XYNB, COMPUTE_FIT_IDEAL, 2000, 5);
  simulate(&s, &simulation, 1000);
  simulation.problem.sigma[0] = simulation.problem.sigma[1] = 0.8;
  fit(&s, &simulation.problem);
  for (int64_t i = 0; i < s.count; i++) assert_true(s.p_value[i] < 1e-3F);
  release(&s);
}

/* ---- Convergence ----------------------------------------------------------------------------- */

static void noise_free_spots_are_recovered(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    for (int camera = 0; camera < 3; camera++) {
      for (int profile = 0; profile < 2; profile++) {
        study s;
        compute_simulation simulation = spots(models[m], (compute_fit_camera)camera, 2000, 10);
        simulation.problem.profile = (compute_fit_profile)profile;
        simulation.problem.rows = 7;
        simulation.noise_free = true;
        simulate_and_fit(&s, &simulation, 1000);
        assert_true(s.summary.of_status[COMPUTE_FIT_CONVERGED] == s.count);
        for (int64_t i = 0; i < s.count * s.parameters; i++) {
          const double truth = (double)s.truth[i];
          const double off = fabs((double)s.fitted[i] - truth) / fmax(1, fabs(truth));
          if (off > 1e-5)
            fail_msg("%s, camera %d, profile %d, %s: %.9g instead of %.9g",
                     compute_fit_model_name(models[m]), camera, profile,
                     compute_fit_parameter_name(models[m], (int32_t)(i % s.parameters)),
                     (double)s.fitted[i], truth);
        }
        release(&s);
      }
    }
  }
}

/* Spots for which the diagonal Newton method mostly needs more than 40 steps. */
static void dim_elliptical_spots_converge(void **state) {
  (void)state;
  study s;
  compute_simulation simulation = spots(COMPUTE_FIT_XYNBSXSY, COMPUTE_FIT_IDEAL, 300, 10);
  simulation.problem.rows = simulation.problem.columns = 7;
  simulate_and_fit(&s, &simulation, COUNT);
  assert_true(converged_part(&s) >= 0.999);
  release(&s);
}

/* The share of another solver's fits that end within `part` of a standard deviation of Fisher
 * scoring's result. */
static double agreement(compute_fit_model model, compute_fit_solver solver, int32_t iterations,
                        double part) {
  enum { FEW = 20000 };
  study s;
  compute_simulation simulation = spots(model, COMPUTE_FIT_IDEAL, 1500, 5);
  simulate_and_fit(&s, &simulation, FEW);
  float *fitted = s.fitted;
  s.fitted = room(s.count * s.parameters, sizeof *s.fitted);
  simulation.problem.solver = solver;
  simulation.problem.iterations = iterations;
  fit(&s, &simulation.problem);
  int64_t near = 0;
  for (int64_t i = 0; i < s.count; i++) {
    bool all = true;
    for (int32_t a = 0; a < s.parameters; a++) {
      const int64_t at = i * s.parameters + a;
      const double off = fabs((double)s.fitted[at] - (double)fitted[at]);
      all = all && off < part * (double)s.std[at];
    }
    near += all;
  }
  free(fitted);
  release(&s);
  return (double)near / FEW;
}

static void solvers_agree(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    const double marquardt = agreement(models[m], COMPUTE_FIT_LEVENBERG_MARQUARDT, 0, 0.02);
    const double newton = agreement(models[m], COMPUTE_FIT_NEWTON, 0, 0.02);
    const double patient = agreement(models[m], COMPUTE_FIT_NEWTON, 100, 0.02);
    if (marquardt < 0.9999 || newton < 0.99 || patient < 0.9999)
      fail_msg("%s: Levenberg-Marquardt %.5f, Newton %.5f, with 100 steps %.5f",
               compute_fit_model_name(models[m]), marquardt, newton, patient);
  }
}

/* Least squares gives bright pixels too much weight: it is unbiased, but less exact than the
 * bound. */
static void least_squares_is_right_but_less_exact(void **state) {
  (void)state;
  for (int m = 0; m < 4; m++) {
    study s;
    compute_simulation simulation = spots(models[m], COMPUTE_FIT_IDEAL, 5000, 5);
    simulation.problem.solver = COMPUTE_FIT_LEAST_SQUARES;
    simulate_and_fit(&s, &simulation, 20000);
    assert_true(converged_part(&s) > 0.999);
    for (int32_t a = 0; a < 2; a++) {
      const spread seen = find_spread(&s, a);
      if (fabs(seen.bias) > 3.5 || seen.ratio < 1.05 || seen.ratio > 1.6)
        fail_msg("%s, %s: spread %.4f of the bound, bias %.2f standard errors",
                 compute_fit_model_name(models[m]), compute_fit_parameter_name(models[m], a),
                 seen.ratio, seen.bias);
    }
    release(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bright_spots_are_found_as_exactly_as_the_bound_allows_and_without_bias),
      cmocka_unit_test(usual_spots_are_found_as_exactly_as_the_bound_allows),
      cmocka_unit_test(p_values_are_uniform),
      cmocka_unit_test(p_values_of_wrong_models_are_small),
      cmocka_unit_test(noise_free_spots_are_recovered),
      cmocka_unit_test(dim_elliptical_spots_converge),
      cmocka_unit_test(solvers_agree),
      cmocka_unit_test(least_squares_is_right_but_less_exact),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
