/* SPDX-License-Identifier: MIT */
/* The nodes and tensors of a statically quantized model. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "quantize/quantizer.h"
#include "quantize/static.h"

/* QuantizeLinear exists from opset 10, its axis from opset 13; com.microsoft has both. */
static const char *domain_of(const edit *e) {
  return e->opset < 13 ? "com.microsoft" : "";
}

/* ---- Activations ----------------------------------------------------------------------------- */

static void put_value(static_plan *p, int32_t value) {
  edit *e = &p->q->e;
  static_value *own = &p->values[value];
  const bool is_signed = p->q->o.activations == COMPUTE_I8;
  const double low = fmin(own->range.low, 0), high = fmax(own->range.high, 0);
  float scale = (float)((high - low) / 255);
  if (!(scale >= FLT_MIN)) scale = 1; /* all zeros, or too small to divide by */
  const double offset = fmin(fmax(nearbyint(-low / (double)scale), 0), 255);
  const uint8_t zero = (uint8_t)(is_signed ? (int)offset - 128 : (int)offset);
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
  edit_put_node(e, to, domain_of(e), "QuantizeLinear",
                (const char *const[]){source, scale_name, zero_name, NULL}, bytes, NULL);
  edit_put_node(e, to, domain_of(e), "DequantizeLinear",
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

/* A weight that is written already. */
typedef struct written_weight {
  const onnx_tensor *tensor;
  int32_t axis;
  int64_t channels;
  const float *scales;
  const char *made;
  struct written_weight *next;
} written_weight;

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

static const written_weight *put_weight(static_plan *p, const onnx_tensor *tensor, int32_t axis,
                                        written_weight **list) {
  static const char *const parts[] = {"whole", "axis0", "axis1"};
  edit *e = &p->q->e;
  for (const written_weight *w = *list; w; w = w->next)
    if (w->tensor == tensor && w->axis == axis) return w;
  written_weight *made = arena_allocate(&e->memory, 1, sizeof *made);
  const int64_t channels = axis < 0 ? 1 : shape_at(tensor->shape, axis);
  float *scales = arena_allocate(&e->memory, (size_t)channels, sizeof *scales);
  int8_t *values = arena_allocate(&e->memory, (size_t)tensor->count, 1);
  int8_t *zeros = arena_allocate(&e->memory, (size_t)channels, 1);
  const float *floats = edit_floats(e, tensor);
  if (!made || !scales || !values || !zeros || !floats) {
    e->failed = true;
    return NULL;
  }
  round_channels(floats, tensor->shape, axis, p->q->o.bits == 7 ? 63 : 127, p->q->o.rounding,
                 values, scales);
  const char *stem = edit_name(e, tensor->name, parts[axis + 1]);
  const char *scale_name = edit_name(e, stem, "scale"), *zero_name = edit_name(e, stem, "zero");
  const char *bytes = edit_name(e, stem, "bytes");
  *made = (written_weight){tensor, axis, channels, scales, edit_name(e, stem, "value"), *list};
  edit_put_tensor(e, bytes, ONNX_INT8, tensor->shape, values, (uint64_t)tensor->count);
  edit_put_tensor(e, scale_name, ONNX_FLOAT, scale_shape(axis, channels), scales,
                  (uint64_t)channels * sizeof *scales);
  edit_put_tensor(e, zero_name, ONNX_INT8, scale_shape(axis, channels), zeros, (uint64_t)channels);
  const edit_attribute attributes[] = {{axis < 0 ? NULL : "axis", axis}, {0}};
  edit_put_node(e, &e->first, domain_of(e), "DequantizeLinear",
                (const char *const[]){bytes, scale_name, zero_name, NULL}, made->made, attributes);
  return *list = made;
}

/* The bias as i32 with the scale of the product; it stays f32 where i32 cannot hold it. */
static void put_bias(static_plan *p, size_t i, const written_weight *weight) {
  edit *e = &p->q->e;
  const onnx_node *node = &e->graph->nodes[i];
  const onnx_tensor *bias = edit_initializer(e, node, 2);
  const static_value *x = &p->values[edit_input(node, 0)];
  if (p->nodes[i].kind == KIND_MATMUL || choose_weights(bias) || bias->rank != 1 ||
      (weight->axis >= 0 && bias->count != weight->channels))
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
    const double number = nearbyint((double)floats[c] / (double)scales[weight->axis < 0 ? 0 : c]);
    if (!(fabs(number) < 0x1p30)) return;
    values[c] = (int32_t)number;
  }
  const char *stem = node->output_names[0];
  const char *bytes = edit_name(e, stem, "bias"), *scale = edit_name(e, stem, "bias_scale");
  const char *made = edit_name(e, stem, "bias_value");
  const bool whole = weight->axis < 0;
  edit_put_tensor(e, bytes, ONNX_INT32, bias->shape, values,
                  (uint64_t)bias->count * sizeof *values);
  edit_put_tensor(e, scale, ONNX_FLOAT, scale_shape(weight->axis, weight->channels), scales,
                  (uint64_t)weight->channels * sizeof *scales);
  const edit_attribute attributes[] = {{whole ? NULL : "axis", 0}, {0}};
  edit_put_node(e, &e->first, domain_of(e), "DequantizeLinear",
                (const char *const[]){bytes, scale, NULL}, made, attributes);
  edit_set_input(e, i, 2, made);
}

/* ---- All ------------------------------------------------------------------------------------- */

compute_status static_write(static_plan *p) {
  edit *e = &p->q->e;
  written_weight *list = NULL;
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
    const written_weight *weight = put_weight(p, tensor, weight_axis(p, i, tensor), &list);
    if (!weight) break;
    edit_set_input(e, i, 1, weight->made);
    put_bias(p, i, weight);
  }
  return e->failed ? edit_out_of_memory(e) : COMPUTE_OK;
}
