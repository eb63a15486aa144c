/* SPDX-License-Identifier: MIT */
/* Spot finding on images with known spots, on simulated movies, and on noise, where theory gives
 * the rate of false spots. */
#include "spots_fixture.h"

static void the_filter_is_a_gaussian_less_a_wide_one(void **state) {
  (void)state;
  const double sigma = 1.6;
  const compute_spot_options options = {.sigma = sigma};
  movie m = movie_create(1, 47, 47, 0); /* one noise value: both tiles contain the pixel */
  *pixel(&m, 0, 23, 23) = 1000;
  answer a = find(&m, COMPUTE_F32, &options);
  const double share = 1 / 9.0, peak = 1 - share;
  const double scale = (double)a.response[23 * 47 + 23] / peak;
  for (int64_t i = 15; i < 32; i++) /* beyond these pixels, edges change the noise */
    for (int64_t j = 15; j < 32; j++) {
      const double square = (double)((i - 23) * (i - 23) + (j - 23) * (j - 23)) / (sigma * sigma);
      const double exact = exp(-square / 2) - exp(-square / 2 * share) * share;
      assert_true(fabs((double)a.response[i * 47 + j] / scale - exact) < 0.015 * peak);
    }
  assert_int_equal(count_spots(&a, m.count), 1);
  assert_true(a.spot[23 * 47 + 23]);
  answer_release(&a);
  free(m.value);
}

/* Spots on a grid, each somewhere within its pixel. */
static void known_spots_are_found_where_they_are(void **state) {
  (void)state;
  enum { SIDE = 160, STEP = 16 };
  for (int filter = 0; filter <= COMPUTE_SPOT_BOXES; filter++) {
    const compute_spot_options options = {.filter = (compute_spot_filter)filter, .sigma = 1.3};
    test_random random = {5};
    movie m = movie_create(1, SIDE, SIDE, 100);
    double at[100][2];
    int64_t count = 0;
    for (int64_t y = STEP / 2; y < SIDE; y += STEP)
      for (int64_t x = STEP / 2; x < SIDE; x += STEP, count++) {
        at[count][0] = (double)y + test_random_uniform(&random, -0.5, 0.5);
        at[count][1] = (double)x + test_random_uniform(&random, -0.5, 0.5);
        add_spot(&m, 0, at[count][0], at[count][1], 1.3, 90);
      }
    add_noise(&m, 10, 17);
    round_values(&m);
    answer a = find(&m, COMPUTE_U16, &options);
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++) {
      bool near = false;
      for (int64_t i = 0; i < m.count; i++)
        near |=
            a.spot[i] && hypot((double)(i / SIDE) - at[k][0], (double)(i % SIDE) - at[k][1]) < 1.5;
      found += near;
    }
    assert_int_equal(found, count);
    assert_in_range(count_spots(&a, m.count), count, count + 1);
    answer_release(&a);
    free(m.value);
  }
}

/* Returns true if a spot of the frame, other than number `except`, is within `reach` of a place. */
static bool is_near(const float *truth, int64_t spots, int64_t except, int64_t frame, double y,
                    double x, double reach) {
  for (int64_t k = 0; k < spots; k++, truth += 5)
    if (k != except && (int64_t)truth[0] == frame &&
        hypot((double)truth[2] - y, (double)truth[1] - x) < reach)
      return true;
  return false;
}

/* Found and missed spots in a simulated camera movie. Photons follow Poisson's law, and spots may
 * overlap. Only isolated spots must be found. */
static void a_simulated_movie_gives_its_spots_back(void **state) {
  (void)state;
  enum { FRAMES = 40, SIDE = 96 };
  const compute_spot_options options = {.sigma = 1.2, .threshold = 5};
  const compute_simulation simulation = {.problem = {.model = COMPUTE_FIT_XYNB,
                                                     .camera = COMPUTE_FIT_SCMOS,
                                                     .rows = 7,
                                                     .columns = 7,
                                                     .sigma = {1.2},
                                                     .offset = 100,
                                                     .gain = 0.5,
                                                     .variance = 2},
                                         .dtype = COMPUTE_U16,
                                         .seed = 7,
                                         .photons = {500, 2000},
                                         .background = {10, 20},
                                         .frame_rows = SIDE,
                                         .frame_columns = SIDE,
                                         .spots = 12};
  int64_t spots = 0, alone = 0, missed = 0, invented = 0;
  assert_ok(compute_simulate_spot_count(test_context, &simulation, 0, FRAMES, &spots));
  float *truth = malloc((size_t)spots * 5 * sizeof *truth);
  movie m = movie_create(FRAMES, SIDE, SIDE, 0);
  uint16_t *counts = malloc((size_t)m.count * sizeof *counts);
  assert_non_null(truth);
  assert_non_null(counts);
  assert_ok(compute_simulate_movie(test_context, &simulation, 0, FRAMES, counts, truth));
  for (int64_t i = 0; i < m.count; i++) m.value[i] = (float)counts[i];
  answer a = find(&m, COMPUTE_U16, &options);
  for (int64_t k = 0; k < spots; k++) {
    const int64_t frame = (int64_t)truth[5 * k];
    const double x = (double)truth[5 * k + 1], y = (double)truth[5 * k + 2];
    if (is_near(truth, spots, k, frame, y, x, 9)) continue;
    alone++;
    bool found = false;
    for (int64_t i = 0; i < SIDE * SIDE && !found; i++)
      found = a.spot[frame * SIDE * SIDE + i] &&
              hypot((double)(i / SIDE) - y, (double)(i % SIDE) - x) < 1.5;
    missed += !found;
  }
  for (int64_t i = 0; i < m.count; i++)
    invented += a.spot[i] && !is_near(truth, spots, -1, i / (SIDE * SIDE),
                                      (double)(i / SIDE % SIDE), (double)(i % SIDE), 3);
  assert_in_range(alone, 150, spots);
  if (missed > 2 || invented > 4)
    fail_msg("%lld of %lld missed, %lld invented", (long long)missed, (long long)alone,
             (long long)invented);
  answer_release(&a);
  free(counts);
  free(truth);
  free(m.value);
}

/* Rate of local maxima above u of a smooth random field, per area: λ u exp(−u²/2) / (2π)^(3/2),
 * where λ is the variance of its slope (Adler, "The Geometry of Random Fields", 1981). λ is
 * 0.656/sigma² for Gaussians of sigma and 3 sigma. A grid of pixels has slightly fewer maxima. */
static void noise_looks_like_spots_as_rarely_as_theory_says(void **state) {
  (void)state;
  const double sigma = 1.3, threshold = 3.5;
  const compute_spot_options options = {.sigma = sigma, .threshold = threshold},
                             high = {.sigma = sigma, .threshold = 5};
  movie m = movie_create(4, 256, 512, 1000);
  add_noise(&m, 30, 23);
  round_values(&m);
  answer a = find(&m, COMPUTE_U16, &options);
  const double expected = (double)m.count * 0.656 / (sigma * sigma) * threshold *
                          exp(-threshold * threshold / 2) / pow(2 * M_PI, 1.5);
  const double found = (double)count_spots(&a, m.count);
  double power = 0;
  for (int64_t i = 0; i < m.count; i++)
    power += (double)a.response[i] * (double)a.response[i] / (double)m.count;
  if (found < 0.6 * expected || found > 1.1 * expected)
    fail_msg("%g spots in noise; theory says %g", found, expected);
  if (fabs(sqrt(power) - 1) > 0.02) fail_msg("the noise is %g instead of 1", sqrt(power));
  answer_release(&a);
  a = find(&m, COMPUTE_U16, &high);
  assert_in_range(count_spots(&a, m.count), 0, 2);
  answer_release(&a);
  free(m.value);
}

/* The second frame is full of spots; its noise equals the noise of the first. */
static void spots_hardly_count_as_noise(void **state) {
  (void)state;
  const compute_spot_options options = {.sigma = 1.3};
  movie m = movie_create(2, 128, 128, 500);
  add_noise(&m, 10, 31);
  memcpy(pixel(&m, 1, 0, 0), m.value, (size_t)(m.count / 2) * sizeof *m.value);
  for (int64_t y = 6; y < 128; y += 12)
    for (int64_t x = 6; x < 128; x += 12) add_spot(&m, 1, (double)y, (double)x, 1.3, 400);
  answer a = find(&m, COMPUTE_F32, &options);
  assert_in_range(count_spots(&a, m.count), 121, 122);
  /* Differences over one spacing of the spots contain noise only, equal in both frames. */
  double ratio = 0, size = 0;
  for (int64_t y = 24; y < 92; y++)
    for (int64_t x = 24; x < 92; x++) {
      const float *r = a.response + y * 128 + x, *full = r + m.count / 2;
      const double noise = (double)r[0] - (double)r[12];
      ratio += ((double)full[0] - (double)full[12]) * noise;
      size += noise * noise;
    }
  if (fabs(ratio / size - 1) > 0.05) fail_msg("by a factor of %g", size / ratio);
  answer_release(&a);
  free(m.value);
}

/* Patterns of exactly equal pixels. The weights are symmetric, so the pixels stay equal after the
 * filter. */
static void a_plateau_is_one_spot(void **state) {
  (void)state;
  const compute_spot_options options = {.sigma = 1, .distance = 3};
  movie m = movie_create(4, 48, 48, 100);
  *pixel(&m, 0, 20, 20) = *pixel(&m, 0, 20, 21) = 900; /* two neighbours */
  for (int64_t i = 10; i < 12; i++)
    for (int64_t j = 30; j < 32; j++) *pixel(&m, 1, i, j) = 900;
  *pixel(&m, 2, 5, 5) = *pixel(&m, 2, 8, 8) = 900;   /* at the reach of one square */
  *pixel(&m, 2, 30, 5) = *pixel(&m, 2, 34, 9) = 900; /* and farther */
  answer a = find(&m, COMPUTE_U16, &options);
  const int64_t pixels = 48 * 48;
  const answer second = {a.spot + pixels, NULL}, third = {a.spot + 2 * pixels, NULL},
               none = {a.spot + 3 * pixels, NULL};
  assert_int_equal(count_spots(&a, pixels), 1);
  assert_true(a.spot[20 * 48 + 20]); /* the first in row-major order */
  assert_int_equal(count_spots(&second, pixels), 1);
  assert_true(second.spot[10 * 48 + 30]);
  assert_int_equal(count_spots(&third, pixels), 3);
  assert_true(third.spot[5 * 48 + 5] && !third.spot[8 * 48 + 8]);
  assert_int_equal(count_spots(&none, pixels), 0);
  for (int64_t i = 0; i < pixels; i++) assert_true(a.response[3 * pixels + i] == 0);
  answer_release(&a);
  free(m.value);
}

static void frames_do_not_know_of_each_other(void **state) {
  (void)state;
  const compute_spot_options options = {.sigma = 1.3, .threshold = 3};
  movie m = movie_create(3, 50, 61, 300);
  add_noise(&m, 20, 41);
  for (int64_t i = 0; i < m.count / 3; i++) m.value[i] *= 20; /* another frame's noise */
  round_values(&m);
  answer all = find(&m, COMPUTE_U16, &options);
  for (int64_t f = 0; f < 3; f++) {
    movie one = {1, 50, 61, 50 * 61, pixel(&m, f, 0, 0)};
    answer a = find(&one, COMPUTE_U16, &options);
    assert_memory_equal(a.spot, all.spot + f * one.count, (size_t)one.count);
    for (int64_t i = 0; i < one.count; i++)
      assert_true(fabsf(a.response[i] - all.response[f * one.count + i]) <= 1e-4f);
    answer_release(&a);
  }
  answer_release(&all);
  free(m.value);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_filter_is_a_gaussian_less_a_wide_one),
      cmocka_unit_test(known_spots_are_found_where_they_are),
      cmocka_unit_test(a_simulated_movie_gives_its_spots_back),
      cmocka_unit_test(noise_looks_like_spots_as_rarely_as_theory_says),
      cmocka_unit_test(spots_hardly_count_as_noise),
      cmocka_unit_test(a_plateau_is_one_spot),
      cmocka_unit_test(frames_do_not_know_of_each_other),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
