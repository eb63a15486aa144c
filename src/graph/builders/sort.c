/* SPDX-License-Identifier: MIT */
/* Sorting along an axis. */
#include "graph/builders/build.h"

static compute_node build_order(compute_graph *graph, graph_op op, compute_node x, int32_t axis,
                                bool descending) {
  const char *operation = graph_op_describe(op)->name;
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  graph_node node = {.op = op,
                     .dtype = op == OP_sort ? dtype : COMPUTE_I64,
                     .shape = build_at(graph, input)->shape,
                     .attributes.descending = descending};
  if (!build_domain(graph, operation, DOMAIN_ORDERED, dtype) ||
      !build_axis(graph, operation, node.shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  return build_node(graph, operation, &node, &input, 1);
}

compute_node compute_sort(compute_graph *graph, compute_node x, int32_t axis, bool descending) {
  return build_order(graph, OP_sort, x, axis, descending);
}

compute_node compute_argsort(compute_graph *graph, compute_node x, int32_t axis, bool descending) {
  return build_order(graph, OP_argsort, x, axis, descending);
}
