/* SPDX-License-Identifier: MIT */
/* Scattering: zeros, to which is added at indices. */
#include "model/export/export.h"

/* ScatterND counts indices along the first axis, which those of the index tensor are brought to,
 * and the result's axis after it. */
export_value export_scatter(exporter *to, const export_call *call) {
  const graph_node *node = call->node, *x = export_operand(to, call, 0);
  compute_shape index = export_operand(to, call, 1)->shape;
  const int32_t axis = node->attributes.axis, moved = index.rank;
  int32_t before[COMPUTE_MAX_RANK], after[COMPUTE_MAX_RANK];
  compute_shape turned = {.rank = node->shape.rank};
  for (int32_t i = 0; i < x->shape.rank; i++)
    before[i] = i < moved ? axis + i : i < moved + axis ? i - moved : i;
  for (int32_t i = 0; i < turned.rank; i++) {
    const int32_t from = i == 0 ? axis : i <= axis ? i - 1 : i;
    turned.size[i] = node->shape.size[from];
    after[from] = i;
  }
  const export_value updates = export_permute(to, call->inputs[0], before, x->shape.rank);
  export_value indices = export_cast(to, call->inputs[1], COMPUTE_I64);
  indices = EMIT(to, "Unsqueeze", indices, export_integer(to, -1));
  const export_value zeros = export_zeros(to, call->dtype, turned);
  export_set_text(to, "reduction", "add");
  const export_value sums = EMIT(to, "ScatterND", zeros, indices, updates);
  return export_permute(to, sums, after, turned.rank);
}

export_value export_scatter_elements(exporter *to, const export_call *call) {
  const export_value zeros = export_zeros(to, call->dtype, call->node->shape);
  export_set_integer(to, "axis", call->node->attributes.axis);
  export_set_text(to, "reduction", "add");
  return EMIT(to, "ScatterElements", zeros, call->inputs[1], call->inputs[0]);
}
