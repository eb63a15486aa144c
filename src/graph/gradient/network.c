/* SPDX-License-Identifier: MIT */
/* Gradient rules of convolution, pooling, running sums and attention. x is the operand, y the
 * result, g the gradient of the loss by y. */
#include <math.h>
#include <string.h>

#include "graph/gradient/gradient.h"
#include "graph/builders/build.h"
#include "core/type/shape.h"

typedef compute_node node;
typedef gradient_step step;

/* ---- Convolution ----------------------------------------------------------------------------- */

/* The three directions are the derivatives of one trilinear form of data, filter and result, each
 * by the other two. So each rule is two convolutions with the same geometry. */
static node convolve(const step *s, compute_convolution_direction direction, node a, node b) {
  compute_conv_attributes geometry = *network_convolution(&s->node);
  geometry.direction = direction;
  return network_convolve(s->graph, "gradients", &geometry, a, b);
}

/* result(data, filter) */
void gradient_conv2d(step *s) {
  node x = gradient_operand(s, 0), filter = gradient_operand(s, 1);
  if (gradient_wanted(s, 0))
    gradient_give(s, 0, convolve(s, COMPUTE_CONVOLUTION_BY_DATA, s->upstream, filter));
  if (gradient_wanted(s, 1))
    gradient_give(s, 1, convolve(s, COMPUTE_CONVOLUTION_BY_FILTER, x, s->upstream));
}

/* data(result, filter) */
void gradient_conv2d_by_data(step *s) {
  node y = gradient_operand(s, 0), filter = gradient_operand(s, 1);
  if (gradient_wanted(s, 0))
    gradient_give(s, 0, convolve(s, COMPUTE_CONVOLUTION_FORWARD, s->upstream, filter));
  if (gradient_wanted(s, 1))
    gradient_give(s, 1, convolve(s, COMPUTE_CONVOLUTION_BY_FILTER, s->upstream, y));
}

/* filter(data, result) */
void gradient_conv2d_by_filter(step *s) {
  node x = gradient_operand(s, 0), y = gradient_operand(s, 1);
  if (gradient_wanted(s, 0))
    gradient_give(s, 0, convolve(s, COMPUTE_CONVOLUTION_BY_DATA, y, s->upstream));
  if (gradient_wanted(s, 1))
    gradient_give(s, 1, convolve(s, COMPUTE_CONVOLUTION_FORWARD, x, s->upstream));
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static node pool(const step *s, bool by_data, compute_shape shape, node a, node b) {
  compute_window_attributes geometry;
  memcpy(&geometry, s->node.constant, sizeof geometry); /* including padding bytes */
  geometry.by_data = by_data;
  return network_pool(s->graph, "gradients", &geometry, shape, a, b);
}

static compute_shape shape_of(const step *s, node x) {
  return compute_node_shape(s->graph, x);
}

void gradient_max_pool2d(step *s) {
  node x = gradient_operand(s, 0);
  gradient_give(s, 0, pool(s, true, shape_of(s, x), x, s->upstream));
}

/* The result of max pooling x with this geometry if the graph has such a node; otherwise {0}. */
static node find_pooled(const compute_graph *graph, uint32_t x,
                        const compute_window_attributes *by_data) {
  compute_window_attributes geometry;
  memcpy(&geometry, by_data, sizeof geometry); /* including padding bytes */
  geometry.by_data = false;
  for (size_t i = (size_t)x + 1; i < graph->count; i++) {
    const graph_node *n = &graph->nodes[i];
    if (n->op == OP_max_pool2d && n->inputs[0] == x &&
        memcmp(n->constant, &geometry, sizeof geometry) == 0)
      return graph_handle(graph, i);
  }
  return (node){0};
}

/* After max(0, x), a window's gradient goes to its largest element, which is the pooled result. So
 * the mask can be applied there, to fewer elements. */
bool gradient_pooled_relu(step *s) {
  compute_graph *graph = s->graph;
  const graph_node *from = &graph->nodes[s->upstream.id - 1];
  const uint32_t self = s->result.id - 1;
  if (from->op != OP_max_pool2d_by_data || from->inputs[0] != self) return false;
  const compute_window_attributes *geometry = network_window(from);
  const node pooled = find_pooled(graph, self, geometry);
  const node g = graph_handle(graph, from->inputs[1]);
  if (pooled.id == 0) return false;
  const compute_dtype dtype = compute_node_dtype(graph, g);
  if (dtype != compute_node_dtype(graph, pooled)) return false;
  const node zero = compute_scalar(graph, dtype, 0);
  const node masked = compute_select(graph, compute_less_equal(graph, pooled, zero), zero, g);
  gradient_give(s, 0, network_pool(graph, "gradients", geometry, s->node.shape, s->result, masked));
  return true;
}

void gradient_average_pool2d(step *s) {
  node none = {0};
  gradient_give(s, 0, pool(s, true, shape_of(s, gradient_operand(s, 0)), s->upstream, none));
}

void gradient_average_pool2d_by_data(step *s) {
  node none = {0};
  gradient_give(s, 0, pool(s, false, shape_of(s, gradient_operand(s, 0)), s->upstream, none));
}

/* Element (r, s) of every window of the padded x. */
static node window_element(const step *s, node padded, int64_t row, int64_t column) {
  const compute_window_attributes *w = network_window(&s->node);
  node rows =
      compute_slice(s->graph, padded, 2, row * w->dilation[0], w->result_size[0], w->stride[0]);
  return compute_slice(s->graph, rows, 3, column * w->dilation[1], w->result_size[1], w->stride[1]);
}

/* x with all the padding that a window covers. */
static node surround(const step *s, node x, double value) {
  const compute_window_attributes *w = network_window(&s->node);
  for (int i = 0; i < 2; i++) {
    const int64_t reach =
        (w->result_size[i] - 1) * w->stride[i] + (w->size[i] - 1) * w->dilation[i] + 1;
    const int64_t after = reach - w->padding[i] - w->data_size[i];
    x = compute_pad(s->graph, x, 2 + i, w->padding[i], after > 0 ? after : 0, COMPUTE_PAD_CONSTANT,
                    value);
  }
  return x;
}

/* The result is the gradient at each window's first largest element. So its own gradient is the
 * incoming gradient at that element. The rule searches the windows' elements one by one. */
void gradient_max_pool2d_by_data(step *s) {
  compute_graph *graph = s->graph;
  const compute_window_attributes *w = network_window(&s->node);
  if (!gradient_wanted(s, 1)) return; /* the gradient by the data is zero wherever it exists */
  if (!gradient_may_unroll(s, w->size[0] * w->size[1])) return;
  node x = surround(s, gradient_widen(s, gradient_operand(s, 0)), -(double)INFINITY);
  node u = surround(s, gradient_widen(s, s->upstream), 0);
  node best = window_element(s, x, 0, 0), result = window_element(s, u, 0, 0);
  for (int64_t i = 1; i < w->size[0] * w->size[1] && !graph->status; i++) {
    node candidate = window_element(s, x, i / w->size[1], i % w->size[1]);
    node larger = compute_logical_or(
        graph, compute_greater(graph, candidate, best),
        compute_logical_and(graph, compute_is_nan(graph, candidate),
                            compute_logical_not(graph, compute_is_nan(graph, best))));
    best = compute_select(graph, larger, candidate, best);
    result =
        compute_select(graph, larger, window_element(s, u, i / w->size[1], i % w->size[1]), result);
  }
  gradient_give(s, 1, result);
}

/* ---- Running sums ---------------------------------------------------------------------------- */

/* Element i is part of the sums from i on. So the gradient is the running sum of their gradients
 * from the other end. */
void gradient_cumulative_sum(step *s) {
  const graph_attributes *a = &s->node.attributes;
  gradient_give(s, 0,
                compute_cumulative_sum(s->graph, s->upstream, a->axis, a->exclusive, !a->reverse));
}

/* ---- Attention ------------------------------------------------------------------------------- */

static node transposed(const step *s, node matrix) {
  compute_axes order = {.count = shape_of(s, matrix).rank};
  if (order.count < 2) return (node){0}; /* the graph has failed */
  for (int32_t i = 0; i < order.count; i++) order.axis[i] = i;
  order.axis[order.count - 2] = order.count - 1;
  order.axis[order.count - 1] = order.count - 2;
  return compute_transpose(s->graph, matrix, order);
}

/* The causal mask: query i of m sees the keys j ≤ i + keys − m. */
static node visible(const step *s, int64_t queries, int64_t keys) {
  compute_graph *graph = s->graph;
  const compute_shape shape = COMPUTE_SHAPE(queries, keys);
  node last = compute_add(graph, compute_index(graph, COMPUTE_I64, shape, 0),
                          compute_scalar_i64(graph, COMPUTE_I64, keys - queries));
  return compute_less_equal(graph, compute_index(graph, COMPUTE_I64, shape, 1), last);
}

/* The attention weights, recomputed instead of stored. Masked keys have weight 0, even if all keys
 * are masked, unless the formula's plain softmax is requested. */
static node attention_weights(const step *s, node q, node k) {
  compute_graph *graph = s->graph;
  const compute_attention_attributes *a = s->node.constant;
  node scores = compute_matmul(graph, q, transposed(s, k)), seen = {0};
  scores = compute_mul(graph, scores, gradient_number(s, a->scale));
  if (a->biased) scores = compute_add(graph, scores, gradient_widen(s, gradient_operand(s, 3)));
  const bool softmax = a->formula && !a->zero_weights;
  if (!softmax && (a->biased || a->formula))
    seen = compute_not_equal(graph, scores, gradient_number(s, -(double)INFINITY));
  if (a->causal) {
    node before = visible(s, shape_at(s->node.shape, s->node.shape.rank - 2), a->keys);
    seen = seen.id ? compute_logical_and(graph, seen, before) : before;
  }
  if (!seen.id) return compute_softmax(graph, scores, -1);
  scores = compute_select(graph, seen, scores, gradient_number(s, -1e30));
  return compute_select(graph, seen, compute_softmax(graph, scores, -1), gradient_number(s, 0));
}

/* With weights P: dV = Pᵀ G; dS = P (G Vᵀ − Σ P G Vᵀ); dQ = scale · dS K, dK = scale · dSᵀ Q. */
void gradient_scaled_attention(step *s) {
  compute_graph *graph = s->graph;
  const compute_attention_attributes *a = s->node.constant;
  node q = gradient_widen(s, gradient_operand(s, 0)), k = gradient_widen(s, gradient_operand(s, 1));
  node v = gradient_widen(s, gradient_operand(s, 2)), g = gradient_widen(s, s->upstream);
  node p = attention_weights(s, q, k);
  if (gradient_wanted(s, 2)) gradient_give(s, 2, compute_matmul(graph, transposed(s, p), g));
  node by_weight = compute_matmul(graph, g, transposed(s, v));
  node dot = compute_sum(graph, compute_mul(graph, p, by_weight), COMPUTE_AXES(-1), true);
  node by_score = compute_mul(graph, p, compute_sub(graph, by_weight, dot));
  node scaled = compute_mul(graph, by_score, gradient_number(s, a->scale));
  if (gradient_wanted(s, 0)) gradient_give(s, 0, compute_matmul(graph, scaled, k));
  if (gradient_wanted(s, 1)) gradient_give(s, 1, compute_matmul(graph, transposed(s, scaled), q));
  if (a->biased && gradient_wanted(s, 3)) gradient_give(s, 3, by_score);
}

/* Gradient rules of formulas composed of several nodes. x is the operand, y the result, g the
 * gradient of the loss by y. The rules use the formula's nodes, so second derivatives are
 * correct. */

static bool given(const step *s, uint32_t operand) {
  return s->node.inputs[operand] != GRAPH_NO_OPERAND;
}

/* ---- Batch normalisation --------------------------------------------------------------------- */

/* Operands of the composite. */
enum { NORM_X, NORM_CENTRED, NORM_INVERSE, NORM_GAIN, NORM_BIAS };

/* A sum over everything but the channels. */
static node sum_channels(const step *s, node x) {
  compute_axes axes = {.count = 0};
  for (int32_t i = 0; i < s->node.shape.rank; i++)
    if (i != 1) axes.axis[axes.count++] = i;
  return compute_sum(s->graph, x, axes, false);
}

static node along(const step *s, node vector) {
  return network_along(s->graph, vector, 1, s->node.shape.rank);
}

/* With c = x − mean, r = 1 / deviation and y = gain · r · c + bias over n values:
 * dbias = Σ g, dgain = r Σ g c, dx = gain · r · (g − Σ g / n − c · r² Σ g c / n). (Ioffe and
 * Szegedy 2015, arXiv 1502.03167.) Two sums and one pass; per-channel values are computed once. */
void gradient_whole_batch_norm(step *s) {
  compute_graph *graph = s->graph;
  const node g = s->upstream, c = gradient_operand(s, NORM_CENTRED);
  const node inverse = gradient_operand(s, NORM_INVERSE);
  const node total = sum_channels(s, g), moment = sum_channels(s, compute_mul(graph, g, c));
  if (given(s, NORM_BIAS)) gradient_give(s, NORM_BIAS, total);
  if (given(s, NORM_GAIN)) gradient_give(s, NORM_GAIN, compute_mul(graph, moment, inverse));
  if (!gradient_wanted(s, NORM_X)) return;
  double count = 1;
  for (int32_t i = 0; i < s->node.shape.rank; i++)
    if (i != 1) count *= (double)shape_at(s->node.shape, i);
  const node share = gradient_number(s, count > 0 ? 1 / count : 0);
  node scale = inverse;
  if (given(s, NORM_GAIN)) scale = compute_mul(graph, scale, gradient_operand(s, NORM_GAIN));
  const node level = compute_mul(graph, scale, compute_mul(graph, total, share));
  /* With this order, no factor leaves the range before the variance does. */
  const node part = compute_mul(graph, compute_mul(graph, moment, share), inverse);
  const node slope = compute_mul(graph, compute_mul(graph, scale, inverse), part);
  const node steep = compute_mul(graph, g, along(s, scale));
  const node tilted = compute_sub(graph, steep, compute_mul(graph, c, along(s, slope)));
  gradient_give(s, NORM_X, compute_sub(graph, tilted, along(s, level)));
}

/* ---- Cross-entropy --------------------------------------------------------------------------- */

enum { ENTROPY_LOGITS, ENTROPY_LOG, ENTROPY_LABELS, ENTROPY_CHOSEN };

/* (softmax − one at the label) · g / batch, in one pass over the loss's logarithms. It depends on
 * the values that the loss gathered at the labels. So invalid labels fail the run before any
 * gradient is computed. */
void gradient_whole_cross_entropy(step *s) {
  compute_graph *graph = s->graph;
  const node labels = gradient_operand(s, ENTROPY_LABELS);
  const node log_p = gradient_widen(s, gradient_operand(s, ENTROPY_LOG));
  const node gathered = gradient_widen(s, gradient_operand(s, ENTROPY_CHOSEN));
  const compute_shape shape = compute_node_shape(graph, log_p);
  const double share = shape_at(shape, 0) > 0 ? 1 / (double)shape_at(shape, 0) : 0;
  const node class = compute_index(graph, compute_node_dtype(graph, labels), shape, 1);
  const node here = compute_equal(graph, class, labels);
  const node p = compute_exp(graph, compute_select(graph, here, gathered, log_p));
  const node hot = compute_select(graph, here, gradient_number(s, 1), gradient_number(s, 0));
  const node g = compute_mul(graph, gradient_widen(s, s->upstream), gradient_number(s, share));
  gradient_give(s, ENTROPY_LOGITS, compute_mul(graph, compute_sub(graph, p, hot), g));
}
