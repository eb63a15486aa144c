/* SPDX-License-Identifier: MIT */
/* Scattering: adding into zeros, or into given data. */
#include "core/type/shape.h"
#include "model/export/export.h"

static void set_reduction(exporter *to, const export_call *call) {
  static const char *const names[] = {[COMPUTE_SCATTER_ADD] = "add",
                                      [COMPUTE_SCATTER_SET] = "none",
                                      [COMPUTE_SCATTER_MUL] = "mul",
                                      [COMPUTE_SCATTER_MAX] = "max",
                                      [COMPUTE_SCATTER_MIN] = "min"};
  export_set_text(to, "reduction", names[call->node->attributes.mode]);
}

/* The axes of the result with the scattered axis first. */
static void axis_first(const graph_node *node, int32_t *order) {
  const int32_t axis = node->attributes.axis;
  for (int32_t i = 0; i < node->shape.rank; i++) order[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
}

/* ScatterND indexes the first axis. The updates are permuted so that the index tensor's axes
 * come first, and the result's axes are permuted back. The updates are operand `updates`; `data`
 * is already permuted. */
static export_value scatter(exporter *to, const export_call *call, export_value data,
                            uint32_t updates) {
  const graph_node *node = call->node, *x = export_operand(to, call, updates);
  const int32_t axis = node->attributes.axis, moved = export_operand(to, call, 1)->shape.rank;
  int32_t before[COMPUTE_MAX_RANK], after[COMPUTE_MAX_RANK], order[COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < x->shape.rank; i++)
    before[i] = i < moved ? axis + i : i < moved + axis ? i - moved : i;
  axis_first(node, order);
  for (int32_t i = 0; i < node->shape.rank; i++) after[order[i]] = i;
  const export_value turned = export_permute(to, call->inputs[updates], before, x->shape.rank);
  export_value indices = export_cast(to, call->inputs[1], COMPUTE_I64);
  indices = EMIT(to, "Unsqueeze", indices, export_integer(to, -1));
  set_reduction(to, call);
  const export_value result = EMIT(to, "ScatterND", data, indices, turned);
  return export_permute(to, result, after, node->shape.rank);
}

export_value export_scatter_add(exporter *to, const export_call *call) {
  int32_t order[COMPUTE_MAX_RANK];
  compute_shape turned = {.rank = call->node->shape.rank};
  axis_first(call->node, order);
  for (int32_t i = 0; i < turned.rank; i++)
    shape_set(&turned, i, shape_at(call->node->shape, order[i]));
  return scatter(to, call, export_zeros(to, call->dtype, turned), 0);
}

export_value export_scatter(exporter *to, const export_call *call) {
  int32_t order[COMPUTE_MAX_RANK];
  axis_first(call->node, order);
  return scatter(to, call, export_permute(to, call->inputs[0], order, call->node->shape.rank), 2);
}

static export_value scatter_elements(exporter *to, const export_call *call, export_value data,
                                     uint32_t updates) {
  export_set_integer(to, "axis", call->node->attributes.axis);
  set_reduction(to, call);
  return EMIT(to, "ScatterElements", data, call->inputs[1], call->inputs[updates]);
}

export_value export_scatter_add_elements(exporter *to, const export_call *call) {
  return scatter_elements(to, call, export_zeros(to, call->dtype, call->node->shape), 0);
}

export_value export_scatter_elements(exporter *to, const export_call *call) {
  return scatter_elements(to, call, call->inputs[0], 2);
}
