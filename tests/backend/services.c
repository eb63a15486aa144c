/* SPDX-License-Identifier: MIT */
#include "backend/services.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const compute_services *core_of(void *host) {
  return ((watched_services *)host)->core;
}

static int64_t count(_Atomic int64_t *counter, int64_t change) {
  return atomic_fetch_add_explicit(counter, change, memory_order_relaxed) + change;
}

/* ---- Memory -------------------------------------------------------------------------------- */

static void *allocate(void *host, size_t bytes, size_t alignment) {
  watched_services *s = host;
  const int64_t request = count(&s->requests, 1);
  if (s->fail_at > 0 && (request == s->fail_at || (s->onward && request > s->fail_at))) {
    count(&s->failures, 1);
    return NULL;
  }
  void *pointer = s->core->allocate(s->core->host, bytes, alignment);
  if (pointer) count(&s->live, 1);
  return pointer;
}

static void release(void *host, void *pointer) {
  watched_services *s = host;
  if (pointer) count(&s->live, -1);
  s->core->release(s->core->host, pointer);
}

void services_arm(watched_services *s, int64_t nth, bool onward) {
  s->requests = s->failures = 0;
  s->fail_at = nth;
  s->onward = onward;
}

/* ---- Messages of the module ---------------------------------------------------------------- */

static compute_status fail(void *host, compute_status status, int64_t native_code,
                           const char *remedy, const char *format, ...) {
  watched_services *s = host;
  va_list list;
  (void)native_code;
  (void)remedy;
  pthread_mutex_lock(&s->mutex);
  va_start(list, format);
  vsnprintf(s->words, sizeof s->words, format, list);
  va_end(list);
  s->status = status;
  s->index = s->offset = -1;
  pthread_mutex_unlock(&s->mutex);
  count(&s->fails, 1);
  return status;
}

static compute_status fail_index(void *host, uint32_t label, int64_t index, int64_t offset) {
  watched_services *s = host;
  pthread_mutex_lock(&s->mutex);
  s->status = COMPUTE_ERROR_INDEX;
  snprintf(s->words, sizeof s->words, "index %lld at %lld", (long long)index, (long long)offset);
  s->label = label;
  s->index = index;
  s->offset = offset;
  pthread_mutex_unlock(&s->mutex);
  count(&s->fails, 1);
  return COMPUTE_ERROR_INDEX;
}

static void write_log(void *host, compute_log_level level, const char *module, const char *format,
                      ...) {
  char line[1000];
  va_list list;
  const compute_services *core = core_of(host);
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  core->log(core->host, level, module, "%s", line);
}

void services_forget(watched_services *s) {
  pthread_mutex_lock(&s->mutex);
  s->status = COMPUTE_OK;
  s->words[0] = '\0';
  s->index = s->offset = -1;
  pthread_mutex_unlock(&s->mutex);
}

compute_status services_said(watched_services *s, char *words) {
  pthread_mutex_lock(&s->mutex);
  const compute_status status = s->status;
  memcpy(words, s->words, sizeof s->words);
  pthread_mutex_unlock(&s->mutex);
  return status;
}

bool services_index(watched_services *s, uint32_t *label, int64_t *index, int64_t *offset) {
  pthread_mutex_lock(&s->mutex);
  const bool there = s->status == COMPUTE_ERROR_INDEX && s->offset >= 0;
  *label = s->label;
  *index = s->index;
  *offset = s->offset;
  pthread_mutex_unlock(&s->mutex);
  return there;
}

/* ---- Forwarded calls ----------------------------------------------------------------------- */

static int32_t thread_count(void *host) {
  return core_of(host)->thread_count(core_of(host)->host);
}

static void parallel(void *host, int64_t tasks, compute_task task, void *argument) {
  core_of(host)->parallel(core_of(host)->host, tasks, task, argument);
}

static const char *variable(void *host, const char *name) {
  return core_of(host)->variable(core_of(host)->host, name);
}

static compute_status generate(void *host, const compute_target *target,
                               const compute_kernel_descriptor *d, const compute_tuning *tuning,
                               const compute_generated **generated) {
  const compute_services *core = core_of(host);
  char reason[SERVICES_WORDS] = "";
  const compute_status status = core->generate(core->host, target, d, tuning, generated);
  if (!status) return COMPUTE_OK;
  if (core->generates(core->host, target, d, reason, sizeof reason))
    snprintf(reason, sizeof reason, "the generator refuses these parameters");
  return fail(host, status, 0, NULL, "%s", reason);
}

static void generated_release(void *host, const compute_generated *generated) {
  core_of(host)->generated_release(core_of(host)->host, generated);
}

static bool generates(void *host, const compute_target *target, const compute_kernel_descriptor *d,
                      char *reason, size_t reason_bytes) {
  return core_of(host)->generates(core_of(host)->host, target, d, reason, reason_bytes);
}

static const char *dialect_text(void *host, compute_dialect dialect) {
  return core_of(host)->dialect_text(core_of(host)->host, dialect);
}

static compute_tuning_source tuning_lookup(void *host, const compute_target *target,
                                           const compute_kernel_descriptor *d,
                                           compute_tuning *tuning) {
  return core_of(host)->tuning_lookup(core_of(host)->host, target, d, tuning);
}

/* This memory is returned by release, so it is counted like the rest. */
static void *cache_load(void *host, const compute_cache_part *parts, uint32_t part_count,
                        size_t *bytes) {
  watched_services *s = host;
  void *entry = s->core->cache_load(s->core->host, parts, part_count, bytes);
  if (entry) count(&s->live, 1);
  return entry;
}

static void cache_store(void *host, const compute_cache_part *parts, uint32_t part_count,
                        const void *data, size_t bytes) {
  core_of(host)->cache_store(core_of(host)->host, parts, part_count, data, bytes);
}

static bool trusts_environment(void *host, const char *backend) {
  return core_of(host)->trusts_environment(core_of(host)->host, backend);
}

static int32_t best_priority(void *host) {
  return core_of(host)->best_priority(core_of(host)->host);
}

static void load_begin(void *host) {
  core_of(host)->load_begin(core_of(host)->host);
}

static void load_end(void *host) {
  core_of(host)->load_end(core_of(host)->host);
}

void services_watch(watched_services *s, const compute_services *core) {
  *s = (watched_services){.core = core,
                          .services = {.struct_size = sizeof(compute_services),
                                       .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
                                       .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
                                       .host = s,
                                       .allocate = allocate,
                                       .release = release,
                                       .log = write_log,
                                       .fail = fail,
                                       .thread_count = thread_count,
                                       .parallel = parallel,
                                       .variable = variable,
                                       .generate = generate,
                                       .generated_release = generated_release,
                                       .generates = generates,
                                       .dialect_text = dialect_text,
                                       .tuning_lookup = tuning_lookup,
                                       .cache_load = cache_load,
                                       .cache_store = cache_store,
                                       .trusts_environment = trusts_environment,
                                       .fail_index = fail_index,
                                       .best_priority = best_priority,
                                       .load_begin = load_begin,
                                       .load_end = load_end}};
  pthread_mutex_init(&s->mutex, NULL);
  s->index = s->offset = -1;
}
