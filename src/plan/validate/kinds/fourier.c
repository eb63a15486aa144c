/* SPDX-License-Identifier: MIT */
/* FOURIER: an element at a time, by the definition. */
#include <math.h>

#include "plan/validate/evaluate/evaluate.h"

static const double turn = 6.28318530717958647693;

/* The part of a product x · exp(±2πi j k / n) that the element has. */
static void add_point(const evaluation *e, int64_t j, int64_t k, int64_t part, int64_t *coordinate,
                      number *sum, double *magnitude) {
  const compute_fourier_attributes *a = compute_fourier_of(e->d);
  const int32_t axis = e->d->rank - 2;
  const double angle = turn * (double)(j * k % a->length) / (double)a->length;
  const double c = cos(angle), s = a->inverse ? sin(angle) : -sin(angle);
  const double weight = a->halved && j != 0 && 2 * j != a->length ? 2 : 1;
  for (int64_t own = 0; own < (a->real ? 1 : 2); own++) {
    coordinate[axis] = j;
    coordinate[axis + 1] = own;
    const number x = evaluate_load(&e->input[0], e->d->rank, coordinate);
    const double factor = own == part ? c : own > part ? -s : s;
    sum->real += weight * factor * x.real;
    sum->error += weight * x.error;
    *magnitude += weight * fabs(x.real);
  }
}

static bool fourier(const evaluation *e, int64_t unit, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const compute_fourier_attributes *a = compute_fourier_of(d);
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(d->size, d->rank, unit, coordinate);
  const int64_t k = coordinate[d->rank - 2], part = coordinate[d->rank - 1];
  number sum = {0};
  double magnitude = 0;
  for (int64_t j = 0; j < a->points; j++) add_point(e, j, k, part, coordinate, &sum, &magnitude);
  const double scale = fabs(a->scale);
  /* A transform by steps rounds more often than a sum, but never more than this. */
  w->results[0] = number_sum(d->accumulate, a->scale * sum.real, 8 * scale * magnitude,
                             scale * sum.error, (double)(2 * a->length + 16), false);
  return true;
}

static uint64_t work(const compute_kernel_descriptor *d, uint64_t program) {
  return program + 16 * (uint64_t)compute_fourier_of(d)->points;
}

const evaluation_kind evaluation_kind_fourier = {.evaluate = fourier, .work = work};
