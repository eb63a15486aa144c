/* SPDX-License-Identifier: MIT */
/* Waits for other ranks, and the end of a failed group. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/platform/processors.h"
#include "group/group.h"

compute_status group_break(compute_process_group *group, compute_status status) {
  pthread_mutex_lock(&group->mutex);
  if (group->broken == COMPUTE_OK) {
    compute_error_get(group->context, &group->reason);
    atomic_store_explicit(&group->broken, status, memory_order_release);
  }
  pthread_mutex_unlock(&group->mutex);
  return status;
}

compute_status group_no_memory(const compute_process_group *group, size_t bytes) {
  return error_set(group->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_group_open",
                   "not enough memory for a group of %d ranks: %zu bytes", (int)group->size, bytes);
}

/* Memory that is kept forever. The list keeps it reachable, so leak checkers do not report it. */
typedef struct abandoned {
  struct abandoned *next;
  void *memory;
} abandoned;

static abandoned *_Atomic abandoned_first;

void group_abandon(void *memory) {
  abandoned *entry = memory ? base_allocate(1, sizeof *entry) : NULL;
  if (!entry) return;
  *entry = (abandoned){.next = atomic_load(&abandoned_first), .memory = memory};
  while (!atomic_compare_exchange_weak(&abandoned_first, &entry->next, entry)) continue;
}

static compute_status transport_failed(compute_process_group *group, const char *operation,
                                       int code) {
  char text[256];
  group->transport->error_text(group->instance, code, text, sizeof text);
  return error_set_native(group->context, COMPUTE_ERROR_TRANSFER, code, operation, NULL,
                          "rank %d: %s: %s", (int)group->rank, group->transport->name, text);
}

/* Other ranks are usually a little late. At first the thread only yields the processor, so messages
 * with many parts flow quickly. Later its pauses grow, because the computing threads need a busy
 * machine's processors. */
static void pause_after(int64_t waited) {
  const int64_t spin = 1000000, longest = 1000000; /* nanoseconds */
  if (waited < spin) {
    processor_yield();
    return;
  }
  const int64_t pause = waited / 32 < longest ? waited / 32 : longest;
  nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
}

static compute_status waited_too_long(compute_process_group *group, const char *operation,
                                      double limit, const group_wait *wait) {
  char text[256] = "";
  wait->explain(wait->what, text, sizeof text);
  return error_set_native(group->context, COMPUTE_ERROR_TIMEOUT, 0, operation,
                          "see whether a process has ended or hangs; a longer limit is set by "
                          "COMPUTE_GROUP_TIMEOUT or the group's options",
                          "rank %d of %d waited %g s for other ranks, which is the limit%s",
                          (int)group->rank, (int)group->size, limit, text);
}

compute_status group_await(compute_process_group *group, const char *operation, double limit,
                           const group_wait *wait) {
  const int64_t began = clock_now();
  for (;;) {
    bool done = false;
    const compute_status status = wait->ask(wait->what, &done);
    if (status || done) return status;
    const int64_t waited = clock_now() - began;
    if (1e-9 * (double)waited > limit) return waited_too_long(group, operation, limit, wait);
    pause_after(waited);
  }
}

/* ---- The ranks that have not come ------------------------------------------------------------ */

/* Writes "; ranks 2 and 5 did not arrive"; of many ranks only the first ones. */
static void name_ranks(const uint8_t *missing, int32_t size, char *text, size_t text_bytes) {
  enum { MOST = 6 };
  int32_t count = 0, named = 0;
  for (int32_t r = 0; r < size; r++) count += missing[r] != 0;
  size_t used = (size_t)snprintf(text, text_bytes, "; %s", count == 1 ? "rank" : "ranks");
  for (int32_t r = 0; r < size && named < MOST; r++) {
    if (!missing[r]) continue;
    const char *before = named == 0 ? "" : named + 1 == count ? " and" : ",";
    used += (size_t)snprintf(text + used, text_bytes - used, "%s %d", before, (int)r);
    named++;
  }
  if (count > named)
    used += (size_t)snprintf(text + used, text_bytes - used, " and %d more", (int)(count - named));
  snprintf(text + used, text_bytes - used, " did not arrive");
}

static bool any_missing(const uint8_t *missing, int32_t size) {
  return memchr(missing, 1, (size_t)size) != NULL;
}

/* Asks the transport until no rank is missing or the time for answers is over. */
static bool find_missing(compute_process_group *group, uint8_t *missing) {
  const int64_t longest = 1000000000, began = clock_now(); /* nanoseconds */
  const compute_transport *t = group->transport;
  const bool knows = t->struct_size >= offsetof(compute_transport, missing) + sizeof t->missing;
  if (!knows || !t->missing) return false;
  for (;;) {
    if (t->missing(group->instance, missing) != 0) return false;
    missing[group->rank] = 0;
    const int64_t waited = clock_now() - began;
    if (!any_missing(missing, group->size) || waited > longest ||
        1e-9 * (double)waited > group->timeout)
      return true;
    pause_after(waited);
  }
}

/* An operation of the transport. */
typedef struct transport_operation {
  compute_process_group *group;
  const char *name;
  int32_t peer; /* or −1 if all ranks take part */
} transport_operation;

static void explain_operation(const void *what, char *text, size_t text_bytes) {
  const transport_operation *o = what;
  compute_process_group *group = o->group;
  if (o->peer >= 0) {
    snprintf(text, text_bytes, "; rank %d did not arrive", (int)o->peer);
    return;
  }
  uint8_t *missing = base_allocate((uint64_t)group->size, sizeof *missing);
  if (!missing || !find_missing(group, missing))
    snprintf(text, text_bytes, "; %s does not tell which", group->transport->name);
  else if (any_missing(missing, group->size))
    name_ranks(missing, group->size, text, text_bytes);
  else
    snprintf(text, text_bytes, "; all of them have come meanwhile");
  base_release(missing);
}

static compute_status ask_transport(void *what, bool *done) {
  const transport_operation *o = what;
  int ended = 0;
  const int code = o->group->transport->test(o->group->instance, &ended);
  *done = ended != 0;
  return code == 0 ? COMPUTE_OK : transport_failed(o->group, o->name, code);
}

compute_status group_finish_with(compute_process_group *group, const char *name, int code,
                                 int32_t peer) {
  transport_operation operation = {group, name, peer};
  const group_wait wait = {ask_transport, explain_operation, &operation};
  const compute_status status =
      code ? transport_failed(group, name, code) : group_await(group, name, group->timeout, &wait);
  return status ? group_break(group, status) : COMPUTE_OK;
}

compute_status group_finish(compute_process_group *group, const char *name, int code) {
  return group_finish_with(group, name, code, -1);
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
