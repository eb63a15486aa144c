/* SPDX-License-Identifier: MIT */
/* Implements compute_services for modules. Each service is a thin wrapper of the room that does the
 * work. */
#include "context/services.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codegen/cache/disk_cache.h"
#include "codegen/generate/generate.h"
#include "codegen/tune/tuning.h"
#include "core/base/alloc.h"
#include "core/base/dump.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/device/index_fault.h"
#include "core/device/registry.h"
#include "core/kernel/kernel.h"

static void *service_allocate(void *host, size_t bytes, size_t alignment) {
  (void)host;
  if (alignment <= _Alignof(max_align_t)) return base_allocate(bytes, 1);
  void *pointer = base_allocate_aligned(bytes, alignment);
  if (pointer) memset(pointer, 0, bytes);
  return pointer;
}

static void service_release(void *host, void *pointer) {
  (void)host;
  base_release(pointer);
}

static void service_log(void *host, compute_log_level level, const char *module, const char *format,
                        ...) {
  (void)host;
  va_list list;
  va_start(list, format);
  log_write_list(level, module, format, list);
  va_end(list);
}

static compute_status service_fail(void *host, compute_status status, int64_t native_code,
                                   const char *remedy, const char *format, ...) {
  va_list list;
  va_start(list, format);
  error_record_list(host, status, native_code, ERROR_BACKEND, remedy, NULL, 0, format, list);
  va_end(list);
  index_fault_forget();
  return status;
}

static compute_status service_fail_index(void *host, uint32_t label, int64_t index,
                                         int64_t offset) {
  return index_fault_record(host, label, index, offset);
}

static int32_t service_thread_count(void *host) {
  const compute_context *context = host;
  return thread_pool_count(context->threads);
}

static void service_parallel(void *host, int64_t tasks, compute_task task, void *argument) {
  const compute_context *context = host;
  thread_pool_run(context->threads, tasks, task, argument);
}

static const char *service_variable(void *host, const char *name) {
  (void)host;
  return variable_text(name);
}

/* Named by its text, since kernels share sources. */
static void dump_source(const compute_context *context, const compute_target *target,
                        const compute_kernel_descriptor *descriptor,
                        const compute_generated *generated) {
  static const char *const ends[] = {
      [COMPUTE_DIALECT_OPENCL] = "cl", [COMPUTE_DIALECT_CUDA] = "cu", [COMPUTE_DIALECT_C] = "c"};
  dump_folder *folder = slot_get(&context->slots, &dump_slot);
  if (!folder || !generated->source) return;
  char name[96];
  snprintf(name, sizeof name, "kernel-%s-%016" PRIx64 ".%s", kernel_kind_name(descriptor->kind),
           hash_bytes(HASH_SEED, generated->source, generated->source_bytes),
           ends[target->dialect]);
  dump_file(folder, name, generated->source, generated->source_bytes, true);
}

static compute_status service_generate(void *host, const compute_target *target,
                                       const compute_kernel_descriptor *descriptor,
                                       const compute_tuning *tuning,
                                       const compute_generated **generated) {
  char reason[256] = "";
  compute_status status =
      generate_kernel(target, descriptor, tuning, generated, reason, sizeof reason);
  if (status == COMPUTE_OK) dump_source(host, target, descriptor, *generated);
  if (status == COMPUTE_OK) return COMPUTE_OK;
  return error_set(host, status, ERROR_BACKEND, "%s",
                   reason[0] ? reason : compute_status_text(status));
}

static void service_generated_release(void *host, const compute_generated *generated) {
  (void)host;
  generate_release(generated);
}

static bool service_generates(void *host, const compute_target *target,
                              const compute_kernel_descriptor *descriptor, char *reason,
                              size_t reason_bytes) {
  (void)host;
  return generate_supports(target, descriptor, reason, reason_bytes);
}

static const char *service_dialect_text(void *host, compute_dialect dialect) {
  (void)host;
  return generate_dialect(dialect);
}

static compute_tuning_source service_tuning_lookup(void *host, const compute_target *target,
                                                   const compute_kernel_descriptor *descriptor,
                                                   compute_tuning *tuning) {
  const compute_context *context = host;
  return tuning_lookup(tuning_of(context), target, descriptor, tuning);
}

static void *service_cache_load(void *host, const compute_cache_part *parts, uint32_t count,
                                size_t *bytes) {
  const compute_context *context = host;
  return disk_cache_load(slot_get(&context->slots, &disk_cache_slot), parts, count, bytes);
}

static void service_cache_store(void *host, const compute_cache_part *parts, uint32_t count,
                                const void *data, size_t bytes) {
  const compute_context *context = host;
  disk_cache_store(slot_get(&context->slots, &disk_cache_slot), parts, count, data, bytes);
}

static bool service_trusts_environment(void *host, const char *backend) {
  return module_trusts_environment(host, backend);
}

static int32_t service_best_priority(void *host) {
  return registry_best_priority(host);
}

static void service_load_begin(void *host) {
  (void)host;
  process_load_begin();
}

static void service_load_end(void *host) {
  (void)host;
  process_load_end();
}

void services_fill(compute_context *context) {
  context->services = (compute_services){
      .struct_size = sizeof(compute_services),
      .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
      .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
      .host = context,
      .allocate = service_allocate,
      .release = service_release,
      .log = service_log,
      .fail = service_fail,
      .thread_count = service_thread_count,
      .parallel = service_parallel,
      .variable = service_variable,
      .generate = service_generate,
      .generated_release = service_generated_release,
      .generates = service_generates,
      .dialect_text = service_dialect_text,
      .tuning_lookup = service_tuning_lookup,
      .cache_load = service_cache_load,
      .cache_store = service_cache_store,
      .trusts_environment = service_trusts_environment,
      .fail_index = service_fail_index,
      .best_priority = service_best_priority,
      .load_begin = service_load_begin,
      .load_end = service_load_end,
  };
}
