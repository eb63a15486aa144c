/* SPDX-License-Identifier: MIT */
/* Fits on the CPU match the double-precision reference: every model, solver, camera and profile, on
 * every instruction set. */
#include "fit_fixture.h"

enum { MANY = 19 }; /* more than the elements of a vector, and not a multiple */

static float records[64 * FIT_COLUMNS];

static void store(compute_dtype dtype, void *pixels, int64_t at, double value) {
  if (dtype == COMPUTE_U16)
    ((uint16_t *)pixels)[at] = (uint16_t)value;
  else
    ((float *)pixels)[at] = (float)value;
}

/* ---- Images without noise ------------------------------------------------------------------ */

typedef struct bound_case {
  compute_fit_model model;
  int32_t side;
  double sigma, photons, background, variance;
  double x, n, bg, s;
} bound_case;

static void uncertainties_are_those_of_the_table(void **state) {
  static const bound_case cases[] = {
      {COMPUTE_FIT_XYNB, 7, 1, 1000, 10, 0, 0.0409295, 37.8405, 0.619068, 0},
      {COMPUTE_FIT_XYNBS, 7, 1, 1000, 10, 0, 0.0409295, 43.9154, 0.763228, 0.0320610},
      {COMPUTE_FIT_XYNB, 7, 1.3, 1000, 10, 0, 0.0564668, 44.5480, 0.772533, 0},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 0, 0.0562606, 38.4927, 0.339909, 0},
      {COMPUTE_FIT_XYNBSXSY, 11, 1.3, 1000, 10, 0, 0.0562606, 43.5451, 0.379170, 0.0531347},
      {COMPUTE_FIT_XYNB, 11, 1.3, 200, 5, 0, 0.151399, 19.8764, 0.233760, 0},
      {COMPUTE_FIT_XYNB, 11, 1.3, 1000, 10, 25, 0.0738914, 47.7466, 0.613720, 0},
  };
  (void)state;
  static double image[FIT_REFERENCE_PIXELS];
  static float pixels[FIT_REFERENCE_PIXELS];
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      const bound_case *c = &cases[i];
      compute_fit_problem p = fit_problem(c->model, c->side, c->side, c->sigma);
      const double middle = 0.5 * (c->side - 1);
      const double truth[] = {middle, middle, c->photons, c->background, c->sigma, c->sigma};
      if (c->variance > 0) p.camera = COMPUTE_FIT_SCMOS;
      p.variance = c->variance;
      fit_reference_image(&p, NULL, truth, image, NULL);
      for (int32_t k = 0; k < c->side * c->side; k++) pixels[k] = (float)image[k];
      const fit_launch l = fit_stack(&p, COMPUTE_F32, 1, pixels, records);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      assert_int_equal(fit_status(&p, records), COMPUTE_FIT_CONVERGED);
      const double expected[] = {c->x, c->x, c->n, c->bg, c->s, c->s};
      for (int32_t a = 0; a < compute_fit_parameter_count(c->model); a++)
        fit_expect("table", (int64_t)i, a, (double)fit_output(&p, records, COMPUTE_FIT_STD, a),
                   expected[a], 1e-4 * expected[a]);
    }
    fixture_close(&f);
  }
}

static void images_without_noise_are_recovered(void **state) {
  (void)state;
  static float pixels[MANY * 99];
  static double image[FIT_REFERENCE_PIXELS], truth[MANY][COMPUTE_FIT_MAX_PARAMETERS];
  test_random random = {.state = 11};
  for (int kind = 0; kind < 2 * COMPUTE_FIT_SPLINE; kind++) {
    compute_fit_problem p = fit_problem((compute_fit_model)(kind / 2), 9, 11, 1.2);
    p.profile = kind % 2 ? COMPUTE_FIT_SAMPLED : COMPUTE_FIT_INTEGRATED;
    p.epsilon = 1e-4;
    for (int64_t i = 0; i < MANY; i++) {
      fit_truth(&p, 1500, 8, &random, truth[i]);
      fit_reference_image(&p, NULL, truth[i], image, NULL);
      for (int32_t k = 0; k < 99; k++) pixels[i * 99 + k] = (float)image[k];
    }
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      if (!fixture_open(&f, 1, fixture_sets[set])) continue;
      const fit_launch l = fit_stack(&p, COMPUTE_F32, MANY, pixels, records);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      for (int64_t i = 0; i < MANY; i++) {
        const float *record = records + i * fit_width(&p);
        assert_int_equal(fit_status(&p, record), COMPUTE_FIT_CONVERGED);
        for (int32_t a = 0; a < compute_fit_parameter_count(p.model); a++)
          fit_expect(fixture_sets[set], i, a,
                     (double)fit_output(&p, record, COMPUTE_FIT_PARAMETERS, a), truth[i][a],
                     1e-5 * (1 + fabs(truth[i][a])));
      }
      fixture_close(&f);
    }
  }
}

/* ---- Images with noise --------------------------------------------------------------------- */

enum { PIXELS = 7 * 9, FEW = 12 };

static void set_camera(compute_fit_problem *p, compute_fit_camera camera) {
  p->camera = camera;
  if (camera == COMPUTE_FIT_EMCCD) {
    p->offset = 100;
    p->gain = 12.5;
    p->em_gain = 300;
  } else if (camera == COMPUTE_FIT_SCMOS) {
    p->offset = 95;
    p->gain = 0.46;
    p->variance = 3.1;
  }
}

static void check_kind(compute_fit_model model, compute_fit_solver solver,
                       compute_fit_camera camera, compute_fit_profile profile,
                       test_random *random) {
  static double values[FEW][PIXELS];
  static uint16_t pixels[FEW * PIXELS];
  static fit_reference_result reference[FEW];
  compute_fit_problem p = fit_problem(model, 7, 9, 1.15);
  p.solver = solver;
  p.profile = profile;
  set_camera(&p, camera);
  if (solver == COMPUTE_FIT_NEWTON) p.iterations = 60;
  if (solver != COMPUTE_FIT_FISHER) p.epsilon = 1e-3;
  for (int64_t i = 0; i < FEW; i++) {
    double truth[COMPUTE_FIT_MAX_PARAMETERS];
    fit_truth(&p, 2500, 9, random, truth);
    fit_expose(&p, NULL, truth, random, values[i]);
    if (camera == COMPUTE_FIT_IDEAL)
      for (int32_t k = 0; k < PIXELS; k++) values[i][k] = floor(values[i][k]);
    for (int32_t k = 0; k < PIXELS; k++) store(COMPUTE_U16, pixels, i * PIXELS + k, values[i][k]);
    fit_reference(&p, values[i], NULL, &reference[i]);
  }
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    char what[64];
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    snprintf(what, sizeof what, "%s model %d solver %d camera %d profile %d", fixture_sets[set],
             (int)model, (int)solver, (int)camera, (int)profile);
    const fit_launch l = fit_stack(&p, COMPUTE_U16, FEW, pixels, records);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < FEW; i++) {
      const float *record = records + i * fit_width(&p);
      const compute_fit_status status = fit_status(&p, record);
      if (status != reference[i].status)
        fail_msg("%s: ROI %lld has status %d instead of %d", what, (long long)i, (int)status,
                 (int)reference[i].status);
      fit_check_optimum(what, i, &p, &reference[i], record, 0.01);
      fit_check_outputs(what, i, &p, values[i], NULL, record);
    }
    fixture_close(&f);
  }
}

static void every_kind_of_fit_agrees_with_the_reference(void **state) {
  (void)state;
  test_random random = {.state = 12};
  for (int model = 0; model < COMPUTE_FIT_SPLINE; model++)
    for (int solver = 0; solver <= COMPUTE_FIT_LEAST_SQUARES; solver++)
      for (int camera = 0; camera <= COMPUTE_FIT_SCMOS; camera++)
        for (int profile = 0; profile <= COMPUTE_FIT_SAMPLED; profile++)
          check_kind((compute_fit_model)model, (compute_fit_solver)solver,
                     (compute_fit_camera)camera, (compute_fit_profile)profile, &random);
}

static void results_are_right_at_any_light_level(void **state) {
  static const double levels[] = {0.05, 0.3, 1, 3, 5, 20, 300, 20000};
  (void)state;
  test_random random = {.state = 17};
  static double values[MANY][PIXELS];
  static float pixels[MANY * PIXELS];
  static fit_reference_result reference[MANY];
  for (int kind = 0; kind < 16; kind++) {
    const double background = levels[kind / 2];
    const compute_fit_problem p =
        fit_problem(kind % 2 ? COMPUTE_FIT_XYNBSXSY : COMPUTE_FIT_XYNB, 7, 9, 1.15);
    for (int64_t i = 0; i < MANY; i++) {
      double truth[COMPUTE_FIT_MAX_PARAMETERS];
      fit_truth(&p, 60 + 50 * background, background, &random, truth);
      fit_expose(&p, NULL, truth, &random, values[i]);
      for (int32_t k = 0; k < PIXELS; k++) pixels[i * PIXELS + k] = (float)values[i][k];
      fit_reference(&p, values[i], NULL, &reference[i]);
    }
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      char what[64];
      int settled = 0;
      if (!fixture_open(&f, 1, fixture_sets[set])) continue;
      snprintf(what, sizeof what, "%s, background %g, kind %d", fixture_sets[set], background,
               kind);
      const fit_launch l = fit_stack(&p, COMPUTE_F32, MANY, pixels, records);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      for (int64_t i = 0; i < MANY; i++) {
        const float *record = records + i * fit_width(&p);
        const compute_fit_status status = fit_status(&p, record);
        if (status == COMPUTE_FIT_SINGULAR) continue;
        fit_check_outputs(what, i, &p, values[i], NULL, record);
        if (status != reference[i].status) continue;
        settled++;
        fit_check_optimum(what, i, &p, &reference[i], record, 0.02);
      }
      assert_true(settled >= MANY - 1); /* the reference does not always converge */
      fixture_close(&f);
    }
  }
}

static void sides_of_any_length_work(void **state) {
  static const int32_t sides[][2] = {{3, 3},   {5, 9},  {9, 5},   {4, 17},
                                     {16, 16}, {17, 3}, {33, 31}, {64, 64}};
  (void)state;
  test_random random = {.state = 13};
  static double values[3][FIT_REFERENCE_PIXELS];
  static float pixels[3 * FIT_REFERENCE_PIXELS];
  static fit_reference_result reference[3];
  for (size_t c = 0; c < sizeof sides / sizeof sides[0]; c++) {
    const compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, sides[c][0], sides[c][1], 1.1);
    const int32_t size = p.rows * p.columns;
    for (int64_t i = 0; i < 3; i++) {
      double truth[COMPUTE_FIT_MAX_PARAMETERS];
      fit_truth(&p, 2500, 9, &random, truth);
      fit_expose(&p, NULL, truth, &random, values[i]);
      for (int32_t k = 0; k < size; k++) pixels[i * size + k] = (float)values[i][k];
      fit_reference(&p, values[i], NULL, &reference[i]);
    }
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      if (!fixture_open(&f, 1, fixture_sets[set])) continue;
      const fit_launch l = fit_stack(&p, COMPUTE_F32, 3, pixels, records);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      for (int64_t i = 0; i < 3; i++) {
        const float *record = records + i * fit_width(&p);
        assert_int_equal(fit_status(&p, record), reference[i].status);
        fit_check_optimum(fixture_sets[set], i, &p, &reference[i], record, 0.01);
        fit_check_outputs(fixture_sets[set], i, &p, values[i], NULL, record);
      }
      fixture_close(&f);
    }
  }
}

/* ---- Maps, corners, masks, parameters of each ROI ------------------------------------------- */

enum { HEIGHT = 31, WIDTH = 43, FRAMES = 3, SPOTS = 21 };

typedef struct scene {
  compute_fit_problem problem;
  float offset[HEIGHT * WIDTH], gain[HEIGHT * WIDTH], variance[HEIGHT * WIDTH];
  uint8_t mask[HEIGHT * WIDTH];
  int32_t corners[SPOTS][3];
  uint16_t movie[FRAMES * HEIGHT * WIDTH], stack[SPOTS * 45];
  float sigma[SPOTS][2], start[SPOTS][5], lower[SPOTS][5], upper[SPOTS][5];
  double values[SPOTS][45];
  fit_reference_result reference[SPOTS];
} scene;

/* Every pixel of the maps differs, and the ROI has different numbers of rows and columns. So
 * swapped axes or a pixel read twice change the results. */
static void make_scene(scene *s, test_random *random) {
  s->problem = fit_problem(COMPUTE_FIT_XYNBS, 5, 9, 1.1);
  s->problem.camera = COMPUTE_FIT_SCMOS;
  for (int32_t k = 0; k < HEIGHT * WIDTH; k++) {
    s->offset[k] = (float)test_random_uniform(random, 90, 110);
    s->gain[k] = (float)test_random_uniform(random, 0.4, 0.6);
    s->variance[k] = (float)test_random_uniform(random, 1, 20);
    s->mask[k] = test_random_integer(random, 0, 9) != 0;
  }
  for (int32_t k = 0; k < FRAMES * HEIGHT * WIDTH; k++) s->movie[k] = 120;
  for (int64_t i = 0; i < SPOTS; i++) {
    s->corners[i][0] = (int32_t)(i % FRAMES);
    s->corners[i][1] = (int32_t)(i / FRAMES / 4) * 13 + (int32_t)(i % 2) * 6;
    s->corners[i][2] = (int32_t)(i / FRAMES % 4) * 11 + (int32_t)(i % 2);
  }
}

static void fill_scene(scene *s, bool masked, bool own, test_random *random) {
  for (int64_t i = 0; i < SPOTS; i++) {
    double offset[45], gain[45], variance[45], sigma[2], start[5], lower[5], upper[5];
    double truth[COMPUTE_FIT_MAX_PARAMETERS];
    uint8_t mask[45];
    fit_reference_inputs inputs = {.offset = offset, .gain = gain, .variance = variance};
    fit_truth(&s->problem, 3000, 9, random, truth);
    for (int axis = 0; axis < 2; axis++)
      sigma[axis] = (double)(s->sigma[i][axis] = (float)test_random_uniform(random, 0.9, 1.3));
    for (int a = 0; a < 5; a++) {
      start[a] = lower[a] = upper[a] = NAN;
      if (i % 5 == a) start[a] = (double)(float)(truth[a] * 1.02);
      if (i % 5 == 3 && a == 4) lower[a] = (double)(float)(truth[a] * 1.2); /* an active bound */
      if (i % 5 == 2 && a == 0) upper[a] = (double)(float)(truth[a] - 0.3);
      s->start[i][a] = (float)start[a];
      s->lower[i][a] = (float)lower[a];
      s->upper[i][a] = (float)upper[a];
    }
    if (masked) inputs.mask = mask;
    if (own) {
      inputs.sigma = sigma;
      inputs.start = start;
      inputs.lower = lower;
      inputs.upper = upper;
    }
    for (int32_t k = 0; k < 45; k++) {
      const int32_t at = (s->corners[i][1] + k / 9) * WIDTH + s->corners[i][2] + k % 9;
      offset[k] = (double)s->offset[at];
      gain[k] = (double)s->gain[at];
      variance[k] = (double)s->variance[at];
      mask[k] = s->mask[at];
    }
    fit_expose(&s->problem, &inputs, truth, random, s->values[i]);
    for (int32_t k = 0; k < 45; k++) {
      const int32_t at = (s->corners[i][1] + k / 9) * WIDTH + s->corners[i][2] + k % 9;
      s->movie[s->corners[i][0] * HEIGHT * WIDTH + at] = (uint16_t)s->values[i][k];
      s->stack[i * 45 + k] = (uint16_t)s->values[i][k];
    }
    fit_reference(&s->problem, s->values[i], &inputs, &s->reference[i]);
    assert_true(s->reference[i].status != COMPUTE_FIT_BAD_DATA);
  }
}

static fit_launch launch_scene(const scene *s, bool stack, bool masked, bool own) {
  fit_launch l = fit_stack(&s->problem, COMPUTE_U16, SPOTS, s->stack, records);
  l.frames = FRAMES;
  l.height = HEIGHT;
  l.width = WIDTH;
  if (!stack) {
    l.problem.flags = 0;
    l.pixels = s->movie;
    l.pixel_stride[0] = HEIGHT * WIDTH;
    l.pixel_stride[1] = WIDTH;
  }
  const void *inputs[FIT_INPUTS] = {s->corners, s->offset, s->gain,  s->variance, s->mask,
                                    s->sigma,   s->start,  s->lower, s->upper};
  static const int64_t strides[FIT_INPUTS][3] = {{3, 1},        {0, WIDTH, 1}, {0, WIDTH, 1},
                                                 {0, WIDTH, 1}, {0, WIDTH, 1}, {2, 1},
                                                 {5, 1},        {5, 1},        {5, 1}};
  for (int bit = 0; bit < FIT_INPUTS; bit++) {
    if ((bit == 4 && !masked) || (bit > 4 && !own)) continue;
    l.input[bit] = inputs[bit];
    memcpy(l.input_stride[bit], strides[bit], sizeof strides[bit]);
  }
  return l;
}

static void maps_masks_and_own_parameters_belong_to_their_pixels(void **state) {
  (void)state;
  static scene s;
  test_random random = {.state = 14};
  make_scene(&s, &random);
  for (int kind = 0; kind < 4; kind++) {
    const bool masked = kind & 1, own = kind >> 1 & 1;
    fill_scene(&s, masked, own, &random);
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      if (!fixture_open(&f, 2, fixture_sets[set])) continue;
      for (int stack = 0; stack < 2; stack++) {
        const fit_launch l = launch_scene(&s, stack, masked, own);
        memset(records, 0, sizeof records);
        assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
        for (int64_t i = 0; i < SPOTS; i++) {
          const float *record = records + i * fit_width(&s.problem);
          if (fit_status(&s.problem, record) != s.reference[i].status)
            fail_msg("%s, masked %d, own %d, stack %d: ROI %lld has status %d, not %d",
                     fixture_sets[set], masked, own, stack, (long long)i,
                     (int)fit_status(&s.problem, record), (int)s.reference[i].status);
          fit_check_optimum(fixture_sets[set], i, &s.problem, &s.reference[i], record, 0.01);
        }
      }
      fixture_close(&f);
    }
  }
}

static void fixed_parameters_and_bounds_hold(void **state) {
  (void)state;
  test_random random = {.state = 15};
  static double values[MANY][PIXELS];
  static float pixels[MANY * PIXELS];
  static fit_reference_result reference[MANY];
  for (int model = 0; model < COMPUTE_FIT_SPLINE; model++) {
    compute_fit_problem p = fit_problem((compute_fit_model)model, 7, 9, 1.15);
    const int32_t background = model == COMPUTE_FIT_XYZNB ? 4 : 3;
    p.fixed = 1u << background;
    p.start_set = 1u << background | 1;
    p.start[background] = 8.5;
    p.start[0] = 4.3;
    p.upper_set = 2;
    p.upper[1] = 3.1; /* about half of the spots are below this bound */
    for (int64_t i = 0; i < MANY; i++) {
      double truth[COMPUTE_FIT_MAX_PARAMETERS];
      fit_truth(&p, 2500, 9, &random, truth);
      fit_expose(&p, NULL, truth, &random, values[i]);
      for (int32_t k = 0; k < PIXELS; k++) pixels[i * PIXELS + k] = (float)values[i][k];
      fit_reference(&p, values[i], NULL, &reference[i]);
    }
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      int bounded = 0;
      if (!fixture_open(&f, 1, fixture_sets[set])) continue;
      const fit_launch l = fit_stack(&p, COMPUTE_F32, MANY, pixels, records);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      for (int64_t i = 0; i < MANY; i++) {
        const float *record = records + i * fit_width(&p);
        const double y = (double)fit_output(&p, record, COMPUTE_FIT_PARAMETERS, 1);
        assert_int_equal(fit_status(&p, record), reference[i].status);
        assert_true(y <= (double)(float)p.upper[1]);
        bounded += fit_status(&p, record) == COMPUTE_FIT_AT_BOUND;
        assert_true(fit_output(&p, record, COMPUTE_FIT_PARAMETERS, background) == 8.5f);
        assert_true(fit_output(&p, record, COMPUTE_FIT_STD, background) == 0);
        fit_check_optimum(fixture_sets[set], i, &p, &reference[i], record, 0.01);
        fit_check_outputs(fixture_sets[set], i, &p, values[i], NULL, record);
      }
      assert_in_range(bounded, 3, MANY - 3);
      fixture_close(&f);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uncertainties_are_those_of_the_table),
      cmocka_unit_test(images_without_noise_are_recovered),
      cmocka_unit_test(every_kind_of_fit_agrees_with_the_reference),
      cmocka_unit_test(results_are_right_at_any_light_level),
      cmocka_unit_test(sides_of_any_length_work),
      cmocka_unit_test(maps_masks_and_own_parameters_belong_to_their_pixels),
      cmocka_unit_test(fixed_parameters_and_bounds_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
