/* The parameters of a network: listed, counted, as nodes of a graph. */
#include "base/error.h"
#include "graph/build/build.h"
#include "nn/layer.h"
#include "type/shape.h"

compute_status compute_layer_parameter_at(const compute_layer *layer, size_t index,
                                          compute_layer_parameter *parameter) {
  static const char operation[] = "compute_layer_parameter_at";
  if (layer == NULL || parameter == NULL)
    return error_set(layer ? layer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s: %s is NULL", operation, layer ? "parameter" : "layer");
  if (index >= layer->all_count)
    return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%s: there is no parameter %zu; the layer has %zu", operation, index,
                     layer->all_count);
  *parameter = layer->all[index];
  return COMPUTE_OK;
}

size_t compute_layer_parameter_count(const compute_layer *layer) {
  return layer ? layer->all_count : 0;
}

int64_t compute_layer_element_count(const compute_layer *layer, bool trainable_only) {
  int64_t count = 0;
  for (size_t i = 0; layer != NULL && i < layer->all_count; i++) {
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
  static const char operation[] = "compute_layer_nodes";
  BUILD_ALL_OR_NOTHING(graph);
  size_t count = 0;
  if (layer == NULL || (graph == NULL && capacity > 0) || (nodes == NULL && capacity > 0)) {
    const char *which = layer == NULL ? "layer" : graph == NULL ? "graph" : "nodes";
    if (graph != NULL)
      graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", which);
    else
      error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s: %s is NULL", operation, which);
    capacity = 0;
  }
  for (size_t i = 0; layer != NULL && i < layer->all_count; i++) {
    const compute_layer_parameter *p = &layer->all[i];
    if (!p->trainable) continue;
    if (count < capacity) nodes[count] = layer_node(graph, p->tensor, p->name);
    count++;
  }
  for (size_t i = 0; graph != NULL && graph->status && i < capacity && i < count; i++)
    nodes[i] = (compute_node){0};
  return count;
}
