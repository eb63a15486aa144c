/* SPDX-License-Identifier: MIT */
/* Optimizers, schedules and a training run compared with PyTorch: the loss of every step, final
 * weights and statistics, names and their order. In f64 only rounding may differ. values.cpp
 * computed the numbers. */
#include <math.h>

#include "pattern.h"

static compute_device *device(void) {
  return compute_default_device(test_context);
}

static const compute_weights_options wide = {.dtype = COMPUTE_F64};

/* ---- Optimizers and schedules -------------------------------------------------------------- */

typedef struct training_case {
  const char *name;
  compute_trainer_options options;
  double tolerance; /* 0: 1e-11; rounding errors grow in training */
} training_case;

/* One batch; its targets are labels if the loss has classes. */
static double step(compute_trainer *trainer, const compute_trainer_options *o, int64_t number,
                   int64_t outputs) {
  compute_shape shape = {.rank = o->input.item.rank + 1, .size = {o->batch}};
  for (int32_t i = 0; i < o->input.item.rank; i++) shape.size[i + 1] = o->input.item.size[i];
  compute_tensor *x = torch_numbers(shape, 100 + number, 1, 0);
  compute_tensor *t = o->target.dtype == COMPUTE_I64
                          ? torch_labels(COMPUTE_SHAPE(o->batch), number, outputs)
                          : torch_numbers(COMPUTE_SHAPE(o->batch, outputs), 300 + number, 0.5, 0.5);
  double loss;
  assert_ok(compute_trainer_step(trainer, x, t, &loss));
  compute_tensor_release(x);
  compute_tensor_release(t);
  return loss;
}

static void train(const char *name, const compute_trainer_options *o, int64_t steps,
                  int64_t outputs, double tolerance) {
  compute_trainer *trainer = NULL;
  double losses[64];
  assert_ok(compute_trainer_create(test_context, o, &trainer));
  for (int64_t i = 0; i < steps; i++) losses[i] = step(trainer, o, i, outputs);
  const double *expected = torch_expected(COMPUTE_SHAPE(steps), "train.%s.loss", name);
  for (int64_t i = 0; i < steps; i++) {
    if (!(fabs(losses[i] - expected[i]) <= tolerance * expected[0]))
      fail_msg("%s: loss of step %lld is %.17g for PyTorch, %.17g for libcompute", name,
               (long long)i, expected[i], losses[i]);
  }
  compute_trainer_release(trainer);
}

static void compare_weights(const char *name, const compute_layer *net, double tolerance) {
  for (size_t i = 0; i < compute_layer_parameter_count(net); i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(net, i, &p));
    torch_compare(p.tensor, tolerance, "train.%s.%s", name, p.name);
  }
}

#define SGD(...)          .optimizer = {.kind = COMPUTE_SGD, .learning_rate = __VA_ARGS__}
#define OPTIMIZER(k, ...) .optimizer = {.kind = k, .learning_rate = __VA_ARGS__}

static const training_case trainings[] = {
    {"sgd", .options = {SGD(0.1)}},
    {"sgd_momentum", .options = {SGD(0.1, .momentum = 0.9)}},
    {"sgd_nesterov",
     .options = {SGD(0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.02)}},
    {"adam", .options = {OPTIMIZER(COMPUTE_ADAM, 0.02)}},
    {"adam_options", .options = {OPTIMIZER(COMPUTE_ADAM, 0.02, .beta1 = 0.8, .beta2 = 0.9,
                                           .epsilon = 1e-3, .weight_decay = 0.05)}},
    {"adamw", .options = {OPTIMIZER(COMPUTE_ADAMW, 0.02, .weight_decay = 0.3)}},
    {"rmsprop", .options = {OPTIMIZER(COMPUTE_RMSPROP, 0.01)}},
    {"rmsprop_options", .options = {OPTIMIZER(COMPUTE_RMSPROP, 0.01, .alpha = 0.9, .epsilon = 1e-4,
                                              .momentum = 0.5, .weight_decay = 0.05)}},
    {"schedule_step",
     .options = {SGD(0.1, .momentum = 0.5),
                 .schedule = {.kind = COMPUTE_SCHEDULE_STEP, .period = 3, .factor = 0.5}}},
    {"schedule_cosine", .options = {SGD(0.1), .schedule = {.kind = COMPUTE_SCHEDULE_COSINE,
                                                           .period = 12,
                                                           .factor = 0.1,
                                                           .warm_up = 2}}},
    {"accumulate",
     .options = {SGD(0.5), .accumulate = 2, .loss = COMPUTE_LOSS_BINARY_CROSS_ENTROPY}},
    /* PyTorch divides by the norm plus 1e-6. */
    {"clip",
     .options = {SGD(0.5), .clip_norm = 0.05, .loss = COMPUTE_LOSS_HUBER, .huber_delta = 0.3},
     .tolerance = 1e-4},
};

static void optimizers_take_pytorchs_steps(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
    const training_case *c = &trainings[i];
    compute_layer *net = compute_sequential(
        (compute_layer *[]){compute_dense(device(), 4, 5, &wide), compute_activation(COMPUTE_TANH),
                            compute_dense(device(), 5, 3, &wide)},
        3);
    compute_trainer_options o = c->options;
    const double tolerance = c->tolerance > 0 ? c->tolerance : 1e-11;
    torch_fill(net, 1);
    o.model = net;
    o.batch = 6;
    o.input = (compute_batch_port){COMPUTE_F64, COMPUTE_SHAPE(4)};
    o.target = (compute_batch_port){COMPUTE_F64, COMPUTE_SHAPE(3)};
    if (c->options.loss == COMPUTE_LOSS_CROSS_ENTROPY) o.loss = COMPUTE_LOSS_MEAN_SQUARED_ERROR;
    train(c->name, &o, 8, 3, tolerance);
    compare_weights(c->name, net, tolerance);
    compute_layer_release(net);
  }
}

/* ---- A training run ------------------------------------------------------------------------ */

static compute_layer *network(compute_dtype dtype) {
  const compute_weights_options w = {.dtype = dtype};
  compute_layer *stem =
      torch_conv(1, 4, 3, (compute_conv2d_layer_options){.weights = w, .padding = {1}});
  return compute_sequential(
      (compute_layer *[]){
          compute_layer_name(stem, "stem"),
          compute_batch_norm_layer(device(), 4, &(compute_norm_options){.dtype = dtype}),
          compute_activation(COMPUTE_RELU), torch_residual(dtype, false), compute_max_pool(2, NULL),
          torch_residual(dtype, true), compute_activation(COMPUTE_GELU),
          compute_average_pool(2, NULL), compute_flatten(),
          compute_layer_name(compute_dense(device(), 16, 3, &w), "head")},
      10);
}

static void train_network(compute_layer *net, double tolerance) {
  const compute_trainer_options o = {.model = net,
                                     .loss = COMPUTE_LOSS_CROSS_ENTROPY,
                                     .label_smoothing = 0.1,
                                     .optimizer = {.kind = COMPUTE_SGD,
                                                   .learning_rate = 0.05,
                                                   .momentum = 0.9,
                                                   .nesterov = true,
                                                   .weight_decay = 1e-3},
                                     .batch = 8,
                                     .input = {COMPUTE_F64, COMPUTE_SHAPE(1, 8, 8)},
                                     .target = {COMPUTE_I64, COMPUTE_SCALAR}};
  torch_fill(net, 0.5);
  train("network", &o, 40, 3, tolerance);
}

static compute_tensor *predict(compute_layer *net) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_shape shape = COMPUTE_SHAPE(5, 1, 8, 8);
  compute_tensor *x = torch_numbers(shape, 7, 1, 0), *result = NULL;
  const compute_node input = compute_input(graph, COMPUTE_F64, shape);
  const compute_node y = compute_layer_apply(net, graph, input, NULL);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{input, x}, {y, result}}, 2, NULL));
  compute_tensor_release(x);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return result;
}

/* Writes weights and their result for values.cpp, which loads them. */
static void a_training_run_has_pytorchs_losses_and_weights(void **state) {
  (void)state;
  compute_layer *net = network(COMPUTE_F64);
  assert_non_null(net);
  train_network(net, 1e-9);
  compare_weights("network", net, 1e-8);
  compute_tensor *y = predict(net);
  torch_compare(y, 1e-8, "train.network.y");
  assert_ok(compute_layer_save(net, TEST_SCRATCH_DIR "/weights.safetensors"));
  assert_ok(compute_tensor_file_write(test_context, TEST_SCRATCH_DIR "/result.safetensors",
                                      &(compute_named_tensor){"y", y}, 1));
  compute_tensor_release(y);
  compute_layer_release(net);
}

/* The same in f32, where rounding errors grow from step to step. */
static void a_training_run_in_f32_stays_near(void **state) {
  (void)state;
  compute_layer *net = network(COMPUTE_F32);
  assert_non_null(net);
  train_network(net, 1e-4);
  compute_layer_release(net);
}

static void names_and_their_order_are_pytorchs(void **state) {
  (void)state;
  compute_layer *net = network(COMPUTE_F64);
  size_t numbers[2] = {0, 0};
  for (size_t i = 0; i < compute_layer_parameter_count(net); i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(net, i, &p));
    const compute_shape shape = compute_tensor_shape(p.tensor);
    const double *sizes =
        torch_expected(COMPUTE_SHAPE(shape.rank), "train.names.%s.%02zu.%s",
                       p.trainable ? "parameter" : "buffer", numbers[p.trainable]++, p.name);
    for (int32_t k = 0; k < shape.rank; k++) assert_true(sizes[k] == (double)shape.size[k]);
  }
  compute_layer_release(net);
}

static void every_value_has_been_compared(void **state) {
  (void)state;
  torch_fail_unseen(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimizers_take_pytorchs_steps),
      cmocka_unit_test(a_training_run_has_pytorchs_losses_and_weights),
      cmocka_unit_test(a_training_run_in_f32_stays_near),
      cmocka_unit_test(names_and_their_order_are_pytorchs),
      cmocka_unit_test(every_value_has_been_compared),
  };
  return cmocka_run_group_tests(tests, torch_open, torch_close);
}
