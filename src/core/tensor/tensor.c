/* SPDX-License-Identifier: MIT */
/* Tensors: creation, wrapping, references, properties. Views, copies and fills are in separate
 * files. */
#include "core/tensor/tensor.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

object_kind tensor_object = {.name = "tensor", .plural = "tensors"};

/* ---- Checks -------------------------------------------------------------------------------- */

static compute_status check_kind(const compute_context *context, const char *operation,
                                 compute_dtype dtype, compute_shape shape, int64_t *bytes) {
  if (!dtype_is_valid(dtype)) {
    return error_set(context, COMPUTE_ERROR_DTYPE, operation, "invalid dtype %d", (int)dtype);
  }
  int64_t count;
  char text[192];
  compute_status status = shape_validate(shape, &count);
  if (status) {
    return error_set(context, status, operation, "invalid shape %s: %s",
                     compute_shape_text(shape, text, sizeof text), shape_problem(shape, status));
  }
  if (!checked_multiply(count, (int64_t)compute_dtype_size(dtype), bytes)) {
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                     "the bytes of %s elements %s exceed 63 bits",
                     compute_shape_text(shape, text, sizeof text), compute_dtype_name(dtype));
  }
  return COMPUTE_OK;
}

/* Clears *tensor, so that a caller who ignores the status does not use its old value. */
static compute_status check_call(const compute_device *device, const char *operation,
                                 compute_tensor **tensor) {
  if (tensor) *tensor = NULL;
  if (!device) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
  }
  if (!tensor) {
    return error_set(device->context, COMPUTE_ERROR_NULL_POINTER, operation, "tensor is NULL");
  }
  return COMPUTE_OK;
}

/* ---- Creation ------------------------------------------------------------------------------ */

static compute_tensor *new_tensor(compute_context *context, const char *operation,
                                  compute_dtype dtype, compute_shape shape) {
  compute_tensor *tensor = base_allocate(1, sizeof *tensor);
  if (!tensor) {
    error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
              "not enough host memory for a tensor's record");
    return NULL;
  }
  atomic_init(&tensor->references, 1);
  tensor->dtype = dtype;
  tensor->shape = shape_normalize(shape);
  return tensor;
}

static compute_status create_dense(compute_device *device, const char *operation,
                                   compute_dtype dtype, compute_shape shape,
                                   compute_tensor **result) {
  int64_t bytes = 0;
  compute_status status = check_kind(device->context, operation, dtype, shape, &bytes);
  if (status) return status;
  compute_tensor *tensor = new_tensor(device->context, operation, dtype, shape);
  if (!tensor) return COMPUTE_ERROR_OUT_OF_MEMORY;
  shape_dense_strides(tensor->shape, tensor->strides);
  status = buffer_create(device, (uint64_t)bytes, &tensor->buffer);
  if (status) {
    error_attribute(device->context, operation);
    base_release(tensor);
    return status;
  }
  context_object_created(device->context, &tensor_object, tensor);
  *result = tensor;
  return COMPUTE_OK;
}

compute_status tensor_create_private(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, compute_tensor **tensor) {
  return create_dense(device, ERROR_BACKEND, dtype, shape, tensor);
}

compute_status tensor_create_over(memory_buffer *buffer, compute_dtype dtype, compute_shape shape,
                                  compute_tensor **result) {
  compute_context *context = buffer->device->context;
  compute_tensor *tensor = new_tensor(context, ERROR_BACKEND, dtype, shape);
  if (!tensor) return COMPUTE_ERROR_OUT_OF_MEMORY;
  shape_dense_strides(tensor->shape, tensor->strides);
  tensor->buffer = buffer_retain(buffer);
  context_object_created(context, &tensor_object, tensor);
  *result = tensor;
  return COMPUTE_OK;
}

compute_status compute_tensor_create(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, compute_tensor **tensor) {
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_tensor_create";
  compute_status status = check_call(device, operation, tensor);
  if (!status) status = create_dense(device, operation, dtype, shape, tensor);
  return status ? status : scope_register(*tensor);
}

compute_status compute_tensor_from_host(compute_device *device, compute_dtype dtype,
                                        compute_shape shape, const void *data,
                                        compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_tensor_from_host";
  compute_status status = check_call(device, operation, tensor);
  if (status) return status;
  compute_tensor *made;
  status = create_dense(device, operation, dtype, shape, &made);
  if (status) return status;
  uint64_t bytes = tensor_dense_bytes(made);
  compute_argument target = tensor_argument(made);
  if (bytes > 0 && !data) {
    status = error_set(device->context, COMPUTE_ERROR_NULL_POINTER, operation, "data is NULL");
  } else {
    status = transfer_upload(device, &target, data, bytes);
  }
  if (status) {
    error_attribute(device->context, operation);
    compute_tensor_release(made);
    return status;
  }
  *tensor = made;
  return scope_register(made);
}

/* ---- Wrapped memory ------------------------------------------------------------------------ */

/* Checks the strides. Counts the elements from the first element to the end of the last one. */
static compute_status measure_strides(const compute_context *context, const char *operation,
                                      compute_shape shape, const int64_t *strides,
                                      int64_t *elements) {
  int64_t span = shape_count(shape) > 0 ? 1 : 0;
  for (int32_t i = 0; i < shape.rank; i++) {
    if (strides[i] < 0) {
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "stride %" PRId64 " of axis %d is negative", strides[i], (int)i);
    }
    int64_t reach;
    if (span > 0 && (!checked_multiply(shape.size[i] - 1, strides[i], &reach) ||
                     !checked_add(span, reach, &span))) {
      char text[192];
      return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                       "axis %d of %s with stride %" PRId64 " exceeds 63 bits", (int)i,
                       compute_shape_text(shape, text, sizeof text), strides[i]);
    }
  }
  *elements = span;
  return COMPUTE_OK;
}

/* `true` if no two elements share an address. In ascending order, each stride must exceed the
 * extent of the smaller ones. Other strides may still be disjoint, but count as overlapping. */
static bool strides_are_disjoint(compute_shape shape, const int64_t *strides) {
  bool used[COMPUTE_MAX_RANK] = {false};
  int64_t reach = 1;
  for (;;) {
    int32_t next = -1;
    for (int32_t i = 0; i < shape.rank; i++) {
      if (used[i] || shape.size[i] <= 1) continue;
      if (next < 0 || strides[i] < strides[next]) next = i;
    }
    if (next < 0) return true;
    if (strides[next] < reach) return false;
    reach += strides[next] * (shape.size[next] - 1);
    used[next] = true;
  }
}

/* For a device with handles, `data` is a handle: a pointer with sufficient alignment. */
static compute_status check_data(const compute_context *context, const char *operation,
                                 const tensor_layout *layout, const compute_foreign_memory *memory,
                                 int64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  if (!memory->data) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "data is NULL");
  }
  const size_t size = compute_dtype_size(layout->dtype);
  const uintptr_t address = (uintptr_t)memory->data;
  if (!layout->unaligned && (address + memory->byte_offset) % size != 0) {
    return error_set_native(
        context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation, "use a copy that is aligned",
        "data is not aligned to the %zu bytes of %s", size, compute_dtype_name(layout->dtype));
  }
  if ((uint64_t)bytes > UINTPTR_MAX - address) {
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                     "%" PRId64 " bytes from data on exceed the address space", bytes);
  }
  return COMPUTE_OK;
}

/* Computes the bytes from memory->data to the end of the last element; 0 for an empty tensor. */
static compute_status measure_bytes(const compute_context *context, const char *operation,
                                    const tensor_layout *layout, const int64_t *strides,
                                    uint64_t offset, int64_t *bytes) {
  int64_t elements = 0;
  compute_status status = measure_strides(context, operation, layout->shape, strides, &elements);
  if (status) return status;
  *bytes = 0;
  if (elements > 0 &&
      (offset > INT64_MAX ||
       !checked_multiply(elements, (int64_t)compute_dtype_size(layout->dtype), bytes) ||
       !checked_add(*bytes, (int64_t)offset, bytes))) {
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                     "%" PRId64 " elements %s exceed 63 bits of bytes", elements,
                     compute_dtype_name(layout->dtype));
  }
  return COMPUTE_OK;
}

compute_status tensor_wrap(compute_device *device, const char *operation,
                           const tensor_layout *layout, const compute_foreign_memory *memory,
                           compute_release_function release, void *user, compute_tensor **tensor) {
  compute_context *context = device->context;
  int64_t bytes, strides[COMPUTE_MAX_RANK];
  compute_status status = check_kind(context, operation, layout->dtype, layout->shape, &bytes);
  if (status) return status;
  shape_dense_strides(layout->shape, strides);
  if (layout->strides) {
    memcpy(strides, layout->strides, (size_t)layout->shape.rank * sizeof *strides);
  }
  status = measure_bytes(context, operation, layout, strides, memory->byte_offset, &bytes);
  if (!status) status = check_data(context, operation, layout, memory, bytes);
  if (status) return status;
  compute_tensor *made = new_tensor(context, operation, layout->dtype, layout->shape);
  if (!made) return COMPUTE_ERROR_OUT_OF_MEMORY;
  memcpy(made->strides, strides, sizeof strides);
  made->offset = bytes > 0 ? (int64_t)memory->byte_offset : 0;
  made->read_only =
      layout->read_only || (bytes > 0 && !strides_are_disjoint(layout->shape, strides));
  status = buffer_wrap(device, memory, (uint64_t)bytes, release, user, &made->buffer);
  if (status) {
    error_attribute(context, operation);
    base_release(made);
    return status;
  }
  context_object_created(context, &tensor_object, made);
  *tensor = made;
  return scope_register(made);
}

static compute_status wrap(compute_device *device, const tensor_layout *layout, void *data,
                           compute_release_function release, void *user, compute_tensor **tensor) {
  static const char operation[] = "compute_tensor_wrap";
  const compute_foreign_memory memory = {.device_type = FOREIGN_CPU, .data = data};
  const compute_status status = check_call(device, operation, tensor);
  return status ? status : tensor_wrap(device, operation, layout, &memory, release, user, tensor);
}

compute_status compute_tensor_wrap(compute_device *device, compute_dtype dtype, compute_shape shape,
                                   const int64_t *strides, void *data,
                                   compute_release_function release, void *user,
                                   compute_tensor **tensor) {
  REFUSE_INHERITED(device, context);
  return wrap(device, &(tensor_layout){dtype, shape, .strides = strides}, data, release, user,
              tensor);
}

compute_status tensor_wrap_unaligned(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, void *data,
                                     compute_release_function release, void *user,
                                     compute_tensor **tensor) {
  return wrap(device, &(tensor_layout){dtype, shape, .unaligned = true}, data, release, user,
              tensor);
}

void tensor_align(compute_tensor *tensor, void *data) {
  tensor->buffer->memory.host = data;
}

/* ---- References ---------------------------------------------------------------------------- */

compute_tensor *compute_tensor_retain(compute_tensor *tensor) {
  if (tensor) atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
  return tensor;
}

void compute_tensor_release(compute_tensor *tensor) {
  if (IS_INHERITED(tensor, buffer->device->context)) return;
  if (!tensor || atomic_fetch_sub_explicit(&tensor->references, 1, memory_order_acq_rel) > 1)
    return;
  compute_context *context = tensor->buffer->device->context;
  scope_forget(tensor);
  context_object_leaves(context, tensor);
  buffer_release(tensor->buffer);
  base_release(tensor);
  context_object_released(context, &tensor_object);
}

/* ---- Facts --------------------------------------------------------------------------------- */

compute_device *compute_tensor_device(const compute_tensor *tensor) {
  return tensor ? tensor->buffer->device : NULL;
}

compute_dtype compute_tensor_dtype(const compute_tensor *tensor) {
  return tensor ? tensor->dtype : COMPUTE_DTYPE_NONE;
}

compute_shape compute_tensor_shape(const compute_tensor *tensor) {
  return tensor ? tensor->shape : COMPUTE_SCALAR;
}

int64_t compute_tensor_count(const compute_tensor *tensor) {
  return tensor ? shape_count(tensor->shape) : 0;
}

int64_t compute_tensor_stride(const compute_tensor *tensor, int32_t axis) {
  if (!tensor) return 0;
  axis = shape_axis(tensor->shape.rank, axis);
  return axis < 0 ? 0 : tensor->strides[axis];
}

void compute_tensor_freeze(compute_tensor *tensor) {
  if (IS_INHERITED(tensor, buffer->device->context)) return;
  if (tensor) buffer_freeze(tensor->buffer);
}

bool compute_tensor_is_frozen(const compute_tensor *tensor) {
  return tensor && buffer_is_frozen(tensor->buffer);
}

bool compute_tensor_is_dense(const compute_tensor *tensor) {
  return tensor && shape_is_dense(tensor->shape, tensor->strides);
}

void *compute_tensor_data(const compute_tensor *tensor) {
  if (!tensor || !tensor->buffer->memory.host) return NULL;
  return (char *)tensor->buffer->memory.host + tensor->offset;
}

compute_argument tensor_argument(const compute_tensor *tensor) {
  return (compute_argument){&tensor->buffer->memory, (uint64_t)tensor->offset};
}

uint64_t tensor_span_bytes(const compute_tensor *tensor) {
  int64_t last = 0;
  for (int32_t i = 0; i < tensor->shape.rank; i++) {
    if (tensor->shape.size[i] == 0) return 0;
    last += (tensor->shape.size[i] - 1) * tensor->strides[i];
  }
  return (uint64_t)(last + 1) * compute_dtype_size(tensor->dtype);
}

uint64_t tensor_dense_bytes(const compute_tensor *tensor) {
  return (uint64_t)shape_count(tensor->shape) * compute_dtype_size(tensor->dtype);
}
