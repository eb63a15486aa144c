/* SPDX-License-Identifier: MIT */
/* Calls that the devices of all ranks carry out among themselves (communicator_… of
 * compute/backend.h), without host memory.
 *
 * When a group opens, the ranks exchange the offers of their devices. All elements go through the
 * transport if one of these conditions holds: a device makes no offer, libraries differ, two
 * ranks share a device, or joining fails on any rank. That is no error. A later failure breaks
 * the group. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "group/group.h"

static const char operation[] = "compute_group_open";
#define ABORT_SECONDS 10 /* limit for the kernels of an aborted communicator to end */

struct group_direct {
  const compute_backend *backend;
  void *communicator;
  compute_queue *queue;
};

/* Entries of the tables that the ranks exchange: at most 1 KiB. */
typedef struct offer {
  int32_t able;
  char why[188]; /* reason if not able */
  char backend[32];
  compute_communicator_offer of;
} offer;

typedef struct step {
  int32_t failed;
  char why[188];
  uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES];
} step;

_Static_assert((int)COMPUTE_COLLECTIVE_MEAN == (int)COMPUTE_GROUP_MEAN &&
                   (int)COMPUTE_COLLECTIVE_MIN == (int)COMPUTE_GROUP_MIN,
               "reductions have the same numbers");

static void copy_reason(const compute_process_group *group, char why[188]) {
  compute_error error = {.status = COMPUTE_OK};
  compute_error_get(group->context, &error);
  snprintf(why, 188, "%s", error_text(&error));
}

/* ---- Offers of the devices ------------------------------------------------------------------- */

static bool has_communicators(const compute_backend *b) {
  return b->communicator_offer && b->communicator_identify && b->communicator_open &&
         b->communicator_supports && b->communicator_submit && b->communicator_test &&
         b->communicator_finish && b->communicator_close;
}

static void make_offer(const compute_process_group *group, offer *own) {
  const compute_device *device = group->device;
  memset(own, 0, sizeof *own);
  if (group->host_only) {
    snprintf(own->why, sizeof own->why, "it was asked to use host memory only");
  } else if (!device || !has_communicators(device->backend)) {
    snprintf(own->why, sizeof own->why, "nothing connects %s with other devices",
             device ? device->info.name : "it");
  } else if (device->backend->communicator_offer(device->handle, &own->of)) {
    copy_reason(group, own->why);
  } else {
    own->able = 1;
    snprintf(own->backend, sizeof own->backend, "%s", device->backend->name);
  }
}

/* Every rank reaches the same answer. The texts come from other processes, so they are terminated
 * first. */
static bool can_connect(compute_process_group *group, offer *offers) {
  for (int32_t r = 0; r < group->size; r++) {
    offer *o = &offers[r];
    o->why[sizeof o->why - 1] = o->backend[sizeof o->backend - 1] = '\0';
    o->of.library[sizeof o->of.library - 1] = o->of.place[sizeof o->of.place - 1] = '\0';
    if (!o->able) {
      snprintf(group->not_direct, sizeof group->not_direct, "rank %d: %s", (int)r, o->why);
      return false;
    }
    if (strcmp(o->backend, offers->backend) || strcmp(o->of.library, offers->of.library)) {
      snprintf(group->not_direct, sizeof group->not_direct, "rank %d has %s, rank 0 has %s", (int)r,
               o->of.library, offers->of.library);
      return false;
    }
    for (int32_t before = 0; before < r; before++) {
      if (strcmp(o->of.place, offers[before].of.place) != 0 ||
          strcmp(group->members[r].host, group->members[before].host) != 0)
        continue;
      snprintf(group->not_direct, sizeof group->not_direct, "ranks %d and %d share a device, %s",
               (int)before, (int)r, group->members[r].device);
      return false;
    }
  }
  return true;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Exchanges the result of a step. If it failed on any rank, sets the reason why the devices are not
 * connected. */
static compute_status share_step(compute_process_group *group, step *own, compute_status status,
                                 bool *good) {
  step *all = base_allocate((uint64_t)group->size, sizeof *all);
  if (!all) return group_no_memory(group, (size_t)group->size * sizeof *all);
  own->failed = status != COMPUTE_OK;
  if (status) copy_reason(group, own->why);
  status = group_gather_now(group, operation, own, (int32_t)sizeof *own, all);
  *good = true;
  for (int32_t r = 0; !status && *good && r < group->size; r++) {
    if (!all[r].failed) continue;
    *good = false;
    snprintf(group->not_direct, sizeof group->not_direct, "rank %d: %.187s", (int)r, all[r].why);
  }
  if (!status && *good) memcpy(own->id, all[0].id, sizeof own->id);
  base_release(all);
  return status;
}

static compute_status ask_communicator(void *what, bool *done) {
  const group_direct *direct = what;
  return direct->backend->communicator_test(direct->communicator, done);
}

/* The communicator cannot name the ranks that are missing. But before this wait, all ranks have
 * reported over the transport that they have arrived. */
static void explain_devices(const void *what, char *text, size_t text_bytes) {
  (void)what;
  snprintf(text, text_bytes, "; all have come to this call, but a device has not ended it");
}

/* Rank 0 makes an id, all ranks open, then all have joined. After each step the ranks exchange
 * failures. Joining has half the limit, since the other ranks wait for those that have reached
 * it. */
static compute_status connect_devices(compute_process_group *group, group_direct *direct) {
  void *device = group->device->handle;
  step own = {.failed = 0};
  bool good = false;
  compute_status status = COMPUTE_OK;
  if (group->rank == 0) status = direct->backend->communicator_identify(device, own.id);
  status = share_step(group, &own, status, &good);
  if (status || !good) return status;
  status = group_stage_queue(group, group->device, &direct->queue);
  if (!status)
    status = direct->backend->communicator_open(device, own.id, group->rank, group->size,
                                                &direct->communicator);
  status = share_step(group, &own, status, &good);
  if (status || !good) return status;
  status = group_await(group, operation, group->timeout / 2,
                       &(group_wait){ask_communicator, explain_devices, direct});
  status = share_step(group, &own, status, &good);
  if (!status && good) {
    group->direct = direct;
    group->connected = true;
  }
  return status;
}

compute_status group_direct_join(compute_process_group *group) {
  if (group->size == 1) {
    snprintf(group->not_direct, sizeof group->not_direct, "there is one rank");
    return COMPUTE_OK;
  }
  offer own, *offers = base_allocate((uint64_t)group->size, sizeof *offers);
  group_direct *direct = base_allocate(1, sizeof *direct);
  compute_status status = COMPUTE_OK;
  if (!offers || !direct)
    status = group_no_memory(group, (size_t)group->size * sizeof *offers + sizeof *direct);
  if (!status) {
    make_offer(group, &own);
    status = group_gather_now(group, operation, &own, (int32_t)sizeof own, offers);
  }
  if (!status && can_connect(group, offers)) {
    snprintf(group->direct_name, sizeof group->direct_name, "%s", own.of.library);
    direct->backend = group->device->backend;
    status = connect_devices(group, direct);
    if (!status && !group->direct)
      log_write(COMPUTE_LOG_WARNING, "group", "%s does not connect the devices: %s",
                group->direct_name, group->not_direct);
  }
  if (!group->direct && direct && direct->communicator)
    direct->backend->communicator_close(direct->communicator, false);
  if (!group->direct) base_release(direct);
  base_release(offers);
  return status;
}

void group_direct_close(compute_process_group *group, bool orderly) {
  group_direct *direct = group->direct;
  if (!direct) return;
  group->direct = NULL;
  orderly = orderly && direct->backend->communicator_finish(direct->communicator) == COMPUTE_OK &&
            group_await(group, "compute_group_close", group->timeout,
                        &(group_wait){ask_communicator, explain_devices, direct}) == COMPUTE_OK;
  direct->backend->communicator_close(direct->communicator, orderly);
  base_release(direct);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Translates a call for the communicator. False for calls without elements. */
static bool translate(const compute_group_request *r, compute_collective *c) {
  *c = (compute_collective){.reduction = (compute_collective_reduction)r->call.reduction,
                            .dtype = (compute_dtype)r->call.dtype,
                            .peer = r->peer,
                            .count = r->call.count};
  switch ((group_kind)r->call.kind) {
  case GROUP_ALL_REDUCE: c->kind = COMPUTE_COLLECTIVE_ALL_REDUCE; return true;
  case GROUP_REDUCE_SCATTER: c->kind = COMPUTE_COLLECTIVE_REDUCE_SCATTER; return true;
  case GROUP_ALL_GATHER: c->kind = COMPUTE_COLLECTIVE_ALL_GATHER; return true;
  case GROUP_BROADCAST:
    c->kind = COMPUTE_COLLECTIVE_BROADCAST;
    c->peer = r->call.root;
    return true;
  case GROUP_SEND_RECEIVE:
    c->kind = r->call.sends ? COMPUTE_COLLECTIVE_SEND : COMPUTE_COLLECTIVE_RECEIVE;
    return true;
  case GROUP_BARRIER:
  case GROUP_BYTES:
  case GROUP_FAILED:
  case GROUP_CLOSE:
  case GROUP_KINDS: break;
  }
  return false;
}

static bool is_on(const compute_tensor *tensor, const compute_device *device) {
  return !tensor || (compute_tensor_device(tensor) == device && !compute_tensor_data(tensor));
}

bool group_direct_suits(const compute_group_request *r) {
  const compute_process_group *group = r->group;
  const group_direct *direct = group->direct;
  compute_collective c;
  if (!direct || r->call.count == 0 || !translate(r, &c)) return false;
  if (!is_on(r->input, group->device) || !is_on(r->output, group->device)) return false;
  const bool adds = c.kind <= COMPUTE_COLLECTIVE_REDUCE_SCATTER &&
                    c.reduction <= COMPUTE_COLLECTIVE_MEAN && dtype_is_float(c.dtype);
  const bool exact = r->call.accumulate == COMPUTE_F64 && c.dtype != COMPUTE_F64;
  if (adds && (r->fixed_order || exact)) return false;
  return direct->backend->communicator_supports(direct->communicator, &c);
}

/* A submitted call. */
typedef struct submission {
  const group_direct *direct;
  compute_event *event; /* recorded after the call */
} submission;

static compute_status ask_event(void *what, bool *done) {
  const submission *s = what;
  bool idle = false;
  const compute_status status =
      s->direct->backend->communicator_test(s->direct->communicator, &idle);
  return status ? status : compute_event_query(s->event, done);
}

static compute_status submit(const compute_group_request *r, submission *s) {
  compute_process_group *group = r->group;
  group_direct *direct = group->direct;
  compute_argument input = {0}, output = {0};
  compute_collective c;
  translate(r, &c);
  if (r->input) input = tensor_argument(r->input);
  if (r->output) output = tensor_argument(r->output);
  compute_status status = device_check(group->device, r->operation);
  if (!status && r->after) status = compute_queue_wait_event(direct->queue, r->after);
  if (!status)
    status =
        direct->backend->communicator_submit(direct->communicator, direct->queue->handle, &c,
                                             r->input ? &input : NULL, r->output ? &output : NULL);
  if (!status)
    status = group_await(group, r->operation, group->timeout,
                         &(group_wait){ask_communicator, explain_devices, direct});
  return status ? status : compute_event_record(direct->queue, &s->event);
}

/* Ends the kernels that wait for other ranks. Afterwards they do not access the tensors. */
static compute_status give_up(const compute_group_request *r, compute_status status) {
  compute_process_group *group = r->group;
  group_direct *direct = group->direct;
  error_attribute(group->context, r->operation);
  (void)group_break(group, status);
  compute_queue *queue = direct->queue;
  group_direct_close(group, false);
  (void)queue_wait_until(queue, clock_now() + (int64_t)ABORT_SECONDS * 1000000000);
  error_restore(group->context, &group->reason);
  return status;
}

compute_status group_direct_perform(const compute_group_request *r) {
  submission s = {.direct = r->group->direct};
  compute_status status = submit(r, &s);
  if (!status)
    status = group_await(r->group, r->operation, r->group->timeout,
                         &(group_wait){ask_event, explain_devices, &s});
  compute_event_release(s.event);
  return status ? give_up(r, status) : COMPUTE_OK;
}
