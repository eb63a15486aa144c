/* SPDX-License-Identifier: MIT */
#include "support/samples/random_graph.h"

enum { MAX_NODES = RANDOM_GRAPH_STEPS + 3 };

/* An expression under construction. Shapes are [a,b,c] and the results of reductions and products,
 * so most pairs broadcast or can be made to. */
typedef struct expression {
  compute_graph *graph;
  test_random random;
  compute_node nodes[MAX_NODES];
  int count;
  compute_node vectors[2]; /* [b,1] and [c] */
  compute_node condition;  /* bool [a,b,c] */
  const int64_t *size;
  bool integer;
} expression;

static int choose(expression *e, int options) {
  return (int)test_random_integer(&e->random, 0, options - 1);
}

/* Picks the newest node half the time, so that chains get long; otherwise any node. */
static compute_node pick(expression *e) {
  return e->nodes[choose(e, 2) ? e->count - 1 : choose(e, e->count)];
}

static int64_t count_of(const expression *e, compute_node node) {
  int64_t count = 0;
  compute_shape_count(compute_node_shape(e->graph, node), &count);
  return count;
}

/* Keeps floats in −1 … 1 where products could otherwise grow without bound. */
static compute_node bounded(expression *e, compute_node x) {
  return e->integer ? x : compute_tanh(e->graph, x);
}

/* Picks any node and gives it a shape that broadcasts with [a,b,c]. */
static compute_node pick_compatible(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  const int64_t *full = e->size;
  bool fits = shape.rank <= 3;
  for (int32_t i = 0; fits && i < shape.rank; i++)
    fits = shape.size[i] == 1 || shape.size[i] == full[3 - shape.rank + i];
  if (fits) return x;
  if (count_of(e, x) == full[0] * full[1] * full[2])
    return compute_reshape(g, x, COMPUTE_SHAPE(full[0], full[1], full[2]));
  return compute_sum(g, x, COMPUTE_ALL_AXES, false);
}

static compute_node apply_unary(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  if (e->integer) {
    switch (choose(e, 4)) {
    case 0: return compute_neg(g, x);
    case 1: return compute_abs(g, x);
    case 2: return compute_relu(g, x);
    default: return compute_square(g, x);
    }
  }
  switch (choose(e, 10)) {
  case 0: return compute_neg(g, x);
  case 1: return compute_abs(g, x);
  case 2: return compute_relu(g, x);
  case 3: return compute_sin(g, x);
  case 4: return compute_sigmoid(g, x);
  case 5: return compute_gelu(g, bounded(e, x));
  case 6: return compute_leaky_relu(g, x, 0.1);
  case 7: return compute_exp(g, bounded(e, x));
  case 8: return compute_square(g, bounded(e, x));
  default: return compute_sqrt(g, compute_abs(g, x));
  }
}

static compute_node apply_binary(expression *e) {
  const compute_node a = pick_compatible(e), b = pick_compatible(e);
  compute_graph *g = e->graph;
  const compute_dtype dtype = compute_node_dtype(g, a);
  switch (choose(e, e->integer ? 9 : 8)) {
  case 0: return compute_add(g, a, b);
  case 1: return compute_sub(g, a, b);
  case 2: return compute_mul(g, bounded(e, a), b);
  case 3: return compute_minimum(g, a, b);
  case 4: return compute_maximum(g, a, b);
  case 5: return compute_select(g, e->condition, a, b);
  /* Candidates for simplification: neutral elements and constants on either side. */
  case 6:
    return compute_add(g, compute_mul(g, a, compute_full(g, dtype, COMPUTE_SCALAR, 1)),
                       compute_scalar(g, dtype, 0));
  case 7: return compute_sub(g, compute_scalar(g, dtype, 2), compute_add(g, a, a));
  default: return compute_mod(g, a, b);
  }
}

static compute_node apply_movement(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  const int32_t last = shape.rank - 1;
  switch (choose(e, 5)) {
  case 0: return compute_transpose(g, x, COMPUTE_ALL_AXES);
  case 1: return compute_reshape(g, x, COMPUTE_SHAPE(-1));
  case 2:
    if (last < 0 || shape.size[last] < 2) return compute_reshape(g, x, COMPUTE_SHAPE(1, -1));
    return compute_slice(g, x, last, 1, shape.size[last] / 2, 2 - shape.size[last] % 2);
  case 3:
    if (last < 0 || shape.size[last] > 8) return x;
    return compute_concat(g, (compute_node[]){x, x}, 2, -1);
  default:
    if (last < 0 || shape.size[0] > 8) return x;
    return compute_embed(g, x, 0, 2 * shape.size[0] + 1, 1, 2);
  }
}

static compute_node apply_reduction(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  const bool keep = choose(e, 2) == 0;
  const compute_axes axes =
      shape.rank ? COMPUTE_AXES((int32_t)choose(e, shape.rank)) : COMPUTE_ALL_AXES;
  switch (choose(e, e->integer ? 3 : 6)) {
  case 0: return compute_sum(g, x, axes, keep);
  case 1: return compute_max(g, x, axes, keep);
  case 2: return compute_min(g, x, axes, keep);
  case 3: return compute_mean(g, compute_square(g, bounded(e, x)), axes, keep);
  case 4: return shape.rank ? compute_softmax(g, x, axes.axis[0]) : x;
  default: return shape.rank ? compute_normalize(g, x, 0.5) : x;
  }
}

static compute_node apply_product(expression *e) {
  compute_graph *g = e->graph;
  const compute_node full = e->nodes[0]; /* [a,b,c] */
  const compute_node a = bounded(e, compute_add(g, pick_compatible(e), full));
  const compute_node b =
      compute_transpose(g, compute_add(g, pick_compatible(e), full), COMPUTE_AXES(0, 2, 1));
  const compute_node y = compute_matmul(g, a, bounded(e, b));
  return choose(e, 2)
             ? compute_relu(g, compute_add(g, y, compute_sum(g, a, COMPUTE_ALL_AXES, false)))
             : y;
}

/* ---- Values of one square shape ------------------------------------------------------------- */

static compute_shape full_shape(const expression *e) {
  return COMPUTE_SHAPE(e->size[0], e->size[1], e->size[2]);
}

/* Permutes the axes without changing the shape. */
static compute_node turn(expression *e, compute_node x) {
  static const int32_t orders[][3] = {{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
  const int32_t *order = orders[e->size[0] == 1 ? 0 : choose(e, 5)];
  return compute_transpose(e->graph, x, COMPUTE_AXES(order[0], order[1], order[2]));
}

/* Merges two axes, transposes, and restores the shape: the same elements in another order. */
static compute_node turn_flat(expression *e, compute_node x) {
  compute_graph *g = e->graph;
  const compute_shape flat = choose(e, 2) ? COMPUTE_SHAPE(e->size[0] * e->size[1], e->size[2])
                                          : COMPUTE_SHAPE(e->size[1], e->size[0] * e->size[2]);
  x = compute_transpose(g, compute_reshape(g, x, flat), COMPUTE_ALL_AXES);
  return compute_reshape(g, x, full_shape(e));
}

/* Replaces all slices of an axis by one slice, or by the slices from an index on. */
static compute_node slice(expression *e, compute_node x) {
  compute_graph *g = e->graph;
  const int32_t axis = choose(e, 3);
  const int64_t size = e->size[axis], at = choose(e, (int)size);
  const compute_node rest = compute_slice(g, x, axis, at, choose(e, 2) ? 1 : size - at, 1);
  if (compute_node_shape(g, rest).size[axis] == 1) return compute_broadcast(g, rest, full_shape(e));
  return compute_concat(g, (compute_node[]){rest, compute_slice(g, x, axis, 0, at, 1)}, 2, axis);
}

static compute_node view(expression *e, compute_node x) {
  switch (choose(e, 5)) {
  case 0: return turn_flat(e, x);
  case 1: return slice(e, x);
  case 2: return turn(e, turn_flat(e, x));
  default: return turn(e, x);
  }
}

static compute_node multiply(expression *e, compute_node a, compute_node b) {
  compute_graph *g = e->graph;
  a = bounded(e, a);
  b = bounded(e, b);
  if (choose(e, 3)) return compute_matmul(g, a, b);
  const compute_shape rows = COMPUTE_SHAPE(e->size[0] * e->size[1], e->size[2]);
  const compute_shape matrix = COMPUTE_SHAPE(e->size[1], e->size[2]);
  b = compute_reshape(g, compute_slice(g, b, 0, 0, 1, 1), matrix);
  return compute_reshape(g, compute_matmul(g, compute_reshape(g, a, rows), b), full_shape(e));
}

static compute_node reduce(expression *e, compute_node x) {
  compute_graph *g = e->graph;
  const compute_axes axis = COMPUTE_AXES((int32_t)choose(e, 3));
  switch (choose(e, e->integer ? 2 : 4)) {
  case 0: return compute_sum(g, bounded(e, x), axis, true);
  case 1: return compute_max(g, x, axis, true);
  case 2: return compute_mean(g, compute_square(g, bounded(e, x)), axis, true);
  default: return compute_softmax(g, x, axis.axis[0]);
  }
}

static compute_node join(expression *e, compute_node a, compute_node b) {
  compute_graph *g = e->graph;
  switch (choose(e, 8)) {
  case 0: return compute_sub(g, a, b);
  case 1: return compute_mul(g, bounded(e, a), b);
  case 2: return compute_maximum(g, a, b);
  case 3: return compute_minimum(g, b, a);
  case 4: return compute_select(g, compute_less(g, a, b), b, a);
  case 5: return compute_select(g, e->condition, a, b);
  default: return compute_add(g, a, b);
  }
}

static compute_node apply_square(expression *e) {
  const compute_node x = pick(e), y = pick(e);
  switch (choose(e, 9)) {
  case 0: return multiply(e, x, y);
  case 1: return multiply(e, x, turn(e, y));
  case 2: return view(e, x);
  case 3: return join(e, x, view(e, x));
  case 4: return join(e, view(e, x), view(e, y));
  case 5: return join(e, x, reduce(e, y));
  case 6: return join(e, x, e->vectors[choose(e, 2)]);
  case 7: return join(e, x, y);
  default: return apply_unary(e);
  }
}

/* ---- Whole graphs ---------------------------------------------------------------------------- */

compute_shape random_graph_operand(const int64_t size[3], int operand) {
  switch (operand) {
  case 1: return COMPUTE_SHAPE(size[1], 1);
  case 2: return COMPUTE_SHAPE(size[2]);
  default: return COMPUTE_SHAPE(size[0], size[1], size[2]);
  }
}

static compute_node apply_any(expression *e) {
  static const int kinds[] = {0, 0, 0, 1, 1, 1, 2, 2, 3, 4};
  switch (kinds[choose(e, 10)]) {
  case 0: return apply_unary(e);
  case 1: return apply_binary(e);
  case 2: return apply_movement(e);
  case 3: return apply_reduction(e);
  default: return apply_product(e);
  }
}

/* The first or second derivatives of scalars that depend on all elements. */
static compute_node derive(expression *e, const compute_node *operands, compute_node y, int order) {
  compute_graph *g = e->graph;
  for (int i = 0; i < order; i++) {
    compute_node parts[3] = {{0}};
    const compute_node loss =
        compute_mean(g, compute_square(g, compute_tanh(g, y)), COMPUTE_ALL_AXES, false);
    compute_gradients(g, loss, operands, 3, parts);
    for (int k = 0; k < 3; k++) parts[k] = compute_reshape(g, parts[k], COMPUTE_SHAPE(-1));
    y = compute_concat(g, parts, 3, 0);
  }
  return y;
}

compute_node random_graph_build(compute_graph *graph, const compute_node *operands,
                                const random_graph *request) {
  const compute_dtype dtype = compute_node_dtype(graph, operands[0]);
  const int64_t *size = request->size, volume = size[0] * size[1] * size[2];
  const int64_t most = volume < 128 ? 512 : 4 * volume;
  expression e = {.graph = graph,
                  .random = {request->seed},
                  .nodes = {operands[0], operands[1], operands[2]},
                  .count = 3,
                  .vectors = {operands[1], operands[2]},
                  .condition = operands[3],
                  .size = size,
                  .integer = dtype != COMPUTE_F64 && dtype != COMPUTE_F32};
  if (request->square) {
    e.nodes[1] = compute_add(graph, operands[0], operands[1]);
    e.nodes[2] = compute_minimum(graph, operands[2], operands[0]);
  }
  for (int step = 0; step < request->steps && step < RANDOM_GRAPH_STEPS; step++) {
    const compute_node y = request->square ? apply_square(&e) : apply_any(&e);
    const int64_t count = count_of(&e, y);
    if (request->square ? count == volume : count <= most) e.nodes[e.count++] = y;
  }
  /* The result contains several nodes, not only the last one. */
  compute_node parts[4];
  for (int i = 0; i < 4; i++)
    parts[i] = compute_reshape(graph, i == 0 ? e.nodes[e.count - 1] : pick(&e), COMPUTE_SHAPE(-1));
  const compute_node result = compute_concat(graph, parts, 4, 0);
  return request->derivatives && !e.integer ? derive(&e, operands, result, request->derivatives)
                                            : result;
}
