/* SPDX-License-Identifier: MIT */
/* Records a part of a model into a caller's graph. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "graph/node/graph.h"
#include "model/stage.h"

static const char operation_record[] = "compute_model_record";

static int32_t find_name(const onnx_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->value_count; i++)
    if (strcmp(graph->values[i], name) == 0) return (int32_t)i;
  return -1;
}

static compute_status unknown_name(const model_recorder *recorder, const char *name) {
  return error_set(recorder->model->context, COMPUTE_ERROR_INVALID_ARGUMENT, recorder->operation,
                   "the model has no value '%s'", name);
}

/* Stores the caller's nodes as the values of inputs. */
static compute_status place_inputs(model_recorder *recorder, model_frame *frame,
                                   const compute_model_value *inputs, size_t count, bool *given) {
  for (size_t i = 0; i < count; i++) {
    if (!inputs[i].name)
      return error_set(recorder->model->context, COMPUTE_ERROR_NULL_POINTER, recorder->operation,
                       "inputs[%zu] lacks its name", i);
    const int32_t at = find_name(frame->graph, inputs[i].name);
    if (at < 0) return unknown_name(recorder, inputs[i].name);
    if (given[at])
      return error_set(recorder->model->context, COMPUTE_ERROR_BINDING, recorder->operation,
                       "'%s' is given twice as an input", inputs[i].name);
    const compute_dtype dtype = compute_node_dtype(recorder->graph, inputs[i].node);
    if (dtype == COMPUTE_DTYPE_NONE)
      return error_set(recorder->model->context, COMPUTE_ERROR_WRONG_GRAPH, recorder->operation,
                       "inputs[%zu], '%s', is not a node of the graph", i, inputs[i].name);
    given[at] = true;
    frame->values[at] = (model_value){.kind = VALUE_TENSOR,
                                      .id = recorder->next_id++,
                                      .dtype = dtype,
                                      .type = onnx_type_of(dtype),
                                      .shape = compute_node_shape(recorder->graph, inputs[i].node),
                                      .node = inputs[i].node,
                                      .name = frame->values[at].name};
  }
  return COMPUTE_OK;
}

/* Marks the nodes that the outputs need. Reports required model inputs that the caller did not
 * give. */
static compute_status find_part(model_recorder *recorder, model_frame *frame, const bool *given,
                                const compute_model_value *outputs, size_t count) {
  const onnx_graph *graph = frame->graph;
  bool *values = arena_allocate(recorder->arena, graph->value_count, sizeof *values);
  bool *needed = arena_allocate(recorder->arena, graph->node_count, sizeof *needed);
  if (!values || !needed)
    return error_set(recorder->model->context, COMPUTE_ERROR_OUT_OF_MEMORY, recorder->operation,
                     "out of memory");
  for (size_t i = 0; i < count; i++) {
    if (!outputs[i].name)
      return error_set(recorder->model->context, COMPUTE_ERROR_NULL_POINTER, recorder->operation,
                       "outputs[%zu] lacks its name", i);
    const int32_t at = find_name(graph, outputs[i].name);
    if (at < 0) return unknown_name(recorder, outputs[i].name);
    values[at] = !given[at];
  }
  record_mark_needed(graph, given, values, needed);
  for (size_t i = 0; i < graph->input_count; i++) {
    const int32_t at = graph->inputs[i].value;
    if (values[at] && frame->values[at].kind == VALUE_ABSENT)
      return error_set(recorder->model->context, COMPUTE_ERROR_BINDING, recorder->operation,
                       "input '%s' is required, but is not among the inputs",
                       graph->inputs[i].name);
  }
  frame->needed = needed;
  frame->given = given;
  return COMPUTE_OK;
}

static compute_status take_outputs(model_recorder *recorder, model_frame *frame,
                                   compute_model_value *outputs, size_t count) {
  compute_node *nodes = arena_allocate(recorder->arena, count, sizeof *nodes);
  if (!nodes) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    model_value *value = &frame->values[find_name(frame->graph, outputs[i].name)];
    if (value->kind != VALUE_TENSOR || value->type == ONNX_STRING)
      return error_set(recorder->model->context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                       "'%s' is not a tensor of numbers", outputs[i].name);
    nodes[i] = record_node(recorder, value);
    if (!compute_node_is_valid(nodes[i]))
      return compute_graph_status(recorder->graph) ? compute_graph_status(recorder->graph)
                                                   : COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < count; i++) outputs[i].node = nodes[i];
  return COMPUTE_OK;
}

static compute_status needs_values(const model_recorder *recorder) {
  const model_frame *frame = recorder->top;
  const onnx_node *node = frame->next < frame->graph->node_count
                              ? &frame->graph->nodes[frame->next]
                              : &frame->caller->graph->nodes[frame->caller->next];
  return error_set(recorder->model->context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                   "node '%s' (%s) depends on values that are known only at run time",
                   node->name[0] || !node->output_count ? node->name : node->output_names[0],
                   node->type);
}

static compute_status record_part(model_recorder *recorder, const compute_model_value *inputs,
                                  size_t input_count, compute_model_value *outputs,
                                  size_t output_count) {
  model_frame *frame;
  compute_status status = record_push(recorder, model_graph(recorder->model), &frame);
  if (status) return status;
  bool *given = arena_allocate(recorder->arena, frame->graph->value_count, sizeof *given);
  if (!given)
    return error_set(recorder->model->context, COMPUTE_ERROR_OUT_OF_MEMORY, recorder->operation,
                     "out of memory");
  status = place_inputs(recorder, frame, inputs, input_count, given);
  if (!status) status = find_part(recorder, frame, given, outputs, output_count);
  stage_end end = STAGE_ENDS;
  if (!status) status = record_run(recorder, &end);
  if (!status && end != STAGE_ENDS) status = needs_values(recorder);
  return status ? status : take_outputs(recorder, frame, outputs, output_count);
}

compute_status record_into(compute_model *model, const char *operation, compute_graph *graph,
                           const compute_model_value *inputs, size_t input_count,
                           compute_model_value *outputs, size_t output_count, bool training) {
  model_arena arena = {0};
  model_recorder recorder = {
      .model = model, .operation = operation, .graph = graph, .arena = &arena};
  const size_t nodes_before = graph->count;
  pthread_mutex_lock(&model->recording);
  if (training) stage_expose(model);
  recorder.training = model->exposed;
  const compute_status status = record_part(&recorder, inputs, input_count, outputs, output_count);
  pthread_mutex_unlock(&model->recording);
  if (status) {
    compute_graph_clear_error(graph);
    graph_truncate(graph, nodes_before);
  }
  base_release(recorder.inputs.slots);
  base_release(recorder.weights.slots);
  base_release(recorder.asked);
  arena_release(&arena);
  return status;
}

compute_status compute_model_record(compute_model *model, compute_graph *graph,
                                    const compute_model_value *inputs, size_t input_count,
                                    compute_model_value *outputs, size_t output_count) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  compute_status status =
      error_if_null(model ? model->context : NULL, operation_record, model, graph, outputs);
  if (!status && input_count) status = error_if_null(model->context, operation_record, inputs);
  if (!status) status = compute_graph_status(graph);
  if (status) return status;
  if (compute_graph_context(graph) != model->context)
    return error_set(model->context, COMPUTE_ERROR_WRONG_CONTEXT, operation_record,
                     "the graph belongs to another context");
  return record_into(model, operation_record, graph, inputs, input_count, outputs, output_count,
                     true);
}
