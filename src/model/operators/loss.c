/* SPDX-License-Identifier: MIT */
/* Losses for classifiers. */
#include "model/operators/operators.h"

#include <string.h>

#include "core/type/shape.h"
#include "model/operators/op.h"

typedef struct class_loss {
  model_call *call;
  compute_graph *graph;
  compute_shape labels_shape;
  compute_node chosen;  /* [n, 1, …]: the labels; 0 for an ignored label */
  compute_node counted; /* [n, 1, …]: bool; {0} if no label is ignored */
} class_loss;

static void read_labels(class_loss *l) {
  model_call *call = l->call;
  compute_shape shape = {.rank = l->labels_shape.rank + 1,
                         .size = {shape_at(l->labels_shape, 0), 1}};
  for (int32_t i = 2; i < shape.rank; i++) shape_set(&shape, i, shape_at(l->labels_shape, i - 1));
  l->chosen = compute_reshape(l->graph, op_cast(call, call_input(call, 1), COMPUTE_I64), shape);
  if (!call_attribute(call, "ignore_index")) return;
  const compute_node ignored =
      compute_scalar_i64(l->graph, COMPUTE_I64, call_attribute_i(call, "ignore_index", 0));
  l->counted = compute_not_equal(l->graph, l->chosen, ignored);
  l->chosen =
      compute_select(l->graph, l->counted, l->chosen, compute_scalar_i64(l->graph, COMPUTE_I64, 0));
}

/* The weight of each label, in the labels' shape with an axis of classes; {0} if all are 1. */
static compute_node weights_of_labels(const class_loss *l, compute_dtype dtype) {
  model_call *call = l->call;
  compute_graph *graph = l->graph;
  compute_node weights = {0};
  if (call_has(call, 2))
    weights = compute_gather(graph, op_cast(call, call_input(call, 2), dtype), l->chosen, 0);
  if (!compute_node_is_valid(l->counted)) return weights;
  if (!compute_node_is_valid(weights)) return compute_cast(graph, l->counted, dtype);
  return compute_select(graph, l->counted, weights, call_scalar_like(call, weights, 0));
}

/* `logs` [n, classes, …] are logarithms of probabilities. */
static compute_status reduce_loss(model_call *call, compute_node logs) {
  compute_graph *graph = call->graph;
  class_loss l = {.call = call, .graph = graph, .labels_shape = call_shape(call, 1)};
  const compute_shape shape = compute_node_shape(graph, logs);
  const compute_dtype dtype = call_dtype(call, 0);
  const char *reduction = call_attribute_s(call, "reduction", "mean");
  const bool sum = strcmp(reduction, "sum") == 0, mean = strcmp(reduction, "mean") == 0;
  if (shape.rank < 2 || l.labels_shape.rank != shape.rank - 1 ||
      shape_at(l.labels_shape, 0) != shape_at(shape, 0) ||
      (!sum && !mean && strcmp(reduction, "none") != 0))
    return call_fail(call, COMPUTE_ERROR_SHAPE,
                     "scores and labels do not match, or reduction is '%s'", reduction);
  read_labels(&l);
  const compute_dtype wide = op_wide_dtype(dtype);
  const compute_node weights = weights_of_labels(&l, wide);
  compute_node loss = compute_gather_elements(graph, logs, l.chosen, 1);
  loss = compute_neg(graph, op_cast(call, loss, wide));
  if (compute_node_is_valid(weights)) loss = compute_mul(graph, loss, weights);
  if (mean && !compute_node_is_valid(weights))
    loss = compute_mean(graph, loss, COMPUTE_ALL_AXES, false);
  else if (mean || sum)
    loss = compute_sum(graph, loss, COMPUTE_ALL_AXES, false);
  else
    loss = compute_reshape(graph, loss, l.labels_shape);
  if (mean && compute_node_is_valid(weights))
    loss = compute_div(graph, loss, compute_sum(graph, weights, COMPUTE_ALL_AXES, false));
  return call_output(call, 0, op_cast(call, loss, dtype));
}

static compute_status negative_log_likelihood(model_call *call) {
  return reduce_loss(call, call_input(call, 0));
}

/* Returns true if the node equals the library's own loss, which has a dedicated kernel. */
static bool is_plain(const model_call *call) {
  const compute_dtype labels = call_dtype(call, 1);
  return call_shape(call, 0).rank == 2 && call_shape(call, 1).rank == 1 && !call_has(call, 2) &&
         !call_attribute(call, "ignore_index") && !call_wants(call, 1) &&
         (labels == COMPUTE_I32 || labels == COMPUTE_I64) &&
         strcmp(call_attribute_s(call, "reduction", "mean"), "mean") == 0;
}

static compute_status softmax_cross_entropy(model_call *call) {
  const compute_node scores = call_input(call, 0);
  if (is_plain(call))
    return call_output(call, 0, compute_cross_entropy(call->graph, scores, call_input(call, 1)));
  const compute_node logs = compute_log_softmax(call->graph, scores, 1);
  call_output(call, 1, logs);
  return reduce_loss(call, logs);
}

static const operator_row rows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, negative_log_likelihood},
    {"", "SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy},
};

const operator_family operators_loss = OPERATOR_FAMILY(rows);
