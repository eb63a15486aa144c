/* SPDX-License-Identifier: MIT */
/* Copies between host and devices. They are submitted to a queue, or done on return through the
 * device's internal queue. */
#include "core/device/transfer.h"

#include <inttypes.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/device/collector.h"
#include "core/device/kernel_cache.h"
#include "core/kernel/kernel.h"

/* Large enough to make the submission cost negligible, and small enough to be always available. */
#define STAGING_BYTES ((uint64_t)4 << 20)

/* ---- In a queue's order --------------------------------------------------------------------- */

typedef enum move_kind { MOVE_UP, MOVE_DOWN, MOVE_WITHIN, MOVE_FROM_PEER } move_kind;

typedef struct move {
  move_kind kind;
  compute_argument to, from;  /* memory on devices */
  const void *source;         /* for MOVE_UP */
  void *target;               /* for MOVE_DOWN */
  const compute_device *peer; /* for MOVE_FROM_PEER: the device of `from` */
  const char *detail;         /* shown after the copy's name in the profile; NULL: not recorded */
  bool wait;                  /* wait for the end, so that the profile has the full time */
} move;

static compute_status call_backend(compute_queue *queue, const move *m, uint64_t offset,
                                   uint64_t bytes) {
  const compute_backend *backend = queue->device->backend;
  const compute_argument to = {m->to.memory, m->to.offset + offset};
  const compute_argument from = {m->from.memory, m->from.offset + offset};
  switch (m->kind) {
  case MOVE_UP: return backend->upload(queue->handle, &to, (const char *)m->source + offset, bytes);
  case MOVE_DOWN: return backend->download(queue->handle, (char *)m->target + offset, &from, bytes);
  case MOVE_WITHIN: return backend->copy(queue->handle, &to, &from, bytes);
  case MOVE_FROM_PEER:
    return backend->copy_from_peer(queue->handle, &to, m->peer->handle, &from, bytes);
  }
  return COMPUTE_ERROR_INTERNAL;
}

/* The failed copy may only have used memory from before an earlier loss. The queue reports whether
 * the device itself is lost. Keeps the thread's error. */
static void note_loss(compute_queue *queue) {
  compute_error before;
  compute_error_get(queue->device->context, &before);
  (void)device_note(queue, queue->device->backend->queue_wait(queue->handle));
  error_restore(queue->device->context, &before);
}

/* All copies pass here, so that each is in the profile and a device loss is noticed. */
static compute_status submit(compute_queue *queue, const move *m, uint64_t offset, uint64_t bytes) {
  static const char *const names[] = {[MOVE_UP] = "upload",
                                      [MOVE_DOWN] = "download",
                                      [MOVE_WITHIN] = "copy within the device",
                                      [MOVE_FROM_PEER] = "copy from"};
  compute_device *device = queue->device;
  profile_mark mark = {0};
  compute_status status = device_check(device, ERROR_BACKEND);
  if (status) return status;
  if (m->detail && profile_is_on(device->context)) profile_begin(queue, &mark);
  status = call_backend(queue, m, offset, bytes);
  if (mark.on) {
    if (m->wait && !status) status = queue_wait_named(queue);
    profile_end(
        &mark, status,
        profile_entry_of(device->context, device, PROFILE_TRANSFER, names[m->kind], m->detail),
        (profile_work){.bytes = bytes});
  }
  if (status == COMPUTE_ERROR_DEVICE_LOST) note_loss(queue);
  return status;
}

compute_status queue_upload(compute_queue *queue, const compute_argument *destination,
                            const void *source, uint64_t bytes, const char *detail) {
  const move m = {.kind = MOVE_UP, .to = *destination, .source = source, .detail = detail};
  return bytes > 0 ? submit(queue, &m, 0, bytes) : COMPUTE_OK;
}

compute_status queue_download(compute_queue *queue, void *destination,
                              const compute_argument *source, uint64_t bytes, const char *detail) {
  const move m = {.kind = MOVE_DOWN, .from = *source, .target = destination, .detail = detail};
  return bytes > 0 ? submit(queue, &m, 0, bytes) : COMPUTE_OK;
}

compute_status queue_copy(compute_queue *queue, const compute_argument *destination,
                          const compute_argument *source, uint64_t bytes, const char *detail) {
  const move m = {.kind = MOVE_WITHIN, .to = *destination, .from = *source, .detail = detail};
  return bytes > 0 ? submit(queue, &m, 0, bytes) : COMPUTE_OK;
}

/* ---- Done on return, in pieces if need be ---------------------------------------------------- */

/* Each retry divides pieces by four, at most this many times. */
#define SPLITS     3
#define PIECE_UNIT ((uint64_t)4096)

/* Uses the internal queue. Waits even if the submission failed, because part of the work may be in
 * progress and use the caller's memory. */
static compute_status move_piece(compute_device *device, const move *m, uint64_t offset,
                                 uint64_t bytes) {
  compute_status status = device_check(device, ERROR_BACKEND);
  if (status) return status;
  pthread_mutex_lock(&device->internal_mutex);
  status = submit(device->internal_queue, m, offset, bytes);
  const compute_status waited = compute_queue_wait(device->internal_queue);
  pthread_mutex_unlock(&device->internal_mutex);
  return status ? status : waited;
}

/* `true` for a status that drivers return when a copy is too large. A lost device does not
 * count. */
bool transfer_may_be_too_large(compute_status status) {
  return status == COMPUTE_ERROR_TRANSFER || status == COMPUTE_ERROR_LAUNCH ||
         status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY || status == COMPUTE_ERROR_OUT_OF_MEMORY;
}

/* Copying the same bytes again is harmless, so a failed piece is restarted. */
static compute_status move_all(compute_device *device, move m, uint64_t bytes) {
  m.detail = "";
  m.wait = true;
  if (bytes == 0) return COMPUTE_OK;
  compute_error before;
  compute_error_get(NULL, &before);
  compute_status status = move_piece(device, &m, 0, bytes);
  if (!transfer_may_be_too_large(status)) return status;
  uint64_t done = 0, piece = bytes;
  for (int split = 0; split < SPLITS && done < bytes; split++) {
    piece = round_up_u64(piece / 4, PIECE_UNIT);
    status = COMPUTE_OK;
    while (!status && done < bytes) {
      uint64_t now = piece < bytes - done ? piece : bytes - done;
      status = move_piece(device, &m, done, now);
      if (!status) done += now;
    }
    if (status && !transfer_may_be_too_large(status)) return status;
  }
  compute_error cause;
  compute_error_get(device->context, &cause);
  if (done == bytes) {
    fallback_note(device->context, device, FALLBACK_SPLIT_TRANSFER, true,
                  "a copy of %" PRIu64 " bytes failed and was repeated in pieces of %" PRIu64
                  ": %.200s",
                  bytes, piece, cause.message);
    error_restore(NULL, &before);
    return COMPUTE_OK;
  }
  if (status == COMPUTE_ERROR_LAUNCH) status = COMPUTE_ERROR_TRANSFER;
  return error_set_native(device->context, status, cause.native_code, ERROR_BACKEND, cause.remedy,
                          "%s: a copy of %" PRIu64 " bytes failed, also in pieces of %" PRIu64
                          ": %.200s",
                          device->info.name, bytes, piece, cause.message);
}

compute_status transfer_upload(compute_device *device, const compute_argument *destination,
                               const void *source, uint64_t bytes) {
  return move_all(device, (move){.kind = MOVE_UP, .to = *destination, .source = source}, bytes);
}

compute_status transfer_download(compute_device *device, void *destination,
                                 const compute_argument *source, uint64_t bytes) {
  return move_all(device, (move){.kind = MOVE_DOWN, .from = *source, .target = destination}, bytes);
}

compute_status transfer_copy(compute_device *device, const compute_argument *destination,
                             const compute_argument *source, uint64_t bytes) {
  return move_all(device, (move){.kind = MOVE_WITHIN, .to = *destination, .from = *source}, bytes);
}

/* ---- Between devices ------------------------------------------------------------------------ */

/* Returns `true` if the module has copied the bytes itself. Otherwise the host must copy them. */
static bool moved_by_peers(compute_device *to, const compute_argument *destination,
                           compute_device *from, const compute_argument *source, uint64_t bytes,
                           compute_status *status) {
  if (to->backend != from->backend || !to->backend->copy_from_peer) return false;
  if (device_check(from, ERROR_BACKEND)) return false;
  const move m = {.kind = MOVE_FROM_PEER,
                  .to = *destination,
                  .from = *source,
                  .peer = from,
                  .detail = from->info.name,
                  .wait = true};
  *status = move_piece(to, &m, 0, bytes);
  return *status != COMPUTE_ERROR_UNSUPPORTED && !transfer_may_be_too_large(*status);
}

static compute_status staged(compute_device *to, compute_argument destination, compute_device *from,
                             compute_argument source, uint64_t bytes) {
  uint64_t piece = min_u64(bytes, STAGING_BYTES);
  void *staging = base_allocate_aligned((uint64_t)piece, 64);
  if (!staging) {
    return error_set(to->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                     "not enough host memory for %" PRIu64 " bytes between %s and %s", piece,
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
  compute_status status = device_check(device, ERROR_BACKEND);
  if (!status) status = kernel_cache_get(device->kernels, descriptor, &entry);
  if (status) return status;
  pthread_mutex_lock(&device->internal_mutex);
  compute_queue *queue = device->internal_queue;
  profile_mark mark = {0};
  if (profile_is_on(device->context)) profile_begin(queue, &mark);
  status = queue_enqueue(queue, entry->kernel, arguments, count);
  if (mark.on) {
    const kernel_cost cost = kernel_cost_of(descriptor);
    if (!status) status = queue_wait_named(queue);
    profile_end(&mark, status,
                profile_entry_of(device->context, device, PROFILE_KERNEL,
                                 kernel_kind_name(descriptor->kind), "on its own"),
                (profile_work){.bytes = cost.bytes_read + cost.bytes_written});
  }
  const compute_status waited = compute_queue_wait(queue);
  pthread_mutex_unlock(&device->internal_mutex);
  if (!status) status = waited;
  kernel_cache_return(device->kernels, entry);
  return status;
}
