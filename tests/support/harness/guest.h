/* SPDX-License-Identifier: MIT */
/* Calls of the library in a process that is not as usual: a thread with a small stack, whose
 * floating-point environment rounds, flushes or traps. */
#ifndef SUPPORT_GUEST_H
#define SUPPORT_GUEST_H

#include <stddef.h>

#include "compute/compute.h"

/* The promise of include/compute/device.h: the stack that a call may take in its caller's thread.
 */
#define GUEST_STACK_BYTES (48 << 10)

typedef compute_status (*guest_call)(void *argument);

/* Number of floating-point environments that guest_run knows; 0 is the default one. */
size_t guest_environments(void);
const char *guest_environment_name(size_t environment);

typedef struct guest_report {
  compute_status status; /* of the call */
  size_t stack_bytes;    /* used by it */
  const char *changed;   /* part of the thread's state that it changed, or NULL */
} guest_report;

/* Makes the call on a new thread in the given environment, and waits for it. */
guest_report guest_run(size_t environment, guest_call call, void *argument);

/* Whether stack_bytes means something: sanitizers make frames larger. */
bool guest_knows_stack(void);

#endif
