/* SPDX-License-Identifier: MIT */
/* Runs the plans of a step.
 *
 * With one device, a batch is submitted to its queue, and reading the loss waits for it. With
 * several devices, asynchronous devices get their shares first. Devices that compute on this thread
 * follow. When all have finished, the first device sums the gradients and updates the weights. In a
 * group, the ranks first exchange their status, so that no rank waits for a failed one. */
#include <inttypes.h>
#include <math.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/random.h"
#include "plan/compile/plan.h"
#include "core/type/dtype.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_step";

/* ---- Numbers --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
  return random_mix(a + b * UINT64_C(0x9e3779b97f4a7c15));
}

static double rate_now(const compute_trainer *trainer) {
  return train_rate(&trainer->options.schedule, trainer->options.optimizer.learning_rate,
                    trainer->updates, trainer->schedule_end);
}

/* Writes the seed and learning rate of the next batch. */
static compute_status write_numbers(const compute_trainer *trainer, train_slot *slot,
                                    size_t replica) {
  const uint64_t seed = mix(mix(trainer->options.seed, (uint64_t)trainer->batches),
                            (uint64_t)trainer->rank * TRAIN_MOST_DEVICES + (uint64_t)replica);
  compute_status status = compute_tensor_write(slot->seed, &seed, sizeof seed);
  const double rate = rate_now(trainer);
  if (status || rate == slot->rate_written) return status;
  double element = 0;
  dtype_store(trainer->dtype, &element, rate);
  status = compute_tensor_write(slot->rate, &element, compute_dtype_size(trainer->dtype));
  if (!status) slot->rate_written = rate;
  return status;
}

compute_status train_slot_tensors(compute_trainer *trainer, size_t slot) {
  train_slot *p = &trainer->replicas[0].slots[slot];
  if (p->x && p->target) return COMPUTE_OK;
  const compute_batch_port *ports[2] = {&trainer->options.input, &trainer->options.target};
  compute_tensor **tensors[2] = {&p->x, &p->target};
  compute_device *device = trainer->replicas[0].device;
  compute_status status = COMPUTE_OK;
  if (trainer->together) status = dataset_host(trainer->context, operation, &device);
  for (int i = 0; !status && i < 2; i++) {
    const compute_shape shape = dataset_batch_shape(ports[i]->item, trainer->items);
    if (!*tensors[i]) status = train_tensor(device, ports[i]->dtype, shape, 0, tensors[i]);
  }
  return status;
}

size_t train_depth(const compute_trainer *trainer) {
  const bool at_once = trainer->together || trainer->replicas[0].host ||
                       (trainer->options.flags & COMPUTE_TRAIN_CHECK_NAN);
  return at_once ? 1 : TRAIN_SLOTS;
}

bool train_has_copies(const compute_trainer *trainer) {
  for (size_t i = 0; i < trainer->tensor_count; i++)
    if (trainer->replicas[0].tensors[i] != train_model_tensor(trainer, i)) return true;
  return trainer->together;
}

/* ---- One device ---------------------------------------------------------------------------- */

typedef struct binding_list {
  compute_binding items[8];
  size_t count;
} binding_list;

static void bind(binding_list *list, compute_node node, compute_tensor *tensor) {
  if (node.id != 0) list->items[list->count++] = (compute_binding){node, tensor};
}

/* Waits for work that a failed batch has left in progress. The caller cannot wait for this internal
 * queue, and may write to the weights next. */
static compute_status wait_after_failure(compute_trainer *trainer, compute_status status) {
  compute_error error;
  if (!status) return status;
  compute_error_get(trainer->context, &error);
  (void)compute_queue_wait(trainer->replicas[0].queue);
  error_restore(trainer->context, &error);
  return status;
}

static compute_status submit_alone(compute_trainer *trainer, train_slot *slot, bool update,
                                   compute_tensor *inputs, compute_tensor *targets) {
  train_replica *replica = &trainer->replicas[0];
  const train_plan *plan = update ? &trainer->update : &trainer->add;
  binding_list list = {.count = 0};
  bind(&list, plan->x, inputs);
  bind(&list, plan->target, targets);
  bind(&list, plan->seed, slot->seed);
  if (update) bind(&list, plan->rate, slot->rate);
  bind(&list, plan->loss, slot->loss);
  bind(&list, plan->correct, slot->correct);
  compute_status status =
      compute_run(plan->plan, list.items, list.count, replica->host ? NULL : replica->queue);
  if (!status && !replica->host) status = compute_event_record(replica->queue, &slot->event);
  return wait_after_failure(trainer, status);
}

static compute_status finish_alone(compute_trainer *trainer, train_slot *slot,
                                   compute_tensor *inputs, compute_tensor *targets,
                                   train_outcome *outcome) {
  compute_status status = COMPUTE_OK;
  if (slot->event) {
    status = compute_event_wait(slot->event);
    compute_event_release(slot->event);
    slot->event = NULL;
  }
  if (!status) status = train_read_number(slot->loss, &outcome->loss);
  if (!status && trainer->update.correct.id != 0)
    status = train_read_integer(slot->correct, &outcome->correct);
  /* A negative count reports an invalid label. The queue has the details, unless an earlier batch
   * has already waited for it. */
  if (!status && outcome->correct < 0) {
    status = compute_queue_wait(trainer->replicas[0].queue);
    if (!status)
      status = error_set(trainer->context, COMPUTE_ERROR_INDEX, operation,
                         "a label of the batch is outside 0 … %" PRId64, trainer->classes - 1);
  }
  if (!status && (trainer->options.flags & COMPUTE_TRAIN_CHECK_NAN) && !isfinite(outcome->loss))
    status = train_find_nan(trainer, &trainer->replicas[0], slot, inputs, targets, outcome->loss);
  return wait_after_failure(trainer, status);
}

/* ---- Several devices ----------------------------------------------------------------------- */

/* Creates views of a replica's part of a batch. They live until its work is finished. */
static compute_status take_share(train_replica *replica, compute_tensor *inputs,
                                 compute_tensor *targets) {
  compute_tensor *batch[2] = {inputs, targets};
  compute_status status = COMPUTE_OK;
  for (int i = 0; !status && i < 2; i++)
    status = compute_tensor_slice_view(batch[i], 0, replica->first, replica->items, 1,
                                       &replica->share[i]);
  return status;
}

static void drop_shares(compute_trainer *trainer) {
  for (size_t k = 0; k < trainer->replica_count; k++) {
    for (int i = 0; i < 2; i++) {
      compute_tensor_release(trainer->replicas[k].share[i]);
      trainer->replicas[k].share[i] = NULL;
    }
  }
}

static compute_status submit_share(compute_trainer *trainer, train_replica *replica,
                                   compute_tensor *inputs, compute_tensor *targets) {
  const train_plan *plan = &replica->gradients;
  train_slot *slot = &replica->slots[0];
  compute_status status = take_share(replica, inputs, targets);
  if (!status) status = write_numbers(trainer, slot, (size_t)(replica - trainer->replicas));
  if (status) {
    plan_skip_calls(plan->plan, 0);
    return status;
  }
  binding_list list = {.count = 0};
  bind(&list, plan->x, replica->share[0]);
  bind(&list, plan->target, replica->share[1]);
  bind(&list, plan->seed, slot->seed);
  bind(&list, plan->loss, slot->loss);
  bind(&list, plan->correct, slot->correct);
  bind(&list, plan->result, replica->flat);
  return compute_run(plan->plan, list.items, list.count, replica->host ? NULL : replica->queue);
}

/* Runs the shares on their devices. Waits for all devices, even if one has failed. */
static compute_status run_shares(compute_trainer *trainer, compute_tensor *inputs,
                                 compute_tensor *targets) {
  compute_status first = COMPUTE_OK;
  compute_error error;
  for (int host = 0; host < 2; host++) {
    for (size_t k = 0; first == COMPUTE_OK && k < trainer->replica_count; k++) {
      train_replica *replica = &trainer->replicas[k];
      if (replica->host == (bool)host) first = submit_share(trainer, replica, inputs, targets);
    }
  }
  if (first != COMPUTE_OK) compute_error_get(trainer->context, &error);
  for (size_t k = 0; k < trainer->replica_count; k++) {
    const compute_status status = compute_queue_wait(trainer->replicas[k].queue);
    if (!status || first != COMPUTE_OK) continue;
    first = status;
    compute_error_get(trainer->context, &error);
  }
  if (first != COMPUTE_OK) error_restore(trainer->context, &error);
  return first;
}

/* Reads the mean loss over the whole batch; in a group, only this process's part of the mean. */
static compute_status read_shares(compute_trainer *trainer, train_outcome *outcome) {
  compute_status status = COMPUTE_OK;
  *outcome = (train_outcome){0};
  for (size_t k = 0; !status && k < trainer->replica_count; k++) {
    const train_replica *replica = &trainer->replicas[k];
    const train_slot *slot = &replica->slots[0];
    double loss;
    int64_t correct = 0;
    status = train_read_number(slot->loss, &loss);
    if (!status && replica->gradients.correct.id != 0)
      status = train_read_integer(slot->correct, &correct);
    outcome->loss += loss * (double)replica->items / (double)trainer->options.batch;
    outcome->correct += correct;
    if (!status && (trainer->options.flags & COMPUTE_TRAIN_CHECK_NAN) && !isfinite(loss))
      status = train_find_nan(trainer, replica, slot, replica->share[0], replica->share[1], loss);
  }
  return status;
}

/* In a group, sums the gradients of this process's replicas into trainer->sum. */
static compute_status sum_replicas(compute_trainer *trainer) {
  compute_binding few[TRAIN_MOST_DEVICES + 1];
  const size_t count = trainer->replica_count;
  if (!trainer->group || count == 1) return COMPUTE_OK;
  for (size_t k = 0; k < count; k++)
    few[k] = (compute_binding){trainer->local.shares[k], trainer->replicas[k].flat};
  few[count] = (compute_binding){trainer->local.result, trainer->sum};
  return compute_run(trainer->local.plan, few, count + 1, NULL);
}

static compute_status run_sum(compute_trainer *trainer, bool update) {
  train_replica *replica = &trainer->replicas[0];
  const train_plan *plan = update ? &trainer->update : &trainer->add;
  const bool divided = update && trainer->divides;
  compute_binding few[TRAIN_MOST_DEVICES + 3];
  size_t count = train_shares(trainer);
  for (size_t k = 0; k < count; k++)
    few[k] = (compute_binding){plan->shares[k],
                               trainer->group ? trainer->sum : trainer->replicas[k].flat};
  if (update) few[count++] = (compute_binding){plan->rate, replica->slots[0].rate};
  if (divided) {
    few[count++] = (compute_binding){plan->clip_factor, trainer->clip_factor};
    few[count++] = (compute_binding){plan->overflows, trainer->overflows};
  }
  compute_status status = divided ? train_shards_measure(trainer) : COMPUTE_OK;
  if (!status) status = compute_run(plan->plan, few, count, NULL);
  if (divided) status = train_shards_gather(trainer, status);
  return status ? status : train_collect(trainer);
}

static compute_status step_together(compute_trainer *trainer, bool update, compute_tensor *inputs,
                                    compute_tensor *targets) {
  compute_status status = trainer->pending;
  trainer->pending = COMPUTE_OK;
  trainer->outcome = (train_outcome){0};
  trainer->reduces = update;
  if (!status) status = train_spread(trainer);
  if (status)
    plan_skip_calls(trainer->replicas[0].gradients.plan, 0); /* only a group has calls in its
                                                              * plan */
  else
    status = run_shares(trainer, inputs, targets);
  if (!status) status = read_shares(trainer, &trainer->outcome);
  if (!status) status = sum_replicas(trainer);
  drop_shares(trainer);
  if (!trainer->group) return status ? status : run_sum(trainer, update);
  if (update) train_buckets_begin_rest(trainer);
  status = train_group_outcome(trainer, operation, status, &trainer->outcome);
  const compute_status reduced = update ? train_buckets_wait(trainer) : COMPUTE_OK;
  if (!status) status = reduced;
  /* The other ranks update now. They learn of a failure here with the next batch. */
  if (status) return status;
  trainer->pending = run_sum(trainer, update);
  compute_group_info info;
  const bool broken =
      trainer->pending && !compute_group_query(trainer->group, &info) && info.broken;
  return broken ? trainer->pending : COMPUTE_OK; /* a broken group cannot exchange a status with
                                                  * the next batch */
}

/* ---- Either -------------------------------------------------------------------------------- */

compute_status train_submit(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets) {
  train_slot *p = &trainer->replicas[0].slots[slot];
  const int64_t accumulate = trainer->options.accumulate;
  p->updates = trainer->batches % accumulate == accumulate - 1;
  compute_status status;
  if (trainer->together) {
    status = step_together(trainer, p->updates, inputs, targets);
  } else {
    status = write_numbers(trainer, p, 0);
    if (!status) status = submit_alone(trainer, p, p->updates, inputs, targets);
  }
  if (status) return status;
  p->pending = true;
  trainer->batches++;
  trainer->updates += p->updates;
  return COMPUTE_OK;
}

compute_status train_finish(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets, train_outcome *outcome) {
  train_slot *p = &trainer->replicas[0].slots[slot];
  *outcome = (train_outcome){0};
  if (!p->pending) return COMPUTE_OK;
  p->pending = false;
  if (trainer->together) {
    *outcome = trainer->outcome;
    return COMPUTE_OK;
  }
  const compute_status status = finish_alone(trainer, p, inputs, targets, outcome);
  if (!status) return status;
  trainer->batches--; /* the batch has changed nothing */
  trainer->updates -= p->updates;
  return status;
}

compute_status train_drain(compute_trainer *trainer) {
  compute_status first = COMPUTE_OK;
  compute_error error;
  for (size_t i = 0; i < TRAIN_SLOTS; i++) {
    train_slot *slot = &trainer->replicas[0].slots[i];
    train_outcome outcome;
    const compute_status status = train_finish(trainer, i, slot->x, slot->target, &outcome);
    if (!status || first != COMPUTE_OK) continue;
    first = status;
    compute_error_get(trainer->context, &error);
  }
  if (first != COMPUTE_OK) error_restore(trainer->context, &error);
  return first;
}

static compute_status check_batch(const compute_trainer *trainer, const char *what,
                                  const compute_batch_port *port, const compute_tensor *tensor) {
  if (!tensor)
    return error_set(trainer->context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", what);
  if (compute_device_context(compute_tensor_device(tensor)) != trainer->context)
    return error_set(trainer->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "%s belongs to another context", what);
  if (compute_tensor_dtype(tensor) != port->dtype)
    return error_set(trainer->context, COMPUTE_ERROR_DTYPE, operation,
                     "%s has dtype %s; the trainer was made for %s", what,
                     compute_dtype_name(compute_tensor_dtype(tensor)),
                     compute_dtype_name(port->dtype));
  const compute_shape shape = dataset_batch_shape(port->item, trainer->items);
  if (compute_shape_equal(shape, compute_tensor_shape(tensor))) return COMPUTE_OK;
  char a[128], b[128];
  return error_set(trainer->context, COMPUTE_ERROR_SHAPE, operation, "%s has shape %s; a %s has %s",
                   what, compute_shape_text(compute_tensor_shape(tensor), a, sizeof a),
                   trainer->group ? "rank's share of a batch" : "batch",
                   compute_shape_text(shape, b, sizeof b));
}

/* A batch that runs later is copied, since the caller may modify the tensors. */
static compute_status step_later(compute_trainer *trainer, const compute_tensor *inputs,
                                 const compute_tensor *targets) {
  const size_t slot = (size_t)(trainer->batches % TRAIN_SLOTS);
  train_slot *p = &trainer->replicas[0].slots[slot];
  train_outcome outcome;
  compute_status status = train_slot_tensors(trainer, slot);
  if (!status) status = train_finish(trainer, slot, p->x, p->target, &outcome);
  if (!status) status = compute_tensor_copy(p->x, inputs);
  if (!status) status = compute_tensor_copy(p->target, targets);
  return status ? status : train_submit(trainer, slot, p->x, p->target);
}

compute_status compute_trainer_step(compute_trainer *trainer, const compute_tensor *inputs,
                                    const compute_tensor *targets, double *loss) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  if (!trainer) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "trainer is NULL");
  compute_status status = check_batch(trainer, "inputs", &trainer->options.input, inputs);
  if (!status) status = check_batch(trainer, "targets", &trainer->options.target, targets);
  if (trainer->group) { /* the next batch reports the error to all ranks */
    if (!trainer->pending) trainer->pending = status;
    status = COMPUTE_OK;
  }
  if (status) return status;
  const bool copies = train_has_copies(trainer);
  if (!loss && train_depth(trainer) > 1 && !copies) return step_later(trainer, inputs, targets);
  status = train_drain(trainer);
  if (!status && copies && !trainer->together) status = train_spread(trainer);
  /* The cast is safe: a run never writes to the bindings of inputs. */
  compute_tensor *x = (compute_tensor *)inputs, *target = (compute_tensor *)targets;
  train_outcome outcome = {0};
  if (!status) status = train_submit(trainer, 0, x, target);
  if (!status) status = train_finish(trainer, 0, x, target, &outcome);
  if (!status && copies && !trainer->together) status = train_collect(trainer);
  if (!status && loss) *loss = outcome.loss;
  return status;
}
