/* SPDX-License-Identifier: MIT */
/* Counting values along an axis. */
#include <inttypes.h>

#include "graph/builders/build.h"

/* The kernel reads i32 and i64. Other integers are cast; u64 beyond i64 becomes negative, which is
 * outside as well. */
static compute_node readable(compute_graph *graph, compute_node x, compute_dtype dtype) {
  if (dtype == COMPUTE_I32 || dtype == COMPUTE_I64) return x;
  const bool wide = dtype == COMPUTE_U32 || dtype == COMPUTE_U64;
  return compute_cast(graph, x, wide ? COMPUTE_I64 : COMPUTE_I32);
}

static bool check_weights(compute_graph *graph, const char *operation, const uint32_t *inputs) {
  const graph_node *x = build_at(graph, inputs[0]), *weights = build_at(graph, inputs[1]);
  char text[2][BUILD_TEXT];
  if (!build_domain(graph, operation, DOMAIN_FLOAT, weights->dtype)) return false;
  if (compute_shape_equal(x->shape, weights->shape)) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x %s and the weights %s must have the same shape",
                      compute_shape_text(x->shape, text[0], sizeof text[0]),
                      compute_shape_text(weights->shape, text[1], sizeof text[1]));
}

compute_node compute_bincount(compute_graph *graph, compute_node x, compute_node weights,
                              int64_t bins, int32_t axis) {
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "bincount";
  const compute_node operands[2] = {x, weights};
  const size_t count = weights.id || weights.graph ? 2 : 1;
  uint32_t inputs[2];
  if (!build_operands(graph, operation, operands, count, inputs)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype;
  graph_node node = {.op = OP_bincount,
                     .dtype = count > 1 ? build_at(graph, inputs[1])->dtype : COMPUTE_I64,
                     .shape = build_at(graph, inputs[0])->shape,
                     .attributes.from_zero = true};
  if (!build_domain(graph, operation, DOMAIN_INTEGER, dtype) ||
      !build_axis(graph, operation, node.shape, axis, &node.attributes.axis) ||
      (count > 1 && !check_weights(graph, operation, inputs))) {
    return BUILD_NONE;
  }
  if (bins < 1)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%" PRId64 " bins; there must be at least 1", bins);
  node.shape.size[node.attributes.axis] = bins;
  const compute_node values = readable(graph, x, dtype);
  if (!build_operands(graph, operation, &values, 1, inputs)) return BUILD_NONE;
  return build_node(graph, operation, &node, inputs, count);
}
