/* SPDX-License-Identifier: MIT */
/* Gradient rules of the operations that are not elementwise. x is the operand, y the result, g the
 * gradient of the loss by y. */
#include "graph/gradient/gradient.h"

#include <math.h>

#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

typedef compute_node node;
typedef gradient_step step;

static node operand(const step *s) {
  return gradient_operand(s, 0);
}

static compute_shape operand_shape(const step *s, uint32_t index) {
  return compute_node_shape(s->graph, gradient_operand(s, index));
}

/* ---- Views, cast, joins ---------------------------------------------------------------------- */

/* gradient_give casts back. */
void gradient_cast(step *s) {
  gradient_give(s, 0, s->upstream);
}

/* gradient_give sums over repeated axes. */
void gradient_broadcast(step *s) {
  gradient_give(s, 0, s->upstream);
}

/* The gradient flows through the composed form. */
void gradient_find_spots(step *s) {
  gradient_give(s, 1, s->upstream);
}

void gradient_quantized_matmul(step *s) {
  gradient_give(s, s->node.input_count - 1, s->upstream);
}

void gradient_reshape(step *s) {
  gradient_give(s, 0, compute_reshape(s->graph, s->upstream, operand_shape(s, 0)));
}

void gradient_slice(step *s) {
  const graph_attributes *p = &s->node.attributes;
  const int64_t size = shape_at(operand_shape(s, 0), p->axis);
  gradient_give(s, 0, compute_embed(s->graph, s->upstream, p->axis, size, p->start, p->step));
}

void gradient_embed(step *s) {
  const graph_attributes *p = &s->node.attributes;
  const int64_t count = shape_at(operand_shape(s, 0), p->axis);
  gradient_give(s, 0, compute_slice(s->graph, s->upstream, p->axis, p->start, count, p->step));
}

void gradient_concat(step *s) {
  const int32_t axis = s->node.attributes.axis;
  int64_t start = 0;
  for (uint32_t i = 0; i < s->node.input_count; i++) {
    const int64_t count = shape_at(operand_shape(s, i), axis);
    if (gradient_wanted(s, i)) {
      gradient_give(s, i, compute_slice(s->graph, s->upstream, axis, start, count, 1));
    }
    start += count;
  }
}

/* ---- Matrix product -------------------------------------------------------------------------- */

static node transposed(const step *s, node matrix) {
  compute_axes order = {.count = compute_node_shape(s->graph, matrix).rank};
  for (int32_t i = 0; i < order.count; i++) order.axis[i] = i;
  if (order.count >= 2) {
    order.axis[order.count - 2] = order.count - 1;
    order.axis[order.count - 1] = order.count - 2;
  }
  return compute_transpose(s->graph, matrix, order);
}

/* True if an order swaps the last two axes and keeps the others. */
static bool swaps_matrices(const int32_t *order, int32_t rank) {
  for (int32_t i = 0; i < rank - 2; i++)
    if (order[i] != i) return false;
  return rank >= 2 && order[rank - 2] == rank - 1;
}

/* The gradient of a transposed weight is usually a product, AᵀG. Its transpose, GᵀA, is also a
 * product. With it the gradient has the weight's layout, and the update is fused into the same
 * kernel. */
void gradient_transpose(step *s) {
  const int32_t rank = s->node.shape.rank;
  const graph_node *from = &s->graph->nodes[s->upstream.id - 1];
  if (from->op == OP_matmul && swaps_matrices(s->node.attributes.order, rank)) {
    node a = graph_handle(s->graph, from->inputs[0]), b = graph_handle(s->graph, from->inputs[1]);
    if (compute_node_shape(s->graph, a).rank == rank &&
        compute_node_shape(s->graph, b).rank == rank) {
      gradient_give(s, 0, compute_matmul(s->graph, transposed(s, b), transposed(s, a)));
      return;
    }
  }
  compute_axes back = {.count = rank};
  for (int32_t i = 0; i < back.count; i++) back.axis[s->node.attributes.order[i]] = i;
  gradient_give(s, 0, compute_transpose(s->graph, s->upstream, back));
}

/* Joins all axes but the last: [batch…, m, n] as [batch · m, n]. False if that size overflows,
 * which requires a size of 0 elsewhere. */
static bool flat_shape(compute_shape shape, compute_shape *flat) {
  int64_t rows = 1;
  for (int32_t i = 0; i < shape.rank - 1; i++) {
    if (!checked_multiply(rows, shape_at(shape, i), &rows)) return false;
  }
  *flat = COMPUTE_SHAPE(rows, shape_at(shape, shape.rank - 1));
  return true;
}

/* If every batch is multiplied by the same B, as in a dense layer, the gradient is one product of
 * tall matrices: AᵀG over all batches. Otherwise it is a batched product, summed afterwards. */
static node right_gradient(const step *s, node a) {
  const compute_shape left = operand_shape(s, 0), right = operand_shape(s, 1);
  compute_shape batch = right, flat_a, flat_g;
  batch.rank -= 2;
  if (left.rank > 2 && left.rank >= right.rank && shape_count(batch) == 1 &&
      flat_shape(left, &flat_a) && flat_shape(s->node.shape, &flat_g)) {
    node rows = compute_reshape(s->graph, a, flat_a);
    node product = compute_matmul(s->graph, transposed(s, rows),
                                  compute_reshape(s->graph, s->upstream, flat_g));
    return right.rank > 2 ? compute_reshape(s->graph, product, right) : product;
  }
  return compute_matmul(s->graph, transposed(s, a), s->upstream);
}

/* With Y = A B: G Bᵀ for A and Aᵀ G for B. */
void gradient_matmul(step *s) {
  node a = gradient_operand(s, 0), b = gradient_operand(s, 1);
  if (gradient_wanted(s, 0)) {
    gradient_give(s, 0, compute_matmul(s->graph, s->upstream, transposed(s, b)));
  }
  if (gradient_wanted(s, 1)) gradient_give(s, 1, right_gradient(s, a));
}

/* ---- Reductions ------------------------------------------------------------------------------ */

/* A reduction's result with the reduced axes as size 1, so that it broadcasts to the operand. */
static node kept(const step *s, node reduced) {
  if (s->node.attributes.keep_axes) return reduced;
  compute_shape shape = operand_shape(s, 0);
  for (int32_t i = 0; i < shape.rank; i++) {
    if (s->node.attributes.axes_mask >> i & 1u) shape_set(&shape, i, 1);
  }
  if (compute_shape_equal(shape, s->node.shape)) return reduced;
  return compute_reshape(s->graph, reduced, shape);
}

/* The reduced axes as a list. An empty list means all axes. Only a scalar's mask is empty, since a
 * reduction over COMPUTE_NO_AXES makes no node; for a scalar both mean the same. */
static compute_axes reduced_axes(const step *s) {
  compute_axes axes = {0};
  for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++) {
    if (s->node.attributes.axes_mask >> i & 1u) axes.axis[axes.count++] = i;
  }
  return axes;
}

void gradient_sum(step *s) {
  gradient_give(s, 0, compute_broadcast(s->graph, kept(s, s->upstream), operand_shape(s, 0)));
}

void gradient_mean(step *s) {
  const compute_shape shape = operand_shape(s, 0);
  double count = 1;
  for (int32_t i = 0; i < shape.rank; i++) {
    if (s->node.attributes.axes_mask >> i & 1u) count *= (double)shape_at(shape, i);
  }
  node g = gradient_widen(s, kept(s, s->upstream));
  node share = compute_mul(s->graph, g, gradient_number(s, count > 0 ? 1 / count : 0));
  gradient_give(s, 0, compute_broadcast(s->graph, share, shape));
}

/* Max and min: the elements that equal the extremum share the gradient evenly. */
void gradient_extremum(step *s) {
  compute_graph *graph = s->graph;
  node is_extremum = compute_equal(graph, operand(s), kept(s, s->result));
  node count = compute_sum(graph, compute_cast(graph, is_extremum, s->work), reduced_axes(s), true);
  node share = compute_div(graph, gradient_widen(s, kept(s, s->upstream)), count);
  gradient_give(s, 0, compute_select(graph, is_extremum, share, gradient_number(s, 0)));
}

/* ---- Row operations -------------------------------------------------------------------------- */

/* y (g − Σ g y) */
void gradient_softmax(step *s) {
  compute_graph *graph = s->graph;
  node y = gradient_widen(s, s->result), g = gradient_widen(s, s->upstream);
  node dot =
      compute_sum(graph, compute_mul(graph, g, y), COMPUTE_AXES(s->node.attributes.axis), true);
  gradient_give(s, 0, compute_mul(graph, y, compute_sub(graph, g, dot)));
}

/* g − exp(y) Σ g */
void gradient_log_softmax(step *s) {
  compute_graph *graph = s->graph;
  node y = gradient_widen(s, s->result), g = gradient_widen(s, s->upstream);
  node total = compute_sum(graph, g, COMPUTE_AXES(s->node.attributes.axis), true);
  gradient_give(s, 0, compute_sub(graph, g, compute_mul(graph, compute_exp(graph, y), total)));
}

/* 1 / sqrt(v + e), with the variance v and the epsilon e of each row. It avoids squares of x, which
 * may leave the range. Half of the mean of (x − x₀) y is h = v / sqrt(v + e) / 2, because the mean
 * of y is 0. The result is 1 / (h + sqrt(h² + e)). The root is at most h + sqrt(e), even if h² is
 * not finite. */
static node normalize_scale(const step *s, node x, node y) {
  compute_graph *graph = s->graph;
  const int32_t axis = s->node.attributes.axis;
  const double half = 0.5 / (double)shape_at(s->node.shape, axis);
  const double epsilon = s->node.attributes.scalar;
  const node away = compute_sub(graph, x, compute_slice(graph, x, axis, 0, 1, 1));
  const node sum = compute_sum(graph, compute_mul(graph, y, away), COMPUTE_AXES(axis), true);
  if (epsilon == 0) return compute_div(graph, gradient_number(s, 0.5 / half), sum);
  const node h = compute_mul(graph, sum, gradient_number(s, half));
  const node most = compute_add(graph, h, gradient_number(s, sqrt(epsilon)));
  const node square = compute_add(graph, compute_square(graph, h), gradient_number(s, epsilon));
  const node root = compute_minimum(graph, compute_sqrt(graph, square), most);
  return compute_reciprocal(graph, compute_add(graph, h, root));
}

/* (g − mean(g) − y mean(g y)) / sqrt(variance + epsilon) */
void gradient_normalize(step *s) {
  compute_graph *graph = s->graph;
  const compute_axes axis = COMPUTE_AXES(s->node.attributes.axis);
  node x = gradient_widen(s, operand(s));
  node y = gradient_widen(s, s->result), g = gradient_widen(s, s->upstream);
  if (shape_at(s->node.shape, s->node.attributes.axis) == 0) {
    gradient_give(s, 0, g);
    return;
  }
  node scale = normalize_scale(s, x, y);
  node level = compute_mean(graph, g, axis, true);
  node tilt = compute_mean(graph, compute_mul(graph, g, y), axis, true);
  node rest = compute_sub(graph, compute_sub(graph, g, level), compute_mul(graph, y, tilt));
  gradient_give(s, 0, compute_mul(graph, rest, scale));
}

/* ---- Indexing -------------------------------------------------------------------------------- */

void gradient_gather(step *s) {
  const int32_t axis = s->node.attributes.axis;
  const int64_t size = shape_at(operand_shape(s, 0), axis);
  gradient_give(s, 0,
                compute_scatter_add(s->graph, s->upstream, gradient_operand(s, 1), axis, size));
}

void gradient_scatter_add(step *s) {
  gradient_give(
      s, 0, compute_gather(s->graph, s->upstream, gradient_operand(s, 1), s->node.attributes.axis));
}

void gradient_gather_elements(step *s) {
  gradient_give(s, 0,
                build_scatter_add_elements(s->graph, s->upstream, gradient_operand(s, 1),
                                           s->node.attributes.axis, operand_shape(s, 0),
                                           s->node.attributes.from_zero));
}

void gradient_scatter_add_elements(step *s) {
  gradient_give(s, 0,
                build_gather_elements(s->graph, s->upstream, gradient_operand(s, 1),
                                      s->node.attributes.axis, s->node.attributes.from_zero));
}

/* ---- Scattering into data -------------------------------------------------------------------- */

typedef struct scattering {
  step *s;
  bool elements;
  node places;
} scattering;

/* The elements of x, shaped like the result, at the places of the updates. */
static node take(const scattering *c, node x) {
  const int32_t axis = c->s->node.attributes.axis;
  return c->elements ? compute_gather_elements(c->s->graph, x, c->places, axis)
                     : compute_gather(c->s->graph, x, c->places, axis);
}

static node put(const scattering *c, node data, node updates, compute_scatter_mode mode) {
  const int32_t axis = c->s->node.attributes.axis;
  return c->elements ? compute_scatter_elements(c->s->graph, data, updates, c->places, axis, mode)
                     : compute_scatter(c->s->graph, data, updates, c->places, axis, mode);
}

/* At a place that was set, the data have no effect, and only the last of several updates has one.
 * Scattering the numbers of the updates finds the last update at each place. */
static void give_set(const scattering *c) {
  step *s = c->s;
  compute_graph *graph = s->graph;
  const compute_shape shape = operand_shape(s, 0), from = operand_shape(s, 2);
  int64_t count = 1;
  for (int32_t i = 0; i < from.rank; i++) count *= shape_at(from, i);
  const node number =
      compute_reshape(graph, compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(count), 0), from);
  const node last =
      put(c, compute_full(graph, COMPUTE_I64, shape, -1), number, COMPUTE_SCATTER_SET);
  const node kept = compute_less(graph, last, compute_scalar(graph, COMPUTE_I64, 0));
  const node zero = compute_scalar(graph, compute_node_dtype(graph, s->upstream), 0);
  gradient_give(s, 0, compute_select(graph, kept, s->upstream, zero));
  gradient_give(s, 2,
                compute_select(graph, compute_equal(graph, take(c, last), number),
                               take(c, s->upstream), zero));
}

/* Max and min: the data and the updates that equal the extremum share the gradient evenly. */
static void give_extremum(const scattering *c) {
  step *s = c->s;
  compute_graph *graph = s->graph;
  const node zero = gradient_number(s, 0);
  const node kept = compute_equal(graph, gradient_operand(s, 0), s->result);
  const node won = compute_equal(graph, gradient_operand(s, 2), take(c, s->result));
  const node count = put(c, compute_cast(graph, kept, s->work), compute_cast(graph, won, s->work),
                         COMPUTE_SCATTER_ADD);
  const node share = compute_div(graph, gradient_widen(s, s->upstream), count);
  gradient_give(s, 0, compute_select(graph, kept, share, zero));
  gradient_give(s, 2, compute_select(graph, won, take(c, share), zero));
}

/* A factor's gradient is the product of the other factors: the product of all, divided by this
 * factor. If the factor is 0 and the only zero, it is the product of the others. If one other
 * factor is 0, the gradient is 0, but its derivative for that factor is not. So the gradient has
 * that factor itself, which is the sum of the other zeros. */
static void give_product(const scattering *c) {
  step *s = c->s;
  compute_graph *graph = s->graph;
  const node zero = gradient_number(s, 0), one = gradient_number(s, 1);
  const node upstream = gradient_widen(s, s->upstream);
  const node data = gradient_widen(s, gradient_operand(s, 0));
  const node updates = gradient_widen(s, gradient_operand(s, 2));
  const node ones = compute_full(graph, s->work, operand_shape(s, 0), 1);
  const node none = compute_full(graph, s->work, operand_shape(s, 0), 0);
  gradient_give(s, 0, compute_mul(graph, upstream, put(c, ones, updates, COMPUTE_SCATTER_MUL)));
  if (!gradient_wanted(s, 2)) return;
  const node vanishes = compute_equal(graph, updates, zero);
  const node factor = compute_select(graph, vanishes, one, updates);
  const node zeros = compute_cast(graph, vanishes, s->work);
  const node product = put(c, data, factor, COMPUTE_SCATTER_MUL);
  const node quotient = compute_div(graph, take(c, product), factor);
  const node count = compute_sub(graph, take(c, put(c, none, zeros, COMPUTE_SCATTER_ADD)), zeros);
  const node own = compute_select(graph, vanishes, updates, zero);
  const node other = compute_sub(graph, take(c, put(c, none, own, COMPUTE_SCATTER_ADD)), own);
  const node small = compute_select(graph, compute_equal(graph, count, one),
                                    compute_mul(graph, quotient, other), zero);
  const node others = compute_select(graph, compute_equal(graph, count, zero), quotient, small);
  gradient_give(s, 2, compute_mul(graph, take(c, upstream), others));
}

static void give_scattered(step *s, bool elements) {
  const scattering c = {s, elements, gradient_operand(s, 1)};
  switch ((compute_scatter_mode)s->node.attributes.mode) {
  case COMPUTE_SCATTER_SET: give_set(&c); return;
  case COMPUTE_SCATTER_ADD:
    gradient_give(s, 0, s->upstream);
    gradient_give(s, 2, take(&c, s->upstream));
    return;
  case COMPUTE_SCATTER_MUL: give_product(&c); return;
  case COMPUTE_SCATTER_MAX:
  case COMPUTE_SCATTER_MIN: give_extremum(&c); return;
  }
}

void gradient_scatter(step *s) {
  give_scattered(s, false);
}

void gradient_scatter_elements(step *s) {
  give_scattered(s, true);
}
