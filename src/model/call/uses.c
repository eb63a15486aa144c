/* SPDX-License-Identifier: MIT */
/* Finds the nodes that use each value, including uses in nested graphs. */
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "model/model.h"

/* Calls `visit` for each use of a graph's values by `node`: in its inputs, and in the inputs of
 * nodes in its graph attributes. `depth` is the number of levels between `node` and the graph.
 * The decoder limits the nesting, and so the recursion. */
typedef void (*use_visitor)(void *user, int32_t value);

static void visit_uses(const onnx_node *node, int32_t depth, use_visitor visit, void *user) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].index >= 0 && node->inputs[i].level == depth)
      visit(user, node->inputs[i].index);
  for (size_t i = 0; i < node->attribute_count; i++) {
    const onnx_graph *inner = node->attributes[i].graph;
    for (size_t k = 0; inner && k < inner->node_count; k++)
      visit_uses(&inner->nodes[k], depth + 1, visit, user);
  }
}

static void mark(void *user, int32_t value) {
  ((bool *)user)[value] = true;
}

void record_mark_needed(const onnx_graph *graph, const bool *given, bool *values, bool *needed) {
  for (size_t i = graph->node_count; i-- > 0;) {
    const onnx_node *node = &graph->nodes[i];
    for (size_t k = 0; k < node->output_count; k++) {
      const int32_t at = node->outputs[k];
      needed[i] |= at >= 0 && values[at] && !(given && given[at]);
    }
    if (needed[i]) visit_uses(node, 0, mark, values);
  }
}

typedef struct last_use {
  int64_t *last, node;
} last_use;

static void note(void *user, int32_t value) {
  const last_use *use = user;
  use->last[value] = use->node;
}

typedef struct use_count {
  int32_t value;
  int count;
} use_count;

static void count_use(void *user, int32_t value) {
  use_count *uses = user;
  uses->count += value == uses->value;
}

bool record_is_only_use(const onnx_graph *graph, const onnx_node *node, int32_t value) {
  use_count uses = {.value = value};
  for (size_t i = 0; i < graph->node_count; i++)
    if (&graph->nodes[i] != node) visit_uses(&graph->nodes[i], 0, count_use, &uses);
  for (size_t i = 0; i < graph->output_count; i++) uses.count += graph->outputs[i].value == value;
  return uses.count == 0;
}

static const int64_t *find_last(model_arena *arena, const onnx_graph *graph) {
  int64_t *last = arena_allocate(arena, graph->value_count, sizeof *last);
  if (!last) return NULL;
  for (size_t i = 0; i < graph->value_count; i++) last[i] = -1;
  for (size_t i = 0; i < graph->node_count; i++) {
    last_use use = {last, (int64_t)i};
    visit_uses(&graph->nodes[i], 0, note, &use);
  }
  for (size_t i = 0; i < graph->output_count; i++) last[graph->outputs[i].value] = INT64_MAX;
  return last;
}

typedef struct uses_list {
  graph_uses *uses;
  size_t count, capacity;
} uses_list;

static bool add_graph(model_arena *arena, uses_list *list, const onnx_graph *graph) {
  if (base_grow((void **)&list->uses, &list->capacity, list->count + 1, sizeof *list->uses))
    return false;
  graph_uses *uses = &list->uses[list->count++];
  *uses = (graph_uses){graph, find_last(arena, graph)};
  bool fine = uses->last != NULL;
  for (size_t i = 0; fine && i < graph->node_count; i++)
    for (size_t k = 0; fine && k < graph->nodes[i].attribute_count; k++)
      if (graph->nodes[i].attributes[k].graph)
        fine = add_graph(arena, list, graph->nodes[i].attributes[k].graph);
  return fine;
}

static int by_address(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const graph_uses *)a)->graph;
  const uintptr_t y = (uintptr_t)((const graph_uses *)b)->graph;
  return (x > y) - (x < y);
}

bool record_find_uses(compute_model *model) {
  onnx_file *file = &model->storage->file;
  uses_list list = {0};
  bool fine = add_graph(&file->arena, &list, &file->graph);
  for (size_t i = 0; fine && i < file->function_count; i++)
    fine = add_graph(&file->arena, &list, &file->functions[i].body);
  if (list.count) qsort(list.uses, list.count, sizeof *list.uses, by_address);
  model->uses = list.uses;
  model->uses_count = list.count;
  return fine;
}
