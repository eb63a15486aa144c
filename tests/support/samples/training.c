/* SPDX-License-Identifier: MIT */
#include "support/samples/training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0;
}

training_data training_data_create(int64_t items, bool classes, uint64_t seed) {
  const size_t n = (size_t)items;
  training_data d = {.items = items,
                     .inputs = malloc(n * 4 * sizeof(float)),
                     .targets = malloc(n * 2 * sizeof(float)),
                     .labels = malloc(n * sizeof(int64_t))};
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < n; i++) {
    float *x = d.inputs + 4 * i;
    d.labels[i] = (int64_t)(i % 3);
    for (int k = 0; k < 4; k++) {
      x[k] = (float)(2 * uniform(&state) - 1);
      if (classes) x[k] = 0.6f * x[k] + (k == d.labels[i] ? 1.0f : 0.0f);
    }
    d.targets[2 * i] = x[0] - 0.5f * x[1] + 0.25f;
    d.targets[2 * i + 1] = sinf(x[2]) * 0.7f + x[3] * 0.3f;
  }
  return d;
}

void training_data_free(training_data *data) {
  free(data->inputs);
  free(data->targets);
  free(data->labels);
  *data = (training_data){0};
}

static compute_dataset *make_set(compute_context *context, const training_data *data,
                                 bool classes) {
  compute_device *cpu;
  compute_tensor *x, *t;
  compute_dataset *set;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(
      compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(data->items, 4), data->inputs, &x));
  if (classes)
    assert_ok(
        compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SHAPE(data->items), data->labels, &t));
  else
    assert_ok(compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(data->items, 2),
                                       data->targets, &t));
  assert_ok(compute_dataset_from_tensors(context, x, t, &set));
  compute_tensor_release(x);
  compute_tensor_release(t);
  return set;
}

compute_dataset *training_regression_set(compute_context *context, const training_data *data) {
  return make_set(context, data, false);
}

compute_dataset *training_class_set(compute_context *context, const training_data *data) {
  return make_set(context, data, true);
}

compute_layer *training_network(compute_device *device, int64_t outputs, uint64_t seed) {
  compute_layer *net = compute_sequential(
      (compute_layer *[]){
          compute_dense(device, 4, 16, &(compute_weights_options){.seed = seed}),
          compute_activation(COMPUTE_TANH),
          compute_dense(device, 16, outputs, &(compute_weights_options){.seed = seed + 1})},
      3);
  if (!net) fail_msg("no network: %s", compute_error_message(NULL));
  return net;
}

compute_trainer_options training_options(compute_layer *model, bool classes) {
  compute_trainer_options o = {.model = model,
                               .loss = COMPUTE_LOSS_MEAN_SQUARED_ERROR,
                               .input = {COMPUTE_F32, COMPUTE_SHAPE(4)},
                               .target = {COMPUTE_F32, COMPUTE_SHAPE(2)},
                               .batch = 12,
                               .optimizer = {.kind = COMPUTE_SGD, .learning_rate = 0.1},
                               .seed = 7};
  if (classes) {
    o.loss = COMPUTE_LOSS_CROSS_ENTROPY;
    o.target = (compute_batch_port){COMPUTE_I64, COMPUTE_SCALAR};
  }
  return o;
}

double *training_weights(const compute_layer *model, size_t *count) {
  *count = (size_t)compute_layer_element_count(model, true);
  double *all = malloc(*count * sizeof *all);
  size_t place = 0;
  compute_layer_parameter p;
  for (size_t i = 0; i < compute_layer_parameter_count(model); i++) {
    assert_ok(compute_layer_parameter_at(model, i, &p));
    if (!p.trainable) continue;
    const int64_t elements = compute_tensor_count(p.tensor);
    for (int64_t k = 0; k < elements; k++) all[place++] = test_element(p.tensor, k);
  }
  return all;
}

double training_distance(const compute_layer *a, const compute_layer *b) {
  size_t count, other;
  double *x = training_weights(a, &count), *y = training_weights(b, &other);
  assert_int_equal(count, other);
  double largest = 0, distance = 0;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs(x[i] - y[i]) <= distance)) distance = fabs(x[i] - y[i]); /* a NaN is a difference */
    if (fabs(x[i]) > largest) largest = fabs(x[i]);
  }
  free(x);
  free(y);
  return distance / largest;
}
