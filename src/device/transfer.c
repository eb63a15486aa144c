/* Synchronous copies and kernels on a device's internal queue.
 *
 * Every function waits for the queue even when its submission failed: part of the work may be under
 * way and may use the caller's memory. */
#include "device/transfer.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernel/cost.h"
#include "device/kernel_cache.h"
#include "device/collector.h"
#include "device/fallback.h"

/* Large enough that the cost of a submission does not count, small enough to be always there. */
#define STAGING_BYTES ((uint64_t)4 << 20)

static compute_status finish(compute_device *device, compute_status submitted) {
  compute_status waited = compute_queue_wait(device->internal_queue);
  pthread_mutex_unlock(&device->internal_mutex);
  return submitted ? submitted : waited;
}

/* ---- For the profile ------------------------------------------------------------------------ */

static profile_mark record_begin(compute_device *device) {
  profile_mark mark = {0};
  if (profile_is_on(device->context)) profile_begin(device->internal_queue, &mark);
  return mark;
}

/* Waits first, as `finish` would: the end of a copy is when it has been made. */
static compute_status record_end(profile_mark *mark, compute_status status, profile_kind kind,
                                 const char *name, const char *detail, uint64_t bytes) {
  if (!mark->on) return status;
  const compute_device *device = mark->queue->device;
  if (status == COMPUTE_OK) status = queue_wait_named(mark->queue);
  profile_end(mark, status, profile_entry_of(device->context, device, kind, name, detail),
              (profile_work){.bytes = bytes});
  return status;
}

/* ---- One copy, in pieces if need be --------------------------------------------------------- */

/* Pieces are a quarter of those before, so many times; what fails then, fails. */
#define SPLITS     3
#define PIECE_UNIT ((uint64_t)4096)

typedef enum move_kind { MOVE_UP, MOVE_DOWN, MOVE_WITHIN } move_kind;

typedef struct move {
  compute_device *device;
  move_kind kind;
  compute_argument to, from; /* on the device */
  const void *source;        /* MOVE_UP */
  void *target;              /* MOVE_DOWN */
} move;

static compute_status move_piece(const move *m, uint64_t offset, uint64_t bytes) {
  compute_device *device = m->device;
  compute_argument to = {m->to.memory, m->to.offset + offset};
  compute_argument from = {m->from.memory, m->from.offset + offset};
  compute_status status = device_check(device, "transfer");
  if (status) return status;
  pthread_mutex_lock(&device->internal_mutex);
  void *queue = device->internal_queue->handle;
  profile_mark mark = record_begin(device);
  switch (m->kind) {
  case MOVE_UP:
    status = device->backend->upload(queue, &to, (const char *)m->source + offset, bytes);
    break;
  case MOVE_DOWN:
    status = device->backend->download(queue, (char *)m->target + offset, &from, bytes);
    break;
  case MOVE_WITHIN: status = device->backend->copy(queue, &to, &from, bytes); break;
  }
  static const char *const names[] = {"upload", "download", "copy within the device"};
  status = record_end(&mark, status, PROFILE_TRANSFER, names[m->kind], "", bytes);
  return finish(device, status);
}

/* What a driver says when a copy is too much for it at once; a lost device is none of these. */
bool transfer_may_be_too_large(compute_status status) {
  return status == COMPUTE_ERROR_TRANSFER || status == COMPUTE_ERROR_LAUNCH ||
         status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY || status == COMPUTE_ERROR_OUT_OF_MEMORY;
}

/* The same bytes again and again do no harm, so a piece that failed starts anew. */
static compute_status move_all(const move *m, uint64_t bytes) {
  if (bytes == 0) return COMPUTE_OK;
  compute_error before;
  compute_error_get(NULL, &before);
  compute_status status = move_piece(m, 0, bytes);
  if (!transfer_may_be_too_large(status)) return status;
  uint64_t done = 0, piece = bytes;
  for (int split = 0; split < SPLITS && done < bytes; split++) {
    piece = (piece / 4 + PIECE_UNIT - 1) / PIECE_UNIT * PIECE_UNIT;
    status = COMPUTE_OK;
    while (!status && done < bytes) {
      uint64_t now = piece < bytes - done ? piece : bytes - done;
      status = move_piece(m, done, now);
      if (!status) done += now;
    }
    if (status && !transfer_may_be_too_large(status)) return status;
  }
  compute_error cause;
  compute_error_get(m->device->context, &cause);
  if (done == bytes) {
    fallback_note(m->device->context, m->device, FALLBACK_SPLIT_TRANSFER, true,
                  "a copy of %" PRIu64 " bytes failed and was repeated in pieces of %" PRIu64
                  ": %.200s",
                  bytes, piece, cause.message);
    error_restore(NULL, &before);
    return COMPUTE_OK;
  }
  if (status == COMPUTE_ERROR_LAUNCH) status = COMPUTE_ERROR_TRANSFER;
  return error_set_native(m->device->context, status, cause.native_code, "transfer", cause.remedy,
                          "%s: a copy of %" PRIu64 " bytes failed, also in pieces of %" PRIu64
                          ": %.200s",
                          m->device->info.name, bytes, piece, cause.message);
}

compute_status transfer_upload(compute_device *device, const compute_argument *destination,
                               const void *source, uint64_t bytes) {
  return move_all(&(move){.device = device, .kind = MOVE_UP, .to = *destination, .source = source},
                  bytes);
}

compute_status transfer_download(compute_device *device, void *destination,
                                 const compute_argument *source, uint64_t bytes) {
  return move_all(
      &(move){.device = device, .kind = MOVE_DOWN, .from = *source, .target = destination}, bytes);
}

compute_status transfer_copy(compute_device *device, const compute_argument *destination,
                             const compute_argument *source, uint64_t bytes) {
  return move_all(
      &(move){.device = device, .kind = MOVE_WITHIN, .to = *destination, .from = *source}, bytes);
}

/* ---- Between devices ------------------------------------------------------------------------ */

/* Whether the module has moved the bytes itself; else the host must. */
static bool moved_by_peers(compute_device *to, const compute_argument *destination,
                           compute_device *from, const compute_argument *source, uint64_t bytes,
                           compute_status *status) {
  if (to->backend != from->backend || !to->backend->copy_from_peer) return false;
  if (device_check(to, "transfer") || device_check(from, "transfer")) return false;
  pthread_mutex_lock(&to->internal_mutex);
  profile_mark mark = record_begin(to);
  compute_status submitted = to->backend->copy_from_peer(to->internal_queue->handle, destination,
                                                         from->handle, source, bytes);
  submitted = record_end(&mark, submitted, PROFILE_TRANSFER, "copy from", from->info.name, bytes);
  *status = finish(to, submitted);
  return *status != COMPUTE_ERROR_UNSUPPORTED && !transfer_may_be_too_large(*status);
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
  compute_status status = device_check(device, "transfer");
  if (!status) status = kernel_cache_get(device->kernels, descriptor, &entry);
  if (status) return status;
  pthread_mutex_lock(&device->internal_mutex);
  profile_mark mark = record_begin(device);
  status = queue_enqueue(device->internal_queue, entry->kernel, arguments, count);
  if (mark.on) {
    kernel_cost cost = kernel_cost_of(descriptor);
    status = record_end(&mark, status, PROFILE_KERNEL, kernel_kind_name(descriptor->kind),
                        "by itself", cost.bytes_read + cost.bytes_written);
  }
  status = finish(device, status);
  kernel_cache_return(device->kernels, entry);
  return status;
}
