/* SPDX-License-Identifier: MIT */
/* Linear algebra: nodes of the kind LINALG, and the functions that take them apart. */
#include "graph/builders/linalg.h"

#include <string.h>

#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

int64_t linalg_rows(const compute_graph *graph, compute_node x) {
  const compute_shape shape = compute_node_shape(graph, x);
  return shape.rank < 2 ? 0 : shape_at(shape, shape.rank - 2);
}

int64_t linalg_columns(const compute_graph *graph, compute_node x) {
  const compute_shape shape = compute_node_shape(graph, x);
  return shape.rank < 2 ? 0 : shape_at(shape, shape.rank - 1);
}

compute_node linalg_transpose(compute_graph *graph, compute_node x) {
  const int32_t rank = compute_node_shape(graph, x).rank;
  compute_axes axes = {.count = rank};
  for (int32_t i = 0; i < rank; i++) axes.axis[i] = i;
  if (rank >= 2) {
    axes.axis[rank - 1] = rank - 2;
    axes.axis[rank - 2] = rank - 1;
  }
  return compute_transpose(graph, x, axes);
}

/* The shape of the batch, with `more` axes to set. */
static compute_shape batch_with(compute_shape shape, int32_t own, int32_t more) {
  compute_shape batch = {.rank = shape.rank - own + more};
  for (int32_t i = 0; i < shape.rank - own; i++) shape_set(&batch, i, shape_at(shape, i));
  return batch;
}

static compute_shape batch_of(compute_shape shape) {
  return batch_with(shape, 2, 0);
}

compute_node linalg_on_diagonal(compute_graph *graph, int64_t n) {
  const compute_node row = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(n, 1), 0);
  const compute_node column = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(1, n), 1);
  return compute_equal(graph, row, column);
}

compute_node linalg_identity(compute_graph *graph, compute_dtype dtype, int64_t n) {
  return compute_cast(graph, linalg_on_diagonal(graph, n), dtype);
}

static compute_node widen(compute_graph *graph, compute_node x, bool row) {
  const compute_shape shape = compute_node_shape(graph, x);
  const int64_t n = shape_at(shape, shape.rank - 1);
  compute_shape wide = batch_with(shape, 1, 2);
  shape_set(&wide, wide.rank - 2, row ? 1 : n);
  shape_set(&wide, wide.rank - 1, row ? n : 1);
  return compute_reshape(graph, x, wide);
}

compute_node linalg_as_row(compute_graph *graph, compute_node x) {
  return widen(graph, x, true);
}

compute_node linalg_as_column(compute_graph *graph, compute_node x) {
  return widen(graph, x, false);
}

compute_node linalg_spread(compute_graph *graph, compute_node diagonal) {
  const compute_shape shape = compute_node_shape(graph, diagonal);
  const compute_dtype dtype = compute_node_dtype(graph, diagonal);
  const compute_node on = linalg_on_diagonal(graph, shape_at(shape, shape.rank - 1));
  return compute_select(graph, on, linalg_as_row(graph, diagonal), compute_scalar(graph, dtype, 0));
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

compute_node linalg_node(compute_graph *graph, const char *operation,
                         const compute_linalg_attributes *a, compute_node x, compute_node b) {
  const bool has_right = network_given(b);
  const compute_node operands[] = {x, b};
  uint32_t inputs[2];
  if (!build_operands(graph, operation, operands, has_right ? 2 : 1, inputs)) return BUILD_NONE;
  graph_node node = {.op = OP_linalg, .dtype = build_at(graph, inputs[0])->dtype};
  const compute_shape batch = batch_of(build_at(graph, inputs[0])->shape);
  node.shape = batch;
  if (has_right &&
      !shape_broadcast(batch, batch_of(build_at(graph, inputs[1])->shape), &node.shape))
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "the batches do not broadcast");
  node.shape.rank++;
  shape_set(&node.shape, node.shape.rank - 1, compute_linalg_results(a));
  compute_linalg_attributes *own = graph_constant_create(1, sizeof *own);
  if (!own)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a node");
  *own = *a;
  node.constant = own;
  return build_node(graph, operation, &node, inputs, has_right ? 2 : 1);
}

static compute_node take(compute_graph *graph, compute_node packed, int64_t start, int64_t count) {
  const int32_t axis = compute_node_shape(graph, packed).rank - 1;
  return compute_slice(graph, packed, axis, start, count, 1);
}

compute_node linalg_take(compute_graph *graph, compute_node packed, int64_t start, int64_t rows,
                         int64_t columns) {
  compute_shape shape = batch_with(compute_node_shape(graph, packed), 1, 2);
  shape_set(&shape, shape.rank - 2, rows);
  shape_set(&shape, shape.rank - 1, columns);
  return compute_reshape(graph, take(graph, packed, start, rows * columns), shape);
}

compute_node linalg_take_vector(compute_graph *graph, compute_node packed, int64_t start,
                                int64_t count) {
  return take(graph, packed, start, count);
}

compute_node linalg_take_one(compute_graph *graph, compute_node packed, int64_t at) {
  const compute_shape batch = batch_with(compute_node_shape(graph, packed), 1, 0);
  return compute_reshape(graph, take(graph, packed, at, 1), batch);
}

compute_node linalg_status(compute_graph *graph, compute_node packed) {
  const compute_shape shape = compute_node_shape(graph, packed);
  const int64_t last = shape_at(shape, shape.rank - 1) - 1;
  return compute_cast(graph, linalg_take_one(graph, packed, last), COMPUTE_I32);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_matrix(linalg_call *c, const char *name, compute_shape shape, bool square) {
  char text[BUILD_TEXT];
  if (shape.rank < 2)
    return graph_refuse(c->graph, COMPUTE_ERROR_SHAPE, c->operation,
                        "%s is %s; it must have rows and columns", name,
                        compute_shape_text(shape, text, sizeof text));
  const int64_t m = shape_at(shape, shape.rank - 2), n = shape_at(shape, shape.rank - 1);
  if (square && m != n)
    return graph_refuse(c->graph, COMPUTE_ERROR_SHAPE, c->operation,
                        "%s is %s; its last two axes must be equal", name,
                        compute_shape_text(shape, text, sizeof text));
  if (!kernel_linalg_takes(m, square ? n : 0, square ? 0 : n))
    return graph_refuse(c->graph, COMPUTE_ERROR_SHAPE, c->operation,
                        "%s is %s; at most 2^24 rows are possible", name,
                        compute_shape_text(shape, text, sizeof text));
  return true;
}

compute_node linalg_to_work(linalg_call *c, compute_node x) {
  const compute_dtype work = dtype_compute_type(c->dtype);
  return work == c->dtype ? x : compute_cast(c->graph, x, work);
}

compute_node linalg_from_work(linalg_call *c, compute_node x) {
  return compute_node_dtype(c->graph, x) == c->dtype ? x : compute_cast(c->graph, x, c->dtype);
}

bool linalg_begin(linalg_call *c, compute_graph *graph, const char *operation, compute_node a,
                  bool square) {
  uint32_t input;
  *c = (linalg_call){.graph = graph, .operation = operation};
  if (!build_operands(graph, operation, &a, 1, &input)) return false;
  c->dtype = build_at(graph, input)->dtype;
  if (!build_domain(graph, operation, DOMAIN_FLOAT, c->dtype) ||
      !check_matrix(c, "a", build_at(graph, input)->shape, square))
    return false;
  const compute_shape shape = build_at(graph, input)->shape;
  if (!square && !kernel_linalg_takes(0, shape_at(shape, shape.rank - 1), 0))
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "a has more than 2^24 columns");
  c->a = linalg_to_work(c, a);
  return !graph->status;
}

bool linalg_begin_pair(linalg_call *c, compute_graph *graph, const char *operation, compute_node a,
                       compute_node b, bool square) {
  const compute_node operands[] = {a, b};
  uint32_t inputs[2];
  char left[BUILD_TEXT], right[BUILD_TEXT];
  if (!build_operands(graph, operation, operands, 2, inputs) ||
      !build_same_dtype(graph, operation, build_at(graph, inputs[0])->dtype,
                        build_at(graph, inputs[1])->dtype))
    return false;
  compute_shape shape = build_at(graph, inputs[1])->shape;
  if (!linalg_begin(c, graph, operation, a, square)) return false;
  c->vector = shape.rank == 1;
  if (c->vector) {
    shape = COMPUTE_SHAPE(shape_at(shape, 0), 1);
    b = compute_reshape(graph, b, shape);
  }
  const compute_shape of_a = compute_node_shape(graph, a);
  if (!check_matrix(c, "b", shape, false)) return false;
  if (shape_at(shape, shape.rank - 2) != shape_at(of_a, of_a.rank - 2))
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "a is %s, b is %s: their rows differ",
                        compute_shape_text(of_a, left, sizeof left),
                        compute_shape_text(shape, right, sizeof right));
  compute_shape all;
  if (!shape_broadcast(batch_of(of_a), batch_of(shape), &all))
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "a is %s, b is %s: their batches do not broadcast",
                        compute_shape_text(of_a, left, sizeof left),
                        compute_shape_text(shape, right, sizeof right));
  c->b = linalg_to_work(c, b);
  return !graph->status;
}

/* The node of a function of c->a, and of c->b if it is given. */
compute_node linalg_apply(linalg_call *c, compute_linalg_function function, uint32_t flags) {
  const compute_linalg_attributes a = {.function = function,
                                       .flags = flags,
                                       .rows = linalg_rows(c->graph, c->a),
                                       .columns = linalg_columns(c->graph, c->a),
                                       .right = network_given(c->b) ? linalg_columns(c->graph, c->b)
                                                                    : 0};
  return linalg_node(c->graph, c->operation, &a, c->a, c->b);
}

/* Gives the caller further results, or {0} after an error, and returns the first. */
compute_node linalg_finish(linalg_call *c, compute_node packed, compute_node result,
                           compute_node *status) {
  if (status) *status = linalg_status(c->graph, packed);
  result = linalg_from_work(c, result);
  if (!c->graph->status) return result;
  if (status) *status = BUILD_NONE;
  return BUILD_NONE;
}

compute_node linalg_as_given(linalg_call *c, compute_node x) {
  if (!c->vector) return x;
  compute_shape shape = compute_node_shape(c->graph, x);
  shape_set(&shape, shape.rank - 1, 0);
  shape.rank--;
  return compute_reshape(c->graph, x, shape);
}

/* ---- Builders -------------------------------------------------------------------------------- */

compute_node compute_cholesky(compute_graph *graph, compute_node a, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin(&c, graph, "cholesky", a, true)) return linalg_none(status);
  const compute_node packed = linalg_apply(&c, COMPUTE_LINALG_CHOLESKY, 0);
  const int64_t n = linalg_rows(graph, c.a);
  return linalg_finish(&c, packed, linalg_take(graph, packed, 0, n, n), status);
}

static compute_node solved(linalg_call *c, compute_linalg_function function, uint32_t flags,
                           compute_node *status) {
  compute_graph *graph = c->graph;
  const compute_node packed = linalg_apply(c, function, flags);
  compute_node x =
      linalg_take(graph, packed, 0, linalg_columns(graph, c->a), linalg_columns(graph, c->b));
  x = linalg_as_given(c, x);
  return linalg_finish(c, packed, x, status);
}

compute_node compute_solve_triangular(compute_graph *graph, compute_node a, compute_node b,
                                      bool upper, bool unit_diagonal, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin_pair(&c, graph, "solve_triangular", a, b, true)) return linalg_none(status);
  return solved(&c, COMPUTE_LINALG_TRIANGULAR,
                (upper ? COMPUTE_LINALG_UPPER : 0u) |
                    (unit_diagonal ? COMPUTE_LINALG_UNIT_DIAGONAL : 0u),
                status);
}

compute_node compute_solve(compute_graph *graph, compute_node a, compute_node b,
                           compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin_pair(&c, graph, "solve", a, b, true)) return linalg_none(status);
  return solved(&c, COMPUTE_LINALG_SOLVE, 0, status);
}

compute_node compute_inverse(compute_graph *graph, compute_node a, compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (!linalg_begin(&c, graph, "inverse", a, true)) return linalg_none(status);
  c.b = linalg_identity(graph, compute_node_dtype(graph, c.a), linalg_rows(graph, c.a));
  return solved(&c, COMPUTE_LINALG_SOLVE, 0, status);
}

compute_node compute_lu(compute_graph *graph, compute_node a, compute_node *permutation,
                        compute_node *status) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  if (permutation) *permutation = BUILD_NONE;
  if (!linalg_begin(&c, graph, "lu", a, false)) return linalg_none(status);
  const compute_node packed = linalg_apply(&c, COMPUTE_LINALG_LU, 0);
  const int64_t m = linalg_rows(graph, c.a), n = linalg_columns(graph, c.a);
  compute_node order = BUILD_NONE;
  if (permutation)
    order = compute_cast(graph, linalg_take_vector(graph, packed, m * n, m), COMPUTE_I32);
  const compute_node result =
      linalg_finish(&c, packed, linalg_take(graph, packed, 0, m, n), status);
  if (permutation && !graph->status) *permutation = order;
  return result;
}

/* ---- Determinants ---------------------------------------------------------------------------- */

/* The pivots [..., n] and the sign of the permutation [...]. */
static bool find_pivots(linalg_call *c, compute_node *pivots, compute_node *sign) {
  const compute_node packed = linalg_apply(c, COMPUTE_LINALG_LU, 0);
  const int64_t n = linalg_rows(c->graph, c->a);
  const int32_t axis = compute_node_shape(c->graph, packed).rank - 1;
  *pivots = compute_slice(c->graph, packed, axis, 0, n, n + 1);
  *sign = linalg_take_one(c->graph, packed, n * n + n);
  return !c->graph->status;
}

compute_node compute_determinant(compute_graph *graph, compute_node a) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  compute_node pivots, sign;
  if (!linalg_begin(&c, graph, "determinant", a, true) || !find_pivots(&c, &pivots, &sign))
    return BUILD_NONE;
  const compute_dtype dtype = compute_node_dtype(graph, pivots);
  const compute_node zero = compute_scalar(graph, dtype, 0);
  const compute_node product = compute_prod(graph, pivots, COMPUTE_AXES(-1), false);
  compute_node result = compute_mul(graph, sign, product);
  if (linalg_rows(graph, c.a) > 0) { /* other pivots can overflow, and infinity · 0 is NaN */
    const compute_node least =
        compute_min(graph, compute_abs(graph, pivots), COMPUTE_AXES(-1), false);
    result = compute_select(graph, compute_equal(graph, least, zero), zero, result);
  }
  return linalg_finish(&c, product, result, NULL);
}

compute_node compute_log_determinant(compute_graph *graph, compute_node a, compute_node *sign) {
  BUILD_ALL_OR_NOTHING(graph);
  linalg_call c;
  compute_node pivots, parity;
  if (sign) *sign = BUILD_NONE;
  if (!linalg_begin(&c, graph, "log_determinant", a, true) || !find_pivots(&c, &pivots, &parity))
    return BUILD_NONE;
  const compute_node logs = compute_log(graph, compute_abs(graph, pivots));
  const compute_node result = compute_sum(graph, logs, COMPUTE_AXES(-1), false);
  compute_node signs = BUILD_NONE;
  if (sign) {
    const compute_node product =
        compute_prod(graph, compute_sign(graph, pivots), COMPUTE_AXES(-1), false);
    signs = linalg_from_work(&c, compute_mul(graph, parity, product));
  }
  const compute_node logarithm = linalg_finish(&c, result, result, NULL);
  if (sign && !graph->status) *sign = signs;
  return logarithm;
}
