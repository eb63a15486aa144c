/* SPDX-License-Identifier: MIT */
/* The calls of operator rules (inputs, attributes, outputs), and the public versions for custom
 * operators. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "graph/node/graph.h"
#include "io/new_file.h"
#include "model/model.h"

/* ---- Errors and memory ---------------------------------------------------------------------- */

static compute_status fail_list(const model_call *call, compute_status status, const char *format,
                                va_list list) {
  char text[400], name[SHOWN_NAME_BYTES], domain[SHOWN_NAME_BYTES], type[SHOWN_NAME_BYTES];
  vsnprintf(text, sizeof text, format, list);
  const onnx_node *node = call->node;
  const char *first = node->output_count ? node->output_names[0] : "";
  return error_set(call->recorder->model->context, status, call->recorder->operation,
                   "%s '%s' (%s%s%s): %s", node->name[0] ? "node" : "the node of",
                   file_show_name(node->name[0] ? node->name : first, name),
                   file_show_name(node->domain, domain), node->domain[0] ? "." : "",
                   file_show_name(node->type, type), text);
}

compute_status call_fail(const model_call *call, compute_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fail_list(call, status, format, list);
  va_end(list);
  return status;
}

compute_status call_out_of_memory(model_call *call) {
  return call_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* A rule may pass the NULL on and fail with a different error, so the recorder keeps this one. */
void *call_allocate(model_call *call, size_t count, size_t size) {
  void *memory = arena_allocate(call->recorder->arena, count, size);
  if (memory) return memory;
  call_out_of_memory(call);
  record_refuse(call->recorder);
  return NULL;
}

/* ---- Inputs -------------------------------------------------------------------------------- */

bool call_has(const model_call *call, size_t i) {
  return i < call->input_count && call->inputs[i]->kind != VALUE_ABSENT;
}

bool call_is_initializer(const model_call *call, size_t i) {
  const model_frame *frame = call->frame;
  return !frame->caller && !frame->function && i < call->node->input_count &&
         onnx_find_initializer(frame->graph, call->node->input_names[i]);
}

compute_node call_input(model_call *call, size_t i) {
  if (!call_has(call, i)) return (compute_node){0};
  if (call->inputs[i]->kind == VALUE_TENSOR) return record_node(call->recorder, call->inputs[i]);
  call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "input %zu, '%s', is not a tensor of numbers", i,
            call->node->input_names[i]);
  record_refuse(call->recorder);
  return (compute_node){0};
}

compute_node call_node(model_call *call, model_value *value) {
  return record_node(call->recorder, value);
}

compute_shape call_shape(const model_call *call, size_t i) {
  return call_has(call, i) ? call->inputs[i]->shape : COMPUTE_SCALAR;
}

compute_dtype call_dtype(const model_call *call, size_t i) {
  return call_has(call, i) ? call->inputs[i]->dtype : COMPUTE_DTYPE_NONE;
}

int32_t call_type(const model_call *call, size_t i) {
  return call_has(call, i) ? call->inputs[i]->type : ONNX_UNDEFINED;
}

static compute_status call_ask(model_call *call, model_value *value, int64_t least) {
  model_recorder *recorder = call->recorder;
  if (base_grow((void **)&recorder->asked, &recorder->asked_capacity, recorder->asked_count + 1,
                sizeof *recorder->asked))
    return call_out_of_memory(call);
  recorder->asked[recorder->asked_count++] = (asked_value){value, least};
  return CALL_NEEDS_VALUES;
}

compute_status call_host(model_call *call, size_t i, const void **data) {
  if (!call_has(call, i)) return call_fail(call, COMPUTE_ERROR_FORMAT, "input %zu is missing", i);
  if (call->inputs[i]->kind != VALUE_TENSOR)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not a tensor of numbers", i);
  if (!call->inputs[i]->host) return call_ask(call, call->inputs[i], 0);
  if (!record_align(call->recorder, call->inputs[i])) return call_out_of_memory(call);
  *data = call->inputs[i]->host;
  return COMPUTE_OK;
}

static int64_t count_of(compute_shape shape) {
  int64_t count = 0;
  compute_shape_count(shape, &count);
  return count;
}

compute_status call_integers(model_call *call, size_t i, const int64_t **values, size_t *count) {
  const void *data;
  const compute_status status = call_host(call, i, &data);
  if (status) return status;
  const compute_dtype dtype = call->inputs[i]->dtype;
  *count = (size_t)count_of(call->inputs[i]->shape);
  if (dtype == COMPUTE_I64) {
    *values = data;
    return COMPUTE_OK;
  }
  int64_t *wide = call_allocate(call, *count, sizeof *wide);
  if (!wide) return call_out_of_memory(call);
  for (size_t at = 0; at < *count; at++)
    if (!record_integer(dtype, data, at, &wide[at]))
      return call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not a tensor of integers", i);
  *values = wide;
  return COMPUTE_OK;
}

compute_status call_integer(model_call *call, size_t i, int64_t *value) {
  const int64_t *values = NULL;
  size_t count = 0;
  const compute_status status = call_integers(call, i, &values, &count);
  if (status) return status;
  if (count != 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu has %zu elements, not 1", i, count);
  *value = values[0];
  return COMPUTE_OK;
}

compute_status call_integer_at_least(model_call *call, size_t i, int64_t least, int64_t *value) {
  if (call_has(call, i) && !call->inputs[i]->host) {
    model_value *input = call->inputs[i];
    if (input->known_least != least) {
      if (count_of(input->shape) != 1 ||
          (input->dtype != COMPUTE_I32 && input->dtype != COMPUTE_I64))
        return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu is not a single integer", i);
      return call_ask(call, input, least);
    }
    *value = input->known_larger;
    return COMPUTE_OK;
  }
  const compute_status status = call_integer(call, i, value);
  if (!status && *value < least) *value = least;
  return status;
}

static double half_value(uint16_t bits) {
  const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value;
  if (exponent == 31)
    value = mantissa ? (double)__builtin_nanf("") : (double)__builtin_inff();
  else
    value = exponent ? __builtin_ldexp(1024.0 + mantissa, (int)exponent - 25)
                     : __builtin_ldexp(mantissa, -24);
  return bits >> 15 ? -value : value;
}

static double bfloat_value(uint16_t bits) {
  const uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return (double)value;
}

compute_status call_number(model_call *call, size_t i, double *value) {
  const void *data = NULL;
  const compute_status status = call_host(call, i, &data);
  if (status) return status;
  if (count_of(call->inputs[i]->shape) != 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "input %zu is not a single number", i);
  int64_t whole = 0;
  switch (call->inputs[i]->dtype) {
  case COMPUTE_F64: *value = *(const double *)data; return COMPUTE_OK;
  case COMPUTE_F32: *value = (double)*(const float *)data; return COMPUTE_OK;
  case COMPUTE_F16: *value = half_value(*(const uint16_t *)data); return COMPUTE_OK;
  case COMPUTE_BF16: *value = bfloat_value(*(const uint16_t *)data); return COMPUTE_OK;
  default: record_integer(call->inputs[i]->dtype, data, 0, &whole); break;
  }
  *value = (double)whole;
  return COMPUTE_OK;
}

compute_status call_value_integer(model_call *call, model_value *value, int64_t *number) {
  if (value->kind != VALUE_TENSOR || count_of(value->shape) != 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "'%s' is not a single number",
                     value->name ? value->name : "");
  if (!value->host) return call_ask(call, value, 0);
  if (!record_align(call->recorder, value)) return call_out_of_memory(call);
  return record_integer(value->dtype, value->host, 0, number)
             ? COMPUTE_OK
             : call_fail(call, COMPUTE_ERROR_DTYPE, "'%s' is not an integer",
                         value->name ? value->name : "");
}

/* ---- Attributes ----------------------------------------------------------------------------- */

/* Resolves a reference in a function's body: the attribute of the calling node, or the
 * function's default. Repeats through enclosing functions. Excludes graphs: they use the
 * caller's values, which the function's frames do not contain. */
static const onnx_attribute *referred(const model_frame *frame, const char *name) {
  const onnx_attribute *found = NULL;
  do {
    while (frame && !frame->function) frame = frame->caller;
    if (!frame || !frame->caller) return NULL;
    const onnx_function *function = frame->function;
    frame = frame->caller;
    found = onnx_find_attribute(&frame->graph->nodes[frame->next], name);
    for (size_t i = 0; !found && i < function->default_count; i++)
      if (strcmp(function->defaults[i].name, name) == 0) found = &function->defaults[i];
    if (found) name = found->reference;
  } while (found && name);
  return found && found->graph ? NULL : found;
}

const onnx_attribute *call_attribute(const model_call *call, const char *name) {
  const onnx_attribute *attribute = onnx_find_attribute(call->node, name);
  return attribute && attribute->reference ? referred(call->frame, attribute->reference)
                                           : attribute;
}

/* Returns the attribute if it has this type. Another type is not ignored: it fails the rule. In
 * host functions there is no recorder, but their rules have already read the attributes. */
static const onnx_attribute *typed(const model_call *call, const char *name,
                                   onnx_attribute_type type) {
  const onnx_attribute *attribute = call_attribute(call, name);
  if (!attribute || attribute->type == type) return attribute;
  if (attribute->type != ONNX_ATTRIBUTE_OTHER && call->recorder) {
    call_fail(call, COMPUTE_ERROR_FORMAT, "attribute '%s' is of the wrong type", name);
    record_refuse(call->recorder);
  }
  return NULL;
}

int64_t call_attribute_i(const model_call *call, const char *name, int64_t fallback) {
  const onnx_attribute *attribute = typed(call, name, ONNX_ATTRIBUTE_INT);
  return attribute ? attribute->integer : fallback;
}

double call_attribute_f(const model_call *call, const char *name, double fallback) {
  const onnx_attribute *attribute = typed(call, name, ONNX_ATTRIBUTE_FLOAT);
  return attribute ? (double)attribute->number : fallback;
}

const char *call_attribute_s(const model_call *call, const char *name, const char *fallback) {
  const onnx_attribute *attribute = typed(call, name, ONNX_ATTRIBUTE_STRING);
  return attribute ? attribute->text : fallback;
}

const int64_t *call_attribute_ints(const model_call *call, const char *name, size_t *count) {
  const onnx_attribute *attribute = typed(call, name, ONNX_ATTRIBUTE_INTS);
  *count = attribute ? attribute->count : 0;
  return attribute ? attribute->integers : NULL;
}

const float *call_attribute_floats(const model_call *call, const char *name, size_t *count) {
  const onnx_attribute *attribute = typed(call, name, ONNX_ATTRIBUTE_FLOATS);
  *count = attribute ? attribute->count : 0;
  return attribute ? attribute->numbers : NULL;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

compute_status call_output_as(model_call *call, size_t i, int32_t type, compute_node node) {
  if (i >= call->output_count || !compute_node_is_valid(node)) return COMPUTE_OK;
  call->outputs[i] = (model_value){.kind = VALUE_TENSOR,
                                   .type = type,
                                   .id = -1,
                                   .node = node,
                                   .dtype = compute_node_dtype(call->graph, node),
                                   .shape = compute_node_shape(call->graph, node)};
  return COMPUTE_OK;
}

compute_status call_output(model_call *call, size_t i, compute_node node) {
  return call_output_as(call, i, onnx_type_of(compute_node_dtype(call->graph, node)), node);
}

compute_status call_output_host(model_call *call, size_t i, compute_dtype dtype,
                                compute_shape shape, const void *data) {
  if (i >= call->output_count) return COMPUTE_OK;
  int64_t count;
  const compute_status status = compute_shape_count(shape, &count);
  if (status) return call_fail(call, status, "output %zu is too large", i);
  const size_t size = compute_dtype_size(dtype);
  void *copy = call_allocate(call, (size_t)count, size);
  if (!copy) return call_out_of_memory(call);
  if (count) memcpy(copy, data, (size_t)count * size);
  call->outputs[i] = (model_value){.kind = VALUE_TENSOR,
                                   .type = onnx_type_of(dtype),
                                   .id = -1,
                                   .dtype = dtype,
                                   .shape = shape,
                                   .host = copy};
  return COMPUTE_OK;
}

bool call_trains(const model_call *call) {
  return call->recorder->training;
}

bool call_is_on_host(const model_call *call) {
  const compute_device *device = model_device(call->recorder->model);
  return device && device->info.capabilities & COMPUTE_CAPABILITY_HOST;
}

bool call_takes_fast(const model_call *call) {
  return call->recorder->model->options.formulas == COMPUTE_FORMULAS_FAST;
}

bool call_wants(const model_call *call, size_t i) {
  return i < call->output_count && call->node->outputs[i] >= 0 &&
         record_last_use(call->recorder->model, call->frame->graph, call->node->outputs[i]) >= 0;
}

bool call_is_only_use(const model_call *call, size_t i) {
  const onnx_reference *input = &call->node->inputs[i];
  return input->level == 0 && input->index >= 0 &&
         record_is_only_use(call->frame->graph, call->node, input->index);
}

void call_draws(model_call *call) {
  call->recorder->draws = true;
}

compute_node call_seed(model_call *call, uint32_t *stream) {
  *stream = (uint32_t)call->recorder->next_id++; /* ids continue from stage to stage */
  return record_seed(call->recorder);
}

compute_status call_new_value(model_call *call, model_value *value) {
  value->id = call->recorder->next_id++;
  return COMPUTE_OK;
}

compute_status call_output_value(model_call *call, size_t i, const model_value *value) {
  if (i < call->output_count) call->outputs[i] = *value;
  return COMPUTE_OK;
}

/* ---- Rest ---------------------------------------------------------------------------------- */

compute_status call_axis(model_call *call, int64_t axis, int32_t rank, int32_t *result) {
  if (axis < -rank || axis >= rank)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %lld is outside %d … %d", (long long)axis,
                     -rank, rank - 1);
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return COMPUTE_OK;
}

compute_node call_scalar_like(model_call *call, compute_node x, double value) {
  return compute_scalar(call->graph, compute_node_dtype(call->graph, x), value);
}

compute_node call_zeros(model_call *call, compute_dtype dtype, compute_shape shape) {
  return compute_full(call->graph, dtype, shape, 0);
}

compute_status call_record_graph(model_call *call, const onnx_graph *graph,
                                 model_value *const *inputs, size_t input_count,
                                 frame_finish finish, const void *state, size_t state_bytes) {
  model_recorder *recorder = call->recorder;
  if (input_count != graph->input_count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its graph has %zu inputs, but %zu were given",
                     graph->input_count, input_count);
  void *copy = call_allocate(call, state_bytes, 1);
  if (!copy) return call_out_of_memory(call);
  if (state_bytes) memcpy(copy, state, state_bytes);
  model_frame *frame;
  const compute_status status = record_push(recorder, graph, &frame);
  if (status) return status;
  frame->finish = finish;
  frame->state = copy;
  frame->state_bytes = state_bytes;
  for (size_t i = 0; i < input_count; i++) {
    model_value *value = &frame->values[graph->inputs[i].value];
    const char *name = value->name;
    *value = *inputs[i];
    value->name = name;
  }
  recorder->pushed = true;
  return COMPUTE_OK;
}

compute_status call_hold(model_call *call, const model_value *value) {
  held_values *held = call->held;
  if (held->count == held->capacity) {
    const size_t capacity = 2 * held->capacity + 8;
    model_value *values = call_allocate(call, capacity, sizeof *values);
    if (!values) return call_out_of_memory(call);
    if (held->count) memcpy(values, held->values, held->count * sizeof *values);
    held->values = values;
    held->capacity = capacity;
  }
  held->values[held->count++] = *value;
  return COMPUTE_OK;
}

model_value *call_held(model_call *call, size_t i) {
  return &call->held->values[i];
}

size_t call_held_count(const model_call *call) {
  return call->held->count;
}

/* ---- Public functions ----------------------------------------------------------------------- */

compute_graph *compute_model_call_graph(const compute_model_call *call) {
  return call ? call->graph : NULL;
}

size_t compute_model_call_input_count(const compute_model_call *call) {
  return call ? call->input_count : 0;
}

size_t compute_model_call_output_count(const compute_model_call *call) {
  return call ? call->output_count : 0;
}

compute_node compute_model_call_input(compute_model_call *call, size_t index) {
  return call ? call_input(call, index) : (compute_node){0};
}

compute_status compute_model_call_output(compute_model_call *call, size_t index,
                                         compute_node node) {
  if (!call) return error_if_null(NULL, "compute_model_call_output", call);
  if (index >= call->output_count)
    return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "it has no output %zu", index);
  return call_output(call, index, node);
}

compute_status compute_model_call_integers(compute_model_call *call, size_t index,
                                           const int64_t **values, size_t *count) {
  const compute_status status =
      error_if_null(NULL, "compute_model_call_integers", call, values, count);
  return status ? status : call_integers(call, index, values, count);
}

/* Custom operators may try several types for an attribute. */
static bool has_attribute(const model_call *call, const char *name, onnx_attribute_type type) {
  const onnx_attribute *attribute = call && name ? call_attribute(call, name) : NULL;
  return attribute && attribute->type == type;
}

int64_t compute_model_call_integer(const compute_model_call *call, const char *name,
                                   int64_t fallback) {
  return has_attribute(call, name, ONNX_ATTRIBUTE_INT) ? call_attribute_i(call, name, fallback)
                                                       : fallback;
}

double compute_model_call_number(const compute_model_call *call, const char *name,
                                 double fallback) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return has_attribute(call, name, ONNX_ATTRIBUTE_FLOAT) ? call_attribute_f(call, name, fallback)
                                                         : fallback;
}

const char *compute_model_call_text(const compute_model_call *call, const char *name,
                                    const char *fallback) {
  return has_attribute(call, name, ONNX_ATTRIBUTE_STRING) ? call_attribute_s(call, name, fallback)
                                                          : fallback;
}

const int64_t *compute_model_call_integer_list(const compute_model_call *call, const char *name,
                                               size_t *count) {
  size_t none;
  if (!count) count = &none;
  *count = 0;
  return has_attribute(call, name, ONNX_ATTRIBUTE_INTS) ? call_attribute_ints(call, name, count)
                                                        : NULL;
}

const float *compute_model_call_number_list(const compute_model_call *call, const char *name,
                                            size_t *count) {
  size_t none;
  if (!count) count = &none;
  *count = 0;
  return has_attribute(call, name, ONNX_ATTRIBUTE_FLOATS) ? call_attribute_floats(call, name, count)
                                                          : NULL;
}

compute_status compute_model_call_fail(compute_model_call *call, compute_status status,
                                       const char *format, ...) {
  if (!call || !format) return status;
  va_list list;
  va_start(list, format);
  fail_list(call, status, format, list);
  va_end(list);
  return status;
}
