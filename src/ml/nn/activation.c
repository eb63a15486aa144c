/* SPDX-License-Identifier: MIT */
/* Activations, flatten and identity: layers without weights. */
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/type/shape.h"
#include "ml/nn/layer.h"

static compute_node leaky_relu(compute_graph *graph, compute_node x) {
  return compute_leaky_relu(graph, x, 0.01);
}

static compute_node elu(compute_graph *graph, compute_node x) {
  return compute_elu(graph, x, 1);
}

static compute_node softmax(compute_graph *graph, compute_node x) {
  return compute_softmax(graph, x, -1);
}

static compute_node apply(const compute_layer *layer, layer_record *record, compute_node x,
                          const compute_node *parameters);

/* Each activation has its own kind, so that summaries and errors can name it. */
typedef struct activation {
  layer_kind kind;
  compute_node (*function)(compute_graph *graph, compute_node x);
} activation;

static const activation activations[] = {
    [COMPUTE_RELU] = {{"relu", apply}, compute_relu},
    [COMPUTE_GELU] = {{"gelu", apply}, compute_gelu},
    [COMPUTE_GELU_TANH] = {{"gelu_tanh", apply}, compute_gelu_tanh},
    [COMPUTE_SILU] = {{"silu", apply}, compute_silu},
    [COMPUTE_SIGMOID] = {{"sigmoid", apply}, compute_sigmoid},
    [COMPUTE_TANH] = {{"tanh", apply}, compute_tanh},
    [COMPUTE_SOFTPLUS] = {{"softplus", apply}, compute_softplus},
    [COMPUTE_LEAKY_RELU] = {{"leaky_relu", apply}, leaky_relu},
    [COMPUTE_ELU] = {{"elu", apply}, elu},
    [COMPUTE_SOFTMAX] = {{"softmax", apply}, softmax},
};

static compute_node apply(const compute_layer *layer, layer_record *record, compute_node x,
                          const compute_node *parameters) {
  (void)parameters;
  return activations[layer->as.activation].function(record->graph, x);
}

compute_layer *compute_activation(compute_activation_kind kind) {
  static const char operation[] = "compute_activation";
  if ((int)kind < 0 || (size_t)kind >= sizeof activations / sizeof *activations) {
    error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid activation %d", (int)kind);
    return NULL;
  }
  compute_layer *layer = layer_create(&activations[kind].kind, operation, NULL);
  if (layer) layer->as.activation = kind;
  return layer;
}

/* ---- Flatten ------------------------------------------------------------------------------- */

static compute_node apply_flatten(const compute_layer *layer, layer_record *record, compute_node x,
                                  const compute_node *parameters) {
  (void)layer;
  (void)parameters;
  const compute_shape shape = compute_node_shape(record->graph, x);
  if (shape.rank < 1)
    return graph_fail(record->graph, COMPUTE_ERROR_SHAPE, "flatten",
                      "x is a scalar; it needs a batch axis");
  /* The product is computed here because −1 would be ambiguous for an empty batch. */
  int64_t product = 1;
  for (int32_t i = 1; i < shape.rank; i++) {
    if (!checked_multiply(product, shape_at(shape, i), &product))
      return graph_fail(record->graph, COMPUTE_ERROR_OVERFLOW, "flatten",
                        "the number of elements of x exceeds 63 bits");
  }
  return compute_reshape(record->graph, x, COMPUTE_SHAPE(shape_at(shape, 0), product));
}

static const layer_kind flatten = {"flatten", apply_flatten};

compute_layer *compute_flatten(void) {
  return layer_create(&flatten, "compute_flatten", NULL);
}

/* ---- Identity ------------------------------------------------------------------------------ */

static compute_node apply_identity(const compute_layer *layer, layer_record *record, compute_node x,
                                   const compute_node *parameters) {
  (void)layer;
  (void)record;
  (void)parameters;
  return x;
}

static const layer_kind identity = {"identity", apply_identity};

compute_layer *compute_identity(void) {
  return layer_create(&identity, "compute_identity", NULL);
}
