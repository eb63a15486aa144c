/* REDUCE: sums whose order is the device's, and extrema that rounding may exchange. */
#include <float.h>
#include <math.h>

#include "validate/kinds.h"

/* Rounding errors of a sum grow with the root of its length where they are random, and with the
 * length itself at worst; no device adds more than some thousand terms one after the other. */
number evaluate_sum(compute_dtype type, double sum, double magnitude, double error, double terms,
                    bool exact) {
  const double most = type == COMPUTE_F32 ? (double)FLT_MAX : DBL_MAX;
  const double growth = fmin(terms, 8 + 4 * sqrt(terms));
  if (!isfinite(sum)) return number_round(type, sum, 0, 0, exact && error == 0);
  number n = number_round(type, sum, error + growth * number_epsilon(type) * magnitude, 1, false);
  if (magnitude > most && fabs(sum) <= most) n.error = (double)INFINITY; /* overflow on the way */
  if (terms == 0) n.error = 0;
  return n;
}

static bool is_float(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32;
}

/* What a fold has seen so far. */
typedef struct folded {
  number best; /* of the extrema */
  int64_t at;
  double sum, magnitude, error;
  double relative;   /* of a product */
  double rise, fall; /* binary exponents, summed apart: how far a product may go on its way */
  int64_t integer;
  bool vague, exact;
} folded;

static void add_float(const compute_kernel_descriptor *d, folded *f, const number *x, int64_t at) {
  const bool least = compute_reduce_of(d)->combine == COMPUTE_COMBINE_MIN ||
                     compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMIN;
  f->exact &= x->error == 0;
  f->vague |= number_is_vague(x);
  switch (compute_reduce_of(d)->combine) {
  case COMPUTE_COMBINE_SUM:
    f->sum += x->real;
    f->magnitude += fabs(x->real);
    f->error += x->error;
    return;
  case COMPUTE_COMBINE_PROD:
    f->sum *= x->real;
    if (x->real != 0) {
      const double exponent = log2(fabs(x->real));
      *(exponent > 0 ? &f->rise : &f->fall) += exponent;
      f->relative += x->error / fabs(x->real) + number_epsilon(d->accumulate);
    } else if (x->error > 0) {
      f->vague = true;
    }
    return;
  default: break;
  }
  const bool better = at == 0 || (isnan(x->real) && !isnan(f->best.real)) ||
                      (least ? x->real < f->best.real : x->real > f->best.real);
  const bool close = at > 0 && fabs(x->real - f->best.real) <= x->error + f->best.error &&
                     x->error + f->best.error > 0;
  if (close && compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX) f->vague = true;
  f->error = fmax(f->error, x->error);
  if (better) {
    f->best = *x;
    f->at = at;
  }
}

static void add_integer(const compute_kernel_descriptor *d, folded *f, const number *x,
                        int64_t at) {
  const bool least = compute_reduce_of(d)->combine == COMPUTE_COMBINE_MIN ||
                     compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMIN;
  f->vague |= number_is_vague(x);
  if (compute_reduce_of(d)->combine <= COMPUTE_COMBINE_PROD) {
    const uint64_t a = (uint64_t)f->integer, b = (uint64_t)x->integer;
    const uint64_t next = compute_reduce_of(d)->combine == COMPUTE_COMBINE_SUM ? a + b : a * b;
    f->integer = d->accumulate == COMPUTE_I32 ? (int64_t)(int32_t)(uint32_t)next : (int64_t)next;
    return;
  }
  if (at == 0 || (least ? x->integer < f->best.integer : x->integer > f->best.integer)) {
    f->best = *x;
    f->at = at;
  }
}

static number result_of(const compute_kernel_descriptor *d, const folded *f, int64_t count) {
  const double vague = f->vague ? (double)INFINITY : 0;
  if (compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX)
    return (number){.integer = f->at, .error = vague};
  if (!is_float(d->accumulate)) {
    const bool extremum = compute_reduce_of(d)->combine >= COMPUTE_COMBINE_MAX;
    return (number){.integer = extremum ? f->best.integer : f->integer, .error = vague};
  }
  if (compute_reduce_of(d)->combine == COMPUTE_COMBINE_SUM) {
    number n = evaluate_sum(d->accumulate, f->sum, f->magnitude, f->error, (double)count, f->exact);
    if (f->vague) n.error = (double)INFINITY;
    return n;
  }
  if (compute_reduce_of(d)->combine == COMPUTE_COMBINE_PROD) {
    const double room = d->accumulate == COMPUTE_F32 ? 125 : 1020;
    number n = number_round(d->accumulate, f->sum, fabs(f->sum) * f->relative, 1, f->exact);
    if (f->vague || (isfinite(f->rise) && f->rise > room) || f->fall < -room)
      n.error = (double)INFINITY;
    return n;
  }
  return (number){.real = f->best.real, .error = f->vague ? vague : f->error};
}

number evaluate_fold(const evaluation *e, const int64_t *kept, int64_t position, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const double first = compute_reduce_of(d)->combine == COMPUTE_COMBINE_PROD ? 1 : 0;
  folded f = {.sum = first, .integer = (int64_t)first, .exact = true};
  int64_t coordinate[COMPUTE_MAX_RANK], count = 1;
  for (int32_t i = 0; i < compute_reduce_of(d)->kept_rank; i++) coordinate[i] = kept[i];
  for (int32_t i = compute_reduce_of(d)->kept_rank; i < d->rank; i++) count *= d->size[i];
  for (int64_t at = 0; at < count; at++) {
    evaluate_coordinates(d->size + compute_reduce_of(d)->kept_rank,
                         d->rank - compute_reduce_of(d)->kept_rank, at,
                         coordinate + compute_reduce_of(d)->kept_rank);
    const number x = evaluate_prologue(e, coordinate, position * count + at, w);
    if (is_float(d->accumulate))
      add_float(d, &f, &x, at);
    else
      add_integer(d, &f, &x, at);
  }
  if (count == 0 && compute_reduce_of(d)->combine >= COMPUTE_COMBINE_MAX) f.vague = true;
  return result_of(d, &f, count);
}
