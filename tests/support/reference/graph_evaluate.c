/* SPDX-License-Identifier: MIT */
/* The double reference for whole nodes. Every operation is a loop over the elements of its result
 * (or, for sums, of its operand). The coordinates of each element are computed plainly. */
#include "support/reference/graph_evaluate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate_network.h"

typedef struct evaluation {
  const compute_graph *graph;
  evaluate_value *values; /* one per node of the graph */
  bool *needed;
  char *reason;
  size_t reason_bytes;
} evaluation;

static bool fail(const evaluation *e, const char *format, ...) COMPUTE_PRINTF(2, 3);
static bool fail(const evaluation *e, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(e->reason, e->reason_bytes, format, list);
  va_end(list);
  return false;
}

/* ---- Values -------------------------------------------------------------------------------- */

static bool is_real(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

static int64_t element_count(compute_shape shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < shape.rank; i++) count *= shape.size[i];
  return count;
}

/* Creates a value of zeros. */
static bool create(evaluate_value *value, compute_dtype dtype, compute_shape shape) {
  *value = (evaluate_value){.dtype = dtype, .shape = shape, .count = element_count(shape)};
  const size_t room = (size_t)value->count + 1;
  if (is_real(dtype)) {
    value->real = calloc(room, sizeof *value->real);
  } else {
    value->integer = calloc(room, sizeof *value->integer);
  }
  return value->real || value->integer;
}

void evaluate_release(evaluate_value *value) {
  free(value->real);
  free(value->integer);
  *value = (evaluate_value){0};
}

double evaluate_get(const evaluate_value *value, int64_t index) {
  return value->real ? value->real[index] : (double)value->integer[index];
}

static void copy_element(evaluate_value *to, int64_t at, const evaluate_value *from, int64_t of) {
  if (to->real) {
    to->real[at] = from->real[of];
  } else {
    to->integer[at] = from->integer[of];
  }
}

static void add_element(evaluate_value *to, int64_t at, const evaluate_value *from, int64_t of) {
  if (to->real) {
    to->real[at] += from->real[of];
  } else {
    to->integer[at] =
        evaluate_wrap(to->dtype, (uint64_t)to->integer[at] + (uint64_t)from->integer[of]);
  }
}

/* Like add_element, but with any mode. */
static void join_element(compute_scatter_mode mode, evaluate_value *to, int64_t at,
                         const evaluate_value *from, int64_t of) {
  const bool real = to->real != NULL;
  const bool less = real ? to->real[at] < from->real[of] : to->integer[at] < from->integer[of];
  const bool more = real ? to->real[at] > from->real[of] : to->integer[at] > from->integer[of];
  const bool is_nan = real && isnan(from->real[of]);
  if (mode == COMPUTE_SCATTER_ADD)
    add_element(to, at, from, of);
  else if (mode == COMPUTE_SCATTER_MUL && real)
    to->real[at] *= from->real[of];
  else if (mode == COMPUTE_SCATTER_MUL)
    to->integer[at] =
        evaluate_wrap(to->dtype, (uint64_t)to->integer[at] * (uint64_t)from->integer[of]);
  else if (mode == COMPUTE_SCATTER_SET || is_nan || (mode == COMPUTE_SCATTER_MAX ? less : more))
    copy_element(to, at, from, of);
}

/* ---- Coordinates --------------------------------------------------------------------------- */

typedef struct place {
  int64_t at[COMPUTE_MAX_RANK + 1];
} place;

static place place_of(compute_shape shape, int64_t position) {
  place p = {{0}};
  for (int32_t i = shape.rank - 1; i >= 0; i--) {
    p.at[i] = position % shape.size[i];
    position /= shape.size[i];
  }
  return p;
}

static int64_t position_of(compute_shape shape, const place *p) {
  int64_t position = 0;
  for (int32_t i = 0; i < shape.rank; i++) position = position * shape.size[i] + p->at[i];
  return position;
}

/* The position in `shape` of element `p` of a space with `rank` axes, by NumPy's broadcasting. */
static int64_t broadcast_position(compute_shape shape, int32_t rank, const place *p) {
  place own = {{0}};
  for (int32_t i = 0; i < shape.rank; i++) {
    own.at[i] = shape.size[i] == 1 ? 0 : p->at[i + rank - shape.rank];
  }
  return position_of(shape, &own);
}

/* ---- Sources ------------------------------------------------------------------------------- */

static void decode(evaluate_value *value, int64_t at, const void *element) {
  if (value->real) {
    value->real[at] = evaluate_decode_real(value->dtype, element);
  } else {
    value->integer[at] = evaluate_decode_integer(value->dtype, element);
  }
}

static void evaluate_constant(const graph_node *node, evaluate_value *y) {
  const size_t size = compute_dtype_size(node->dtype);
  for (int64_t i = 0; i < y->count; i++) {
    decode(y, i, (const char *)node->constant + (node->uniform ? 0 : (size_t)i * size));
  }
}

static bool evaluate_parameter(const evaluation *e, const graph_node *node, evaluate_value *y) {
  const size_t size = compute_dtype_size(node->dtype), bytes = (size_t)y->count * size;
  char *data = malloc(bytes + 1);
  if (!data) return fail(e, "no memory");
  compute_status status = compute_tensor_read(node->tensor, data, bytes);
  for (int64_t i = 0; i < y->count && !status; i++) decode(y, i, data + (size_t)i * size);
  free(data);
  return status ? fail(e, "a parameter cannot be read") : true;
}

static void bind(evaluate_value *y, const evaluate_binding *binding) {
  for (int64_t i = 0; i < y->count; i++) {
    if (y->real) {
      y->real[i] = binding->real[i];
    } else {
      y->integer[i] = binding->integer ? binding->integer[i] : (int64_t)binding->real[i];
    }
  }
}

static void evaluate_index(const graph_node *node, evaluate_value *y) {
  for (int64_t i = 0; i < y->count; i++) {
    int64_t position = place_of(y->shape, i).at[node->attributes.axis];
    if (y->real) {
      y->real[i] = evaluate_round(y->dtype, (long double)position);
    } else {
      y->integer[i] = evaluate_wrap(y->dtype, (uint64_t)position);
    }
  }
}

static void evaluate_random_uniform(const graph_node *node, const evaluate_value *seed,
                                    evaluate_value *y) {
  for (int64_t i = 0; i < y->count; i++) {
    double number = evaluate_random((uint64_t)seed->integer[0], (uint64_t)i,
                                    node->attributes.stream, y->dtype == COMPUTE_F64);
    y->real[i] = evaluate_round(y->dtype, (long double)number);
  }
}

/* ---- Elementwise and cast ------------------------------------------------------------------ */

static void evaluate_elementwise(const graph_node *node, const evaluate_value *const *x,
                                 evaluate_value *y) {
  /* select's condition has another dtype than its other operands */
  const evaluate_value *typed = x[node->op == OP_select ? 1 : 0];
  for (int64_t i = 0; i < y->count; i++) {
    const place p = place_of(y->shape, i);
    double real[3] = {0};
    int64_t integer[3] = {0};
    for (uint32_t k = 0; k < node->input_count; k++) {
      int64_t at = broadcast_position(x[k]->shape, y->shape.rank, &p);
      real[k] = evaluate_get(x[k], at);
      integer[k] = x[k]->integer ? x[k]->integer[at] : 0;
    }
    if (typed->integer) {
      y->integer[i] = evaluate_integer((int)node->op, typed->dtype, integer);
    } else {
      double result = evaluate_real((int)node->op, real, node->attributes.scalar);
      if (y->real) {
        y->real[i] = result;
      } else {
        y->integer[i] = (int64_t)result;
      }
    }
  }
}

static void evaluate_cast(const evaluate_value *x, evaluate_value *y) {
  for (int64_t i = 0; i < y->count; i++) {
    if (x->real && y->real) {
      y->real[i] = evaluate_round(y->dtype, (long double)x->real[i]);
    } else if (x->real) {
      y->integer[i] = evaluate_from_real(y->dtype, x->real[i]);
    } else if (y->real) {
      y->real[i] = evaluate_round(y->dtype, (long double)x->integer[i]);
    } else {
      y->integer[i] = evaluate_wrap(y->dtype, (uint64_t)x->integer[i]);
    }
  }
}

/* ---- Views and joins ----------------------------------------------------------------------- */

static void evaluate_view(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const graph_attributes *a = &node->attributes;
  for (int64_t i = 0; i < y->count; i++) {
    place p = place_of(y->shape, i), q = p;
    int64_t from = i; /* reshape */
    if (node->op == OP_transpose) {
      for (int32_t k = 0; k < y->shape.rank; k++) q.at[a->order[k]] = p.at[k];
      from = position_of(x->shape, &q);
    } else if (node->op == OP_slice) {
      q.at[a->axis] = a->start + p.at[a->axis] * a->step;
      from = position_of(x->shape, &q);
    } else if (node->op == OP_broadcast) {
      from = broadcast_position(x->shape, y->shape.rank, &p);
    }
    copy_element(y, i, x, from);
  }
}

static void evaluate_concat(const graph_node *node, const evaluate_value *const *x,
                            evaluate_value *y) {
  int64_t start = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    for (int64_t i = 0; i < x[k]->count; i++) {
      place p = place_of(x[k]->shape, i);
      p.at[node->attributes.axis] += start;
      copy_element(y, position_of(y->shape, &p), x[k], i);
    }
    start += x[k]->shape.size[node->attributes.axis];
  }
}

static void evaluate_embed(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const graph_attributes *a = &node->attributes;
  for (int64_t i = 0; i < x->count; i++) {
    place p = place_of(x->shape, i);
    p.at[a->axis] = a->start + p.at[a->axis] * a->step;
    copy_element(y, position_of(y->shape, &p), x, i);
  }
}

/* ---- Matrix product ------------------------------------------------------------------------ */

/* The position of element [batch…, row, column] of an operand, with the batch of place `p`. */
static int64_t matrix_position(compute_shape shape, int32_t rank, place p, int64_t row,
                               int64_t column) {
  place own = {{0}};
  for (int32_t i = 0; i < shape.rank - 2; i++) {
    own.at[i] = shape.size[i] == 1 ? 0 : p.at[i + rank - shape.rank];
  }
  own.at[shape.rank - 2] = row;
  own.at[shape.rank - 1] = column;
  return position_of(shape, &own);
}

static void evaluate_matmul(const evaluate_value *a, const evaluate_value *b, evaluate_value *y) {
  const int32_t rank = y->shape.rank;
  const int64_t k = a->shape.size[a->shape.rank - 1];
  for (int64_t i = 0; i < y->count; i++) {
    const place p = place_of(y->shape, i);
    long double real = 0;
    uint64_t integer = 0;
    for (int64_t j = 0; j < k; j++) {
      int64_t from_a = matrix_position(a->shape, rank, p, p.at[rank - 2], j);
      int64_t from_b = matrix_position(b->shape, rank, p, j, p.at[rank - 1]);
      if (y->real) {
        real += (long double)a->real[from_a] * (long double)b->real[from_b];
      } else {
        integer += (uint64_t)a->integer[from_a] * (uint64_t)b->integer[from_b];
      }
    }
    if (y->real) {
      y->real[i] = (double)real;
    } else {
      y->integer[i] = evaluate_wrap(y->dtype, integer);
    }
  }
}

/* ---- Reductions ---------------------------------------------------------------------------- */

/* The result element of the operand's element at `p`. */
static int64_t reduced_position(const graph_node *node, int32_t rank, const place *p,
                                compute_shape result) {
  place q = {{0}};
  int32_t axis = 0;
  for (int32_t i = 0; i < rank; i++) {
    const bool reduced = node->attributes.axes_mask >> i & 1u;
    if (reduced && !node->attributes.keep_axes) continue;
    q.at[axis++] = reduced ? 0 : p->at[i];
  }
  return position_of(result, &q);
}

/* Returns true if `candidate` replaces `best` as the extremum: the first of equals is kept, and a
 * NaN beats every number. */
static bool beats(const evaluate_value *x, int64_t candidate, int64_t best, bool largest) {
  if (x->integer) {
    int64_t c = x->integer[candidate], b = x->integer[best];
    return largest ? c > b : c < b;
  }
  double c = x->real[candidate], b = x->real[best];
  if (isnan(b)) return false;
  return isnan(c) || (largest ? c > b : c < b);
}

static bool evaluate_extremum(const evaluation *e, const graph_node *node, const evaluate_value *x,
                              evaluate_value *y) {
  const bool largest = node->op == OP_max || node->op == OP_argmax;
  const bool position = node->op == OP_argmax || node->op == OP_argmin;
  int64_t *best = calloc((size_t)y->count + 1, sizeof *best); /* 1 + index of the operand's
                                                               * element */
  if (!best) return fail(e, "no memory");
  for (int64_t i = 0; i < x->count; i++) {
    const place p = place_of(x->shape, i);
    int64_t *to = &best[reduced_position(node, x->shape.rank, &p, y->shape)];
    if (*to == 0 || beats(x, i, *to - 1, largest)) *to = i + 1;
  }
  for (int64_t i = 0; i < y->count; i++) {
    if (position) {
      y->integer[i] = place_of(x->shape, best[i] - 1).at[node->attributes.axis];
    } else {
      copy_element(y, i, x, best[i] - 1);
    }
  }
  free(best);
  return true;
}

static bool evaluate_fold(const evaluation *e, const graph_node *node, const evaluate_value *x,
                          evaluate_value *y) {
  const bool product = node->op == OP_prod;
  long double *real = calloc((size_t)y->count + 1, sizeof *real);
  uint64_t *integer = calloc((size_t)y->count + 1, sizeof *integer);
  int64_t *elements = calloc((size_t)y->count + 1, sizeof *elements);
  const bool memory = real && integer && elements;
  for (int64_t i = 0; memory && i < y->count; i++) {
    real[i] = product;
    integer[i] = product;
  }
  for (int64_t i = 0; memory && i < x->count; i++) {
    const place p = place_of(x->shape, i);
    const int64_t to = reduced_position(node, x->shape.rank, &p, y->shape);
    elements[to]++;
    if (x->real) {
      const long double value = (long double)x->real[i];
      real[to] = product ? real[to] * value : real[to] + value;
    } else {
      const uint64_t value = (uint64_t)x->integer[i];
      integer[to] = product ? integer[to] * value : integer[to] + value;
    }
  }
  for (int64_t i = 0; memory && i < y->count; i++) {
    if (node->op == OP_mean) real[i] = elements[i] ? real[i] / (long double)elements[i] : NAN;
    if (y->real) {
      y->real[i] = (double)real[i];
    } else {
      y->integer[i] = evaluate_wrap(y->dtype, integer[i]);
    }
  }
  free(real);
  free(integer);
  free(elements);
  return memory ? true : fail(e, "no memory");
}

/* ---- Row operations ------------------------------------------------------------------------ */

/* Evaluates one row of `count` elements that are `step` apart. */
static void evaluate_row(const graph_node *node, const double *x, double *y, int64_t count,
                         int64_t step) {
  long double largest = -INFINITY, sum = 0, mean = 0, variance = 0;
  for (int64_t i = 0; i < count; i++) {
    long double value = (long double)x[i * step];
    if (isnan(value) || value > largest) largest = value;
    mean += value / (long double)count;
  }
  for (int64_t i = 0; i < count; i++) {
    long double value = (long double)x[i * step];
    sum += expl(value - largest);
    variance += (value - mean) * (value - mean) / (long double)count;
  }
  for (int64_t i = 0; i < count; i++) {
    long double value = (long double)x[i * step], result;
    if (node->op == OP_softmax) {
      result = expl(value - largest) / sum;
    } else if (node->op == OP_log_softmax) {
      result = value - largest - logl(sum);
    } else {
      result = (value - mean) / sqrtl(variance + (long double)node->attributes.scalar);
    }
    y[i * step] = (double)result;
  }
}

static void evaluate_rows(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const int32_t axis = node->attributes.axis;
  int64_t step = 1;
  for (int32_t i = axis + 1; i < x->shape.rank; i++) step *= x->shape.size[i];
  for (int64_t i = 0; i < x->count; i++) {
    if (place_of(x->shape, i).at[axis] != 0) continue; /* rows start where the coordinate is 0 */
    evaluate_row(node, x->real + i, y->real + i, x->shape.size[axis], step);
  }
}

/* ---- Indexing ------------------------------------------------------------------------------ */

/* Converts element `at` of the index tensor to a position in an axis of `size`. */
static bool look_up(const evaluation *e, const evaluate_value *indices, int64_t at, int64_t size,
                    int64_t *position) {
  int64_t index = indices->integer[at];
  *position = index < 0 ? index + size : index;
  if (*position >= 0 && *position < size) return true;
  return fail(e, "index %lld is outside an axis of %lld", (long long)index, (long long)size);
}

/* gather and scatter_add: `small` has the axis; `large` has the axes of the indices instead. Each
 * element of `large` is read from, or added to, one element of `small`. */
static bool evaluate_slices(const evaluation *e, const graph_node *node,
                            const evaluate_value *indices, evaluate_value *large,
                            evaluate_value *small) {
  const int32_t axis = node->attributes.axis, index_rank = indices->shape.rank;
  for (int64_t i = 0; i < large->count; i++) {
    const place p = place_of(large->shape, i);
    place q = {{0}}, r = {{0}};
    for (int32_t k = 0; k < index_rank; k++) r.at[k] = p.at[axis + k];
    for (int32_t k = 0; k < small->shape.rank; k++) {
      q.at[k] = k < axis ? p.at[k] : k > axis ? p.at[k + index_rank - 1] : 0;
    }
    if (!look_up(e, indices, position_of(indices->shape, &r), small->shape.size[axis],
                 &q.at[axis])) {
      return false;
    }
    const int64_t at = position_of(small->shape, &q);
    if (node->op == OP_gather) {
      copy_element(large, i, small, at);
    } else {
      join_element((compute_scatter_mode)node->attributes.mode, small, at, large, i);
    }
  }
  return true;
}

/* gather_elements and scatter_add_elements: `many` has the shape of the indices. */
static bool evaluate_single_elements(const evaluation *e, const graph_node *node,
                                     const evaluate_value *indices, evaluate_value *many,
                                     evaluate_value *table) {
  const int32_t axis = node->attributes.axis;
  for (int64_t i = 0; i < indices->count; i++) {
    place p = place_of(indices->shape, i);
    if (node->attributes.from_zero && indices->integer[i] < 0)
      return fail(e, "index %lld is negative", (long long)indices->integer[i]);
    if (!look_up(e, indices, i, table->shape.size[axis], &p.at[axis])) return false;
    const int64_t at = position_of(table->shape, &p);
    if (node->op == OP_gather_elements) {
      copy_element(many, i, table, at);
    } else {
      join_element((compute_scatter_mode)node->attributes.mode, table, at, many, i);
    }
  }
  return true;
}

/* ---- The graph ----------------------------------------------------------------------------- */

static bool evaluate_structural(const evaluation *e, const graph_node *node, evaluate_value **x,
                                evaluate_value *y) {
  switch (node->op) {
  case OP_input: return fail(e, "an input is not bound");
  case OP_parameter: return evaluate_parameter(e, node, y);
  case OP_constant: evaluate_constant(node, y); return true;
  case OP_index: evaluate_index(node, y); return true;
  case OP_random_uniform: evaluate_random_uniform(node, x[0], y); return true;
  case OP_cast: evaluate_cast(x[0], y); return true;
  case OP_transpose:
  case OP_reshape:
  case OP_slice:
  case OP_broadcast: evaluate_view(node, x[0], y); return true;
  case OP_concat: evaluate_concat(node, (const evaluate_value *const *)x, y); return true;
  case OP_embed: evaluate_embed(node, x[0], y); return true;
  case OP_matmul:
  case OP_matmul_integer: evaluate_matmul(x[0], x[1], y); return true;
  case OP_sum:
  case OP_mean:
  case OP_prod: return evaluate_fold(e, node, x[0], y);
  case OP_max:
  case OP_min:
  case OP_argmax:
  case OP_argmin: return evaluate_extremum(e, node, x[0], y);
  case OP_softmax:
  case OP_log_softmax:
  case OP_normalize: evaluate_rows(node, x[0], y); return true;
  case OP_gather: return evaluate_slices(e, node, x[1], y, x[0]);
  case OP_scatter_add: return evaluate_slices(e, node, x[1], x[0], y);
  case OP_gather_elements: return evaluate_single_elements(e, node, x[1], y, x[0]);
  case OP_scatter_add_elements: return evaluate_single_elements(e, node, x[1], x[0], y);
  case OP_scatter:
  case OP_scatter_elements:
    for (int64_t i = 0; i < y->count; i++) copy_element(y, i, x[0], i);
    return node->op == OP_scatter ? evaluate_slices(e, node, x[1], x[2], y)
                                  : evaluate_single_elements(e, node, x[1], x[2], y);
  case OP_assign:
    for (int64_t i = 0; i < y->count; i++) copy_element(y, i, x[1], i);
    return true;
  default:
    if (evaluate_network(node, x, y)) return true;
    return fail(e, "%s has no value", graph_op_describe(node->op)->name);
  }
}

static bool evaluate_node(const evaluation *e, uint32_t index, const evaluate_binding *bindings,
                          size_t binding_count) {
  const graph_node *node = &e->graph->nodes[index];
  const graph_node *like = node->op == OP_assign ? &e->graph->nodes[node->inputs[1]] : node;
  evaluate_value *y = &e->values[index];
  if (!create(y, like->dtype, like->shape)) return fail(e, "no memory");
  for (size_t i = 0; i < binding_count; i++) {
    if (bindings[i].node.id != index + 1) continue;
    bind(y, &bindings[i]);
    return true;
  }
  evaluate_value **x = calloc((size_t)node->input_count + 1, sizeof *x);
  if (!x) return fail(e, "no memory");
  for (uint32_t k = 0; k < node->input_count; k++) x[k] = &e->values[node->inputs[k]];
  bool done = true;
  if (graph_op_describe(node->op)->category == CATEGORY_ELEMENTWISE) {
    evaluate_elementwise(node, (const evaluate_value *const *)x, y);
  } else {
    done = evaluate_structural(e, node, x, y);
  }
  free(x);
  return done;
}

/* Marks the dependencies of the outputs up to the bound nodes, and evaluates them in order. */
static bool evaluate_all(const evaluation *e, const evaluate_binding *bindings,
                         size_t binding_count) {
  for (size_t n = e->graph->count; n-- > 0;) {
    bool bound = false;
    for (size_t i = 0; i < binding_count; i++) bound |= bindings[i].node.id == n + 1;
    const graph_node *node = &e->graph->nodes[n];
    for (uint32_t k = 0; e->needed[n] && !bound && k < node->input_count; k++) {
      e->needed[node->inputs[k]] = true;
    }
  }
  for (size_t n = 0; n < e->graph->count; n++) {
    if (e->needed[n] && !evaluate_node(e, (uint32_t)n, bindings, binding_count)) return false;
  }
  return true;
}

static bool copy_results(const evaluation *e, const compute_node *outputs, size_t count,
                         evaluate_value *results) {
  for (size_t i = 0; i < count; i++) {
    const evaluate_value *value = &e->values[outputs[i].id - 1];
    if (!create(&results[i], value->dtype, value->shape)) return fail(e, "no memory");
    for (int64_t k = 0; k < value->count; k++) copy_element(&results[i], k, value, k);
  }
  return true;
}

bool graph_evaluate(const compute_graph *graph, const evaluate_binding *bindings,
                    size_t binding_count, const compute_node *outputs, size_t output_count,
                    evaluate_value *results, char *reason, size_t reason_bytes) {
  evaluation e = {.graph = graph, .reason = reason, .reason_bytes = reason_bytes};
  bool done = false;
  if (output_count > 0) memset(results, 0, output_count * sizeof *results);
  if (reason_bytes > 0) reason[0] = 0;
  e.values = calloc(graph->count + 1, sizeof *e.values);
  e.needed = calloc(graph->count + 1, sizeof *e.needed);
  if (!e.values || !e.needed) {
    fail(&e, "no memory");
    goto release;
  }
  for (size_t i = 0; i < output_count; i++) {
    if (outputs[i].graph != graph->serial || outputs[i].id < 1 || outputs[i].id > graph->count) {
      fail(&e, "output %zu is not a node of the graph", i);
      goto release;
    }
    e.needed[outputs[i].id - 1] = true;
  }
  done =
      evaluate_all(&e, bindings, binding_count) && copy_results(&e, outputs, output_count, results);
release:
  for (size_t i = 0; !done && i < output_count; i++) evaluate_release(&results[i]);
  for (size_t i = 0; e.values && i < graph->count; i++) evaluate_release(&e.values[i]);
  free(e.values);
  free(e.needed);
  return done;
}
