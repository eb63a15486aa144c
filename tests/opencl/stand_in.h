/* SPDX-License-Identifier: MIT */
/* Services for the OpenCL module without a core: a generator whose source a test can break, a cache
 * in memory, and counts of the module's messages. */
#ifndef OPENCL_STAND_IN_H
#define OPENCL_STAND_IN_H

#include <stdlib.h>
#include <string.h>

#include "compute/backend.h"
#include "core/base/variable.h"
#include "core/platform/aligned.h"

enum { ITEMS = 1000, CACHE_ENTRIES = 8 };

/* Selects the source of the stand-in generator. */
typedef struct scene {
  bool tuned_broken, usual_broken, plain_broken; /* does not compile */
  bool usual_too_large;                          /* groups too large for any driver */
  bool two_launches, sets_fault, empty;
} scene;

static scene now;
static const char *cache_folder; /* the module's value of POCL_CACHE_DIR */
static char last_message[600];
static int failures, warnings;

static struct {
  char key[256];
  size_t key_bytes;
  char data[1];
} stored[CACHE_ENTRIES];
static int stored_count;

static void *stand_in_allocate(void *host, size_t bytes, size_t alignment) {
  (void)host;
  void *pointer = aligned_take(alignment, (bytes / alignment + 1) * alignment);
  return pointer ? memset(pointer, 0, bytes) : NULL;
}

static void stand_in_release(void *host, void *pointer) {
  (void)host;
  aligned_give(pointer);
}

static void stand_in_log(void *host, compute_log_level level, const char *module,
                         const char *format, ...) {
  (void)host;
  (void)module;
  (void)format;
  warnings += level == COMPUTE_LOG_WARNING;
}

static compute_status stand_in_fail(void *host, compute_status status, int64_t native_code,
                                    const char *remedy, const char *format, ...) {
  (void)host;
  (void)native_code;
  (void)remedy;
  va_list list;
  va_start(list, format);
  vsnprintf(last_message, sizeof last_message, format, list);
  va_end(list);
  failures++;
  return status;
}

static int32_t stand_in_thread_count(void *host) {
  (void)host;
  return 1;
}

static void stand_in_parallel(void *host, int64_t tasks, compute_task task, void *argument) {
  (void)host;
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

static const char *stand_in_variable(void *host, const char *name) {
  (void)host;
  if (cache_folder && strcmp(name, "POCL_CACHE_DIR") == 0) return cache_folder;
  return variable_text(name);
}

/* y = 2x, or in two launches through scratch memory. */
typedef struct shape {
  int64_t offset[3];
  uint32_t count, unused;
} shape;

typedef struct written {
  compute_generated generated;
  char source[2048];
  compute_generated_buffer buffers[2][3];
  shape shapes[2];
} written;

static void write_launch(written *made, const char *entry, uint32_t group, uint32_t from,
                         uint32_t to, uint32_t extra) {
  const uint32_t index = made->generated.launch_count++;
  compute_generated_launch *launch = &made->generated.launches[index];
  compute_generated_buffer *buffers = made->buffers[index];
  buffers[0] = (compute_generated_buffer){from, 4};
  buffers[1] = (compute_generated_buffer){to, 4};
  buffers[2] = (compute_generated_buffer){extra, 4};
  made->shapes[index].count = ITEMS;
  *launch = (compute_generated_launch){.entry = entry,
                                       .group = {group, 1, 1},
                                       .groups = {(ITEMS + group - 1) / group, 1, 1},
                                       .buffer_count = 3,
                                       .buffers = buffers,
                                       .shape = &made->shapes[index],
                                       .shape_bytes = sizeof(shape)};
}

static compute_status stand_in_generate(void *host, const compute_target *target,
                                        const compute_kernel_descriptor *descriptor,
                                        const compute_tuning *tuning,
                                        const compute_generated **generated) {
  (void)host;
  (void)descriptor;
  written *made = calloc(1, sizeof *made);
  if (!made) return COMPUTE_ERROR_OUT_OF_MEMORY;
  const bool plain = target->group_limit <= 64;
  const bool broken = tuning ? now.tuned_broken : plain ? now.plain_broken : now.usual_broken;
  const uint32_t group = !tuning && !plain && now.usual_too_large ? 1 << 20
                         : target->group_limit < 128              ? target->group_limit
                                                                  : 128;
  snprintf(made->source, sizeof made->source,
           "typedef struct { long offset[3]; uint count, unused; } shape;\n"
           "#define BODY(factor) uint i = get_global_id(0);\\\n"
           "  if (i < s.count) to[s.offset[1] + i] = factor * from[s.offset[0] + i];\n"
           "%s"
           "__kernel __attribute__((reqd_work_group_size(%u, 1, 1))) void first(\n"
           "  __global const float *from, __global float *to, __global int *extra, shape s)\n"
           "{ BODY(%d) if (%d && i == 0) extra[0] = 1; }\n"
           "__kernel __attribute__((reqd_work_group_size(%u, 1, 1))) void second(\n"
           "  __global const float *from, __global float *to, __global int *extra, shape s)\n"
           "{ BODY(2) }\n",
           broken ? "is_wrong here;\n" : "", group, now.two_launches ? 1 : 2, now.sets_fault,
           group);
  made->generated.struct_size = sizeof made->generated;
  made->generated.source = made->source;
  made->generated.source_bytes = strlen(made->source);
  made->generated.faults = true;
  made->generated.workspace_bytes = now.two_launches ? 4 * ITEMS : 0;
  snprintf(made->generated.text, sizeof made->generated.text, "groups of %u%s", group,
           tuning ? ", tuned" : "");
  if (!now.empty)
    write_launch(made, "first", group, 0, now.two_launches ? COMPUTE_GENERATED_WORKSPACE : 1,
                 COMPUTE_GENERATED_FAULT);
  if (now.two_launches)
    write_launch(made, "second", group, COMPUTE_GENERATED_WORKSPACE, 1, COMPUTE_GENERATED_FAULT);
  *generated = &made->generated;
  return COMPUTE_OK;
}

static void stand_in_generated_release(void *host, const compute_generated *generated) {
  (void)host;
  free((void *)(uintptr_t)generated);
}

static bool stand_in_generates(void *host, const compute_target *target,
                               const compute_kernel_descriptor *descriptor, char *reason,
                               size_t reason_bytes) {
  (void)host;
  (void)target;
  (void)descriptor;
  (void)reason;
  (void)reason_bytes;
  return true;
}

static compute_tuning_source stand_in_lookup(void *host, const compute_target *target,
                                             const compute_kernel_descriptor *descriptor,
                                             compute_tuning *tuning) {
  (void)host;
  (void)target;
  (void)descriptor;
  tuning->vector = 4;
  return COMPUTE_TUNING_FILE;
}

/* Keys are sums of the parts' bytes, which suffices for a few programs. */
static size_t write_key(const compute_cache_part *parts, uint32_t count, char *key) {
  size_t used = 0;
  for (uint32_t i = 0; i < count && used + 24 < 256; i++) {
    uint64_t sum = parts[i].bytes;
    for (size_t k = 0; k < parts[i].bytes; k++)
      sum = sum * 31 + ((const unsigned char *)parts[i].data)[k];
    used += (size_t)snprintf(key + used, 256 - used, "%llx.", (unsigned long long)sum);
  }
  return used;
}

static void *stand_in_load(void *host, const compute_cache_part *parts, uint32_t count,
                           size_t *bytes) {
  char key[256];
  const size_t key_bytes = write_key(parts, count, key);
  for (int i = 0; i < stored_count; i++) {
    if (stored[i].key_bytes != key_bytes || memcmp(stored[i].key, key, key_bytes) != 0) continue;
    *bytes = 1;
    return stand_in_allocate(host, 1, 16);
  }
  return NULL;
}

static void stand_in_store(void *host, const compute_cache_part *parts, uint32_t count,
                           const void *data, size_t bytes) {
  (void)host;
  (void)data;
  (void)bytes;
  if (stored_count == CACHE_ENTRIES) return;
  stored[stored_count].key_bytes = write_key(parts, count, stored[stored_count].key);
  stored_count++;
}

static compute_services services = {
    .struct_size = sizeof services,
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .allocate = stand_in_allocate,
    .release = stand_in_release,
    .log = stand_in_log,
    .fail = stand_in_fail,
    .thread_count = stand_in_thread_count,
    .parallel = stand_in_parallel,
    .variable = stand_in_variable,
    .generate = stand_in_generate,
    .generated_release = stand_in_generated_release,
    .generates = stand_in_generates,
    .tuning_lookup = stand_in_lookup,
    .cache_load = stand_in_load,
    .cache_store = stand_in_store,
};

#endif
