/* SPDX-License-Identifier: MIT */
/* Buffers of a slot, in four kinds.
 *
 * 1. On the CPU, a port with an array as source or sink needs no buffer: the work reads and writes
 * the caller's memory.
 *
 * 2. If the host shares the device's memory, sources fill and sinks read the tensor itself.
 *
 * 3. If the backend copies any memory fast (COMPUTE_BACKEND_STAGES_COPIES), tensors are copied from
 * and to the caller's arrays.
 *
 * 4. Otherwise each tensor has a staging buffer in host memory. It is page-locked if the backend
 * can, so copies are asynchronous.
 *
 * Buffers are allocated when a batch first needs them, and kept for later batches and runs. */
#include "batch/slot.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/transfer.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_batch_run";

/* ---- Buffers ------------------------------------------------------------------------------- */

static void free_locked(compute_device *device, void *host) {
  device->backend->host_release(device->handle, host);
}

static void free_plain(compute_device *device, void *host) {
  (void)device;
  base_release(host);
}

static void buffer_free(const batch_pipeline *pipeline, batch_buffer *buffer) {
  compute_device *device = pipeline->work->device;
  const device_release_function release = buffer->locked ? free_locked : free_plain;
  compute_tensor_release(buffer->bound);
  compute_tensor_release(buffer->tensor);
  /* A hung copy may still access the memory. */
  if (buffer->staged && !device_release_later(device, release, buffer->host))
    release(device, buffer->host);
  *buffer = (batch_buffer){0};
}

static compute_status make_staging(const batch_pipeline *pipeline, batch_buffer *buffer,
                                   uint64_t bytes) {
  const compute_device *device = pipeline->work->device;
  if (bytes == 0) bytes = 1;
  if (!atomic_load(&pipeline->lost) && device->backend->host_allocate &&
      device->backend->host_allocate(device->handle, bytes, &buffer->host) == COMPUTE_OK) {
    buffer->locked = true;
  } else {
    buffer->host = base_allocate_aligned((uint64_t)bytes, 64);
  }
  buffer->staged = buffer->host != NULL;
  return buffer->staged ? COMPUTE_OK
                        : error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                                    "not enough host memory for the %llu bytes of a batch",
                                    (unsigned long long)bytes);
}

static compute_status buffer_make(const batch_pipeline *pipeline, const batch_port *port,
                                  int64_t items, bool with_host, batch_buffer *buffer) {
  const bool lost = atomic_load(&pipeline->lost);
  compute_status status = COMPUTE_OK;
  if (!lost)
    status = tensor_create_private(pipeline->work->device, port->dtype,
                                   batch_shape(port->item, items), &buffer->tensor);
  /* A device with shared memory may still fail to share this tensor. */
  if (!status && pipeline->direct && !lost) buffer->host = compute_tensor_data(buffer->tensor);
  if (!status && with_host && !buffer->host)
    status = make_staging(pipeline, buffer, port->bytes * (uint64_t)items);
  if (!status)
    buffer->capacity = items;
  else
    buffer_free(pipeline, buffer);
  return status;
}

/* The caller's memory for a port's items, or NULL if they need the slot's memory. It must be
 * aligned even if it is only copied, because the CPU computes in it after a failure. */
static void *in_place(const batch_pipeline *pipeline, const batch_port *port, const void *array,
                      int64_t first) {
  if (!array || (!pipeline->processor && !pipeline->stages)) return NULL;
  char *data = (char *)(uintptr_t)array + port->bytes * (uint64_t)first;
  return (uintptr_t)data % compute_dtype_size(port->dtype) == 0 ? data : NULL;
}

/* The array that results are copied to, or NULL if they are staged. They are staged if they replace
 * their inputs: a copy that fails halfway would destroy the inputs needed to repeat the batch. */
static void *array_of_sink(const batch_slot *slot, uint32_t sink) {
  const compute_batch *batch = slot->pipeline->batch;
  void *array = batch->sinks[sink].array;
  for (uint32_t i = 0; slot->pipeline->stages && i < batch->input_count; i++)
    if (batch->sources[i].array == array) return NULL;
  return array;
}

static compute_status prepare_port(const batch_slot *slot, const batch_port *port,
                                   const void *array, batch_buffer *buffer) {
  void *data = in_place(slot->pipeline, port, array, slot->first);
  const bool with_host = !data;
  compute_status status = COMPUTE_OK;
  buffer->data = data;
  if (data && slot->pipeline->processor) return COMPUTE_OK;
  /* A buffer larger than the device's current batches would waste scarce memory. */
  if (buffer->capacity < slot->items || buffer->capacity > slot->most ||
      (with_host && !buffer->host)) {
    const int64_t items = slot->items > slot->room ? slot->items : slot->room;
    buffer_free(slot->pipeline, buffer);
    status = buffer_make(slot->pipeline, port, items, with_host, buffer);
  }
  buffer->data = data ? data : buffer->host;
  return status;
}

static void free_buffers(batch_slot *slot) {
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    buffer_free(slot->pipeline, &slot->inputs[i]);
    buffer_free(slot->pipeline, &slot->outputs[i]);
  }
}

compute_status slot_prepare(batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_status status = COMPUTE_OK;
  if (!slot->queue && !atomic_load(&slot->pipeline->lost))
    status = compute_queue_create(slot->pipeline->work->device, &slot->queue);
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    status = prepare_port(slot, &batch->inputs[i], batch->sources[i].array, &slot->inputs[i]);
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = prepare_port(slot, &batch->outputs[i], array_of_sink(slot, i), &slot->outputs[i]);
  if (status) free_buffers(slot);
  return status;
}

static uint64_t buffer_bytes(const batch_buffer *buffer, const batch_port *port) {
  const uint64_t bytes = (uint64_t)buffer->capacity * port->bytes;
  return (buffer->tensor ? bytes : 0) + (buffer->staged ? bytes : 0);
}

uint64_t slot_bytes(const batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++)
    bytes += buffer_bytes(&slot->inputs[i], &batch->inputs[i]) +
             buffer_bytes(&slot->outputs[i], &batch->outputs[i]);
  return bytes;
}

void slot_close(batch_slot *slot) {
  free_buffers(slot);
  compute_queue_release(slot->queue);
  slot->queue = NULL;
}

/* ---- The tensors of a batch ---------------------------------------------------------------- */

static compute_status bind_port(const batch_slot *slot, const batch_port *port,
                                batch_buffer *buffer) {
  if (buffer->data != buffer->host && !slot->pipeline->stages)
    return compute_tensor_wrap(slot->pipeline->work->device, port->dtype,
                               batch_shape(port->item, slot->items), NULL, buffer->data, NULL, NULL,
                               &buffer->bound);
  if (buffer->capacity != slot->items)
    return compute_tensor_slice_view(buffer->tensor, 0, 0, slot->items, 1, &buffer->bound);
  buffer->bound = compute_tensor_retain(buffer->tensor);
  return COMPUTE_OK;
}

compute_status slot_bind(batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    status = bind_port(slot, &batch->inputs[i], &slot->inputs[i]);
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = bind_port(slot, &batch->outputs[i], &slot->outputs[i]);
  return status;
}

static void unbind(batch_buffer *buffers) {
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    compute_tensor_release(buffers[i].bound);
    buffers[i].bound = NULL;
  }
}

void slot_unbind(batch_slot *slot) {
  unbind(slot->inputs);
  unbind(slot->outputs);
}

static compute_status wrap_ports(int64_t items, compute_device *device, const batch_port *ports,
                                 const batch_buffer *buffers, uint32_t count,
                                 compute_tensor **tensors) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < count; i++)
    status = compute_tensor_wrap(device, ports[i].dtype, batch_shape(ports[i].item, items), NULL,
                                 buffers[i].data, NULL, NULL, &tensors[i]);
  return status;
}

compute_status slot_wrap(const batch_slot *slot, compute_device *device, compute_tensor **inputs,
                         compute_tensor **outputs) {
  const compute_batch *batch = slot->pipeline->batch;
  const compute_status status =
      wrap_ports(slot->items, device, batch->inputs, slot->inputs, batch->input_count, inputs);
  if (status) return status;
  return wrap_ports(slot->items, device, batch->outputs, slot->outputs, batch->output_count,
                    outputs);
}

/* ---- Copies -------------------------------------------------------------------------------- */

/* Submits one copy to the queue; it appears in the profile as "upload" or "download". None is
 * needed if the host addresses the tensor or if the work uses the caller's array. */
static compute_status submit_copy(const batch_slot *slot, const batch_buffer *buffer,
                                  uint64_t bytes, bool up) {
  const bool apart = buffer->data == buffer->host ? buffer->staged : slot->pipeline->stages;
  if (!apart || bytes == 0) return COMPUTE_OK;
  const compute_argument at = tensor_argument(buffer->tensor);
  return up ? queue_upload(slot->queue, &at, buffer->data, bytes, "batch")
            : queue_download(slot->queue, buffer->data, &at, bytes, "batch");
}

compute_status slot_upload(batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    status =
        submit_copy(slot, &slot->inputs[i], batch->inputs[i].bytes * (uint64_t)slot->items, true);
  return status;
}

compute_status slot_download(batch_slot *slot) {
  const compute_batch *batch = slot->pipeline->batch;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = submit_copy(slot, &slot->outputs[i], batch->outputs[i].bytes * (uint64_t)slot->items,
                         false);
  return status;
}

bool slot_is_locked(const batch_slot *slot) {
  for (uint32_t i = 0; i < slot->pipeline->batch->output_count; i++)
    if (!slot->outputs[i].locked || slot->outputs[i].data != slot->outputs[i].host) return false;
  return true;
}
