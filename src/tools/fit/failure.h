/* SPDX-License-Identifier: MIT */
/* What went wrong with a file, in words for the user; used by everything of compute-fit. */
#ifndef TOOLS_FIT_FAILURE_H
#define TOOLS_FIT_FAILURE_H

#include "compute/status.h"

typedef struct failure {
  compute_status status; /* COMPUTE_OK: nothing has */
  char what[768];        /* with the file's name and place; one line, no full stop */
  char remedy[256];      /* what to do about it; may be empty */
} failure;

/* Notes a failure and returns `status`, so that a function can end in `return failure_set(…)`. The
 * first failure that is noted stays. `why` may be NULL. */
compute_status failure_set(failure *why, compute_status status, const char *remedy,
                           const char *format, ...) COMPUTE_PRINTF(4, 5);

/* The same for a call of the system: appends ": " and the system's words for `code` (an errno). */
compute_status failure_set_system(failure *why, int code, const char *remedy, const char *format,
                                  ...) COMPUTE_PRINTF(4, 5);

#endif
