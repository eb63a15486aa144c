/* SPDX-License-Identifier: MIT */
/* Training by a group, with threads as ranks. A step equals one process's step on the whole batch
 * up to rounding. Errors name differing ranks. A failure on one rank fails on all. Checkpoints fit
 * any number of ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/loopback.h"
#include "support/samples/training.h"

/* The work of all ranks, and the results of one process. */
typedef struct trial {
  compute_trainer_options changes; /* accumulate, clip_norm, precision, flags */
  size_t devices;                  /* per rank */
  bool mixed;                      /* rank 0 has two devices, the others their default device */
  int64_t epochs;
  bool normalised;
  const char *save, *load;
  training_data data;
  double *wanted; /* weights */
  size_t count;
  double loss, tolerance;
} trial;

static compute_layer *network(const trial *t, compute_device *device, uint64_t seed) {
  if (!t->normalised) return training_network(device, 2, seed);
  return compute_sequential(
      (compute_layer *[]){
          compute_dense(device, 4, 6, &(compute_weights_options){.seed = seed}),
          compute_batch_norm_layer(device, 6, NULL), compute_activation(COMPUTE_RELU),
          compute_dense(device, 6, 2, &(compute_weights_options){.seed = seed + 1})},
      4);
}

static compute_trainer_options options_of(const trial *t, compute_layer *model) {
  compute_trainer_options o = training_options(model, false);
  o.batch = 13; /* divisible by no number of ranks */
  o.optimizer.momentum = 0.9;
  o.accumulate = t->changes.accumulate;
  o.clip_norm = t->changes.clip_norm;
  o.precision = t->changes.precision;
  o.flags = t->changes.flags;
  return o;
}

/* Trains as one process and stores the weights in *t. */
static void train_alone(trial *t) {
  compute_layer *net = network(t, compute_default_device(test_context), 5);
  const compute_trainer_options o = options_of(t, net);
  compute_dataset *set = training_regression_set(test_context, &t->data);
  compute_trainer *trainer = NULL;
  compute_training_score score;
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  assert_ok(
      compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = t->epochs}, NULL));
  assert_ok(compute_trainer_evaluate(trainer, set, &score));
  t->loss = score.loss;
  t->wanted = training_weights(net, &t->count);
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_layer_release(net);
}

static double distance(const trial *t, const compute_layer *net) {
  size_t count;
  double *weights = training_weights(net, &count), largest = 0, most = 0;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs(weights[i] - t->wanted[i]) <= most)) most = fabs(weights[i] - t->wanted[i]);
    if (fabs(t->wanted[i]) > largest) largest = fabs(t->wanted[i]);
  }
  free(weights);
  return count == t->count ? most / largest : (double)INFINITY;
}

static void train_as_rank(loopback_rank *self) {
  const trial *t = self->user;
  compute_device *cpu = compute_default_device(self->context), *both[2] = {cpu, cpu};
  /* Every rank starts with different weights; rank 0's weights count. */
  compute_layer *net = network(t, cpu, 5 + 10 * (uint64_t)self->rank);
  compute_trainer_options o = options_of(t, net);
  o.group = self->group;
  o.device_count = t->mixed && self->rank == 0 ? 2 : t->devices;
  if (o.device_count == 2) o.devices = both;
  compute_dataset *set = training_regression_set(self->context, &t->data);
  compute_trainer *trainer = NULL;
  compute_training_score score = {0};
  /* The trainer's tensors do not belong to the caller's scope. */
  RANK_CHECK(self, compute_memory_scope_push(self->context) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
  RANK_CHECK(self, compute_memory_scope_pop(self->context) == COMPUTE_OK);
  if (t->load) RANK_CHECK(self, compute_trainer_load(trainer, t->load) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_run(
                       trainer, set,
                       &(compute_trainer_run_options){.epochs = t->epochs, .checkpoint = t->save},
                       &score) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_evaluate(trainer, set, &score) == COMPUTE_OK);
  if (t->wanted) {
    RANK_CHECK(self, distance(t, net) < t->tolerance);
    RANK_CHECK(self, fabs(score.loss - t->loss) < 2 * t->tolerance);
  }
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_layer_release(net);
}

/* Compares 2, 3 and 4 ranks with one process. */
static void compare(trial t) {
  t.data = training_data_create(52, false, 3);
  t.epochs = 2;
  if (t.tolerance == 0) t.tolerance = 1e-6;
  train_alone(&t);
  for (int32_t size = 2; size <= 4; size++)
    loopback_run(size, train_as_rank, &t, (loopback_rank[LOOPBACK_MOST]){{0}});
  free(t.wanted);
  training_data_free(&t.data);
}

static void ranks_take_the_step_of_one_process(void **state) {
  (void)state;
  compare((trial){.tolerance = 0});
}

static void ranks_with_two_devices_each_do_so_too(void **state) {
  (void)state;
  compare((trial){.devices = 2});
  compare((trial){.devices = 2, .changes = {.flags = COMPUTE_TRAIN_DIVIDE_STATE}});
}

static void ranks_may_have_different_devices(void **state) {
  (void)state;
  compare((trial){.mixed = true});
  compare((trial){.mixed = true, .changes = {.flags = COMPUTE_TRAIN_DIVIDE_STATE}});
}

static const uint32_t divided[] = {0, COMPUTE_TRAIN_DIVIDE_STATE};

static void accumulation_and_clipping_see_the_whole_batch(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    compare((trial){.changes = {.accumulate = 2, .clip_norm = 0.2, .flags = divided[i]}});
}

/* ---- Communication ------------------------------------------------------------------------- */

/* The result of a batch costs two operations of the transport: one for the ranks' calls and one for
 * the bytes. */
static void count_calls(loopback_rank *self) {
  compute_device *cpu = compute_default_device(self->context);
  training_data d = training_data_create(4, true, 3 + (uint64_t)self->rank);
  compute_layer *net = training_network(cpu, 3, 5);
  compute_trainer_options o = training_options(net, true);
  o.group = self->group;
  o.accumulate = 3;
  o.flags = *(const uint32_t *)self->user;
  compute_trainer *trainer = NULL;
  compute_tensor *x = NULL, *labels = NULL;
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(4, 4), d.inputs, &x) ==
                       COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SHAPE(4), d.labels,
                                            &labels) == COMPUTE_OK);
  for (int batch = 0; batch < 7; batch++) {
    const int64_t before = self->calls;
    double loss = 0;
    RANK_CHECK(self, compute_trainer_step(trainer, x, labels, &loss) == COMPUTE_OK);
    const int64_t calls = self->calls - before;
    RANK_CHECK(self, batch % 3 == 2 ? calls > 2 : calls == 2);
  }
  compute_tensor_release(x);
  compute_tensor_release(labels);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  training_data_free(&d);
}

static void gradients_are_sent_only_for_an_update(void **state) {
  (void)state;
  uint32_t flags[] = {0, COMPUTE_TRAIN_NO_OVERLAP};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    loopback_run(3, count_calls, &flags[i], (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* Shares of 13 items: 7 and 6, or 5, 4 and 4, or 4, 3, 3 and 3. */
static void synchronised_batch_norm_sees_the_whole_batch(void **state) {
  (void)state;
  compare((trial){.normalised = true, .changes = {.flags = COMPUTE_TRAIN_SYNCHRONIZE}});
  compare((trial){.normalised = true,
                  .changes = {.flags = COMPUTE_TRAIN_SYNCHRONIZE | COMPUTE_TRAIN_DIVIDE_STATE}});
  compare((trial){
      .normalised = true,
      .changes = {.flags = COMPUTE_TRAIN_SYNCHRONIZE | COMPUTE_TRAIN_RECOMPUTE, .accumulate = 2}});
}

static void ranks_share_the_loss_scale(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    compare((trial){.changes = {.precision = COMPUTE_F16, .flags = divided[i]}, .tolerance = 2e-2});
}

/* ---- Statistics ---------------------------------------------------------------------------- */

static void train_with_statistics(loopback_rank *self) {
  trial *t = self->user;
  compute_device *cpu = compute_default_device(self->context);
  compute_layer *net = network(t, cpu, 5);
  compute_trainer_options o = options_of(t, net);
  o.group = self->group;
  compute_dataset *set = training_regression_set(self->context, &t->data);
  compute_trainer *trainer = NULL;
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 1},
                                       NULL) == COMPUTE_OK);
  const size_t parameters = compute_layer_parameter_count(net);
  for (size_t i = 0; i < parameters; i++) {
    compute_layer_parameter p;
    compute_tensor *first = NULL;
    RANK_CHECK(self, compute_layer_parameter_at(net, i, &p) == COMPUTE_OK);
    RANK_CHECK(self, compute_tensor_to_device(p.tensor, cpu, &first) == COMPUTE_OK);
    RANK_CHECK(self, compute_group_broadcast(self->group, first, 0, NULL, NULL) == COMPUTE_OK);
    RANK_CHECK(self, memcmp(compute_tensor_data(first), compute_tensor_data(p.tensor),
                            (size_t)compute_tensor_count(first) * sizeof(float)) == 0);
    compute_tensor_release(first);
  }
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_layer_release(net);
}

static void after_a_run_all_ranks_have_the_same_model(void **state) {
  (void)state;
  trial t = {.normalised = true, .data = training_data_create(52, false, 3)};
  loopback_run(3, train_with_statistics, &t, (loopback_rank[LOOPBACK_MOST]){{0}});
  training_data_free(&t.data);
}

/* ---- Differences and failures -------------------------------------------------------------- */

static void be_different(loopback_rank *self) {
  compute_device *cpu = compute_default_device(self->context);
  const bool odd = self->rank == 1;
  compute_layer *net = training_network(cpu, 2, 5), *other = training_network(cpu, 3, 5);
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = NULL;
  o.group = self->group;
  if (odd) o.optimizer.learning_rate = 0.25;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 1 differs from rank 0: it has "
                                       "optimizer.learning_rate 0.25"));
  o = training_options(odd ? other : net, true);
  o.group = self->group;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "2.weight f32 [3,16], rank 0 2.weight f32 [2,16]"));
  /* A failure on only one rank. */
  o = training_options(net, false);
  o.group = self->group;
  if (odd) o.clip_norm = -1;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, odd ? "clip_norm is -1" : "rank 1: clip_norm is -1"));
  o.batch = 2;
  o.clip_norm = 0;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "a batch of 2 is too small for 3 ranks"));
  compute_device *both[2] = {cpu, cpu};
  o = training_options(net, false);
  o.group = self->group;
  o.flags = COMPUTE_TRAIN_SYNCHRONIZE;
  o.devices = both;
  o.device_count = odd ? 2 : 1;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "synchronised batch norm with 2 devices"));
  o = training_options(net, false);
  o.group = self->group;
  /* Different data. */
  o.batch = 12;
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
  training_data d = training_data_create(52, false, odd ? 4 : 3);
  compute_dataset *set = training_regression_set(self->context, &d);
  RANK_CHECK(self, compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 1},
                                       NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 1 differs from rank 0: it has dataset: contents"));
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_layer_release(net);
  compute_layer_release(other);
  training_data_free(&d);
}

static void ranks_that_differ_are_named(void **state) {
  (void)state;
  loopback_run(3, be_different, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static bool cancel_on_one_rank(void *user, const compute_training_progress *now) {
  const loopback_rank *self = user;
  return self->rank != 1 || now->step != 2;
}

static void fail_in_a_step(loopback_rank *self) {
  compute_device *cpu = compute_default_device(self->context);
  training_data d = training_data_create(60, true, 3);
  const uint32_t flags = *(const uint32_t *)self->user;
  compute_layer *net = training_network(cpu, 3, 5);
  if (flags & COMPUTE_TRAIN_SYNCHRONIZE)
    net = compute_sequential((compute_layer *[]){compute_batch_norm_layer(cpu, 4, NULL), net,
                                                 compute_batch_norm_layer(cpu, 3, NULL)},
                             3);
  compute_trainer_options o = training_options(net, true);
  o.group = self->group;
  o.flags = flags;
  compute_trainer *trainer = NULL;
  compute_trainer_info info;
  compute_tensor *x = NULL, *labels = NULL;
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_query(trainer, &info) == COMPUTE_OK);
  RANK_CHECK(self, info.share_items == 4 && info.share_first == 4 * self->rank);
  RANK_CHECK(self, compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(4, 4), d.inputs, &x) ==
                       COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SHAPE(4), d.labels,
                                            &labels) == COMPUTE_OK);
  double loss = 0;
  RANK_CHECK(self, compute_trainer_step(trainer, x, labels, &loss) == COMPUTE_OK);
  size_t count;
  double *before = training_weights(net, &count);
  int64_t *wrong = compute_tensor_data(labels);
  if (self->rank == 2) wrong[1] = 17;
  RANK_CHECK(self, compute_trainer_step(trainer, x, labels, &loss) == COMPUTE_ERROR_INDEX);
  RANK_CHECK(self, self->rank == 2 || loopback_says(self, "rank 2: "));
  double *after = training_weights(net, &count);
  RANK_CHECK(self, memcmp(before, after, count * sizeof *before) == 0);
  wrong[1] = 0;
  /* Arguments refused by only one rank. */
  RANK_CHECK(self, compute_trainer_step(trainer, self->rank == 0 ? NULL : x, labels, &loss) ==
                       COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, compute_trainer_step(trainer, x, labels, &loss) == COMPUTE_OK);
  /* A run ended by one rank. */
  compute_dataset *set = training_class_set(self->context, &d);
  RANK_CHECK(self,
             compute_trainer_run(trainer, set,
                                 &(compute_trainer_run_options){
                                     .epochs = 2, .progress = cancel_on_one_rank, .user = self},
                                 NULL) == COMPUTE_ERROR_CANCELLED);
  RANK_CHECK(self, compute_trainer_run(trainer, set, &(compute_trainer_run_options){.epochs = 1},
                                       NULL) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_save(trainer, self->rank == 1 ? NULL : TEST_NOWHERE "/x.npz") ==
                       COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
  /* A file that cannot be written or read. */
  RANK_CHECK(self, compute_trainer_save(trainer, TEST_NOWHERE "/x.npz") == COMPUTE_ERROR_FILE);
  RANK_CHECK(self, compute_trainer_load(trainer, TEST_NOWHERE "/x.npz") == COMPUTE_ERROR_FILE);
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
  free(before);
  free(after);
  compute_tensor_release(x);
  compute_tensor_release(labels);
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_layer_release(net);
  training_data_free(&d);
}

static void what_fails_on_one_rank_fails_on_all(void **state) {
  (void)state;
  uint32_t flags[] = {0, COMPUTE_TRAIN_DIVIDE_STATE, COMPUTE_TRAIN_SYNCHRONIZE};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    loopback_run(3, fail_in_a_step, &flags[i], (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Checkpoints --------------------------------------------------------------------------- */

/* Four ranks write; two, three and one resume, some with the optimizer's state divided. */
static void a_checkpoint_fits_any_number_of_ranks(void **state) {
  (void)state;
  static const struct {
    uint32_t writes, resumes;
  } flags[] = {{0, 0},
               {COMPUTE_TRAIN_DIVIDE_STATE, 0},
               {0, COMPUTE_TRAIN_DIVIDE_STATE},
               {COMPUTE_TRAIN_DIVIDE_STATE, COMPUTE_TRAIN_DIVIDE_STATE}};
  trial t = {.epochs = 4, .tolerance = 1e-6, .data = training_data_create(52, false, 3)};
  t.changes.accumulate = 3; /* gradients also accumulate across batches */
  train_alone(&t);
  double *wanted = t.wanted;
  t.epochs = 2;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    t.save = TEST_SCRATCH_DIR "/four.safetensors";
    t.wanted = NULL;
    t.changes.flags = flags[i].writes;
    loopback_run(4, train_as_rank, &t, (loopback_rank[LOOPBACK_MOST]){{0}});
    t.load = t.save;
    t.save = NULL;
    t.wanted = wanted;
    t.changes.flags = flags[i].resumes;
    for (int32_t ranks = 1; ranks <= 3; ranks++)
      loopback_run(ranks, train_as_rank, &t, (loopback_rank[LOOPBACK_MOST]){{0}});
    t.load = NULL;
  }
  free(wanted);
  training_data_free(&t.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_take_the_step_of_one_process),
      cmocka_unit_test(ranks_with_two_devices_each_do_so_too),
      cmocka_unit_test(ranks_may_have_different_devices),
      cmocka_unit_test(accumulation_and_clipping_see_the_whole_batch),
      cmocka_unit_test(gradients_are_sent_only_for_an_update),
      cmocka_unit_test(synchronised_batch_norm_sees_the_whole_batch),
      cmocka_unit_test(ranks_share_the_loss_scale),
      cmocka_unit_test(after_a_run_all_ranks_have_the_same_model),
      cmocka_unit_test(ranks_that_differ_are_named),
      cmocka_unit_test(what_fails_on_one_rank_fails_on_all),
      cmocka_unit_test(a_checkpoint_fits_any_number_of_ranks),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
