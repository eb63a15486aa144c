/* SPDX-License-Identifier: MIT */
/* Trainers on one device: they learn, follow schedules, clip, accumulate, detect numbers that are
 * not finite, scale the loss of f16, and refuse invalid options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/train/trainer.h"
#include "support/samples/training.h"

static compute_trainer *create(const compute_trainer_options *o) {
  compute_trainer *trainer = NULL;
  assert_ok(compute_trainer_create(test_context, o, &trainer));
  return trainer;
}

/* ---- Learning ------------------------------------------------------------------------------ */

static void learn(const char *name, bool classes) {
  compute_device *device = compute_default_device(test_context);
  if (name && compute_device_by_name(test_context, name, &device) != COMPUTE_OK)
    test_skip("no such device besides");
  training_data d = training_data_create(240, classes, 1);
  compute_dataset *set =
      classes ? training_class_set(test_context, &d) : training_regression_set(test_context, &d);
  compute_layer *net = training_network(device, classes ? 3 : 2, 1);
  compute_trainer_options o = training_options(net, classes);
  o.devices = &device;
  o.device_count = 1;
  o.optimizer = (compute_optimizer_options){.kind = COMPUTE_ADAM, .learning_rate = 0.02};
  compute_trainer *trainer = create(&o);
  compute_training_score before, seen, after;
  assert_ok(compute_trainer_evaluate(trainer, set, &before));
  assert_ok(compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 25}, &seen));
  assert_ok(compute_trainer_evaluate(trainer, set, &after));
  assert_int_equal(after.items, 240);
  assert_int_equal(seen.items, 240);
  if (!(after.loss < before.loss / 5))
    fail_msg("%s: %g → %g", name ? name : "the tested device", before.loss, after.loss);
  if (classes && !(after.accuracy > 0.9))
    fail_msg("%s: accuracy %g", name ? name : "the tested device", after.accuracy);
  if (!classes) assert_true(isnan(after.accuracy));
  compute_trainer_release(trainer);
  compute_layer_release(net);
  compute_dataset_release(set);
  training_data_free(&d);
}

static void a_regression_is_learned_on_every_device(void **state) {
  (void)state;
  learn(NULL, false);
  learn("opencl:0", false);
}

static void classes_are_learned_on_every_device(void **state) {
  (void)state;
  learn(NULL, true);
  learn("opencl:0", true);
}

/* Sequences in which each token determines the next, like the data of a language model. */
static void tokens_of_sequences_are_learned(void **state) {
  (void)state;
  enum { ITEMS = 32, TOKENS = 6, WORDS = 7, WIDTH = 16 };
  int64_t inputs[ITEMS * TOKENS], targets[ITEMS * TOKENS];
  for (int i = 0; i < ITEMS; i++) {
    int64_t word = i % WORDS;
    for (int t = 0; t < TOKENS; t++) {
      inputs[i * TOKENS + t] = word;
      word = (3 * word + 1) % WORDS;
      targets[i * TOKENS + t] = word;
    }
  }
  compute_device *tested = compute_default_device(test_context);
  const compute_weights_options w = {.seed = 1};
  compute_layer *net =
      compute_sequential((compute_layer *[]){compute_embedding(tested, WORDS, WIDTH, &w),
                                             compute_dense(tested, WIDTH, WORDS, &w)},
                         2);
  assert_non_null(net);
  compute_tensor *x, *t;
  const compute_shape all = COMPUTE_SHAPE(ITEMS, TOKENS);
  assert_ok(compute_tensor_from_host(tested, COMPUTE_I64, all, inputs, &x));
  assert_ok(compute_tensor_from_host(tested, COMPUTE_I64, all, targets, &t));
  compute_dataset *set;
  assert_ok(compute_dataset_from_tensors(test_context, x, t, &set));
  const compute_shape item = COMPUTE_SHAPE(TOKENS);
  compute_trainer *trainer =
      create(&(compute_trainer_options){.model = net,
                                        .loss = COMPUTE_LOSS_CROSS_ENTROPY,
                                        .label_smoothing = 0.01,
                                        .input = {COMPUTE_I64, item},
                                        .target = {COMPUTE_I64, item},
                                        .optimizer = {.kind = COMPUTE_ADAM, .learning_rate = 0.05},
                                        .batch = 8});
  compute_training_score score;
  assert_ok(compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 25}, NULL));
  assert_ok(compute_trainer_evaluate(trainer, set, &score));
  assert_true(score.accuracy == 1);
  assert_true(score.loss < 0.2);
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_tensor_release(x);
  compute_tensor_release(t);
  compute_layer_release(net);
}

static void predictions_are_the_models_for_any_number_of_items(void **state) {
  (void)state;
  compute_device *tested = compute_default_device(test_context);
  training_data d = training_data_create(29, false, 2);
  compute_layer *net = training_network(tested, 2, 3);
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = create(&o);
  compute_tensor *x, *y;
  assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(29, 4), d.inputs, &x));
  assert_ok(compute_trainer_predict(trainer, x, &y));
  assert_int_equal(compute_tensor_shape(y).size[0], 29);
  assert_int_equal(compute_tensor_shape(y).size[1], 2);
  compute_graph *graph = compute_graph_create(test_context);
  compute_node in = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(29, 4));
  compute_node out = compute_layer_apply(net, graph, in, NULL);
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_tensor *expected;
  assert_ok(compute_plan_create_tensor(plan, out, &expected));
  assert_ok(compute_run(plan, (compute_binding[]){{in, x}, {out, expected}}, 2, NULL));
  for (int64_t i = 0; i < 58; i++)
    assert_true(fabs(test_element(y, i) - test_element(expected, i)) < 1e-5);
  compute_tensor_release(expected);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* Takes `count` steps on batches of `batch` items from the data's start. */
static double take_steps(compute_trainer *trainer, const training_data *d, int64_t batch,
                         int64_t first, int count) {
  compute_device *tested = compute_default_device(test_context);
  double loss = 0;
  for (int i = 0; i < count; i++) {
    compute_tensor *x, *t;
    const int64_t at = first + i * batch;
    assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(batch, 4),
                                       d->inputs + 4 * at, &x));
    assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(batch, 2),
                                       d->targets + 2 * at, &t));
    assert_ok(compute_trainer_step(trainer, x, t, &loss));
    compute_tensor_release(x);
    compute_tensor_release(t);
  }
  return loss;
}

/* From zero weights: w = rate · 2 / (items · outputs) · Σ target · input. */
static void a_step_goes_down_the_gradient_of_the_mean(void **state) {
  (void)state;
  training_data d = training_data_create(12, false, 3);
  compute_layer *net = compute_sequential(
      (compute_layer *[]){compute_dense(
          compute_default_device(test_context), 4, 2,
          &(compute_weights_options){.initializer = COMPUTE_INIT_ZERO, .no_bias = true})},
      1);
  assert_non_null(net);
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = create(&o);
  double mean = 0;
  for (int i = 0; i < 24; i++) mean += (double)d.targets[i] * (double)d.targets[i] / 24;
  assert_true(fabs(take_steps(trainer, &d, 12, 0, 1) - mean) < 1e-6);
  size_t count;
  double *weights = training_weights(net, &count);
  assert_int_equal(count, 8);
  for (int output = 0; output < 2; output++) {
    for (int input = 0; input < 4; input++) {
      double sum = 0;
      for (int i = 0; i < 12; i++)
        sum += (double)d.targets[2 * i + output] * (double)d.inputs[4 * i + input];
      assert_true(fabs(weights[4 * output + input] - 0.1 * 2 / 24 * sum) < 1e-6);
    }
  }
  free(weights);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

/* Two updates of 24 items each, at once and in four parts. */
static void accumulate_as(double clip, compute_optimizer_kind kind) {
  training_data d = training_data_create(48, false, 3);
  compute_layer *large = training_network(compute_default_device(test_context), 2, 5);
  compute_layer *small = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer_options a = training_options(large, false), b = training_options(small, false);
  a.batch = 24;
  b.batch = 6;
  b.accumulate = 4;
  a.clip_norm = b.clip_norm = clip;
  a.optimizer.kind = b.optimizer.kind = kind;
  a.optimizer.weight_decay = b.optimizer.weight_decay = 0.01;
  compute_trainer *one = create(&a), *many = create(&b);
  take_steps(one, &d, 24, 0, 2);
  take_steps(many, &d, 6, 0, 8);
  compute_trainer_info info;
  assert_ok(compute_trainer_query(many, &info));
  assert_int_equal(info.steps, 2);
  const double distance = training_distance(large, small);
  if (!(distance < 1e-5)) fail_msg("weights differ by %g", distance);
  compute_trainer_release(one);
  compute_trainer_release(many);
  compute_layer_release(large);
  compute_layer_release(small);
  training_data_free(&d);
}

static void accumulated_batches_equal_one_large_batch(void **state) {
  (void)state;
  accumulate_as(0, COMPUTE_SGD);
  accumulate_as(0.05, COMPUTE_ADAMW);
}

static void clipping_limits_the_length_of_a_step(void **state) {
  (void)state;
  training_data d = training_data_create(12, false, 3);
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  size_t count;
  double *before = training_weights(net, &count);
  compute_trainer_options o = training_options(net, false);
  o.clip_norm = 1e-3;
  o.optimizer.learning_rate = 1;
  compute_trainer *trainer = create(&o);
  take_steps(trainer, &d, 12, 0, 1);
  double *after = training_weights(net, &count), square = 0;
  for (size_t i = 0; i < count; i++) square += (after[i] - before[i]) * (after[i] - before[i]);
  assert_true(fabs(sqrt(square) - 1e-3) < 1e-5);
  free(before);
  free(after);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static void schedules_have_the_rates_of_their_formulas(void **state) {
  (void)state;
  const compute_schedule constant = {.warm_up = 4};
  assert_true(fabs(train_rate(&constant, 2, 0, 0) - 0.5) < 1e-12);
  assert_true(fabs(train_rate(&constant, 2, 3, 0) - 2) < 1e-12);
  assert_true(fabs(train_rate(&constant, 2, 400, 0) - 2) < 1e-12);
  const compute_schedule steps = {.kind = COMPUTE_SCHEDULE_STEP, .period = 10, .factor = 0.5};
  assert_true(fabs(train_rate(&steps, 1, 9, 0) - 1) < 1e-12);
  assert_true(fabs(train_rate(&steps, 1, 10, 0) - 0.5) < 1e-12);
  assert_true(fabs(train_rate(&steps, 1, 35, 0) - 0.125) < 1e-12);
  const compute_schedule cosine = {.kind = COMPUTE_SCHEDULE_COSINE, .period = 100, .factor = 0.1};
  assert_true(fabs(train_rate(&cosine, 1, 0, 0) - 1) < 1e-12);
  assert_true(fabs(train_rate(&cosine, 1, 50, 0) - 0.55) < 1e-12);
  assert_true(fabs(train_rate(&cosine, 1, 100, 0) - 0.1) < 1e-12);
  assert_true(fabs(train_rate(&cosine, 1, 1000, 0) - 0.1) < 1e-12);
  const compute_schedule run = {.kind = COMPUTE_SCHEDULE_COSINE, .warm_up = 10};
  assert_true(fabs(train_rate(&run, 1, 4, 110) - 0.5) < 1e-12);
  assert_true(fabs(train_rate(&run, 1, 60, 110) - 0.5) < 1e-12);
}

/* ---- Errors -------------------------------------------------------------------------------- */

/* log(x) of a negative number, in the middle of a network. */
static compute_node take_log(void *user, compute_graph *graph, compute_node x,
                             const compute_node *parameters, bool training) {
  (void)user;
  (void)parameters;
  (void)training;
  return compute_log(graph, x);
}

static void a_loss_that_is_nan_names_the_operation_and_changes_nothing(void **state) {
  (void)state;
  compute_device *tested = compute_default_device(test_context);
  training_data d = training_data_create(12, false, 3);
  compute_layer *net = compute_sequential(
      (compute_layer *[]){compute_dense(tested, 4, 8, NULL),
                          compute_custom_layer("log", take_log, NULL, NULL, NULL, 0),
                          compute_dense(tested, 8, 2, NULL)},
      3);
  assert_non_null(net);
  compute_trainer_options o = training_options(net, false);
  o.flags = COMPUTE_TRAIN_CHECK_NAN;
  compute_trainer *trainer = create(&o);
  size_t count;
  double *before = training_weights(net, &count);
  compute_tensor *x, *t;
  double loss;
  assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(12, 4), d.inputs, &x));
  assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(12, 2), d.targets, &t));
  assert_fails(compute_trainer_step(trainer, x, t, &loss), COMPUTE_ERROR_VALIDATION);
  test_check_message(test_context, "log [12,8]");
  double *after = training_weights(net, &count);
  assert_memory_equal(before, after, count * sizeof *before);
  /* A number in the data that is not finite is reported as such. */
  d.inputs[5] = INFINITY;
  assert_ok(compute_tensor_write(x, d.inputs, 48 * sizeof(float)));
  assert_fails(compute_trainer_step(trainer, x, t, &loss), COMPUTE_ERROR_VALIDATION);
  test_check_message(test_context, "input input [12,4]");
  free(before);
  free(after);
  compute_tensor_release(x);
  compute_tensor_release(t);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static void a_label_outside_fails_the_step_and_changes_nothing(void **state) {
  (void)state;
  compute_device *tested = compute_default_device(test_context);
  training_data d = training_data_create(12, true, 3);
  compute_layer *net = training_network(tested, 3, 5);
  compute_trainer_options o = training_options(net, true);
  compute_trainer *trainer = create(&o);
  size_t count;
  double *before = training_weights(net, &count), loss;
  compute_tensor *x, *t;
  assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(12, 4), d.inputs, &x));
  for (int64_t outside = -1; outside <= 3; outside += 4) {
    d.labels[4] = outside;
    assert_ok(compute_tensor_from_host(tested, COMPUTE_I64, COMPUTE_SHAPE(12), d.labels, &t));
    assert_fails(compute_trainer_step(trainer, x, t, &loss), COMPUTE_ERROR_INDEX);
    compute_tensor_release(t);
    /* In a dataset, the error names the item before training begins. */
    compute_dataset *data = training_class_set(test_context, &d);
    compute_training_score score;
    assert_fails(compute_trainer_evaluate(trainer, data, &score), COMPUTE_ERROR_INDEX);
    assert_fails(
        compute_trainer_run(trainer, data, &(compute_trainer_run_options){.epochs = 1}, NULL),
        COMPUTE_ERROR_INDEX);
    test_check_message(test_context,
                       outside < 0 ? "label of item 4 is -1" : "label of item 4 is 3");
    test_check_message(test_context, "3 classes, 0 ... 2");
    compute_dataset_release(data);
    double *after = training_weights(net, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    free(after);
  }
  free(before);
  compute_tensor_release(x);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static double *everything(const compute_layer *net, size_t *count) {
  double *all = calloc(64, sizeof *all);
  assert_non_null(all);
  *count = 0;
  compute_layer_parameter p;
  for (size_t i = 0; i < compute_layer_parameter_count(net); i++) {
    assert_ok(compute_layer_parameter_at(net, i, &p));
    for (int64_t k = 0; k < compute_tensor_count(p.tensor); k++)
      all[(*count)++] = test_element(p.tensor, k);
  }
  return all;
}

/* Running statistics are recorded before the labels are checked. Recomputed parts of a network come
 * after the labels. */
static void a_label_outside_changes_no_statistics_either(void **state) {
  (void)state;
  compute_device *tested = compute_default_device(test_context);
  for (uint32_t flags = 0; flags <= COMPUTE_TRAIN_RECOMPUTE; flags += COMPUTE_TRAIN_RECOMPUTE) {
    training_data d = training_data_create(12, true, 3);
    compute_layer *net = compute_sequential(
        (compute_layer *[]){
            compute_dense(tested, 4, 4, NULL),
            compute_batch_norm_layer(tested, 4, &(compute_norm_options){.no_affine = true}),
            compute_activation(COMPUTE_RELU), compute_dense(tested, 4, 3, NULL)},
        4);
    assert_non_null(net);
    compute_trainer_options o = training_options(net, true);
    o.flags = flags;
    compute_trainer *trainer = create(&o);
    compute_tensor *x, *t;
    size_t count;
    double *before = everything(net, &count), loss;
    assert_ok(compute_tensor_from_host(tested, COMPUTE_F32, COMPUTE_SHAPE(12, 4), d.inputs, &x));
    d.labels[7] = -1;
    assert_ok(compute_tensor_from_host(tested, COMPUTE_I64, COMPUTE_SHAPE(12), d.labels, &t));
    assert_fails(compute_trainer_step(trainer, x, t, &loss), COMPUTE_ERROR_INDEX);
    double *after = everything(net, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    free(after);
    /* The next batch is not affected. */
    d.labels[7] = 1;
    assert_ok(compute_tensor_write(t, d.labels, 12 * sizeof *d.labels));
    assert_ok(compute_trainer_step(trainer, x, t, &loss));
    assert_true(isfinite(loss));
    after = everything(net, &count);
    assert_memory_not_equal(before, after, count * sizeof *before);
    free(before);
    free(after);
    compute_tensor_release(x);
    compute_tensor_release(t);
    compute_trainer_release(trainer);
    compute_layer_release(net);
    training_data_free(&d);
  }
}

static void half_precision_scales_the_loss_and_leaves_overflows_out(void **state) {
  (void)state;
  training_data d = training_data_create(12, false, 3);
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer_options o = training_options(net, false);
  o.precision = COMPUTE_F16;
  compute_trainer *trainer = create(&o);
  compute_trainer_info info;
  assert_ok(compute_trainer_query(trainer, &info));
  assert_true(info.loss_scale == 65536);
  const double first = take_steps(trainer, &d, 12, 0, 1);
  double last = 0;
  for (int i = 0; i < 60; i++) last = take_steps(trainer, &d, 12, 0, 1);
  assert_true(last < first / 2);
  /* Targets so large that the gradients overflow. */
  assert_ok(compute_trainer_query(trainer, &info));
  const double scale = info.loss_scale;
  const int64_t steps = info.steps;
  for (int i = 0; i < 24; i++) d.targets[i] = 60000;
  size_t count;
  double *before = training_weights(net, &count);
  take_steps(trainer, &d, 12, 0, 1);
  double *after = training_weights(net, &count);
  assert_memory_equal(before, after, count * sizeof *before);
  assert_ok(compute_trainer_query(trainer, &info));
  assert_true(info.loss_scale == scale / 2);
  assert_int_equal(info.steps, steps);
  free(before);
  free(after);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static void memory_of_a_step_is_counted(void **state) {
  (void)state;
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer_options o = training_options(net, false);
  o.optimizer.kind = COMPUTE_ADAM;
  compute_trainer *trainer = create(&o);
  compute_trainer_info info;
  assert_ok(compute_trainer_query(trainer, &info));
  /* Weights with two moments each, and the batch. */
  const uint64_t least = 4 * 3 * (uint64_t)compute_layer_element_count(net, true) + 12 * 6 * 4;
  assert_true(info.peak_bytes >= least + info.activation_bytes);
  assert_true(info.peak_bytes < least + info.activation_bytes + 1024);
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

/* Many layers whose activations need most of the memory. */
static compute_layer *deep_network(compute_device *device) {
  compute_layer *parts[50];
  size_t count = 0;
  for (uint64_t i = 0; i < 16; i++) {
    parts[count++] = compute_dense(device, i == 0 ? 4 : 64, 64,
                                   &(compute_weights_options){.seed = i + 1, .no_bias = true});
    parts[count++] = compute_activation(i % 2 == 0 ? COMPUTE_SIGMOID : COMPUTE_GELU);
    parts[count++] = compute_activation(COMPUTE_TANH);
  }
  parts[count++] = compute_dense(device, 64, 2, NULL);
  parts[count++] = compute_dropout_layer(0.2);
  compute_layer *net = compute_sequential(parts, count);
  assert_non_null(net);
  return net;
}

static void recomputed_activations_give_the_same_weights_in_less_memory(void **state) {
  (void)state;
  if (test_spread() > 1) test_skip("the CPU says so; a device compiles and computes for long");
  training_data d = training_data_create(768, false, 3);
  compute_layer *nets[2];
  compute_trainer_info info[2];
  for (int i = 0; i < 2; i++) {
    nets[i] = deep_network(compute_default_device(test_context));
    compute_trainer_options o = training_options(nets[i], false);
    o.batch = 256;
    o.flags = i == 0 ? 0 : COMPUTE_TRAIN_RECOMPUTE;
    compute_trainer *trainer = create(&o);
    take_steps(trainer, &d, 256, 0, 3);
    assert_ok(compute_trainer_query(trainer, &info[i]));
    compute_trainer_release(trainer);
  }
  const double distance = training_distance(nets[0], nets[1]);
  if (!(distance < 1e-6)) fail_msg("weights differ by %g", distance);
  if (!(info[1].activation_bytes < info[0].activation_bytes * 3 / 4))
    fail_msg("%llu bytes with recomputation, %llu without",
             (unsigned long long)info[1].activation_bytes,
             (unsigned long long)info[0].activation_bytes);
  compute_layer_release(nets[0]);
  compute_layer_release(nets[1]);
  training_data_free(&d);
}

static bool stop_early(void *user, const compute_training_progress *progress) {
  int *calls = user;
  assert_true(progress->epochs == 5 && progress->steps == 4);
  assert_true(isfinite(progress->loss) && progress->learning_rate == 0.1);
  return ++*calls < 6;
}

static void progress_can_end_a_run(void **state) {
  (void)state;
  training_data d = training_data_create(50, false, 1);
  compute_dataset *set = training_regression_set(test_context, &d);
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = create(&o);
  int calls = 0;
  assert_fails(compute_trainer_run(trainer, set,
                                   &(compute_trainer_run_options){
                                       .epochs = 5, .progress = stop_early, .user = &calls},
                                   NULL),
               COMPUTE_ERROR_CANCELLED);
  assert_int_equal(calls, 6);
  compute_trainer_info info;
  assert_ok(compute_trainer_query(trainer, &info));
  assert_int_equal(info.steps, 6);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  compute_dataset_release(set);
  training_data_free(&d);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer *trainer;
#define REFUSED(status, ...)                                                                       \
  do {                                                                                             \
    compute_trainer_options o = training_options(net, false);                                      \
    __VA_ARGS__;                                                                                   \
    assert_fails(compute_trainer_create(test_context, &o, &trainer), status);                      \
    assert_null(trainer);                                                                          \
  } while (0)
  REFUSED(COMPUTE_ERROR_NULL_POINTER, o.model = NULL);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.batch = 0);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.reserved[3] = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.optimizer.learning_rate = NAN);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.optimizer.nesterov = true);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.optimizer.beta1 = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.label_smoothing = 0.1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.clip_norm = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.accumulate = -1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.flags = 1u << 30);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.device_count = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, o.schedule.kind = COMPUTE_SCHEDULE_STEP);
  REFUSED(COMPUTE_ERROR_DTYPE, o.precision = COMPUTE_I32);
  REFUSED(COMPUTE_ERROR_DTYPE, o.input.dtype = (compute_dtype)77);
  REFUSED(COMPUTE_ERROR_SHAPE, o.target.item = COMPUTE_SHAPE(3));
  REFUSED(COMPUTE_ERROR_SHAPE, o.input.item = COMPUTE_SHAPE(0));
  REFUSED(COMPUTE_ERROR_SHAPE, o.input.item = COMPUTE_SHAPE(5));
#undef REFUSED
  compute_trainer_options o = training_options(net, false);
  trainer = create(&o);
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(11, 4), NULL);
  compute_tensor *t = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(12, 2), NULL);
  assert_fails(compute_trainer_step(trainer, x, t, NULL), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_trainer_step(trainer, NULL, t, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_trainer_save(trainer, "weights.txt"), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(x);
  compute_tensor_release(t);
  training_data d = training_data_create(11, false, 1);
  compute_dataset *set = training_regression_set(test_context, &d);
  compute_trainer_run_options run = {.epochs = 1};
  assert_fails(compute_trainer_run(trainer, set, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.epochs = 0;
  assert_fails(compute_trainer_run(trainer, set, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_dataset_release(set);
  training_data_free(&d);
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_regression_is_learned_on_every_device),
      cmocka_unit_test(classes_are_learned_on_every_device),
      cmocka_unit_test(tokens_of_sequences_are_learned),
      cmocka_unit_test(predictions_are_the_models_for_any_number_of_items),
      cmocka_unit_test(a_step_goes_down_the_gradient_of_the_mean),
      cmocka_unit_test(accumulated_batches_equal_one_large_batch),
      cmocka_unit_test(clipping_limits_the_length_of_a_step),
      cmocka_unit_test(schedules_have_the_rates_of_their_formulas),
      cmocka_unit_test(a_loss_that_is_nan_names_the_operation_and_changes_nothing),
      cmocka_unit_test(a_label_outside_fails_the_step_and_changes_nothing),
      cmocka_unit_test(a_label_outside_changes_no_statistics_either),
      cmocka_unit_test(half_precision_scales_the_loss_and_leaves_overflows_out),
      cmocka_unit_test(memory_of_a_step_is_counted),
      cmocka_unit_test(recomputed_activations_give_the_same_weights_in_less_memory),
      cmocka_unit_test(progress_can_end_a_run),
      cmocka_unit_test(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
