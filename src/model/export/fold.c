/* SPDX-License-Identifier: MIT */
/* Reductions, and operations along an axis. */
#include "core/type/shape.h"
#include "model/export/export.h"

export_value export_reduction(exporter *to, const export_call *call) {
  const graph_attributes *a = &call->node->attributes;
  int64_t axes[COMPUTE_MAX_RANK];
  size_t count = 0;
  for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++)
    if (a->axes_mask >> i & 1) axes[count++] = i;
  if (count == 0) return EMIT(to, "Identity", call->inputs[0]);
  export_set_integer(to, "keepdims", a->keep_axes);
  return EMIT(to, call->form->text, call->inputs[0], export_list(to, axes, count));
}

export_value export_extremum(exporter *to, const export_call *call) {
  export_set_integer(to, "axis", call->node->attributes.axis);
  export_set_integer(to, "keepdims", call->node->attributes.keep_axes);
  return EMIT(to, call->form->text, call->inputs[0]);
}

static export_value mean(exporter *to, export_value x) {
  return EMIT(to, "ReduceMean", x, export_integer(to, -1));
}

/* Needed because LayerNormalization computes in f32. */
static export_value normalize_exactly(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0];
  const export_value epsilon = export_number(to, call->dtype, call->node->attributes.scalar);
  const export_value centred = EMIT(to, "Sub", x, mean(to, x));
  const export_value variance = mean(to, EMIT(to, "Mul", centred, centred));
  const export_value deviation = EMIT(to, "Sqrt", EMIT(to, "Add", variance, epsilon));
  return EMIT(to, "Div", centred, deviation);
}

export_value export_normalize(exporter *to, const export_call *call) {
  if (call->dtype == COMPUTE_F64) return normalize_exactly(to, call);
  const compute_shape shape = call->node->shape;
  const export_value one = export_number(to, call->dtype, 1);
  const export_value gain = export_expand(to, one, COMPUTE_SHAPE(shape_at(shape, shape.rank - 1)));
  export_set_integer(to, "axis", -1);
  export_set_number(to, "epsilon", call->node->attributes.scalar);
  return EMIT(to, "LayerNormalization", call->inputs[0], gain);
}

export_value export_cumulative_sum(exporter *to, const export_call *call) {
  const graph_attributes *a = &call->node->attributes;
  const export_value axis = export_number(to, COMPUTE_I64, a->axis);
  export_set_integer(to, "exclusive", a->exclusive);
  export_set_integer(to, "reverse", a->reverse);
  return EMIT(to, "CumSum", call->inputs[0], axis);
}

/* The first k elements in order, and their positions. */
static export_value first(exporter *to, const export_call *call, bool largest,
                          export_value *places) {
  const int32_t axis = call->node->attributes.axis;
  export_set_integer(to, "axis", axis);
  export_set_integer(to, "largest", largest);
  const export_value values =
      EMIT(to, "TopK", call->inputs[0], export_integer(to, shape_at(call->node->shape, axis)));
  *places = export_next_output(to);
  return values;
}

export_value export_top_k(exporter *to, const export_call *call) {
  export_value places;
  first(to, call, !call->node->attributes.smallest, &places);
  return places;
}

export_value export_sort(exporter *to, const export_call *call) {
  export_value places;
  const export_value values = first(to, call, call->node->attributes.descending, &places);
  return call->node->op == OP_sort ? values : places;
}
