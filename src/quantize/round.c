/* SPDX-License-Identifier: MIT */
/* Rounding weights. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "quantize/quantizer.h"

int32_t round_to(float value, float scale, int32_t low, int32_t high) {
  const float number = nearbyintf(value / scale);
  return number <= (float)low ? low : number >= (float)high ? high : (int32_t)number;
}

/* A group of weights that share a scale: `outer` runs of `inner` numbers. */
typedef struct weight_group {
  const float *first;
  int64_t outer, stride, inner, step;
} weight_group;

static double group_error(const weight_group *g, float scale, int32_t low, int32_t high) {
  double sum = 0;
  for (int64_t i = 0; i < g->outer; i++)
    for (int64_t k = 0; k < g->inner; k++) {
      const float w = g->first[i * g->stride + k * g->step];
      const double apart = (double)w - (double)scale * round_to(w, scale, low, high);
      sum += apart * apart;
    }
  return sum;
}

/* The largest weight by size, with its sign. */
static float group_extreme(const weight_group *g) {
  float extreme = 0;
  for (int64_t i = 0; i < g->outer; i++)
    for (int64_t k = 0; k < g->inner; k++) {
      const float w = g->first[i * g->stride + k * g->step];
      if (fabsf(w) > fabsf(extreme)) extreme = w;
    }
  return extreme;
}

/* A scale that can divide; 0 for a group of zeros. */
static float checked(float scale) {
  return fabsf(scale) >= FLT_MIN ? scale : 0;
}

/* Tries scales below the start, which is the one without overflow. */
static float search_scale(const weight_group *g, float start, int32_t low, int32_t high) {
  enum { TRIES = 24 };
  float best = start;
  double least = group_error(g, start, low, high);
  for (int i = 1; i < TRIES && least > 0; i++) {
    const float scale = checked(start * (1 - 0.015F * (float)i));
    if (scale == 0) break;
    const double error = group_error(g, scale, low, high);
    if (error >= least) continue;
    least = error;
    best = scale;
  }
  return best;
}

void round_channels(const float *weights, compute_shape shape, int32_t axis, int32_t limit,
                    compute_quantize_rounding rounding, int8_t *values, float *scales) {
  int64_t outer = 1, inner = 1;
  const int64_t channels = axis < 0 ? 1 : shape_at(shape, axis);
  for (int32_t i = 0; i < shape.rank; i++) {
    if (i < axis) outer *= shape_at(shape, i);
    if (i > axis) inner *= shape_at(shape, i);
  }
  float least = 0;
  for (int64_t c = 0; c < channels; c++) {
    const weight_group group = {weights + c * inner, outer, channels * inner, inner, 1};
    float scale = checked(fabsf(group_extreme(&group)) / (float)limit);
    if (scale > 0 && rounding != COMPUTE_ROUNDING_NEAREST)
      scale = search_scale(&group, scale, -limit, limit);
    scales[c] = scale;
    if (scale > 0 && (least == 0 || scale < least)) least = scale;
  }
  for (int64_t c = 0; c < channels; c++) {
    /* Zeros take the finest scale of the tensor, which rounds their bias least. */
    if (scales[c] == 0) scales[c] = least > 0 ? least : 1;
    for (int64_t i = 0; i < outer; i++)
      for (int64_t k = 0; k < inner; k++) {
        const int64_t at = (i * channels + c) * inner + k;
        values[at] = (int8_t)round_to(weights[at], scales[c], -limit, limit);
      }
  }
}

float round_block_scale(const float *weights, int64_t count, int64_t stride, int32_t limit,
                        compute_quantize_rounding rounding) {
  const weight_group group = {weights, 1, 0, count, stride};
  /* The extreme weight takes the integer −limit − 1, whatever its sign. */
  const float start = checked(group_extreme(&group) / (float)(-limit - 1));
  if (start == 0) return 1;
  return rounding == COMPUTE_ROUNDING_NEAREST ? start
                                              : search_scale(&group, start, -limit - 1, limit);
}

/* ---- GPTQ ------------------------------------------------------------------------------------ */

/* Replaces a symmetric positive matrix with the lower factor L of L Lᵀ. */
static bool factorize(double *a, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t k = 0; k < j; k++) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    if (!(a[j * n + j] > 0) || !isfinite(a[j * n + j])) return false;
    a[j * n + j] = sqrt(a[j * n + j]);
    for (int64_t i = j + 1; i < n; i++) {
      double sum = a[i * n + j];
      for (int64_t k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum / a[j * n + j];
    }
  }
  return true;
}

/* Replaces the lower factor L by its inverse, column by column. */
static void invert(double *l, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    l[j * n + j] = 1 / l[j * n + j];
    for (int64_t i = j + 1; i < n; i++) {
      double sum = 0;
      for (int64_t k = j; k < i; k++) sum += l[i * n + k] * l[k * n + j];
      l[i * n + j] = -sum / l[i * n + i];
    }
  }
}

/* Replaces the moments by the lower factor of their inverse, for rows in reverse order: its
 * transpose has the coefficients of the updates. Reversing both axes of H, H = L Lᵀ gives H⁻¹ = L⁻ᵀ L⁻¹, whose
 * upper factor is the reversed L⁻¹. */
static bool prepare(double *h, int64_t n) {
  double mean = 0;
  for (int64_t i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
  if (!(mean > 0) || !isfinite(mean)) return false;
  for (int64_t i = 0; i < n; i++) h[i * n + i] += 0.01 * mean;
  for (int64_t i = 0, j = n * n - 1; i < j; i++, j--) {
    const double kept = h[i];
    h[i] = h[j];
    h[j] = kept;
  }
  if (!factorize(h, n)) return false;
  invert(h, n);
  for (int64_t i = 0, j = n * n - 1; i < j; i++, j--) {
    const double kept = h[i];
    h[i] = h[j];
    h[j] = kept;
  }
  return true;
}

bool round_gptq(float *weights, double *moments, int64_t rows, int64_t columns, int64_t block,
                int32_t limit, float *error, int8_t *values, float *scales) {
  if (!prepare(moments, rows)) return false;
  for (int64_t i = 0; i < rows; i++) {
    float *own = scales + i / block * columns;
    const double *update = moments + i * rows; /* row i of the upper factor */
    if (i % block == 0)
      for (int64_t c = 0; c < columns; c++)
        own[c] = round_block_scale(weights + i * columns + c, i + block < rows ? block : rows - i,
                                   columns, limit, COMPUTE_ROUNDING_SEARCH);
    for (int64_t c = 0; c < columns; c++) {
      const float w = weights[i * columns + c];
      const int32_t number = round_to(w, own[c], -limit - 1, limit);
      values[i * columns + c] = (int8_t)number;
      error[c] = (w - own[c] * (float)number) / (float)update[i];
    }
    for (int64_t j = i + 1; j < rows; j++) {
      const float factor = (float)update[j];
      for (int64_t c = 0; c < columns; c++) weights[j * columns + c] -= factor * error[c];
    }
  }
  return true;
}
