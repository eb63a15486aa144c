/* SPDX-License-Identifier: MIT */
/* Training on several devices: a step equals a step of one device on the whole batch up to
 * rounding, for any devices, and a failing share changes nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/samples/training.h"

#define MOST 4

/* Returns NULL if the device is missing. If COMPUTE_TEST_DEVICE names its backend,
 * COMPUTE_TEST_DEVICES (default 1) of its devices must exist. */
static compute_device *device_of(const char *name) {
  const char *tested = getenv("COMPUTE_TEST_DEVICE"), *number = strchr(name, ':');
  const char *count = getenv("COMPUTE_TEST_DEVICES");
  compute_device *device = NULL;
  if (compute_device_by_name(test_context, name, &device) == COMPUTE_OK) return device;
  if (tested && strncmp(tested, name, strcspn(tested, ":")) == 0 &&
      (!number || atoi(number + 1) < (count ? atoi(count) : 1)))
    fail_msg("there is no %s: %s", name, compute_error_message(test_context));
  print_message("not compared, as there is no %s\n", name);
  return NULL;
}

static compute_trainer *create(const compute_trainer_options *o) {
  compute_trainer *trainer = NULL;
  assert_ok(compute_trainer_create(test_context, o, &trainer));
  return trainer;
}

/* Compares the weights after a few steps on these devices with the same steps on the CPU alone.
 * Returns false if a device is missing. */
static bool compare(const char *const *names, size_t count, compute_trainer_options changes) {
  compute_device *devices[MOST];
  for (size_t i = 0; i < count; i++) {
    devices[i] = device_of(names[i]);
    if (!devices[i]) return false;
  }
  training_data d = training_data_create(52, false, 3);
  compute_dataset *set = training_regression_set(test_context, &d);
  compute_layer *alone = training_network(device_of("cpu"), 2, 5);
  compute_layer *together = training_network(device_of("cpu"), 2, 5);
  compute_trainer_options o = training_options(alone, false);
  o.batch = 13; /* not a multiple of any number of devices */
  o.optimizer.momentum = 0.9;
  o.accumulate = changes.accumulate;
  o.clip_norm = changes.clip_norm;
  o.precision = changes.precision;
  compute_trainer *one = create(&o);
  o.model = together;
  o.devices = devices;
  o.device_count = count;
  compute_trainer *many = create(&o);
  const compute_trainer_run_options run = {.epochs = 2};
  compute_training_score a, b;
  assert_ok(compute_trainer_run(one, set, &run, &a));
  assert_ok(compute_trainer_run(many, set, &run, &b));
  const double distance = training_distance(alone, together);
  const double tolerance = changes.precision ? 2e-2 : 2e-6;
  if (!(distance < tolerance) || !(fabs(a.loss - b.loss) < tolerance * 2))
    fail_msg("%zu devices, the first %s: weights differ by %g, losses are %g and %g", count,
             names[0], distance, a.loss, b.loss);
  assert_ok(compute_trainer_evaluate(one, set, &a));
  assert_ok(compute_trainer_evaluate(many, set, &b));
  assert_true(fabs(a.loss - b.loss) < tolerance * 2);
  compute_trainer_release(one);
  compute_trainer_release(many);
  compute_layer_release(alone);
  compute_layer_release(together);
  compute_dataset_release(set);
  training_data_free(&d);
  return true;
}

static void several_devices_take_the_step_of_one(void **state) {
  (void)state;
  const compute_trainer_options plain = {.accumulate = 1};
  compare((const char *[]){"cpu", "cpu"}, 2, plain);
  compare((const char *[]){"cpu", "cpu", "cpu"}, 3, plain);
  compare((const char *[]){"cpu", "opencl:0"}, 2, plain);
  compare((const char *[]){"opencl:0", "cpu"}, 2, plain);
  compare((const char *[]){"cpu", "opencl:0", "opencl:1"}, 3, plain);
  compare((const char *[]){"cuda:0", "cuda:1", "cpu"}, 3, plain);
}

static void a_device_that_the_weights_do_not_lie_on_takes_the_same_step(void **state) {
  (void)state;
  const compute_trainer_options plain = {.accumulate = 1};
  const bool opencl = compare((const char *[]){"opencl:0"}, 1, plain);
  const bool cuda = compare((const char *[]){"cuda:0"}, 1, plain);
  if (!opencl && !cuda) test_skip("no device beside the CPU");
}

static void accumulation_and_clipping_see_the_whole_batch(void **state) {
  (void)state;
  compare((const char *[]){"cpu", "cpu"}, 2,
          (compute_trainer_options){.accumulate = 2, .clip_norm = 0.2});
}

static void replicas_share_the_loss_scale(void **state) {
  (void)state;
  compare((const char *[]){"cpu", "cpu"}, 2,
          (compute_trainer_options){.accumulate = 1, .precision = COMPUTE_F16});
}

/* ---- Statistics and failures --------------------------------------------------------------- */

static compute_layer *normalised_network(compute_device *device) {
  compute_layer *net = compute_sequential(
      (compute_layer *[]){compute_dense(device, 4, 6, NULL),
                          compute_batch_norm_layer(device, 6, NULL),
                          compute_activation(COMPUTE_RELU), compute_dense(device, 6, 3, NULL)},
      4);
  assert_non_null(net);
  return net;
}

/* All tensors of a model, one after the other. */
static double *everything(const compute_layer *net, size_t *count) {
  *count = (size_t)compute_layer_element_count(net, false);
  double *all = malloc(*count * sizeof *all);
  size_t place = 0;
  compute_layer_parameter p;
  for (size_t i = 0; i < compute_layer_parameter_count(net); i++) {
    assert_ok(compute_layer_parameter_at(net, i, &p));
    for (int64_t k = 0; k < compute_tensor_count(p.tensor); k++)
      all[place++] = test_element(p.tensor, k);
  }
  return all;
}

/* The documented exception: each device normalises its share separately, and the model keeps the
 * statistics of the first share. */
static void running_statistics_are_those_of_the_first_share(void **state) {
  (void)state;
  compute_device *cpu = device_of("cpu"), *both[2] = {cpu, cpu};
  training_data d = training_data_create(12, true, 3);
  compute_layer *net = normalised_network(cpu), *half = normalised_network(cpu);
  compute_trainer_options o = training_options(net, true);
  o.devices = both;
  o.device_count = 2;
  compute_trainer *trainer = create(&o);
  o.model = half;
  o.device_count = 1;
  o.batch = 6;
  compute_trainer *first = create(&o);
  compute_tensor *x, *t, *few_x, *few_t;
  double loss;
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(12, 4), d.inputs, &x));
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SHAPE(12), d.labels, &t));
  assert_ok(compute_tensor_slice_view(x, 0, 0, 6, 1, &few_x));
  assert_ok(compute_tensor_slice_view(t, 0, 0, 6, 1, &few_t));
  assert_ok(compute_trainer_step(trainer, x, t, &loss));
  assert_ok(compute_trainer_step(first, few_x, few_t, &loss));
  compute_layer_parameter a, b;
  for (size_t i = 0; i < compute_layer_parameter_count(net); i++) {
    assert_ok(compute_layer_parameter_at(net, i, &a));
    assert_ok(compute_layer_parameter_at(half, i, &b));
    for (int64_t k = 0; !a.trainable && k < compute_tensor_count(a.tensor); k++)
      assert_true(fabs(test_element(a.tensor, k) - test_element(b.tensor, k)) < 1e-6);
  }
  compute_tensor_release(few_x);
  compute_tensor_release(few_t);
  compute_tensor_release(x);
  compute_tensor_release(t);
  compute_trainer_release(trainer);
  compute_trainer_release(first);
  compute_layer_release(net);
  compute_layer_release(half);
  training_data_free(&d);
}

static void a_share_that_fails_leaves_model_and_statistics(void **state) {
  (void)state;
  compute_device *cpu = device_of("cpu"), *both[2] = {cpu, cpu};
  training_data d = training_data_create(12, true, 3);
  compute_layer *net = normalised_network(cpu);
  compute_trainer_options o = training_options(net, true);
  o.devices = both;
  o.device_count = 2;
  o.flags = COMPUTE_TRAIN_CHECK_NAN;
  compute_trainer *trainer = create(&o);
  size_t count;
  double *before = everything(net, &count), loss;
  compute_tensor *x, *t;
  d.labels[11] = -1;
  d.inputs[47] = NAN;
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(12, 4), d.inputs, &x));
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SHAPE(12), d.labels, &t));
  const compute_status s = compute_trainer_step(trainer, x, t, &loss);
  assert_true(s == COMPUTE_ERROR_INDEX || s == COMPUTE_ERROR_VALIDATION);
  d.labels[11] = 1;
  assert_ok(compute_tensor_write(t, d.labels, 12 * sizeof *d.labels));
  assert_fails(compute_trainer_step(trainer, x, t, &loss), COMPUTE_ERROR_VALIDATION);
  test_check_message(test_context, "input input [6,4]");
  double *after = everything(net, &count);
  assert_memory_equal(before, after, count * sizeof *before);
  free(before);
  free(after);
  compute_tensor_release(x);
  compute_tensor_release(t);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static void more_devices_than_items_are_refused(void **state) {
  (void)state;
  compute_device *cpu = device_of("cpu"), *three[3] = {cpu, cpu, cpu};
  compute_layer *net = training_network(cpu, 2, 5);
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer;
  o.batch = 2;
  o.devices = three;
  o.device_count = 3;
  assert_fails(compute_trainer_create(test_context, &o, &trainer), COMPUTE_ERROR_INVALID_ARGUMENT);
  three[1] = NULL;
  o.batch = 12;
  assert_fails(compute_trainer_create(test_context, &o, &trainer), COMPUTE_ERROR_NULL_POINTER);
  compute_layer_release(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_devices_take_the_step_of_one),
      cmocka_unit_test(a_device_that_the_weights_do_not_lie_on_takes_the_same_step),
      cmocka_unit_test(accumulation_and_clipping_see_the_whole_batch),
      cmocka_unit_test(replicas_share_the_loss_scale),
      cmocka_unit_test(running_statistics_are_those_of_the_first_share),
      cmocka_unit_test(a_share_that_fails_leaves_model_and_statistics),
      cmocka_unit_test(more_devices_than_items_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
