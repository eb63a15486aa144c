/* SPDX-License-Identifier: MIT */
/* The recorded sums as a table for a terminal. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "compute/profile.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "core/device/collector_private.h"

static const char operation[] = "compute_profile_text";

/* The values in one row of the table. */
typedef struct line {
  const profile_entry *entry; /* for its names, which never change */
  double total, mean, median, p90;
  uint64_t count, bytes, flops;
} line;

static int costliest_first(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->total != y->total) return x->total < y->total ? 1 : -1;
  return strcmp(x->entry->text, y->entry->text);
}

/* The parts of the table. Work occupies a device itself; others contain it or wait for it. */
typedef enum part { WORK, AROUND, COMPILING, PARTS } part;

static part part_of(profile_kind kind) {
  switch (kind) {
  case PROFILE_KERNEL:
  case PROFILE_TRANSFER:
  case PROFILE_RECORDING:
  case PROFILE_BUILD: return WORK;
  case PROFILE_PASS: return COMPILING;
  default: return AROUND;
  }
}

static const char *const titles[PARTS] = {"", "\nplans, runs and waits that contain these\n",
                                          "\ncompilations and their passes\n"};

static size_t gather(profile_collector *p, uint32_t count, part wanted, line *lines) {
  size_t used = 0;
  profile_entry e;
  for (uint32_t i = 1; i <= count; i++) {
    profile_entry_copy(p, i, &e);
    if (e.times.count == 0 || e.kind == PROFILE_EVENT || part_of(e.kind) != wanted) continue;
    lines[used++] = (line){.entry = p->entries[i - 1],
                           .total = (double)e.times.sum,
                           .mean = (double)e.times.sum / (double)e.times.count,
                           .median = histogram_quantile(&e.times, 0.5),
                           .p90 = histogram_quantile(&e.times, 0.9),
                           .count = e.times.count,
                           .bytes = e.bytes,
                           .flops = e.flops};
  }
  if (used > 1) qsort(lines, used, sizeof *lines, costliest_first);
  return used;
}

/* Distinguishes rows that would show only a plan's name. */
static const char *prefix(profile_kind kind) {
  switch (kind) {
  case PROFILE_RECORDING:
  case PROFILE_RUN: return "run ";
  case PROFILE_SUBMIT: return "submit ";
  default: return "";
  }
}

static void add_lines(text_buffer *text, const line *lines, size_t count) {
  double all = 0;
  for (size_t i = 0; i < count; i++) all += lines[i].total;
  text_add(text, "%6s %11s %9s %11s %11s %11s %9s %9s  %-10s %s\n", "share", "total ms", "count",
           "mean us", "median us", "p90 us", "GFLOP/s", "GB/s", "device", "what");
  for (size_t i = 0; i < count; i++) {
    const line *l = &lines[i];
    const profile_entry *e = l->entry;
    text_add(text, "%5.1f%% %11.3f %9llu %11.3f %11.3f %11.3f %9.2f %9.2f  %-10s %s%s%s%s\n",
             all > 0 ? 100 * l->total / all : 0, l->total * 1e-6, (unsigned long long)l->count,
             l->mean * 1e-3, l->median * 1e-3, l->p90 * 1e-3,
             l->total > 0 ? (double)l->flops / l->total : 0,
             l->total > 0 ? (double)l->bytes / l->total : 0,
             e->device ? e->device->info.name : "host", prefix(e->kind), e->text,
             e->detail[0] ? "  " : "", e->detail);
  }
}

/* Counts of records that the table and the timeline omit. */
typedef struct missing {
  uint64_t dropped, unlisted, untimed;
} missing;

static missing count_missing(profile_collector *p, uint32_t count) {
  profile_entry e;
  pthread_mutex_lock(&p->mutex);
  missing m = {.dropped = p->dropped, .unlisted = p->unlisted};
  pthread_mutex_unlock(&p->mutex);
  for (uint32_t i = 1; i <= count; i++) {
    profile_entry_copy(p, i, &e);
    m.untimed += e.untimed;
  }
  return m;
}

static void add_counts(text_buffer *text, compute_context *context, missing m) {
  for (int kind = 0; kind < FALLBACK_COUNT; kind++) {
    const uint64_t count = atomic_load_explicit(&context->fallbacks[kind], memory_order_relaxed);
    if (count > 0)
      text_add(text, "fallback %s: %llu\n", fallback_name((fallback_kind)kind),
               (unsigned long long)count);
  }
  if (m.untimed > 0)
    text_add(text, "%llu operations were not timed: they failed, or too many were in progress\n",
             (unsigned long long)m.untimed);
  if (m.unlisted > 0)
    text_add(text, "%llu operations are not listed: the profile is full with %d names\n",
             (unsigned long long)m.unlisted, (int)PROFILE_ENTRIES);
  if (m.dropped > 0)
    text_add(text, "the oldest %llu records of the timeline were dropped\n",
             (unsigned long long)m.dropped);
}

compute_status compute_profile_text(compute_context *context, char **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (result) *result = NULL;
  if (!context || !result)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     context ? "text" : "context");
  profile_collector *p = context->profile;
  profile_collect(context, NULL);
  pthread_mutex_lock(&p->mutex);
  const uint32_t count = p->entry_count;
  pthread_mutex_unlock(&p->mutex);
  text_buffer text = {0};
  line *lines = base_allocate(count, sizeof *lines);
  if (lines) {
    for (part i = WORK; i < PARTS; i++) {
      const size_t found = gather(p, count, i, lines);
      if (i == WORK && found == 0) text_add(&text, "no kernel or transfer was recorded\n");
      if (found > 0) text_add(&text, "%s", titles[i]);
      if (found > 0) add_lines(&text, lines, found);
    }
    add_counts(&text, context, count_missing(p, count));
  }
  const bool good = lines && !text.failed;
  base_release(lines);
  if (!good) {
    text_release(&text);
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the table");
  }
  *result = text.data;
  return COMPUTE_OK;
}
