/* SPDX-License-Identifier: MIT */
/* File errors as messages for the user, in all of compute-fit. */
#ifndef TOOLS_FIT_FAILURE_H
#define TOOLS_FIT_FAILURE_H

#include "compute/status.h"

typedef struct failure {
  compute_status status; /* COMPUTE_OK: no failure */
  char what[768];        /* with the file's name and the place in it; one line, no full stop */
  char remedy[256];      /* a remedy for the user; may be empty */
} failure;

/* Records a failure and returns `status`, so that a function can end in `return failure_set(…)`.
 * The first failure is kept. `why` may be NULL. */
compute_status failure_set(failure *why, compute_status status, const char *remedy,
                           const char *format, ...) COMPUTE_PRINTF(4, 5);

/* As failure_set, for a system call: appends ": " and the system's message for `code` (an
 * errno). */
compute_status failure_set_system(failure *why, int code, const char *remedy, const char *format,
                                  ...) COMPUTE_PRINTF(4, 5);

#endif
