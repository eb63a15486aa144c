/* SPDX-License-Identifier: MIT */
/* COMPUTE_QUANTIZE_F16 and _BF16: f32 values of nodes in a table become half-precision. Casts lie
 * between them and all other nodes, inputs and outputs. */
#include <math.h>
#include <string.h>

#include "core/type/dtype.h"
#include "quantize/quantizer.h"

/* Operators whose results have the type of their float inputs. `mask` has a bit for each such
 * input; an operator with all bits takes any number. */
typedef struct half_row {
  const char *type;
  uint32_t mask;
} half_row;

#define ALL_INPUTS UINT32_MAX
static const half_row rows[] = {
    {"Conv", ALL_INPUTS},
    {"ConvTranspose", ALL_INPUTS},
    {"Gemm", ALL_INPUTS},
    {"MatMul", ALL_INPUTS},
    {"Add", ALL_INPUTS},
    {"Sub", ALL_INPUTS},
    {"Mul", ALL_INPUTS},
    {"Div", ALL_INPUTS},
    {"Max", ALL_INPUTS},
    {"Min", ALL_INPUTS},
    {"Relu", 1},
    {"LeakyRelu", 1},
    {"Sigmoid", 1},
    {"Tanh", 1},
    {"Erf", 1},
    {"Gelu", 1},
    {"HardSigmoid", 1},
    {"HardSwish", 1},
    {"Elu", 1},
    {"Selu", 1},
    {"Softplus", 1},
    {"Neg", 1},
    {"Abs", 1},
    {"Sqrt", 1},
    {"Exp", 1},
    {"Clip", ALL_INPUTS},
    {"PRelu", ALL_INPUTS},
    {"MaxPool", 1},
    {"AveragePool", 1},
    {"GlobalAveragePool", 1},
    {"GlobalMaxPool", 1},
    {"Concat", ALL_INPUTS},
    {"Reshape", 1},
    {"Transpose", 1},
    {"Flatten", 1},
    {"Squeeze", 1},
    {"Unsqueeze", 1},
    {"Identity", 1},
    {"Softmax", 1},
    {"LayerNormalization", ALL_INPUTS},
    {"Gather", 1},
    {"Slice", 1},
    {"Split", 1},
    {"Expand", 1},
    {"ReduceMean", 1},
    {"ReduceMax", 1},
    {"Where", 6},
};

static uint32_t mask_of(const onnx_node *node) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (choose_is(node, rows[i].type)) return rows[i].mask;
  return 0;
}

enum { FITS = 1, OUTSIDE };

typedef struct half_plan {
  quantizer *q;
  int32_t type;       /* ONNX_FLOAT16 or ONNX_BFLOAT16 */
  bool *is_float;     /* per value: f32 in the model */
  bool *is_half;      /* per value: half in the result */
  const char **other; /* per value: its name in the other precision, or NULL */
  bool *wide;         /* per value: computed with a constant outside the range */
  uint8_t *fit;       /* per value: FITS, OUTSIDE, or 0 before a constant is looked at */
} half_plan;

static bool takes(uint32_t mask, size_t input) {
  return mask == ALL_INPUTS || (input < 32 && mask >> input & 1);
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* True if all inputs under the mask are f32. */
static bool floats_fit(const half_plan *p, const onnx_node *node, uint32_t mask) {
  bool some = false;
  for (size_t k = 0; k < node->input_count; k++) {
    const int32_t value = edit_input(node, k);
    if (value < 0 || !takes(mask, k)) continue;
    if (!p->is_float[value]) return false;
    some = true;
  }
  return some;
}

/* f32 results of other operators that the file states. */
static bool states_float(const half_plan *p, const onnx_node *node) {
  const int32_t scale = edit_input(node, 1);
  const onnx_attribute *value = onnx_find_attribute(node, "value");
  if (choose_is(node, "Cast")) return choose_integer(node, "to", 0) == ONNX_FLOAT;
  if (choose_is(node, "ConstantOfShape"))
    return !value || (value->tensor && value->tensor->type == ONNX_FLOAT);
  if (choose_is(node, "Constant"))
    return (value && value->tensor && value->tensor->type == ONNX_FLOAT) ||
           onnx_find_attribute(node, "value_float") || onnx_find_attribute(node, "value_floats");
  return choose_is(node, "DequantizeLinear") && node->output_count == 1 && scale >= 0 &&
         p->is_float[scale] && !onnx_find_attribute(node, "output_dtype");
}

static uint16_t half_of(const half_plan *p, float value) {
  return p->type == ONNX_FLOAT16 ? dtype_f32_to_f16(value) : dtype_f32_to_bf16(value);
}

/* True if half precision can hold a constant: no finite number becomes infinite, and not all
 * numbers become 0. */
static bool holds(half_plan *p, int32_t value) {
  const onnx_tensor *tensor = edit_constant(&p->q->e, value);
  if (!tensor || tensor->type != ONNX_FLOAT || !tensor->data) return true;
  if (p->fit[value]) return p->fit[value] == FITS;
  const uint16_t infinity = half_of(p, INFINITY), sign = 0x8000;
  bool numbers = false, halves = false;
  p->fit[value] = OUTSIDE;
  for (int64_t i = 0; i < tensor->count; i++) {
    float number;
    memcpy(&number, (const char *)tensor->data + (size_t)i * sizeof number, sizeof number);
    const uint16_t half = (uint16_t)(half_of(p, number) & ~sign);
    if (isfinite(number) && half >= infinity) return false;
    numbers |= number != 0;
    halves |= half != 0;
  }
  if (halves == numbers) p->fit[value] = FITS;
  return halves == numbers;
}

/* Results of a node with such a constant may be as large or small: their readers stay f32, too. */
static const char *half_refusal(half_plan *p, const onnx_node *node, uint32_t mask) {
  bool wide = false;
  for (size_t k = 0; k < node->input_count; k++) {
    const int32_t value = edit_input(node, k);
    if (value < 0 || !takes(mask, k)) continue;
    wide |= p->wide[value];
    if (holds(p, value)) continue;
    for (size_t i = 0; i < node->output_count; i++)
      if (node->outputs[i] >= 0) p->wide[node->outputs[i]] = true;
    return "a constant is outside the range of half precision";
  }
  return wide ? "an input may be outside the range of half precision" : choose_refusal(p->q, node);
}

static void find_types(half_plan *p) {
  quantizer *q = p->q;
  const onnx_graph *graph = q->e.graph;
  for (size_t i = 0; i < graph->initializer_count; i++)
    p->is_float[graph->initializer_values[i]] = graph->initializers[i].type == ONNX_FLOAT;
  for (size_t i = 0; i < graph->input_count; i++)
    if (graph->inputs[i].value >= 0)
      p->is_float[graph->inputs[i].value] =
          graph->inputs[i].kind == ONNX_IS_TENSOR && graph->inputs[i].type == ONNX_FLOAT;
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    const uint32_t mask = mask_of(node);
    const bool fits = mask && floats_fit(p, node, mask);
    const char *reason = fits ? half_refusal(p, node, mask) : NULL;
    if (fits) q->reasons[i] = reason;
    q->quantized[i] = fits && !reason;
    for (size_t k = 0; k < node->output_count; k++) {
      const int32_t value = node->outputs[k];
      if (value < 0 || (k > 0 && !choose_is(node, "Split"))) continue;
      p->is_float[value] = fits || states_float(p, node);
      p->is_half[value] = q->quantized[i];
    }
  }
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A constant in half precision. */
static void put_tensor(half_plan *p, int32_t value, const onnx_tensor *tensor) {
  edit *e = &p->q->e;
  const float *floats = edit_floats(e, tensor);
  uint16_t *halves = arena_allocate(&e->memory, (size_t)tensor->count, sizeof *halves);
  if (!floats || !halves) {
    e->failed = true;
    return;
  }
  for (int64_t i = 0; i < tensor->count; i++) halves[i] = half_of(p, floats[i]);
  p->other[value] = edit_name(e, edit_value_name(e, value), "half");
  edit_put_tensor(e, p->other[value], p->type, tensor->shape, halves,
                  (uint64_t)tensor->count * sizeof *halves);
}

/* The value's name in the precision that it does not have, cast right after its producer. */
static const char *other_name(half_plan *p, int32_t value) {
  edit *e = &p->q->e;
  if (p->other[value]) return p->other[value];
  const edited_value *v = &e->values[value];
  const onnx_tensor *tensor = edit_constant(e, value);
  if (tensor && tensor->rank >= 0 && (tensor->data || !tensor->count)) {
    put_tensor(p, value, tensor);
    return p->other[value] ? p->other[value] : "";
  }
  const char *name = edit_value_name(e, value);
  const edit_attribute attributes[] = {{"to", p->is_half[value] ? ONNX_FLOAT : p->type}, {0}};
  p->other[value] = edit_name(e, name, p->is_half[value] ? "single" : "half");
  wire_buffer *to = v->producer < 0 ? &e->first : &e->nodes[v->producer].after;
  edit_put_node(e, to, "", "Cast", (const char *const[]){name, NULL}, p->other[value], attributes);
  e->values[value].kept++;
  return p->other[value];
}

static void set_inputs(half_plan *p, size_t i) {
  const onnx_node *node = &p->q->e.graph->nodes[i];
  const uint32_t mask = p->q->quantized[i] ? mask_of(node) : 0;
  for (size_t k = 0; k < node->input_count; k++) {
    const int32_t value = edit_input(node, k);
    if (value < 0 || !p->is_float[value] || takes(mask, k) == p->is_half[value]) continue;
    edit_set_input(&p->q->e, i, k, other_name(p, value));
  }
}

/* Values that the model returns, or that graphs in nodes read, stay f32 under their names: the node
 * writes another value, which is cast. */
static void keep_visible(half_plan *p, size_t i) {
  edit *e = &p->q->e;
  const onnx_node *node = &e->graph->nodes[i];
  const edit_attribute attributes[] = {{"to", ONNX_FLOAT}, {0}};
  for (size_t k = 0; k < node->output_count; k++) {
    const int32_t value = node->outputs[k];
    if (value < 0 || !p->is_half[value] || (!e->values[value].output && !e->values[value].nested))
      continue;
    const char *name = edit_value_name(e, value), *half = edit_name(e, name, "half");
    edit_set_output(e, i, k, half);
    edit_put_node(e, &e->nodes[i].after, "", "Cast", (const char *const[]){half, NULL}, name,
                  attributes);
    p->is_half[value] = false; /* its other name is half */
    p->other[value] = half;
  }
}

compute_status half_quantize(quantizer *q) {
  edit *e = &q->e;
  half_plan p = {.q = q};
  p.type = q->o.method == COMPUTE_QUANTIZE_F16 ? ONNX_FLOAT16 : ONNX_BFLOAT16;
  p.is_float = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.is_float);
  p.is_half = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.is_half);
  p.other = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.other);
  p.fit = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.fit);
  p.wide = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.wide);
  if (!p.is_float || !p.is_half || !p.other || !p.fit || !p.wide) return edit_out_of_memory(e);
  find_types(&p);
  for (size_t i = 0; i < e->graph->node_count; i++) keep_visible(&p, i);
  for (size_t i = 0; i < e->graph->node_count && !e->failed; i++) set_inputs(&p, i);
  return e->failed ? edit_out_of_memory(e) : COMPUTE_OK;
}
