/* SPDX-License-Identifier: MIT */
/* The profile at a context's opening and closing; compute/profile.h has the public part. */
#ifndef REPORT_PROFILE_H
#define REPORT_PROFILE_H

#include "compute/profile.h"

/* Starts recording if COMPUTE_PROFILE or COMPUTE_TRACE asks for it. A failure is logged, and no
 * error is set. */
void profile_at_open(compute_context *context);

/* Writes the files that COMPUTE_PROFILE and COMPUTE_TRACE name, if they name any. Called while all
 * devices are still open. A failure is logged, and no error is set. */
void profile_at_close(compute_context *context);

#endif
