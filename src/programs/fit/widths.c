/* SPDX-License-Identifier: MIT */
/* Levenberg-Marquardt in nine parameters, with finite differences, from several starts. */
#include "programs/fit/widths.h"

#include <math.h>
#include <stdlib.h>

enum { ZERO, GAMMA, DEPTH, SIGMA_X, SIGMA_Y, A_X, A_Y, B_X, B_Y, MOST, STEPS = 200 };

static double width_of(const double *p, int axis, double z) {
  const double at = z - p[ZERO], t = (axis == 0 ? at - p[GAMMA] : at + p[GAMMA]) / p[DEPTH];
  const double square = 1 + t * t * (1 + t * (p[A_X + axis] + t * p[B_X + axis]));
  return p[SIGMA_X + axis] * sqrt(fmax(square, 1e-3));
}

typedef struct problem {
  const width_sample *samples;
  const bool *out; /* outliers */
  int64_t count;
  int32_t free; /* number of free parameters */
} problem;

static double weight_of(const width_sample *s, int axis) {
  return s->std[axis] > 0 ? 1 / s->std[axis] : 1;
}

static double cost_of(const problem *q, const double *p) {
  double sum = 0;
  for (int64_t i = 0; i < q->count; i++)
    for (int axis = 0; axis < 2 && !q->out[i]; axis++) {
      const width_sample *s = &q->samples[i];
      const double r = (s->sigma[axis] - width_of(p, axis, s->z)) * weight_of(s, axis);
      sum += r * r;
    }
  return p[DEPTH] > 0 && p[SIGMA_X] > 0 && p[SIGMA_Y] > 0 ? sum : INFINITY;
}

/* Adds a residual to the normal equations. */
static void add_sample(const problem *q, const double *p, const width_sample *s, int axis,
                       double matrix[MOST][MOST], double right[MOST]) {
  double slope[MOST];
  const double weight = weight_of(s, axis), here = width_of(p, axis, s->z);
  for (int32_t k = 0; k < q->free; k++) {
    double moved[MOST];
    const double step = 1e-6 * (1 + fabs(p[k]));
    for (int32_t i = 0; i < MOST; i++) moved[i] = p[i];
    moved[k] += step;
    slope[k] = (width_of(moved, axis, s->z) - here) / step * weight;
  }
  const double r = (s->sigma[axis] - here) * weight;
  for (int32_t i = 0; i < q->free; i++) {
    right[i] += slope[i] * r;
    for (int32_t k = 0; k < q->free; k++) matrix[i][k] += slope[i] * slope[k];
  }
}

/* Solves (matrix + damping · its diagonal) step = right by elimination; false: singular. */
static bool solve(double matrix[MOST][MOST], double right[MOST], int32_t n, double damping) {
  for (int32_t i = 0; i < n; i++) matrix[i][i] *= 1 + damping;
  for (int32_t i = 0; i < n; i++) {
    if (!(matrix[i][i] > 1e-300)) return false;
    for (int32_t k = i + 1; k < n; k++) {
      const double factor = matrix[k][i] / matrix[i][i];
      for (int32_t j = i; j < n; j++) matrix[k][j] -= factor * matrix[i][j];
      right[k] -= factor * right[i];
    }
  }
  for (int32_t i = n - 1; i >= 0; i--) {
    for (int32_t j = i + 1; j < n; j++) right[i] -= matrix[i][j] * right[j];
    right[i] /= matrix[i][i];
  }
  return true;
}

static double minimize(const problem *q, double *p) {
  double cost = cost_of(q, p), damping = 1e-3;
  for (int step = 0; step < STEPS && damping < 1e12; step++) {
    double matrix[MOST][MOST] = {{0}}, right[MOST] = {0}, moved[MOST];
    for (int64_t i = 0; i < q->count; i++)
      for (int axis = 0; axis < 2 && !q->out[i]; axis++)
        add_sample(q, p, &q->samples[i], axis, matrix, right);
    if (!solve(matrix, right, q->free, damping)) return INFINITY;
    for (int32_t i = 0; i < MOST; i++) moved[i] = p[i] + (i < q->free ? right[i] : 0);
    const double next = cost_of(q, moved);
    if (next < cost) {
      const bool done = cost - next < 1e-12 * cost;
      for (int32_t i = 0; i < MOST; i++) p[i] = moved[i];
      cost = next;
      damping /= 5;
      if (done) break;
    } else {
      damping *= 8;
    }
  }
  return cost;
}

/* The focus: the mean z of the samples whose width is at most 8 % above the smallest. */
static double focus_of(const width_sample *samples, int64_t count, int axis, double *narrow) {
  double least = INFINITY, sum = 0, all = 0, limit;
  for (int64_t i = 0; i < count; i++) least = fmin(least, samples[i].sigma[axis]);
  limit = least * 1.08;
  for (int64_t i = 0; i < count; i++) {
    if (samples[i].sigma[axis] > limit) continue;
    sum += samples[i].z;
    all++;
  }
  *narrow = least * 1.03;
  return sum / all;
}

static double best_of_starts(const problem *q, double *best) {
  double narrow[2], least = INFINITY;
  const double x = focus_of(q->samples, q->count, 0, &narrow[0]),
               y = focus_of(q->samples, q->count, 1, &narrow[1]);
  static const double depths[] = {0.15, 0.3, 0.5, 0.9};
  for (int i = 0; i < 4; i++) {
    double p[MOST] = {(x + y) / 2, (x - y) / 2, depths[i], narrow[0], narrow[1], 0, 0, 0, 0};
    problem simple = *q;
    simple.free = A_X; /* at first without the higher terms */
    minimize(&simple, p);
    const double cost = minimize(q, p);
    if (!(cost < least)) continue;
    least = cost;
    for (int32_t k = 0; k < MOST; k++) best[k] = p[k];
  }
  return least;
}

/* Marks samples more than four deviations off as outliers; returns the number of remaining
 * samples. */
static int64_t mark_outliers(const problem *q, const double *p, double cost, bool *out) {
  int64_t used = 0;
  for (int64_t i = 0; i < q->count; i++) used += !out[i];
  const double limit = 16 * cost / (double)(2 * used > 0 ? 2 * used : 1);
  used = 0;
  for (int64_t i = 0; i < q->count; i++) {
    out[i] = false;
    for (int axis = 0; axis < 2; axis++) {
      const width_sample *s = &q->samples[i];
      const double r = (s->sigma[axis] - width_of(p, axis, s->z)) * weight_of(s, axis);
      if (r * r > limit) out[i] = true;
    }
    used += !out[i];
  }
  return used;
}

double width_at(const width_curves *c, int axis, double z) {
  const double p[MOST] = {c->zero, c->gamma, c->depth, c->sigma[0], c->sigma[1],
                          c->a[0], c->a[1],  c->b[0],  c->b[1]};
  return width_of(p, axis, z);
}

static double residual_of(const problem *q, const double *p) {
  double sum = 0, all = 0;
  for (int64_t i = 0; i < q->count; i++)
    for (int axis = 0; axis < 2 && !q->out[i]; axis++, all++) {
      const double r = q->samples[i].sigma[axis] - width_of(p, axis, q->samples[i].z);
      sum += r * r;
    }
  return sqrt(sum / fmax(all, 1));
}

bool width_curves_fit(const width_sample *samples, int64_t count, bool quartic, width_curves *c) {
  bool *out = calloc((size_t)count + 1, 1);
  const problem q = {samples, out, count, quartic ? MOST : A_X};
  double p[MOST] = {0}, cost = INFINITY;
  int64_t used = count;
  if (out && count > MOST) cost = best_of_starts(&q, p);
  for (int round = 0; round < 3 && isfinite(cost); round++) {
    used = mark_outliers(&q, p, cost, out);
    cost = used > MOST ? minimize(&q, p) : INFINITY;
  }
  *c = (width_curves){{p[SIGMA_X], p[SIGMA_Y]},
                      {p[A_X], p[A_Y]},
                      {p[B_X], p[B_Y]},
                      p[DEPTH],
                      p[GAMMA],
                      p[ZERO],
                      isfinite(cost) ? residual_of(&q, p) : 0,
                      used};
  free(out);
  return isfinite(cost);
}
