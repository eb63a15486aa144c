/* SPDX-License-Identifier: MIT */
/* Movies for the spot finding tests, and the answers of the device under test. */
#ifndef FIT_SPOTS_FIXTURE_H
#define FIT_SPOTS_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

/* ---- Movies -------------------------------------------------------------------------------- */

typedef struct movie {
  int64_t frames, height, width, count;
  float *value;
} movie;

static inline movie movie_create(int64_t frames, int64_t height, int64_t width, double value) {
  movie m = {frames, height, width, frames * height * width, NULL};
  m.value = malloc((size_t)m.count * sizeof *m.value);
  assert_non_null(m.value);
  for (int64_t i = 0; i < m.count; i++) m.value[i] = (float)value;
  return m;
}

static inline float *pixel(const movie *m, int64_t frame, int64_t y, int64_t x) {
  return &m->value[(frame * m->height + y) * m->width + x];
}

static inline double normal(test_random *random) {
  const double u = 1 - test_random_uniform(random, 0, 1), v = test_random_uniform(random, 0, 1);
  return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static inline void add_noise(movie *m, double size, uint64_t seed) {
  test_random random = {seed};
  for (int64_t i = 0; i < m->count; i++) m->value[i] += (float)(size * normal(&random));
}

static inline void add_spot(movie *m, int64_t frame, double y, double x, double sigma,
                            double peak) {
  for (int64_t i = 0; i < m->height; i++)
    for (int64_t j = 0; j < m->width; j++) {
      const double a = (double)i - y, b = (double)j - x;
      *pixel(m, frame, i, j) += (float)(peak * exp(-(a * a + b * b) / (2 * sigma * sigma)));
    }
}

/* Rounds and clamps the values as a camera does. */
static inline void round_values(movie *m) {
  for (int64_t i = 0; i < m->count; i++) m->value[i] = fminf(fmaxf(rintf(m->value[i]), 0), 65535);
}

/* ---- The device's answer ------------------------------------------------------------------- */

typedef struct answer {
  bool *spot;
  float *response;
} answer;

static inline void answer_release(answer *a) {
  free(a->spot);
  free(a->response);
}

static inline compute_tensor *upload(const movie *m, compute_dtype dtype) {
  const compute_shape shape = COMPUTE_SHAPE(m->frames, m->height, m->width);
  if (dtype == COMPUTE_F32) return test_tensor(test_context, dtype, shape, m->value);
  uint16_t *counts = malloc((size_t)m->count * sizeof *counts);
  assert_non_null(counts);
  for (int64_t i = 0; i < m->count; i++) counts[i] = (uint16_t)m->value[i];
  compute_tensor *t = test_tensor(test_context, dtype, shape, counts);
  free(counts);
  return t;
}

static inline answer find(const movie *m, compute_dtype dtype,
                          const compute_spot_options *options) {
  const compute_shape shape = COMPUTE_SHAPE(m->frames, m->height, m->width);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node frames = compute_input(g, dtype, shape);
  compute_node out[2];
  out[0] = compute_find_spots(g, frames, options, &out[1]);
  assert_ok(compute_graph_status(g));
  assert_int_equal(compute_node_dtype(g, out[0]), COMPUTE_BOOL);
  assert_int_equal(compute_node_dtype(g, out[1]), COMPUTE_F32);
  assert_true(compute_shape_equal(compute_node_shape(g, out[0]), shape));
  assert_true(compute_shape_equal(compute_node_shape(g, out[1]), shape));
  compute_plan *plan = test_compile(g, out, 2, 0);
  compute_tensor *in = upload(m, dtype), *t[2];
  for (int i = 0; i < 2; i++) assert_ok(compute_plan_create_tensor(plan, out[i], &t[i]));
  const compute_binding bindings[] = {{frames, in}, {out[0], t[0]}, {out[1], t[1]}};
  assert_ok(compute_run(plan, bindings, 3, NULL));
  answer a = {malloc((size_t)m->count), malloc((size_t)m->count * sizeof(float))};
  assert_non_null(a.spot);
  assert_non_null(a.response);
  assert_ok(compute_tensor_read(t[0], a.spot, (size_t)m->count));
  assert_ok(compute_tensor_read(t[1], a.response, (size_t)m->count * sizeof(float)));
  compute_tensor_release(in);
  for (int i = 0; i < 2; i++) compute_tensor_release(t[i]);
  compute_plan_release(plan);
  compute_graph_release(g);
  return a;
}

static inline int64_t count_spots(const answer *a, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += a->spot[i];
  return found;
}

#endif
