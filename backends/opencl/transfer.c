/* SPDX-License-Identifier: MIT */
/* Copies.
 *
 * The host copies shared memory itself, with the context's threads, after the queue has finished
 * with it. On a device with separate memory, copies go through a small ring of pinned host memory.
 * The device reaches it at full speed, and the driver need not pin pages at every call: while the
 * device transfers one piece, the host copies the next. Otherwise (unified memory that is not
 * shared) the driver's blocking copy is a plain memcpy. Listed host memory (memory.c) needs no
 * staging: one asynchronous command copies it. */
#include "opencl.h"

#include <string.h>

#define HOST_PIECE ((uint64_t)2 << 20) /* bytes per task of a copy by the host */
#define SLOT_BYTES ((uint64_t)2 << 20)
#define SLOTS      8

static opencl_memory *memory_of(const compute_argument *argument) {
  return argument->memory->handle;
}

static compute_status enter(opencl_queue *queue, const compute_argument *argument) {
  const compute_status status = opencl_enter_queue(queue);
  return status == COMPUTE_OK ? opencl_enter_memory(queue->device, argument->memory) : status;
}

/* ---- By the host --------------------------------------------------------------------------- */

typedef struct host_copy {
  unsigned char *to;
  const unsigned char *from;
  uint64_t bytes;
} host_copy;

static void host_copy_piece(void *argument, int64_t task, int32_t worker) {
  (void)worker;
  const host_copy *copy = argument;
  const uint64_t start = (uint64_t)task * HOST_PIECE, left = copy->bytes - start;
  memcpy(copy->to + start, copy->from + start, (size_t)(left < HOST_PIECE ? left : HOST_PIECE));
}

/* Runs after everything in the queue; a failure in the queue is reported at its next wait. */
static void copy_by_host(opencl_queue *queue, void *to, const void *from, uint64_t bytes) {
  const compute_services *services = queue->device->services;
  opencl_queue_drain(queue);
  host_copy copy = {to, from, bytes};
  const int64_t tasks = (int64_t)((bytes + HOST_PIECE - 1) / HOST_PIECE);
  if (tasks == 1)
    memcpy(to, from, (size_t)bytes);
  else
    services->parallel(services->host, tasks, host_copy_piece, &copy);
}

/* ---- Pinned memory ------------------------------------------------------------------------- */

typedef struct slot {
  cl_mem buffer;
  void *host;    /* where the buffer is mapped */
  cl_event busy; /* the copy that last used it, or NULL */
  uint64_t turn; /* sequence number of its last use */
  bool taken;
} slot;

struct opencl_staging {
  slot slots[SLOTS];
  uint64_t turns;
  cl_command_queue queue; /* maps and unmaps */
  bool failed;            /* the driver cannot pin memory */
};

/* Pinned memory is allocated once and stays mapped. */
static bool slot_fill(opencl_device *device, slot *filled) {
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  if (!device->staging->queue)
    device->staging->queue = cl->clCreateCommandQueue(device->context, device->id, 0, &code);
  if (!device->staging->queue) return false;
  filled->buffer = cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                      SLOT_BYTES, NULL, &code);
  if (!filled->buffer) return false;
  filled->host =
      cl->clEnqueueMapBuffer(device->staging->queue, filled->buffer, CL_TRUE,
                             CL_MAP_READ | CL_MAP_WRITE, 0, SLOT_BYTES, 0, NULL, NULL, &code);
  if (filled->host) return true;
  cl->clReleaseMemObject(filled->buffer);
  filled->buffer = NULL;
  return false;
}

/* Chooses a free slot: a never-used one first, then the least recently used. */
static slot *slot_choose(opencl_staging *staging) {
  slot *chosen = NULL;
  for (int i = 0; i < SLOTS; i++) {
    slot *other = &staging->slots[i];
    if (!other->taken && (!chosen || other->turn < chosen->turn)) chosen = other;
  }
  return chosen;
}

/* Takes a slot whose last copy has ended. NULL if the driver cannot pin memory, or if all are taken
 * and the caller may not wait: a caller that owns a slot must not wait for another one. */
static slot *slot_take(opencl_device *device, bool may_wait) {
  slot *chosen = NULL;
  pthread_mutex_lock(&device->staging_mutex);
  if (!device->staging)
    device->staging = builder_allocate(&device->builder, sizeof *device->staging);
  opencl_staging *staging = device->staging;
  while (staging && !staging->failed && !(chosen = slot_choose(staging)) && may_wait)
    pthread_cond_wait(&device->staging_returned, &device->staging_mutex);
  if (chosen && !chosen->buffer && !slot_fill(device, chosen)) {
    staging->failed = true;
    chosen = NULL;
    pthread_cond_broadcast(&device->staging_returned);
  }
  if (chosen) chosen->taken = true;
  pthread_mutex_unlock(&device->staging_mutex);
  if (chosen && chosen->busy) {
    device->cl->clWaitForEvents(1, &chosen->busy); /* its queue reports a failure */
    device->cl->clReleaseEvent(chosen->busy);
    chosen->busy = NULL;
  }
  return chosen;
}

static void slot_return(opencl_device *device, slot *returned) {
  pthread_mutex_lock(&device->staging_mutex);
  returned->taken = false;
  returned->turn = ++device->staging->turns;
  pthread_cond_signal(&device->staging_returned);
  pthread_mutex_unlock(&device->staging_mutex);
}

void opencl_staging_release(opencl_device *device) {
  opencl_staging *staging = device->staging;
  const opencl_library *cl = device->cl;
  if (!staging) return;
  for (int i = 0; i < SLOTS; i++) {
    slot *old = &staging->slots[i];
    if (old->busy) {
      /* Also in a lost context: a running copy uses the memory until it ends. */
      cl->clWaitForEvents(1, &old->busy);
      cl->clReleaseEvent(old->busy);
    }
    if (!old->buffer) continue;
    cl->clEnqueueUnmapMemObject(staging->queue, old->buffer, old->host, 0, NULL, NULL);
    cl->clReleaseMemObject(old->buffer);
  }
  if (staging->queue) {
    cl->clFinish(staging->queue);
    cl->clReleaseCommandQueue(staging->queue);
  }
  builder_free(&device->builder, staging);
  device->staging = NULL;
}

/* ---- By the driver ------------------------------------------------------------------------- */

typedef enum direction { TO_DEVICE, TO_HOST } direction;

/* One driver command between `host` and the memory. The event belongs to the queue. */
static cl_int transfer_piece(opencl_queue *queue, direction to, opencl_memory *memory,
                             uint64_t offset, void *host, uint64_t bytes, bool blocking,
                             cl_event *event) {
  const opencl_library *cl = queue->device->cl;
  opencl_lane *lane;
  cl_event wait;
  const uint32_t waits = opencl_lane_enter(queue, LANE_TRANSFER, &memory, 1, &lane, &wait);
  const cl_event *list = waits ? &wait : NULL;
  const cl_bool block = blocking ? CL_TRUE : CL_FALSE;
  *event = NULL;
  const cl_int code =
      to == TO_DEVICE ? cl->clEnqueueWriteBuffer(lane->queue, memory->buffer, block, (size_t)offset,
                                                 (size_t)bytes, host, waits, list, event)
                      : cl->clEnqueueReadBuffer(lane->queue, memory->buffer, block, (size_t)offset,
                                                (size_t)bytes, host, waits, list, event);
  if (code == CL_SUCCESS) opencl_lane_submitted(queue, lane, *event, &memory, 1);
  return code;
}

/* Copies everything in one asynchronous command. */
static cl_int transfer_known(opencl_queue *queue, direction to, const compute_argument *argument,
                             void *host, uint64_t bytes) {
  cl_event event;
  const cl_int code =
      transfer_piece(queue, to, memory_of(argument), argument->offset, host, bytes, false, &event);
  if (code != CL_SUCCESS) return code;
  return opencl_lane_flush(
      queue, &queue->lanes[queue->lanes[LANE_TRANSFER].queue ? LANE_TRANSFER : LANE_COMPUTE]);
}

/* Makes a slot reusable once this command has ended. */
static void slot_use(opencl_queue *queue, slot *used, cl_event event) {
  if (event && queue->device->cl->clRetainEvent(event) == CL_SUCCESS)
    used->busy = event;
  else
    opencl_queue_drain(queue); /* now the command has ended */
}

static cl_int upload_piece(opencl_queue *queue, opencl_memory *memory, uint64_t offset,
                           const unsigned char *source, uint64_t bytes) {
  opencl_device *device = queue->device;
  cl_event event;
  slot *used = device->two_queues ? slot_take(device, true) : NULL;
  if (!used)
    return transfer_piece(queue, TO_DEVICE, memory, offset, (void *)(uintptr_t)source, bytes, true,
                          &event);
  memcpy(used->host, source, (size_t)bytes);
  const cl_int code =
      transfer_piece(queue, TO_DEVICE, memory, offset, used->host, bytes, false, &event);
  if (code == CL_SUCCESS) slot_use(queue, used, event);
  slot_return(device, used);
  return code;
}

compute_status opencl_upload(void *handle, const compute_argument *destination, const void *source,
                             uint64_t bytes) {
  opencl_queue *queue = handle;
  const compute_status status = enter(queue, destination);
  if (status != COMPUTE_OK) return status;
  const bool known = opencl_host_is_known(queue->device, source, bytes);
  if (!known && destination->memory->host) {
    copy_by_host(queue, (char *)destination->memory->host + destination->offset, source, bytes);
    return COMPUTE_OK;
  }
  cl_int code = CL_SUCCESS;
  if (known) code = transfer_known(queue, TO_DEVICE, destination, (void *)(uintptr_t)source, bytes);
  for (uint64_t done = known ? bytes : 0, piece; done < bytes && code == CL_SUCCESS;
       done += piece) {
    piece = bytes - done < SLOT_BYTES || !queue->device->two_queues ? bytes - done : SLOT_BYTES;
    code = upload_piece(queue, memory_of(destination), destination->offset + done,
                        (const unsigned char *)source + done, piece);
  }
  return code ? opencl_fail(queue->device, code, "copying %llu bytes to device %u",
                            (unsigned long long)bytes, queue->device->index)
              : COMPUTE_OK;
}

/* A piece in transfer from the device. */
typedef struct arrival {
  slot *used;
  unsigned char *to;
  uint64_t bytes;
} arrival;

/* Waits for a piece and copies it out of its slot. */
static cl_int arrive(opencl_device *device, arrival *piece) {
  cl_int code = CL_SUCCESS;
  if (!piece->used) return code;
  if (piece->used->busy) {
    code = device->cl->clWaitForEvents(1, &piece->used->busy);
    device->cl->clReleaseEvent(piece->used->busy);
    piece->used->busy = NULL;
  }
  if (code == CL_SUCCESS) memcpy(piece->to, piece->used->host, (size_t)piece->bytes);
  slot_return(device, piece->used);
  piece->used = NULL;
  return code;
}

/* Starts a piece through a slot, or copies it at once if there is no slot. `other` may be in
 * progress. */
static cl_int depart(opencl_queue *queue, opencl_memory *memory, uint64_t offset, arrival *piece,
                     arrival *other) {
  opencl_device *device = queue->device;
  cl_event event;
  cl_int code = CL_SUCCESS;
  if (device->two_queues) piece->used = slot_take(device, !other->used);
  if (device->two_queues && !piece->used && other->used) {
    code = arrive(device, other);
    if (code != CL_SUCCESS) return code;
    piece->used = slot_take(device, true);
  }
  if (!piece->used)
    return transfer_piece(queue, TO_HOST, memory, offset, piece->to, piece->bytes, true, &event);
  code = transfer_piece(queue, TO_HOST, memory, offset, piece->used->host, piece->bytes, false,
                        &event);
  if (code == CL_SUCCESS) {
    slot_use(queue, piece->used, event);
    code = opencl_lane_flush(queue, &queue->lanes[LANE_TRANSFER]);
  }
  if (code != CL_SUCCESS) {
    opencl_queue_drain(queue);
    slot_return(device, piece->used);
    piece->used = NULL;
  }
  return code;
}

compute_status opencl_download(void *handle, void *destination, const compute_argument *source,
                               uint64_t bytes) {
  opencl_queue *queue = handle;
  opencl_device *device = queue->device;
  const compute_status status = enter(queue, source);
  if (status != COMPUTE_OK) return status;
  const bool known = opencl_host_is_known(device, destination, bytes);
  if (!known && source->memory->host) {
    copy_by_host(queue, destination, (char *)source->memory->host + source->offset, bytes);
    return COMPUTE_OK;
  }
  arrival pieces[2] = {{0}}; /* one is copied out while the other one arrives */
  cl_int code = CL_SUCCESS;
  int turn = 0;
  if (known) code = transfer_known(queue, TO_HOST, source, destination, bytes);
  for (uint64_t done = known ? bytes : 0; done < bytes && code == CL_SUCCESS; turn ^= 1) {
    arrival *piece = &pieces[turn];
    code = arrive(device, piece);
    if (code != CL_SUCCESS) break;
    piece->bytes = bytes - done < SLOT_BYTES || !device->two_queues ? bytes - done : SLOT_BYTES;
    piece->to = (unsigned char *)destination + done;
    code = depart(queue, memory_of(source), source->offset + done, piece, &pieces[turn ^ 1]);
    done += piece->bytes;
  }
  for (int i = 0; i < 2; i++) {
    const cl_int last = arrive(device, &pieces[turn ^ i]);
    if (code == CL_SUCCESS) code = last;
  }
  return code ? opencl_fail(device, code, "copying %llu bytes from device %u",
                            (unsigned long long)bytes, device->index)
              : COMPUTE_OK;
}

compute_status opencl_copy(void *handle, const compute_argument *destination,
                           const compute_argument *source, uint64_t bytes) {
  opencl_queue *queue = handle;
  compute_status status = enter(queue, destination);
  if (status == COMPUTE_OK) status = enter(queue, source);
  if (status != COMPUTE_OK) return status;
  opencl_memory *memories[2] = {memory_of(destination), memory_of(source)};
  opencl_lane *lane;
  cl_event wait, event = NULL;
  const uint32_t waits = opencl_lane_enter(queue, LANE_COMPUTE, memories, 2, &lane, &wait);
  const cl_int code = queue->device->cl->clEnqueueCopyBuffer(
      lane->queue, memories[1]->buffer, memories[0]->buffer, (size_t)source->offset,
      (size_t)destination->offset, (size_t)bytes, waits, waits ? &wait : NULL, &event);
  if (code != CL_SUCCESS)
    return opencl_fail(queue->device, code, "copying %llu bytes within device %u",
                       (unsigned long long)bytes, queue->device->index);
  opencl_lane_submitted(queue, lane, event, memories, 2);
  return COMPUTE_OK;
}
