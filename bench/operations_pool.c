/* SPDX-License-Identifier: MIT */
/* Pooling in the table of operations (operations.h), and its gradients. */
#include <math.h>
#include <stdlib.h>

#include "host.h"
#include "operations.h"

typedef struct windows {
  int64_t n, c, h, w, k, stride, padding;
  int64_t p, q; /* rows and columns of the result */
} windows;

static windows windows_of(const bench_case *c) {
  const int64_t *s = c->size;
  windows g = {s[BENCH_N],      s[BENCH_C],       s[BENCH_H], s[BENCH_W], s[BENCH_KERNEL],
               s[BENCH_STRIDE], s[BENCH_PADDING], 0,          0};
  if (!g.stride) g.stride = 1;
  g.p = (g.h + 2 * g.padding - g.k) / g.stride + 1;
  g.q = (g.w + 2 * g.padding - g.k) / g.stride + 1;
  return g;
}

static compute_pool2d_options options_of(const windows *g) {
  return (compute_pool2d_options){
      .size = {g->k, g->k}, .stride = {g->stride, g->stride}, .padding = {g->padding, g->padding}};
}

static compute_shape data_shape(const bench_case *c, uint32_t input) {
  (void)input;
  return COMPUTE_SHAPE(c->size[BENCH_N], c->size[BENCH_C], c->size[BENCH_H], c->size[BENCH_W]);
}

static compute_shape result_shape(const bench_case *c, uint32_t input) {
  const windows g = windows_of(c);
  (void)input;
  return COMPUTE_SHAPE(g.n, g.c, g.p, g.q);
}

/* The rows (or columns) of the data that window `at` covers. */
static void covered(const windows *g, int64_t at, int64_t size, int64_t *first, int64_t *last) {
  *first = at * g->stride - g->padding;
  *last = *first + g->k < size ? *first + g->k : size;
  if (*first < 0) *first = 0;
}

/* ---- Forward ------------------------------------------------------------------------------- */

static compute_node build_max(compute_graph *graph, const bench_case *c, const compute_node *in) {
  const windows g = windows_of(c);
  const compute_pool2d_options options = options_of(&g);
  return compute_max_pool2d(graph, in[0], &options);
}

static compute_node build_average(compute_graph *graph, const bench_case *c,
                                  const compute_node *in) {
  const windows g = windows_of(c);
  const compute_pool2d_options options = options_of(&g);
  return compute_average_pool2d(graph, in[0], &options);
}

/* The index in the data of a window's largest element, the first of several. */
static int64_t largest(const bench_problem *p, const windows *g, int64_t image, int64_t row,
                       int64_t column, double *value) {
  int64_t y, y_end, x, x_end, place = -1;
  covered(g, row, g->h, &y, &y_end);
  covered(g, column, g->w, &x, &x_end);
  for (*value = -INFINITY; y < y_end; y++) {
    for (int64_t i = x; i < x_end; i++) {
      double v;
      host_load(p->c->dtype, p->input[0], (image * g->h + y) * g->w + i, 1, 1, &v);
      if (!(v > *value)) continue;
      *value = v;
      place = y * g->w + i;
    }
  }
  return place;
}

static void reference_max(const bench_problem *p, int64_t first, int64_t count, double *value,
                          double *scale) {
  const windows g = windows_of(p->c);
  const int64_t row = first / g.q % g.p, image = first / g.q / g.p;
  for (int64_t i = 0; i < count; i++) {
    (void)largest(p, &g, image, row, i, &value[i]);
    scale[i] = fabs(value[i]);
  }
}

static void reference_average(const bench_problem *p, int64_t first, int64_t count, double *value,
                              double *scale) {
  const windows g = windows_of(p->c);
  const int64_t row = first / g.q % g.p, image = first / g.q / g.p;
  for (int64_t i = 0; i < count; i++) {
    int64_t y, y_end, x, x_end;
    covered(&g, row, g.h, &y, &y_end);
    covered(&g, i, g.w, &x, &x_end);
    for (value[i] = scale[i] = 0; y < y_end; y++) {
      for (int64_t j = x; j < x_end; j++) {
        double v;
        host_load(p->c->dtype, p->input[0], (image * g.h + y) * g.w + j, 1, 1, &v);
        value[i] += v / (double)(g.k * g.k);
        scale[i] += fabs(v) / (double)(g.k * g.k);
      }
    }
  }
}

/* ---- Backward ------------------------------------------------------------------------------ */

static compute_node gradient(compute_graph *graph, compute_node y, compute_node dy,
                             compute_node x) {
  compute_node result = {0};
  compute_node loss = compute_sum(graph, compute_mul(graph, y, dy), COMPUTE_ALL_AXES, false);
  compute_gradients(graph, loss, &x, 1, &result);
  return result;
}

static compute_shape max_backward_shape(const bench_case *c, uint32_t input) {
  return input ? result_shape(c, input) : data_shape(c, input);
}

static compute_node build_max_backward(compute_graph *graph, const bench_case *c,
                                       const compute_node *in) {
  return gradient(graph, build_max(graph, c, in), in[1], in[0]);
}

static compute_node build_average_backward(compute_graph *graph, const bench_case *c,
                                           const compute_node *in) {
  const compute_node x = compute_input(graph, c->dtype, data_shape(c, 0));
  return gradient(graph, build_average(graph, c, &x), in[0], x);
}

/* One row of the data: the contributions of all windows that overlap it. */
static void reference_backward(const bench_problem *p, int64_t first, int64_t count, double *value,
                               double *scale, bool average) {
  const windows g = windows_of(p->c);
  const int64_t row = first / g.w % g.h, image = first / g.w / g.h;
  for (int64_t i = 0; i < count; i++) value[i] = scale[i] = 0;
  for (int64_t r = 0; r < g.p; r++) {
    int64_t y, y_end, x, x_end;
    covered(&g, r, g.h, &y, &y_end);
    if (row < y || row >= y_end) continue;
    for (int64_t s = 0; s < g.q; s++) {
      double d, top;
      host_load(p->c->dtype, p->input[!average], (image * g.p + r) * g.q + s, 1, 1, &d);
      covered(&g, s, g.w, &x, &x_end);
      const int64_t place = average ? -1 : largest(p, &g, image, r, s, &top);
      if (average) d /= (double)(g.k * g.k);
      for (int64_t i = x; i < x_end; i++) {
        if (!average && place != row * g.w + i) continue;
        value[i] += d;
        scale[i] += fabs(d);
      }
    }
  }
}

static void reference_max_backward(const bench_problem *p, int64_t first, int64_t count,
                                   double *value, double *scale) {
  reference_backward(p, first, count, value, scale, false);
}

static void reference_average_backward(const bench_problem *p, int64_t first, int64_t count,
                                       double *value, double *scale) {
  reference_backward(p, first, count, value, scale, true);
}

/* ---- Global -------------------------------------------------------------------------------- */

static compute_node build_global_average(compute_graph *graph, const bench_case *c,
                                         const compute_node *in) {
  (void)c;
  return compute_global_average_pool2d(graph, in[0]);
}

static compute_node build_global_max(compute_graph *graph, const bench_case *c,
                                     const compute_node *in) {
  (void)c;
  return compute_global_max_pool2d(graph, in[0]);
}

static void reference_global(const bench_problem *p, int64_t first, int64_t count, double *value,
                             double *scale, bool average) {
  const int64_t size = p->c->size[BENCH_H] * p->c->size[BENCH_W];
  double *x = malloc((size_t)size * sizeof *x);
  for (int64_t i = 0; i < count; i++) {
    value[i] = x ? average ? 0 : -INFINITY : NAN;
    scale[i] = 0;
    if (x) host_load(p->c->dtype, p->input[0], (first + i) * size, 1, size, x);
    for (int64_t j = 0; x && j < size; j++) {
      value[i] = average ? value[i] + x[j] / (double)size : fmax(value[i], x[j]);
      scale[i] += fabs(x[j]) / (double)size;
    }
  }
  free(x);
}

static void reference_global_average(const bench_problem *p, int64_t first, int64_t count,
                                     double *value, double *scale) {
  reference_global(p, first, count, value, scale, true);
}

static void reference_global_max(const bench_problem *p, int64_t first, int64_t count,
                                 double *value, double *scale) {
  reference_global(p, first, count, value, scale, false);
}

/* ---- The table ----------------------------------------------------------------------------- */

/* work: nanoseconds of a reference value, roughly. */
#define ROW(name_, inputs_, bound_, shape_, build_, reference_, work_)                             \
  {                                                                                                \
    .name = name_, .input_count = inputs_, .low = -1, .high = 1, .bound = bound_, .shape = shape_, \
    .build = build_, .reference = reference_, .work = work_                                        \
  }

const bench_operation bench_operations_pool[] = {
    ROW("max_pool", 1, 0, data_shape, build_max, reference_max, 40),
    ROW("average_pool", 1, 4, data_shape, build_average, reference_average, 40),
    ROW("max_pool_backward", 2, 4, max_backward_shape, build_max_backward, reference_max_backward,
        80),
    ROW("average_pool_backward", 1, 4, result_shape, build_average_backward,
        reference_average_backward, 40),
    ROW("global_average_pool", 1, 4, data_shape, build_global_average, reference_global_average,
        10000),
    ROW("global_max_pool", 1, 0, data_shape, build_global_max, reference_global_max, 10000),
    {0}};
