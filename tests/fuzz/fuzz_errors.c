/* SPDX-License-Identifier: MIT */
/* No input makes the library report its own bug: COMPUTE_ERROR_INTERNAL is a finding in every
 * fuzzer, even if the caller ignores it. The linker redirects the core's errors to this file
 * (--wrap, CMakeLists.txt). */
#include <stdio.h>

#include "core/base/error.h"
#include "fuzz.h"

compute_status __real_error_record_list(const compute_context *context, compute_status status,
                                        int64_t native_code, const char *operation,
                                        const char *remedy, const char *file, int line,
                                        const char *format, va_list list);
compute_status __wrap_error_record_list(const compute_context *context, compute_status status,
                                        int64_t native_code, const char *operation,
                                        const char *remedy, const char *file, int line,
                                        const char *format, va_list list) COMPUTE_PRINTF(8, 0);
compute_status __wrap_error_record(const compute_context *context, compute_status status,
                                   int64_t native_code, const char *operation, const char *remedy,
                                   const char *file, int line, const char *format, ...)
    COMPUTE_PRINTF(8, 9);

compute_status __wrap_error_record_list(const compute_context *context, compute_status status,
                                        int64_t native_code, const char *operation,
                                        const char *remedy, const char *file, int line,
                                        const char *format, va_list list) {
  if (status == COMPUTE_ERROR_INTERNAL) {
    fprintf(stderr, "%s:%d: %s: ", file, line, operation);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
  }
  FUZZ_CHECK(status != COMPUTE_ERROR_INTERNAL);
  return __real_error_record_list(context, status, native_code, operation, remedy, file, line,
                                  format, list);
}

compute_status __wrap_error_record(const compute_context *context, compute_status status,
                                   int64_t native_code, const char *operation, const char *remedy,
                                   const char *file, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  __wrap_error_record_list(context, status, native_code, operation, remedy, file, line, format,
                           list);
  va_end(list);
  return status;
}
