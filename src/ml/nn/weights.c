/* SPDX-License-Identifier: MIT */
/* The parameters of a network as a list, as nodes of a graph, and as a file of named tensors.
 *
 * If two layers share a tensor, the file contains it under both names, as in PyTorch's state_dict.
 * One of the names is sufficient to load it. */
#include "compute/io.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "io/tensor_file.h"
#include "ml/nn/layer.h"

static compute_status check_call(const compute_layer *layer, const char *path,
                                 const char *operation) {
  if (layer && path) return COMPUTE_OK;
  return error_set(layer ? layer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                   "%s is NULL", layer ? "path" : "layer");
}

static compute_status no_memory(const compute_layer *layer, const char *operation) {
  return error_set(layer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for the list of parameters");
}

compute_status compute_layer_save(const compute_layer *layer, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(layer, context);
  static const char operation[] = "compute_layer_save";
  compute_status status = check_call(layer, path, operation);
  if (status) return status;
  const size_t count = layer->all_count + layer->alias_count;
  compute_named_tensor *tensors = base_allocate(count, sizeof *tensors);
  if (!tensors) return no_memory(layer, operation);
  for (size_t i = 0; i < layer->all_count; i++)
    tensors[i] = (compute_named_tensor){layer->all[i].name, layer->all[i].tensor};
  for (size_t i = 0; i < layer->alias_count; i++)
    tensors[layer->all_count + i] =
        (compute_named_tensor){layer->aliases[i].name, layer->aliases[i].tensor};
  status = compute_tensor_file_write(layer->context, path, tensors, count);
  base_release(tensors);
  return status;
}

static compute_status load(const compute_layer *layer, restore *restoring) {
  restoring->count = layer->all_count + layer->alias_count;
  restoring->entries = base_allocate(restoring->count, sizeof *restoring->entries);
  if (!restoring->entries) return no_memory(layer, restoring->operation);
  for (size_t i = 0; i < restoring->count; i++) {
    const bool alias = i >= layer->all_count;
    const compute_layer_parameter *p =
        alias ? &layer->aliases[i - layer->all_count] : &layer->all[i];
    restoring->entries[i] = (restore_entry){.name = p->name, .tensor = p->tensor};
  }
  const compute_status status = restore_read(restoring);
  return status ? status : restore_put(restoring);
}

compute_status compute_layer_load(compute_layer *layer, const char *path, uint32_t flags) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(layer, context);
  static const char operation[] = "compute_layer_load";
  compute_status status = check_call(layer, path, operation);
  if (status) return status;
  if (flags & ~(uint32_t)(COMPUTE_WEIGHTS_ALLOW_MISSING | COMPUTE_WEIGHTS_ALLOW_EXTRA)) {
    return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "unknown flags 0x%x", (unsigned)flags);
  }
  restore restoring = {
      .context = layer->context,
      .operation = operation,
      .path = path,
      .owner = "the layer",
      .missing_remedy = "COMPUTE_WEIGHTS_ALLOW_MISSING keeps parameters that are not in the file",
      .extra_remedy = "COMPUTE_WEIGHTS_ALLOW_EXTRA ignores tensors that are not in the layer",
      .allow_missing = (flags & COMPUTE_WEIGHTS_ALLOW_MISSING) != 0,
      .allow_extra = (flags & COMPUTE_WEIGHTS_ALLOW_EXTRA) != 0,
  };
  status = load(layer, &restoring);
  restore_close(&restoring);
  base_release(restoring.entries);
  return status;
}

/* ---- Listed, counted, as nodes of a graph -------------------------------------------------- */

compute_status compute_layer_parameter_at(const compute_layer *layer, size_t index,
                                          compute_layer_parameter *parameter) {
  REFUSE_INHERITED(layer, context);
  static const char operation[] = "compute_layer_parameter_at";
  if (!layer || !parameter)
    return error_set(layer ? layer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", layer ? "parameter" : "layer");
  if (index >= layer->all_count)
    return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "parameter %zu does not exist; the layer has %zu", index, layer->all_count);
  *parameter = layer->all[index];
  return COMPUTE_OK;
}

size_t compute_layer_parameter_count(const compute_layer *layer) {
  return layer ? layer->all_count : 0;
}

int64_t compute_layer_element_count(const compute_layer *layer, bool trainable_only) {
  int64_t count = 0;
  for (size_t i = 0; layer && i < layer->all_count; i++) {
    if (layer->all[i].trainable || !trainable_only)
      count += compute_tensor_count(layer->all[i].tensor);
  }
  return count;
}

compute_node layer_node(compute_graph *graph, compute_tensor *tensor, const char *name) {
  if (graph->status) return (compute_node){0};
  for (size_t i = 0; i < graph->count; i++) {
    const graph_node *node = &graph->nodes[i];
    if (node->op == OP_parameter && node->tensor == tensor) return graph_handle(graph, i);
  }
  return compute_name(graph, compute_parameter(graph, tensor), name);
}

size_t compute_layer_nodes(const compute_layer *layer, compute_graph *graph, compute_node *nodes,
                           size_t capacity) {
  if (IS_INHERITED(layer, context)) return 0;
  static const char operation[] = "compute_layer_nodes";
  BUILD_ALL_OR_NOTHING(graph);
  size_t count = 0;
  if (!layer || (!graph && capacity > 0) || (!nodes && capacity > 0)) {
    const char *which = !layer ? "layer" : !graph ? "graph" : "nodes";
    if (graph)
      graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", which);
    else
      error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", which);
    capacity = 0;
  }
  for (size_t i = 0; layer && i < layer->all_count; i++) {
    const compute_layer_parameter *p = &layer->all[i];
    if (!p->trainable) continue;
    if (count < capacity) nodes[count] = layer_node(graph, p->tensor, p->name);
    count++;
  }
  for (size_t i = 0; graph && graph->status && i < capacity && i < count; i++)
    nodes[i] = (compute_node){0};
  return count;
}
