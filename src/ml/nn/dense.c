/* SPDX-License-Identifier: MIT */
/* Layers with one weight matrix: dense and embedding. */
#include "graph/builders/build.h"
#include "ml/nn/layer.h"

static compute_node apply_dense(const compute_layer *layer, layer_record *record, compute_node x,
                                const compute_node *parameters) {
  compute_graph *graph = record->graph;
  const compute_node weight = layer_weight_for(record, parameters[0], x);
  const compute_node y =
      compute_matmul(graph, x, compute_transpose(graph, weight, COMPUTE_ALL_AXES));
  if (layer->own_count == 1) return y;
  return compute_add(graph, y, layer_weight_for(record, parameters[1], x));
}

static const layer_kind dense = {"dense", apply_dense};

compute_layer *compute_dense(compute_device *device, int64_t inputs, int64_t outputs,
                             const compute_weights_options *given) {
  if (IS_INHERITED(device, context)) return NULL;
  static const char operation[] = "compute_dense";
  if (layer_check_device(device, operation)) return NULL;
  compute_context *context = compute_device_context(device);
  compute_weights_options o;
  if (layer_check_size(context, operation, "inputs", inputs) ||
      layer_check_size(context, operation, "outputs", outputs) ||
      layer_check_weights(context, operation, "options", given, &o)) {
    return NULL;
  }
  compute_layer *layer = layer_create(&dense, operation, context);
  if (!layer) return NULL;
  const layer_wish weight = {.name = "weight",
                             .dtype = o.dtype,
                             .shape = COMPUTE_SHAPE(outputs, inputs),
                             .fan_in = inputs,
                             .fan_out = outputs};
  const layer_wish bias = {.name = "bias",
                           .dtype = o.dtype,
                           .shape = COMPUTE_SHAPE(outputs),
                           .role = ROLE_BIAS,
                           .fan_in = inputs};
  compute_status status = layer_add(layer, operation, device, &weight);
  if (!status && !o.no_bias) status = layer_add(layer, operation, device, &bias);
  return layer_finish(layer, operation, status, o.initializer, o.seed);
}

/* ---- Embedding ----------------------------------------------------------------------------- */

/* The embedding selects rows of a table. Its integer input cannot determine the precision of the
 * following layers. */

static compute_node apply_embedding(const compute_layer *layer, layer_record *record,
                                    compute_node x, const compute_node *parameters) {
  static const graph_call call = {"embedding", "index", "indices", "weight"};
  (void)layer;
  const size_t first = record->graph->count;
  const compute_node rows = compute_gather(record->graph, parameters[0], x, 0);
  const bool converts = record->precision != COMPUTE_DTYPE_NONE && !record->graph->status &&
                        compute_node_dtype(record->graph, rows) != record->precision;
  const compute_node result =
      converts ? compute_cast(record->graph, rows, record->precision) : rows;
  build_origin(record->graph, first, &(graph_origin){&call, result.id - 1, x.id - 1});
  return result;
}

static const layer_kind embedding = {"embedding", apply_embedding};

compute_layer *compute_embedding(compute_device *device, int64_t count, int64_t width,
                                 const compute_weights_options *given) {
  if (IS_INHERITED(device, context)) return NULL;
  static const char operation[] = "compute_embedding";
  if (layer_check_device(device, operation)) return NULL;
  compute_context *context = compute_device_context(device);
  compute_weights_options o;
  if (layer_check_size(context, operation, "count", count) ||
      layer_check_size(context, operation, "width", width) ||
      layer_check_weights(context, operation, "options", given, &o)) {
    return NULL;
  }
  compute_layer *layer = layer_create(&embedding, operation, context);
  if (!layer) return NULL;
  const layer_wish weight = {.name = "weight",
                             .dtype = o.dtype,
                             .shape = COMPUTE_SHAPE(count, width),
                             .role = ROLE_EMBEDDING,
                             .fan_in = width,
                             .fan_out = count};
  const compute_status status = layer_add(layer, operation, device, &weight);
  return layer_finish(layer, operation, status, o.initializer, o.seed);
}
