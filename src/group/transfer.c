/* SPDX-License-Identifier: MIT */
/* Waiting for other ranks, and the end of a group that has failed. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "group/group.h"

compute_status group_break(compute_process_group *group, compute_status status) {
  pthread_mutex_lock(&group->mutex);
  if (group->broken == COMPUTE_OK) {
    compute_error_get(group->context, &group->reason);
    __atomic_store_n(&group->broken, status, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&group->mutex);
  return status;
}

/* The list shows that it is not forgotten. */
typedef struct abandoned {
  struct abandoned *next;
  void *memory;
} abandoned;

static abandoned *_Atomic abandoned_first;

void group_abandon(void *memory) {
  abandoned *entry = memory ? base_allocate(1, sizeof *entry) : NULL;
  if (!entry) return;
  *entry = (abandoned){.next = abandoned_first, .memory = memory};
  while (!atomic_compare_exchange_weak(&abandoned_first, &entry->next, entry)) continue;
}

static compute_status transport_failed(compute_process_group *group, const char *operation,
                                       int code) {
  char text[256];
  group->transport->error_text(group->instance, code, text, sizeof text);
  return error_set_native(group->context, COMPUTE_ERROR_TRANSFER, code, operation, NULL,
                          "rank %d: %s: %s", (int)group->rank, group->transport->name, text);
}

/* Other ranks are usually a little late: at first only the processor is offered to others, so that
 * messages of many parts flow. Then longer and longer pauses, since on a busy machine the computing
 * threads need it. */
static void pause_after(int64_t waited) {
  const int64_t spin = 1000000, longest = 1000000; /* nanoseconds */
  if (waited < spin) {
    sched_yield();
    return;
  }
  const int64_t pause = waited / 32 < longest ? waited / 32 : longest;
  nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
}

compute_status group_await(compute_process_group *group, const char *operation, double limit,
                           compute_status (*ask)(void *what, bool *done), void *what) {
  const int64_t began = clock_now();
  for (;;) {
    bool done = false;
    const compute_status status = ask(what, &done);
    if (status || done) return status;
    const int64_t waited = clock_now() - began;
    if (1e-9 * (double)waited > limit)
      return error_set_native(group->context, COMPUTE_ERROR_TIMEOUT, 0, operation,
                              "see whether a process has ended or hangs; a longer limit is set by "
                              "COMPUTE_GROUP_TIMEOUT or the group's options",
                              "rank %d of %d waited %g s for other ranks, which is the limit",
                              (int)group->rank, (int)group->size, limit);
    pause_after(waited);
  }
}

/* An operation of the transport. */
typedef struct transport_operation {
  compute_process_group *group;
  const char *name;
} transport_operation;

static compute_status ask_transport(void *what, bool *done) {
  const transport_operation *o = what;
  int ended = 0;
  const int code = o->group->transport->test(o->group->instance, &ended);
  *done = ended != 0;
  return code == 0 ? COMPUTE_OK : transport_failed(o->group, o->name, code);
}

compute_status group_finish(compute_process_group *group, const char *name, int code) {
  const compute_status status = code ? transport_failed(group, name, code)
                                     : group_await(group, name, group->timeout, ask_transport,
                                                   &(transport_operation){group, name});
  return status ? group_break(group, status) : COMPUTE_OK;
}

compute_status group_gather_now(compute_process_group *group, const char *operation,
                                const void *mine, int32_t bytes, void *all) {
  for (int32_t r = 0; r < group->size; r++) group->part_bytes[r] = bytes;
  memcpy(group->outgoing, mine, (size_t)bytes);
  const compute_status status =
      group_finish(group, operation,
                   group->transport->gather(group->instance, group->outgoing, group->incoming,
                                            group->part_bytes));
  if (!status) memcpy(all, group->incoming, (size_t)bytes * (size_t)group->size);
  return status;
}
