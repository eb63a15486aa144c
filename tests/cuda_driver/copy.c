/* Copies. Pinned memory is read and written when the copy's turn comes. Of pageable memory the
 * driver takes a copy of its own before the call returns; and what goes to pageable memory has
 * arrived when the call returns. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_private.h"

typedef struct copy_operation {
  operation base;
  void *to;
  const void *from;
  size_t bytes;
  unsigned char own[]; /* of pageable memory */
} copy_operation;

static void delay(void) {
  const int64_t milliseconds = stand_in_machine.delay_copies;
  if (milliseconds == 0) return;
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void run_copy(operation *self, int device) {
  const copy_operation *o = (const copy_operation *)self;
  (void)device;
  delay();
  memmove(o->to, o->from, o->bytes);
}

static cuda_result submit(void *to, const void *from, size_t bytes, bool take, cuda_stream on) {
  copy_operation *o = operation_create(sizeof *o + (take ? bytes : 0), run_copy);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->to = to;
  o->from = from;
  o->bytes = bytes;
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
  return submit(address(to), from, bytes, !memory_at(from), on);
}

EXPORT cuda_result cuMemcpyDtoHAsync(void *to, cuda_pointer from, size_t bytes, cuda_stream on) {
  ENTER(cuMemcpyDtoHAsync);
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(from), bytes)) return CUDA_INVALID_VALUE;
  const cuda_result code = submit(to, address(from), bytes, false, on);
  if (code != CUDA_OK || memory_at(to)) return code;
  return stream_drain(stream_of(on));
}

EXPORT cuda_result cuMemcpyDtoDAsync(cuda_pointer to, cuda_pointer from, size_t bytes,
                                     cuda_stream on) {
  ENTER(cuMemcpyDtoDAsync);
  if (bytes == 0) return CUDA_OK;
  if (!memory_is_on_device(address(to), bytes) || !memory_is_on_device(address(from), bytes))
    return CUDA_INVALID_VALUE;
  return submit(address(to), address(from), bytes, false, on);
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
  return submit(address(to), address(from), bytes, false, on);
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
