/* SPDX-License-Identifier: MIT */
/* The model's weights as tensors, in place if the device and the alignment allow it. Protocol
 * Buffers align nothing, so weights in the file often have addresses that are invalid for their
 * type. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/tensor/tensor.h"
#include "model/file/decode.h"
#include "model/model.h"
#include "plan/compile/plan.h"

void storage_release(void *user, void *data) {
  (void)data;
  model_storage *storage = user;
  if (atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) > 1) return;
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

/* Keeps a quarter of the hash table free. */
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
  if (external_place_of(file, tensor->data) == EXTERNAL_MAPPED)
    external_forget(tensor->data, bytes);
  ((onnx_tensor *)(uintptr_t)tensor)->aligned =
      aligned; /* the file is the model's, so it may change */
  return aligned;
}

static compute_status weight_no_memory(const compute_model *model, const char *operation) {
  return error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

static bool is_unaligned(const onnx_tensor *tensor) {
  return (uintptr_t)tensor->data % compute_dtype_size(onnx_dtype(tensor->type)) != 0;
}

/* Plans prepack weights with at least this many elements, from any alignment. If a plan does
 * not, weights_align copies them. */
enum { LEAST_PACKED = 4096 };

static compute_status wrap_unaligned(compute_model *model, const onnx_tensor *tensor,
                                     compute_tensor **result) {
  atomic_fetch_add_explicit(&model->storage->references, 1, memory_order_relaxed);
  const compute_status status = tensor_wrap_unaligned(
      model_device(model), onnx_dtype(tensor->type), tensor->shape, (void *)(uintptr_t)tensor->data,
      storage_release, model->storage, result);
  if (status) atomic_fetch_sub_explicit(&model->storage->references, 1, memory_order_relaxed);
  return status;
}

static compute_status make_tensor(compute_model *model, const char *operation,
                                  const onnx_tensor *tensor, compute_tensor **result) {
  compute_device *device = model_device(model);
  const compute_dtype dtype = onnx_dtype(tensor->type);
  if (tensor->count == 0) return compute_tensor_create(device, dtype, tensor->shape, result);
  const bool packs = device == model->context->cpu && !model->exposed;
  if (packs && is_unaligned(tensor) && tensor->count >= LEAST_PACKED && !tensor->aligned)
    return wrap_unaligned(model, tensor, result);
  void *data = (void *)(uintptr_t)weight_elements(model, tensor);
  if (!data) return weight_no_memory(model, operation);
  /* the caller's memory must not be changed by training */
  const bool ours = data == tensor->aligned || !tensor->in_file ||
                    external_place_of(&model->storage->file, tensor->data) != EXTERNAL_NONE;
  if (device == model->context->cpu && ours) {
    atomic_fetch_add_explicit(&model->storage->references, 1, memory_order_relaxed);
    if (!compute_tensor_wrap(device, dtype, tensor->shape, NULL, data, storage_release,
                             model->storage, result))
      return COMPUTE_OK;
    atomic_fetch_sub_explicit(&model->storage->references, 1, memory_order_relaxed);
  }
  return compute_tensor_from_host(device, dtype, tensor->shape, data, result);
}

/* ---- Weights that plans read directly ------------------------------------------------------ */

typedef struct plan_read {
  const compute_tensor *tensor;
  bool direct;
} plan_read;

static int by_tensor(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const plan_read *)a)->tensor;
  const uintptr_t y = (uintptr_t)((const plan_read *)b)->tensor;
  return x < y ? -1 : x > y;
}

/* The plan's parameters sorted by address, and which of them it reads directly; NULL if out of
 * memory. */
static plan_read *list_reads(const compute_plan *plan) {
  plan_read *reads = base_allocate(plan->parameter_count, sizeof *reads);
  bool *direct = base_allocate(plan->parameter_count, sizeof *direct);
  if (reads && direct) {
    plan_find_direct(plan, direct);
    for (uint32_t i = 0; i < plan->parameter_count; i++)
      reads[i] = (plan_read){plan->parameters[i], direct[i]};
    qsort(reads, plan->parameter_count, sizeof *reads, by_tensor);
  } else {
    base_release(reads);
    reads = NULL;
  }
  base_release(direct);
  return reads;
}

static compute_status align(compute_model *model, const char *operation,
                            const weight_entry *entry) {
  if (!is_unaligned(entry->tensor) || compute_tensor_data(entry->on_device) != entry->tensor->data)
    return COMPUTE_OK;
  const void *data = weight_elements(model, entry->tensor);
  if (!data) return weight_no_memory(model, operation);
  entry->on_device->buffer->on_packed = NULL;
  tensor_align(entry->on_device, (void *)(uintptr_t)data);
  return COMPUTE_OK;
}

compute_status weights_align(model_recorder *recorder, const compute_plan *plan) {
  compute_model *model = recorder->model;
  if (plan->parameter_count == 0) return COMPUTE_OK;
  plan_read *reads = list_reads(plan);
  if (!reads) return weight_no_memory(model, recorder->operation);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < recorder->weights.count; i++) {
    const onnx_tensor *tensor = (const onnx_tensor *)(intptr_t)recorder->weights.slots[i].id;
    weight_entry *entry = &model->weights[place_of(model->weights, model->weight_capacity, tensor)];
    const plan_read *read = bsearch(&(plan_read){entry->on_device, false}, reads,
                                    plan->parameter_count, sizeof *reads, by_tensor);
    if (read && read->direct) status = align(model, recorder->operation, entry);
  }
  base_release(reads);
  return status;
}

/* Drops pages of the file; a later access reads them again. */
static void give_back(void *data, uint64_t bytes) {
  external_forget(data, (size_t)bytes);
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
  if (external_place_of(&model->storage->file, tensor->data) == EXTERNAL_MAPPED &&
      compute_tensor_data(made) == tensor->data)
    made->buffer->on_packed = give_back;
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
