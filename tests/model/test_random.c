/* SPDX-License-Identifier: MIT */
/* Random operators: without a seed, each run draws other numbers. With a seed of the node or of the
 * model's options, all runs draw the same numbers. */
#include "compute/compute.h"
#include "model/message_writer.h"

enum { COUNT = 64, FLOAT_ATTRIBUTE = 1, FLOAT_FIELD = 2, INT64 = 7 };

/* ---- Models -------------------------------------------------------------------------------- */

static void put_float_attribute(proto *node, const char *name, float value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_float(&attribute, FLOAT_FIELD, value);
  put_integer(&attribute, 20, FLOAT_ATTRIBUTE);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static void put_shape(proto *node) {
  put_list_attribute(node, "shape", &(int64_t){COUNT}, 1);
}

/* A model of one node, without inputs or with x. */
static proto single(proto node, const char *inputs) {
  proto graph = graph_message(inputs, "y");
  put_message(&graph, GRAPH_NODE, node);
  return model_message(graph);
}

static proto drawing(const char *type) {
  proto node = node_message("draw", type, NULL, "y");
  put_shape(&node);
  return single(node, NULL);
}

static proto seeded(float seed) {
  proto node = node_message("draw", "RandomNormal", NULL, "y");
  put_shape(&node);
  put_float_attribute(&node, "seed", seed);
  return single(node, NULL);
}

static proto like(const char *type) {
  return single(node_message("draw", type, "x", "y"), "x");
}

/* Dropout in training mode. The seed is an integer and optional. */
static proto dropout(int64_t seed) {
  static const float half = 0.5f;
  static const unsigned char yes = 1;
  proto node = node_message("drop", "Dropout", "x,ratio,training", "y");
  if (seed) put_integer_attribute(&node, "seed", seed);
  proto graph = graph_message("x", "y");
  proto ratio = tensor_message("ratio", 1, 0, NULL),
        training = tensor_message("training", 9, 0, NULL);
  put_bytes(&ratio, 9, &half, 4);
  put_bytes(&training, 9, &yes, 1);
  put_message(&graph, GRAPH_INITIALIZER, ratio);
  put_message(&graph, GRAPH_INITIALIZER, training);
  put_message(&graph, GRAPH_NODE, node);
  return model_message(graph);
}

/* Two nodes of equal names and shapes; y is their difference. */
static proto pair(void) {
  proto graph = graph_message(NULL, "y");
  for (int i = 0; i < 2; i++) {
    proto node = node_message("same", "RandomUniform", NULL, i ? "b" : "a");
    put_shape(&node);
    put_message(&graph, GRAPH_NODE, node);
  }
  put_message(&graph, GRAPH_NODE, node_message("difference", "Sub", "a,b", "y"));
  return model_message(graph);
}

/* A loop of n rounds; each one draws. y is [n, COUNT]. */
static proto loop(int64_t rounds) {
  proto body = graph_message("i,go", "again,drawn");
  proto node = node_message("draw", "RandomUniform", NULL, "drawn");
  put_shape(&node);
  put_message(&body, GRAPH_NODE, node);
  put_message(&body, GRAPH_NODE, node_message("go on", "Identity", "go", "again"));
  proto graph = graph_message(NULL, "y"), outer = node_message("loop", "Loop", "n,", "y");
  put_graph_attribute(&outer, "body", body);
  proto count = tensor_message("n", INT64, 0, NULL);
  put_bytes(&count, 9, &rounds, 8);
  put_message(&graph, GRAPH_INITIALIZER, count);
  put_message(&graph, GRAPH_NODE, outer);
  return model_message(graph);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

typedef struct numbers {
  float value[4 * COUNT];
} numbers;

static compute_model *load(proto message, uint64_t seed) {
  const compute_model_options options = {.seed = seed};
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, &options, &model));
  return model;
}

static compute_tensor *ones(void) {
  compute_tensor *x = NULL;
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = 1;
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(COUNT), values, &x));
  return x;
}

static numbers run(compute_model *model) {
  numbers n = {{0}};
  compute_tensor *x = ones();
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, compute_model_input_count(model), &out, 1));
  const size_t bytes = (size_t)compute_tensor_count(out.tensor) * sizeof(float);
  assert_true(bytes <= sizeof n);
  assert_ok(compute_tensor_read(out.tensor, n.value, bytes));
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  return n;
}

static bool are_equal(const numbers *a, const numbers *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* Compares two runs of a model and one run of a second load of its file. */
static void assert_runs(proto message, uint64_t seed, bool differ) {
  compute_model *model = load(message, seed), *again = load(message, seed);
  const numbers first = run(model), second = run(model), other = run(again);
  assert_int_equal(are_equal(&first, &second), !differ);
  assert_int_equal(are_equal(&first, &other), !differ);
  compute_model_release(model);
  compute_model_release(again);
  free(message.data);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static proto (*const unseeded[])(const char *) = {drawing, like};
static const char *const types[2][2] = {{"RandomNormal", "RandomUniform"},
                                        {"RandomNormalLike", "RandomUniformLike"}};

static void each_run_draws_other_numbers(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) assert_runs(unseeded[i](types[i][k]), 0, true);
  assert_runs(dropout(0), 0, true);
}

static void the_option_fixes_them(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) assert_runs(unseeded[i](types[i][k]), 5, false);
  assert_runs(dropout(0), 5, false);
  proto message = drawing("RandomNormal");
  compute_model *five = load(message, 5), *six = load(message, 6);
  const numbers of_five = run(five), of_six = run(six);
  assert_false(are_equal(&of_five, &of_six));
  compute_model_release(five);
  compute_model_release(six);
  free(message.data);
}

static void a_seed_of_the_node_fixes_them(void **state) {
  (void)state;
  assert_runs(seeded(7), 0, false);
  assert_runs(dropout(7), 0, false);
}

/* Each of 64 elements is 0 or 2. The probability that all are equal is 2^-63. */
static void dropout_halves(void **state) {
  (void)state;
  for (int64_t seed = 0; seed <= 7; seed += 7) {
    const proto message = dropout(seed);
    compute_model *model = load(message, 0);
    const numbers y = run(model);
    int zeros = 0;
    for (int i = 0; i < COUNT; i++) {
      assert_true(y.value[i] == 0 || y.value[i] == 2);
      zeros += y.value[i] == 0;
    }
    assert_in_range(zeros, 1, COUNT - 1);
    compute_model_release(model);
    free(message.data);
  }
}

static void nodes_draw_their_own(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed <= 3; seed += 3) {
    const proto message = pair();
    compute_model *model = load(message, seed);
    const numbers y = run(model);
    int zeros = 0;
    for (int i = 0; i < COUNT; i++) zeros += y.value[i] == 0;
    assert_in_range(zeros, 0, 2);
    compute_model_release(model);
    free(message.data);
  }
}

static void rounds_of_a_loop_draw_their_own(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed <= 3; seed += 3) {
    const proto message = loop(3);
    compute_model *model = load(message, seed);
    const numbers y = run(model);
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < i; k++)
        assert_memory_not_equal(y.value + i * COUNT, y.value + k * COUNT, COUNT * sizeof(float));
    compute_model_release(model);
    free(message.data);
  }
}

/* A plan that the caller compiles, for example for training, also draws in each run. */
static void a_recorded_graph_draws(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed <= 3; seed += 3) {
    const proto message = dropout(0);
    compute_model *model = load(message, seed);
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
    compute_model_value in = {"x", x}, out = {"y", {0}};
    assert_ok(compute_model_record(model, graph, &in, 1, &out, 1));
    compute_plan *plan = test_compile(graph, &out.node, 1, 0);
    compute_tensor *given = ones(), *y = NULL;
    numbers drawn[2] = {{{0}}};
    assert_ok(compute_plan_create_tensor(plan, out.node, &y));
    for (int i = 0; i < 2; i++) {
      assert_ok(compute_run(plan, (compute_binding[]){{x, given}, {out.node, y}}, 2, NULL));
      assert_ok(compute_tensor_read(y, drawn[i].value, COUNT * sizeof(float)));
    }
    assert_int_equal(are_equal(&drawn[0], &drawn[1]), seed != 0);
    compute_tensor_release(y);
    compute_tensor_release(given);
    compute_plan_release(plan);
    compute_graph_release(graph);
    compute_model_release(model);
    free(message.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_run_draws_other_numbers),
      cmocka_unit_test(the_option_fixes_them),
      cmocka_unit_test(a_seed_of_the_node_fixes_them),
      cmocka_unit_test(dropout_halves),
      cmocka_unit_test(nodes_draw_their_own),
      cmocka_unit_test(rounds_of_a_loop_draw_their_own),
      cmocka_unit_test(a_recorded_graph_draws),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
