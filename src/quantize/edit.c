/* SPDX-License-Identifier: MIT */
/* Changes to an ONNX file. Fields that do not change are copied as they are. */
#include "quantize/edit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/text.h"

/* Field numbers of messages. */
enum { MODEL_OPSET = 8, OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE = 13, GRAPH_SPARSE = 15 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { NODE_DOMAIN = 7, VALUE_NAME = 1 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INTEGER = 3, ATTRIBUTE_TYPE = 20 };

compute_status edit_out_of_memory(const edit *e) {
  return error_set(e->context, COMPUTE_ERROR_OUT_OF_MEMORY, e->operation, "out of memory");
}

/* ---- Facts ----------------------------------------------------------------------------------- */

typedef struct nested_graph {
  const onnx_graph *graph;
  int32_t depth;
} nested_graph;

/* Graphs in nodes that are not visited yet. */
typedef struct nested_list {
  nested_graph *items;
  size_t count, capacity;
  bool failed;
} nested_list;

static void push_graphs(nested_list *list, const onnx_node *node, int32_t depth) {
  for (size_t i = 0; i < node->attribute_count; i++) {
    if (!node->attributes[i].graph) continue;
    if (base_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items)) {
      list->failed = true;
      return;
    }
    list->items[list->count++] = (nested_graph){node->attributes[i].graph, depth};
  }
}

static void mark_nested(edit *e, nested_graph from, nested_list *list) {
  for (size_t i = 0; i < from.graph->node_count; i++) {
    const onnx_node *node = &from.graph->nodes[i];
    for (size_t k = 0; k < node->input_count; k++)
      if (node->inputs[k].index >= 0 && node->inputs[k].level == from.depth)
        e->values[node->inputs[k].index].nested = true;
    push_graphs(list, node, from.depth + 1);
  }
}

static void find_facts(edit *e) {
  const onnx_graph *graph = e->graph;
  nested_list list = {0};
  for (size_t i = 0; i < graph->value_count; i++)
    e->values[i] = (edited_value){.producer = -1, .initializer = -1};
  for (size_t i = 0; i < graph->initializer_count; i++)
    e->values[graph->initializer_values[i]].initializer = (int32_t)i;
  for (size_t i = 0; i < graph->input_count; i++)
    if (graph->inputs[i].value >= 0) e->values[graph->inputs[i].value].input = true;
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i].value >= 0) e->values[graph->outputs[i].value].output = true;
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    for (size_t k = 0; k < node->input_count; k++)
      if (node->inputs[k].index >= 0) e->values[node->inputs[k].index].uses++;
    for (size_t k = 0; k < node->output_count; k++)
      if (node->outputs[k] >= 0) e->values[node->outputs[k]].producer = (int32_t)i;
    push_graphs(&list, node, 1);
  }
  while (list.count && !list.failed) mark_nested(e, list.items[--list.count], &list);
  e->failed |= list.failed;
  base_release(list.items);
}

static const char tag_stem[] = "_quantize";

/* Counts the tags in names. Numbers below `room` are marked in `used`. */
static size_t find_tags(const edit *e, bool *used, size_t room) {
  size_t count = 0;
  for (size_t i = 0; i < e->graph->value_count; i++)
    for (const char *at = e->graph->values[i]; (at = strstr(at, tag_stem)); count++) {
      at += sizeof tag_stem - 1;
      size_t number = 0;
      for (; *at >= '0' && *at <= '9' && number < room; at++)
        number = 10 * number + (size_t)(*at - '0');
      if (number < room) used[number] = true;
    }
  return count;
}

/* Finds a tag that no value's name contains: names with n tags leave one of n + 1 numbers free. */
static const char *find_tag(edit *e) {
  char tag[32];
  const size_t count = find_tags(e, NULL, 0);
  bool *used = base_allocate(count + 1, sizeof *used);
  if (!used) return NULL;
  find_tags(e, used, count + 1);
  size_t number = 0;
  while (number < count && used[number]) number++;
  base_release(used);
  snprintf(tag, sizeof tag, number ? "%s%zu_" : "%s_", tag_stem, number);
  return arena_text(&e->memory, tag, strlen(tag));
}

compute_status edit_open(edit *e, const compute_context *context, const char *operation,
                         wire_buffer source) {
  *e = (edit){.context = context, .operation = operation, .source = source};
  const wire message = {source.data, source.data + source.count};
  const compute_status status =
      onnx_decode(context, operation, "the model", message, NULL, COMPUTE_MODEL_COPY, &e->file);
  if (status) return status;
  e->graph = &e->file.graph;
  e->values = arena_allocate(&e->memory, e->graph->value_count, sizeof *e->values);
  e->nodes = arena_allocate(&e->memory, e->graph->node_count, sizeof *e->nodes);
  if (!e->values || !e->nodes) return edit_out_of_memory(e);
  for (size_t i = 0; i < e->file.opset_count; i++)
    if (!e->file.opsets[i].domain[0]) e->opset = e->file.opsets[i].version;
  find_facts(e);
  e->tag = find_tag(e);
  return e->failed || !e->tag ? edit_out_of_memory(e) : COMPUTE_OK;
}

void edit_close(edit *e) {
  for (size_t i = 0; e->nodes && i < e->graph->node_count; i++) {
    wire_buffer_release(&e->nodes[i].before);
    wire_buffer_release(&e->nodes[i].after);
  }
  wire_buffer_release(&e->first);
  wire_buffer_release(&e->initializers);
  onnx_release(&e->file);
  arena_release(&e->memory);
  wire_buffer_release(&e->source);
}

/* In older files, each initializer is also an input. */
static bool is_replaceable(const edit *e, int32_t value) {
  return e->values[value].input && e->file.ir_version >= 4;
}

const onnx_tensor *edit_constant(const edit *e, int32_t value) {
  if (value < 0) return NULL;
  const edited_value *v = &e->values[value];
  if (v->initializer >= 0)
    return is_replaceable(e, value) ? NULL : &e->graph->initializers[v->initializer];
  const onnx_node *node = v->producer < 0 ? NULL : &e->graph->nodes[v->producer];
  if (!node || node->function || node->domain[0] || strcmp(node->type, "Constant") != 0)
    return NULL;
  const onnx_attribute *attribute = onnx_find_attribute(node, "value");
  return attribute ? attribute->tensor : NULL;
}

const onnx_tensor *edit_initializer(const edit *e, const onnx_node *node, size_t input) {
  return edit_constant(e, edit_input(node, input));
}

/* ---- Changes --------------------------------------------------------------------------------- */

const char *edit_name(edit *e, const char *name, const char *part) {
  const size_t a = strlen(name), b = strlen(e->tag), c = strlen(part);
  char *text = arena_allocate(&e->memory, a + b + c + 1, 1);
  if (!text) {
    e->failed = true;
    return "";
  }
  memcpy(text, name, a);
  memcpy(text + a, e->tag, b);
  memcpy(text + a + b, part, c);
  return text;
}

/* Sets one of `count` names, which are copied from `from` first. */
static void set_name(edit *e, const char ***names, const char *const *from, size_t count,
                     size_t which, const char *name) {
  if (!*names) {
    *names = arena_allocate(&e->memory, count, sizeof **names);
    if (!*names) {
      e->failed = true;
      return;
    }
    memcpy(*names, from, count * sizeof **names);
  }
  (*names)[which] = name;
}

void edit_set_input(edit *e, size_t node, size_t input, const char *name) {
  const onnx_node *from = &e->graph->nodes[node];
  set_name(e, &e->nodes[node].inputs, from->input_names, from->input_count, input, name);
}

void edit_set_output(edit *e, size_t node, size_t output, const char *name) {
  const onnx_node *from = &e->graph->nodes[node];
  set_name(e, &e->nodes[node].outputs, from->output_names, from->output_count, output, name);
}

void edit_put_node(edit *e, wire_buffer *to, const char *domain, const char *type,
                   const char *const *inputs, const char *output,
                   const edit_attribute *attributes) {
  wire_buffer node = {0};
  for (; *inputs; inputs++) wire_put_text(&node, NODE_INPUT, *inputs);
  wire_put_text(&node, NODE_OUTPUT, output);
  wire_put_text(&node, NODE_NAME, output);
  wire_put_text(&node, NODE_TYPE, type);
  for (; attributes && attributes->name; attributes++) {
    wire_buffer attribute = {0};
    wire_put_text(&attribute, ATTRIBUTE_NAME, attributes->name);
    wire_put_integer(&attribute, ATTRIBUTE_INTEGER, attributes->integer);
    wire_put_integer(&attribute, ATTRIBUTE_TYPE, ONNX_ATTRIBUTE_INT);
    wire_put_message(&node, NODE_ATTRIBUTE, &attribute);
  }
  if (domain[0]) {
    wire_put_text(&node, NODE_DOMAIN, domain);
    e->microsoft = true;
  }
  wire_put_message(to, GRAPH_NODE, &node);
}

void edit_put_tensor(edit *e, const char *name, int32_t type, compute_shape shape, const void *data,
                     uint64_t bytes) {
  wire_put_initializer(&e->initializers, name, type, shape, bytes);
  wire_put(&e->initializers, data, (size_t)bytes);
}

float *edit_floats(edit *e, const onnx_tensor *tensor) {
  float *values = arena_allocate(&e->memory, (size_t)tensor->count, sizeof *values);
  if (values && tensor->count) memcpy(values, tensor->data, (size_t)tensor->count * sizeof *values);
  e->failed |= !values;
  return values;
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct writer {
  edit *e;
  int32_t *nodes; /* per node of the message: its index in the graph */
  size_t node, initializer, input;
} writer;

/* Counts how often each value is read in the written file. A new node reads its values through
 * names, which are compared once. */
static void count_uses(edit *e) {
  for (size_t i = 0; i < e->graph->node_count; i++) {
    const onnx_node *node = &e->graph->nodes[i];
    const edited_node *made = &e->nodes[i];
    if (made->replaced) continue;
    for (size_t k = 0; k < node->input_count; k++) {
      const int32_t value = node->inputs[k].index;
      if (value >= 0 && (!made->inputs || made->inputs[k] == node->input_names[k]))
        e->values[value].kept++;
    }
  }
}

static void put_edited_node(wire_buffer *to, const edited_node *node, wire message) {
  wire_buffer made = {0};
  wire_field field;
  size_t input = 0, output = 0;
  while (wire_next(&message, &field) == WIRE_FIELD)
    if (node->inputs && field.number == NODE_INPUT && field.type == WIRE_BYTES)
      wire_put_text(&made, NODE_INPUT, node->inputs[input++]);
    else if (node->outputs && field.number == NODE_OUTPUT && field.type == WIRE_BYTES)
      wire_put_text(&made, NODE_OUTPUT, node->outputs[output++]);
    else
      wire_put_field(&made, &field);
  wire_put_message(to, GRAPH_NODE, &made);
}

static void put_buffer(wire_buffer *to, const wire_buffer *from) {
  to->failed |= from->failed;
  if (from->count) wire_put(to, from->data, from->count);
}

/* True for a constant that no node reads any longer. */
static bool is_dropped(const edit *e, int32_t value) {
  if (value < 0) return false;
  const edited_value *v = &e->values[value];
  return v->uses > 0 && v->kept == 0 && !v->nested && !v->output && edit_constant(e, value);
}

/* True for an input whose initializer is dropped. */
static bool is_dropped_input(writer *w) {
  const onnx_value_info *input = &w->e->graph->inputs[w->input++];
  return input->has_default && is_dropped(w->e, input->value);
}

static void put_node(writer *w, wire_buffer *to, const wire_field *field) {
  const int32_t index = w->nodes[w->node++];
  const onnx_node *from = &w->e->graph->nodes[index];
  const edited_node *node = &w->e->nodes[index];
  put_buffer(to, &node->before);
  if (node->inputs || node->outputs) {
    if (!node->replaced) put_edited_node(to, node, field->bytes);
  } else if (!node->replaced && !(from->output_count == 1 && is_dropped(w->e, from->outputs[0]))) {
    wire_put_field(to, field);
  }
  put_buffer(to, &node->after);
}

/* Parts come in the decoder's order. The types of values between nodes are omitted: they may
 * change, and readers infer them. */
static void put_graph(writer *w, wire_buffer *to, wire message) {
  const onnx_graph *graph = w->e->graph;
  wire_field field;
  put_buffer(to, &w->e->first);
  put_buffer(to, &w->e->initializers);
  while (wire_next(&message, &field) == WIRE_FIELD) {
    const bool whole = field.type == WIRE_BYTES;
    if (whole && field.number == GRAPH_NODE) {
      put_node(w, to, &field);
    } else if (whole && (field.number == GRAPH_INITIALIZER || field.number == GRAPH_SPARSE)) {
      if (!is_dropped(w->e, graph->initializer_values[w->initializer++]))
        wire_put_field(to, &field);
    } else if (!whole || (field.number != GRAPH_VALUE &&
                          (field.number != GRAPH_INPUT || !is_dropped_input(w)))) {
      wire_put_field(to, &field);
    }
  }
}

static void put_microsoft(const edit *e, wire_buffer *to) {
  wire_buffer opset = {0};
  for (size_t i = 0; i < e->file.opset_count; i++)
    if (strcmp(e->file.opsets[i].domain, "com.microsoft") == 0) return;
  if (!e->microsoft) return;
  wire_put_text(&opset, OPSET_DOMAIN, "com.microsoft");
  wire_put_integer(&opset, OPSET_VERSION, 1);
  wire_put_message(to, MODEL_OPSET, &opset);
}

compute_status edit_write(edit *e, wire_buffer *result) {
  writer w = {.e = e, .nodes = base_allocate(e->graph->node_count, sizeof *w.nodes)};
  if (!w.nodes || e->failed) {
    base_release(w.nodes);
    return edit_out_of_memory(e);
  }
  for (size_t i = 0; i < e->graph->node_count; i++) w.nodes[e->graph->nodes[i].place] = (int32_t)i;
  count_uses(e);
  wire message = e->file.message;
  wire_field field;
  while (wire_next(&message, &field) == WIRE_FIELD) {
    if (field.number != MODEL_GRAPH || field.type != WIRE_BYTES) {
      wire_put_field(result, &field);
      continue;
    }
    wire_buffer graph = {0};
    put_graph(&w, &graph, field.bytes);
    wire_put_message(result, MODEL_GRAPH, &graph);
  }
  put_microsoft(e, result);
  base_release(w.nodes);
  return result->failed ? edit_out_of_memory(e) : COMPUTE_OK;
}

bool edit_add_outputs(const wire_buffer *source, const char *const *names, size_t count,
                      wire_buffer *result) {
  wire message = {source->data, source->data + source->count};
  wire_field field;
  while (wire_next(&message, &field) == WIRE_FIELD) {
    if (field.number != MODEL_GRAPH || field.type != WIRE_BYTES) {
      wire_put_field(result, &field);
      continue;
    }
    wire_buffer graph = {0};
    wire_put(&graph, field.bytes.at, wire_bytes(field.bytes));
    for (size_t i = 0; i < count; i++) {
      wire_buffer value = {0};
      wire_put_text(&value, VALUE_NAME, names[i]);
      wire_put_message(&graph, GRAPH_OUTPUT, &value);
    }
    wire_put_message(result, MODEL_GRAPH, &graph);
  }
  return !result->failed;
}
