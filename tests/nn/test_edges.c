/* SPDX-License-Identifier: MIT */
/* Edge cases of networks: no items, invalid labels, queries that see no keys. Either the result is
 * complete, or there is an error and the model stays unchanged. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"

static compute_device *device(void) {
  return compute_default_device(test_context);
}

/* ---- No items ------------------------------------------------------------------------------ */

enum { MOST = 6 };

/* For an input without items, the sum and all gradients of the layer's result are 0. */
static void runs_on_nothing(compute_layer *layer) {
  const compute_shape shape = COMPUTE_SHAPE(0, 2, 4, 4);
  compute_graph *graph = compute_graph_create(test_context);
  compute_node of[MOST], outputs[MOST + 1];
  assert_non_null(layer);
  of[0] = compute_input(graph, COMPUTE_F32, shape);
  const compute_node y = compute_layer_apply(layer, graph, of[0], NULL);
  const size_t count = 1 + compute_layer_nodes(layer, graph, of + 1, MOST - 1);
  outputs[0] = compute_sum(graph, y, COMPUTE_ALL_AXES, false);
  assert_ok(compute_gradients(graph, outputs[0], of, count, outputs + 1));
  for (int with = 0; with < 2; with++) {
    const size_t results = with ? count + 1 : 1;
    compute_plan *plan = test_compile(graph, outputs, results, 0);
    compute_binding bindings[MOST + 2] = {
        {of[0], test_tensor(test_context, COMPUTE_F32, shape, NULL)}};
    for (size_t i = 0; i < results; i++) {
      bindings[i + 1].node = outputs[i];
      assert_ok(compute_plan_create_tensor(plan, outputs[i], &bindings[i + 1].tensor));
    }
    assert_ok(compute_run(plan, bindings, results + 1, NULL));
    for (size_t i = 0; i < results; i++) {
      compute_tensor *tensor = bindings[i + 1].tensor;
      for (int64_t k = 0; k < compute_tensor_count(tensor); k++)
        assert_true(test_element(tensor, k) == 0);
    }
    for (size_t i = 0; i <= results; i++) compute_tensor_release(bindings[i].tensor);
    compute_plan_release(plan);
  }
  compute_graph_release(graph);
  compute_layer_release(layer);
}

static void every_layer_takes_a_batch_of_nothing(void **state) {
  (void)state;
  runs_on_nothing(compute_conv2d_layer(device(), 2, 3, 3, NULL));
  runs_on_nothing(
      compute_conv2d_layer(device(), 2, 4, 3, &(compute_conv2d_layer_options){.groups = 2}));
  runs_on_nothing(compute_conv2d_transpose_layer(device(), 2, 3, 3, NULL));
  runs_on_nothing(compute_dense(device(), 4, 3, NULL));
  runs_on_nothing(compute_max_pool(2, NULL));
  runs_on_nothing(compute_average_pool(2, NULL));
  runs_on_nothing(compute_global_average_pool());
  runs_on_nothing(compute_batch_norm_layer(device(), 2, NULL));
  runs_on_nothing(compute_layer_norm_layer(device(), 4, NULL));
  runs_on_nothing(compute_activation(COMPUTE_SOFTMAX));
  runs_on_nothing(compute_activation(COMPUTE_GELU));
  runs_on_nothing(compute_flatten());
}

/* ---- Labels -------------------------------------------------------------------------------- */

static compute_status label_loss(compute_dtype dtype, int64_t label, double smoothing) {
  static const float logits[] = {1, 2, 3, 4, 5, 6};
  const int64_t wide[] = {0, label};
  const int32_t narrow[] = {0, (int32_t)label};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3), logits);
  const compute_node t = compute_input(graph, dtype, COMPUTE_SHAPE(2));
  const compute_node loss = compute_cross_entropy_smoothed(graph, x, t, smoothing);
  compute_plan *plan = test_compile(graph, &loss, 1, 0);
  compute_tensor *result = NULL,
                 *labels = test_tensor(test_context, dtype, COMPUTE_SHAPE(2),
                                       dtype == COMPUTE_I64 ? (const void *)wide : narrow);
  assert_ok(compute_plan_create_tensor(plan, loss, &result));
  const compute_status status =
      compute_run(plan, (compute_binding[]){{t, labels}, {loss, result}}, 2, NULL);
  compute_tensor_release(labels);
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return status;
}

static void labels_do_not_count_from_the_end(void **state) {
  (void)state;
  static const int64_t labels[] = {INT32_MIN, -100, -4, -3, -1, 0, 2, 3, INT32_MAX};
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    const compute_status expected =
        labels[i] >= 0 && labels[i] < 3 ? COMPUTE_OK : COMPUTE_ERROR_INDEX;
    assert_int_equal(label_loss(COMPUTE_I64, labels[i], 0), expected);
    assert_int_equal(label_loss(COMPUTE_I32, labels[i], 0.1), expected);
  }
  assert_int_equal(label_loss(COMPUTE_I64, INT64_MIN, 0), COMPUTE_ERROR_INDEX);
  assert_int_equal(label_loss(COMPUTE_I64, INT64_MAX, 0), COMPUTE_ERROR_INDEX);
}

static void a_negative_label_leaves_the_model_as_it_was(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 4};
  static const int64_t t[] = {0, -1};
  compute_layer *net = compute_dense(device(), 2, 3, NULL);
  compute_layer_parameter p;
  compute_trainer *trainer = NULL;
  float before[6], after[6];
  const compute_trainer_options o = {.model = net,
                                     .input = {COMPUTE_F32, COMPUTE_SHAPE(2)},
                                     .target = {COMPUTE_I64, COMPUTE_SCALAR},
                                     .batch = 2};
  assert_ok(compute_layer_parameter_at(net, 0, &p));
  assert_ok(compute_tensor_read(p.tensor, before, sizeof before));
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  compute_tensor *inputs = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), x);
  compute_tensor *targets = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2), t);
  double loss;
  assert_fails(compute_trainer_step(trainer, inputs, targets, &loss), COMPUTE_ERROR_INDEX);
  assert_ok(compute_tensor_read(p.tensor, after, sizeof after));
  assert_memory_equal(before, after, sizeof before);
  compute_tensor_release(inputs);
  compute_tensor_release(targets);
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

/* ---- Attention ----------------------------------------------------------------------------- */

/* A bias of −∞ hides a key. The second query sees no key: its result is 0, whatever q, k and v are,
 * so all gradients through it are 0. */
static void a_query_that_sees_nothing_has_gradients_of_zero(void **state) {
  (void)state;
  const float hidden = -INFINITY, q[] = {1, 2, 3, 4}, k[] = {1, -1, 2, 0, 1, 3};
  const float bias[] = {0, 1, hidden, hidden, hidden, hidden};
  for (int causal = 0; causal < 2; causal++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node of[] = {compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2), q),
                               compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 2), k),
                               compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3), bias)};
    const compute_node y = compute_scaled_attention(
        graph, of[0], of[1], of[1],
        &(compute_attention_options){.bias = of[2], .causal = causal == 1});
    compute_node results[4] = {
        compute_sum(graph, compute_square(graph, y), COMPUTE_ALL_AXES, false)};
    assert_ok(compute_gradients(graph, results[0], of, 3, results + 1));
    compute_plan *plan = test_compile(graph, results, 4, 0);
    compute_binding bindings[4];
    for (size_t i = 0; i < 4; i++) {
      bindings[i].node = results[i];
      assert_ok(compute_plan_create_tensor(plan, results[i], &bindings[i].tensor));
    }
    assert_ok(compute_run(plan, bindings, 4, NULL));
    for (size_t i = 0; i < 4; i++) {
      for (int64_t j = 0; j < compute_tensor_count(bindings[i].tensor); j++) {
        const double value = test_element(bindings[i].tensor, j);
        const bool second = (i == 1 && j >= 2) || (i == 3 && j >= 3);
        assert_true(isfinite(value) && (!second || value == 0));
      }
      compute_tensor_release(bindings[i].tensor);
    }
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

/* ---- Impossible sizes ----------------------------------------------------------------------- */

static double first_of(compute_graph *graph, compute_node y) {
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *result;
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  assert_ok(compute_run(plan, &(compute_binding){y, result}, 1, NULL));
  const double first = test_element(result, 0);
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return first;
}

static compute_node ones(compute_graph *graph, compute_shape shape) {
  compute_tensor *tensor;
  assert_ok(compute_tensor_full(device(), COMPUTE_F32, shape, 1, &tensor));
  const compute_node node = compute_parameter(graph, tensor);
  compute_tensor_release(tensor);
  return node;
}

/* Strides and windows far larger than the image leave one position, or are refused; nothing
 * overflows. */
static void strides_and_windows_beyond_all_memory_are_harmless(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_pool2d_options far = {.size = {2, 2}, .stride = {INT64_C(1) << 60, 1}};
  assert_true(first_of(graph, compute_max_pool2d(graph, ones(graph, COMPUTE_SHAPE(1, 1, 4, 16)),
                                                 &far)) == 1);
  graph = compute_graph_create(test_context);
  const compute_conv2d_options wide = {.stride = {1, INT64_C(1) << 54}};
  assert_true(first_of(graph, compute_conv2d(graph, ones(graph, COMPUTE_SHAPE(1, 1, 256, 16)),
                                             ones(graph, COMPUTE_SHAPE(1, 1, 256, 2)),
                                             (compute_node){0}, &wide)) == 512);
  graph = compute_graph_create(test_context);
  const int64_t size = INT64_C(192153584101141163);
  const compute_pool2d_options all = {
      .size = {1, size}, .stride = {1, 1}, .padding = {0, size / 2}};
  compute_average_pool2d(graph, ones(graph, COMPUTE_SHAPE(1, 1, 4, 4)), &all);
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_OVERFLOW);
  compute_graph_release(graph);
}

static void a_query_that_sees_no_key_gives_zero_whatever_the_values_are(void **state) {
  (void)state;
  static const float infinite[2] = {INFINITY, 1};
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *values = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, 2, 1), infinite);
  const compute_node v = compute_parameter(graph, values);
  compute_tensor_release(values);
  /* Of eight queries and two keys, the first six queries see no key. */
  assert_true(
      first_of(graph, compute_scaled_attention(graph, ones(graph, COMPUTE_SHAPE(1, 8, 1)),
                                               ones(graph, COMPUTE_SHAPE(1, 2, 1)), v,
                                               &(compute_attention_options){.causal = true})) == 0);
}

static void compositions_nest_as_deep_as_any_stack_allows(void **state) {
  (void)state;
  compute_layer *net = compute_flatten();
  int depth = 0;
  while (net && depth < 100000) {
    net = compute_sequential(&net, 1);
    depth += net != NULL;
  }
  assert_null(net);
  assert_int_equal(depth, 256);
  test_check_message(NULL, "part 0 (sequential) is 256 compositions within each other");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layer_takes_a_batch_of_nothing),
      cmocka_unit_test(labels_do_not_count_from_the_end),
      cmocka_unit_test(a_negative_label_leaves_the_model_as_it_was),
      cmocka_unit_test(a_query_that_sees_nothing_has_gradients_of_zero),
      cmocka_unit_test(strides_and_windows_beyond_all_memory_are_harmless),
      cmocka_unit_test(a_query_that_sees_no_key_gives_zero_whatever_the_values_are),
      cmocka_unit_test(compositions_nest_as_deep_as_any_stack_allows),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
