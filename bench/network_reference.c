/* SPDX-License-Identifier: MIT */
/* See network_reference.h. Loops in the order of the definitions, with rows innermost: a step of
 * the largest network takes about a second. */
#include "network_reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double norm_epsilon = 1e-5;

/* The results of a part, and their gradients. */
typedef struct stage {
  int64_t channels, side; /* side 1: features */
  double *y, *dy;
  double *factor; /* norm: 1 / sqrt(variance + epsilon) of each channel */
  int64_t *place; /* pool: where the largest was */
  int64_t at;     /* of its weight in all weights */
} stage;

typedef struct work {
  const network_problem *problem;
  bool training;
  stage stage[BENCH_MOST_PARTS];
  double *w, *dw, *m, *v; /* all weights, gradients, moments */
  int64_t weights;
} work;

static int64_t size_of(const work *k, const stage *s) {
  return k->problem->batch * s->channels * s->side * s->side;
}

static double *doubles(int64_t count) {
  return calloc((size_t)(count ? count : 1), sizeof(double));
}

static void release(work *k) {
  for (int i = 0; i < BENCH_MOST_PARTS; i++) {
    free(k->stage[i].y);
    free(k->stage[i].dy);
    free(k->stage[i].factor);
    free(k->stage[i].place);
  }
  free(k->w);
  free(k->dw);
  free(k->m);
  free(k->v);
}

static void shape_of(work *k, int i) {
  const bench_network *n = k->problem->network;
  const bench_part *p = &n->parts[i];
  stage *s = &k->stage[i];
  if (i == 0) {
    s->channels = n->channels;
    s->side = n->side;
    return;
  }
  *s = (stage){.channels = k->stage[bench_part_from(n, i)].channels,
               .side = k->stage[bench_part_from(n, i)].side};
  if (p->outputs) s->channels = p->outputs;
  if (p->kind == BENCH_PART_CONV) s->side = (s->side - 1) / p->stride + 1;
  if (p->kind == BENCH_PART_POOL) s->side /= 2;
  if (p->kind == BENCH_PART_AVERAGE || p->kind == BENCH_PART_DENSE) s->side = 1;
}

static int prepare(work *k) {
  const network_problem *p = k->problem;
  k->weights = bench_network_weights(p->network);
  k->w = doubles(k->weights);
  k->dw = doubles(k->weights);
  k->m = doubles(k->weights);
  k->v = doubles(k->weights);
  bool there = k->w && k->dw && k->m && k->v;
  int64_t at = 0;
  for (int i = 0; i < p->network->count; i++) {
    const bench_part *part = &p->network->parts[i];
    stage *s = &k->stage[i];
    shape_of(k, i);
    s->at = at;
    at += bench_part_weights(part) ? bench_part_weights(part) + part->outputs : 0;
    s->y = doubles(size_of(k, s));
    s->dy = doubles(size_of(k, s));
    s->factor = doubles(s->channels);
    s->place = calloc((size_t)size_of(k, s), sizeof *s->place);
    there = there && s->y && s->dy && s->factor && s->place;
  }
  for (int64_t i = 0; there && i < k->weights; i++) k->w[i] = (double)p->weights[i];
  for (int64_t i = 0; there && i < size_of(k, &k->stage[0]); i++)
    k->stage[0].y[i] = (double)p->x[i];
  return there ? 0 : -1;
}

/* ---- Convolution --------------------------------------------------------------------------- */

/* Visits all pairs of data rows and result rows that a filter row connects; forward, or backward
 * with respect to both data and filter. */
static void convolve(work *k, int index, bool backward) {
  const bench_part *p = &k->problem->network->parts[index];
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  const double *w = k->w + y->at, *bias = w + bench_part_weights(p);
  double *dw = k->dw + y->at, *dbias = dw + bench_part_weights(p);
  const int64_t pad = p->kernel / 2, size = p->kernel;
  for (int64_t n = 0; n < k->problem->batch; n++) {
    for (int64_t o = 0; o < p->outputs; o++) {
      double *plane = y->y + (n * p->outputs + o) * y->side * y->side;
      double *dplane = y->dy + (n * p->outputs + o) * y->side * y->side;
      for (int64_t i = 0; i < y->side * y->side; i++)
        if (backward)
          dbias[o] += dplane[i];
        else
          plane[i] = bias[o];
      for (int64_t t = 0; t < p->inputs * size * size * y->side; t++) {
        const int64_t row = t % y->side, s = t / y->side % size, r = t / y->side / size % size;
        const int64_t c = t / y->side / size / size, from = row * p->stride + r - pad;
        const int64_t tap = ((o * p->inputs + c) * size + r) * size + s, shift = s - pad;
        int64_t first = 0, last = y->side;
        if (from < 0 || from >= x->side) continue;
        while (first * p->stride + shift < 0) first++;
        while ((last - 1) * p->stride + shift >= x->side) last--;
        const int64_t start = ((n * p->inputs + c) * x->side + from) * x->side + shift;
        double *out = plane + row * y->side, sum = 0;
        const double *dout = dplane + row * y->side, weight = w[tap];
        for (int64_t q = first; q < last && !backward; q++)
          out[q] += weight * x->y[start + q * p->stride];
        for (int64_t q = first; q < last && backward; q++) {
          sum += dout[q] * x->y[start + q * p->stride];
          x->dy[start + q * p->stride] += weight * dout[q];
        }
        if (backward) dw[tap] += sum;
      }
    }
  }
}

/* ---- Batch norm ---------------------------------------------------------------------------- */

static void norm_forward(work *k, int index) {
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  const double *gain = k->w + y->at, *bias = gain + y->channels;
  const int64_t area = y->side * y->side, batch = k->problem->batch;
  const double count = (double)(area * batch);
  for (int64_t c = 0; c < y->channels; c++) {
    double mean = 0, variance = k->training ? 0 : 1;
    for (int64_t i = 0; i < batch * area && k->training; i++)
      mean += x->y[(i / area * y->channels + c) * area + i % area] / count;
    for (int64_t i = 0; i < batch * area && k->training; i++) {
      const double d = x->y[(i / area * y->channels + c) * area + i % area] - mean;
      variance += d * d / count;
    }
    y->factor[c] = 1 / sqrt(variance + norm_epsilon);
    for (int64_t i = 0; i < batch * area; i++) {
      const int64_t at = (i / area * y->channels + c) * area + i % area;
      y->y[at] = (x->y[at] - mean) * y->factor[c] * gain[c] + bias[c];
    }
  }
}

/* Recovers x̂ = (y − bias) / gain from the results. The gains of these networks are not 0. */
static void norm_backward(work *k, int index) {
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  const double *gain = k->w + y->at, *bias = gain + y->channels;
  double *dgain = k->dw + y->at, *dbias = dgain + y->channels;
  const int64_t area = y->side * y->side, batch = k->problem->batch;
  for (int64_t c = 0; c < y->channels; c++) {
    for (int64_t i = 0; i < batch * area; i++) {
      const int64_t at = (i / area * y->channels + c) * area + i % area;
      dbias[c] += y->dy[at];
      dgain[c] += y->dy[at] * (y->y[at] - bias[c]) / gain[c];
    }
    for (int64_t i = 0; i < batch * area; i++) {
      const int64_t at = (i / area * y->channels + c) * area + i % area;
      const double unit = (y->y[at] - bias[c]) / gain[c], count = (double)(area * batch);
      x->dy[at] +=
          gain[c] * y->factor[c] * (y->dy[at] - dbias[c] / count - unit * dgain[c] / count);
    }
  }
}

/* ---- Other parts --------------------------------------------------------------------------- */

static void pool(work *k, int index, bool backward) {
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  for (int64_t i = 0; i < size_of(k, y); i++) {
    const int64_t column = i % y->side, row = i / y->side % y->side;
    const int64_t corner = (i / y->side / y->side * x->side + 2 * row) * x->side + 2 * column;
    const int64_t places[4] = {corner, corner + 1, corner + x->side, corner + x->side + 1};
    if (backward) {
      x->dy[y->place[i]] += y->dy[i];
      continue;
    }
    y->place[i] = corner;
    for (int j = 1; j < 4; j++)
      if (x->y[places[j]] > x->y[y->place[i]]) y->place[i] = places[j];
    y->y[i] = x->y[y->place[i]];
  }
}

static void average(work *k, int index, bool backward) {
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  const int64_t area = x->side * x->side;
  for (int64_t i = 0; i < size_of(k, y); i++) {
    if (!backward) y->y[i] = 0;
    for (int64_t j = 0; j < area; j++)
      if (backward)
        x->dy[i * area + j] += y->dy[i] / (double)area;
      else
        y->y[i] += x->y[i * area + j] / (double)area;
  }
}

static void dense(work *k, int index, bool backward) {
  const bench_part *p = &k->problem->network->parts[index];
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(k->problem->network, index)];
  for (int64_t i = 0; i < size_of(k, y); i++) {
    const int64_t o = i % p->outputs, from = i / p->outputs * p->inputs;
    const double *w = k->w + y->at + o * p->inputs, *in = x->y + from;
    double *dw = k->dw + y->at + o * p->inputs, *din = x->dy + from;
    const int64_t bias = y->at + p->outputs * p->inputs + o;
    double sum = k->w[bias];
    for (int64_t j = 0; j < p->inputs && !backward; j++) sum += w[j] * in[j];
    for (int64_t j = 0; j < p->inputs && backward; j++) {
      dw[j] += y->dy[i] * in[j];
      din[j] += y->dy[i] * w[j];
    }
    if (backward)
      k->dw[bias] += y->dy[i];
    else
      y->y[i] = sum;
  }
}

static void each(work *k, int index, bool backward) {
  const bench_network *n = k->problem->network;
  stage *y = &k->stage[index], *x = &k->stage[bench_part_from(n, index)];
  stage *other = n->parts[index].kind == BENCH_PART_ADD ? &k->stage[n->parts[index].other] : NULL;
  for (int64_t i = 0; i < size_of(k, y); i++) {
    if (other && backward)
      x->dy[i] += y->dy[i], other->dy[i] += y->dy[i];
    else if (other)
      y->y[i] = x->y[i] + other->y[i];
    else if (backward)
      x->dy[i] += x->y[i] > 0 ? y->dy[i] : 0;
    else
      y->y[i] = x->y[i] > 0 ? x->y[i] : 0;
  }
}

static void pass(work *k, int index, bool backward) {
  switch (k->problem->network->parts[index].kind) {
  case BENCH_PART_CONV: convolve(k, index, backward); break;
  case BENCH_PART_NORM: (backward ? norm_backward : norm_forward)(k, index); break;
  case BENCH_PART_POOL: pool(k, index, backward); break;
  case BENCH_PART_AVERAGE: average(k, index, backward); break;
  case BENCH_PART_DENSE: dense(k, index, backward); break;
  case BENCH_PART_RELU:
  case BENCH_PART_ADD: each(k, index, backward); break;
  case BENCH_PART_INPUT: break;
  }
}

/* ---- Loss and step ------------------------------------------------------------------------- */

/* The mean of −log softmax at the labels; leaves its gradient in the last stage. */
static double loss_of(work *k) {
  stage *last = &k->stage[k->problem->network->count - 1];
  const int64_t batch = k->problem->batch, classes = last->channels;
  double loss = 0;
  for (int64_t i = 0; i < batch; i++) {
    const double *y = last->y + i * classes;
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < classes; j++) top = fmax(top, y[j]);
    for (int64_t j = 0; j < classes; j++) sum += exp(y[j] - top);
    loss -= (y[k->problem->labels[i]] - top - log(sum)) / (double)batch;
    for (int64_t j = 0; j < classes; j++)
      last->dy[i * classes + j] =
          (exp(y[j] - top) / sum - (j == k->problem->labels[i])) / (double)batch;
  }
  return loss;
}

static void adam(work *k, int step) {
  const double b1 = 0.9, b2 = 0.999;
  for (int64_t i = 0; i < k->weights; i++) {
    k->m[i] = b1 * k->m[i] + (1 - b1) * k->dw[i];
    k->v[i] = b2 * k->v[i] + (1 - b2) * k->dw[i] * k->dw[i];
    const double m = k->m[i] / (1 - pow(b1, step)), v = k->v[i] / (1 - pow(b2, step));
    k->w[i] -= 1e-3 * m / (sqrt(v) + 1e-8);
  }
}

int network_reference_infer(const network_problem *problem, double *results) {
  work k = {.problem = problem};
  const int last = problem->network->count - 1;
  int status = prepare(&k);
  for (int i = 1; i <= last && !status; i++) pass(&k, i, false);
  if (!status)
    memcpy(results, k.stage[last].y, (size_t)size_of(&k, &k.stage[last]) * sizeof *results);
  release(&k);
  return status;
}

int network_reference_train(const network_problem *problem, int steps, double *losses) {
  work k = {.problem = problem, .training = true};
  const int count = problem->network->count;
  int status = prepare(&k);
  for (int step = 1; step <= steps && !status; step++) {
    for (int i = 1; i < count; i++) pass(&k, i, false);
    for (int i = 0; i < count; i++)
      memset(k.stage[i].dy, 0, (size_t)size_of(&k, &k.stage[i]) * sizeof(double));
    memset(k.dw, 0, (size_t)k.weights * sizeof *k.dw);
    losses[step - 1] = loss_of(&k);
    if (step == steps) break;
    for (int i = count - 1; i > 0; i--) pass(&k, i, true);
    adam(&k, step);
  }
  release(&k);
  return status;
}
