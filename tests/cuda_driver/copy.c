/* SPDX-License-Identifier: MIT */
/* Copies. Pinned memory is read and written when the copy runs. Pageable sources are copied before
 * the call returns; copies to pageable memory are complete when the call returns. */
#include <stdlib.h>
#include <string.h>

#include "driver_private.h"

typedef struct copy_operation {
  operation base;
  void *to;
  const void *from;
  size_t bytes;
  int engine;
  unsigned char own[]; /* copy of pageable memory */
} copy_operation;

static int64_t duration(size_t bytes) {
  const machine *m = &stand_in_machine;
  return m->delay_copies * 1000000 + (m->copy_rate ? (int64_t)bytes * 1000 / m->copy_rate : 0);
}

static void run_copy(operation *self, int device) {
  const copy_operation *o = (const copy_operation *)self;
  engine_work(device, o->engine, duration(o->bytes));
  memmove(o->to, o->from, o->bytes);
}

static cuda_result submit(void *to, const void *from, size_t bytes, int engine, bool take,
                          cuda_stream on) {
  copy_operation *o = operation_create(sizeof *o + (take ? bytes : 0), run_copy);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->to = to;
  o->from = from;
  o->bytes = bytes;
  o->engine = engine;
  if (take) {
    memcpy(o->own, from, bytes);
    o->from = o->own;
  }
  return stream_submit(on, o);
}

static void *address(cuda_pointer pointer) {
  return (void *)(uintptr_t)pointer;
}

EXPORT cuda_result cuMemcpyHtoDAsync(cuda_pointer to, const void *from, size_t bytes,
                                     cuda_stream on) {
  ENTER(cuMemcpyHtoDAsync);
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(to), bytes)) return CUDA_INVALID_VALUE;
  return submit(address(to), from, bytes, ENGINE_TO_DEVICE, !memory_at(from), on);
}

EXPORT cuda_result cuMemcpyDtoHAsync(void *to, cuda_pointer from, size_t bytes, cuda_stream on) {
  ENTER(cuMemcpyDtoHAsync);
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(from), bytes)) return CUDA_INVALID_VALUE;
  const cuda_result code = submit(to, address(from), bytes, ENGINE_TO_HOST, false, on);
  if (code != CUDA_OK || memory_at(to)) return code;
  return stream_drain(stream_of(on));
}

EXPORT cuda_result cuMemcpyDtoDAsync(cuda_pointer to, cuda_pointer from, size_t bytes,
                                     cuda_stream on) {
  ENTER(cuMemcpyDtoDAsync);
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(to), bytes) || !memory_is_on_device(address(from), bytes))
    return CUDA_INVALID_VALUE;
  return submit(address(to), address(from), bytes, ENGINE_TO_DEVICE, false, on);
}

EXPORT cuda_result cuMemcpyPeerAsync(cuda_pointer to, cuda_context to_context, cuda_pointer from,
                                     cuda_context from_context, size_t bytes, cuda_stream on) {
  ENTER(cuMemcpyPeerAsync);
  const memory *target = memory_at(address(to)), *source = memory_at(address(from));
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(to), bytes) || !memory_is_on_device(address(from), bytes) ||
      target->header.device != device_of_context(to_context) ||
      source->header.device != device_of_context(from_context))
    return CUDA_INVALID_VALUE;
  return submit(address(to), address(from), bytes, ENGINE_TO_DEVICE, false, on);
}

typedef struct set_operation {
  operation base;
  uint32_t *to, value;
  size_t count;
} set_operation;

static void run_set(operation *self, int device) {
  const set_operation *o = (const set_operation *)self;
  (void)device;
  for (size_t i = 0; i < o->count; i++) o->to[i] = o->value;
}

EXPORT cuda_result cuMemsetD32Async(cuda_pointer to, uint32_t value, size_t count, cuda_stream on) {
  ENTER(cuMemsetD32Async);
  if (count == 0) return CUDA_OK;
  if (to % 4 || !memory_is_on_device(address(to), 4 * count)) return CUDA_INVALID_VALUE;
  set_operation *o = operation_create(sizeof *o, run_set);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->to = address(to);
  o->value = value;
  o->count = count;
  return stream_submit(on, o);
}
