/* SPDX-License-Identifier: MIT */
/* COMPUTE_QUANTIZE_STATIC: QuantizeLinear and DequantizeLinear around convolutions, products, and
 * the nodes between them. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/type/shape.h"
#include "quantize/quantizer.h"
#include "quantize/static.h"

/* ---- Kinds of nodes -------------------------------------------------------------------------- */

typedef struct kind_row {
  const char *type;
  node_kind kind;
} kind_row;

static const kind_row kinds[] = {
    {"Conv", KIND_CONV},        {"ConvTranspose", KIND_CONV_TRANSPOSE},
    {"Gemm", KIND_GEMM},        {"MatMul", KIND_MATMUL},
    {"Add", KIND_PAIR},         {"Mul", KIND_PAIR},
    {"AveragePool", KIND_POOL}, {"GlobalAveragePool", KIND_POOL},
    {"MaxPool", KIND_SAME},     {"Reshape", KIND_SAME},
    {"Transpose", KIND_SAME},   {"Flatten", KIND_SAME},
    {"Squeeze", KIND_SAME},     {"Unsqueeze", KIND_SAME},
    {"Identity", KIND_SAME},    {"Concat", KIND_CONCAT},
};

node_kind static_kind(const onnx_node *node) {
  if (node->output_count != 1) return KIND_OTHER;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (choose_is(node, kinds[i].type)) return kinds[i].kind;
  return KIND_OTHER;
}

size_t static_data_inputs(const onnx_node *node, node_kind kind) {
  const size_t most = kind == KIND_CONCAT                        ? node->input_count
                      : kind == KIND_PAIR || kind == KIND_MATMUL ? 2
                                                                 : 1;
  return kind == KIND_OTHER ? 0 : most < node->input_count ? most : node->input_count;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static bool is_constant(const quantizer *q, int32_t value) {
  return value < 0 || q->e.values[value].initializer >= 0 || edit_constant(&q->e, value);
}

/* The reason why a convolution or product keeps f32, or NULL. */
static const char *anchor_refusal(const quantizer *q, const onnx_node *node, node_kind kind) {
  const char *reason = choose_refusal(q, node);
  if (reason) return reason;
  if (is_constant(q, edit_input(node, 0))) return "its first input is constant";
  if (kind == KIND_GEMM && !choose_plain_gemm(node)) return "alpha, beta or transA is set";
  const onnx_tensor *weights = edit_initializer(&q->e, node, 1);
  if (kind == KIND_MATMUL && !is_constant(q, edit_input(node, 1))) return NULL;
  return choose_weights(weights);
}

/* A limit of Clip, an attribute before opset 11; NaN if it is not constant. */
static double limit_of(const edit *e, const onnx_node *node, const char *name, size_t input,
                       double fallback) {
  const onnx_attribute *attribute = onnx_find_attribute(node, name);
  const onnx_tensor *given = edit_initializer(e, node, input);
  float value;
  if (e->opset < 11)
    return attribute && attribute->type == ONNX_ATTRIBUTE_FLOAT ? (double)attribute->number
                                                                : fallback;
  if (edit_input(node, input) < 0) return fallback;
  if (!given || given->type != ONNX_FLOAT || given->count != 1 || !given->data) return (double)NAN;
  memcpy(&value, given->data, sizeof value);
  return (double)value;
}

/* Sets the limits of a Relu or Clip. False for another node, and for limits that are computed or
 * exclude 0. */
static bool find_limits(const edit *e, const onnx_node *node, static_node *limits) {
  limits->least = 0;
  limits->most = INFINITY;
  if (choose_is(node, "Relu")) return true;
  if (!choose_is(node, "Clip")) return false;
  limits->least = limit_of(e, node, "min", 1, -INFINITY);
  limits->most = limit_of(e, node, "max", 2, INFINITY);
  return limits->least <= 0 && limits->most >= 0;
}

/* The Relu or Clip that is the only user of a value, or −1. The limits of the quantized range can
 * replace it. */
static int32_t activation_of(const static_plan *p, int32_t value, static_node *limits) {
  const edited_value *v = &p->q->e.values[value];
  const int32_t user = p->values[value].user;
  if (v->uses != 1 || v->output || v->nested || user < 0) return -1;
  const onnx_node *node = &p->q->e.graph->nodes[user];
  if (edit_input(node, 0) != value || node->output_count != 1 || node->outputs[0] < 0 ||
      choose_refusal(p->q, node))
    return -1;
  return find_limits(&p->q->e, node, limits) ? user : -1;
}

/* True if chosen nodes read or make all data inputs of a node. */
static bool inputs_observed(const static_plan *p, size_t i) {
  const onnx_node *node = &p->q->e.graph->nodes[i];
  const size_t count = static_data_inputs(node, p->nodes[i].kind);
  for (size_t k = 0; k < count; k++) {
    const int32_t value = edit_input(node, k);
    if (is_constant(p->q, value) || !p->values[value].observed) return false;
  }
  return count > 0;
}

static void observe_inputs(static_plan *p, size_t i) {
  const onnx_node *node = &p->q->e.graph->nodes[i];
  for (size_t k = 0; k < static_data_inputs(node, p->nodes[i].kind); k++)
    if (!is_constant(p->q, edit_input(node, k))) p->values[edit_input(node, k)].observed = true;
}

static void find_candidates(static_plan *p) {
  quantizer *q = p->q;
  const onnx_graph *graph = q->e.graph;
  for (size_t i = 0; i < graph->value_count; i++)
    p->values[i] = (static_value){.user = -1, .group = (int32_t)i};
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++) {
      const int32_t value = edit_input(&graph->nodes[i], k);
      if (value >= 0) p->values[value].user = (int32_t)i;
    }
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    static_node *own = &p->nodes[i];
    own->kind = static_kind(node);
    own->activation = -1;
    own->result = -1;
    if (own->kind == KIND_OTHER || node->outputs[0] < 0) continue;
    const bool anchor = own->kind <= KIND_MATMUL;
    const char *reason = anchor ? anchor_refusal(q, node, own->kind) : choose_refusal(q, node);
    if (anchor) q->reasons[i] = reason;
    own->chosen = !reason;
    own->result = node->outputs[0];
    if (own->kind <= KIND_POOL) own->activation = activation_of(p, own->result, own);
    if (own->activation >= 0) own->result = graph->nodes[own->activation].outputs[0];
    if (own->chosen && anchor) observe_inputs(p, i);
  }
  /* Other nodes are chosen between products only. Others may have sequences and texts. */
  for (size_t i = 0; i < graph->node_count; i++) {
    static_node *own = &p->nodes[i];
    if (own->chosen && own->kind > KIND_MATMUL) own->chosen = inputs_observed(p, i);
    if (own->chosen) p->values[own->result].observed = true;
  }
}

/* ---- Calibration ----------------------------------------------------------------------------- */

static compute_status observe_run(static_plan *p, const sampled *s, const int32_t *which) {
  for (size_t i = 0; i < s->output_count; i++) {
    const compute_tensor *tensor = s->outputs[i].tensor;
    static_value *value = &p->values[which[i]];
    if (!tensor || compute_tensor_dtype(tensor) != COMPUTE_F32) continue;
    compute_status status;
    float *floats = sample_floats(tensor, &status);
    if (status) return status;
    observer_add(&value->seen, floats, compute_tensor_count(tensor));
    base_release(floats);
  }
  return COMPUTE_OK;
}

/* Lists the observed values, and gives them bins. */
static compute_status list_observed(static_plan *p, int32_t **which, size_t *count) {
  edit *e = &p->q->e;
  *which = arena_allocate(&e->memory, e->graph->value_count, sizeof **which);
  *count = 0;
  if (!*which) return edit_out_of_memory(e);
  for (size_t i = 0; i < e->graph->value_count; i++) {
    if (!p->values[i].observed) continue;
    p->values[i].seen.bins = arena_allocate(&e->memory, OBSERVER_BINS, sizeof(uint64_t));
    if (!p->values[i].seen.bins) return edit_out_of_memory(e);
    (*which)[(*count)++] = (int32_t)i;
  }
  return COMPUTE_OK;
}

/* Observes at most MOST_SAMPLED values in all samples. */
static compute_status calibrate_some(static_plan *p, compute_model_binding *inputs,
                                     const int32_t *which, size_t count) {
  quantizer *q = p->q;
  sampled s = {0};
  compute_status status = sampled_open(q, &q->e.source, which, count, &s);
  bool more = true;
  for (size_t i = 0; !status && more; i++) {
    status = sample_next(q, i, inputs, &more);
    if (status || !more) break;
    status = sampled_run(&s, inputs, q->input_count);
    if (!status) status = observe_run(p, &s, which);
    sampled_clear(&s);
  }
  sampled_close(&s);
  return status;
}

static compute_status calibrate(static_plan *p) {
  int32_t *which;
  size_t count;
  compute_status status = list_observed(p, &which, &count);
  if (status) return status;
  compute_model_binding *inputs = sample_inputs(p->q);
  if (!inputs) return edit_out_of_memory(&p->q->e);
  for (size_t i = 0; !status && i < count; i += MOST_SAMPLED)
    status =
        calibrate_some(p, inputs, which + i, count - i < MOST_SAMPLED ? count - i : MOST_SAMPLED);
  return status;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static const char *value_problem(const static_plan *p, int32_t value) {
  const observer *seen = &p->values[value].seen;
  if (seen->not_finite) return "a value is infinite or NaN in a sample";
  return seen->count ? NULL : "a value has no f32 elements in the samples";
}

/* True if all data inputs of a node are quantized values or may become such. */
static bool inputs_fit(const static_plan *p, size_t i) {
  const onnx_node *node = &p->q->e.graph->nodes[i];
  const size_t count = static_data_inputs(node, p->nodes[i].kind);
  for (size_t k = 0; k < count; k++) {
    const int32_t value = edit_input(node, k);
    if (is_constant(p->q, value) || !p->values[value].possible) return false;
  }
  return count > 0;
}

static void choose_forward(static_plan *p) {
  const onnx_graph *graph = p->q->e.graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    static_node *own = &p->nodes[i];
    if (!own->chosen || own->kind > KIND_MATMUL) continue;
    const size_t count = static_data_inputs(&graph->nodes[i], own->kind);
    for (size_t k = 0; k < count && own->chosen; k++) {
      const int32_t value = edit_input(&graph->nodes[i], k);
      if (is_constant(p->q, value)) continue;
      p->q->reasons[i] = value_problem(p, value);
      own->chosen = !p->q->reasons[i];
    }
    for (size_t k = 0; k < count && own->chosen; k++) {
      const int32_t value = edit_input(&graph->nodes[i], k);
      if (!is_constant(p->q, value)) p->values[value].possible = true;
    }
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    static_node *own = &p->nodes[i];
    if (own->chosen && own->kind > KIND_MATMUL) own->chosen = inputs_fit(p, i);
    if (own->chosen && !value_problem(p, own->result)) p->values[own->result].possible = true;
  }
}

/* Drops, from the last node to the first, nodes between products whose result no chosen node
 * reads. `wanted` marks the values that chosen nodes read. */
static void choose_backward(static_plan *p) {
  const onnx_graph *graph = p->q->e.graph;
  for (size_t i = graph->node_count; i-- > 0;) {
    static_node *own = &p->nodes[i];
    if (!own->chosen) continue;
    static_value *result = &p->values[own->result];
    if (own->kind > KIND_MATMUL && (!result->wanted || !result->possible)) {
      own->chosen = false;
      continue;
    }
    for (size_t k = 0; k < static_data_inputs(&graph->nodes[i], own->kind); k++) {
      const int32_t value = edit_input(&graph->nodes[i], k);
      if (!is_constant(p->q, value)) p->values[value].wanted = true;
    }
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const static_node *own = &p->nodes[i];
    if (!own->chosen) continue;
    static_value *result = &p->values[own->result];
    const edited_value *facts = &p->q->e.values[own->result];
    if (!result->possible || facts->output || facts->nested || !facts->uses) continue;
    if (own->kind == KIND_CONV) result->wanted = true;
    result->through = result->wanted;
  }
}

/* ---- Groups of values with one scale --------------------------------------------------------- */

static int32_t group_of(static_plan *p, int32_t value) {
  while (p->values[value].group != value) {
    p->values[value].group = p->values[p->values[value].group].group;
    value = p->values[value].group;
  }
  return value;
}

static void make_groups(static_plan *p) {
  const onnx_graph *graph = p->q->e.graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const static_node *own = &p->nodes[i];
    if (!own->chosen || (own->kind != KIND_SAME && own->kind != KIND_CONCAT)) continue;
    for (size_t k = 0; k < static_data_inputs(&graph->nodes[i], own->kind); k++) {
      const int32_t from = edit_input(&graph->nodes[i], k);
      p->values[group_of(p, from)].group = group_of(p, own->result);
    }
  }
  for (size_t i = 0; i < graph->value_count; i++) {
    if (!p->values[i].wanted) continue;
    const number_range own =
        observer_range(&p->values[i].seen, p->q->o.range, p->q->o.percentile, STATIC_STEPS);
    number_range *of_group = &p->values[group_of(p, (int32_t)i)].range;
    of_group->low = fmin(of_group->low, own.low);
    of_group->high = fmax(of_group->high, own.high);
  }
}

/* Removes each Relu and Clip whose limits the integers of its result enforce. A group may have
 * widened the range. Limits between two integers are rounded like the values. */
static void remove_activations(static_plan *p) {
  for (size_t i = 0; i < p->q->e.graph->node_count; i++) {
    const static_node *own = &p->nodes[i];
    if (!own->chosen || own->activation < 0 || !p->values[own->result].through) continue;
    int32_t offset;
    const double scale = (double)static_scale(p->values[own->result].range, &offset);
    p->nodes[own->activation].removed =
        -offset * scale >= own->least - 0.5001 * scale &&
        (STATIC_STEPS - offset) * scale <= own->most + 0.5001 * scale;
  }
}

/* ---- All ------------------------------------------------------------------------------------- */

compute_status static_quantize(quantizer *q) {
  edit *e = &q->e;
  static_plan p = {.q = q};
  p.values = arena_allocate(&e->memory, e->graph->value_count, sizeof *p.values);
  p.nodes = arena_allocate(&e->memory, e->graph->node_count, sizeof *p.nodes);
  if (!p.values || !p.nodes) return edit_out_of_memory(e);
  find_candidates(&p);
  const compute_status status = calibrate(&p);
  if (status) return status;
  choose_forward(&p);
  choose_backward(&p);
  make_groups(&p);
  for (size_t i = 0; i < e->graph->value_count; i++)
    p.values[i].range = p.values[group_of(&p, (int32_t)i)].range;
  remove_activations(&p);
  return static_write(&p);
}
