/* SPDX-License-Identifier: MIT */
/* Error details. The code that detects a failure records it once. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

#include "compute/status.h"

/* Records an error detail for the calling thread and for `context` (may be NULL). Returns `status`,
 * so that a function can end in `return error_set(…)`. Copies the strings, and truncates long ones.
 * The message becomes "<operation>: <text>", so the text must not name the operation. The text
 * begins in lower case; a single sentence has no full stop. */
#define error_set(context, status, operation, ...)                                                 \
  error_record((context), (status), 0, (operation), NULL, __FILE__, __LINE__, __VA_ARGS__)

/* error_set with a native code and a remedy (may be NULL). */
#define error_set_native(context, status, native, operation, remedy, ...)                          \
  error_record((context), (status), (native), (operation), (remedy), __FILE__, __LINE__,           \
               __VA_ARGS__)

compute_status error_record(const compute_context *context, compute_status status,
                            int64_t native_code, const char *operation, const char *remedy,
                            const char *file, int line, const char *format, ...)
    COMPUTE_PRINTF(8, 9);
compute_status error_record_list(const compute_context *context, compute_status status,
                                 int64_t native_code, const char *operation, const char *remedy,
                                 const char *file, int line, const char *format, va_list list);

/* Returns COMPUTE_OK, or the error "<name> is NULL" for the first NULL variable. */
#define error_if_null(context, operation, ...)                                                     \
  error_find_null((context), (operation), __FILE__, __LINE__, #__VA_ARGS__,                        \
                  (const void *const[]){__VA_ARGS__},                                              \
                  sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))

compute_status error_find_null(const compute_context *context, const char *operation,
                               const char *file, int line, const char *names,
                               const void *const *pointers, size_t count);

/* Returns COMPUTE_OK, or the error "<what>.reserved[2] is not zero" for an array that must be
 * zero. */
#define error_if_reserved(context, operation, what, reserved)                                      \
  error_find_reserved((context), (operation), __FILE__, __LINE__, (what), (reserved),              \
                      sizeof(reserved) / sizeof *(reserved))

compute_status error_find_reserved(const compute_context *context, const char *operation,
                                   const char *file, int line, const char *what,
                                   const uint64_t *reserved, size_t count);

/* For code that records this error differently: the format (for a name and an index), and the index
 * of the first nonzero word, or `count` if all are zero. */
#define ERROR_RESERVED "%s.reserved[%zu] is not zero"
size_t error_reserved(const uint64_t *reserved, size_t count);

/* The operation of an error below the public calls, until error_attribute sets the public call.
 * Such a message begins with the device's name. */
#define ERROR_BACKEND "backend"

/* Sets the operation of the calling thread's last error, if it is ERROR_BACKEND or a queue wait
 * inside `operation`. */
void error_attribute(const compute_context *context, const char *operation);

/* The message of `error` without its operation, for quoting in another message of the same
 * operation. Points into `error`. */
const char *error_text(const compute_error *error);

/* Makes a saved error the current one, for code that reports errors later. */
void error_restore(const compute_context *context, const compute_error *error);

/* Frees the errors of a closing context. */
void error_context_closed(const compute_context *context);

#endif
