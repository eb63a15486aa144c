/* SPDX-License-Identifier: MIT */
/* Memory of a training step: no more than the backward pass needs, as much as the plan reports, and
 * no growth over many steps. */
#include <stdlib.h>

#include "support/harness/failing_allocator.h"
#include "support/samples/training.h"

static compute_pool_statistics pool_of(compute_context *context) {
  compute_pool_statistics statistics;
  assert_ok(compute_pool_query(compute_default_device(context), &statistics));
  return statistics;
}

/* Many layers whose activations need most of the memory. */
static compute_layer *deep_network(compute_device *device, bool biases) {
  compute_layer *parts[33];
  size_t count = 0;
  for (uint64_t i = 0; i < 16; i++) {
    const compute_weights_options weights = {.seed = i + 1, .no_bias = !biases};
    parts[count++] = compute_dense(device, i == 0 ? 4 : 64, 64, &weights);
    parts[count++] = compute_activation(COMPUTE_TANH);
  }
  parts[count++] = compute_dense(device, 64, 2, NULL);
  compute_layer *net = compute_sequential(parts, count);
  assert_non_null(net);
  return net;
}

static uint64_t activation_bytes(bool biases, uint32_t flags) {
  compute_layer *net = deep_network(compute_default_device(test_context), biases);
  compute_trainer_options o = training_options(net, false);
  o.batch = 256;
  o.optimizer.kind = COMPUTE_ADAM;
  o.flags = flags;
  compute_trainer *trainer;
  compute_trainer_info info;
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  assert_ok(compute_trainer_query(trainer, &info));
  compute_trainer_release(trainer);
  compute_layer_release(net);
  return info.activation_bytes;
}

/* The backward pass keeps 16 activations of 64 KiB. In addition, only one gradient of an activation
 * is alive, and a product on the way to the next one. */
static void gradients_of_activations_do_not_wait_for_the_updates(void **state) {
  (void)state;
  const uint64_t layer = 256 * 64 * 4, biased = activation_bytes(true, 0);
  const uint64_t gradients = 17 * 64 * 4 * 65; /* of the weights, if updates come last */
  if (biased > 18 * layer + gradients)
    fail_msg("%llu bytes for 16 layers of %llu", (unsigned long long)biased,
             (unsigned long long)layer);
  const uint64_t plain = activation_bytes(false, 0);
  if (biased > plain + plain / 20)
    fail_msg("%llu bytes with biases, %llu without", (unsigned long long)biased,
             (unsigned long long)plain);
}

static void recomputation_pays_for_layers_with_biases(void **state) {
  (void)state;
  const uint64_t all = activation_bytes(true, 0);
  const uint64_t few = activation_bytes(true, COMPUTE_TRAIN_RECOMPUTE);
  if (few > all * 3 / 4)
    fail_msg("%llu bytes with recomputation, %llu without", (unsigned long long)few,
             (unsigned long long)all);
}

/* ---- Measurements -------------------------------------------------------------------------- */

static compute_layer *picture_network(compute_device *device) {
  const compute_conv2d_layer_options same = {.padding = {1}};
  compute_layer *net = compute_sequential(
      (compute_layer *[]){
          compute_conv2d_layer(device, 1, 8, 3, &same), compute_batch_norm_layer(device, 8, NULL),
          compute_activation(COMPUTE_RELU), compute_max_pool(2, NULL),
          compute_conv2d_layer(device, 8, 16, 3, &same), compute_batch_norm_layer(device, 16, NULL),
          compute_activation(COMPUTE_RELU), compute_max_pool(2, NULL), compute_flatten(),
          compute_dense(device, 16 * 4 * 4, 10, NULL)},
      10);
  assert_non_null(net);
  return net;
}

/* A trainer of pictures with a separate context, and a batch for it. */
typedef struct picture_training {
  compute_context *context;
  compute_layer *net;
  compute_trainer *trainer;
  compute_tensor *x, *labels;
} picture_training;

static picture_training start_pictures(void) {
  picture_training p = {.context = test_open()};
  compute_device *device = compute_default_device(p.context);
  p.net = picture_network(device);
  const compute_trainer_options o = {.model = p.net,
                                     .loss = COMPUTE_LOSS_CROSS_ENTROPY,
                                     .optimizer = {.kind = COMPUTE_ADAM},
                                     .input = {COMPUTE_F32, COMPUTE_SHAPE(1, 16, 16)},
                                     .target = {COMPUTE_I64, COMPUTE_SCALAR},
                                     .batch = 64};
  assert_ok(compute_trainer_create(p.context, &o, &p.trainer));
  int64_t labels[64];
  for (int i = 0; i < 64; i++) labels[i] = i % 10;
  assert_ok(
      compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(64, 1, 16, 16), -1, 1, 1, &p.x));
  assert_ok(compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(64), labels, &p.labels));
  return p;
}

static void end_pictures(picture_training *p) {
  compute_tensor_release(p->x);
  compute_tensor_release(p->labels);
  compute_trainer_release(p->trainer);
  compute_layer_release(p->net);
  test_close(p->context);
}

static void the_planned_peak_is_what_the_pool_hands_out(void **state) {
  (void)state;
  picture_training p = start_pictures();
  double loss;
  compute_trainer_info info;
  for (int i = 0; i < 3; i++) assert_ok(compute_trainer_step(p.trainer, p.x, p.labels, &loss));
  assert_ok(compute_trainer_query(p.trainer, &info));
  const double measured = (double)pool_of(p.context).bytes_peak, planned = (double)info.peak_bytes;
  if (measured > planned * 1.1 || measured < planned * 0.9)
    fail_msg("%.0f bytes planned, %.0f handed out at most", planned, measured);
  end_pictures(&p);
}

static void three_hundred_steps_hold_no_more_memory_than_two(void **state) {
  (void)state;
  failing_allocator_install();
  picture_training p = start_pictures();
  double loss, first = 0;
  for (int i = 0; i < 2; i++) assert_ok(compute_trainer_step(p.trainer, p.x, p.labels, &first));
  const compute_pool_statistics before = pool_of(p.context);
  const int64_t live = failing_allocator_live();
  for (int i = 0; i < 300; i++) assert_ok(compute_trainer_step(p.trainer, p.x, p.labels, &loss));
  const compute_pool_statistics after = pool_of(p.context);
  assert_true(loss < first / 2);
  assert_int_equal(failing_allocator_live(), live);
  assert_int_equal(after.bytes_allocated, before.bytes_allocated);
  assert_int_equal(after.bytes_active, before.bytes_active);
  assert_int_equal(after.bytes_peak, before.bytes_peak);
  assert_int_equal(after.misses, before.misses);
  end_pictures(&p);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest planned[] = {
      cmocka_unit_test(gradients_of_activations_do_not_wait_for_the_updates),
      cmocka_unit_test(recomputation_pays_for_layers_with_biases),
  };
  const struct CMUnitTest measured[] = {
      cmocka_unit_test(the_planned_peak_is_what_the_pool_hands_out),
      cmocka_unit_test(three_hundred_steps_hold_no_more_memory_than_two),
  };
  const int failures = cmocka_run_group_tests(planned, test_group_open, test_group_close);
  return failures + cmocka_run_group_tests(measured, NULL, NULL);
}
