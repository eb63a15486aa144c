/* SPDX-License-Identifier: MIT */
/* Records a network into a graph.
 *
 * A recording walks the layers with shared state: the path for names and messages, and the current
 * values of running statistics. If a layer is applied twice, its statistics are updated twice in
 * sequence and assigned once. */
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "graph/builders/build.h"
#include "ml/nn/layer.h"

/* ---- Weights ------------------------------------------------------------------------------- */

compute_node layer_weight_for(const layer_record *record, compute_node weight, compute_node x) {
  const compute_dtype dtype = compute_node_dtype(record->graph, x);
  if ((dtype != COMPUTE_F16 && dtype != COMPUTE_BF16) ||
      compute_node_dtype(record->graph, weight) != COMPUTE_F32)
    return weight;
  return compute_cast(record->graph, weight, dtype);
}

/* ---- Running statistics -------------------------------------------------------------------- */

static layer_update *find_update(const layer_record *record, compute_node parameter) {
  for (size_t i = 0; i < record->update_count; i++)
    if (record->updates[i].parameter.id == parameter.id) return &record->updates[i];
  return NULL;
}

compute_node layer_current(const layer_record *record, compute_node parameter) {
  const layer_update *update = find_update(record, parameter);
  return update ? update->value : parameter;
}

void layer_update_to(layer_record *record, compute_node parameter, compute_node value) {
  if (record->graph->status) return;
  layer_update *update = find_update(record, parameter);
  if (!update) {
    void *updates = record->updates;
    if (base_grow(&updates, &record->update_capacity, record->update_count + 1,
                  sizeof *record->updates)) {
      graph_fail(record->graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_apply",
                 "not enough memory for running statistics");
      return;
    }
    record->updates = updates;
    update = &record->updates[record->update_count++];
  }
  *update = (layer_update){parameter, value};
}

/* Continues from the assignments of an earlier recording into this graph. */
static void resume_updates(layer_record *record, compute_node updates) {
  compute_graph *graph = record->graph;
  if (updates.id == 0 || updates.graph != graph->serial || updates.id > graph->count) return;
  const graph_node *group = &graph->nodes[updates.id - 1];
  if (group->op != OP_group) return;
  for (uint32_t i = 0; i < group->input_count; i++) {
    const graph_node *assign = &graph->nodes[group->inputs[i]];
    if (assign->op != OP_assign) continue;
    layer_update_to(record, graph_handle(graph, assign->inputs[0]),
                    graph_handle(graph, assign->inputs[1]));
  }
}

static compute_node group_updates(const layer_record *record) {
  if (record->update_count == 0 || record->graph->status) return (compute_node){0};
  compute_node *nodes = base_allocate(record->update_count, sizeof *nodes);
  if (!nodes)
    return graph_fail(record->graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_apply",
                      "not enough memory for running statistics");
  for (size_t i = 0; i < record->update_count; i++)
    nodes[i] =
        compute_assign(record->graph, record->updates[i].parameter, record->updates[i].value);
  const compute_node group = compute_group(record->graph, nodes, record->update_count);
  base_release(nodes);
  return group;
}

/* ---- Layers -------------------------------------------------------------------------------- */

static const char *path_text(const layer_record *record) {
  return record->path.data ? record->path.data : "";
}

/* Adds the layer's name in front of the message of a failed operation. */
static void locate_error(layer_record *record, const compute_layer *layer) {
  compute_graph *graph = record->graph;
  if (!graph->status || record->located) return;
  record->located = true;
  const compute_error e = graph->error;
  const char *path = path_text(record);
  error_record(graph->context, e.status, e.native_code, NULL, e.remedy, __FILE__, __LINE__,
               "layer %s%s%s%s: %s", path, *path ? " (" : "", layer->kind->name, *path ? ")" : "",
               e.message);
  compute_error_get(graph->context, &graph->error);
  memcpy(graph->error.operation, e.operation, sizeof e.operation);
  memcpy(graph->error.source, e.source, sizeof e.source); /* where it was detected */
  error_restore(graph->context, &graph->error);
}

/* Creates the nodes of the layer's own parameters under their dotted names. */
static bool make_nodes(layer_record *record, const compute_layer *layer, compute_node *nodes) {
  const size_t length = record->path.length;
  for (size_t i = 0; i < layer->own_count; i++) {
    text_add(&record->path, "%s%s", length > 0 ? "." : "", layer->own[i].name);
    if (record->path.failed)
      graph_fail(record->graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_apply",
                 "not enough memory for a name");
    else
      nodes[i] = layer_node(record->graph, layer->own[i].tensor, record->path.data);
    record->path.length = length;
    if (record->path.data) record->path.data[length] = '\0';
    if (record->graph->status) return false;
  }
  return true;
}

static compute_node record_layer(layer_record *record, const compute_layer *layer, compute_node x) {
  compute_node few[8], *nodes = few, result = {0};
  if (layer->own_count > sizeof few / sizeof *few) {
    nodes = base_allocate(layer->own_count, sizeof *nodes);
    if (!nodes)
      return graph_fail(record->graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_apply",
                        "not enough memory for %zu nodes", layer->own_count);
  }
  const size_t first = record->graph->count;
  if (make_nodes(record, layer, nodes)) result = layer->kind->apply(layer, record, x, nodes);
  if (record->trace && layer->part_count == 0)
    trace_add(record, layer, path_text(record), first, result);
  if (nodes != few) base_release(nodes);
  return result;
}

compute_node layer_record_part(layer_record *record, const compute_layer *layer, const char *name,
                               compute_node x) {
  compute_graph *graph = record->graph;
  if (graph->status) return (compute_node){0};
  const size_t length = record->path.length;
  compute_node result = {0};
  if (name) text_add(&record->path, "%s%s", length > 0 ? "." : "", name);
  if (record->path.failed)
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_layer_apply",
               "not enough memory for a name");
  else
    result = record_layer(record, layer, x);
  locate_error(record, layer);
  record->path.length = length;
  if (record->path.data) record->path.data[length] = '\0';
  return graph->status ? (compute_node){0} : result;
}

void layer_record_release(layer_record *record) {
  text_release(&record->path);
  base_release(record->updates);
  record->updates = NULL;
}

/* ---- The call ------------------------------------------------------------------------------ */

static bool check_forward(compute_graph *graph, const char *operation,
                          const compute_forward *forward) {
  if (!graph_check_reserved(graph, operation, "forward", forward->reserved)) return false;
  if (forward->precision == COMPUTE_DTYPE_NONE || dtype_is_float(forward->precision)) return true;
  return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation,
                      "forward.precision is %s; it must be a float",
                      compute_dtype_name(forward->precision));
}

compute_node compute_layer_apply(compute_layer *layer, compute_graph *graph, compute_node x,
                                 compute_forward *forward) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "compute_layer_apply";
  if (!graph) {
    error_set(layer ? layer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
              "graph is NULL");
    return (compute_node){0};
  }
  if (graph->status) return (compute_node){0};
  if (!layer) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "layer is NULL");
  if (graph_resolve(graph, x, operation) < 0) return (compute_node){0};
  BUILD_ALL_OR_NOTHING(graph);
  const compute_node before = forward ? forward->updates : (compute_node){0};
  layer_record record = {.graph = graph};
  if (forward) {
    if (!check_forward(graph, operation, forward)) return (compute_node){0};
    record.training = forward->training;
    record.seed = forward->seed;
    record.precision = forward->precision;
    record.group = forward->group;
    resume_updates(&record, before);
  }
  const compute_node result = layer_record_part(&record, layer, NULL, x);
  const compute_node updates = group_updates(&record);
  if (forward && !graph->status) forward->updates = updates;
  layer_record_release(&record);
  return graph->status ? (compute_node){0} : result;
}
