/* SPDX-License-Identifier: MIT */
/* ONNX files: their structure is decoded unchanged. Damaged, contradictory or endlessly nested
 * files are refused with a message that names the error. */
#include "model/decoding.h"
#include "core/platform/aligned.h"

/* ---- Structure ----------------------------------------------------------------------------- */

static proto typed_value(const char *name) {
  proto size = {0}, any = {0}, shape = {0}, tensor = {0}, type = {0}, value = {0};
  put_integer(&size, 1, 3);
  put_text(&any, 2, "batch");
  put_message(&shape, 1, any);
  put_message(&shape, 1, size);
  put_message(&shape, 1, (proto){0});
  put_integer(&tensor, 1, ONNX_FLOAT);
  put_message(&tensor, 2, shape);
  put_message(&type, 1, tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, type);
  return value;
}

static proto integer_attribute(const char *name, int64_t value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_integer(&attribute, 3, value);
  put_integer(&attribute, 20, ONNX_ATTRIBUTE_INT);
  return attribute;
}

/* A node with one attribute of every type. */
static proto attributed_node(void) {
  static const float numbers[] = {1, 2.5F};
  proto node = node_message("n", "Odd", "x,,w", "y,");
  proto packed = {0}, single = {0}, texts = {0}, text = {0}, number = {0};
  put_text(&node, 7, "ai.onnx");
  put_message(&node, NODE_ATTRIBUTE, integer_attribute("i", -7));
  put_text(&number, 1, "f");
  put_float(&number, 2, 0.5F);
  put_integer(&number, 20, ONNX_ATTRIBUTE_FLOAT);
  put_message(&node, NODE_ATTRIBUTE, number);
  put_text(&text, 1, "s");
  put_bytes(&text, 4, "a\0b", 3);
  put_integer(&text, 20, ONNX_ATTRIBUTE_STRING);
  put_message(&node, NODE_ATTRIBUTE, text);
  put_text(&packed, 1, "ints");
  put_bytes(&packed, 8, "\x05\xac\x02", 3);
  put_integer(&packed, 8, 9);
  put_integer(&packed, 20, ONNX_ATTRIBUTE_INTS);
  put_message(&node, NODE_ATTRIBUTE, packed);
  put_text(&single, 1, "floats");
  put_bytes(&single, 7, numbers, sizeof numbers);
  put_integer(&single, 20, ONNX_ATTRIBUTE_FLOATS);
  put_message(&node, NODE_ATTRIBUTE, single);
  put_text(&texts, 1, "strings");
  put_names(&texts, 9, "one,,three");
  put_integer(&texts, 20, ONNX_ATTRIBUTE_STRINGS);
  put_message(&node, NODE_ATTRIBUTE, texts);
  put_message(&node, NODE_ATTRIBUTE,
              attribute_message("t", ONNX_ATTRIBUTE_TENSOR, 5, vector_message("", numbers, 2)));
  put_graph_attribute(&node, "g", graph_message(NULL, NULL));
  return node;
}

static void a_graph_arrives_as_it_is(void **state) {
  (void)state;
  static const float values[] = {4, 5};
  onnx_file file;
  proto graph = {0};
  put_text(&graph, 2, "name");
  put_message(&graph, GRAPH_NODE, attributed_node());
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", values, 2));
  put_message(&graph, GRAPH_INPUT, typed_value("x"));
  put_message(&graph, GRAPH_OUTPUT, typed_value("y"));
  proto model = model_message(graph);
  put_text(&model, 6, "words");
  put_integer(&model, 999, 1); /* unknown fields are ignored */
  assert_reads(model, &file);
  assert_int_equal(file.ir_version, 8);
  assert_string_equal(file.producer, "tests");
  assert_string_equal(file.description, "words");
  assert_int_equal(file.opset_count, 1);
  assert_int_equal(file.opsets[0].version, 17);
  assert_int_equal(file.nodes, 1);
  assert_int_equal(file.weights, 1);
  assert_int_equal(file.weight_bytes, 8);
  const onnx_graph *read = &file.graph;
  const bool aligned = (uintptr_t)read->initializers[0].data % sizeof(float) == 0;
  assert_int_equal(file.mapped_bytes, aligned ? 8 : 0);
  assert_string_equal(read->name, "name");
  assert_int_equal(read->value_count, 3);
  assert_string_equal(read->values[0], "x");
  assert_string_equal(read->values[1], "w");
  assert_string_equal(read->values[2], "y");
  assert_int_equal(read->initializer_values[0], 1);
  const onnx_value_info *input = &read->inputs[0];
  assert_int_equal(input->kind, ONNX_IS_TENSOR);
  assert_int_equal(input->type, ONNX_FLOAT);
  assert_int_equal(input->rank, 3);
  assert_int_equal(input->size[0], -1);
  assert_string_equal(input->symbol[0], "batch");
  assert_int_equal(input->size[1], 3);
  assert_int_equal(input->size[2], -1);
  assert_null(input->symbol[2]);
  assert_int_equal(read->outputs[0].value, 2);
  const onnx_node *node = &read->nodes[0];
  assert_string_equal(node->name, "n");
  assert_string_equal(node->type, "Odd");
  assert_string_equal(node->domain, "");
  assert_int_equal(node->input_count, 3);
  assert_int_equal(node->inputs[0].index, 0);
  assert_int_equal(node->inputs[1].index, -1);
  assert_int_equal(node->inputs[2].index, 1);
  assert_int_equal(node->output_count, 2);
  assert_int_equal(node->outputs[0], 2);
  assert_int_equal(node->outputs[1], -1);
  onnx_release(&file);
}

static void attributes_of_every_type_arrive(void **state) {
  (void)state;
  onnx_file file;
  proto graph = graph_message("x,w", "y");
  put_message(&graph, GRAPH_NODE, attributed_node());
  assert_reads(model_message(graph), &file);
  const onnx_node *node = &file.graph.nodes[0];
  assert_int_equal(node->attribute_count, 8);
  assert_int_equal(onnx_find_attribute(node, "i")->integer, -7);
  assert_true(onnx_find_attribute(node, "f")->number == 0.5F);
  const onnx_attribute *text = onnx_find_attribute(node, "s");
  assert_int_equal(text->count, 3);
  assert_memory_equal(text->text, "a\0b", 4);
  const onnx_attribute *integers = onnx_find_attribute(node, "ints");
  assert_int_equal(integers->count, 3);
  assert_int_equal(integers->integers[1], 300);
  assert_int_equal(integers->integers[2], 9);
  const onnx_attribute *numbers = onnx_find_attribute(node, "floats");
  assert_int_equal(numbers->count, 2);
  assert_true(numbers->numbers[1] == 2.5F);
  const onnx_attribute *texts = onnx_find_attribute(node, "strings");
  assert_int_equal(texts->count, 3);
  assert_string_equal(texts->texts[1], "");
  assert_string_equal(texts->texts[2], "three");
  assert_int_equal(onnx_find_attribute(node, "t")->tensor->count, 2);
  assert_ptr_equal(onnx_find_attribute(node, "g")->graph->outer, &file.graph);
  assert_null(onnx_find_attribute(node, "none"));
  onnx_release(&file);
}

static void sequences_and_optionals_have_their_elements_type(void **state) {
  (void)state;
  static const struct {
    uint32_t fields[3]; /* from the outside to the tensor */
    int kind;
  } cases[] = {{{4, 0}, ONNX_IS_SEQUENCE},
               {{9, 0}, ONNX_IS_OPTIONAL},
               {{9, 4, 0}, ONNX_IS_OPTIONAL},
               {{4, 4, 0}, ONNX_IS_OTHER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto tensor = {0}, type = {0}, value = {0}, graph = {0};
    put_integer(&tensor, 1, ONNX_INT64);
    put_message(&type, 1, tensor);
    for (size_t k = 3; k-- > 0;) {
      if (!cases[i].fields[k]) continue;
      proto element = {0}, outer = {0};
      put_message(&element, 1, type);
      put_message(&outer, cases[i].fields[k], element);
      type = outer;
    }
    put_text(&value, 1, "x");
    put_message(&value, 2, type);
    put_message(&graph, GRAPH_INPUT, value);
    onnx_file file;
    assert_reads(model_message(graph), &file);
    assert_int_equal(file.graph.inputs[0].kind, cases[i].kind);
    assert_int_equal(file.graph.inputs[0].type, ONNX_INT64);
    assert_int_equal(file.graph.inputs[0].rank, -1);
    onnx_release(&file);
  }
}

/* ---- Damage -------------------------------------------------------------------------------- */

/* A model with every kind of part. */
static proto rich_model(void) {
  static const float values[] = {1, 2};
  proto graph = graph_message("x,w", "y"), function = {0}, branch = graph_message(NULL, "b");
  put_message(&graph, GRAPH_INPUT, typed_value("typed"));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("v", values, 2));
  proto list = tensor_message("i", ONNX_INT32, 1, (int64_t[]){3});
  put_integer(&list, 5, -3);
  put_bytes(&list, 5, "\x07\xac\x02", 3);
  put_message(&graph, GRAPH_INITIALIZER, list);
  put_message(&graph, GRAPH_INITIALIZER, tensor_message("s", ONNX_STRING, 1, (int64_t[]){0}));
  put_message(&graph, GRAPH_SPARSE,
              sparse_message("p", 1, (int64_t[]){6}, (int64_t[]){1, 3, 5}, 0));
  put_node(&graph, "late", "a,v", "z");
  put_message(&graph, GRAPH_NODE, attributed_node());
  put_node(&branch, "inner", "x,y", "b");
  proto node = node_message("if", "If", "x", "a");
  put_graph_attribute(&node, "then_branch", branch);
  put_message(&graph, GRAPH_NODE, node);
  proto call = node_message("call", "Mine", "x", "m");
  put_text(&call, 7, "own");
  put_message(&graph, GRAPH_NODE, call);
  put_text(&function, 1, "Mine");
  put_names(&function, 4, "in");
  put_names(&function, 5, "out");
  put_message(&function, FUNCTION_NODE, node_message("", "Neg", "in", "out"));
  put_message(&function, 9, opset_message("", 17));
  put_text(&function, 10, "own");
  put_message(&function, 11, integer_attribute("k", 3));
  proto model = model_message(graph);
  put_message(&model, MODEL_FUNCTION, function);
  return model;
}

static void assert_survives(const unsigned char *data, size_t bytes) {
  onnx_file file;
  const compute_status status = decode_bytes(data, bytes, NULL, &file);
  if (status == COMPUTE_OK) onnx_release(&file);
  if (status != COMPUTE_OK && status != COMPUTE_ERROR_FORMAT && status != COMPUTE_ERROR_FILE &&
      status != COMPUTE_ERROR_UNSUPPORTED)
    fail_msg("%s", compute_error_message(NULL));
}

static void truncated_models_are_refused(void **state) {
  (void)state;
  proto model = rich_model();
  onnx_file file;
  size_t good = 0;
  for (size_t bytes = 0; bytes <= model.bytes; bytes++) {
    assert_survives(model.data, bytes);
    if (decode_bytes(model.data, bytes, NULL, &file) == COMPUTE_OK) {
      good++;
      onnx_release(&file);
    }
  }
  assert_int_equal(good, 3); /* after the graph, the operator set and the function */
  free(model.data);
}

static void damaged_models_do_no_harm(void **state) {
  (void)state;
  static const unsigned char changes[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
  proto model = rich_model();
  for (size_t i = 0; i < model.bytes; i++) {
    for (size_t k = 0; k < sizeof changes; k++) {
      model.data[i] ^= changes[k];
      assert_survives(model.data, model.bytes);
      model.data[i] ^= changes[k];
    }
  }
  free(model.data);
}

static void malformed_messages_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t count;
  } cases[] = {
      {"\x08", 1},                                              /* no value */
      {"\x08\x80", 2},                                          /* half a value */
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11},     /* 65 bits */
      {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12}, /* 11 bytes */
      {"\x0a\x01x", 3},                                         /* text in place of a number */
      {"\x3a\x05\x0a", 3},                                      /* a length past the end */
      {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},     /* a length of 2^64 − 1 */
      {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10},         /* a length of 2^63 − 1 */
      {"\x0b\x0c", 2},                                          /* a group */
      {"\x0e", 1},                                              /* type 6 */
      {"\x00\x00", 2},                                          /* field 0 */
      {"\x80\x80\x80\x80\x80\x01\x00", 7},                      /* a field of 38 bits */
      {"\x0d\x01\x02", 3},                                      /* half a float */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto model = {0};
    put_raw(&model, cases[i].bytes, cases[i].count);
    assert_refuses(model, "malformed");
  }
}

static void what_is_no_model_is_refused(void **state) {
  (void)state;
  proto model = {0}, node = {0}, graph;
  assert_refuses(model, "no graph");
  put_message(&model, MODEL_GRAPH, graph_message(NULL, NULL));
  assert_refuses(model, "no version");
  for (int64_t version = 2; version <= 15; version += 13) {
    model = model_message(graph_message(NULL, NULL));
    put_integer(&model, 1, version);
    assert_refuses_in(model, NULL, COMPUTE_ERROR_UNSUPPORTED, version == 2 ? "2;" : "15;");
  }
  model = model_message(graph_message(NULL, NULL));
  put_message(&model, MODEL_GRAPH, graph_message(NULL, NULL));
  assert_refuses(model, "the second in its ModelProto");
  model = model_message(graph_message(NULL, NULL));
  put_message(&model, 8, opset_message("ai.onnx", 18));
  assert_refuses(model, "versions 17 and 18");
  model = model_message(graph_message(NULL, NULL));
  for (int i = 0; i < 300; i++) put_message(&model, 8, opset_message("", 17));
  assert_refuses(model, "more than 256");
  graph = graph_message(NULL, NULL);
  put_message(&graph, GRAPH_NODE, node);
  assert_refuses(model_message(graph), "names no operator");
  graph = graph_message(NULL, NULL);
  put_bytes(&graph, 2, "a\0b", 3);
  assert_refuses(model_message(graph), "a string with a zero byte");
  graph = graph_message(NULL, NULL);
  node = node_message("n", "Neg", NULL, NULL);
  put_message(&node, NODE_ATTRIBUTE, attribute_message("k", 4, 999, (proto){0}));
  put_message(&graph, GRAPH_NODE, node);
  assert_refuses(model_message(graph), "attribute 'k'");
}

/* ---- Nesting ------------------------------------------------------------------------------- */

static proto nested_model(int depth) {
  proto graph = graph_message(NULL, NULL);
  for (int i = 1; i < depth; i++) {
    proto node = node_message("n", "If", NULL, NULL), outer = graph_message(NULL, NULL);
    put_graph_attribute(&node, "then_branch", graph);
    put_message(&outer, GRAPH_NODE, node);
    graph = outer;
  }
  return model_message(graph);
}

static void graphs_nest_as_deep_as_they_may(void **state) {
  (void)state;
  onnx_file file;
  assert_reads(nested_model(64), &file);
  assert_int_equal(file.nodes, 63);
  onnx_release(&file);
  assert_refuses(nested_model(80), "nested too deeply");
  assert_refuses(nested_model(3000), "nested too deeply");
}

static void types_do_not_nest_without_end(void **state) {
  (void)state;
  proto type = {0}, value = {0}, graph = {0};
  for (int i = 0; i < 3000; i++) {
    proto element = {0}, outer = {0};
    put_message(&element, 1, type);
    put_message(&outer, 4, element);
    type = outer;
  }
  put_message(&value, 2, type);
  put_message(&graph, GRAPH_INPUT, value);
  assert_refuses(model_message(graph), "nested too deeply");
}

/* ---- Memory -------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_survives_allocations(rich_model(), NULL);
}

static size_t allocated;

static void *allocate_counted(void *user, size_t bytes, size_t alignment) {
  (void)user;
  allocated += bytes;
  return aligned_take(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_counted(void *user, void *data) {
  (void)user;
  aligned_give(data);
}

/* The memory of a model is proportional to its bytes, however small its parts are. Frees the
 * graph. */
static void assert_proportional(proto graph) {
  static const compute_allocator counted = {allocate_counted, release_counted, NULL};
  proto model = model_message(graph);
  const size_t bytes = model.bytes;
  onnx_file file;
  assert_ok(compute_allocator_set(&counted));
  allocated = 0;
  if (decode(model, NULL, &file) == COMPUTE_OK) onnx_release(&file);
  if (allocated > 160 * bytes + (1 << 18))
    fail_msg("%zu bytes of memory for %zu of a model", allocated, bytes);
  assert_ok(compute_allocator_set(NULL));
}

static void memory_is_proportional_to_the_file(void **state) {
  (void)state;
  enum { PARTS = 20000 };
  static const uint32_t fields[] = {GRAPH_NODE,  GRAPH_INITIALIZER, GRAPH_SPARSE,
                                    GRAPH_INPUT, GRAPH_OUTPUT,      13};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    proto graph = graph_message(NULL, NULL);
    for (int k = 0; k < PARTS; k++) put_message(&graph, fields[i], (proto){0});
    assert_proportional(graph);
  }
  proto node = node_message("n", "Neg", NULL, NULL), graph = graph_message(NULL, NULL);
  for (int k = 0; k < PARTS; k++) put_text(&node, 2, "");
  for (int k = 0; k < PARTS; k++) put_text(&node, 1, "");
  for (int k = 0; k < PARTS; k++) put_message(&node, NODE_ATTRIBUTE, (proto){0});
  put_message(&graph, GRAPH_NODE, node);
  assert_proportional(graph);
  graph = graph_message(NULL, NULL);
  for (int k = 0; k < PARTS; k++) {
    proto inner = {0}, small = node_message("", "N", "", "");
    put_message(&inner, GRAPH_OUTPUT, (proto){0});
    put_graph_attribute(&small, "", inner);
    put_message(&graph, GRAPH_NODE, small);
  }
  assert_proportional(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_arrives_as_it_is),
      cmocka_unit_test(attributes_of_every_type_arrive),
      cmocka_unit_test(sequences_and_optionals_have_their_elements_type),
      cmocka_unit_test(truncated_models_are_refused),
      cmocka_unit_test(damaged_models_do_no_harm),
      cmocka_unit_test(malformed_messages_are_refused),
      cmocka_unit_test(what_is_no_model_is_refused),
      cmocka_unit_test(graphs_nest_as_deep_as_they_may),
      cmocka_unit_test(types_do_not_nest_without_end),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(memory_is_proportional_to_the_file),
  };
  return cmocka_run_group_tests(tests, NULL, free_held);
}
