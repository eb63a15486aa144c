/* SPDX-License-Identifier: MIT */
/* The double reference for whole nodes. Every operation without a kind of kernel is a loop over the
 * elements of its result or operand. The coordinates of each element are computed plainly. */
#include "support/reference/graph_evaluate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/node/graph.h"
#include "support/reference/graph_evaluate_kernel.h"

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

static void evaluate_random_draw(const graph_node *node, const evaluate_value *const *x,
                                 evaluate_value *y) {
  for (int64_t i = 0; i < y->count; i++) {
    const place p = place_of(y->shape, i);
    double operand[3] = {0};
    for (uint32_t k = 0; k < node->input_count; k++)
      operand[k] = evaluate_get(x[k], broadcast_position(x[k]->shape, y->shape.rank, &p));
    y->real[i] = evaluate_draw(node->attributes.distribution, operand[0], operand[1], operand[2]);
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

/* ---- Kernels ------------------------------------------------------------------------------- */

/* Every index is in its axis. */
static bool check_indices(const evaluation *e, const graph_node *node, evaluate_value *const *x,
                          const evaluate_value *y) {
  const bool gathers = node->op == OP_gather || node->op == OP_gather_elements;
  const int64_t size = (gathers ? x[0] : y)->shape.size[node->attributes.axis];
  const evaluate_value *many = gathers ? y : x[node->input_count == 3 ? 2 : 0];
  for (int64_t i = 0; many->count > 0 && i < x[1]->count; i++) {
    const int64_t index = x[1]->integer[i];
    if (node->attributes.from_zero && index < 0)
      return fail(e, "index %lld is negative", (long long)index);
    if (index < -size || index >= size)
      return fail(e, "index %lld is outside an axis of %lld", (long long)index, (long long)size);
  }
  return true;
}

static bool run_kernel(const evaluation *e, const graph_node *node, evaluate_value **x,
                       evaluate_value *y) {
  if (evaluate_is_indexed(node) && !check_indices(e, node, x, y)) return false;
  switch (evaluate_kernel(node, x, y)) {
  case EVALUATE_DONE: return true;
  case EVALUATE_NO_MEMORY: return fail(e, "no memory");
  case EVALUATE_OTHER: break;
  }
  return fail(e, "%s has no value", graph_op_describe(node->op)->name);
}

static void copy_value(evaluate_value *to, const evaluate_value *from) {
  for (int64_t i = 0; i < to->count; i++) copy_element(to, i, from, i);
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
  case OP_random_draw: evaluate_random_draw(node, (const evaluate_value *const *)x, y); return true;
  case OP_cast: evaluate_cast(x[0], y); return true;
  case OP_transpose:
  case OP_reshape:
  case OP_slice:
  case OP_broadcast: evaluate_view(node, x[0], y); return true;
  case OP_concat: evaluate_concat(node, (const evaluate_value *const *)x, y); return true;
  case OP_embed: evaluate_embed(node, x[0], y); return true;
  case OP_find_spots: /* the definition is the composed form, the last operand */
  case OP_quantized_matmul: copy_value(y, x[node->input_count - 1]); return true;
  case OP_assign: copy_value(y, x[1]); return true;
  default: return run_kernel(e, node, x, y);
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
