/* SPDX-License-Identifier: MIT */
/* Builders that move elements without changing them: views, concat and embed. */
#include "graph/builders/build.h"

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"

/* Resolves the one operand of a view. */
static bool single(compute_graph *graph, const char *operation, compute_node x, uint32_t *input) {
  return build_operands(graph, operation, &x, 1, input);
}

compute_node compute_transpose(compute_graph *graph, compute_node x, compute_axes order) {
  static const char operation[] = "transpose";
  uint32_t input;
  if (!single(graph, operation, x, &input)) return BUILD_NONE;
  const compute_shape from = build_at(graph, input)->shape;
  graph_node node = {.op = OP_transpose, .dtype = build_at(graph, input)->dtype, .shape = from};
  const bool reversed = order.count == 0, kept = order.count == COMPUTE_NO_AXES.count;
  if (!reversed && !kept && order.count != from.rank) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "the order names %d axes, but %s has %d", order.count,
                      compute_shape_text(from, text, sizeof text), from.rank);
  }
  uint32_t seen = 0;
  for (int32_t i = 0; i < from.rank; i++) {
    int32_t axis = reversed ? from.rank - 1 - i : i;
    if (!reversed && !kept && !build_axis(graph, operation, from, order.axis[i], &axis)) {
      return BUILD_NONE;
    }
    if (seen & 1u << axis) {
      return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "axis %d is named twice", axis);
    }
    seen |= 1u << axis;
    node.attributes.order[i] = axis;
    shape_set(&node.shape, i, shape_at(from, axis));
  }
  return build_node(graph, operation, &node, &input, 1);
}

/* Replaces a single −1 by the size that makes the element counts equal. Other shapes are
 * unchanged. */
static bool infer_size(compute_graph *graph, const char *operation, compute_shape from,
                       compute_shape *shape) {
  if (shape->rank < 0 || shape->rank > COMPUTE_MAX_RANK) return true;
  int32_t unknown = -1;
  for (int32_t i = 0; i < shape->rank; i++) {
    if (shape_at(*shape, i) != -1) continue;
    if (unknown >= 0) {
      return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation, "only one size may be -1");
    }
    unknown = i;
  }
  if (unknown < 0) return true;
  compute_shape known = *shape;
  shape_set(&known, unknown, 1);
  if (!build_shape(graph, operation, known)) return false;
  const int64_t rest = shape_count(known), count = shape_count(from);
  if (rest == 0 || count % rest != 0) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_refuse(
        graph, COMPUTE_ERROR_SHAPE, operation, "no size for -1 gives %s as many elements as %s",
        compute_shape_text(*shape, b, sizeof b), compute_shape_text(from, a, sizeof a));
  }
  shape_set(shape, unknown, count / rest);
  return true;
}

compute_node compute_reshape(compute_graph *graph, compute_node x, compute_shape shape) {
  static const char operation[] = "reshape";
  uint32_t input;
  if (!single(graph, operation, x, &input)) return BUILD_NONE;
  const compute_shape from = build_at(graph, input)->shape;
  if (!infer_size(graph, operation, from, &shape) || !build_shape(graph, operation, shape)) {
    return BUILD_NONE;
  }
  if (shape_count(shape) != shape_count(from)) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "%s has %lld elements, %s has %lld",
                      compute_shape_text(from, a, sizeof a), (long long)shape_count(from),
                      compute_shape_text(shape, b, sizeof b), (long long)shape_count(shape));
  }
  graph_node node = {.op = OP_reshape, .dtype = build_at(graph, input)->dtype, .shape = shape};
  return build_node(graph, operation, &node, &input, 1);
}

compute_node compute_slice(compute_graph *graph, compute_node x, int32_t axis, int64_t start,
                           int64_t count, int64_t step) {
  static const char operation[] = "slice";
  uint32_t input;
  if (!single(graph, operation, x, &input)) return BUILD_NONE;
  graph_node node = {.op = OP_slice,
                     .dtype = build_at(graph, input)->dtype,
                     .shape = build_at(graph, input)->shape,
                     .attributes = {.step = step}};
  if (!build_axis(graph, operation, node.shape, axis, &axis) ||
      !build_range(graph, operation, shape_at(node.shape, axis), count, step, &start)) {
    return BUILD_NONE;
  }
  node.attributes.axis = axis;
  node.attributes.start = start;
  if (count < 2) node.attributes.step = 1; /* a single element: the step has no effect */
  shape_set(&node.shape, axis, count);
  return build_node(graph, operation, &node, &input, 1);
}

compute_node compute_embed(compute_graph *graph, compute_node x, int32_t axis, int64_t size,
                           int64_t start, int64_t step) {
  static const char operation[] = "embed";
  uint32_t input;
  if (!single(graph, operation, x, &input)) return BUILD_NONE;
  graph_node node = {.op = OP_embed,
                     .dtype = build_at(graph, input)->dtype,
                     .shape = build_at(graph, input)->shape,
                     .attributes = {.step = step}};
  if (!build_axis(graph, operation, node.shape, axis, &axis)) return BUILD_NONE;
  if (size < 0) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "size %lld is negative",
                      (long long)size);
  }
  if (!build_range(graph, operation, size, shape_at(node.shape, axis), step, &start))
    return BUILD_NONE;
  node.attributes.axis = axis;
  node.attributes.start = start;
  if (shape_at(node.shape, axis) < 2) node.attributes.step = 1; /* as in compute_slice */
  shape_set(&node.shape, axis, size);
  return build_node(graph, operation, &node, &input, 1);
}

compute_node compute_broadcast(compute_graph *graph, compute_node x, compute_shape shape) {
  static const char operation[] = "broadcast";
  uint32_t input;
  if (!single(graph, operation, x, &input) || !build_shape(graph, operation, shape)) {
    return BUILD_NONE;
  }
  const compute_shape from = build_at(graph, input)->shape;
  compute_shape both;
  if (!shape_broadcast(from, shape, &both) || !compute_shape_equal(both, shape)) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "%s does not broadcast to %s",
                      compute_shape_text(from, a, sizeof a),
                      compute_shape_text(shape, b, sizeof b));
  }
  graph_node node = {.op = OP_broadcast, .dtype = build_at(graph, input)->dtype, .shape = shape};
  return build_node(graph, operation, &node, &input, 1);
}

/* Adds one more part to the shape of a concat. */
static bool join_shape(compute_graph *graph, int32_t axis, const graph_node *part, size_t number,
                       compute_shape *shape) {
  bool fits = part->shape.rank == shape->rank;
  for (int32_t i = 0; fits && i < shape->rank; i++) {
    fits = i == axis || shape_at(part->shape, i) == shape_at(*shape, i);
  }
  if (!fits) {
    char a[BUILD_TEXT], b[BUILD_TEXT];
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, "concat",
                        "part %zu has shape %s, which differs from %s outside axis %d", number,
                        compute_shape_text(part->shape, a, sizeof a),
                        compute_shape_text(*shape, b, sizeof b), axis);
  }
  int64_t sum;
  if (!checked_add(shape_at(*shape, axis), shape_at(part->shape, axis), &sum)) {
    return graph_refuse(graph, COMPUTE_ERROR_OVERFLOW, "concat",
                        "the sum of the sizes of axis %d exceeds 63 bits", axis);
  }
  shape_set(shape, axis, sum);
  return true;
}

compute_node compute_concat(compute_graph *graph, const compute_node *parts, size_t count,
                            int32_t axis) {
  static const char operation[] = "concat";
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!parts) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "parts is NULL");
  if (count == 0) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "needs at least one part");
  }
  compute_node result = BUILD_NONE;
  uint32_t *inputs = base_allocate(count, sizeof *inputs);
  if (!inputs) {
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %zu parts", count);
  }
  if (!build_operands(graph, operation, parts, count, inputs)) goto done;
  graph_node node = {.op = OP_concat,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = build_at(graph, inputs[0])->shape};
  if (!build_axis(graph, operation, node.shape, axis, &axis)) goto done;
  for (size_t i = 1; i < count; i++) {
    const graph_node *part = build_at(graph, inputs[i]);
    if (!build_same_dtype(graph, operation, node.dtype, part->dtype) ||
        !join_shape(graph, axis, part, i, &node.shape)) {
      goto done;
    }
  }
  node.attributes.axis = axis;
  result = build_node(graph, operation, &node, inputs, count);
done:
  base_release(inputs);
  return result;
}

compute_node build_same(compute_graph *graph, compute_node x) {
  return compute_reshape(graph, x, compute_node_shape(graph, x));
}
