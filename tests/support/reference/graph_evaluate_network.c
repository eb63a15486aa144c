/* SPDX-License-Identifier: MIT */
/* A convolution of any direction is one loop over all its products. A window is one loop over its
 * elements. A cumulative sum starts anew for every element. */
#include "support/reference/graph_evaluate_network.h"

#include <math.h>
#include <string.h>

#include "core/type/dtype.h"
#include "support/reference/recurrent_reference.h"

/* ---- Places -------------------------------------------------------------------------------- */

static int64_t at4(const evaluate_value *v, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t *size = v->shape.size;
  return ((a * size[1] + b) * size[2] + c) * size[3] + d;
}

/* ---- Convolution --------------------------------------------------------------------------- */

/* The operand in each of the three roles: data, filter and result. */
typedef struct convolution_parts {
  evaluate_value *data, *filter, *result;
} convolution_parts;

static void add_product(evaluate_value *to, int64_t at, const evaluate_value *a, int64_t i,
                        const evaluate_value *b, int64_t k) {
  if (to->real)
    to->real[at] += a->real[i] * b->real[k];
  else /* of bytes, so that the sums fit */
    to->integer[at] += a->integer[i] * b->integer[k];
}

static void visit_tap(const graph_node *node, const convolution_parts *parts, int64_t data,
                      int64_t filter, int64_t result) {
  if (node->op == OP_conv2d || node->op == OP_conv2d_integer)
    add_product(parts->result, result, parts->data, data, parts->filter, filter);
  else if (node->op == OP_conv2d_by_data)
    add_product(parts->data, data, parts->result, result, parts->filter, filter);
  else
    add_product(parts->filter, filter, parts->data, data, parts->result, result);
}

/* Visits all taps of result (n, o, p, q). */
static void visit_result(const graph_node *node, const convolution_parts *parts, int64_t n,
                         int64_t o, int64_t p, int64_t q) {
  const compute_conv_attributes *g = node->constant;
  const int64_t channels = parts->filter->shape.size[1];
  const int64_t group = o / (parts->filter->shape.size[0] / g->groups);
  const int64_t rows = parts->filter->shape.size[2], columns = parts->filter->shape.size[3];
  for (int64_t i = 0; i < channels * rows * columns; i++) {
    const int64_t c = i / (rows * columns), r = i / columns % rows, s = i % columns;
    const int64_t h = p * g->stride[0] + r * g->dilation[0] - g->padding[0];
    const int64_t v = q * g->stride[1] + s * g->dilation[1] - g->padding[1];
    if (h < 0 || v < 0 || h >= parts->data->shape.size[2] || v >= parts->data->shape.size[3])
      continue;
    visit_tap(node, parts, at4(parts->data, n, group * channels + c, h, v),
              at4(parts->filter, o, c, r, s), at4(parts->result, n, o, p, q));
  }
}

static void evaluate_convolution(const graph_node *node, evaluate_value *const *x,
                                 evaluate_value *y) {
  convolution_parts parts = {x[0], x[1], y};
  if (node->op == OP_conv2d_by_data) parts = (convolution_parts){y, x[1], x[0]};
  if (node->op == OP_conv2d_by_filter) parts = (convolution_parts){x[0], y, x[1]};
  const compute_shape r = parts.result->shape;
  for (int64_t i = 0; i < parts.result->count; i++) {
    const int64_t image = r.size[2] * r.size[3];
    visit_result(node, &parts, i / (image * r.size[1]), i / image % r.size[1],
                 i / r.size[3] % r.size[2], i % r.size[3]);
  }
}

/* ---- Pooling ------------------------------------------------------------------------------- */

/* One window: its elements in the data, the index of its first largest element, and the divisor of
 * an average. */
typedef struct window {
  int64_t row[1024], column[1024], count, largest, divisor;
} window;

/* Like an extremum: a NaN beats every number, and the first of equals is kept. */
static bool beats(const evaluate_value *x, int64_t candidate, int64_t best) {
  if (x->integer) return x->integer[candidate] > x->integer[best];
  return !isnan(x->real[best]) && (isnan(x->real[candidate]) || x->real[candidate] > x->real[best]);
}

static bool is_counted(const compute_window_attributes *g, int i, int64_t at) {
  return at < g->data_size[i] + g->padding[i] + g->padding_more[i];
}

static window look_at(const compute_window_attributes *g, const evaluate_value *data, int64_t n,
                      int64_t c, int64_t p, int64_t q) {
  window w = {.largest = -1};
  for (int64_t i = 0; i < g->size[0] * g->size[1]; i++) {
    const int64_t h = p * g->stride[0] - g->padding[0] + i / g->size[1] * g->dilation[0];
    const int64_t v = q * g->stride[1] - g->padding[1] + i % g->size[1] * g->dilation[1];
    if (g->count_padding && is_counted(g, 0, h) && is_counted(g, 1, v)) w.divisor++;
    if (h < 0 || v < 0 || h >= g->data_size[0] || v >= g->data_size[1]) continue;
    if (!g->count_padding) w.divisor++;
    w.row[w.count] = h;
    w.column[w.count] = v;
    if (data) {
      const int64_t here = at4(data, n, c, h, v);
      if (w.largest < 0 ||
          beats(data, here, at4(data, n, c, w.row[w.largest], w.column[w.largest])))
        w.largest = w.count;
    }
    w.count++;
  }
  return w;
}

static void evaluate_window(const graph_node *node, evaluate_value *const *x, evaluate_value *y) {
  const compute_window_attributes *g = node->constant;
  const bool place = node->op == OP_argmax_pool2d;
  const bool max = place || node->op == OP_max_pool2d || node->op == OP_max_pool2d_by_data;
  const bool back = node->op == OP_max_pool2d_by_data || node->op == OP_average_pool2d_by_data;
  const evaluate_value *data = max || !back ? x[0] : NULL;
  const evaluate_value *gradient = back ? x[max ? 1 : 0] : NULL;
  const evaluate_value *result = back ? gradient : y;
  const int64_t rows = g->result_size[0], columns = g->result_size[1];
  const int64_t channels = result->shape.size[1];
  for (int64_t i = 0; i < result->count; i++) {
    const int64_t p = i / columns % rows, q = i % columns;
    const int64_t c = i / (rows * columns) % channels, n = i / (rows * columns * channels);
    const window w = look_at(g, data, n, c, p, q);
    double sum = 0;
    if (place)
      y->integer[i] = -1;
    else if (max && !back && y->real)
      y->real[i] = -INFINITY;
    else if (max && !back)
      dtype_limits(y->dtype, &y->integer[i], &(uint64_t){0});
    if (max && w.count > 0) {
      const int64_t best = at4(data, n, c, w.row[w.largest], w.column[w.largest]);
      if (back)
        y->real[best] += gradient->real[i];
      else if (place)
        y->integer[i] = best;
      else if (y->integer)
        y->integer[i] = data->integer[best];
      else
        y->real[i] = data->real[best];
    }
    for (int64_t k = 0; k < w.count && !max; k++) {
      if (back)
        y->real[at4(y, n, c, w.row[k], w.column[k])] += gradient->real[i] / (double)w.divisor;
      else
        sum += data->real[at4(data, n, c, w.row[k], w.column[k])];
    }
    if (!max && !back) y->real[i] = w.count > 0 ? sum / (double)w.divisor : 0;
  }
}

/* ---- Along an axis ------------------------------------------------------------------------- */

static int64_t step_of(compute_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; i++) step *= shape.size[i];
  return step;
}

static void evaluate_running(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const graph_attributes *a = &node->attributes;
  const int64_t size = x->shape.size[a->axis], step = step_of(x->shape, a->axis);
  for (int64_t i = 0; i < y->count; i++) {
    const int64_t here = i / step % size, row = i - here * step;
    long double real = 0;
    uint64_t integer = 0;
    for (int64_t k = 0; k < size; k++) {
      if (k == here ? a->exclusive : a->reverse ? k < here : k > here) continue;
      if (x->real)
        real += (long double)x->real[row + k * step];
      else
        integer += (uint64_t)x->integer[row + k * step];
    }
    if (y->real)
      y->real[i] = (double)real;
    else
      y->integer[i] = evaluate_wrap(y->dtype, integer);
  }
}

/* Returns true if element a of x precedes element b: larger (or smaller), and equal elements by
 * index. */
static bool comes_first(const evaluate_value *x, bool smallest, int64_t a, int64_t b) {
  if (x->integer) {
    if (x->integer[a] != x->integer[b]) return (x->integer[a] > x->integer[b]) != smallest;
    return a < b;
  }
  const double p = x->real[a], q = x->real[b];
  if (isnan(p) != isnan(q)) return isnan(p) != smallest;
  if (!isnan(p) && p != q) return (p > q) != smallest;
  return a < b;
}

/* An element's rank is the number of elements before it. */
static void evaluate_top_k(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const int32_t axis = node->attributes.axis;
  const int64_t size = x->shape.size[axis], k = y->shape.size[axis], step = step_of(x->shape, axis);
  for (int64_t i = 0; i < x->count; i++) {
    const int64_t here = i / step % size, row = i - here * step;
    int64_t rank = 0;
    for (int64_t j = 0; j < size; j++)
      rank += j != here && comes_first(x, node->attributes.smallest, row + j * step, i);
    if (rank < k) y->integer[i / (size * step) * k * step + rank * step + i % step] = here;
  }
}

/* Like comes_first, but NaN comes last in either order. */
static void evaluate_sort(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const int32_t axis = node->attributes.axis;
  const bool ascending = !node->attributes.descending;
  const int64_t size = x->shape.size[axis], step = step_of(x->shape, axis);
  for (int64_t i = 0; i < x->count; i++) {
    const int64_t here = i / step % size, row = i - here * step;
    const bool nan = x->real && isnan(x->real[i]);
    int64_t rank = 0;
    for (int64_t j = 0; j < size; j++) {
      const int64_t at = row + j * step;
      const bool other = x->real && isnan(x->real[at]);
      rank += j != here && (other != nan ? nan : comes_first(x, ascending, at, i));
    }
    if (node->op == OP_argsort)
      y->integer[row + rank * step] = here;
    else if (y->real)
      y->real[row + rank * step] = x->real[i];
    else
      y->integer[row + rank * step] = x->integer[i];
  }
}

static bool evaluate_bincount(const graph_node *node, evaluate_value *const *x, evaluate_value *y) {
  const int32_t axis = node->attributes.axis;
  const int64_t size = x[0]->shape.size[axis], bins = y->shape.size[axis];
  const int64_t step = step_of(x[0]->shape, axis);
  for (int64_t i = 0; i < x[0]->count; i++) {
    const int64_t bin = x[0]->integer[i];
    if (bin < 0 || bin >= bins) return false;
    const int64_t at = (i / step / size * bins + bin) * step + i % step;
    if (node->input_count > 1)
      y->real[at] += x[1]->real[i];
    else
      y->integer[at]++;
  }
  return true;
}

/* ---- Attention ----------------------------------------------------------------------------- */

/* The position where matrix number `matrix` of the result (its leading axes as one) begins in an
 * operand that may broadcast. */
static int64_t matrix_start(const evaluate_value *v, compute_shape result, int64_t matrix) {
  int64_t start = 0, step = v->shape.size[v->shape.rank - 1] * v->shape.size[v->shape.rank - 2];
  for (int32_t i = result.rank - 3, own = v->shape.rank - 3; i >= 0; i--, own--) {
    const int64_t at = matrix % result.size[i];
    matrix /= result.size[i];
    if (own < 0) continue;
    if (v->shape.size[own] != 1) start += at * step;
    step *= v->shape.size[own];
  }
  return start;
}

static double bias_at(const evaluate_value *bias, compute_shape result, int64_t matrix, int64_t row,
                      int64_t key) {
  evaluate_value whole = *bias; /* with at least two axes */
  while (whole.shape.rank < 2) {
    for (int32_t i = whole.shape.rank++; i > 0; i--) whole.shape.size[i] = whole.shape.size[i - 1];
    whole.shape.size[0] = 1;
  }
  const int64_t *size = &whole.shape.size[whole.shape.rank - 2];
  const int64_t r = size[0] == 1 ? 0 : row, c = size[1] == 1 ? 0 : key;
  return bias->real[matrix_start(&whole, result, matrix) + r * size[1] + c];
}

/* Computes one query: e numbers into `y`. */
static void attend(const graph_node *node, evaluate_value *const *x, int64_t matrix, int64_t row,
                   double *y) {
  const compute_attention_attributes *a = node->constant;
  const int32_t rank = node->shape.rank;
  const int64_t queries = node->shape.size[rank - 2], columns = node->shape.size[rank - 1];
  const double *q = x[0]->real + matrix_start(x[0], node->shape, matrix) + row * a->width;
  const double *k = x[1]->real + matrix_start(x[1], node->shape, matrix);
  const double *v = x[2]->real + matrix_start(x[2], node->shape, matrix);
  const long double blind = a->formula && !a->zero_weights ? (long double)NAN : 0;
  long double largest = -INFINITY, total = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t j = 0; j < a->keys; j++) {
      if (a->causal && j > row + a->keys - queries) continue;
      long double score = 0;
      for (int64_t i = 0; i < a->width; i++) score += (long double)(q[i] * k[j * a->width + i]);
      score *= (long double)a->scale;
      if (a->biased) score += (long double)bias_at(x[3], node->shape, matrix, row, j);
      if (pass == 0) {
        if (score > largest) largest = score;
        continue;
      }
      const long double weight =
          largest == score && isinf(score) && score < 0 ? blind : expl(score - largest);
      total += weight;
      for (int64_t i = 0; i < columns; i++) y[i] += (double)weight * v[j * columns + i];
    }
  }
  for (int64_t i = 0; i < columns && total != 0; i++) y[i] /= (double)total;
}

static void evaluate_attention(const graph_node *node, evaluate_value *const *x,
                               evaluate_value *y) {
  const int64_t queries = y->shape.size[y->shape.rank - 2];
  const int64_t columns = y->shape.size[y->shape.rank - 1];
  for (int64_t i = 0; columns > 0 && i < y->count / columns; i++)
    attend(node, x, i / queries, i % queries, y->real + i * columns);
}

/* ---- Recurrent layers ----------------------------------------------------------------------- */

typedef struct layer {
  const graph_node *node;
  evaluate_value *const *x;
  evaluate_value *y;
} layer;

static double layer_read(void *user, recurrent_operand operand, int64_t i, int64_t j, int64_t k) {
  const layer *l = user;
  const evaluate_value *v = l->x[recurrent_input(l->node->constant, operand)];
  const int32_t rank = v->shape.rank;
  const int64_t columns = v->shape.size[rank - 1], rows = rank > 1 ? v->shape.size[rank - 2] : 1;
  const int64_t at = (i * rows + j) * columns + k;
  return v->real ? v->real[at] : (double)v->integer[at];
}

static void layer_write(void *user, int64_t row, int64_t sequence, int64_t unit, double value) {
  const layer *l = user;
  const int64_t *size = l->y->shape.size;
  l->y->real[(row * size[1] + sequence) * size[2] + unit] = value;
}

static bool evaluate_recurrent(const graph_node *node, evaluate_value *const *x,
                               evaluate_value *y) {
  layer l = {node, x, y};
  const recurrent_problem problem = {.a = node->constant,
                                     .steps = x[0]->shape.size[0],
                                     .batch = y->shape.size[1],
                                     .hidden = y->shape.size[2],
                                     .read = layer_read,
                                     .write = layer_write,
                                     .user = &l};
  return recurrent_reference(&problem);
}

/* ---- Dispatch ------------------------------------------------------------------------------ */

bool evaluate_network(const graph_node *node, evaluate_value *const *x, evaluate_value *y) {
  switch (node->op) {
  case OP_conv2d:
  case OP_conv2d_integer:
  case OP_conv2d_by_data:
  case OP_conv2d_by_filter: evaluate_convolution(node, x, y); return true;
  case OP_max_pool2d:
  case OP_max_pool2d_by_data:
  case OP_argmax_pool2d:
  case OP_average_pool2d:
  case OP_average_pool2d_by_data: evaluate_window(node, x, y); return true;
  case OP_cumulative_sum: evaluate_running(node, x[0], y); return true;
  case OP_top_k: evaluate_top_k(node, x[0], y); return true;
  case OP_sort:
  case OP_argsort: evaluate_sort(node, x[0], y); return true;
  case OP_bincount: return evaluate_bincount(node, x, y);
  case OP_find_spots: /* the definition is the composed form, the last operand */
  case OP_quantized_matmul: {
    const evaluate_value *composed = x[node->input_count - 1];
    if (y->real)
      memcpy(y->real, composed->real, (size_t)y->count * sizeof *y->real);
    else
      memcpy(y->integer, composed->integer, (size_t)y->count * sizeof *y->integer);
    return true;
  }
  case OP_scaled_attention: evaluate_attention(node, x, y); return true;
  case OP_recurrent: return evaluate_recurrent(node, x, y);
  default: return false;
  }
}
