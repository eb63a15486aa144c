/* SPDX-License-Identifier: MIT */
/* Reading, writing and copying tensors.
 *
 * Transfers between host and device, and between devices, move only dense blocks. A COPY kernel on
 * the device rearranges strided tensors and converts dtypes, with a dense temporary tensor if
 * needed. If the device has no such kernel, plain loops on the host do this over the tensor's
 * memory span. */
#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/device/kernel_cache.h"
#include "core/device/transfer.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

/* ---- Rearranging on one device ------------------------------------------------------------- */

static compute_device *device_of(const compute_tensor *tensor) {
  return tensor->buffer->device;
}

static compute_context *context_of(const compute_tensor *tensor) {
  return tensor->buffer->device->context;
}

/* The memory span of a tensor for the host: in place, or as a copy. */
typedef struct host_stretch {
  void *data;
  void *copy; /* to be freed; NULL if the host addresses the device's memory directly */
} host_stretch;

static compute_status open_stretch(const compute_tensor *tensor, const char *operation, bool load,
                                   host_stretch *stretch) {
  *stretch = (host_stretch){.data = compute_tensor_data(tensor)};
  if (stretch->data) return COMPUTE_OK;
  uint64_t bytes = tensor_span_bytes(tensor);
  stretch->data = stretch->copy = base_allocate_aligned((uint64_t)bytes, 64);
  if (!stretch->copy) {
    return error_set(context_of(tensor), COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough host memory to rearrange %" PRIu64 " bytes of %s", bytes,
                     device_of(tensor)->info.name);
  }
  if (!load) return COMPUTE_OK;
  compute_argument source = tensor_argument(tensor);
  return transfer_download(device_of(tensor), stretch->copy, &source, bytes);
}

static compute_status store_stretch(const compute_tensor *tensor, const host_stretch *stretch) {
  if (!stretch->copy) return COMPUTE_OK;
  compute_argument target = tensor_argument(tensor);
  return transfer_upload(device_of(tensor), &target, stretch->copy, tensor_span_bytes(tensor));
}

static compute_status rearrange_on_host(compute_tensor *destination, const compute_tensor *source,
                                        const char *operation) {
  host_stretch to = {0}, from = {0};
  /* The bytes between strided elements must be preserved. */
  bool has_gaps = !compute_tensor_is_dense(destination);
  compute_status status = open_stretch(source, operation, true, &from);
  if (!status) status = open_stretch(destination, operation, has_gaps, &to);
  if (!status) {
    host_copy(destination->shape, &(host_array){destination->dtype, to.data, destination->strides},
              &(host_array){source->dtype, from.data, source->strides});
    status = store_stretch(destination, &to);
  }
  base_release(from.copy);
  base_release(to.copy);
  return status;
}

/* Copies between two tensors of one device that share no element. */
static compute_status rearrange(compute_tensor *destination, const compute_tensor *source,
                                const char *operation) {
  compute_device *device = device_of(destination);
  compute_argument arguments[2] = {tensor_argument(source), tensor_argument(destination)};
  if (source->dtype == destination->dtype && compute_tensor_is_dense(source) &&
      compute_tensor_is_dense(destination)) {
    return transfer_copy(device, &arguments[1], &arguments[0], tensor_dense_bytes(source));
  }
  compute_operand input = {.dtype = source->dtype}, output = {.dtype = destination->dtype};
  compute_kernel_descriptor copy = {
      .struct_size = sizeof copy,
      .kind = COMPUTE_KERNEL_COPY,
      .input_count = 1,
      .output_count = 1,
      .inputs = &input,
      .outputs = &output,
  };
  int64_t strides[2][COMPUTE_MAX_RANK];
  memcpy(strides[0], source->strides, sizeof strides[0]);
  memcpy(strides[1], destination->strides, sizeof strides[1]);
  memcpy(copy.size, source->shape.size, sizeof copy.size);
  int32_t fence = 0;
  copy.rank = shape_collapse(source->shape.rank, copy.size, strides, 2, &fence);
  memcpy(input.stride, strides[0], sizeof input.stride);
  memcpy(output.stride, strides[1], sizeof output.stride);
  char reason[128];
  const bool from_u64 = source->dtype == COMPUTE_U64 && dtype_is_float(destination->dtype);
  if (from_u64 || !kernel_is_supported(device, &copy, reason, sizeof reason)) {
    return rearrange_on_host(destination, source, operation);
  }
  compute_status status = transfer_run(device, &copy, arguments, 2);
  return status == COMPUTE_ERROR_COMPILATION ? rearrange_on_host(destination, source, operation)
                                             : status;
}

/* Returns a dense tensor with the elements of `tensor` in `dtype`, on the same device. If `tensor`
 * already is dense and has this dtype, returns it with another reference. */
static compute_status make_dense(const compute_tensor *tensor, compute_dtype dtype,
                                 const char *operation, compute_tensor **dense) {
  if (tensor->dtype == dtype && compute_tensor_is_dense(tensor)) {
    /* Only the reference count changes, which is not part of the tensor's value. */
    *dense = compute_tensor_retain((compute_tensor *)(uintptr_t)tensor);
    return COMPUTE_OK;
  }
  compute_tensor *made;
  compute_status status = tensor_create_private(device_of(tensor), dtype, tensor->shape, &made);
  if (status) return status;
  status = rearrange(made, tensor, operation);
  if (status) {
    compute_tensor_release(made);
    return status;
  }
  *dense = made;
  return COMPUTE_OK;
}

/* ---- Host ↔ tensor ------------------------------------------------------------------------- */

static compute_status check_host_copy(const compute_tensor *tensor, const char *operation,
                                      const void *data, size_t bytes) {
  if (!tensor) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "tensor is NULL");
  }
  uint64_t expected = tensor_dense_bytes(tensor);
  if (bytes != expected) {
    char text[192];
    return error_set(context_of(tensor), COMPUTE_ERROR_SHAPE, operation,
                     "%s %s has %" PRIu64 " bytes, not %zu", compute_dtype_name(tensor->dtype),
                     compute_shape_text(tensor->shape, text, sizeof text), expected, bytes);
  }
  if (!data && bytes > 0) {
    return error_set(context_of(tensor), COMPUTE_ERROR_NULL_POINTER, operation, "data is NULL");
  }
  return COMPUTE_OK;
}

compute_status tensor_check_writable(const compute_tensor *tensor, const char *operation) {
  const bool frozen = buffer_is_frozen(tensor->buffer);
  if (!tensor->read_only && !frozen) return COMPUTE_OK;
  char text[192];
  return error_set(
      context_of(tensor), COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s %s is %s read-only",
      compute_dtype_name(tensor->dtype), compute_shape_text(tensor->shape, text, sizeof text),
      frozen ? "frozen, and therefore"
             : "a broadcast view, has overlapping elements or was imported as such, and is");
}

/* Returns `status`. On failure, sets the error's operation to the public call. */
static compute_status named(compute_status status, const compute_tensor *tensor,
                            const char *operation) {
  if (status) error_attribute(context_of(tensor), operation);
  return status;
}

compute_status compute_tensor_read(const compute_tensor *tensor, void *data, size_t bytes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_read";
  compute_status status = check_host_copy(tensor, operation, data, bytes);
  if (status || bytes == 0) return status;
  compute_tensor *dense;
  status = make_dense(tensor, tensor->dtype, operation, &dense);
  if (status) return named(status, tensor, operation);
  compute_argument source = tensor_argument(dense);
  status = transfer_download(device_of(dense), data, &source, bytes);
  compute_tensor_release(dense);
  return named(status, tensor, operation);
}

compute_status compute_tensor_write(compute_tensor *tensor, const void *data, size_t bytes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_write";
  compute_status status = check_host_copy(tensor, operation, data, bytes);
  if (!status) status = tensor_check_writable(tensor, operation);
  if (status || bytes == 0) return status;
  compute_tensor *dense;
  if (compute_tensor_is_dense(tensor)) {
    dense = compute_tensor_retain(tensor);
  } else {
    status = tensor_create_private(device_of(tensor), tensor->dtype, tensor->shape, &dense);
    if (status) return named(status, tensor, operation);
  }
  compute_argument target = tensor_argument(dense);
  status = transfer_upload(device_of(dense), &target, data, bytes);
  if (!status && dense != tensor) status = rearrange(tensor, dense, operation);
  compute_tensor_release(dense);
  return named(status, tensor, operation);
}

/* ---- Tensor → tensor ----------------------------------------------------------------------- */

static compute_status check_copy(const compute_tensor *destination, const compute_tensor *source,
                                 const char *operation) {
  const compute_status missing = error_if_null(source        ? context_of(source)
                                               : destination ? context_of(destination)
                                                             : NULL,
                                               operation, destination, source);
  if (missing) return missing;
  if (context_of(destination) != context_of(source)) {
    return error_set(context_of(destination), COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "source and destination belong to different contexts");
  }
  if (!compute_shape_equal(destination->shape, source->shape)) {
    char to[192], from[192];
    return error_set(context_of(destination), COMPUTE_ERROR_SHAPE, operation,
                     "the source's shape %s differs from the destination's, %s",
                     compute_shape_text(source->shape, from, sizeof from),
                     compute_shape_text(destination->shape, to, sizeof to));
  }
  return tensor_check_writable(destination, operation);
}

/* `true` if the memory spans of the two tensors overlap. */
static bool may_overlap(const compute_tensor *a, const compute_tensor *b) {
  if (a->buffer != b->buffer) return false;
  return a->offset < b->offset + (int64_t)tensor_span_bytes(b) &&
         b->offset < a->offset + (int64_t)tensor_span_bytes(a);
}

static bool same_elements(const compute_tensor *a, const compute_tensor *b) {
  if (a->buffer != b->buffer || a->offset != b->offset || a->dtype != b->dtype) return false;
  for (int32_t i = 0; i < a->shape.rank; i++) {
    if (a->shape.size[i] > 1 && a->strides[i] != b->strides[i]) return false;
  }
  return true;
}

static compute_status copy_within(compute_tensor *destination, const compute_tensor *source,
                                  const char *operation) {
  if (same_elements(destination, source)) return COMPUTE_OK;
  if (!may_overlap(destination, source)) return rearrange(destination, source, operation);
  compute_tensor *apart;
  compute_status status =
      tensor_create_private(device_of(source), source->dtype, source->shape, &apart);
  if (status) return status;
  status = rearrange(apart, source, operation);
  if (!status) status = rearrange(destination, apart, operation);
  compute_tensor_release(apart);
  return status;
}

/* Converts on the side that minimises the transferred bytes. */
static compute_status copy_across(compute_tensor *destination, const compute_tensor *source,
                                  const char *operation) {
  bool narrow_first = compute_dtype_size(destination->dtype) < compute_dtype_size(source->dtype);
  compute_dtype dtype = narrow_first ? destination->dtype : source->dtype;
  compute_tensor *from = NULL, *to = NULL;
  compute_status status = make_dense(source, dtype, operation, &from);
  if (status) return status;
  if (destination->dtype == dtype && compute_tensor_is_dense(destination)) {
    to = compute_tensor_retain(destination);
  } else {
    status = tensor_create_private(device_of(destination), dtype, destination->shape, &to);
  }
  if (!status) {
    compute_argument target = tensor_argument(to), origin = tensor_argument(from);
    status = transfer_between(device_of(to), &target, device_of(from), &origin,
                              tensor_dense_bytes(from));
  }
  if (!status && to != destination) status = rearrange(destination, to, operation);
  compute_tensor_release(from);
  compute_tensor_release(to);
  return status;
}

static compute_status copy_any(compute_tensor *destination, const compute_tensor *source,
                               const char *operation) {
  if (compute_tensor_count(source) == 0) return COMPUTE_OK;
  return device_of(destination) == device_of(source) ? copy_within(destination, source, operation)
                                                     : copy_across(destination, source, operation);
}

compute_status compute_tensor_copy(compute_tensor *destination, const compute_tensor *source) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(destination, buffer->device->context);
  static const char operation[] = "compute_tensor_copy";
  compute_status status = check_copy(destination, source, operation);
  return status ? status : named(copy_any(destination, source, operation), source, operation);
}

compute_status compute_tensor_to_device(const compute_tensor *tensor, compute_device *device,
                                        compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_to_device";
  if (result) *result = NULL;
  const compute_status missing =
      error_if_null(tensor ? context_of(tensor) : NULL, operation, tensor, device, result);
  if (missing) return missing;
  if (device->context != context_of(tensor)) {
    return error_set(context_of(tensor), COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "tensor and device belong to different contexts");
  }
  compute_tensor *made;
  compute_status status = tensor_create_private(device, tensor->dtype, tensor->shape, &made);
  if (status) return named(status, tensor, operation);
  status = copy_any(made, tensor, operation);
  if (status) {
    error_attribute(context_of(tensor), operation);
    compute_tensor_release(made);
    return status;
  }
  *result = made;
  return scope_register(made);
}
