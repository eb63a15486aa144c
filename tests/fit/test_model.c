/* SPDX-License-Identifier: MIT */
/* The model in double precision: its derivatives, the bound that follows from them, and its
 * refusals. */
#include <math.h>
#include <string.h>

#include "core/kernel/common/fit_problem.h"
#include "fit/model.h"
#include "support/harness/test.h"

enum { MOST = COMPUTE_FIT_MAX_SIDE * COMPUTE_FIT_MAX_SIDE };

static compute_fit_problem base_problem(compute_fit_model model, int32_t rows, int32_t columns) {
  return (compute_fit_problem){.model = model,
                               .rows = rows,
                               .columns = columns,
                               .sigma = {1.1, 1.4},
                               .depth = 0.4,
                               .gamma = 0.25,
                               .a = {0.1, -0.2},
                               .b = {0.05, 0.15}};
}

static void fill_parameters(compute_fit_model model, double *p) {
  static const double values[COMPUTE_FIT_MODEL_COUNT][COMPUTE_FIT_MAX_PARAMETERS] = {
      {3.3, 1.6, 850, 7},
      {3.3, 1.6, 850, 7, 1.2},
      {3.3, 1.6, 850, 7, 1.2, 1.5},
      {3.3, 1.6, 0.17, 850, 7}}; /* of Gaussians */
  memcpy(p, values[model], sizeof values[model]);
}

/* ---- Derivatives --------------------------------------------------------------------------- */

static double light_at(const compute_fit_problem *p, const double *parameters, int32_t row,
                       int32_t column) {
  fit_spot spot;
  fit_pixel pixel;
  fit_spot_prepare(&spot, p, NULL, parameters);
  fit_spot_pixel(&spot, row, column, &pixel);
  return pixel.light;
}

static void check_derivatives(const compute_fit_problem *p) {
  double at[COMPUTE_FIT_MAX_PARAMETERS];
  fit_spot spot;
  fit_pixel pixel;
  fill_parameters(p->model, at);
  fit_spot_prepare(&spot, p, NULL, at);
  for (int32_t k = 0; k < compute_fit_parameter_count(p->model); k++) {
    const double step = 1e-4 * (fabs(at[k]) > 1 ? fabs(at[k]) : 1), here = at[k];
    double largest = 0, error = 0;
    for (int32_t i = 0; i < p->rows; i++) {
      for (int32_t j = 0; j < p->columns; j++) {
        /* Fourth-order differences, which allow a large step. */
        double f[4];
        static const int steps[4] = {-2, -1, 1, 2};
        for (int s = 0; s < 4; s++) {
          at[k] = here + steps[s] * step;
          f[s] = light_at(p, at, i, j);
        }
        at[k] = here;
        const double slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
        fit_spot_pixel(&spot, i, j, &pixel);
        error = fmax(error, fabs(slope - pixel.slope[k]));
        largest = fmax(largest, fabs(pixel.slope[k]));
      }
    }
    if (!(error <= 1e-6 * largest))
      fail_msg("model %d, profile %d, parameter %d: %g of %g", (int)p->model, (int)p->profile,
               (int)k, error, largest);
  }
}

static void derivatives_are_those_of_the_model(void **state) {
  (void)state;
  for (int model = 0; model < COMPUTE_FIT_SPLINE; model++) {
    for (int profile = 0; profile < 2; profile++) {
      compute_fit_problem p = base_problem((compute_fit_model)model, 5, 9);
      p.profile = (compute_fit_profile)profile;
      p = fit_problem_normalize(&p);
      check_derivatives(&p);
    }
  }
}

static void a_spot_s_light_is_all_there(void **state) {
  (void)state;
  compute_fit_problem p = {.rows = 33, .columns = 41, .sigma = {1.3}};
  static double image[33 * 41];
  double sum = 0, x = 0, y = 0;
  assert_ok(compute_fit_image(test_context, &p, (double[]){17.3, 15.2, 500, 0}, image));
  for (int i = 0; i < 33; i++) {
    for (int j = 0; j < 41; j++) {
      sum += image[i * 41 + j];
      x += image[i * 41 + j] * j;
      y += image[i * 41 + j] * i;
    }
  }
  assert_true(fabs(sum - 500) < 1e-9);
  assert_true(fabs(x / sum - 17.3) < 1e-9);
  assert_true(fabs(y / sum - 15.2) < 1e-9);
}

/* ---- The bound ----------------------------------------------------------------------------- */

typedef struct bound_case {
  compute_fit_model model;
  int32_t side;
  double sigma, light, background, variance;
  double x, n, bg, width;
} bound_case;

static void bounds_are_those_of_the_literature(void **state) {
  (void)state;
  static const bound_case cases[] = {
      {COMPUTE_FIT_XYNB, 7, 1.0, 1000, 10, 0, 0.0409295, 37.8405, 0.619068, 0},
      {COMPUTE_FIT_XYNBS, 7, 1.0, 1000, 10, 0, 0.0409295, 43.9154, 0.763228, 0.0320610},
      {COMPUTE_FIT_XYNB, 7, 1.3, 1000, 10, 0, 0.0564668, 44.5480, 0.772533, 0},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 0, 0.0562606, 38.4927, 0.339909, 0},
      {COMPUTE_FIT_XYNBSXSY, 11, 1.3, 1000, 10, 0, 0.0562606, 43.5451, 0.379170, 0.0531347},
      {COMPUTE_FIT_XYNB, 11, 1.3, 200, 5, 0, 0.151399, 19.8764, 0.233760, 0},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 25, 0.0738914, 47.7466, 0.613720, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const bound_case *c = &cases[i];
    compute_fit_problem p = {.model = c->model,
                             .rows = c->side,
                             .columns = c->side,
                             .sigma = {c->sigma},
                             .variance = c->variance};
    if (c->variance > 0) p.camera = COMPUTE_FIT_SCMOS;
    const double middle = (c->side - 1) / 2.0;
    const double at[] = {middle, middle, c->light, c->background, c->sigma, c->sigma};
    const double wanted[] = {c->x, c->x, c->n, c->bg, c->width, c->width};
    double std[COMPUTE_FIT_MAX_PARAMETERS];
    assert_ok(compute_fit_crlb(test_context, &p, at, NULL, std, NULL));
    /* The table has six digits. */
    for (int k = 0; k < compute_fit_parameter_count(c->model); k++)
      if (!(fabs(std[k] - wanted[k]) <=
            0.5 * pow(10, floor(log10(wanted[k])) - 5) + 1e-7 * wanted[k]))
        fail_msg("case %zu, parameter %d: %.9g instead of %.9g", i, k, std[k], wanted[k]);
  }
}

/* Without background and with all light inside, the bound has a closed form. */
static void bounds_tend_to_their_limits(void **state) {
  (void)state;
  const double sigma = 1.3, wide = sigma * sigma + 1.0 / 12, light = 2000;
  const compute_fit_problem p = {
      .model = COMPUTE_FIT_XYNBS, .rows = 31, .columns = 31, .sigma = {sigma}, .fixed = 1u << 3};
  double std[COMPUTE_FIT_MAX_PARAMETERS];
  const double at[] = {15.2, 14.7, light, 1e-9, sigma};
  assert_ok(compute_fit_crlb(test_context, &p, at, NULL, std, NULL));
  assert_true(fabs(std[0] / sqrt(wide / light) - 1) < 0.01);
  assert_true(fabs(std[1] / sqrt(wide / light) - 1) < 0.01);
  assert_true(fabs(std[2] / sqrt(light) - 1) < 1e-3);
  assert_true(std[3] == 0);
  assert_true(fabs(std[4] / (wide / (2 * sigma * sqrt(light))) - 1) < 0.02);
}

/* The covariance is the inverse of the information, which this test computes from the image
 * alone. */
static void the_covariance_is_the_inverse_of_the_information(void **state) {
  (void)state;
  enum { K = 5, ROWS = 6, COLUMNS = 9, PIXELS = ROWS * COLUMNS };
  compute_fit_problem p = base_problem(COMPUTE_FIT_XYZNB, ROWS, COLUMNS);
  double at[6], covariance[K * K], up[PIXELS], down[PIXELS], mean[PIXELS], slope[K][PIXELS];
  double variance[PIXELS], std[K];
  p.camera = COMPUTE_FIT_SCMOS;
  fill_parameters(p.model, at);
  for (int i = 0; i < PIXELS; i++) variance[i] = 1 + (i * 7) % 11;
  assert_ok(compute_fit_image(test_context, &p, at, mean));
  for (int k = 0; k < K; k++) {
    const double here = at[k], step = 1e-5 * fmax(1, fabs(here));
    at[k] = here + step;
    assert_ok(compute_fit_image(test_context, &p, at, up));
    at[k] = here - step;
    assert_ok(compute_fit_image(test_context, &p, at, down));
    at[k] = here;
    for (int i = 0; i < PIXELS; i++) slope[k][i] = (up[i] - down[i]) / (2 * step);
  }
  assert_ok(compute_fit_crlb(test_context, &p, at, variance, std, covariance));
  for (int a = 0; a < K; a++) {
    assert_true(fabs(std[a] - sqrt(covariance[a * K + a])) < 1e-12 * std[a]);
    for (int b = 0; b < K; b++) {
      double sum = 0; /* information times covariance, in parameter units */
      for (int c = 0; c < K; c++) {
        double information = 0;
        for (int i = 0; i < PIXELS; i++)
          information += slope[a][i] * slope[c][i] / (mean[i] + variance[i]);
        sum += information * covariance[c * K + b];
      }
      assert_true(fabs(sum * std[a] / std[b] - (a == b)) < 1e-5);
      assert_true(covariance[a * K + b] == covariance[b * K + a]);
    }
  }
}

static void an_emccd_doubles_variances_and_fixed_parameters_have_none(void **state) {
  (void)state;
  compute_fit_problem p = base_problem(COMPUTE_FIT_XYNBSXSY, 7, 8);
  double at[6], plain[36], doubled[36], std[6];
  fill_parameters(p.model, at);
  p.fixed = 1u << 2 | 1u << 4;
  assert_ok(compute_fit_crlb(test_context, &p, at, NULL, NULL, plain));
  p.camera = COMPUTE_FIT_EMCCD;
  p.em_gain = 300;
  p.gain = 12;
  assert_ok(compute_fit_crlb(test_context, &p, at, NULL, std, doubled));
  for (int a = 0; a < 6; a++) {
    for (int b = 0; b < 6; b++) {
      const bool held = (p.fixed >> a & 1) || (p.fixed >> b & 1);
      assert_true(held ? doubled[a * 6 + b] == 0 : doubled[a * 6 + b] == 2 * plain[a * 6 + b]);
    }
    assert_true((std[a] == 0) == ((p.fixed >> a & 1) != 0));
  }
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static void impossible_spots_are_refused(void **state) {
  (void)state;
  const compute_fit_problem p = base_problem(COMPUTE_FIT_XYNBS, 7, 7);
  double image[49], at[] = {3, 3, 100, 1, 0};
  assert_fails(compute_fit_image(test_context, &p, at, image), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "sigma");
  at[4] = 1;
  at[2] = -1;
  assert_fails(compute_fit_image(test_context, &p, at, image), COMPUTE_ERROR_INVALID_ARGUMENT);
  at[2] = (double)NAN;
  assert_fails(compute_fit_crlb(test_context, &p, at, NULL, image, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  at[2] = 100;
  assert_fails(compute_fit_image(test_context, &p, NULL, image), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_fit_image(test_context, &p, at, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_fit_crlb(test_context, &p, at, image, image, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "sCMOS");
  at[2] = 0; /* no light, so the place is undetermined */
  assert_fails(compute_fit_crlb(test_context, &p, at, NULL, image, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "singular");
}

/* Each change of a valid problem is refused, and the message names the field. */
static void problems_are_checked_field_by_field(void **state) {
  (void)state;
  double image[MOST], at[] = {3, 3, 0.1, 100, 1};
#define REFUSED(change, status, name)                                                              \
  do {                                                                                             \
    compute_fit_problem p = base_problem(COMPUTE_FIT_XYZNB, 7, 7);                                 \
    change;                                                                                        \
    assert_fails(compute_fit_image(test_context, &p, at, image), (status));                        \
    test_check_message(test_context, (name));                                                      \
  } while (0)
#define BAD(change, name) REFUSED(change, COMPUTE_ERROR_INVALID_ARGUMENT, name)
  BAD(p.model = (compute_fit_model)COMPUTE_FIT_MODEL_COUNT, "model");
  BAD(p.profile = (compute_fit_profile)2, "profile");
  BAD(p.solver = (compute_fit_solver)-1, "solver");
  BAD(p.camera = (compute_fit_camera)4, "camera");
  BAD(p.rows = 0, "rows");
  BAD(p.columns = 65, "columns");
  BAD(p.iterations = -1, "iterations");
  BAD(p.epsilon = (double)NAN, "epsilon");
  BAD(p.outputs = 1u << 9, "outputs");
  BAD(p.inputs = 1u << 9, "inputs");
  BAD(p.flags = 2, "flags");
  BAD(p.unused = 1, "unused");
  BAD(p.fixed = 1u << 5, "fixed");
  BAD(p.fixed = 31, "fixed");
  BAD((p.start_set = 1, p.start[0] = (double)INFINITY), "start[0]");
  BAD((p.lower_set = 2, p.lower[1] = 7), "lower[1]");
  BAD((p.lower_set = p.upper_set = 8, p.lower[3] = 5, p.upper[3] = 4), "upper[3]");
  BAD((p.upper_set = 4, p.upper[2] = (double)NAN), "upper[2]");
  BAD(p.sigma[0] = 0, "sigma[0]");
  BAD(p.sigma[1] = -1, "sigma[1]");
  BAD(p.depth = 0, "depth");
  BAD(p.gamma = (double)NAN, "gamma");
  BAD(p.a[1] = (double)INFINITY, "a[1]");
  BAD(p.z_start_count = 9, "z_start_count");
  BAD((p.z_start_count = 2, p.z_start[1] = (double)NAN), "z_start[1]");
  BAD(p.offset = 100, "ideal");
  BAD((p.camera = COMPUTE_FIT_SCMOS, p.gain = -1), "gain");
  BAD((p.camera = COMPUTE_FIT_SCMOS, p.em_gain = 2), "em_gain");
  BAD((p.camera = COMPUTE_FIT_EMCCD, p.variance = 2), "variance");
  REFUSED(p.rows = p.columns = 2, COMPUTE_ERROR_SHAPE, "pixels");
#undef BAD
#undef REFUSED
}

/* Equal problems become equal bytes, whatever the unused fields contain. */
static void normal_problems_are_equal_byte_for_byte(void **state) {
  (void)state;
  const compute_fit_problem plain = {.rows = 7, .columns = 9, .sigma = {1.2}};
  compute_fit_problem same = plain;
  same.iterations = 40;
  same.epsilon = 0.01;
  same.outputs = COMPUTE_FIT_USUAL_OUTPUTS;
  same.sigma[1] = 1.2;
  same.gain = same.em_gain = 1;
  same.start[2] = 7;
  same.depth = 3;
  same.z_start_count = 2;
  same.z_start[1] = 4;
  same.flags = COMPUTE_FIT_STACK;
  const compute_fit_problem a = fit_problem_normalize(&plain), b = fit_problem_normalize(&same);
  char reason[200];
  assert_memory_equal(&a, &b, sizeof a);
  assert_true(fit_problem_is_normal(&a, reason, sizeof reason));
  assert_false(fit_problem_is_normal(&plain, reason, sizeof reason));
}

static void everything_has_a_name(void **state) {
  (void)state;
  for (int m = 0; m < COMPUTE_FIT_MODEL_COUNT; m++) {
    const compute_fit_model model = (compute_fit_model)m;
    assert_non_null(compute_fit_model_name(model));
    const int32_t count = compute_fit_parameter_count(model);
    for (int32_t i = 0; i < count; i++) assert_non_null(compute_fit_parameter_name(model, i));
    assert_null(compute_fit_parameter_name(model, count));
    assert_null(compute_fit_parameter_name(model, -1));
  }
  assert_string_equal(compute_fit_parameter_name(COMPUTE_FIT_XYZNB, 3), "photons");
  assert_null(compute_fit_model_name((compute_fit_model)5));
  for (int s = 0; s < COMPUTE_FIT_STATUS_COUNT; s++)
    assert_non_null(compute_fit_status_name((compute_fit_status)s));
  assert_string_equal(compute_fit_status_name(COMPUTE_FIT_BAD_DATA), "BAD_DATA");
  assert_null(compute_fit_status_name((compute_fit_status)6));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(derivatives_are_those_of_the_model),
      cmocka_unit_test(a_spot_s_light_is_all_there),
      cmocka_unit_test(bounds_are_those_of_the_literature),
      cmocka_unit_test(bounds_tend_to_their_limits),
      cmocka_unit_test(the_covariance_is_the_inverse_of_the_information),
      cmocka_unit_test(an_emccd_doubles_variances_and_fixed_parameters_have_none),
      cmocka_unit_test(impossible_spots_are_refused),
      cmocka_unit_test(problems_are_checked_field_by_field),
      cmocka_unit_test(normal_problems_are_equal_byte_for_byte),
      cmocka_unit_test(everything_has_a_name),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
