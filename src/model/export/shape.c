/* SPDX-License-Identifier: MIT */
/* Parameters, constants, and operations that move elements. */
#include "core/type/shape.h"
#include "model/export/export.h"

export_value export_parameter(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  return export_add_tensor(to, node->dtype, node->shape, NULL, node->tensor);
}

export_value export_constant(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  const int64_t count = shape_count(node->shape);
  if (node->uniform && count != 1) return export_fill(to, node->dtype, node->shape, node->constant);
  return export_add_tensor(to, node->dtype, node->shape, node->constant, NULL);
}

export_value export_index(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  compute_shape line = node->shape;
  const int32_t axis = node->attributes.axis;
  for (int32_t i = 0; i < line.rank; i++)
    if (i != axis) shape_set(&line, i, 1);
  const export_value counted = export_cast(to, export_count(to, shape_at(line, axis)), node->dtype);
  return export_expand(to, export_reshape(to, counted, line), node->shape);
}

export_value export_transpose(exporter *to, const export_call *call) {
  return export_permute(to, call->inputs[0], call->node->attributes.order, call->node->shape.rank);
}

export_value export_shaped(exporter *to, const export_call *call) {
  return export_reshape(to, call->inputs[0], call->node->shape);
}

export_value export_cut(exporter *to, export_value x, int32_t axis, int64_t start, int64_t end,
                        int64_t step) {
  return EMIT(to, "Slice", x, export_integer(to, start), export_integer(to, end),
              export_integer(to, axis), export_integer(to, step));
}

export_value export_slice(exporter *to, const export_call *call) {
  const graph_attributes *a = &call->node->attributes;
  const int64_t count = shape_at(call->node->shape, a->axis);
  const int64_t end = count ? a->start + (count - 1) * a->step + 1 : a->start;
  return export_cut(to, call->inputs[0], a->axis, a->start, end, a->step);
}

export_value export_broadcast(exporter *to, const export_call *call) {
  return export_expand(to, call->inputs[0], call->node->shape);
}

export_value export_along(exporter *to, const export_call *call) {
  export_set_integer(to, "axis", call->node->attributes.axis);
  return export_plain(to, call);
}

/* Adds `before` and `after` zeros along one of `rank` axes. */
static export_value padded(exporter *to, export_value x, compute_dtype dtype, int32_t rank,
                           int32_t axis, int64_t before, int64_t after) {
  int64_t pads[2 * COMPUTE_MAX_RANK] = {0};
  pads[axis] = before;
  pads[rank + axis] = after;
  return EMIT(to, "Pad", x, export_list(to, pads, 2 * (size_t)rank), export_number(to, dtype, 0));
}

/* A step inserts step − 1 zeros after each element except the last. Uses the shape [outer, n, 1,
 * inner] for all ranks. */
export_value export_embed(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  const graph_attributes *a = &node->attributes;
  const compute_shape from = export_operand(to, call, 0)->shape;
  const int64_t size = shape_at(node->shape, a->axis), count = shape_at(from, a->axis);
  if (a->step == 1 || count == 0)
    return padded(to, call->inputs[0], call->dtype, from.rank, a->axis, a->start,
                  size - a->start - count);
  int64_t outer = 1, inner = 1;
  for (int32_t i = 0; i < a->axis; i++) outer *= shape_at(from, i);
  for (int32_t i = a->axis + 1; i < from.rank; i++) inner *= shape_at(from, i);
  const int64_t reach = (count - 1) * a->step + 1;
  export_value x = export_reshape(to, call->inputs[0], COMPUTE_SHAPE(outer, count, 1, inner));
  x = padded(to, x, call->dtype, 4, 2, 0, a->step - 1);
  x = export_reshape(to, x, COMPUTE_SHAPE(outer, count * a->step, inner));
  x = padded(to, export_cut(to, x, 1, 0, reach, 1), call->dtype, 3, 1, a->start,
             size - a->start - reach);
  return export_reshape(to, x, node->shape);
}
