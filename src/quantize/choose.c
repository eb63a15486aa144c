/* SPDX-License-Identifier: MIT */
/* Which nodes can be quantized. */
#include <math.h>
#include <string.h>

#include "quantize/quantizer.h"

bool choose_matches(const char *pattern, const char *text) {
  const char *star = NULL, *from = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = pattern++;
      from = text;
    } else if (*pattern == '?' || *pattern == *text) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star + 1;
      text = ++from;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

bool choose_is(const onnx_node *node, const char *type) {
  return !node->function && !node->domain[0] && strcmp(node->type, type) == 0;
}

int64_t choose_integer(const onnx_node *node, const char *name, int64_t fallback) {
  const onnx_attribute *attribute = onnx_find_attribute(node, name);
  return attribute && attribute->type == ONNX_ATTRIBUTE_INT ? attribute->integer : fallback;
}

static float number_of(const onnx_node *node, const char *name, float fallback) {
  const onnx_attribute *attribute = onnx_find_attribute(node, name);
  return attribute && attribute->type == ONNX_ATTRIBUTE_FLOAT ? attribute->number : fallback;
}

bool choose_plain_gemm(const onnx_node *node) {
  return number_of(node, "alpha", 1) == 1 && number_of(node, "beta", 1) == 1 &&
         choose_integer(node, "transA", 0) == 0;
}

/* True if a node reads or writes quantized values. */
static bool is_quantized(const quantizer *q, const onnx_node *node) {
  for (size_t i = 0; i < node->input_count; i++) {
    const int32_t value = edit_input(node, i);
    const int32_t producer = value < 0 ? -1 : q->e.values[value].producer;
    if (producer >= 0 && strcmp(q->e.graph->nodes[producer].type, "DequantizeLinear") == 0)
      return true;
  }
  return false;
}

const char *choose_refusal(const quantizer *q, const onnx_node *node) {
  for (size_t i = 0; i < q->o.keep_count; i++) {
    const char *pattern = q->o.keep[i];
    if ((node->name[0] && choose_matches(pattern, node->name)) ||
        choose_matches(pattern, node->type) ||
        (node->output_count && choose_matches(pattern, node->output_names[0])))
      return "kept by a pattern";
  }
  return is_quantized(q, node) ? "quantized already" : NULL;
}

const char *choose_weights(const onnx_tensor *tensor) {
  if (!tensor) return "its weights are computed";
  if (tensor->type != ONNX_FLOAT) return "its weights are not f32";
  if (tensor->rank < 1 || tensor->count == 0 || !tensor->data) return "its weights are empty";
  for (int64_t i = 0; i < tensor->count; i++) {
    float value;
    memcpy(&value, (const char *)tensor->data + (size_t)i * sizeof value, sizeof value);
    if (!isfinite(value)) return "its weights are infinite or NaN";
  }
  return NULL;
}
