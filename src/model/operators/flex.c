/* SPDX-License-Identifier: MIT */
/* FlexAttention: attention with graphs in the model that change its scores and its weights. */
#include "core/type/shape.h"
#include "model/operators/attention.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* Applies the graph in attribute `name` to x; `finish` gets the outputs. False without a graph. */
static bool modify(model_call *call, const char *name, compute_node x, frame_finish finish,
                   compute_status *status) {
  const onnx_attribute *attribute = call_attribute(call, name);
  if (!attribute || !attribute->graph || compute_graph_status(call->graph)) return false;
  const compute_dtype dtype = compute_node_dtype(call->graph, x);
  model_value value = {.kind = VALUE_TENSOR,
                       .type = onnx_type_of(dtype),
                       .dtype = dtype,
                       .shape = compute_node_shape(call->graph, x),
                       .node = x};
  *status = call_new_value(call, &value);
  if (!*status)
    *status = call_record_graph(call, attribute->graph, (model_value *const[]){&value}, 1, finish,
                                NULL, 0);
  return true;
}

/* The one output of such a graph: a float tensor of rank 4, as the input. */
static compute_status modified(model_call *call, model_value *const *outputs, size_t count,
                               compute_node *x) {
  if (count != 1 || outputs[0]->kind != VALUE_TENSOR || outputs[0]->shape.rank != 4 ||
      !op_is_float(outputs[0]->dtype))
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its graph does not return what it was given");
  *x = call_node(call, outputs[0]);
  return COMPUTE_OK;
}

/* Multiplies weights [batch, heads, queries, keys] by values that groups of heads share. */
static compute_status weigh(model_call *call, compute_node weights) {
  compute_graph *graph = call->graph;
  const compute_shape w = compute_node_shape(graph, weights), v = call_shape(call, 2);
  weights = op_cast(call, weights, call_dtype(call, 0));
  weights = compute_reshape(graph, weights,
                            COMPUTE_SHAPE(shape_at(w, 0), shape_at(v, 1), -1, shape_at(w, 3)));
  return call_output(call, 0,
                     compute_reshape(graph, compute_matmul(graph, weights, call_input(call, 2)),
                                     COMPUTE_SHAPE(shape_at(w, 0), shape_at(w, 1), shape_at(w, 2),
                                                   shape_at(v, 3))));
}

static compute_status finish_weights(model_call *call, const void *state,
                                     model_value *const *outputs, size_t count) {
  compute_node weights;
  (void)state;
  const compute_status status = modified(call, outputs, count, &weights);
  return status ? status : weigh(call, weights);
}

static compute_status use_scores(model_call *call, compute_node scores) {
  compute_status status;
  const compute_node weights = compute_softmax(call->graph, scores, -1);
  return modify(call, "prob_mod", weights, finish_weights, &status) ? status : weigh(call, weights);
}

static compute_status finish_scores(model_call *call, const void *state,
                                    model_value *const *outputs, size_t count) {
  compute_node scores;
  (void)state;
  const compute_status status = modified(call, outputs, count, &scores);
  return status ? status : use_scores(call, scores);
}

static compute_status flex_attention_rule(model_call *call) {
  const bool plain = !call_attribute(call, "score_mod") && !call_attribute(call, "prob_mod");
  const int32_t precision = (int32_t)call_attribute_i(call, "softmax_precision", ONNX_UNDEFINED);
  const attention a = {.q = call_input(call, 0),
                       .k = call_input(call, 1),
                       .v = call_input(call, 2),
                       .scale = call_attribute_f(call, "scale", 0),
                       .precision = onnx_dtype(precision),
                       .stage = plain ? ATTENTION_NOTHING : ATTENTION_PRODUCTS};
  compute_node y, scores;
  compute_status status = attention_run(call, &a, &y, &scores);
  if (status || plain) return status ? status : call_output(call, 0, y);
  compute_dtype dtype = op_wide_dtype(call_dtype(call, 0));
  if (precision != ONNX_UNDEFINED) dtype = onnx_dtype(precision);
  scores = op_cast(call, scores, dtype);
  return modify(call, "score_mod", scores, finish_scores, &status) ? status
                                                                   : use_scores(call, scores);
}

static const operator_row rows[] = {
    {"ai.onnx.preview", "FlexAttention", 1, flex_attention_rule},
};

const operator_family operators_flex = OPERATOR_FAMILY(rows);
