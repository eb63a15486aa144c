/* SPDX-License-Identifier: MIT */
/* Models with initializers in place of inputs: see rewrite.h. */
#include "onnx/rewrite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of fields in ONNX's messages, and values of AttributeProto.type. */
enum {
  MODEL_GRAPH = 7,
  GRAPH_NODE = 1,
  GRAPH_INITIALIZER = 5,
  GRAPH_INPUT = 11,
  NODE_INPUT = 1,
  NODE_OUTPUT = 2,
  NODE_TYPE = 4,
  NODE_ATTRIBUTE = 5,
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_INTEGER = 3,
  ATTRIBUTE_TYPE_PROTO = 14,
  ATTRIBUTE_KIND = 20,
  KIND_INTEGER = 2,
  KIND_TYPE_PROTO = 13,
  TENSOR_TYPE = 2,
  TENSOR_NAME = 8,
  VALUE_NAME = 1,
  VALUE_TYPE = 2,
  TYPE_OPTIONAL = 9,
  ELEMENT_TYPE = 1,
  SEQUENCE_TENSOR = 3,
  OPTIONAL_TENSOR = 3,
  OPTIONAL_SEQUENCE = 5
};

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) {
    fprintf(stderr, "out of memory\n");
    exit(EXIT_FAILURE);
  }
  return memory;
}

/* ---- Values in files ----------------------------------------------------------------------- */

static bool read_sequence(wire content, test_value *value) {
  wire_field field;
  wire_result result;
  value->sequence = true;
  for (wire rest = content; (result = wire_next(&rest, &field)) == WIRE_FIELD;)
    value->count += field.number == SEQUENCE_TENSOR && field.type == WIRE_BYTES;
  value->tensors = allocate(value->count, sizeof *value->tensors);
  value->count = 0;
  for (wire rest = content; wire_next(&rest, &field) == WIRE_FIELD;)
    if (field.number == SEQUENCE_TENSOR && field.type == WIRE_BYTES)
      value->tensors[value->count++] = field.bytes;
  return result == WIRE_END;
}

/* Older versions of onnx wrote test data of bfloat16 as uint16. */
static void correct_type(wire tensor, int32_t expected) {
  if (expected != ONNX_BFLOAT16) return;
  for (wire_field field; wire_next(&tensor, &field) == WIRE_FIELD;)
    if (field.number == TENSOR_TYPE && field.value == ONNX_UINT16)
      ((uint8_t *)(uintptr_t)tensor.at)[-1] = ONNX_BFLOAT16;
}

static bool read_tensor(wire content, test_value *value) {
  correct_type(content, value->info->type);
  value->tensors = allocate(1, sizeof *value->tensors);
  value->tensors[value->count++] = content;
  return true;
}

bool test_value_read(wire content, const onnx_value_info *info, test_value *value) {
  *value = (test_value){.info = info};
  if (info->kind == ONNX_IS_SEQUENCE) return read_sequence(content, value);
  if (info->kind != ONNX_IS_OPTIONAL) return read_tensor(content, value);
  const wire sequence = message_find(content, OPTIONAL_SEQUENCE);
  const wire tensor = message_find(content, OPTIONAL_TENSOR);
  value->optional = true;
  value->absent = !sequence.at && !tensor.at;
  if (sequence.at) return read_sequence(sequence, value);
  return value->absent || read_tensor(tensor, value);
}

/* ---- Parts of a graph ---------------------------------------------------------------------- */

typedef struct rewriting {
  message before, after; /* fields of the graph: the first ones and the rest */
} rewriting;

static char *name_of(const char *format, ...) COMPUTE_PRINTF(1, 2);
static char *name_of(const char *format, ...) {
  char *name;
  va_list list;
  va_start(list, format);
  if (vasprintf(&name, format, list) < 0) name = allocate(1, 1);
  va_end(list);
  return name;
}

static void add_node(message *to, const char *type, const char *const *inputs, size_t input_count,
                     const char *output, message *attribute) {
  message node = {0};
  for (size_t i = 0; i < input_count; i++) message_text(&node, NODE_INPUT, inputs[i]);
  message_text(&node, NODE_OUTPUT, output);
  message_text(&node, NODE_TYPE, type);
  if (attribute) message_take(&node, NODE_ATTRIBUTE, attribute);
  message_take(to, GRAPH_NODE, &node);
}

static void add_initializer(message *to, const char *name, wire tensor) {
  message named = {0};
  for (wire_field field; wire_next(&tensor, &field) == WIRE_FIELD;)
    if (field.number != TENSOR_NAME) message_copy(&named, &field);
  message_text(&named, TENSOR_NAME, name);
  message_take(to, GRAPH_INITIALIZER, &named);
}

/* ---- Inputs -------------------------------------------------------------------------------- */

static void add_empty_sequence(rewriting *r, const char *name, int32_t type) {
  message attribute = {0};
  message_text(&attribute, ATTRIBUTE_NAME, "dtype");
  message_integer(&attribute, ATTRIBUTE_INTEGER, (uint64_t)type);
  message_integer(&attribute, ATTRIBUTE_KIND, KIND_INTEGER);
  add_node(&r->before, "SequenceEmpty", NULL, 0, name, &attribute);
}

static void add_sequence(rewriting *r, const char *name, const test_value *value) {
  char **parts = allocate(value->count, sizeof *parts);
  for (size_t i = 0; i < value->count; i++) {
    parts[i] = name_of("%s.%zu", name, i);
    add_initializer(&r->after, parts[i], value->tensors[i]);
  }
  if (value->count)
    add_node(&r->before, "SequenceConstruct", (const char *const *)parts, value->count, name, NULL);
  else
    add_empty_sequence(r, name, value->info->type);
  for (size_t i = 0; i < value->count; i++) free(parts[i]);
  free(parts);
}

/* `type`: the TypeProto of the optional value. */
static void add_nothing(rewriting *r, const char *name, wire type) {
  const wire element = message_find(message_find(type, TYPE_OPTIONAL), ELEMENT_TYPE);
  message attribute = {0};
  message_text(&attribute, ATTRIBUTE_NAME, "type");
  message_bytes(&attribute, ATTRIBUTE_TYPE_PROTO, element.at, wire_bytes(element));
  message_integer(&attribute, ATTRIBUTE_KIND, KIND_TYPE_PROTO);
  add_node(&r->before, "Optional", NULL, 0, name, &attribute);
}

/* Composes an input; `info` is the model's ValueInfoProto. */
static void put_together(rewriting *r, const test_value *value, wire info) {
  const char *name = value->info->name;
  char *held = name_of(value->optional ? "%s.held" : "%s", name);
  if (value->absent)
    add_nothing(r, name, message_find(info, VALUE_TYPE));
  else if (value->sequence)
    add_sequence(r, held, value);
  else
    add_initializer(&r->after, held, value->tensors[0]);
  if (value->optional && !value->absent)
    add_node(&r->before, "Optional", (const char *const[]){held}, 1, name, NULL);
  free(held);
}

/* ---- The model ----------------------------------------------------------------------------- */

static const test_value *find_value(const test_value *values, size_t count, wire info) {
  const wire name = message_find(info, VALUE_NAME);
  for (size_t i = 0; i < count; i++)
    if (strlen(values[i].info->name) == wire_bytes(name) &&
        !memcmp(values[i].info->name, name.at, wire_bytes(name)))
      return &values[i];
  return NULL;
}

message rewrite_model(wire model, const test_value *inputs, size_t input_count) {
  rewriting r = {0};
  message middle = {0}, graph = {0}, result = {0};
  wire old = message_find(model, MODEL_GRAPH);
  for (wire_field field; wire_next(&old, &field) == WIRE_FIELD;) {
    const test_value *value = NULL;
    if (field.number == GRAPH_INPUT) value = find_value(inputs, input_count, field.bytes);
    if (value)
      put_together(&r, value, field.bytes);
    else
      message_copy(&middle, &field);
  }
  message_join(&graph, &r.before);
  message_join(&graph, &middle);
  message_join(&graph, &r.after);
  for (wire_field field; wire_next(&model, &field) == WIRE_FIELD;)
    if (field.number != MODEL_GRAPH) message_copy(&result, &field);
  message_take(&result, MODEL_GRAPH, &graph);
  return result;
}
