/* WINDOW: folds of windows, and their gradients. What is summed are elements of memory, which are
 * exact; a maximum and the place of the first one are exact, too. */
#include <math.h>

#include "validate/kinds.h"

typedef struct sum {
  double real, magnitude;
  int64_t terms;
} sum;

static double element(const view *v, int64_t n, int64_t c, int64_t h, int64_t w) {
  return number_load(v->dtype, view_at(v, n * v->stride[0] + c * v->stride[1] + h * v->stride[2] +
                                              w * v->stride[3]))
      .real;
}

static void add(sum *s, double term) {
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

/* What the average of window (p, q) divides by. */
static double divisor_of(const compute_window_attributes *w, const int64_t *result) {
  double count = 1;
  for (int axis = 0; axis < 2; axis++) {
    int64_t along = 0;
    for (int64_t i = 0; i < w->size[axis]; i++) {
      const int64_t at = place(w, axis, result[axis], i);
      along += w->count_padding ? at < w->data_size[axis] + w->padding[axis]
                                : inside(at, w->data_size[axis]);
    }
    count *= (double)along;
  }
  return count;
}

/* The largest element of window (p, q) and where it first is; false if it has none. */
static bool largest(const evaluation *e, int64_t n, int64_t c, const int64_t *result, double *best,
                    int64_t *where) {
  const compute_window_attributes *w = compute_window_of(e->d);
  bool found = false;
  for (int64_t i = 0; i < w->size[0] * w->size[1]; i++) {
    const int64_t h = place(w, 0, result[0], i / w->size[1]);
    const int64_t v = place(w, 1, result[1], i % w->size[1]);
    if (!inside(h, w->data_size[0]) || !inside(v, w->data_size[1])) continue;
    const double value = element(&e->input[0], n, c, h, v);
    if (found && !(value > *best || (isnan(value) && !isnan(*best)))) continue;
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
      add(s, element(&e->input[0], y[0], y[1], h, v));
  }
}

/* The result whose window has data place `at` as its element number `step`, or −1. */
static int64_t result_of(const compute_window_attributes *w, int axis, int64_t at, int64_t step) {
  const int64_t steps = at + w->padding[axis] - step * w->dilation[axis];
  if (steps < 0 || steps % w->stride[axis] != 0) return -1;
  return inside(steps / w->stride[axis], w->result_size[axis]) ? steps / w->stride[axis] : -1;
}

static void add_gradients(const evaluation *e, const int64_t *x, sum *s) {
  const compute_window_attributes *w = compute_window_of(e->d);
  const bool max = w->operation == COMPUTE_WINDOW_MAX;
  for (int64_t i = 0; i < w->size[0] * w->size[1]; i++) {
    const int64_t result[2] = {result_of(w, 0, x[2], i / w->size[1]),
                               result_of(w, 1, x[3], i % w->size[1])};
    double best;
    int64_t where[2];
    if (result[0] < 0 || result[1] < 0) continue;
    if (max &&
        (!largest(e, x[0], x[1], result, &best, where) || where[0] != x[2] || where[1] != x[3]))
      continue;
    const double g = element(&e->input[max ? 1 : 0], x[0], x[1], result[0], result[1]);
    add(s, max ? g : g / divisor_of(w, result));
  }
}

number evaluate_window(const evaluation *e, const int64_t *coordinate) {
  const compute_window_attributes *w = compute_window_of(e->d);
  const compute_dtype type = e->d->accumulate;
  sum s = {0};
  if (w->by_data) {
    add_gradients(e, coordinate, &s);
    return evaluate_sum(type, s.real, s.magnitude, 0, (double)s.terms, true);
  }
  if (w->operation == COMPUTE_WINDOW_MAX) {
    double best = -(double)INFINITY;
    int64_t where[2];
    largest(e, coordinate[0], coordinate[1], &coordinate[2], &best, where);
    return (number){.real = best};
  }
  add_window(e, coordinate, &s);
  if (s.terms == 0) return (number){.real = 0};
  const double divisor = divisor_of(w, &coordinate[2]);
  return evaluate_sum(type, s.real / divisor, s.magnitude / divisor, 0, (double)s.terms + 2, true);
}
