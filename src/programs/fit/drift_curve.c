/* SPDX-License-Identifier: MIT */
/* See drift_curve.h. */
#include "programs/fit/drift_curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 12 };

/* ---- Values from shifts -------------------------------------------------------------------- */

int64_t drift_pairs(int64_t values, int64_t apart, shift *shifts) {
  int64_t count = 0;
  for (int32_t a = 0; a < values; a++)
    for (int32_t b = a + 1; b < values && b - a <= apart; b++)
      shifts[count++] = (shift){.a = a, .b = b};
  return count;
}

/* Solves matrix · value = right by Cholesky decomposition, in place. Returns false if the matrix is
 * not positive definite. */
static bool solve(double *matrix, double *right, int32_t n) {
  for (int32_t j = 0; j < n; j++) {
    for (int32_t i = j; i < n; i++) {
      double sum = matrix[(int64_t)i * n + j];
      for (int32_t k = 0; k < j; k++)
        sum -= matrix[(int64_t)i * n + k] * matrix[(int64_t)j * n + k];
      if (i == j && !(sum > 1e-12)) return false;
      matrix[(int64_t)i * n + j] = i == j ? sqrt(sum) : sum / matrix[(int64_t)j * n + j];
    }
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < i; k++) right[i] -= matrix[(int64_t)i * n + k] * right[k];
    right[i] /= matrix[(int64_t)i * n + i];
  }
  for (int32_t i = n - 1; i >= 0; i--) {
    for (int32_t k = i + 1; k < n; k++) right[i] -= matrix[(int64_t)k * n + i] * right[k];
    right[i] /= matrix[(int64_t)i * n + i];
  }
  return true;
}

/* Solves the normal equations of all values except the first. */
static bool fit_values(const shift *shifts, const double *weight, int64_t count, int32_t n,
                       double *matrix, double *value) {
  memset(matrix, 0, (size_t)n * (size_t)n * sizeof *matrix);
  memset(value, 0, (size_t)(n + 1) * sizeof *value);
  for (int64_t i = 0; i < count; i++) {
    const int64_t a = shifts[i].a - 1, b = shifts[i].b - 1;
    if (a >= 0) matrix[a * n + a] += weight[i], value[a + 1] -= weight[i] * shifts[i].value;
    if (b >= 0) matrix[b * n + b] += weight[i], value[b + 1] += weight[i] * shifts[i].value;
    if (a >= 0 && b >= 0) matrix[a * n + b] -= weight[i], matrix[b * n + a] -= weight[i];
  }
  return solve(matrix, value + 1, n);
}

static double residual_of(const shift *s, const double *value) {
  return value[s->b] - value[s->a] - s->value;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns 1.48 times the median size of the residuals. This is the standard deviation for normal
 * residuals. */
static double spread(const shift *shifts, int64_t count, const double *value, double *sizes) {
  int64_t known = 0;
  for (int64_t i = 0; i < count; i++)
    if (shifts[i].weight > 0) sizes[known++] = fabs(residual_of(&shifts[i], value));
  if (known == 0) return 0;
  qsort(sizes, (size_t)known, sizeof *sizes, compare_doubles);
  return 1.4826 * sizes[known / 2];
}

double drift_solve(const shift *shifts, int64_t count, int32_t values, double *value) {
  const int32_t n = values - 1;
  double *matrix = malloc(((size_t)n * (size_t)n + 1) * sizeof *matrix);
  double *weight = malloc((size_t)(2 * count + 1) * sizeof *weight), largest = 0, mean = -1;
  bool good = matrix && weight;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, shifts[i].weight);
  for (int64_t i = 0; good && i < count; i++) weight[i] = shifts[i].weight / largest;
  for (int round = 0; good && round < ROUNDS; round++) {
    double squares = 0, all = 0;
    good = fit_values(shifts, weight, count, n, matrix, value);
    const double scale = good ? 3 * spread(shifts, count, value, weight + count) + 1e-9 : 1;
    for (int64_t i = 0; good && i < count; i++) {
      const double r = residual_of(&shifts[i], value), u = r / scale;
      squares += weight[i] * r * r;
      all += weight[i];
      weight[i] = shifts[i].weight / largest / (1 + u * u);
    }
    mean = all > 0 ? sqrt(squares / all) : 0;
  }
  free(matrix);
  free(weight);
  return good ? mean : -1;
}

/* ---- The curve ----------------------------------------------------------------------------- */

/* Solves a tridiagonal system for the slopes of the natural spline. */
bool spline_slopes(const double *time, const double *value, int64_t count, double *slope) {
  double *diagonal = malloc((size_t)(count + 1) * sizeof *diagonal);
  if (!diagonal) return false;
  slope[0] = 0;
  for (int64_t i = 0; i < count && count > 1; i++) {
    const double before = i > 0 ? 1 / (time[i] - time[i - 1]) : 0,
                 after = i + 1 < count ? 1 / (time[i + 1] - time[i]) : 0;
    diagonal[i] = 2 * (before + after);
    slope[i] = (i > 0 ? 3 * (value[i] - value[i - 1]) * before * before : 0) +
               (i + 1 < count ? 3 * (value[i + 1] - value[i]) * after * after : 0);
    if (i == 0) continue;
    const double factor = before / diagonal[i - 1];
    diagonal[i] -= factor * before;
    slope[i] -= factor * slope[i - 1];
  }
  for (int64_t i = count - 1; i >= 0 && count > 1; i--) {
    if (i + 1 < count) slope[i] -= slope[i + 1] / (time[i + 1] - time[i]);
    slope[i] /= diagonal[i];
  }
  free(diagonal);
  return true;
}

double spline_at(const double *time, const double *value, const double *slope, int64_t count,
                 double at) {
  int64_t low = 0, high = count - 1;
  if (at <= time[0]) return value[0] + slope[0] * (at - time[0]);
  if (at >= time[high]) return value[high] + slope[high] * (at - time[high]);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (time[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  const double h = time[high] - time[low], t = (at - time[low]) / h, u = 1 - t;
  return u * u * (1 + 2 * t) * value[low] + t * t * (1 + 2 * u) * value[high] +
         h * t * u * (u * slope[low] - t * slope[high]);
}
