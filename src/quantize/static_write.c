/* SPDX-License-Identifier: MIT */
/* The nodes and tensors of a statically quantized model. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "quantize/quantizer.h"
#include "quantize/static.h"

/* ---- Activations ----------------------------------------------------------------------------- */

float static_scale(number_range range, int32_t *offset) {
  const double low = fmin(range.low, 0), high = fmax(range.high, 0);
  float scale = (float)((high - low) / STATIC_STEPS);
  if (!(scale >= FLT_MIN)) scale = 1; /* all zeros, or too small to divide by */
  *offset = (int32_t)fmin(fmax(nearbyint(-low / (double)scale), 0), STATIC_STEPS);
  return scale;
}

static void put_value(static_plan *p, int32_t value) {
  edit *e = &p->q->e;
  static_value *own = &p->values[value];
  const bool is_signed = p->q->o.activations == COMPUTE_I8;
  int32_t offset;
  const float scale = static_scale(own->range, &offset);
  const uint8_t zero = (uint8_t)(is_signed ? offset - 128 : offset);
  const char *name = edit_value_name(e, value);
  const char *scale_name = edit_name(e, name, "scale"), *zero_name = edit_name(e, name, "zero");
  const char *bytes = edit_name(e, name, "bytes");
  const int32_t producer = e->values[value].producer;
  const char *source = name;
  own->scale = scale;
  own->made = edit_name(e, name, "value");
  if (producer >= 0 && p->nodes[producer].removed)
    source = e->graph->nodes[producer].input_names[0];
  edit_put_tensor(e, scale_name, ONNX_FLOAT, COMPUTE_SCALAR, &scale, sizeof scale);
  edit_put_tensor(e, zero_name, is_signed ? ONNX_INT8 : ONNX_UINT8, COMPUTE_SCALAR, &zero, 1);
  wire_buffer *to = producer < 0 ? &e->first : &e->nodes[producer].after;
  edit_put_node(e, to, channels_domain(e), "QuantizeLinear",
                (const char *const[]){source, scale_name, zero_name, NULL}, bytes, NULL);
  edit_put_node(e, to, channels_domain(e), "DequantizeLinear",
                (const char *const[]){bytes, scale_name, zero_name, NULL}, own->made, NULL);
}

static void set_inputs(static_plan *p, size_t i) {
  edit *e = &p->q->e;
  const onnx_node *node = &e->graph->nodes[i];
  const size_t data = p->nodes[i].chosen ? static_data_inputs(node, p->nodes[i].kind) : 0;
  for (size_t k = 0; k < node->input_count; k++) {
    const int32_t value = edit_input(node, k);
    if (value < 0 || !p->values[value].wanted) continue;
    if (p->values[value].through || k < data) edit_set_input(e, i, k, p->values[value].made);
  }
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* The axis of the channels of a node's result in its weights; −1: one scale. */
static int32_t weight_axis(const static_plan *p, size_t i, const onnx_tensor *tensor) {
  const onnx_node *node = &p->q->e.graph->nodes[i];
  if (p->q->o.per_tensor || tensor->rank < 2) return -1;
  switch (p->nodes[i].kind) {
  case KIND_CONV: return 0;
  case KIND_CONV_TRANSPOSE: return choose_integer(node, "group", 1) == 1 ? 1 : -1;
  case KIND_GEMM: return tensor->rank != 2 ? -1 : choose_integer(node, "transB", 0) ? 0 : 1;
  case KIND_MATMUL: return tensor->rank == 2 ? 1 : -1;
  default: return -1;
  }
}

static compute_shape scale_shape(int32_t axis, int64_t channels) {
  return axis < 0 ? COMPUTE_SCALAR : COMPUTE_SHAPE(channels);
}

/* The bias as i32 with the scale of the product; it stays f32 where i32 cannot hold it. */
static void put_bias(static_plan *p, size_t i, const written_weight *weight, int32_t axis) {
  edit *e = &p->q->e;
  const onnx_node *node = &e->graph->nodes[i];
  const onnx_tensor *bias = edit_initializer(e, node, 2);
  const static_value *x = &p->values[edit_input(node, 0)];
  if (p->nodes[i].kind == KIND_MATMUL || choose_weights(bias) || bias->rank != 1 ||
      (axis >= 0 && bias->count != weight->channels))
    return;
  float *scales = arena_allocate(&e->memory, (size_t)weight->channels, sizeof *scales);
  int32_t *values = arena_allocate(&e->memory, (size_t)bias->count, sizeof *values);
  const float *floats = edit_floats(e, bias);
  if (!scales || !values || !floats) {
    e->failed = true;
    return;
  }
  for (int64_t c = 0; c < weight->channels; c++) {
    scales[c] = x->scale * weight->scales[c];
    if (!(scales[c] >= FLT_MIN)) return;
  }
  for (int64_t c = 0; c < bias->count; c++) {
    const double number = nearbyint((double)floats[c] / (double)scales[axis < 0 ? 0 : c]);
    if (!(fabs(number) < 0x1p30)) return;
    values[c] = (int32_t)number;
  }
  const char *stem = node->output_names[0];
  const char *bytes = edit_name(e, stem, "bias"), *scale = edit_name(e, stem, "bias_scale");
  const char *made = edit_name(e, stem, "bias_value");
  const bool whole = axis < 0;
  edit_put_tensor(e, bytes, ONNX_INT32, bias->shape, values,
                  (uint64_t)bias->count * sizeof *values);
  edit_put_tensor(e, scale, ONNX_FLOAT, scale_shape(axis, weight->channels), scales,
                  (uint64_t)weight->channels * sizeof *scales);
  const edit_attribute attributes[] = {{whole ? NULL : "axis", 0}, {0}};
  edit_put_node(e, &e->first, channels_domain(e), "DequantizeLinear",
                (const char *const[]){bytes, scale, NULL}, made, attributes);
  edit_set_input(e, i, 2, made);
}

/* ---- All ------------------------------------------------------------------------------------- */

compute_status static_write(static_plan *p) {
  edit *e = &p->q->e;
  for (size_t i = 0; i < e->graph->value_count; i++)
    if (p->values[i].wanted) put_value(p, (int32_t)i);
  for (size_t i = 0; i < e->graph->node_count && !e->failed; i++) {
    const onnx_node *node = &e->graph->nodes[i];
    e->nodes[i].replaced = p->nodes[i].removed;
    set_inputs(p, i);
    if (!p->nodes[i].chosen) continue;
    p->q->quantized[i] = true;
    const onnx_tensor *tensor =
        p->nodes[i].kind <= KIND_MATMUL ? edit_initializer(e, node, 1) : NULL;
    if (!tensor) continue;
    const int32_t axis = weight_axis(p, i, tensor);
    const written_weight *weight =
        channels_put(p->q, edit_input(node, 1), axis, p->q->o.bits == 7 ? 63 : 127);
    if (!weight) break;
    edit_set_input(e, i, 1, weight->made);
    put_bias(p, i, weight, axis);
  }
  return e->failed ? edit_out_of_memory(e) : COMPUTE_OK;
}
