/* SPDX-License-Identifier: MIT */
/* A queue is a separate stream, which never waits for the default stream of other CUDA users. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

compute_status cuda_queue_create(void *handle, void **result) {
  cuda_device *device = handle;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  cuda_queue *queue = builder_allocate(&device->builder, sizeof *queue);
  if (!queue) return cuda_fail_memory(device->services, "a queue");
  queue->device = device;
  const cuda_result code = device->driver->stream_create(&queue->stream, CUDA_STREAM_NON_BLOCKING);
  if (code != CUDA_OK) {
    builder_free(&device->builder, queue);
    return cuda_fail(device, code, "creating a stream");
  }
  *result = queue;
  return COMPUTE_OK;
}

void cuda_queue_destroy(void *destroyed) {
  cuda_queue *queue = destroyed;
  cuda_device *device = queue->device;
  if (queue->workspace.handle) cuda_memory_release(device, &queue->workspace);
  cudnn_queue_release(queue);
  if (cuda_enter_to_release(device)) {
    if (queue->fault)
      cuda_notice(device, device->driver->host_free(queue->fault), "releasing a queue");
    cuda_notice(device, device->driver->stream_destroy(queue->stream), "releasing a queue");
  }
  builder_free(&device->builder, queue);
}

compute_status cuda_queue_wait(void *handle) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->stream_wait(queue->stream);
  if (code != CUDA_OK) return cuda_fail(device, code, "waiting for a queue");
  if (queue->faults.used == 0) return COMPUTE_OK;
  char name[32];
  int32_t words[FAULT_WORDS];
  const size_t bytes = fault_words(&queue->faults) * sizeof *words;
  memcpy(words, queue->fault, bytes); /* the kernels have ended */
  memset(queue->fault, 0, bytes);
  snprintf(name, sizeof name, "cuda:%u", device->index);
  return fault_report(&queue->faults, device->services, words, name);
}

void cuda_queue_label(void *handle, uint32_t label) {
  ((cuda_queue *)handle)->faults.label = label;
}

compute_status cuda_workspace(cuda_queue *queue, uint64_t bytes, cuda_pointer *address) {
  cuda_device *device = queue->device;
  compute_memory *workspace = &queue->workspace;
  if (bytes > workspace->bytes) {
    /* Running kernels may use the old workspace. */
    if (workspace->handle) {
      const cuda_result code = device->driver->stream_wait(queue->stream);
      if (code != CUDA_OK) return cuda_fail(device, code, "waiting for a queue");
      cuda_memory_release(device, workspace);
    }
    const compute_status status =
        cuda_memory_allocate(device, (bytes + 0xfffff) & ~(uint64_t)0xfffff, workspace);
    if (status != COMPUTE_OK) return status;
  }
  *address = ((const cuda_memory *)workspace->handle)->pointer;
  return COMPUTE_OK;
}

compute_status cuda_fault_words(cuda_queue *queue, cuda_pointer *address) {
  cuda_device *device = queue->device;
  const cuda_driver *driver = device->driver;
  if (!queue->fault) {
    void *word = NULL;
    cuda_result code = driver->host_allocate(&word, FAULT_TABLE_BYTES,
                                             CUDA_HOST_ALLOC_PORTABLE | CUDA_HOST_ALLOC_MAPPED);
    if (code == CUDA_OK) {
      code = driver->host_device_pointer(&queue->fault_address, word, 0);
      if (code != CUDA_OK) cuda_notice(device, driver->host_free(word), "releasing pinned memory");
    }
    if (code != CUDA_OK) return cuda_fail(device, code, "allocating pinned memory");
    queue->fault = word;
    memset(queue->fault, 0, FAULT_TABLE_BYTES);
  }
  *address = queue->fault_address;
  return COMPUTE_OK;
}
