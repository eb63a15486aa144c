/* SPDX-License-Identifier: MIT */
/* Batch norm, the gradients of norms and of softmax with cross-entropy, and attention, in the table
 * of operations (operations.h).
 *
 * Training operations are measured as a forward and a backward pass in one plan. Only the gradient
 * of the data is compared, because it depends on all other results. */
#include <math.h>
#include <stdlib.h>

#include "host.h"
#include "operations.h"

static const double epsilon = 1e-5;

static double *room(int64_t count) {
  return malloc((size_t)count * sizeof(double));
}

static void give_up(int64_t count, double *value) {
  for (int64_t i = 0; i < count; i++) value[i] = NAN;
}

static compute_shape image_shape(const bench_case *c) {
  return COMPUTE_SHAPE(c->size[BENCH_N], c->size[BENCH_C], c->size[BENCH_H], c->size[BENCH_W]);
}

/* ---- Batch norm ---------------------------------------------------------------------------- */

enum { X, MEAN, VARIANCE, GAIN, SHIFT };

static compute_shape batch_norm_shape(const bench_case *c, uint32_t input) {
  return input == X ? image_shape(c) : COMPUTE_SHAPE(c->size[BENCH_C]);
}

static void describe_batch_norm(const bench_case *c, uint32_t input, bench_input *what) {
  (void)c;
  if (input == VARIANCE) what->low = 0.5, what->high = 2;
}

static compute_node build_batch_norm(compute_graph *graph, const bench_case *c,
                                     const compute_node *in) {
  (void)c;
  return compute_batch_norm(graph, in[X], in[MEAN], in[VARIANCE], in[GAIN], in[SHIFT], epsilon);
}

static void reference_batch_norm(const bench_problem *p, int64_t first, int64_t count,
                                 double *value, double *scale) {
  const int64_t area = p->c->size[BENCH_H] * p->c->size[BENCH_W];
  double of[SHIFT + 1];
  for (int i = MEAN; i <= SHIFT; i++)
    host_load(p->c->dtype, p->input[i], first / area % p->c->size[BENCH_C], 1, 1, &of[i]);
  const double factor = of[GAIN] / sqrt(of[VARIANCE] + epsilon);
  host_load(p->c->dtype, p->input[X], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) {
    scale[i] = (fabs(value[i]) + fabs(of[MEAN])) * fabs(factor) + fabs(of[SHIFT]);
    value[i] = (value[i] - of[MEAN]) * factor + of[SHIFT];
  }
}

/* x, gain, bias, dy. */
static compute_shape batch_norm_train_shape(const bench_case *c, uint32_t input) {
  return input == 0 || input == 3 ? image_shape(c) : COMPUTE_SHAPE(c->size[BENCH_C]);
}

/* dx, y and the gradients of gain and bias. */
static uint32_t gradients_of(compute_graph *graph, compute_node y, const compute_node *in,
                             compute_node *outputs) {
  const compute_node of[] = {in[0], in[1], in[2]};
  compute_node gradients[3] = {{0}};
  compute_node loss = compute_sum(graph, compute_mul(graph, y, in[3]), COMPUTE_ALL_AXES, false);
  compute_gradients(graph, loss, of, 3, gradients);
  outputs[0] = gradients[0];
  outputs[1] = y;
  outputs[2] = gradients[1];
  outputs[3] = gradients[2];
  return 4;
}

static uint32_t build_batch_norm_train(compute_graph *graph, const bench_case *c,
                                       const compute_node *in, compute_node *outputs) {
  (void)c;
  compute_node y = compute_batch_norm_training(graph, in[0], in[1], in[2], epsilon, NULL, NULL);
  return gradients_of(graph, y, in, outputs);
}

/* Sums for the gradient of a norm over `count` elements; x̂ is x normalised. */
typedef struct moments {
  double mean, factor;      /* factor = 1 / sqrt(variance + epsilon) */
  double d, dx;             /* means of dŷ = dy·gain and of dŷ·x̂ */
  double d_scale, dx_scale; /* means of their magnitudes: rounding errors are proportional to
                             * them */
} moments;

static void add_moment(moments *m, double x, double d, int64_t count) {
  const double dx = d * (x - m->mean) * m->factor;
  m->d += d / (double)count;
  m->dx += dx / (double)count;
  m->d_scale += fabs(d) / (double)count;
  m->dx_scale += fabs(dx) / (double)count;
}

static void normalise(moments *m, const double *x, int64_t count) {
  double variance = 0;
  m->mean = 0;
  for (int64_t i = 0; i < count; i++) m->mean += x[i] / (double)count;
  for (int64_t i = 0; i < count; i++)
    variance += (x[i] - m->mean) * (x[i] - m->mean) / (double)count;
  m->factor = 1 / sqrt(variance + epsilon);
}

/* The moments of a channel: the planes of all images in sequence. */
static bool moments_of_channel(const bench_problem *p, int64_t channel, moments *m) {
  const int64_t n = p->c->size[BENCH_N], c = p->c->size[BENCH_C];
  const int64_t area = p->c->size[BENCH_H] * p->c->size[BENCH_W];
  double *x = room(n * area), *d = room(n * area);
  for (int64_t i = 0; x && d && i < n; i++) {
    host_load(p->c->dtype, p->input[0], (i * c + channel) * area, 1, area, x + i * area);
    host_load(p->c->dtype, p->input[3], (i * c + channel) * area, 1, area, d + i * area);
  }
  const bool known = x && d;
  *m = (moments){0};
  if (known) normalise(m, x, n * area);
  for (int64_t i = 0; known && i < n * area; i++) add_moment(m, x[i], d[i], n * area);
  free(x);
  free(d);
  return known;
}

/* dx = gain·factor·(dy − mean(dy) − x̂·mean(dy·x̂)) */
static void reference_batch_norm_train(const bench_problem *p, int64_t first, int64_t count,
                                       double *value, double *scale) {
  const int64_t area = p->c->size[BENCH_H] * p->c->size[BENCH_W];
  const int64_t channel = first / area % p->c->size[BENCH_C];
  moments m;
  double gain, *x = room(count);
  if (!x || !moments_of_channel(p, channel, &m)) {
    give_up(count, value);
    free(x);
    return;
  }
  host_load(p->c->dtype, p->input[1], channel, 1, 1, &gain);
  host_load(p->c->dtype, p->input[0], first, 1, count, x);
  host_load(p->c->dtype, p->input[3], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) {
    const double unit = (x[i] - m.mean) * m.factor, factor = gain * m.factor;
    scale[i] = fabs(factor) * (fabs(value[i]) + m.d_scale + fabs(unit) * m.dx_scale);
    value[i] = factor * (value[i] - m.d - unit * m.dx);
  }
  free(x);
}

/* ---- Layer norm ---------------------------------------------------------------------------- */

static compute_shape layer_norm_train_shape(const bench_case *c, uint32_t input) {
  return input == 0 || input == 3 ? COMPUTE_SHAPE(c->size[0], c->size[1])
                                  : COMPUTE_SHAPE(c->size[1]);
}

static uint32_t build_layer_norm_train(compute_graph *graph, const bench_case *c,
                                       const compute_node *in, compute_node *outputs) {
  (void)c;
  compute_node y = compute_layer_norm(graph, in[0], in[1], in[2], epsilon);
  return gradients_of(graph, y, in, outputs);
}

static void reference_layer_norm_train(const bench_problem *p, int64_t first, int64_t count,
                                       double *value, double *scale) {
  moments m = {0};
  double *x = room(count), *gain = room(count);
  if (!x || !gain) {
    give_up(count, value);
  } else {
    host_load(p->c->dtype, p->input[0], first, 1, count, x);
    host_load(p->c->dtype, p->input[1], 0, 1, count, gain);
    host_load(p->c->dtype, p->input[3], first, 1, count, value);
    normalise(&m, x, count);
    for (int64_t i = 0; i < count; i++) add_moment(&m, x[i], value[i] * gain[i], count);
    for (int64_t i = 0; i < count; i++) {
      const double unit = (x[i] - m.mean) * m.factor;
      scale[i] = m.factor * (fabs(value[i] * gain[i]) + m.d_scale + fabs(unit) * m.dx_scale);
      value[i] = m.factor * (value[i] * gain[i] - m.d - unit * m.dx);
    }
  }
  free(x);
  free(gain);
}

/* ---- Softmax with cross-entropy: the loss and its gradient --------------------------------- */

static compute_shape cross_entropy_shape(const bench_case *c, uint32_t input) {
  return input ? COMPUTE_SHAPE(c->size[0]) : COMPUTE_SHAPE(c->size[0], c->size[1]);
}

static void describe_cross_entropy(const bench_case *c, uint32_t input, bench_input *what) {
  if (input) *what = (bench_input){COMPUTE_I64, 0, (double)c->size[1]};
}

static uint32_t build_cross_entropy(compute_graph *graph, const bench_case *c,
                                    const compute_node *in, compute_node *outputs) {
  (void)c;
  outputs[1] = compute_cross_entropy(graph, in[0], in[1]);
  compute_gradients(graph, outputs[1], &in[0], 1, &outputs[0]);
  return 2;
}

static void reference_cross_entropy(const bench_problem *p, int64_t first, int64_t count,
                                    double *value, double *scale) {
  const double rows = (double)p->c->size[0];
  double label, top = -INFINITY, sum = 0;
  host_load(COMPUTE_I64, p->input[1], first / count, 1, 1, &label);
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) top = fmax(top, value[i]);
  for (int64_t i = 0; i < count; i++) sum += exp(value[i] - top);
  for (int64_t i = 0; i < count; i++) {
    const double part = exp(value[i] - top) / sum, hit = i == (int64_t)label;
    value[i] = (part - hit) / rows;
    scale[i] = (part + hit) / rows;
  }
}

/* ---- Attention ----------------------------------------------------------------------------- */

static compute_shape attention_shape(const bench_case *c, uint32_t input) {
  (void)input;
  return COMPUTE_SHAPE(c->size[0], c->size[1], c->size[2], c->size[3]);
}

static compute_node build_attention(compute_graph *graph, const bench_case *c,
                                    const compute_node *in) {
  const compute_attention_options options = {.causal = c->size[4]};
  return compute_scaled_attention(graph, in[0], in[1], in[2], &options);
}

/* One query: the weighted mean of the values. The scale is the weighted mean of their
 * magnitudes. */
static void reference_attention(const bench_problem *p, int64_t first, int64_t count, double *value,
                                double *scale) {
  const int64_t length = p->c->size[2], row = first / count, head = row / length * length * count;
  const int64_t keys = p->c->size[4] ? row % length + 1 : length;
  double *q = room(count), *k = room(count), *weight = room(keys), top = -INFINITY, sum = 0;
  if (!q || !k || !weight) {
    give_up(count, value);
  } else {
    host_load(p->c->dtype, p->input[0], first, 1, count, q);
    for (int64_t j = 0; j < keys; j++) {
      host_load(p->c->dtype, p->input[1], head + j * count, 1, count, k);
      weight[j] = 0;
      for (int64_t i = 0; i < count; i++) weight[j] += q[i] * k[i] / sqrt((double)count);
      top = fmax(top, weight[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += weight[j] = exp(weight[j] - top);
    for (int64_t i = 0; i < count; i++) value[i] = scale[i] = 0;
    for (int64_t j = 0; j < keys; j++) {
      host_load(p->c->dtype, p->input[2], head + j * count, 1, count, k);
      for (int64_t i = 0; i < count; i++) {
        value[i] += weight[j] / sum * k[i];
        scale[i] += weight[j] / sum * fabs(k[i]);
      }
    }
  }
  free(q);
  free(k);
  free(weight);
}

static double flops_attention(const bench_case *c) {
  const double length = (double)c->size[2], seen = c->size[4] ? (length + 1) / 2 : length;
  return 4.0 * (double)(c->size[0] * c->size[1]) * length * seen * (double)c->size[3];
}

/* ---- The table ----------------------------------------------------------------------------- */

/* work: nanoseconds of a reference value. Each row of the gradient of batch norm needs the sums of
 * its channel. */
const bench_operation bench_operations_norm[] = {{.name = "batch_norm",
                                                  .input_count = 5,
                                                  .low = -1,
                                                  .high = 1,
                                                  .bound = 8,
                                                  .shape = batch_norm_shape,
                                                  .describe = describe_batch_norm,
                                                  .build = build_batch_norm,
                                                  .reference = reference_batch_norm,
                                                  .work = 4},
                                                 {.name = "batch_norm_train",
                                                  .input_count = 4,
                                                  .low = -1,
                                                  .high = 1,
                                                  .bound = 32,
                                                  .shape = batch_norm_train_shape,
                                                  .build_all = build_batch_norm_train,
                                                  .reference = reference_batch_norm_train,
                                                  .work = 20000},
                                                 {.name = "layer_norm_train",
                                                  .input_count = 4,
                                                  .low = -1,
                                                  .high = 1,
                                                  .bound = 32,
                                                  .shape = layer_norm_train_shape,
                                                  .build_all = build_layer_norm_train,
                                                  .reference = reference_layer_norm_train,
                                                  .work = 20},
                                                 {.name = "cross_entropy",
                                                  .input_count = 2,
                                                  .low = -8,
                                                  .high = 8,
                                                  .bound = 32,
                                                  .shape = cross_entropy_shape,
                                                  .describe = describe_cross_entropy,
                                                  .build_all = build_cross_entropy,
                                                  .reference = reference_cross_entropy,
                                                  .work = 20},
                                                 {.name = "attention",
                                                  .input_count = 3,
                                                  .low = -1,
                                                  .high = 1,
                                                  .bound = 16,
                                                  .shape = attention_shape,
                                                  .build = build_attention,
                                                  .reference = reference_attention,
                                                  .flops = flops_attention,
                                                  .work = 0},
                                                 {0}};
