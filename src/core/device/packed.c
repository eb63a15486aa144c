/* SPDX-License-Identifier: MIT */
/* Packs constant inputs on their first use, and keeps the packed copies with their buffer. */
#include "core/device/packed.h"

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"

static const packed_piece *find(const memory_buffer *buffer, uint64_t form, uint64_t offset) {
  const packed_piece *piece = buffer->packed;
  while (piece && (piece->form != form || piece->offset != offset)) piece = piece->next;
  return piece;
}

/* Packs the input and waits for the end. */
static compute_status fill(const memory_buffer *from, const packed_operand *operand,
                           const memory_buffer *to) {
  compute_device *device = from->device;
  const compute_argument source = {&from->memory, operand->offset}, packed = {&to->memory, 0};
  pthread_mutex_lock(&device->internal_mutex);
  compute_queue *queue = device->internal_queue;
  compute_status status = device->backend->kernel_pack(queue->handle, operand->kernel,
                                                       operand->input, &packed, &source);
  const compute_status waited = compute_queue_wait(queue);
  pthread_mutex_unlock(&device->internal_mutex);
  return status ? status : waited;
}

static compute_status add(memory_buffer *buffer, const packed_operand *operand, uint64_t bytes,
                          uint64_t form) {
  packed_piece *piece = base_allocate(1, sizeof *piece);
  if (!piece)
    return error_set(buffer->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                     "not enough host memory for the record of a packed operand");
  compute_status status = buffer_create(buffer->device, bytes, &piece->buffer);
  if (!status) status = fill(buffer, operand, piece->buffer);
  if (status) {
    buffer_release(piece->buffer);
    base_release(piece);
    return status;
  }
  if (buffer->on_packed) buffer->on_packed(buffer->memory.host, buffer->memory.bytes);
  piece->form = form;
  piece->offset = operand->offset;
  piece->next = buffer->packed;
  buffer->packed = piece;
  return COMPUTE_OK;
}

compute_status packed_get(memory_buffer *buffer, const packed_operand *operand,
                          memory_buffer **packed) {
  compute_device *device = buffer->device;
  uint64_t form = 0;
  compute_status status = COMPUTE_OK;
  *packed = NULL;
  const uint64_t bytes =
      device->backend->kernel_packed_bytes(device->handle, operand->kernel, operand->input, &form);
  if (bytes == 0) return COMPUTE_OK;
  pthread_mutex_lock(&device->packed_mutex);
  const packed_piece *piece = find(buffer, form, operand->offset);
  if (!piece) {
    status = add(buffer, operand, bytes, form);
    if (!status) piece = buffer->packed;
  }
  if (piece) *packed = buffer_retain(piece->buffer);
  pthread_mutex_unlock(&device->packed_mutex);
  return status;
}
