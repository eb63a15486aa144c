/* SPDX-License-Identifier: MIT */
/* The timeline in the Chrome trace event format: complete events ("X") with a start and a duration
 * in microseconds, instants ("i"), and names of processes and threads ("M"). The host is process 1;
 * devices follow in order of first use. Rows are threads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/profile.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/collector_private.h"
#include "report/json.h"

static const char operation[] = "compute_profile_write_trace";

/* A copy of the printed data, taken under the lock. Entries never move. */
typedef struct snapshot {
  profile_record *records;
  size_t count;
  profile_row *rows;
  uint32_t row_count;
  int *process; /* process number of each row */
  uint64_t dropped;
  int64_t origin;
} snapshot;

static void snapshot_release(snapshot *s) {
  base_release(s->records);
  base_release(s->rows);
  base_release(s->process);
}

/* Returns false when out of memory. */
static bool take_snapshot(profile_collector *p, snapshot *s) {
  pthread_mutex_lock(&p->mutex);
  s->count = (size_t)(p->written < p->capacity ? p->written : p->capacity);
  s->row_count = p->row_count;
  s->dropped = p->dropped;
  s->origin = p->origin;
  s->records = base_allocate(s->count, sizeof *s->records);
  s->rows = base_allocate(s->row_count, sizeof *s->rows);
  s->process = base_allocate(s->row_count, sizeof *s->process);
  const bool room = s->records && s->rows && s->process;
  if (room && s->count > 0) {
    const size_t first = p->written < p->capacity ? 0 : (size_t)(p->written % p->capacity);
    const size_t behind = s->count - first; /* the oldest records start at `first` */
    memcpy(s->records, p->records + first, behind * sizeof *s->records);
    memcpy(s->records + behind, p->records, first * sizeof *s->records);
  }
  if (room && s->row_count > 0) memcpy(s->rows, p->rows, s->row_count * sizeof *s->rows);
  pthread_mutex_unlock(&p->mutex);
  return room;
}

static void number_processes(const snapshot *s) {
  int last = 1;
  for (uint32_t i = 0; i < s->row_count; i++) {
    const compute_device *device = s->rows[i].device;
    s->process[i] = device ? 0 : 1;
    for (uint32_t j = 0; j < i && s->process[i] == 0; j++)
      if (s->rows[j].device == device) s->process[i] = s->process[j];
    if (s->process[i] == 0) s->process[i] = ++last;
  }
}

/* ---- Names --------------------------------------------------------------------------------- */

static void add_metadata(text_buffer *text, const char *what, int process, uint32_t thread,
                         const char *name) {
  text_add(text,
           ",\n{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %" PRIu32 ", \"args\": {",
           what, process, thread);
  json_put_member(text, "name", name);
  text_add(text, "}}");
}

static void add_names(text_buffer *text, const snapshot *s) {
  int named = 0;
  text_add(text, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"tid\": 0, \"args\": "
                 "{\"name\": \"host\"}}");
  for (uint32_t i = 0; i < s->row_count; i++) {
    const profile_row *row = &s->rows[i];
    char name[64];
    if (row->device && s->process[i] > named) {
      snprintf(name, sizeof name, "%s", row->device->info.name);
      add_metadata(text, "process_name", s->process[i], 0, name);
      named = s->process[i];
    }
    if (row->name[0] != '\0')
      snprintf(name, sizeof name, "%s", row->name);
    else if (row->device && row->number == 0)
      snprintf(name, sizeof name, "internal queue");
    else
      snprintf(name, sizeof name, "%s %" PRIu32, row->device ? "queue" : "thread", row->number);
    add_metadata(text, "thread_name", s->process[i], i + 1, name);
  }
}

/* ---- Events -------------------------------------------------------------------------------- */

static void add_time(text_buffer *text, const char *name, int64_t nanoseconds) {
  const bool negative = nanoseconds < 0;
  const uint64_t value = negative ? (uint64_t)-nanoseconds : (uint64_t)nanoseconds;
  text_add(text, ", \"%s\": %s%" PRIu64 ".%03u", name, negative ? "-" : "", value / 1000,
           (unsigned)(value % 1000));
}

static const char *category(profile_kind kind) {
  static const char *const names[PROFILE_KINDS] = {
      "kernel", "transfer", "recording", "run", "build", "submit", "wait", "span", "fallback"};
  return names[kind];
}

static void add_work(text_buffer *text, const profile_record *r) {
  const double seconds = (double)(r->end - r->begin) * 1e-9;
  if (r->work.bytes > 0) {
    json_put_count(text, "bytes", r->work.bytes);
    if (seconds > 0) json_put_number(text, "GB/s", (double)r->work.bytes / seconds * 1e-9);
  }
  if (r->work.flops > 0) {
    json_put_count(text, "flops", r->work.flops);
    if (seconds > 0) json_put_number(text, "GFLOP/s", (double)r->work.flops / seconds * 1e-9);
  }
}

static void add_event(text_buffer *text, profile_collector *p, const snapshot *s,
                      const profile_record *r) {
  const profile_entry *e = r->entry ? p->entries[r->entry - 1] : NULL;
  const bool moment = e && e->kind == PROFILE_EVENT;
  text_add(text, ",\n{\"ph\": \"%s\", ", moment ? "i" : "X");
  json_put_member(text, "name", e ? e->text : "(not listed)");
  text_add(text, ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d", e ? category(e->kind) : "other",
           r->row ? s->process[r->row - 1] : 1, r->row);
  add_time(text, "ts", r->begin - s->origin);
  if (moment)
    text_add(text, ", \"s\": \"t\"");
  else
    add_time(text, "dur", r->end > r->begin ? r->end - r->begin : 0);
  text_add(text, ", \"args\": {");
  json_put_member(text, "detail", e ? e->detail : "");
  add_work(text, r);
  profile_note note;
  if (r->note && profile_note_copy(p, r->note - 1u, &note)) {
    text_add(text, ", ");
    json_put_member(text, "text", note.text);
  }
  text_add(text, "}}");
}

compute_status compute_profile_write_trace(compute_context *context, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  profile_collector *p = context->profile;
  snapshot s = {0};
  text_buffer text = {0};
  profile_collect(context, NULL);
  if (take_snapshot(p, &s)) {
    number_processes(&s);
    text_add(&text, "{\"displayTimeUnit\": \"ns\", \"otherData\": {");
    json_put_member(&text, "library", "libcompute");
    json_put_count(&text, "dropped", s.dropped);
    text_add(&text, "},\n\"traceEvents\": [\n");
    add_names(&text, &s);
    for (size_t i = 0; i < s.count && !text.failed; i++) add_event(&text, p, &s, &s.records[i]);
    text_add(&text, "\n]}\n");
  } else {
    text.failed = true;
  }
  snapshot_release(&s);
  return json_save(context, operation, "the trace", path, &text);
}
