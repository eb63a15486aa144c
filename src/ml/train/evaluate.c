/* SPDX-License-Identifier: MIT */
/* Inference with a trainer's model on its first device: scores and predictions, one batch at a
 * time. The ranks of a group take turns with the batches of a score. */
#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

double train_accuracy(const compute_trainer *trainer, int64_t correct, double items) {
  switch (trainer->options.loss) {
  case COMPUTE_LOSS_CROSS_ENTROPY:
  case COMPUTE_LOSS_BINARY_CROSS_ENTROPY: {
    int64_t each = 1;
    if (compute_shape_count(trainer->options.target.item, &each)) return NAN;
    return (double)correct / (items * (double)each);
  }
  default: return NAN;
  }
}

/* Ends all work in progress and gives the first replica the model's weights. */
static compute_status synchronize(compute_trainer *trainer) {
  const compute_status status = train_drain(trainer);
  return !status && train_has_copies(trainer) ? train_spread(trainer) : status;
}

/* ---- Scores -------------------------------------------------------------------------------- */

/* The host tensors of one batch. */
typedef struct score_batch {
  compute_tensor *inputs, *targets; /* on the host, with room for one batch */
  int64_t *order;
} score_batch;

static compute_status open_batch(compute_trainer *trainer, const char *operation,
                                 score_batch *batch) {
  const compute_trainer_options *o = &trainer->options;
  compute_device *host;
  compute_status status = dataset_host(trainer->context, operation, &host);
  if (!status)
    status = tensor_create_private(host, o->input.dtype,
                                   dataset_batch_shape(o->input.item, o->batch), &batch->inputs);
  if (!status)
    status = tensor_create_private(host, o->target.dtype,
                                   dataset_batch_shape(o->target.item, o->batch), &batch->targets);
  if (status) return status;
  batch->order = base_allocate((uint64_t)o->batch, sizeof *batch->order);
  if (batch->order) return COMPUTE_OK;
  return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a batch");
}

static compute_status score_items(compute_trainer *trainer, const compute_dataset *dataset,
                                  const score_batch *batch, int64_t first, int64_t items,
                                  train_outcome *outcome) {
  const compute_trainer_options *o = &trainer->options;
  const train_slot *slot = &trainer->replicas[0].slots[0];
  const train_plan *plan = NULL;
  compute_tensor *x = NULL, *target = NULL;
  for (int64_t i = 0; i < items; i++) batch->order[i] = first + i;
  compute_status status =
      dataset_gather(dataset, batch->order, items, &o->input, &o->target,
                     compute_tensor_data(batch->inputs), compute_tensor_data(batch->targets));
  if (!status) status = train_inference(trainer, items, true, &plan);
  if (!status) status = compute_tensor_slice_view(batch->inputs, 0, 0, items, 1, &x);
  if (!status) status = compute_tensor_slice_view(batch->targets, 0, 0, items, 1, &target);
  if (!status)
    status = compute_run(plan->plan,
                         (compute_binding[]){{plan->x, x},
                                             {plan->target, target},
                                             {plan->seed, slot->seed},
                                             {plan->loss, slot->loss},
                                             {plan->correct, slot->correct}},
                         plan->correct.id != 0 ? 5 : 4, NULL);
  if (!status) status = train_read_number(slot->loss, &outcome->loss);
  if (!status && plan->correct.id != 0)
    status = train_read_integer(slot->correct, &outcome->correct);
  compute_tensor_release(x);
  compute_tensor_release(target);
  return status;
}

static const char operation_score[] = "compute_trainer_evaluate";

static compute_status check_score(const compute_trainer *trainer, const compute_dataset *dataset,
                                  const compute_training_score *score) {
  if (!trainer || !dataset || !score)
    return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation_score,
                     "%s is NULL",
                     !trainer   ? "trainer"
                     : !dataset ? "dataset"
                                : "score");
  compute_status status =
      dataset_check(dataset, &trainer->options.input, &trainer->options.target, operation_score);
  if (!status && trainer->classes > 0)
    status = dataset_check_labels(dataset, trainer->classes, operation_score);
  if (!status && compute_dataset_count(dataset) == 0)
    status = error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_score,
                       "the dataset is empty");
  return status;
}

compute_status compute_trainer_evaluate(compute_trainer *trainer, const compute_dataset *dataset,
                                        compute_training_score *score) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  compute_status status = check_score(trainer, dataset, score);
  if (!trainer) return status;
  const double began = clock_seconds();
  const int64_t count = status ? 0 : compute_dataset_count(dataset), most = trainer->options.batch;
  score_batch batch = {.inputs = NULL};
  train_outcome sum = {0};
  if (!status) status = open_batch(trainer, operation_score, &batch);
  status = train_group_check(trainer, operation_score, status);
  if (!status) status = train_group_agree_run(trainer, dataset, NULL);
  if (!status) status = train_group_spread(trainer, true);
  if (!status) status = synchronize(trainer);
  for (int64_t first = trainer->rank * most; !status && first < count;
       first += trainer->ranks * most) {
    const int64_t items = count - first < most ? count - first : most;
    train_outcome outcome = {0};
    status = score_items(trainer, dataset, &batch, first, items, &outcome);
    sum.loss += outcome.loss * (double)items;
    sum.correct += outcome.correct;
  }
  status = train_group_outcome(trainer, operation_score, status, &sum);
  compute_tensor_release(batch.inputs);
  compute_tensor_release(batch.targets);
  base_release(batch.order);
  if (status) return status;
  *score = (compute_training_score){.items = count,
                                    .loss = sum.loss / (double)count,
                                    .accuracy = train_accuracy(trainer, sum.correct, (double)count),
                                    .seconds = clock_seconds() - began};
  return COMPUTE_OK;
}

/* ---- Predictions --------------------------------------------------------------------------- */

static compute_status check_inputs(const compute_trainer *trainer, const char *operation,
                                   const compute_tensor *inputs) {
  const compute_batch_port *port = &trainer->options.input;
  const compute_shape shape = compute_tensor_shape(inputs);
  if (compute_device_context(compute_tensor_device(inputs)) != trainer->context)
    return error_set(trainer->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "inputs belong to another context");
  if (compute_tensor_dtype(inputs) != port->dtype)
    return error_set(trainer->context, COMPUTE_ERROR_DTYPE, operation,
                     "inputs are %s; the trainer was made for %s",
                     compute_dtype_name(compute_tensor_dtype(inputs)),
                     compute_dtype_name(port->dtype));
  const bool some = shape.rank >= 1 && shape.size[0] >= 1;
  if (some && compute_shape_equal(shape, dataset_batch_shape(port->item, shape.size[0])))
    return COMPUTE_OK;
  char a[128], b[128];
  return error_set(trainer->context, COMPUTE_ERROR_SHAPE, operation,
                   "inputs have shape %s; they must be at least one item of %s",
                   compute_shape_text(shape, a, sizeof a),
                   compute_shape_text(port->item, b, sizeof b));
}

static compute_status predict_items(compute_trainer *trainer, compute_tensor *inputs, int64_t first,
                                    int64_t items, compute_tensor **results) {
  const train_replica *replica = &trainer->replicas[0];
  const train_plan *plan = NULL;
  compute_tensor *x = NULL, *part = NULL;
  compute_status status = train_inference(trainer, items, false, &plan);
  if (status) return status;
  if (!*results) {
    compute_tensor *one = NULL;
    status = compute_plan_create_tensor(plan->plan, plan->result, &one);
    if (status) return status;
    compute_shape shape = compute_tensor_shape(one);
    const compute_dtype dtype = compute_tensor_dtype(one);
    compute_tensor_release(one);
    if (shape.rank == 0 || shape.size[0] != items) {
      char text[128];
      return error_set(trainer->context, COMPUTE_ERROR_SHAPE, "compute_trainer_predict",
                       "for %" PRId64 " items the model's result is %s", items,
                       compute_shape_text(shape, text, sizeof text));
    }
    shape.size[0] = compute_tensor_shape(inputs).size[0];
    status = compute_tensor_create(replica->device, dtype, shape, results);
  }
  if (!status) status = compute_tensor_slice_view(inputs, 0, first, items, 1, &x);
  if (!status) status = compute_tensor_slice_view(*results, 0, first, items, 1, &part);
  if (!status)
    status =
        compute_run(plan->plan,
                    (compute_binding[]){
                        {plan->x, x}, {plan->seed, replica->slots[0].seed}, {plan->result, part}},
                    3, NULL);
  compute_tensor_release(x);
  compute_tensor_release(part);
  return status;
}

compute_status compute_trainer_predict(compute_trainer *trainer, const compute_tensor *inputs,
                                       compute_tensor **results) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  static const char operation[] = "compute_trainer_predict";
  if (results) *results = NULL;
  if (!trainer || !inputs || !results)
    return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL",
                     !trainer  ? "trainer"
                     : !inputs ? "inputs"
                               : "results");
  compute_status status = check_inputs(trainer, operation, inputs);
  if (!status) status = synchronize(trainer);
  if (status) return status;
  const int64_t count = compute_tensor_shape(inputs).size[0], most = trainer->options.batch;
  compute_tensor *made = NULL;
  for (int64_t first = 0; !status && first < count; first += most) {
    const int64_t items = count - first < most ? count - first : most;
    /* The cast is safe: a view is a new handle for the same elements, and inputs are only read. */
    status = predict_items(trainer, (compute_tensor *)inputs, first, items, &made);
  }
  if (status)
    compute_tensor_release(made);
  else
    *results = made;
  return status;
}
