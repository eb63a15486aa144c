/* SPDX-License-Identifier: MIT */
/* The process's log. Silent unless compute_log_set or COMPUTE_LOG enables it. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>

#include "compute/status.h"

bool log_enabled(compute_log_level level);
void log_write(compute_log_level level, const char *module, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
void log_write_list(compute_log_level level, const char *module, const char *format, va_list list);

/* For output that a variable requests. Writes to the log, or to standard error if the log's level
 * excludes it. */
void log_write_asked(compute_log_level level, const char *module, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

#endif
