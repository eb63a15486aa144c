/* SPDX-License-Identifier: MIT */
/* Switches the profile on and off, and reports the fallback counters. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/variable.h"
#include "core/device/collector_private.h"
#include "report/profile.h"

#define MOST_RECORDS (1u << 26)

static compute_status check_options(const compute_context *context,
                                    const compute_profile_options *options) {
  static const char operation[] = "compute_profile_start";
  const uint32_t known = COMPUTE_PROFILE_STEPS | COMPUTE_PROFILE_NO_TIMELINE;
  if ((options->flags & ~known) != 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "unknown profile flags 0x%x", (unsigned)(options->flags & ~known));
  if (options->timeline_records > MOST_RECORDS)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "a timeline of %u records was requested; at most %u are allowed",
                     (unsigned)options->timeline_records, MOST_RECORDS);
  return error_if_reserved(context, operation, "options", options->reserved);
}

/* Sets the capacity. A change of capacity empties the timeline. The caller holds the lock. Returns
 * false when out of memory. */
static bool size_timeline(profile_collector *p, uint32_t records) {
  if (records == p->capacity) return true;
  profile_record *made = base_allocate(records, sizeof *made);
  if (!made) return false;
  base_release(p->records);
  p->records = made;
  p->capacity = records;
  p->written = p->dropped = 0;
  return true;
}

compute_status compute_profile_start(compute_context *context,
                                     const compute_profile_options *options) {
  REFUSE_INHERITED_CONTEXT(context);
  static const compute_profile_options defaults;
  static const char operation[] = "compute_profile_start";
  if (!context) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  if (!options) options = &defaults;
  compute_status status = check_options(context, options);
  if (status != COMPUTE_OK) return status;
  profile_collector *p = context->profile;
  const uint32_t records =
      options->timeline_records ? options->timeline_records : PROFILE_DEFAULT_RECORDS;
  const bool timeline = !(options->flags & COMPUTE_PROFILE_NO_TIMELINE);
  pthread_mutex_lock(&p->mutex);
  const bool room = !timeline || size_timeline(p, records);
  if (room) {
    p->timeline = timeline;
    if (p->on_since == 0) p->on_since = clock_now();
    if (options->flags & COMPUTE_PROFILE_STEPS)
      atomic_fetch_or_explicit(&context->watch, WATCH_STEPS, memory_order_relaxed);
    else
      atomic_fetch_and_explicit(&context->watch, ~(uint32_t)WATCH_STEPS, memory_order_relaxed);
    atomic_fetch_or_explicit(&context->watch, WATCH_RECORD, memory_order_relaxed);
  }
  pthread_mutex_unlock(&p->mutex);
  return room ? COMPUTE_OK
              : error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                          "not enough memory for a timeline of %u records", (unsigned)records);
}

compute_status compute_profile_stop(compute_context *context) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (!context)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_profile_stop", "context is NULL");
  profile_collector *p = context->profile;
  atomic_fetch_and_explicit(&context->watch, ~(uint32_t)(WATCH_RECORD | WATCH_STEPS),
                            memory_order_relaxed);
  pthread_mutex_lock(&p->mutex);
  if (p->on_since != 0) p->on_time += clock_now() - p->on_since;
  p->on_since = 0;
  pthread_mutex_unlock(&p->mutex);
  return COMPUTE_OK;
}

compute_status compute_profile_clear(compute_context *context) {
  REFUSE_INHERITED_CONTEXT(context);
  if (!context)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_profile_clear", "context is NULL");
  profile_collector *p = context->profile;
  pthread_mutex_lock(&p->mutex);
  for (uint32_t i = 0; i < p->entry_count; i++) {
    profile_entry *e = p->entries[i];
    memset(&e->times, 0, sizeof e->times);
    e->bytes = e->flops = e->untimed = 0;
    e->by_device = e->by_host = false;
  }
  p->unlisted = p->written = p->dropped = 0;
  p->note_count = 0;
  p->generation++;
  p->on_time = 0;
  if (p->on_since != 0) p->on_since = clock_now();
  pthread_mutex_unlock(&p->mutex);
  return COMPUTE_OK;
}

void profile_at_open(compute_context *context) {
  if (!variable_text("COMPUTE_PROFILE") && !variable_text("COMPUTE_TRACE")) return;
  compute_error before;
  compute_error_get(NULL, &before);
  const compute_profile_options options = {
      .flags = variable_text("COMPUTE_TRACE") ? 0 : COMPUTE_PROFILE_NO_TIMELINE};
  if (compute_profile_start(context, &options) != COMPUTE_OK) {
    log_write(COMPUTE_LOG_WARNING, "core", "no profile is recorded: %s",
              compute_error_message(context));
    error_restore(NULL, &before);
  }
}

/* ---- Fallbacks ----------------------------------------------------------------------------- */

compute_status compute_fallback_query(const compute_context *context,
                                      compute_fallback_statistics *statistics) {
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status missing =
      error_if_null(context, "compute_fallback_query", context, statistics);
  if (missing) return missing;
  uint64_t *const field[FALLBACK_COUNT] = {
      [FALLBACK_STEP_ON_CPU] = &statistics->steps_on_cpu,
      [FALLBACK_OTHER_KERNEL] = &statistics->other_kernels,
      [FALLBACK_EVICTED] = &statistics->evictions,
      [FALLBACK_SMALLER_BATCH] = &statistics->smaller_batches,
      [FALLBACK_RUN_ON_CPU] = &statistics->runs_on_cpu,
      [FALLBACK_DEVICE_RECOVERED] = &statistics->devices_recovered,
      [FALLBACK_SPLIT_TRANSFER] = &statistics->split_transfers,
  };
  *statistics = (compute_fallback_statistics){0};
  for (int kind = 0; kind < FALLBACK_COUNT; kind++)
    *field[kind] = atomic_load_explicit(&context->fallbacks[kind], memory_order_relaxed);
  return COMPUTE_OK;
}
