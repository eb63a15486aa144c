/* SPDX-License-Identifier: MIT */
/* Caller's functions inside networks that are trained, recomputed, copied to replicas and run by
 * the batch iterator. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/samples/training.h"

typedef struct layer_notes {
  atomic_int forward, backward;
  atomic_llong items; /* of all forward calls together */
  uint32_t flags;
} layer_notes;

static compute_status forward(void *user, const compute_call_arguments *a, int32_t part,
                              int32_t parts) {
  const float *x = a->inputs[0].data;
  float *y = a->outputs[0].data;
  layer_notes *n = user;
  int64_t first, end;
  if (part == 0) {
    n->forward++;
    n->items += a->inputs[0].shape.size[0];
  }
  compute_call_share(a->outputs[0].count, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) y[i] = tanhf(x[i]);
  return COMPUTE_OK;
}

static compute_status backward(void *user, const compute_call_arguments *a, int32_t part,
                               int32_t parts) {
  const float *y = a->inputs[0].data, *up = a->inputs[1].data;
  float *down = a->outputs[0].data;
  int64_t first, end;
  if (part == 0) ((layer_notes *)user)->backward++;
  compute_call_share(a->outputs[0].count, part, parts, &first, &end);
  for (int64_t i = first; i < end; i++) down[i] = up[i] * (1 - y[i] * y[i]);
  return COMPUTE_OK;
}

static compute_status gradient(void *user, compute_graph *graph, const compute_node *inputs,
                               const compute_node *outputs, const compute_node *up,
                               compute_node *down) {
  const compute_call_output like = {COMPUTE_F32, compute_node_shape(graph, inputs[0])};
  down[0] = compute_call(graph, backward, user, (compute_node[]){outputs[0], up[0]}, 2, &like, 1,
                         &(compute_call_options){.name = "tanh_back", .parts = 2}, NULL);
  return COMPUTE_OK;
}

static compute_node apply(void *user, compute_graph *graph, compute_node x,
                          const compute_node *parameters, bool training) {
  const compute_call_output like = {COMPUTE_F32, compute_node_shape(graph, x)};
  const layer_notes *n = user;
  (void)parameters;
  (void)training;
  return compute_call(
      graph, forward, user, &x, 1, &like, 1,
      &(compute_call_options){.name = "tanh", .flags = n->flags, .parts = 3, .gradient = gradient},
      NULL);
}

enum { FUNCTIONS = 4, STEPS = 4 /* of 12 items each */ };

/* Dense layers with the caller's function, or the library's equivalent, between them. */
static compute_layer *network(layer_notes *n) {
  compute_device *device = compute_default_device(test_context);
  compute_layer *parts[2 * FUNCTIONS + 1];
  size_t count = 0;
  for (int i = 0; i <= FUNCTIONS; i++) {
    parts[count++] = compute_dense(device, i == 0 ? 4 : 16, i == FUNCTIONS ? 2 : 16, NULL);
    if (i < FUNCTIONS)
      parts[count++] = n ? compute_custom_layer("mine", apply, n, NULL, NULL, 0)
                         : compute_activation(COMPUTE_TANH);
  }
  compute_layer *net = compute_sequential(parts, count);
  assert_non_null(net);
  assert_ok(compute_layer_initialize(net, COMPUTE_INIT_DEFAULT, 5));
  return net;
}

static void train(compute_layer *net, compute_device *const *devices, size_t count,
                  uint32_t flags) {
  training_data d = training_data_create(48, false, 3);
  compute_dataset *set = training_regression_set(test_context, &d);
  compute_trainer_options o = training_options(net, false);
  o.devices = devices;
  o.device_count = count;
  o.flags = flags;
  compute_trainer *trainer = NULL;
  compute_training_score score;
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  assert_ok(compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 1}, &score));
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  training_data_free(&d);
}

static void check_near(compute_layer *net) {
  compute_layer *own = network(NULL);
  train(own, NULL, 0, 0);
  const double distance = training_distance(net, own);
  if (!(distance < 2e-6)) fail_msg("weights differ by %g", distance);
  compute_layer_release(own);
}

/* Its tensors and plans alone would not lead to the object that is left. */
static void a_trainer_that_is_not_released_is_named(void **state) {
  (void)state;
  compute_layer *net = network(NULL);
  const compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = NULL;
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  assert_fails(compute_close(test_context), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(test_context, "1 trainer");
  compute_trainer_release(trainer);
  assert_fails(compute_close(test_context), COMPUTE_ERROR_INVALID_STATE);
  compute_error error;
  compute_error_get(test_context, &error);
  assert_null(strstr(error.message, "trainer"));
  compute_layer_release(net);
}

static void a_network_with_functions_is_trained(void **state) {
  (void)state;
  for (uint32_t flags = 0; flags <= COMPUTE_CALL_PURE; flags++) {
    layer_notes n = {.flags = flags};
    compute_layer *net = network(&n);
    train(net, NULL, 0, 0);
    assert_int_equal(n.forward, FUNCTIONS * STEPS);
    assert_int_equal(n.backward, FUNCTIONS * STEPS);
    check_near(net);
    compute_layer_release(net);
  }
}

/* Pure functions are recomputed. Functions with effects are still called once per step. */
static void recomputation_repeats_pure_functions_only(void **state) {
  (void)state;
  for (uint32_t flags = 0; flags <= COMPUTE_CALL_PURE; flags++) {
    layer_notes n = {.flags = flags};
    compute_layer *net = network(&n);
    train(net, NULL, 0, COMPUTE_TRAIN_RECOMPUTE);
    /* Of the three segments, the last is not repeated. */
    assert_int_equal(n.forward, (FUNCTIONS + (flags != 0 ? 2 : 0)) * STEPS);
    assert_int_equal(n.backward, FUNCTIONS * STEPS);
    check_near(net);
    compute_layer_release(net);
  }
}

static void replicas_call_functions_at_the_same_time(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context), *cpu = NULL;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  compute_device *const devices[] = {device, cpu};
  layer_notes n = {0};
  compute_layer *net = network(&n);
  train(net, devices, 2, 0);
  assert_int_equal(n.items, FUNCTIONS * 48);
  check_near(net);
  compute_layer_release(net);
}

/* ---- The batch iterator ---------------------------------------------------------------------- */

enum { ITEMS = 1003, WIDTH = 5 };

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  outputs[0] = compute_neg(graph, apply(user, graph, inputs[0], NULL, false));
}

static void batches_call_functions(void **state) {
  (void)state;
  static float data[ITEMS * WIDTH], out[ITEMS * WIDTH];
  layer_notes n = {0};
  const compute_batch_port port = {COMPUTE_F32, {.rank = 1, .size = {WIDTH}}};
  compute_batch *batch = NULL;
  for (int i = 0; i < ITEMS * WIDTH; i++) data[i] = (float)(i % 97) / 50 - 1;
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.build = build,
                                                          .user = &n,
                                                          .inputs = &port,
                                                          .input_count = 1,
                                                          .output_count = 1,
                                                          .batch = 64},
                                 &batch));
  assert_ok(compute_batch_run(
      batch,
      &(compute_batch_run_options){.items = ITEMS,
                                   .sources = (compute_batch_source[]){{.array = data}},
                                   .sinks = (compute_batch_sink[]){{.array = out}}},
      NULL));
  for (int i = 0; i < ITEMS * WIDTH; i++) assert_true(out[i] == -tanhf(data[i]));
  assert_true(n.items >= ITEMS);
  compute_batch_release(batch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trainer_that_is_not_released_is_named),
      cmocka_unit_test(a_network_with_functions_is_trained),
      cmocka_unit_test(recomputation_repeats_pure_functions_only),
      cmocka_unit_test(replicas_call_functions_at_the_same_time),
      cmocka_unit_test(batches_call_functions),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
