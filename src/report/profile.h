/* SPDX-License-Identifier: MIT */
/* The profile when a context opens and closes. The public part is in compute/profile.h. */
#ifndef REPORT_PROFILE_H
#define REPORT_PROFILE_H

#include "compute/profile.h"

/* Starts recording if COMPUTE_PROFILE or COMPUTE_TRACE is set. Logs a failure, and sets no
 * error. */
void profile_at_open(compute_context *context);

/* Writes the files that COMPUTE_PROFILE and COMPUTE_TRACE name. Call this while all devices are
 * open. Logs a failure, and sets no error. */
void profile_at_close(compute_context *context);

#endif
