/* SPDX-License-Identifier: MIT */
/* Convolutions in the table of operations (operations.h): forward (alone and with bias, batch norm
 * and relu), gradients by data and by filter, and transposed, each with its textbook sum as the
 * reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "operations.h"

typedef struct geometry {
  int64_t n, c, h, w, o, k, stride, padding, dilation, groups;
  int64_t p, q; /* rows and columns of the result */
} geometry;

static int64_t places(const geometry *g, int64_t size) {
  return (size + 2 * g->padding - g->dilation * (g->k - 1) - 1) / g->stride + 1;
}

static geometry geometry_of(const bench_case *c) {
  const int64_t *s = c->size;
  geometry g = {s[BENCH_N],
                s[BENCH_C],
                s[BENCH_H],
                s[BENCH_W],
                s[BENCH_O],
                s[BENCH_KERNEL],
                s[BENCH_STRIDE],
                s[BENCH_PADDING],
                s[BENCH_DILATION] ? s[BENCH_DILATION] : 1,
                s[BENCH_GROUPS] ? s[BENCH_GROUPS] : 1,
                0,
                0};
  g.p = places(&g, g.h);
  g.q = places(&g, g.w);
  return g;
}

/* Of the convolution that defines a transposed one: its data are the result. */
static geometry geometry_transposed(const bench_case *c) {
  geometry g = geometry_of(c), t = g;
  t.c = g.o;
  t.o = g.c;
  t.p = g.h;
  t.q = g.w;
  t.h = (g.h - 1) * g.stride - 2 * g.padding + g.dilation * (g.k - 1) + 1;
  t.w = (g.w - 1) * g.stride - 2 * g.padding + g.dilation * (g.k - 1) + 1;
  return t;
}

static compute_conv2d_options options_of(const geometry *g) {
  return (compute_conv2d_options){.stride = {g->stride, g->stride},
                                  .dilation = {g->dilation, g->dilation},
                                  .padding = {g->padding, g->padding},
                                  .groups = g->groups};
}

static compute_shape data_shape(const geometry *g) {
  return COMPUTE_SHAPE(g->n, g->c, g->h, g->w);
}

static compute_shape result_shape(const geometry *g) {
  return COMPUTE_SHAPE(g->n, g->o, g->p, g->q);
}

static compute_shape filter_shape(const geometry *g) {
  return COMPUTE_SHAPE(g->o, g->c / g->groups, g->k, g->k);
}

static double flops(const bench_case *c) {
  const geometry g = geometry_of(c);
  return 2.0 * (double)(g.n * g.p * g.q) * (double)(g.o * g.k * g.k) * (double)(g.c / g.groups);
}

static double flops_transposed(const bench_case *c) {
  const geometry g = geometry_of(c);
  return 2.0 * (double)(g.n * g.h * g.w) * (double)(g.c * g.k * g.k) * (double)(g.o / g.groups);
}

/* ---- Forward ------------------------------------------------------------------------------- */

static compute_shape conv_shape(const bench_case *c, uint32_t input) {
  const geometry g = geometry_of(c);
  if (input > 1) return COMPUTE_SHAPE(g.o);
  return input ? filter_shape(&g) : data_shape(&g);
}

static compute_node build_conv(compute_graph *graph, const bench_case *c, const compute_node *in) {
  const geometry g = geometry_of(c);
  const compute_conv2d_options options = options_of(&g);
  return compute_conv2d(graph, in[0], in[1], (compute_node){0}, &options);
}

/* The columns first … last − 1 of the result whose data at `offset` from their window lie
 * inside. */
static void inside(const geometry *g, int64_t offset, int64_t *first, int64_t *last) {
  *first = 0;
  *last = g->q;
  while (*first < *last && *first * g->stride + offset < 0) ++*first;
  while (*last > *first && (*last - 1) * g->stride + offset >= g->w) --*last;
}

/* One row of the result: value = Σ x·f, scale = Σ |x·f|. */
static void reference_conv(const bench_problem *p, int64_t first, int64_t count, double *value,
                           double *scale) {
  const geometry g = geometry_of(p->c);
  const int64_t row = first / g.q % g.p, o = first / g.q / g.p % g.o, n = first / g.q / g.p / g.o;
  const int64_t channels = g.c / g.groups, base = o / (g.o / g.groups) * channels;
  double *x = malloc((size_t)g.w * sizeof *x), *f = malloc((size_t)(g.k * g.k) * sizeof *f);
  for (int64_t i = 0; i < count; i++) value[i] = scale[i] = x && f ? 0 : NAN;
  for (int64_t c = 0; x && f && c < channels; c++) {
    host_load(p->c->dtype, p->input[1], (o * channels + c) * g.k * g.k, 1, g.k * g.k, f);
    for (int64_t r = 0; r < g.k; r++) {
      const int64_t y = row * g.stride - g.padding + r * g.dilation;
      if (y < 0 || y >= g.h) continue;
      host_load(p->c->dtype, p->input[0], ((n * g.c + base + c) * g.h + y) * g.w, 1, g.w, x);
      for (int64_t s = 0; s < g.k; s++) {
        const int64_t offset = s * g.dilation - g.padding;
        int64_t from, to;
        inside(&g, offset, &from, &to);
        for (int64_t q = from; q < to; q++) {
          const double product = x[q * g.stride + offset] * f[r * g.k + s];
          value[q] += product;
          scale[q] += fabs(product);
        }
      }
    }
  }
  free(x);
  free(f);
}

/* ---- Forward, then a bias, batch norm with given statistics, and relu ---------------------- */

static const double norm_epsilon = 1e-5;
enum { X, FILTER, BIAS, MEAN, VARIANCE, GAIN, SHIFT };

static void describe_bn(const bench_case *c, uint32_t input, bench_input *what) {
  (void)c;
  if (input == VARIANCE) what->low = 0.5, what->high = 2;
}

static compute_node build_conv_bn_relu(compute_graph *graph, const bench_case *c,
                                       const compute_node *in) {
  const geometry g = geometry_of(c);
  const compute_conv2d_options options = options_of(&g);
  compute_node y = compute_conv2d(graph, in[X], in[FILTER], in[BIAS], &options);
  y = compute_batch_norm(graph, y, in[MEAN], in[VARIANCE], in[GAIN], in[SHIFT], norm_epsilon);
  return compute_relu(graph, y);
}

static void reference_conv_bn_relu(const bench_problem *p, int64_t first, int64_t count,
                                   double *value, double *scale) {
  const geometry g = geometry_of(p->c);
  double of[SHIFT + 1];
  reference_conv(p, first, count, value, scale);
  for (int i = BIAS; i <= SHIFT; i++)
    host_load(p->c->dtype, p->input[i], first / g.q / g.p % g.o, 1, 1, &of[i]);
  const double factor = of[GAIN] / sqrt(of[VARIANCE] + norm_epsilon);
  for (int64_t i = 0; i < count; i++) {
    value[i] = fmax((value[i] + of[BIAS] - of[MEAN]) * factor + of[SHIFT], 0);
    scale[i] = (scale[i] + fabs(of[BIAS]) + fabs(of[MEAN])) * fabs(factor) + fabs(of[SHIFT]);
  }
}

/* ---- By data, and transposed, which is the same sum ---------------------------------------- */

/* The gradient of Σ conv(x, filter)·dy. */
static compute_node gradient(compute_graph *graph, const geometry *g, compute_node x,
                             compute_node filter, compute_node dy, bool by_filter) {
  const compute_conv2d_options options = options_of(g);
  compute_node y = compute_conv2d(graph, x, filter, (compute_node){0}, &options), result = {0};
  compute_node loss = compute_sum(graph, compute_mul(graph, y, dy), COMPUTE_ALL_AXES, false);
  compute_gradients(graph, loss, by_filter ? &filter : &x, 1, &result);
  return result;
}

static compute_shape by_data_shape(const bench_case *c, uint32_t input) {
  const geometry g = geometry_of(c);
  return input ? result_shape(&g) : filter_shape(&g);
}

static compute_node build_by_data(compute_graph *graph, const bench_case *c,
                                  const compute_node *in) {
  const geometry g = geometry_of(c);
  return gradient(graph, &g, compute_input(graph, c->dtype, data_shape(&g)), in[0], in[1], false);
}

/* One row of the data of convolution g, from dy and the filter. */
static void spread(const bench_problem *p, const geometry *g, const void *filter, const void *dy,
                   int64_t first, int64_t count, double *value, double *scale) {
  const int64_t row = first / g->w % g->h, c = first / g->w / g->h % g->c;
  const int64_t n = first / g->w / g->h / g->c, channels = g->c / g->groups;
  const int64_t outputs = g->o / g->groups, base = c / channels * outputs;
  double *d = malloc((size_t)g->q * sizeof *d), *f = malloc((size_t)(g->k * g->k) * sizeof *f);
  for (int64_t i = 0; i < count; i++) value[i] = scale[i] = d && f ? 0 : NAN;
  for (int64_t o = base; d && f && o < base + outputs; o++) {
    host_load(p->c->dtype, filter, (o * channels + c % channels) * g->k * g->k, 1, g->k * g->k, f);
    for (int64_t r = 0; r < g->k; r++) {
      const int64_t y = row + g->padding - r * g->dilation;
      if (y < 0 || y % g->stride || y / g->stride >= g->p) continue;
      host_load(p->c->dtype, dy, ((n * g->o + o) * g->p + y / g->stride) * g->q, 1, g->q, d);
      for (int64_t s = 0; s < g->k; s++) {
        const int64_t offset = s * g->dilation - g->padding;
        int64_t from, to;
        inside(g, offset, &from, &to);
        for (int64_t q = from; q < to; q++) {
          const double product = d[q] * f[r * g->k + s];
          value[q * g->stride + offset] += product;
          scale[q * g->stride + offset] += fabs(product);
        }
      }
    }
  }
  free(d);
  free(f);
}

static void reference_by_data(const bench_problem *p, int64_t first, int64_t count, double *value,
                              double *scale) {
  const geometry g = geometry_of(p->c);
  spread(p, &g, p->input[0], p->input[1], first, count, value, scale);
}

static compute_shape transposed_shape(const bench_case *c, uint32_t input) {
  const geometry g = geometry_transposed(c);
  return input ? filter_shape(&g) : result_shape(&g);
}

static compute_node build_transposed(compute_graph *graph, const bench_case *c,
                                     const compute_node *in) {
  const geometry g = geometry_of(c);
  const compute_conv2d_options options = options_of(&g);
  return compute_conv2d_transpose(graph, in[0], in[1], (compute_node){0}, &options);
}

static void reference_transposed(const bench_problem *p, int64_t first, int64_t count,
                                 double *value, double *scale) {
  const geometry g = geometry_transposed(p->c);
  spread(p, &g, p->input[1], p->input[0], first, count, value, scale);
}

/* ---- By filter ----------------------------------------------------------------------------- */

static compute_shape by_filter_shape(const bench_case *c, uint32_t input) {
  const geometry g = geometry_of(c);
  return input ? result_shape(&g) : data_shape(&g);
}

static compute_node build_by_filter(compute_graph *graph, const bench_case *c,
                                    const compute_node *in) {
  const geometry g = geometry_of(c);
  compute_node filter = compute_input(graph, c->dtype, filter_shape(&g));
  return gradient(graph, &g, in[0], filter, in[1], true);
}

/* One row of one filter of one channel: a sum over all places of the result. */
static void reference_by_filter(const bench_problem *p, int64_t first, int64_t count, double *value,
                                double *scale) {
  const geometry g = geometry_of(p->c);
  const int64_t channels = g.c / g.groups, r = first / g.k % g.k;
  const int64_t o = first / g.k / g.k / channels;
  const int64_t c = o / (g.o / g.groups) * channels + first / g.k / g.k % channels;
  double *x = malloc((size_t)g.w * sizeof *x), *d = malloc((size_t)g.q * sizeof *d);
  for (int64_t i = 0; i < count; i++) value[i] = scale[i] = x && d ? 0 : NAN;
  for (int64_t i = 0; x && d && i < g.n * g.p; i++) {
    const int64_t n = i / g.p, y = i % g.p * g.stride - g.padding + r * g.dilation;
    if (y < 0 || y >= g.h) continue;
    host_load(p->c->dtype, p->input[0], ((n * g.c + c) * g.h + y) * g.w, 1, g.w, x);
    host_load(p->c->dtype, p->input[1], ((n * g.o + o) * g.p + i % g.p) * g.q, 1, g.q, d);
    for (int64_t s = 0; s < count; s++) {
      const int64_t offset = (first + s) % g.k * g.dilation - g.padding;
      int64_t from, to;
      inside(&g, offset, &from, &to);
      for (int64_t q = from; q < to; q++) {
        const double product = x[q * g.stride + offset] * d[q];
        value[s] += product;
        scale[s] += fabs(product);
      }
    }
  }
  free(x);
  free(d);
}

/* ---- The table ----------------------------------------------------------------------------- */

#define ROW(name_, inputs_, shape_, build_, reference_, flops_, ...)                               \
  {                                                                                                \
    .name = name_, .input_count = inputs_, .low = -1, .high = 1, .bound = 4, .shape = shape_,      \
    .build = build_, .reference = reference_, .flops = flops_, __VA_ARGS__                         \
  }

const bench_operation bench_operations_conv[] = {
    ROW("conv", 2, conv_shape, build_conv, reference_conv, flops, .work = 0),
    ROW("conv_bn_relu", 7, conv_shape, build_conv_bn_relu, reference_conv_bn_relu, flops,
        .describe = describe_bn),
    ROW("conv_by_data", 2, by_data_shape, build_by_data, reference_by_data, flops, .work = 0),
    ROW("conv_by_filter", 2, by_filter_shape, build_by_filter, reference_by_filter, flops,
        .work = 0),
    ROW("conv_transpose", 2, transposed_shape, build_transposed, reference_transposed,
        flops_transposed, .work = 0),
    {0}};
