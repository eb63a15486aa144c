/* SPDX-License-Identifier: MIT */
/* Spot finding compared with plain loops in double, at borders and beside bad pixels, and refusals.
 * Runs on the device under test. If a device compiles each width and each pattern of strides
 * separately (test_spread), a few cases are enough. */
#include "spots_fixture.h"

/* ---- The reference ------------------------------------------------------------------------- */

static double continued(const movie *m, int64_t frame, int64_t y, int64_t x) {
  y = y < 0 ? 0 : y >= m->height ? m->height - 1 : y;
  x = x < 0 ? 0 : x >= m->width ? m->width - 1 : x;
  return (double)*pixel(m, frame, y, x);
}

/* A square stencil with weights w[|i|] w[|j|] on rows of `width` elements. */
static double stencil(const double *from, int64_t width, const double *w, int32_t radius) {
  double sum = 0;
  for (int32_t i = -radius; i <= radius; i++)
    for (int32_t j = -radius; j <= radius; j++) sum += w[abs(i)] * w[abs(j)] * from[i * width + j];
  return sum;
}

static void gaussian_weights(double sigma, int32_t radius, double *w) {
  double sum = 0;
  for (int32_t i = 0; i <= radius; i++) w[i] = exp(-i * i / (2 * sigma * sigma));
  for (int32_t i = -radius; i <= radius; i++) sum += w[abs(i)];
  for (int32_t i = 0; i <= radius; i++) w[i] /= sum;
}

enum { MOST_RADIUS = 64 };

static void filter_gaussians(const movie *m, int64_t frame, double sigma, double *result) {
  double w[MOST_RADIUS], wide_w[MOST_RADIUS];
  const int32_t r = (int32_t)ceil(3 * sigma), wide = (int32_t)ceil(2 * sqrt(8) * sigma);
  gaussian_weights(sigma, r, w);
  gaussian_weights(sqrt(8) * sigma, wide, wide_w);
  const int64_t h1 = m->height + 2 * wide, w1 = m->width + 2 * wide, w0 = w1 + 2 * r;
  double *all = malloc((size_t)((h1 + 2 * r) * w0) * sizeof *all);
  double *once = malloc((size_t)(h1 * w1) * sizeof *once);
  assert_non_null(all);
  assert_non_null(once);
  for (int64_t i = 0; i < h1 + 2 * r; i++)
    for (int64_t j = 0; j < w0; j++)
      all[i * w0 + j] = continued(m, frame, i - wide - r, j - wide - r);
  for (int64_t i = 0; i < h1; i++)
    for (int64_t j = 0; j < w1; j++)
      once[i * w1 + j] = stencil(&all[(i + r) * w0 + j + r], w0, w, r);
  for (int64_t i = 0; i < m->height; i++)
    for (int64_t j = 0; j < m->width; j++) {
      const double *at = &once[(i + wide) * w1 + j + wide];
      result[i * m->width + j] = *at - stencil(at, w1, wide_w, wide);
    }
  free(all);
  free(once);
}

static double box_mean(const movie *m, int64_t frame, int64_t y, int64_t x, int32_t radius) {
  double sum = 0;
  for (int64_t i = y - radius; i <= y + radius; i++)
    for (int64_t j = x - radius; j <= x + radius; j++) sum += continued(m, frame, i, j);
  return sum / ((2 * radius + 1) * (2 * radius + 1));
}

static void filter_boxes(const movie *m, int64_t frame, double sigma, double *result) {
  const int32_t r = sigma < 0.5 ? 0 : (int32_t)round(sigma - 0.5);
  const int32_t asked = (int32_t)round(4 * sigma - 0.5), wide = asked > r ? asked : r + 1;
  for (int64_t i = 0; i < m->height; i++)
    for (int64_t j = 0; j < m->width; j++)
      result[i * m->width + j] = box_mean(m, frame, i, j, r) - box_mean(m, frame, i, j, wide);
}

/* Root mean square of second differences of second differences over one tile, without the elements
 * beyond 2.5 times itself. The frames are small enough for every pixel to count. 36 is the sum of
 * the squared weights. */
static double tile_noise(const movie *m, int64_t frame, int64_t top, int64_t rows, int64_t left,
                         int64_t columns) {
  const int64_t count = rows * columns;
  double *x = malloc((size_t)count * sizeof *x), noise = 0;
  assert_non_null(x);
  for (int64_t k = 0; k < count; k++) {
    const int64_t i = top + k / columns, j = left + k % columns;
    static const double w[] = {1, -2, 1};
    x[k] = 0;
    for (int64_t a = 0; a < 3; a++)
      for (int64_t b = 0; b < 3; b++) x[k] += w[a] * w[b] * (double)*pixel(m, frame, i + a, j + b);
    noise += fabs(x[k]) / (double)count * sqrt(M_PI / 2);
  }
  const double least = 1e-3 * noise;
  for (int round = 0; round < 3; round++) {
    double power = 0, within = 0;
    for (int64_t k = 0; k < count; k++)
      if (fabs(x[k]) <= 2.5 * noise) power += x[k] * x[k], within++;
    noise = fmax(sqrt(power / fmax(within, 1)) / 0.9546038, least);
  }
  free(x);
  return noise / sqrt(36);
}

/* The tiles of one axis. They cover all pixels except the outer ones with as few overlapping tiles
 * of 24 as possible. */
typedef struct axis {
  int64_t count, size;
  double apart;
} axis;

static axis axis_of(int64_t pixels) {
  const int64_t inner = pixels - 2, size = inner < 24 ? inner : 24, count = (inner + 23) / 24;
  return (axis){count, size, count > 1 ? (double)(inner - size) / (double)(count - 1) : 1};
}

/* The two tiles around a pixel, weighted by its distance from their middles. */
static void find_neighbours(const axis *a, int64_t pixel, int64_t tile[2], double *part) {
  const double middle = 0.5 * (double)(a->size - 1) + 1;
  const double at = fmin(fmax(((double)pixel - middle) / a->apart, 0), (double)(a->count - 1));
  tile[0] = (int64_t)at;
  tile[1] = tile[0] + 1 < a->count ? tile[0] + 1 : tile[0];
  *part = at - (double)tile[0];
}

/* The noise at each pixel, from the interpolated variances of tiles. */
static void noise_of(const movie *m, int64_t frame, double *noise) {
  const axis down = axis_of(m->height), along = axis_of(m->width);
  double variance[16];
  assert_true(down.count * along.count <= 16);
  for (int64_t i = 0; i < down.count; i++)
    for (int64_t k = 0; k < along.count; k++) {
      const double tile = tile_noise(m, frame, (int64_t)((double)i * down.apart), down.size,
                                     (int64_t)((double)k * along.apart), along.size);
      variance[i * along.count + k] = tile * tile;
    }
  for (int64_t y = 0; y < m->height; y++)
    for (int64_t x = 0; x < m->width; x++) {
      int64_t row[2], column[2];
      double v, h;
      find_neighbours(&down, y, row, &v);
      find_neighbours(&along, x, column, &h);
      const double *a = variance + row[0] * along.count, *b = variance + row[1] * along.count;
      noise[y * m->width + x] = sqrt((1 - v) * ((1 - h) * a[column[0]] + h * a[column[1]]) +
                                     v * ((1 - h) * b[column[0]] + h * b[column[1]]));
    }
}

/* The filter's response to noise. Along an axis, aa, ab and bb are sums over all pixels of products
 * of the weights of the narrow and the wide part. An axis is the first row of a frame that the
 * other axis does not change. */
typedef struct axis_noise {
  double aa, ab, bb;
} axis_noise;

static void axis_weights(const compute_spot_options *o, int64_t at, int64_t size, double *a,
                         double *b) {
  const double sigma = o->sigma;
  double w[MOST_RADIUS], wide_w[MOST_RADIUS];
  int32_t r = (int32_t)ceil(3 * sigma), wide = (int32_t)ceil(2 * sqrt(8) * sigma);
  memset(a, 0, (size_t)size * sizeof *a);
  memset(b, 0, (size_t)size * sizeof *b);
  if (o->filter == COMPUTE_SPOT_BOXES) {
    r = sigma < 0.5 ? 0 : (int32_t)round(sigma - 0.5);
    wide = (int32_t)round(4 * sigma - 0.5) > r ? (int32_t)round(4 * sigma - 0.5) : r + 1;
  } else {
    gaussian_weights(sigma, r, w);
    gaussian_weights(sqrt(8) * sigma, wide, wide_w);
  }
  for (int32_t i = -r - wide; i <= r + wide; i++) {
    const int64_t to = at + i < 0 ? 0 : at + i >= size ? size - 1 : at + i;
    if (o->filter == COMPUTE_SPOT_BOXES) {
      if (abs(i) <= r) a[to] += 1.0 / (2 * r + 1);
      if (abs(i) <= wide) b[to] += 1.0 / (2 * wide + 1);
      continue;
    }
    if (abs(i) <= r) a[to] += w[abs(i)];
    for (int32_t k = -r; k <= r; k++)
      if (abs(i - k) <= wide) b[to] += w[abs(k)] * wide_w[abs(i - k)];
  }
}

static axis_noise axis_noise_at(const compute_spot_options *o, int64_t at, int64_t size) {
  double a[512], b[512];
  axis_noise n = {0};
  assert_true(size <= 512);
  axis_weights(o, at, size, a, b);
  for (int64_t i = 0; i < size; i++) {
    n.aa += a[i] * a[i];
    n.ab += a[i] * b[i];
    n.bb += b[i] * b[i];
  }
  return n;
}

static double gain_at(const compute_spot_options *o, const movie *m, int64_t y, int64_t x) {
  const axis_noise down = axis_noise_at(o, y, m->height), along = axis_noise_at(o, x, m->width);
  return sqrt(down.aa * along.aa - 2 * down.ab * along.ab + down.bb * along.bb);
}

/* The reference's verdict by the response and the filtered frame: 1 for a spot, 0 for none, −1 if
 * rounding may decide. */
static int judge(const movie *m, const double *response, const double *r, int64_t y, int64_t x,
                 int32_t d, double threshold, double tolerance) {
  const double here = r[y * m->width + x], height = response[y * m->width + x];
  int verdict = 1;
  if (fabs(height - threshold) < tolerance) return -1;
  if (height < threshold) return 0;
  tolerance *= here / height;
  for (int64_t i = y - d; i <= y + d; i++)
    for (int64_t j = x - d; j <= x + d; j++) {
      if (i < 0 || j < 0 || i >= m->height || j >= m->width || (i == y && j == x)) continue;
      if (fabs(r[i * m->width + j] - here) < tolerance)
        verdict = -1;
      else if (r[i * m->width + j] > here)
        return 0;
    }
  return verdict;
}

static void check_frame(const movie *m, int64_t frame, const compute_spot_options *o,
                        const answer *a) {
  const int64_t pixels = m->height * m->width;
  double *r = malloc((size_t)pixels * sizeof *r), most = 0;
  double *noise = malloc((size_t)pixels * sizeof *noise);
  double *filtered = malloc((size_t)pixels * sizeof *filtered);
  assert_non_null(r);
  assert_non_null(noise);
  assert_non_null(filtered);
  void (*filter)(const movie *, int64_t, double, double *) =
      o->filter == COMPUTE_SPOT_BOXES ? filter_boxes : filter_gaussians;
  filter(m, frame, o->sigma, r);
  memcpy(filtered, r, (size_t)pixels * sizeof *filtered);
  noise_of(m, frame, noise);
  for (int64_t i = 0; i < pixels; i++) {
    r[i] = noise[i] > 0 ? r[i] / (noise[i] * gain_at(o, m, i / m->width, i % m->width)) : 0;
    most = fmax(most, fabs(r[i]));
  }
  const double tolerance = 1e-3 + 2e-4 * most;
  const int32_t d = o->distance ? o->distance : (int32_t)ceil(2 * o->sigma);
  int64_t undecided = 0;
  for (int64_t i = 0; i < pixels; i++) {
    const double response = (double)a->response[frame * pixels + i];
    if (!(fabs(response - r[i]) <= tolerance))
      fail_msg("sigma %g, filter %d, %lldx%lld: response %lld of frame %lld is %g, not %g",
               o->sigma, (int)o->filter, (long long)m->height, (long long)m->width, (long long)i,
               (long long)frame, response, r[i]);
    const int expected = judge(m, r, filtered, i / m->width, i % m->width, d,
                               o->threshold > 0 ? o->threshold : 4.2, tolerance);
    undecided += expected < 0;
    if (expected >= 0 && expected != a->spot[frame * pixels + i])
      fail_msg("sigma %g, filter %d, %lldx%lld: pixel %lld of frame %lld, response %g, is %s",
               o->sigma, (int)o->filter, (long long)m->height, (long long)m->width, (long long)i,
               (long long)frame, r[i], expected ? "no spot" : "a spot");
  }
  assert_true(undecided <= pixels / 50 + 1);
  free(noise);
  free(filtered);
  free(r);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void every_filter_agrees_with_plain_loops(void **state) {
  (void)state;
  static const struct {
    int64_t frames, height, width;
    compute_spot_options options;
    compute_dtype dtype;
  } cases[] = {
      {2, 37, 53, {.sigma = 1.3}, COMPUTE_U16},
      {2, 37, 53, {.sigma = 1.3}, COMPUTE_F32},
      {2, 37, 53, {.filter = COMPUTE_SPOT_BOXES, .sigma = 1.3}, COMPUTE_U16},
      {1, 5, 7, {.sigma = 1.3, .threshold = 1}, COMPUTE_U16}, /* smaller than the filter */
      {3, 3, 64, {.sigma = 1, .threshold = 2, .distance = 1}, COMPUTE_F32},
      {1, 64, 3, {.filter = COMPUTE_SPOT_BOXES, .sigma = 1, .threshold = 2}, COMPUTE_F32},
      {2, 3, 3, {.sigma = 2}, COMPUTE_U16},
      {1, 30, 30, {.sigma = 0.3, .threshold = 3, .distance = 5}, COMPUTE_F32},
      {1, 40, 31, {.filter = COMPUTE_SPOT_BOXES, .sigma = 0.2, .threshold = 3}, COMPUTE_U16},
      {1, 70, 45, {.sigma = 3.7, .threshold = 2}, COMPUTE_U16}, /* several kernels for one sum */
      {1, 60, 66, {.filter = COMPUTE_SPOT_BOXES, .sigma = 6, .threshold = 2}, COMPUTE_F32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (test_spread() > 1 && i != 0 && i != 2 && i != 9) continue;
    movie m = movie_create(cases[i].frames, cases[i].height, cases[i].width, 200);
    for (int64_t f = 0; f < m.frames; f++)
      for (int64_t k = 0; k < 5; k++)
        add_spot(&m, f, (double)((7 * k + 3 * f) % m.height), (double)((11 * k + f) % m.width),
                 cases[i].options.sigma, 80 + 30 * (double)k);
    add_noise(&m, 8, 100 + i);
    if (cases[i].dtype == COMPUTE_U16) round_values(&m);
    answer a = find(&m, cases[i].dtype, &cases[i].options);
    for (int64_t f = 0; f < m.frames; f++) check_frame(&m, f, &cases[i].options, &a);
    answer_release(&a);
    free(m.value);
  }
}

static void spots_at_the_border_are_found(void **state) {
  (void)state;
  static const int64_t at[][2] = {{0, 0}, {0, 30}, {39, 49}, {39, 5}, {20, 0}, {13, 49}};
  const compute_spot_options options = {.sigma = 1.3};
  movie m = movie_create(6, 40, 50, 100);
  for (int64_t f = 0; f < 6; f++) add_spot(&m, f, (double)at[f][0], (double)at[f][1], 1.3, 200);
  add_noise(&m, 5, 3);
  round_values(&m);
  answer a = find(&m, COMPUTE_U16, &options);
  for (int64_t f = 0; f < 6; f++) assert_true(a.spot[(f * 40 + at[f][0]) * 50 + at[f][1]]);
  assert_int_equal(count_spots(&a, m.count), 6);
  answer_release(&a);
  free(m.value);
}

static void bad_pixels_blind_only_their_surroundings(void **state) {
  (void)state;
  const compute_spot_options options = {.sigma = 1.3};
  movie m = movie_create(2, 80, 80, 100);
  for (int64_t f = 0; f < 2; f++) {
    add_spot(&m, f, 20, 60, 1.3, 300);
    add_spot(&m, f, 40, 41, 1.3, 300);
  }
  add_noise(&m, 5, 77);
  *pixel(&m, 0, 40, 40) = NAN;
  *pixel(&m, 1, 40, 40) = INFINITY;
  answer a = find(&m, COMPUTE_F32, &options);
  for (int64_t f = 0; f < 2; f++) {
    const answer frame = {a.spot + f * 6400, NULL};
    assert_true(frame.spot[20 * 80 + 60]);
    assert_int_equal(count_spots(&frame, 6400), 1);
  }
  answer_release(&a);
  free(m.value);
}

/* ---- Errors -------------------------------------------------------------------------------- */

static void refuse(compute_dtype dtype, compute_shape shape, const compute_spot_options *options,
                   compute_status status, const char *words) {
  compute_graph *g = compute_graph_create(test_context);
  compute_node response = {1, 1};
  const compute_node spots =
      compute_find_spots(g, compute_input(g, dtype, shape), options, &response);
  assert_false(compute_node_is_valid(spots) || compute_node_is_valid(response));
  assert_int_equal(compute_graph_status(g), status);
  test_check_message(test_context, words);
  compute_graph_release(g);
}

static void what_makes_no_sense_is_refused_with_its_reason(void **state) {
  (void)state;
  const compute_shape shape = COMPUTE_SHAPE(2, 20, 20);
  const compute_spot_options good = {.sigma = 1};
  refuse(COMPUTE_F64, shape, &good, COMPUTE_ERROR_DTYPE, "must be u16 or f32");
  refuse(COMPUTE_U8, shape, &good, COMPUTE_ERROR_DTYPE, "are u8");
  refuse(COMPUTE_U16, COMPUTE_SHAPE(20, 20), &good, COMPUTE_ERROR_SHAPE, "not [20,20]");
  refuse(COMPUTE_U16, COMPUTE_SHAPE(0, 20, 20), &good, COMPUTE_ERROR_SHAPE, "not [0,20,20]");
  refuse(COMPUTE_U16, COMPUTE_SHAPE(2, 2, 20), &good, COMPUTE_ERROR_SHAPE, "3 × 3 pixels");
  refuse(COMPUTE_U16, COMPUTE_SHAPE(2, 20, 2), &good, COMPUTE_ERROR_SHAPE, "3 × 3 pixels");
  refuse(COMPUTE_U16, shape, NULL, COMPUTE_ERROR_NULL_POINTER, "options");
  static const struct {
    compute_spot_options options;
    const char *words;
  } bad[] = {{{.sigma = 0}, "sigma"},
             {{.sigma = NAN}, "sigma"},
             {{.sigma = 51}, "sigma"},
             {{.sigma = 1, .threshold = -1}, "threshold"},
             {{.sigma = 1, .threshold = NAN}, "threshold"},
             {{.sigma = 1, .distance = -1}, "distance"},
             {{.sigma = 1, .distance = 101}, "distance"},
             {{.sigma = 1, .limit = -1}, "limit"},
             {{.sigma = 1, .filter = (compute_spot_filter)2}, "filter"},
             {{.sigma = 1, .reserved = {0, 0, 0, 1}}, "reserved"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refuse(COMPUTE_U16, shape, &bad[i].options, COMPUTE_ERROR_INVALID_ARGUMENT, bad[i].words);
}

static void the_response_may_be_left_out(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_U16, COMPUTE_SHAPE(1, 9, 9));
  const compute_spot_options options = {.sigma = 1};
  assert_true(compute_node_is_valid(compute_find_spots(g, x, &options, NULL)));
  assert_false(compute_node_is_valid(compute_find_spots(NULL, x, &options, NULL)));
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_filter_agrees_with_plain_loops),
      cmocka_unit_test(spots_at_the_border_are_found),
      cmocka_unit_test(bad_pixels_blind_only_their_surroundings),
      cmocka_unit_test(what_makes_no_sense_is_refused_with_its_reason),
      cmocka_unit_test(the_response_may_be_left_out),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
