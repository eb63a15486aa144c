/* SPDX-License-Identifier: MIT */
/* Moves elements between tensors and the transport, piece by piece.
 *
 * A tensor in host memory is copied to and from the group's memory. A tensor on a device passes
 * through page-locked host memory. There are two pieces each way, so the bus and the network work
 * at the same time. If the transport reaches the device's memory and elements are only moved, the
 * pieces are in device memory. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/device/device.h"
#include "core/device/registry.h"
#include "core/device/transfer.h"
#include "core/tensor/tensor.h"
#include "group/group.h"

static const char operation[] = "compute_group_open";
#define PAGE 4096

enum { TURNS = 2 };

struct group_stage {
  struct group_stage *next;
  compute_device *device;
  uint32_t generation;      /* of the device; a recovered device needs new queues */
  compute_queue *queues[2]; /* from the device, and to it: the bus transfers both ways at once */
  char *memory;             /* host memory: TURNS pieces out, TURNS pieces in; NULL until needed */
  bool locked;
  memory_buffer *pieces[2 * TURNS]; /* in device memory */
};

/* Location of a piece: an address for the transport, in memory of a device unless `memory` is
 * NULL. */
typedef struct place {
  char *address;
  const compute_memory *memory;
} place;

/* The input or the output of a call. */
typedef struct side {
  compute_tensor *tensor; /* NULL: this rank has none */
  compute_queue *queue;   /* NULL: the tensor is in host memory */
  place at[TURNS];
  compute_event *pending[TURNS]; /* copy to or from that place, or NULL */
} side;

/* ---- Stages ---------------------------------------------------------------------------------- */

static compute_status no_memory(const compute_process_group *group, size_t bytes) {
  return error_set(group->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory to exchange elements of a device: %zu bytes", bytes);
}

static void stage_release(group_stage *stage) {
  for (int i = 0; i < 2; i++) queue_destroy_internal(stage->queues[i]);
  base_release(stage);
}

static compute_status stage_of(compute_process_group *group, compute_device *device,
                               group_stage **stage) {
  const uint32_t generation = device_generation(device);
  for (*stage = group->stages; *stage; *stage = (*stage)->next)
    if ((*stage)->device == device && (*stage)->generation == generation) return COMPUTE_OK;
  group_stage *made = base_allocate(1, sizeof *made);
  if (!made) return no_memory(group, sizeof *made);
  made->device = device;
  made->generation = generation;
  compute_status status = queue_create_internal(device, &made->queues[0]);
  if (!status) status = queue_create_internal(device, &made->queues[1]);
  if (status) {
    stage_release(made);
    return status;
  }
  made->next = group->stages;
  group->stages = *stage = made;
  return COMPUTE_OK;
}

compute_status group_stage_queue(compute_process_group *group, compute_device *device,
                                 compute_queue **queue) {
  group_stage *stage = NULL;
  const compute_status status = stage_of(group, device, &stage);
  if (!status) *queue = stage->queues[0];
  return status;
}

static size_t stage_bytes(const compute_process_group *group) {
  return group->piece_bytes + 16 * (size_t)group->size;
}

/* Memory that the device cannot page-lock also works, but copies are slower. */
static compute_status take_host_memory(compute_process_group *group, group_stage *stage) {
  if (stage->memory) return COMPUTE_OK;
  const size_t bytes = 2 * TURNS * stage_bytes(group);
  stage->memory = base_allocate_aligned(bytes, PAGE);
  if (!stage->memory) return no_memory(group, bytes);
  const compute_backend *backend = stage->device->backend;
  if (!backend->host_register) return COMPUTE_OK;
  compute_error before;
  compute_error_get(group->context, &before);
  stage->locked = backend->host_register(stage->device->handle, stage->memory, bytes) == COMPUTE_OK;
  error_restore(group->context, &before);
  return COMPUTE_OK;
}

/* After a failure the transport may still write to the memory, so it is kept, like the group's
 * memory. */
void group_stages_release(compute_process_group *group) {
  const bool broken = atomic_load_explicit(&group->broken, memory_order_relaxed);
  for (group_stage *stage = group->stages, *next; stage; stage = next) {
    next = stage->next;
    if (stage->locked)
      stage->device->backend->host_unregister(stage->device->handle, stage->memory);
    for (int i = 0; i < 2 * TURNS; i++) {
      if (broken)
        group_abandon(stage->pieces[i]);
      else
        buffer_release(stage->pieces[i]);
    }
    if (broken)
      group_abandon(stage->memory);
    else
      base_release(stage->memory);
    stage_release(stage);
  }
  group->stages = NULL;
}

/* ---- Memory of devices for the transport ----------------------------------------------------- */

/* The device's type in DLPack's numbering, or 0. */
static int32_t device_type(const compute_device *device) {
  compute_foreign_memory numbers = {0};
  if (!device->backend->memory_export) return 0;
  device->backend->memory_export(device->handle, NULL, &numbers);
  return numbers.device_type;
}

void group_stage_join(compute_process_group *group) {
  const compute_transport *t = group->transport;
  const bool knows = t->struct_size >= offsetof(compute_transport, reaches) + sizeof t->reaches;
  const int32_t type = group->device ? device_type(group->device) : 0;
  if (group->host_only || type == 0 || !knows || !t->reaches) return;
  process_load_begin(); /* it may call the dynamic loader */
  if (t->reaches(group->instance, type)) group->reached_type = type;
  process_load_end();
}

bool group_stage_reaches(const compute_process_group *group, const compute_device *device) {
  return group->reached_type != 0 && device_type(device) == group->reached_type;
}

static compute_status take_device_memory(compute_process_group *group, group_stage *stage,
                                         memory_buffer **buffer, place *at) {
  compute_foreign_memory foreign = {0};
  compute_status status = COMPUTE_OK;
  if (!*buffer) status = buffer_create(stage->device, stage_bytes(group), buffer);
  if (status) return status;
  const compute_argument whole = {&(*buffer)->memory, 0};
  stage->device->backend->memory_export(stage->device->handle, &whole, &foreign);
  *at = (place){(char *)foreign.data + foreign.byte_offset, &(*buffer)->memory};
  return COMPUTE_OK;
}

/* ---- One side of a call ---------------------------------------------------------------------- */

/* Elements in host memory are copied just before they are carried, so one piece is enough. */
static compute_status side_open(const compute_group_request *r, bool moved, bool input, side *s) {
  compute_process_group *group = r->group;
  compute_tensor *tensor = input ? r->input : r->output;
  *s = (side){.tensor = tensor};
  for (int t = 0; t < TURNS; t++) s->at[t].address = input ? group->outgoing : group->incoming;
  if (!tensor || compute_tensor_data(tensor)) return COMPUTE_OK;
  compute_device *device = compute_tensor_device(tensor);
  group_stage *stage = NULL;
  compute_status status = stage_of(group, device, &stage);
  if (status) return status;
  s->queue = stage->queues[input ? 0 : 1];
  if (!moved || !group_stage_reaches(group, device)) {
    status = take_host_memory(group, stage);
    for (int t = 0; !status && t < TURNS; t++)
      s->at[t].address = stage->memory + (size_t)(input ? t : TURNS + t) * stage_bytes(group);
    return status;
  }
  for (int t = 0; !status && t < TURNS; t++)
    status = take_device_memory(group, stage, &stage->pieces[input ? t : TURNS + t], &s->at[t]);
  return status;
}

/* Queues a copy between a piece and the tensor's elements from `first` on. A copy too large for the
 * driver is split. */
static compute_status copy(const side *s, int64_t first, int64_t count, const place *at,
                           uint64_t offset, bool load) {
  const uint64_t size = compute_dtype_size(s->tensor->dtype), bytes = (uint64_t)count * size;
  char *data = compute_tensor_data(s->tensor), *memory = at->address + offset;
  if (data) {
    data += (uint64_t)first * size;
    memcpy(load ? memory : data, load ? data : memory, (size_t)bytes);
    return COMPUTE_OK;
  }
  const compute_argument piece = {at->memory, offset};
  compute_argument there = tensor_argument(s->tensor);
  there.offset += (uint64_t)first * size;
  if (at->memory)
    return load ? queue_copy(s->queue, &piece, &there, bytes, "group")
                : queue_copy(s->queue, &there, &piece, bytes, "group");
  const compute_status status = load ? queue_download(s->queue, memory, &there, bytes, "group")
                                     : queue_upload(s->queue, &there, memory, bytes, "group");
  if (!transfer_may_be_too_large(status)) return status;
  compute_device *device = compute_tensor_device(s->tensor);
  return load ? transfer_download(device, memory, &there, bytes)
              : transfer_upload(device, &there, memory, bytes);
}

static int64_t count_at(const group_flow *flow, int64_t first) {
  const int64_t left = flow->elements - first;
  return left < flow->most ? left : flow->most;
}

/* Copies a piece's part of each of `blocks` blocks. */
static compute_status copy_blocks(side *s, const group_flow *flow, int32_t blocks, int64_t first,
                                  int turn, bool load) {
  const int64_t count = count_at(flow, first);
  const uint64_t bytes = (uint64_t)count * compute_dtype_size(s->tensor->dtype);
  compute_status status = COMPUTE_OK;
  for (int32_t k = 0; !status && k < blocks; k++)
    status = copy(s, k * flow->elements + first, count, &s->at[turn], (uint64_t)k * bytes, load);
  if (!status && s->queue) status = compute_event_record(s->queue, &s->pending[turn]);
  return status;
}

static compute_status await_copy(side *s, int turn) {
  compute_event *event = s->pending[turn];
  if (!event) return COMPUTE_OK;
  s->pending[turn] = NULL;
  const compute_status status = compute_event_wait(event);
  compute_event_release(event);
  return status;
}

/* Waits even after a failure, since copies in progress use the tensor. */
static compute_status side_close(side *s, compute_status before) {
  if (!s->queue) return before;
  for (int t = 0; t < TURNS; t++) compute_event_release(s->pending[t]);
  compute_error error;
  compute_error_get(s->queue->device->context, &error);
  const compute_status status = compute_queue_wait(s->queue);
  if (before) error_restore(s->queue->device->context, &error);
  return before ? before : status;
}

/* ---- Both sides ------------------------------------------------------------------------------ */

typedef struct passage {
  const compute_group_request *request;
  const group_flow *flow;
  side input, output;
} passage;

static compute_status load(passage *p, int64_t first, int turn) {
  const group_flow *flow = p->flow;
  if (flow->loads == 0 || first >= flow->elements) return COMPUTE_OK;
  return copy_blocks(&p->input, flow, flow->loads, first, turn, true);
}

static compute_status carry(passage *p, int64_t first, int turn) {
  const group_flow *flow = p->flow;
  const compute_status status = flow->carry(p->request, count_at(flow, first),
                                            p->input.at[turn].address, p->output.at[turn].address);
  return status || flow->stores == 0
             ? status
             : copy_blocks(&p->output, flow, flow->stores, first, turn, false);
}

/* On a device, the next piece is filled while the current one is carried. */
static compute_status pass_all(passage *p) {
  const group_flow *flow = p->flow;
  const bool ahead = p->input.queue != NULL;
  compute_status status = ahead ? load(p, 0, 0) : COMPUTE_OK;
  int turn = 0;
  for (int64_t first = 0; !status && first < flow->elements; first += flow->most) {
    status = ahead ? await_copy(&p->input, turn) : load(p, first, turn);
    if (!status && ahead) status = load(p, first + flow->most, 1 - turn);
    if (!status) status = await_copy(&p->output, turn);
    if (!status) status = carry(p, first, turn);
    turn = 1 - turn;
  }
  return status;
}

compute_status group_pass(const compute_group_request *request, const group_flow *flow) {
  passage p = {.request = request, .flow = flow};
  compute_status status = side_open(request, flow->moved, true, &p.input);
  if (!status) status = side_open(request, flow->moved, false, &p.output);
  if (!status) status = pass_all(&p);
  status = side_close(&p.input, status);
  status = side_close(&p.output, status);
  if (!status) return COMPUTE_OK;
  error_attribute(request->group->context, request->operation);
  return group_break(request->group, status);
}
