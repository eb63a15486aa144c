/* SPDX-License-Identifier: MIT */
/* Walks the nodes of a model and calls each operator's rule to record them. Graphs within nodes
 * (branches, loop bodies, functions) are frames on a list. Without recursion, recording can stop
 * at any node and continue there in another graph. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "model/evaluate.h"
#include "model/model.h"

/* ---- Frames -------------------------------------------------------------------------------- */

static model_value absent = {.kind = VALUE_ABSENT, .id = -1};

static model_value *find_value(model_frame *frame, onnx_reference reference) {
  if (reference.index < 0) return &absent;
  for (int32_t level = reference.level; level > 0 && frame; level--) frame = frame->caller;
  return frame ? &frame->values[reference.index] : &absent;
}

/* ---- One node ------------------------------------------------------------------------------ */

static int64_t opset_of(const onnx_opset *opsets, size_t count, const char *domain) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(opsets[i].domain, domain) == 0) return opsets[i].version;
  return 1;
}

static int64_t version_of(const model_recorder *recorder, const model_frame *frame,
                          const char *domain) {
  while (frame && !frame->function) frame = frame->caller;
  const onnx_file *file = &recorder->model->storage->file;
  return frame ? opset_of(frame->function->opsets, frame->function->opset_count, domain)
               : opset_of(file->opsets, file->opset_count, domain);
}

static const compute_model_operator *custom_operator(const compute_model *model,
                                                     const onnx_node *node) {
  for (size_t i = 0; i < model->options.operator_count; i++)
    if (strcmp(model->operators[i].domain, node->domain) == 0 &&
        strcmp(model->operators[i].name, node->type) == 0)
      return &model->operators[i];
  return NULL;
}

/* Makes the call for the frame's current node, in the recording's memory. */
static compute_status make_call(model_recorder *recorder, model_frame *frame, model_call *call) {
  const onnx_node *node = &frame->graph->nodes[frame->next];
  *call = (model_call){.recorder = recorder,
                       .graph = recorder->graph,
                       .node = node,
                       .frame = frame,
                       .input_count = node->input_count,
                       .output_count = node->output_count,
                       .version = version_of(recorder, frame, node->domain)};
  model_value **inputs = call_allocate(call, node->input_count, sizeof *inputs);
  call->outputs = call_allocate(call, node->output_count, sizeof *call->outputs);
  if (!inputs || !call->outputs) return call_out_of_memory(call);
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = find_value(frame, node->inputs[i]);
  call->inputs = inputs;
  return COMPUTE_OK;
}

static compute_status finish_function(model_call *call, const void *state,
                                      model_value *const *outputs, size_t count) {
  (void)state;
  for (size_t i = 0; i < count && i < call->output_count; i++) call->outputs[i] = *outputs[i];
  return COMPUTE_OK;
}

static compute_status call_function(model_call *call) {
  const onnx_function *function = call->node->function;
  model_value **inputs = call_allocate(call, function->body.input_count, sizeof *inputs);
  if (!inputs) return call_out_of_memory(call);
  for (size_t i = 0; i < function->body.input_count; i++)
    inputs[i] = i < call->input_count ? call->inputs[i] : &absent;
  const compute_status status = call_record_graph(
      call, &function->body, inputs, function->body.input_count, finish_function, NULL, 0);
  if (!status) call->recorder->top->function = function;
  return status;
}

/* Positions of labels that are texts (operators/ml.h). */
static bool is_labels(const model_value *value) {
  return value->kind == VALUE_TENSOR && value->type == ONNX_LABEL;
}

static bool is_texts(const model_value *value) {
  return value->kind == VALUE_TENSOR && value->type == ONNX_STRING;
}

/* As numbers, positions of labels would give wrong results. Lists of two nodes may differ. */
static compute_status check_labels(const model_call *call) {
  const bool ours = !custom_operator(call->recorder->model, call->node);
  for (size_t i = 0; i < call->input_count; i++)
    if (is_labels(call->inputs[i]) && !(i == 0 && ours && labels_pass(call->node)))
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                       "its input %zu has labels that are texts, which may only be moved", i);
  return COMPUTE_OK;
}

/* Texts are numbers in a list (call/text.h): operators of numbers would give wrong results. */
static compute_status check_texts(const model_call *call) {
  const bool ours = !custom_operator(call->recorder->model, call->node);
  size_t texts = 0, others = 0;
  for (size_t i = 0; i < call->input_count; i++) {
    const bool passes = ours && texts_pass(call->node, i);
    if (is_texts(call->inputs[i]) && !passes)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its input %zu has texts", i);
    texts += is_texts(call->inputs[i]);
    others += passes && call->inputs[i]->kind == VALUE_TENSOR && !is_texts(call->inputs[i]);
  }
  if (texts > 0 && others > 0 && texts_move(call->node))
    return call_fail(call, COMPUTE_ERROR_DTYPE, "its inputs are texts and numbers");
  return COMPUTE_OK;
}

/* The outputs of a node that moves texts have texts. */
static void keep_texts(const model_call *call) {
  bool texts = false;
  for (size_t i = 0; i < call->input_count; i++) texts |= is_texts(call->inputs[i]);
  if (!texts || !texts_move(call->node)) return;
  for (size_t i = 0; i < call->output_count; i++)
    if (call->outputs[i].kind == VALUE_TENSOR && call->outputs[i].dtype == COMPUTE_I64)
      call->outputs[i].type = ONNX_STRING;
}

static compute_status apply_rule(model_call *call, bool *custom) {
  const compute_model_operator *own = custom_operator(call->recorder->model, call->node);
  *custom = own != NULL;
  compute_status refused = check_labels(call);
  if (!refused) refused = check_texts(call);
  if (refused) return refused;
  if (own) return own->record(own->user, call);
  if (call->node->function) return call_function(call);
  const model_rule rule = operator_find(call->node->domain, call->node->type, call->version);
  if (!rule)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                     "there is no such operator in version %" PRId64 " of its domain",
                     call->version);
  compute_status status = operator_check_inputs(call);
  bool done = false;
  if (!status && evaluate_can(call)) status = evaluate_now(call, rule, &done);
  return status || done ? status : rule(call);
}

/* Converts a builder's error into an error of the node. */
static compute_status graph_error(model_call *call) {
  const compute_status status = compute_graph_status(call->graph);
  if (!status) return COMPUTE_OK;
  compute_error error;
  compute_error_get(call->recorder->model->context, &error);
  compute_graph_clear_error(call->graph);
  return call_fail(call, status, "%s", error.message);
}

static bool is_ours(const model_recorder *recorder, const model_value *value) {
  return compute_node_is_valid(value->node) && value->id < 0 && !value->host && recorder->graph;
}

/* Gives a node the name of its value, for runtime errors and compute_explain. Parameters already
 * have names. */
static void give_name(model_recorder *recorder, const model_value *value) {
  if (value->name && value->name[0] && !compute_parameter_tensor(recorder->graph, value->node))
    compute_name(recorder->graph, value->node, value->name);
}

static void give_id(model_recorder *recorder, model_value *value) {
  if (value->kind == VALUE_TENSOR && is_ours(recorder, value)) {
    value->id = recorder->next_id++;
    give_name(recorder, value);
  }
  model_value *items =
      (model_value *)(uintptr_t)value->items; /* the rule made them for this value */
  for (size_t i = 0; i < value->item_count; i++)
    if (is_ours(recorder, &items[i])) items[i].id = recorder->next_id++;
}

/* Writes a call's outputs to its frame and advances to the next node. */
static compute_status commit(model_call *call) {
  model_recorder *recorder = call->recorder;
  model_frame *frame = call->frame;
  const onnx_node *node = call->node;
  keep_texts(call);
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] < 0 || (frame->given && frame->given[node->outputs[i]])) continue;
    model_value *value = &frame->values[node->outputs[i]];
    if (call->outputs[i].kind == VALUE_ABSENT &&
        record_last_use(recorder->model, frame->graph, node->outputs[i]) >= 0)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "output %zu, '%s', is not computed here", i,
                       node->output_names[i]);
    if (is_labels(&call->outputs[i]) && frame->caller)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED,
                       "labels that are texts in a function, a branch or a loop");
    const char *name = value->name;
    *value = call->outputs[i];
    value->name = name;
    give_id(recorder, value);
  }
  frame->next++;
  return COMPUTE_OK;
}

/* Handles the status of a rule or a frame_finish: commits, waits for values, or fails. */
static compute_status handle_status(model_call *call, compute_status status) {
  model_recorder *recorder = call->recorder;
  if (recorder->refused.status) {
    compute_graph_clear_error(call->graph);
    error_restore(recorder->model->context, &recorder->refused);
    return recorder->refused.status;
  }
  if (status) return status;
  status = graph_error(call);
  if (status || recorder->pushed || recorder->function || recorder->loop) return status;
  return commit(call);
}

static void begin_call(model_recorder *recorder) {
  recorder->pushed = false;
  recorder->function = NULL;
  recorder->asked_count = 0;
  recorder->refused.status = COMPUTE_OK;
}

static bool is_constant(const onnx_node *node) {
  return strcmp(node->type, "Constant") == 0 && !node->domain[0] && node->output_count == 1;
}

/* Uses a constant's tensor in place. */
static compute_status record_constant(model_call *call) {
  const onnx_attribute *value = call_attribute(call, "value");
  return record_tensor(call->recorder, value->tensor, &call->outputs[0]);
}

static compute_status record_one(model_recorder *recorder, model_frame *frame, bool *asks) {
  model_call call;
  compute_status status = make_call(recorder, frame, &call);
  if (status) return status;
  held_values held = {0};
  call.held = &held;
  begin_call(recorder);
  const onnx_attribute *value = call_attribute(&call, "value");
  bool custom = false;
  if (is_constant(call.node) && value && value->tensor)
    status = record_constant(&call);
  else
    status = apply_rule(&call, &custom);
  if (status == CALL_NEEDS_VALUES && recorder->asked_count > 0) {
    *asks = true;
    return graph_error(&call);
  }
  if (status && custom) {
    const compute_status graph_status = graph_error(&call);
    status = graph_status ? graph_status : status;
  }
  status = handle_status(&call, status);
  if (recorder->pushed && !status) recorder->top->held = held; /* until the node is done */
  *asks = !status && (recorder->function || recorder->loop);
  return status;
}

/* The top frame has no more nodes. Passes its outputs to the node that pushed it. */
static compute_status finish_frame(model_recorder *recorder, bool *asks) {
  model_frame *done = recorder->top, *caller = done->caller;
  model_call call;
  compute_status status = make_call(recorder, caller, &call);
  if (status) return status;
  const onnx_graph *graph = done->graph;
  model_value **outputs = call_allocate(&call, graph->output_count, sizeof *outputs);
  if (!outputs) return call_out_of_memory(&call);
  for (size_t i = 0; i < graph->output_count; i++)
    outputs[i] = &done->values[graph->outputs[i].value];
  held_values held = done->held;
  call.held = &held;
  recorder->top = caller;
  begin_call(recorder);
  status = done->finish(&call, done->state, outputs, graph->output_count);
  if (status == CALL_NEEDS_VALUES && recorder->asked_count > 0) {
    recorder->top = done; /* finish runs again when the values are known */
    *asks = true;
    return graph_error(&call);
  }
  status = handle_status(&call, status);
  if (recorder->pushed && !status) recorder->top->held = held;
  return status;
}

static bool is_over(const model_recorder *recorder) {
  return recorder->top->next >= recorder->top->graph->node_count;
}

/* Functions and loops repeat nodes and nest, so a short file may expand without bound. This
 * limit is reached within a second. */
static compute_status count_node(model_recorder *recorder) {
  enum { MOST_REPEATED = 1 << 17 };
  const uint64_t most = recorder->model->storage->file.nodes + MOST_REPEATED;
  if (recorder->nodes++ < most) return COMPUTE_OK;
  return error_set(recorder->model->context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                   "with its functions and loops the model has more than %" PRIu64 " nodes", most);
}

static compute_status record_next(model_recorder *recorder, bool *asks) {
  model_frame *frame = recorder->top;
  const compute_status status = count_node(recorder);
  if (status) return status;
  if (is_over(recorder)) return finish_frame(recorder, asks);
  if (!frame->needed || frame->needed[frame->next]) return record_one(recorder, frame, asks);
  frame->next++;
  return COMPUTE_OK;
}

compute_status record_run(model_recorder *recorder, stage_end *end) {
  bool asks = false;
  compute_status status = COMPUTE_OK;
  while (!status && !asks && !(is_over(recorder) && !recorder->top->caller))
    status = record_next(recorder, &asks);
  *end = !asks ? STAGE_ENDS : recorder->function || recorder->loop ? STAGE_HOST : STAGE_VALUES;
  return status;
}

compute_status record_body(model_recorder *recorder, const model_frame *body, bool *complete) {
  bool asks = false;
  compute_status status = COMPUTE_OK;
  while (!status && !asks && !(is_over(recorder) && recorder->top == body))
    status = record_next(recorder, &asks);
  *complete = !asks;
  return status;
}
