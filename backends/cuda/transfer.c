/* SPDX-License-Identifier: MIT */
/* Copies.
 *
 * The driver moves pinned memory directly and at the bus's full speed. It first copies pageable
 * memory, in small pieces, while the caller waits. So this file stages pageable memory in pinned
 * memory, divided into lanes. Each thread of the context takes a lane and copies piece after piece:
 * the device moves one piece while the thread fills or empties the other. One thread copies more
 * slowly than a fast bus. Pieces are small enough to stay in the processor's cache. Lanes belong to
 * the device; a transfer takes the free ones, at least one. If the system gives no pinned memory,
 * the driver copies. */
#include "cuda.h"

#include <stdatomic.h>
#include <string.h>

#define LANES       8
#define PIECES      2 /* per lane */
#define PIECE_BYTES ((uint64_t)2 << 20)
#define PIECE_LEAST ((uint64_t)256 << 10)
#define ROUND_PARTS 4 /* parts per thread before the transfer asks for threads again */
#define SMALL_BYTES ((uint64_t)64 << 10) /* here the driver's own staging is no slower */

typedef struct lane {
  unsigned char *data;     /* PIECES times PIECE_BYTES; NULL until the first use */
  cuda_event done[PIECES]; /* the last copy from or to the piece */
  bool busy;               /* used by a transfer */
} lane;

struct cuda_staging {
  lane lanes[LANES];
  int limit; /* number of lanes with pinned memory, as far as known */
};

/* ---- Staging ------------------------------------------------------------------------------- */

static void lane_empty(cuda_device *device, lane *l) {
  const cuda_driver *driver = device->driver;
  for (int i = 0; i < PIECES; i++)
    if (l->done[i]) cuda_notice(device, driver->event_destroy(l->done[i]), "releasing staging");
  if (l->data) cuda_notice(device, driver->host_free(l->data), "releasing staging");
  *l = (lane){0};
}

static cuda_result lane_fill(cuda_device *device, lane *l) {
  const cuda_driver *driver = device->driver;
  void *data = NULL;
  cuda_result code = driver->host_allocate(&data, PIECES * PIECE_BYTES, CUDA_HOST_ALLOC_PORTABLE);
  if (code == CUDA_OK) l->data = data;
  for (int i = 0; i < PIECES && code == CUDA_OK; i++)
    code = driver->event_create(&l->done[i], CUDA_EVENT_DISABLE_TIMING);
  if (code != CUDA_OK && !cuda_is_fatal(code)) lane_empty(device, l);
  return code;
}

void cuda_staging_release(cuda_device *device) {
  cuda_staging *staging = device->staging;
  if (!staging) return;
  device->staging = NULL;
  if (cuda_enter_to_release(device))
    for (int i = 0; i < LANES; i++) lane_empty(device, &staging->lanes[i]);
  builder_free(&device->builder, staging);
}

/* Takes free lanes; fewer than wanted are enough. Call with the mutex locked. */
static cuda_result take_free(cuda_device *device, int wanted, lane **taken, int *count) {
  cuda_staging *staging = device->staging;
  for (int i = 0; i < staging->limit && *count < wanted; i++) {
    lane *l = &staging->lanes[i];
    if (l->busy) continue;
    const cuda_result code = l->data ? CUDA_OK : lane_fill(device, l);
    if (cuda_is_fatal(code)) return code;
    if (code != CUDA_OK) {
      staging->limit = i;
    } else {
      l->busy = true;
      taken[(*count)++] = l;
    }
  }
  return CUDA_OK;
}

static void lanes_return(cuda_device *device, lane **taken, int count) {
  pthread_mutex_lock(&device->staging_mutex);
  for (int i = 0; i < count; i++) taken[i]->busy = false;
  pthread_cond_broadcast(&device->staging_returned);
  pthread_mutex_unlock(&device->staging_mutex);
}

/* Takes up to `wanted` free lanes, and waits for one if necessary. Returns their number; 0 on
 * failure or if there are none. */
static int lanes_take(cuda_device *device, int wanted, lane **taken, compute_status *status) {
  int count = 0;
  cuda_result code = CUDA_OK;
  pthread_mutex_lock(&device->staging_mutex);
  if (!device->staging) {
    device->staging = builder_allocate(&device->builder, sizeof *device->staging);
    if (device->staging) device->staging->limit = LANES;
  }
  *status = device->staging ? COMPUTE_OK : cuda_fail_memory(device->services, "staging");
  while (*status == COMPUTE_OK && device->staging->limit > 0 && count == 0) {
    code = take_free(device, wanted, taken, &count);
    if (code != CUDA_OK)
      *status = cuda_fail(device, code, "allocating pinned memory");
    else if (count == 0 && device->staging->limit > 0)
      pthread_cond_wait(&device->staging_returned, &device->staging_mutex);
  }
  pthread_mutex_unlock(&device->staging_mutex);
  if (*status == COMPUTE_OK) return count;
  lanes_return(device, taken, count);
  return 0;
}

/* ---- Staged copies ------------------------------------------------------------------------- */

typedef enum direction { UPLOAD, DOWNLOAD } direction;

typedef struct transfer {
  cuda_queue *queue;
  direction which;
  cuda_pointer there;
  unsigned char *here;
  uint64_t bytes, piece_bytes;
  _Atomic uint64_t next; /* the start of the next part for any lane */
  _Atomic int32_t code;  /* the first failure, or 0 */
  bool caller_served;
  lane *lanes[LANES];
} transfer;

typedef struct part {
  uint64_t start, bytes;
} part;

/* The next part of the copy; false if there is none, or after a failure. */
static bool take_part(transfer *t, part *p) {
  if (atomic_load_explicit(&t->code, memory_order_relaxed) != CUDA_OK) return false;
  p->start = atomic_fetch_add_explicit(&t->next, t->piece_bytes, memory_order_relaxed);
  if (p->start >= t->bytes) return false;
  const uint64_t left = t->bytes - p->start;
  p->bytes = left < t->piece_bytes ? left : t->piece_bytes;
  return true;
}

static void note(transfer *t, cuda_result code) {
  int32_t none = CUDA_OK;
  if (code != CUDA_OK)
    atomic_compare_exchange_strong_explicit(&t->code, &none, code, memory_order_relaxed,
                                            memory_order_relaxed);
}

static cuda_result upload_part(const transfer *t, const lane *l, uint64_t number, part p) {
  const cuda_driver *driver = t->queue->device->driver;
  const uint64_t slot = number % PIECES;
  unsigned char *staged = l->data + slot * PIECE_BYTES;
  cuda_result code = number >= PIECES ? driver->event_wait(l->done[slot]) : CUDA_OK;
  if (code != CUDA_OK) return code;
  memcpy(staged, t->here + p.start, p.bytes);
  code = driver->copy_to_device(t->there + p.start, staged, p.bytes, t->queue->stream);
  return code == CUDA_OK ? driver->event_record(l->done[slot], t->queue->stream) : code;
}

/* Copies parts to the device through the lane, which stays taken until the device has read it. */
static void upload_by(transfer *t, const lane *l) {
  const cuda_driver *driver = t->queue->device->driver;
  uint64_t count = 0;
  for (part p; count < ROUND_PARTS && take_part(t, &p); count++)
    note(t, upload_part(t, l, count, p));
  for (uint64_t i = count < PIECES ? 0 : count - PIECES; i < count; i++)
    if (atomic_load_explicit(&t->code, memory_order_relaxed) == CUDA_OK)
      note(t, driver->event_wait(l->done[i % PIECES]));
}

static cuda_result ask_part(const transfer *t, const lane *l, uint64_t number, part p) {
  const cuda_driver *driver = t->queue->device->driver;
  const uint64_t slot = number % PIECES;
  const cuda_result code = driver->copy_to_host(l->data + slot * PIECE_BYTES, t->there + p.start,
                                                p.bytes, t->queue->stream);
  return code == CUDA_OK ? driver->event_record(l->done[slot], t->queue->stream) : code;
}

static void download_by(transfer *t, const lane *l) {
  const cuda_driver *driver = t->queue->device->driver;
  part parts[PIECES];
  uint64_t asked = 0, taken = 0;
  do {
    for (part p; asked < ROUND_PARTS && asked - taken < PIECES && take_part(t, &p); asked++) {
      parts[asked % PIECES] = p;
      note(t, ask_part(t, l, asked, p));
    }
    if (taken == asked || atomic_load_explicit(&t->code, memory_order_relaxed) != CUDA_OK) return;
    const part p = parts[taken % PIECES];
    const cuda_result code = driver->event_wait(l->done[taken % PIECES]);
    if (code == CUDA_OK) memcpy(t->here + p.start, l->data + taken % PIECES * PIECE_BYTES, p.bytes);
    note(t, code);
    taken++;
  } while (true);
}

/* The caller runs one lane only. If it gets all of them, another loop has the threads, and they may
 * be free again soon. */
static void run_lane(void *argument, int64_t task, int32_t worker) {
  transfer *t = argument;
  if (worker == 0 && t->caller_served) return;
  if (worker == 0) t->caller_served = true;
  if (!cuda_enter_to_release(t->queue->device)) return; /* other lanes copy its share */
  if (t->which == UPLOAD)
    upload_by(t, t->lanes[task]);
  else
    download_by(t, t->lanes[task]);
}

static cuda_result move_by_lanes(transfer *t, int count) {
  const cuda_device *device = t->queue->device;
  const cuda_driver *driver = device->driver;
  const compute_services *services = device->services;
  uint64_t before = 1, next = 0;
  /* Threads of the shared pool must not wait for a kernel. */
  cuda_result code = count > 1 ? driver->stream_wait(t->queue->stream) : CUDA_OK;
  atomic_init(&t->code, code);
  atomic_init(&t->next, 0);
  while (code == CUDA_OK && next < t->bytes && next != before) {
    before = next;
    t->caller_served = false;
    services->parallel(services->host, count, run_lane, t);
    code = atomic_load_explicit(&t->code, memory_order_relaxed);
    next = atomic_load_explicit(&t->next, memory_order_relaxed);
  }
  if (code == CUDA_OK && next < t->bytes) code = CUDA_UNKNOWN; /* no thread could enter */
  if (code != CUDA_OK && !cuda_is_fatal(code))
    driver->stream_wait(t->queue->stream); /* running copies use the lanes */
  return code;
}

/* ---- Choosing the path --------------------------------------------------------------------- */

static bool is_known(const cuda_device *device, const void *host) {
  return cuda_pointer_facts_of(device, host).type != 0;
}

/* `true` if the driver can move the memory without staging. Checks both ends, since only a part may
 * be pinned. */
static bool is_pinned(const cuda_device *device, const void *host, uint64_t bytes) {
  return is_known(device, host) && is_known(device, (const char *)host + bytes - 1);
}

/* The size of a part: small enough to overlap staging and transfer, and large enough for low start
 * costs. */
static uint64_t part_bytes(uint64_t bytes) {
  const uint64_t quarter = (bytes / 4 + 4095) & ~(uint64_t)4095;
  return quarter < PIECE_LEAST ? PIECE_LEAST : quarter < PIECE_BYTES ? quarter : PIECE_BYTES;
}

static int lanes_wanted(const compute_services *services, const transfer *t) {
  const uint64_t lanes = t->bytes / (PIECES * t->piece_bytes);
  const uint64_t threads = (uint64_t)services->thread_count(services->host);
  const uint64_t most = threads < LANES ? threads : LANES;
  return lanes < 1 ? 1 : (int)(lanes < most ? lanes : most);
}

/* Copies directly if the host's memory is pinned or the copy is small; otherwise stages it. */
static compute_status move(cuda_queue *queue, direction which, cuda_pointer there, void *here,
                           uint64_t bytes) {
  cuda_device *device = queue->device;
  const cuda_driver *driver = device->driver;
  transfer t = {.queue = queue,
                .which = which,
                .there = there,
                .here = here,
                .bytes = bytes,
                .piece_bytes = part_bytes(bytes)};
  int count = 0;
  compute_status status = cuda_enter(device);
  if (status == COMPUTE_OK && bytes > SMALL_BYTES && !is_pinned(device, here, bytes))
    count = lanes_take(device, lanes_wanted(device->services, &t), t.lanes, &status);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = count > 0 ? move_by_lanes(&t, count)
                           : which == UPLOAD
                               ? driver->copy_to_device(there, here, bytes, queue->stream)
                               : driver->copy_to_host(here, there, bytes, queue->stream);
  if (count > 0) lanes_return(device, t.lanes, count);
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "%s %llu bytes", which == UPLOAD ? "uploading" : "downloading",
                   (unsigned long long)bytes);
}

compute_status cuda_upload(void *queue, const compute_argument *destination, const void *source,
                           uint64_t bytes) {
  return move(queue, UPLOAD, cuda_address(destination), (void *)source, bytes);
}

compute_status cuda_download(void *queue, void *destination, const compute_argument *source,
                             uint64_t bytes) {
  return move(queue, DOWNLOAD, cuda_address(source), destination, bytes);
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

/* Enables direct access to the peer's memory if the two GPUs support it; otherwise the driver
 * copies through the host. Requested once; the device's context is current. */
static void reach(cuda_device *device, const cuda_device *peer) {
  const cuda_driver *driver = device->driver;
  const uint64_t bit = (uint64_t)1 << (peer->index % 64);
  int32_t possible = 0;
  if (atomic_fetch_or_explicit(&device->peers, bit, memory_order_acq_rel) & bit) return;
  if (!driver->peer_possible || !driver->peer_enable ||
      driver->peer_possible(&possible, device->id, peer->id) != CUDA_OK || !possible)
    return;
  cuda_result code = driver->peer_enable(peer->context, 0);
  if (code == CUDA_PEER_ACCESS_ALREADY_ENABLED) code = CUDA_OK;
  /* Pool memory has a separate access list. */
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
