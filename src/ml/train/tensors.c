/* SPDX-License-Identifier: MIT */
/* The tensors of a trainer: creation, listing and reading. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";

compute_status train_tensor(compute_device *device, compute_dtype dtype, compute_shape shape,
                            double value, compute_tensor **tensor) {
  compute_status status = tensor_create_private(device, dtype, shape, tensor);
  if (status) return status;
  const size_t size = compute_dtype_size(dtype), count = (size_t)compute_tensor_count(*tensor);
  uint8_t *elements = base_allocate(count, size);
  if (!elements) {
    status = error_set(compute_device_context(device), COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory for a tensor of %zu elements", count);
  } else {
    for (size_t i = 0; value != 0 && i < count; i++) dtype_store(dtype, elements + i * size, value);
    status = compute_tensor_write(*tensor, elements, count * size);
  }
  base_release(elements);
  if (status) {
    compute_tensor_release(*tensor);
    *tensor = NULL;
  }
  return status;
}

compute_status train_view(compute_tensor *tensor, int64_t first, int64_t count,
                          compute_tensor **view) {
  compute_tensor *flat = NULL;
  compute_status status = compute_tensor_reshape_view(tensor, COMPUTE_SHAPE(-1), &flat);
  if (!status) status = compute_tensor_slice_view(flat, 0, first, count, 1, view);
  if (!status) scope_forget(*view);
  compute_tensor_release(flat);
  return status;
}

compute_status train_keep(compute_trainer *trainer, const char *prefix, const char *name,
                          compute_tensor *tensor) {
  const size_t bytes = strlen(prefix) + strlen(name) + 1;
  char *text = base_allocate(bytes, 1);
  void *states = trainer->states;
  const int grown = base_grow(&states, &trainer->state_capacity, trainer->state_count + 1,
                              sizeof *trainer->states);
  trainer->states = states;
  if (!text || grown != 0) {
    base_release(text);
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the list of tensors");
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

compute_status train_read_number(const compute_tensor *tensor, double *value) {
  double element = 0; /* a double is aligned for every dtype */
  const compute_dtype dtype = compute_tensor_dtype(tensor);
  const compute_status status = compute_tensor_read(tensor, &element, compute_dtype_size(dtype));
  *value = status ? 0 : dtype_load(dtype, &element);
  return status;
}

compute_status train_read_integer(const compute_tensor *tensor, int64_t *value) {
  *value = 0;
  return compute_tensor_read(tensor, value, sizeof *value);
}
