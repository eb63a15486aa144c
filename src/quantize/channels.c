/* SPDX-License-Identifier: MIT */
/* Weights of 8 bits with a scale for each channel. */
#include "core/type/shape.h"
#include "quantize/quantizer.h"

const char *channels_domain(const edit *e) {
  return e->opset < 13 ? "com.microsoft" : "";
}

const written_weight *channels_put(quantizer *q, int32_t value, int32_t axis, int32_t limit) {
  static const char *const parts[WRITTEN_AXES] = {"whole", "axis0", "axis1"};
  edit *e = &q->e;
  if (!q->written)
    q->written = arena_allocate(&e->memory, e->graph->value_count,
                                WRITTEN_AXES * sizeof(const written_weight *));
  written_weight **place =
      q->written ? &q->written[WRITTEN_AXES * (size_t)value + (size_t)(axis + 1)] : NULL;
  if (place && *place) return *place;
  const onnx_tensor *tensor = edit_constant(e, value);
  const int64_t channels = axis < 0 ? 1 : shape_at(tensor->shape, axis);
  const compute_shape shape = axis < 0 ? COMPUTE_SCALAR : COMPUTE_SHAPE(channels);
  written_weight *made = arena_allocate(&e->memory, 1, sizeof *made);
  float *scales = arena_allocate(&e->memory, (size_t)channels, sizeof *scales);
  int8_t *values = arena_allocate(&e->memory, (size_t)tensor->count, 1);
  int8_t *zeros = arena_allocate(&e->memory, (size_t)channels, 1);
  const float *floats = edit_floats(e, tensor);
  if (!place || !made || !scales || !values || !zeros || !floats) {
    e->failed = true;
    return NULL;
  }
  round_channels(floats, tensor->shape, axis, limit, q->o.rounding, values, scales);
  const char *stem = edit_name(e, edit_value_name(e, value), parts[axis + 1]);
  const char *scale_name = edit_name(e, stem, "scale"), *zero_name = edit_name(e, stem, "zero");
  const char *bytes = edit_name(e, stem, "bytes");
  *made = (written_weight){channels, scales, edit_name(e, stem, "value")};
  edit_put_tensor(e, bytes, ONNX_INT8, tensor->shape, values, (uint64_t)tensor->count);
  edit_put_tensor(e, scale_name, ONNX_FLOAT, shape, scales, (uint64_t)channels * sizeof *scales);
  edit_put_tensor(e, zero_name, ONNX_INT8, shape, zeros, (uint64_t)channels);
  const edit_attribute attributes[] = {{axis < 0 ? NULL : "axis", axis}, {0}};
  edit_put_node(e, &e->first, channels_domain(e), "DequantizeLinear",
                (const char *const[]){bytes, scale_name, zero_name, NULL}, made->made, attributes);
  return *place = made;
}
