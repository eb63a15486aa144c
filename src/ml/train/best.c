/* SPDX-License-Identifier: MIT */
/* The best epoch of a run by a validation set, with a copy of its weights in host memory. */
#include <inttypes.h>
#include <math.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

compute_status train_best_check(const compute_trainer *trainer, const char *operation,
                                const compute_trainer_run_options *o) {
  if (o->patience < 0 || (!o->validation && (o->patience || o->keep_best || o->best)))
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "patience is %" PRId64 "; it must be at least 0, and patience, keep_best and "
                     "best need a validation set",
                     o->patience);
  if (!o->validation) return COMPUTE_OK;
  compute_status status =
      dataset_check(o->validation, &trainer->options.input, &trainer->options.target, operation);
  if (!status && trainer->classes > 0)
    status = dataset_check_labels(o->validation, trainer->classes, operation);
  return status;
}

static size_t bytes_of(const compute_tensor *tensor) {
  return (size_t)tensor_dense_bytes(tensor);
}

/* Copies all weights and statistics of the model. */
static compute_status keep_weights(train_best *best, compute_trainer *trainer) {
  const size_t count = compute_layer_parameter_count(trainer->options.model);
  if (!best->weights) best->weights = base_allocate(count, sizeof *best->weights);
  compute_status status = best->weights ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < count && !status; i++) {
    compute_layer_parameter p;
    status = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (status) return status;
    if (!best->weights[i]) best->weights[i] = base_allocate(bytes_of(p.tensor), 1);
    if (!best->weights[i]) status = COMPUTE_ERROR_OUT_OF_MEMORY;
    if (!status) status = compute_tensor_read(p.tensor, best->weights[i], bytes_of(p.tensor));
    if (status && status != COMPUTE_ERROR_OUT_OF_MEMORY) return status;
  }
  if (!status) return COMPUTE_OK;
  return error_set(trainer->context, status, "compute_trainer_run",
                   "not enough memory for a copy of the weights");
}

void train_best_open(train_best *best, const compute_trainer_run_options *o) {
  *best = (train_best){.epoch = -1};
  if (o->best) *o->best = (compute_training_score){.loss = NAN, .accuracy = NAN};
}

/* A loss that is not a number is never the best. The ranks of a group share one score, so they
 * decide alike. They also share a failure of one rank before any of them stops. */
compute_status train_best_score(train_best *best, compute_trainer *trainer,
                                const compute_trainer_run_options *o, int64_t epoch,
                                bool *improves) {
  compute_training_score score;
  compute_status status = compute_trainer_evaluate(trainer, o->validation, &score);
  const bool better = !status && (best->epoch < 0 ? !isnan(score.loss) : score.loss < best->loss);
  if (better && o->keep_best) status = keep_weights(best, trainer);
  status = train_group_check(trainer, "compute_trainer_run", status);
  if (status) return status;
  if (better) {
    best->loss = score.loss;
    best->epoch = epoch;
    if (o->best) *o->best = score;
  }
  *improves = o->patience == 0 || epoch - best->epoch < o->patience;
  return COMPUTE_OK;
}

compute_status train_best_restore(const train_best *best, compute_trainer *trainer,
                                  const compute_trainer_run_options *o) {
  const size_t count = compute_layer_parameter_count(trainer->options.model);
  compute_status status = COMPUTE_OK;
  if (!o->keep_best || best->epoch < 0) return COMPUTE_OK;
  for (size_t i = 0; i < count && !status; i++) {
    compute_layer_parameter p;
    status = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (!status) status = compute_tensor_write(p.tensor, best->weights[i], bytes_of(p.tensor));
  }
  return status;
}

void train_best_release(train_best *best, const compute_trainer *trainer) {
  const size_t count = compute_layer_parameter_count(trainer->options.model);
  for (size_t i = 0; best->weights && i < count; i++) base_release(best->weights[i]);
  base_release(best->weights);
  best->weights = NULL;
}
