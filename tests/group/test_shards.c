/* SPDX-License-Identifier: MIT */
/* An optimizer's state divided over the ranks: the same bits and checkpoints as without, in a
 * fraction of the memory. test_training.c compares such training with one process. */
#include <stdlib.h>
#include <string.h>

#include "support/harness/loopback.h"
#include "support/samples/training.h"

#define SCRATCH TEST_SCRATCH_DIR

typedef struct division {
  compute_optimizer_options optimizer;
  compute_dtype dtype;
  int64_t width; /* of the network */
  bool later;    /* gradients are reduced after the backward pass */
  training_data data;
} division;

/* 4 → width → width → 2; if it is wide, its gradients fill several buckets. */
static compute_layer *network(const division *d, compute_device *device) {
  const compute_weights_options w[] = {{.seed = 1, .dtype = d->dtype},
                                       {.seed = 2, .dtype = d->dtype},
                                       {.seed = 3, .dtype = d->dtype}};
  return compute_sequential((compute_layer *[]){compute_dense(device, 4, d->width, &w[0]),
                                                compute_activation(COMPUTE_TANH),
                                                compute_dense(device, d->width, d->width, &w[1]),
                                                compute_activation(COMPUTE_TANH),
                                                compute_dense(device, d->width, 2, &w[2])},
                            5);
}

typedef struct outcome {
  compute_layer *net;
  compute_trainer_info info;
} outcome;

/* Trains three epochs of four batches; the last one starts from the checkpoint of the first two. */
static outcome train(loopback_rank *self, uint32_t flags, const char *path) {
  const division *d = self->user;
  outcome result = {.net = network(d, compute_default_device(self->context))};
  compute_dataset *set = training_regression_set(self->context, &d->data);
  const compute_trainer_run_options epoch = {.epochs = 1};
  compute_trainer_options o = training_options(result.net, false);
  o.group = self->group;
  o.batch = 13;
  o.optimizer = d->optimizer;
  o.flags = flags | (d->later ? COMPUTE_TRAIN_NO_OVERLAP : 0);
  for (int part = 0; part < 2; part++) {
    compute_trainer *trainer = NULL;
    RANK_CHECK(self, compute_trainer_create(self->context, &o, &trainer) == COMPUTE_OK);
    if (part == 1) RANK_CHECK(self, compute_trainer_load(trainer, path) == COMPUTE_OK);
    for (int e = 0; e < 2 - part; e++)
      RANK_CHECK(self, compute_trainer_run(trainer, set, &epoch, NULL) == COMPUTE_OK);
    if (part == 0) RANK_CHECK(self, compute_trainer_save(trainer, path) == COMPUTE_OK);
    RANK_CHECK(self, compute_trainer_query(trainer, &result.info) == COMPUTE_OK);
    compute_trainer_release(trainer);
  }
  compute_dataset_release(set);
  return result;
}

/* Compares memory directly, as the tensors are on the CPU. */
static bool same_bits(const compute_layer *a, const compute_layer *b) {
  bool same = compute_layer_parameter_count(a) == compute_layer_parameter_count(b);
  for (size_t i = 0; same && i < compute_layer_parameter_count(a); i++) {
    compute_layer_parameter p, q;
    same = !compute_layer_parameter_at(a, i, &p) && !compute_layer_parameter_at(b, i, &q);
    const size_t bytes =
        (size_t)compute_tensor_count(p.tensor) * compute_dtype_size(compute_tensor_dtype(p.tensor));
    same = same && memcmp(compute_tensor_data(p.tensor), compute_tensor_data(q.tensor), bytes) == 0;
  }
  return same;
}

static bool same_files(const char *a, const char *b) {
  FILE *files[] = {fopen(a, "rb"), fopen(b, "rb")};
  bool same = files[0] && files[1];
  for (int x = 0; same && x != EOF;) {
    x = fgetc(files[0]);
    same = x == fgetc(files[1]);
  }
  for (int i = 0; i < 2; i++)
    if (files[i]) fclose(files[i]);
  return same;
}

/* Adam's state in f32 has two numbers per weight. A rank has the numbers of its blocks, from at
 * most two buckets. Their padding takes a little memory. */
static void check_memory(loopback_rank *self, const outcome *whole, const outcome *part) {
  const division *d = self->user;
  if (d->optimizer.kind != COMPUTE_ADAM || d->dtype == COMPUTE_F64) return;
  const int64_t weights = compute_layer_element_count(whole->net, true);
  const int64_t own = weights / self->size + 2, filling = 256;
  const int64_t saved = (int64_t)whole->info.peak_bytes - (int64_t)part->info.peak_bytes;
  RANK_CHECK(self, saved >= 8 * (weights - own) - filling);
  RANK_CHECK(self, saved < 8 * weights);
}

static void divide(loopback_rank *self) {
  const outcome whole = train(self, 0, SCRATCH "/whole.safetensors");
  const outcome part = train(self, COMPUTE_TRAIN_DIVIDE_STATE, SCRATCH "/part.safetensors");
  RANK_CHECK(self, same_bits(whole.net, part.net));
  RANK_CHECK(self, self->rank > 0 ||
                       same_files(SCRATCH "/whole.safetensors", SCRATCH "/part.safetensors"));
  if (self->size > 1) check_memory(self, &whole, &part);
  compute_layer_release(whole.net);
  compute_layer_release(part.net);
}

static void try(division d) {
  d.data = training_data_create(52, false, 3);
  if (d.width == 0) d.width = 7;
  for (int32_t ranks = 1; ranks <= 4; ranks++)
    loopback_run(ranks, divide, &d, (loopback_rank[LOOPBACK_MOST]){{0}});
  training_data_free(&d.data);
}

static void every_optimizer_gives_the_same_bits(void **state) {
  (void)state;
  try((division){.optimizer = {.kind = COMPUTE_SGD}});
  try((division){.optimizer = {.kind = COMPUTE_SGD, .momentum = 0.9, .weight_decay = 0.01}});
  try((division){.optimizer = {.kind = COMPUTE_ADAM}});
  try((division){.optimizer = {.kind = COMPUTE_ADAMW, .weight_decay = 0.01}});
  try((division){.optimizer = {.kind = COMPUTE_RMSPROP, .momentum = 0.9}});
}

static void so_do_weights_of_other_dtypes(void **state) {
  (void)state;
  try((division){.optimizer = {.kind = COMPUTE_ADAM}, .dtype = COMPUTE_F64});
  try((division){.optimizer = {.kind = COMPUTE_ADAM}, .dtype = COMPUTE_BF16});
}

static void so_do_several_buckets(void **state) {
  (void)state;
  try((division){.optimizer = {.kind = COMPUTE_ADAM}, .width = 601});
  try((division){.optimizer = {.kind = COMPUTE_ADAM}, .width = 601, .later = true});
}

/* ---- Refusal --------------------------------------------------------------------------------- */

static void have_too_few(loopback_rank *self) {
  compute_device *cpu = compute_default_device(self->context);
  compute_layer *net = compute_dense(cpu, 4, 1, &(compute_weights_options){.no_bias = true});
  compute_trainer_options o = training_options(net, false);
  compute_trainer *trainer = NULL;
  o.group = self->group;
  o.target.item = COMPUTE_SHAPE(1);
  o.flags = COMPUTE_TRAIN_DIVIDE_STATE;
  RANK_CHECK(self,
             compute_trainer_create(self->context, &o, &trainer) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "4 weights are too few to divide their state over 5 ranks"));
  compute_layer_release(net);
}

static void fewer_weights_than_ranks_are_refused(void **state) {
  (void)state;
  loopback_run(5, have_too_few, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_optimizer_gives_the_same_bits),
      cmocka_unit_test(so_do_weights_of_other_dtypes),
      cmocka_unit_test(so_do_several_buckets),
      cmocka_unit_test(fewer_weights_than_ranks_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
