/* SPDX-License-Identifier: MIT */
#include "model/evaluate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "model/model.h"

/* Largest element count of an input or output. Shapes have a few elements, tables of positions
 * some thousands. */
#define LARGEST 65536

static int64_t count_of(compute_shape shape) {
  int64_t count = 0;
  return compute_shape_count(shape, &count) ? INT64_MAX : count;
}

/* Named floats of the file are weights. They may change, so values computed from them are not
 * known. */
static bool is_weight(const compute_model *model, const model_value *value) {
  return value->tensor && value->tensor->name[0] &&
         (value->dtype == COMPUTE_F32 || value->dtype == COMPUTE_F64 ||
          value->dtype == COMPUTE_F16 || value->dtype == COMPUTE_BF16) &&
         (value->tensor->count > 1 || model->exposed);
}

static bool is_random(const char *type) {
  static const char *const names[] = {"Bernoulli", "Dropout", "Multinomial", "RandomNormalLike",
                                      "RandomUniformLike"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], type) == 0) return true;
  return false;
}

bool evaluate_can(const model_call *call) {
  bool any = false;
  for (size_t i = 0; i < call->input_count; i++) {
    const model_value *value = call->inputs[i];
    if (value->kind == VALUE_ABSENT) continue;
    if (value->kind != VALUE_TENSOR || !value->host || is_weight(call->recorder->model, value))
      return false;
    if (count_of(value->shape) > LARGEST) return false;
    any = true;
  }
  return any && !is_random(call->node->type) && call->recorder->model->context->cpu;
}

/* Copies `call` into another graph. The copy's inputs have no nodes yet. */
static compute_status copy_call(const model_call *call, compute_graph *graph,
                                model_recorder *recorder, model_call *copy) {
  *recorder = (model_recorder){.model = call->recorder->model,
                               .operation = call->recorder->operation,
                               .graph = graph,
                               .arena = call->recorder->arena,
                               .top = call->recorder->top};
  *copy = *call;
  copy->recorder = recorder;
  copy->graph = graph;
  model_value *values = call_allocate(copy, call->input_count, sizeof *values);
  model_value **inputs = call_allocate(copy, call->input_count, sizeof *inputs);
  copy->outputs = call_allocate(copy, call->output_count, sizeof *copy->outputs);
  if (!values || !inputs || !copy->outputs) return call_out_of_memory(copy);
  for (size_t i = 0; i < call->input_count; i++) {
    values[i] = *call->inputs[i];
    values[i].node = (compute_node){0};
    values[i].tensor = NULL; /* a constant of any size */
    inputs[i] = &values[i];
  }
  copy->inputs = inputs;
  return COMPUTE_OK;
}

static compute_status read_output(model_call *call, const model_call *copy, size_t i,
                                  const compute_tensor *tensor) {
  const model_value *from = &copy->outputs[i];
  const size_t bytes = (size_t)count_of(from->shape) * compute_dtype_size(from->dtype);
  void *data = call_allocate(call, bytes, 1);
  if (!data) return call_out_of_memory(call);
  call->outputs[i] = *from;
  call->outputs[i].node = (compute_node){0};
  call->outputs[i].host = data;
  return bytes ? compute_tensor_read(tensor, data, bytes) : COMPUTE_OK;
}

/* Computes the outputs that are nodes with a plan. */
static compute_status run_outputs(model_call *call, const model_call *copy) {
  compute_node *nodes = call_allocate(call, copy->output_count, sizeof *nodes);
  size_t *places = call_allocate(call, copy->output_count, sizeof *places), count = 0;
  compute_binding *bindings = call_allocate(call, copy->output_count, sizeof *bindings);
  if (!nodes || !places || !bindings) return call_out_of_memory(call);
  for (size_t i = 0; i < copy->output_count; i++) {
    if (!compute_node_is_valid(copy->outputs[i].node)) {
      call->outputs[i] = copy->outputs[i]; /* already known */
      continue;
    }
    nodes[count] = copy->outputs[i].node;
    places[count++] = i;
  }
  if (count == 0) return COMPUTE_OK;
  compute_device *cpu = call->recorder->model->context->cpu;
  compute_plan *plan = NULL;
  compute_status status =
      compute_compile(copy->graph, nodes, count, &(compute_plan_options){.device = cpu}, &plan);
  size_t made = 0;
  for (; !status && made < count; made++) {
    bindings[made].node = nodes[made];
    status = compute_plan_create_tensor(plan, nodes[made], &bindings[made].tensor);
  }
  if (!status) status = compute_run(plan, bindings, count, NULL);
  for (size_t i = 0; !status && i < count; i++)
    status = read_output(call, copy, places[i], bindings[i].tensor);
  for (size_t i = 0; i < made; i++) compute_tensor_release(bindings[i].tensor);
  compute_plan_release(plan);
  return status;
}

/* Converts a run's error into an error of the node. */
static compute_status name_error(model_call *call, compute_status status) {
  compute_error error;
  compute_error_get(call->recorder->model->context, &error);
  return call_fail(call, status, "%s", error.message);
}

static bool is_small(const model_call *copy) {
  for (size_t i = 0; i < copy->output_count; i++) {
    if (copy->outputs[i].kind != VALUE_TENSOR && copy->outputs[i].kind != VALUE_ABSENT)
      return false;
    if (count_of(copy->outputs[i].shape) > LARGEST) return false;
  }
  return true;
}

compute_status evaluate_now(model_call *call, model_rule rule, bool *done) {
  *done = false;
  compute_graph *graph = compute_graph_create(call->recorder->model->context);
  if (!graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  model_recorder recorder;
  model_call copy;
  held_values held = {0}; /* an abandoned rule must not add to the call's kept values */
  compute_status status = copy_call(call, graph, &recorder, &copy);
  copy.held = &held;
  model_recorder *const ours = call->recorder;
  if (!status) {
    status = rule(&copy);
    const bool ends = !status && !compute_graph_status(graph) && !recorder.pushed &&
                      !recorder.refused.status && !recorder.function && is_small(&copy);
    /* An error here occurs again in the model's graph and gets its message there. */
    if (status != COMPUTE_ERROR_OUT_OF_MEMORY) status = COMPUTE_OK;
    if (!status && ends) {
      status = run_outputs(call, &copy);
      if (status) status = name_error(call, status);
      *done = true;
    }
  }
  call->recorder = ours;
  base_release(recorder.inputs.slots);
  base_release(recorder.weights.slots);
  base_release(recorder.asked);
  compute_graph_release(graph);
  return status;
}
