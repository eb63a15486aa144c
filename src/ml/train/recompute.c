/* SPDX-License-Identifier: MIT */
/* Gradient checkpointing: the backward pass recomputes activations instead of keeping them (Chen et
 * al. 2016, arXiv 1604.06174).
 *
 * The n parts of a sequential network are grouped into about √n segments. Only the result of a
 * segment is kept. When the backward pass first needs another value of a segment, the segment's
 * nodes are duplicated with a gate on their input. The gate is a select with a constant outcome
 * whose condition depends on a value of the backward pass. So the duplicate is neither merged with
 * the original nor computed too early. The last segment is not duplicated, because the backward
 * pass begins there.
 *
 * A node must follow its operands, so the graph is copied to a new one instead of being
 * modified. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "graph/builders/build.h"
#include "ml/nn/layer.h"
#include "core/type/dtype.h"
#include "core/tensor/tensor.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";
#define NONE UINT32_MAX

/* ---- Segments ------------------------------------------------------------------------------ */

compute_node train_record_model(train_record *record, compute_node x, compute_forward *forward) {
  compute_layer *model = record->trainer->options.model;
  const size_t parts = model->part_count;
  const bool sequence = strcmp(model->kind->name, "sequential") == 0;
  if (!(record->trainer->options.flags & COMPUTE_TRAIN_RECOMPUTE) || !forward->training ||
      !sequence || parts < 2)
    return compute_layer_apply(model, record->graph, x, forward);
  const size_t segments = (size_t)ceil(sqrt((double)parts));
  record->segments = base_allocate(segments, sizeof *record->segments);
  if (!record->segments)
    return graph_fail(record->graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for segments");
  for (size_t s = 0; s < segments; s++) {
    const uint32_t begin = (uint32_t)record->graph->count;
    for (size_t i = s * parts / segments; i < (s + 1) * parts / segments; i++)
      x = compute_layer_apply(model->parts[i], record->graph, x, forward);
    if (x.id == 0) return x;
    record->segments[record->segment_count++] =
        (train_segment){begin, (uint32_t)record->graph->count, x.id - 1};
  }
  record->segment_count--;
  return x;
}

/* ---- Copying ------------------------------------------------------------------------------- */

typedef struct transform {
  const train_record *record;
  compute_graph *from, *to;
  uint32_t *map;      /* new node of each old node */
  uint32_t *again;    /* duplicate of each duplicated node; or NONE */
  uint32_t *operands; /* operands of the current node */
  uint32_t latest;    /* last float node of the backward pass; or NONE */
} transform;

/* Copies old node `index` with new operands. */
static uint32_t emit(transform *t, uint32_t index, const uint32_t *operands) {
  const graph_node *old = &t->from->nodes[index];
  graph_node node = *old;
  node.inputs = NULL;
  node.name = NULL;
  node.whole = (graph_whole){0}; /* gradients are already recorded */
  node.constant = graph_constant_retain(old->constant);
  node.tensor = old->tensor ? compute_tensor_retain(old->tensor) : NULL;
  const compute_node made = build_node(t->to, operation, &node, operands, old->input_count);
  if (old->name) compute_name(t->to, made, old->name);
  return made.id - 1; /* NONE after an error */
}

/* Returns true for a node that must not run twice in a step, or is available anyway. */
static bool is_unrepeatable(const transform *t, uint32_t index) {
  const graph_node *node = &t->from->nodes[index];
  return node->input_count == 0 || graph_has_effects(t->from, node);
}

/* Returns the segment of a node that is not kept, or NULL for a kept node. */
static const train_segment *segment_of(const transform *t, uint32_t index) {
  for (size_t s = 0; s < t->record->segment_count; s++) {
    const train_segment *p = &t->record->segments[s];
    if (index >= p->begin && index < p->end)
      return index == p->result || is_unrepeatable(t, index) ? NULL : p;
  }
  return NULL;
}

/* Returns a bool that is always true but is computed only after `token`. */
static compute_node always(compute_graph *graph, uint32_t token) {
  const compute_node flat = compute_reshape(graph, graph_handle(graph, token), COMPUTE_SHAPE(-1));
  const compute_node one =
      compute_reshape(graph, compute_slice(graph, flat, 0, 0, 1, 1), COMPUTE_SCALAR);
  const compute_node nan = compute_is_nan(graph, one);
  return compute_logical_or(graph, nan, compute_logical_not(graph, nan));
}

static compute_node gate(compute_graph *graph, compute_node always_true, uint32_t index) {
  const compute_node x = graph_handle(graph, index);
  const compute_dtype dtype = compute_node_dtype(graph, x);
  return compute_select(graph, always_true, x, compute_scalar(graph, dtype, 0));
}

static void repeat(transform *t, const train_segment *segment, uint32_t token) {
  compute_graph *graph = t->to;
  const compute_node condition = always(graph, token);
  uint32_t gated = NONE, behind = NONE; /* the segment's input, usually the only one */
  for (uint32_t i = segment->begin; i < segment->end && !graph->status; i++) {
    const graph_node *node = &t->from->nodes[i];
    if (node->op == OP_assign || node->op == OP_group || i == segment->result) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t input = node->inputs[k];
      uint32_t operand = t->map[input];
      if (t->again[input] != NONE) {
        operand = t->again[input];
      } else if (input < segment->begin && t->from->nodes[input].input_count > 0) {
        if (input != gated) behind = gate(graph, condition, operand).id - 1;
        gated = input;
        operand = behind;
      }
      t->operands[k] = operand;
    }
    t->again[i] = is_unrepeatable(t, i) ? t->map[i] : emit(t, i, t->operands);
  }
}

/* Copies a node of the backward pass. Its forward operands are kept values, or are duplicated
 * first. */
static void move_backward(transform *t, uint32_t index) {
  const graph_node *node = &t->from->nodes[index];
  uint32_t token = t->latest;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = node->inputs[k];
    const graph_node *operand = &t->from->nodes[input];
    if (input >= t->record->forward_end && operand->input_count > 0 &&
        dtype_is_float(operand->dtype))
      token = t->map[input];
  }
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = node->inputs[k];
    const train_segment *segment = input < t->record->forward_end ? segment_of(t, input) : NULL;
    if (segment && t->again[input] == NONE && token != NONE) repeat(t, segment, token);
  }
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = node->inputs[k];
    t->operands[k] = t->again[input] != NONE ? t->again[input] : t->map[input];
  }
  t->map[index] = emit(t, index, t->operands);
  if (node->input_count > 0 && dtype_is_float(node->dtype)) t->latest = t->map[index];
}

static void move_all(transform *t) {
  for (uint32_t i = 0; i < t->from->count && !t->to->status; i++) {
    const graph_node *node = &t->from->nodes[i];
    if (i >= t->record->forward_end) {
      move_backward(t, i);
      continue;
    }
    for (uint32_t k = 0; k < node->input_count; k++) t->operands[k] = t->map[node->inputs[k]];
    t->map[i] = emit(t, i, t->operands);
  }
}

/* ---- Taking over --------------------------------------------------------------------------- */

static void renew(const transform *t, compute_node *node) {
  if (node->id != 0) *node = graph_handle(t->to, t->map[node->id - 1]);
}

/* Origins contain node numbers of the old graph; this maps them to the new one. */
static void renew_origins(const transform *t) {
  for (size_t i = 0; i < t->to->count; i++) {
    graph_origin *origin = &t->to->nodes[i].origin;
    if (!origin->call) continue;
    origin->result = t->map[origin->result];
    origin->indices = t->map[origin->indices];
  }
}

static void take_over(train_record *record, const transform *t) {
  train_plan *n = &record->nodes;
  compute_node *nodes[] = {&n->x,          &n->target,       &n->seed,   &n->rate,
                           &n->loss,       &n->correct,      &n->result, &record->statistics,
                           &record->scale, &record->labelled};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) renew(t, nodes[i]);
  for (size_t i = 0; i < record->trainer->weight_count; i++) {
    renew(t, &record->weights[i]);
    renew(t, &record->gradients[i]);
  }
  compute_graph_release(record->graph);
  record->graph = t->to;
}

void train_record_recompute(train_record *record) {
  compute_graph *graph = record->graph;
  if (record->segment_count == 0 || graph->status) return;
  transform t = {.record = record, .from = graph, .latest = NONE};
  uint32_t most = 1;
  for (size_t i = 0; i < graph->count; i++)
    if (graph->nodes[i].input_count > most) most = graph->nodes[i].input_count;
  t.to = compute_graph_create(graph->context);
  t.map = base_allocate(graph->count, sizeof *t.map);
  t.again = base_allocate(graph->count, sizeof *t.again);
  t.operands = base_allocate(most, sizeof *t.operands);
  const bool room = t.to && t.map && t.again && t.operands;
  if (room) {
    for (size_t i = 0; i < graph->count; i++) t.again[i] = NONE;
    move_all(&t);
    if (!t.to->status) renew_origins(&t);
  }
  if (room && !t.to->status) {
    take_over(record, &t);
  } else {
    graph_fail(graph, room ? t.to->status : COMPUTE_ERROR_OUT_OF_MEMORY, operation,
               "not enough memory to repeat parts of the network: %zu nodes", graph->count);
    compute_graph_release(t.to);
  }
  base_release(t.map);
  base_release(t.again);
  base_release(t.operands);
}
