/* SPDX-License-Identifier: MIT */
/* One result of a convolution in double, by definition. It verifies cuDNN's plans.
 *
 * The result fixes some of the indices n, o, c (within a group), p and q (rows and columns of y), r
 * and s (of the filter); the sum runs over the others. For one pair of r and s, every other index
 * has a constant step in both factors. */
#include "cudnn.h"

#include <math.h>

enum { W, X, Y, TENSORS };
enum { N, O, C, P, Q, LOOPS };

typedef struct loop {
  int64_t first, end;
} loop;

typedef struct summation {
  const cudnn_problem *p;
  const double *const *values;
  int64_t period;
  const int64_t *strides[TENSORS], *sizes[TENSORS];
  int factor[2], result; /* tensors: inputs 0 and 1, and the output */
  int64_t index[4];      /* of the result */
  int64_t group;
  double sum, magnitude;
} summation;

static void read_tensors(summation *s, const cudnn_problem *p) {
  static const int forward[3] = {X, W, Y}, by_data[3] = {Y, W, X}, by_filter[3] = {X, Y, W};
  const int *of = p->operation == CUDNN_KIND_BY_DATA     ? by_data
                  : p->operation == CUDNN_KIND_BY_FILTER ? by_filter
                                                         : forward;
  for (int i = 0; i < 3; i++) {
    s->sizes[of[i]] = p->sizes[i];
    s->strides[of[i]] = p->strides[i];
  }
  s->factor[0] = of[0];
  s->factor[1] = of[1];
  s->result = of[2];
}

static loop only(int64_t index) {
  return (loop){index, index + 1};
}

/* Range of rows (columns) of y whose window contains a row of x at this `tap` of the filter: all
 * such rows, or only the result's row. */
static loop rows_of(const summation *s, int i, int64_t tap) {
  const cudnn_problem *p = s->p;
  const int64_t stride = p->stride[i], last = s->sizes[X][2 + i] - 1;
  const int64_t back = p->padding[i] - tap * p->dilation[i]; /* row · stride - back is a row of x */
  loop rows = {0, s->sizes[Y][2 + i]};
  if (s->result == Y) rows = only(s->index[2 + i]);
  if (s->result == X) {
    const int64_t reach = s->index[2 + i] + back;
    if (reach % stride != 0 || reach < 0 || reach / stride >= rows.end) return (loop){0, 0};
    return only(reach / stride);
  }
  const int64_t least = back > 0 ? (back + stride - 1) / stride : 0;
  const int64_t end = last + back < 0 ? 0 : (last + back) / stride + 1;
  if (rows.first < least) rows.first = least;
  if (rows.end > end) rows.end = end;
  return rows;
}

/* Adds a line of products. */
static void add_line(summation *s, const int64_t at[2], const int64_t step[2], int64_t count) {
  const double *a = s->values[0], *b = s->values[1];
  const int64_t period = s->period, step_a = step[0] % period, step_b = step[1] % period;
  int64_t at_a = at[0] % period, at_b = at[1] % period;
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < count; i++) {
    const double product = a[at_a] * b[at_b];
    sum += product;
    magnitude += fabs(product);
    at_a += step_a;
    at_b += step_b;
    if (at_a >= period) at_a -= period;
    if (at_b >= period) at_b -= period;
  }
  s->sum += sum;
  s->magnitude += magnitude;
}

/* Offset of a tensor's element with these indices. */
static int64_t place_of(const summation *s, int tensor, const int64_t at[LOOPS],
                        const int64_t tap[2]) {
  const int64_t *stride = s->strides[tensor];
  const cudnn_problem *p = s->p;
  if (tensor == W)
    return at[O] * stride[0] + at[C] * stride[1] + tap[0] * stride[2] + tap[1] * stride[3];
  if (tensor == Y)
    return at[N] * stride[0] + at[O] * stride[1] + at[P] * stride[2] + at[Q] * stride[3];
  const int64_t channel = s->group * s->sizes[W][1] + at[C];
  const int64_t h = at[P] * p->stride[0] + tap[0] * p->dilation[0] - p->padding[0];
  const int64_t v = at[Q] * p->stride[1] + tap[1] * p->dilation[1] - p->padding[1];
  return at[N] * stride[0] + channel * stride[1] + h * stride[2] + v * stride[3];
}

/* Adds all products at one tap of the filter, with the longest loop innermost. */
static void add_tap(summation *s, const loop loops[LOOPS], const int64_t tap[2]) {
  int64_t at[LOOPS];
  int inner = 0;
  for (int i = 0; i < LOOPS; i++) {
    if (loops[i].first >= loops[i].end) return;
    if (loops[i].end - loops[i].first > loops[inner].end - loops[inner].first) inner = i;
    at[i] = loops[i].first;
  }
  int64_t next[LOOPS], step[2];
  for (int i = 0; i < LOOPS; i++) next[i] = at[i] + (i == inner);
  for (int i = 0; i < 2; i++)
    step[i] = place_of(s, s->factor[i], next, tap) - place_of(s, s->factor[i], at, tap);
  for (;;) {
    const int64_t from[2] = {place_of(s, s->factor[0], at, tap),
                             place_of(s, s->factor[1], at, tap)};
    add_line(s, from, step, loops[inner].end - loops[inner].first);
    int i = 0;
    for (; i < LOOPS; i++) {
      if (i == inner) continue;
      if (++at[i] < loops[i].end) break;
      at[i] = loops[i].first;
    }
    if (i == LOOPS) return;
  }
}

void cudnn_sum(const cudnn_problem *p, uint64_t random, const double *const values[2],
               int64_t period, int64_t *place, double *sum, double *magnitude) {
  summation s = {.p = p, .values = values, .period = period};
  read_tensors(&s, p);
  *place = 0;
  for (int i = 0; i < 4; i++) {
    const uint64_t size = (uint64_t)s.sizes[s.result][i];
    s.index[i] = (int64_t)(random % size);
    random /= size;
    *place += s.index[i] * s.strides[s.result][i];
  }
  const int64_t groups = s.sizes[X][1] / s.sizes[W][1], outputs = s.sizes[W][0] / groups;
  const int64_t *of = s.index;
  s.group = s.result == X ? of[1] / s.sizes[W][1] : (s.result == Y ? of[1] : of[0]) / outputs;
  loop loops[LOOPS] = {[N] = s.result == W ? (loop){0, s.sizes[X][0]} : only(of[0]),
                       [O] = s.result == X ? (loop){s.group * outputs, (s.group + 1) * outputs}
                                           : only(s.result == Y ? of[1] : of[0]),
                       [C] =
                           s.result == Y ? (loop){0, s.sizes[W][1]} : only(of[1] % s.sizes[W][1])};
  const loop all[2] = {{0, s.sizes[W][2]}, {0, s.sizes[W][3]}};
  const loop rows = s.result == W ? only(of[2]) : all[0];
  const loop columns = s.result == W ? only(of[3]) : all[1];
  for (int64_t r = rows.first; r < rows.end; r++)
    for (int64_t t = columns.first; t < columns.end; t++) {
      loops[P] = rows_of(&s, 0, r);
      loops[Q] = rows_of(&s, 1, t);
      add_tap(&s, loops, (const int64_t[2]){r, t});
    }
  *sum = s.sum;
  *magnitude = s.magnitude;
}
