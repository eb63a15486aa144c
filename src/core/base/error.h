/* SPDX-License-Identifier: MIT */
/* Error details: the code that detects a failure reports it, once. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

#include "compute/status.h"

/* Records a detail for the calling thread and for `context` (may be NULL) and returns `status`, so
 * that a failing function can end in `return error_set(…)`. Copies the strings, truncating long
 * ones. The message becomes "<operation>: <text>", so the text does not name the operation itself;
 * it begins in lower case and, if it is one sentence, has no full stop. */
#define error_set(context, status, operation, ...)                                                 \
  error_record((context), (status), 0, (operation), NULL, __FILE__, __LINE__, __VA_ARGS__)

/* The same with a native code and a remedy (may be NULL). */
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

/* COMPUTE_OK, or the error "<name> is NULL" for the first of these variables that is NULL. */
#define error_if_null(context, operation, ...)                                                     \
  error_find_null((context), (operation), __FILE__, __LINE__, #__VA_ARGS__,                        \
                  (const void *const[]){__VA_ARGS__},                                              \
                  sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))

compute_status error_find_null(const compute_context *context, const char *operation,
                               const char *file, int line, const char *names,
                               const void *const *pointers, size_t count);

/* COMPUTE_OK, or the error "<what>.reserved[2] is not zero" for an array of words that must be
 * zero.
 */
#define error_if_reserved(context, operation, what, reserved)                                      \
  error_find_reserved((context), (operation), __FILE__, __LINE__, (what), (reserved),              \
                      sizeof(reserved) / sizeof *(reserved))

compute_status error_find_reserved(const compute_context *context, const char *operation,
                                   const char *file, int line, const char *what,
                                   const uint64_t *reserved, size_t count);

/* For those that record this error in another way: its format, with `what` and the index, and the
 * index of the first word that is not zero; `count` if all are. */
#define ERROR_RESERVED "%s.reserved[%zu] is not zero"
size_t error_reserved(const uint64_t *reserved, size_t count);

/* The operation of an error reported below the public calls, until error_attribute names the call;
 * such a message begins with the device's name instead. */
#define ERROR_BACKEND "backend"

/* Names the operation of the calling thread's last error, if that is ERROR_BACKEND or the wait for
 * a queue that `operation` did. */
void error_attribute(const compute_context *context, const char *operation);

/* The message of `error` without the name of its operation, for a message of the same operation
 * that quotes it. Points into `error`. */
const char *error_text(const compute_error *error);

/* For code that saves an error to report it later: restores a detail as the current one. */
void error_restore(const compute_context *context, const compute_error *error);

/* Frees the errors of a context that is being closed. */
void error_context_closed(const compute_context *context);

#endif
