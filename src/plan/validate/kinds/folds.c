/* SPDX-License-Identifier: MIT */
/* REDUCE, ROW, WINDOW and SCAN: sums in a device-dependent order, and extrema that rounding may
 * exchange. */
#include <math.h>

#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

/* ---- REDUCE -------------------------------------------------------------------------------- */

static bool finds_place(compute_combine combine) {
  return combine == COMPUTE_COMBINE_ARGMAX || combine == COMPUTE_COMBINE_ARGMIN;
}

static bool is_least(compute_combine combine) {
  return combine == COMPUTE_COMBINE_MIN || combine == COMPUTE_COMBINE_ARGMIN;
}

/* True for sums and products; the others are extrema. */
static bool accumulates(compute_combine combine) {
  return combine == COMPUTE_COMBINE_SUM || combine == COMPUTE_COMBINE_PROD;
}

/* The state of a reduction. */
typedef struct folded {
  number best; /* of the extrema */
  int64_t at;
  double sum, magnitude, error;
  double relative;   /* of a product */
  double rise, fall; /* binary exponents, summed separately: the range of the partial products */
  int64_t integer;
  bool vague, exact;
} folded;

static void add_float(const compute_kernel_descriptor *d, folded *f, const number *x, int64_t at) {
  const compute_combine combine = compute_reduce_of(d)->combine;
  const bool least = is_least(combine);
  f->exact &= x->error == 0;
  f->vague |= number_is_vague(x);
  if (combine == COMPUTE_COMBINE_SUM) {
    f->sum += x->real;
    f->magnitude += fabs(x->real);
    f->error += x->error;
    return;
  }
  if (combine == COMPUTE_COMBINE_PROD) {
    f->sum *= x->real;
    if (x->real != 0) {
      const double exponent = log2(fabs(x->real));
      *(exponent > 0 ? &f->rise : &f->fall) += exponent;
      f->relative += x->error / fabs(x->real) + number_epsilon(d->accumulate);
    } else if (x->error > 0) {
      f->vague = true;
    }
    return;
  }
  const bool better = at == 0 || (isnan(x->real) && !isnan(f->best.real)) ||
                      (least ? x->real < f->best.real : x->real > f->best.real);
  const bool close = at > 0 && fabs(x->real - f->best.real) <= x->error + f->best.error &&
                     x->error + f->best.error > 0;
  if (close && finds_place(combine)) f->vague = true;
  f->error = fmax(f->error, x->error);
  if (better) {
    f->best = *x;
    f->at = at;
  }
}

static void add_integer(const compute_kernel_descriptor *d, folded *f, const number *x,
                        int64_t at) {
  const compute_combine combine = compute_reduce_of(d)->combine;
  const bool least = is_least(combine);
  f->vague |= number_is_vague(x);
  if (accumulates(combine)) {
    const uint64_t a = (uint64_t)f->integer, b = (uint64_t)x->integer;
    const uint64_t next = combine == COMPUTE_COMBINE_SUM ? a + b : a * b;
    f->integer = d->accumulate == COMPUTE_I32 ? (int64_t)(int32_t)(uint32_t)next : (int64_t)next;
    return;
  }
  if (at == 0 || (least ? x->integer < f->best.integer : x->integer > f->best.integer)) {
    f->best = *x;
    f->at = at;
  }
}

static number result_of(const compute_kernel_descriptor *d, const folded *f, int64_t count) {
  const compute_combine combine = compute_reduce_of(d)->combine;
  const double vague = f->vague ? (double)INFINITY : 0;
  if (finds_place(combine)) return (number){.integer = f->at, .error = vague};
  if (!number_is_float(d->accumulate)) {
    return (number){.integer = accumulates(combine) ? f->integer : f->best.integer, .error = vague};
  }
  if (combine == COMPUTE_COMBINE_SUM) {
    number n = number_sum(d->accumulate, f->sum, f->magnitude, f->error, (double)count, f->exact);
    if (f->vague) n.error = (double)INFINITY;
    return n;
  }
  if (combine == COMPUTE_COMBINE_PROD) {
    const double room = d->accumulate == COMPUTE_F32 ? 125 : 1020;
    number n = number_round(d->accumulate, f->sum, fabs(f->sum) * f->relative, 1, f->exact);
    if (f->vague || (isfinite(f->rise) && f->rise > room) || f->fall < -room)
      n.error = (double)INFINITY;
    return n;
  }
  return (number){.real = f->best.real, .error = f->vague ? vague : f->error};
}

static number fold(const evaluation *e, const int64_t *kept, int64_t position, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const compute_combine combine = compute_reduce_of(d)->combine;
  const int32_t kept_rank = compute_reduce_of(d)->kept_rank;
  const double first = combine == COMPUTE_COMBINE_PROD ? 1 : 0;
  const int64_t count = evaluate_count(d->size, kept_rank, d->rank);
  folded f = {.sum = first, .integer = (int64_t)first, .exact = true};
  int64_t coordinate[COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < kept_rank; i++) coordinate[i] = kept[i];
  for (int64_t at = 0; at < count; at++) {
    evaluate_coordinates(d->size + kept_rank, d->rank - kept_rank, at, coordinate + kept_rank);
    const number x = evaluate_prologue(e, coordinate, position * count + at, w);
    if (number_is_float(d->accumulate))
      add_float(d, &f, &x, at);
    else
      add_integer(d, &f, &x, at);
  }
  if (count == 0 && !accumulates(combine)) f.vague = true;
  return result_of(d, &f, count);
}

static bool reduce(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->out_rank, unit, coordinate);
  const number value = fold(e, coordinate, unit, w);
  evaluate_epilogue(e, &value, e->d->prologue_inputs, coordinate, unit, w, w->results);
  return true;
}

static uint64_t reduce_work(const compute_kernel_descriptor *d, uint64_t program) {
  const int64_t count = evaluate_count(d->size, compute_reduce_of(d)->kept_rank, d->rank);
  return program * (uint64_t)(1 + count);
}

static compute_dtype reduce_type(const compute_kernel_descriptor *d) {
  return finds_place(compute_reduce_of(d)->combine) ? COMPUTE_I64 : d->accumulate;
}

const evaluation_kind evaluation_kind_reduce = {
    .evaluate = reduce, .work = reduce_work, .type = reduce_type};

/* ---- ROW ----------------------------------------------------------------------------------- */

/* Softmax, log-softmax and normalisation, one row at a time. */

/* The shared values of a row. */
typedef struct whole_row {
  double peak, peak_error;  /* softmax */
  double log_sum, relative; /* log of the sum of exponentials; the sum's relative error */
  double mean, mean_error, scale, scale_relative; /* normalisation */
  bool vague, spoilt;                             /* the row contains a NaN */
} whole_row;

/* The errors of the exponent's rounding and of the function, relative to the exponential. */
static double exponential_error(double epsilon, const number *x, const whole_row *r) {
  return x->error + r->peak_error + epsilon * (24 + 2 * fabs(x->real - r->peak));
}

static void read_softmax(const number *x, int64_t count, double epsilon, whole_row *r) {
  double sum = 0, error = 0;
  r->peak = -(double)INFINITY;
  for (int64_t j = 0; j < count; j++) {
    if (x[j].real > r->peak) r->peak = x[j].real;
    r->peak_error = fmax(r->peak_error, x[j].error);
    r->vague |= number_is_vague(&x[j]);
    r->spoilt |= isnan(x[j].real);
  }
  r->vague |= r->peak == (double)INFINITY;
  if (isinf(r->peak)) r->peak = 0;
  for (int64_t j = 0; j < count; j++) {
    const double power = exp(x[j].real - r->peak);
    if (power == 0) continue;
    sum += power;
    error += power * exponential_error(epsilon, &x[j], r);
  }
  r->log_sum = log(sum);
  r->relative = sum > 0 ? error / sum + epsilon * (8 + sqrt((double)count)) : 0;
}

static number softmax(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = exp(x->real - r->peak - r->log_sum);
  const double error = value > 0 ? value * (exponential_error(epsilon, x, r) + r->relative) : 0;
  return number_round(d->accumulate, value, error, 4, !isfinite(value));
}

static number log_softmax(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = x->real - r->peak - r->log_sum;
  const double error = x->error + r->peak_error + r->relative +
                       4 * epsilon * (fabs(x->real) + fabs(r->peak) + fabs(r->log_sum) + 1);
  return number_round(d->accumulate, value, isfinite(value) ? error : 0, 4, !isfinite(value));
}

static void read_moments(const compute_kernel_descriptor *d, const number *x, int64_t count,
                         whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate), n = (double)count;
  const double growth = epsilon * (8 + 4 * sqrt(n));
  double magnitude = 0, error = 0, variance = 0, variance_error = 0;
  for (int64_t j = 0; j < count; j++) {
    r->mean += x[j].real / n;
    magnitude += fabs(x[j].real) / n;
    error += x[j].error / n;
    r->vague |= number_is_vague(&x[j]);
    r->spoilt |= !isfinite(x[j].real);
  }
  r->mean_error = error + growth * magnitude;
  for (int64_t j = 0; j < count; j++) {
    const double apart = x[j].real - r->mean;
    const double off = x[j].error + r->mean_error + epsilon * (fabs(x[j].real) + fabs(r->mean));
    variance += apart * apart / n;
    variance_error += (2 * fabs(apart) * off + off * off) / n;
  }
  variance_error += growth * variance;
  const double divisor = variance + compute_row_of(d)->epsilon;
  r->scale = 1 / sqrt(divisor);
  r->scale_relative =
      variance_error < divisor / 2 ? variance_error / divisor + 8 * epsilon : (double)INFINITY;
}

static number normalized(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = (x->real - r->mean) * r->scale;
  const double off = x->error + r->mean_error + epsilon * (fabs(x->real) + fabs(r->mean));
  const double scale = r->scale * (1 + r->scale_relative);
  return number_round(d->accumulate, value, off * scale + fabs(value) * r->scale_relative, 4,
                      false);
}

static number row_element(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  if (r->vague) return (number){.real = 0, .error = (double)INFINITY};
  if (r->spoilt) return (number){.real = (double)NAN};
  switch (compute_row_of(d)->operation) {
  case COMPUTE_ROW_SOFTMAX: return softmax(d, x, r);
  case COMPUTE_ROW_LOG_SOFTMAX: return log_softmax(d, x, r);
  case COMPUTE_ROW_NORMALIZE: break;
  }
  return normalized(d, x, r);
}

static bool row(const evaluation *e, int64_t unit, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const int64_t count = e->unit_length, first = unit * count;
  int64_t coordinate[COMPUTE_MAX_RANK];
  whole_row shared = {0};
  for (int64_t j = 0; j < count; j++) {
    evaluate_coordinates(d->size, d->rank, first + j, coordinate);
    w->row[j] = evaluate_prologue(e, coordinate, first + j, w);
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE)
    read_moments(d, w->row, count, &shared);
  else
    read_softmax(w->row, count, number_epsilon(d->accumulate), &shared);
  for (int64_t j = 0; j < count; j++) {
    const number value = row_element(d, &w->row[j], &shared);
    evaluate_coordinates(d->size, d->rank, first + j, coordinate);
    evaluate_epilogue(e, &value, d->prologue_inputs, coordinate, first + j, w,
                      w->results + j * d->output_count);
  }
  return true;
}

static void row_cut(evaluation *e) {
  e->unit_length = e->row_length = e->d->size[e->d->rank - 1];
  e->units = e->unit_length > 0 ? e->units / e->unit_length : 0;
}

const evaluation_kind evaluation_kind_row = {.evaluate = row, .cut = row_cut};

/* ---- WINDOW -------------------------------------------------------------------------------- */

/* The summed elements come from memory and are exact. A maximum and its first position are also
 * exact. */
typedef struct sum {
  double real, magnitude;
  int64_t terms;
} sum;

static number load_element(const view *v, int64_t n, int64_t c, int64_t h, int64_t w) {
  return number_load(v->dtype, view_at(v, n * v->stride[0] + c * v->stride[1] + h * v->stride[2] +
                                              w * v->stride[3]));
}

static double element(const view *v, int64_t n, int64_t c, int64_t h, int64_t w) {
  return load_element(v, n, c, h, w).real;
}

static void add_term(sum *s, double term) {
  s->real += term;
  s->magnitude += fabs(term);
  s->terms++;
}

static bool inside(int64_t place, int64_t size) {
  return place >= 0 && place < size;
}

static int64_t place(const compute_window_attributes *w, int axis, int64_t result, int64_t step) {
  return result * w->stride[axis] + step * w->dilation[axis] - w->padding[axis];
}

/* Returns the divisor of the average of window (p, q). */
static double divisor_of(const compute_window_attributes *w, const int64_t *result) {
  double count = 1;
  for (int axis = 0; axis < 2; axis++) {
    int64_t along = 0;
    for (int64_t i = 0; i < w->size[axis]; i++) {
      const int64_t at = place(w, axis, result[axis], i);
      along += w->count_padding ? at < w->data_size[axis] + w->padding[axis] + w->padding_more[axis]
                                : inside(at, w->data_size[axis]);
    }
    count *= (double)along;
  }
  return count;
}

/* Finds the largest element of window (p, q) and its first position; false if the window is
 * empty. */
static bool find_largest(const evaluation *e, int64_t n, int64_t c, const int64_t *result,
                         number *best, int64_t *where) {
  const compute_window_attributes *w = compute_window_of(e->d);
  const bool real = number_is_float(e->d->accumulate);
  bool found = false;
  for (int64_t i = 0; i < w->size[0] * w->size[1]; i++) {
    const int64_t h = place(w, 0, result[0], i / w->size[1]);
    const int64_t v = place(w, 1, result[1], i % w->size[1]);
    if (!inside(h, w->data_size[0]) || !inside(v, w->data_size[1])) continue;
    const number value = load_element(&e->input[0], n, c, h, v);
    const bool more = real ? value.real > best->real || (isnan(value.real) && !isnan(best->real))
                           : value.integer > best->integer;
    if (found && !more) continue;
    found = true;
    *best = value;
    where[0] = h;
    where[1] = v;
  }
  return found;
}

static void add_window(const evaluation *e, const int64_t *y, sum *s) {
  const compute_window_attributes *w = compute_window_of(e->d);
  for (int64_t i = 0; i < w->size[0] * w->size[1]; i++) {
    const int64_t h = place(w, 0, y[2], i / w->size[1]), v = place(w, 1, y[3], i % w->size[1]);
    if (inside(h, w->data_size[0]) && inside(v, w->data_size[1]))
      add_term(s, element(&e->input[0], y[0], y[1], h, v));
  }
}

/* Returns the result whose window contains data position `at` as element `step`, or −1. */
static int64_t window_over(const compute_window_attributes *w, int axis, int64_t at, int64_t step) {
  const int64_t steps = at + w->padding[axis] - step * w->dilation[axis];
  if (steps < 0 || steps % w->stride[axis] != 0) return -1;
  return inside(steps / w->stride[axis], w->result_size[axis]) ? steps / w->stride[axis] : -1;
}

static void add_gradients(const evaluation *e, const int64_t *x, sum *s) {
  const compute_window_attributes *w = compute_window_of(e->d);
  const bool max = w->operation == COMPUTE_WINDOW_MAX;
  for (int64_t i = 0; i < w->size[0] * w->size[1]; i++) {
    const int64_t result[2] = {window_over(w, 0, x[2], i / w->size[1]),
                               window_over(w, 1, x[3], i % w->size[1])};
    number best;
    int64_t where[2];
    if (result[0] < 0 || result[1] < 0) continue;
    if (max && (!find_largest(e, x[0], x[1], result, &best, where) || where[0] != x[2] ||
                where[1] != x[3]))
      continue;
    const double g = element(&e->input[max ? 1 : 0], x[0], x[1], result[0], result[1]);
    add_term(s, max ? g : g / divisor_of(w, result));
  }
}

static number window_value(const evaluation *e, const int64_t *coordinate) {
  const compute_window_attributes *w = compute_window_of(e->d);
  const compute_dtype type = e->d->accumulate;
  sum s = {0};
  if (w->by_data) {
    add_gradients(e, coordinate, &s);
    return number_sum(type, s.real, s.magnitude, 0, (double)s.terms, true);
  }
  if (w->operation != COMPUTE_WINDOW_AVERAGE) {
    number best = {.real = -(double)INFINITY};
    uint64_t most;
    if (dtype_is_integer(e->d->inputs[0].dtype))
      dtype_limits(e->d->inputs[0].dtype, &best.integer, &most);
    int64_t where[2];
    const bool found = find_largest(e, coordinate[0], coordinate[1], &coordinate[2], &best, where);
    if (w->operation == COMPUTE_WINDOW_MAX) return best;
    const int64_t plane = coordinate[0] * e->d->size[1] + coordinate[1];
    const int64_t at = (plane * w->data_size[0] + where[0]) * w->data_size[1] + where[1];
    return (number){.integer = found ? at : -1};
  }
  add_window(e, coordinate, &s);
  if (s.terms == 0) return (number){.real = 0};
  const double divisor = divisor_of(w, &coordinate[2]);
  return number_sum(type, s.real / divisor, s.magnitude / divisor, 0, (double)s.terms + 2, true);
}

static bool window(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->out_rank, unit, coordinate);
  const number value = window_value(e, coordinate);
  evaluate_epilogue(e, &value, kernel_operands_own(e->d), coordinate, unit, w, w->results);
  return true;
}

/* The gradient of a maximum searches every window that contains the element. */
static uint64_t window_work(const compute_kernel_descriptor *d, uint64_t program) {
  const compute_window_attributes *w = compute_window_of(d);
  const uint64_t elements = (uint64_t)evaluate_count(w->size, 0, 2);
  const bool looks = w->by_data && w->operation == COMPUTE_WINDOW_MAX;
  return program + 8 * (looks ? elements * elements : elements);
}

static compute_dtype window_type(const compute_kernel_descriptor *d) {
  return compute_window_of(d)->operation == COMPUTE_WINDOW_ARGMAX ? COMPUTE_I64 : d->accumulate;
}

const evaluation_kind evaluation_kind_window = {
    .evaluate = window, .work = window_work, .type = window_type};

/* ---- SCAN ---------------------------------------------------------------------------------- */

/* None: every element depends on all earlier ones, in sums of a device-dependent order. */
const evaluation_kind evaluation_kind_scan = {0};
