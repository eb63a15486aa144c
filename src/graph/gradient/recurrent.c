/* SPDX-License-Identifier: MIT */
/* The gradient of recurrent layers. The steps are recorded one by one over copies of the operands;
 * the operands' gradients are the gradients of the copies. So second derivatives are correct. */
#include "core/base/alloc.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

enum { MOST_OPERANDS = 7, MOST_GATES = 4 };

typedef compute_node node;

/* The unrolled layer. Operands are in the dtype to calculate in; {0} for operands that the layer
 * lacks. */
typedef struct unrolled {
  compute_graph *graph;
  const gradient_step *step;
  const compute_recurrent_attributes *a;
  int64_t steps, batch, hidden;
  node x, r, h, c, lengths, bias, peepholes;
} unrolled;

/* Columns of `count` gates, from gate `first`, of x [..., gates · hidden]. */
static node gate(const unrolled *u, node x, int64_t first, int64_t count) {
  const int32_t last = compute_node_shape(u->graph, x).rank - 1;
  return compute_slice(u->graph, x, last, first * u->hidden, count * u->hidden, 1);
}

static node clip(const unrolled *u, node x) {
  return u->a->clip > 0 ? compute_clamp(u->graph, x, -u->a->clip, u->a->clip) : x;
}

static node sigmoid(const unrolled *u, node x) {
  return compute_sigmoid(u->graph, clip(u, x));
}

static node hyperbolic(const unrolled *u, node x) {
  return compute_tanh(u->graph, clip(u, x));
}

static node peep(const unrolled *u, node x, node c, int64_t which) {
  if (!u->a->peepholes) return x;
  return compute_add(u->graph, x, compute_mul(u->graph, c, gate(u, u->peepholes, which, 1)));
}

static void rnn(unrolled *u, node x) {
  u->h = hyperbolic(u, compute_add(u->graph, x, compute_matmul(u->graph, u->h, u->r)));
}

static void gru(unrolled *u, node x) {
  compute_graph *graph = u->graph;
  const int64_t together = u->a->reset_after ? 3 : 2;
  const node sums = compute_matmul(graph, u->h, gate(u, u->r, 0, together));
  const node both = sigmoid(u, compute_add(graph, gate(u, x, 0, 2), gate(u, sums, 0, 2)));
  const node update = gate(u, both, 0, 1), reset = gate(u, both, 1, 1);
  node hidden;
  if (u->a->reset_after) {
    hidden = gate(u, sums, 2, 1);
    if (u->a->bias) hidden = compute_add(graph, hidden, u->bias);
    hidden = compute_mul(graph, reset, hidden);
  } else {
    hidden = compute_matmul(graph, compute_mul(graph, reset, u->h), gate(u, u->r, 2, 1));
  }
  hidden = hyperbolic(u, compute_add(graph, gate(u, x, 2, 1), hidden));
  const node left = compute_sub(graph, gradient_number(u->step, 1), update);
  u->h = compute_add(graph, compute_mul(graph, left, hidden), compute_mul(graph, update, u->h));
}

static void lstm(unrolled *u, node x) {
  compute_graph *graph = u->graph;
  const node sums = compute_add(graph, x, compute_matmul(graph, u->h, u->r));
  const node input = sigmoid(u, peep(u, gate(u, sums, 0, 1), u->c, 0));
  const node forget = sigmoid(u, peep(u, gate(u, sums, 2, 1), u->c, 2));
  const node value = hyperbolic(u, gate(u, sums, 3, 1));
  u->c = compute_add(graph, compute_mul(graph, forget, u->c), compute_mul(graph, input, value));
  const node output = sigmoid(u, peep(u, gate(u, sums, 1, 1), u->c, 1));
  u->h = compute_mul(graph, output, compute_tanh(graph, u->c));
}

/* Records step t and returns its row of the result. */
static node take_step(unrolled *u, int64_t t) {
  compute_graph *graph = u->graph;
  const node h = u->h, c = u->c;
  const int64_t columns = u->hidden * compute_recurrent_gates(u->a->cell);
  const node x = compute_reshape(graph, compute_slice(graph, u->x, 0, t, 1, 1),
                                 COMPUTE_SHAPE(u->batch, columns));
  switch (u->a->cell) {
  case COMPUTE_RECURRENT_RNN: rnn(u, x); break;
  case COMPUTE_RECURRENT_GRU: gru(u, x); break;
  case COMPUTE_RECURRENT_LSTM: lstm(u, x); break;
  }
  if (!u->a->lengths) return u->h;
  const node active = compute_greater(graph, u->lengths, compute_scalar_i64(graph, COMPUTE_I32, t));
  const node y = compute_select(graph, active, u->h, gradient_number(u->step, 0));
  u->h = compute_select(graph, active, u->h, h);
  if (compute_node_is_valid(c)) u->c = compute_select(graph, active, u->c, c);
  return y;
}

/* The sum of all rows of the result times their gradients. The operands' gradients are derived from
 * it. */
static node weigh(unrolled *u, node g) {
  compute_graph *graph = u->graph;
  const int64_t states = compute_recurrent_states(u->a->cell);
  node *rows = base_allocate((uint64_t)(u->steps + states), sizeof *rows);
  if (!rows) return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "gradients", "out of memory");
  for (int64_t i = 0; i < u->steps && !graph->status; i++) {
    const int64_t t = u->a->reverse ? u->steps - 1 - i : i;
    rows[t] = take_step(u, t);
  }
  rows[u->steps] = u->h;
  if (states > 1) rows[u->steps + 1] = u->c;
  const compute_shape shape = COMPUTE_SHAPE(1, u->batch, u->hidden);
  for (int64_t i = 0; i < u->steps + states && !graph->status; i++)
    rows[i] = compute_reshape(graph, rows[i], shape);
  node all = {0};
  if (!graph->status) all = compute_concat(graph, rows, (size_t)(u->steps + states), 0);
  base_release(rows);
  return compute_sum(graph, compute_mul(graph, all, g), COMPUTE_ALL_AXES, false);
}

/* A copy of operand `*next` as a separate node, or {0} if the layer lacks it. */
static node copy(const gradient_step *s, bool there, uint32_t *next, node *copies) {
  if (!there) return (node){0};
  const uint32_t index = (*next)++;
  return copies[index] = build_same(s->graph, gradient_widen(s, gradient_operand(s, index)));
}

void gradient_recurrent(gradient_step *s) {
  compute_graph *graph = s->graph;
  const compute_recurrent_attributes *a = s->node.constant;
  const bool lstm_cell = a->cell == COMPUTE_RECURRENT_LSTM;
  node copies[MOST_OPERANDS] = {{0}}, wanted[MOST_OPERANDS], gradients[MOST_OPERANDS];
  uint32_t next = 0, numbers[MOST_OPERANDS];
  unrolled u = {.graph = graph,
                .step = s,
                .a = a,
                .steps = shape_at(s->node.shape, 0) - compute_recurrent_states(a->cell),
                .batch = shape_at(s->node.shape, 1),
                .hidden = shape_at(s->node.shape, 2)};
  if (a->quantized) {
    graph_fail(graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, "quantized_lstm",
               "states rounded to 8 bits have no gradient");
    return;
  }
  if (!gradient_may_unroll(s, u.steps)) return;
  u.x = copy(s, true, &next, copies);
  u.r = copy(s, true, &next, copies);
  u.h = copy(s, true, &next, copies);
  u.c = copy(s, lstm_cell, &next, copies);
  if (a->lengths)
    u.lengths = compute_reshape(graph, gradient_operand(s, next++), COMPUTE_SHAPE(u.batch, 1));
  u.bias = copy(s, a->bias, &next, copies);
  u.peepholes = copy(s, a->peepholes, &next, copies);
  const node loss = weigh(&u, gradient_widen(s, s->upstream));
  size_t count = 0;
  for (uint32_t i = 0; i < next; i++) {
    if (!compute_node_is_valid(copies[i]) || !gradient_wanted(s, i)) continue;
    numbers[count] = i;
    wanted[count++] = copies[i];
  }
  if (compute_gradients(graph, loss, wanted, count, gradients)) return;
  for (size_t i = 0; i < count; i++) gradient_give(s, numbers[i], gradients[i]);
}
