/* SPDX-License-Identifier: MIT */
/* Writes Protocol Buffers messages, valid and invalid, for model tests. Adding a message to another
 * one frees it. */
#ifndef MODEL_MESSAGE_WRITER_H
#define MODEL_MESSAGE_WRITER_H

#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

typedef struct proto {
  unsigned char *data;
  size_t bytes, capacity;
} proto;

static inline void put_raw(proto *to, const void *data, size_t bytes) {
  if (to->bytes + bytes > to->capacity) {
    to->capacity = 2 * (to->bytes + bytes);
    to->data = realloc(to->data, to->capacity);
    assert_non_null(to->data);
  }
  if (bytes > 0) memcpy(to->data + to->bytes, data, bytes);
  to->bytes += bytes;
}

static inline void put_varint(proto *to, uint64_t value) {
  for (; value >= 128; value >>= 7) put_raw(to, &(unsigned char){(unsigned char)(value | 128)}, 1);
  put_raw(to, &(unsigned char){(unsigned char)value}, 1);
}

static inline void put_integer(proto *to, uint32_t field, int64_t value) {
  put_varint(to, (uint64_t)field << 3);
  put_varint(to, (uint64_t)value);
}

static inline void put_float(proto *to, uint32_t field, float value) {
  put_varint(to, (uint64_t)field << 3 | 5);
  put_raw(to, &value, 4);
}

static inline void put_bytes(proto *to, uint32_t field, const void *data, size_t bytes) {
  put_varint(to, (uint64_t)field << 3 | 2);
  put_varint(to, bytes);
  put_raw(to, data, bytes);
}

static inline void put_text(proto *to, uint32_t field, const char *text) {
  put_bytes(to, field, text, strlen(text));
}

static inline void put_message(proto *to, uint32_t field, proto from) {
  put_bytes(to, field, from.data, from.bytes);
  free(from.data);
}

/* Writes "a,b,,c" as four texts and NULL as none. */
static inline void put_names(proto *to, uint32_t field, const char *names) {
  for (const char *at = names; at;) {
    const size_t length = strcspn(at, ",");
    put_bytes(to, field, at, length);
    at = at[length] ? at + length + 1 : NULL;
  }
}

/* ---- Parts of a model ---------------------------------------------------------------------- */

enum { MODEL_GRAPH = 7, MODEL_FUNCTION = 25 };
enum {
  GRAPH_NODE = 1,
  GRAPH_INITIALIZER = 5,
  GRAPH_INPUT = 11,
  GRAPH_OUTPUT = 12,
  GRAPH_SPARSE = 15
};
enum { NODE_ATTRIBUTE = 5, FUNCTION_NODE = 7 };

static inline proto tensor_message(const char *name, int32_t type, int rank, const int64_t *sizes) {
  proto tensor = {0};
  for (int i = 0; i < rank; i++) put_integer(&tensor, 1, sizes[i]);
  put_integer(&tensor, 2, type);
  put_text(&tensor, 8, name);
  return tensor;
}

/* An int64 vector. */
static inline proto integers_message(const char *name, const int64_t *values, int64_t count) {
  proto tensor = tensor_message(name, 7, 1, &count);
  put_bytes(&tensor, 9, values, (size_t)count * 8);
  return tensor;
}

/* A float32 vector. */
static inline proto vector_message(const char *name, const float *values, int64_t count) {
  proto tensor = tensor_message(name, 1, 1, &count);
  put_bytes(&tensor, 9, values, (size_t)count * 4);
  return tensor;
}

static inline proto node_message(const char *name, const char *type, const char *inputs,
                                 const char *outputs) {
  proto node = {0};
  put_names(&node, 1, inputs);
  put_names(&node, 2, outputs);
  put_text(&node, 3, name);
  put_text(&node, 4, type);
  return node;
}

static inline proto attribute_message(const char *name, int type, uint32_t field, proto value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_message(&attribute, field, value);
  put_integer(&attribute, 20, type);
  return attribute;
}

/* An integer attribute of a node. The type decides whether it is one integer or a list. */
static inline void put_integer_attribute(proto *node, const char *name, int64_t value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_integer(&attribute, 3, value);
  put_integer(&attribute, 20, 2);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static inline void put_list_attribute(proto *node, const char *name, const int64_t *values,
                                      int count) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  for (int i = 0; i < count; i++) put_integer(&attribute, 8, values[i]);
  put_integer(&attribute, 20, 7);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

/* A graph as the attribute of a node. */
static inline void put_graph_attribute(proto *node, const char *name, proto graph) {
  put_message(node, NODE_ATTRIBUTE, attribute_message(name, 5, 6, graph));
}

/* Inputs or outputs without types. */
static inline void put_values(proto *graph, uint32_t field, const char *names) {
  for (const char *at = names; at;) {
    const size_t length = strcspn(at, ",");
    proto value = {0};
    put_bytes(&value, 1, at, length);
    put_message(graph, field, value);
    at = at[length] ? at + length + 1 : NULL;
  }
}

/* A float32 input or output with named or numeric sizes, such as "batch,width". */
static inline void put_typed(proto *graph, uint32_t field, const char *name, const char *sizes) {
  proto shape = {0}, tensor = {0}, type = {0}, value = {0};
  for (const char *at = sizes; at;) {
    const size_t length = strcspn(at, ",");
    proto size = {0};
    if (*at >= '0' && *at <= '9')
      put_integer(&size, 1, strtol(at, NULL, 10));
    else
      put_bytes(&size, 2, at, length);
    put_message(&shape, 1, size);
    at = at[length] ? at + length + 1 : NULL;
  }
  put_integer(&tensor, 1, 1);
  put_message(&tensor, 2, shape);
  put_message(&type, 1, tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, type);
  put_message(graph, field, value);
}

static inline proto graph_message(const char *inputs, const char *outputs) {
  proto graph = {0};
  put_text(&graph, 2, "main");
  put_values(&graph, GRAPH_INPUT, inputs);
  put_values(&graph, GRAPH_OUTPUT, outputs);
  return graph;
}

static inline void put_node(proto *graph, const char *name, const char *inputs,
                            const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(name, "Add", inputs, outputs));
}

static inline proto opset_message(const char *domain, int64_t version) {
  proto opset = {0};
  put_text(&opset, 1, domain);
  put_integer(&opset, 2, version);
  return opset;
}

static inline proto model_message(proto graph) {
  proto model = {0};
  put_integer(&model, 1, 8);
  put_text(&model, 2, "tests");
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 17));
  return model;
}

#endif
