/* SPDX-License-Identifier: MIT */
/* A validation set in a group, with threads as ranks. Ranks with different options get an error that
 * names the option, a failure of one rank reaches all, and no rank waits for another. */
#include <math.h>
#include <stdlib.h>

#include "support/harness/loopback.h"
#include "support/samples/training.h"

enum { RANKS = 3, ITEMS = 52, HELD_OUT = 31 };

typedef struct setting {
  loopback_rank *self;
  training_data data, other;
  compute_dataset *set, *validation;
  compute_layer *model;
  compute_trainer *trainer;
} setting;

/* A rank whose `prepare` cannot be recorded for inference. */
static compute_node prepare_training_only(void *user, compute_graph *graph, compute_node x,
                                          bool training, compute_node seed) {
  const loopback_rank *self = user;
  (void)seed;
  return training || self->rank != 1 ? x : compute_reshape(graph, x, COMPUTE_SHAPE(5));
}

static setting begin(loopback_rank *self, double rate, bool training_only) {
  compute_device *device = compute_default_device(self->context);
  setting s = {.self = self,
               .data = training_data_create(ITEMS, false, 3),
               .other = training_data_create(HELD_OUT, false, 4)};
  s.set = training_regression_set(self->context, &s.data);
  s.validation = training_regression_set(self->context, &s.other);
  s.model = training_network(device, 2, 7);
  compute_trainer_options o = training_options(s.model, false);
  o.optimizer.learning_rate = rate;
  o.group = self->group;
  if (training_only) o.prepare = prepare_training_only;
  o.user = self;
  RANK_CHECK(self, compute_trainer_create(self->context, &o, &s.trainer) == COMPUTE_OK);
  return s;
}

static void end(setting *s) {
  RANK_CHECK(s->self, compute_group_barrier(s->self->group) == COMPUTE_OK);
  compute_trainer_release(s->trainer);
  compute_layer_release(s->model);
  compute_dataset_release(s->validation);
  compute_dataset_release(s->set);
  training_data_free(&s->other);
  training_data_free(&s->data);
}

static void run_ranks(loopback_function function) {
  loopback_rank ranks[LOOPBACK_MOST] = {{0}};
  for (int r = 0; r < RANKS; r++) ranks[r].timeout = 5;
  loopback_run(RANKS, function, NULL, ranks);
}

/* ---- One result for all ---------------------------------------------------------------------- */

static void keep_the_best(loopback_rank *self) {
  setting s = begin(self, 1.9, false);
  compute_training_score best = {0}, now = {0};
  RANK_CHECK(self, compute_trainer_run(s.trainer, s.set,
                                       &(compute_trainer_run_options){.epochs = 5,
                                                                      .validation = s.validation,
                                                                      .patience = 2,
                                                                      .keep_best = true,
                                                                      .best = &best},
                                       NULL) == COMPUTE_OK);
  RANK_CHECK(self, compute_trainer_evaluate(s.trainer, s.validation, &now) == COMPUTE_OK);
  RANK_CHECK(self, best.items == HELD_OUT && best.loss == now.loss);
  /* `best` may be wanted by one rank only. */
  RANK_CHECK(self, compute_trainer_run(
                       s.trainer, s.set,
                       &(compute_trainer_run_options){.epochs = 1,
                                                      .validation = s.validation,
                                                      .best = self->rank == 0 ? &best : NULL},
                       NULL) == COMPUTE_OK);
  end(&s);
}

static void all_ranks_keep_the_same_epoch(void **state) {
  (void)state;
  run_ranks(keep_the_best);
}

/* ---- Differences ----------------------------------------------------------------------------- */

static void check_refused(const setting *s, const compute_trainer_run_options *o,
                          const char *message) {
  loopback_rank *self = s->self;
  RANK_CHECK(self,
             compute_trainer_run(s->trainer, s->set, o, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, message));
  RANK_CHECK(self, !loopback_says(self, "waited"));
}

static void have_different_options(loopback_rank *self) {
  const bool odd = self->rank == 1;
  setting s = begin(self, 0.1, false);
  check_refused(
      &s, &(compute_trainer_run_options){.epochs = 2, .validation = odd ? NULL : s.validation},
      "rank 1 differs from rank 0: it has validation: none, rank 0 validation: 31");
  check_refused(&s,
                &(compute_trainer_run_options){
                    .epochs = 4, .validation = s.validation, .patience = odd ? 1 : 3},
                "rank 1 differs from rank 0: it has patience 1, rank 0 patience 3");
  check_refused(
      &s, &(compute_trainer_run_options){.epochs = 2, .validation = s.validation, .keep_best = odd},
      "rank 1 differs from rank 0: it has keep_best 1, rank 0 keep_best 0");
  check_refused(&s,
                &(compute_trainer_run_options){
                    .epochs = 2, .validation = s.validation, .patience = odd ? -1 : 0},
                "patience is -1");
  end(&s);
}

static void options_that_differ_are_named_on_all_ranks(void **state) {
  (void)state;
  run_ranks(have_different_options);
}

/* Sets of as many items and different contents, which the first score compares. */
static void have_different_sets(loopback_rank *self) {
  setting s = begin(self, 0.1, false);
  training_data d = training_data_create(HELD_OUT, false, 4 + (self->rank == 2));
  compute_dataset *set = training_regression_set(self->context, &d);
  check_refused(&s,
                &(compute_trainer_run_options){.epochs = 2, .validation = set, .keep_best = true},
                "rank 2 differs from rank 0: it has dataset: contents");
  compute_dataset_release(set);
  training_data_free(&d);
  end(&s);
}

static void sets_that_differ_are_named_on_all_ranks(void **state) {
  (void)state;
  run_ranks(have_different_sets);
}

/* ---- Failures of one rank -------------------------------------------------------------------- */

static void fail_to_evaluate(loopback_rank *self) {
  const bool odd = self->rank == 1;
  compute_training_score score = {0};
  setting s = begin(self, 0.1, false);
  RANK_CHECK(self, compute_trainer_evaluate(s.trainer, s.validation, odd ? NULL : &score) ==
                       COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, loopback_says(self, odd ? "score is NULL" : "rank 1: score is NULL"));
  RANK_CHECK(self, compute_trainer_evaluate(s.trainer, odd ? NULL : s.validation, &score) ==
                       COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, loopback_says(self, odd ? "dataset is NULL" : "rank 1: dataset is NULL"));
  RANK_CHECK(self, compute_trainer_evaluate(s.trainer, s.validation, &score) == COMPUTE_OK);
  end(&s);
  s = begin(self, 0.1, true);
  RANK_CHECK(self, compute_trainer_run(s.trainer, s.set,
                                       &(compute_trainer_run_options){.epochs = 3,
                                                                      .validation = s.validation,
                                                                      .keep_best = true,
                                                                      .patience = 1},
                                       NULL) == COMPUTE_ERROR_SHAPE);
  RANK_CHECK(self, loopback_says(self, odd ? "[12,4] has 48 elements" : "rank 1: [12,4]"));
  end(&s);
}

static void a_score_that_fails_on_one_rank_fails_on_all(void **state) {
  (void)state;
  run_ranks(fail_to_evaluate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_keep_the_same_epoch),
      cmocka_unit_test(options_that_differ_are_named_on_all_ranks),
      cmocka_unit_test(sets_that_differ_are_named_on_all_ranks),
      cmocka_unit_test(a_score_that_fails_on_one_rank_fails_on_all),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
