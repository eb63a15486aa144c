/* SPDX-License-Identifier: MIT */
/* The group object and its public calls. */
#include "group/group.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"
#include "core/type/dtype.h"

static object_kind group_object = {.name = "group", .plural = "groups"};

static const char operation_open[] = "compute_group_open";
#define MAGIC       "compute group 1"
#define PIECE_BYTES (4 << 20)
#define LIMIT       600 /* seconds */
#define MOST_RANKS  65536

/* ---- Joining, on the group's thread ---------------------------------------------------------- */

/* A piece has a part from each rank. Messages that are gathered are at most 1 KiB. */
static compute_status create_memory(compute_process_group *group) {
  const size_t ranks = (size_t)group->size;
  const size_t least = ranks * 1024;
  group->piece_bytes = PIECE_BYTES > least ? PIECE_BYTES : least;
  const size_t bytes = group->piece_bytes + 16 * ranks;
  group->outgoing = base_allocate_aligned(bytes, 64);
  group->incoming = base_allocate_aligned(bytes, 64);
  group->part_bytes = base_allocate(ranks, sizeof *group->part_bytes);
  group->calls = base_allocate(ranks, sizeof *group->calls);
  group->members = base_allocate(ranks, sizeof *group->members);
  group->local_ranks = base_allocate(ranks, sizeof *group->local_ranks);
  const bool complete = group->outgoing && group->incoming && group->part_bytes && group->calls &&
                        group->members && group->local_ranks;
  const size_t of_rank = sizeof *group->part_bytes + sizeof *group->calls + sizeof *group->members +
                         sizeof *group->local_ranks;
  return complete ? COMPUTE_OK : group_no_memory(group, 2 * bytes + ranks * of_rank);
}

/* Chooses the device of the default backend with this local rank's number. Listing all devices may
 * open libraries. So the list is used only if several ranks share the host and the default is not
 * the CPU. */
static compute_device *choose_device(const compute_process_group *group) {
  compute_device *usual = compute_default_device(group->context), *device;
  compute_device *same[64];
  int32_t count = 0;
  if (group->local_size == 1 || usual == group->context->cpu) return usual;
  for (size_t i = 0; count < 64 && (device = compute_device_at(group->context, i)) != NULL; i++)
    if (usual && device->backend == usual->backend) same[count++] = device;
  return count > 0 ? same[group->local_rank % count] : usual;
}

static void describe_self(const compute_process_group *group, group_record *self) {
  *self = (group_record){.magic = MAGIC, .process = getpid()};
  snprintf(self->version, sizeof self->version, "%s", compute_version_text());
  if (gethostname(self->host, sizeof self->host - 1) != 0) self->host[0] = '\0';
  if (group->device) snprintf(self->device, sizeof self->device, "%s", group->device->info.name);
}

/* The texts come from other processes, so they are terminated first. */
static compute_status check_versions(compute_process_group *group) {
  for (int32_t r = 0; r < group->size; r++) {
    group_record *m = &group->members[r];
    m->version[sizeof m->version - 1] = m->host[sizeof m->host - 1] = '\0';
    m->device[sizeof m->device - 1] = m->magic[sizeof m->magic - 1] = '\0';
    const group_record *first = &group->members[0];
    if (strcmp(m->magic, first->magic) == 0 && strcmp(m->version, first->version) == 0) continue;
    return error_set_native(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation_open,
                            "install the same version on all hosts",
                            "rank %d on %s has libcompute %s, rank 0 on %s has %s", (int)r, m->host,
                            m->version, first->host, first->version);
  }
  return COMPUTE_OK;
}

/* Orders members by host, then by rank. */
static int order_of_members(const void *a, const void *b) {
  const group_record *first = *(const group_record *const *)a;
  const group_record *second = *(const group_record *const *)b;
  const int hosts = strcmp(first->host, second->host);
  return hosts ? hosts : (first > second) - (first < second);
}

compute_status group_count_hosts(compute_process_group *group) {
  const size_t ranks = (size_t)group->size;
  const char *own = group->members[group->rank].host;
  const group_record **sorted = base_allocate(ranks, sizeof *sorted);
  if (!sorted) return group_no_memory(group, ranks * sizeof *sorted);
  for (size_t r = 0; r < ranks; r++) sorted[r] = &group->members[r];
  qsort(sorted, ranks, sizeof *sorted, order_of_members);
  group->local_size = group->hosts = 0;
  int32_t local = 0; /* local rank of sorted[i] */
  for (size_t i = 0; i < ranks; i++, local++) {
    if (i == 0 || strcmp(sorted[i]->host, sorted[i - 1]->host) != 0) {
      group->hosts++;
      local = 0;
    }
    group->local_ranks[sorted[i] - group->members] = local;
    group->local_size += strcmp(sorted[i]->host, own) == 0;
  }
  group->local_rank = group->local_ranks[group->rank];
  base_release(sorted);
  return COMPUTE_OK;
}

/* Exchanges the records twice: the device depends on the number of ranks per host. */
static compute_status meet(compute_process_group *group) {
  group_record self;
  compute_status status = COMPUTE_OK;
  for (int round = 0; !status && round < 2; round++) {
    describe_self(group, &self);
    status = group_gather_now(group, operation_open, &self, (int32_t)sizeof self, group->members);
    if (!status) status = check_versions(group);
    if (!status) status = group_count_hosts(group);
    if (!status && !group->device) group->device = choose_device(group);
  }
  return status;
}

/* The error for a code of `prepare` or `open`. */
static compute_status not_opened(compute_context *context, const compute_transport *transport,
                                 int code) {
  char text[256];
  transport->error_text(NULL, code, text, sizeof text);
  return error_set_native(context, COMPUTE_ERROR_TRANSFER, code, operation_open, NULL, "%s: %s",
                          transport->name, text);
}

compute_status group_join(compute_process_group *group) {
  int32_t rank = 0, size = 0;
  const int code = group->transport->open(group->argument, &group->instance, &rank, &size,
                                          group->about, sizeof group->about);
  if (code != 0) return not_opened(group->context, group->transport, code);
  group->size = size;
  group->rank = rank;
  if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size)
    return error_set(group->context, COMPUTE_ERROR_TRANSFER, operation_open, "%s: rank %d of %d",
                     group->transport->name, (int)rank, (int)size);
  compute_status status = group_finish(group, operation_open, 0);
  if (!status && group->transport != &group_alone) status = group_check_size(group->context, size);
  if (!status) status = create_memory(group);
  if (!status) status = meet(group);
  if (!status) group_stage_join(group);
  return status ? status : group_direct_join(group);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static compute_status check_options(compute_context *context, compute_group_options *o) {
  const compute_status reserved =
      error_if_reserved(context, operation_open, "options", o->reserved);
  if (reserved) return reserved;
  if (!(o->timeout >= 0) || !isfinite(o->timeout))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_open,
                     "timeout is %g; it must be finite and not negative", o->timeout);
  if (o->device && compute_device_context(o->device) != context)
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation_open,
                     "the device belongs to another context");
  if (o->timeout == 0)
    o->timeout = (double)variable_integer("COMPUTE_GROUP_TIMEOUT", 1, INT32_MAX, LIMIT);
  o->host_only |= variable_integer("COMPUTE_GROUP_HOST_ONLY", 0, 1, 0) != 0;
  return COMPUTE_OK;
}

void group_unreference(compute_process_group *group) {
  if (atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) > 1) return;
  compute_context *context = group->context;
  context_object_leaves(context, group);
  if (atomic_load_explicit(&group->broken, memory_order_relaxed)) {
    group_abandon(group->outgoing);
    group_abandon(group->incoming);
  } else {
    base_release(group->outgoing);
    base_release(group->incoming);
  }
  base_release(group->part_bytes);
  base_release(group->calls);
  base_release(group->members);
  base_release(group->local_ranks);
  pthread_mutex_destroy(&group->mutex);
  pthread_cond_destroy(&group->work);
  pthread_cond_destroy(&group->ended);
  base_release(group);
  context_object_released(context, &group_object);
}

compute_status group_open_with(compute_context *context, const compute_transport *transport,
                               void *argument, const compute_group_options *options,
                               compute_process_group **group) {
  const driver_call call = driver_call_begin(); /* MPI starts threads */
  process_load_begin();                         /* and loads its libraries */
  const int code = transport->prepare();
  process_load_end();
  driver_call_end(&call);
  if (code != 0) return not_opened(context, transport, code);
  compute_process_group *made = base_allocate(1, sizeof *made);
  if (!made)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_open,
                     "not enough memory for a group: %zu bytes", sizeof *made);
  atomic_init(&made->references, 1);
  made->context = context;
  made->transport = transport;
  made->argument = argument;
  made->timeout = options->timeout;
  made->device = options->device;
  made->host_only = options->host_only;
  pthread_mutex_init(&made->mutex, NULL);
  pthread_cond_init(&made->work, NULL);
  pthread_cond_init(&made->ended, NULL);
  context_object_created(context, &group_object, made);
  const compute_status status = group_thread_start(made);
  if (status) {
    compute_error error;
    compute_error_get(context, &error);
    group_unreference(made);
    error_restore(context, &error);
    return status;
  }
  log_write(COMPUTE_LOG_INFO, "group", "rank %d of %d, %s, device %s", (int)made->rank,
            (int)made->size, made->about, made->device ? made->device->info.name : "none");
  *group = made;
  return COMPUTE_OK;
}

/* A transport module has one instance at a time. */
static atomic_uint only_open; /* process_forks + 1 while a group is open, or 0 */

static compute_status open_only(compute_context *context, const compute_transport *transport,
                                const compute_group_options *options,
                                compute_process_group **group) {
  const uint32_t here = process_forks + 1;
  if (atomic_exchange(&only_open, here) == here)
    return error_set_native(context, COMPUTE_ERROR_INVALID_STATE, 0, operation_open,
                            "close it first", "this process has an open group");
  const compute_status status = group_open_with(context, transport, NULL, options, group);
  if (status)
    atomic_store(&only_open, 0);
  else
    (*group)->only = true;
  return status;
}

compute_status compute_group_open(compute_context *context, const compute_group_options *options,
                                  compute_process_group **group) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (group) *group = NULL;
  compute_status status = error_if_null(context, operation_open, context, group);
  if (status) return status;
  compute_group_options o = options ? *options : (compute_group_options){.transport = NULL};
  const compute_transport *transport = NULL;
  status = check_options(context, &o);
  if (!status) status = group_find_transport(context, o.transport, &transport);
  if (status) return status;
  return transport == &group_alone ? group_open_with(context, transport, NULL, &o, group)
                                   : open_only(context, transport, &o, group);
}

/* compute_group_close returns nothing, so its failure is logged. */
static void note_close_failed(const compute_process_group *group) {
  if (!atomic_load_explicit(&group->broken, memory_order_acquire))
    log_write(COMPUTE_LOG_WARNING, "group", "rank %d closes without a word to the others: %s",
              (int)group->rank, compute_error_message(group->context));
}

/* The other ranks must learn that no further call follows; only then can the transport end in
 * order. The errors are restored: whatever fails here or on the group's thread, the caller still
 * sees the first error. */
void compute_group_close(compute_process_group *group) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (!group || context_is_inherited(group->context)) return;
  const compute_group_request draft = {.operation = "compute_group_close",
                                       .call = {.kind = GROUP_CLOSE}};
  compute_error of_context, of_thread;
  compute_error_get(group->context, &of_context);
  compute_error_get(NULL, &of_thread);
  if (group_submit(group, &draft, NULL)) note_close_failed(group);
  group_thread_end(group);
  error_restore(group->context, &of_context);
  error_restore(NULL, &of_thread);
  if (group->only) atomic_store(&only_open, 0);
  group_unreference(group);
}

/* ---- Queries --------------------------------------------------------------------------------- */

compute_status compute_group_query(const compute_process_group *group, compute_group_info *info) {
  REFUSE_INHERITED(group, context);
  const compute_status status = error_if_null(NULL, "compute_group_query", group, info);
  if (status) return status;
  *info = (compute_group_info){.rank = group->rank,
                               .size = group->size,
                               .local_rank = group->local_rank,
                               .local_size = group->local_size,
                               .hosts = group->hosts,
                               .device = group->device,
                               .timeout = group->timeout};
  memcpy(info->host, group->members[group->rank].host, sizeof info->host);
  memcpy(info->transport, group->about, sizeof info->transport);
  info->broken = atomic_load_explicit(&group->broken, memory_order_acquire) != COMPUTE_OK;
  return COMPUTE_OK;
}

compute_status compute_group_route(const compute_process_group *group, const compute_device *device,
                                   char *text, size_t text_bytes) {
  REFUSE_INHERITED(group, context);
  static const char operation[] = "compute_group_route";
  const compute_status status = error_if_null(NULL, operation, group, text);
  if (status) return status;
  if (device && device->context != group->context)
    return error_set(group->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the device belongs to another context");
  if (!device || device == group->context->cpu)
    snprintf(text, text_bytes, "%s", group->about);
  else if (device == group->device && group->connected)
    snprintf(text, text_bytes, "%s", group->direct_name);
  else
    snprintf(text, text_bytes, "%s%s, %s; %s",
             group_stage_reaches(group, device) ? "device memory where nothing is added, else "
                                                : "",
             device->backend->host_register ? "pinned host memory" : "host memory", group->about,
             device == group->device ? group->not_direct : "not the group's device");
  return COMPUTE_OK;
}

compute_status group_check_rank(const compute_process_group *group, const char *operation,
                                const char *name, int32_t rank) {
  if (rank >= 0 && rank < group->size) return COMPUTE_OK;
  return error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "%s is %d; the group has ranks 0 to %d", name, (int)rank, (int)group->size - 1);
}

compute_status compute_group_member_at(const compute_process_group *group, int32_t rank,
                                       compute_group_member *member) {
  REFUSE_INHERITED(group, context);
  static const char operation[] = "compute_group_member_at";
  compute_status status = error_if_null(NULL, operation, group, member);
  if (!status) status = group_check_rank(group, operation, "rank", rank);
  if (status) return status;
  const group_record *m = &group->members[rank];
  *member = (compute_group_member){
      .rank = rank, .local_rank = group->local_ranks[rank], .process = m->process};
  memcpy(member->host, m->host, sizeof member->host);
  memcpy(member->device, m->device, sizeof member->device);
  memcpy(member->version, m->version, sizeof member->version);
  return COMPUTE_OK;
}
