/* SPDX-License-Identifier: MIT */
/* The devices of a trainer and their copies of the model.
 *
 * The first device works on the model's own tensors if they are on this device. Every other device
 * has copies. A step updates the copies when it begins, so that the caller's changes between two
 * steps apply to them. With several devices, the first one also has copies of the running
 * statistics, so that a failure on another device does not change the model. */

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/buffer.h"
#include "core/tensor/tensor.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";

/* ---- Making -------------------------------------------------------------------------------- */

/* Sets the replica's tensor for a tensor of the model: the same tensor or a copy. */
static compute_status take_tensor(const compute_trainer *trainer, train_replica *replica,
                                  size_t index) {
  compute_layer_parameter p;
  compute_status status = compute_layer_parameter_at(trainer->options.model, index, &p);
  if (status) return status;
  const bool first = replica == trainer->replicas;
  const bool shared = first && compute_tensor_device(p.tensor) == replica->device &&
                      (p.trainable || !trainer->together);
  if (shared) {
    replica->tensors[index] = compute_tensor_retain(p.tensor);
    return COMPUTE_OK;
  }
  status = tensor_create_private(replica->device, compute_tensor_dtype(p.tensor),
                                 compute_tensor_shape(p.tensor), &replica->tensors[index]);
  return status ? status : compute_tensor_copy(replica->tensors[index], p.tensor);
}

/* Creates the small tensors of a slot. Inputs and targets are created on first use. */
static compute_status create_slot(const compute_trainer *trainer, const train_replica *replica,
                                  train_slot *slot) {
  compute_device *device = replica->device;
  compute_status status = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &slot->seed);
  if (!status) status = train_tensor(device, trainer->dtype, COMPUTE_SCALAR, 0, &slot->rate);
  if (!status) status = train_tensor(device, trainer->dtype, COMPUTE_SCALAR, 0, &slot->loss);
  if (!status) status = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &slot->correct);
  return status;
}

static compute_status create_replica(compute_trainer *trainer, train_replica *replica) {
  replica->host = replica->device == trainer->context->cpu;
  replica->tensors = base_allocate(trainer->tensor_count, sizeof *replica->tensors);
  if (!replica->tensors)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a replica of %zu tensors", trainer->tensor_count);
  compute_status status = compute_queue_create(replica->device, &replica->queue);
  for (size_t i = 0; !status && i < trainer->tensor_count; i++)
    status = take_tensor(trainer, replica, i);
  const size_t slots = trainer->together ? 1 : TRAIN_SLOTS;
  for (size_t i = 0; !status && i < slots; i++)
    status = create_slot(trainer, replica, &replica->slots[i]);
  if (!status && trainer->options.precision == COMPUTE_F16)
    status = train_tensor(replica->device, COMPUTE_F32, COMPUTE_SCALAR, 65536, &replica->scale);
  if (!status && trainer->together)
    status = tensor_create_zero(replica->device, trainer->dtype,
                                COMPUTE_SHAPE(trainer->flat_elements), &replica->flat);
  return status;
}

compute_status train_replicas_create(compute_trainer *trainer, compute_device *const *devices) {
  const int64_t count = (int64_t)trainer->replica_count, batch = trainer->items;
  trainer->replicas = base_allocate(trainer->replica_count, sizeof *trainer->replicas);
  if (!trainer->replicas)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for %zu replicas", trainer->replica_count);
  compute_status status = COMPUTE_OK;
  const int64_t share = batch / count, more = batch % count;
  int64_t first = 0;
  for (int64_t k = 0; !status && k < count; k++) {
    train_replica *replica = &trainer->replicas[k];
    replica->device = devices[k];
    replica->first = first;
    replica->items = share + (k < more);
    first += replica->items;
    status = create_replica(trainer, replica);
  }
  if (status || !trainer->group) return status;
  if (count > 1)
    return tensor_create_zero(trainer->replicas[0].device, trainer->dtype,
                              COMPUTE_SHAPE(trainer->flat_elements), &trainer->sum);
  trainer->sum = compute_tensor_retain(trainer->replicas[0].flat);
  return COMPUTE_OK;
}

/* ---- Copies -------------------------------------------------------------------------------- */

compute_status train_spread(const compute_trainer *trainer) {
  compute_status status = COMPUTE_OK;
  for (size_t k = 0; !status && k < trainer->replica_count; k++) {
    const train_replica *replica = &trainer->replicas[k];
    for (size_t i = 0; !status && i < trainer->tensor_count; i++) {
      compute_tensor *model = train_model_tensor(trainer, i);
      if (replica->tensors[i] != model) status = compute_tensor_copy(replica->tensors[i], model);
    }
    if (!status && k > 0 && replica->scale)
      status = compute_tensor_copy(replica->scale, trainer->replicas[0].scale);
  }
  return status;
}

compute_status train_collect(const compute_trainer *trainer) {
  const train_replica *replica = &trainer->replicas[0];
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < trainer->tensor_count; i++) {
    compute_tensor *model = train_model_tensor(trainer, i);
    if (replica->tensors[i] != model) status = compute_tensor_copy(model, replica->tensors[i]);
  }
  return status;
}

/* ---- Freeing ------------------------------------------------------------------------------- */

static void release_slot(train_slot *slot) {
  if (slot->event) compute_event_release(slot->event);
  compute_tensor_release(slot->x);
  compute_tensor_release(slot->target);
  compute_tensor_release(slot->seed);
  compute_tensor_release(slot->rate);
  compute_tensor_release(slot->loss);
  compute_tensor_release(slot->correct);
}

void train_replicas_release(compute_trainer *trainer) {
  for (size_t k = 0; trainer->replicas && k < trainer->replica_count; k++) {
    train_replica *replica = &trainer->replicas[k];
    compute_queue_release(replica->queue); /* waits */
    train_plan_release(&replica->gradients);
    for (size_t i = 0; i < TRAIN_SLOTS; i++) release_slot(&replica->slots[i]);
    for (size_t i = 0; replica->tensors && i < trainer->tensor_count; i++)
      compute_tensor_release(replica->tensors[i]);
    base_release(replica->tensors);
    compute_tensor_release(replica->scale);
    compute_tensor_release(replica->flat);
  }
  base_release(trainer->replicas);
  compute_tensor_release(trainer->sum);
}
