/* SPDX-License-Identifier: MIT */
/* Failures as text. The first failure is kept: it is the cause, and later ones are consequences. */
#include "programs/fit/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Starts a failure. Returns 0 if `why` already has one. */
static int begin(failure *why, compute_status status, const char *remedy) {
  if (!why || why->status) return 0;
  why->status = status;
  snprintf(why->remedy, sizeof why->remedy, "%s", remedy ? remedy : "");
  return 1;
}

compute_status failure_set(failure *why, compute_status status, const char *remedy,
                           const char *format, ...) {
  if (begin(why, status, remedy)) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->what, sizeof why->what, format, list);
    va_end(list);
  }
  return status;
}

compute_status failure_set_system(failure *why, int code, const char *remedy, const char *format,
                                  ...) {
  const compute_status status = code == ENOMEM ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_FILE;
  if (begin(why, status, remedy)) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->what, sizeof why->what, format, list);
    va_end(list);
    size_t used = strlen(why->what);
    snprintf(why->what + used, sizeof why->what - used, ": %s", strerror(code));
  }
  return status;
}
