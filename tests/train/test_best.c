/* SPDX-License-Identifier: MIT */
/* A validation set: its scores, the end of a run without progress, and the weights of the best
 * epoch. */
#include <math.h>
#include <stdlib.h>

#include "support/harness/test.h"
#include "support/samples/training.h"

enum { ITEMS = 48, HELD_OUT = 24 };

typedef struct setting {
  training_data data, other;
  compute_dataset *set, *validation;
  compute_layer *model;
  compute_trainer *trainer;
} setting;

static setting begin(double rate, size_t devices) {
  compute_device *device = compute_default_device(test_context);
  compute_device *const list[] = {device, device};
  setting s = {.data = training_data_create(ITEMS, false, 3),
               .other = training_data_create(HELD_OUT, false, 4)};
  s.set = training_regression_set(test_context, &s.data);
  s.validation = training_regression_set(test_context, &s.other);
  s.model = training_network(device, 2, 7);
  compute_trainer_options o = training_options(s.model, false);
  o.optimizer.learning_rate = rate;
  o.devices = list;
  o.device_count = devices;
  assert_ok(compute_trainer_create(test_context, &o, &s.trainer));
  return s;
}

static void end(setting *s) {
  compute_trainer_release(s->trainer);
  compute_layer_release(s->model);
  compute_dataset_release(s->validation);
  compute_dataset_release(s->set);
  training_data_free(&s->other);
  training_data_free(&s->data);
}

static double validation_loss(const setting *s) {
  compute_training_score score;
  assert_ok(compute_trainer_evaluate(s->trainer, s->validation, &score));
  return score.loss;
}

/* A rate that is far too large: the first epochs are the best ones. */
static void check_best(size_t devices) {
  enum { EPOCHS = 6 };
  double least = INFINITY;
  setting plain = begin(1.9, devices), kept = begin(1.9, devices);
  compute_training_score best = {.loss = NAN};
  for (int i = 0; i < EPOCHS; i++) {
    assert_ok(compute_trainer_run(plain.trainer, plain.set,
                                  &(compute_trainer_run_options){.epochs = 1}, NULL));
    const double loss = validation_loss(&plain);
    if (loss < least) least = loss;
  }
  assert_ok(compute_trainer_run(
      kept.trainer, kept.set,
      &(compute_trainer_run_options){
          .epochs = EPOCHS, .validation = kept.validation, .keep_best = true, .best = &best},
      NULL));
  assert_true(best.loss == least);
  assert_true(validation_loss(&kept) == least);
  assert_int_equal(best.items, HELD_OUT);
  end(&plain);
  end(&kept);
}

static void the_model_gets_the_weights_of_the_best_epoch(void **state) {
  (void)state;
  check_best(1);
  check_best(2);
}

typedef struct counter {
  int64_t epochs;
  bool stops;
} counter;

static bool count_epochs(void *user, const compute_training_progress *progress) {
  counter *c = user;
  c->epochs = progress->epoch + 1;
  return !c->stops || progress->epoch < 2;
}

static void a_run_without_progress_ends(void **state) {
  (void)state;
  counter c = {0};
  setting s = begin(1e-30, 1); /* no weight changes */
  assert_ok(compute_trainer_run(s.trainer, s.set,
                                &(compute_trainer_run_options){.epochs = 50,
                                                               .validation = s.validation,
                                                               .patience = 3,
                                                               .progress = count_epochs,
                                                               .user = &c},
                                NULL));
  assert_int_equal(c.epochs, 4);
  end(&s);
}

static void a_cancelled_run_keeps_the_best_weights(void **state) {
  (void)state;
  counter c = {.stops = true};
  compute_training_score best = {.loss = NAN};
  setting s = begin(0.1, 1);
  assert_fails(compute_trainer_run(s.trainer, s.set,
                                   &(compute_trainer_run_options){.epochs = 50,
                                                                  .validation = s.validation,
                                                                  .keep_best = true,
                                                                  .best = &best,
                                                                  .progress = count_epochs,
                                                                  .user = &c},
                                   NULL),
               COMPUTE_ERROR_CANCELLED);
  assert_true(validation_loss(&s) == best.loss);
  end(&s);
}

/* Weights that are not numbers: no epoch is the best, and the model keeps the last one. */
static void a_run_whose_losses_are_nan_has_no_best_epoch(void **state) {
  (void)state;
  counter c = {0};
  compute_training_score best = {.items = 5, .loss = 1};
  setting s = begin(0.1, 1);
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(s.model, 0, &p));
  float weights[64];
  assert_int_equal(compute_tensor_count(p.tensor), 64);
  for (int i = 0; i < 64; i++) weights[i] = NAN;
  assert_ok(compute_tensor_write(p.tensor, weights, sizeof weights));
  assert_ok(compute_trainer_run(s.trainer, s.set,
                                &(compute_trainer_run_options){.epochs = 9,
                                                               .validation = s.validation,
                                                               .patience = 2,
                                                               .keep_best = true,
                                                               .best = &best,
                                                               .progress = count_epochs,
                                                               .user = &c},
                                NULL));
  assert_int_equal(c.epochs, 2);
  assert_int_equal(best.items, 0);
  assert_true(isnan(best.loss) && isnan(best.accuracy));
  end(&s);
}

static void options_without_a_validation_set_are_refused(void **state) {
  (void)state;
  setting s = begin(0.1, 1);
  compute_training_score best;
#define REFUSED(...)                                                                               \
  assert_fails(compute_trainer_run(s.trainer, s.set,                                               \
                                   &(compute_trainer_run_options){.epochs = 1, __VA_ARGS__},       \
                                   NULL),                                                          \
               COMPUTE_ERROR_INVALID_ARGUMENT)
  REFUSED(.patience = 1);
  REFUSED(.patience = -1, .validation = s.validation);
  REFUSED(.keep_best = true);
  REFUSED(.best = &best);
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_model_gets_the_weights_of_the_best_epoch),
      cmocka_unit_test(a_run_without_progress_ends),
      cmocka_unit_test(a_cancelled_run_keeps_the_best_weights),
      cmocka_unit_test(a_run_whose_losses_are_nan_has_no_best_epoch),
      cmocka_unit_test(options_without_a_validation_set_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
