/* SPDX-License-Identifier: MIT */
/* The weights of a model as tensors: where they lie in the file, if the device and their place in
 * it allow that. A message of Protocol Buffers aligns nothing, so that weights within it often lie
 * at addresses that their type must not be read from. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "model/decode.h"
#include "model/model.h"

void storage_release(void *user, void *data) {
  (void)data;
  model_storage *storage = user;
  if (__atomic_sub_fetch(&storage->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  onnx_release(&storage->file);
  base_release(storage);
}

compute_device *model_device(const compute_model *model) {
  if (model->options.device) return model->options.device;
  const bool automatic = (model->options.flags & COMPUTE_PLAN_AUTO) || model->context->automatic;
  return automatic && model->context->cpu ? model->context->cpu
                                          : compute_default_device(model->context);
}

static size_t place_of(const weight_entry *entries, size_t capacity, const onnx_tensor *tensor) {
  size_t at = (size_t)hash_u64(HASH_SEED, (uintptr_t)tensor) & (capacity - 1);
  while (entries[at].tensor && entries[at].tensor != tensor) at = (at + 1) & (capacity - 1);
  return at;
}

/* Keeps a quarter of the table free. */
static bool make_room(compute_model *model) {
  if (4 * (model->weight_count + 1) <= 3 * model->weight_capacity) return true;
  const size_t capacity = model->weight_capacity ? 2 * model->weight_capacity : 64;
  weight_entry *entries = base_allocate(capacity, sizeof *entries);
  if (!entries) return false;
  for (size_t i = 0; i < model->weight_capacity; i++)
    if (model->weights[i].tensor)
      entries[place_of(entries, capacity, model->weights[i].tensor)] = model->weights[i];
  base_release(model->weights);
  model->weights = entries;
  model->weight_capacity = capacity;
  return true;
}

const void *weight_elements(compute_model *model, const onnx_tensor *tensor) {
  const size_t size = compute_dtype_size(onnx_dtype(tensor->type));
  const size_t bytes = (size_t)tensor->count * size;
  if ((uintptr_t)tensor->data % size == 0) return tensor->data;
  if (tensor->aligned) return tensor->aligned;
  onnx_file *file = &model->storage->file;
  void *aligned = arena_allocate(&file->arena, bytes, 1);
  if (!aligned) return NULL;
  memcpy(aligned, tensor->data, bytes);
  if (tensor->in_file && file->mapped) external_forget(tensor->data, bytes);
  ((onnx_tensor *)(uintptr_t)tensor)->aligned =
      aligned; /* it is the file's, which is the model's */
  return aligned;
}

static compute_status weight_no_memory(const compute_model *model, const char *operation) {
  return error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

static compute_status make_tensor(compute_model *model, const char *operation,
                                  const onnx_tensor *tensor, compute_tensor **result) {
  compute_device *device = model_device(model);
  const compute_dtype dtype = onnx_dtype(tensor->type);
  if (tensor->count == 0) return compute_tensor_create(device, dtype, tensor->shape, result);
  void *data = (void *)(uintptr_t)weight_elements(model, tensor);
  if (!data) return weight_no_memory(model, operation);
  /* what lies in the caller's memory must not be trained there */
  const bool ours = data == tensor->aligned || !tensor->in_file || model->storage->file.mapped;
  if (device == model->context->cpu && ours) {
    __atomic_add_fetch(&model->storage->references, 1, __ATOMIC_RELAXED);
    if (!compute_tensor_wrap(device, dtype, tensor->shape, NULL, data, storage_release,
                             model->storage, result))
      return COMPUTE_OK;
    __atomic_sub_fetch(&model->storage->references, 1, __ATOMIC_RELAXED);
  }
  return compute_tensor_from_host(device, dtype, tensor->shape, data, result);
}

weight_entry *weight_find_or_make(compute_model *model, const char *operation,
                                  const onnx_tensor *tensor) {
  if (!make_room(model)) {
    weight_no_memory(model, operation);
    return NULL;
  }
  weight_entry *entry = &model->weights[place_of(model->weights, model->weight_capacity, tensor)];
  if (entry->tensor) return entry;
  compute_tensor *made;
  if (make_tensor(model, operation, tensor, &made)) return NULL;
  if (!model->exposed) compute_tensor_freeze(made);
  *entry = (weight_entry){tensor, made, 0};
  model->weight_count++;
  return entry;
}

compute_tensor *weight_tensor(compute_model *model, const char *operation,
                              const onnx_tensor *tensor) {
  const weight_entry *entry = weight_find_or_make(model, operation, tensor);
  return entry ? entry->on_device : NULL;
}

compute_tensor *weight_find(const compute_model *model, const onnx_tensor *tensor) {
  if (!model->weight_capacity) return NULL;
  return model->weights[place_of(model->weights, model->weight_capacity, tensor)].on_device;
}

void weights_forget(compute_model *model) {
  weights_release(model);
  model->weights = NULL;
  model->weight_count = model->weight_capacity = 0;
}

void weights_release(compute_model *model) {
  for (size_t i = 0; i < model->weight_capacity; i++)
    compute_tensor_release(model->weights[i].on_device);
  base_release(model->weights);
}
