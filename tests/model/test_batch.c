/* SPDX-License-Identifier: MIT */
/* Batch iterators over models. Every item's result is independent of the batch size. The file or
 * the caller sets the items per batch. A step runs the models that cannot be recorded in
 * advance. */
#include "compute/compute.h"
#include "model/message_writer.h"

enum { WIDTH = 4, ITEMS = 203 };

static float items[ITEMS][WIDTH], sums[ITEMS], doubled[ITEMS][WIDTH];

/* Messages must outlive the models that read them. */
static void *messages[16];
static size_t message_count;

static compute_model *load(proto graph) {
  compute_model *model = NULL;
  proto message = model_message(graph);
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  messages[message_count++] = message.data;
  return model;
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(type, type, inputs, outputs));
}

/* y = (x + w) · two, s = the sum of y over an item. */
static proto summing_graph(const char *sizes) {
  proto graph = {0};
  put_text(&graph, 2, "sums");
  put_typed(&graph, GRAPH_INPUT, "x", sizes);
  put_values(&graph, GRAPH_OUTPUT, "y,s");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", (float[]){1, 2, 3, 4}, WIDTH));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("two", (float[]){2}, 1));
  put_message(&graph, GRAPH_INITIALIZER, integers_message("axis", (int64_t[]){1}, 1));
  add_node(&graph, "Add", "x,w", "sum");
  add_node(&graph, "Mul", "sum,two", "y");
  proto total = node_message("total", "ReduceSum", "y,axis", "s");
  put_integer_attribute(&total, "keepdims", 0);
  put_message(&graph, GRAPH_NODE, total);
  return graph;
}

static int make_items(void **state) {
  for (int i = 0; i < ITEMS; i++)
    for (int k = 0; k < WIDTH; k++) items[i][k] = (float)((i * 7 + k * 3) % 11);
  return test_group_open(state);
}

static compute_status run_items(compute_batch *batch) {
  memset(sums, 0, sizeof sums);
  memset(doubled, 0, sizeof doubled);
  compute_batch_run_options run = {.items = ITEMS};
  run.sources = (compute_batch_source[]){{.array = items}};
  run.sinks = (compute_batch_sink[]){{.array = doubled}, {.array = sums}};
  return compute_batch_run(batch, &run, NULL);
}

/* `more` is added to each weight. */
static void assert_results(float more) {
  for (int i = 0; i < ITEMS; i++) {
    float sum = 0;
    for (int k = 0; k < WIDTH; k++) {
      const float y = 2 * (items[i][k] + (float)(k + 1) + more);
      assert_float_equal(doubled[i][k], y, 1e-6f);
      sum += y;
    }
    assert_float_equal(sums[i], sum, 1e-4f);
  }
}

static void items_go_through_a_model(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 32, ITEMS, 2 * ITEMS};
  compute_model *model = load(summing_graph("batch,4"));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    compute_batch *batch = NULL;
    assert_ok(compute_model_batch(model, &(compute_batch_options){.batch = sizes[i]}, &batch));
    assert_ok(run_items(batch));
    assert_results(0);
    compute_batch_release(batch);
  }
  compute_batch *batch = NULL;
  assert_ok(compute_model_batch(model, NULL, &batch));
  assert_ok(run_items(batch));
  assert_results(0);
  compute_batch_release(batch);
  compute_model_release(model);
}

/* Weights in a caller's graph may change between runs. */
static void trained_weights_count(void **state) {
  (void)state;
  compute_model *model = load(summing_graph("batch,4"));
  compute_graph *graph = compute_graph_create(test_context);
  compute_model_value in = {"x", compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, WIDTH))},
                      out = {"sum", {0}};
  assert_ok(compute_model_record(model, graph, &in, 1, &out, 1));
  compute_tensor *w = compute_parameter_tensor(graph, compute_parameter_at(graph, 0));
  assert_non_null(w);
  compute_batch *batch = NULL;
  assert_ok(compute_model_batch(model, NULL, &batch));
  assert_ok(run_items(batch));
  assert_results(0);
  assert_ok(compute_tensor_write(w, (float[]){2, 3, 4, 5}, WIDTH * sizeof(float)));
  assert_ok(run_items(batch));
  assert_results(1);
  compute_batch_release(batch);
  compute_graph_release(graph);
  compute_model_release(model);
}

static void files_of_one_item_get_one_at_a_time(void **state) {
  (void)state;
  compute_model *model = load(summing_graph("1,4")), *two = load(summing_graph("2,4"));
  const compute_batch_port outputs[] = {{COMPUTE_F32, {.rank = 1, .size = {WIDTH}}},
                                        {COMPUTE_F32, {.rank = 0}}};
  compute_batch_options options = {.outputs = outputs, .output_count = 2};
  compute_batch *batch = NULL;
  compute_batch_device_info info;
  assert_ok(compute_model_batch(model, &options, &batch));
  assert_ok(compute_batch_device_at(batch, 0, &info));
  assert_int_equal(info.batch, 1);
  assert_ok(run_items(batch));
  assert_results(0);
  compute_batch_release(batch);
  options.batch = 8;
  assert_fails(compute_model_batch(model, &options, &batch), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "input 'x' accepts exactly 1 items");
  assert_fails(compute_model_batch(two, NULL, &batch), COMPUTE_ERROR_UNSUPPORTED);
  compute_model_release(model);
  compute_model_release(two);
}

/* y = −x with the sizes that the file gives. This shape cannot hold more items at a time. */
static proto folding_graph(const char *sizes, const int64_t *folded, int64_t rank) {
  proto graph = {0};
  put_text(&graph, 2, "folds");
  put_typed(&graph, GRAPH_INPUT, "x", sizes);
  put_values(&graph, GRAPH_OUTPUT, "y");
  put_message(&graph, GRAPH_INITIALIZER, integers_message("sizes", folded, rank));
  add_node(&graph, "Reshape", "x,sizes", "r");
  add_node(&graph, "Neg", "r", "y");
  return graph;
}

static void assert_negated(compute_model *model, int64_t given) {
  compute_batch *batch = NULL;
  compute_batch_run_options run = {.items = ITEMS};
  run.sources = (compute_batch_source[]){{.array = items}};
  run.sinks = (compute_batch_sink[]){{.array = doubled}};
  memset(doubled, 0, sizeof doubled);
  assert_ok(compute_model_batch(model, &(compute_batch_options){.batch = given}, &batch));
  assert_ok(compute_batch_run(batch, &run, NULL));
  for (int i = 0; i < ITEMS; i++)
    for (int k = 0; k < WIDTH; k++) assert_float_equal(doubled[i][k], -items[i][k], 0);
  compute_batch_release(batch);
}

static void files_that_know_one_item_only_get_one_at_a_time(void **state) {
  (void)state;
  compute_model *flat = load(folding_graph("1,4", (int64_t[]){1, 4}, 2));
  compute_model *deep = load(folding_graph("1,4", (int64_t[]){1, 2, 2}, 3));
  assert_negated(flat, 0);
  assert_negated(deep, 0);
  assert_negated(deep, 1);
  compute_model_release(flat);
  compute_model_release(deep);
}

/* A file may leave the axis open although its shapes fit one item only. The caller then sets one
 * item. */
static void an_open_axis_may_stand_for_one_item(void **state) {
  (void)state;
  compute_model *model = load(folding_graph("batch,4", (int64_t[]){1, 2, 2}, 3));
  compute_batch *batch = NULL;
  assert_fails(compute_model_batch(model, NULL, &batch), COMPUTE_ERROR_SHAPE);
  assert_negated(model, 1);
  compute_model_release(model);
}

static void one_item_has_its_axis(void **state) {
  (void)state;
  compute_model *model = load(folding_graph("1,4", (int64_t[]){2, 2}, 2));
  compute_batch *batch = NULL;
  assert_fails(compute_model_batch(model, NULL, &batch), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "its first axis must be the items");
  compute_model_release(model);
}

static void open_items_are_said_by_the_caller(void **state) {
  (void)state;
  compute_model *model = load(summing_graph("batch,width"));
  compute_batch_port item = {COMPUTE_F32, {.rank = 1, .size = {WIDTH}}};
  const compute_batch_options options = {.inputs = &item, .input_count = 1};
  compute_batch *batch = NULL;
  assert_fails(compute_model_batch(model, NULL, &batch), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "shape of an item of input 'x' open");
  assert_ok(compute_model_batch(model, &options, &batch));
  assert_ok(run_items(batch));
  assert_results(0);
  compute_batch_release(batch);
  item.dtype = COMPUTE_F64;
  assert_fails(compute_model_batch(model, &options, &batch), COMPUTE_ERROR_DTYPE);
  item = (compute_batch_port){COMPUTE_F32, {.rank = 2, .size = {2, 2}}};
  assert_fails(compute_model_batch(model, &options, &batch), COMPUTE_ERROR_SHAPE);
  item = (compute_batch_port){COMPUTE_F32, {.rank = 1, .size = {3}}};
  assert_fails(compute_model_batch(model, &options, &batch), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "node 'Add' (Add)");
  compute_model_release(model);
}

static void what_is_wrong_is_named(void **state) {
  (void)state;
  compute_model *model = load(summing_graph("batch,4")), *scalar = load(summing_graph(NULL));
  compute_batch *batch = NULL;
  assert_fails(compute_model_batch(NULL, NULL, &batch), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_batch(model, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_batch(model, &(compute_batch_options){.user = items}, &batch),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  const compute_batch_port ports[2] = {{COMPUTE_F32, {.rank = 1, .size = {WIDTH}}}};
  assert_fails(compute_model_batch(
                   model, &(compute_batch_options){.inputs = ports, .input_count = 2}, &batch),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_batch(scalar, NULL, &batch), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "no axis for the items");
  assert_null(batch);
  compute_model_release(model);
  compute_model_release(scalar);
}

/* ---- Shapes that depend on values ------------------------------------------------------------ */

/* s = the number of nonzero elements in the whole batch, repeated for each item. */
static proto counting_graph(void) {
  proto graph = {0};
  put_text(&graph, 2, "counts");
  put_typed(&graph, GRAPH_INPUT, "x", "batch,4");
  put_values(&graph, GRAPH_OUTPUT, "s");
  put_message(&graph, GRAPH_INITIALIZER, integers_message("axis", (int64_t[]){1}, 1));
  add_node(&graph, "NonZero", "x", "at");
  add_node(&graph, "Transpose", "at", "list");
  add_node(&graph, "GatherND", "x,list", "found");
  add_node(&graph, "Size", "found", "count");
  proto cast = node_message("cast", "Cast", "count", "number");
  put_integer_attribute(&cast, "to", 1);
  put_message(&graph, GRAPH_NODE, cast);
  proto total = node_message("total", "ReduceSum", "x,axis", "sum");
  put_integer_attribute(&total, "keepdims", 0);
  put_message(&graph, GRAPH_NODE, total);
  add_node(&graph, "Sub", "sum,sum", "zero");
  add_node(&graph, "Add", "zero,number", "s");
  return graph;
}

static compute_status run_step(void *user, const compute_batch_step *step) {
  const compute_status status = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  const compute_model_binding in = {"x", step->inputs[0]};
  compute_model_binding out = {"s", step->outputs[0]};
  return status ? status : compute_model_run(user, &in, 1, &out, 1);
}

static void a_step_runs_what_cannot_be_recorded(void **state) {
  (void)state;
  enum { BATCH = 29 };
  compute_model *model = load(counting_graph());
  compute_batch *batch = NULL;
  assert_fails(compute_model_batch(model, NULL, &batch), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "depends on values that are known only at run time");
  const compute_batch_port item = {COMPUTE_F32, {.rank = 1, .size = {WIDTH}}},
                           number = {COMPUTE_F32, {.rank = 0}};
  const compute_batch_options options = {.step = run_step,
                                         .user = model,
                                         .inputs = &item,
                                         .input_count = 1,
                                         .outputs = &number,
                                         .output_count = 1,
                                         .batch = BATCH};
  assert_ok(compute_batch_create(test_context, &options, &batch));
  compute_batch_run_options run = {.items = ITEMS};
  run.sources = (compute_batch_source[]){{.array = items}};
  run.sinks = (compute_batch_sink[]){{.array = sums}};
  assert_ok(compute_batch_run(batch, &run, NULL));
  for (int first = 0; first < ITEMS; first += BATCH) {
    const int end = first + BATCH < ITEMS ? first + BATCH : ITEMS;
    int count = 0;
    for (int i = first; i < end; i++)
      for (int k = 0; k < WIDTH; k++) count += items[i][k] != 0;
    for (int i = first; i < end; i++) assert_float_equal(sums[i], (float)count, 0);
  }
  compute_batch_release(batch);
  compute_model_release(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_go_through_a_model),
      cmocka_unit_test(trained_weights_count),
      cmocka_unit_test(files_of_one_item_get_one_at_a_time),
      cmocka_unit_test(files_that_know_one_item_only_get_one_at_a_time),
      cmocka_unit_test(one_item_has_its_axis),
      cmocka_unit_test(an_open_axis_may_stand_for_one_item),
      cmocka_unit_test(open_items_are_said_by_the_caller),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(a_step_runs_what_cannot_be_recorded),
  };
  const int failures = cmocka_run_group_tests(tests, make_items, test_group_close);
  for (size_t i = 0; i < message_count; i++) free(messages[i]);
  return failures;
}
