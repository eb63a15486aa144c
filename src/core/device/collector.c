/* SPDX-License-Identifier: MIT */
/* Entries, rows and records under one lock. A record takes about 100 ns, so there is little
 * contention. Names are looked up once and then stored by number. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "compute/profile.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/device/collector.h"
#include "core/device/collector_private.h"
#include "core/device/device.h"

/* ---- Life ---------------------------------------------------------------------------------- */

profile_collector *profile_create(compute_context *context) {
  profile_collector *p = base_allocate(1, sizeof *p);
  if (!p) return NULL;
  if (pthread_mutex_init(&p->mutex, NULL) != 0) {
    base_release(p);
    return NULL;
  }
  p->context = context;
  p->origin = clock_now();
  return p;
}

void profile_release(profile_collector *p) {
  if (!p) return;
  for (uint32_t i = 0; i < p->entry_count; i++) {
    base_release(p->entries[i]->text);
    base_release(p->entries[i]->detail);
    base_release(p->entries[i]);
  }
  base_release(p->entries);
  base_release(p->rows);
  base_release(p->records);
  base_release(p->pending);
  base_release(p->notes);
  pthread_mutex_destroy(&p->mutex);
  base_release(p);
}

/* ---- Entries ------------------------------------------------------------------------------- */

static uint32_t find_entry(const profile_collector *p, uint64_t hash, const compute_device *device,
                           profile_kind kind, const char *text, const char *detail) {
  uint32_t number = p->bucket[hash % PROFILE_BUCKETS];
  while (number != 0) {
    const profile_entry *e = p->entries[number - 1];
    if (e->hash == hash && e->device == device && e->kind == kind && strcmp(e->text, text) == 0 &&
        strcmp(e->detail, detail) == 0)
      return number;
    number = e->next;
  }
  return 0;
}

static uint32_t add_entry(profile_collector *p, uint64_t hash, const compute_device *device,
                          profile_kind kind, const char *text, const char *detail) {
  if (p->entry_count == PROFILE_ENTRIES) return 0;
  if (!p->entries) p->entries = base_allocate(PROFILE_ENTRIES, sizeof *p->entries);
  profile_entry *e = p->entries ? base_allocate(1, sizeof *e) : NULL;
  if (!e) return 0;
  *e = (profile_entry){.device = device,
                       .kind = kind,
                       .text = base_duplicate(text),
                       .detail = base_duplicate(detail),
                       .hash = hash,
                       .next = p->bucket[hash % PROFILE_BUCKETS]};
  if (!e->text || !e->detail) {
    base_release(e->text);
    base_release(e->detail);
    base_release(e);
    return 0;
  }
  p->entries[p->entry_count++] = e;
  p->bucket[hash % PROFILE_BUCKETS] = p->entry_count;
  return p->entry_count;
}

uint32_t profile_entry_of(compute_context *context, const compute_device *device, profile_kind kind,
                          const char *text, const char *detail) {
  profile_collector *p = context->profile;
  if (!p) return 0;
  uint64_t hash = hash_u64(HASH_SEED, (uint64_t)(uintptr_t)device ^ (uint64_t)kind << 56);
  hash = hash_bytes(hash, text, strlen(text));
  hash = hash_bytes(hash, detail, strlen(detail));
  pthread_mutex_lock(&p->mutex);
  uint32_t number = find_entry(p, hash, device, kind, text, detail);
  if (number == 0) number = add_entry(p, hash, device, kind, text, detail);
  pthread_mutex_unlock(&p->mutex);
  return number;
}

void profile_entry_copy(profile_collector *p, uint32_t number, profile_entry *copy) {
  pthread_mutex_lock(&p->mutex);
  *copy = *p->entries[number - 1];
  pthread_mutex_unlock(&p->mutex);
}

bool profile_note_copy(profile_collector *p, uint32_t index, profile_note *copy) {
  pthread_mutex_lock(&p->mutex);
  const bool there = index < p->note_count;
  if (there) *copy = p->notes[index];
  pthread_mutex_unlock(&p->mutex);
  return there;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

uint16_t profile_row_of(profile_collector *p, const compute_device *device, uint32_t number,
                        const char *name) {
  if (!p->rows) p->rows = base_allocate(PROFILE_ROWS, sizeof *p->rows);
  if (!p->rows) return 0;
  profile_row row = {.device = device, .number = number};
  if (name) snprintf(row.name, sizeof row.name, "%s", name);
  for (uint32_t i = 0; i < p->row_count; i++) {
    const profile_row *r = &p->rows[i];
    if (r->device == device && r->number == number && strcmp(r->name, row.name) == 0)
      return (uint16_t)(i + 1);
  }
  if (p->row_count == PROFILE_ROWS) return 0;
  p->rows[p->row_count++] = row;
  return (uint16_t)p->row_count;
}

/* Threads are numbered in the order of their first record. */
uint16_t profile_thread_row(profile_collector *p) {
  static _Atomic uint32_t threads;
  static _Thread_local uint32_t number;
  static _Thread_local uint64_t known_context;
  static _Thread_local uint16_t known_row;
  if (known_context == p->context->serial && known_row != 0) return known_row;
  if (number == 0) number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
  known_row = profile_row_of(p, NULL, number, NULL);
  known_context = p->context->serial;
  return known_row;
}

static uint16_t queue_row(profile_collector *p, compute_queue *queue) {
  uint16_t row = atomic_load_explicit(&queue->profile_row, memory_order_relaxed);
  if (row != 0) return row;
  row = profile_row_of(p, queue->device, queue->number, NULL);
  atomic_store_explicit(&queue->profile_row, row, memory_order_relaxed);
  return row;
}

/* ---- Records ------------------------------------------------------------------------------- */

void profile_store(profile_collector *p, const profile_record *record, bool by_device) {
  profile_entry *e = record->entry != 0 ? p->entries[record->entry - 1] : NULL;
  const int64_t length = record->end - record->begin;
  if (!e) {
    p->unlisted++;
  } else {
    histogram_add(&e->times, length > 0 ? (uint64_t)length : 0);
    e->bytes += record->work.bytes;
    e->flops += record->work.flops;
    *(by_device ? &e->by_device : &e->by_host) = true;
  }
  if (!p->timeline || p->capacity == 0) return;
  p->dropped += p->written >= p->capacity;
  p->records[p->written++ % p->capacity] = *record;
}

/* Counts work whose time is unknown. */
static void store_untimed(profile_collector *p, uint32_t entry) {
  if (entry == 0)
    p->unlisted++;
  else
    p->entries[entry - 1]->untimed++;
}

void profile_host(compute_context *context, uint32_t entry, int64_t begin, profile_work work) {
  profile_collector *p = context->profile;
  if (!p) return;
  profile_record record = {.begin = begin, .end = clock_now(), .work = work, .entry = entry};
  pthread_mutex_lock(&p->mutex);
  record.row = profile_thread_row(p);
  profile_store(p, &record, false);
  pthread_mutex_unlock(&p->mutex);
}

void profile_pass(compute_context *context, const char *text, const char *detail, int64_t begin) {
  if (!profile_is_on(context)) return;
  const uint32_t entry = profile_entry_of(context, NULL, PROFILE_PASS, text, detail ? detail : "");
  profile_host(context, entry, begin, (profile_work){0});
}

/* Returns 1 + the index of the note with this text, and adds 1 to its count. Adds the note if there
 * is room; otherwise returns 0. */
static uint16_t count_note(profile_collector *p, const profile_note *note) {
  uint32_t i = 0;
  if (!p->notes) p->notes = base_allocate(PROFILE_NOTES, sizeof *p->notes);
  if (!p->notes) return 0;
  while (i < p->note_count &&
         (p->notes[i].kind != note->kind || strcmp(p->notes[i].text, note->text) != 0 ||
          strcmp(p->notes[i].device, note->device) != 0))
    i++;
  if (i == PROFILE_NOTES) return 0;
  if (i == p->note_count) p->notes[p->note_count++] = *note;
  p->notes[i].count++;
  return (uint16_t)(i + 1);
}

void profile_event(compute_context *context, const compute_device *device, fallback_kind kind,
                   const char *text) {
  profile_collector *p = context->profile;
  if (!p) return;
  profile_note note = {.kind = kind};
  if (device) snprintf(note.device, sizeof note.device, "%s", device->info.name);
  snprintf(note.text, sizeof note.text, "%s", text);
  const bool on = profile_is_on(context);
  profile_record record = {.begin = clock_now()};
  record.end = record.begin;
  if (on) record.entry = profile_entry_of(context, device, PROFILE_EVENT, fallback_name(kind), "");
  pthread_mutex_lock(&p->mutex);
  record.note = count_note(p, &note);
  if (on) {
    record.row = profile_thread_row(p);
    profile_store(p, &record, false);
  }
  pthread_mutex_unlock(&p->mutex);
}

/* ---- Spans --------------------------------------------------------------------------------- */

/* The use of a span's reserved fields. */
enum { SPAN_BEGIN = 0, SPAN_ENTRY = 1, SPAN_ROW = 2, SPAN_GENERATION = 3 };

compute_profile_span compute_profile_span_begin(compute_context *context, const char *row,
                                                const char *name) {
  compute_profile_span span = {0};
  if (!context || !name || context_is_inherited(context) || !profile_is_on(context)) return span;
  profile_collector *p = context->profile;
  span.reserved[SPAN_ENTRY] = profile_entry_of(context, NULL, PROFILE_SPAN, name, "");
  pthread_mutex_lock(&p->mutex);
  span.reserved[SPAN_ROW] =
      row && row[0] != '\0' ? profile_row_of(p, NULL, 0, row) : profile_thread_row(p);
  span.reserved[SPAN_GENERATION] = p->generation;
  pthread_mutex_unlock(&p->mutex);
  span.reserved[SPAN_BEGIN] = (uint64_t)clock_now();
  return span;
}

void compute_profile_span_end(compute_context *context, const compute_profile_span *span) {
  if (context_is_inherited(context)) return;
  if (!context || !span || span->reserved[SPAN_BEGIN] == 0) return;
  profile_collector *p = context->profile;
  const profile_record record = {.begin = (int64_t)span->reserved[SPAN_BEGIN],
                                 .end = clock_now(),
                                 .work = {span->bytes, span->flops},
                                 .entry = (uint32_t)span->reserved[SPAN_ENTRY],
                                 .row = (uint16_t)span->reserved[SPAN_ROW]};
  pthread_mutex_lock(&p->mutex);
  const bool known = record.entry <= p->entry_count && record.row <= p->row_count;
  if (known && span->reserved[SPAN_GENERATION] == p->generation) profile_store(p, &record, false);
  pthread_mutex_unlock(&p->mutex);
}

/* ---- Marks --------------------------------------------------------------------------------- */

static void *take_timer(compute_queue *queue) {
  compute_error before;
  void *timer = NULL;
  compute_error_get(NULL, &before);
  if (queue->device->backend->timer_record(queue->handle, &timer) == COMPUTE_OK) return timer;
  error_restore(NULL, &before);
  return NULL;
}

static void drop_timer(const compute_device *device, void *timer) {
  if (timer) device->backend->timer_destroy(device->handle, timer);
}

static bool has_timers(const compute_device *device) {
  const compute_backend *b = device->backend;
  return b->timer_record && b->timer_read && b->timer_destroy;
}

void profile_begin(compute_queue *queue, profile_mark *mark) {
  profile_collector *p = queue->device->context->profile;
  *mark = (profile_mark){.queue = queue, .on = p != NULL};
  if (!p) return;
  if (has_timers(queue->device)) {
    const uint32_t under_way = atomic_fetch_add_explicit(&p->timing, 1, memory_order_relaxed);
    const uint32_t waiting = atomic_load_explicit(&p->pending_count, memory_order_relaxed);
    if (under_way + waiting < PROFILE_PENDING) mark->timer = take_timer(queue);
    mark->untimed = mark->timer == NULL;
    if (mark->untimed) atomic_fetch_sub_explicit(&p->timing, 1, memory_order_relaxed);
  } else {
    mark->begin = clock_now();
  }
}

/* Queues an interval whose timers are read later. The caller holds the lock. Returns false if there
 * is no room. */
static bool add_pending(profile_collector *p, const profile_mark *mark, void *end,
                        const profile_record *record) {
  if (!p->pending) p->pending = base_allocate(PROFILE_PENDING, sizeof *p->pending);
  const uint32_t count = atomic_load_explicit(&p->pending_count, memory_order_relaxed);
  if (!p->pending || count == PROFILE_PENDING) return false;
  p->pending[count] = (profile_pending){.queue = mark->queue,
                                        .device = mark->queue->device,
                                        .timer = {mark->timer, end},
                                        .generation = p->generation,
                                        .record = *record};
  atomic_store_explicit(&p->pending_count, count + 1, memory_order_relaxed);
  return true;
}

void profile_end(profile_mark *mark, compute_status status, uint32_t entry, profile_work work) {
  compute_queue *queue = mark->queue;
  profile_collector *p = queue->device->context->profile;
  profile_record record = {.begin = mark->begin, .work = work, .entry = entry};
  void *end = NULL;
  const bool timed = mark->timer != NULL;
  if (timed && status == COMPUTE_OK) end = take_timer(queue);
  if (!timed && !mark->untimed) record.end = clock_now();
  pthread_mutex_lock(&p->mutex);
  record.row = queue_row(p, queue);
  bool kept = true;
  if (status != COMPUTE_OK || mark->untimed || (timed && !end)) {
    store_untimed(p, entry);
    kept = false;
  } else if (timed) {
    kept = add_pending(p, mark, end, &record);
    if (!kept) store_untimed(p, entry);
  } else {
    profile_store(p, &record, false);
  }
  pthread_mutex_unlock(&p->mutex);
  if (timed) atomic_fetch_sub_explicit(&p->timing, 1, memory_order_relaxed);
  if (!kept) {
    drop_timer(queue->device, mark->timer);
    drop_timer(queue->device, end);
  }
  *mark = (profile_mark){0};
}

/* ---- Reading timers ------------------------------------------------------------------------ */

enum { BATCH = 32 };

/* Takes up to BATCH pending intervals of a queue out of the list. Intervals of a hung device stay,
 * because reading their timers would hang as well. */
static uint32_t take_pending(profile_collector *p, const compute_queue *queue,
                             profile_pending *batch) {
  uint32_t taken = 0, kept = 0;
  pthread_mutex_lock(&p->mutex);
  const uint32_t count = atomic_load_explicit(&p->pending_count, memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    const profile_pending *one = &p->pending[i];
    if (taken < BATCH && (!queue || one->queue == queue) && !device_hangs(one->device))
      batch[taken++] = *one;
    else
      p->pending[kept++] = *one;
  }
  atomic_store_explicit(&p->pending_count, kept, memory_order_relaxed);
  pthread_mutex_unlock(&p->mutex);
  return taken;
}

static bool read_timers(const profile_pending *pending, profile_record *record) {
  const compute_device *device = pending->device;
  const compute_backend *b = device->backend;
  const bool good =
      b->timer_read(device->handle, pending->timer[0], &record->begin) == COMPUTE_OK &&
      b->timer_read(device->handle, pending->timer[1], &record->end) == COMPUTE_OK;
  drop_timer(device, pending->timer[0]);
  drop_timer(device, pending->timer[1]);
  return good;
}

void profile_collect(compute_context *context, const compute_queue *queue) {
  profile_collector *p = context->profile;
  if (!p || atomic_load_explicit(&p->pending_count, memory_order_relaxed) == 0) return;
  profile_pending batch[BATCH];
  bool good[BATCH];
  uint32_t taken;
  compute_error before;
  compute_error_get(NULL, &before);
  while ((taken = take_pending(p, queue, batch)) > 0) {
    for (uint32_t i = 0; i < taken; i++) good[i] = read_timers(&batch[i], &batch[i].record);
    pthread_mutex_lock(&p->mutex);
    for (uint32_t i = 0; i < taken; i++) {
      if (batch[i].generation != p->generation) continue;
      if (good[i])
        profile_store(p, &batch[i].record, true);
      else
        store_untimed(p, batch[i].record.entry);
    }
    pthread_mutex_unlock(&p->mutex);
  }
  error_restore(NULL, &before);
}

/* Work on the CPU's queues is complete on submission, so waits for them are not recorded. */
int64_t profile_wait_begin(const compute_queue *queue) {
  const compute_context *context = queue->device->context;
  return profile_is_on(context) && queue->device != context->cpu ? clock_now() : 0;
}

void profile_wait_end(const compute_queue *queue, int64_t begin) {
  compute_device *device = queue->device;
  if (begin != 0)
    profile_host(device->context,
                 profile_entry_of(device->context, device, PROFILE_WAIT, "wait", ""), begin,
                 (profile_work){0});
  profile_collect(device->context, queue);
}

/* ---- Fallbacks ------------------------------------------------------------------------------- */

const char *fallback_name(fallback_kind kind) {
  static const char *const names[FALLBACK_COUNT] = {
      [FALLBACK_STEP_ON_CPU] = "step_on_cpu",
      [FALLBACK_OTHER_KERNEL] = "other_kernel",
      [FALLBACK_EVICTED] = "evicted",
      [FALLBACK_SMALLER_BATCH] = "smaller_batch",
      [FALLBACK_RUN_ON_CPU] = "run_on_cpu",
      [FALLBACK_DEVICE_RECOVERED] = "device_recovered",
      [FALLBACK_SPLIT_TRANSFER] = "split_transfer",
  };
  return (unsigned)kind < FALLBACK_COUNT ? names[kind] : "unknown";
}

void fallback_note(compute_context *context, const compute_device *device, fallback_kind kind,
                   bool loud, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  atomic_fetch_add_explicit(&context->fallbacks[kind], 1, memory_order_relaxed);
  profile_event(context, device, kind, text);
  log_write(loud ? COMPUTE_LOG_WARNING : COMPUTE_LOG_INFO, "core", "%s%s%s",
            device ? device->info.name : "", device ? ": " : "", text);
}

/* ---- Histograms ------------------------------------------------------------------------------ */

/* Bucket b < 16 holds the value b. Above, each octave is divided into 16 equal parts. */

static uint32_t bucket_of(uint64_t value) {
  if (value < 16) return (uint32_t)value;
  const uint32_t octave = 63 - (uint32_t)__builtin_clzll(value);
  const uint32_t bucket = (octave - 3) * 16 + (uint32_t)(value >> (octave - 4) & 15);
  return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double low_end(uint32_t bucket) {
  if (bucket < 16) return bucket;
  const uint32_t octave = bucket / 16 + 3;
  return (double)((uint64_t)(16 + bucket % 16) << (octave - 4));
}

void histogram_add(histogram *h, uint64_t nanoseconds) {
  uint32_t *bucket = &h->bucket[bucket_of(nanoseconds)];
  if (h->count == 0 || nanoseconds < h->least) h->least = nanoseconds;
  if (nanoseconds > h->most) h->most = nanoseconds;
  h->count++;
  h->sum = h->sum + nanoseconds < h->sum ? UINT64_MAX : h->sum + nanoseconds;
  *bucket += *bucket < UINT32_MAX;
}

double histogram_quantile(const histogram *h, double q) {
  if (h->count == 0) return 0;
  const double rank = q * (double)(h->count - 1);
  double before = 0, value = (double)h->most;
  for (uint32_t b = 0; b < HISTOGRAM_BUCKETS; b++) {
    const double here = h->bucket[b];
    if (here > 0 && rank < before + here) {
      const double low = low_end(b), high = b < 16 ? low : low_end(b + 1);
      value = low + (high - low) * (rank - before + 0.5) / here;
      break;
    }
    before += here;
  }
  if (value < (double)h->least) value = (double)h->least;
  return value > (double)h->most ? (double)h->most : value;
}
