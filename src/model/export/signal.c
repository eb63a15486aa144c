/* SPDX-License-Identifier: MIT */
/* Fourier transforms as the operator DFT.
 *
 * A runtime need not know onesided inverse transforms: the second half of the spectrum is written
 * out as the conjugates of the first. */
#include "compute/backend/kernel_descriptor.h"
#include "core/type/shape.h"
#include "model/export/export.h"

static export_value join(exporter *to, int32_t axis, const export_value *parts, size_t count) {
  export_set_integer(to, "axis", axis);
  return export_emit(to, "Concat", parts, count);
}

/* All points of the spectrum of real numbers from its first half. */
static export_value whole_spectrum(exporter *to, const export_call *call,
                                   const compute_fourier_attributes *a) {
  const int32_t axis = call->node->attributes.axis;
  const int64_t half = a->length / 2 + 1, mirrored = (a->length - 1) / 2;
  compute_shape shape = export_operand(to, call, 0)->shape;
  export_value parts[] = {call->inputs[0], 0};
  if (a->points < half) {
    shape_set(&shape, axis, half - a->points);
    parts[1] = export_zeros(to, call->dtype, shape);
    parts[0] = join(to, axis, parts, 2);
  }
  if (mirrored == 0) return parts[0];
  static const double conjugate[] = {1, -1};
  static const float conjugate_f32[] = {1, -1};
  const export_value signs =
      export_add_tensor(to, call->dtype, COMPUTE_SHAPE(2),
                        call->dtype == COMPUTE_F64 ? (const void *)conjugate : conjugate_f32, NULL);
  parts[1] = EMIT(to, "Mul", export_cut(to, parts[0], axis, mirrored, 0, -1), signs);
  return join(to, axis, parts, 2);
}

export_value export_fourier(exporter *to, const export_call *call) {
  const graph_node *node = call->node;
  const compute_fourier_attributes *a = node->constant;
  const int32_t axis = node->attributes.axis;
  const int64_t points = a->real ? a->length / 2 + 1 : a->length;
  const int64_t results = shape_at(node->shape, axis);
  export_value x = call->inputs[0];
  if (a->real) x = EMIT(to, "Unsqueeze", x, export_integer(to, -1));
  if (a->halved) x = whole_spectrum(to, call, a);
  const export_value length = export_number(to, COMPUTE_I64, (double)a->length);
  const export_value along = export_number(to, COMPUTE_I64, axis);
  export_set_integer(to, "inverse", a->inverse);
  export_set_integer(to, "onesided", a->real);
  x = EMIT(to, "DFT", x, length, along);
  if (results < points) x = export_cut(to, x, axis, 0, results, 1);
  if (a->halved) x = export_reshape(to, export_cut(to, x, node->shape.rank, 0, 1, 1), node->shape);
  /* Inverse transforms are divided by the length. */
  const double scale = a->inverse ? a->scale * (double)a->length : a->scale;
  const double off = scale < 1 ? 1 - scale : scale - 1;
  return off < 0x1p-50 ? x : EMIT(to, "Mul", x, export_number(to, call->dtype, scale));
}
