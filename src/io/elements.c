/* SPDX-License-Identifier: MIT */
/* Reads and writes the elements of a tensor in blocks of fixed size. */
#include "io/elements.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/device/transfer.h"

#define BLOCK_BYTES 1048576u

bool elements_little_endian(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

static void swap_bytes(unsigned char *data, size_t bytes, size_t size) {
  for (size_t i = 0; i < bytes; i += size) {
    for (size_t j = 0; j < size / 2; j++) {
      unsigned char byte = data[i + j];
      data[i + j] = data[i + size - 1 - j];
      data[i + size - 1 - j] = byte;
    }
  }
}

/* Converts a block from the file's format to the tensor's. */
static void convert(unsigned char *data, size_t bytes, const element_format *format) {
  if (format->swapped) swap_bytes(data, bytes, compute_dtype_size(format->dtype));
  if (format->dtype == COMPUTE_BOOL) {
    for (size_t i = 0; i < bytes; i++) data[i] = data[i] != 0;
  }
}

static compute_status make_block(const char *operation, const compute_device *device,
                                 unsigned char **block) {
  *block = base_allocate_aligned(BLOCK_BYTES, 64);
  if (*block) return COMPUTE_OK;
  return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for %u bytes between file and tensor", BLOCK_BYTES);
}

static compute_status upload(const char *operation, const element_format *format,
                             element_source source, void *user, compute_tensor *tensor) {
  compute_device *device = tensor->buffer->device;
  unsigned char *block;
  compute_status status = make_block(operation, device, &block);
  if (status) return status;
  compute_argument target = tensor_argument(tensor);
  for (uint64_t left = tensor_dense_bytes(tensor); left > 0 && !status;) {
    size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    status = source(user, block, bytes);
    if (status) break;
    convert(block, bytes, format);
    status = transfer_upload(device, &target, block, bytes);
    if (status) error_attribute(device->context, operation);
    target.offset += bytes;
    left -= bytes;
  }
  base_release(block);
  return status;
}

/* Makes a dense copy of a tensor with reversed axes, in the file's axis order. */
static compute_status reverse_axes(compute_tensor *reversed, const element_format *format,
                                   compute_tensor **tensor) {
  compute_tensor *view, *made;
  compute_status status =
      compute_tensor_transpose_view(reversed, (compute_axes){.count = 0}, &view);
  if (status) return status;
  status = tensor_create_private(reversed->buffer->device, format->dtype, format->shape, &made);
  if (!status) {
    status = compute_tensor_copy(made, view);
    if (status)
      compute_tensor_release(made);
    else
      *tensor = made;
  }
  compute_tensor_release(view);
  return status;
}

compute_status elements_read(const char *operation, compute_device *device,
                             const element_format *format, element_source source, void *user,
                             compute_tensor **tensor) {
  compute_shape shape = format->shape;
  for (int32_t i = 0; i < shape.rank && format->fortran_order; i++)
    shape.size[i] = format->shape.size[shape.rank - 1 - i];
  compute_tensor *made;
  compute_status status = tensor_create_private(device, format->dtype, shape, &made);
  if (status) return status;
  status = upload(operation, format, source, user, made);
  if (!status && (!format->fortran_order || shape.rank < 2)) {
    *tensor = made;
    return COMPUTE_OK;
  }
  if (!status) status = reverse_axes(made, format, tensor);
  compute_tensor_release(made);
  return status;
}

static compute_status download(const char *operation, const compute_tensor *dense, bool swapped,
                               element_sink sink, void *user) {
  compute_device *device = dense->buffer->device;
  unsigned char *block;
  compute_status status = make_block(operation, device, &block);
  if (status) return status;
  compute_argument source = tensor_argument(dense);
  for (uint64_t left = tensor_dense_bytes(dense); left > 0 && !status;) {
    size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    status = transfer_download(device, block, &source, bytes);
    if (status) error_attribute(device->context, operation);
    if (status) break;
    if (swapped) swap_bytes(block, bytes, compute_dtype_size(dense->dtype));
    status = sink(user, block, bytes);
    source.offset += bytes;
    left -= bytes;
  }
  base_release(block);
  return status;
}

compute_status elements_write(const char *operation, const compute_tensor *tensor, bool swapped,
                              element_sink sink, void *user) {
  if (compute_tensor_is_dense(tensor)) return download(operation, tensor, swapped, sink, user);
  compute_tensor *dense;
  compute_status status =
      tensor_create_private(tensor->buffer->device, tensor->dtype, tensor->shape, &dense);
  if (status) return status;
  status = compute_tensor_copy(dense, tensor);
  if (!status) status = download(operation, dense, swapped, sink, user);
  compute_tensor_release(dense);
  return status;
}
