/* Trainers as objects: making, asking, freeing. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "type/dtype.h"
#include "tensor/tensor.h"
#include "train/trainer.h"

#define HERE "compute_trainer_create"

/* ---- Making -------------------------------------------------------------------------------- */

static void count_weights(compute_trainer *trainer) {
  trainer->tensor_count = compute_layer_parameter_count(trainer->options.model);
  trainer->weight_elements = compute_layer_element_count(trainer->options.model, true);
  trainer->dtype = COMPUTE_F32;
  for (size_t i = 0; i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    if (compute_layer_parameter_at(trainer->options.model, i, &p) || !p.trainable) continue;
    trainer->weight_count++;
    if (compute_tensor_dtype(p.tensor) == COMPUTE_F64) trainer->dtype = COMPUTE_F64;
  }
}

/* What is added up until an update: on the first device, in a dtype that can hold sums. */
static compute_status create_sums(compute_trainer *trainer) {
  trainer->sums = base_allocate(trainer->weight_count, sizeof *trainer->sums);
  if (trainer->sums == NULL)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                     HERE ": no memory for sums of %zu gradients", trainer->weight_count);
  compute_status s = COMPUTE_OK;
  size_t count = 0;
  for (size_t i = 0; s == COMPUTE_OK && i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    s = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (s || !p.trainable) continue;
    const compute_dtype dtype = dtype_compute_type(compute_tensor_dtype(p.tensor));
    s = train_tensor(trainer->replicas[0].device, dtype, compute_tensor_shape(p.tensor), 0,
                     &trainer->sums[count]);
    if (s == COMPUTE_OK) s = train_keep(trainer, "gradients.", p.name, trainer->sums[count++]);
  }
  return s;
}

static compute_status create_scale_counters(compute_trainer *trainer) {
  compute_device *device = trainer->replicas[0].device;
  compute_status s = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &trainer->steady);
  if (!s) s = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &trainer->skipped);
  if (!s) s = train_keep(trainer, "loss_scale.", "value", trainer->replicas[0].scale);
  if (!s) s = train_keep(trainer, "loss_scale.", "steady", trainer->steady);
  if (!s) s = train_keep(trainer, "loss_scale.", "skipped", trainer->skipped);
  return s;
}

static compute_status build(compute_trainer *trainer, compute_device *const *devices) {
  compute_status s = train_replicas_create(trainer, devices);
  if (s == COMPUTE_OK && trainer->options.accumulate > 1) s = create_sums(trainer);
  if (s == COMPUTE_OK && trainer->options.precision == COMPUTE_F16)
    s = create_scale_counters(trainer);
  return s ? s : train_plans_create(trainer);
}

compute_status compute_trainer_create(compute_context *context,
                                      const compute_trainer_options *options,
                                      compute_trainer **trainer) {
  if (trainer != NULL) *trainer = NULL;
  if (context == NULL || options == NULL || trainer == NULL)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, HERE, HERE ": %s is NULL",
                     context == NULL   ? "context"
                     : options == NULL ? "options"
                                       : "trainer");
  compute_trainer_options o = *options;
  compute_status s = train_check_options(context, &o);
  if (s) return s;
  compute_trainer *made = base_allocate(1, sizeof *made);
  if (made == NULL)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE, HERE ": no memory for a trainer");
  compute_device *usual = compute_default_device(context);
  compute_device *const *devices = o.device_count > 0 ? o.devices : &usual;
  made->context = context;
  made->options = o;
  made->options.devices = NULL;
  made->replica_count = o.device_count > 0 ? o.device_count : 1;
  count_weights(made);
  s = build(made, devices);
  if (s) {
    compute_error error;
    compute_error_get(context, &error);
    compute_trainer_release(made);
    error_restore(context, &error);
    return s;
  }
  *trainer = made;
  return COMPUTE_OK;
}

void compute_trainer_release(compute_trainer *trainer) {
  if (trainer == NULL) return;
  train_replicas_release(trainer);
  train_plan_release(&trainer->add);
  train_plan_release(&trainer->update);
  for (size_t i = 0; i < TRAIN_INFERENCES; i++) train_plan_release(&trainer->inferences[i]);
  for (size_t i = 0; trainer->sums != NULL && i < trainer->weight_count; i++)
    compute_tensor_release(trainer->sums[i]);
  base_release(trainer->sums);
  for (size_t i = 0; i < trainer->state_count; i++) {
    base_release(trainer->states[i].name);
    compute_tensor_release(trainer->states[i].tensor);
  }
  base_release(trainer->states);
  compute_tensor_release(trainer->steady);
  compute_tensor_release(trainer->skipped);
  base_release(trainer);
}

/* ---- Asking -------------------------------------------------------------------------------- */

/* What a step on the first device takes: all tensors that live from step to step, what a batch is
 * bound to, and what the larger of its plans needs besides. */
static compute_status measure_memory(const compute_trainer *trainer, compute_trainer_info *info) {
  const train_replica *replica = &trainer->replicas[0];
  const bool alone = trainer->replica_count == 1;
  const train_plan *plan = alone ? &trainer->update : &replica->gradients;
  compute_plan_info p;
  compute_status s = compute_plan_describe(plan->plan, &p);
  if (s) return s;
  info->activation_bytes = p.arena_bytes;
  info->peak_bytes = p.arena_bytes + p.constant_bytes;
  for (size_t i = 0; i < trainer->tensor_count; i++)
    info->peak_bytes += tensor_dense_bytes(replica->tensors[i]);
  for (size_t i = 0; i < trainer->state_count; i++)
    info->peak_bytes += tensor_dense_bytes(trainer->states[i].tensor);
  if (replica->flat != NULL) info->peak_bytes += tensor_dense_bytes(replica->flat);
  const compute_batch_port *ports[2] = {&trainer->options.input, &trainer->options.target};
  for (int i = 0; i < 2; i++) {
    int64_t count = 1;
    s = compute_shape_count(ports[i]->item, &count);
    info->peak_bytes +=
        (uint64_t)count * (uint64_t)replica->items * compute_dtype_size(ports[i]->dtype);
  }
  return s;
}

compute_status compute_trainer_query(const compute_trainer *trainer, compute_trainer_info *info) {
  static const char operation[] = "compute_trainer_query";
  if (trainer == NULL || info == NULL)
    return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s: %s is NULL", operation, trainer ? "info" : "trainer");
  *info = (compute_trainer_info){.steps = trainer->updates, .loss_scale = 1};
  info->learning_rate =
      train_rate(&trainer->options.schedule, trainer->options.optimizer.learning_rate,
                 trainer->updates, trainer->schedule_end);
  compute_status s = COMPUTE_OK;
  if (trainer->skipped != NULL) {
    int64_t skipped = 0;
    s = compute_queue_wait(trainer->replicas[0].queue);
    if (s == COMPUTE_OK) s = train_read_integer(trainer->skipped, &skipped);
    if (s == COMPUTE_OK) s = train_read_number(trainer->replicas[0].scale, &info->loss_scale);
    info->steps -= skipped;
  }
  return s ? s : measure_memory(trainer, info);
}
