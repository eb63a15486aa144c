/* SPDX-License-Identifier: MIT */
/* Backtraces of object creations, recorded if COMPUTE_LEAKS is set. compute_close reports
 * unreleased objects with them. A backtrace costs a stack walk for each object; without
 * COMPUTE_LEAKS there is no cost. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else /* no backtrace in this C library: lists only kinds */
static int backtrace(void **frames, int most) {
  (void)frames;
  (void)most;
  return 0;
}
#endif

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/device/device.h"

enum { BUCKETS = 1024, FRAMES = 16, CALLERS_SHOWN = 3, OBJECTS_SHOWN = 20 };

typedef struct backtrace_entry {
  struct backtrace_entry *next;
  const void *object;
  const object_kind *kind;
  int frame_count;
  void *frames[FRAMES];
} backtrace_entry;

struct object_backtraces {
  pthread_mutex_t mutex;
  backtrace_entry *bucket[BUCKETS];
};

static numbering kinds;

void backtraces_open(compute_context *context) {
  if (!variable_text("COMPUTE_LEAKS")) return;
  context->backtraces = base_allocate(1, sizeof *context->backtraces);
  if (context->backtraces) pthread_mutex_init(&context->backtraces->mutex, NULL);
}

static backtrace_entry **bucket_of(struct object_backtraces *backtraces, const void *object) {
  return &backtraces->bucket[((uintptr_t)object >> 4) % BUCKETS];
}

/* When out of memory, the object is counted without a backtrace. */
void backtraces_add(struct object_backtraces *backtraces, const object_kind *kind,
                    const void *object) {
  backtrace_entry *made = base_allocate(1, sizeof *made);
  if (!made) return;
  made->object = object;
  made->kind = kind;
  made->frame_count = (int)backtrace(made->frames, FRAMES);
  backtrace_entry **bucket = bucket_of(backtraces, object);
  pthread_mutex_lock(&backtraces->mutex);
  made->next = *bucket;
  *bucket = made;
  pthread_mutex_unlock(&backtraces->mutex);
}

void backtraces_remove(struct object_backtraces *backtraces, const void *object) {
  pthread_mutex_lock(&backtraces->mutex);
  backtrace_entry **place = bucket_of(backtraces, object), *found;
  while (*place && (*place)->object != object) place = &(*place)->next;
  if ((found = *place)) *place = found->next;
  pthread_mutex_unlock(&backtraces->mutex);
  base_release(found);
}

void backtraces_close(compute_context *context) {
  if (!context->backtraces) return;
  for (int i = 0; i < BUCKETS; i++) {
    for (backtrace_entry *e = context->backtraces->bucket[i], *next; e; e = next) {
      next = e->next;
      base_release(e);
    }
  }
  pthread_mutex_destroy(&context->backtraces->mutex);
  base_release(context->backtraces);
  context->backtraces = NULL;
}

/* ---- Counting ------------------------------------------------------------------------------- */

void context_object_created(compute_context *context, object_kind *kind, const void *object) {
  const uint32_t number = entry_number(&kinds, kind, &kind->number);
  if (context->backtraces) backtraces_add(context->backtraces, kind, object);
  if (number > 0)
    atomic_fetch_add_explicit(&context->live_objects[number - 1], 1, memory_order_relaxed);
}

void context_object_released(compute_context *context, const object_kind *kind) {
  const uint32_t number = atomic_load_explicit(&kind->number, memory_order_acquire);
  if (number > 0)
    atomic_fetch_sub_explicit(&context->live_objects[number - 1], 1, memory_order_release);
}

int64_t context_objects_of(const compute_context *context, const object_kind *kind) {
  const uint32_t number = atomic_load_explicit(&kind->number, memory_order_acquire);
  return number > 0 ? atomic_load_explicit(&context->live_objects[number - 1], memory_order_acquire)
                    : 0;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* The next kind after `last`, by name, that has unreleased objects; or NULL. */
static const object_kind *next_kind(const compute_context *context, const char *last) {
  const object_kind *next = NULL;
  for (uint32_t i = 0; i < NUMBERED_MOST; i++) {
    const object_kind *kind = atomic_load_explicit(&kinds.entry[i], memory_order_acquire);
    if (kind && context_objects_of(context, kind) != 0 && strcmp(kind->name, last) > 0 &&
        (!next || strcmp(kind->name, next->name) < 0))
      next = kind;
  }
  return next;
}

int64_t objects_count(const compute_context *context, char *text, size_t bytes) {
  int64_t all = 0;
  size_t used = 0;
  text[0] = '\0';
  for (const object_kind *kind = next_kind(context, ""); kind;
       kind = next_kind(context, kind->name)) {
    const int64_t count = context_objects_of(context, kind);
    if (used < bytes)
      used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64 " %s", all ? ", " : "",
                               count, count == 1 ? kind->name : kind->plural);
    all += count;
  }
  return all;
}

/* Calls dladdr, which takes the loader's lock. */
static bool find_address(const void *address, Dl_info *info) {
  process_load_begin();
  const bool found = dladdr(address, info) != 0;
  process_load_end();
  return found;
}

/* Writes "main (./program+0x12ab)", which addr2line accepts. */
static void describe_frame(const void *frame, char *text, size_t bytes) {
  Dl_info info;
  const char *address = (const char *)frame - 1; /* an address within the call, not after it */
  if (!find_address(address, &info) || !info.dli_fname)
    snprintf(text, bytes, "%p", frame);
  else
    snprintf(text, bytes, "%s%s%s+0x%" PRIxPTR "%s", info.dli_sname ? info.dli_sname : "",
             info.dli_sname ? " (" : "", info.dli_fname,
             (uintptr_t)address - (uintptr_t)info.dli_fbase, info.dli_sname ? ")" : "");
}

/* The number of leading frames in this library. The last of them is the function that the program
 * called. */
static int own_frames(const backtrace_entry *e) {
  Dl_info own, info;
  int count = 0;
  if (!find_address((void *)(uintptr_t)backtraces_add, &own)) return 0;
  while (count < e->frame_count && find_address(e->frames[count], &info) &&
         info.dli_fbase == own.dli_fbase)
    count++;
  return count < e->frame_count ? count : 1; /* library and program are one file */
}

static void list_object(const backtrace_entry *e) {
  char text[1024], frame[320];
  const int own = own_frames(e);
  Dl_info info;
  const bool named = own > 0 && find_address(e->frames[own - 1], &info) && info.dli_sname;
  int used = snprintf(text, sizeof text, "a %s that is not released was made by %s", e->kind->name,
                      named ? info.dli_sname : "libcompute");
  for (int i = own; i < e->frame_count && i < own + CALLERS_SHOWN; i++) {
    describe_frame(e->frames[i], frame, sizeof frame);
    if ((size_t)used < sizeof text)
      used += snprintf(text + used, sizeof text - (size_t)used, "%s %s",
                       i == own ? ", called from" : " <-", frame);
  }
  log_write_asked(COMPUTE_LOG_ERROR, "core", "%s", text);
}

void backtraces_list(const compute_context *context) {
  struct object_backtraces *backtraces = context->backtraces;
  int64_t count = 0;
  if (!backtraces) return;
  pthread_mutex_lock(&backtraces->mutex);
  for (int i = 0; i < BUCKETS; i++)
    for (const backtrace_entry *e = backtraces->bucket[i]; e; e = e->next)
      if (count++ < OBJECTS_SHOWN) list_object(e);
  pthread_mutex_unlock(&backtraces->mutex);
  if (count > OBJECTS_SHOWN)
    log_write_asked(COMPUTE_LOG_ERROR, "core", "%" PRId64 " more are not listed",
                    count - OBJECTS_SHOWN);
}
