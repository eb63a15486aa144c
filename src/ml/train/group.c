/* SPDX-License-Identifier: MIT */
/* Training by a group of processes: shares of a batch, agreement on the model and options, and
 * reports of a failed rank to the others. */
#include <inttypes.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/real.h"
#include "core/base/text.h"
#include "core/tensor/tensor.h"
#include "group/group.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

static const char operation_create[] = "compute_trainer_create";

typedef struct rank_outcome {
  double loss;
  int64_t correct, status;
} rank_outcome;

/* ---- Shares ---------------------------------------------------------------------------------- */

compute_status train_group_open(compute_trainer *trainer) {
  compute_group_info info = {.size = 1};
  const int64_t batch = trainer->options.batch;
  if (trainer->options.group) {
    const compute_status status = compute_group_query(trainer->options.group, &info);
    if (status) return status;
    if (compute_device_context(info.device) != trainer->context)
      return error_set(trainer->context, COMPUTE_ERROR_WRONG_CONTEXT, operation_create,
                       "the group belongs to another context");
  }
  if (info.size > 1) trainer->group = trainer->options.group;
  trainer->synchronizes = trainer->group && (trainer->options.flags & COMPUTE_TRAIN_SYNCHRONIZE);
  trainer->rank = info.rank;
  trainer->ranks = info.size;
  const int64_t share = batch / info.size, more = batch % info.size;
  trainer->items = share + (info.rank < more);
  trainer->first = share * info.rank + (info.rank < more ? info.rank : more);
  trainer->together = trainer->group || trainer->replica_count > 1;
  if (trainer->synchronizes && trainer->replica_count > 1)
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_create,
                     "synchronised batch norm with %zu devices in a process; it needs one in each",
                     trainer->replica_count);
  if (trainer->items >= (int64_t)trainer->replica_count) {
    /* Allocated here, because a rank without memory could not join the others later. */
    trainer->rank_outcomes = base_allocate((uint64_t)info.size, sizeof(rank_outcome));
    if (trainer->rank_outcomes) return COMPUTE_OK;
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for the outcomes of %d ranks", (int)info.size);
  }
  return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_create,
                   "a batch of %" PRId64 " is too small for %d ranks, of which this one has %zu "
                   "devices",
                   batch, (int)info.size, trainer->replica_count);
}

/* ---- Agreement ------------------------------------------------------------------------------- */

static void add_port(text_buffer *text, const char *name, const compute_batch_port *port) {
  char shape[128];
  text_add(text, "%s %s %s\n", name, compute_dtype_name(port->dtype),
           compute_shape_text(port->item, shape, sizeof shape));
}

static void add_number(text_buffer *text, const char *name, double value) {
  char number[REAL_TEXT_BYTES];
  text_add(text, "%s %s\n", name, real_decimal(value, 17, number));
}

static void add_options(text_buffer *text, const compute_trainer_options *o) {
  const compute_optimizer_options *p = &o->optimizer;
  const compute_schedule *s = &o->schedule;
  add_port(text, "input", &o->input);
  add_port(text, "target", &o->target);
  text_add(text, "batch %" PRId64 "\nloss %d\n", o->batch, (int)o->loss);
  add_number(text, "label_smoothing", o->label_smoothing);
  add_number(text, "huber_delta", o->huber_delta);
  text_add(text, "optimizer.kind %d\noptimizer.nesterov %d\n", (int)p->kind, p->nesterov);
  add_number(text, "optimizer.learning_rate", p->learning_rate);
  add_number(text, "optimizer.momentum", p->momentum);
  add_number(text, "optimizer.beta1", p->beta1);
  add_number(text, "optimizer.beta2", p->beta2);
  add_number(text, "optimizer.alpha", p->alpha);
  add_number(text, "optimizer.epsilon", p->epsilon);
  add_number(text, "optimizer.weight_decay", p->weight_decay);
  text_add(text, "schedule.kind %d\nschedule.period %" PRId64 "\nschedule.warm_up %" PRId64 "\n",
           (int)s->kind, s->period, s->warm_up);
  add_number(text, "schedule.factor", s->factor);
  add_number(text, "clip_norm", o->clip_norm);
  text_add(text, "accumulate %d\nprecision %s\nseed %" PRIu64 "\nflags 0x%x\n", (int)o->accumulate,
           o->precision ? compute_dtype_name(o->precision) : "of the weights", o->seed,
           (unsigned)o->flags);
}

static void add_model(text_buffer *text, const compute_layer *model) {
  const size_t count = compute_layer_parameter_count(model);
  for (size_t i = 0; i < count; i++) {
    compute_layer_parameter p;
    char shape[128];
    if (compute_layer_parameter_at(model, i, &p)) continue;
    text_add(text, "%s %s %s%s\n", p.name, compute_dtype_name(compute_tensor_dtype(p.tensor)),
             compute_shape_text(compute_tensor_shape(p.tensor), shape, sizeof shape),
             p.trainable ? "" : ", not trained");
  }
}

/* Compares a text across the ranks and releases it. */
static compute_status compare(const compute_trainer *trainer, const char *operation,
                              text_buffer *text) {
  compute_status status = COMPUTE_OK;
  if (text->failed)
    status = error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory for a description of the training");
  status = compute_group_check(trainer->group, operation, status);
  if (!status) status = compute_group_agree(trainer->group, operation, text->data);
  text_release(text);
  return status;
}

compute_status train_group_agree(const compute_trainer *trainer) {
  if (!trainer->group) return COMPUTE_OK;
  text_buffer text = {0};
  add_options(&text, &trainer->options);
  add_model(&text, trainer->options.model);
  return compare(trainer, operation_create, &text);
}

/* Hashes the items in their order, inputs and targets. */
static uint64_t hash_items(const compute_dataset *dataset) {
  uint64_t hash = 0;
  for (int part = 0; part < 2; part++) {
    const int64_t bytes = dataset->data->part[part].item_bytes;
    const char *first = dataset->data->part[part].bytes;
    for (int64_t i = 0; i < dataset->count; i++) {
      const int64_t item = dataset->items ? dataset->items[i] : i;
      hash = hash_bytes(hash, first + item * bytes, (size_t)bytes);
    }
  }
  return hash;
}

compute_status train_group_agree_run(const compute_trainer *trainer, const compute_dataset *dataset,
                                     const compute_trainer_run_options *options) {
  if (!trainer->group) return COMPUTE_OK;
  text_buffer text = {0};
  add_port(&text, "dataset: input",
           &(compute_batch_port){dataset_port(dataset, DATASET_INPUT).dtype,
                                 dataset_port(dataset, DATASET_INPUT).item});
  text_add(&text, "dataset: %" PRId64 " items\ndataset: contents %016" PRIx64 "\n", dataset->count,
           hash_items(dataset));
  if (options) {
    text_add(&text,
             "epochs %" PRId64 "\nin_order %d\ncheckpoint %s\npatience %" PRId64 "\nkeep_best %d\n",
             options->epochs, options->in_order, options->checkpoint ? options->checkpoint : "none",
             options->patience, options->keep_best);
    if (options->validation)
      text_add(&text, "validation: %" PRId64 " items\n", options->validation->count);
    else
      text_add(&text, "validation: none\n");
  }
  text_add(&text, "batches so far %" PRId64 "\n", trainer->batches);
  return compare(trainer, options ? "compute_trainer_run" : "compute_trainer_evaluate", &text);
}

/* ---- Sums of gradients ---------------------------------------------------------------------- */

static compute_status clear(compute_tensor *tensor) {
  compute_tensor *zero = NULL;
  compute_status status =
      tensor_create_zero(compute_tensor_device(tensor), compute_tensor_dtype(tensor),
                         compute_tensor_shape(tensor), &zero);
  if (!status) status = compute_tensor_copy(tensor, zero);
  compute_tensor_release(zero);
  return status;
}

compute_status train_group_clear_sums(compute_trainer *trainer) {
  compute_status status = COMPUTE_OK;
  const size_t count = trainer->sums && trainer->rank > 0 ? trainer->weight_count : 0;
  for (size_t i = 0; !status && i < count; i++) status = clear(trainer->sums[i]);
  return status;
}

compute_status train_group_collect_sums(compute_trainer *trainer) {
  if (!trainer->group || trainer->batches % trainer->options.accumulate == 0) return COMPUTE_OK;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < trainer->weight_count; i++)
    status = compute_group_all_reduce(trainer->group, COMPUTE_GROUP_SUM, trainer->sums[i],
                                      trainer->sums[i], NULL, NULL);
  return status ? status : train_group_clear_sums(trainer);
}

/* ---- Tensors and outcomes -------------------------------------------------------------------- */

compute_status train_group_spread(const compute_trainer *trainer, bool statistics) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; trainer->group && !status && i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    status = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (!status && !(statistics && p.trainable))
      status = compute_group_broadcast(trainer->group, p.tensor, 0, NULL, NULL);
  }
  return status;
}

compute_status train_group_check(const compute_trainer *trainer, const char *operation,
                                 compute_status status) {
  return trainer->group ? compute_group_check(trainer->group, operation, status) : status;
}

compute_status train_group_outcome(const compute_trainer *trainer, const char *operation,
                                   compute_status status, train_outcome *outcome) {
  if (!trainer->group) return status;
  compute_error error = {.status = COMPUTE_OK};
  if (status) compute_error_get(trainer->context, &error);
  const rank_outcome mine = {outcome->loss, outcome->correct, (int64_t)status};
  rank_outcome *all = trainer->rank_outcomes;
  const compute_status gathered =
      group_gather_bytes(trainer->group, operation, &mine, sizeof mine, all);
  bool failed = false;
  *outcome = (train_outcome){0};
  for (int32_t r = 0; !gathered && r < trainer->ranks; r++) {
    outcome->loss += all[r].loss;
    outcome->correct += all[r].correct;
    failed = failed || all[r].status != COMPUTE_OK;
  }
  if (gathered) return gathered;
  if (status) error_restore(trainer->context, &error);
  return failed ? compute_group_check(trainer->group, operation, status) : COMPUTE_OK;
}
