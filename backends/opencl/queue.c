/* SPDX-License-Identifier: MIT */
/* Queues.
 *
 * A queue of the core is an in-order driver queue (a lane) for kernels. Devices with separate
 * memory have a second lane for transfers, so that a transfer can run beside kernels that do not
 * touch its memory. Tickets keep the order between the two lanes. Every command of the device gets
 * a number. Every memory stores the highest number of its commands in each kind of lane. Every lane
 * stores the highest number of the other lane that it has waited for. A command waits for the other
 * lane only if one of its memories was used there since. Queues share memories, so a number may
 * belong to another queue; then the wait is unnecessary but harmless. */
#include "opencl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Failures and pending commands --------------------------------------------------------- */

static void keep_failure(opencl_queue *queue, cl_int code) {
  if (queue->failure == CL_SUCCESS && code != CL_SUCCESS) queue->failure = code;
}

/* Commands after which a lane is flushed, so that the device is busy while a long run is enqueued. */
#define COMMANDS_KEPT 16

cl_int opencl_lane_flush(const opencl_queue *queue, opencl_lane *lane) {
  lane->kept = 0;
  return queue->device->cl->clFlush(lane->queue);
}

/* Reads the results of the oldest `count` commands, all of them finished, and releases them. */
static void harvest(opencl_queue *queue, opencl_lane *lane, uint32_t count) {
  const opencl_library *cl = queue->device->cl;
  for (uint32_t i = 0; i < count; i++) {
    cl_int state = CL_COMPLETE;
    cl->clGetEventInfo(lane->pending[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                       NULL);
    if (state < 0) keep_failure(queue, state);
    cl->clReleaseEvent(lane->pending[i]);
  }
  lane->count -= count;
  memmove(lane->pending, lane->pending + count, lane->count * sizeof *lane->pending);
}

/* Makes room for one more event. It waits for the older half, so that a queue under constant load
 * never exceeds its capacity. */
static void make_room(opencl_queue *queue, opencl_lane *lane) {
  if (lane->count < PENDING_EVENTS) return;
  const uint32_t half = PENDING_EVENTS / 2;
  const cl_int code = queue->device->cl->clWaitForEvents(1, &lane->pending[half - 1]);
  if (code != CL_SUCCESS && code != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    keep_failure(queue, code);
  harvest(queue, lane, half);
}

static void held_release(opencl_queue *queue) {
  for (uint32_t i = 0; i < queue->held_count; i++)
    queue->device->cl->clReleaseMemObject(queue->held[i]);
  queue->held_count = 0;
}

void opencl_queue_drain(opencl_queue *queue) {
  const opencl_library *cl = queue->device->cl;
  /* Either lane may wait for the other one. */
  for (int i = 0; i < LANES; i++) {
    opencl_lane *lane = &queue->lanes[i];
    if (lane->count > 0) keep_failure(queue, opencl_lane_flush(queue, lane));
  }
  cl_int codes[LANES] = {CL_SUCCESS, CL_SUCCESS};
  /* The last command first: clFinish of rusticl in Mesa 22.3 does not wait for flushed commands. */
  for (int i = 0; i < LANES; i++) {
    const opencl_lane *lane = &queue->lanes[i];
    if (lane->count == 0) continue;
    cl->clWaitForEvents(1, &lane->pending[lane->count - 1]);
    codes[i] = cl->clFinish(lane->queue);
  }
  /* A command's error code is more precise than the driver's later answer for the queue. */
  for (int i = 0; i < LANES; i++) {
    harvest(queue, &queue->lanes[i], queue->lanes[i].count);
    queue->lanes[i].seen = queue->lanes[i].entering = queue->lanes[1 - i].last;
  }
  for (int i = 0; i < LANES; i++) keep_failure(queue, codes[i]);
  held_release(queue);
}

/* ---- Order between the lanes --------------------------------------------------------------- */

uint32_t opencl_lane_enter(opencl_queue *queue, int which, opencl_memory *const *memories,
                           uint32_t count, opencl_lane **lane, cl_event *wait) {
  if (!queue->lanes[which].queue) which = LANE_COMPUTE;
  opencl_lane *own = *lane = &queue->lanes[which];
  opencl_lane *sister = &queue->lanes[1 - which];
  make_room(queue, own);
  own->entering = own->seen;
  if (!sister->queue || sister->count == 0 || sister->last <= own->seen) return 0;
  bool used = false;
  for (uint32_t i = 0; i < count; i++)
    used |= atomic_load_explicit(&memories[i]->used[1 - which], memory_order_acquire) > own->seen;
  if (!used) return 0;
  keep_failure(queue, opencl_lane_flush(queue, sister));
  *wait = sister->pending[sister->count - 1];
  own->entering = sister->last;
  return 1;
}

/* Several queues may mark one memory at once; the highest ticket wins. */
static void mark(_Atomic uint64_t *used, uint64_t ticket) {
  uint64_t before = atomic_load_explicit(used, memory_order_relaxed);
  while (before < ticket &&
         !atomic_compare_exchange_weak_explicit(used, &before, ticket, memory_order_release,
                                                memory_order_relaxed)) {
  }
}

void opencl_lane_submitted(opencl_queue *queue, opencl_lane *lane, cl_event event,
                           opencl_memory *const *memories, uint32_t count) {
  make_room(queue, lane); /* a kernel may be several commands */
  lane->last = atomic_fetch_add_explicit(&queue->device->tickets, 1, memory_order_relaxed) + 1;
  if (lane->seen < lane->entering) lane->seen = lane->entering;
  if (event) lane->pending[lane->count++] = event;
  if (++lane->kept >= COMMANDS_KEPT) keep_failure(queue, opencl_lane_flush(queue, lane));
  const int which = lane == &queue->lanes[LANE_TRANSFER] ? LANE_TRANSFER : LANE_COMPUTE;
  for (uint32_t i = 0; i < count; i++) mark(&memories[i]->used[which], lane->last);
}

/* ---- Scratch of a queue -------------------------------------------------------------------- */

compute_status opencl_workspace(opencl_queue *queue, uint64_t bytes, cl_mem *workspace) {
  opencl_device *device = queue->device;
  if (bytes > queue->workspace_bytes) {
    cl_int code = CL_SUCCESS;
    /* Running commands may use the old workspace. */
    if (queue->workspace) {
      opencl_queue_drain(queue);
      device->cl->clReleaseMemObject(queue->workspace);
      queue->workspace = NULL;
      queue->workspace_bytes = 0;
    }
    const uint64_t rounded = (bytes + 65535) & ~(uint64_t)65535;
    if (rounded <= device->allocation_limit) {
      queue->workspace = device->cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE,
                                                    (size_t)rounded, NULL, &code);
    } else {
      code = CL_INVALID_BUFFER_SIZE;
    }
    if (!queue->workspace)
      return opencl_fail(device, code ? code : CL_MEM_OBJECT_ALLOCATION_FAILURE,
                         "%llu bytes of scratch memory for a kernel", (unsigned long long)rounded);
    queue->workspace_bytes = rounded;
  }
  *workspace = queue->workspace;
  return COMPUTE_OK;
}

/* Zeroes records. The queue must be idle. */
static compute_status fault_clear(opencl_queue *queue, uint32_t words) {
  static const int32_t zeros[FAULT_WORDS];
  opencl_memory *memory = queue->fault.handle;
  const size_t bytes = words * sizeof *zeros;
  if (queue->fault.host) {
    memset(queue->fault.host, 0, bytes);
    return COMPUTE_OK;
  }
  const cl_int code = queue->device->cl->clEnqueueWriteBuffer(
      queue->lanes[LANE_COMPUTE].queue, memory->buffer, CL_TRUE, 0, bytes, zeros, 0, NULL, NULL);
  return code ? opencl_fail(queue->device, code, "preparing the check of indices") : COMPUTE_OK;
}

compute_status opencl_fault_words(opencl_queue *queue, opencl_memory **memory) {
  if (!queue->fault.handle) {
    compute_status status = opencl_memory_allocate(queue->device, FAULT_TABLE_BYTES, &queue->fault);
    if (status == COMPUTE_OK) {
      status = fault_clear(queue, FAULT_WORDS);
      if (status != COMPUTE_OK) opencl_memory_release(queue->device, &queue->fault);
    }
    if (status != COMPUTE_OK) return status;
  }
  *memory = queue->fault.handle;
  return COMPUTE_OK;
}

/* Takes the records of kernels since the last wait, with or without a fault. False if there are
 * none. The queue must be idle. */
static bool fault_fetch(opencl_queue *queue, int32_t *words) {
  const uint32_t count = fault_words(&queue->faults);
  const size_t bytes = count * sizeof *words;
  if (count == 0 || !queue->fault.handle) return false;
  if (queue->fault.host) {
    memcpy(words, queue->fault.host, bytes);
  } else {
    opencl_memory *memory = queue->fault.handle;
    memset(words, 0, bytes);
    keep_failure(queue, queue->device->cl->clEnqueueReadBuffer(queue->lanes[LANE_COMPUTE].queue,
                                                               memory->buffer, CL_TRUE, 0, bytes,
                                                               words, 0, NULL, NULL));
  }
  bool found = false;
  for (uint32_t i = 0; i < count; i++) found |= words[i] != 0;
  if (found && fault_clear(queue, count) != COMPUTE_OK)
    opencl_memory_release(queue->device, &queue->fault); /* new records will be zeroed */
  return true;
}

void opencl_queue_hold(opencl_queue *queue, cl_mem buffer) {
  if (queue->held_count == HELD_BUFFERS) opencl_queue_drain(queue);
  queue->held[queue->held_count++] = buffer;
}

/* ---- The vtable's functions ---------------------------------------------------------------- */

/* Creates the lanes that this device's queues need and replaces existing ones. On a failure the old
 * lanes stay. */
static compute_status lanes_make(opencl_queue *queue, cl_command_queue_properties properties) {
  opencl_device *device = queue->device;
  const opencl_library *cl = device->cl;
  cl_command_queue made[LANES] = {NULL};
  const int lanes = device->two_queues ? LANES : 1;
  for (int i = 0; i < lanes; i++) {
    cl_int code = CL_SUCCESS;
    made[i] = cl->clCreateCommandQueue(device->context, device->id, properties, &code);
    if (made[i]) continue;
    while (i-- > 0) cl->clReleaseCommandQueue(made[i]);
    return opencl_fail(device, code, "making a queue of device %u", device->index);
  }
  for (int i = 0; i < lanes; i++) {
    if (queue->lanes[i].queue) cl->clReleaseCommandQueue(queue->lanes[i].queue);
    queue->lanes[i].queue = made[i];
  }
  return COMPUTE_OK;
}

compute_status opencl_queue_create(void *handle, void **result) {
  opencl_device *device = handle;
  compute_status status = opencl_enter(device);
  if (status != COMPUTE_OK) return status;
  opencl_queue *queue = builder_allocate(&device->builder, sizeof *queue);
  if (!queue) return opencl_fail_memory(device->services, "a queue");
  queue->device = device;
  queue->generation = opencl_generation(device);
  status = lanes_make(queue, 0);
  if (status == COMPUTE_OK)
    *result = queue;
  else
    builder_free(&device->builder, queue);
  return status;
}

compute_status opencl_queue_keep_times(opencl_queue *queue) {
  if (queue->keeps_times) return COMPUTE_OK;
  opencl_queue_drain(queue);
  const compute_status status = lanes_make(queue, CL_QUEUE_PROFILING_ENABLE);
  queue->keeps_times = status == COMPUTE_OK;
  return status;
}

void opencl_queue_destroy(void *handle) {
  opencl_queue *queue = handle;
  opencl_device *device = queue->device;
  opencl_queue_drain(queue);
  if (queue->workspace) device->cl->clReleaseMemObject(queue->workspace);
  if (queue->fault.handle) opencl_memory_release(device, &queue->fault);
  for (int i = 0; i < LANES; i++) {
    if (queue->lanes[i].queue) device->cl->clReleaseCommandQueue(queue->lanes[i].queue);
  }
  builder_free(&device->builder, queue);
}

compute_status opencl_queue_wait(void *handle) {
  opencl_queue *queue = handle;
  const compute_services *services = queue->device->services;
  const compute_status status = opencl_enter_queue(queue);
  if (status != COMPUTE_OK) return status;
  opencl_queue_drain(queue);
  int32_t words[FAULT_WORDS];
  const bool checked = fault_fetch(queue, words);
  const cl_int failure = queue->failure;
  queue->failure = CL_SUCCESS;
  if (failure != CL_SUCCESS)
    return opencl_fail(queue->device, failure, "work on device %u failed", queue->device->index);
  char name[32];
  snprintf(name, sizeof name, "opencl:%u", queue->device->index);
  return checked ? fault_report(&queue->faults, services, words, name) : COMPUTE_OK;
}

compute_status opencl_queue_flush(void *handle) {
  opencl_queue *queue = handle;
  const compute_status status = opencl_enter_queue(queue);
  for (int i = 0; i < LANES && status == COMPUTE_OK; i++) {
    opencl_lane *lane = &queue->lanes[i];
    if (lane->kept > 0) keep_failure(queue, opencl_lane_flush(queue, lane));
  }
  return status;
}

void opencl_queue_label(void *handle, uint32_t label) {
  ((opencl_queue *)handle)->faults.label = label;
}
