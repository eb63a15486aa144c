/* SPDX-License-Identifier: MIT */
/* Builders of matrix products, reductions and row operations. */
#include "graph/builders/build.h"

#include "core/type/dtype.h"
#include "core/type/shape.h"

/* ---- Matrix product -------------------------------------------------------------------------- */

/* Checks two operands with at least two axes each, and computes the shape of their product. The
 * messages show the shapes that the caller gave. */
static bool matmul_shape(compute_graph *graph, const char *operation, compute_shape a,
                         compute_shape b, const char *a_text, const char *b_text,
                         compute_shape *result) {
  const int64_t m = a.size[a.rank - 2], k = a.size[a.rank - 1], n = b.size[b.rank - 1];
  if (b.size[b.rank - 2] != k) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "inner sizes differ: %s x %s",
                        a_text, b_text);
  }
  a.rank -= 2;
  b.rank -= 2;
  if (!shape_broadcast(a, b, result)) {
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "batch axes do not broadcast: %s x %s", a_text, b_text);
  }
  result->size[result->rank++] = m;
  result->size[result->rank++] = n;
  return true;
}

compute_node build_product(compute_graph *graph, const char *operation, graph_op op,
                           compute_dtype dtype, compute_node a, compute_node b) {
  uint32_t inputs[2] = {a.id - 1, b.id - 1};
  compute_shape left = build_at(graph, inputs[0])->shape, right = build_at(graph, inputs[1])->shape;
  const bool row = left.rank == 1, column = right.rank == 1;
  char a_text[BUILD_TEXT], b_text[BUILD_TEXT];
  compute_shape_text(left, a_text, sizeof a_text);
  compute_shape_text(right, b_text, sizeof b_text);
  if (left.rank == 0 || right.rank == 0) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "operands need at least one axis: %s x %s", a_text, b_text);
  }
  if (row) left = COMPUTE_SHAPE(1, left.size[0]);
  if (column) right = COMPUTE_SHAPE(right.size[0], 1);
  graph_node node = {.op = op, .dtype = dtype};
  if (!matmul_shape(graph, operation, left, right, a_text, b_text, &node.shape)) return BUILD_NONE;
  if (row) inputs[0] = compute_reshape(graph, a, left).id - 1;
  if (column) inputs[1] = compute_reshape(graph, b, right).id - 1;
  if (graph->status) return BUILD_NONE;
  compute_node product = build_node(graph, operation, &node, inputs, 2);
  if (!row && !column) return product;

  compute_shape dropped = node.shape;
  const int64_t n = dropped.size[--dropped.rank], m = dropped.size[--dropped.rank];
  if (!row) dropped.size[dropped.rank++] = m;
  if (!column) dropped.size[dropped.rank++] = n;
  return compute_reshape(graph, product, dropped);
}

compute_node compute_matmul(compute_graph *graph, compute_node a, compute_node b) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "matmul";
  uint32_t inputs[2];
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, 2, inputs)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype;
  if (!build_same_dtype(graph, operation, dtype, build_at(graph, inputs[1])->dtype) ||
      !build_domain(graph, operation, DOMAIN_NUMBER, dtype)) {
    return BUILD_NONE;
  }
  return build_product(graph, operation, OP_matmul, dtype, a, b);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

/* The remaining shape. *of_nothing is true if any of its elements would have no operands. */
static compute_shape reduced_shape(compute_shape from, uint32_t mask, bool keep, bool *of_nothing) {
  compute_shape result = {0};
  bool empty_reduced = false, empty_kept = false;
  for (int32_t i = 0; i < from.rank; i++) {
    const bool reduced = mask >> i & 1u, empty = from.size[i] == 0;
    empty_reduced |= reduced && empty;
    empty_kept |= !reduced && empty;
    if (reduced && keep) result.size[result.rank++] = 1;
    if (!reduced) result.size[result.rank++] = from.size[i];
  }
  *of_nothing = empty_reduced && !empty_kept;
  return result;
}

static compute_node finish_reduction(compute_graph *graph, graph_node *node, uint32_t input) {
  const graph_op_info *info = graph_op_describe(node->op);
  const compute_shape from = build_at(graph, input)->shape;
  const bool has_identity = node->op == OP_sum || node->op == OP_mean || node->op == OP_prod;
  bool of_nothing;
  node->shape =
      reduced_shape(from, node->attributes.axes_mask, node->attributes.keep_axes, &of_nothing);
  if (of_nothing && !has_identity) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, info->name,
                      "%s has no elements along the reduced axes",
                      compute_shape_text(from, text, sizeof text));
  }
  return build_node(graph, info->name, node, &input, 1);
}

static compute_node reduce(compute_graph *graph, graph_op op, compute_node x, compute_axes axes,
                           bool keep_axes) {
  const graph_op_info *info = graph_op_describe(op);
  uint32_t input;
  if (!build_operands(graph, info->name, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {
      .op = op, .dtype = build_at(graph, input)->dtype, .attributes.keep_axes = keep_axes};
  if (!build_domain(graph, info->name, info->domain, node.dtype) ||
      !build_axes(graph, info->name, build_at(graph, input)->shape, axes,
                  &node.attributes.axes_mask)) {
    return BUILD_NONE;
  }
  if (axes.count == COMPUTE_NO_AXES.count) return build_same(graph, x);
  return finish_reduction(graph, &node, input);
}

static compute_node find_extremum(compute_graph *graph, graph_op op, compute_node x, int32_t axis,
                                  bool keep_axis) {
  const graph_op_info *info = graph_op_describe(op);
  uint32_t input;
  if (!build_operands(graph, info->name, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {.op = op, .dtype = COMPUTE_I64, .attributes.keep_axes = keep_axis};
  if (!build_domain(graph, info->name, info->domain, build_at(graph, input)->dtype) ||
      !build_axis(graph, info->name, build_at(graph, input)->shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  node.attributes.axes_mask = 1u << node.attributes.axis;
  return finish_reduction(graph, &node, input);
}

compute_node compute_sum(compute_graph *graph, compute_node x, compute_axes axes, bool keep_axes) {
  return reduce(graph, OP_sum, x, axes, keep_axes);
}

compute_node compute_mean(compute_graph *graph, compute_node x, compute_axes axes, bool keep_axes) {
  return reduce(graph, OP_mean, x, axes, keep_axes);
}

compute_node compute_prod(compute_graph *graph, compute_node x, compute_axes axes, bool keep_axes) {
  return reduce(graph, OP_prod, x, axes, keep_axes);
}

compute_node compute_max(compute_graph *graph, compute_node x, compute_axes axes, bool keep_axes) {
  return reduce(graph, OP_max, x, axes, keep_axes);
}

compute_node compute_min(compute_graph *graph, compute_node x, compute_axes axes, bool keep_axes) {
  return reduce(graph, OP_min, x, axes, keep_axes);
}

compute_node compute_argmax(compute_graph *graph, compute_node x, int32_t axis, bool keep_axis) {
  return find_extremum(graph, OP_argmax, x, axis, keep_axis);
}

compute_node compute_argmin(compute_graph *graph, compute_node x, int32_t axis, bool keep_axis) {
  return find_extremum(graph, OP_argmin, x, axis, keep_axis);
}

/* ---- Row operations -------------------------------------------------------------------------- */

static compute_node row_operation(compute_graph *graph, graph_op op, compute_node x, int32_t axis,
                                  double scalar) {
  const graph_op_info *info = graph_op_describe(op);
  uint32_t input;
  if (!build_operands(graph, info->name, &x, 1, &input)) return BUILD_NONE;
  graph_node node = {.op = op,
                     .dtype = build_at(graph, input)->dtype,
                     .shape = build_at(graph, input)->shape,
                     .attributes.scalar = scalar};
  if (!build_domain(graph, info->name, info->domain, node.dtype) ||
      !build_axis(graph, info->name, node.shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  return build_node(graph, info->name, &node, &input, 1);
}

compute_node compute_softmax(compute_graph *graph, compute_node x, int32_t axis) {
  return row_operation(graph, OP_softmax, x, axis, 0);
}

compute_node compute_log_softmax(compute_graph *graph, compute_node x, int32_t axis) {
  return row_operation(graph, OP_log_softmax, x, axis, 0);
}

compute_node compute_normalize(compute_graph *graph, compute_node x, double epsilon) {
  static const char operation[] = "normalize";
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype) ||
      !build_epsilon(graph, operation, dtype_compute_type(dtype), epsilon)) {
    return BUILD_NONE;
  }
  return row_operation(graph, OP_normalize, x, -1, epsilon);
}
