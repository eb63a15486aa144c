/* SPDX-License-Identifier: MIT */
/* Small models with items at their ports, for tests. */
#ifndef MODEL_ITEMS_H
#define MODEL_ITEMS_H

#include "compute/compute.h"
#include "model/message_writer.h"

enum { MOST_MESSAGES = 256 };

/* Messages must outlive the models that read them. */
static void *messages[MOST_MESSAGES];
static size_t message_count;

static inline proto operator_node(const char *type, const char *inputs, const char *outputs) {
  return node_message(type, type, inputs, outputs);
}

static inline void put_text_attribute(proto *node, const char *name, const char *text) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_text(&attribute, 4, text);
  put_integer(&attribute, 20, 3);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static inline void put_texts_attribute(proto *node, const char *name, const char *texts) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_names(&attribute, 9, texts);
  put_integer(&attribute, 20, 8);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

/* A model with operators on texts and of ai.onnx.ml. */
static inline proto text_model(proto graph) {
  proto model = {0};
  put_integer(&model, 1, 10);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 20));
  put_message(&model, 8, opset_message("ai.onnx.ml", 3));
  return model;
}

static inline compute_model *load(proto graph) {
  compute_model *model = NULL;
  proto message = text_model(graph);
  assert_true(message_count < MOST_MESSAGES);
  messages[message_count++] = message.data;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  return model;
}

static inline compute_model *load_node(proto node, const char *inputs, const char *outputs) {
  proto graph = graph_message(inputs, outputs);
  put_message(&graph, GRAPH_NODE, node);
  return load(graph);
}

static inline compute_model_item *texts(int64_t count, const char *const *list) {
  compute_model_item *item = NULL;
  assert_ok(compute_model_item_from_texts(COMPUTE_SHAPE(count), list, &item));
  return item;
}

static inline compute_model_item *numbers(int64_t count, const float *values) {
  compute_model_item *item = NULL;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(count), values);
  assert_ok(compute_model_item_from_tensor(tensor, &item));
  compute_tensor_release(tensor);
  return item;
}

static inline compute_model_item *whole_numbers(int64_t count, const int64_t *values) {
  compute_model_item *item = NULL;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(count), values);
  assert_ok(compute_model_item_from_tensor(tensor, &item));
  compute_tensor_release(tensor);
  return item;
}

/* Runs a model with inputs a, b, … and the output y; releases the inputs. */
static inline compute_status run(compute_model *model, compute_model_item *const *items,
                                 size_t count, compute_model_item **result) {
  static const char *const names[] = {"a", "b", "c"};
  compute_model_argument in[3] = {{0}}, out = {"y", NULL};
  for (size_t i = 0; i < count; i++) in[i] = (compute_model_argument){names[i], items[i]};
  const compute_status status = compute_model_run_items(model, in, count, &out, 1, NULL);
  for (size_t i = 0; i < count; i++) compute_model_item_release(items[i]);
  *result = out.item;
  return status;
}

static inline void assert_texts(compute_model_item *item, const char *const *expected,
                                size_t count) {
  assert_int_equal(compute_model_item_kind(item), COMPUTE_MODEL_TEXT);
  assert_int_equal(compute_model_item_count(item), count);
  for (size_t i = 0; i < count; i++)
    assert_string_equal(compute_model_item_text(item, i), expected[i]);
  assert_null(compute_model_item_text(item, count));
}

static inline void assert_numbers(const compute_model_item *item, const void *expected,
                                  size_t bytes) {
  unsigned char values[256];
  compute_tensor *tensor = compute_model_item_tensor(item);
  assert_non_null(tensor);
  assert_ok(compute_tensor_read(tensor, values, bytes));
  assert_memory_equal(values, expected, bytes);
}

/* Frees the messages after the last test. */
static inline void free_messages(void) {
  for (size_t i = 0; i < message_count; i++) free(messages[i]);
  message_count = 0;
}

#endif
