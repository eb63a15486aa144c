/* The services are thin: each hands on to the room that does the work. */
#include "device/services.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/variable.h"

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
  error_record_list(host, status, native_code, "backend", remedy, NULL, 0, format, list);
  va_end(list);
  return status;
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
  };
}
