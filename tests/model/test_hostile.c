/* SPDX-License-Identifier: MIT */
/* Legal but unusual models and hostile models: each is computed or refused, in bounded time and
 * without memory errors. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "compute/compute.h"
#include "model/message_writer.h"

/* The message must outlive the model that reads it. */
typedef struct loaded_model {
  compute_model *model;
  void *message;
} loaded_model;

static loaded_model load_message(proto message) {
  loaded_model loaded = {NULL, message.data};
  assert_ok(
      compute_model_load_memory(test_context, message.data, message.bytes, NULL, &loaded.model));
  return loaded;
}

static loaded_model load(proto graph) {
  return load_message(model_message(graph));
}

static void unload(loaded_model loaded) {
  compute_model_release(loaded.model);
  free(loaded.message);
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(outputs ? outputs : type, type, inputs, outputs));
}

static compute_tensor *numbers(int64_t count, const float *values) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(count), values);
}

static void assert_values(compute_tensor *tensor, const float *expected, int64_t count) {
  float values[64];
  assert_int_equal(compute_tensor_count(tensor), count);
  assert_ok(compute_tensor_read(tensor, values, (size_t)count * sizeof *values));
  for (int64_t i = 0; i < count; i++) assert_float_equal(values[i], expected[i], 1e-6f);
}

static compute_status run_xy(compute_model *model, compute_tensor *x, compute_tensor **y) {
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  const compute_status status = compute_model_run(model, &in, 1, &out, 1);
  *y = out.tensor;
  return status;
}

/* Runs the model on two numbers x, compares y and releases the model. */
static void assert_result(loaded_model loaded, const float *expected, int64_t count) {
  compute_tensor *x = numbers(2, (float[]){3, -1}), *y;
  assert_ok(run_xy(loaded.model, x, &y));
  assert_values(y, expected, count);
  compute_tensor_release(y);
  compute_tensor_release(x);
  unload(loaded);
}

/* The run fails with this text in the message. Releases the model. */
static void assert_refused(loaded_model loaded, const char *message) {
  compute_tensor *x = numbers(2, (float[]){3, -1}), *y;
  assert_int_not_equal(run_xy(loaded.model, x, &y), COMPUTE_OK);
  assert_null(y);
  test_check_message(test_context, message);
  compute_tensor_release(x);
  unload(loaded);
}

/* ---- Sequences ------------------------------------------------------------------------------ */

static proto integer_attribute(const char *name, int64_t value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_integer(&attribute, 3, value);
  put_integer(&attribute, 20, 2);
  return attribute;
}

static proto branch(const char *output) {
  proto graph = {0};
  put_text(&graph, 2, "branch");
  put_values(&graph, GRAPH_OUTPUT, output);
  return graph;
}

/* if sum(x) != 0 then t else x, as `output`. The plan ends before this node. */
static void add_if(proto *graph, const char *output) {
  add_node(graph, "ReduceSum", "x", "sum");
  proto cast = node_message("cast", "Cast", "sum", "condition");
  put_message(&cast, NODE_ATTRIBUTE, integer_attribute("to", 9));
  put_message(graph, GRAPH_NODE, cast);
  proto node = node_message("choice", "If", "condition", output);
  proto yes = branch("yes"), no = branch("no");
  add_node(&yes, "Identity", "x", "yes");
  add_node(&no, "Neg", "x", "no");
  put_graph_attribute(&node, "then_branch", yes);
  put_graph_attribute(&node, "else_branch", no);
  put_message(graph, GRAPH_NODE, node);
}

/* A sequence inside an optional is passed on to the next plan. */
static void sequences_in_optionals_outlive_a_plan(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Abs", "x", "a");
  add_node(&graph, "SequenceConstruct", "a,x", "list");
  add_node(&graph, "Optional", "list", "perhaps");
  add_if(&graph, "chosen");
  add_node(&graph, "OptionalGetElement", "perhaps", "again");
  proto join = node_message("joined", "ConcatFromSequence", "again", "joined");
  put_message(&join, NODE_ATTRIBUTE, integer_attribute("axis", 0));
  put_message(&graph, GRAPH_NODE, join);
  join = node_message("y", "Concat", "joined,chosen", "y");
  put_message(&join, NODE_ATTRIBUTE, integer_attribute("axis", 0));
  put_message(&graph, GRAPH_NODE, join);
  loaded_model loaded = load(graph);
  assert_result(loaded, (float[]){3, 1, 3, -1, 3, -1}, 6);
}

static void sequences_do_not_nest(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "SequenceConstruct", "x,x", "s0");
  char inputs[40], output[20];
  for (int i = 1; i <= 40; i++) {
    snprintf(inputs, sizeof inputs, "s%d,s%d", i - 1, i - 1);
    snprintf(output, sizeof output, "s%d", i);
    add_node(&graph, "SequenceConstruct", inputs, output);
  }
  add_if(&graph, "chosen");
  add_node(&graph, "SequenceLength", "s40", "length");
  add_node(&graph, "Mul", "chosen,chosen", "y");
  put_values(&graph, GRAPH_OUTPUT, "length");
  loaded_model loaded = load(graph);
  compute_tensor *x = numbers(2, (float[]){3, -1});
  compute_model_binding in = {"x", x}, out[] = {{"y", NULL}, {"length", NULL}};
  assert_int_not_equal(compute_model_run(loaded.model, &in, 1, out, 2), COMPUTE_OK);
  test_check_message(test_context, "'s1' (SequenceConstruct)");
  compute_tensor_release(x);
  unload(loaded);
}

static void an_optional_holds_no_optional(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Optional", "x", "o0");
  add_node(&graph, "Optional", "o0", "o1");
  add_node(&graph, "OptionalGetElement", "o1", "y");
  assert_refused(load(graph), "'o1' (Optional)");
}

static void an_insertion_needs_its_item(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "SequenceConstruct", "x", "s");
  add_node(&graph, "SequenceInsert", "s", "t");
  add_node(&graph, "SequenceAt", "t", "y");
  assert_refused(load(graph), "'t' (SequenceInsert)");
}

/* ---- Host functions -------------------------------------------------------------------------- */

static void the_host_takes_tensors_only(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "SequenceConstruct", "x", "s");
  add_node(&graph, "NonZero", "s", "y");
  assert_refused(load(graph), "'y' (NonZero)");
}

static void the_host_needs_its_inputs(void **state) {
  (void)state;
  static const char *const types[] = {"NonZero", "Unique", "Compress", "NonMaxSuppression"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    proto graph = graph_message("x", "y");
    add_node(&graph, types[i], NULL, "y");
    assert_refused(load(graph), types[i]);
  }
}

/* ---- Nested graphs --------------------------------------------------------------------------- */

static proto shaped_value(const char *name, int type, int rank) {
  proto shape = {0};
  for (int i = 0; i < rank; i++) {
    proto size = {0};
    put_integer(&size, 1, 1);
    put_message(&shape, 1, size);
  }
  proto tensor = {0}, value = {0}, info = {0};
  put_integer(&tensor, 1, type);
  put_message(&tensor, 2, shape);
  put_message(&value, 1, tensor);
  put_text(&info, 1, name);
  put_message(&info, 2, value);
  return info;
}

/* A loop without iterations stacks nothing, but its output still has a shape, and this one is too
 * large. */
static void a_loop_without_rounds_has_bounds(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  proto rounds = tensor_message("rounds", 7, 0, NULL);
  put_bytes(&rounds, 9, (char[8]){0}, 8);
  put_message(&graph, GRAPH_INITIALIZER, rounds);
  proto body = {0};
  put_values(&body, GRAPH_INPUT, "i,c");
  put_values(&body, GRAPH_OUTPUT, "d");
  put_message(&body, GRAPH_OUTPUT, shaped_value("e", 1, COMPUTE_MAX_RANK));
  add_node(&body, "Identity", "c", "d");
  add_node(&body, "Identity", "x", "e");
  proto node = node_message("loop", "Loop", "rounds,", "y");
  put_graph_attribute(&node, "body", body);
  put_message(&graph, GRAPH_NODE, node);
  assert_refused(load(graph), "'loop' (Loop)");
}

static proto function_message(const char *name, const char *inputs, const char *outputs) {
  proto function = {0};
  put_text(&function, 1, name);
  put_names(&function, 4, inputs);
  put_names(&function, 5, outputs);
  put_text(&function, 10, "own");
  put_message(&function, 9, opset_message("", 17));
  put_message(&function, 9, opset_message("own", 1));
  return function;
}

static proto own_node(const char *type, const char *inputs, const char *outputs) {
  proto node = node_message(outputs, type, inputs, outputs);
  put_text(&node, 7, "own");
  return node;
}

/* A caller hands a graph to a function. The graph reads values of the caller; the function has no
 * such values, or others with the same names. */
static void graphs_are_not_handed_to_functions(void **state) {
  (void)state;
  proto function = function_message("F", "a", "b");
  proto node = node_message("b", "If", "a", "b");
  static const char *const names[] = {"then_branch", "else_branch"};
  for (int i = 0; i < 2; i++) {
    proto attribute = {0};
    put_text(&attribute, 1, names[i]);
    put_integer(&attribute, 20, 5);
    put_text(&attribute, 21, "outer");
    put_message(&node, NODE_ATTRIBUTE, attribute);
  }
  put_message(&function, FUNCTION_NODE, node);
  proto graph = graph_message("x", "y");
  const int64_t one = 1;
  proto yes = tensor_message("truth", 9, 1, &one);
  put_bytes(&yes, 9, "\1", 1);
  put_message(&graph, GRAPH_INITIALIZER, yes);
  char output[20], input[20] = "x";
  for (int i = 0; i < 500; i++) {
    snprintf(output, sizeof output, "v%d", i);
    add_node(&graph, "Neg", input, output);
    strcpy(input, output);
  }
  proto inner = branch("z");
  add_node(&inner, "Identity", input, "z");
  proto call = own_node("F", "truth", "y");
  put_graph_attribute(&call, "outer", inner);
  put_message(&graph, GRAPH_NODE, call);
  proto message = model_message(graph);
  put_message(&message, 8, opset_message("own", 1));
  put_message(&message, MODEL_FUNCTION, function);
  assert_refused(load_message(message), "(If)");
}

/* Each function calls the next one twice. */
static void expansion_is_bounded(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, own_node("F0", "x", "y"));
  proto message = model_message(graph);
  put_message(&message, 8, opset_message("own", 1));
  char name[20], next[20];
  for (int i = 0; i < 20; i++) {
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, "F%d", i + 1);
    proto function = function_message(name, "a", "c");
    put_message(&function, FUNCTION_NODE, own_node(next, "a", "b"));
    put_message(&function, FUNCTION_NODE, own_node(next, "b", "c"));
    put_message(&message, MODEL_FUNCTION, function);
  }
  proto last = function_message("F20", "a", "b");
  put_message(&last, FUNCTION_NODE, node_message("b", "Identity", "a", "b"));
  put_message(&message, MODEL_FUNCTION, last);
  assert_refused(load_message(message), "nodes");
}

/* ---- Outputs -------------------------------------------------------------------------------- */

static void outputs_may_be_one_value(void **state) {
  (void)state;
  proto graph = graph_message("x", "y,z,x,w");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", (float[]){5, 6}, 2));
  add_node(&graph, "Neg", "x", "y");
  add_node(&graph, "Identity", "y", "z");
  loaded_model loaded = load(graph);
  compute_tensor *x = numbers(2, (float[]){3, -1});
  compute_model_binding in = {"x", x}, out[] = {{"y", NULL}, {"z", NULL}, {"x", NULL}, {"w", NULL}};
  assert_ok(compute_model_run(loaded.model, &in, 1, out, 4));
  assert_values(out[0].tensor, (float[]){-3, 1}, 2);
  assert_values(out[1].tensor, (float[]){-3, 1}, 2);
  assert_values(out[2].tensor, (float[]){3, -1}, 2);
  assert_values(out[3].tensor, (float[]){5, 6}, 2);
  for (int i = 0; i < 4; i++) compute_tensor_release(out[i].tensor);
  compute_tensor_release(x);
  unload(loaded);
}

/* Two names of one value that both outlive a plan. */
static void one_value_may_outlive_a_plan_twice(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Abs", "x", "a");
  add_node(&graph, "Identity", "a", "b");
  add_node(&graph, "Reshape", "a,shape", "c");
  const int64_t one = 1, two = 2;
  proto shape = tensor_message("shape", 7, 1, &one);
  put_bytes(&shape, 9, &two, 8);
  put_message(&graph, GRAPH_INITIALIZER, shape);
  add_if(&graph, "chosen");
  add_node(&graph, "Add", "a,b", "d");
  add_node(&graph, "Add", "c,d", "e");
  add_node(&graph, "Add", "e,chosen", "y");
  assert_result(load(graph), (float[]){12, 2}, 2);
}

/* One output is every second element of a tensor, the other one is also an input. */
static void outputs_may_be_views(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Neg", "x", "y");
  loaded_model loaded = load(graph);
  compute_tensor *x = numbers(2, (float[]){3, -1}), *wide = numbers(4, (float[]){7, 7, 7, 7});
  compute_tensor *every_second = NULL;
  assert_ok(compute_tensor_slice_view(wide, 0, 0, 2, 2, &every_second));
  compute_model_binding in = {"x", x}, out = {"y", every_second};
  assert_ok(compute_model_run(loaded.model, &in, 1, &out, 1));
  assert_values(wide, (float[]){-3, 7, 1, 7}, 4);
  compute_tensor_release(every_second);
  compute_tensor_release(wide);
  compute_tensor_release(x);
  unload(loaded);
}

/* An error in values that are known during recording also names the node. */
static void errors_of_known_values_name_the_node(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  const int64_t one = 1, three = 3, values[] = {1, 2, 3}, at = 7;
  proto table = tensor_message("table", 7, 1, &three), index = tensor_message("index", 7, 1, &one);
  put_bytes(&table, 9, values, sizeof values);
  put_bytes(&index, 9, &at, sizeof at);
  put_message(&graph, GRAPH_INITIALIZER, table);
  put_message(&graph, GRAPH_INITIALIZER, index);
  add_node(&graph, "Gather", "table,index", "shape");
  add_node(&graph, "Reshape", "x,shape", "y");
  assert_refused(load(graph), "'shape' (Gather)");
}

static void errors_of_runs_name_the_node(void **state) {
  (void)state;
  proto graph = graph_message("x", "y"), at = node_message("at", "Cast", "x", "at");
  put_message(&at, NODE_ATTRIBUTE, integer_attribute("to", 7));
  put_message(&graph, GRAPH_NODE, at);
  add_node(&graph, "Gather", "x,at", "y");
  assert_refused(load(graph), "'y'");
}

/* ---- Threads -------------------------------------------------------------------------------- */

typedef struct thread_work {
  compute_model *model;
  int number, failures;
} thread_work;

/* Each run has other sizes and another number of zeros. */
static void *run_often(void *argument) {
  thread_work *work = argument;
  for (int i = 0; i < 40; i++) {
    float values[6] = {0}, result[6];
    const int64_t size = 3 + (work->number + i) % 3, count = 1 + i % 3;
    for (int64_t k = 0; k < count; k++) values[size - 1 - k] = (float)(k + 1);
    compute_tensor *x = NULL;
    if (compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                 COMPUTE_SHAPE(size), values, &x)) {
      work->failures++;
      continue;
    }
    compute_model_binding in = {"x", x}, out = {"y", NULL};
    if (compute_model_run(work->model, &in, 1, &out, 1) ||
        compute_tensor_count(out.tensor) != count ||
        compute_tensor_read(out.tensor, result, (size_t)count * sizeof *result))
      work->failures++;
    else
      for (int64_t k = 0; k < count; k++) work->failures += result[k] != (float)(count - k) + 1;
    compute_tensor_release(out.tensor);
    compute_tensor_release(x);
  }
  return NULL;
}

/* The limit on plans is far below the number of plans in use. The first plan puts the weights on
 * the device. */
static void threads_share_stages(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  const int64_t one = 1;
  proto number = tensor_message("one", 1, 1, &one);
  put_bytes(&number, 9, &(float){1}, 4);
  put_message(&graph, GRAPH_INITIALIZER, number);
  add_node(&graph, "NonZero", "x", "at");
  add_node(&graph, "Transpose", "at", "list");
  add_node(&graph, "GatherND", "x,list", "found");
  add_node(&graph, "Add", "found,one", "y");
  proto message = model_message(graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes,
                                      &(compute_model_options){.max_plans = 2}, &model));
  pthread_t threads[4];
  thread_work work[4];
  for (int i = 0; i < 4; i++) {
    work[i] = (thread_work){model, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &work[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(work[i].failures, 0);
  }
  /* A new plan makes room even if many plans were in use at once. */
  compute_tensor *x = numbers(2, (float[]){3, -1}), *y;
  assert_ok(run_xy(model, x, &y));
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_true(info.plans <= 2);
  compute_tensor_release(y);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static compute_tensor *run_file(const char *path, compute_tensor *x) {
  compute_model *model = NULL;
  compute_tensor *y;
  assert_ok(compute_model_load(test_context, path, NULL, &model));
  assert_ok(run_xy(model, x, &y));
  compute_model_release(model);
  return y;
}

static void save_and_compare(compute_model *model, const char *path, const float *expected) {
  compute_tensor *x = numbers(2, (float[]){3, -1}), *y;
  assert_ok(run_xy(model, x, &y));
  assert_values(y, expected, 2);
  compute_tensor_release(y);
  assert_ok(compute_model_save(model, path));
  y = run_file(path, x);
  assert_values(y, expected, 2);
  compute_tensor_release(y);
  compute_tensor_release(x);
}

/* y = x · s + w. The sparse s precedes w among the initializers. */
static void sparse_initializers_are_written(void **state) {
  (void)state;
  proto graph = graph_message("x", "y"), sparse = {0};
  const int64_t one = 1, at = 1, two = 2;
  proto values = tensor_message("s", 1, 1, &one), indices = tensor_message("", 7, 1, &one);
  put_bytes(&values, 9, &(float){4}, 4);
  put_bytes(&indices, 9, &at, 8);
  put_message(&sparse, 1, values);
  put_message(&sparse, 2, indices);
  put_integer(&sparse, 3, two);
  put_message(&graph, GRAPH_SPARSE, sparse);
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", (float[]){5, 6}, 2));
  add_node(&graph, "Mul", "x,s", "p");
  add_node(&graph, "Add", "p,w", "y");
  loaded_model loaded = load(graph);
  save_and_compare(loaded.model, TEST_SCRATCH_DIR "/sparse.onnx", (float[]){5, 2});
  unload(loaded);
}

/* A model that is written to another folder takes its weights along, both used and unused ones. */
static void external_weights_are_written(void **state) {
  (void)state;
  mkdir(TEST_SCRATCH_DIR "/beside", 0700);
  FILE *file = fopen(TEST_SCRATCH_DIR "/beside/weights", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite((float[]){5, 6}, 4, 2, file), 2);
  assert_int_equal(fclose(file), 0);
  for (int runs = 0; runs < 2; runs++) {
    proto graph = graph_message("x", "y"), pair = {0};
    proto weight = tensor_message("w", 1, 1, &(int64_t){2});
    put_text(&pair, 1, "location");
    put_text(&pair, 2, "weights");
    put_message(&weight, 13, pair);
    put_integer(&weight, 14, 1);
    put_message(&graph, GRAPH_INITIALIZER, weight);
    add_node(&graph, "Add", "x,w", "y");
    proto message = model_message(graph);
    compute_model *model = NULL;
    const compute_model_options options = {.folder = TEST_SCRATCH_DIR "/beside"};
    static const char path[] = TEST_SCRATCH_DIR "/alone.onnx";
    assert_ok(
        compute_model_load_memory(test_context, message.data, message.bytes, &options, &model));
    if (runs) {
      save_and_compare(model, path, (float[]){8, 5});
    } else {
      assert_ok(compute_model_save(model, path));
      compute_tensor *x = numbers(2, (float[]){3, -1}), *y = run_file(path, x);
      assert_values(y, (float[]){8, 5}, 2);
      compute_tensor_release(y);
      compute_tensor_release(x);
    }
    compute_model_release(model);
    free(message.data);
  }
}

/* ---- Names ---------------------------------------------------------------------------------- */

static void recorded_inputs_are_given_once(void **state) {
  (void)state;
  proto message = graph_message("x", "y");
  add_node(&message, "Neg", "x", "y");
  loaded_model loaded = load(message);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node a = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2));
  const compute_node b = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  compute_model_value in[] = {{"x", a}, {"x", b}}, out = {"y", {0}};
  assert_fails(compute_model_record(loaded.model, graph, in, 2, &out, 1), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "'x' is given twice");
  compute_graph_release(graph);
  unload(loaded);
}

/* Of very many unknown operators, the message names some, in bounded time. */
static void many_missing_operators_are_refused(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  char name[20];
  for (int i = 0; i < 60000; i++) {
    snprintf(name, sizeof name, "Odd%d", i);
    add_node(&graph, name, "x", NULL);
  }
  add_node(&graph, "Neg", "x", "y");
  proto message = model_message(graph);
  compute_model *model = NULL;
  assert_fails(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "more than 100 operators");
  free(message.data);
}

/* Names in the file may have control characters; messages replace them. */
static void names_are_shown_without_control_characters(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, node_message("\33[2Jn", "SequenceLength", "x", "y"));
  assert_refused(load(graph), "[2Jn' (SequenceLength)");
  compute_error error;
  compute_error_get(test_context, &error);
  assert_null(strchr(error.message, '\33'));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequences_in_optionals_outlive_a_plan),
      cmocka_unit_test(sequences_do_not_nest),
      cmocka_unit_test(an_optional_holds_no_optional),
      cmocka_unit_test(an_insertion_needs_its_item),
      cmocka_unit_test(the_host_takes_tensors_only),
      cmocka_unit_test(the_host_needs_its_inputs),
      cmocka_unit_test(a_loop_without_rounds_has_bounds),
      cmocka_unit_test(graphs_are_not_handed_to_functions),
      cmocka_unit_test(expansion_is_bounded),
      cmocka_unit_test(outputs_may_be_one_value),
      cmocka_unit_test(one_value_may_outlive_a_plan_twice),
      cmocka_unit_test(outputs_may_be_views),
      cmocka_unit_test(errors_of_known_values_name_the_node),
      cmocka_unit_test(errors_of_runs_name_the_node),
      cmocka_unit_test(threads_share_stages),
      cmocka_unit_test(sparse_initializers_are_written),
      cmocka_unit_test(external_weights_are_written),
      cmocka_unit_test(recorded_inputs_are_given_once),
      cmocka_unit_test(many_missing_operators_are_refused),
      cmocka_unit_test(names_are_shown_without_control_characters),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
