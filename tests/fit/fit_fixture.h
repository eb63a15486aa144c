/* SPDX-License-Identifier: MIT */
/* Shared helpers of the fitter tests: frames full of spots, ROI stacks, and arrays for results. */
#ifndef TESTS_FIT_FIXTURE_H
#define TESTS_FIT_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

enum { ROWS = 7, COLUMNS = 9, PIXELS = ROWS * COLUMNS, PARAMETERS = 4 };

/* Numbers from 0 to 1, the same on every machine. */
static inline double noise(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 40) / (double)(1 << 24);
}

static inline compute_fit_problem small_problem(void) {
  return (compute_fit_problem){.rows = ROWS,
                               .columns = COLUMNS,
                               .sigma = {1.2},
                               .outputs = COMPUTE_FIT_ALL_OUTPUTS & ~COMPUTE_FIT_COVARIANCE};
}

/* Integer counts near the model, so that u16 and f32 hold the same values. */
static inline void make_stack(float *stack, int64_t count) {
  const compute_fit_problem p = small_problem();
  double image[PIXELS];
  uint64_t state = 7;
  for (int64_t i = 0; i < count; i++) {
    const double at[] = {3.5 + noise(&state), 2.5 + noise(&state), 300 + 900 * noise(&state),
                         3 + 9 * noise(&state)};
    assert_ok(compute_fit_image(test_context, &p, at, image));
    for (int k = 0; k < PIXELS; k++) {
      const double wobble = (noise(&state) + noise(&state) + noise(&state) - 1.5) * 2;
      stack[i * PIXELS + k] = (float)fmax(0, rint(image[k] + wobble * sqrt(image[k])));
    }
  }
}

/* Frames [count, height, width] of noise. The stack's ROIs are added at `corners` (frame, row,
 * column), ordered by frame. */
static inline void make_spotted_frames(float *frames, int count, int height, int width,
                                       const float *stack, int32_t *corners, int rois) {
  uint64_t state = 3;
  for (int i = 0; i < count * height * width; i++) frames[i] = (float)(int)(4 * noise(&state));
  for (int i = 0; i < rois; i++) {
    int32_t *c = corners + 3 * i;
    c[0] = i * count / rois;
    c[1] = i % (height - ROWS);
    c[2] = (i * 5) % (width - COLUMNS);
    for (int k = 0; k < PIXELS; k++)
      frames[(c[0] * height + c[1] + k / COLUMNS) * width + c[2] + k % COLUMNS] +=
          stack[i * PIXELS + k];
  }
}

/* A fitter on the device under test. With COMPUTE_TEST_STRICT, no work may fall back to the CPU. */
static inline compute_fit *make_fit(const compute_fit_options *options) {
  compute_fit *fit = NULL;
  compute_fit_options o = *options;
  if (getenv("COMPUTE_TEST_STRICT")) o.fallback = COMPUTE_FALLBACK_STRICT;
  assert_ok(compute_fit_create(test_context, &o, &fit));
  return fit;
}

/* Arrays for all results of `count` ROIs. */
typedef struct room {
  int64_t count;
  float *parameters, *std, *ratio, *p_raw, *p_value, *significance;
  int32_t *iterations;
  uint8_t *status;
} room;

static inline room make_room(int64_t count) {
  const size_t n = (size_t)count + 1;
  return (room){.count = count,
                .parameters = calloc(n, PARAMETERS * sizeof(float)),
                .std = calloc(n, PARAMETERS * sizeof(float)),
                .ratio = calloc(n, sizeof(float)),
                .p_raw = calloc(n, sizeof(float)),
                .p_value = calloc(n, sizeof(float)),
                .significance = calloc(n, sizeof(float)),
                .iterations = calloc(n, sizeof(int32_t)),
                .status = calloc(n, 1)};
}

static inline void free_room(room *r) {
  free(r->parameters);
  free(r->std);
  free(r->ratio);
  free(r->p_raw);
  free(r->p_value);
  free(r->significance);
  free(r->iterations);
  free(r->status);
}

static inline compute_fit_results results_of(const room *r) {
  return (compute_fit_results){.parameters = r->parameters,
                               .std = r->std,
                               .ratio = r->ratio,
                               .p_raw = r->p_raw,
                               .p_value = r->p_value,
                               .significance = r->significance,
                               .iterations = r->iterations,
                               .status = r->status};
}

/* The ROIs from `first` on are equal bit for bit. */
static inline void check_same(const room *a, const room *b, int64_t first, int64_t count) {
  const size_t n = (size_t)count;
  assert_memory_equal(a->status + first, b->status + first, n);
  assert_memory_equal(a->iterations + first, b->iterations + first, n * sizeof(int32_t));
  assert_memory_equal(a->parameters + first * PARAMETERS, b->parameters + first * PARAMETERS,
                      n * PARAMETERS * sizeof(float));
  assert_memory_equal(a->std + first * PARAMETERS, b->std + first * PARAMETERS,
                      n * PARAMETERS * sizeof(float));
  assert_memory_equal(a->ratio + first, b->ratio + first, n * sizeof(float));
  assert_memory_equal(a->p_raw + first, b->p_raw + first, n * sizeof(float));
  assert_memory_equal(a->significance + first, b->significance + first, n * sizeof(float));
  assert_memory_equal(a->p_value + first, b->p_value + first, n * sizeof(float));
}

/* Other devices may round differently: results agree within a hundredth of the uncertainty. */
static inline void check_close(const room *a, const room *b) {
  for (int64_t i = 0; i < a->count; i++) {
    assert_int_equal(a->status[i], b->status[i]);
    for (int k = 0; k < PARAMETERS; k++) {
      const int64_t at = i * PARAMETERS + k;
      if (!(fabsf(a->parameters[at] - b->parameters[at]) <= 0.01f * b->std[at]))
        fail_msg("ROI %lld, parameter %d: %g and %g, uncertain by %g", (long long)i, k,
                 (double)a->parameters[at], (double)b->parameters[at], (double)b->std[at]);
      assert_true(fabsf(a->std[at] / b->std[at] - 1) < 1e-3f);
    }
  }
}

/* No ROI from `first` on has been fitted. */
static inline void check_untouched(const room *r, int64_t first) {
  for (int64_t i = first; i < r->count; i++) {
    assert_int_equal(r->status[i], COMPUTE_FIT_NOT_RUN);
    assert_int_equal(r->iterations[i], 0);
    for (int k = 0; k < PARAMETERS; k++) {
      assert_true(isnan(r->parameters[i * PARAMETERS + k]));
      assert_true(isnan(r->std[i * PARAMETERS + k]));
    }
    assert_true(isnan(r->ratio[i]) && isnan(r->p_raw[i]) && isnan(r->p_value[i]) &&
                isnan(r->significance[i]));
  }
}

#endif
