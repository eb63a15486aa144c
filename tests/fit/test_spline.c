/* SPDX-License-Identifier: MIT */
/* Measured spots: the spline through nodes, its values and derivatives. Fits with it attain their
 * bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit/model.h"
#include "core/kernel/common/fit_problem.h"
#include "support/harness/values.h"
#include "support/harness/test.h"
#include "support/reference/fit_reference.h"
#include "support/samples/sample_spline.h"

enum { SIDE = 13, PIXELS = SIDE * SIDE, P = 5, COUNT = 20000 };

/* A problem with an astigmatic Gaussian as its spline. The caller frees `spline`. */
static compute_fit_problem make_problem(int32_t rows, int32_t columns) {
  compute_fit_problem p = {.rows = rows, .columns = columns};
  sample_spline_describe(&p);
  float *coefficients = malloc((size_t)sample_spline_size(&p) * sizeof *coefficients);
  assert_non_null(coefficients);
  sample_spline_fill(&p, coefficients);
  p.spline = coefficients;
  return p;
}

static void release(const compute_fit_problem *p) {
  free((void *)(uintptr_t)p->spline);
}

/* ---- From nodes to a spline ------------------------------------------------------------------ */

enum { PLANES = 6, ROWS = 7, COLUMNS = 9, CELLS = (PLANES - 1) * (ROWS - 1) * (COLUMNS - 1) };

static float coefficients[CELLS * COMPUTE_FIT_SPLINE_COEFFICIENTS];

/* A problem with one pixel, which samples the spline at (x, y, z) in nodes. */
static double value_at(double x, double y, double z) {
  const compute_fit_problem p = {.model = COMPUTE_FIT_SPLINE,
                                 .rows = 1,
                                 .columns = 1,
                                 .spline = coefficients,
                                 .z_step = 1,
                                 .spot = {8, 6},
                                 .cells = {PLANES - 1, ROWS - 1, COLUMNS - 1}};
  const compute_fit_problem n = fit_problem_normalize(&p);
  fit_spot spot;
  fit_pixel pixel;
  fit_spot_prepare(&spot, &n, coefficients, (double[]){8 - x, 6 - y, z, 1, 100});
  fit_spot_pixel(&spot, 0, 0, &pixel);
  return pixel.light - 100;
}

static void make_nodes(float *values) {
  test_random random = {.state = 4};
  for (int i = 0; i < PLANES * ROWS * COLUMNS; i++)
    values[i] = (float)test_random_uniform(&random, -1, 1);
  assert_ok(compute_fit_spline_make(test_context, values, PLANES, ROWS, COLUMNS, coefficients));
}

static void a_spline_goes_through_its_nodes(void **state) {
  static float values[PLANES * ROWS * COLUMNS];
  (void)state;
  make_nodes(values);
  for (int k = 0; k < PLANES; k++)
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLUMNS; j++)
        assert_true(fabs(value_at(j, i, k) - (double)values[(k * ROWS + i) * COLUMNS + j]) < 2e-6);
}

/* Along each axis, compares first and second differences on both sides of a node. */
static void a_spline_is_smooth(void **state) {
  static float values[PLANES * ROWS * COLUMNS];
  const double h = 1e-3;
  (void)state;
  make_nodes(values);
  for (int axis = 0; axis < 3; axis++) {
    double f[5];
    for (int s = 0; s < 5; s++) {
      double at[3] = {3.3, 2.6, 1.7};
      at[axis] = 2 + (s - 2) * h;
      f[s] = value_at(at[0], at[1], at[2]);
    }
    const double left = (3 * f[2] - 4 * f[1] + f[0]) / (2 * h);
    const double right = (4 * f[3] - 3 * f[2] - f[4]) / (2 * h);
    const double bent_left = (f[2] - 2 * f[1] + f[0]) / (h * h);
    const double bent_right = (f[4] - 2 * f[3] + f[2]) / (h * h);
    assert_true(fabs(left - right) < 1e-3);
    assert_true(fabs(bent_left - bent_right) <
                0.2); /* values are up to 10, with f32 coefficients */
  }
}

static void a_gaussian_at_nodes_is_that_gaussian_between_them(void **state) {
  enum { N = 25, Z = 25 };
  static float nodes[Z * N * N];
  (void)state;
  float *c = malloc((size_t)(Z - 1) * (N - 1) * (N - 1) * 64 * sizeof *c);
  assert_non_null(c);
  for (int i = 0; i < Z * N * N; i++)
    nodes[i] = (float)sample_spline_value(i % N - 12, i / N % N - 12, -0.6 + i / (N * N) * 0.05);
  assert_ok(compute_fit_spline_make(NULL, nodes, Z, N, N, c));
  const compute_fit_problem p = {.model = COMPUTE_FIT_SPLINE,
                                 .rows = SIDE,
                                 .columns = SIDE,
                                 .spline = c,
                                 .z_first = -0.6,
                                 .z_step = 0.05,
                                 .spot = {12, 12},
                                 .cells = {Z - 1, N - 1, N - 1}};
  const double at[P] = {6.37, 5.81, 0.123, 1000, 0};
  double image[PIXELS], worst = 0;
  assert_ok(compute_fit_image(test_context, &p, at, image));
  for (int i = 0; i < PIXELS; i++)
    worst = fmax(worst, fabs(image[i] - 1000 * sample_spline_value(i % SIDE - at[0],
                                                                   i / SIDE - at[1], at[2])));
  if (!(worst < 0.4)) fail_msg("%g of a maximum of 71", worst);
  free(c);
}

static void nodes_are_checked(void **state) {
  float values[8] = {0, 0, 0, 0, 0, 0, 0, 0}, c[64];
  (void)state;
  assert_ok(compute_fit_spline_make(test_context, values, 2, 2, 2, c));
  assert_fails(compute_fit_spline_make(test_context, values, 1, 2, 4, c),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  values[3] = NAN;
  assert_fails(compute_fit_spline_make(test_context, values, 2, 2, 2, c),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_fit_spline_make(test_context, NULL, 2, 2, 2, c), COMPUTE_ERROR_NULL_POINTER);
}

/* ---- The model ------------------------------------------------------------------------------- */

static void values_and_derivatives_are_the_reference_s(void **state) {
  static double image[PIXELS], slopes[PIXELS * P], low[PIXELS], high[PIXELS];
  (void)state;
  compute_fit_problem p = make_problem(SIDE, SIDE - 2);
  const compute_fit_problem n = fit_problem_normalize(&p);
  const double at[P] = {5.3, 6.2, 0.137, 850, 7};
  const int pixels = SIDE * (SIDE - 2);
  fit_spot spot;
  fit_pixel pixel;
  fit_spot_prepare(&spot, &n, p.spline, at);
  fit_reference_image(&p, NULL, at, image, slopes);
  for (int a = 0; a < P; a++) {
    double moved[P], largest = 0, error = 0;
    memcpy(moved, at, sizeof moved);
    moved[a] = at[a] + 1e-5;
    fit_reference_image(&p, NULL, moved, high, NULL);
    moved[a] = at[a] - 1e-5;
    fit_reference_image(&p, NULL, moved, low, NULL);
    for (int i = 0; i < pixels; i++) {
      fit_spot_pixel(&spot, i / (SIDE - 2), i % (SIDE - 2), &pixel);
      assert_true(fabs(pixel.light - image[i]) < 1e-9);
      assert_true(fabs(pixel.slope[a] - slopes[i * P + a]) < 1e-9 * (1 + fabs(pixel.slope[a])));
      error = fmax(error, fabs((high[i] - low[i]) / 2e-5 - slopes[i * P + a]));
      largest = fmax(largest, fabs(slopes[i * P + a]));
    }
    assert_true(error < 1e-6 * largest);
  }
  release(&p);
}

static void bounds_are_the_reference_s(void **state) {
  (void)state;
  compute_fit_problem p = make_problem(SIDE, SIDE);
  for (double z = -0.55; z < 0.6; z += 0.1) {
    const double at[P] = {6.1, 5.8, z, 2000, 20};
    double std[P], expected[P];
    assert_ok(compute_fit_crlb(test_context, &p, at, NULL, std, NULL));
    assert_true(fit_reference_bound(&p, NULL, at, expected, NULL));
    for (int a = 0; a < P; a++) assert_true(fabs(std[a] / expected[a] - 1) < 1e-7);
  }
  release(&p);
}

/* ---- Fits ------------------------------------------------------------------------------------ */

typedef struct study {
  float *pixels, *truth, *fitted, *std, *p_value;
  uint8_t *status;
} study;

static study make_study(void) {
  const study s = {
      malloc((size_t)COUNT * PIXELS * sizeof(float)), malloc((size_t)COUNT * P * sizeof(float)),
      malloc((size_t)COUNT * P * sizeof(float)),      malloc((size_t)COUNT * P * sizeof(float)),
      malloc((size_t)COUNT * sizeof(float)),          malloc((size_t)COUNT)};
  assert_true(s.pixels && s.truth && s.fitted && s.std && s.p_value && s.status);
  return s;
}

static void free_study(study *s) {
  void *const all[] = {s->pixels, s->truth, s->fitted, s->std, s->p_value, s->status};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void fit_study(const compute_fit_problem *p, int64_t batch, study *s) {
  compute_fit *fit;
  assert_ok(compute_fit_create(test_context, &(compute_fit_options){.problem = *p, .batch = batch},
                               &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = s->pixels},
                                                       .count = COUNT,
                                                       .results = {.parameters = s->fitted,
                                                                   .std = s->std,
                                                                   .p_value = s->p_value,
                                                                   .status = s->status}},
                            NULL));
  compute_fit_release(fit);
}

static compute_simulation spots_at(const compute_fit_problem *p, double low, double high) {
  compute_simulation s = {.problem = *p, .seed = 11};
  s.photons = (compute_range){2000, 2000};
  s.background = (compute_range){20, 20};
  s.position = (compute_range){-0.7, 0.7};
  s.z = (compute_range){low, high};
  return s;
}

/* The spread is within 5 % of the bound, and biases are below a tenth of the spread. */
static void check_study(const study *s, double z) {
  int64_t good = 0;
  double sum[P] = {0}, square[P] = {0}, p_value = 0;
  for (int64_t i = 0; i < COUNT; i++) {
    if (s->status[i] != COMPUTE_FIT_CONVERGED) continue;
    good++;
    p_value += (double)s->p_value[i];
    for (int a = 0; a < P; a++) {
      const int64_t at = i * P + a;
      const double error = (double)(s->fitted[at] - s->truth[at]) / (double)s->std[at];
      sum[a] += error;
      square[a] += error * error;
    }
  }
  if ((double)good < COUNT * 0.995) fail_msg("z = %g: %lld converged", z, (long long)good);
  for (int a = 0; a < P; a++) {
    const double bias = sum[a] / (double)good;
    const double spread = sqrt(square[a] / (double)good - bias * bias);
    if (!(fabs(spread - 1) < 0.05 && fabs(bias) < 0.1))
      fail_msg("z = %g, parameter %d: spread %.4f, bias %.4f of the bound", z, a, spread, bias);
  }
  assert_true(fabs(p_value / (double)good - 0.5) < 0.02);
}

static void fits_attain_their_bounds_at_any_height(void **state) {
  (void)state;
  compute_fit_problem p = make_problem(SIDE, SIDE);
  study s = make_study();
  for (double z = -0.45; z < 0.4; z += 0.3) {
    const compute_simulation spots = spots_at(&p, z, z + 0.3);
    assert_ok(compute_simulate_rois(test_context, &spots, 0, COUNT, s.pixels, s.truth));
    fit_study(&p, 0, &s);
    check_study(&s, z);
  }
  free_study(&s);
  release(&p);
}

static void fits_attain_their_bounds_with_every_camera(void **state) {
  (void)state;
  study s = make_study();
  for (int camera = COMPUTE_FIT_EMCCD; camera <= COMPUTE_FIT_SCMOS; camera++) {
    compute_fit_problem p = make_problem(SIDE, SIDE);
    p.camera = (compute_fit_camera)camera;
    p.offset = 100;
    p.gain = 0.5;
    if (camera == COMPUTE_FIT_SCMOS) p.variance = 4;
    compute_simulation spots = spots_at(&p, -0.3, 0.3);
    assert_ok(compute_simulate_rois(test_context, &spots, 0, COUNT, s.pixels, s.truth));
    fit_study(&p, 0, &s);
    check_study(&s, camera);
    release(&p);
  }
  free_study(&s);
}

/* At the fitted parameters; also on a fixed background, and where the spline is negative. */
static void the_significance_is_the_reference_s(void **state) {
  enum { MANY = 50 };
  static float significance[MANY];
  static double pixels[PIXELS];
  (void)state;
  study s = make_study();
  for (int kind = 0; kind < 9; kind++) {
    compute_fit_problem p = make_problem(SIDE, SIDE);
    p.camera = (compute_fit_camera)(kind % 3);
    if (p.camera != COMPUTE_FIT_IDEAL) p.offset = 100, p.gain = 0.5;
    if (p.camera == COMPUTE_FIT_SCMOS) p.variance = 4;
    compute_simulation spots = spots_at(&p, -0.3, 0.3);
    if (kind / 3 == 1) p.fixed = p.start_set = 1u << 4, p.start[4] = 17;
    if (kind / 3 == 2) {
      float *c = (float *)(uintptr_t)p.spline;
      for (int64_t n = 0; n < sample_spline_size(&p); n += 64) c[n] -= 1e-3f;
      spots.background = (compute_range){0.5, 0.5};
    }
    p.outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STATUS | COMPUTE_FIT_SIGNIFICANCE;
    assert_ok(compute_simulate_rois(test_context, &spots, 0, MANY, s.pixels, s.truth));
    compute_fit *fit;
    assert_ok(compute_fit_create(test_context, &(compute_fit_options){.problem = p}, &fit));
    assert_ok(compute_fit_run(
        fit,
        &(compute_fit_run_options){
            .pixels = {.array = s.pixels},
            .count = MANY,
            .results = {.parameters = s.fitted, .status = s.status, .significance = significance}},
        NULL));
    compute_fit_release(fit);
    compute_fit_problem n = fit_problem_normalize(&p);
    n.spline = p.spline;
    for (int i = 0; i < MANY; i++) {
      double own[P];
      fit_reference_result e;
      if (s.status[i] == COMPUTE_FIT_BAD_DATA) continue;
      for (int k = 0; k < PIXELS; k++) pixels[k] = (double)s.pixels[i * PIXELS + k];
      for (int a = 0; a < P; a++) own[a] = (double)s.fitted[i * P + a];
      fit_reference_at(&n, pixels, NULL, own, &e);
      if (!(fabs((double)significance[i] - e.significance) < 2e-3 + 1e-4 * e.significance))
        fail_msg("kind %d, ROI %d: %g, not %g", kind, i, (double)significance[i], e.significance);
    }
    release(&p);
  }
  free_study(&s);
}

static void batches_do_not_change_a_bit(void **state) {
  (void)state;
  compute_fit_problem p = make_problem(SIDE, SIDE);
  study a = make_study(), b = make_study();
  const compute_simulation spots = spots_at(&p, -0.5, 0.5);
  assert_ok(compute_simulate_rois(test_context, &spots, 0, COUNT, a.pixels, a.truth));
  memcpy(b.pixels, a.pixels, (size_t)COUNT * PIXELS * sizeof(float));
  fit_study(&p, 0, &a);
  fit_study(&p, 1013, &b);
  assert_memory_equal(a.fitted, b.fitted, (size_t)COUNT * P * sizeof(float));
  assert_memory_equal(a.std, b.std, (size_t)COUNT * P * sizeof(float));
  assert_memory_equal(a.status, b.status, COUNT);
  free_study(&a);
  free_study(&b);
  release(&p);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuses(compute_fit_problem p, const char *field) {
  compute_fit *fit = NULL;
  assert_int_not_equal(compute_fit_create(test_context, &(compute_fit_options){.problem = p}, &fit),
                       COMPUTE_OK);
  if (!strstr(compute_error_message(test_context), field))
    fail_msg("'%s' does not name %s", compute_error_message(test_context), field);
}

static void what_a_spline_cannot_do_is_refused(void **state) {
  (void)state;
  const compute_fit_problem good = make_problem(SIDE, SIDE);
  compute_fit_problem p = good;
  p.profile = COMPUTE_FIT_SAMPLED;
  refuses(p, "profile");
  p = good;
  p.solver = COMPUTE_FIT_NEWTON;
  refuses(p, "solver");
  p = good;
  p.cells[1] = SIDE - 1;
  refuses(p, "cells");
  p = good;
  p.z_step = 0;
  refuses(p, "z_step");
  p = good;
  p.spline = NULL;
  refuses(p, "spline");
  p = good;
  p.spot[0] = -20;
  refuses(p, "lower[0]");
  const double outside[P] = {-0.4, 6, 0, 1000, 1};
  double image[PIXELS];
  assert_fails(compute_fit_image(test_context, &good, outside, image),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  release(&good);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_spline_goes_through_its_nodes),
      cmocka_unit_test(a_spline_is_smooth),
      cmocka_unit_test(a_gaussian_at_nodes_is_that_gaussian_between_them),
      cmocka_unit_test(nodes_are_checked),
      cmocka_unit_test(values_and_derivatives_are_the_reference_s),
      cmocka_unit_test(bounds_are_the_reference_s),
      cmocka_unit_test(fits_attain_their_bounds_at_any_height),
      cmocka_unit_test(fits_attain_their_bounds_with_every_camera),
      cmocka_unit_test(the_significance_is_the_reference_s),
      cmocka_unit_test(batches_do_not_change_a_bit),
      cmocka_unit_test(what_a_spline_cannot_do_is_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
