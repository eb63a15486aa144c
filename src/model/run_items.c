/* SPDX-License-Identifier: MIT */
/* Ports that are not one tensor of numbers: items become tensors before a run, and tensors become
 * items after it. Texts are numbers in the run's list (call/text.h). */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/process.h"
#include "model/run.h"

static const char operation[] = "compute_model_run";

static const char *kind_name(uint32_t kind) {
  if (kind & COMPUTE_MODEL_OPTIONAL) return "an optional";
  if (kind & COMPUTE_MODEL_SEQUENCE) return "a sequence";
  return kind & COMPUTE_MODEL_TEXT ? "text" : "a tensor";
}

/* ---- Inputs ------------------------------------------------------------------------------------ */

/* Makes the i64 tensor that stands for texts. The run owns it. */
static compute_status number_texts(model_run *run, const compute_model_item *item,
                                   compute_tensor **tensor) {
  const size_t count = compute_model_item_count(item);
  int64_t *numbers = base_allocate(count, sizeof *numbers);
  if (!numbers || base_grow((void **)&run->texts, &run->text_capacity, run->text_count + 1,
                            sizeof *run->texts)) {
    base_release(numbers);
    return run_no_memory(run);
  }
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < count; i++) {
    const char *text = compute_model_item_text(item, i);
    status = texts_add(&run->list, text, strlen(text), &numbers[i]);
  }
  if (status) status = run_no_memory(run);
  if (!status)
    status = compute_tensor_from_host(model_device(run->model), COMPUTE_I64,
                                      compute_model_item_shape(item), numbers, tensor);
  if (!status) run->texts[run->text_count++] = *tensor;
  base_release(numbers);
  return status;
}

/* The tensor of an item that is a tensor or texts. */
static compute_status take_tensor(model_run *run, const onnx_value_info *port,
                                  const compute_model_item *item, compute_tensor **tensor) {
  const bool text = (compute_model_item_kind(item) & COMPUTE_MODEL_TEXT) != 0;
  *tensor = compute_model_item_tensor(item);
  if (!text && compute_device_context(compute_tensor_device(*tensor)) != run->model->context)
    return error_set(run->model->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "input '%s' belongs to another context", port->name);
  const compute_status status =
      run_check_input(run, port, text ? COMPUTE_DTYPE_NONE : compute_tensor_dtype(*tensor),
                      compute_model_item_shape(item));
  return status || !text ? status : number_texts(run, item, tensor);
}

/* Appends the tensors of a sequence, or of an optional that holds a tensor. */
static compute_status take_items(model_run *run, size_t at, const compute_model_item *list) {
  const size_t count = compute_model_item_count(list);
  if (base_grow((void **)&run->items, &run->item_capacity, run->item_count + count,
                sizeof *run->items))
    return run_no_memory(run);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < count; i++)
    status = take_tensor(run, &model_graph(run->model)->inputs[at], compute_model_item_at(list, i),
                         &run->items[run->item_count + i]);
  if (status) return status;
  run->item_count += count;
  run->counts[at] = count;
  return COMPUTE_OK;
}

static compute_status bind_item(model_run *run, size_t at, const compute_model_item *item) {
  const onnx_value_info *port = &model_graph(run->model)->inputs[at];
  const uint32_t kind = compute_model_item_kind(item);
  const uint32_t list = COMPUTE_MODEL_SEQUENCE | COMPUTE_MODEL_OPTIONAL;
  const bool optional = port->kind == ONNX_IS_OPTIONAL, unknown = port->kind == ONNX_IS_UNKNOWN;
  const bool empty = kind == COMPUTE_MODEL_OPTIONAL && compute_model_item_count(item) == 0;
  const bool sequence = (kind & COMPUTE_MODEL_SEQUENCE) != 0;
  if (port->kind == ONNX_IS_OTHER || (kind & COMPUTE_MODEL_OPTIONAL && !optional && !unknown) ||
      (sequence != port->sequence && !unknown && !empty))
    return error_set(run->model->context, COMPUTE_ERROR_DTYPE, operation,
                     "input '%s' is %s, not %s", port->name,
                     port->kind == ONNX_IS_OTHER ? "a map, or nested more deeply"
                     : optional                  ? "an optional"
                     : port->sequence            ? "a sequence"
                                                 : "a tensor",
                     kind_name(kind));
  run->kinds[at] = kind;
  if (!(kind & list)) {
    compute_tensor *tensor;
    const compute_status status = take_tensor(run, port, item, &tensor);
    if (!status) run->inputs[at] = run->table[at] = tensor;
    return status;
  }
  const bool nested = (kind & list) == list;
  return take_items(run, at, nested ? compute_model_item_at(item, 0) : item);
}

/* The items of inputs lie in the order of the inputs, which the caller need not keep. */
compute_status run_bind_items(model_run *run, const compute_model_argument *inputs, size_t count) {
  const onnx_graph *graph = model_graph(run->model);
  const compute_context *context = run->model->context;
  const compute_model_item **items = base_allocate(graph->input_count, sizeof *items);
  compute_status status = items ? COMPUTE_OK : run_no_memory(run);
  for (size_t i = 0; !status && i < count; i++) {
    size_t at = 0;
    if (!inputs[i].name || !inputs[i].item)
      status = error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "inputs[%zu] lacks its %s",
                         i, inputs[i].name ? "item" : "name");
    if (!status) status = run_find_input(run, inputs[i].name, &at);
    if (!status && items[at])
      status = error_set(context, COMPUTE_ERROR_BINDING, operation, "input '%s' is bound twice",
                         inputs[i].name);
    if (!status) items[at] = inputs[i].item;
  }
  for (size_t i = 0; !status && i < graph->input_count; i++)
    if (items[i]) status = bind_item(run, i, items[i]);
  base_release(items);
  if (!status) status = run_check_bound(run);
  const size_t first = (size_t)model_first_id(run->model);
  if (!status && base_grow((void **)&run->table, &run->table_capacity, first + run->item_count,
                           sizeof *run->table))
    status = run_no_memory(run);
  if (status) return status;
  run->table_count = first + run->item_count;
  for (size_t i = 0; i < run->item_count; i++)
    run->table[first + i] = compute_tensor_retain(run->items[i]);
  return COMPUTE_OK;
}

/* ---- Outputs ----------------------------------------------------------------------------------- */

compute_status run_check_results(const model_run *run, const model_stage *stage) {
  const onnx_graph *graph = model_graph(run->model);
  for (size_t i = 0; !run->arguments && i < graph->output_count; i++)
    if (stage->results[i].wanted && stage->results[i].kind)
      return error_set(run->model->context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "output '%s' is %s, which compute_model_run_items gives",
                       graph->outputs[i].name, kind_name(stage->results[i].kind));
  return COMPUTE_OK;
}

/* The texts that a tensor's numbers stand for: of the model or the run, or labels of the output. */
static compute_status text_item(model_run *run, size_t output, bool labels,
                                const compute_tensor *tensor, compute_model_item **item) {
  const size_t count = (size_t)compute_tensor_count(tensor);
  int64_t *numbers = base_allocate(count, sizeof *numbers), unused;
  const char **texts = base_allocate(count, sizeof *texts);
  compute_status status = numbers && texts ? COMPUTE_OK : run_no_memory(run);
  if (!status && count) status = compute_tensor_read(tensor, numbers, count * sizeof *numbers);
  for (size_t i = 0; !status && i < count; i++) {
    if (!labels)
      texts[i] = texts_find(run->model, &run->list, numbers[i]);
    else
      status = compute_model_label_at(run->model, output, (size_t)numbers[i], &texts[i], &unused);
  }
  if (!status) status = compute_model_item_from_texts(compute_tensor_shape(tensor), texts, item);
  if (status == COMPUTE_ERROR_INVALID_ARGUMENT)
    status = error_set(run->model->context, COMPUTE_ERROR_FORMAT, operation,
                       "output '%s' has a text that is not UTF-8",
                       model_graph(run->model)->outputs[output].name);
  base_release(numbers);
  base_release(texts);
  return status;
}

static compute_status tensor_item(model_run *run, size_t output, const stage_result *result,
                                  compute_tensor *tensor, compute_model_item **item) {
  const bool labels = result->labels && compute_model_label_count(run->model, output) > 0;
  return labels || result->kind & COMPUTE_MODEL_TEXT ? text_item(run, output, labels, tensor, item)
                                                     : compute_model_item_from_tensor(tensor, item);
}

static compute_status sequence_item(model_run *run, size_t output, const stage_result *result,
                                    compute_model_item **item) {
  compute_status status = compute_model_item_sequence(item);
  for (size_t i = 0; !status && i < result->count; i++) {
    compute_model_item *one = NULL;
    status = tensor_item(run, output, result, run->table[result->slots[i].id], &one);
    if (!status) status = compute_model_item_append(*item, one);
    compute_model_item_release(one);
  }
  return status;
}

/* Wraps *item into an optional. */
static compute_status wrap(compute_model_item **item) {
  compute_model_item *held = *item;
  *item = NULL;
  const compute_status status = compute_model_item_optional(held, item);
  compute_model_item_release(held);
  return status;
}

static compute_status result_item(model_run *run, size_t output, const stage_result *result,
                                  compute_model_item **item) {
  const bool declared = model_graph(run->model)->outputs[output].kind == ONNX_IS_OPTIONAL;
  const bool optional = declared || (result->kind & COMPUTE_MODEL_OPTIONAL) != 0;
  compute_status status = COMPUTE_OK;
  if (result->kind & COMPUTE_MODEL_SEQUENCE)
    status = sequence_item(run, output, result, item);
  else if (result->count > 0)
    status = tensor_item(run, output, result, run->table[result->slots[0].id], item);
  return status || !optional ? status : wrap(item);
}

compute_status run_take_items(model_run *run, const model_stage *stage) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < model_graph(run->model)->output_count; i++)
    if (stage->results[i].wanted)
      status = result_item(run, i, &stage->results[i], &run->arguments[run->places[i]].item);
  return status == COMPUTE_ERROR_OUT_OF_MEMORY ? run_no_memory(run) : status;
}
