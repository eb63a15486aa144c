/* SPDX-License-Identifier: MIT */
/* Checkpoints: the backward pass computes a stretch of the graph again instead of keeping its
 * values (Chen et al. 2016, arXiv 1604.06174).
 *
 * A stretch consists of the nodes from which a checkpoint is computed, back to earlier checkpoints,
 * sources and requested nodes. When the walk reaches the checkpoint, its stretch is recorded again,
 * and the gradient passes the repetition. Values from outside enter the repetition through gates.
 *
 * A gate is a select with a constant outcome whose condition depends on the checkpoint's gradient.
 * So a plan neither merges the repetition with the original nor computes it too early. */
#include <stdlib.h>

#include "compute/derivatives.h"
#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/tensor/tensor.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

static const char operation[] = "checkpoint";

/* A stretch, and the nodes outside that it reads. */
typedef struct stretch {
  compute_graph *graph;
  gradient_walk *walk;
  size_t end;         /* the checkpoint */
  uint32_t *nodes;    /* of the stretch; then also those with a gate */
  size_t count, room; /* of nodes */
  uint32_t *operands; /* of the node that is recorded */
  compute_node condition;
} stretch;

/* True for nodes that a stretch does not contain: those that it starts from, and calls that must
 * not be made twice or whose results are several nodes. */
static bool is_outside(const stretch *s, uint32_t index) {
  const compute_graph *graph = s->graph;
  const graph_node *node = &graph->nodes[index];
  if (node->input_count == 0 || node->checkpoint || s->walk->requested[index]) return true;
  if (node->op == OP_call_result || graph_has_effects(graph, node)) return true;
  return node->op == OP_call && graph_call_of(node)->key.output_count > 1;
}

/* Values that no memory is kept for, or that are there anyway. */
static bool needs_no_gate(const graph_node *node) {
  return node->op == OP_parameter || node->op == OP_constant || node->op == OP_index;
}

static bool append(stretch *s, uint32_t index) {
  void *nodes = s->nodes;
  if (base_grow(&nodes, &s->room, s->count + 1, sizeof *s->nodes)) return false;
  s->nodes = nodes;
  s->nodes[s->count++] = index;
  return true;
}

/* In walk->again: part of the stretch, not repeated yet. */
static const uint32_t FOUND = UINT32_MAX;

static bool reach(stretch *s, uint32_t index) {
  if (s->walk->again[index] || is_outside(s, index)) return true;
  s->walk->again[index] = FOUND;
  return append(s, index);
}

static int by_index(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static bool reach_operands(stretch *s, size_t index) {
  const graph_node *node = &s->graph->nodes[index];
  for (uint32_t k = 0; k < node->input_count; k++)
    if (!reach(s, node->inputs[k])) return false;
  for (uint32_t k = 0; node->whole.kind != WHOLE_NONE && k < GRAPH_WHOLE_OPERANDS; k++)
    if (node->whole.operands[k] != GRAPH_NO_OPERAND && !reach(s, node->whole.operands[k]))
      return false;
  return true;
}

/* Collects the stretch, in the order of the graph. The checkpoint is not part of it. */
static bool collect(stretch *s) {
  if (!reach_operands(s, s->end)) return false;
  for (size_t i = 0; i < s->count; i++)
    if (!reach_operands(s, s->nodes[i])) return false;
  if (s->count > 0) qsort(s->nodes, s->count, sizeof *s->nodes, by_index);
  return true;
}

/* A bool that is always true but is known only after `token`. */
static compute_node always(compute_graph *graph, compute_node token) {
  const compute_node flat = compute_reshape(graph, token, COMPUTE_SHAPE(-1));
  const compute_node one =
      compute_reshape(graph, compute_slice(graph, flat, 0, 0, 1, 1), COMPUTE_SCALAR);
  const compute_node nan = compute_is_nan(graph, one);
  return compute_logical_or(graph, nan, compute_logical_not(graph, nan));
}

/* The node of the repetition that stands for `index`. */
static uint32_t stand_in(stretch *s, uint32_t index) {
  compute_graph *graph = s->graph;
  uint32_t *again = &s->walk->again[index];
  if (*again) return *again - 1;
  if (needs_no_gate(&graph->nodes[index])) return index;
  const compute_node x = graph_handle(graph, index);
  const compute_node zero = compute_scalar(graph, graph->nodes[index].dtype, 0);
  const compute_node gate = compute_select(graph, s->condition, x, zero);
  build_whole(graph, gate, WHOLE_GATE, &x, 1);
  if (!compute_node_is_valid(gate)) return index;
  if (!append(s, index)) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
    return index;
  }
  *again = gate.id;
  return gate.id - 1;
}

/* A copy of a node that reads the repetition. Its operands are in s->operands. */
static graph_node copy_of(stretch *s, size_t index) {
  compute_graph *graph = s->graph;
  const uint32_t count = graph->nodes[index].input_count;
  for (uint32_t k = 0; k < count; k++) s->operands[k] = stand_in(s, graph->nodes[index].inputs[k]);
  graph_node node = graph->nodes[index];
  node.inputs = s->operands;
  for (uint32_t k = 0; node.whole.kind != WHOLE_NONE && k < GRAPH_WHOLE_OPERANDS; k++)
    if (node.whole.operands[k] != GRAPH_NO_OPERAND)
      node.whole.operands[k] = stand_in(s, node.whole.operands[k]);
  return node;
}

static void repeat_node(stretch *s, uint32_t index) {
  compute_graph *graph = s->graph;
  const graph_origin origin =
      graph_is_indexed(graph->nodes[index].op) ? graph_origin_of(graph, index) : (graph_origin){0};
  graph_node node = copy_of(s, index);
  if (graph->status) return;
  node.inputs = NULL;
  node.name = NULL;
  node.checkpoint = false;
  node.origin = origin;
  node.constant = graph_constant_retain(node.constant);
  node.tensor = node.tensor ? compute_tensor_retain(node.tensor) : NULL;
  s->walk->again[index] = build_node(graph, operation, &node, s->operands, node.input_count).id;
}

/* Room for the state of the nodes recorded so far. */
static bool extend(const compute_graph *graph, gradient_walk *walk) {
  void *wanted = walk->wanted, *gradient = walk->gradient;
  size_t room = walk->capacity;
  if (base_grow(&wanted, &room, graph->count, sizeof *walk->wanted)) return false;
  walk->wanted = wanted;
  room = walk->capacity;
  if (base_grow(&gradient, &room, graph->count, sizeof *walk->gradient)) return false;
  walk->gradient = gradient;
  walk->capacity = room;
  return true;
}

/* Passes the gradient of the checkpoint to the repetition, and on through the nodes from `first`. */
static bool pass(stretch *s, size_t first) {
  compute_graph *graph = s->graph;
  gradient_walk *walk = s->walk;
  const graph_node last = copy_of(s, s->end); /* may add gates */
  const size_t end = graph->count;
  if (graph->status) return true;
  if (!extend(graph, walk)) return false;
  for (size_t i = 0; i < s->count; i++)
    walk->wanted[walk->again[s->nodes[i]] - 1] = walk->wanted[s->nodes[i]];
  gradient_pass(graph, walk, s->end, &last);
  for (size_t n = end; n-- > first && !graph->status;)
    if (walk->wanted[n] && compute_node_is_valid(walk->gradient[n]))
      gradient_pass(graph, walk, n, &graph->nodes[n]);
  return true;
}

static bool repeat(stretch *s) {
  compute_graph *graph = s->graph;
  uint32_t most = graph->nodes[s->end].input_count;
  const size_t own = s->count;
  for (size_t i = 0; i < own; i++)
    if (graph->nodes[s->nodes[i]].input_count > most) most = graph->nodes[s->nodes[i]].input_count;
  s->operands = base_allocate(most, sizeof *s->operands);
  if (!s->operands) return false;
  s->condition = always(graph, s->walk->gradient[s->end]);
  const size_t first = graph->count;
  for (size_t i = 0; i < own && !graph->status; i++) {
    s->walk->again[s->nodes[i]] = 0;
    repeat_node(s, s->nodes[i]);
  }
  return graph->status || pass(s, first);
}

bool gradient_repeat(compute_graph *graph, gradient_walk *walk, size_t index) {
  if (!walk->requested || index > walk->last || !graph->nodes[index].checkpoint) return false;
  /* The backward pass begins at the last stretch: its values are still there. */
  if (index == walk->last || shape_count(graph->nodes[index].shape) == 0) return false;
  stretch s = {.graph = graph, .walk = walk, .end = index};
  const bool found = collect(&s), done = found && s.count > 0 && repeat(&s);
  if (!found || (s.count > 0 && !done))
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
               "not enough memory to repeat %zu nodes", s.count);
  for (size_t i = 0; i < s.count; i++) walk->again[s.nodes[i]] = 0;
  base_release(s.operands);
  base_release(s.nodes);
  return done;
}

/* A gate has the value of its operand. */
void gradient_whole_gate(gradient_step *step) {
  gradient_give(step, 0, step->upstream);
}

compute_node compute_checkpoint(compute_graph *graph, compute_node x) {
  FLOAT_ENVIRONMENT_DEFAULT;
  uint32_t index;
  if (!build_operands(graph, operation, &x, 1, &index)) return BUILD_NONE;
  graph->nodes[index].checkpoint = true;
  return x;
}
