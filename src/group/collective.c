/* SPDX-License-Identifier: MIT */
/* Carrying out requests, on the group's thread. First the ranks compare what they were asked for;
 * then the elements follow in pieces. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/transfer.h"
#include "group/group.h"
#include "tensor/tensor.h"

/* A reduction of at most so many bytes from all ranks is done by every rank for itself: one message
 * instead of two. */
#define SMALL_BYTES 65536

typedef compute_group_request request;

/* ---- Pieces of tensors ---------------------------------------------------------------------- */

/* Copies `count` elements from number `first` on between a dense tensor and host memory. */
static compute_status move(compute_tensor *tensor, int64_t first, int64_t count, void *memory,
                           bool load) {
  const uint64_t size = compute_dtype_size(tensor->dtype), bytes = (uint64_t)count * size;
  compute_device *device = compute_tensor_device(tensor);
  char *data = compute_tensor_data(tensor);
  if (data && load) memcpy(memory, data + (uint64_t)first * size, (size_t)bytes);
  if (data && !load) memcpy(data + (uint64_t)first * size, memory, (size_t)bytes);
  if (data) return COMPUTE_OK;
  compute_argument place = tensor_argument(tensor);
  place.offset += (uint64_t)first * size;
  return load ? transfer_download(device, memory, &place, bytes)
              : transfer_upload(device, &place, memory, bytes);
}

static compute_status load(const request *r, int64_t first, int64_t count, void *memory) {
  const compute_status status = move(r->input, first, count, memory, true);
  return status ? group_break(r->group, status) : COMPUTE_OK;
}

static compute_status store(const request *r, int64_t first, int64_t count, void *memory) {
  const compute_status status = move(r->output, first, count, memory, false);
  return status ? group_break(r->group, status) : COMPUTE_OK;
}

static size_t element_bytes(const request *r) {
  return compute_dtype_size((compute_dtype)r->call.dtype);
}

/* Elements of a piece of which every rank has `parts`. */
static int64_t piece_elements(const request *r, int32_t parts) {
  const int64_t most = (int64_t)(r->group->piece_bytes / element_bytes(r)) / parts;
  return most > 0 ? most : 1;
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* ---- The same call on all ranks ------------------------------------------------------------- */

static const char *const kind_names[GROUP_KINDS] = {
    [GROUP_BARRIER] = "barrier",       [GROUP_BYTES] = "exchange",
    [GROUP_ALL_REDUCE] = "all_reduce", [GROUP_REDUCE_SCATTER] = "reduce_scatter",
    [GROUP_ALL_GATHER] = "all_gather", [GROUP_BROADCAST] = "broadcast",
    [GROUP_SEND_RECEIVE] = "receive",  [GROUP_FAILED] = "a failure",
    [GROUP_CLOSE] = "close",
};

/* What a rank calls, in words; from another process, so nothing is certain. */
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

/* The first rank with a call of a kind, or −1. */
static int32_t find_kind(const compute_process_group *group, group_kind kind) {
  for (int32_t k = 0; k < group->size; k++)
    if (group->calls[k].kind == (int32_t)kind) return k;
  return -1;
}

/* What the first rank that has failed tells the others. */
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

/* A rank that closes makes no further call, so nothing can follow a difference from it. */
static compute_status compare(const request *r) {
  compute_process_group *group = r->group;
  compute_status status =
      group_gather_now(group, r->operation, &r->call, (int32_t)sizeof r->call, group->calls);
  if (status) return status;
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

static compute_status reduce_small(const request *r, int64_t count) {
  compute_process_group *group = r->group;
  const size_t bytes = (size_t)count * element_bytes(r);
  compute_status status = load(r, 0, count, group->outgoing);
  for (int32_t k = 0; k < group->size; k++) group->part_bytes[k] = (int32_t)bytes;
  if (!status)
    status = group_finish(group, r->operation,
                          group->transport->gather(group->instance, group->outgoing,
                                                   group->incoming, group->part_bytes));
  if (status) return status;
  group_reduce(&r->call, group->size, group->incoming, (size_t)count, group->outgoing);
  return store(r, 0, count, group->outgoing);
}

/* A piece of which every rank reduces a part, and then has all of it again. */
static compute_status reduce_piece(const request *r, int64_t first, int64_t count) {
  compute_process_group *group = r->group;
  const size_t size = element_bytes(r);
  const int64_t share = count / group->size, more = count % group->size;
  for (int32_t k = 0; k < group->size; k++)
    group->part_bytes[k] = (int32_t)((size_t)(share + (k < more)) * size);
  const int64_t own = share + (group->rank < more);
  compute_status status = load(r, first, count, group->outgoing);
  if (!status)
    status =
        group_finish(group, r->operation,
                     group->transport->exchange(group->instance, group->outgoing, group->part_bytes,
                                                group->incoming, group->part_bytes[group->rank]));
  if (status) return status;
  group_reduce(&r->call, group->size, group->incoming, (size_t)own, group->outgoing);
  status = group_finish(group, r->operation,
                        group->transport->gather(group->instance, group->outgoing, group->incoming,
                                                 group->part_bytes));
  return status ? status : store(r, first, count, group->incoming);
}

static compute_status all_reduce(const request *r) {
  const int64_t count = r->call.count, most = piece_elements(r, 1);
  const uint64_t all = (uint64_t)count * element_bytes(r) * (uint64_t)r->group->size;
  if (all <= SMALL_BYTES) return reduce_small(r, count);
  compute_status status = COMPUTE_OK;
  for (int64_t first = 0; !status && first < count; first += most)
    status = reduce_piece(r, first, smaller(most, count - first));
  return status;
}

static compute_status reduce_scatter(const request *r) {
  compute_process_group *group = r->group;
  const size_t size = element_bytes(r);
  const int64_t block = r->call.count / group->size, most = piece_elements(r, group->size);
  compute_status status = COMPUTE_OK;
  for (int64_t first = 0; !status && first < block; first += most) {
    const int64_t count = smaller(most, block - first);
    const size_t bytes = (size_t)count * size;
    for (int32_t k = 0; !status && k < group->size; k++) {
      group->part_bytes[k] = (int32_t)bytes;
      status = load(r, k * block + first, count, group->outgoing + (size_t)k * bytes);
    }
    if (!status)
      status = group_finish(group, r->operation,
                            group->transport->exchange(group->instance, group->outgoing,
                                                       group->part_bytes, group->incoming,
                                                       (int32_t)bytes));
    if (status) return status;
    group_reduce(&r->call, group->size, group->incoming, (size_t)count, group->outgoing);
    status = store(r, first, count, group->outgoing);
  }
  return status;
}

/* ---- Moving elements --------------------------------------------------------------------------
 */

static compute_status all_gather(const request *r) {
  compute_process_group *group = r->group;
  const int64_t block = r->call.count, most = piece_elements(r, group->size);
  compute_status status = COMPUTE_OK;
  for (int64_t first = 0; !status && first < block; first += most) {
    const int64_t count = smaller(most, block - first);
    const size_t bytes = (size_t)count * element_bytes(r);
    for (int32_t k = 0; k < group->size; k++) group->part_bytes[k] = (int32_t)bytes;
    status = load(r, first, count, group->outgoing);
    if (!status)
      status = group_finish(group, r->operation,
                            group->transport->gather(group->instance, group->outgoing,
                                                     group->incoming, group->part_bytes));
    for (int32_t k = 0; !status && k < group->size; k++)
      status = store(r, k * block + first, count, group->incoming + (size_t)k * bytes);
  }
  return status;
}

static compute_status broadcast(const request *r) {
  compute_process_group *group = r->group;
  const bool root = r->input != NULL;
  const int64_t most = piece_elements(r, 1);
  compute_status status = COMPUTE_OK;
  for (int64_t first = 0; !status && first < r->call.count; first += most) {
    const int64_t count = smaller(most, r->call.count - first);
    const int32_t bytes = (int32_t)((size_t)count * element_bytes(r));
    if (root) status = load(r, first, count, group->outgoing);
    if (!status)
      status = group_finish(
          group, r->operation,
          group->transport->broadcast(group->instance, group->outgoing, bytes, r->call.root));
    if (!status && !root) status = store(r, first, count, group->outgoing);
  }
  return status;
}

/* One message of `bytes` bytes at `memory`. */
static compute_status pass(const request *r, bool sends, void *memory, int32_t bytes) {
  compute_process_group *group = r->group;
  const compute_transport *t = group->transport;
  return group_finish(group, r->operation,
                      sends ? t->send(group->instance, memory, bytes, r->peer)
                            : t->receive(group->instance, memory, bytes, r->peer));
}

/* Both sides tell what they call, the lower rank first, whichever sends. */
static compute_status compare_with_peer(const request *r) {
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
  if (memcmp(&theirs, &wanted, sizeof theirs) == 0) return COMPUTE_OK;
  if (theirs.sends != r->call.sends) return differ(r, &r->call, group->rank, &theirs, r->peer);
  return error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, r->operation,
                   "both ranks %s: rank %d and rank %d", r->call.sends ? "send" : "receive",
                   (int)group->rank, (int)r->peer);
}

static compute_status send_or_receive(const request *r) {
  compute_process_group *group = r->group;
  const bool sends = r->call.sends;
  compute_status status = compare_with_peer(r);
  if (status) return status;
  const int64_t most = piece_elements(r, 1);
  for (int64_t first = 0; !status && first < r->call.count; first += most) {
    const int64_t count = smaller(most, r->call.count - first);
    const int32_t bytes = (int32_t)((size_t)count * element_bytes(r));
    if (sends) status = load(r, first, count, group->outgoing);
    if (!status) status = pass(r, sends, group->outgoing, bytes);
    if (!status && !sends) status = store(r, first, count, group->outgoing);
  }
  return status;
}

/* ---- Requests ---------------------------------------------------------------------------------
 */

/* In pieces that fit into the group's memory, whatever the number of ranks. */
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

compute_status group_perform(request *r) {
  compute_process_group *group = r->group;
  if (group->broken) {
    error_restore(group->context, &group->reason);
    return group->broken;
  }
  if (r->after) {
    const compute_status status = compute_event_wait(r->after);
    if (status) return group_break(group, status);
  }
  if (r->call.kind == GROUP_SEND_RECEIVE) return send_or_receive(r);
  const compute_status status = compare(r);
  group->all_close = !status && r->call.kind == GROUP_CLOSE;
  if (status || r->call.count == 0) return status;
  switch ((group_kind)r->call.kind) {
  case GROUP_BYTES: return gather_bytes(r);
  case GROUP_ALL_REDUCE: return all_reduce(r);
  case GROUP_REDUCE_SCATTER: return reduce_scatter(r);
  case GROUP_ALL_GATHER: return all_gather(r);
  case GROUP_BROADCAST: return broadcast(r);
  case GROUP_BARRIER:
  case GROUP_SEND_RECEIVE:
  case GROUP_FAILED:
  case GROUP_CLOSE:
  case GROUP_KINDS: break;
  }
  return COMPUTE_OK;
}
