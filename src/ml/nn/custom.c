/* SPDX-License-Identifier: MIT */
/* Layers with a function and parameters from the caller. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "ml/nn/layer.h"
#include "core/type/dtype.h"
#include "core/tensor/tensor.h"

static compute_node apply(const compute_layer *layer, layer_record *record, compute_node x,
                          const compute_node *parameters) {
  compute_graph *graph = record->graph;
  const compute_node y =
      layer->as.custom.apply(layer->as.custom.user, graph, x, parameters, record->training);
  if (graph->status) return (compute_node){0};
  if (graph_resolve(graph, y, layer->kind->name) < 0) return (compute_node){0};
  return y;
}

static compute_status check_parameters(const char *operation, compute_tensor *const *parameters,
                                       const char *const *names, size_t count) {
  if (count > 0 && (!parameters || !names))
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     parameters ? "names" : "parameters");
  for (size_t i = 0; i < count; i++) {
    if (!parameters[i] || !names[i])
      return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s[%zu] is NULL",
                       parameters[i] ? "names" : "parameters", i);
    compute_context *context = compute_device_context(compute_tensor_device(parameters[i]));
    if (context != compute_device_context(compute_tensor_device(parameters[0])))
      return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                       "\"%s\" belongs to another context than \"%s\"", names[i], names[0]);
    if (names[i][0] == '\0' || strchr(names[i], '.'))
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "\"%s\" is not a valid name; names have at least one character and no dot",
                       names[i]);
    if (!dtype_is_float(compute_tensor_dtype(parameters[i])))
      return error_set(context, COMPUTE_ERROR_DTYPE, operation,
                       "\"%s\" is %s; trainable tensors must be f64, f32, f16 or bf16", names[i],
                       compute_dtype_name(compute_tensor_dtype(parameters[i])));
    if (compute_tensor_is_frozen(parameters[i]))
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "\"%s\" is frozen, and cannot be trained", names[i]);
    if (parameters[i]->read_only)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "\"%s\" is a broadcast view, which is read-only", names[i]);
    for (size_t k = 0; k < i; k++) {
      if (parameters[k] == parameters[i] || strcmp(names[k], names[i]) == 0)
        return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                         "parameters %zu and %zu have one %s", k, i,
                         parameters[k] == parameters[i] ? "tensor" : "name");
    }
  }
  return COMPUTE_OK;
}

/* Creates the layer and its own kind. The name follows the kind in the same allocation. */
static compute_layer *create(const char *operation, const char *name, compute_context *context) {
  const size_t length = strlen(name) + 1;
  layer_kind *kind = base_allocate(1, sizeof *kind + length);
  if (!kind) {
    error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "not enough memory for a layer");
    return NULL;
  }
  char *copy = (char *)(kind + 1);
  memcpy(copy, name, length);
  *kind = (layer_kind){copy, apply};
  compute_layer *layer = layer_create(kind, operation, context);
  if (!layer) {
    base_release(kind);
    return NULL;
  }
  layer->own_kind = kind;
  return layer;
}

compute_layer *compute_custom_layer(const char *name, compute_layer_function function, void *user,
                                    compute_tensor *const *parameters, const char *const *names,
                                    size_t count) {
  static const char operation[] = "compute_custom_layer";
  if (!name || !function) {
    error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", name ? "apply" : "name");
    return NULL;
  }
  if (check_parameters(operation, parameters, names, count)) return NULL;
  compute_context *context =
      count > 0 ? compute_device_context(compute_tensor_device(parameters[0])) : NULL;
  compute_layer *layer = create(operation, name, context);
  if (!layer) return NULL;
  layer->as.custom.apply = function;
  layer->as.custom.user = user;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < count; i++)
    status = layer_adopt(layer, operation, names[i], parameters[i]);
  return layer_finish(layer, operation, status, COMPUTE_INIT_DEFAULT, 0);
}
