/* SPDX-License-Identifier: MIT */
/* Values of a recording: their nodes in the recorded graph, and the frames that contain them. */
#include <stdint.h>
#include <string.h>

#include "compute/call.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "model/model.h"

/* ---- Values -------------------------------------------------------------------------------- */

static bool is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F32 || dtype == COMPUTE_F64 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

static compute_status no_memory(const model_recorder *recorder) {
  return error_set(recorder->model->context, COMPUTE_ERROR_OUT_OF_MEMORY, recorder->operation,
                   "out of memory");
}

compute_status record_tensor(model_recorder *recorder, const onnx_tensor *tensor,
                             model_value *value) {
  const compute_context *context = recorder->model->context;
  *value = (model_value){.kind = VALUE_TENSOR,
                         .type = tensor->type,
                         .shape = tensor->shape,
                         .dtype = onnx_dtype(tensor->type),
                         .id = -1,
                         .tensor = tensor,
                         .name = tensor->name};
  if (tensor->rank < 0)
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                     "tensor '%s' has more than %d dimensions", tensor->name, COMPUTE_MAX_RANK);
  if (tensor->type == ONNX_STRING) {
    value->tensor = NULL; /* its elements are not the file's */
    value->dtype = COMPUTE_I64;
    value->host = texts_of_file(recorder->model, tensor->strings, (size_t)tensor->count);
    return value->host ? COMPUTE_OK : no_memory(recorder);
  }
  if (value->dtype == COMPUTE_DTYPE_NONE)
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                     "tensor '%s' has elements of type %s, which is not supported", tensor->name,
                     onnx_type_name(tensor->type));
  value->host = tensor->data ? tensor->data : recorder; /* no elements: any pointer except NULL */
  return COMPUTE_OK;
}

bool record_align(model_recorder *recorder, model_value *value) {
  const size_t size = compute_dtype_size(value->dtype);
  if (value->kind != VALUE_TENSOR || !value->host || (uintptr_t)value->host % size == 0)
    return true;
  if (value->tensor && value->host == value->tensor->data) {
    const void *elements = weight_elements(recorder->model, value->tensor);
    if (elements) value->host = elements;
    return elements != NULL;
  }
  int64_t count;
  if (compute_shape_count(value->shape, &count)) return false;
  void *aligned = arena_allocate(recorder->arena, (size_t)count, size);
  if (!aligned) return false;
  memcpy(aligned, value->host, (size_t)count * size);
  value->host = aligned;
  return true;
}

bool record_integer(compute_dtype dtype, const void *data, size_t at, int64_t *value) {
  switch (dtype) {
  case COMPUTE_I64:
  case COMPUTE_U64: *value = ((const int64_t *)data)[at]; return true;
  case COMPUTE_I32: *value = ((const int32_t *)data)[at]; return true;
  case COMPUTE_U32: *value = ((const uint32_t *)data)[at]; return true;
  case COMPUTE_I16: *value = ((const int16_t *)data)[at]; return true;
  case COMPUTE_U16: *value = ((const uint16_t *)data)[at]; return true;
  case COMPUTE_I8: *value = ((const int8_t *)data)[at]; return true;
  case COMPUTE_U8:
  case COMPUTE_BOOL: *value = ((const uint8_t *)data)[at]; return true;
  default: return false;
  }
}

static stage_slot *add_slot(slot_list *list) {
  if (base_grow((void **)&list->slots, &list->capacity, list->count + 1, sizeof *list->slots))
    return NULL;
  return &list->slots[list->count++];
}

static compute_node input_node(model_recorder *recorder, model_value *value) {
  for (size_t i = 0; i < recorder->inputs.count; i++)
    if (recorder->inputs.slots[i].id == value->id) return recorder->inputs.slots[i].node;
  stage_slot *slot = add_slot(&recorder->inputs);
  if (!slot) {
    no_memory(recorder);
    return (compute_node){0};
  }
  const compute_node node = compute_input(recorder->graph, value->dtype, value->shape);
  *slot = (stage_slot){value->id, node, value->dtype, value->shape, 0};
  return node;
}

/* Floats are trained. A single number is a constant unless the recording is for training. */
static bool is_parameter(const model_recorder *recorder, const model_value *value) {
  const onnx_tensor *tensor = value->tensor;
  if (!tensor || !tensor->name[0]) return tensor && tensor->count > 4096;
  return is_float(value->dtype) ? recorder->training || tensor->count > 1 : tensor->count > 4096;
}

static compute_node weight_node(model_recorder *recorder, const model_value *value) {
  const slot_list *weights = &recorder->weights;
  const int64_t id = (int64_t)(intptr_t)value->tensor;
  weight_entry *entry = weight_find_or_make(recorder->model, recorder->operation, value->tensor);
  if (!entry) return (compute_node){0};
  if (entry->slot < weights->count && weights->slots[entry->slot].id == id)
    return weights->slots[entry->slot].node;
  stage_slot *slot = add_slot(&recorder->weights);
  if (!slot) {
    no_memory(recorder);
    return (compute_node){0};
  }
  entry->slot = weights->count - 1;
  slot->id = id;
  slot->node = compute_parameter(recorder->graph, entry->on_device);
  if (value->tensor->name[0]) compute_name(recorder->graph, slot->node, value->tensor->name);
  return slot->node;
}

compute_node record_node(model_recorder *recorder, model_value *value) {
  if (value->kind != VALUE_TENSOR) return (compute_node){0};
  if (compute_node_is_valid(value->node)) return value->node;
  if (is_parameter(recorder, value))
    value->node = weight_node(recorder, value);
  else if (value->host)
    value->node = compute_constant(recorder->graph, value->dtype, value->shape, value->host);
  else
    value->node = input_node(recorder, value);
  if (!compute_node_is_valid(value->node)) record_refuse(recorder);
  return value->node;
}

static compute_status draw_seed(void *user, const compute_call_arguments *arguments, int32_t part,
                                int32_t parts) {
  (void)user, (void)part, (void)parts;
  const uint64_t seed = random_fresh();
  memcpy(arguments->outputs[0].data, &seed, sizeof seed);
  return COMPUTE_OK;
}

/* In a caller's graph no run binds the model's seed, so a step of the plan draws it. */
compute_node record_seed(model_recorder *recorder) {
  static const compute_call_output scalar = {COMPUTE_I64, {.rank = 0}};
  static const compute_call_options options = {.name = "seed"};
  const uint64_t fixed = recorder->model->options.seed;
  if (fixed) return compute_scalar_i64(recorder->graph, COMPUTE_I64, (int64_t)fixed);
  if (recorder->seed.kind == VALUE_TENSOR) return record_node(recorder, &recorder->seed);
  return compute_call(recorder->graph, draw_seed, NULL, NULL, 0, &scalar, 1, &options, NULL);
}

void record_refuse(model_recorder *recorder) {
  if (!recorder->refused.status) compute_error_get(recorder->model->context, &recorder->refused);
}

/* ---- Frames -------------------------------------------------------------------------------- */

compute_status record_push(model_recorder *recorder, const onnx_graph *graph,
                           model_frame **result) {
  model_frame *frame = arena_allocate(recorder->arena, 1, sizeof *frame);
  model_value *values = arena_allocate(recorder->arena, graph->value_count, sizeof *values);
  if (!frame || !values) return no_memory(recorder);
  *frame = (model_frame){.caller = recorder->top, .graph = graph, .values = values};
  for (size_t i = 0; i < graph->value_count; i++) {
    values[i].id = -1;
    values[i].name = graph->values[i];
  }
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < graph->initializer_count; i++)
    status =
        record_tensor(recorder, &graph->initializers[i], &values[graph->initializer_values[i]]);
  if (!status) *result = recorder->top = frame;
  return status;
}

/* Copies `values` and clears their nodes, which belong to another graph. */
static model_value *copy_values(model_arena *arena, const model_value *values, size_t count) {
  model_value *copy = arena_allocate(arena, count, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) {
    copy[i] = values[i];
    copy[i].node = (compute_node){0};
    copy[i].room = NULL;
    copy[i].quantized = NULL;
    copy[i].convolution = NULL;
    if (!values[i].item_count) continue;
    copy[i].items = copy_values(arena, values[i].items, values[i].item_count);
    if (!copy[i].items) return NULL;
  }
  return copy;
}

model_frame *record_copy_frames(model_arena *arena, const model_frame *top) {
  model_frame *first = NULL, **link = &first;
  for (const model_frame *frame = top; frame; frame = frame->caller) {
    model_frame *copy = arena_allocate(arena, 1, sizeof *copy);
    if (!copy) return NULL;
    *copy = *frame;
    copy->values = copy_values(arena, frame->values, frame->graph->value_count);
    copy->held.values = copy_values(arena, frame->held.values, frame->held.count);
    copy->held.capacity = frame->held.count;
    if (!copy->values || !copy->held.values) return NULL;
    *link = copy;
    link = &copy->caller;
  }
  return first;
}

int64_t record_last_use(const compute_model *model, const onnx_graph *graph, int32_t value) {
  size_t low = 0, high = model->uses_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((uintptr_t)model->uses[middle].graph < (uintptr_t)graph)
      low = middle + 1;
    else
      high = middle;
  }
  return low < model->uses_count ? model->uses[low].last[value] : INT64_MAX;
}
