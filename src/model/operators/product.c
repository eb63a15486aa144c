/* SPDX-License-Identifier: MIT */
/* Matrix products: MatMul, Gemm, and Einsum as a sequence of matrix products. */
#include "model/operators/operators.h"

#include <string.h>

#include "core/type/shape.h"
#include "model/operators/formula.h"
#include "model/operators/op.h"
#include "model/operators/quantized_product.h"

/* ---- MatMul and Gemm ------------------------------------------------------------------------- */

static compute_node swap_last(model_call *call, compute_node x) {
  const int32_t rank = compute_node_shape(call->graph, x).rank;
  return rank < 2 ? x : op_move_axis(call, x, rank - 1, rank - 2);
}

static compute_node scale(model_call *call, compute_node x, double factor) {
  return factor == 1 ? x : compute_mul(call->graph, x, call_scalar_like(call, x, factor));
}

static compute_status matmul(model_call *call) {
  const compute_node y = quantized_matmul(call, false, false);
  if (compute_node_is_valid(y)) return call_output(call, 0, y);
  return call_output(call, 0, formula_matmul(call, call_input(call, 0), call_input(call, 1)));
}

/* An operand of ONNX Runtime's FusedMatMul. It may be transposed, and its first axis may move
 * behind the other batch axes. */
static compute_node fused_operand(model_call *call, size_t i, const char *batch,
                                  const char *matrix) {
  compute_node x = call_input(call, i);
  const int32_t rank = call_shape(call, i).rank;
  if (rank > 2 && call_attribute_i(call, batch, 0) != 0) x = op_move_axis(call, x, 0, rank - 2);
  return call_attribute_i(call, matrix, 0) != 0 ? swap_last(call, x) : x;
}

static compute_status fused_matmul(model_call *call) {
  const compute_node y =
      compute_matmul(call->graph, fused_operand(call, 0, "transBatchA", "transA"),
                     fused_operand(call, 1, "transBatchB", "transB"));
  return call_output(call, 0, scale(call, y, call_attribute_f(call, "alpha", 1)));
}

static compute_node multiply_and_add(model_call *call) {
  const double beta = call_attribute_f(call, "beta", 1);
  const bool a_transposed = call_attribute_i(call, "transA", 0) != 0;
  const bool b_transposed = call_attribute_i(call, "transB", 0) != 0;
  compute_node y = quantized_matmul(call, a_transposed, b_transposed);
  if (!compute_node_is_valid(y)) {
    compute_node a = call_input(call, 0), b = call_input(call, 1);
    if (a_transposed) a = swap_last(call, a);
    if (b_transposed) b = swap_last(call, b);
    y = compute_matmul(call->graph, a, b);
  }
  y = scale(call, y, call_attribute_f(call, "alpha", 1));
  if (!call_has(call, 2) || beta == 0) return y;
  return compute_add(call->graph, y, scale(call, call_input(call, 2), beta));
}

static compute_status check_matrices(model_call *call) {
  for (size_t i = 0; i < 2; i++)
    if (call_shape(call, i).rank != 2)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu has rank %d, not 2", i,
                       (int)call_shape(call, i).rank);
  return COMPUTE_OK;
}

static compute_status gemm(model_call *call) {
  const compute_status status = check_matrices(call);
  return status ? status : call_output(call, 0, multiply_and_add(call));
}

static compute_status fused_gemm(model_call *call) {
  const float parameters[] = {(float)call_attribute_f(call, "activation_alpha", 0),
                              (float)call_attribute_f(call, "activation_beta", 0)};
  size_t count = call_attribute(call, "activation_alpha") ? 1 : 0;
  if (call_attribute(call, "activation_beta")) count = 2;
  compute_status status = check_matrices(call);
  if (status) return status;
  compute_node y = multiply_and_add(call);
  status = op_activate(call, call_attribute_s(call, "activation", ""), parameters, count, &y);
  return status ? status : call_output(call, 0, y);
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

/* Labels: letters, and positions in the ellipsis, counted from its end. */
enum { LABEL_ELLIPSIS = 52, LABEL_COUNT = LABEL_ELLIPSIS + COMPUTE_MAX_RANK };

typedef struct labels {
  int32_t count;
  uint8_t label[COMPUTE_MAX_RANK];
} labels;

typedef struct term {
  compute_node node;
  labels of; /* one label per axis */
} term;

static int32_t find_label(const labels *l, uint8_t label) {
  for (int32_t i = 0; i < l->count; i++)
    if (l->label[i] == label) return i;
  return -1;
}

static bool add_label(labels *l, int label) {
  if (l->count == COMPUTE_MAX_RANK) return false;
  l->label[l->count++] = (uint8_t)label;
  return true;
}

static int label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Reads labels up to a comma, an arrow or the end; the ellipsis represents `hidden` axes. */
static bool read_labels(const char **text, int32_t hidden, labels *l) {
  const char *at = *text;
  *l = (labels){.count = 0};
  for (; *at && *at != ',' && *at != '-'; at++) {
    if (*at == ' ') continue;
    if (*at == '.') {
      if (at[1] != '.' || at[2] != '.') return false;
      at += 2;
      for (int32_t i = hidden; i > 0; i--)
        if (!add_label(l, LABEL_ELLIPSIS + i - 1)) return false;
    } else if (label_of(*at) < 0 || !add_label(l, label_of(*at))) {
      return false;
    }
  }
  *text = at;
  return true;
}

/* The number of letters in the next term. */
static int32_t count_letters(const char *text) {
  int32_t count = 0;
  for (; *text && *text != ',' && *text != '-'; text++) count += label_of(*text) >= 0;
  return count;
}

/* The result without an arrow: the ellipsis, then the letters that occur once, in order. */
static bool usual_result(const int32_t *times, int32_t hidden, labels *result) {
  *result = (labels){.count = 0};
  for (int32_t i = hidden; i > 0; i--)
    if (!add_label(result, LABEL_ELLIPSIS + i - 1)) return false;
  for (int i = 0; i < LABEL_ELLIPSIS; i++)
    if (times[i] == 1 && !add_label(result, i)) return false;
  return true;
}

/* Replaces axes `first` and `second` with the same label by their diagonal, the new last axis. */
static compute_node take_diagonal(model_call *call, term *t, int32_t first, int32_t second) {
  compute_graph *graph = call->graph;
  const int32_t rank = t->of.count;
  const uint8_t label = t->of.label[first];
  compute_node x = op_move_axis(call, t->node, second, rank - 1);
  x = op_move_axis(call, x, first, rank - 2);
  compute_shape shape = compute_node_shape(graph, x);
  const int64_t size = shape_at(shape, rank - 1);
  if (shape_at(shape, rank - 2) != size) return (compute_node){0};
  shape.rank = rank - 1;
  shape_set(&shape, rank - 2, size * size);
  labels left = {.count = 0};
  for (int32_t i = 0; i < rank; i++)
    if (i != first && i != second) add_label(&left, t->of.label[i]);
  add_label(&left, label);
  t->of = left;
  return compute_slice(graph, compute_reshape(graph, x, shape), rank - 2, 0, size, size + 1);
}

static compute_status take_diagonals(model_call *call, term *t) {
  for (int32_t i = 0; i < t->of.count; i++)
    for (int32_t k = i + 1; k < t->of.count; k++) {
      if (t->of.label[i] != t->of.label[k]) continue;
      t->node = take_diagonal(call, t, i, k);
      if (!compute_node_is_valid(t->node))
        return call_fail(call, COMPUTE_ERROR_SHAPE, "a label names axes of different sizes");
      i = -1;
      break;
    }
  return COMPUTE_OK;
}

/* Sums along the axes whose labels are not needed. */
static void sum_unneeded(model_call *call, term *t, const bool *needed) {
  compute_axes axes = {.count = 0};
  labels left = {.count = 0};
  for (int32_t i = 0; i < t->of.count; i++) {
    if (needed[t->of.label[i]])
      add_label(&left, t->of.label[i]);
    else
      axes.axis[axes.count++] = i;
  }
  if (axes.count) t->node = compute_sum(call->graph, t->node, axes, false);
  t->of = left;
}

/* Arranges the axes of a term as in `order`, which contains all its labels. A label that the term
 * lacks becomes an axis of size 1. */
static compute_node arrange(model_call *call, const term *t, const labels *order) {
  compute_axes axes = {.count = 0};
  compute_shape shape = {.rank = order->count};
  const compute_shape sizes = compute_node_shape(call->graph, t->node);
  for (int32_t i = 0; i < order->count; i++) {
    const int32_t axis = find_label(&t->of, order->label[i]);
    shape_set(&shape, i, axis < 0 ? 1 : shape_at(sizes, axis));
    if (axis >= 0) axes.axis[axes.count++] = axis;
  }
  if (axes.count == 0) axes = COMPUTE_NO_AXES;
  return compute_reshape(call->graph, compute_transpose(call->graph, t->node, axes), shape);
}

/* The roles of the labels of two terms in their product. */
typedef struct sides {
  labels batch, left, right, inner;
} sides;

/* Broadcasts axes of size 1 in `t` to the sizes in `other`. */
static void stretch(model_call *call, term *t, const term *other) {
  compute_shape shape = compute_node_shape(call->graph, t->node);
  const compute_shape wide = compute_node_shape(call->graph, other->node);
  bool any = false;
  for (int32_t i = 0; i < t->of.count; i++) {
    const int32_t k = find_label(&other->of, t->of.label[i]);
    if (k < 0 || shape_at(shape, i) != 1 || shape_at(wide, k) == 1) continue;
    shape_set(&shape, i, shape_at(wide, k));
    any = true;
  }
  if (any) t->node = compute_broadcast(call->graph, t->node, shape);
}

static bool append(labels *all, const labels *more) {
  for (int32_t i = 0; i < more->count; i++)
    if (!add_label(all, more->label[i])) return false;
  return true;
}

/* Reshapes a term to a batch of matrices of `rows` and `columns`. */
static compute_node as_matrix(model_call *call, const term *t, const labels *batch,
                              const labels *rows, const labels *columns) {
  labels order = *batch;
  append(&order, rows);
  append(&order, columns);
  const compute_node x = arrange(call, t, &order);
  const compute_shape sizes = compute_node_shape(call->graph, x);
  compute_shape shape = {.rank = batch->count + 2};
  for (int32_t i = 0; i < batch->count; i++) shape_set(&shape, i, shape_at(sizes, i));
  shape_set(&shape, batch->count, op_count(sizes, batch->count, batch->count + rows->count));
  shape_set(&shape, batch->count + 1, op_count(sizes, batch->count + rows->count, sizes.rank));
  return compute_reshape(call->graph, x, shape);
}

static compute_node multiply(model_call *call, const term *a, const term *b, const sides *s,
                             const labels *all) {
  compute_graph *graph = call->graph;
  if (s->inner.count == 0) return compute_mul(graph, arrange(call, a, all), arrange(call, b, all));
  const compute_node y = compute_matmul(graph, as_matrix(call, a, &s->batch, &s->left, &s->inner),
                                        as_matrix(call, b, &s->batch, &s->inner, &s->right));
  compute_shape shape = {.rank = all->count};
  const compute_shape left = compute_node_shape(graph, a->node);
  const compute_shape right = compute_node_shape(graph, b->node);
  for (int32_t i = 0; i < all->count; i++) {
    const int32_t axis = find_label(&a->of, all->label[i]);
    shape_set(&shape, i,
              axis >= 0 ? shape_at(left, axis)
                        : shape_at(right, find_label(&b->of, all->label[i])));
  }
  return compute_reshape(graph, y, shape);
}

/* a = a · b, summed along labels that no later term needs. */
static compute_status contract(model_call *call, term *a, term *b, const bool *needed) {
  bool kept[LABEL_COUNT];
  sides s = {.batch = {0}};
  memcpy(kept, needed, sizeof kept);
  for (int32_t i = 0; i < b->of.count; i++) kept[b->of.label[i]] = true;
  sum_unneeded(call, a, kept);
  memcpy(kept, needed, sizeof kept);
  for (int32_t i = 0; i < a->of.count; i++) kept[a->of.label[i]] = true;
  sum_unneeded(call, b, kept);
  stretch(call, a, b);
  stretch(call, b, a);
  for (int32_t i = 0; i < a->of.count; i++) {
    const uint8_t label = a->of.label[i];
    const bool shared = find_label(&b->of, label) >= 0;
    add_label(!shared ? &s.left : needed[label] ? &s.batch : &s.inner, label);
  }
  for (int32_t i = 0; i < b->of.count; i++)
    if (find_label(&a->of, b->of.label[i]) < 0) add_label(&s.right, b->of.label[i]);
  labels all = s.batch;
  if (!append(&all, &s.left) || !append(&all, &s.right) || s.batch.count > COMPUTE_MAX_RANK - 2)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "a product has more than %d axes",
                     COMPUTE_MAX_RANK);
  const term product = {multiply(call, a, b, &s, &all), all};
  *a = product;
  return COMPUTE_OK;
}

typedef struct einsum {
  term *terms;
  labels result;
} einsum;

/* The largest number of axes that an ellipsis represents; −1 if the terms do not match the
 * inputs. */
static int32_t count_hidden(const model_call *call, const char *text) {
  int32_t most = 0;
  for (size_t i = 0; i < call->input_count; i++) {
    const int32_t hidden = call_shape(call, i).rank - count_letters(text);
    if (hidden < 0) return -1;
    if (hidden > most) most = hidden;
    text += strcspn(text, ",-");
    if ((*text == ',') != (i + 1 < call->input_count)) return -1;
    text += *text == ',';
  }
  return most;
}

static compute_status parse(model_call *call, const char *text, einsum *e) {
  int32_t times[LABEL_COUNT] = {0};
  const int32_t hidden = count_hidden(call, text);
  if (hidden < 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its equation does not fit its inputs");
  for (size_t i = 0; i < call->input_count; i++) {
    term *t = &e->terms[i];
    const int32_t rank = call_shape(call, i).rank;
    if (!read_labels(&text, rank - count_letters(text), &t->of) || t->of.count != rank)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "term %zu of its equation does not fit", i);
    for (int32_t k = 0; k < rank; k++) times[t->of.label[k]]++;
    t->node = call_input(call, i);
    const compute_status status = take_diagonals(call, t);
    if (status) return status;
    text += *text == ',';
  }
  const bool given = text[0] == '-' && text[1] == '>';
  text += given ? 2 : 0;
  const bool read = given ? read_labels(&text, hidden, &e->result) && *text == 0
                          : *text == 0 && usual_result(times, hidden, &e->result);
  bool seen[LABEL_COUNT] = {false};
  for (int32_t i = 0; read && i < e->result.count; i++) {
    if (times[e->result.label[i]] == 0 || seen[e->result.label[i]])
      return call_fail(call, COMPUTE_ERROR_FORMAT, "its equation has an invalid result");
    seen[e->result.label[i]] = true;
  }
  return read ? COMPUTE_OK : call_fail(call, COMPUTE_ERROR_FORMAT, "its equation is malformed");
}

/* Marks the labels of the result and of the terms from `next` on. */
static void find_needed(const einsum *e, size_t next, size_t count, bool *needed) {
  memset(needed, 0, LABEL_COUNT * sizeof *needed);
  for (int32_t i = 0; i < e->result.count; i++) needed[e->result.label[i]] = true;
  for (; next < count; next++)
    for (int32_t i = 0; i < e->terms[next].of.count; i++) needed[e->terms[next].of.label[i]] = true;
}

static compute_status einsum_rule(model_call *call) {
  bool needed[LABEL_COUNT];
  einsum e = {.terms = call_allocate(call, call->input_count, sizeof(term))};
  if (!e.terms) return call_out_of_memory(call);
  compute_status status = parse(call, call_attribute_s(call, "equation", ""), &e);
  for (size_t i = 1; i < call->input_count && !status; i++) {
    find_needed(&e, i + 1, call->input_count, needed);
    status = contract(call, &e.terms[0], &e.terms[i], needed);
  }
  if (status) return status;
  find_needed(&e, call->input_count, call->input_count, needed);
  sum_unneeded(call, &e.terms[0], needed);
  return call_output(call, 0, arrange(call, &e.terms[0], &e.result));
}

static const operator_row rows[] = {
    {"", "MatMul", 1, matmul},
    {"", "Gemm", 7, gemm},
    {"", "Einsum", 12, einsum_rule},
    {"com.microsoft", "FusedMatMul", 1, fused_matmul},
    {"com.microsoft", "TransposeMatMul", 1, fused_matmul},
    {"com.microsoft", "FusedGemm", 1, fused_gemm},
};

const operator_family operators_product = OPERATOR_FAMILY(rows);
