/* SPDX-License-Identifier: MIT */
/* Items: values of a model's ports that need not be one tensor. */
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/tensor.h"
#include "model/file/arena.h"
#include "model/model.h"

struct compute_model_item {
  _Atomic int64_t references;
  uint32_t kind;
  compute_tensor *tensor;
  compute_shape shape;
  const char **texts; /* in the arena */
  compute_model_item **items;
  size_t count, capacity; /* of texts or items */
  model_arena arena;
};

static compute_status no_memory(const char *operation) {
  return error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

static compute_model_item *new_item(uint32_t kind) {
  compute_model_item *item = base_allocate(1, sizeof *item);
  if (!item) return NULL;
  atomic_init(&item->references, 1);
  item->kind = kind;
  return item;
}

compute_status compute_model_item_from_tensor(compute_tensor *tensor, compute_model_item **item) {
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_model_item_from_tensor";
  const compute_status status = error_if_null(NULL, operation, tensor, item);
  if (status) return status;
  compute_model_item *made = new_item(COMPUTE_MODEL_NUMBERS);
  if (!made) return no_memory(operation);
  made->tensor = compute_tensor_retain(tensor);
  made->shape = compute_tensor_shape(tensor);
  *item = made;
  return COMPUTE_OK;
}

static bool is_utf8(const char *text) {
  for (size_t length; *text; text += length)
    if ((length = utf8_length(text)) == 0) return false;
  return true;
}

static compute_status copy_texts(compute_model_item *item, const char *operation,
                                 const char *const *texts) {
  item->texts = arena_allocate(&item->arena, item->count, sizeof *item->texts);
  if (!item->texts) return no_memory(operation);
  for (size_t i = 0; i < item->count; i++) {
    if (!texts[i])
      return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "texts[%zu] is NULL", i);
    if (!is_utf8(texts[i]))
      return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "texts[%zu] is not UTF-8",
                       i);
    item->texts[i] = arena_text(&item->arena, texts[i], strlen(texts[i]));
    if (!item->texts[i]) return no_memory(operation);
  }
  return COMPUTE_OK;
}

compute_status compute_model_item_from_texts(compute_shape shape, const char *const *texts,
                                             compute_model_item **item) {
  static const char operation[] = "compute_model_item_from_texts";
  int64_t count;
  compute_status status = error_if_null(NULL, operation, item);
  if (!status) status = compute_shape_count(shape, &count);
  if (!status && count > 0) status = error_if_null(NULL, operation, texts);
  if (status) return status;
  compute_model_item *made = new_item(COMPUTE_MODEL_TEXT);
  if (!made) return no_memory(operation);
  made->shape = shape;
  made->count = (size_t)count;
  status = copy_texts(made, operation, texts);
  if (status)
    compute_model_item_release(made);
  else
    *item = made;
  return status;
}

compute_status compute_model_item_sequence(compute_model_item **item) {
  static const char operation[] = "compute_model_item_sequence";
  const compute_status status = error_if_null(NULL, operation, item);
  if (status) return status;
  compute_model_item *made = new_item(COMPUTE_MODEL_SEQUENCE);
  if (!made) return no_memory(operation);
  *item = made;
  return COMPUTE_OK;
}

static bool add_item(compute_model_item *to, compute_model_item *item) {
  if (base_grow((void **)&to->items, &to->capacity, to->count + 1, sizeof *to->items)) return false;
  to->items[to->count++] = compute_model_item_retain(item);
  return true;
}

compute_status compute_model_item_optional(compute_model_item *held, compute_model_item **item) {
  static const char operation[] = "compute_model_item_optional";
  const compute_status status = error_if_null(NULL, operation, item);
  if (status) return status;
  if (held && held->kind & COMPUTE_MODEL_OPTIONAL)
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "an optional cannot hold an optional");
  compute_model_item *made = new_item(COMPUTE_MODEL_OPTIONAL | (held ? held->kind : 0U));
  if (!made || (held && !add_item(made, held))) {
    compute_model_item_release(made);
    return no_memory(operation);
  }
  *item = made;
  return COMPUTE_OK;
}

compute_status compute_model_item_append(compute_model_item *sequence, compute_model_item *item) {
  static const char operation[] = "compute_model_item_append";
  const compute_status status = error_if_null(NULL, operation, sequence, item);
  if (status) return status;
  if ((sequence->kind & ~(uint32_t)COMPUTE_MODEL_TEXT) != COMPUTE_MODEL_SEQUENCE)
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "it is not a sequence");
  if (item->kind > COMPUTE_MODEL_TEXT)
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "a sequence contains tensors and texts only");
  if (sequence->count > 0 && (sequence->kind & COMPUTE_MODEL_TEXT) != item->kind)
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the sequence would have tensors and texts");
  if (!add_item(sequence, item)) return no_memory(operation);
  sequence->kind |= item->kind;
  return COMPUTE_OK;
}

compute_model_item *compute_model_item_retain(compute_model_item *item) {
  if (item) atomic_fetch_add_explicit(&item->references, 1, memory_order_relaxed);
  return item;
}

/* An optional, its sequence and that one's tensors: items nest no deeper. */
void compute_model_item_release(compute_model_item *item) {
  if (!item || atomic_fetch_sub_explicit(&item->references, 1, memory_order_acq_rel) > 1) return;
  for (size_t i = 0; item->items && i < item->count; i++)
    compute_model_item_release(item->items[i]);
  compute_tensor_release(item->tensor);
  base_release(item->items);
  arena_release(&item->arena);
  base_release(item);
}

/* The sequence in an optional may have grown since. */
uint32_t compute_model_item_kind(const compute_model_item *item) {
  if (!item) return 0;
  const bool holds = item->kind & COMPUTE_MODEL_OPTIONAL && item->count > 0;
  return item->kind | (holds ? item->items[0]->kind : 0U);
}

size_t compute_model_item_count(const compute_model_item *item) {
  return item ? item->count : 0;
}

compute_model_item *compute_model_item_at(const compute_model_item *item, size_t index) {
  return item && item->items && index < item->count ? item->items[index] : NULL;
}

compute_tensor *compute_model_item_tensor(const compute_model_item *item) {
  return item ? item->tensor : NULL;
}

const char *compute_model_item_text(const compute_model_item *item, size_t index) {
  return item && item->texts && index < item->count ? item->texts[index] : NULL;
}

compute_shape compute_model_item_shape(const compute_model_item *item) {
  return item ? item->shape : COMPUTE_SCALAR;
}
