/* SPDX-License-Identifier: MIT */
/* Batch iterators that run a model. The file describes one item; the builder records the model
 * for as many items as the iterator requests. */
#include <string.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "graph/node/graph.h"
#include "model/model.h"

static const char operation[] = "compute_model_batch";

/* The required input number `index`; NULL past the end. */
static const onnx_value_info *input_at(const compute_model *model, size_t index) {
  const onnx_graph *graph = model_graph(model);
  for (size_t i = 0; i < graph->input_count; i++)
    if (!graph->inputs[i].has_default && index-- == 0) return &graph->inputs[i];
  return NULL;
}

static size_t input_count(const compute_model *model) {
  size_t count = 0;
  while (input_at(model, count)) count++;
  return count;
}

/* ---- The item ------------------------------------------------------------------------------- */

static compute_status check_item(const compute_model *model, const onnx_value_info *info,
                                 const compute_batch_port *port) {
  if (onnx_dtype(info->type) != port->dtype && info->type != ONNX_UNDEFINED)
    return error_set(model->context, COMPUTE_ERROR_DTYPE, operation, "input '%s' is %s, not %s",
                     info->name, onnx_type_name(info->type), compute_dtype_name(port->dtype));
  bool fits = info->rank < 0 || info->rank == port->item.rank + 1;
  for (int32_t i = 1; fits && i < info->rank; i++)
    fits = info->size[i] < 0 || info->size[i] == port->item.size[i - 1];
  return fits ? COMPUTE_OK
              : error_set(model->context, COMPUTE_ERROR_SHAPE, operation,
                          "the items of input '%s' do not match the file", info->name);
}

/* The item of an input or output. Returns false if the file does not specify it completely. */
static bool item_of(const onnx_value_info *info, compute_batch_port *port) {
  *port = (compute_batch_port){onnx_dtype(info->type), {.rank = info->rank - 1}};
  bool known = info->kind == ONNX_IS_TENSOR && port->dtype != COMPUTE_DTYPE_NONE &&
               info->rank > 0 && info->rank <= COMPUTE_MAX_RANK;
  for (int32_t i = 1; known && i < info->rank; i++) {
    port->item.size[i - 1] = info->size[i];
    known = info->size[i] >= 0;
  }
  return known;
}

static compute_status take_inputs(const compute_model *model, compute_batch_options *options,
                                  compute_batch_port *ports) {
  const bool given = options->inputs != NULL;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < options->input_count; i++) {
    const onnx_value_info *info = input_at(model, i);
    if (info->kind == ONNX_IS_TENSOR && info->rank == 0)
      status = error_set(model->context, COMPUTE_ERROR_SHAPE, operation,
                         "input '%s' has no axis for the items", info->name);
    else if (given)
      status = check_item(model, info, &options->inputs[i]);
    else if (!item_of(info, &ports[i]))
      status =
          error_set_native(model->context, COMPUTE_ERROR_SHAPE, 0, operation, "give options.inputs",
                           "the file leaves the shape of an item of input '%s' open", info->name);
  }
  if (!given) options->inputs = ports;
  return status;
}

/* If the file specifies all outputs, the iterator needs no recording to find them. */
static void take_outputs(const compute_model *model, compute_batch_options *options,
                         compute_batch_port *ports) {
  const onnx_graph *graph = model_graph(model);
  bool known = true;
  for (size_t i = 0; known && i < options->output_count; i++)
    known = item_of(&graph->outputs[i], &ports[i]);
  if (known && !options->outputs) options->outputs = ports;
}

/* A model for single items gets single items. */
static compute_status take_batch(const compute_model *model, compute_batch_options *options) {
  for (size_t i = 0; i < options->input_count; i++) {
    const onnx_value_info *info = input_at(model, i);
    if (info->kind != ONNX_IS_TENSOR || info->rank < 1 || info->size[0] < 0) continue;
    if (info->size[0] != 1 || options->batch > 1)
      return error_set(model->context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "input '%s' accepts exactly %lld items at a time", info->name,
                       (long long)info->size[0]);
    options->batch = 1;
  }
  return COMPUTE_OK;
}

/* ---- The work -------------------------------------------------------------------------------- */

static void record_items(void *user, compute_graph *graph, int64_t items,
                         const compute_node *inputs, compute_node *outputs) {
  (void)items;
  compute_model *model = user;
  const onnx_graph *main = model_graph(model);
  compute_model_value in[COMPUTE_BATCH_MAX_PORTS], out[COMPUTE_BATCH_MAX_PORTS];
  const size_t in_count = input_count(model), out_count = main->output_count;
  for (size_t i = 0; i < in_count; i++)
    in[i] = (compute_model_value){input_at(model, i)->name, inputs[i]};
  for (size_t i = 0; i < out_count; i++) out[i] = (compute_model_value){main->outputs[i].name, {0}};
  const compute_status status =
      record_into(model, operation, graph, in, in_count, out, out_count, false);
  for (size_t i = 0; !status && i < out_count; i++) outputs[i] = out[i].node;
  if (!status) return;
  compute_error error;
  compute_error_get(model->context, &error);
  graph_fail(graph, status, operation, "%s", error.message);
}

static compute_status check(const compute_model *model, const compute_batch_options *options) {
  const compute_context *context = model->context;
  const size_t inputs = input_count(model), outputs = model_graph(model)->output_count;
  if (options->build || options->step || options->user)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the model defines the work: build, step and user must be NULL");
  if (inputs > COMPUTE_BATCH_MAX_PORTS || outputs > COMPUTE_BATCH_MAX_PORTS)
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation,
                     "the model has %zu inputs and %zu outputs, more than %d", inputs, outputs,
                     COMPUTE_BATCH_MAX_PORTS);
  if ((options->inputs && options->input_count != inputs) ||
      (options->outputs && options->output_count != outputs))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the model has %zu inputs and %zu outputs", inputs, outputs);
  return COMPUTE_OK;
}

compute_status compute_model_batch(compute_model *model, const compute_batch_options *options,
                                   compute_batch **batch) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  compute_batch_port inputs[COMPUTE_BATCH_MAX_PORTS], outputs[COMPUTE_BATCH_MAX_PORTS];
  compute_batch_options own = options ? *options : (compute_batch_options){0};
  compute_status status = error_if_null(model ? model->context : NULL, operation, model, batch);
  if (!status) status = check(model, &own);
  if (status) return status;
  own.build = record_items;
  own.user = model;
  own.input_count = input_count(model);
  own.output_count = model_graph(model)->output_count;
  if (!own.name) own.name = model_graph(model)->name;
  if (!own.devices && !(own.flags & COMPUTE_BATCH_ALL_DEVICES) && model->options.device) {
    own.devices = &model->options.device;
    own.device_count = 1;
  }
  status = take_inputs(model, &own, inputs);
  if (!status) status = take_batch(model, &own);
  if (status) return status;
  take_outputs(model, &own, outputs);
  return compute_batch_create(model->context, &own, batch);
}
