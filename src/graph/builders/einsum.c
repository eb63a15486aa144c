/* SPDX-License-Identifier: MIT */
/* Einstein sums as a sequence of matrix products. */
#include <inttypes.h>
#include <string.h>

#include "compute/graph_array.h"
#include "core/base/alloc.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

static const char operation[] = "einsum";

/* The equation does not fit. */
#define refuse(graph, ...)                                                                         \
  graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, __VA_ARGS__)

/* Labels: letters, and positions in the ellipsis, counted from its end. */
enum { LABEL_ELLIPSIS = 52, LABEL_COUNT = LABEL_ELLIPSIS + COMPUTE_MAX_RANK };

typedef struct labels {
  int32_t count;
  uint8_t label[COMPUTE_MAX_RANK];
} labels;

typedef struct term {
  compute_node node;
  int32_t rank; /* of the operand */
  labels of;    /* one label per axis */
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

static bool refuse_sizes(compute_graph *graph, int64_t a, int64_t b) {
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "a label names axes of %" PRId64 " and %" PRId64 " elements", a, b);
}

/* Replaces axes `first` and `second` with the same label by their diagonal, the new last axis. */
static compute_node take_diagonal(compute_graph *graph, term *t, int32_t first, int32_t second) {
  const int32_t rank = t->of.count;
  const uint8_t label = t->of.label[first];
  compute_node x = part_move_axis(graph, t->node, second, rank - 1);
  x = part_move_axis(graph, x, first, rank - 2);
  compute_shape shape = compute_node_shape(graph, x);
  const int64_t size = shape_at(shape, rank - 1);
  if (shape_at(shape, rank - 2) != size) {
    refuse_sizes(graph, shape_at(shape, rank - 2), size);
    return BUILD_NONE;
  }
  shape.rank = rank - 1;
  shape_set(&shape, rank - 2, size * size);
  labels left = {.count = 0};
  for (int32_t i = 0; i < rank; i++)
    if (i != first && i != second) add_label(&left, t->of.label[i]);
  add_label(&left, label);
  t->of = left;
  return compute_slice(graph, compute_reshape(graph, x, shape), rank - 2, 0, size, size + 1);
}

static bool take_diagonals(compute_graph *graph, term *t) {
  for (int32_t i = 0; i < t->of.count; i++)
    for (int32_t k = i + 1; k < t->of.count; k++) {
      if (t->of.label[i] != t->of.label[k]) continue;
      t->node = take_diagonal(graph, t, i, k);
      if (!compute_node_is_valid(t->node)) return false;
      i = -1;
      break;
    }
  return true;
}

/* Sums along the axes whose labels are not needed. */
static void sum_unneeded(compute_graph *graph, term *t, const bool *needed) {
  compute_axes axes = {.count = 0};
  labels left = {.count = 0};
  for (int32_t i = 0; i < t->of.count; i++) {
    if (needed[t->of.label[i]])
      add_label(&left, t->of.label[i]);
    else
      axes.axis[axes.count++] = i;
  }
  if (axes.count) t->node = compute_sum(graph, t->node, axes, false);
  t->of = left;
}

/* Arranges the axes of a term as in `order`, which contains all its labels. A label that the term
 * lacks becomes an axis of size 1. */
static compute_node arrange(compute_graph *graph, const term *t, const labels *order) {
  compute_axes axes = {.count = 0};
  compute_shape shape = {.rank = order->count};
  const compute_shape sizes = compute_node_shape(graph, t->node);
  for (int32_t i = 0; i < order->count; i++) {
    const int32_t axis = find_label(&t->of, order->label[i]);
    shape_set(&shape, i, axis < 0 ? 1 : shape_at(sizes, axis));
    if (axis >= 0) axes.axis[axes.count++] = axis;
  }
  if (axes.count == 0) axes = COMPUTE_NO_AXES;
  return compute_reshape(graph, compute_transpose(graph, t->node, axes), shape);
}

/* The roles of the labels of two terms in their product. */
typedef struct sides {
  labels batch, left, right, inner;
} sides;

/* Broadcasts axes of size 1 in `t` to the sizes in `other`. */
static void stretch(compute_graph *graph, term *t, const term *other) {
  compute_shape shape = compute_node_shape(graph, t->node);
  const compute_shape wide = compute_node_shape(graph, other->node);
  bool any = false;
  for (int32_t i = 0; i < t->of.count; i++) {
    const int32_t k = find_label(&other->of, t->of.label[i]);
    if (k < 0 || shape_at(shape, i) != 1 || shape_at(wide, k) == 1) continue;
    shape_set(&shape, i, shape_at(wide, k));
    any = true;
  }
  if (any) t->node = compute_broadcast(graph, t->node, shape);
}

static bool append(labels *all, const labels *more) {
  for (int32_t i = 0; i < more->count; i++)
    if (!add_label(all, more->label[i])) return false;
  return true;
}

/* Reshapes a term to a batch of matrices of `rows` and `columns`. */
static compute_node as_matrix(compute_graph *graph, const term *t, const labels *batch,
                              const labels *rows, const labels *columns) {
  labels order = *batch;
  append(&order, rows);
  append(&order, columns);
  const compute_node x = arrange(graph, t, &order);
  const compute_shape sizes = compute_node_shape(graph, x);
  compute_shape shape = {.rank = batch->count + 2};
  for (int32_t i = 0; i < batch->count; i++) shape_set(&shape, i, shape_at(sizes, i));
  shape_set(&shape, batch->count, part_count(sizes, batch->count, batch->count + rows->count));
  shape_set(&shape, batch->count + 1, part_count(sizes, batch->count + rows->count, sizes.rank));
  return compute_reshape(graph, x, shape);
}

static compute_node multiply(compute_graph *graph, const term *a, const term *b, const sides *s,
                             const labels *all) {
  if (s->inner.count == 0)
    return compute_mul(graph, arrange(graph, a, all), arrange(graph, b, all));
  const compute_node y = compute_matmul(graph, as_matrix(graph, a, &s->batch, &s->left, &s->inner),
                                        as_matrix(graph, b, &s->batch, &s->inner, &s->right));
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

/* True if shared labels have one size. */
static bool sizes_agree(compute_graph *graph, const term *a, const term *b) {
  const compute_shape x = compute_node_shape(graph, a->node);
  const compute_shape y = compute_node_shape(graph, b->node);
  if (graph->status) return false;
  for (int32_t i = 0; i < a->of.count; i++) {
    const int32_t k = find_label(&b->of, a->of.label[i]);
    if (k >= 0 && shape_at(x, i) != shape_at(y, k))
      return refuse_sizes(graph, shape_at(x, i), shape_at(y, k));
  }
  return true;
}

/* a = a · b, summed along labels that no later term needs. */
static bool contract(compute_graph *graph, term *a, term *b, const bool *needed) {
  bool kept[LABEL_COUNT];
  sides s = {.batch = {0}};
  memcpy(kept, needed, sizeof kept);
  for (int32_t i = 0; i < b->of.count; i++) kept[b->of.label[i]] = true;
  sum_unneeded(graph, a, kept);
  memcpy(kept, needed, sizeof kept);
  for (int32_t i = 0; i < a->of.count; i++) kept[a->of.label[i]] = true;
  sum_unneeded(graph, b, kept);
  stretch(graph, a, b);
  stretch(graph, b, a);
  if (!sizes_agree(graph, a, b)) return false;
  for (int32_t i = 0; i < a->of.count; i++) {
    const uint8_t label = a->of.label[i];
    const bool shared = find_label(&b->of, label) >= 0;
    add_label(!shared ? &s.left : needed[label] ? &s.batch : &s.inner, label);
  }
  for (int32_t i = 0; i < b->of.count; i++)
    if (find_label(&a->of, b->of.label[i]) < 0) add_label(&s.right, b->of.label[i]);
  labels all = s.batch;
  if (!append(&all, &s.left) || !append(&all, &s.right) ||
      (s.inner.count > 0 && s.batch.count > COMPUTE_MAX_RANK - 2))
    return graph_refuse(graph, COMPUTE_ERROR_UNSUPPORTED, operation,
                        "a product has more than %d axes", COMPUTE_MAX_RANK);
  const term product = {multiply(graph, a, b, &s, &all), a->rank, all};
  *a = product;
  return true;
}

typedef struct einsum {
  term *terms;
  size_t count;
  labels result;
} einsum;

/* The largest number of axes that an ellipsis represents; −1 if the terms do not match the
 * inputs. */
static int32_t count_hidden(const einsum *e, const char *text) {
  int32_t most = 0;
  for (size_t i = 0; i < e->count; i++) {
    const int32_t hidden = e->terms[i].rank - count_letters(text);
    if (hidden < 0) return -1;
    if (hidden > most) most = hidden;
    text += strcspn(text, ",-");
    if ((*text == ',') != (i + 1 < e->count)) return -1;
    text += *text == ',';
  }
  return most;
}

static bool parse(compute_graph *graph, const char *text, einsum *e) {
  int32_t times[LABEL_COUNT] = {0};
  const int32_t hidden = count_hidden(e, text);
  if (hidden < 0) return refuse(graph, "the equation has other terms than its operands");
  for (size_t i = 0; i < e->count; i++) {
    term *t = &e->terms[i];
    const int32_t rank = e->terms[i].rank;
    if (!read_labels(&text, rank - count_letters(text), &t->of) || t->of.count != rank)
      return refuse(graph, "term %zu of the equation does not fit its operand", i);
    for (int32_t k = 0; k < rank; k++) times[t->of.label[k]]++;
    if (!take_diagonals(graph, t)) return false;
    text += *text == ',';
  }
  const bool given = text[0] == '-' && text[1] == '>';
  text += given ? 2 : 0;
  const bool read = given ? read_labels(&text, hidden, &e->result) && *text == 0
                          : *text == 0 && usual_result(times, hidden, &e->result);
  bool seen[LABEL_COUNT] = {false};
  for (int32_t i = 0; read && i < e->result.count; i++) {
    if (times[e->result.label[i]] == 0 || seen[e->result.label[i]])
      return refuse(graph, "the equation has a label in its result twice, or in no term");
    seen[e->result.label[i]] = true;
  }
  return read || refuse(graph, "the equation is malformed");
}

/* Marks the labels of the result and of the terms from `next` on. */
static void find_needed(const einsum *e, size_t next, size_t count, bool *needed) {
  memset(needed, 0, LABEL_COUNT * sizeof *needed);
  for (int32_t i = 0; i < e->result.count; i++) needed[e->result.label[i]] = true;
  for (; next < count; next++)
    for (int32_t i = 0; i < e->terms[next].of.count; i++) needed[e->terms[next].of.label[i]] = true;
}

/* Multiplies the terms from the left, and sums along labels as soon as no later term needs them. */
static compute_node contract_all(compute_graph *graph, const char *equation, einsum *e) {
  bool needed[LABEL_COUNT];
  if (!parse(graph, equation, e)) return BUILD_NONE;
  for (size_t i = 1; i < e->count; i++) {
    find_needed(e, i + 1, e->count, needed);
    if (!contract(graph, &e->terms[0], &e->terms[i], needed)) return BUILD_NONE;
  }
  find_needed(e, e->count, e->count, needed);
  sum_unneeded(graph, &e->terms[0], needed);
  return arrange(graph, &e->terms[0], &e->result);
}

compute_node compute_einsum(compute_graph *graph, const char *equation,
                            const compute_node *operands, size_t count) {
  BUILD_ALL_OR_NOTHING(graph);
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!equation || !operands)
    return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                      equation ? "operands" : "equation");
  if (count < 1)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "needs an operand");
  einsum e = {.terms = base_allocate(count, sizeof *e.terms), .count = count};
  uint32_t *inputs = base_allocate(count, sizeof *inputs);
  compute_node result = BUILD_NONE;
  if (!e.terms || !inputs) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  } else if (build_composed(graph, COMPOSITION_einsum, operands, count, inputs)) {
    for (size_t i = 0; i < count; i++)
      e.terms[i] = (term){.node = operands[i], .rank = build_at(graph, inputs[i])->shape.rank};
    result = contract_all(graph, equation, &e);
  }
  base_release(inputs);
  base_release(e.terms);
  return result;
}
