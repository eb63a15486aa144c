/* Synchronous copies and kernels on a device's internal queue.
 *
 * Every function waits for the queue even when its submission failed: part of the work may be under
 * way and may use the caller's memory. */
#include "memory/transfer.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernel/kernel_cache.h"

/* Large enough that the cost of a submission does not count, small enough to be always there. */
#define STAGING_BYTES ((uint64_t)4 << 20)

static compute_status finish(compute_device *device, compute_status submitted) {
  compute_status waited = compute_queue_wait(device->internal_queue);
  pthread_mutex_unlock(&device->internal_mutex);
  return submitted ? submitted : waited;
}

compute_status transfer_upload(compute_device *device, const compute_argument *destination,
                               const void *source, uint64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  pthread_mutex_lock(&device->internal_mutex);
  return finish(
      device, device->backend->upload(device->internal_queue->handle, destination, source, bytes));
}

compute_status transfer_download(compute_device *device, void *destination,
                                 const compute_argument *source, uint64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  pthread_mutex_lock(&device->internal_mutex);
  return finish(device, device->backend->download(device->internal_queue->handle, destination,
                                                  source, bytes));
}

compute_status transfer_copy(compute_device *device, const compute_argument *destination,
                             const compute_argument *source, uint64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  pthread_mutex_lock(&device->internal_mutex);
  return finish(device,
                device->backend->copy(device->internal_queue->handle, destination, source, bytes));
}

/* Whether the module has moved the bytes itself; else the host must. */
static bool moved_by_peers(compute_device *to, const compute_argument *destination,
                           compute_device *from, const compute_argument *source, uint64_t bytes,
                           compute_status *status) {
  if (to->backend != from->backend || !to->backend->copy_from_peer) return false;
  pthread_mutex_lock(&to->internal_mutex);
  *status = finish(to, to->backend->copy_from_peer(to->internal_queue->handle, destination,
                                                   from->handle, source, bytes));
  return *status != COMPUTE_ERROR_UNSUPPORTED;
}

static compute_status staged(compute_device *to, compute_argument destination, compute_device *from,
                             compute_argument source, uint64_t bytes) {
  uint64_t piece = bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
  void *staging = base_allocate_aligned((size_t)piece, 64);
  if (!staging) {
    return error_set(to->context, COMPUTE_ERROR_OUT_OF_MEMORY, "transfer",
                     "no host memory for %" PRIu64 " bytes between %s and %s", piece,
                     from->info.name, to->info.name);
  }
  compute_status status = COMPUTE_OK;
  while (bytes > 0 && !status) {
    if (piece > bytes) piece = bytes;
    status = transfer_download(from, staging, &source, piece);
    if (!status) status = transfer_upload(to, &destination, staging, piece);
    source.offset += piece;
    destination.offset += piece;
    bytes -= piece;
  }
  base_release(staging);
  return status;
}

compute_status transfer_between(compute_device *to, const compute_argument *destination,
                                compute_device *from, const compute_argument *source,
                                uint64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  if (to == from) return transfer_copy(to, destination, source, bytes);
  compute_status status;
  if (moved_by_peers(to, destination, from, source, bytes, &status)) return status;
  if (source->memory->host) {
    const char *host = source->memory->host;
    return transfer_upload(to, destination, host + source->offset, bytes);
  }
  if (destination->memory->host) {
    char *host = destination->memory->host;
    return transfer_download(from, host + destination->offset, source, bytes);
  }
  return staged(to, *destination, from, *source, bytes);
}

compute_status transfer_run(compute_device *device, const compute_kernel_descriptor *descriptor,
                            const compute_argument *arguments, uint32_t count) {
  kernel_entry *entry;
  compute_status status = kernel_cache_get(device->kernels, descriptor, &entry);
  if (status) return status;
  pthread_mutex_lock(&device->internal_mutex);
  status = finish(device, queue_enqueue(device->internal_queue, entry->kernel, arguments, count));
  kernel_cache_return(device->kernels, entry);
  return status;
}
