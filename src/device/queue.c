/* Queues, and the buffers that submitted work still needs.
 *
 * A buffer that a run has finished with may be in use by the device until the queue has caught up.
 * queue_keep holds a reference until the next wait, so that the pool cannot hand the memory to
 * somebody else in between. The native CPU's queues are synchronous: nothing is ever pending there.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "device/registry.h"
#include "memory/buffer.h"

/* A queue that is fed without ever being waited for would keep everything; at this many buffers it
 * is waited for. */
#define PENDING_LIMIT 4096

struct queue_pending {
  memory_buffer **buffers;
  size_t count, capacity;
};

static void pending_release(compute_queue *queue) {
  struct queue_pending *pending = queue->pending;
  if (!pending) return;
  for (size_t i = 0; i < pending->count; i++) buffer_release(pending->buffers[i]);
  pending->count = 0;
}

compute_status queue_create_internal(compute_device *device, compute_queue **result) {
  compute_queue *queue = base_allocate(1, sizeof *queue);
  if (!queue) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_queue_create",
                     "out of memory for a queue of %s", device->info.name);
  }
  queue->device = device;
  compute_status status = device->backend->queue_create(device->handle, &queue->handle);
  if (status != COMPUTE_OK) {
    base_release(queue);
    return status;
  }
  *result = queue;
  return COMPUTE_OK;
}

void queue_destroy_internal(compute_queue *queue) {
  if (!queue) return;
  compute_status status = queue->device->backend->queue_wait(queue->handle);
  if (status != COMPUTE_OK) {
    log_write(COMPUTE_LOG_ERROR, "core", "work on a queue of %s failed: %s",
              queue->device->info.name, compute_status_text(status));
  }
  pending_release(queue);
  queue->device->backend->queue_destroy(queue->handle);
  if (queue->pending) base_release(queue->pending->buffers);
  base_release(queue->pending);
  base_release(queue);
}

compute_status compute_queue_create(compute_device *device, compute_queue **queue) {
  static const char operation[] = "compute_queue_create";
  if (!device || !queue) {
    return error_set(device ? device->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", device ? "queue" : "device");
  }
  *queue = NULL;
  compute_status status = queue_create_internal(device, queue);
  if (status == COMPUTE_OK) context_object_created(device->context);
  return status;
}

void compute_queue_release(compute_queue *queue) {
  if (!queue) return;
  compute_context *context = queue->device->context;
  queue_destroy_internal(queue);
  context_object_released(context);
}

compute_device *compute_queue_device(const compute_queue *queue) {
  return queue ? queue->device : NULL;
}

compute_status compute_queue_wait(compute_queue *queue) {
  if (!queue) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_queue_wait", "queue is NULL");
  }
  compute_status status = queue->device->backend->queue_wait(queue->handle);
  pending_release(queue);
  return status;
}

/* Room for one more buffer; false when memory is short. */
static bool pending_reserve(compute_queue *queue) {
  if (!queue->pending) queue->pending = base_allocate(1, sizeof *queue->pending);
  if (!queue->pending) return false;
  void *buffers = queue->pending->buffers;
  int grown = base_grow(&buffers, &queue->pending->capacity, queue->pending->count + 1,
                        sizeof *queue->pending->buffers);
  queue->pending->buffers = buffers;
  return grown == 0;
}

compute_status queue_keep(compute_queue *queue, memory_buffer *buffer) {
  if (queue->device == queue->device->context->cpu) return COMPUTE_OK;
  bool full = queue->pending && queue->pending->count >= PENDING_LIMIT;
  /* Once the work is done nothing needs keeping. */
  if (full || !pending_reserve(queue)) return compute_queue_wait(queue);
  queue->pending->buffers[queue->pending->count++] = buffer_retain(buffer);
  return COMPUTE_OK;
}
