/* SPDX-License-Identifier: MIT */
/* Names in ONNX files: each name is resolved through nested graphs, and nodes are sorted.
 * Duplicate, undefined and cyclic definitions are refused. */
#include "model/decoding.h"

/* ---- Names --------------------------------------------------------------------------------- */

static void assert_order(const onnx_graph *graph, const char *names) {
  char all[64] = "";
  for (size_t i = 0; i < graph->node_count; i++) strcat(all, graph->nodes[i].name);
  assert_string_equal(all, names);
}

static void nodes_are_sorted(void **state) {
  (void)state;
  onnx_file file;
  proto graph = graph_message("x", "d");
  put_node(&graph, "1", "x", "a");
  put_node(&graph, "4", "b,c", "d");
  put_node(&graph, "3", "a,b", "c");
  put_node(&graph, "2", "x,a", "b");
  assert_reads(model_message(graph), &file);
  assert_order(&file.graph, "1234");
  const onnx_node *last = &file.graph.nodes[3];
  assert_string_equal(file.graph.values[last->inputs[0].index], "b");
  assert_string_equal(file.graph.values[last->inputs[1].index], "c");
  assert_string_equal(file.graph.values[last->outputs[0]], "d");
  onnx_release(&file);
}

static void a_graph_within_needs_what_it_uses(void **state) {
  (void)state;
  onnx_file file;
  proto graph = graph_message("x", "a"), inner = graph_message(NULL, "i"),
        middle = graph_message(NULL, "m");
  put_node(&inner, "deep", "late,m0", "i");
  proto node = node_message("mid", "If", NULL, "m");
  put_graph_attribute(&node, "then_branch", inner);
  put_message(&middle, GRAPH_NODE, node);
  put_node(&middle, "0", "x", "m0");
  node = node_message("B", "If", NULL, "a");
  put_graph_attribute(&node, "then_branch", middle);
  put_message(&graph, GRAPH_NODE, node);
  put_node(&graph, "A", "x", "late");
  assert_reads(model_message(graph), &file);
  assert_order(&file.graph, "AB");
  const onnx_graph *read = file.graph.nodes[1].attributes[0].graph;
  assert_order(read, "0mid");
  read = read->nodes[1].attributes[0].graph;
  assert_int_equal(read->nodes[0].inputs[0].level, 2);
  assert_string_equal(read->outer->outer->values[read->nodes[0].inputs[0].index], "late");
  assert_int_equal(read->nodes[0].inputs[1].level, 1);
  assert_string_equal(read->outer->values[read->nodes[0].inputs[1].index], "m0");
  onnx_release(&file);
}

static void cycles_are_refused(void **state) {
  (void)state;
  proto graph = graph_message("x", NULL);
  put_node(&graph, "before", "x", "p");
  put_node(&graph, "one", "p,b", "a");
  put_node(&graph, "two", "a", "b");
  put_node(&graph, "after", "b", "c");
  assert_refuses(model_message(graph), "(Add) depends on its own output");
  assert_null(strstr(compute_error_message(NULL), "after"));
  assert_null(strstr(compute_error_message(NULL), "before"));
  graph = graph_message("x", NULL);
  put_node(&graph, "self", "a", "a");
  assert_refuses(model_message(graph), "node 'self' (Add) depends on its own output");
  proto inner = graph_message(NULL, NULL);
  put_node(&inner, "in", "own", NULL);
  proto node = node_message("around", "If", NULL, "own");
  put_graph_attribute(&node, "then_branch", inner);
  graph = graph_message("x", NULL);
  put_message(&graph, GRAPH_NODE, node);
  assert_refuses(model_message(graph), "node 'around' (If) depends on its own output");
}

static void a_value_is_defined_once(void **state) {
  (void)state;
  static const float values[] = {1, 2};
  proto graph = graph_message("x,y,x", NULL);
  assert_refuses(model_message(graph), "'x' is defined twice");
  graph = graph_message("x", NULL);
  put_node(&graph, "n", "x", "x");
  assert_refuses(model_message(graph), "'x' is defined twice");
  graph = graph_message("x", NULL);
  put_node(&graph, "n", "x", "a,a");
  assert_refuses(model_message(graph), "'a' is defined twice");
  graph = graph_message("x", NULL);
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", values, 2));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", values, 1));
  assert_refuses(model_message(graph), "'w' is defined twice");
  graph = graph_message("w", NULL);
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", values, 2));
  put_node(&graph, "n", "w", "w");
  assert_refuses(model_message(graph), "'w' is defined twice");
  assert_refuses(model_message(graph_message("", NULL)), "has no name");
  graph = graph_message(NULL, NULL);
  put_message(&graph, GRAPH_INITIALIZER, vector_message("", values, 2));
  assert_refuses(model_message(graph), "has no name");
}

static void what_is_used_must_be_defined(void **state) {
  (void)state;
  proto graph = graph_message("x", NULL);
  put_node(&graph, "n", "x,y", "z");
  assert_refuses(model_message(graph), "node 'n' (Add) uses 'y', which is not defined");
  graph = graph_message("x", NULL);
  put_node(&graph, "", "x,y", "z");
  assert_refuses(model_message(graph), "node 'z' (Add) uses 'y'");
  assert_refuses(model_message(graph_message("x", "y")),
                 "output 'y' of graph 'main' is not defined");
  proto inner = graph_message(NULL, "x"), node = node_message("if", "If", NULL, "a");
  put_graph_attribute(&node, "then_branch", inner);
  graph = graph_message("x", "a");
  put_message(&graph, GRAPH_NODE, node);
  assert_refuses(model_message(graph), "Identity");
  /* Definitions of an inner graph are not visible outside. */
  inner = graph_message(NULL, NULL);
  put_node(&inner, "in", "x", "hidden");
  node = node_message("if", "If", NULL, "a");
  put_graph_attribute(&node, "then_branch", inner);
  graph = graph_message("x", NULL);
  put_message(&graph, GRAPH_NODE, node);
  put_node(&graph, "n", "hidden", "b");
  assert_refuses(model_message(graph), "uses 'hidden'");
}

static void an_initializer_may_be_an_inputs_default(void **state) {
  (void)state;
  static const float values[] = {1, 2};
  onnx_file file;
  proto graph = graph_message("x,w", "w");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("v", values, 2));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", values, 2));
  put_node(&graph, "n", "w,v", "z");
  assert_reads(model_message(graph), &file);
  assert_int_equal(file.graph.value_count, 4);
  assert_int_equal(file.graph.input_count, 2);
  assert_int_equal(file.graph.initializer_count, 2);
  assert_int_equal(file.graph.inputs[1].value, 1);
  assert_int_equal(file.graph.initializer_values[1], 1);
  assert_int_equal(file.graph.initializer_values[0], 2);
  assert_int_equal(file.graph.nodes[0].inputs[0].index, 1);
  assert_int_equal(file.graph.nodes[0].inputs[1].index, 2);
  assert_int_equal(file.graph.nodes[0].outputs[0], 3);
  assert_int_equal(file.graph.outputs[0].value, 1);
  onnx_release(&file);
}

/* ---- Functions ----------------------------------------------------------------------------- */

/* A function in the domain "own" that calls another function of this domain. */
static proto function_message(const char *name, const char *called) {
  proto function = {0}, node = node_message("call", called, "in", "out");
  put_text(&node, 7, "own");
  put_text(&function, 1, name);
  put_names(&function, 4, "in");
  put_names(&function, 5, "out");
  put_message(&function, FUNCTION_NODE, node);
  put_text(&function, 10, "own");
  return function;
}

static proto call_message(const char *type, const char *inputs) {
  proto node = node_message("caller", type, inputs, "y");
  put_text(&node, 7, "own");
  return node;
}

static proto with_functions(const char *first, const char *second, const char *inputs) {
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, call_message("First", inputs));
  proto model = model_message(graph);
  put_message(&model, MODEL_FUNCTION, function_message("First", first));
  put_message(&model, MODEL_FUNCTION, function_message("Second", second));
  return model;
}

static void nodes_find_their_functions(void **state) {
  (void)state;
  onnx_file file;
  assert_reads(with_functions("Second", "Neg", "x"), &file);
  assert_int_equal(file.function_count, 2);
  assert_ptr_equal(file.graph.nodes[0].function, &file.functions[0]);
  assert_ptr_equal(file.functions[0].body.nodes[0].function, &file.functions[1]);
  assert_null(file.functions[1].body.nodes[0].function);
  assert_int_equal(file.functions[1].body.outputs[0].value, 1);
  onnx_release(&file);
}

static void functions_that_contradict_are_refused(void **state) {
  (void)state;
  assert_refuses(with_functions("First", "Neg", "x"), "'First' calls itself");
  assert_refuses(with_functions("Second", "First", "x"), "calls itself");
  assert_refuses(with_functions("Neg", "Neg", "x,x"), "more inputs or outputs than its function");
  proto model = with_functions("Neg", "Neg", "x");
  put_message(&model, MODEL_FUNCTION, function_message("First", "Neg"));
  assert_refuses(model, "'First' is defined twice");
  proto graph = graph_message("x", "y"), node = node_message("n", "Neg", "x", "y");
  proto attribute = {0};
  put_text(&attribute, 1, "alpha");
  put_text(&attribute, 21, "outer");
  put_message(&node, NODE_ATTRIBUTE, attribute);
  put_message(&graph, GRAPH_NODE, node);
  assert_refuses(model_message(graph), "takes 'alpha' from a function");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nodes_are_sorted),
      cmocka_unit_test(a_graph_within_needs_what_it_uses),
      cmocka_unit_test(cycles_are_refused),
      cmocka_unit_test(a_value_is_defined_once),
      cmocka_unit_test(what_is_used_must_be_defined),
      cmocka_unit_test(an_initializer_may_be_an_inputs_default),
      cmocka_unit_test(nodes_find_their_functions),
      cmocka_unit_test(functions_that_contradict_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, free_held);
}
