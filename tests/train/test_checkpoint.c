/* SPDX-License-Identifier: MIT */
/* Checkpoints: training continues bit for bit, and a file that does not fit changes nothing. A lack
 * of memory at any moment is an error without a leak. */
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/samples/training.h"

static compute_device *cpu_of(compute_context *context) {
  compute_device *device;
  assert_ok(compute_device_by_name(context, "cpu", &device));
  return device;
}

/* With every kind of state: dropout, running statistics. */
static compute_layer *network(compute_device *device, uint64_t seed) {
  compute_layer *net = compute_sequential(
      (compute_layer *[]){
          compute_dense(device, 4, 12, &(compute_weights_options){.seed = seed}),
          compute_batch_norm_layer(device, 12, NULL), compute_activation(COMPUTE_RELU),
          compute_dropout_layer(0.25),
          compute_dense(device, 12, 3, &(compute_weights_options){.seed = seed + 1})},
      5);
  if (!net) fail_msg("no network: %s", compute_error_message(NULL));
  return net;
}

static compute_trainer *create(compute_layer *net, compute_optimizer_kind kind,
                               compute_dtype precision, uint64_t seed) {
  compute_trainer_options o = training_options(net, true);
  o.optimizer = (compute_optimizer_options){
      .kind = kind, .learning_rate = 0.01, .momentum = kind == COMPUTE_SGD ? 0.9 : 0};
  o.accumulate = 2; /* five batches in an epoch: a checkpoint falls between the two */
  o.precision = precision;
  o.seed = seed;
  o.schedule = (compute_schedule){
      .kind = COMPUTE_SCHEDULE_COSINE, .period = 12, .factor = 0.1, .warm_up = 2};
  compute_trainer *trainer = NULL;
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  return trainer;
}

static void resume(const char *path, compute_optimizer_kind kind, compute_dtype precision) {
  training_data d = training_data_create(63, true, 4);
  compute_dataset *set = training_class_set(test_context, &d);
  compute_device *cpu = cpu_of(test_context);
  compute_layer *a = network(cpu, 1), *b = network(cpu, 1), *c = network(cpu, 9);
  compute_trainer *through = create(a, kind, precision, 5), *first = create(b, kind, precision, 5);
  assert_ok(compute_trainer_run(through, set, &(compute_trainer_run_options){.epochs = 3}, NULL));
  compute_trainer_run_options run = {.epochs = 1, .checkpoint = path};
  assert_ok(compute_trainer_run(first, set, &run, NULL));
  compute_trainer_release(first);
  compute_trainer *second = create(c, kind, precision, 77);
  assert_ok(compute_trainer_load(second, path));
  run = (compute_trainer_run_options){.epochs = 2};
  assert_ok(compute_trainer_run(second, set, &run, NULL));
  size_t count;
  double *x = training_weights(a, &count), *y = training_weights(c, &count);
  assert_memory_equal(x, y, count * sizeof *x);
  compute_trainer_info one, two;
  assert_ok(compute_trainer_query(through, &one));
  assert_ok(compute_trainer_query(second, &two));
  assert_int_equal(one.steps, two.steps);
  assert_true(one.learning_rate == two.learning_rate && one.loss_scale == two.loss_scale);
  free(x);
  free(y);
  compute_trainer_release(through);
  compute_trainer_release(second);
  compute_layer_release(a);
  compute_layer_release(b);
  compute_layer_release(c);
  compute_dataset_release(set);
  training_data_free(&d);
}

static void training_goes_on_bit_for_bit(void **state) {
  (void)state;
  resume(TEST_SCRATCH_DIR "/adam.safetensors", COMPUTE_ADAM, COMPUTE_DTYPE_NONE);
  resume(TEST_SCRATCH_DIR "/sgd.npz", COMPUTE_SGD, COMPUTE_DTYPE_NONE);
  resume(TEST_SCRATCH_DIR "/half.safetensors", COMPUTE_RMSPROP, COMPUTE_F16);
}

static void what_does_not_fit_changes_nothing(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/other.safetensors";
  compute_device *cpu = cpu_of(test_context);
  compute_layer *net = network(cpu, 1), *other = training_network(cpu, 3, 1);
  compute_trainer *adam = create(net, COMPUTE_ADAM, COMPUTE_DTYPE_NONE, 5);
  compute_trainer *sgd = create(net, COMPUTE_SGD, COMPUTE_DTYPE_NONE, 5);
  compute_trainer *smaller = create(other, COMPUTE_ADAM, COMPUTE_DTYPE_NONE, 5);
  size_t count;
  double *before = training_weights(net, &count);
  assert_ok(compute_trainer_save(sgd, path));
  assert_fails(compute_trainer_load(adam, path), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_ok(compute_trainer_save(smaller, path));
  const compute_status s = compute_trainer_load(adam, path);
  assert_true(s == COMPUTE_ERROR_INVALID_ARGUMENT || s == COMPUTE_ERROR_SHAPE);
  assert_fails(compute_trainer_load(adam, TEST_SCRATCH_DIR "/nowhere.safetensors"),
               COMPUTE_ERROR_FILE);
  assert_fails(compute_trainer_load(adam, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_trainer_save(adam, "weights"), COMPUTE_ERROR_INVALID_ARGUMENT);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs("no tensors here", file);
  fclose(file);
  assert_fails(compute_trainer_load(adam, path), COMPUTE_ERROR_FORMAT);
  double *after = training_weights(net, &count);
  assert_memory_equal(before, after, count * sizeof *before);
  free(before);
  free(after);
  compute_trainer_release(adam);
  compute_trainer_release(sgd);
  compute_trainer_release(smaller);
  compute_layer_release(net);
  compute_layer_release(other);
}

/* Invalid counters in a checkpoint are an error; no run starts from them. */
static void counters_that_make_no_sense_change_nothing(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/counters.safetensors";
  static const int64_t wrong[][2] = {{1, -1}, {1, INT64_MAX}, {2, INT64_MAX}, {3, INT64_MIN},
                                     {0, 2},  {1, 5},         {3, INT64_MAX}};
  compute_layer *net = network(cpu_of(test_context), 1);
  compute_trainer *trainer = create(net, COMPUTE_SGD, COMPUTE_DTYPE_NONE, 5);
  compute_trainer_info info;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    compute_named_tensor tensors[32];
    compute_tensor_file *file = NULL;
    compute_tensor *counters = NULL;
    int64_t numbers[5];
    assert_ok(compute_trainer_save(trainer, path));
    assert_ok(compute_tensor_file_open(test_context, path, &file));
    const size_t count = compute_tensor_file_count(file);
    assert_true(count <= 32);
    for (size_t k = 0; k < count; k++) {
      compute_tensor_file_entry entry;
      compute_tensor *tensor = NULL;
      assert_ok(compute_tensor_file_at(file, k, &entry));
      assert_ok(compute_tensor_file_read(file, k, cpu_of(test_context), &tensor));
      tensors[k] = (compute_named_tensor){entry.name, tensor};
      if (strcmp(entry.name, "trainer.counters") == 0) counters = tensor;
    }
    assert_non_null(counters);
    assert_ok(compute_tensor_read(counters, numbers, sizeof numbers));
    numbers[wrong[i][0]] = wrong[i][1];
    assert_ok(compute_tensor_write(counters, numbers, sizeof numbers));
    assert_ok(compute_tensor_file_write(test_context, path, tensors, count));
    assert_fails(compute_trainer_load(trainer, path), COMPUTE_ERROR_FORMAT);
    assert_ok(compute_trainer_query(trainer, &info));
    assert_int_equal(info.steps, 0);
    for (size_t k = 0; k < count; k++)
      compute_tensor_release((compute_tensor *)(uintptr_t)tensors[k].tensor);
    compute_tensor_file_close(file);
  }
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Does everything once, with request number `nth` failing. Returns true if none failed. */
static bool try_all(compute_context *context, compute_layer *net, compute_dataset *set,
                    int64_t nth) {
  static const char path[] = TEST_SCRATCH_DIR "/short.safetensors";
  compute_device *cpu = cpu_of(context), *both[2] = {cpu, cpu};
  compute_trainer_options o = training_options(net, true);
  o.devices = both;
  o.device_count = nth % 2 == 0 ? 2 : 1;
  o.accumulate = 2;
  o.optimizer.kind = COMPUTE_ADAM;
  compute_trainer *trainer = NULL;
  compute_training_score score;
  failing_allocator_arm(nth, false);
  compute_status s = compute_trainer_create(context, &o, &trainer);
  const compute_trainer_run_options run = {.epochs = 1, .checkpoint = path};
  if (s == COMPUTE_OK) s = compute_trainer_run(trainer, set, &run, &score);
  if (s == COMPUTE_OK) s = compute_trainer_evaluate(trainer, set, &score);
  if (s == COMPUTE_OK) s = compute_trainer_load(trainer, path);
  const bool failed = failing_allocator_failures() > 0;
  failing_allocator_arm(0, false);
  if (s != COMPUTE_OK &&
      (!failed || (s != COMPUTE_ERROR_OUT_OF_MEMORY && s != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY)))
    fail_msg("request %lld: %s: %s", (long long)nth, compute_status_name(s),
             compute_error_message(context));
  compute_trainer_release(trainer);
  return !failed;
}

static void memory_that_runs_short_is_an_error(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  training_data d = training_data_create(26, true, 4);
  compute_dataset *set = training_class_set(context, &d);
  compute_layer *net = training_network(cpu_of(context), 3, 1);
  /* The kernels of the plans are cached from the first time on, which shortens the rest. */
  assert_true(try_all(context, net, set, INT64_MAX - 1));
  assert_true(try_all(context, net, set, INT64_MAX));
  bool done[2] = {false, false};
  for (int64_t nth = 1; !(done[0] && done[1]); nth += 1 + nth / 12)
    done[nth % 2] |= try_all(context, net, set, nth);
  compute_layer_release(net);
  compute_dataset_release(set);
  training_data_free(&d);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(training_goes_on_bit_for_bit, test_group_open,
                                      test_group_close),
      cmocka_unit_test_setup_teardown(what_does_not_fit_changes_nothing, test_group_open,
                                      test_group_close),
      cmocka_unit_test_setup_teardown(counters_that_make_no_sense_change_nothing, test_group_open,
                                      test_group_close),
      cmocka_unit_test(memory_that_runs_short_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
