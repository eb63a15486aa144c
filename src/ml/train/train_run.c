/* SPDX-License-Identifier: MIT */
/* Training epochs over a dataset. The next batches are gathered while a device works on one
 * batch. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_run";

typedef struct training_run {
  compute_trainer *trainer;
  const compute_dataset *dataset;
  const compute_trainer_run_options *options;
  int64_t *order;         /* the items of an epoch in their order */
  void *inputs, *targets; /* one batch, if the device's memory cannot be written directly */
  int64_t epoch, steps;   /* steps per epoch */
  int64_t known;          /* batches of this epoch whose outcomes are in the sums */
  double loss;
  int64_t correct;
  double began, epoch_began;
  train_best *best;
} training_run;

/* ---- Arguments ----------------------------------------------------------------------------- */

static compute_status check_run(const compute_trainer *trainer, const compute_dataset *dataset,
                                const compute_trainer_run_options *o) {
  if (!trainer || !dataset || !o)
    return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL",
                     !trainer   ? "trainer"
                     : !dataset ? "dataset"
                                : "options");
  const compute_status reserved =
      error_if_reserved(trainer->context, operation, "options", o->reserved);
  if (reserved) return reserved;
  if (o->epochs < 1)
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%" PRId64 " epochs; there must be at least 1", o->epochs);
  const int64_t most = (INT64_C(1) << 53) / (compute_dataset_count(dataset) + 1);
  if (o->epochs > most)
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%" PRId64 " epochs of %" PRId64 " items; the maximum is %" PRId64, o->epochs,
                     compute_dataset_count(dataset), most);
  compute_status status =
      dataset_check(dataset, &trainer->options.input, &trainer->options.target, operation);
  if (!status && trainer->classes > 0)
    status = dataset_check_labels(dataset, trainer->classes, operation);
  if (status) return status;
  if (compute_dataset_count(dataset) < trainer->options.batch)
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%" PRId64 " items are fewer than one batch of %" PRId64,
                     compute_dataset_count(dataset), trainer->options.batch);
  status = train_best_check(trainer, operation, o);
  return !status && o->checkpoint ? train_check_path(trainer, operation, o->checkpoint) : status;
}

/* ---- One batch ----------------------------------------------------------------------------- */

static compute_status add_outcome(training_run *run, size_t slot) {
  train_slot *p = &run->trainer->replicas[0].slots[slot];
  if (!p->pending) return COMPUTE_OK;
  train_outcome outcome;
  const compute_status status = train_finish(run->trainer, slot, p->x, p->target, &outcome);
  if (status) return status;
  run->loss += outcome.loss;
  run->correct += outcome.correct;
  run->known++;
  return COMPUTE_OK;
}

/* Gathers a batch into a slot's tensors. */
static compute_status gather(training_run *run, int64_t first, size_t slot) {
  compute_trainer *trainer = run->trainer;
  const compute_trainer_options *o = &trainer->options;
  const train_slot *p = &trainer->replicas[0].slots[slot];
  const bool direct = trainer->replicas[0].host || trainer->together;
  void *inputs = direct ? compute_tensor_data(p->x) : run->inputs;
  void *targets = direct ? compute_tensor_data(p->target) : run->targets;
  compute_status status = dataset_gather(run->dataset, run->order + first + trainer->first,
                                         trainer->items, &o->input, &o->target, inputs, targets);
  if (status || direct) return status;
  const size_t input = (size_t)compute_tensor_count(p->x) * compute_dtype_size(o->input.dtype);
  const size_t target =
      (size_t)compute_tensor_count(p->target) * compute_dtype_size(o->target.dtype);
  status = compute_tensor_write(p->x, inputs, input);
  return status ? status : compute_tensor_write(p->target, targets, target);
}

static compute_status make_room(training_run *run) {
  compute_trainer *trainer = run->trainer;
  const compute_trainer_options *o = &trainer->options;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < train_depth(trainer); i++)
    status = train_slot_tensors(trainer, i);
  if (status) return status;
  const train_slot *p = &trainer->replicas[0].slots[0];
  run->order = base_allocate((uint64_t)compute_dataset_count(run->dataset), sizeof *run->order);
  run->inputs =
      base_allocate((uint64_t)compute_tensor_count(p->x), compute_dtype_size(o->input.dtype));
  run->targets =
      base_allocate((uint64_t)compute_tensor_count(p->target), compute_dtype_size(o->target.dtype));
  if (run->order && run->inputs && run->targets) return COMPUTE_OK;
  return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a batch and the order of %" PRId64 " items",
                   compute_dataset_count(run->dataset));
}

/* ---- Progress ------------------------------------------------------------------------------ */

static compute_status report(const training_run *run, int64_t step) {
  const compute_trainer_run_options *o = run->options;
  if (!o->progress) return COMPUTE_OK;
  const compute_trainer *trainer = run->trainer;
  const double t = clock_seconds();
  const int64_t done = run->epoch * run->steps + step + 1;
  const double seconds = t - run->began, epoch = t - run->epoch_began;
  const int64_t left = o->epochs * run->steps - done;
  const compute_training_progress progress = {
      .epoch = run->epoch,
      .epochs = o->epochs,
      .step = step,
      .steps = run->steps,
      .loss = run->known > 0 ? run->loss / (double)run->known : NAN,
      .learning_rate =
          train_rate(&trainer->options.schedule, trainer->options.optimizer.learning_rate,
                     trainer->updates > 0 ? trainer->updates - 1 : 0, trainer->schedule_end),
      .items_per_second =
          epoch > 0 ? (double)(step + 1) * (double)trainer->options.batch / epoch : 0,
      .seconds_left = seconds / (double)done * (double)left};
  if (o->progress(o->user, &progress)) return COMPUTE_OK;
  return error_set(trainer->context, COMPUTE_ERROR_CANCELLED, operation,
                   "cancelled in step %" PRId64 " of epoch %" PRId64, step, run->epoch);
}

/* ---- Epochs -------------------------------------------------------------------------------- */

static void set_order(training_run *run) {
  const int64_t count = compute_dataset_count(run->dataset);
  if (!run->options->in_order) {
    dataset_order(run->dataset, run->trainer->options.seed, (uint32_t)run->trainer->epochs,
                  run->order);
    return;
  }
  for (int64_t i = 0; i < count; i++) run->order[i] = i;
}

/* In a group, keeps an error of this rank for the next batch, which reports it to all ranks. */
static compute_status defer_error(compute_trainer *trainer, compute_status status) {
  if (!trainer->group || !status) return status;
  if (!trainer->pending) trainer->pending = status;
  return COMPUTE_OK;
}

static compute_status run_epoch(training_run *run) {
  compute_trainer *trainer = run->trainer;
  const size_t depth = train_depth(trainer);
  set_order(run);
  trainer->epochs++;
  run->loss = 0;
  run->correct = run->known = 0;
  run->epoch_began = clock_seconds();
  compute_status status = COMPUTE_OK;
  for (int64_t step = 0; !status && step < run->steps; step++) {
    const size_t slot = (size_t)step % depth;
    const train_slot *p = &trainer->replicas[0].slots[slot];
    status = add_outcome(run, slot);
    if (!status && !trainer->pending)
      status = defer_error(trainer, gather(run, step * trainer->options.batch, slot));
    if (!status) status = train_submit(trainer, slot, p->x, p->target);
    /* Progress must not report an unknown loss, so the first batch of an epoch is waited for. */
    const bool wait = depth == 1 || (run->options->progress && run->known == 0);
    if (!status && wait) status = add_outcome(run, slot);
    const bool last = step + 1 == run->steps;
    for (size_t i = 1; last && !status && i <= depth; i++)
      status = add_outcome(run, (slot + i) % depth);
    if (!status) status = last ? report(run, step) : defer_error(trainer, report(run, step));
  }
  if (!status) status = trainer->pending;
  trainer->pending = COMPUTE_OK;
  return train_group_check(trainer, operation, status);
}

static void set_score(const training_run *run, compute_training_score *score) {
  const compute_trainer_options *o = &run->trainer->options;
  const double items = (double)run->known * (double)o->batch;
  *score = (compute_training_score){.items = run->known * o->batch,
                                    .loss = run->loss / (double)run->known,
                                    .accuracy = train_accuracy(run->trainer, run->correct, items),
                                    .seconds = clock_seconds() - run->epoch_began};
}

static compute_status run_epochs(training_run *run, compute_training_score *score) {
  const compute_trainer_run_options *o = run->options;
  compute_trainer *trainer = run->trainer;
  compute_status status = train_group_check(trainer, operation, make_room(run));
  const bool copies = train_has_copies(trainer);
  if (!status) {
    status = train_drain(trainer);
    if (!status && copies) status = train_spread(trainer);
    status = train_group_check(trainer, operation, status);
  }
  const bool spread = !status;
  run->began = clock_seconds();
  bool improves = true;
  for (run->epoch = 0; !status && improves && run->epoch < o->epochs; run->epoch++) {
    status = run_epoch(run);
    if (!status && score) set_score(run, score);
    if (!status && (o->checkpoint || o->validation))
      status = train_group_check(trainer, operation, copies ? train_collect(trainer) : COMPUTE_OK);
    if (!status && o->checkpoint) status = compute_trainer_save(trainer, o->checkpoint);
    if (!status && o->validation)
      status = train_best_score(run->best, trainer, o, run->epoch, &improves);
  }
  compute_error error;
  if (status) compute_error_get(trainer->context, &error);
  /* This also runs after a failure, so that the model gets the weights of the last step. */
  compute_status end = train_drain(trainer);
  if (spread && copies && !trainer->together) {
    const compute_status collected = train_collect(trainer);
    if (end == COMPUTE_OK) end = collected;
  }
  if (end == COMPUTE_OK && (!status || status == COMPUTE_ERROR_CANCELLED))
    end = train_best_restore(run->best, trainer, o);
  if (!status) end = train_group_check(trainer, operation, end);
  if (!status && !end) end = train_group_spread(trainer, true);
  if (status) error_restore(trainer->context, &error);
  return status ? status : end;
}

compute_status compute_trainer_run(compute_trainer *trainer, const compute_dataset *dataset,
                                   const compute_trainer_run_options *options,
                                   compute_training_score *score) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  compute_status status = check_run(trainer, dataset, options);
  if (trainer) status = train_group_check(trainer, operation, status);
  if (!status) status = train_group_agree_run(trainer, dataset, options);
  if (status) return status;
  train_best best;
  train_best_open(&best, options);
  training_run run = {.trainer = trainer, .dataset = dataset, .options = options, .best = &best};
  run.steps = compute_dataset_count(dataset) / trainer->options.batch;
  const int64_t batches = trainer->batches + options->epochs * run.steps;
  trainer->schedule_end = batches / trainer->options.accumulate;
  status = run_epochs(&run, score);
  train_best_release(&best, trainer);
  base_release(run.order);
  base_release(run.inputs);
  base_release(run.targets);
  return status;
}
