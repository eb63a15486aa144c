/* SPDX-License-Identifier: MIT */
/* Carries out requests on the group's thread. First the ranks compare their requests; then the
 * elements follow in pieces. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "group/group.h"

/* Up to this number of bytes from all ranks together, every rank reduces all parts itself: one
 * message instead of two. */
#define SMALL_BYTES 65536

typedef compute_group_request request;

/* ---- Pieces of tensors ---------------------------------------------------------------------- */

static size_t element_bytes(const request *r) {
  return compute_dtype_size((compute_dtype)r->call.dtype);
}

/* Elements in one part of a piece, if the piece has `parts` parts from each rank. */
static int64_t piece_elements(const request *r, int32_t parts) {
  const int64_t most = (int64_t)(r->group->piece_bytes / element_bytes(r)) / parts;
  return most > 0 ? most : 1;
}

/* Sets the part sizes of an operation, equal for all ranks. Returns the bytes of one part. */
static size_t set_parts(const request *r, int64_t count) {
  const size_t bytes = (size_t)count * element_bytes(r);
  for (int32_t k = 0; k < r->group->size; k++) r->group->part_bytes[k] = (int32_t)bytes;
  return bytes;
}

/* ---- The same call on all ranks ------------------------------------------------------------- */

static const char *const kind_names[GROUP_KINDS] = {
    [GROUP_BARRIER] = "barrier",       [GROUP_BYTES] = "exchange",
    [GROUP_ALL_REDUCE] = "all_reduce", [GROUP_REDUCE_SCATTER] = "reduce_scatter",
    [GROUP_ALL_GATHER] = "all_gather", [GROUP_BROADCAST] = "broadcast",
    [GROUP_SEND_RECEIVE] = "receive",  [GROUP_FAILED] = "a failure",
    [GROUP_CLOSE] = "close",
};

/* Describes a rank's call in words. The call comes from another process, so no field is trusted. */
static void describe(const group_call *call, char *text, size_t bytes) {
  static const char *const reductions[] = {"sum", "mean", "max", "min"};
  const char *kind = call->kind >= 0 && call->kind < GROUP_KINDS ? kind_names[call->kind] : "?";
  const bool reduces = call->kind == GROUP_ALL_REDUCE || call->kind == GROUP_REDUCE_SCATTER;
  int used = snprintf(text, bytes, "%s", call->sends ? "send" : kind);
  if (call->kind == GROUP_BARRIER || call->kind == GROUP_CLOSE) return;
  if (call->kind == GROUP_BYTES) {
    snprintf(text + used, bytes - (size_t)used, " of %" PRId64 " bytes", call->count);
    return;
  }
  if (reduces && call->reduction >= 0 && call->reduction < 4)
    used += snprintf(text + used, bytes - (size_t)used, " (%s%s)", reductions[call->reduction],
                     call->accumulate == COMPUTE_F64 ? " in f64" : "");
  used += snprintf(text + used, bytes - (size_t)used, " of %" PRId64 " elements of %s", call->count,
                   compute_dtype_name((compute_dtype)call->dtype));
  if (call->kind == GROUP_BROADCAST)
    snprintf(text + used, bytes - (size_t)used, " from rank %d", (int)call->root);
}

static compute_status differ(const request *r, const group_call *mine, int32_t rank,
                             const group_call *theirs, int32_t other) {
  char a[128], b[128];
  describe(mine, a, sizeof a);
  describe(theirs, b, sizeof b);
  return error_set(r->group->context, COMPUTE_ERROR_INVALID_ARGUMENT, r->operation,
                   "the ranks' calls differ: rank %d calls %s, rank %d %s", (int)rank, a,
                   (int)other, b);
}

/* The first rank whose call has this kind, or −1. */
static int32_t find_kind(const compute_process_group *group, group_kind kind) {
  for (int32_t k = 0; k < group->size; k++)
    if (group->calls[k].kind == (int32_t)kind) return k;
  return -1;
}

/* The message of the first failed rank to the others. */
typedef struct group_failure {
  int32_t status;
  char message[sizeof((compute_error *)0)->message];
} group_failure;

static compute_status learn_failure(const request *r, int32_t failed) {
  compute_process_group *group = r->group;
  group_failure told = {.status = (int32_t)r->error.status};
  snprintf(told.message, sizeof told.message, "%s", r->error.message);
  memcpy(group->outgoing, &told, sizeof told);
  const compute_status status = group_finish(
      group, r->operation,
      group->transport->broadcast(group->instance, group->outgoing, (int32_t)sizeof told, failed));
  if (status || r->call.kind == GROUP_FAILED) return status;
  memcpy(&told, group->outgoing, sizeof told);
  return error_set(group->context, (compute_status)told.status, r->operation, "rank %d: %.480s",
                   (int)failed, told.message);
}

/* 1 if all ranks can leave the call to their devices. Clears the `direct` fields, so the comparison
 * of the other fields ignores them. */
static int16_t all_direct(compute_process_group *group) {
  int16_t direct = 1;
  for (int32_t k = 0; k < group->size; k++) {
    direct &= group->calls[k].direct;
    group->calls[k].direct = 0;
  }
  return direct;
}

/* A rank that closes makes no further call, so no report of a difference can follow. */
static compute_status compare(request *r) {
  compute_process_group *group = r->group;
  compute_status status =
      group_gather_now(group, r->operation, &r->call, (int32_t)sizeof r->call, group->calls);
  if (status) return status;
  r->call.direct = all_direct(group);
  int32_t other = 1;
  while (other < group->size &&
         memcmp(&group->calls[other], &group->calls[0], sizeof *group->calls) == 0)
    other++;
  if (other >= group->size) return COMPUTE_OK;
  const int32_t closing = find_kind(group, GROUP_CLOSE);
  const int32_t failed = closing < 0 ? find_kind(group, GROUP_FAILED) : -1;
  if (failed >= 0) return learn_failure(r, failed);
  if (closing < 0) return differ(r, &group->calls[0], 0, &group->calls[other], other);
  return group_break(group, error_set(group->context, COMPUTE_ERROR_INVALID_STATE, r->operation,
                                      "rank %d has closed its group", (int)closing));
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static compute_status carry_small(const request *r, int64_t count, void *outgoing, void *incoming) {
  compute_process_group *group = r->group;
  set_parts(r, count);
  const compute_status status = group_finish(
      group, r->operation,
      group->transport->gather(group->instance, outgoing, incoming, group->part_bytes));
  if (status) return status;
  group_reduce(&r->call, group->size, incoming, (size_t)count, incoming);
  return COMPUTE_OK;
}

/* Reduces a piece: every rank reduces one part, then gathers all parts. */
static compute_status carry_shares(const request *r, int64_t count, void *outgoing,
                                   void *incoming) {
  compute_process_group *group = r->group;
  const size_t size = element_bytes(r);
  const int64_t share = count / group->size, more = count % group->size;
  for (int32_t k = 0; k < group->size; k++)
    group->part_bytes[k] = (int32_t)((size_t)(share + (k < more)) * size);
  const int64_t own = share + (group->rank < more);
  const compute_status status =
      group_finish(group, r->operation,
                   group->transport->exchange(group->instance, outgoing, group->part_bytes,
                                              incoming, group->part_bytes[group->rank]));
  if (status) return status;
  group_reduce(&r->call, group->size, incoming, (size_t)own, outgoing);
  return group_finish(
      group, r->operation,
      group->transport->gather(group->instance, outgoing, incoming, group->part_bytes));
}

static compute_status all_reduce(const request *r) {
  const int64_t count = r->call.count;
  const uint64_t all = (uint64_t)count * element_bytes(r) * (uint64_t)r->group->size;
  const group_flow flow = {.elements = count,
                           .most = piece_elements(r, 1),
                           .loads = 1,
                           .stores = 1,
                           .carry = all <= SMALL_BYTES ? carry_small : carry_shares};
  return group_pass(r, &flow);
}

static compute_status carry_blocks(const request *r, int64_t count, void *outgoing,
                                   void *incoming) {
  compute_process_group *group = r->group;
  const size_t bytes = set_parts(r, count);
  const compute_status status =
      group_finish(group, r->operation,
                   group->transport->exchange(group->instance, outgoing, group->part_bytes,
                                              incoming, (int32_t)bytes));
  if (status) return status;
  group_reduce(&r->call, group->size, incoming, (size_t)count, incoming);
  return COMPUTE_OK;
}

static compute_status reduce_scatter(const request *r) {
  const group_flow flow = {.elements = r->call.count / r->group->size,
                           .most = piece_elements(r, r->group->size),
                           .loads = r->group->size,
                           .stores = 1,
                           .carry = carry_blocks};
  return group_pass(r, &flow);
}

/* ---- Moving elements ------------------------------------------------------------------------ */

static compute_status carry_to_all(const request *r, int64_t count, void *outgoing,
                                   void *incoming) {
  compute_process_group *group = r->group;
  set_parts(r, count);
  return group_finish(
      group, r->operation,
      group->transport->gather(group->instance, outgoing, incoming, group->part_bytes));
}

static compute_status all_gather(const request *r) {
  const group_flow flow = {.elements = r->call.count,
                           .most = piece_elements(r, r->group->size),
                           .loads = 1,
                           .stores = r->group->size,
                           .moved = true,
                           .carry = carry_to_all};
  return group_pass(r, &flow);
}

static compute_status carry_from_root(const request *r, int64_t count, void *outgoing,
                                      void *incoming) {
  compute_process_group *group = r->group;
  const int32_t bytes = (int32_t)((size_t)count * element_bytes(r));
  return group_finish(group, r->operation,
                      group->transport->broadcast(group->instance, r->input ? outgoing : incoming,
                                                  bytes, r->call.root));
}

/* Sends or receives one message of `bytes` bytes at `memory`. */
static compute_status pass(const request *r, bool sends, void *memory, int32_t bytes) {
  compute_process_group *group = r->group;
  const compute_transport *t = group->transport;
  const int code = sends ? t->send(group->instance, memory, bytes, r->peer)
                         : t->receive(group->instance, memory, bytes, r->peer);
  return group_finish_with(group, r->operation, code, r->peer);
}

static compute_status carry_to_one(const request *r, int64_t count, void *outgoing,
                                   void *incoming) {
  return pass(r, r->call.sends, r->call.sends ? outgoing : incoming,
              (int32_t)((size_t)count * element_bytes(r)));
}

/* A broadcast or a message: this rank has either an input or an output. */
static compute_status give_or_take(const request *r) {
  const group_flow flow = {.elements = r->call.count,
                           .most = piece_elements(r, 1),
                           .loads = r->input != NULL,
                           .stores = r->output != NULL,
                           .moved = true,
                           .carry =
                               r->call.kind == GROUP_BROADCAST ? carry_from_root : carry_to_one};
  return group_pass(r, &flow);
}

/* Both sides exchange their calls. The lower rank sends first, whichever side sends the
 * elements. */
static compute_status compare_with_peer(request *r) {
  compute_process_group *group = r->group;
  compute_status status = COMPUTE_OK;
  for (int turn = 0; !status && turn < 2; turn++) {
    const bool tell = (group->rank < r->peer) == (turn == 0);
    char *memory = tell ? group->outgoing : group->incoming;
    if (tell) memcpy(memory, &r->call, sizeof r->call);
    status = pass(r, tell, memory, (int32_t)sizeof r->call);
  }
  if (status) return status;
  group_call theirs, wanted = r->call;
  memcpy(&theirs, group->incoming, sizeof theirs);
  wanted.sends = !wanted.sends;
  r->call.direct &= theirs.direct;
  wanted.direct = theirs.direct;
  if (memcmp(&theirs, &wanted, sizeof theirs) == 0) return COMPUTE_OK;
  if (theirs.sends != r->call.sends) return differ(r, &r->call, group->rank, &theirs, r->peer);
  return error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, r->operation,
                   "both ranks %s: rank %d and rank %d", r->call.sends ? "send" : "receive",
                   (int)group->rank, (int)r->peer);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Gathers in pieces that fit into the group's memory for any number of ranks. */
static compute_status gather_bytes(const request *r) {
  compute_process_group *group = r->group;
  const size_t bytes = (size_t)r->call.count, most = group->piece_bytes / (size_t)group->size;
  compute_status status = COMPUTE_OK;
  for (size_t first = 0; !status && first < bytes; first += most) {
    const size_t part = bytes - first < most ? bytes - first : most;
    for (int32_t k = 0; k < group->size; k++) group->part_bytes[k] = (int32_t)part;
    memcpy(group->outgoing, (const char *)r->bytes + first, part);
    status = group_finish(group, r->operation,
                          group->transport->gather(group->instance, group->outgoing,
                                                   group->incoming, group->part_bytes));
    for (int32_t k = 0; !status && k < group->size; k++)
      memcpy((char *)r->all_bytes + (size_t)k * bytes + first, group->incoming + (size_t)k * part,
             part);
  }
  return status;
}

static compute_status perform(request *r) {
  if (r->call.direct) return group_direct_perform(r);
  if (r->after) {
    const compute_status status = compute_event_wait(r->after);
    if (status) return group_break(r->group, status);
  }
  switch ((group_kind)r->call.kind) {
  case GROUP_BYTES: return gather_bytes(r);
  case GROUP_ALL_REDUCE: return all_reduce(r);
  case GROUP_REDUCE_SCATTER: return reduce_scatter(r);
  case GROUP_ALL_GATHER: return all_gather(r);
  case GROUP_BROADCAST:
  case GROUP_SEND_RECEIVE: return give_or_take(r);
  case GROUP_BARRIER:
  case GROUP_FAILED:
  case GROUP_CLOSE:
  case GROUP_KINDS: break;
  }
  return COMPUTE_OK;
}

compute_status group_perform(request *r) {
  compute_process_group *group = r->group;
  const compute_status broken = atomic_load_explicit(&group->broken, memory_order_relaxed);
  if (broken) {
    error_restore(group->context, &group->reason);
    return broken;
  }
  r->call.direct = group_direct_suits(r);
  const compute_status status =
      r->call.kind == GROUP_SEND_RECEIVE ? compare_with_peer(r) : compare(r);
  group->all_close = !status && r->call.kind == GROUP_CLOSE;
  return status || r->call.count == 0 ? status : perform(r);
}
