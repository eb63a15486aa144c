/* The devices of a trainer, and what each keeps of the model.
 *
 * The first device works on the model's own tensors if they lie there. Every other device has
 * copies, which are brought up to date at the beginning of a step, so that a change which the
 * caller makes between two steps counts as well. With several devices the first one has copies of
 * the running statistics too: a step that fails elsewhere then leaves those of the model alone. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/device.h"
#include "device/buffer.h"
#include "type/dtype.h"
#include "tensor/tensor.h"
#include "train/trainer.h"

#define HERE "compute_trainer_create"

/* ---- Tensors ------------------------------------------------------------------------------- */

compute_status train_tensor(compute_device *device, compute_dtype dtype, compute_shape shape,
                            double value, compute_tensor **tensor) {
  compute_status s = tensor_create_private(device, dtype, shape, tensor);
  if (s) return s;
  const size_t size = compute_dtype_size(dtype), count = (size_t)compute_tensor_count(*tensor);
  uint8_t *elements = base_allocate(count, size);
  if (elements == NULL) {
    s = error_set(compute_device_context(device), COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                  HERE ": no memory for a tensor of %zu elements", count);
  } else {
    for (size_t i = 0; value != 0 && i < count; i++) dtype_store(dtype, elements + i * size, value);
    s = compute_tensor_write(*tensor, elements, count * size);
  }
  base_release(elements);
  if (s) {
    compute_tensor_release(*tensor);
    *tensor = NULL;
  }
  return s;
}

compute_status train_keep(compute_trainer *trainer, const char *prefix, const char *name,
                          compute_tensor *tensor) {
  const size_t bytes = strlen(prefix) + strlen(name) + 1;
  char *text = base_allocate(bytes, 1);
  void *states = trainer->states;
  const int grown = base_grow(&states, &trainer->state_capacity, trainer->state_count + 1,
                              sizeof *trainer->states);
  trainer->states = states;
  if (text == NULL || grown != 0) {
    base_release(text);
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                     HERE ": no memory for the list of tensors");
  }
  strcat(strcpy(text, prefix), name);
  trainer->states[trainer->state_count++] =
      (train_state){.name = text, .tensor = compute_tensor_retain(tensor)};
  return COMPUTE_OK;
}

compute_tensor *train_model_tensor(const compute_trainer *trainer, size_t index) {
  compute_layer_parameter p;
  return compute_layer_parameter_at(trainer->options.model, index, &p) ? NULL : p.tensor;
}

/* ---- Making -------------------------------------------------------------------------------- */

/* What the replica uses for a tensor of the model: that itself, or a copy. */
static compute_status take_tensor(const compute_trainer *trainer, train_replica *replica,
                                  size_t index) {
  compute_layer_parameter p;
  compute_status s = compute_layer_parameter_at(trainer->options.model, index, &p);
  if (s) return s;
  const bool first = replica == trainer->replicas;
  const bool shared = first && compute_tensor_device(p.tensor) == replica->device &&
                      (p.trainable || trainer->replica_count == 1);
  if (shared) {
    replica->tensors[index] = compute_tensor_retain(p.tensor);
    return COMPUTE_OK;
  }
  s = tensor_create_private(replica->device, compute_tensor_dtype(p.tensor),
                            compute_tensor_shape(p.tensor), &replica->tensors[index]);
  return s ? s : compute_tensor_copy(replica->tensors[index], p.tensor);
}

/* The small tensors of a slot; inputs and targets come when they are needed. */
static compute_status create_slot(const compute_trainer *trainer, const train_replica *replica,
                                  train_slot *slot) {
  compute_device *device = replica->device;
  compute_status s = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &slot->seed);
  if (!s) s = train_tensor(device, trainer->dtype, COMPUTE_SCALAR, 0, &slot->rate);
  if (!s) s = train_tensor(device, trainer->dtype, COMPUTE_SCALAR, 0, &slot->loss);
  if (!s) s = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &slot->correct);
  return s;
}

static compute_status create_replica(compute_trainer *trainer, train_replica *replica) {
  replica->host = replica->device == trainer->context->cpu;
  replica->tensors = base_allocate(trainer->tensor_count, sizeof *replica->tensors);
  if (replica->tensors == NULL)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                     HERE ": no memory for a replica of %zu tensors", trainer->tensor_count);
  compute_status s = compute_queue_create(replica->device, &replica->queue);
  for (size_t i = 0; s == COMPUTE_OK && i < trainer->tensor_count; i++)
    s = take_tensor(trainer, replica, i);
  const size_t slots = trainer->replica_count == 1 ? TRAIN_SLOTS : 1;
  for (size_t i = 0; s == COMPUTE_OK && i < slots; i++)
    s = create_slot(trainer, replica, &replica->slots[i]);
  if (s == COMPUTE_OK && trainer->options.precision == COMPUTE_F16)
    s = train_tensor(replica->device, COMPUTE_F32, COMPUTE_SCALAR, 65536, &replica->scale);
  if (s == COMPUTE_OK && trainer->replica_count > 1)
    s = tensor_create_private(replica->device, trainer->dtype,
                              COMPUTE_SHAPE(trainer->weight_elements), &replica->flat);
  return s;
}

compute_status train_replicas_create(compute_trainer *trainer, compute_device *const *devices) {
  const int64_t count = (int64_t)trainer->replica_count, batch = trainer->options.batch;
  trainer->replicas = base_allocate(trainer->replica_count, sizeof *trainer->replicas);
  if (trainer->replicas == NULL)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                     HERE ": no memory for %zu replicas", trainer->replica_count);
  compute_status s = COMPUTE_OK;
  const int64_t share = batch / count, more = batch % count;
  int64_t first = 0;
  for (int64_t k = 0; s == COMPUTE_OK && k < count; k++) {
    train_replica *replica = &trainer->replicas[k];
    replica->device = devices[k];
    replica->first = first;
    replica->items = share + (k < more);
    first += replica->items;
    s = create_replica(trainer, replica);
  }
  return s;
}

/* ---- Copies -------------------------------------------------------------------------------- */

compute_status train_spread(const compute_trainer *trainer) {
  compute_status s = COMPUTE_OK;
  for (size_t k = 0; s == COMPUTE_OK && k < trainer->replica_count; k++) {
    const train_replica *replica = &trainer->replicas[k];
    for (size_t i = 0; s == COMPUTE_OK && i < trainer->tensor_count; i++) {
      compute_tensor *model = train_model_tensor(trainer, i);
      if (replica->tensors[i] != model) s = compute_tensor_copy(replica->tensors[i], model);
    }
    if (s == COMPUTE_OK && k > 0 && replica->scale != NULL)
      s = compute_tensor_copy(replica->scale, trainer->replicas[0].scale);
  }
  return s;
}

compute_status train_collect(const compute_trainer *trainer) {
  const train_replica *replica = &trainer->replicas[0];
  compute_status s = COMPUTE_OK;
  for (size_t i = 0; s == COMPUTE_OK && i < trainer->tensor_count; i++) {
    compute_tensor *model = train_model_tensor(trainer, i);
    if (replica->tensors[i] != model) s = compute_tensor_copy(model, replica->tensors[i]);
  }
  return s;
}

/* ---- Freeing ------------------------------------------------------------------------------- */

static void release_slot(train_slot *slot) {
  if (slot->event != NULL) compute_event_release(slot->event);
  compute_tensor_release(slot->x);
  compute_tensor_release(slot->target);
  compute_tensor_release(slot->seed);
  compute_tensor_release(slot->rate);
  compute_tensor_release(slot->loss);
  compute_tensor_release(slot->correct);
}

void train_replicas_release(compute_trainer *trainer) {
  for (size_t k = 0; trainer->replicas != NULL && k < trainer->replica_count; k++) {
    train_replica *replica = &trainer->replicas[k];
    compute_queue_release(replica->queue); /* waits */
    train_plan_release(&replica->gradients);
    for (size_t i = 0; i < TRAIN_SLOTS; i++) release_slot(&replica->slots[i]);
    for (size_t i = 0; replica->tensors != NULL && i < trainer->tensor_count; i++)
      compute_tensor_release(replica->tensors[i]);
    base_release(replica->tensors);
    compute_tensor_release(replica->scale);
    compute_tensor_release(replica->flat);
  }
  base_release(trainer->replicas);
}
