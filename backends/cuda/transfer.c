/* SPDX-License-Identifier: MIT */
/* Copies.
 *
 * The driver moves pinned memory by itself and at the bus's full speed; pageable memory it first
 * copies, in small pieces and with the caller waiting. So pageable memory goes through pinned
 * staging of our own, two pieces of which are under way while the processor fills or empties a
 * third. The pieces belong to the device; a transfer takes those that are free, at least one. A
 * system that gives no pinned memory gets the driver's own copies. */
#include "cuda.h"

#include <string.h>

#define PIECES      4
#define PIECE_BYTES ((uint64_t)4 << 20)
#define SMALL_BYTES ((uint64_t)64 << 10) /* the driver's own way is no slower */

typedef struct piece {
  unsigned char *data;
  cuda_event done; /* the copy from or to it */
  bool busy;       /* some transfer has it */
} piece;

struct cuda_staging {
  piece pieces[PIECES];
  bool none; /* the system gives no pinned memory */
};

/* ---- Staging ------------------------------------------------------------------------------- */

/* Fewer pieces than wanted are enough. */
static cuda_result fill_staging(cuda_device *device, cuda_staging *staging) {
  const cuda_driver *driver = device->driver;
  cuda_result code = CUDA_OK;
  for (int i = 0; i < PIECES && code == CUDA_OK; i++) {
    piece *p = &staging->pieces[i];
    void *data = NULL;
    code = driver->host_allocate(&data, PIECE_BYTES, CUDA_HOST_ALLOC_PORTABLE);
    if (code != CUDA_OK) break;
    code = driver->event_create(&p->done, CUDA_EVENT_DISABLE_TIMING);
    if (code == CUDA_OK)
      p->data = data;
    else
      driver->host_free(data);
  }
  staging->none = staging->pieces[0].data == NULL;
  return cuda_is_fatal(code) ? code : CUDA_OK;
}

void cuda_staging_release(cuda_device *device) {
  cuda_staging *staging = device->staging;
  if (!staging) return;
  device->staging = NULL;
  if (cuda_enter_to_release(device)) {
    for (int i = 0; i < PIECES && staging->pieces[i].data; i++) {
      cuda_notice(device, device->driver->event_destroy(staging->pieces[i].done), "closing");
      cuda_notice(device, device->driver->host_free(staging->pieces[i].data), "closing");
    }
  }
  builder_free(&device->builder, staging);
}

/* Takes up to `wanted` free pieces; waits for one if need be. Returns how many, 0 on failure and
 * where there are none. */
static int pieces_take(cuda_device *device, int wanted, piece **taken, compute_status *status) {
  int count = 0;
  *status = COMPUTE_OK;
  pthread_mutex_lock(&device->staging_mutex);
  if (!device->staging) {
    cuda_staging *made = builder_allocate(&device->builder, sizeof *made);
    const cuda_result code = made ? fill_staging(device, made) : CUDA_OK;
    if (!made)
      *status = cuda_fail_memory(device->services, "staging");
    else if (code != CUDA_OK)
      *status = cuda_fail(device, code, "allocating pinned memory");
    if (*status == COMPUTE_OK)
      device->staging = made;
    else
      builder_free(&device->builder, made);
  }
  while (*status == COMPUTE_OK && !device->staging->none && count == 0) {
    for (int i = 0; i < PIECES && count < wanted; i++) {
      piece *p = &device->staging->pieces[i];
      if (!p->data || p->busy) continue;
      p->busy = true;
      taken[count++] = p;
    }
    if (count == 0) pthread_cond_wait(&device->staging_returned, &device->staging_mutex);
  }
  pthread_mutex_unlock(&device->staging_mutex);
  return count;
}

static void pieces_return(cuda_device *device, piece **taken, int count) {
  pthread_mutex_lock(&device->staging_mutex);
  for (int i = 0; i < count; i++) taken[i]->busy = false;
  pthread_cond_broadcast(&device->staging_returned);
  pthread_mutex_unlock(&device->staging_mutex);
}

static bool is_known(const cuda_device *device, const void *host) {
  uint32_t type = 0;
  return device->driver->pointer_attribute(&type, CUDA_POINTER_MEMORY_TYPE,
                                           (cuda_pointer)(uintptr_t)host) == CUDA_OK &&
         type != 0;
}

/* Whether the driver can move the memory without copying it first: all of it, since somebody may
 * have pinned only a part. */
static bool is_pinned(const cuda_device *device, const void *host, uint64_t bytes) {
  return is_known(device, host) && is_known(device, (const char *)host + bytes - 1);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* ---- To the device ------------------------------------------------------------------------- */

static cuda_result upload_pieces(cuda_queue *queue, cuda_pointer to, const unsigned char *from,
                                 uint64_t bytes, piece **pieces, int count) {
  const cuda_driver *driver = queue->device->driver;
  cuda_result code = CUDA_OK;
  int used = 0;
  for (uint64_t done = 0, i = 0; done < bytes && code == CUDA_OK; i++) {
    piece *p = pieces[i % (uint64_t)count];
    const uint64_t part = smaller(bytes - done, PIECE_BYTES);
    if (i >= (uint64_t)count) code = driver->event_wait(p->done);
    if (code != CUDA_OK) break;
    memcpy(p->data, from + done, part);
    code = driver->copy_to_device(to + done, p->data, part, queue->stream);
    if (code == CUDA_OK) code = driver->event_record(p->done, queue->stream);
    done += part;
    if (used < count) used++;
  }
  /* The pieces go to others only when the device has read them. */
  for (int i = 0; i < used && !cuda_is_fatal(code); i++) {
    const cuda_result waited = driver->event_wait(pieces[i]->done);
    if (code == CUDA_OK) code = waited;
  }
  return code;
}

/* ---- To the host --------------------------------------------------------------------------- */

static cuda_result download_pieces(cuda_queue *queue, unsigned char *to, cuda_pointer from,
                                   uint64_t bytes, piece **pieces, int count) {
  const cuda_driver *driver = queue->device->driver;
  cuda_result code = CUDA_OK;
  uint64_t asked = 0, taken = 0;
  while (taken < bytes && code == CUDA_OK) {
    while (asked < bytes && asked - taken < (uint64_t)count * PIECE_BYTES && code == CUDA_OK) {
      piece *p = pieces[asked / PIECE_BYTES % (uint64_t)count];
      const uint64_t part = smaller(bytes - asked, PIECE_BYTES);
      code = driver->copy_to_host(p->data, from + asked, part, queue->stream);
      if (code == CUDA_OK) code = driver->event_record(p->done, queue->stream);
      asked += part;
    }
    if (code != CUDA_OK) break;
    piece *p = pieces[taken / PIECE_BYTES % (uint64_t)count];
    const uint64_t part = smaller(bytes - taken, PIECE_BYTES);
    code = driver->event_wait(p->done);
    if (code == CUDA_OK) memcpy(to + taken, p->data, part);
    taken += part;
  }
  if (code != CUDA_OK && !cuda_is_fatal(code))
    driver->stream_wait(queue->stream); /* copies under way use the pieces */
  return code;
}

/* ---- Either way ---------------------------------------------------------------------------- */

typedef enum direction { UPLOAD, DOWNLOAD } direction;

/* At once where the host's memory is pinned or the copy small, else through the pieces. */
static compute_status transfer(cuda_queue *queue, direction which, cuda_pointer there, void *here,
                               uint64_t bytes) {
  cuda_device *device = queue->device;
  piece *pieces[PIECES];
  int count = 0;
  compute_status status = cuda_enter(device);
  if (status == COMPUTE_OK && bytes > SMALL_BYTES && !is_pinned(device, here, bytes))
    count = pieces_take(device, PIECES - 1, pieces, &status);
  if (status != COMPUTE_OK) return status;
  const cuda_driver *driver = device->driver;
  const cuda_result code =
      which == UPLOAD ? (count > 0 ? upload_pieces(queue, there, here, bytes, pieces, count)
                                   : driver->copy_to_device(there, here, bytes, queue->stream))
                      : (count > 0 ? download_pieces(queue, here, there, bytes, pieces, count)
                                   : driver->copy_to_host(here, there, bytes, queue->stream));
  if (count > 0) pieces_return(device, pieces, count);
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "%s %llu bytes", which == UPLOAD ? "uploading" : "downloading",
                   (unsigned long long)bytes);
}

compute_status cuda_upload(void *queue, const compute_argument *destination, const void *source,
                           uint64_t bytes) {
  return transfer(queue, UPLOAD, cuda_address(destination), (void *)source, bytes);
}

compute_status cuda_download(void *queue, void *destination, const compute_argument *source,
                             uint64_t bytes) {
  return transfer(queue, DOWNLOAD, cuda_address(source), destination, bytes);
}

/* ---- On the device and between devices ----------------------------------------------------- */

compute_status cuda_copy(void *handle, const compute_argument *destination,
                         const compute_argument *source, uint64_t bytes) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->copy_on_device(
      cuda_address(destination), cuda_address(source), bytes, queue->stream);
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "copying %llu bytes", (unsigned long long)bytes);
}

/* Lets the device read the peer's memory by itself, where the two can reach each other; else the
 * driver takes the copy through the host. Asked for once; the device's context is current. */
static void reach(cuda_device *device, const cuda_device *peer) {
  const cuda_driver *driver = device->driver;
  const uint64_t bit = (uint64_t)1 << (peer->index % 64);
  int32_t possible = 0;
  if (__atomic_fetch_or(&device->peers, bit, __ATOMIC_ACQ_REL) & bit) return;
  if (!driver->peer_possible || !driver->peer_enable ||
      driver->peer_possible(&possible, device->id, peer->id) != CUDA_OK || !possible)
    return;
  cuda_result code = driver->peer_enable(peer->context, 0);
  if (code == CUDA_PEER_ACCESS_ALREADY_ENABLED) code = CUDA_OK;
  /* Memory of a pool has an access list of its own. */
  const cuda_memory_access access = {{CUDA_LOCATION_DEVICE, device->id}, CUDA_ACCESS_READ_WRITE};
  if (code == CUDA_OK && peer->pool && driver->pool_access)
    code = driver->pool_access(peer->pool, &access, 1);
  cuda_notice(device, code, "reaching another GPU");
}

compute_status cuda_copy_from_peer(void *handle, const compute_argument *destination,
                                   void *source_device, const compute_argument *source,
                                   uint64_t bytes) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device, *peer = source_device;
  compute_status status = cuda_enter(peer); /* a lost peer has nothing to copy */
  if (status == COMPUTE_OK) status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  reach(device, peer);
  const cuda_result code =
      device->driver->copy_to_peer(cuda_address(destination), device->context, cuda_address(source),
                                   peer->context, bytes, queue->stream);
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "copying %llu bytes from cuda:%u", (unsigned long long)bytes,
                   peer->index);
}
