/* SPDX-License-Identifier: MIT */
/* Calls the library in an unusual thread: its stack is small, and its floating-point environment
 * rounds, flushes or traps. */
#ifndef SUPPORT_GUEST_H
#define SUPPORT_GUEST_H

#include <stddef.h>

#include "compute/compute.h"

/* The limit promised by include/compute/device.h: the stack that a call may use in its caller's
 * thread. */
#define GUEST_STACK_BYTES (48 << 10)

typedef compute_status (*guest_call)(void *argument);

/* Number of floating-point environments of guest_run; 0 is the default one. */
size_t guest_environments(void);
const char *guest_environment_name(size_t environment);

typedef struct guest_report {
  compute_status status; /* returned by the call */
  size_t stack_bytes;    /* used by it */
  const char *changed;   /* the changed part of the thread's state, or NULL */
} guest_report;

/* Makes the call on a new thread in the given environment and waits for it. */
guest_report guest_run(size_t environment, guest_call call, void *argument);

/* Returns true if stack_bytes is meaningful: sanitizers make frames larger. */
bool guest_knows_stack(void);

#endif
