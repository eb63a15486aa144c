/* SPDX-License-Identifier: MIT */
/* Simulated ROI stacks and movies, through the public interface. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/reference/fit_reference.h"
#include "support/harness/test.h"

#define ROWS    5
#define COLUMNS 9
#define SIZE    (ROWS * COLUMNS)

static const compute_fit_model models[] = {COMPUTE_FIT_XYNB, COMPUTE_FIT_XYNBS,
                                           COMPUTE_FIT_XYNBSXSY, COMPUTE_FIT_XYZNB};

static compute_simulation sample(compute_fit_model model, compute_fit_camera camera) {
  compute_simulation simulation = {.problem = {.model = model,
                                               .camera = camera,
                                               .rows = ROWS,
                                               .columns = COLUMNS,
                                               .sigma = {1.2, 1.4},
                                               .depth = 0.4,
                                               .gamma = 0.2,
                                               .a = {0.1, -0.1},
                                               .b = {0.01, 0.02}},
                                   .seed = 11,
                                   .photons = {200, 2000},
                                   .background = {1, 30},
                                   .position = {-1, 1.5},
                                   .z = {-0.3, 0.4},
                                   .sigma = {0.8, 1.9},
                                   .frame_rows = 40,
                                   .frame_columns = 60,
                                   .spots = 7};
  if (camera != COMPUTE_FIT_IDEAL) {
    simulation.problem.offset = 100;
    simulation.problem.gain = 0.5;
  }
  if (camera == COMPUTE_FIT_EMCCD) simulation.problem.em_gain = 50;
  if (camera == COMPUTE_FIT_SCMOS) simulation.problem.variance = 4;
  return simulation;
}

/* ---- ROIs ----------------------------------------------------------------------------------- */

static void rois_do_not_depend_on_chunks_or_threads(void **state) {
  (void)state;
  enum { COUNT = 1500 };
  static float whole[COUNT * SIZE], pieces[COUNT * SIZE], truth[COUNT * 6], truths[COUNT * 6];
  for (int camera = 0; camera < 3; camera++) {
    compute_simulation s = sample(COMPUTE_FIT_XYNBSXSY, (compute_fit_camera)camera);
    const int64_t first = INT64_C(1) << 40;
    assert_ok(compute_simulate_rois(test_context, &s, first, COUNT, whole, truth));
    for (int64_t at = 0, size = 1; at < COUNT; at += size, size = size * 3 % 700 + 1) {
      int64_t count = at + size < COUNT ? size : COUNT - at;
      assert_ok(compute_simulate_rois(test_context, &s, first + at, count, pieces + at * SIZE,
                                      truths + at * 6));
    }
    assert_memory_equal(whole, pieces, sizeof whole);
    assert_memory_equal(truth, truths, sizeof truth);

    compute_context *other;
    assert_ok(compute_open(&other, &(compute_open_options){.threads = 3}));
    assert_ok(compute_simulate_rois(other, &s, first, COUNT, pieces, NULL));
    test_close(other);
    assert_memory_equal(whole, pieces, sizeof whole);
    s.seed++;
    assert_ok(compute_simulate_rois(test_context, &s, first, COUNT, pieces, NULL));
    assert_memory_not_equal(whole, pieces, sizeof whole);
  }
}

static void truth_lies_in_its_ranges(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static float pixels[COUNT * SIZE], truth[COUNT * 6];
  for (int m = 0; m < 4; m++) {
    const compute_simulation s = sample(models[m], COMPUTE_FIT_IDEAL);
    const compute_range x = {4 - 1, 4 + 1.5}, y = {2 - 1, 2 + 1.5};
    const compute_range flat[] = {x, y, s.photons, s.background, s.sigma, s.sigma};
    const compute_range deep[] = {x, y, s.z, s.photons, s.background};
    const compute_range *ranges = models[m] == COMPUTE_FIT_XYZNB ? deep : flat;
    const int32_t count = compute_fit_parameter_count(models[m]);
    assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, pixels, truth));
    for (int32_t a = 0; a < count; a++) {
      double sum = 0, width = ranges[a].high - ranges[a].low;
      for (int i = 0; i < COUNT; i++) {
        double value = (double)truth[i * count + a];
        assert_true(value >= ranges[a].low - 1e-5 && value <= ranges[a].high + 1e-5 * width);
        sum += (value - ranges[a].low) / width;
      }
      assert_true(fabs(sum / COUNT - 0.5) < 4.5 * sqrt(1.0 / 12 / COUNT));
    }
  }
}

/* Fills the three maps with values that differ at every pixel. */
static void fill_maps(float *offset, float *gain, float *variance, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    offset[i] = 90 + (float)(i % 23);
    gain[i] = 0.3F + 0.01F * (float)(i % 31);
    variance[i] = 0.5F + 0.25F * (float)(i % 17);
  }
}

static void noise_free_rois_are_the_expected_image(void **state) {
  (void)state;
  enum { COUNT = 20 };
  float pixels[COUNT * SIZE], truth[COUNT * 6], offset[SIZE], gain[SIZE], variance[SIZE];
  fill_maps(offset, gain, variance, SIZE);
  for (int m = 0; m < 4; m++) {
    for (int camera = 0; camera < 3; camera++) {
      for (int profile = 0; profile < 2; profile++) {
        compute_simulation s = sample(models[m], (compute_fit_camera)camera);
        const int32_t count = compute_fit_parameter_count(models[m]);
        s.problem.profile = (compute_fit_profile)profile;
        s.noise_free = true;
        if (camera != COMPUTE_FIT_IDEAL) {
          s.offset = offset;
          s.gain = gain;
        }
        assert_ok(compute_simulate_rois(test_context, &s, 3, COUNT, pixels, truth));
        for (int i = 0; i < COUNT; i++) {
          double parameters[6], image[SIZE];
          for (int32_t a = 0; a < count; a++) parameters[a] = (double)truth[i * count + a];
          fit_reference_image(&s.problem, NULL, parameters, image, NULL);
          for (int k = 0; k < SIZE; k++) {
            double value = image[k];
            if (camera == COMPUTE_FIT_EMCCD) value *= 50;
            if (camera != COMPUTE_FIT_IDEAL) value = value / (double)gain[k] + (double)offset[k];
            assert_true(fabs((double)pixels[i * SIZE + k] - value) <= 1e-7 * value);
          }
        }
      }
    }
  }
}

/* Mean and variance of one pixel, in counts, over many ROIs with the same truth. */
static void noise_is_that_of_the_camera(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  float *pixels = malloc(sizeof(float) * COUNT * SIZE), truth[6], expected[SIZE];
  float offset[SIZE], gain[SIZE], variance[SIZE];
  assert_non_null(pixels);
  fill_maps(offset, gain, variance, SIZE);
  for (int camera = 0; camera < 3; camera++) {
    for (int maps = 0; maps < (camera == COMPUTE_FIT_IDEAL ? 1 : 2); maps++) {
      compute_simulation s = sample(COMPUTE_FIT_XYNB, (compute_fit_camera)camera);
      s.photons = (compute_range){900, 900};
      s.background = (compute_range){3, 3};
      s.position = (compute_range){0.2, 0.2};
      s.offset = maps != 0 ? offset : NULL;
      s.gain = maps != 0 ? gain : NULL;
      s.variance = maps != 0 && camera == COMPUTE_FIT_SCMOS ? variance : NULL;
      assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, pixels, NULL));
      s.noise_free = true;
      assert_ok(compute_simulate_rois(test_context, &s, 0, 1, expected, truth));
      for (int k = 0; k < SIZE; k++) {
        const double g = camera == COMPUTE_FIT_IDEAL ? 1 : maps != 0 ? (double)gain[k] : 0.5;
        const double o = camera == COMPUTE_FIT_IDEAL ? 0 : maps != 0 ? (double)offset[k] : 100;
        const double m = camera == COMPUTE_FIT_EMCCD ? 50 : 1;
        const double mu = ((double)expected[k] - o) * g / m;
        double right = mu;
        if (camera == COMPUTE_FIT_EMCCD) right = 2 * mu;
        if (camera == COMPUTE_FIT_SCMOS) right = mu + (maps != 0 ? (double)variance[k] : 4);
        double sum = 0, squares = 0;
        for (int i = 0; i < COUNT; i++) {
          double d = ((double)pixels[i * SIZE + k] - o) * g / m - mu;
          sum += d;
          squares += d * d;
        }
        /* At mu ≥ 3 the fourth moment is below 8 squared variances, for all three cameras. */
        assert_true(fabs(sum / COUNT) < 5 * sqrt(right / COUNT));
        assert_true(fabs(squares / COUNT / right - 1) < 5 * sqrt(7.0 / COUNT));
      }
    }
  }
  free(pixels);
}

static void u16_rounds_and_saturates(void **state) {
  (void)state;
  enum { COUNT = 50 };
  static float exact[COUNT * SIZE];
  static uint16_t whole[COUNT * SIZE];
  compute_simulation s = sample(COMPUTE_FIT_XYNB, COMPUTE_FIT_SCMOS);
  s.photons = (compute_range){0, 1e6};
  s.background = (compute_range){0, 3};
  s.problem.offset = -20; /* darker than black */
  assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, exact, NULL));
  s.dtype = COMPUTE_U16;
  assert_ok(compute_simulate_rois(test_context, &s, 0, COUNT, whole, NULL));
  int low = 0, high = 0;
  for (int i = 0; i < COUNT * SIZE; i++) {
    double value = (double)exact[i];
    low += value < 0;
    high += value > 65535;
    double expected = value < 0 ? 0 : value > 65535 ? 65535 : value;
    assert_true(fabs(whole[i] - expected) <= 0.5 + 1e-6 * fabs(value));
  }
  assert_true(low > 10 && high > 10);
}

/* ---- Movies --------------------------------------------------------------------------------- */

static void movies_do_not_depend_on_chunks_or_bands(void **state) {
  (void)state;
  enum { FRAMES = 5 };
  compute_simulation s = sample(COMPUTE_FIT_XYZNB, COMPUTE_FIT_SCMOS);
  s.frame_rows = 150; /* more than one block of rows */
  s.frame_columns = 900;
  s.dtype = COMPUTE_U16;
  const int64_t size = s.frame_rows * s.frame_columns, first = 70;
  uint16_t *whole = malloc((size_t)(FRAMES * size) * 2),
           *pieces = malloc((size_t)(FRAMES * size) * 2);
  int64_t spots, at = 0;
  assert_ok(compute_simulate_spot_count(test_context, &s, first, FRAMES, &spots));
  assert_true(spots > 5 && spots < 100);
  float *truth = malloc((size_t)spots * 6 * sizeof(float)), *truths = malloc((size_t)spots * 6 * 4);
  assert_true(whole && pieces && truth && truths);
  assert_ok(compute_simulate_movie(test_context, &s, first, FRAMES, whole, truth));
  for (int64_t i = 0; i < FRAMES; i++) {
    int64_t few;
    assert_ok(compute_simulate_spot_count(test_context, &s, first + i, 1, &few));
    assert_ok(
        compute_simulate_movie(test_context, &s, first + i, 1, pieces + i * size, truths + at * 6));
    for (int64_t k = at; k < at + few; k++) assert_true(truths[k * 6] == (float)(first + i));
    at += few;
  }
  assert_true(at == spots);
  assert_memory_equal(whole, pieces, (size_t)(FRAMES * size) * 2);
  assert_memory_equal(truth, truths, (size_t)spots * 6 * 4);
  free(whole);
  free(pieces);
  free(truth);
  free(truths);
}

/* The reference's image is at most 64 wide, like these frames. */
static void movies_show_their_truth(void **state) {
  (void)state;
  enum { FRAMES = 4, SIDE = 60, TALL = 40 };
  static float pixels[FRAMES * TALL * SIDE], truth[400 * 7];
  static double image[TALL * SIDE], one[TALL * SIDE];
  for (int m = 0; m < 4; m++) {
    compute_simulation s = sample(models[m], COMPUTE_FIT_IDEAL);
    const int32_t count = compute_fit_parameter_count(models[m]);
    const int32_t background = models[m] == COMPUTE_FIT_XYZNB ? 4 : 3;
    int64_t spots, next = 0;
    s.noise_free = true;
    assert_ok(compute_simulate_spot_count(test_context, &s, 0, FRAMES, &spots));
    assert_true(spots > 10 && spots < 400);
    assert_ok(compute_simulate_movie(test_context, &s, 0, FRAMES, pixels, truth));
    compute_fit_problem problem = s.problem;
    problem.rows = TALL;
    problem.columns = SIDE;
    for (int frame = 0; frame < FRAMES; frame++) {
      double level = NAN;
      memset(image, 0, sizeof image);
      for (; next < spots && truth[next * (1 + count)] == (float)frame; next++) {
        double parameters[6];
        const float *row = truth + next * (1 + count) + 1;
        for (int32_t a = 0; a < count; a++) parameters[a] = (double)row[a];
        assert_true(isnan(level) || level == parameters[background]);
        level = parameters[background];
        assert_true(row[0] >= -0.5F && row[0] < SIDE - 0.5F && row[1] >= -0.5F &&
                    row[1] < TALL - 0.5F);
        parameters[background] = 0;
        fit_reference_image(&problem, NULL, parameters, one, NULL);
        for (int i = 0; i < TALL * SIDE; i++) image[i] += one[i];
      }
      for (int i = 0; i < TALL * SIDE; i++) {
        /* Five sigma cut off 4e-6 of the peak, which is at most 2000 photons. */
        double value = (double)pixels[frame * TALL * SIDE + i];
        assert_true(fabs(value - image[i] - level) < 1e-6 * value + 0.02);
      }
    }
    assert_true(next == spots);
  }
}

static void the_number_of_spots_is_poisson(void **state) {
  (void)state;
  enum { FRAMES = 4000 };
  compute_simulation s = sample(COMPUTE_FIT_XYNB, COMPUTE_FIT_IDEAL);
  double squares = 0;
  int64_t all;
  for (int64_t i = 0; i < FRAMES; i++) {
    int64_t spots;
    assert_ok(compute_simulate_spot_count(test_context, &s, i, 1, &spots));
    squares += ((double)spots - 7) * ((double)spots - 7);
  }
  assert_ok(compute_simulate_spot_count(test_context, &s, 0, FRAMES, &all));
  assert_true(fabs((double)all / FRAMES - 7) < 4.5 * sqrt(7.0 / FRAMES));
  assert_true(fabs(squares / FRAMES / 7 - 1) < 4.5 * sqrt((2 + 1.0 / 7) / FRAMES));
  s.spots = 0;
  assert_ok(compute_simulate_spot_count(test_context, &s, 0, FRAMES, &all));
  assert_true(all == 0);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Emitters keep their heights, which determine the widths. Truth and image have both. */
static void emitters_stay_at_their_height(void **state) {
  (void)state;
  enum { FRAMES = 500, EMITTERS = 6, P = 5, PIXELS = 40 * 60 };
  static float pixels[PIXELS], truth[EMITTERS * (1 + P)], alone[PIXELS];
  double place[EMITTERS][3];
  int known = 0;
  compute_simulation s = sample(COMPUTE_FIT_XYZNB, COMPUTE_FIT_IDEAL);
  s.emitters = EMITTERS;
  s.spots = 2;
  s.drift[0] = 0.01;
  s.drift[2] = 0.0005;
  s.noise_free = true;
  for (int frame = 0; frame < FRAMES; frame++) {
    int64_t spots;
    assert_ok(compute_simulate_spot_count(test_context, &s, frame, 1, &spots));
    assert_ok(compute_simulate_movie(test_context, &s, frame, 1, pixels, truth));
    for (int64_t k = 0; k < spots; k++) {
      const double x = (double)truth[k * (1 + P) + 1] - 0.01 * frame,
                   y = (double)truth[k * (1 + P) + 2], z = (double)truth[k * (1 + P) + 3];
      int m = 0;
      while (m < known && hypot(place[m][0] - x, place[m][1] - y) > 1e-3) m++;
      assert_true(m < EMITTERS);
      if (m == known)
        place[known][0] = x, place[known][1] = y, place[known++][2] = z - 0.0005 * frame;
      assert_true(fabs(z - 0.0005 * frame - place[m][2]) < 1e-6);
    }
  }
  assert_int_equal(known, EMITTERS);
  double least = place[0][2], most = place[0][2];
  for (int m = 1; m < EMITTERS; m++)
    least = fmin(least, place[m][2]), most = fmax(most, place[m][2]);
  assert_true(most - least > 0.1 * (s.z.high - s.z.low));
  /* Another height gives another image. */
  s.drift[2] = 0;
  assert_ok(compute_simulate_movie(test_context, &s, FRAMES - 1, 1, alone, NULL));
  assert_memory_not_equal(alone, pixels, sizeof pixels);
}

/* Each emitter's place and times are recovered from the truth of single frames, in any order. */
static void emitters_stay_where_they_are_and_blink(void **state) {
  (void)state;
  enum { FRAMES = 3000, EMITTERS = 20, BLINK = 5, P = 4 };
  static float pixels[40 * 60], truth[EMITTERS * (1 + P)];
  static bool on[EMITTERS][FRAMES];
  double place[EMITTERS][2];
  int known = 0;
  int64_t all = 0;
  compute_simulation s = sample(COMPUTE_FIT_XYNB, COMPUTE_FIT_IDEAL);
  s.emitters = EMITTERS;
  s.blink = BLINK;
  s.drift[0] = 0.002;
  s.drift[1] = -0.001;
  for (int i = 0; i < FRAMES; i++) {
    const int frame = (i * 1009) % FRAMES;
    int64_t spots;
    assert_ok(compute_simulate_spot_count(test_context, &s, frame, 1, &spots));
    assert_ok(compute_simulate_movie(test_context, &s, frame, 1, pixels, truth));
    all += spots;
    for (int64_t k = 0; k < spots; k++) {
      const double x = (double)truth[k * (1 + P) + 1] - 0.002 * frame,
                   y = (double)truth[k * (1 + P) + 2] + 0.001 * frame;
      int m = 0;
      while (m < known && hypot(place[m][0] - x, place[m][1] - y) > 1e-3) m++;
      assert_true(m < EMITTERS);
      if (m == known) place[known][0] = x, place[known++][1] = y;
      assert_false(on[m][frame]);
      on[m][frame] = true;
    }
  }
  assert_int_equal(known, EMITTERS);
  for (int m = 0; m < EMITTERS; m++) {
    int begin = 0; /* of a run that is neither the first nor the last */
    for (int f = 1; f < FRAMES; f++) {
      if (on[m][f] == on[m][f - 1]) continue;
      assert_true(begin == 0 || (f - begin) % BLINK == 0);
      begin = f;
    }
  }
  assert_true(fabs((double)all / FRAMES - 7) < 4.5 * sqrt(7.0 * BLINK / FRAMES));
}

static void nonsense_is_refused_with_its_field(void **state) {
  (void)state;
  float pixels[SIZE], truth[7], map[SIZE];
  int64_t spots;
  for (int i = 0; i < SIZE; i++) map[i] = 1;
  map[13] = 0;
  const compute_simulation good = sample(COMPUTE_FIT_XYNBS, COMPUTE_FIT_SCMOS);
#define REFUSED(status, words, change)                                                             \
  do {                                                                                             \
    compute_simulation s = good;                                                                   \
    change;                                                                                        \
    assert_fails(compute_simulate_rois(test_context, &s, 0, 1, pixels, truth), status);            \
    test_check_message(test_context, words);                                                       \
  } while (0)
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "photons", s.photons.low = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "photons", s.photons.high = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "background", s.background.high = (double)NAN);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "background", s.background.high = INFINITY);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "position", s.position.low = -INFINITY);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "sigma", s.sigma.low = 0);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "sigma", s.problem.sigma[0] = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "rows", s.problem.rows = 65);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "rows", s.problem.columns = 0);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "model",
          s.problem.model = (compute_fit_model)COMPUTE_FIT_MODEL_COUNT);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "camera", s.problem.camera = (compute_fit_camera)-1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "gain", s.problem.gain = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "row 1, column 4", s.gain = map);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "variance", s.variance = (map[13] = -1, map));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "offset", s.offset = (map[13] = (float)NAN, map));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "reserved", s.reserved[2] = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "emitters", s.emitters = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "emitters", s.emitters = 6);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "emitters", s.emitters = 1000001);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "blink", s.blink = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "drift", s.drift[1] = (double)NAN);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "has no z", s.drift[2] = 0.1);
  REFUSED(COMPUTE_ERROR_DTYPE, "u16", s.dtype = COMPUTE_F64);

  compute_simulation s = good;
  assert_fails(compute_simulate_rois(test_context, &s, -1, 1, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_simulate_rois(test_context, &s, 0, -1, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_simulate_rois(test_context, &s, 0, INT64_MAX, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_simulate_rois(test_context, &s, INT64_MAX, 2, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_simulate_rois(test_context, &s, 0, 1, NULL, truth),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_simulate_rois(test_context, NULL, 0, 1, pixels, truth),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_simulate_rois(NULL, &s, 0, 1, pixels, truth), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_simulate_rois(test_context, &s, 0, 0, NULL, NULL));

  s.spots = -1;
  assert_fails(compute_simulate_spot_count(test_context, &s, 0, 1, &spots),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  s.spots = 1;
  s.frame_rows = 0;
  assert_fails(compute_simulate_movie(test_context, &s, 0, 1, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  s.frame_rows = s.frame_columns = 1 << 16;
  assert_fails(compute_simulate_movie(test_context, &s, 0, 1, pixels, truth),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  s = good;
  assert_fails(compute_simulate_movie(test_context, &s, 0, 1, NULL, truth),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_simulate_spot_count(test_context, &s, 0, 1, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_simulate_movie(test_context, &s, 0, 0, NULL, NULL));
}

static void a_lack_of_memory_is_an_error_that_leaves_nothing(void **state) {
  (void)state;
  static float pixels[3 * 40 * 60];
  compute_context *context;
  const compute_simulation s = sample(COMPUTE_FIT_XYNB, COMPUTE_FIT_IDEAL);
  assert_int_equal(test_group_close(NULL), 0); /* no other context may be open */
  failing_allocator_install();
  assert_ok(compute_open(&context, NULL));
  /* The first run and the first error leave threads and the error itself allocated. */
  assert_ok(compute_simulate_movie(context, &s, 0, 3, pixels, NULL));
  failing_allocator_arm(1, false);
  assert_fails(compute_simulate_movie(context, &s, 0, 3, pixels, NULL),
               COMPUTE_ERROR_OUT_OF_MEMORY);
  const int64_t live = failing_allocator_live();
  bool succeeded = false;
  for (int64_t nth = 1; nth < 50 && !succeeded; nth++) {
    failing_allocator_arm(nth, false);
    compute_status status = compute_simulate_movie(context, &s, 0, 3, pixels, NULL);
    succeeded = failing_allocator_failures() == 0;
    assert_int_equal(status, succeeded ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_int_equal(failing_allocator_live(), live);
  }
  failing_allocator_arm(0, false);
  assert_true(succeeded);
  compute_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
  assert_int_equal(test_group_open(NULL), 0);
}

/* Simulated images can be reproduced. */
static void images_never_change(void **state) {
  (void)state;
  compute_simulation s = sample(COMPUTE_FIT_XYNBSXSY, COMPUTE_FIT_EMCCD);
  float pixels[SIZE], truth[6];
  uint64_t sum = 0;
  assert_ok(compute_simulate_rois(test_context, &s, 123456789, 1, pixels, truth));
  for (int i = 0; i < SIZE; i++) {
    uint32_t bits;
    memcpy(&bits, &pixels[i], sizeof bits);
    sum = sum * UINT64_C(6364136223846793005) + bits;
  }
  const float expected[] = {0x1.2d0a04p+2F, 0x1.70269p+1F,  0x1.afcf68p+9F,
                            0x1.527078p+2F, 0x1.a182a6p+0F, 0x1.1867dcp+0F};
  assert_memory_equal(truth, expected, sizeof truth);
  assert_true(sum == UINT64_C(0x961642240269dcdb));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rois_do_not_depend_on_chunks_or_threads),
      cmocka_unit_test(truth_lies_in_its_ranges),
      cmocka_unit_test(noise_free_rois_are_the_expected_image),
      cmocka_unit_test(noise_is_that_of_the_camera),
      cmocka_unit_test(u16_rounds_and_saturates),
      cmocka_unit_test(movies_do_not_depend_on_chunks_or_bands),
      cmocka_unit_test(movies_show_their_truth),
      cmocka_unit_test(the_number_of_spots_is_poisson),
      cmocka_unit_test(emitters_stay_where_they_are_and_blink),
      cmocka_unit_test(emitters_stay_at_their_height),
      cmocka_unit_test(nonsense_is_refused_with_its_field),
      cmocka_unit_test(a_lack_of_memory_is_an_error_that_leaves_nothing),
      cmocka_unit_test(images_never_change),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
