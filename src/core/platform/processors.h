/* SPDX-License-Identifier: MIT */
/* The processors that the process may use, and a thread's place on them. */
#ifndef PLATFORM_PROCESSORS_H
#define PLATFORM_PROCESSORS_H

#include <stdint.h>

/* The number of processors in the process's affinity mask; at least 1. */
int32_t processors_allowed(void);

/* The processor that runs this thread, or a negative number. */
int32_t processor_now(void);

/* Moves this thread to another allowed processor, if it runs on this one and the system would leave
 * it there for long. */
void processor_leave(int32_t processor);

/* Lets another thread run that waits for this processor. */
void processor_yield(void);

#endif
