/* SPDX-License-Identifier: MIT */
/* Spots of 400 photons on uneven backgrounds with Poisson noise, at the default threshold. On a
 * background of 300 photons, the best filter sees 400 photons at 4.9 standard deviations; a filter
 * that must estimate the background sees them at 4.6. */
#include "spots_fixture.h"

enum { FRAMES = 24, SIDE = 192, GRID = 24, PHOTONS = 400 };

#define SIGMA 1.3

typedef enum shape { FLAT_10, FLAT_100, RAMP, BLOB, SHAPES } shape;

static const char *const name[] = {"flat, 10", "flat, 100", "ramp, 5 to 200", "blob, 10 to 300"};

static double background_of(shape kind, double y, double x) {
  const double a = y - SIDE / 2, b = x - SIDE / 2, width = SIDE / 5.0;
  switch (kind) {
  case FLAT_10: return 10;
  case FLAT_100: return 100;
  case RAMP: return 5 + 195 * x / (SIDE - 1);
  default: return 10 + 290 * exp(-(a * a + b * b) / (2 * width * width));
  }
}

static double light_in(double centre, double pixel) {
  return 0.5 * (erf((pixel + 0.5 - centre) / (SIGMA * M_SQRT2)) -
                erf((pixel - 0.5 - centre) / (SIGMA * M_SQRT2)));
}

/* Poisson draws: the normal approximation above 30, products of uniforms below. */
static double draw(test_random *random, double mean) {
  if (mean > 30) return fmax(0, rint(mean + sqrt(mean) * normal(random)));
  double product = test_random_uniform(random, 0, 1);
  int count = 0;
  for (; product > exp(-mean); count++) product *= test_random_uniform(random, 0, 1);
  return count;
}

/* Spots on a grid, each one somewhere in the middle of its square. Returns their number. */
static int64_t make_movie(shape kind, movie *m, double (*at)[3]) {
  test_random random = {91 + (uint64_t)kind};
  int64_t count = 0;
  for (int64_t f = 0; f < FRAMES; f++) {
    for (int64_t y = 0; y < SIDE; y++)
      for (int64_t x = 0; x < SIDE; x++)
        *pixel(m, f, y, x) = (float)background_of(kind, (double)y, (double)x);
    for (int64_t y = GRID / 2; y < SIDE; y += GRID)
      for (int64_t x = GRID / 2; x < SIDE; x += GRID, count++) {
        double *place = at[count];
        place[0] = (double)f;
        place[1] = (double)y + test_random_uniform(&random, -6, 6);
        place[2] = (double)x + test_random_uniform(&random, -6, 6);
        for (int64_t i = y - 12; i < y + 12; i++)
          for (int64_t j = x - 12; j < x + 12; j++)
            *pixel(m, f, i, j) +=
                (float)(PHOTONS * light_in(place[1], (double)i) * light_in(place[2], (double)j));
      }
  }
  for (int64_t i = 0; i < m->count; i++) m->value[i] = (float)draw(&random, (double)m->value[i]);
  return count;
}

typedef struct score {
  int64_t found, right, marked;
} score;

/* Marks within 1.5 pixels of a spot are correct. */
static score judge(const movie *m, const answer *a, double (*at)[3], int64_t count) {
  score s = {0};
  for (int64_t i = 0; i < m->count; i++) s.marked += a->spot[i];
  for (int64_t k = 0; k < count; k++) {
    bool near = false;
    for (int64_t y = (int64_t)at[k][1] - 2; y <= (int64_t)at[k][1] + 3; y++)
      for (int64_t x = (int64_t)at[k][2] - 2; x <= (int64_t)at[k][2] + 3; x++) {
        const int64_t p = ((int64_t)at[k][0] * SIDE + y) * SIDE + x;
        if (!a->spot[p] || hypot((double)y - at[k][1], (double)x - at[k][2]) > 1.5) continue;
        near = true;
        s.right++;
      }
    s.found += near;
  }
  return s;
}

static void uneven_backgrounds_are_no_spots(void **state) {
  (void)state;
  if (test_spread() > 1) test_skip("test_spots.c has the same graph, once for each device");
  const compute_spot_options options = {.sigma = SIGMA};
  static double at[FRAMES * (SIDE / GRID) * (SIDE / GRID)][3];
  movie m = movie_create(FRAMES, SIDE, SIDE, 0);
  for (int kind = 0; kind < SHAPES; kind++) {
    const int64_t count = make_movie((shape)kind, &m, at);
    answer a = find(&m, COMPUTE_U16, &options);
    const score s = judge(&m, &a, at, count);
    const double precision = (double)s.right / (double)s.marked;
    const double recall = (double)s.found / (double)count;
    print_message("%s: precision %.4f, recall %.4f of %lld spots\n", name[kind], precision, recall,
                  (long long)count);
    if (precision < 0.99 || recall < 0.99) fail_msg("%s", name[kind]);
    answer_release(&a);
  }
  free(m.value);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uneven_backgrounds_are_no_spots),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
