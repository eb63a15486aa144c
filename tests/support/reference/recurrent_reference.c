/* SPDX-License-Identifier: MIT */
#include "support/reference/recurrent_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int recurrent_input(const compute_recurrent_attributes *a, recurrent_operand operand) {
  const bool there[RECURRENT_OPERANDS] = {
      true, true, true, a->cell == COMPUTE_RECURRENT_LSTM, a->lengths, a->bias, a->peepholes};
  int number = 0;
  if (!there[operand]) return -1;
  for (int i = 0; i < (int)operand; i++) number += there[i];
  return number;
}

/* One sequence at one step. */
typedef struct moment {
  const recurrent_problem *p;
  int64_t step, sequence;
  const double *h, *c;
} moment;

/* x plus the product of `state` with R's columns of a gate; only the product without `input`. */
static double sum_of(const moment *m, const double *state, int64_t gate, int64_t unit, bool input) {
  const int64_t column = gate * m->p->hidden + unit;
  double sum = input ? m->p->read(m->p->user, RECURRENT_X, m->step, m->sequence, column) : 0;
  for (int64_t k = 0; k < m->p->hidden; k++)
    sum += state[k] * m->p->read(m->p->user, RECURRENT_R, 0, k, column);
  return sum;
}

static double clipped(const moment *m, double x) {
  const double clip = m->p->a->clip;
  if (clip > 0 && x > clip) return clip;
  return clip > 0 && x < -clip ? -clip : x;
}

static double logistic(const moment *m, double x) {
  return 1 / (1 + exp(-clipped(m, x)));
}

static double peephole(const moment *m, int64_t which, int64_t unit) {
  if (!m->p->a->peepholes) return 0;
  return m->p->read(m->p->user, RECURRENT_PEEPHOLES, 0, 0, which * m->p->hidden + unit);
}

static void lstm(const moment *m, double *next_h, double *next_c) {
  for (int64_t u = 0; u < m->p->hidden; u++) {
    const double c = m->c[u];
    const double i = logistic(m, sum_of(m, m->h, 0, u, true) + peephole(m, 0, u) * c);
    const double f = logistic(m, sum_of(m, m->h, 2, u, true) + peephole(m, 2, u) * c);
    const double g = tanh(clipped(m, sum_of(m, m->h, 3, u, true)));
    next_c[u] = f * c + i * g;
    const double o = logistic(m, sum_of(m, m->h, 1, u, true) + peephole(m, 1, u) * next_c[u]);
    next_h[u] = o * tanh(next_c[u]);
  }
}

/* `reset` has room for r · h. */
static void gru(const moment *m, double *next_h, double *reset) {
  const compute_recurrent_attributes *a = m->p->a;
  for (int64_t u = 0; u < m->p->hidden; u++)
    reset[u] = logistic(m, sum_of(m, m->h, 1, u, true)) * (a->reset_after ? 1 : m->h[u]);
  for (int64_t u = 0; u < m->p->hidden; u++) {
    const double z = logistic(m, sum_of(m, m->h, 0, u, true));
    double state;
    if (a->reset_after) {
      state = sum_of(m, m->h, 2, u, false);
      if (a->bias) state += m->p->read(m->p->user, RECURRENT_BIAS, 0, 0, u);
      state *= reset[u];
    } else {
      state = sum_of(m, reset, 2, u, false);
    }
    const double x =
        m->p->read(m->p->user, RECURRENT_X, m->step, m->sequence, 2 * m->p->hidden + u);
    next_h[u] = (1 - z) * tanh(clipped(m, x + state)) + z * m->h[u];
  }
}

static void run_sequence(const recurrent_problem *p, int64_t sequence, double *h, double *c,
                         double *next_h, double *next_c) {
  const size_t bytes = (size_t)p->hidden * sizeof *h;
  double length = (double)p->steps;
  if (p->a->lengths) length = p->read(p->user, RECURRENT_LENGTHS, 0, 0, sequence);
  for (int64_t i = 0; i < p->steps; i++) {
    const moment m = {p, p->a->reverse ? p->steps - 1 - i : i, sequence, h, c};
    const bool active = (double)m.step < length;
    switch (p->a->cell) {
    case COMPUTE_RECURRENT_LSTM: lstm(&m, next_h, next_c); break;
    case COMPUTE_RECURRENT_GRU: gru(&m, next_h, next_c); break;
    case COMPUTE_RECURRENT_RNN:
      for (int64_t u = 0; u < p->hidden; u++)
        next_h[u] = tanh(clipped(&m, sum_of(&m, h, 0, u, true)));
      break;
    }
    for (int64_t u = 0; u < p->hidden; u++)
      p->write(p->user, m.step, sequence, u, active ? next_h[u] : 0);
    if (active) memcpy(h, next_h, bytes);
    if (active) memcpy(c, next_c, bytes);
  }
  for (int64_t u = 0; u < p->hidden; u++) {
    p->write(p->user, p->steps, sequence, u, h[u]);
    if (p->a->cell == COMPUTE_RECURRENT_LSTM) p->write(p->user, p->steps + 1, sequence, u, c[u]);
  }
}

bool recurrent_reference(const recurrent_problem *p) {
  double *memory = calloc((size_t)p->hidden * 4 + 1, sizeof *memory);
  if (!memory) return false;
  double *h = memory, *c = h + p->hidden, *next_h = c + p->hidden, *next_c = next_h + p->hidden;
  for (int64_t sequence = 0; sequence < p->batch; sequence++) {
    for (int64_t u = 0; u < p->hidden; u++) {
      h[u] = p->read(p->user, RECURRENT_H, 0, sequence, u);
      if (p->a->cell == COMPUTE_RECURRENT_LSTM)
        c[u] = p->read(p->user, RECURRENT_C, 0, sequence, u);
    }
    run_sequence(p, sequence, h, c, next_h, next_c);
  }
  free(memory);
  return true;
}
