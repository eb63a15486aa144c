/* SPDX-License-Identifier: MIT */
/* The report as JSON: the devices, their counters, and the recorded sums.
 *
 * Modules that are not open yet stay closed, because their devices have nothing to report. */
#include "report/profile.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/variable.h"
#include "codegen/cache/disk_cache.h"
#include "core/device/collector_private.h"
#include "report/json.h"
#include "plan/cost/costs.h"

#define FORMAT_VERSION 1

static const char operation[] = "compute_profile_write";

typedef struct counter {
  const char *name;
  uint64_t value;
} counter;

static void add_counters(text_buffer *text, const char *name, const counter *counters,
                         size_t count) {
  text_add(text, ",\n      \"%s\": {", name);
  for (size_t i = 0; i < count; i++) {
    text_add(text, "%s\"%s\": %" PRIu64, i ? ", " : "", counters[i].name, counters[i].value);
  }
  text_add(text, "}");
}

/* ---- Content ------------------------------------------------------------------------------- */

/* The field's name is also its key in the file. */
#define COUNTER(field)                                                                             \
  { #field, s.field }

static void add_pool(text_buffer *text, const compute_device *device) {
  compute_pool_statistics s;
  compute_pool_query(device, &s);
  const counter counters[] = {COUNTER(bytes_allocated),
                              COUNTER(bytes_active),
                              COUNTER(bytes_cached),
                              COUNTER(bytes_requested),
                              COUNTER(bytes_peak),
                              COUNTER(bytes_budget),
                              COUNTER(hits),
                              COUNTER(misses),
                              COUNTER(evictions),
                              COUNTER(blocks_active),
                              COUNTER(blocks_cached)};
  add_counters(text, "pool", counters, sizeof counters / sizeof *counters);
}

static void add_builds(text_buffer *text, const compute_device *device) {
  compute_build_statistics s;
  compute_build_query(device, &s);
  const counter counters[] = {COUNTER(programs_compiled),    COUNTER(programs_from_disk),
                              COUNTER(programs_from_driver), COUNTER(programs_shared),
                              COUNTER(programs_failed),      COUNTER(build_nanoseconds)};
  add_counters(text, "builds", counters, sizeof counters / sizeof *counters);
}

/* Queries the current state, because some drivers and libraries are known only after their first
 * use. A lost device is described by its state at opening. */
static void describe(const compute_device *device, compute_device_info *info) {
  compute_error before;
  compute_error_get(NULL, &before);
  if (compute_device_describe(device, info) == COMPUTE_OK) return;
  *info = device->info;
  error_restore(NULL, &before);
}

static void add_device(text_buffer *text, const compute_device *device) {
  compute_device_info info;
  describe(device, &info);
  text_add(text, "    {");
  json_put_member(text, "name", info.name);
  text_add(text, ", ");
  json_put_member(text, "backend", info.backend);
  text_add(text, ",\n      ");
  json_put_member(text, "model", info.model);
  text_add(text, ",\n      ");
  json_put_member(text, "driver", info.driver);
  add_pool(text, device);
  add_builds(text, device);
  text_add(text, "}");
}

static void add_disk_cache(text_buffer *text, disk_cache *cache) {
  disk_cache_statistics s;
  disk_cache_query(cache, &s);
  const counter counters[] = {COUNTER(hits), COUNTER(misses), COUNTER(stores), COUNTER(damaged),
                              COUNTER(evictions)};
  text_add(text, "  \"disk_cache\": {");
  json_put_member(text, "folder", disk_cache_folder(cache));
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    text_add(text, ", \"%s\": %" PRIu64, counters[i].name, counters[i].value);
  }
  text_add(text, "}");
}

/* ---- Recorded sums ------------------------------------------------------------------------- */

/* The names of the lists in the file. */
static const struct {
  profile_kind kind;
  const char *name;
} lists[] = {
    {PROFILE_KERNEL, "kernels"}, {PROFILE_TRANSFER, "transfers"}, {PROFILE_RECORDING, "recordings"},
    {PROFILE_RUN, "runs"},       {PROFILE_SUBMIT, "submissions"}, {PROFILE_WAIT, "waits"},
    {PROFILE_BUILD, "builds"},   {PROFILE_PASS, "passes"},        {PROFILE_SPAN, "spans"}};

/* Rates cover only calls with a measured time. Kernels also get fractions of the device's peak if
 * it is known. */
static void add_rates(text_buffer *text, const profile_entry *e) {
  const double seconds = (double)e->times.sum * 1e-9;
  const double flops = seconds > 0 ? (double)e->flops / seconds : 0;
  const double bytes = seconds > 0 ? (double)e->bytes / seconds : 0;
  json_put_count(text, "bytes", e->bytes);
  json_put_count(text, "flops", e->flops);
  json_put_number(text, "bytes_per_second", bytes);
  json_put_number(text, "flops_per_second", flops);
  if (e->kind != PROFILE_KERNEL || !e->device) return;
  const compute_device *device = e->device;
  const double peak_flops = atomic_load_explicit(&device->peak_flops, memory_order_relaxed);
  const double peak_bytes = atomic_load_explicit(&device->peak_bytes, memory_order_relaxed);
  if (peak_flops > 0) json_put_number(text, "fraction_of_peak_flops", flops / peak_flops);
  if (peak_bytes > 0) json_put_number(text, "fraction_of_peak_bytes", bytes / peak_bytes);
}

static void add_entry(text_buffer *text, const profile_entry *e) {
  const histogram *t = &e->times;
  text_add(text, "    {");
  json_put_member(text, "name", e->text);
  text_add(text, ", ");
  json_put_member(text, "detail", e->detail);
  text_add(text, ", ");
  json_put_member(text, "device", e->device ? e->device->info.name : "host");
  text_add(text, ",\n      \"clock\": \"%s\"", e->by_device ? "device" : "host");
  json_put_count(text, "count", t->count);
  json_put_count(text, "untimed", e->untimed);
  json_put_count(text, "total_ns", t->sum);
  json_put_number(text, "mean_ns", t->count ? (double)t->sum / (double)t->count : 0);
  json_put_number(text, "median_ns", histogram_quantile(t, 0.5));
  json_put_number(text, "p90_ns", histogram_quantile(t, 0.9));
  json_put_count(text, "least_ns", t->least);
  json_put_count(text, "most_ns", t->most);
  add_rates(text, e);
  text_add(text, "}");
}

static void add_list(text_buffer *text, profile_collector *p, uint32_t count, profile_kind kind,
                     const char *name) {
  bool first = true;
  profile_entry e;
  text_add(text, ",\n  \"%s\": [", name);
  for (uint32_t i = 1; i <= count; i++) {
    profile_entry_copy(p, i, &e);
    if (e.kind != kind || e.times.count + e.untimed == 0) continue;
    text_add(text, first ? "\n" : ",\n");
    add_entry(text, &e);
    first = false;
  }
  text_add(text, first ? "]" : "\n  ]");
}

static void add_fallbacks(text_buffer *text, compute_context *context) {
  profile_collector *p = context->profile;
  profile_note note;
  text_add(text, ",\n  \"fallbacks\": {");
  json_put_member(text, "since", "opening");
  for (int kind = 0; kind < FALLBACK_COUNT; kind++)
    json_put_count(text, fallback_name((fallback_kind)kind),
                   atomic_load_explicit(&context->fallbacks[kind], memory_order_relaxed));
  text_add(text, ",\n    \"texts\": [");
  for (uint32_t i = 0; profile_note_copy(p, i, &note); i++) {
    text_add(text, i ? ",\n      {" : "\n      {");
    json_put_member(text, "kind", fallback_name(note.kind));
    text_add(text, ", ");
    json_put_member(text, "device", note.device);
    json_put_count(text, "count", note.count);
    text_add(text, ", ");
    json_put_member(text, "text", note.text);
    text_add(text, "}");
  }
  text_add(text, "]}");
}

static void add_recorded(text_buffer *text, compute_context *context) {
  profile_collector *p = context->profile;
  add_fallbacks(text, context);
  pthread_mutex_lock(&p->mutex);
  const uint32_t count = p->entry_count;
  const uint64_t kept = p->written < p->capacity ? p->written : p->capacity;
  const uint64_t dropped = p->dropped, unlisted = p->unlisted;
  const int64_t time = p->on_time + (p->on_since ? clock_now() - p->on_since : 0);
  pthread_mutex_unlock(&p->mutex);
  text_add(text, ",\n  \"recording\": {\"on\": %s", profile_is_on(context) ? "true" : "false");
  json_put_number(text, "seconds", (double)time * 1e-9);
  json_put_count(text, "timeline_records", kept);
  json_put_count(text, "timeline_dropped", dropped);
  json_put_count(text, "unlisted", unlisted);
  text_add(text, "}");
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    add_list(text, p, count, lists[i].kind, lists[i].name);
  text_add(text, "\n");
}

static void add_profile(text_buffer *text, compute_context *context) {
  text_add(text, "{\n  \"format\": \"libcompute profile\",\n  \"format_version\": %d,\n  ",
           FORMAT_VERSION);
  json_put_member(text, "library_version", compute_version_text());
  text_add(text, ",\n  \"devices\": [\n");
  pthread_mutex_lock(&context->registry_mutex);
  for (size_t i = 0; i < context->device_count; i++) {
    if (i > 0) text_add(text, ",\n");
    (void)costs_peak_bytes(context->devices[i]); /* loads stored peaks */
    add_device(text, context->devices[i]);
  }
  pthread_mutex_unlock(&context->registry_mutex);
  text_add(text, "\n  ],\n");
  add_disk_cache(text, slot_get(&context->slots, &disk_cache_slot));
  if (context->profile) add_recorded(text, context);
  text_add(text, "}\n");
}

compute_status compute_profile_write(compute_context *context, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  text_buffer text = {0};
  profile_collect(context, NULL);
  add_profile(&text, context);
  return json_save(context, operation, "the profile", path, &text);
}

static void write_at_close(compute_context *context, const char *variable,
                           compute_status (*write)(compute_context *, const char *)) {
  const char *path = variable_text(variable);
  if (!path) return;
  compute_error before;
  compute_error_get(NULL, &before);
  if (write(context, path) != COMPUTE_OK) {
    log_write(COMPUTE_LOG_WARNING, "core", "cannot write the file named by %s: %s", variable,
              compute_error_message(context));
  }
  error_restore(NULL, &before);
}

void profile_at_close(compute_context *context) {
  write_at_close(context, "COMPUTE_PROFILE", compute_profile_write);
  write_at_close(context, "COMPUTE_TRACE", compute_profile_write_trace);
}
