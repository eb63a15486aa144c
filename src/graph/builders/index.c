/* SPDX-License-Identifier: MIT */
/* Builders of gather and scatter. */
#include "graph/builders/build.h"

#include "core/type/shape.h"

/* The two shapes of an error message, as text. */
typedef struct shape_texts {
  char x[BUILD_TEXT], indices[BUILD_TEXT];
} shape_texts;

/* Resolves the two operands; indices must be an integer tensor. */
static bool indexed_operands(compute_graph *graph, const char *operation, compute_node x,
                             compute_node indices, uint32_t *inputs, shape_texts *texts) {
  if (!build_operands(graph, operation, (const compute_node[]){x, indices}, 2, inputs)) {
    return false;
  }
  const graph_node *source = build_at(graph, inputs[0]), *index = build_at(graph, inputs[1]);
  compute_shape_text(source->shape, texts->x, sizeof texts->x);
  compute_shape_text(index->shape, texts->indices, sizeof texts->indices);
  if (index->dtype != COMPUTE_I32 && index->dtype != COMPUTE_I64) {
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation,
                        "indices are %s; they must be i32 or i64",
                        compute_dtype_name(index->dtype));
  }
  return true;
}

compute_node compute_gather(compute_graph *graph, compute_node x, compute_node indices,
                            int32_t axis) {
  static const char operation[] = "gather";
  uint32_t inputs[2];
  shape_texts texts;
  if (!indexed_operands(graph, operation, x, indices, inputs, &texts)) return BUILD_NONE;
  const compute_shape from = build_at(graph, inputs[0])->shape;
  const compute_shape index = build_at(graph, inputs[1])->shape;
  graph_node node = {.op = OP_gather, .dtype = build_at(graph, inputs[0])->dtype};
  if (!build_axis(graph, operation, from, axis, &axis)) return BUILD_NONE;
  if (from.rank - 1 + index.rank > COMPUTE_MAX_RANK) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%s at indices %s would have more than %d axes", texts.x, texts.indices,
                      COMPUTE_MAX_RANK);
  }
  node.attributes.axis = axis;
  compute_shape *shape = &node.shape;
  for (int32_t i = 0; i < axis; i++) shape->size[shape->rank++] = from.size[i];
  for (int32_t i = 0; i < index.rank; i++) shape->size[shape->rank++] = index.size[i];
  for (int32_t i = axis + 1; i < from.rank; i++) shape->size[shape->rank++] = from.size[i];
  return build_node(graph, operation, &node, inputs, 2);
}

compute_node build_gather_elements(compute_graph *graph, compute_node x, compute_node indices,
                                   int32_t axis, bool from_zero) {
  static const char operation[] = "gather_elements";
  uint32_t inputs[2];
  shape_texts texts;
  if (!indexed_operands(graph, operation, x, indices, inputs, &texts)) return BUILD_NONE;
  const compute_shape from = build_at(graph, inputs[0])->shape;
  const compute_shape index = build_at(graph, inputs[1])->shape;
  if (!build_axis(graph, operation, from, axis, &axis)) return BUILD_NONE;
  bool fits = from.rank == index.rank;
  for (int32_t i = 0; fits && i < from.rank; i++) {
    fits = i == axis || index.size[i] <= from.size[i];
  }
  if (!fits) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "indices %s do not match %s outside axis %d", texts.indices, texts.x, axis);
  }
  graph_node node = {.op = OP_gather_elements,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = index,
                     .attributes = {.axis = axis, .from_zero = from_zero}};
  return build_node(graph, operation, &node, inputs, 2);
}

compute_node compute_gather_elements(compute_graph *graph, compute_node x, compute_node indices,
                                     int32_t axis) {
  return build_gather_elements(graph, x, indices, axis, false);
}

/* The axis counts in the result, where one axis replaces the axes of the indices in x. */
compute_node compute_scatter_add(compute_graph *graph, compute_node x, compute_node indices,
                                 int32_t axis, int64_t size) {
  static const char operation[] = "scatter_add";
  uint32_t inputs[2];
  shape_texts texts;
  if (!indexed_operands(graph, operation, x, indices, inputs, &texts)) return BUILD_NONE;
  const compute_shape from = build_at(graph, inputs[0])->shape;
  const compute_shape index = build_at(graph, inputs[1])->shape;
  graph_node node = {.op = OP_scatter_add,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape.rank = from.rank - index.rank + 1};
  if (!build_domain(graph, operation, DOMAIN_NUMBER, node.dtype)) return BUILD_NONE;
  const int32_t from_zero = shape_axis(node.shape.rank, axis);
  bool fits = from.rank >= index.rank && node.shape.rank <= COMPUTE_MAX_RANK && from_zero >= 0;
  for (int32_t i = 0; fits && i < index.rank; i++) {
    fits = from.size[from_zero + i] == index.size[i];
  }
  if (!fits) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%s does not have the axes of the indices %s at axis %d of the result",
                      texts.x, texts.indices, axis);
  }
  node.attributes.axis = from_zero;
  for (int32_t i = 0; i < node.shape.rank; i++) {
    node.shape.size[i] = i == from_zero  ? size
                         : i < from_zero ? from.size[i]
                                         : from.size[i + index.rank - 1];
  }
  return build_node(graph, operation, &node, inputs, 2);
}

compute_node build_scatter_add_elements(compute_graph *graph, compute_node x, compute_node indices,
                                        int32_t axis, compute_shape shape, bool from_zero) {
  static const char operation[] = "scatter_add_elements";
  uint32_t inputs[2];
  shape_texts texts;
  if (!indexed_operands(graph, operation, x, indices, inputs, &texts)) return BUILD_NONE;
  const compute_shape from = build_at(graph, inputs[0])->shape;
  const compute_shape index = build_at(graph, inputs[1])->shape;
  graph_node node = {.op = OP_scatter_add_elements,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = shape,
                     .attributes.from_zero = from_zero};
  if (!build_domain(graph, operation, DOMAIN_NUMBER, node.dtype) ||
      !build_shape(graph, operation, shape) ||
      !build_axis(graph, operation, shape, axis, &node.attributes.axis)) {
    return BUILD_NONE;
  }
  if (!compute_shape_equal(from, index)) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "%s and the indices %s must have the same shape", texts.x, texts.indices);
  }
  bool fits = from.rank == shape.rank;
  for (int32_t i = 0; fits && i < shape.rank; i++) {
    fits = i == node.attributes.axis || from.size[i] <= shape.size[i];
  }
  if (!fits) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation, "%s does not match %s outside axis %d",
                      texts.x, compute_shape_text(shape, text, sizeof text), node.attributes.axis);
  }
  return build_node(graph, operation, &node, inputs, 2);
}

compute_node compute_scatter_add_elements(compute_graph *graph, compute_node x,
                                          compute_node indices, int32_t axis, compute_shape shape) {
  return build_scatter_add_elements(graph, x, indices, axis, shape, false);
}

/* ---- Into given data ------------------------------------------------------------------------- */

/* Resolves the operands as data, indices, updates. Their dtypes must be valid for the mode. */
static bool scatter_operands(compute_graph *graph, const char *operation,
                             const compute_node given[3], compute_scatter_mode mode,
                             uint32_t *inputs, shape_texts *texts) {
  static const graph_domain domains[] = {
      [COMPUTE_SCATTER_ADD] = DOMAIN_NUMBER,  [COMPUTE_SCATTER_SET] = DOMAIN_ANY,
      [COMPUTE_SCATTER_MUL] = DOMAIN_NUMBER,  [COMPUTE_SCATTER_MAX] = DOMAIN_ORDERED,
      [COMPUTE_SCATTER_MIN] = DOMAIN_ORDERED,
  };
  if (!indexed_operands(graph, operation, given[2], given[1], inputs, texts) ||
      !build_operands(graph, operation, given, 3, inputs))
    return false;
  const compute_dtype dtype = build_at(graph, inputs[0])->dtype;
  const compute_dtype updates = build_at(graph, inputs[2])->dtype;
  if ((uint32_t)mode >= sizeof domains / sizeof *domains)
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid mode %d",
                        (int)mode);
  if (dtype != updates)
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation, "data are %s and updates %s",
                        compute_dtype_name(dtype), compute_dtype_name(updates));
  return build_domain(graph, operation, domains[mode], dtype);
}

compute_node compute_scatter(compute_graph *graph, compute_node data, compute_node updates,
                             compute_node indices, int32_t axis, compute_scatter_mode mode) {
  static const char operation[] = "scatter";
  uint32_t inputs[3];
  shape_texts texts;
  if (!scatter_operands(graph, operation, (const compute_node[]){data, indices, updates}, mode,
                        inputs, &texts))
    return BUILD_NONE;
  const compute_shape whole = build_at(graph, inputs[0])->shape;
  const compute_shape index = build_at(graph, inputs[1])->shape;
  const compute_shape from = build_at(graph, inputs[2])->shape;
  if (!build_axis(graph, operation, whole, axis, &axis)) return BUILD_NONE;
  bool fits = from.rank == whole.rank - 1 + index.rank;
  for (int32_t i = 0; fits && i < from.rank; i++)
    fits = from.size[i] == (i < axis                ? whole.size[i]
                            : i < axis + index.rank ? index.size[i - axis]
                                                    : whole.size[i - index.rank + 1]);
  if (!fits) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "updates %s do not have the axes of %s with those of the indices %s at axis "
                      "%d",
                      texts.x, compute_shape_text(whole, text, sizeof text), texts.indices, axis);
  }
  graph_node node = {.op = OP_scatter,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = whole,
                     .attributes = {.axis = axis, .mode = (uint8_t)mode}};
  return build_node(graph, operation, &node, inputs, 3);
}

compute_node compute_scatter_elements(compute_graph *graph, compute_node data, compute_node updates,
                                      compute_node indices, int32_t axis,
                                      compute_scatter_mode mode) {
  static const char operation[] = "scatter_elements";
  uint32_t inputs[3];
  shape_texts texts;
  if (!scatter_operands(graph, operation, (const compute_node[]){data, indices, updates}, mode,
                        inputs, &texts))
    return BUILD_NONE;
  const compute_shape whole = build_at(graph, inputs[0])->shape;
  const compute_shape from = build_at(graph, inputs[2])->shape;
  if (!build_axis(graph, operation, whole, axis, &axis)) return BUILD_NONE;
  bool fits =
      from.rank == whole.rank && compute_shape_equal(from, build_at(graph, inputs[1])->shape);
  for (int32_t i = 0; fits && i < from.rank; i++) fits = i == axis || from.size[i] <= whole.size[i];
  if (!fits) {
    char text[BUILD_TEXT];
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "updates %s and indices %s do not match %s outside axis %d", texts.x,
                      texts.indices, compute_shape_text(whole, text, sizeof text), axis);
  }
  graph_node node = {.op = OP_scatter_elements,
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = whole,
                     .attributes = {.axis = axis, .mode = (uint8_t)mode}};
  return build_node(graph, operation, &node, inputs, 3);
}
